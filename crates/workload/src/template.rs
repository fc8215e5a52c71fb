//! Parses placeholders in requests: `{seq}`, `{rand:1..100}`, `{uuid}`, `{intended}`,
//! `{csv:FILE:COLUMN}`, `{fill:64KiB}` and `{extract.NAME}`.
//!
//! Doubled braces, `{{seq}}`, are literal. [`crate::request_values`] replaces `{request.NAME}`
//! before this module runs.

use std::collections::HashMap;
use std::io::Read as _;
use std::sync::Arc;

use csv::ByteRecord;
use dyno_config::quotation::plain;
use dyno_config::units;
use dyno_engine::traffic::RequestPart;
use dyno_model::plan::EXTRACTED_VALUE;

use crate::ReadFile;
use crate::value_names::ValueNames;

/// Values of a column of a file.
type Column = Arc<[Box<[u8]>]>;

/// Reads placeholders, and each column of each file once.
pub struct Templates<'a> {
    read: ReadFile<'a>,
    columns: HashMap<(String, String), Column>,
    /// The values of `{extract.NAME}`.
    pub values: ValueNames,
}

impl std::fmt::Debug for Templates<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Templates").field("columns", &self.columns.keys()).finish_non_exhaustive()
    }
}

const NAMES: [&str; 6] = ["seq", "rand", "uuid", "intended", "csv", "fill"];

/// Prefix of names whose values depend on the subject.
const SUBJECT_VALUE: &str = "request.";

/// Maximum number of bytes of one `{fill:…}`. Each connection stores the requests in memory.
const MAX_FILL: u64 = 16 << 20;

impl<'a> Templates<'a> {
    /// `values`: the values of `{extract.NAME}`.
    pub fn new(read: ReadFile<'a>, values: ValueNames) -> Self {
        Templates { read, columns: HashMap::new(), values }
    }

    /// Splits `text` into its parts. Braces without a known name are literal, because JSON has many
    /// of them.
    pub fn parse(&mut self, text: &[u8]) -> Result<Vec<RequestPart>, String> {
        let mut parts = Vec::new();
        let mut literal_bytes = Vec::new();
        let mut rest = text;
        while let Some(&byte) = rest.first() {
            if let Some((inside, after)) = parse_escaped(rest) {
                literal_bytes.extend_from_slice(inside);
                rest = after;
            } else if let Some((inside, after)) = parse_placeholder(rest) {
                if !literal_bytes.is_empty() {
                    parts.push(RequestPart::Bytes(std::mem::take(&mut literal_bytes).into()));
                }
                parts.push(self.parse_part(inside)?);
                rest = after;
            } else {
                literal_bytes.push(byte);
                rest = &rest[1..];
            }
        }
        if !literal_bytes.is_empty() {
            parts.push(RequestPart::Bytes(literal_bytes.into()));
        }
        Ok(parts)
    }

    /// Parses the text between the braces of a placeholder.
    fn parse_part(&mut self, inside: &str) -> Result<RequestPart, String> {
        let (name, argument) = inside.split_once(':').map_or((inside, None), |(n, a)| (n, Some(a)));
        match (name, argument) {
            ("seq", None) => Ok(RequestPart::Sequence),
            ("uuid", None) => Ok(RequestPart::Uuid),
            ("intended", None) => Ok(RequestPart::Intended),
            ("rand", Some(range)) => parse_random(range),
            ("fill", Some(size)) => parse_fill(size),
            ("csv", Some(argument)) => {
                let (file, column) = argument.rsplit_once(':').ok_or_else(|| {
                    format!(
                        "{{{inside}}}: has no column\nhint: write it like {{csv:users.csv:name}}, \
                         or {{csv:users.csv:2}} for the second column"
                    )
                })?;
                Ok(RequestPart::Column(self.column(file, column)?))
            }
            (_, None) if name.starts_with(EXTRACTED_VALUE) => {
                self.values.part(&name[EXTRACTED_VALUE.len()..])
            }
            _ if name.starts_with(SUBJECT_VALUE) => Err(format!(
                "{{{inside}}}: has no value here\nhint: set `request = {{ {} = … }}` for each \
                 subject of a suite, or vary the value in an experiment. To send the text itself, \
                 write {{{{{inside}}}}}",
                &name[SUBJECT_VALUE.len()..]
            )),
            _ => Err(format!(
                "{{{}}}: unknown placeholder\nhint: use {{seq}}, {{uuid}}, {{intended}}, \
                 {{rand:1..100}}, {{fill:64KiB}} or {{csv:FILE:COLUMN}}. To send the text itself, \
                 write {{{{{}}}}}",
                plain(inside),
                plain(name)
            )),
        }
    }

