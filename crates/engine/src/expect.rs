//! What a right answer is. Status and exact body are compared for every answer as it arrives, without keeping it;
//! what needs the whole answer is looked at for a sample.

use std::sync::Arc;

use dyno_archive::Outcome;
use memchr::memmem;
use regex::bytes::Regex;
use sha2::{Digest as _, Sha256};

use crate::limits;

/// What the right answers to one request are: the compiled form of the plan's `Expect`.
#[derive(Clone, Debug, Default)]
pub struct Expectation {
    /// `None`: any status from 200 to 399.
    pub status: Option<u16>,
    /// `None`: any body.
    pub body: Option<Arc<[u8]>>,
    pub deep: Arc<Deep>,
}

/// Expectations that only a look at the whole answer can check.
#[derive(Debug, Default)]
pub struct Deep {
    /// Names of headers that must be there, and what one of their values must be.
    pub headers: Vec<(String, Wanted)>,
    pub sha256: Option<[u8; 32]>,
    pub contains: Option<Vec<u8>>,
    /// Expression that must match somewhere in the body.
    pub matches: Option<Regex>,
    /// JSON pointers (RFC 6901) and the values that must stand there.
    pub json: Vec<(String, serde_json::Value)>,
    /// JSON pointers, and expressions that must match the text or number that stands there.
    pub json_matches: Vec<(String, Regex)>,
}

/// What the value of a header must be.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// Anything: the header is there.
    Any,
    /// This text.
    Is(String),
    /// A text in which this expression matches.
    Matches(Regex),
}

impl Wanted {
    fn is_met_by(&self, value: &[u8]) -> bool {
        match self {
            Wanted::Any => true,
            Wanted::Is(text) => value == text.as_bytes(),
            Wanted::Matches(expression) => expression.is_match(value),
        }
    }
}

impl Deep {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && !self.wants_body()
    }

    fn wants_body(&self) -> bool {
        let text = self.sha256.is_some() || self.contains.is_some() || self.matches.is_some();
        text || self.wants_json()
    }

    fn wants_json(&self) -> bool {
        !self.json.is_empty() || !self.json_matches.is_empty()
    }
}

impl Expectation {
    /// Compares a whole answer. `Err`: its first fault, in words.
    pub fn judge(&self, status: u16, fields: &[(String, String)], body: &[u8]) -> Result<(), String> {
        if !self.is_right_status(status) {
            return Err(format!("the status is {status}"));
        }
        if self.body.as_ref().is_some_and(|expected| **expected != *body) {
            return Err("the body is another one".into());
        }
        let all = || fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        header_fault(all, &self.deep).or_else(|| body_fault(body, &self.deep)).map_or(Ok(()), Err)
    }

    fn is_right_status(&self, status: u16) -> bool {
        self.status.map_or_else(|| (200..400).contains(&status), |wanted| status == wanted)
    }
}

/// The state of the answer that is being read.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    body_bytes: u64,
    body_wrong: bool,
    /// `None`: the answer is not checked in full. Boxed: few answers are, and `Answer` is moved and cleared on the hot
    /// path.
    full: Option<Box<Full>>,
}

/// The result of comparing a complete answer with what is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) status: u16,
    pub(crate) outcome: Outcome,
    /// The fault that a full check found, in words.
    pub(crate) fault: Option<String>,
}

/// What is kept of an answer that is checked in full.
#[derive(Debug, Default)]
struct Full {
    /// The body so far. `None`: no expectation needs it, or it is too long.
    kept: Option<Vec<u8>>,
    /// The body is longer than [`limits::CHECKED_BODY_BYTES`].
    is_too_long: bool,
    /// The fault of its head, in words; `None`: it has none.
    header_fault: Option<String>,
}

impl Answer {
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
        let full = in_full.then(|| {
            let header_fault = header_fault(fields, &expect.deep);
            Box::new(Full { kept: expect.deep.wants_body().then(Vec::new), is_too_long: false, header_fault })
        });
        *self = Answer { status, full, ..Answer::default() };
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

    /// Compares the answer, which is complete, with what is expected.
    #[inline]
    pub(crate) fn judge(&mut self, expect: &Expectation) -> Verdict {
        let (outcome, fault) = self.compare(expect);
        Verdict { status: self.status, outcome, fault }
    }

    #[inline]
    fn compare(&mut self, expect: &Expectation) -> (Outcome, Option<String>) {
        if !expect.is_right_status(self.status) {
            return (Outcome::UnexpectedStatus, None);
        }
        if let Some(body) = &expect.body
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
        if kept.len() + data.len() > limits::CHECKED_BODY_BYTES {
            self.kept = None;
            self.is_too_long = true;
        } else {
            kept.extend_from_slice(data);
        }
    }

