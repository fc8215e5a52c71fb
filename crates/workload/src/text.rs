//! Formats errors in files that users write: the file, the line, the wrong words, and a suggestion.

use std::fmt;
use std::path::Path;

use dyno_archive::hint;
use serde::de::{self, DeserializeOwned, Deserializer};

/// A mistake in a suite or subject file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    pub path: Box<Path>,
    /// `None`: the mistake concerns the whole file.
    pub position: Option<Position>,
    /// The problem, in one line.
    pub message: String,
    /// The action that fixes the mistake, if it is known.
    pub hint: Option<Box<str>>,
    /// The line, with the wrong words underlined.
    pub excerpt: Option<Box<str>>,
    /// The other mistakes of the file, if its reader collects all of them.
    pub more: Vec<FileError>,
}

/// A position in a file, as editors count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)?;
        self.excerpt.iter().try_for_each(|excerpt| write!(f, "\n{excerpt}"))?;
        self.hint.iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))?;
        self.more.iter().try_for_each(|error| write!(f, "\n{error}"))
    }
}

impl std::error::Error for FileError {}

impl FileError {
    /// Returns a mistake in the file as a whole. A last line `hint: …` of the message becomes the
    /// hint.
    pub fn without_position(path: &Path, message: impl Into<String>) -> FileError {
        let message = message.into();
        let (problem, hint) = hint::split(&message);
        FileError {
            path: path.into(),
            position: None,
            message: problem.into(),
            hint: hint.map(Into::into),
            excerpt: None,
            more: Vec::new(),
        }
    }

    /// Returns a mistake at a range of bytes. The excerpt has the first line of the range.
    pub fn from_span(
        path: &Path,
        source: &str,
        span: std::ops::Range<usize>,
        message: impl Into<String>,
    ) -> FileError {
        let start = span.start.min(source.len());
        let line_start = source[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = source[start..].find('\n').map_or(source.len(), |i| start + i);
        let number = source[..start].matches('\n').count() + 1;
        let line = source[line_start..line_end].trim_end_matches('\r');
        let column = source[line_start..start].chars().count() + 1;
        // Tabs are kept, so that both lines have the same width.
        let indent: String =
            source[line_start..start].chars().map(|c| if c == '\t' { c } else { ' ' }).collect();
        let width = source
            [start..span.end.clamp(start, line_start + line.len().max(start - line_start))]
            .chars()
            .count()
            .max(1);
        let gutter = number.to_string();
        let blank = " ".repeat(gutter.len());
        let excerpt =
            format!("{blank} |\n{gutter} | {line}\n{blank} | {indent}{}", "^".repeat(width));
        let position = Some(Position { line: number, column });
        let excerpt = Some(excerpt.into());
        FileError { position, excerpt, ..FileError::without_position(path, message) }
    }

    /// Joins the mistakes of one file into one error, in the order of their positions; `None`: no
    /// mistakes.
    #[must_use]
    pub fn join(mut errors: Vec<FileError>) -> Option<FileError> {
        errors.sort_by_key(|error| error.position);
        errors.dedup();
        let mut errors = errors.into_iter();
        let first = errors.next()?;
        Some(FileError { more: errors.collect(), ..first })
    }
}

/// Reads TOML into `T`, whose unknown keys must be refused (`deny_unknown_fields`).
pub fn parse_toml<T: DeserializeOwned>(path: &Path, source: &str) -> Result<T, FileError> {
    toml::from_str(source).map_err(|error| from_toml(path, source, &error))
}

/// Returns an error of the TOML reader, at its position.
pub(crate) fn from_toml(path: &Path, source: &str, error: &toml::de::Error) -> FileError {
    let message = explain_unknown_field(error.message());
    // A key that is missing from the outermost table has no position.
    match error.span().filter(|span| *span != (0..0)) {
        Some(span) => FileError::from_span(path, source, span, message),
        None => FileError::without_position(path, message),
    }
}

/// Reads a string with a special syntax, such as a duration. An error of `parse` has the position
/// of its string, also within a list. Parsing after reading would lose the position.
pub fn parse_string<'de, D: Deserializer<'de>, T>(
    from: D,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct Text<F>(F);

    impl<T, F: Fn(&str) -> Result<T, String>> de::Visitor<'_> for Text<F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            (self.0)(text).map_err(E::custom)
        }
    }

    from.deserialize_str(Text(parse))
}

/// Rewords serde's "unknown field `x`, expected one of …" as a problem with a hint.
pub(crate) fn explain_unknown_field(message: &str) -> String {
    let Some(rest) =
        message.strip_prefix("unknown field ").or_else(|| message.strip_prefix("unknown variant "))
    else {
        return without_rust_types(message);
    };
    let kind = if message.starts_with("unknown field") { "key" } else { "value" };
    let words: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let Some((typed, names)) = words.split_first() else { return message.to_string() };
    let hint = match nearest(typed, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("use one of {}", names.join(", ")),
    };
    format!("unknown {kind} `{typed}`\nhint: {hint}")
}

/// Replaces the names of Rust's types in a message by descriptions.
fn without_rust_types(message: &str) -> String {
    let Some((found, expected)) = message.split_once(", expected ") else { return message.into() };
    let is_number = found.contains("integer `") || found.contains("floating point `");
    let expected = match expected {
        "u8" => "a whole number from 0 to 255, without quotes",
        "u16" => "a whole number from 0 to 65535, without quotes",
        "u32" => "a whole number from 0 to 4294967295, without quotes",
        "u64" | "usize" => "a whole number, 0 or more, without quotes",
        "i32" | "i64" => "a whole number without quotes",
        "f64" => "a number without quotes",
        "a boolean" => "`true` or `false`",
        "a sequence" => "a list, `[…]`",
        "a map" => "a table, `{ name = … }`",
        "a string" if is_number => {
            "a text in quotes\nhint: write times and sizes with units, such as \"10s\" and \
             \"64KiB\""
        }
        "a string" => "a text in quotes",
        other => other,
    };
    format!("{found}, expected {expected}")
}

/// Returns the known word that is most similar to `typed`; `None`: no word is similar.
pub fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|word| (strsim::jaro_winkler(typed, word), word))
        .filter(|(similarity, _)| *similarity > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[allow(dead_code)]
        repeats: u32,
        #[allow(dead_code)]
        #[serde(default)]
        order: dyno_archive::plan::Order,
    }

    fn error(source: &str) -> String {
        parse_toml::<Sample>(Path::new("s.toml"), source).unwrap_err().to_string()
    }

    #[test]
    fn typo_in_key_is_underlined_with_suggestion() {
        assert_eq!(
            error("# suite\nrepeat = 3\n"),
            "s.toml:2:1: unknown key `repeat`\n  |\n2 | repeat = 3\n  | ^^^^^^\nhint: did you mean \
             `repeats`?"
        );
        let value = error("repeats = 1\norder = \"radnom\"");
        assert!(value.contains(": unknown value `radnom`\n"), "{value}");
        assert!(value.ends_with("\nhint: did you mean `random`?"), "{value}");
        let key = error("repeats = 1\nzzz = 1");
        assert!(key.ends_with("\nhint: use one of repeats, order"), "{key}");
    }

    #[test]
    fn syntax_error_has_position() {
        let text = error("repeats = 3\nx = = 1");
        assert!(text.starts_with("s.toml:2:5: "), "{text}");
    }
}
