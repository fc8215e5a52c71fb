//! Makes foreign text safe for a terminal: responses of servers, output of compilers and programs,
//! and names in archives.
//!
//! A terminal interprets control sequences in its input. The sequences can clear the screen, set
//! the title, or write to the clipboard (OSC 52). Every text from outside of dyno therefore passes
//! through [`escape_controls`] before it is printed. dyno adds its own colours afterwards.

use std::borrow::Cow;
use std::fmt;

/// Makes control characters visible: C0 and DEL as their pictures (`␛`), C1 as `\u{9b}`. Characters
/// that are invisible or change the direction of text are shown like C1. Line feeds and tabs stay.
/// Carriage returns before a line feed are removed, and so are colours (SGR sequences), because
/// compilers write them often.
#[must_use]
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut remainder = text;
    while let Some(c) = remainder.chars().next() {
        if let Some(len) = colour_sequence(remainder) {
            remainder = &remainder[len..];
            continue;
        }
        remainder = &remainder[c.len_utf8()..];
        match c {
            '\r' if remainder.starts_with('\n') => {}
            c if is_harmful(c) => out.push_str(&picture(c)),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Works like [`escape_controls`], but keeps colours. Use this function for dyno's own text that
/// may quote foreign text, such as a path.
#[must_use]
pub fn escape_keeping_colours(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut remainder = text;
    while let Some(start) = remainder.find('\x1b') {
        out.push_str(&escape_controls(&remainder[..start]));
        // An escape character that begins no colour is shown.
        let length = colour_sequence(&remainder[start..]).unwrap_or(0);
        out.push_str(&remainder[start..start + length]);
        remainder = &remainder[start + length..];
        if length == 0 {
            out.push_str(&picture('\x1b'));
            remainder = &remainder[1..];
        }
    }
    out.push_str(&escape_controls(remainder));
    Cow::Owned(out)
}

/// Works like [`escape_controls`], and puts the text on one line: line feeds and tabs become
/// spaces.
#[must_use]
pub fn escape_line(text: &str) -> String {
    escape_controls(text).replace(['\n', '\t'], " ")
}

/// Formats a value that may quote foreign text, such as an error with its causes. See
/// [`escape_controls`].
#[must_use]
pub fn display(value: impl fmt::Display) -> String {
    escape_controls(&value.to_string()).into_owned()
}

/// Whether a character controls a terminal, is invisible, or changes the direction of text.
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

/// Returns the visible form of a control character.
fn picture(c: char) -> String {
    match u32::from(c) {
        // U+2400 to U+241F are the pictures of U+0000 to U+001F.
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}').to_string(),
        0x7f => "\u{2421}".into(),
        code => format!("\\u{{{code:x}}}"),
    }
}

/// Returns the length in bytes of an SGR sequence at the beginning of a text: `ESC [`, digits, `;`
/// and `:`, then `m`.
pub(crate) fn colour_sequence(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\x1b[")?;
    let end = parameters.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == ':'))?;
    parameters[end..].starts_with('m').then_some(2 + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_controls_shows_control_characters() {
        for (text, escaped) in [
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
            assert_eq!(escape_controls(text), escaped, "{text:?}");
        }
        assert_eq!(escape_line("a\nb\x1b"), "a b␛");
    }

    #[test]
    fn escape_keeping_colours_keeps_colours_only() {
        for (text, escaped) in [
            ("\x1b[1;31merror\x1b[0m: x", "\x1b[1;31merror\x1b[0m: x"),
            ("\x1b]0;pwn\x07 \x1b[2J\x1b[1mb", "␛]0;pwn␇ ␛[2J\x1b[1mb"),
            ("\x1b\x1b[0m[2J", "␛\x1b[0m[2J"),
            ("\u{9b}31m\r\n\x1b", "\\u{9b}31m\n␛"),
            ("runs/ü \t→", "runs/ü \t→"),
        ] {
            assert_eq!(escape_keeping_colours(text), escaped, "{text:?}");
        }
    }

    #[test]
    fn escape_controls_never_joins_new_sequence() {
        // The removal of a sequence must not join the text around it to a new sequence.
        let text = "\x1b\x1b[0m[2J\x1b[\x1b[1m31m";
        assert_eq!(escape_controls(text), "␛[2J␛[31m");
        assert!(!escape_controls(text).chars().any(is_harmful));
    }
}