    fn column(&mut self, file: &str, column: &str) -> Result<Column, String> {
        let key = (file.to_string(), column.to_string());
        if let Some(values) = self.columns.get(&key) {
            return Ok(values.clone());
        }
        let bytes = (self.read)(file).map_err(|error| format!("{file}: {error}"))?;
        let values: Column = read_column(file, &bytes, column)?.into();
        self.columns.insert(key, values.clone());
        Ok(values)
    }
}

/// Returns the template that is sent as exactly these bytes: each placeholder gets a second pair of
/// braces. Imported text is therefore sent unchanged.
#[must_use]
pub fn literal(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(&byte) = rest.first() {
        let Some((_, after)) = parse_placeholder(rest) else {
            out.push(byte);
            rest = &rest[1..];
            continue;
        };
        out.push(b'{');
        out.extend_from_slice(&rest[..rest.len() - after.len()]);
        out.push(b'}');
        rest = after;
    }
    out
}

/// Returns the template of a string, as [`literal`] does for bytes.
#[must_use]
pub fn literal_text(text: &str) -> String {
    // Only ASCII is added, between characters.
    String::from_utf8(literal(text.as_bytes()))
        .expect("braces between characters should keep the text UTF-8")
}

/// Parses `{{name…}}` at the start of `text`. Returns `{name…}`, which is literal, and the rest.
fn parse_escaped(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, after) = parse_placeholder(text.strip_prefix(b"{")?)?;
    let after = after.strip_prefix(b"}")?;
    // The inner pair of braces, and the text between them.
    Some((&text[1..text.len() - after.len() - 1], after))
}

/// Parses `{name…}` with a known name at the start of `text`. Returns the inner text, and the rest.
fn parse_placeholder(text: &[u8]) -> Option<(&str, &[u8])> {
    let inside = text.strip_prefix(b"{")?;
    let end = inside.iter().position(|&b| b == b'}' || b == b'{' || b == b'\n')?;
    let after = inside[end..].strip_prefix(b"}")?;
    let inside = std::str::from_utf8(&inside[..end]).ok()?;
    let name = inside.split(':').next()?;
    let is_prefixed = [SUBJECT_VALUE, EXTRACTED_VALUE].iter().any(|p| name.starts_with(p));
    (NAMES.contains(&name) || is_prefixed).then_some((inside, after))
}

/// Treatment of `{{request.NAME}}`.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum DoubledBraces {
    /// Both pairs stay, because the text will be parsed for placeholders again.
    Keep,
    /// One pair is removed, which leaves `{request.NAME}`: the text is final.
    Unescape,
}

/// Returns the text with `{request.NAME}` replaced by `value` of NAME. Names without a value are
/// kept.
pub(crate) fn fill_request_values(
    text: &[u8],
    doubled: DoubledBraces,
    value: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(&byte) = rest.first() {
        let escaped = parse_escaped(rest);
        let placeholder =
            parse_placeholder(rest).filter(|(inside, _)| inside.starts_with(SUBJECT_VALUE));
        let filled = placeholder
            .and_then(|(inside, after)| Some((value(&inside[SUBJECT_VALUE.len()..])?, after)));
        match (escaped, filled) {
            (Some((inside, after)), _) => {
                let is_subject_value = inside[1..].starts_with(SUBJECT_VALUE.as_bytes());
                let is_unescaped = is_subject_value && doubled == DoubledBraces::Unescape;
                out.extend_from_slice(if is_unescaped {
                    inside
                } else {
                    &rest[..rest.len() - after.len()]
                });
                rest = after;
            }
            (None, Some((value, after))) => {
                out.extend(value);
                rest = after;
            }
            (None, None) => {
                out.push(byte);
                rest = &rest[1..];
            }
        }
    }
    out
}

/// Returns the approximate length of a text with its values, in bytes. `{fill:…}` counts with the
/// length of its value. Other placeholders count with the length of their own text, because their
/// values are short.
#[must_use]
pub fn length(text: &[u8]) -> u64 {
    let (mut length, mut rest) = (0, text);
    while let Some(open) = rest.iter().position(|&byte| byte == b'{') {
        length += open as u64;
        rest = &rest[open..];
        if let Some((inside, after)) = parse_escaped(rest) {
            length += inside.len() as u64;
            rest = after;
        } else if let Some((inside, after)) = parse_placeholder(rest) {
            let size = inside.strip_prefix("fill:").and_then(|size| units::bytes(size).ok());
            length += size.unwrap_or((rest.len() - after.len()) as u64);
            rest = after;
        } else {
            length += 1;
            rest = &rest[1..];
        }
    }
    length + rest.len() as u64
}

