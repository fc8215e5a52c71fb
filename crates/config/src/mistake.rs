//! Mistakes in the values of a file: the path of keys to the wrong value, and its position.
//!
//! A check knows only the key of the value that it checks. The callers of the check add the outer
//! keys. The complete path gives line and column.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::text::FileError;

/// One step down into a document: `workloads[1].path` has three.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// A key of a table.
    Key(Cow<'static, str>),
    /// An index of an array, from 0.
    Index(usize),
}

impl From<&'static str> for PathStep {
    fn from(key: &'static str) -> PathStep {
        PathStep::Key(key.into())
    }
}

impl From<String> for PathStep {
    fn from(key: String) -> PathStep {
        PathStep::Key(key.into())
    }
}

impl From<usize> for PathStep {
    fn from(index: usize) -> PathStep {
        PathStep::Index(index)
    }
}

/// A wrong value in a file. The check that finds it knows its key; callers add the tables and lists
/// that it is in ([`Mistake::with_parent`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    path: Vec<PathStep>,
    /// The wrong part of the value, if known.
    words: Option<String>,
    message: String,
}

/// Returns a mistake in the value of a key, or of a table that lacks the key.
pub fn mistake(key: impl Into<PathStep>, message: impl Into<String>) -> Mistake {
    Mistake { path: vec![key.into()], words: None, message: message.into() }
}

impl Mistake {
    /// Returns the mistake with a key added before its path.
    #[must_use]
    pub fn with_parent(mut self, step: impl Into<PathStep>) -> Mistake {
        self.path.insert(0, step.into());
        self
    }

    /// Returns the mistake with a key added after its path.
    #[must_use]
    pub fn with_child(mut self, step: impl Into<PathStep>) -> Mistake {
        self.path.push(step.into());
        self
    }

    /// Returns the mistake limited to some words of the value, if the value contains these words.
    #[must_use]
    pub fn with_words(mut self, words: Option<String>) -> Mistake {
        self.words = words;
        self
    }

    /// Returns the mistake with a prefix before its message.
    #[must_use]
    pub fn with_prefix(mut self, prefix: &str) -> Mistake {
        self.message = format!("{prefix}: {}", self.message);
        self
    }

    /// Returns the first key of the path; `None`: the path begins with an index.
    #[must_use]
    pub fn first_key(&self) -> Option<&str> {
        match self.path.first() {
            Some(PathStep::Key(key)) => Some(key),
            _ => None,
        }
    }

    /// Returns the message, without a position.
    #[must_use]
    pub fn into_message(self) -> String {
        self.message
    }

    /// Returns the mistake with its line and column. A missing key is reported at the head of its
    /// table, or as a mistake of the whole file.
    #[must_use]
    pub fn locate(self, path: &Path, source: &str) -> FileError {
        let document = DeTable::parse(source).ok();
        match document.and_then(|document| self.span_in(document.get_ref(), source)) {
            Some(span) => FileError::from_span(path, source, span, self.message),
            None => FileError::without_position(path, self.message),
        }
    }

    /// Returns the range of the wrong bytes in the source: the value at the end of the path, or the
    /// innermost value of the path that exists. `None`: the first key does not exist.
    pub(crate) fn span_in(&self, table: &DeTable<'_>, source: &str) -> Option<Range<usize>> {
        let (first, rest) = self.path.split_first()?;
        let PathStep::Key(first) = first else { return None };
        let mut value = table.get(first.as_ref())?;
        for step in rest {
            match inner_value(value, step) {
                Some(inner) => value = inner,
                None => break,
            }
        }
        let span = value.span();
        let words = self.words.as_deref().filter(|words| !words.is_empty());
        let Some((words, offset)) =
            words.and_then(|words| Some((words, source[span.clone()].find(words)?)))
        else {
            return Some(span);
        };
        Some(span.start + offset..span.start + offset + words.len())
    }
}

/// Returns the value of a table's key or at an array's index.
fn inner_value<'d, 's>(
    value: &'d Spanned<DeValue<'s>>,
    step: &PathStep,
) -> Option<&'d Spanned<DeValue<'s>>> {
    match (value.get_ref(), step) {
        (DeValue::Table(table), PathStep::Key(key)) => table.get(key.as_ref()),
        (DeValue::Array(array), PathStep::Index(index)) => array.get(*index),
        _ => None,
    }
}

/// Checks that a number is above 0.
pub fn positive(key: &'static str, n: u32) -> Result<u32, Mistake> {
    if n == 0 { Err(mistake(key, format!("`{key}`: must be at least 1"))) } else { Ok(n) }
}

/// Checks that a list has an entry, and that all its numbers are above 0.
pub fn all_positive(key: &'static str, numbers: &[u32]) -> Result<(), Mistake> {
    if numbers.is_empty() {
        return Err(mistake(key, format!("`{key}`: the list must have at least one entry")));
    }
    numbers
        .iter()
        .enumerate()
        .try_for_each(|(i, n)| positive(key, *n).map(drop).map_err(|m| m.with_child(i)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_key_is_located_at_head_of_its_table() {
        let head = |source: &str| {
            mistake("a", "wrong").with_child("x").locate(Path::new("s.toml"), source).to_string()
        };
        for (source, begin) in [
            ("\n[a]\nb = 1\n", "s.toml:2:1: "),
            ("\n\n[a.b]\nc = 1\n", "s.toml:3:"),
            ("\n\na.b = 1\n", "s.toml:3:"),
            ("\na = {\n  b = 1\n}\n", "s.toml:2:5: "),
            ("\n[[a]]\nb = 1\n", "s.toml:2:"),
            ("\n[b]\n", "s.toml: "),
        ] {
            let text = head(source);
            assert!(text.starts_with(begin), "{source}: {text}");
        }
    }
}
