//! Secrets of a suite's file.

use std::collections::BTreeSet;

use dyno_archive::secret::{holds_secret, is_credential, may_be_secret};

use super::{MIN_CHARS, Secrets};

impl Secrets {
    /// TOML without the string values of secret names. It is searched as text, because a parser
    /// might not accept it.
    pub(super) fn source(&mut self, source: &str) -> String {
        let settings = secret_settings(source);
        let mut shown = String::with_capacity(source.len());
        let mut rest = source;
        // The string before: it names the next one if only a `=` is between them.
        let mut before = "";
        // What names all strings of a list, while it goes on.
        let mut of_list: Option<&str> = None;
        while let Some(at) = rest.find(['"', '\'']) {
            let quote = quote_of(&rest[at..]);
            let (outside, inside) = (&rest[..at], &rest[at + quote.len()..]);
            let (value, after) = inside.split_at(end_of_string(inside, quote));
            let begins = outside.trim_end().strip_suffix('[').map(str::trim_end);
            let assigned = begins.unwrap_or(outside.trim_end()).strip_suffix('=');
            let named = assigned.map(|key| name_of_setting(key, before));
            of_list = match begins {
                Some(_) => named,
                None => of_list.filter(|_| !is_ended(outside)),
            };
            let name = named.or(of_list).unwrap_or_default();
            let is_setting = |text: &str| settings.contains(text) || self.is_withheld(text);
            let value_shown = match may_be_secret(name) || is_setting(&unescape(quote, value)) {
                true => self.withhold(value),
                false => self.fields(value),
            };
            let closing = if after.starts_with(quote) { quote } else { "" };
            // A comment may hold a secret, too.
            shown.extend([&self.log(outside), quote, &value_shown, closing]);
            rest = &after[closing.len()..];
            before = value;
        }
        shown + &self.log(rest)
    }

    /// Whether a text was withheld elsewhere, and can be no other short word.
    fn is_withheld(&self, text: &str) -> bool {
        text.chars().count() >= MIN_CHARS && self.values.iter().any(|value| value == text)
    }
}

/// The name at the end of a text, or the string before it. An expression has that of what it is
/// for: `NAME = { matches = "…" }`.
fn name_of_setting<'a>(text: &'a str, before: &'a str) -> &'a str {
    let key = text.trim();
    let outer = key.strip_suffix("matches").and_then(|key| key.trim_end().strip_suffix('{'));
    if let Some(outer) = outer.and_then(|key| key.trim_end().strip_suffix('=')) {
        return name_of_setting(outer, before);
    }
    if key.is_empty() {
        return before;
    }
    key.rsplit([' ', '{', ',', '[', '\t', '\n']).next().unwrap_or_default()
}

/// Whether a list ends in the text after one of its strings. Comments, which go to the end of their
/// lines, end none.
fn is_ended(after: &str) -> bool {
    after.lines().any(|line| line.split('#').next().is_some_and(|code| code.contains(']')))
}

/// Values of a suite whose names do not say that they hold secrets: credentials of any name, and
/// what its environments hold.
fn secret_settings(source: &str) -> BTreeSet<String> {
    fn texts(value: &toml::Value, found: &mut BTreeSet<String>) {
        match value {
            toml::Value::String(text) if holds_secret(text) => {
                found.insert(text.clone());
            }
            toml::Value::Array(all) => all.iter().for_each(|one| texts(one, found)),
            toml::Value::Table(all) => all.values().for_each(|one| texts(one, found)),
            _ => {}
        }
    }
    fn walk(table: &toml::Table, found: &mut BTreeSet<String>) {
        for (key, value) in table {
            match value {
                // `env = { … }`, and `"env.NAME" = […]` of what an experiment varies.
                value if key == "env" || key.starts_with("env.") => texts(value, found),
                toml::Value::Table(inner) => walk(inner, found),
                toml::Value::Array(all) => {
                    all.iter()
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

/// What a string of a suite means, without what escapes it.
fn unescape(quote: &str, written: &str) -> String {
    let parsed = format!("x = {quote}{written}{quote}").parse::<toml::Table>().ok();
    let text = parsed.and_then(|table| Some(table.get("x")?.as_str()?.to_string()));
    text.unwrap_or_else(|| written.into())
}

/// The quotes that a TOML string begins with: one, or three if it may span lines.
fn quote_of(text: &str) -> &str {
    let three = ["\"\"\"", "'''"].iter().any(|quotes| text.starts_with(quotes));
    &text[..if three { 3 } else { 1 }]
}

/// The byte offset at which a TOML string ends. An unclosed one ends with its line, or with the
/// text if it may span lines.
fn end_of_string(inside: &str, quote: &str) -> usize {
    let mut escaped = false;
    for (i, c) in inside.char_indices() {
        match c {
            '\\' if quote.starts_with('"') && !escaped => escaped = true,
            _ if inside[i..].starts_with(quote) && !escaped => return i,
            '\n' if quote.len() == 1 => return i,
            _ => escaped = false,
        }
    }
    inside.len()
}
