//! Compares responses with their expectations. Status and exact body of every response are compared
//! while the response arrives, without a copy. A sample of responses is stored and checked in full.

use std::sync::Arc;

use dyno_model::Outcome;
use memchr::memmem;
use regex::bytes::Regex;
use sha2::{Digest as _, Sha256};

use crate::stored_body::{BodyBudget, NotStored, StoredBody};
use crate::{coding, json, limits};

/// The expected response to one request: the compiled form of `Expect` in a plan.
#[derive(Clone, Debug, Default)]
pub struct Expectation {
    /// `None`: any status from 200 to 399.
    pub status: Option<u16>,
    /// `None`: any body.
    pub body: Option<Arc<[u8]>>,
    /// Whether the request allows the server to encode the body (Accept-Encoding). An encoded body
    /// is compared only in full checks.
    pub may_be_encoded: bool,
    pub full_checks: Arc<FullChecks>,
    /// Memory for bodies that are stored until they are complete.
    pub budget: BodyBudget,
}

/// Message for a body that exceeds [`limits::CHECKED_BODY_BYTES`].
const TOO_LONG: &str = "the body was not checked, because it is longer than 64 MiB";

/// Expectations that are checked on a complete response.
#[derive(Debug, Default)]
pub struct FullChecks {
    /// Names and expected values of required headers.
    pub headers: Vec<(String, ExpectedValue)>,
    pub sha256: Option<[u8; 32]>,
    /// The exact body, if the server may encode it.
    pub body: Option<Arc<[u8]>>,
    pub contains: Option<Vec<u8>>,
    /// Regular expression that must match somewhere in the body.
    pub matches: Option<Regex>,
    /// JSON pointers (RFC 6901) and their expected values.
    pub json: Vec<(String, serde_json::Value)>,
    /// JSON pointers, and regular expressions that must match the text or number at the pointer.
    pub json_matches: Vec<(String, Regex)>,
}

/// The expected value of a header.
#[derive(Clone, Debug)]
pub enum ExpectedValue {
    /// Any value.
    Any,
    /// This text.
    Is(String),
    /// A text in which this regular expression matches.
    Matches(Regex),
}

impl ExpectedValue {
    fn matches(&self, value: &[u8]) -> bool {
        match self {
            ExpectedValue::Any => true,
            ExpectedValue::Is(text) => value == text.as_bytes(),
            ExpectedValue::Matches(expression) => expression.is_match(value),
        }
    }
}

impl FullChecks {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && !self.wants_body()
    }

    fn wants_body(&self) -> bool {
        let wants_exact_bytes = self.sha256.is_some() || self.body.is_some();
        wants_exact_bytes || self.wants_text()
    }

    /// Whether a check needs the decoded body.
    fn wants_text(&self) -> bool {
        self.contains.is_some() || self.matches.is_some() || self.wants_json()
    }

    fn wants_json(&self) -> bool {
        !self.json.is_empty() || !self.json_matches.is_empty()
    }
}

impl Expectation {
    /// Compares a complete response with all expectations. `Err`: the first difference, for users.
    pub fn check(
        &self,
        status: u16,
        fields: &[(String, String)],
        body: &[u8],
    ) -> Result<(), String> {
        if !self.is_expected_status(status) {
            return Err(format!("the status is {status}"));
        }
        let fields = || fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let codings = coding::codings(fields());
        let is_encoded = self.may_be_encoded && coding::is_encoded(&codings);
        // `body_fault` compares an encoded body, after decoding.
        if let Some(expected) = &self.body
            && !is_encoded
            && **expected != *body
        {
            return Err("the body differs from the expected body".into());
        }
        let fault = header_fault(fields, &self.full_checks)
            .or_else(|| body_fault(body, &codings, &self.full_checks));
        fault.map_or(Ok(()), Err)
    }

    fn is_expected_status(&self, status: u16) -> bool {
        self.status.map_or_else(|| (200..400).contains(&status), |expected| status == expected)
    }
}

/// State of the response that is being read.
#[derive(Debug, Default)]
pub(crate) struct ResponseState {
    pub(crate) status: u16,
    body_bytes: u64,
    has_wrong_body: bool,
    /// Whether the body is encoded. An encoded body is not compared while it arrives.
    is_encoded: bool,
    /// Copy for a full check; `None`: the response is not checked in full. Boxed because few
    /// responses have one, and `ResponseState` is moved on the hot path.
    stored: Option<Box<StoredResponse>>,
}

