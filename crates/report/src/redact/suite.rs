//! Withholds secrets in the file of a suite.

use std::collections::BTreeSet;

use dyno_config::secret::{MIN_ERASED_CHARS, holds_secret, is_credential, may_be_secret};

use super::Secrets;
use super::value::is_harmless;

impl Secrets {
    /// Withholds the string values of secret names in TOML. The file is searched as text, because
    /// it may be invalid TOML.
    pub(super) fn source(&mut self, source: &str) -> String {
        let settings = secret_settings(source);
        let mut redacted = String::with_capacity(source.len());
        let mut remainder = source;
        // The previous string, which is the name of the next string if only a `=` is between them.
        let mut previous = "";
        // Name of the list that the strings belong to.
        let mut list_name: Option<&str> = None;
        while let Some(index) = remainder.find(['"', '\'']) {
            let quote = opening_quotes(&remainder[index..]);
            let (outside, inside) = (&remainder[..index], &remainder[index + quote.len()..]);
            let (value, after) = inside.split_at(end_of_string(inside, quote));
            let list_start = outside.trim_end().strip_suffix('[').map(str::trim_end);
            let assigned = list_start.unwrap_or(outside.trim_end()).strip_suffix('=');
            let own_name = assigned.map(|key| setting_name(key, previous));
            list_name = match list_start {
                Some(_) => own_name,
                None if is_list_ended(outside) => None,
                None => list_name,
            };
            let name = own_name.or(list_name).unwrap_or_default();
            let is_setting = |text: &str| settings.contains(text) || self.is_withheld(text);
            let is_named = may_be_secret(name) && !is_harmless(name, value);
            let redacted_value = match is_named || is_setting(&unescape(quote, value)) {
                true => self.withhold(value),
                false => self.fields(value),
            };
            let closing = if after.starts_with(quote) { quote } else { "" };
            // A comment may contain a secret, too.
            redacted.extend([&self.log(outside), quote, &redacted_value, closing]);
            remainder = &after[closing.len()..];
            previous = value;
        }
        redacted + &self.log(remainder)
    }

    /// Whether a text was withheld elsewhere. Short texts are ignored.
    fn is_withheld(&self, text: &str) -> bool {
        text.chars().count() >= MIN_ERASED_CHARS && self.values.iter().any(|value| value == text)
    }
}

/// Returns the name at the end of a text. If the text is empty, the string `before` is the name. An
/// expression has the name of the setting that it matches: `NAME = { matches = "…" }`.
fn setting_name<'a>(text: &'a str, before: &'a str) -> &'a str {
    let key = text.trim();
    let outer = key.strip_suffix("matches").and_then(|key| key.trim_end().strip_suffix('{'));
    if let Some(outer) = outer.and_then(|key| key.trim_end().strip_suffix('=')) {
        return setting_name(outer, before);
    }
    if key.is_empty() {
        return before;
    }
    key.rsplit([' ', '{', ',', '[', '\t', '\n']).next().unwrap_or_default()
}

/// Whether a list ends in the text after one of its strings. Brackets in comments are ignored.
fn is_list_ended(after: &str) -> bool {
    after.lines().any(|line| line.split('#').next().is_some_and(|code| code.contains(']')))
}

/// Returns secret values with ordinary names: credentials of any name, and values of environments.
fn secret_settings(source: &str) -> BTreeSet<String> {
    /// Collects the secret texts of a value at any depth.
    fn texts(value: &toml::Value, found: &mut BTreeSet<String>) {
        match value {
            toml::Value::String(text) if holds_secret(text) => {
                found.insert(text.clone());
            }
            toml::Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
            toml::Value::Table(table) => table.values().for_each(|value| texts(value, found)),
            _ => {}
        }
    }
    /// Collects secret values of a table and its inner tables.
    fn walk(table: &toml::Table, found: &mut BTreeSet<String>) {
        for (key, value) in table {
            match value {
                // `env = { … }`, and `"env.NAME" = […]` of an experiment.
                value if key == "env" || key.starts_with("env.") => texts(value, found),
                toml::Value::Table(inner) => walk(inner, found),
                toml::Value::Array(items) => {
                    items
                        .iter()
                        .filter_map(toml::Value::as_table)
                        .for_each(|inner| walk(inner, found));
                }
                toml::Value::String(text) if is_credential(text) => {
                    found.insert(text.clone());
                }
                _ => {}
            }
        }
    }
    let mut found = BTreeSet::new();
    if let Ok(table) = source.parse::<toml::Table>() {
        walk(&table, &mut found);
    }
    found
}

/// Returns the value of a TOML string, without its escapes.
fn unescape(quote: &str, string: &str) -> String {
    let parsed = format!("x = {quote}{string}{quote}").parse::<toml::Table>().ok();
    let text = parsed.and_then(|table| Some(table.get("x")?.as_str()?.to_string()));
    text.unwrap_or_else(|| string.into())
}

/// Returns the quotes at the start of a TOML string: one, or three if it may span lines.
fn opening_quotes(text: &str) -> &str {
    let three = ["\"\"\"", "'''"].iter().any(|quotes| text.starts_with(quotes));
    &text[..if three { 3 } else { 1 }]
}

/// Returns the byte offset at which a TOML string ends. An unclosed string ends with its line, or
/// with the text if it may span lines.
fn end_of_string(inside: &str, quote: &str) -> usize {
    let mut is_escaped = false;
    for (i, c) in inside.char_indices() {
        match c {
            '\\' if quote.starts_with('"') && !is_escaped => is_escaped = true,
            _ if inside[i..].starts_with(quote) && !is_escaped => return i,
            '\n' if quote.len() == 1 => return i,
            _ => is_escaped = false,
        }
    }
    inside.len()
}
