//! Secrets of requests and responses, and of texts of any form: URLs, forms, JSON, logs.

use dyno_archive::secret::{
    end_of_authority, is_credential, is_secret, is_secret_field, is_secret_parameter,
    may_be_secret_header, with_parameters, without_escapes,
};
use serde_json::Value;

use super::{MARK, MIN_CHARS, Secrets, is_telling, scan, value};

impl Secrets {
    pub(super) fn header(&mut self, name: &str, value: &mut String) {
        let is = is_secret(name) || is_credential(value);
        *value = match is || may_be_secret_header(name) {
            true => self.withhold_if(is, true, value),
            false => self.fields(value),
        };
    }

    /// An expression that a header or a JSON value of this name must match.
    pub(super) fn pattern(&mut self, name: &str, pattern: &mut String) {
        let literal = pattern.trim_start_matches('^').trim_end_matches('$').to_string();
        if !may_be_secret_header(name) && !is_credential(&literal) {
            *pattern = self.fields(pattern);
            return;
        }
        *pattern = self.withhold_if(is_secret(name) || is_credential(&literal), true, pattern);
        let is_end = |c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c);
        self.parts.extend(literal.split(is_end).filter(|part| is_telling(part)).map(String::from));
    }

    /// Bytes that may be a form, JSON, or another text. A form's parts may be none.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Vec<u8> {
        change_texts(bytes, |text| self.fields(text))
    }

    /// A URL such as `https://user:password@host/?token=…` without the password and the values of
    /// secret parameters.
    pub(super) fn without_password(&mut self, url: &str) -> String {
        let url = self.without_user(url);
        with_parameters(&url, |pair| self.pair(pair))
    }

    /// `name=value` of a query or a form, without a secret value.
    fn pair(&mut self, pair: &str) -> String {
        match pair.split_once('=') {
            Some((name, value))
                if is_credential(value) || name.split('/').any(is_secret_parameter) =>
            {
                let is = is_secret(&without_escapes(name)) || is_credential(value);
                format!("{name}={}", self.withhold_if(is, true, value))
            }
            Some((name, value)) => format!("{name}={}", self.redact_encoded(value)),
            None => pair.into(),
        }
    }

    /// A parameter's value, which may itself be a URL or JSON, percent-encoded.
    fn redact_encoded(&mut self, value: &str) -> String {
        let plain = without_escapes(value);
        if plain == value {
            return self.fields(value);
        }
        if self.fields(&plain) == plain { value.into() } else { MARK.into() }
    }

    /// A body without the values of fields that hold secrets: a form
    /// (`application/x-www-form-urlencoded`), JSON, lines of these, or another text.
    pub(super) fn fields(&mut self, text: &str) -> String {
        if is_form(text) {
            let pairs: Vec<String> = text.split('&').map(|pair| self.pair(pair)).collect();
            return pairs.join("&");
        }
        if let Some(hidden) = self.json(text) {
            return hidden;
        }
        let is_record = |line: &str| line.trim().is_empty() || is_form(line) || begins_json(line);
        if text.contains('\n') && text.lines().all(is_record) {
            let lines = text.split_inclusive('\n').map(|line| {
                let record = line.trim_end_matches(['\r', '\n']);
                self.fields(record) + &line[record.len()..]
            });
            return lines.collect();
        }
        self.text(text)
    }

    /// JSON without secrets; `None`: it is none, or has none.
    fn json(&mut self, text: &str) -> Option<String> {
        let json = begins_json(text).then(|| serde_json::from_str::<Value>(text).ok()).flatten()?;
        let mut hidden = json.clone();
        self.json_fields("", &mut hidden);
        (hidden != json).then(|| hidden.to_string())
    }

    /// Withholds texts and numbers of fields whose names say that they are secrets. `name`: that of
    /// the value.
    pub(super) fn json_fields(&mut self, name: &str, value: &mut Value) {
        match value {
            Value::Object(all) => {
                // A list of names and values: `{"name": "token", "value": …}`.
                let named = ["name", "key"].iter().find_map(|key| all.get(*key)?.as_str());
                let named = named.filter(|named| is_secret(named)).map(String::from);
                let holds_only_secrets = name.split('/').any(is_secret_object);
                for (key, value) in all.iter_mut() {
                    match (&named, key.as_str()) {
                        (Some(named), "value") => self.json_fields(named, value),
                        _ if holds_only_secrets => self.json_leaves(value),
                        _ => self.json_member(name, key, value),
                    }
                }
            }
            Value::Array(all) => all.iter_mut().for_each(|value| self.json_fields(name, value)),
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

    /// Withholds a member of an object that may hold credentials: `{"auth": {"value": …}}`.
    fn json_member(&mut self, parent: &str, key: &str, value: &mut Value) {
        self.json_fields(key, value);
        let last = parent.rsplit('/').next().unwrap_or_default();
        let is_within = last.eq_ignore_ascii_case("auth") || is_secret(last);
        if let Value::String(text) = value
            && is_within
            && (key == "value" || is_secret_parameter(key))
        {
            *text = self.withhold_if(false, true, text);
        }
    }

    /// Withholds all that an object or a list holds: `{"token": {"v": …}}`. Parts of it may be
    /// ordinary words.
    fn json_leaves(&mut self, value: &mut Value) {
        match value {
            Value::Object(all) => all.values_mut().for_each(|value| self.json_leaves(value)),
            Value::Array(all) => all.iter_mut().for_each(|value| self.json_leaves(value)),
            Value::String(text) => *text = self.withhold_if(is_credential(text), true, text),
            Value::Number(number) => {
                *value = self.withhold_if(false, true, &number.to_string()).into();
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// A text that the user or dyno wrote, without secrets.
    pub(super) fn text(&mut self, text: &str) -> String {
        let text =
            if is_address(text) { self.without_password(text) } else { self.without_user(text) };
        self.without_spans(&text, |_| true)
    }

    /// A text of a server or a compiler without secrets. A name says less there: only what can be
    /// no word is looked for elsewhere.
    pub(super) fn log(&mut self, text: &str) -> String {
        let text = self.without_user(text);
        self.without_spans(&text, |secret| {
            secret.chars().count() >= MIN_CHARS
                && (is_telling(secret) || value::looks_random(secret))
        })
    }

    fn without_spans(&mut self, text: &str, is_sought: impl Fn(&str) -> bool) -> String {
        let mut shown = String::with_capacity(text.len());
        let mut end = 0;
        for span in scan::spans(text) {
            let secret = &text[span.range.clone()];
            shown.push_str(&text[end..span.range.start]);
            shown.push_str(&self.withhold_if(span.is_sure && is_sought(secret), true, secret));
            end = span.range.end;
        }
        shown + &text[end..]
    }

    /// A text with URLs without their passwords, and without a user that has none: that is a token,
    /// as often as not.
    fn without_user(&mut self, text: &str) -> String {
        let mut shown = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("://") {
            let (authority, later) = after.split_at(authority_end(after));
            let authority = match authority.rsplit_once('@') {
                Some((user, host)) => match user.split_once(':') {
                    Some((user, password)) => format!("{user}:{}@{host}", self.withhold(password)),
                    // A mere name is not to be erased everywhere.
                    None if is_telling(user) => format!("{}@{host}", self.withhold(user)),
                    None => authority.into(),
                },
                None => authority.into(),
            };
            shown.extend([before, "://", &authority]);
            rest = later;
        }
        shown + rest
    }
}

/// Bytes with their parts in UTF-8 changed.
pub(super) fn change_texts(bytes: &[u8], mut change: impl FnMut(&str) -> String) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        all.extend_from_slice(change(chunk.valid()).as_bytes());
        all.extend_from_slice(chunk.invalid());
    }
    all
}

fn begins_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// Whether a text is one URL, or the part of one from its path on.
fn is_address(text: &str) -> bool {
    let is_other = |c: char| c.is_whitespace() || "\"'<>`".contains(c);
    (text.starts_with('/') || text.contains("://")) && !text.contains(is_other)
}

/// Where the authority of a URL ends. If its port is no number, it is a password with characters
/// that should have been encoded: `redis://:pa/ss@host`.
fn authority_end(text: &str) -> usize {
    let end = end_of_authority(text);
    let authority = &text[..end];
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    if port.bytes().all(|b| b.is_ascii_digit()) || authority.contains(['@', '[', '{', '$']) {
        return end;
    }
    let is_end = |c: char| c.is_whitespace() || "\"'<>`,".contains(c);
    let word = &text[..text.find(is_end).unwrap_or(text.len())];
    word.rfind('@').map_or(end, |at| at + end_of_authority(&word[at..]))
}

/// Whether all that an object of this name holds is a secret. Sessions hold settings, too.
fn is_secret_object(name: &str) -> bool {
    is_secret_field(name) || is_secret(name) && !name.eq_ignore_ascii_case("session")
}

/// Whether a text is a form of names and values, without the parts of a URL or of a sentence.
fn is_form(text: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_.-+%[]/".contains(c);
    let is_pair = |pair: &str| {
        pair.split_once('=')
            .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(is_of_name))
    };
    !text.contains('\n') && text.split('&').all(is_pair)
}
