//! Withholds secrets in requests, in responses, and in texts of any form: URLs, forms, JSON and
//! logs.

use std::collections::BTreeSet;
use std::ops::Range;

use dyno_config::secret::{
    MIN_ERASED_CHARS, end_of_authority, is_credential, is_distinctive, is_secret, is_secret_field,
    is_secret_parameter, is_token, may_be_secret_header, with_parameters, without_escapes,
};
use serde_json::Value;

use super::commands::is_plain_header;
use super::name::is_secret_object;
use super::value::{self, end_of_quotation, is_harmless};
use super::{MARK, Secrets, scan};

impl Secrets {
    /// Withholds a header's value if it is or may be a secret, or if it was withheld in the
    /// command.
    pub(super) fn header(&mut self, name: &str, value: &mut String) {
        let is_sure = is_secret(name) || is_credential(value);
        let is_of_command = !is_plain_header(name) && self.is_known(value);
        let is_named = may_be_secret_header(name) && !is_harmless(name, value.trim());
        *value = match is_named || is_credential(value) || is_of_command {
            true => self.withhold_if(is_sure, true, value),
            false => self.fields(value),
        };
    }

    /// Withholds an expression that a header or JSON value of this name must match.
    pub(super) fn pattern(&mut self, name: &str, pattern: &mut String) {
        let literal = pattern.trim_start_matches('^').trim_end_matches('$').to_string();
        let is_named = may_be_secret_header(name) && !is_harmless(name, &literal);
        if !is_named && !is_credential(&literal) {
            *pattern = self.fields(pattern);
            return;
        }
        *pattern = self.withhold_if(is_secret(name) || is_credential(&literal), true, pattern);
        let is_end = |c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c);
        self.parts
            .extend(literal.split(is_end).filter(|part| is_distinctive(part)).map(String::from));
    }

    /// Withholds secrets in a body. Parts of the body may be binary.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Vec<u8> {
        change_texts(bytes, |text| self.fields(text))
    }

    /// Withholds the password and the values of secret parameters in a URL such as
    /// `https://user:password@host/?token=…`.
    pub(super) fn without_password(&mut self, url: &str) -> String {
        let url = self.without_user(url);
        with_parameters(&url, |pair| self.pair(pair))
    }

    /// Withholds a secret value in `name=value`, a pair of a query or a form.
    fn pair(&mut self, pair: &str) -> String {
        match pair.split_once('=') {
            Some((name, value)) if is_secret_pair(name, value) => {
                let is_sure = is_secret(&without_escapes(name)) || is_credential(value);
                format!("{name}={}", self.withhold_if(is_sure, true, value))
            }
            Some((name, value)) => format!("{name}={}", self.redact_encoded(value)),
            None => pair.into(),
        }
    }

    /// Withholds secrets in a parameter's value, which may be a percent-encoded URL or JSON.
    fn redact_encoded(&mut self, value: &str) -> String {
        let plain = without_escapes(value);
        if plain == value {
            return self.fields(value);
        }
        if self.fields(&plain) == plain { value.into() } else { MARK.into() }
    }

    /// Withholds the values of secret fields in a body. The body may be a form
    /// (`application/x-www-form-urlencoded`), JSON, lines of forms or JSON, or another text.
    pub(super) fn fields(&mut self, text: &str) -> String {
        if is_form(text) {
            let pairs: Vec<String> = text.split('&').map(|pair| self.pair(pair)).collect();
            return pairs.join("&");
        }
        if let Some(redacted) = self.json(text) {
            return redacted;
        }
        let is_record = |line: &str| line.trim().is_empty() || is_form(line) || begins_json(line);
        if text.contains('\n') && text.lines().all(is_record) {
            let lines = text.split_inclusive('\n').map(|line| {
                let record = line.trim_end_matches(['\r', '\n']);
                self.fields(record) + &line[record.len()..]
            });
            // A member may begin in one line and end in another.
            let text: String = lines.collect();
            return self.text(&text);
        }
        self.text(text)
    }

    /// Withholds secrets in JSON. `None`: the text is not JSON, or has no secrets.
    fn json(&mut self, text: &str) -> Option<String> {
        let json = parse_json(text)?;
        if numbers_and_members(text) == numbers_and_members(&json.to_string()) {
            return self.json_value(&json);
        }
        // Only the values of secrets are replaced, because the parsed JSON lacks digits or members
        // of the text.
        let redacted = self.text(text);
        // An escape in the text may have hidden a secret.
        let hidden = parse_json(&redacted).and_then(|json| self.json_value(&json));
        Some(hidden.unwrap_or(redacted))
    }

    /// Returns a JSON value as text without secrets. `None`: it has no secrets.
    fn json_value(&mut self, json: &Value) -> Option<String> {
        let mut redacted = json.clone();
        self.json_fields("", &mut redacted);
        (redacted != *json).then(|| redacted.to_string())
    }

    /// Withholds texts and numbers of fields with secret names. `name`: the name of the value.
    pub(super) fn json_fields(&mut self, name: &str, value: &mut Value) {
        match value {
            Value::Object(members) => {
                // An entry of a list of names and values: `{"name": "token", "value": …}`.
                let secret_name =
                    ["name", "key"].iter().find_map(|key| members.get(*key)?.as_str());
                let secret_name = secret_name.filter(|name| is_secret(name)).map(String::from);
                let has_only_secrets = name.split('/').any(is_secret_object);
                for (key, value) in members.iter_mut() {
                    match (&secret_name, key.as_str()) {
                        (Some(name), "value") => self.json_fields(name, value),
                        _ if has_only_secrets => self.json_leaves(name, value),
                        _ => self.json_member(name, key, value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|value| self.json_fields(name, value)),
            Value::String(text)
                if is_credential(text) || is_secret(name) && !is_harmless(name, text) =>
            {
                *text = self.withhold(text);
            }
            Value::Number(number) if is_secret(name) && !is_harmless(name, &number.to_string()) => {
                *value = self.withhold(&number.to_string()).into();
            }
            // A pointer may name an object of secrets: `/pin/value`.
            Value::String(_) | Value::Number(_) if name.split('/').any(is_secret_field) => {
                self.json_leaves(name, value);
            }
            Value::String(text) => *text = self.fields(text),
            Value::Number(_) | Value::Null | Value::Bool(_) => {}
        }
    }

    /// Withholds a member of an object that may contain credentials: `{"auth": {"value": …}}`.
    fn json_member(&mut self, parent: &str, key: &str, value: &mut Value) {
        self.json_fields(key, value);
        let last = parent.rsplit('/').next().unwrap_or_default();
        let is_in_secret = last.eq_ignore_ascii_case("auth") || is_secret(last);
        if let Value::String(text) = value
            && is_in_secret
            && (key == "value" || is_secret_parameter(key))
            && !is_harmless(key, text)
        {
            *text = self.withhold_if(false, true, text);
        }
    }

    /// Withholds all members of an object or a list: `{"token": {"v": …}}`. Some members may be
    /// ordinary words. `name`: the name of the object or list.
    fn json_leaves(&mut self, name: &str, value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.values_mut().for_each(|value| self.json_leaves(name, value));
            }
            Value::Array(items) => items.iter_mut().for_each(|value| self.json_leaves(name, value)),
            Value::String(text) if is_harmless(name, text) && !is_credential(text) => {
                *text = self.fields(text);
            }
            Value::String(text) => *text = self.withhold_if(is_credential(text), true, text),
            Value::Number(number) if !is_harmless(name, &number.to_string()) => {
                *value = self.withhold_if(false, true, &number.to_string()).into();
            }
            Value::Number(_) | Value::Null | Value::Bool(_) => {}
        }
    }

    /// Withholds secrets in a text that the user or dyno wrote.
    pub(super) fn text(&mut self, text: &str) -> String {
        let text =
            if is_address(text) { self.without_password(text) } else { self.without_user(text) };
        self.without_spans(&text, |_| true)
    }

    /// Withholds secrets in a text of a server or a compiler. Names are less reliable there, so
    /// only values that cannot be ordinary words are erased elsewhere.
    pub(super) fn log(&mut self, text: &str) -> String {
        let text = self.without_user(text);
        self.without_spans(&text, |secret| {
            secret.chars().count() >= MIN_ERASED_CHARS
                && (is_distinctive(secret) || value::looks_random(secret))
        })
    }

    /// Withholds the secrets that [`scan::spans`] finds. Secrets for which `is_certain` is true are
    /// also erased elsewhere.
    fn without_spans(&mut self, text: &str, is_certain: impl Fn(&str) -> bool) -> String {
        let mut redacted = String::with_capacity(text.len());
        let mut end = 0;
        for span in scan::spans(text) {
            let secret = &text[span.range.clone()];
            redacted.push_str(&text[end..span.range.start]);
            redacted.push_str(&self.withhold_if(span.is_sure && is_certain(secret), true, secret));
            end = span.range.end;
        }
        redacted + &text[end..]
    }

    /// Withholds passwords in URLs, and users that look like tokens.
    fn without_user(&mut self, text: &str) -> String {
        let mut redacted = String::new();
        let mut remainder = text;
        while let Some((before, after)) = remainder.split_once("://") {
            let (authority, path) = after.split_at(authority_end(after));
            let authority = match authority.rsplit_once('@') {
                Some((user, host)) => match user.split_once(':') {
                    Some((user, password)) => {
                        format!("{}:{}@{host}", self.url_user(user), self.withhold(password))
                    }
                    None => format!("{}@{host}", self.url_user(user)),
                },
                None => authority.into(),
            };
            redacted.extend([before, "://", &authority]);
            remainder = path;
        }
        redacted + remainder
    }

    /// Withholds a user of a URL that looks like a token: some services expect a token as user,
    /// with an empty or fixed password. An ordinary name is not a secret.
    fn url_user(&mut self, user: &str) -> String {
        let is_placeholder = user.starts_with(['{', '$']);
        let is_secret = !is_placeholder && (is_token(user) || is_distinctive(user));
        if is_secret { self.withhold(user) } else { user.into() }
    }
}