/// Parses the size of a `{fill:…}`. Returns as many letters x.
fn parse_fill(size: &str) -> Result<RequestPart, String> {
    let bytes = units::bytes(size)
        .map_err(|_| format!("{{fill:{size}}}: not a size\nhint: write it like {{fill:64KiB}}"))?;
    if bytes > MAX_FILL {
        return Err(format!(
            "{{fill:{size}}}: must be at most {} MiB\nhint: use a `body_file` for a longer body",
            MAX_FILL >> 20
        ));
    }
    Ok(RequestPart::Bytes(vec![b'x'; bytes as usize].into()))
}

fn parse_random(range: &str) -> Result<RequestPart, String> {
    let error = || {
        format!(
            "{{rand:{range}}}: not a range\nhint: write it like {{rand:1..100}}, which includes \
             both ends"
        )
    };
    let (from, to) = range.split_once("..").ok_or_else(error)?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| error());
    let (from, to) = (number(from)?, number(to)?);
    if from > to { Err(error()) } else { Ok(RequestPart::Random(from, to)) }
}

/// Returns the values of a column, by its number from 1 or by its name in the first line.
fn read_column(file: &str, bytes: &[u8], column: &str) -> Result<Vec<Box<[u8]>>, String> {
    let records = read_records(file, bytes)?;
    let first = records.first().ok_or_else(|| format!("{file}: the file is empty"))?;
    // If the column is given by its name, the first line has the names. Otherwise the first line
    // has values.
    let (index, skip) = match column.parse::<usize>() {
        Ok(number @ 1..) => (number - 1, 0),
        _ => (find_column(file, first, column)?, 1),
    };
    let values = records.iter().skip(skip).map(|record| {
        record.get(index).map(Box::from).ok_or_else(|| {
            format!(
                "{file}:{}: no column {column}\nhint: use a column that each row has. A number is \
                 the position of a column, not its name",
                line(record)
            )
        })
    });
    let values = values.collect::<Result<Vec<_>, _>>()?;
    if values.is_empty() {
        Err(format!("{file}: no rows below the line with the names of the columns"))
    } else {
        Ok(values)
    }
}

/// Reads the rows of a file.
fn read_records(file: &str, bytes: &[u8]) -> Result<Vec<ByteRecord>, String> {
    // The reader accepts a quote without an end. Such a quote includes the line that is added here,
    // which otherwise is the last row.
    let source = bytes.chain(&b"\nEND"[..]);
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(source);
    let records = reader.byte_records().collect::<Result<Vec<_>, _>>();
    let mut records = records.map_err(|error| format!("{file}: {error}"))?;
    match records.pop() {
        Some(last) if last.as_slice() != b"END" => Err(format!(
            "{file}:{}: a quote in this row has no end\nhint: close the quote. A quote within a \
             quoted value is written twice",
            line(&last)
        )),
        _ => Ok(records),
    }
}

/// Returns the index of the column with this name in the first line.
fn find_column(file: &str, first: &ByteRecord, name: &str) -> Result<usize, String> {
    let mut columns = first.iter().enumerate().filter(|(_, cell)| *cell == name.as_bytes());
    match (columns.next(), columns.next()) {
        (Some((index, _)), None) => Ok(index),
        (Some(_), Some(_)) => Err(format!(
            "{file}:{}: two columns have the name {name:?}\nhint: rename one of them",
            line(first)
        )),
        (None, _) => {
            let names: Vec<_> = first.iter().map(String::from_utf8_lossy).collect();
            Err(format!(
                "{file}: no column {name:?}\nhint: use a column of the first line: {}",
                names.join(", ")
            ))
        }
    }
}

