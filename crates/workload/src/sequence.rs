//! Reads the values that requests of a sequence extract, from suites and from the command line.

use dyno_config::mistake::{Mistake, mistake};
use dyno_config::quotation::quote;
use dyno_model::plan::{Extraction, ExtractionSource};
use serde::Deserialize;

use crate::limits;

/// Message for cookies without a sequence.
pub const COOKIES_NEED_STEPS: &str = concat!(
    "`cookies`: only the visitors of a sequence keep cookies. The requests of a mix are drawn at ",
    "random and belong to no visitor\n",
    "hint: write the requests as `[[workloads.steps]]`, or remove `cookies`",
);

/// Message for a sequence of one request.
pub const SINGLE_STEP: &str = "`steps`: a sequence needs at least two steps\nhint: add the request \
                           that follows, or set `path` in the workload instead";

/// Returns the message for more steps than [`limits::STEPS`].
#[must_use]
pub fn too_many_steps(steps: usize) -> String {
    format!(
        "{steps} steps exceed the limit of {} in one sequence\nhint: split the sequence into \
         several workloads",
        limits::STEPS
    )
}

/// An extraction of a file, with unchecked values.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawExtraction {
    json: Option<String>,
    header: Option<String>,
    matches: Option<String>,
}

impl RawExtraction {
    /// Returns the extraction of the value of this name. The position of a mistake is a path from
    /// the extraction's own table.
    ///
    /// # Errors
    /// The name or the source cannot be used.
    pub fn check(self, name: String) -> Result<Extraction, Mistake> {
        let whole = |message: String| mistake(name.clone(), message);
        check_name(&name).map_err(whole)?;
        let source = match (self.json, self.header) {
            (Some(_), Some(_)) => {
                return Err(whole(format!(
                    "value {name:?}: has both `json` and `header`\nhint: remove one of the two"
                )));
            }
            (Some(pointer), None) => ExtractionSource::Json(pointer),
            (None, Some(header)) => ExtractionSource::Header(header),
            (None, None) if self.matches.is_some() => ExtractionSource::Body,
            (None, None) => {
                return Err(whole(format!(
                    "value {name:?}: has no source\nhint: write it like {{ json = \"/token\" }}, \
                     {{ header = \"Location\" }} or {{ matches = \"id=([0-9]+)\" }}"
                )));
            }
        };
        Ok(Extraction { name, source, matches: self.matches })
    }
}

/// Checks the name of a value, which is part of a placeholder.
fn check_name(name: &str) -> Result<(), String> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if !name.is_empty() && name.chars().all(is_valid) {
        return Ok(());
    }
    Err(format!(
        "value {}: not a name\nhint: use letters, digits, - and _, such as access_token",
        quote(name)
    ))
}

/// An extraction of the command line, and the number of its step, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepExtraction {
    pub step: usize,
    pub extraction: Extraction,
}

/// Reads an extraction of the command line: `1 token=json:/token`, `1 id=header:Location`, `1
/// id=header:Location:/items/([0-9]+)` or `2 csrf=matches:name="csrf" value="([^"]*)"`.
///
/// # Errors
/// The text is not an extraction.
pub fn parse_extraction(text: &str) -> Result<StepExtraction, String> {
    const WRONG: &str = "not an extraction\nhint: write the number of the step, a name and a \
                         source, such as '1 token=json:/token', '1 id=header:Location' or '1 \
                         id=matches:id=([0-9]+)'";
    let (step, rest) = text.trim_start().split_once(char::is_whitespace).ok_or(WRONG)?;
    let (name, source) = rest.trim_start().split_once('=').ok_or(WRONG)?;
    let (kind, argument) = source.split_once(':').ok_or(WRONG)?;
    let step = step.parse().ok().filter(|step| *step > 0).ok_or(WRONG)?;
    check_name(name)?;
    let (source, matches) = match kind {
        _ if argument.is_empty() => return Err(WRONG.into()),
        "json" => (ExtractionSource::Json(argument.into()), None),
        // A name of a header has no colon.
        "header" => match argument.split_once(':') {
            Some((header, pattern)) => (header_source(header), Some(pattern.into())),
            None => (header_source(argument), None),
        },
        "matches" => (ExtractionSource::Body, Some(argument.into())),
        _ => return Err(WRONG.into()),
    };
    Ok(StepExtraction { step, extraction: Extraction { name: name.into(), source, matches } })
}

fn header_source(name: &str) -> ExtractionSource {
    ExtractionSource::Header(name.trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extraction_of_command_line_has_step_name_and_source() {
        let header = |name: &str| ExtractionSource::Header(name.into());
        for (text, step, name, source, matches) in [
            ("1 token=json:/a/b:c", 1, "token", ExtractionSource::Json("/a/b:c".into()), None),
            ("12 id=header:Location", 12, "id", header("Location"), None),
            (" 1  id=header: X-Id:=(.*):$", 1, "id", header("X-Id"), Some("=(.*):$")),
            ("2 c=matches:a b=\"(.)\"", 2, "c", ExtractionSource::Body, Some("a b=\"(.)\"")),
        ] {
            let matches = matches.map(String::from);
            let extraction = Extraction { name: name.into(), source, matches };
            assert_eq!(parse_extraction(text), Ok(StepExtraction { step, extraction }), "{text}");
        }
        for text in [
            "token=json:/a",
            "0 t=json:/a",
            "1 t",
            "1 t=json",
            "1 t=json:",
            "1 t=xml:/a",
            "x t=json:/",
        ] {
            assert!(
                parse_extraction(text).unwrap_err().contains("hint: write the number"),
                "{text}"
            );
        }
        assert!(parse_extraction("1 a b=json:/a").unwrap_err().contains("not a name"));
    }

    #[test]
    fn extraction_of_file_needs_one_source() {
        let text = |text: &str| Some(text.to_string());
        let raw = RawExtraction { json: text("/a"), matches: text("x"), ..Default::default() };
        let extraction = raw.check("t".into()).unwrap();
        assert_eq!(extraction.source, ExtractionSource::Json("/a".into()));
        assert_eq!(extraction.matches.as_deref(), Some("x"));
        let raw = RawExtraction { json: text("/a"), header: text("X"), ..Default::default() };
        assert!(raw.check("t".into()).unwrap_err().into_message().contains("both"));
        let raw = RawExtraction::default();
        assert!(raw.check("t".into()).unwrap_err().into_message().contains("no source"));
        let raw = RawExtraction { header: text("X"), ..Default::default() };
        assert!(raw.check("a.b".into()).unwrap_err().into_message().contains("not a name"));
    }
}