/// Changes bytes as a text. Private-use characters represent the bytes that are not UTF-8, so that
/// a value with such bytes is not split.
pub(super) fn change_texts(bytes: &[u8], change: impl FnOnce(&str) -> String) -> Vec<u8> {
    /// Blocks of 256 private-use characters, in the planes 15 and 16 of Unicode.
    const BLOCKS: Range<u32> = 0xF00..0x1100;
    let block_of = |c: char| u32::from(c) / 256;
    let chars = bytes.utf8_chunks().flat_map(|chunk| chunk.valid().chars());
    let used: BTreeSet<u32> = chars.map(block_of).filter(|block| BLOCKS.contains(block)).collect();
    let block = BLOCKS.clone().find(|block| !used.contains(block)).unwrap_or(BLOCKS.start);
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        let invalid = chunk.invalid().iter();
        text.extend(invalid.filter_map(|byte| char::from_u32(block * 256 + u32::from(*byte))));
    }
    let mut changed = Vec::with_capacity(bytes.len());
    for c in change(&text).chars() {
        if block_of(c) == block {
            changed.push((u32::from(c) % 256) as u8);
        } else {
            changed.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    changed
}

/// Whether a pair of a query or a form is secret. The name may be a JSON pointer.
fn is_secret_pair(name: &str, value: &str) -> bool {
    let is_named = name.split('/').any(is_secret_parameter);
    is_credential(value) || is_named && !is_harmless(name, value)
}

/// Parses an object or a list. `None`: the text is neither.
fn parse_json(text: &str) -> Option<Value> {
    begins_json(text).then(|| serde_json::from_str(text).ok()).flatten()
}

/// Returns the sorted numbers of a valid JSON text, as written, and the number of members in all
/// its objects.
fn numbers_and_members(json: &str) -> (Vec<&str>, usize) {
    let (mut numbers, mut members, mut at) = (Vec::new(), 0, 0);
    while let Some(c) = json[at..].chars().next() {
        let remainder = &json[at..];
        at += match c {
            '"' => end_of_quotation(&remainder[1..], "\"") + 2,
            '-' | '0'..='9' => {
                let is_end = |c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c);
                let number = &remainder[..remainder.find(is_end).unwrap_or(remainder.len())];
                numbers.push(number);
                number.len()
            }
            _ => {
                members += usize::from(c == ':');
                c.len_utf8()
            }
        };
    }
    numbers.sort_unstable();
    (numbers, members)
}

