//! Quotes parts of an input in error messages: with a maximum length, and without values that may
//! be secret.
//!
//! Errors appear on terminals and in logs of CI, which other people read. A value may be secret
//! because of its name (`Authorization: …`, `password=…`, `"token": "…"`), or because of its form:
//! a user and a password in a URL, a scheme with its credentials, or a token of a known service.

use std::ops::Range;

use crate::secret::{
    end_of_authority, is_credential, is_scheme, is_secret_field, is_secret_parameter, is_token,
    may_be_secret_header,
};

/// Maximum length of a quotation, in characters.
pub const MAX_CHARS: usize = 160;

/// Replaces a secret, or the rest of a long text.
pub const MARK: &str = "…";

/// Returns a part of an input in quotes, with escaped control characters, without secrets, and with
/// at most [`MAX_CHARS`] characters of the input.
#[must_use]
pub fn quote(text: &str) -> String {
    format!("{:?}", plain(text))
}

/// Does the same as [`quote`], without the quotes and escapes.
#[must_use]
pub fn plain(text: &str) -> String {
    let text = without_secrets(text);
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}{MARK}", &text[..end]),
        None => text,
    }
}

/// Quotes a header line, `Name: value`. The value is shown only if neither its name nor its form
/// suggests a secret. The text after the first word of a line without a colon is not shown.
#[must_use]
pub fn quote_header(line: &str) -> String {
    // A pseudo-header field begins with a colon.
    let end = line.char_indices().skip(1).find(|(_, c)| [':', ' ', '\t', '='].contains(c));
    let Some((end, mark)) = end else { return quote(line) };
    let (name, value) = (&line[..end], &line[end + 1..]);
    let is_harmless =
        mark == ':' && !may_be_secret_header(name) && !crate::secret::holds_secret(value);
    if is_harmless { quote(line) } else { quote(&format!("{name}{mark}{MARK}")) }
}

/// Quotes the value of a field. A value whose name suggests a secret is not shown.
#[must_use]
pub fn quote_value(name: &str, value: &str) -> String {
    let is_secret = may_be_secret_header(name) || is_secret_parameter(name);
    if is_secret { format!("{MARK:?}") } else { quote(value) }
}

/// Quotes a value that is inserted into a text, such as the value of a placeholder. The value is
/// not shown if the text has a secret, because the value may be a part of that secret.
#[must_use]
pub fn quote_in(text: &str, value: &str) -> String {
    if secret_ranges(text).is_empty() { quote(value) } else { format!("{MARK:?}") }
}

/// Returns a text with each secret replaced by [`MARK`].
#[must_use]
pub fn without_secrets(text: &str) -> String {
    mask(text, &secret_ranges(text))
}

/// Returns the message of serde without the value that it found: `invalid type: string "x",
/// expected u32` becomes `invalid type: string, expected u32`. Also removes the value from `unknown
/// variant` and its reworded form, `unknown value`. The name of an unknown field remains.
#[must_use]
pub fn without_found_value(message: &str) -> String {
    for (kind, text_after_value) in
        [("unknown variant", "`, expected "), ("unknown variant", "`, "), ("unknown value", "`\n")]
    {
        // The value may contain the same text, so the last occurrence ends the value.
        let found = message.strip_prefix(kind).filter(|found| found.starts_with(" `"));
        if let Some(value_end) = found.and_then(|found| found.rfind(text_after_value)) {
            return format!("{kind}{}", &message[kind.len() + value_end + 1..]);
        }
    }
    let has_value = ["invalid type: ", "invalid value: "].iter().any(|s| message.starts_with(s));
    let Some((found, expected)) = message.rsplit_once(", expected ").filter(|_| has_value) else {
        return message.into();
    };
    let kind = found.split([' ']).take_while(|word| !word.starts_with(['"', '`']));
    format!("{}, expected {expected}", kind.collect::<Vec<_>>().join(" "))
}

/// A line of a source, without the secrets of the source, and a range of the line's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuotedLine {
    pub text: String,
    /// The range of the same bytes in `text`. If the range begins or ends within a secret, it
    /// includes the whole mark.
    pub range: Range<usize>,
}