/// Result of comparing a complete response with its expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResponseVerdict {
    pub(crate) status: u16,
    pub(crate) outcome: Outcome,
    /// Difference that a full check found, for users.
    pub(crate) fault: Option<String>,
    /// Work that was omitted, because [`BodyBudget`] had no bytes left.
    pub(crate) omitted: Omitted,
}

/// Work on a complete response that needs its stored body, and was omitted without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Omitted {
    pub(crate) is_unchecked: bool,
    pub(crate) is_unextracted: bool,
}

/// Copy of a response that is checked in full.
#[derive(Debug, Default)]
struct StoredResponse {
    /// The body so far. `None`: no expectation needs it, or it could not be stored.
    body: Option<StoredBody>,
    /// Reason why the body could not be stored; `None`: no error.
    body_error: Option<NotStored>,
    /// Content codings of the body.
    codings: Vec<u8>,
    /// Difference in the headers, for users; `None`: no difference.
    header_fault: Option<String>,
}

impl ResponseState {
    /// Returns the number of body bytes so far.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Starts a response whose head has arrived. `is_checked_in_full`: whether to check all
    /// expectations.
    #[inline]
    pub(crate) fn on_head<'a, F>(
        &mut self,
        status: u16,
        fields: impl Fn() -> F,
        expect: &Expectation,
        is_checked_in_full: bool,
    ) where
        F: Iterator<Item = (&'a [u8], &'a [u8])>,
    {
        let is_encoded = expect.may_be_encoded && coding::is_encoded(&coding::codings(fields()));
        let stored = is_checked_in_full.then(|| {
            let header_fault = header_fault(&fields, &expect.full_checks);
            let needs_body = expect.full_checks.wants_body();
            let body = needs_body.then(|| StoredBody::new(expect.budget.clone()));
            let codings = if body.is_some() { coding::codings(fields()) } else { Vec::new() };
            Box::new(StoredResponse { body, body_error: None, codings, header_fault })
        });
        *self = ResponseState { status, stored, is_encoded, ..ResponseState::default() };
    }

    /// Compares the next part of the body with the same part of the expected body.
    #[inline]
    pub(crate) fn on_body(&mut self, data: &[u8], expect: &Expectation) {
        let start = self.body_bytes as usize;
        self.body_bytes += data.len() as u64;
        if let Some(expected) = &expect.body {
            self.has_wrong_body |= expected.get(start..start + data.len()) != Some(data);
        }
        if let Some(stored) = &mut self.stored {
            stored.push(data);
        }
    }

    /// Compares the complete response with its expectation.
    #[inline]
    pub(crate) fn check(&mut self, expect: &Expectation) -> ResponseVerdict {
        let is_over_budget = |s: &StoredResponse| s.body_error == Some(NotStored::OverBudget);
        let is_omitted = self.stored.as_deref().is_some_and(is_over_budget);
        let (outcome, fault) = self.compare(expect);
        let is_unchecked = is_omitted && outcome == Outcome::Ok;
        let omitted = Omitted { is_unchecked, ..Omitted::default() };
        ResponseVerdict { status: self.status, outcome, fault, omitted }
    }

    #[inline]
    fn compare(&mut self, expect: &Expectation) -> (Outcome, Option<String>) {
        if !expect.is_expected_status(self.status) {
            return (Outcome::UnexpectedStatus, None);
        }
        if let Some(body) = &expect.body
            && !self.is_encoded
            && (self.has_wrong_body || self.body_bytes != body.len() as u64)
        {
            return (Outcome::UnexpectedBody, None);
        }
        self.stored.take().map_or((Outcome::Ok, None), |stored| stored.check(&expect.full_checks))
    }
}

impl StoredResponse {
    fn push(&mut self, data: &[u8]) {
        let Some(body) = &mut self.body else { return };
        if let Err(reason) = body.push(data, limits::CHECKED_BODY_BYTES) {
            self.body = None;
            self.body_error = Some(reason);
        }
    }

