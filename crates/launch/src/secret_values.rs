//! Erases the secret values of a program's environment from its output. A value is found in plain
//! text, escaped, percent-encoded and in Base64. An incomplete value is found where output is
//! missing.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use dyno_config::secret::{
    MIN_ERASED_CHARS, NOT_RECORDED, STATES, end_of_authority, has_secret_word, holds_secret,
    is_distinctive, is_scheme, is_secret, is_secret_field, is_token, may_be_secret,
    without_escapes,
};

/// Shortest part of an incomplete value that is erased. Shorter parts would match ordinary words.
const MIN_PART_BYTES: usize = 4;

/// Length of the longest spelling of one byte of a value: `\u0022`.
const MAX_BYTE_SPELLING: usize = 6;

/// Length of the longest escape, a surrogate pair: `\ud83d\ude00`.
const MAX_ESCAPE: usize = 12;

/// Values of an environment that records must not contain.
#[derive(Clone, Debug, Default)]
pub struct SecretValues(Vec<SecretValue>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SecretValue {
    bytes: Vec<u8>,
    /// Whether the value may be an ordinary word. A part of a longer word that spells such a value
    /// is not erased.
    may_be_word: bool,
}

impl SecretValues {
    /// Returns the secrets of variables, given their names and values.
    #[must_use]
    pub fn from_variables<'a>(
        variables: impl IntoIterator<Item = (&'a str, &'a OsStr)>,
    ) -> SecretValues {
        let mut secrets = SecretValues::default();
        for (name, value) in variables {
            let text = value.to_string_lossy();
            secrets.add_passwords_of_urls(&text);
            if may_be_secret(name) || holds_secret(&text) {
                secrets.add_parts(name, &text);
                if is_erased_as_whole(name, &text) {
                    secrets.add_value(value.as_bytes());
                }
            }
        }
        // Duplicates would only make `erase` slower.
        secrets.0.sort();
        secrets.0.dedup_by(|a, b| a.bytes == b.bytes);
        secrets
    }

    /// Returns the text of output, with a mark in place of each secret. `cuts`: positions at which
    /// output is missing. A value next to such a position may be incomplete.
    #[must_use]
    pub fn erase(&self, output: &[u8], cuts: &[usize]) -> String {
        let mut found: Vec<Range<usize>> = Vec::new();
        for secret in &self.0 {
            found.extend(secret.matches(output));
            found.extend(cuts.iter().flat_map(|cut| secret.parts_at(output, *cut)));
        }
        found.sort_by_key(|range| range.start);
        let (mut text, mut end) = (String::new(), 0);
        for range in found {
            if range.start >= end {
                text.push_str(&String::from_utf8_lossy(&output[end..range.start]));
                text.push_str(NOT_RECORDED);
            }
            end = end.max(range.end);
        }
        text + &String::from_utf8_lossy(&output[end..])
    }

    /// Adds a value and each of its lines: programs may print a key line by line.
    fn add_value(&mut self, value: &[u8]) {
        self.add(value.trim_ascii());
        value.split(|byte| *byte == b'\n').for_each(|line| self.add(line.trim_ascii()));
    }

    /// Adds the parts of a variable's value that programs may print alone.
    fn add_parts(&mut self, name: &str, value: &str) {
        let name_suggests_secret = may_be_secret(name);
        for word in value.split(|c: char| c.is_whitespace() || ";,=\"".contains(c)) {
            let is_option = word.starts_with('-');
            if is_token(word) || name_suggests_secret && is_distinctive(word) && !is_option {
                self.add(word.as_bytes());
            }
        }
        self.add_settings(value);
        // The URL of a proxy may have no scheme: `user:password@host`.
        let url = value.rsplit_once("://").map_or(value, |(_, url)| url);
        if let Some((user_info, _)) = url.rsplit_once('@')
            && let Some((user, password)) = user_info.split_once(':')
        {
            self.add_password(user, password);
        }
    }

    /// Adds the values of the settings that a variable's value consists of, such as
    /// `password=VALUE`. Only settings whose names mark a secret are included.
    fn add_settings(&mut self, value: &str) {
        let settings: Vec<&str> =
            value.split(|c: char| c.is_whitespace() || "?&;,".contains(c)).collect();
        for setting in &settings {
            if let Some((name, set_value)) = setting.split_once('=')
                && marks_secret(name)
            {
                self.add(set_value.as_bytes());
            }
        }
        // `--password VALUE`, `Bearer VALUE`.
        for words in settings.windows(2) {
            if is_scheme(words[0]) || words[0].starts_with('-') && marks_secret(words[0]) {
                self.add(words[1].as_bytes());
            }
        }
        // Members of JSON: name, colon and value between quotation marks.
        for member in value.split('"').collect::<Vec<_>>().windows(3) {
            if member[1].trim() == ":" && marks_secret(member[0]) {
                self.add(member[2].as_bytes());
            }
        }
    }

    /// Adds the user information of each URL in a value.
    fn add_passwords_of_urls(&mut self, value: &str) {
        for after in value.split("://").skip(1) {
            let authority = &after[..end_of_authority(after)];
            let Some((user, _)) = authority.rsplit_once('@') else { continue };
            match user.split_once(':') {
                Some((name, password)) => {
                    self.add(user.as_bytes());
                    self.add_password(name, password);
                }
                None if is_distinctive(user) => self.add(user.as_bytes()),
                None => {}
            }
        }
    }

    /// Adds a password. A password that is the user's name is omitted, because programs print the
    /// user's name for other reasons.
    fn add_password(&mut self, user: &str, password: &str) {
        if user != password {
            self.add(password.as_bytes());
        }
    }

    /// Adds a value in all its spellings, if it is long enough to be distinctive.
    fn add(&mut self, value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        // Programs may print the decoded value.
        let decoded = without_escapes(&text);
        for bytes in [value, decoded.as_bytes()] {
            let text = String::from_utf8_lossy(bytes);
            if text.chars().count() >= MIN_ERASED_CHARS {
                let may_be_word = may_be_word(&text);
                self.0.push(SecretValue { bytes: bytes.into(), may_be_word });
                let encoded = base64_forms(bytes).into_iter();
                self.0.extend(encoded.map(|bytes| SecretValue { bytes, may_be_word: false }));
            }
        }
    }
}

