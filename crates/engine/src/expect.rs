//! Expectations of correct responses. Status and exact body of every response are compared as it
//! arrives, without a copy. Whole responses are checked in a sample.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use dyno_archive::Outcome;
use memchr::memmem;
use regex::bytes::Regex;
use sha2::{Digest as _, Sha256};

use crate::{coding, limits};

/// The expected answer to one request: the compiled form of the plan's `Expect`.
#[derive(Clone, Debug, Default)]
pub struct Expectation {
    /// `None`: any status from 200 to 399.
    pub status: Option<u16>,
    /// `None`: any body.
    pub body: Option<Arc<[u8]>>,
    /// The request lets the server encode the body (Accept-Encoding). An encoded one is compared in
    /// full checks only.
    pub may_be_coded: bool,
    pub deep: Arc<Deep>,
    /// For bodies that are kept until they are whole.
    pub room: BodyBudget,
}

/// Memory for bodies that are checked in full, shared by its clones: at most
/// [`limits::CHECKED_BODIES_BYTES`].
#[derive(Clone, Debug, Default)]
pub struct BodyBudget(Arc<AtomicUsize>);

impl BodyBudget {
    /// Takes bytes from the budget. `false`: it has fewer left.
    fn take(&self, bytes: usize) -> bool {
        let add = |taken| Some(taken + bytes).filter(|sum| *sum <= limits::CHECKED_BODIES_BYTES);
        self.0.fetch_update(Relaxed, Relaxed, add).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Relaxed);
    }
}

/// A body that is kept to be checked.
#[derive(Debug)]
struct StoredBody {
    bytes: Vec<u8>,
    room: BodyBudget,
}

impl StoredBody {
    /// Stores a further part. `Err`: why that fails, as a sentence.
    fn push(&mut self, data: &[u8]) -> Result<(), &'static str> {
        if self.bytes.len() + data.len() > limits::CHECKED_BODY_BYTES {
            return Err("the body is too long to be checked");
        }
        if !self.room.take(data.len()) {
            return Err(NO_ROOM);
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }
}

impl Drop for StoredBody {
    fn drop(&mut self) {
        self.room.give_back(self.bytes.len());
    }
}

/// The text for a body for which [`BodyBudget`] has no bytes left.
const NO_ROOM: &str = "the body was not checked, because bodies in flight exceed 256 MiB together \
                       (use fewer connections, or check fewer responses with --check-one-in)";

/// Expectations that need the whole response.
#[derive(Debug, Default)]
pub struct Deep {
    /// Names of required headers, and the expected value of each.
    pub headers: Vec<(String, ExpectedValue)>,
    pub sha256: Option<[u8; 32]>,
    /// The exact body, where the server may encode it.
    pub body: Option<Arc<[u8]>>,
    pub contains: Option<Vec<u8>>,
    /// Expression that must match somewhere in the body.
    pub matches: Option<Regex>,
    /// JSON pointers (RFC 6901) and the expected values there.
    pub json: Vec<(String, serde_json::Value)>,
    /// JSON pointers, and expressions that must match the text or number there.
    pub json_matches: Vec<(String, Regex)>,
}

/// The expected value of a header.
#[derive(Clone, Debug)]
pub enum ExpectedValue {
    /// Any value.
    Any,
    /// This text.
    Is(String),
    /// A text in which this expression matches.
    Matches(Regex),
}

impl ExpectedValue {
    fn is_met_by(&self, value: &[u8]) -> bool {
        match self {
            ExpectedValue::Any => true,
            ExpectedValue::Is(text) => value == text.as_bytes(),
            ExpectedValue::Matches(expression) => expression.is_match(value),
        }
    }
}

impl Deep {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && !self.wants_body()
    }

    fn wants_body(&self) -> bool {
        let exact = self.sha256.is_some() || self.body.is_some();
        exact || self.wants_text()
    }

    fn wants_text(&self) -> bool {
        self.contains.is_some() || self.matches.is_some() || self.wants_json()
    }

    fn wants_json(&self) -> bool {
        !self.json.is_empty() || !self.json_matches.is_empty()
    }
}