    fn judge(self, deep: &Deep) -> (Outcome, Option<String>) {
        if self.header_fault.is_some() {
            return (Outcome::UnexpectedHeader, self.header_fault);
        }
        if self.is_too_long {
            return (Outcome::UnexpectedBody, Some("the body is too long to be checked".into()));
        }
        match self.kept.and_then(|body| body_fault(&body, deep)) {
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
            return Some(format!("no header {name}"));
        }
        if seen.any(|(_, value)| wanted.is_met_by(value)) {
            return None;
        }
        Some(match wanted {
            Wanted::Any => unreachable!("any value will do"),
            Wanted::Is(text) => format!("header {name} is not {text:?}"),
            Wanted::Matches(expression) => format!("header {name} does not match {expression}"),
        })
    })
}

fn body_fault(body: &[u8], deep: &Deep) -> Option<String> {
    if let Some(wanted) = &deep.sha256
        && Sha256::digest(body).as_slice() != wanted
    {
        return Some("the body's SHA-256 differs".into());
    }
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
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) else {
        return Some("the body is not JSON".into());
    };
    let nothing = |pointer: &str| Some(format!("nothing stands at JSON pointer {pointer:?}"));
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

/// A value as an expression sees it: a string without its quotes, anything else as JSON has it.
fn text_of(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), String::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_wire::h1::response::{Event, Reader, RequestKind};

    /// Judges a whole answer in full.
    fn judge(expect: &Expectation, bytes: &[u8]) -> (Outcome, Option<String>) {
        let (mut reader, mut answer, mut rest) = (Reader::new(), Answer::default(), bytes);
        loop {
            let (used, event) = reader.next(rest, RequestKind::Other).unwrap();
            rest = &rest[used..];
            match event {
                Event::Head(head) => answer.see_head(head.status, || head.fields(), expect, true),
                Event::Body(data) => answer.see_body(data, expect),
                Event::End(_) => {
                    let Verdict { outcome, fault, .. } = answer.judge(expect);
                    return (outcome, fault);
                }
                Event::NeedMore | Event::Informational(_) | Event::Upgraded(_) => {
                    panic!("the answer is whole")
                }
            }
        }
    }

    fn deep(deep: Deep) -> Expectation {
        Expectation { deep: Arc::new(deep), ..Expectation::default() }
    }

    const ANSWER: &[u8] =
        b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 19\r\n\r\n{\"a\":{\"b\":[1,\"x\"]}}";

    #[test]
    fn headers_may_be_there_several_times() {
        let matches = |text: &str| Wanted::Matches(Regex::new(text).unwrap());
        for (name, value, right) in [
            ("X-A", Wanted::Is("2".into()), true),
            ("x-A", Wanted::Any, true),
            ("x-a", Wanted::Is("3".into()), false),
            ("x-b", Wanted::Any, false),
            ("x-a", matches("^[2-9]$"), true),
            ("x-a", matches("^[3-9]$"), false),
        ] {
            let wanted = vec![(name.to_string(), value)];
            let (outcome, fault) = judge(&deep(Deep { headers: wanted, ..Deep::default() }), ANSWER);
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
            (Deep { contains: Some(b"\"c\"".to_vec()), ..Deep::default() }, Some("does not contain")),
            (json("/a/b/1", "x".into()), None),
            (json("/a/b/0", 2.into()), Some("is not 2")),
            (json("/a/c", 2.into()), Some("nothing stands")),
            (Deep { matches: Some(expression("(?i)\"B\"")), ..Deep::default() }, None),
            (Deep { matches: Some(expression("^b")), ..Deep::default() }, Some("does not match ^b")),
            (json_matches("/a/b/1", "^[xyz]$"), None),
            (json_matches("/a/b/0", "^1$"), None),
            (json_matches("/a/b/1", "^x.$"), Some("does not match ^x.$")),
            (json_matches("/a/c", "."), Some("nothing stands")),
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

    #[test]
    fn the_cheap_expectations_come_first() {
        let expect =
            Expectation { status: Some(201), ..deep(Deep { sha256: Some([0; 32]), ..Deep::default() }) };
        assert_eq!(judge(&expect, ANSWER), (Outcome::UnexpectedStatus, None));
        let expect = Expectation { body: Some(Arc::from(&b"{"[..])), ..Expectation::default() };
        assert_eq!(judge(&expect, ANSWER), (Outcome::UnexpectedBody, None));
    }
}