impl SecretValue {
    /// Returns the places of the value in a text.
    fn matches(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let length = ByteSpelling::length_at_start(&text[at..], &self.bytes);
            let end = length.map(|length| at + length);
            match end.filter(|end| self.stands_alone(&text[..at], &text[*end..])) {
                Some(end) => {
                    found.push(at..end);
                    at = end;
                }
                None => at += 1,
            }
        }
        found
    }

    /// Returns the places of incomplete values at a cut: the first part of a value, which ends at
    /// the cut, and the last part of a value, which begins at the cut.
    fn parts_at(&self, text: &[u8], cut: usize) -> Vec<Range<usize>> {
        let (before, after) = text.split_at(cut.min(text.len()));
        let earliest = before.len().saturating_sub(MAX_BYTE_SPELLING * self.bytes.len());
        let first_part = (earliest..before.len())
            .find(|at| ByteSpelling::is_first_part(&before[*at..], &self.bytes))
            .filter(|at| self.stands_alone(&before[..*at], b""))
            .map(|at| at..before.len());
        let last_part =
            self.last_part_length(after).map(|length| before.len()..before.len() + length);
        first_part.into_iter().chain(last_part).collect()
    }

    /// Returns the length of the last part of a value with which the text after a cut begins. If
    /// the cut is within an escape, the length includes the rest of the escape. `None`: the text
    /// begins with anything else.
    fn last_part_length(&self, text: &[u8]) -> Option<usize> {
        let may_be_of_escape = |byte: &&u8| byte.is_ascii_hexdigit() || b"\\u".contains(*byte);
        let max_escape_rest = text.iter().take(MAX_ESCAPE - 1).take_while(may_be_of_escape).count();
        let min_part_bytes = MIN_PART_BYTES.min(self.bytes.len());
        // The longest part first, so that nothing of the value remains.
        for part_bytes in (min_part_bytes..self.bytes.len()).rev() {
            let part = &self.bytes[self.bytes.len() - part_bytes..];
            for escape_rest in 0..=max_escape_rest {
                if let Some(length) = ByteSpelling::length_at_start(&text[escape_rest..], part) {
                    let length = escape_rest + length;
                    return self.stands_alone(b"", &text[length..]).then_some(length);
                }
            }
        }
        None
    }

    /// Whether a match between two texts may be erased: a value that may be an ordinary word must
    /// not be a part of a longer word.
    fn stands_alone(&self, before: &[u8], after: &[u8]) -> bool {
        if !self.may_be_word {
            return true;
        }
        let begins_with_word = after.first().is_some_and(|byte| is_of_word(*byte));
        !ends_with_word(before) && !begins_with_word
    }
}