/// Whether a text begins like a JSON object or list.
fn begins_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// Whether a text is a URL, or the part of a URL from its path on.
fn is_address(text: &str) -> bool {
    let is_other = |c: char| c.is_whitespace() || "\"'<>`".contains(c);
    (text.starts_with('/') || text.contains("://")) && !text.contains(is_other)
}

/// Returns the end of the authority (user, host and port) of a URL. A port that is not a number is
/// part of a password with characters that should have been encoded: `redis://:pa/ss@host`.
fn authority_end(text: &str) -> usize {
    let end = end_of_authority(text);
    let authority = &text[..end];
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    if port.bytes().all(|b| b.is_ascii_digit()) || authority.contains(['@', '[', '{', '$']) {
        return end;
    }
    let is_end = |c: char| c.is_whitespace() || "\"'<>`,".contains(c);
    let word = &text[..text.find(is_end).unwrap_or(text.len())];
    word.rfind('@').map_or(end, |index| index + end_of_authority(&word[index..]))
}

/// Whether a text is a form of names and values, without the parts of a URL or of a sentence.
fn is_form(text: &str) -> bool {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || "_.-+%[]/".contains(c);
    let is_pair = |pair: &str| {
        pair.split_once('=')
            .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(is_name_char))
    };
    !text.contains('\n') && text.split('&').all(is_pair)
}