/// Quotes a line of a source. `secrets`: the [`secret_ranges`] of the source. `line`: the range of
/// the line's bytes in the source. `range`: a part of `line`.
pub(crate) fn quote_line(
    source: &str,
    secrets: &[Range<usize>],
    line: &Range<usize>,
    range: &Range<usize>,
) -> QuotedLine {
    let in_line: Vec<Range<usize>> = secrets
        .iter()
        .map(|secret| secret.start.max(line.start)..secret.end.min(line.end))
        .filter(|secret| !secret.is_empty())
        .map(|secret| secret.start - line.start..secret.end - line.start)
        .collect();
    // Converts a position in the source to a position in the masked line. A position within a
    // secret becomes the beginning or the end of the mark.
    let masked_position = |position: usize, is_end: bool| {
        let position = position - line.start;
        let secrets_before = in_line.iter().filter(|secret| secret.end <= position);
        let removed: usize = secrets_before.clone().map(ExactSizeIterator::len).sum();
        let masked = position + MARK.len() * secrets_before.count() - removed;
        match in_line.iter().find(|secret| secret.start < position && position < secret.end) {
            Some(secret) => {
                let mark_start = masked - (position - secret.start);
                if is_end { mark_start + MARK.len() } else { mark_start }
            }
            None => masked,
        }
    };
    QuotedLine {
        text: mask(&source[line.clone()], &in_line),
        range: masked_position(range.start, false)..masked_position(range.end, true),
    }
}

fn mask(text: &str, ranges: &[Range<usize>]) -> String {
    let (mut masked, mut end) = (String::new(), 0);
    for range in ranges {
        masked.push_str(&text[end..range.start]);
        masked.push_str(MARK);
        end = range.end;
    }
    masked + &text[end..]
}

/// Returns the ranges of a text's bytes that may be secret. The ranges are in order, are not empty,
/// and do not overlap.
#[must_use]
pub fn secret_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = named_values(text);
    ranges.extend(passwords(text));
    ranges.extend(credentials(text));
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Returns the values whose names suggest a secret.
fn named_values(text: &str) -> Vec<Range<usize>> {
    let separators = text.match_indices([':', '=']);
    let is_scheme_end = |at: usize| text[at..].starts_with("://");
    separators
        .filter(|(at, _)| !is_scheme_end(*at))
        .filter_map(|(at, _)| {
            let name = ValueName::before(text, at)?;
            name.is_secret().then(|| name.value_range(text, at + 1))
        })
        // A switch such as `cookies = true` is no secret.
        .filter(|range| !matches!(text[range.clone()].trim(), "true" | "false"))
        .collect()
}

/// The name before a colon or an equals sign.
struct ValueName<'a> {
    name: &'a str,
    /// Whether the name is in quotes, as in JSON.
    is_quoted: bool,
    /// The character before the name, or before the quote of the name.
    previous: Option<char>,
}

impl<'a> ValueName<'a> {
    /// `None`: there is no name before this position.
    fn before(text: &'a str, at: usize) -> Option<ValueName<'a>> {
        let before = text[..at].trim_end_matches([' ', '\t']);
        let unquoted = before.trim_end_matches(['"', '\'']);
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.%[]".contains(c);
        let rest = unquoted.trim_end_matches(is_part);
        let name = &unquoted[rest.len()..];
        let is_quoted = unquoted.len() < before.len();
        let previous = rest.chars().next_back();
        (!name.is_empty()).then_some(ValueName { name, is_quoted, previous })
    }

    /// Whether the name and its value are a parameter of a URL or a form.
    fn is_parameter(&self) -> bool {
        self.previous.is_some_and(|c| "?&;".contains(c))
    }

    fn is_secret(&self) -> bool {
        // Keys in TOML have dots.
        let last = self.name.rsplit('.').next().unwrap_or_default();
        [self.name, last].iter().any(|name| may_be_secret_header(name) || is_secret_field(name))
            || self.is_parameter() && is_secret_parameter(self.name)
    }

    /// Returns the range of the value, which begins at this position, without its quotes.
    fn value_range(&self, text: &str, after: usize) -> Range<usize> {
        let rest = text[after..].trim_start_matches([' ', '\t']);
        let start = text.len() - rest.len();
        if let Some(inside) = quotation(rest) {
            return start + inside.start..start + inside.end;
        }
        if let Some(length) = end_of_brackets(rest) {
            return start..start + length;
        }
        let line = first_line(rest);
        let is_end = |c: char| match self.previous {
            _ if self.is_parameter() => c.is_whitespace() || "&;#\"'`".contains(c),
            // A list or an object that is not closed may have further values.
            _ if self.is_quoted => !rest.starts_with(['[', '{']) && ",}]".contains(c),
            // A word of a shell, such as 'Authorization: x'.
            Some(quote @ ('"' | '\'')) => c == quote,
            _ => false,
        };
        start..start + line.find(is_end).unwrap_or(line.len())
    }
}

fn first_line(text: &str) -> &str {
    text.split(['\n', '\r']).next().unwrap_or_default()
}

/// Returns the range inside the quotes of the string at the beginning of a text. A string that is
/// not closed ends with its line, or with the text if it may have several lines. `None`: there is
/// no string.
fn quotation(text: &str) -> Option<Range<usize>> {
    for mark in ["\"\"\"", "'''"] {
        if let Some(inside) = text.strip_prefix(mark) {
            return Some(mark.len()..mark.len() + inside.find(mark).unwrap_or(inside.len()));
        }
    }
    let line = first_line(text);
    let quote = line.chars().next().filter(|c| ['"', '\''].contains(c))?;
    Some(1..1 + end_of_quotation(&line[1..], quote))
}

/// Returns the length of the text before the closing quote, or of the whole text.
fn end_of_quotation(inside: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in inside.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if quote == '"' => is_escaped = true,
            c if c == quote => return at,
            _ => {}
        }
    }
    inside.len()
}

