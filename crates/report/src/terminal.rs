//! Makes foreign text safe for a terminal: answers of servers, output of compilers and programs,
//! names in archives.
//!
//! A terminal obeys the bytes it is shown: they can clear the screen, set the title, or write to
//! the clipboard (OSC 52). So every text that is not dyno's own goes through
//! [`escape_controls`] before it is printed; dyno's colours are added after it.

use std::borrow::Cow;
use std::fmt;

/// The text with control characters made visible: C0 and DEL as their pictures (`␛`), C1 as
/// `\u{9b}`, and so characters that turn the direction of text or are invisible. Line feeds and
/// tabs stay; a carriage return before a line feed is dropped. So are SGR sequences, which only
/// colour: compilers write them everywhere.
#[must_use]
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(len) = colour_sequence(rest) {
            rest = &rest[len..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '\r' if rest.starts_with('\n') => {}
            c if is_harmful(c) => out.push_str(&picture(c)),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// [`escape_controls`], with its colours: for text of dyno's own that may quote what has not been
/// through [`escape_controls`], such as a path.
#[must_use]
pub fn escape_foreign(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        out.push_str(&escape_controls(&rest[..at]));
        // One that is no colour is shown with what follows it.
        let length = colour_sequence(&rest[at..]).unwrap_or(0);
        out.push_str(&rest[at..at + length]);
        rest = &rest[at + length..];
        if length == 0 {
            out.push_str(&picture('\x1b'));
            rest = &rest[1..];
        }
    }
    out.push_str(&escape_controls(rest));
    Cow::Owned(out)
}

/// [`escape_controls`] on one line: line feeds and tabs become spaces.
#[must_use]
pub fn line(text: &str) -> String {
    escape_controls(text).replace(['\n', '\t'], " ")
}

/// [`escape_controls`] for a value that may quote foreign text, such as an error with its causes.
#[must_use]
pub fn display(of: impl fmt::Display) -> String {
    escape_controls(&of.to_string()).into_owned()
}

fn is_harmful(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // Directions: embeddings, overrides, isolates and marks. U+2028 and U+2029 end lines in
        // some programs.
        '\u{061c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => true,
        // Tag characters, which are invisible.
        '\u{e0000}'..='\u{e007f}' => true,
        c => c.is_control(),
    }
}

fn picture(c: char) -> String {
    match u32::from(c) {
        // U+2400 to U+241F are the pictures of U+0000 to U+001F.
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}').to_string(),
        0x7f => "\u{2421}".into(),
        code => format!("\\u{{{code:x}}}"),
    }
}

/// The length in bytes of an SGR sequence at the beginning of a text: `ESC [`, digits, `;` and `:`,
/// then `m`.
fn colour_sequence(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\x1b[")?;
    let end = parameters.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == ':'))?;
    parameters[end..].starts_with('m').then_some(2 + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_seen_instead() {
        for (written, seen) in [
            ("plain ü → 日本", "plain ü → 日本"),
            ("a\tb\nc\r\nd", "a\tb\nc\nd"),
            ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
            ("\x1b[2J\x1b[H", "␛[2J␛[H"),
            ("\x1b[1;31merror\x1b[0m: x", "error: x"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("over\rwrite\x08\x7f\0", "over␍write␈␡␀"),
            ("a\u{202e}b\u{2066}c", "a\\u{202e}b\\u{2066}c"),
            ("\x1b", "␛"),
            ("\x1b[", "␛["),
            ("\x1b[38;5", "␛[38;5"),
        ] {
            assert_eq!(escape_controls(written), seen, "{written:?}");
        }
        assert_eq!(line("a\nb\x1b"), "a b␛");
    }

    #[test]
    fn colours_stay_and_everything_else_is_seen() {
        for (written, seen) in [
            ("\x1b[1;31merror\x1b[0m: x", "\x1b[1;31merror\x1b[0m: x"),
            ("\x1b]0;pwn\x07 \x1b[2J\x1b[1mb", "␛]0;pwn␇ ␛[2J\x1b[1mb"),
            ("\x1b\x1b[0m[2J", "␛\x1b[0m[2J"),
            ("\u{9b}31m\r\n\x1b", "\\u{9b}31m\n␛"),
            ("runs/ü \t→", "runs/ü \t→"),
        ] {
            assert_eq!(escape_foreign(written), seen, "{written:?}");
        }
    }

    #[test]
    fn nothing_that_comes_out_is_obeyed() {
        // Dropping one sequence must not join the text around it into another one.
        let written = "\x1b\x1b[0m[2J\x1b[\x1b[1m31m";
        assert_eq!(escape_controls(written), "␛[2J␛[31m");
        assert!(!escape_controls(written).chars().any(is_harmful));
    }
}
