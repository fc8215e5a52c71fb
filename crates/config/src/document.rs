//! Reads a TOML file whose values have their positions, even after some values override others.
//!
//! A suite's profile overrides values of the suite. An error must still name the line of the value.

use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::mistake::Mistake;
use crate::text::{self, FileError, explain_unknown_field};

/// A table of a file.
pub type TomlTable<'s> = DeTable<'s>;

/// A file, read as TOML.
#[derive(Clone, Debug)]
pub struct Document<'s> {
    path: &'s Path,
    source: &'s str,
    table: DeTable<'s>,
}

impl<'s> Document<'s> {
    /// # Errors
    /// The source is not valid TOML.
    pub fn parse(path: &'s Path, source: &'s str) -> Result<Document<'s>, FileError> {
        let table =
            DeTable::parse(source).map_err(|error| text::from_toml(path, source, &error))?;
        Ok(Document { path, source, table: table.into_inner() })
    }

    /// Takes the tables below a key out of the document, by their names.
    ///
    /// # Errors
    /// The value is not a table of tables.
    pub fn take_tables(&mut self, key: &str) -> Result<Vec<(String, DeTable<'s>)>, FileError> {
        let Some(value) = self.table.remove(key) else { return Ok(Vec::new()) };
        let error = |span| {
            let message = format!(
                "`{key}`: must be a table of tables\nhint: write each table as [{key}.NAME]"
            );
            FileError::from_span(self.path, self.source, span, message)
        };
        let span = value.span();
        let DeValue::Table(tables) = value.into_inner() else { return Err(error(span)) };
        let named = tables.into_iter().map(|(name, value)| {
            let span = value.span();
            let DeValue::Table(table) = value.into_inner() else { return Err(error(span)) };
            Ok((name.into_inner().into_owned(), table))
        });
        named.collect()
    }

    /// Overrides values with the values of another table: tables key by key, other values as a
    /// whole.
    pub fn overlay(&mut self, overrides: DeTable<'s>) {
        overlay(&mut self.table, overrides);
    }

    /// Returns the whole document as a value. The type of the value must refuse unknown keys
    /// (`deny_unknown_fields`).
    ///
    /// # Errors
    /// The first mistake, at its position.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, FileError> {
        self.read_part(Spanned::new(0..0, DeValue::Table(self.table.clone())))
    }

    /// Returns a value that was taken out of the document. The type of the value must refuse
    /// unknown keys.
    ///
    /// # Errors
    /// The first mistake, at its position.
    pub fn read_part<T: DeserializeOwned>(
        &self,
        part: Spanned<DeValue<'s>>,
    ) -> Result<T, FileError> {
        T::deserialize(ValueDeserializer::from(part)).map_err(|error| {
            let message = explain_unknown_field(error.message());
            // A key that is missing from the outermost table has no position.
            match error.span().filter(|span| *span != (0..0)) {
                Some(span) => FileError::from_span(self.path, self.source, span, message),
                None => FileError::without_position(self.path, message),
            }
        })
    }

    /// Returns a mistake with its line and column. A missing key is reported at the head of its
    /// table, or as a mistake of the whole file.
    #[must_use]
    pub fn locate(&self, mistake: Mistake) -> FileError {
        match mistake.span_in(&self.table, self.source) {
            Some(span) => {
                FileError::from_span(self.path, self.source, span, mistake.into_message())
            }
            None => FileError::without_position(self.path, mistake.into_message()),
        }
    }
}

fn overlay<'s>(table: &mut DeTable<'s>, overrides: DeTable<'s>) {
    for (key, value) in overrides {
        let span = value.span();
        match (table.get_mut(key.get_ref().as_ref()).map(Spanned::get_mut), value.into_inner()) {
            (Some(DeValue::Table(inner)), DeValue::Table(overrides)) => overlay(inner, overrides),
            (_, value) => {
                table.insert(key, Spanned::new(span, value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        a: Below,
        list: Vec<u32>,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Below {
        b: u32,
        c: u32,
    }

    fn read_with_overrides(source: &str) -> Result<Sample, String> {
        let mut document = Document::parse(Path::new("s.toml"), source).unwrap();
        let tables = document.take_tables("over").map_err(|error| error.to_string())?;
        tables.into_iter().for_each(|(_, table)| document.overlay(table));
        document.read().map_err(|error| error.to_string())
    }

    #[test]
    fn overlay_merges_tables_and_replaces_other_values() {
        let source = "list = [1, 2]\n[a]\nb = 1\nc = 2\n[over.x.a]\nc = 3\n[over.y]\nlist = [4]\n";
        assert_eq!(
            read_with_overrides(source).unwrap(),
            Sample { a: Below { b: 1, c: 3 }, list: vec![4] }
        );
        assert_eq!(
            read_with_overrides("list = []\na = { b = 1, c = 2 }\nover.x.a.b = 5\n").unwrap().a.b,
            5
        );
    }

    #[test]
    fn mistake_of_overriding_value_has_its_position() {
        let base = "list = [1]\n[a]\nb = 1\nc = 2\n";
        for (override_text, message) in [
            ("[over.x.a]\nc = \"two\"", "s.toml:6:5: "),
            ("[over.x.a]\nd = 1", "s.toml:6:1: unknown key `d`"),
            ("[over]\nx = 1", "s.toml:6:5: `over`: must be a table of tables"),
        ] {
            let error = read_with_overrides(&format!("{base}{override_text}\n")).unwrap_err();
            assert!(error.starts_with(message), "{override_text}: {error}");
        }
        let source = format!("{base}[over.x.a]\nc = 7\n");
        let mut document = Document::parse(Path::new("s.toml"), &source).unwrap();
        let (_, table) = document.take_tables("over").unwrap().remove(0);
        document.overlay(table);
        let locate = |key: &'static str| {
            document.locate(crate::mistake::mistake(key, "wrong").with_parent("a"))
        };
        assert_eq!(locate("c").position.unwrap().line, 6);
        assert_eq!(locate("b").position.unwrap().line, 3);
    }
}