    fn check(self, checks: &FullChecks) -> (Outcome, Option<String>) {
        if self.header_fault.is_some() {
            return (Outcome::UnexpectedHeader, self.header_fault);
        }
        match self.body_error {
            Some(NotStored::TooLong) => return (Outcome::UnexpectedBody, Some(TOO_LONG.into())),
            // The memory of the generator says nothing about the response.
            Some(NotStored::OverBudget) => return (Outcome::Ok, None),
            None => {}
        }
        match self.body.and_then(|body| body_fault(body.bytes(), &self.codings, checks)) {
            Some(fault) => (Outcome::UnexpectedBody, Some(fault)),
            None => (Outcome::Ok, None),
        }
    }
}

/// Returns the first difference in the headers. If a header occurs several times, one matching
/// value is enough.
fn header_fault<'a, F>(fields: impl Fn() -> F, checks: &FullChecks) -> Option<String>
where
    F: Iterator<Item = (&'a [u8], &'a [u8])>,
{
    checks.headers.iter().find_map(|(name, expected)| {
        let mut values =
            fields().filter(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).peekable();
        if values.peek().is_none() {
            return Some(format!("header {name} is missing"));
        }
        if values.any(|(_, value)| expected.matches(value)) {
            return None;
        }
        Some(match expected {
            ExpectedValue::Any => unreachable!("any value matches"),
            ExpectedValue::Is(text) => format!("header {name} is not {text:?}"),
            ExpectedValue::Matches(expression) => {
                format!("header {name} does not match {expression}")
            }
        })
    })
}

/// Returns the first difference in a body, as sent, with its content codings. If the body is
/// encoded:
///
/// - Exact bytes and SHA-256 match if they are those of the encoded or of the decoded body.
/// - All other checks apply to the decoded body.
fn body_fault(sent: &[u8], codings: &[u8], checks: &FullChecks) -> Option<String> {
    if !coding::is_encoded(codings) {
        return exact_fault(sent, checks).or_else(|| text_fault(sent, checks));
    }
    let is_exact_as_sent = exact_fault(sent, checks).is_none();
    if is_exact_as_sent && !checks.wants_text() {
        return None;
    }
    match coding::decode(sent, codings, limits::CHECKED_BODY_BYTES) {
        Err(error) => Some(error),
        Ok(text) if is_exact_as_sent => text_fault(&text, checks),
        Ok(text) => exact_fault(&text, checks).or_else(|| text_fault(&text, checks)),
    }
}

/// Returns the first difference from the expected SHA-256 and the expected bytes.
fn exact_fault(body: &[u8], checks: &FullChecks) -> Option<String> {
    if checks.sha256.is_some_and(|expected| Sha256::digest(body)[..] != expected) {
        return Some("the body's SHA-256 differs".into());
    }
    let differs = checks.body.as_ref().is_some_and(|expected| **expected != *body);
    differs.then(|| "the body differs from the expected body".into())
}

/// Returns the first difference of a decoded body from the expected text or JSON values.
fn text_fault(body: &[u8], checks: &FullChecks) -> Option<String> {
    if let Some(expected) = &checks.contains
        && memmem::find(body, expected).is_none()
    {
        return Some(format!("the body does not contain {:?}", String::from_utf8_lossy(expected)));
    }
    if let Some(expression) = &checks.matches
        && !expression.is_match(body)
    {
        return Some(format!("the body does not match {expression}"));
    }
    if checks.wants_json() { json_fault(body, checks) } else { None }
}

