//! Withholds secrets in requests, in responses, and in texts of any form: URLs, forms, JSON and
//! logs.

use dyno_archive::secret::{
    MIN_ERASED_CHARS, end_of_authority, is_credential, is_distinctive, is_secret, is_secret_field,
    is_secret_parameter, may_be_secret_header, with_parameters, without_escapes,
};
use serde_json::Value;

use super::commands::is_plain_header;
use super::name::is_secret_object;
use super::{MARK, Secrets, scan, value};

impl Secrets {
    /// Withholds a header's value if it is or may be a secret, or if it was withheld in the
    /// command.
    pub(super) fn header(&mut self, name: &str, value: &mut String) {
        let is_sure = is_secret(name) || is_credential(value);
        let is_of_command = !is_plain_header(name) && self.is_known(value);
        *value = match is_sure || is_of_command || may_be_secret_header(name) {
            true => self.withhold_if(is_sure, true, value),
            false => self.fields(value),
        };
    }

    /// Withholds an expression that a header or JSON value of this name must match.
    pub(super) fn pattern(&mut self, name: &str, pattern: &mut String) {
        let literal = pattern.trim_start_matches('^').trim_end_matches('$').to_string();
        if !may_be_secret_header(name) && !is_credential(&literal) {
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
            Some((name, value))
                if is_credential(value) || name.split('/').any(is_secret_parameter) =>
            {
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
        let json = begins_json(text).then(|| serde_json::from_str::<Value>(text).ok()).flatten()?;
        let mut redacted = json.clone();
        self.json_fields("", &mut redacted);
        (redacted != json).then(|| redacted.to_string())
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
                        _ if has_only_secrets => self.json_leaves(value),
                        _ => self.json_member(name, key, value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|value| self.json_fields(name, value)),
            Value::String(text) if is_secret(name) || is_credential(text) => {
                *text = self.withhold(text);
            }
            Value::Number(number) if is_secret(name) => {
                *value = self.withhold(&number.to_string()).into();
            }
            // A pointer may name an object of secrets: `/pin/value`.
            Value::String(_) | Value::Number(_) if name.split('/').any(is_secret_field) => {
                self.json_leaves(value);
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
        {
            *text = self.withhold_if(false, true, text);
        }
    }

    /// Withholds all members of an object or a list: `{"token": {"v": …}}`. Some members may be
    /// ordinary words.
    fn json_leaves(&mut self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.values_mut().for_each(|value| self.json_leaves(value));
            }
            Value::Array(items) => items.iter_mut().for_each(|value| self.json_leaves(value)),
            Value::String(text) => *text = self.withhold_if(is_credential(text), true, text),
            Value::Number(number) => {
                *value = self.withhold_if(false, true, &number.to_string()).into();
            }
            Value::Null | Value::Bool(_) => {}
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

    /// Withholds passwords in URLs. A user without a password is withheld too if it looks like a
    /// token.
    fn without_user(&mut self, text: &str) -> String {
        let mut redacted = String::new();
        let mut remainder = text;
        while let Some((before, after)) = remainder.split_once("://") {
            let (authority, path) = after.split_at(authority_end(after));
            let authority = match authority.rsplit_once('@') {
                Some((user, host)) => match user.split_once(':') {
                    Some((user, password)) => format!("{user}:{}@{host}", self.withhold(password)),
                    // An ordinary user name is not a secret.
                    None if is_distinctive(user) => format!("{}@{host}", self.withhold(user)),
                    None => authority.into(),
                },
                None => authority.into(),
            };
            redacted.extend([before, "://", &authority]);
            remainder = path;
        }
        redacted + remainder
    }
}

/// Changes the parts of bytes that are UTF-8.
pub(super) fn change_texts(bytes: &[u8], mut change: impl FnMut(&str) -> String) -> Vec<u8> {
    let mut changed = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        changed.extend_from_slice(change(chunk.valid()).as_bytes());
        changed.extend_from_slice(chunk.invalid());
    }
    changed
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