impl Expectation {
    /// Compares a whole response. `Err`: its first fault, as a sentence.
    pub fn judge(
        &self,
        status: u16,
        fields: &[(String, String)],
        body: &[u8],
    ) -> Result<(), String> {
        if !self.is_right_status(status) {
            return Err(format!("the status is {status}"));
        }
        let all = || fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let codings = coding::codings(all());
        let is_another = |expected: &Arc<[u8]>| **expected != *body;
        if self.body.as_ref().is_some_and(is_another)
            && !(self.may_be_coded && coding::is_coded(&codings))
        {
            return Err("the body differs from the expected one".into());
        }
        let fault =
            header_fault(all, &self.deep).or_else(|| body_fault(body, &codings, &self.deep));
        fault.map_or(Ok(()), Err)
    }

    fn is_right_status(&self, status: u16) -> bool {
        self.status.map_or_else(|| (200..400).contains(&status), |wanted| status == wanted)
    }
}

/// The state of the response that is being read.
#[derive(Debug, Default)]
pub(crate) struct AnswerState {
    pub(crate) status: u16,
    body_bytes: u64,
    body_wrong: bool,
    /// The body is encoded, so that it is not compared as it comes.
    is_coded: bool,
    /// `None`: the response is not checked in full. Boxed: few responses are, and `AnswerState` is
    /// moved and cleared on the hot path.
    full: Option<Box<Full>>,
}

/// The result of comparing a complete response with what is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnswerVerdict {
    pub(crate) status: u16,
    pub(crate) outcome: Outcome,
    /// The fault that a full check found, in words.
    pub(crate) fault: Option<String>,
}

/// The copy of a response that is checked in full.
#[derive(Debug, Default)]
struct Full {
    /// The body so far. `None`: no expectation needs it, or it could not be kept.
    kept: Option<StoredBody>,
    /// Reason why the body was not stored. `None`: it was stored.
    not_kept: Option<&'static str>,
    /// The content codings of the body.
    codings: Vec<u8>,
    /// The fault of its head, in words; `None`: it has none.
    header_fault: Option<String>,
}

impl AnswerState {
    /// Bytes of body so far.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// The head has arrived. `in_full`: everything is to be checked, its fields too.
    #[inline]
    pub(crate) fn see_head<'a, F>(
        &mut self,
        status: u16,
        fields: impl Fn() -> F,
        expect: &Expectation,
        in_full: bool,
    ) where
        F: Iterator<Item = (&'a [u8], &'a [u8])>,
    {
        let is_coded = expect.may_be_coded && coding::is_coded(&coding::codings(fields()));
        let full = in_full.then(|| {
            let header_fault = header_fault(&fields, &expect.deep);
            let is_kept = expect.deep.wants_body();
            let kept = is_kept.then(|| StoredBody { bytes: Vec::new(), room: expect.room.clone() });
            let codings = if kept.is_some() { coding::codings(fields()) } else { Vec::new() };
            Box::new(Full { kept, not_kept: None, codings, header_fault })
        });
        *self = AnswerState { status, full, is_coded, ..AnswerState::default() };
    }

    /// Compares the next part of the body with the same part of what is expected.
    #[inline]
    pub(crate) fn see_body(&mut self, data: &[u8], expect: &Expectation) {
        let from = self.body_bytes as usize;
        self.body_bytes += data.len() as u64;
        if let Some(expected) = &expect.body {
            self.body_wrong |= expected.get(from..from + data.len()) != Some(data);
        }
        if let Some(full) = &mut self.full {
            full.keep(data);
        }
    }

    /// Compares the response, which is complete, with what is expected.
    #[inline]
    pub(crate) fn judge(&mut self, expect: &Expectation) -> AnswerVerdict {
        let (outcome, fault) = self.compare(expect);
        AnswerVerdict { status: self.status, outcome, fault }
    }

    #[inline]
    fn compare(&mut self, expect: &Expectation) -> (Outcome, Option<String>) {
        if !expect.is_right_status(self.status) {
            return (Outcome::UnexpectedStatus, None);
        }
        if let Some(body) = &expect.body
            && !self.is_coded
            && (self.body_wrong || self.body_bytes != body.len() as u64)
        {
            return (Outcome::UnexpectedBody, None);
        }
        self.full.take().map_or((Outcome::Ok, None), |full| full.judge(&expect.deep))
    }
}

