//! Names before `=` or `:` in texts of any form, and the places of secrets.

use std::ops::Range;

use dyno_config::secret::{is_secret, is_secret_field};

use super::value;

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub range: Range<usize>,
    /// Whether the name or the form is unambiguous.
    pub is_sure: bool,
}

/// A name before `=` or `:`.
pub(super) struct ValueName<'a> {
    pub(super) text: &'a str,
    /// The quotation mark around the name.
    pub(super) quote: Option<char>,
    /// The character before the name, or before its quotation mark.
    pub(super) before: Option<char>,
    /// Whether the name is the first word of its line.
    pub(super) is_first: bool,
}

/// Maximum length of a name. Longer words are ordinary text.
const LONGEST_NAME: usize = 80;

/// Whether a name may contain this character.
fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.%[]+$".contains(c)
}

/// Returns the name at the end of a text.
pub(super) fn name_at_end(text: &str) -> Option<ValueName<'_>> {
    let text = text.trim_end_matches([' ', '\t']);
    // `headers["Cookie"] = …`
    let text = text.strip_suffix(']').filter(|text| text.ends_with(['"', '\''])).unwrap_or(text);
    let quote = text.chars().next_back().filter(|c| value::QUOTES.contains(c));
    let inside = text.strip_suffix(value::QUOTES).map_or(text, |text| text.trim_end_matches('\\'));
    let is_outside = |c: char| match quote {
        Some(quote) => c == quote || c == '\n',
        None => !is_name_char(c),
    };
    // The text is searched backwards for the character before the name.
    let mut last_chars = inside.char_indices().rev().take(LONGEST_NAME);
    let start = match last_chars.find(|(_, c)| is_outside(*c)) {
        Some((at, c)) => at + c.len_utf8(),
        None if inside.len() <= LONGEST_NAME => 0,
        None => return None,
    };
    let before = inside[..start].chars().next_back();
    // Parameters of a query are separated by `&` or `;`. Here both become `&`.
    let word = inside[..start].rsplit([' ', '\t', '\n', '"', '\'']).next().unwrap_or_default();
    let before = if before == Some(';') && word.contains('?') { Some('&') } else { before };
    // An escaped line end before a bare name: `\r\nCookie`.
    let is_escaped =
        quote.is_none() && before == Some('\\') && inside[start..].starts_with(['n', 'r', 't']);
    let start = start + usize::from(is_escaped);
    let line = inside[..start].trim_end_matches([' ', '\t', '-']);
    let is_first = line.is_empty() || line.ends_with('\n') || is_escaped;
    Some(ValueName { text: &inside[start..], quote, before, is_first })
        .filter(|name| !name.text.is_empty())
}

/// Whether a message is about a path, an option, a key or a quoted text, so that no value follows a
/// name: `/etc/passwd: No such file`, `--cookies: needs the steps of a sequence`, `"Authorization
/// Bearer": write it like 'Name: value'`.
pub(super) fn is_message_about_name(name: &ValueName<'_>, value: &str) -> bool {
    match name.quote {
        None => {
            name.before == Some('/') || name.text.starts_with("--") && is_problem(name.text, value)
        }
        Some('`') if is_problem(name.text, value) => true,
        Some(_) => {
            let is_address = name.text.contains(['/', '?', '=']);
            is_address || name.text.contains(' ') && !value.starts_with(value::QUOTES)
        }
    }
}

/// Whether the text after the name of an option or key begins like a sentence of dyno, with two
/// words. The words of a passphrase may look the same.
fn is_problem(name: &str, value: &str) -> bool {
    let begins_with_word = |text: &str| text.starts_with(|c: char| c.is_ascii_lowercase());
    let is_word = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase());
    let is_sentence = value.split_once(' ').is_some_and(|(first, remainder)| {
        begins_with_word(first) && is_word(first) && begins_with_word(remainder)
    });
    is_sentence && !value::is_password_name(name)
}

/// Whether all members of an object of this name are secret. A session also contains settings.
pub(super) fn is_secret_object(name: &str) -> bool {
    is_secret_field(name) || is_secret(name) && !name.eq_ignore_ascii_case("session")
}