/// Returns the length of a list or an object at the beginning of a text. Brackets in strings do not
/// count. `None`: the text begins with neither, or no bracket closes it.
fn end_of_brackets(text: &str) -> Option<usize> {
    if !text.starts_with(['[', '{']) {
        return None;
    }
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(c) = text[at..].chars().next() {
        if let Some(inside) = quotation(&text[at..]) {
            // The opening mark is as long as the closing mark, which may be missing.
            at = (at + inside.end + inside.start).min(text.len());
            continue;
        }
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            _ => {}
        }
        at += c.len_utf8();
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Returns the words of a text with their positions.
fn words(text: &str, is_end: impl Fn(char) -> bool) -> Vec<(usize, &str)> {
    let mut next = 0;
    let pieces = text.split_inclusive(&is_end).map(|piece| {
        let at = next;
        next += piece.len();
        (at, piece.trim_end_matches(&is_end))
    });
    pieces.filter(|(_, word)| !word.is_empty()).collect()
}

/// Returns users and passwords before the `@` of a URL.
fn passwords(text: &str) -> Vec<Range<usize>> {
    let is_end = |c: char| c.is_whitespace() || "\"'<>`".contains(c);
    let range = |(at, word): (usize, &str)| {
        let start = word.find("://").map_or(0, |at| at + 3);
        let has_scheme = start > 0;
        let after = &word[start..];
        let authority = &after[..end_of_authority(after)];
        let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
        let is_host = authority.rsplit_once(':').is_none_or(|(_, port)| is_port(port));
        let end = match authority.rfind('@') {
            Some(end) if has_scheme || authority[..end].contains(':') => end,
            // A slash in a password seems to end the authority, so the `@` may be after that end.
            None if !(has_scheme && is_host) => {
                after.rfind('@').filter(|end| after[..*end].contains(':'))?
            }
            _ => return None,
        };
        Some(at + start..at + start + end)
    };
    words(text, is_end).into_iter().filter_map(range).collect()
}

/// Returns tokens of known services, and credentials after a scheme such as `Bearer`.
fn credentials(text: &str) -> Vec<Range<usize>> {
    let is_end = |c: char| c.is_whitespace() || "=;,\"'&?:/()<>[]{}`".contains(c);
    let tokens = words(text, is_end).into_iter().filter(|(_, word)| is_token(word));
    let tokens = tokens.map(|(at, word)| at..at + word.len());
    let is_end = |c: char| c.is_whitespace() || "\"',;:()`".contains(c);
    let words = words(text, is_end);
    let after_schemes = words.windows(2).filter_map(|pair| {
        let &[(_, scheme), (at, word)] = pair else { return None };
        let is_secret = is_scheme(scheme) && is_credential(&format!("{scheme} {word}"));
        is_secret.then(|| at..at + word.len())
    });
    tokens.chain(after_schemes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_replaced_by_name_and_form() {
        for (text, shown) in [
            ("Authorization: Bearer abc def", "Authorization: …"),
            ("X-Api-Key:s3cret", "X-Api-Key:…"),
            ("Accept: */*", "Accept: */*"),
            (
                "curl -H 'Authorization: Basic YTpi' http://h/",
                "curl -H 'Authorization: …' http://h/",
            ),
            ("GET http://h/?token=abc&n=1#f", "GET http://h/?token=…&n=1#f"),
            ("http://h/?%74oken=abc", "http://h/?%74oken=…"),
            ("http://me:pw@h/x", "http://…@h/x"),
            ("http://me:p/w@h/x", "http://…@h/x"),
            ("me:pw@h", "…@h"),
            ("http://h:80/@me", "http://h:80/@me"),
            (r#"{"password": "a\"b", "n": 1}"#, r#"{"password": "…", "n": 1}"#),
            (r#"{"pin": 1234, "n": 1}"#, r#"{"pin": …, "n": 1}"#),
            (r#"{"token": {"a": ["b"]}, "n": 1}"#, r#"{"token": …, "n": 1}"#),
            (r#"{"token": ["a]b", "s3cret"], "n": 1}"#, r#"{"token": …, "n": 1}"#),
            (r#"{"token": {"a\"}": "s3cret"}, "n": 1}"#, r#"{"token": …, "n": 1}"#),
            (r#"{"token": ["a", "s3cret", "n": 1"#, r#"{"token": …"#),
            ("token = ['a]', \"\"\"b]\n\"]\"\"\", 's3cret']\nn = 1", "token = …\nn = 1"),
            ("token = [\"a, # ä\n's3cret']\nn = 1", "token = …\nn = 1"),
            (
                "env = { DB_PASSWORD = \"x\", N = \"1\" }",
                "env = { DB_PASSWORD = \"…\", N = \"1\" }",
            ),
            ("env.API_KEY = 'x'", "env.API_KEY = '…'"),
            ("password = \"unclosed", "password = \"…"),
            ("secret = '''\na\nb'''\nn = 1", "secret = '''…'''\nn = 1"),
            ("say Bearer abcdef12, then", "say Bearer …, then"),
            ("user ghp_0123456789abcdefghij", "user …"),
            ("path = \"/a\"", "path = \"/a\""),
        ] {
            assert_eq!(without_secrets(text), shown, "{text}");
        }
    }

    #[test]
    fn quotation_is_bounded_and_escaped() {
        assert_eq!(quote("a\nb"), "\"a\\nb\"");
        let long = "ä".repeat(MAX_CHARS + 1);
        assert_eq!(plain(&long), "ä".repeat(MAX_CHARS) + MARK);
        assert_eq!(plain(&long[..2 * MAX_CHARS]), "ä".repeat(MAX_CHARS));
    }

    #[test]
    fn header_without_colon_shows_first_word() {
        for (line, shown) in [
            ("Accept: */*", "\"Accept: */*\""),
            ("Authorization: x", "\"Authorization:…\""),
            ("X-Custom: Bearer abcdef12", "\"X-Custom:…\""),
            ("X-Custom hunter2", "\"X-Custom …\""),
            ("X-Custom=hunter2", "\"X-Custom=…\""),
            (":path: /", "\":path: /\""),
            ("x", "\"x\""),
        ] {
            assert_eq!(quote_header(line), shown, "{line}");
        }
        assert_eq!(
            (quote_value("pin", "1"), quote_value("n", "1")),
            ("\"…\"".into(), "\"1\"".into())
        );
    }

    #[test]
    fn found_value_of_serde_is_removed() {
        for (message, shown) in [
            (
                "invalid type: string \"a, expected b\", expected u32",
                "invalid type: string, expected u32",
            ),
            (
                "invalid type: floating point `1.5`, expected u8",
                "invalid type: floating point, expected u8",
            ),
            ("invalid type: map, expected a string", "invalid type: map, expected a string"),
            (
                "unknown variant `a`, expected b`, expected one of `c`, `d`",
                "unknown variant, expected one of `c`, `d`",
            ),
            (
                "unknown variant `a`, there are no variants",
                "unknown variant, there are no variants",
            ),
            ("unknown value `a`\nhint: use one of c, d", "unknown value\nhint: use one of c, d"),
            ("unknown field `a`, expected `b` or `c`", "unknown field `a`, expected `b` or `c`"),
            ("missing field `log`", "missing field `log`"),
        ] {
            assert_eq!(without_found_value(message), shown);
        }
    }

    #[test]
    fn quoted_line_maps_its_range() {
        let source = "a = 1\nx = { token = \"hunter2\", n = 5 }\n";
        let secrets = secret_ranges(source);
        let line = 6..source.len() - 1;
        let quoted = |words: &str| {
            let start = source.find(words).unwrap();
            let quoted = quote_line(source, &secrets, &line, &(start..start + words.len()));
            (quoted.text.clone(), quoted.text[quoted.range].to_string())
        };
        let text = "x = { token = \"…\", n = 5 }";
        for (words, shown) in [
            ("5", "5"),
            ("x = {", "x = {"),
            ("nter", "…"),
            ("\"hunter2\"", "\"…\""),
            ("2\", n", "…\", n"),
        ] {
            assert_eq!(quoted(words), (text.into(), shown.into()), "{words}");
        }
    }
}
