//! Formats errors in files that users write: the file, the line, the wrong words, and a suggestion.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use serde::de::{self, DeserializeOwned, Deserializer};

use crate::hint;
use crate::quotation::{MARK, quote_line, secret_ranges, without_found_value};

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

    /// Returns a mistake at a range of bytes. The excerpt has the first line of the range. In a
    /// string of several lines, it has the line with the words that the message quotes. Neither the
    /// excerpt nor the message has values that may be secret.
    pub fn from_span(
        path: &Path,
        source: &str,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> FileError {
        let message = message.into();
        let span = words_in_string(source, &span, &message).unwrap_or(span);
        let start = span.start.min(source.len());
        let line_start = source[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = source[start..].find('\n').map_or(source.len(), |i| start + i);
        let number = source[..start].matches('\n').count() + 1;
        let line_end = line_start + source[line_start..line_end].trim_end_matches('\r').len();
        let column = source[line_start..start].chars().count() + 1;
        let end = span.end.clamp(start, line_end.max(start));
        let secrets = secret_ranges(source);
        let quoted =
            quote_line(source, &secrets, &(line_start..line_end.max(start)), &(start..end));
        let line = quoted.text;
        // Tabs are kept, so that both lines have the same width.
        let indent: String =
            line[..quoted.range.start].chars().map(|c| if c == '\t' { c } else { ' ' }).collect();
        let width = line[quoted.range].chars().count().max(1);
        let gutter = number.to_string();
        let blank = " ".repeat(gutter.len());
        let excerpt =
            format!("{blank} |\n{gutter} | {line}\n{blank} | {indent}{}", "^".repeat(width));
        let position = Some(Position { line: number, column });
        let excerpt = Some(excerpt.into());
        let message = without_values(&message, source, &secrets, &span);
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

/// Returns the range of the words that a message quotes, in braces or in quotes, within a string of
/// several lines. `None`: `span` is not a string of several lines, or does not have the words.
fn words_in_string(source: &str, span: &Range<usize>, message: &str) -> Option<Range<usize>> {
    let value = source.get(span.clone())?;
    let is_long_string = value.starts_with("\"\"\"") || value.starts_with("'''");
    if !is_long_string || !value.contains('\n') {
        return None;
    }
    let (problem, _) = hint::split(message);
    let between = |open: char, close: char, includes_marks: bool| {
        let start = problem.find(open)?;
        let inside = &problem[start + 1..];
        let end = start + 1 + inside.find(close)?;
        let words = if includes_marks { &problem[start..=end] } else { &problem[start + 1..end] };
        let at = value.find(words).filter(|_| !words.is_empty())?;
        Some(span.start + at..span.start + at + words.len())
    };
    between('{', '}', true)
        .or_else(|| between('"', '"', false))
        .or_else(|| between('`', '`', false))
}

/// Minimum length of a secret that is erased from a message. Shorter texts occur in ordinary words.
const MIN_ERASED_BYTES: usize = 4;

/// Returns a message on a range of the source without the secrets in that range.
fn without_values(
    message: &str,
    source: &str,
    secrets: &[Range<usize>],
    span: &Range<usize>,
) -> String {
    let is_in_span = |secret: &&Range<usize>| secret.start < span.end && span.start < secret.end;
    let in_span: Vec<&Range<usize>> = secrets.iter().filter(is_in_span).collect();
    if in_span.is_empty() {
        return message.into();
    }
    // The range may be a part of a longer secret, such as an item of a list.
    let part = |secret: &Range<usize>| secret.start.max(span.start)..secret.end.min(span.end);
    let values = in_span.iter().flat_map(|secret| [(*secret).clone(), part(secret)]);
    let values = values.map(|range| source[range].trim_matches(['"', '\'', ' ']));
    let long = values.filter(|value| value.len() >= MIN_ERASED_BYTES);
    long.fold(without_found_value(message), |message, value| message.replace(value, MARK))
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
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
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
        order: SampleOrder,
    }

    #[derive(Debug, Default, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum SampleOrder {
        #[default]
        Random,
        Fixed,
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
    fn mistake_in_string_of_several_lines_has_line_of_its_words() {
        let source = "a = 1\nbody = \"\"\"\nfirst\n  {rand:9} last\n\"\"\"\n";
        let start = source.find("\"\"\"").unwrap();
        let line = |message: &str| {
            let span = start..source.len() - 1;
            FileError::from_span(Path::new("s.toml"), source, span, message).to_string()
        };
        for (message, begin, underlined) in [
            (
                "request \"x\": {rand:9}: not a range",
                "s.toml:4:3: ",
                "4 |   {rand:9} last\n  |   ^^^^^^^^",
            ),
            ("unknown word \"last\"", "s.toml:4:12: ", "4 |   {rand:9} last\n  |            ^^^^"),
            ("not a body", "s.toml:2:8: ", "2 | body = \"\"\"\n  |        ^^^"),
            ("not {one}", "s.toml:2:8: ", "2 | body = \"\"\"\n  |        ^^^"),
        ] {
            let text = line(message);
            assert!(text.starts_with(begin) && text.contains(underlined), "{message}: {text}");
        }
    }

    #[test]
    fn excerpt_and_message_have_no_secret() {
        let wrong = |source: &str, words: &str, message: &str| {
            let start = source.find(words).unwrap();
            let span = start..start + words.len();
            FileError::from_span(Path::new("s.toml"), source, span, message).to_string()
        };
        let source = "headers = { Authorization = \"Bearer abc123\", X = 5 }";
        let shown = wrong(source, "5", "not a text");
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "s.toml:1:50: not a text");
        assert_eq!(lines[2], "1 | headers = { Authorization = \"…\", X = 5 }");
        assert_eq!(
            lines[3].chars().position(|c| c == '^'),
            lines[2].chars().position(|c| c == '5')
        );
        let text = wrong("DB_PASSWORD = 1234", "1234", "invalid type: integer `1234`, expected u8");
        assert!(text.contains("integer, expected u8\n") && !text.contains("1234"), "{text}");
        let source = "token = [\n\"abc\",\n\"defgh\"\n]";
        let text = wrong(source, "defgh", "defgh: wrong");
        assert!(text.starts_with("s.toml:3:2: ") && !text.contains("defgh"), "{text}");
    }

    #[test]
    fn syntax_error_has_position() {
        let text = error("repeats = 3\nx = = 1");
        assert!(text.starts_with("s.toml:2:5: "), "{text}");
    }
}
