//! Extracts values from responses, for later requests of the same visitor.
//!
//! A failed extraction is the server's result, not an error of dyno. Its message has the name of
//! the value and its source. It has no byte of the extracted text, which may be a secret. Only the
//! name of a content coding that dyno does not know is quoted from the response.

use regex::bytes::Regex;

use crate::{coding, json, limits};

/// The extraction of one value from the responses to one request: the compiled form of `Extraction`
/// in a plan.
#[derive(Clone, Debug)]
pub struct CompiledExtraction {
    /// Name of the value, for messages.
    pub name: Box<str>,
    /// Index of the value among the values of its sequence.
    pub value: u16,
    pub source: ValueSource,
    /// Expression that must match the source. Its first group is the value, or the whole match if
    /// it has no group. `None`: the source is the value.
    pub pattern: Option<Regex>,
    /// Strictest place at which later requests use the value.
    pub place: ValuePlace,
}

/// The part of a response from which a value is extracted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// The decoded body.
    Body,
    /// The field of this name, without blanks around its value. If it occurs several times: the
    /// first one that matches.
    Header(Box<str>),
    /// The value at this JSON pointer (RFC 6901) of the decoded body.
    Json(Box<str>),
}

/// A place of a value in a request, from the most tolerant to the strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValuePlace {
    Body,
    Header,
    Path,
}

/// The stored body of a response, for extractions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredText<'a> {
    /// As sent.
    pub(crate) bytes: &'a [u8],
    /// Content codings of the body.
    pub(crate) codings: &'a [u8],
}

impl CompiledExtraction {
    pub(crate) fn needs_body(&self) -> bool {
        !matches!(self.source, ValueSource::Header(_))
    }

    /// Extracts the value from the fields of a response. `Err`: a message for users. `None`: the
    /// value is in the body.
    pub(crate) fn read_header<'a>(
        &self,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Option<Result<Vec<u8>, String>> {
        let ValueSource::Header(name) = &self.source else { return None };
        Some(self.read_fields(name, fields))
    }

    fn read_fields<'a>(
        &self,
        name: &str,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<Vec<u8>, String> {
        let mut fault = format!("header {name} is missing");
        for (_, text) in fields.filter(|(field, _)| field.eq_ignore_ascii_case(name.as_bytes())) {
            match self.matched(text.trim_ascii()) {
                Some(value) => return self.checked(value.to_vec()),
                None => fault = format!("header {name} does not match {}", self.expression()),
            }
        }
        Err(self.fault(&fault))
    }

    /// Extracts the value from a decoded body. `Err`: a message for users.
    fn read_text(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        let ValueSource::Json(pointer) = &self.source else {
            let value = self.matched(text).map(<[u8]>::to_vec).ok_or_else(|| {
                self.fault(&format!("the body does not match {}", self.expression()))
            })?;
            return self.checked(value);
        };
        let json = json::parse(text).ok_or_else(|| self.fault(json::NOT_JSON))?;
        let missing = |problem: &str| self.fault(&format!("JSON pointer {pointer:?} {problem}"));
        let value = match json::at_pointer(json, pointer) {
            None => return Err(missing("is missing")),
            Some(value) if value.get() == "null" => return Err(missing("is null")),
            Some(value) => json::text(value),
        };
        let value = self.matched(value.as_bytes()).map(<[u8]>::to_vec);
        self.checked(
            value.ok_or_else(|| missing(&format!("does not match {}", self.expression())))?,
        )
    }

    /// Returns the part of a text that is the value; `None`: the expression does not match.
    fn matched<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let Some(pattern) = &self.pattern else { return Some(text) };
        let captures = pattern.captures(text)?;
        let group = if captures.len() > 1 { captures.get(1) } else { captures.get(0) };
        group.map(|group| group.as_bytes())
    }

    fn expression(&self) -> &str {
        self.pattern.as_ref().map_or("", Regex::as_str)
    }

    /// Refuses a value that is empty, or that would break a later request.
    fn checked(&self, value: Vec<u8>) -> Result<Vec<u8>, String> {
        let is_invalid = |byte: &u8| match self.place {
            ValuePlace::Body => false,
            ValuePlace::Header => matches!(byte, b'\r' | b'\n' | 0),
            ValuePlace::Path => *byte <= b' ' || *byte == 0x7F,
        };
        if value.is_empty() {
            return Err(self.fault("it is empty"));
        }
        if value.iter().any(is_invalid) {
            return Err(self.fault(match self.place {
                ValuePlace::Path => "it has blanks or control characters, which no path can have",
                _ => "it has a line break or NUL, which no header can have",
            }));
        }
        Ok(value)
    }

    pub(crate) fn fault(&self, reason: &str) -> String {
        format!("value {:?} cannot be extracted: {reason}", self.name)
    }
}