impl Full {
    fn keep(&mut self, data: &[u8]) {
        let Some(kept) = &mut self.kept else { return };
        if let Err(why) = kept.push(data) {
            self.kept = None;
            self.not_kept = Some(why);
        }
    }

    fn judge(self, deep: &Deep) -> (Outcome, Option<String>) {
        if self.header_fault.is_some() {
            return (Outcome::UnexpectedHeader, self.header_fault);
        }
        if let Some(why) = self.not_kept {
            return (Outcome::UnexpectedBody, Some(why.into()));
        }
        match self.kept.and_then(|body| body_fault(&body.bytes, &self.codings, deep)) {
            Some(fault) => (Outcome::UnexpectedBody, Some(fault)),
            None => (Outcome::Ok, None),
        }
    }
}

fn header_fault<'a, F>(fields: impl Fn() -> F, deep: &Deep) -> Option<String>
where
    F: Iterator<Item = (&'a [u8], &'a [u8])>,
{
    deep.headers.iter().find_map(|(name, wanted)| {
        let mut seen = fields().filter(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).peekable();
        if seen.peek().is_none() {
            return Some(format!("header {name} is missing"));
        }
        if seen.any(|(_, value)| wanted.is_met_by(value)) {
            return None;
        }
        Some(match wanted {
            ExpectedValue::Any => unreachable!("any value will do"),
            ExpectedValue::Is(text) => format!("header {name} is not {text:?}"),
            ExpectedValue::Matches(expression) => {
                format!("header {name} does not match {expression}")
            }
        })
    })
}

/// Returns the first fault of a body, which may be encoded. An expectation of the exact bytes may
/// refer to the encoded or to the decoded ones.
fn body_fault(sent: &[u8], codings: &[u8], deep: &Deep) -> Option<String> {
    if !coding::is_coded(codings) {
        return exact_fault(sent, deep).or_else(|| text_fault(sent, deep));
    }
    let is_exact_as_sent = exact_fault(sent, deep).is_none();
    if is_exact_as_sent && !deep.wants_text() {
        return None;
    }
    match coding::decode(sent, codings) {
        Err(why) => Some(why),
        Ok(text) if is_exact_as_sent => text_fault(&text, deep),
        Ok(text) => exact_fault(&text, deep).or_else(|| text_fault(&text, deep)),
    }
}

fn exact_fault(body: &[u8], deep: &Deep) -> Option<String> {
    if deep.sha256.is_some_and(|wanted| Sha256::digest(body)[..] != wanted) {
        return Some("the body's SHA-256 differs".into());
    }
    let is_another = deep.body.as_ref().is_some_and(|wanted| **wanted != *body);
    is_another.then(|| "the body differs from the expected one".into())
}

fn text_fault(body: &[u8], deep: &Deep) -> Option<String> {
    if let Some(wanted) = &deep.contains
        && memmem::find(body, wanted).is_none()
    {
        return Some(format!("the body does not contain {:?}", String::from_utf8_lossy(wanted)));
    }
    if let Some(expression) = &deep.matches
        && !expression.is_match(body)
    {
        return Some(format!("the body does not match {expression}"));
    }
    if !deep.wants_json() {
        return None;
    }
    let value = match serde_json::from_slice::<serde_json::Value>(body) {
        Ok(value) => value,
        Err(error) if error.to_string().contains("number out of range") => {
            return Some("the body has a number that no 64-bit float can hold".into());
        }
        Err(_) => return Some("the body is not JSON".into()),
    };
    let nothing = |pointer: &str| Some(format!("JSON pointer {pointer:?} is missing"));
    let fault = deep.json.iter().find_map(|(pointer, wanted)| match value.pointer(pointer) {
        None => nothing(pointer),
        Some(found) if found != wanted => Some(format!("JSON pointer {pointer:?} is not {wanted}")),
        Some(_) => None,
    });
    fault.or_else(|| {
        deep.json_matches.iter().find_map(|(pointer, expression)| match value.pointer(pointer) {
            None => nothing(pointer),
            Some(found) if !expression.is_match(text_of(found).as_bytes()) => {
                Some(format!("JSON pointer {pointer:?} does not match {expression}"))
            }
            Some(_) => None,
        })
    })
}