/// How a text spells a value. Each text is compared in both ways, because a value itself may
/// contain the characters of an escape.
#[derive(Clone, Copy)]
enum ByteSpelling {
    Plain,
    Escaped,
}

impl ByteSpelling {
    /// Returns the length of a value's spelling at the start of a text. `None`: the text does not
    /// start with the value.
    fn length_at_start(text: &[u8], value: &[u8]) -> Option<usize> {
        let first = text.first()?;
        // This quick check suffices at most positions of a text.
        if Some(first) != value.first() && !b"%\\+".contains(first) {
            return None;
        }
        [ByteSpelling::Plain, ByteSpelling::Escaped].into_iter().find_map(|spelling| {
            let (read, spelled) = spelling.compare(text, value);
            (spelled == value.len()).then_some(read)
        })
    }

    /// Whether a text spells only the first part of a value, up to the end of the text. The text
    /// may end within an escape.
    fn is_first_part(text: &[u8], value: &[u8]) -> bool {
        [ByteSpelling::Plain, ByteSpelling::Escaped].into_iter().any(|spelling| {
            let (read, spelled) = spelling.compare(text, value);
            let rest = &text[read..];
            let is_cut_escape =
                rest.len() < MAX_ESCAPE && matches!(rest.first(), Some(b'%' | b'\\'));
            spelled >= MIN_PART_BYTES && (rest.is_empty() || is_cut_escape)
        })
    }

    /// Compares a text with a value, both from their first byte. Returns the number of bytes of the
    /// text that spell a part of the value, and the number of bytes of that part.
    fn compare(self, text: &[u8], value: &[u8]) -> (usize, usize) {
        let (mut read, mut spelled) = (0, 0);
        while spelled < value.len() {
            let Some((text_bytes, value_bytes)) = self.step(&text[read..], &value[spelled..])
            else {
                break;
            };
            read += text_bytes;
            spelled += value_bytes;
        }
        (read, spelled)
    }

    /// Compares the first byte or character of a value with the start of a text. Returns its number
    /// of bytes in the text, and in the value. `None`: the text differs.
    fn step(self, text: &[u8], value: &[u8]) -> Option<(usize, usize)> {
        // Escapes of whole characters, as in JSON and in the debug output of most languages.
        if let (ByteSpelling::Escaped, Some((length, character))) = (self, char_of_escape(text))
            && value.starts_with(character.encode_utf8(&mut [0; 4]).as_bytes())
        {
            return Some((length, character.len_utf8()));
        }
        // Length of an escape, and the byte that it stands for.
        let escape = match (self, text) {
            (ByteSpelling::Plain, _) => None,
            // An encoded form has a plus for a blank (WHATWG URL §5.1).
            (_, [b'+', ..]) => Some((1, Some(b' '))),
            (_, [b'%', digits @ ..]) => Some((3, byte_of_hex(digits.get(..2)))),
            // Some programs escape the bytes of a character one by one.
            (_, [b'\\', b'u', b'0', b'0', digits @ ..]) => Some((6, byte_of_hex(digits.get(..2)))),
            (_, [b'\\', b'x', digits @ ..]) => Some((4, byte_of_hex(digits.get(..2)))),
            (_, [b'\\', b'n', ..]) => Some((2, Some(b'\n'))),
            (_, [b'\\', b'r', ..]) => Some((2, Some(b'\r'))),
            (_, [b'\\', b't', ..]) => Some((2, Some(b'\t'))),
            (_, [b'\\', byte, ..]) => Some((2, Some(*byte))),
            _ => None,
        };
        let expected_byte = value.first();
        match escape {
            Some((length, byte)) if byte.as_ref() == expected_byte => Some((length, 1)),
            _ => (text.first() == expected_byte).then_some((1, 1)),
        }
    }
}

/// Returns the length of an escape at the beginning of a text, and its character: `\u00e4`, the
/// pair `\ud83d\ude00` (RFC 8259 §7), and in Python also `\xe4` and `\U0001f600`.
fn char_of_escape(text: &[u8]) -> Option<(usize, char)> {
    let unit = |text: &[u8]| {
        let [b'\\', b'u', digits @ ..] = text else { return None };
        u16::try_from(number_of_hex(digits.get(..4)?)?).ok()
    };
    match text {
        [b'\\', b'x', digits @ ..] => Some((4, char::from_u32(number_of_hex(digits.get(..2)?)?)?)),
        [b'\\', b'U', digits @ ..] => Some((10, char::from_u32(number_of_hex(digits.get(..8)?)?)?)),
        _ => {
            let units = [Some(unit(text)?), text.get(6..).and_then(unit)].into_iter().flatten();
            let first = char::decode_utf16(units).next()?.ok()?;
            Some((6 * first.len_utf16(), first))
        }
    }
}