/// Extracts all values of a body. Calls `store` with the index of each value. `Err`: a message for
/// users about the first extraction that failed.
pub(crate) fn extract_from_body<'e>(
    extractions: impl Iterator<Item = &'e CompiledExtraction> + Clone,
    body: StoredText<'_>,
    mut store: impl FnMut(u16, Vec<u8>),
) -> Result<(), String> {
    let Some(first) = extractions.clone().next() else { return Ok(()) };
    let decoded;
    let text = if coding::is_encoded(body.codings) {
        decoded = coding::decode(body.bytes, body.codings, limits::EXTRACTED_BODY_BYTES)
            .map_err(|error| first.fault(&error))?;
        &decoded[..]
    } else {
        body.bytes
    };
    for extraction in extractions {
        store(extraction.value, extraction.read_text(text)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extraction(source: ValueSource, pattern: Option<&str>) -> CompiledExtraction {
        CompiledExtraction {
            name: "v".into(),
            value: 0,
            source,
            pattern: pattern.map(|text| Regex::new(text).unwrap()),
            place: ValuePlace::Path,
        }
    }

    /// Extracts a value from a body. The message is returned without its beginning.
    fn from_body(extraction: &CompiledExtraction, bytes: &[u8], codings: &[u8]) -> String {
        let mut value = Vec::new();
        let body = StoredText { bytes, codings };
        let store = |_, extracted| value = extracted;
        match extract_from_body([extraction].into_iter(), body, store) {
            Ok(()) => String::from_utf8(value).unwrap(),
            Err(fault) => fault.strip_prefix("value \"v\" cannot be extracted: ").unwrap().into(),
        }
    }

    #[test]
    fn json_pointer_returns_text_of_value() {
        let body = br#"{"a":{"b/c":["x",7,1.5,true,null,"",{"d":1}]},"~":"t"}"#;
        for (pointer, expected) in [
            ("/a/b~1c/0", "x"),
            ("/a/b~1c/1", "7"),
            ("/a/b~1c/2", "1.5"),
            ("/a/b~1c/3", "true"),
            ("/a/b~1c/4", "JSON pointer \"/a/b~1c/4\" is null"),
            ("/a/b~1c/5", "it is empty"),
            ("/a/b~1c/6", "{\"d\":1}"),
            ("/a/b~1c/7", "JSON pointer \"/a/b~1c/7\" is missing"),
            ("/a/b~1c/00", "JSON pointer \"/a/b~1c/00\" is missing"),
            ("/~0", "t"),
        ] {
            let extraction = extraction(ValueSource::Json(pointer.into()), None);
            assert_eq!(from_body(&extraction, body, b""), expected, "{pointer}");
        }
        let id = extraction(ValueSource::Json("/id".into()), Some("^item-([0-9]+)$"));
        assert_eq!(from_body(&id, br#"{"id":"item-42"}"#, b""), "42");
        assert_eq!(
            from_body(&id, br#"{"id":"x"}"#, b""),
            "JSON pointer \"/id\" does not match ^item-([0-9]+)$"
        );
        assert_eq!(from_body(&id, b"<html>", b""), "the body is not JSON");
    }

    #[test]
    fn json_value_is_extracted_as_written() {
        let deep = format!("{}7{}", "[".repeat(300), "]".repeat(300));
        let body = format!(
            r#" {{"n":[12345678901234567890123,1.50,-0,1e999],"o": {{ "a" : 1 }},"n":[1,2],"d":{deep}}}"#
        );
        for (pointer, expected) in [("/n/1", "2"), ("/o", r#"{ "a" : 1 }"#), ("/d", &deep)] {
            let json = extraction(ValueSource::Json(pointer.into()), None);
            let extraction = CompiledExtraction { place: ValuePlace::Body, ..json };
            assert_eq!(from_body(&extraction, body.as_bytes(), b""), expected, "{pointer}");
        }
        for number in ["12345678901234567890123", "1.50", "-0", "1e999"] {
            let whole = extraction(ValueSource::Json(Box::default()), None);
            assert_eq!(from_body(&whole, number.as_bytes(), b""), number);
        }
    }

    #[test]
    fn expression_returns_first_group_or_match() {
        let body = |pattern: &str, text: &str| {
            from_body(&extraction(ValueSource::Body, Some(pattern)), text.as_bytes(), b"")
        };
        assert_eq!(body("csrf=\"([^\"]*)\"", "<input csrf=\"abc\">"), "abc");
        assert_eq!(body("[0-9]+", "id 42!"), "42");
        assert_eq!(body("[0-9]+", "none"), "the body does not match [0-9]+");
        // The group takes no part in the match.
        assert_eq!(body("a|b(c)", "a"), "the body does not match a|b(c)");
    }

    #[test]
    fn encoded_body_is_decoded() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, br#"{"t":"abc"}"#).unwrap();
        let body = encoder.finish().unwrap();
        let token = extraction(ValueSource::Json("/t".into()), None);
        assert_eq!(from_body(&token, &body, b"gzip,"), "abc");
        assert_eq!(from_body(&token, &body, b""), "the body is not JSON");
        assert!(from_body(&token, &body, b"zz,").contains("content coding \"zz\""));
    }

    #[test]
    fn decoded_body_is_limited() {
        let encoded = |length: usize| {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            std::io::Write::write_all(&mut encoder, &vec![b'a'; length]).unwrap();
            encoder.finish().unwrap()
        };
        let last = extraction(ValueSource::Body, Some("a$"));
        let longest = limits::EXTRACTED_BODY_BYTES;
        assert_eq!(from_body(&last, &encoded(longest), b"gzip,"), "a");
        assert_eq!(
            from_body(&last, &encoded(longest + 1), b"gzip,"),
            "the body is longer than 1 MiB when decoded from gzip"
        );
    }

    #[test]
    fn header_returns_first_matching_field() {
        let fields = [("location", " /a?x=1\t"), ("X-Id", "none"), ("x-id", "id-7 ")];
        let read = |name: &str, pattern: Option<&str>| {
            let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            let extraction = extraction(ValueSource::Header(name.into()), pattern);
            extraction.read_fields(name, fields).map(|value| String::from_utf8(value).unwrap())
        };
        assert_eq!(read("Location", None).unwrap(), "/a?x=1");
        assert_eq!(read("X-ID", Some("id-([0-9])$")).unwrap(), "7");
        assert!(read("X-Id", Some("z")).unwrap_err().ends_with("header X-Id does not match z"));
        assert!(read("ETag", None).unwrap_err().ends_with("header ETag is missing"));
    }

    #[test]
    fn value_that_would_break_request_is_refused() {
        for (place, value, is_valid) in [
            (ValuePlace::Body, "a\r\nb c", true),
            (ValuePlace::Header, "a b", true),
            (ValuePlace::Header, "a\r\nX: y", false),
            (ValuePlace::Path, "a b", false),
            (ValuePlace::Path, "a%20b", true),
        ] {
            let extraction = CompiledExtraction { place, ..extraction(ValueSource::Body, None) };
            assert_eq!(extraction.checked(value.into()).is_ok(), is_valid, "{place:?} {value:?}");
        }
    }

    proptest! {
        /// A string is extracted as it is, or refused because a path cannot have it. No message
        /// contains the value.
        #[test]
        fn json_string_is_extracted_unchanged(text in "\\PC{1,20}|[ -~\\r\\n]{1,20}") {
            let body = serde_json::json!({"a": [{"t": &text}]}).to_string();
            let token = extraction(ValueSource::Json("/a/0/t".into()), None);
            let extracted = from_body(&token, body.as_bytes(), b"");
            if text.bytes().any(|b| b <= b' ' || b == 0x7F) {
                prop_assert!(extracted.starts_with("it has blanks"));
            } else {
                prop_assert_eq!(extracted, text);
            }
        }
    }
}