/// Returns the line at which a row begins, from 1.
fn line(record: &ByteRecord) -> u64 {
    record.position().map_or(1, csv::Position::line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<RequestPart>, String> {
        let read = |path: &str| match path {
            "u.csv" => Ok(b"id,name\n7,ann\n8,\"b, c\"\n".to_vec()),
            "n.csv" => Ok(b"5,1\n6,2\n".to_vec()),
            "open.csv" => Ok(b"id,note\n7,\"a\nb\"\n8,\"c\n9,d\n".to_vec()),
            "closed.csv" => Ok(b"7\n\"a\nEND\"".to_vec()),
            "twice.csv" => Ok(b"id,a,id\n7,x,8\n".to_vec()),
            "short.csv" => Ok(b"id,note\n7,\"a\nb\"\n8\n".to_vec()),
            "bom.csv" => Ok(b"\xEF\xBB\xBF\"id\",name\n7,ann\n".to_vec()),
            _ => Err("no such file".to_string()),
        };
        Templates::new(&read, ValueNames::default()).parse(text.as_bytes())
    }

    fn bytes(text: &str) -> RequestPart {
        RequestPart::Bytes(text.as_bytes().into())
    }

    fn column(values: &[&str]) -> RequestPart {
        RequestPart::Column(values.iter().map(|v| Box::from(v.as_bytes())).collect())
    }

    #[test]
    fn parse_splits_text_and_placeholders() {
        assert_eq!(
            parse("/a/{seq}?b={rand:1..9}&u={uuid}").unwrap(),
            [
                bytes("/a/"),
                RequestPart::Sequence,
                bytes("?b="),
                RequestPart::Random(1, 9),
                bytes("&u="),
                RequestPart::Uuid
            ]
        );
        assert_eq!(parse("{csv:u.csv:name}").unwrap(), [column(&["ann", "b, c"])]);
        assert_eq!(parse("{csv:u.csv:1}").unwrap(), [column(&["id", "7", "8"])]);
        // A cell of the first row equals the number of another column.
        assert_eq!(parse("{csv:n.csv:1}").unwrap(), [column(&["5", "6"])]);
        assert_eq!(parse("{csv:n.csv:2}").unwrap(), [column(&["1", "2"])]);
        assert_eq!(parse("{csv:closed.csv:1}").unwrap(), [column(&["7", "a\nEND"])]);
        assert_eq!(parse("{csv:twice.csv:3}").unwrap(), [column(&["id", "8"])]);
        assert_eq!(parse("{csv:bom.csv:id}").unwrap(), [column(&["7"])]);
        assert_eq!(parse("{csv:bom.csv:1}").unwrap(), [column(&["id", "7"])]);
        assert_eq!(parse("{fill:3}").unwrap(), [bytes("xxx")]);
        assert_eq!(parse("{fill:1KiB}").unwrap(), [bytes(&"x".repeat(1024))]);
        for (text, expected) in [
            ("", 0),
            ("abc", 3),
            ("a{fill:1KiB}b{fill:2}", 1028),
            ("{{fill:1KiB}}", 11),
            ("{}{", 3),
        ] {
            assert_eq!(length(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn parse_unknown_braces_returns_text() {
        for text in
            ["{\"a\":{\"b\":1}}", "{}", "{", "{seq", "{se q}", "{unknown}", "{\n}", "{{\"a\":1}}"]
        {
            assert_eq!(parse(text).unwrap(), [bytes(text)], "{text}");
        }
        assert_eq!(
            parse("{{seq}}{{rand:1..2}}{{request.a}}").unwrap(),
            [bytes("{seq}{rand:1..2}{request.a}")]
        );
        assert_eq!(
            parse("{\"n\":{seq}}").unwrap(),
            [bytes("{\"n\":"), RequestPart::Sequence, bytes("}")]
        );
    }

    proptest::proptest! {
        /// Imported text is never parsed as a placeholder, for any mixture of braces.
        #[test]
        fn parse_of_literal_returns_same_text(words in proptest::collection::vec(
            proptest::sample::select(vec![
                "{", "}", "seq", "{seq}", "{{seq}}", "{request.a}", "{csv:/etc/passwd:1}", ":",
                "{rand}", "ä", "\n", "{uuid",
            ]),
            0..12,
        )) {
            let text = words.concat();
            let expected = if text.is_empty() { vec![] } else { vec![bytes(&text)] };
            proptest::prop_assert_eq!(parse(&literal_text(&text)).unwrap(), expected);
        }
    }

    #[test]
    fn parse_error_has_example() {
        for (text, words) in [
            ("{request.size}", "`request = { size = … }`"),
            ("{fill}", "use {seq}"),
            ("{fill:much}", "{fill:64KiB}"),
            ("{fill:1GiB}", "at most 16 MiB"),
            ("{seq:1}", "use {seq}"),
            ("{rand}", "use {seq}"),
            ("{rand:9..1}", "{rand:1..100}"),
            ("{rand:a..b}", "{rand:1..100}"),
            ("{csv:u.csv}", "{csv:users.csv:name}"),
            ("{csv:u.csv:nam}", "id, name"),
            ("{csv:x.csv:1}", "x.csv: no such file"),
            ("{csv:u.csv:3}", "u.csv:1: no column 3"),
            ("{csv:u.csv:0}", "id, name"),
            ("{csv:n.csv:5}", "n.csv:1: no column 5\nhint: use a column that each row has"),
            ("{csv:short.csv:note}", "short.csv:4: no column note"),
            ("{csv:open.csv:id}", "open.csv:4: a quote in this row has no end"),
            ("{csv:twice.csv:id}", "twice.csv:1: two columns have the name \"id\""),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
