//! Reads a file key by key, and reports all its mistakes at once.
//!
//! serde stops at the first mistake of a file, but its author needs all of them. This module reads
//! a file's tables key by key, and serde reads only single values.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::mistake::Mistake;
use crate::text::{self, FileError, explain_unknown_field};

/// The mistakes found in one file so far.
#[derive(Debug)]
struct MistakeList<'a> {
    path: &'a Path,
    source: &'a str,
    errors: RefCell<Vec<FileError>>,
}

impl MistakeList<'_> {
    fn add(&self, span: Range<usize>, message: impl Into<String>) {
        self.errors.borrow_mut().push(FileError::from_span(self.path, self.source, span, message));
    }
}

/// A table of a file whose keys are taken one by one. A key that was never taken is unknown.
#[derive(Debug)]
pub struct Keys<'f> {
    table: &'f DeTable<'f>,
    /// Path of the table in messages; empty: the file itself.
    name: String,
    /// Position at which a missing key is reported; `None`: no position.
    head: Option<Range<usize>>,
    known_keys: BTreeSet<&'static str>,
    required: Vec<&'static str>,
    /// Whether serde has read all keys, and has reported unknown keys.
    has_taken_rest: bool,
    mistakes: &'f MistakeList<'f>,
}

/// Reads a file by its keys. `take`: takes the keys, and returns `None` if a required key is
/// missing or wrong.
///
/// # Errors
/// All mistakes, in the order of their positions.
pub fn read<T>(
    path: &Path,
    source: &str,
    take: impl FnOnce(&mut Keys<'_>) -> Option<T>,
) -> Result<T, FileError> {
    let document = DeTable::parse(source).map_err(|error| text::from_toml(path, source, &error))?;
    let mistakes = MistakeList { path, source, errors: RefCell::default() };
    let mut keys = Keys {
        table: document.get_ref(),
        name: String::new(),
        head: None,
        known_keys: BTreeSet::new(),
        required: Vec::new(),
        has_taken_rest: false,
        mistakes: &mistakes,
    };
    let value = take(&mut keys);
    keys.finish();
    match (FileError::join(mistakes.errors.into_inner()), value) {
        (None, Some(value)) => Ok(value),
        (Some(error), _) => Err(error),
        (None, None) => {
            unreachable!("{}: no result, although no mistake was reported", path.display())
        }
    }
}

impl<'f> Keys<'f> {
    /// Takes the value of an optional key; `None`: missing, or wrong.
    pub fn optional<T: DeserializeOwned>(&mut self, key: &'static str) -> Option<T> {
        let value = self.take(key)?;
        self.read_value(value)
    }

    /// Takes the value of a required key.
    pub fn take_required<T: DeserializeOwned>(&mut self, key: &'static str) -> Option<T> {
        self.required.push(key);
        self.optional(key)
    }

    /// Takes the value of a key, converted by `parse`.
    pub fn parse<T: DeserializeOwned, U>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(T) -> Result<U, Mistake>,
    ) -> Option<U> {
        let value = self.optional(key)?;
        parse(value).map_err(|mistake| self.add(mistake)).ok()
    }

    /// Takes the list of a key. All values are read even if one value is wrong. `None`: missing, or
    /// a value is wrong.
    pub fn list<T: DeserializeOwned>(&mut self, key: &'static str) -> Option<Vec<T>> {
        let value = self.take(key)?;
        let DeValue::Array(array) = value.get_ref() else { return self.read_value(value) };
        let values: Vec<Option<T>> = array.iter().map(|value| self.read_value(value)).collect();
        values.into_iter().collect()
    }

    /// Takes the list of a required key.
    pub fn required_list<T: DeserializeOwned>(&mut self, key: &'static str) -> Option<Vec<T>> {
        self.required.push(key);
        self.list(key)
    }

    /// Takes the table of a key; `None`: missing, or not a table.
    pub fn table(&mut self, key: &'static str) -> Option<Keys<'f>> {
        let value = self.take(key)?;
        self.inner_table(format!("[{}]", self.path_to(key)), value)
    }

    /// Takes the table of a required key.
    pub fn required_table(&mut self, key: &'static str) -> Option<Keys<'f>> {
        self.required.push(key);
        self.table(key)
    }

    /// Takes the tables in the list of a key.
    pub fn tables(&mut self, key: &'static str) -> Vec<Keys<'f>> {
        let Some(value) = self.take(key) else { return Vec::new() };
        let DeValue::Array(array) = value.get_ref() else {
            self.mistakes.add(
                value.span(),
                format!(
                    "`{key}`: must be a list of tables\nhint: write each table under [[{key}]]"
                ),
            );
            return Vec::new();
        };
        let name = format!("[[{}]]", self.path_to(key));
        array.iter().filter_map(|value| self.inner_table(name.clone(), value)).collect()
    }

    /// Takes the tables below a key, by their names.
    pub fn named_tables(&mut self, key: &'static str) -> Vec<(String, Keys<'f>)> {
        let Some(value) = self.take(key) else { return Vec::new() };
        let DeValue::Table(table) = value.get_ref() else {
            self.mistakes.add(
                value.span(),
                format!(
                    "`{key}`: must be a table of tables\nhint: write each table as [{key}.NAME]"
                ),
            );
            return Vec::new();
        };
        let tables = table.iter().filter_map(|(name, value)| {
            let name = name.get_ref().to_string();
            let keys = self.inner_table(format!("[{}.{name}]", self.path_to(key)), value)?;
            Some((name, keys))
        });
        tables.collect()
    }

    /// Takes all remaining keys, as one value.
    pub fn take_rest<T: DeserializeOwned>(&mut self) -> Option<T> {
        let is_left = |key: &str| !self.known_keys.contains(key);
        let rest = self.table.iter().filter(|(key, _)| is_left(key.get_ref()));
        let table: DeTable<'_> = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
        let span = self.head.clone().unwrap_or(0..0);
        let value = Spanned::new(span, DeValue::Table(table));
        let value = self.read_value(&value);
        // serde has reported unknown keys.
        self.has_taken_rest = true;
        value
    }

    /// Returns whether the key is present, valid or not.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.table.get(key).is_some()
    }

    /// Reports a mistake in this table, or below it.
    pub fn add(&self, mistake: Mistake) {
        match mistake.span_in(self.table, self.mistakes.source) {
            Some(span) => self.mistakes.add(span, mistake.into_message()),
            None => self.add_to_table(mistake.into_message()),
        }
    }

    /// Reports a mistake of this table as a whole.
    fn add_to_table(&self, message: String) {
        match &self.head {
            Some(head) => self.mistakes.add(head.clone(), message),
            None => self
                .mistakes
                .errors
                .borrow_mut()
                .push(FileError::without_position(self.mistakes.path, message)),
        }
    }

    /// Reports missing and unknown keys. A misspelt key is reported as unknown only.
    pub fn finish(self) {
        let is_known = |key: &str| self.has_taken_rest || self.known_keys.contains(key);
        let unknown: Vec<_> = self.table.keys().filter(|key| !is_known(key.get_ref())).collect();
        let is_misspelt = |missing: &str| {
            unknown.iter().any(|key| {
                text::nearest(key.get_ref(), self.known_keys.iter().copied()) == Some(missing)
            })
        };
        let is_missing = |key: &&str| !self.has(key) && !is_misspelt(key);
        let missing: Vec<&str> = self.required.iter().copied().filter(is_missing).collect();
        if !missing.is_empty() {
            let table =
                if self.name.is_empty() { "the file".into() } else { format!("`{}`", self.name) };
            self.add_to_table(format!(
                "{table} has no {}\nhint: the required keys are {}",
                join_keys(&missing),
                join_keys(&self.required)
            ));
        }
        let names =
            self.known_keys.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        for key in unknown {
            let message = format!("unknown field `{}`, expected one of {names}", key.get_ref());
            self.mistakes.add(key.span(), explain_unknown_field(&message));
        }
    }

    /// Returns the value of a key, and marks the key as known.
    fn take(&mut self, key: &'static str) -> Option<&'f Spanned<DeValue<'f>>> {
        self.known_keys.insert(key);
        self.table.get(key)
    }

    /// Converts a value with serde, and reports its mistake.
    fn read_value<T: DeserializeOwned>(&self, value: &Spanned<DeValue<'_>>) -> Option<T> {
        let read = T::deserialize(ValueDeserializer::from(value.clone()));
        read.map_err(|error| {
            let span = error.span().filter(|span| *span != (0..0)).unwrap_or_else(|| value.span());
            self.mistakes.add(span, explain_unknown_field(error.message()));
        })
        .ok()
    }

    fn inner_table(&self, name: String, value: &'f Spanned<DeValue<'f>>) -> Option<Keys<'f>> {
        let DeValue::Table(table) = value.get_ref() else {
            self.mistakes
                .add(value.span(), format!("`{name}`: must be a table of keys and values"));
            return None;
        };
        Some(Keys {
            table,
            name,
            head: Some(value.span()),
            known_keys: BTreeSet::new(),
            required: Vec::new(),
            has_taken_rest: false,
            mistakes: self.mistakes,
        })
    }

    /// Returns the path from the file to a key of this table.
    fn path_to(&self, key: &str) -> String {
        match self.name.trim_matches(['[', ']']) {
            "" => key.into(),
            name => format!("{name}.{key}"),
        }
    }
}

/// Joins keys: "`a`", "`a` and `b`", "`a`, `b` and `c`".
fn join_keys(keys: &[&str]) -> String {
    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    match keys.as_slice() {
        [] => String::new(),
        [key] => key.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mistake::mistake;

    #[derive(Debug, PartialEq)]
    struct Sample {
        name: String,
        sizes: Vec<u8>,
        parts: Vec<String>,
    }

    fn read_sample(source: &str) -> Result<Sample, String> {
        let result = read(Path::new("s.toml"), source, |keys| {
            let name = keys.take_required("name");
            let sizes = keys.take_required::<Vec<u8>>("sizes");
            let even = |n: u8| {
                if n.is_multiple_of(2) { Ok(n) } else { Err(mistake("pairs", "it is odd")) }
            };
            keys.parse("pairs", even);
            let parts = keys.tables("parts").into_iter().filter_map(|mut part| {
                let title = part.take_required("title");
                part.take_required::<u8>("weight");
                part.finish();
                title
            });
            let parts = parts.collect();
            Some(Sample { name: name?, sizes: sizes?, parts })
        });
        result.map_err(|error| error.to_string())
    }

    #[test]
    fn read_valid_file_returns_values() {
        let read = read_sample("name = \"a\"\nsizes = [1]\n[[parts]]\ntitle = \"p\"\nweight = 1\n")
            .unwrap();
        assert_eq!(read, Sample { name: "a".into(), sizes: vec![1], parts: vec!["p".into()] });
    }

    #[test]
    fn read_reports_all_mistakes_in_order() {
        let source = "nmae = \"a\"\nsizes = [1, 300]\npairs = 3\n[[parts]]\ntitel = \
                      1\n[[parts]]\ntitle = 2\nweight = 1\n";
        let text = read_sample(source).unwrap_err();
        let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("s.toml")).collect();
        let [unknown, sizes, pairs, part, titel, title] = heads.as_slice() else {
            panic!("{text}")
        };
        assert_eq!(*unknown, "s.toml:1:1: unknown key `nmae`");
        assert!(sizes.starts_with("s.toml:2:13: "), "{text}");
        assert_eq!(*pairs, "s.toml:3:9: it is odd");
        assert_eq!(*part, "s.toml:4:1: `[[parts]]` has no `weight`");
        assert_eq!(*titel, "s.toml:5:1: unknown key `titel`");
        assert!(title.starts_with("s.toml:7:9: invalid type: integer"), "{text}");
        assert_eq!(
            read_sample("").unwrap_err(),
            "s.toml: the file has no `name` and `sizes`\nhint: the required keys are `name` and \
             `sizes`"
        );
    }

    #[test]
    fn read_value_instead_of_table_fails() {
        let text = read_sample("name = \"a\"\nsizes = []\nparts = 3\n").unwrap_err();
        assert!(text.starts_with("s.toml:3:9: `parts`: must be a list of tables"), "{text}");
        let text = read_sample("name = \"a\"\nsizes = []\nparts = [3]\n").unwrap_err();
        assert!(text.starts_with("s.toml:3:10: `[[parts]]`: must be a table of keys"), "{text}");
        assert!(read_sample("name = ").unwrap_err().starts_with("s.toml:1:"));
    }
}
