//! Erases secret values of a program's environment from its output: plain, escaped, percent-encoded
//! and in Base64, whole or cut.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use dyno_archive::secret::{
    MIN_ERASED_CHARS, NOT_RECORDED, STATES, end_of_authority, has_secret_word, holds_secret,
    is_distinctive, is_possible_secret, is_scheme, is_secret, is_secret_field, is_token,
    may_be_secret, without_escapes,
};

/// Shortest part of a cut value that is erased. Shorter ones would match ordinary words.
const MIN_PART_BYTES: usize = 4;

/// Longest spelling of one byte of a value: `\u0022`.
const MAX_SPELLING: usize = 6;

/// Length of the longest escape: a surrogate pair.
const MAX_ESCAPE: usize = 12;

/// Values of an environment that no record may hold.
#[derive(Clone, Debug, Default)]
pub struct SecretValues(Vec<SecretValue>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SecretValue {
    bytes: Vec<u8>,
    /// Whether the value may be an ordinary word, which is kept within a longer word.
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
            if is_secret(name) || is_possible_secret(name) || holds_secret(&text) {
                secrets.add_parts(name, &text);
                if is_secret_value(name, &text) {
                    secrets.add_value(value.as_bytes());
                }
            }
        }
        // Only to compare each value once.
        secrets.0.sort();
        secrets.0.dedup_by(|a, b| a.bytes == b.bytes);
        secrets
    }

    /// Returns the text of output, with a mark in place of each secret. `cuts`: positions at which
    /// output is missing, so that a value may be incomplete there.
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
        let is_named = may_be_secret(name);
        let is_part = |word: &&str| is_named && is_distinctive(word) && !word.starts_with('-');
        let words = value.split(|c: char| c.is_whitespace() || ";,=\"".contains(c));
        let words = words.filter(|word| is_part(word) || is_token(word));
        words.for_each(|word| self.add(word.as_bytes()));
        self.add_settings(value);
        let url = value.rsplit_once("://").map_or(value, |(_, url)| url);
        let user = url.rsplit_once('@').and_then(|(user, _)| user.split_once(':'));
        user.into_iter().for_each(|(name, password)| self.add_password(name, password));
    }

    /// Adds the values of settings in a value whose names mark them.
    fn add_settings(&mut self, value: &str) {
        let settings: Vec<&str> =
            value.split(|c: char| c.is_whitespace() || "?&;,".contains(c)).collect();
        for setting in &settings {
            if let Some((_, set)) = setting.split_once('=').filter(|(name, _)| names_secret(name)) {
                self.add(set.as_bytes());
            }
        }
        // `--password VALUE`, `Bearer VALUE`.
        for words in settings.windows(2) {
            if is_scheme(words[0]) || words[0].starts_with('-') && names_secret(words[0]) {
                self.add(words[1].as_bytes());
            }
        }
        // Members of JSON: name, colon and value between quotation marks.
        for member in value.split('"').collect::<Vec<_>>().windows(3) {
            if member[1].trim() == ":" && names_secret(member[0]) {
                self.add(member[2].as_bytes());
            }
        }
    }

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

    /// Adds a password, unless it is the user's name, which programs print for other reasons.
    fn add_password(&mut self, user: &str, password: &str) {
        if user != password {
            self.add(password.as_bytes());
        }
    }

    fn add(&mut self, value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        // Programs may print the decoded value.
        let decoded = without_escapes(&text);
        for spelling in [value, decoded.as_bytes()] {
            if String::from_utf8_lossy(spelling).chars().count() >= MIN_ERASED_CHARS {
                let may_be_word = may_be_word(&String::from_utf8_lossy(spelling));
                self.0.push(SecretValue { bytes: spelling.into(), may_be_word });
                let encoded = base64_forms(spelling).into_iter();
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
            let length = ByteSpelling::find(&text[at..], &self.bytes);
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

    /// Returns the places of incomplete values: the beginning of one before a cut, and the end of
    /// one after it.
    fn parts_at(&self, text: &[u8], cut: usize) -> Vec<Range<usize>> {
        let (before, after) = text.split_at(cut.min(text.len()));
        let first = before.len().saturating_sub(MAX_SPELLING * self.bytes.len());
        let beginning = (first..before.len())
            .find(|at| ByteSpelling::is_beginning(&before[*at..], &self.bytes))
            .filter(|at| self.stands_alone(&before[..*at], b""))
            .map(|at| at..before.len());
        let end = self.end_at(after).map(|length| before.len()..before.len() + length);
        beginning.into_iter().chain(end).collect()
    }

    /// Returns the length of the end of an incomplete value at the beginning of a text. The text
    /// may begin within an escape.
    fn end_at(&self, text: &[u8]) -> Option<usize> {
        let is_of_escape = |byte: &&u8| byte.is_ascii_hexdigit() || b"\\u".contains(*byte);
        let escape = text.iter().take(MAX_ESCAPE - 1).take_while(is_of_escape).count();
        let lengths = MIN_PART_BYTES.min(self.bytes.len())..self.bytes.len();
        let mut ends = lengths.rev().map(|length| &self.bytes[self.bytes.len() - length..]);
        let found = ends.find_map(|end| {
            let mut starts = 0..=escape;
            starts.find_map(|at| ByteSpelling::find(&text[at..], end).map(|length| at + length))
        });
        found.filter(|length| self.stands_alone(b"", &text[*length..]))
    }

    /// Whether a match between two texts is not a part of a longer ordinary word.
    fn stands_alone(&self, before: &[u8], after: &[u8]) -> bool {
        let is_in_word = || after.first().is_some_and(|byte| is_of_word(*byte));
        !self.may_be_word || !ends_with_word(before) && !is_in_word()
    }
}

/// How a text spells a value. A text is compared both ways, because a value may itself have what
/// looks like an escape.
#[derive(Clone, Copy)]
enum ByteSpelling {
    Plain,
    Escaped,
}

impl ByteSpelling {
    /// Returns the length of the spelling of a value with which a text begins. `None`: the text
    /// begins with anything else.
    fn find(text: &[u8], value: &[u8]) -> Option<usize> {
        let first = text.first()?;
        // Most positions of a text begin no value.
        if Some(first) != value.first() && !b"%\\+".contains(first) {
            return None;
        }
        [ByteSpelling::Plain, ByteSpelling::Escaped].into_iter().find_map(|spelling| {
            let (read, spelled) = spelling.compare(text, value);
            (spelled == value.len()).then_some(read)
        })
    }

    /// Whether a text is the beginning of a value, which may end within an escape.
    fn is_beginning(text: &[u8], value: &[u8]) -> bool {
        [ByteSpelling::Plain, ByteSpelling::Escaped].into_iter().any(|spelling| {
            let (read, spelled) = spelling.compare(text, value);
            let rest = &text[read..];
            let is_cut_escape =
                rest.len() < MAX_ESCAPE && matches!(rest.first(), Some(b'%' | b'\\'));
            spelled >= MIN_PART_BYTES && (rest.is_empty() || is_cut_escape)
        })
    }

    /// Returns how many bytes of a text spell how many bytes of a value. Both begin at their first.
    fn compare(self, text: &[u8], value: &[u8]) -> (usize, usize) {
        let (mut read, mut spelled) = (0, 0);
        while spelled < value.len() {
            let Some(step) = self.step(&text[read..], &value[spelled..]) else { break };
            read += step.0;
            spelled += step.1;
        }
        (read, spelled)
    }

    /// Returns how many bytes at the beginning of a text spell the next byte, or character, of a
    /// value, and how many bytes that has in the value.
    fn step(self, text: &[u8], value: &[u8]) -> Option<(usize, usize)> {
        // JSON, and debug output of most languages.
        if let (ByteSpelling::Escaped, Some((length, character))) = (self, char_of_escape(text))
            && value.starts_with(character.encode_utf8(&mut [0; 4]).as_bytes())
        {
            return Some((length, character.len_utf8()));
        }
        let escape = match (self, text) {
            (ByteSpelling::Plain, _) => None,
            // A form has a plus for a blank (WHATWG URL §5.1).
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
        let wanted = value.first();
        match escape {
            Some((length, byte)) if byte.as_ref() == wanted => Some((length, 1)),
            _ => (text.first() == wanted).then_some((1, 1)),
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

/// Returns what a value looks like within Base64, in both alphabets (RFC 4648 §4 and §5). The text
/// before the value shifts it by zero to two bytes. Characters that also depend on the text around
/// it are left out.
fn base64_forms(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for shift in 0..3 {
        let shifted = [&[0; 2][..shift], value].concat();
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
fn names_secret(name: &str) -> bool {
    is_secret(name) || has_secret_word(name)
}

/// Whether the whole value of a variable that is not recorded is erased from texts.
/// `PIP_KEYRING_PROVIDER=import` is not, although its name contains KEY.
fn is_secret_value(name: &str, value: &str) -> bool {
    let is_marked = is_secret(name) || is_secret_field(name) || has_secret_word(name);
    is_distinctive(value)
        || is_marked && !is_state(value) && !is_default_password(value)
        || holds_secret(value) && value.contains([' ', '=', '@'])
}

/// Whether a value is a word about a setting: `AUTH=disabled` is not a secret.
fn is_state(value: &str) -> bool {
    STATES.split_whitespace().any(|state| state.eq_ignore_ascii_case(value.trim()))
}

/// Whether a value is a password that programs come with. It protects nothing, and texts have it
/// for other reasons, such as the name of a program or a user.
fn is_default_password(value: &str) -> bool {
    const DEFAULTS: &[&str] =
        &["changeme", "elastic", "example", "postgres", "password", "secret", "testing"];
    DEFAULTS.contains(&value)
}

/// Whether a value may be an ordinary word or number: digits only, or letters only without capitals
/// inside.
fn may_be_word(value: &str) -> bool {
    let all = |is: fn(char) -> bool| value.chars().all(is);
    let inside = value.char_indices().nth(1).map_or("", |(at, _)| &value[at..]);
    all(|c| c.is_ascii_digit())
        || all(char::is_alphabetic)
            && (all(char::is_uppercase) || !inside.contains(char::is_uppercase))
}

/// How colour codes begin, also escaped as in logs of JSON.
const COLOURS: [&[u8]; 3] = [b"\x1b[", b"\\u001b[", b"\\x1b["];

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// Whether a text ends within a word. The letters of an escape, a colour code or a short option
/// (`-pVALUE`) are no part of the word after them.
fn ends_with_word(text: &[u8]) -> bool {
    let is_of_colour = |byte: &u8| byte.is_ascii_digit() || b";m".contains(byte);
    let colour = text.len() - text.iter().rev().take_while(|byte| is_of_colour(byte)).count();
    let is_escape = match text {
        [.., b'\\', b'n' | b'r' | b't'] => true,
        // `\u003d`
        [.., b'\\', b'u', a, b, c, d] => [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()),
        [.., b'%', a, b] => byte_of_hex(Some(&[*a, *b])).is_some(),
        [before @ .., b'-', option] => {
            option.is_ascii_alphabetic() && !before.last().is_some_and(|byte| is_of_word(*byte))
        }
        _ => false,
    };
    text.last().is_some_and(|byte| is_of_word(*byte))
        && !is_escape
        && !COLOURS.iter().any(|begin| text[..colour].ends_with(begin))
}

#[cfg(test)]
mod tests;