/// Returns the first difference of a decoded body from the expected JSON values.
fn json_fault(body: &[u8], checks: &FullChecks) -> Option<String> {
    let Some(body) = json::parse(body) else { return Some(json::NOT_JSON.into()) };
    let fault = |pointer: &str, problem: &str| Some(format!("JSON pointer {pointer:?} {problem}"));
    for (pointer, expected) in &checks.json {
        let Some(actual) = json::at_pointer(body, pointer) else {
            return fault(pointer, "is missing");
        };
        match json::is_equal(actual, expected) {
            Ok(true) => {}
            Ok(false) => return fault(pointer, &format!("is not {expected}")),
            Err(problem) => return fault(pointer, problem),
        }
    }
    for (pointer, expression) in &checks.json_matches {
        let Some(actual) = json::at_pointer(body, pointer) else {
            return fault(pointer, "is missing");
        };
        if !expression.is_match(json::text(actual).as_bytes()) {
            return fault(pointer, &format!("does not match {expression}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_wire::h1::response::{RequestKind, ResponseEvent, ResponseReader};

    /// Checks a complete response in full.
    fn check(expect: &Expectation, bytes: &[u8]) -> (Outcome, Option<String>) {
        let (mut reader, mut response, mut rest) =
            (ResponseReader::new(), ResponseState::default(), bytes);
        loop {
            let (used, event) = reader.next(rest, RequestKind::Other).unwrap();
            rest = &rest[used..];
            match event {
                ResponseEvent::Head(head) => {
                    response.on_head(head.status, || head.fields(), expect, true);
                }
                ResponseEvent::Body(data) => response.on_body(data, expect),
                ResponseEvent::End(_) => {
                    let ResponseVerdict { outcome, fault, .. } = response.check(expect);
                    return (outcome, fault);
                }
                ResponseEvent::NeedMore
                | ResponseEvent::Informational(_)
                | ResponseEvent::Upgraded(_) => {
                    panic!("the response is complete")
                }
            }
        }
    }

    fn full_checks(checks: FullChecks) -> Expectation {
        Expectation { full_checks: Arc::new(checks), ..Expectation::default() }
    }

    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: \
                            19\r\n\r\n{\"a\":{\"b\":[1,\"x\"]}}";

    /// `1.10` and `20000000000000000001` match as they are written.
    #[test]
    fn expressions_match_numbers_as_written() {
        let fault = |expression: &str| {
            let matches = ("/n".to_string(), Regex::new(expression).unwrap());
            let checks = FullChecks { json_matches: vec![matches], ..FullChecks::default() };
            (
                text_fault(br#"{"n": 1.10}"#, &checks),
                text_fault(br#"{"n": 20000000000000000001}"#, &checks),
            )
        };
        assert_eq!(fault(r"^\d+\.\d\d$").0, None);
        assert_eq!(fault(r"^\d+1$").1, None);
        assert!(fault("^1.1$").0.unwrap().contains("does not match"));
    }

    #[test]
    fn concurrent_full_checks_share_one_budget() {
        let mut expect = full_checks(FullChecks { sha256: Some([0; 32]), ..FullChecks::default() });
        expect.budget = BodyBudget::new(3000);
        let begin = |expect: &Expectation| {
            let mut response = ResponseState::default();
            response.on_head(200, std::iter::empty, expect, true);
            response.on_body(&[b'x'; 1024], expect);
            response
        };
        let mut first = begin(&expect);
        let second = begin(&expect);
        let mut third = begin(&expect);
        let verdict = third.check(&expect);
        assert_eq!((verdict.outcome, verdict.fault), (Outcome::Ok, None));
        assert!(verdict.omitted.is_unchecked, "the response was not checked");
        drop(second);
        assert!(
            begin(&expect).check(&expect).fault.unwrap().contains("SHA-256"),
            "the budget has bytes again"
        );
        let verdict = first.check(&expect);
        assert_eq!(verdict.omitted, Omitted::default());
        assert!(verdict.fault.unwrap().contains("SHA-256"));
        drop(first);
        assert_eq!(expect.budget.bytes_left(), 3000, "all bytes are returned to the budget");
    }

    #[test]
    fn repeated_header_matches_with_any_value() {
        let matches = |text: &str| ExpectedValue::Matches(Regex::new(text).unwrap());
        for (name, value, is_match) in [
            ("X-A", ExpectedValue::Is("2".into()), true),
            ("x-A", ExpectedValue::Any, true),
            ("x-a", ExpectedValue::Is("3".into()), false),
            ("x-b", ExpectedValue::Any, false),
            ("x-a", matches("^[2-9]$"), true),
            ("x-a", matches("^[3-9]$"), false),
        ] {
            let expected = vec![(name.to_string(), value)];
            let (outcome, fault) = check(
                &full_checks(FullChecks { headers: expected, ..FullChecks::default() }),
                RESPONSE,
            );
            assert_eq!(outcome == Outcome::Ok, is_match, "{fault:?}");
            assert_eq!(outcome == Outcome::UnexpectedHeader, !is_match);
        }
    }

    #[test]
    fn full_checks_report_body_differences() {
        let digest = Sha256::digest(b"{\"a\":{\"b\":[1,\"x\"]}}").into();
        let json = |pointer: &str, value: serde_json::Value| FullChecks {
            json: vec![(pointer.into(), value)],
            ..FullChecks::default()
        };
        let expression = |text: &str| Regex::new(text).unwrap();
        let json_matches = |pointer: &str, text: &str| FullChecks {
            json_matches: vec![(pointer.into(), expression(text))],
            ..FullChecks::default()
        };
        for (expected, fault) in [
            (FullChecks { sha256: Some(digest), ..FullChecks::default() }, None),
            (FullChecks { sha256: Some([0; 32]), ..FullChecks::default() }, Some("SHA-256")),
            (FullChecks { contains: Some(b"\"b\":[1".to_vec()), ..FullChecks::default() }, None),
            (
                FullChecks { contains: Some(b"\"c\"".to_vec()), ..FullChecks::default() },
                Some("does not contain"),
            ),
            (json("/a/b/1", "x".into()), None),
            (json("/a/b/0", 2.into()), Some("is not 2")),
            (json("/a/c", 2.into()), Some("is missing")),
            (FullChecks { matches: Some(expression("(?i)\"B\"")), ..FullChecks::default() }, None),
            (
                FullChecks { matches: Some(expression("^b")), ..FullChecks::default() },
                Some("does not match ^b"),
            ),
            (json_matches("/a/b/1", "^[xyz]$"), None),
            (json_matches("/a/b/0", "^1$"), None),
            (json_matches("/a/b/1", "^x.$"), Some("does not match ^x.$")),
            (json_matches("/a/c", "."), Some("is missing")),
        ] {
            let (outcome, actual) = check(&full_checks(expected), RESPONSE);
            match fault {
                None => assert_eq!((outcome, actual), (Outcome::Ok, None)),
                Some(text) => {
                    assert_eq!(outcome, Outcome::UnexpectedBody);
                    assert!(actual.unwrap().contains(text));
                }
            }
        }
    }

    fn gzip_response(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, text).unwrap();
        let body = encoder.finish().unwrap();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), &body].concat()
    }

    #[test]
    fn encoded_body_is_decoded_for_checks() {
        let text = b"{\"hello\":\"world\"}";
        let response = gzip_response(text);
        let as_sent = &response[response.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4..];
        let exact = |body: &[u8]| Expectation {
            body: Some(body.into()),
            may_be_encoded: true,
            ..full_checks(FullChecks { body: Some(body.into()), ..FullChecks::default() })
        };
        let digest = |body: &[u8]| Some(Sha256::digest(body).into());
        for (expect, is_correct) in [
            (
                full_checks(FullChecks {
                    json: vec![("/hello".into(), "world".into())],
                    ..FullChecks::default()
                }),
                true,
            ),
            (
                full_checks(FullChecks {
                    json: vec![("/hello".into(), "you".into())],
                    ..FullChecks::default()
                }),
                false,
            ),
            (
                full_checks(FullChecks {
                    contains: Some(b"world".to_vec()),
                    ..FullChecks::default()
                }),
                true,
            ),
            (full_checks(FullChecks { sha256: digest(text), ..FullChecks::default() }), true),
            (full_checks(FullChecks { sha256: digest(as_sent), ..FullChecks::default() }), true),
            (full_checks(FullChecks { sha256: digest(b"x"), ..FullChecks::default() }), false),
            (exact(text), true),
            (exact(as_sent), true),
            (exact(b"x"), false),
        ] {
            let (outcome, fault) = check(&expect, &response);
            assert_eq!(outcome == Outcome::Ok, is_correct, "{fault:?}");
            let fields = [("content-encoding".to_string(), "gzip".to_string())];
            assert_eq!(expect.check(200, &fields, as_sent).is_ok(), is_correct);
        }
        let unknown = b"HTTP/1.1 200 OK\r\nContent-Encoding: zz\r\nContent-Length: 2\r\n\r\nok";
        let expected =
            full_checks(FullChecks { contains: Some(b"ok".to_vec()), ..FullChecks::default() });
        let (_, fault) = check(&expected, unknown);
        assert!(fault.unwrap().contains("\"zz\", which dyno does not decode"));
    }

    #[test]
    fn status_and_body_are_checked_first() {
        let expect = Expectation {
            status: Some(201),
            ..full_checks(FullChecks { sha256: Some([0; 32]), ..FullChecks::default() })
        };
        assert_eq!(check(&expect, RESPONSE), (Outcome::UnexpectedStatus, None));
        let expect = Expectation { body: Some(Arc::from(&b"{"[..])), ..Expectation::default() };
        assert_eq!(check(&expect, RESPONSE), (Outcome::UnexpectedBody, None));
    }
}