/// The text of a value for an expression: a string without quotes, anything else as JSON.
fn text_of(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), String::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_wire::h1::response::{RequestKind, ResponseEvent, ResponseReader};

    /// Judges a whole response in full.
    fn judge(expect: &Expectation, bytes: &[u8]) -> (Outcome, Option<String>) {
        let (mut reader, mut answer, mut rest) =
            (ResponseReader::new(), AnswerState::default(), bytes);
        loop {
            let (used, event) = reader.next(rest, RequestKind::Other).unwrap();
            rest = &rest[used..];
            match event {
                ResponseEvent::Head(head) => {
                    answer.see_head(head.status, || head.fields(), expect, true);
                }
                ResponseEvent::Body(data) => answer.see_body(data, expect),
                ResponseEvent::End(_) => {
                    let AnswerVerdict { outcome, fault, .. } = answer.judge(expect);
                    return (outcome, fault);
                }
                ResponseEvent::NeedMore
                | ResponseEvent::Informational(_)
                | ResponseEvent::Upgraded(_) => {
                    panic!("the answer is whole")
                }
            }
        }
    }

    fn deep(deep: Deep) -> Expectation {
        Expectation { deep: Arc::new(deep), ..Expectation::default() }
    }

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: \
                            19\r\n\r\n{\"a\":{\"b\":[1,\"x\"]}}";

    /// JSON has no largest number, so such a body is no fault of the server's syntax.
    #[test]
    fn number_that_no_float_holds_is_named() {
        let wanted = ("/b".to_string(), serde_json::json!(1));
        let checks = Deep { json: vec![wanted], ..Deep::default() };
        let fault = |body: &str| text_fault(body.as_bytes(), &checks);
        assert_eq!(fault(r#"{"a": 1e30, "b": 1}"#), None);
        assert!(fault(r#"{"a": 1e400, "b": 1}"#).unwrap().contains("no 64-bit float"));
        assert_eq!(fault(r#"{"a": 1e, "b": 1}"#).unwrap(), "the body is not JSON");
    }

    #[test]
    fn bodies_that_are_checked_at_once_share_one_room() {
        let mut expect = deep(Deep { sha256: Some([0; 32]), ..Deep::default() });
        expect.room = BodyBudget(Arc::new(AtomicUsize::new(limits::CHECKED_BODIES_BYTES - 3000)));
        let begin = |expect: &Expectation| {
            let mut answer = AnswerState::default();
            answer.see_head(200, std::iter::empty, expect, true);
            answer.see_body(&[b'x'; 1024], expect);
            answer
        };
        let mut first = begin(&expect);
        let second = begin(&expect);
        let mut third = begin(&expect);
        let verdict = third.judge(&expect);
        assert_eq!(
            (verdict.outcome, verdict.fault.as_deref()),
            (Outcome::UnexpectedBody, Some(NO_ROOM))
        );
        drop(second);
        assert!(
            begin(&expect).judge(&expect).fault.unwrap().contains("SHA-256"),
            "there is room again"
        );
        assert!(first.judge(&expect).fault.unwrap().contains("SHA-256"));
        drop(first);
        let taken = expect.room.0.load(Relaxed);
        assert_eq!(taken, limits::CHECKED_BODIES_BYTES - 3000, "all of it is given back");
    }

    #[test]
    fn headers_may_be_there_several_times() {
        let matches = |text: &str| ExpectedValue::Matches(Regex::new(text).unwrap());
        for (name, value, right) in [
            ("X-A", ExpectedValue::Is("2".into()), true),
            ("x-A", ExpectedValue::Any, true),
            ("x-a", ExpectedValue::Is("3".into()), false),
            ("x-b", ExpectedValue::Any, false),
            ("x-a", matches("^[2-9]$"), true),
            ("x-a", matches("^[3-9]$"), false),
        ] {
            let wanted = vec![(name.to_string(), value)];
            let (outcome, fault) =
                judge(&deep(Deep { headers: wanted, ..Deep::default() }), ANSWER);
            assert_eq!(outcome == Outcome::Ok, right, "{fault:?}");
            assert_eq!(outcome == Outcome::UnexpectedHeader, !right);
        }
    }

    #[test]
    fn bodies_are_looked_into() {
        let digest = Sha256::digest(b"{\"a\":{\"b\":[1,\"x\"]}}").into();
        let json = |pointer: &str, value: serde_json::Value| Deep {
            json: vec![(pointer.into(), value)],
            ..Deep::default()
        };
        let expression = |text: &str| Regex::new(text).unwrap();
        let json_matches = |pointer: &str, text: &str| Deep {
            json_matches: vec![(pointer.into(), expression(text))],
            ..Deep::default()
        };
        for (wanted, fault) in [
            (Deep { sha256: Some(digest), ..Deep::default() }, None),
            (Deep { sha256: Some([0; 32]), ..Deep::default() }, Some("SHA-256")),
            (Deep { contains: Some(b"\"b\":[1".to_vec()), ..Deep::default() }, None),
            (
                Deep { contains: Some(b"\"c\"".to_vec()), ..Deep::default() },
                Some("does not contain"),
            ),
            (json("/a/b/1", "x".into()), None),
            (json("/a/b/0", 2.into()), Some("is not 2")),
            (json("/a/c", 2.into()), Some("is missing")),
            (Deep { matches: Some(expression("(?i)\"B\"")), ..Deep::default() }, None),
            (
                Deep { matches: Some(expression("^b")), ..Deep::default() },
                Some("does not match ^b"),
            ),
            (json_matches("/a/b/1", "^[xyz]$"), None),
            (json_matches("/a/b/0", "^1$"), None),
            (json_matches("/a/b/1", "^x.$"), Some("does not match ^x.$")),
            (json_matches("/a/c", "."), Some("is missing")),
        ] {
            let (outcome, found) = judge(&deep(wanted), ANSWER);
            match fault {
                None => assert_eq!((outcome, found), (Outcome::Ok, None)),
                Some(words) => {
                    assert_eq!(outcome, Outcome::UnexpectedBody);
                    assert!(found.unwrap().contains(words));
                }
            }
        }
    }

    fn gzipped(text: &[u8]) -> Vec<u8> {
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
    fn coded_bodies_are_decoded_for_checks() {
        let text = b"{\"hello\":\"world\"}";
        let answer = gzipped(text);
        let as_sent = &answer[answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4..];
        let exact = |body: &[u8]| Expectation {
            body: Some(body.into()),
            may_be_coded: true,
            ..deep(Deep { body: Some(body.into()), ..Deep::default() })
        };
        let digest = |body: &[u8]| Some(Sha256::digest(body).into());
        for (expect, is_right) in [
            (deep(Deep { json: vec![("/hello".into(), "world".into())], ..Deep::default() }), true),
            (deep(Deep { json: vec![("/hello".into(), "you".into())], ..Deep::default() }), false),
            (deep(Deep { contains: Some(b"world".to_vec()), ..Deep::default() }), true),
            (deep(Deep { sha256: digest(text), ..Deep::default() }), true),
            (deep(Deep { sha256: digest(as_sent), ..Deep::default() }), true),
            (deep(Deep { sha256: digest(b"x"), ..Deep::default() }), false),
            (exact(text), true),
            (exact(as_sent), true),
            (exact(b"x"), false),
        ] {
            let (outcome, fault) = judge(&expect, &answer);
            assert_eq!(outcome == Outcome::Ok, is_right, "{fault:?}");
            let fields = [("content-encoding".to_string(), "gzip".to_string())];
            assert_eq!(expect.judge(200, &fields, as_sent).is_ok(), is_right);
        }
        let unknown = b"HTTP/1.1 200 OK\r\nContent-Encoding: zz\r\nContent-Length: 2\r\n\r\nok";
        let wanted = deep(Deep { contains: Some(b"ok".to_vec()), ..Deep::default() });
        let (_, fault) = judge(&wanted, unknown);
        assert!(fault.unwrap().contains("\"zz\", which dyno does not decode"));
    }

    #[test]
    fn cheap_expectations_come_first() {
        let expect = Expectation {
            status: Some(201),
            ..deep(Deep { sha256: Some([0; 32]), ..Deep::default() })
        };
        assert_eq!(judge(&expect, ANSWER), (Outcome::UnexpectedStatus, None));
        let expect = Expectation { body: Some(Arc::from(&b"{"[..])), ..Expectation::default() };
        assert_eq!(judge(&expect, ANSWER), (Outcome::UnexpectedBody, None));
    }
}
