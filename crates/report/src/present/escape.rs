//! Escapes text for Markdown. Text for a terminal is escaped by [`terminal`], and that of pages and
//! XML by maud.

use crate::terminal;

/// Escapes a text so that Markdown shows it unchanged on one line, without markup, HTML, links,
/// mentions, code or tables.
pub(crate) fn markdown(text: &str) -> String {
    let text = terminal::escape_line(text);
    let mut out = String::with_capacity(text.len() + 8);
    for (i, c) in text.char_indices() {
        let is_special = match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '$' | '@' => true,
            // An HTML entity, and the scheme of a bare link.
            '&' => text[i + 1..].starts_with(|c: char| c == '#' || c.is_ascii_alphabetic()),
            ':' => text[i + 1..].starts_with("//"),
            '.' | ')' if is_list(&text[..i], &text[i + 1..]) => true,
            '.' => i >= 3 && text.as_bytes()[i - 3..i].eq_ignore_ascii_case(b"www"),
            // A link to an issue or to a request to merge.
            '#' | '!' if text[i + 1..].starts_with(|c: char| c.is_ascii_digit()) => true,
            // A heading, a list or a rule, at the beginning of the line.
            '#' | '+' | '-' | '=' => text[..i].trim().is_empty(),
            _ => false,
        };
        if is_special {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Whether a `.` or `)` between these texts would begin a numbered list.
fn is_list(before: &str, after: &str) -> bool {
    let is_number = !before.trim().is_empty() && before.trim().chars().all(|c| c.is_ascii_digit());
    is_number && (after.is_empty() || after.starts_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_keeps_text_literal() {
        for (text, escaped) in [
            ("Fast <1> & co", "Fast \\<1\\> & co"),
            ("<img src=x onerror=alert(1)>", "\\<img src=x onerror=alert(1)\\>"),
            (
                "[click](javascript:x) ![i](http://x)",
                "\\[click\\](javascript:x) !\\[i\\](http\\://x)",
            ),
            ("a|b\nc `d` *e* _f_ ~~g~~", "a\\|b c \\`d\\` \\*e\\* \\_f\\_ \\~\\~g\\~\\~"),
            ("&lt; &#60; a&b", "\\&lt; \\&\\#60; a\\&b"),
            ("fix #12, a/b#3 and !4", "fix \\#12, a/b\\#3 and \\!4"),
            ("C# and #a!", "C# and #a!"),
            ("# x", "\\# x"),
            ("- x", "\\- x"),
            ("1. x", "1\\. x"),
            ("3.09 ms", "3.09 ms"),
            ("www.x.org and @me", "www\\.x.org and \\@me"),
            ("a\\|b", "a\\\\\\|b"),
            ("\u{1b}[2J", "␛\\[2J"),
            ("p99 1.20 s, 5-6", "p99 1.20 s, 5-6"),
        ] {
            assert_eq!(markdown(text), escaped);
        }
    }
}