fn number_of_hex(digits: &[u8]) -> Option<u32> {
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().filter(|_| is_hex)
}

fn byte_of_hex(digits: Option<&[u8]>) -> Option<u8> {
    let digits = std::str::from_utf8(digits?).ok()?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// Returns the forms that a value has within Base64 text, in both alphabets (RFC 4648 §4 and §5).
/// The text before the value shifts it by zero to two bytes. Characters that also depend on the
/// text around the value are omitted.
fn base64_forms(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for shift in 0..3 {
        let shifted = [&[0; 2][..shift], value].concat();
        // A character encodes six bits. `from`: the first character without bits of the shift.
        // `to`: the end of the last complete character.
        let (from, to) = ((8 * shift).div_ceil(6), 8 * shifted.len() / 6);
        for encoded in [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)] {
            let form = encoded.as_bytes()[from..to].to_vec();
            if form.len() >= MIN_ERASED_CHARS && !forms.contains(&form) {
                forms.push(form);
            }
        }
    }
    forms
}

/// Whether a name, such as the name of a setting, marks its value as a secret.
fn marks_secret(name: &str) -> bool {
    is_secret(name) || has_secret_word(name)
}

/// Whether the whole value of a variable is erased from texts, in addition to its parts. Called
/// only for variables whose name or value suggests a secret. The suggestion alone is not enough:
/// `PIP_KEYRING_PROVIDER=import` is not erased, although its name contains KEY.
fn is_erased_as_whole(name: &str, value: &str) -> bool {
    let is_marked = marks_secret(name) || is_secret_field(name);
    let is_harmless = is_state(value) || is_default_password(value);
    let has_secret_among_others = holds_secret(value) && value.contains([' ', '=', '@']);
    is_distinctive(value) || is_marked && !is_harmless || has_secret_among_others
}

/// Whether a value is a word about a setting: `AUTH=disabled` is not a secret.
fn is_state(value: &str) -> bool {
    STATES.split_whitespace().any(|state| state.eq_ignore_ascii_case(value.trim()))
}

/// Whether a value is the default password of a program. A default password protects nothing, and
/// texts contain it for other reasons, such as the name of a program or a user.
fn is_default_password(value: &str) -> bool {
    const DEFAULTS: &[&str] =
        &["changeme", "elastic", "example", "postgres", "password", "secret", "testing"];
    DEFAULTS.contains(&value)
}

/// Whether a value may be an ordinary number or word. A word has only letters, and capitals only as
/// its first letter or as all its letters.
fn may_be_word(value: &str) -> bool {
    let all = |is: fn(char) -> bool| value.chars().all(is);
    let after_first = value.char_indices().nth(1).map_or("", |(at, _)| &value[at..]);
    let has_usual_capitals = all(char::is_uppercase) || !after_first.contains(char::is_uppercase);
    all(|c| c.is_ascii_digit()) || all(char::is_alphabetic) && has_usual_capitals
}

/// Beginnings of colour codes, plain, and escaped as in JSON logs.
const COLOURS: [&[u8]; 3] = [b"\x1b[", b"\\u001b[", b"\\x1b["];

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// Whether a text ends within a word. The letters of an escape, a colour code or a short option
/// (`-pVALUE`) are not a part of the word after them.
fn ends_with_word(text: &[u8]) -> bool {
    if !text.last().is_some_and(|byte| is_of_word(*byte)) {
        return false;
    }
    // A colour code ends with numbers, semicolons and `m`.
    let is_of_colour = |byte: &u8| byte.is_ascii_digit() || b";m".contains(byte);
    let numbers = text.iter().rev().take_while(|byte| is_of_colour(byte)).count();
    let before_numbers = &text[..text.len() - numbers];
    let is_colour = COLOURS.iter().any(|begin| before_numbers.ends_with(begin));
    let is_escape_or_option = match text {
        [.., b'\\', b'n' | b'r' | b't'] => true,
        // `\u003d`
        [.., b'\\', b'u', a, b, c, d] => [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()),
        [.., b'%', a, b] => byte_of_hex(Some(&[*a, *b])).is_some(),
        [before @ .., b'-', option] => {
            option.is_ascii_alphabetic() && !before.last().is_some_and(|byte| is_of_word(*byte))
        }
        _ => false,
    };
    !is_colour && !is_escape_or_option
}

#[cfg(test)]
mod tests;
