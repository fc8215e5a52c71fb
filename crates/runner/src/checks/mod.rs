//! Contracts that subjects must keep (docs/subjects.md): over plain HTTP/1.1 with sockets of our own, which see every
//! byte, and over everything else with the load's own client, which has to understand it anyway.

mod asked;
mod bytes;

use std::net::SocketAddr;

use dyno_archive::Protocol;
use dyno_archive::trial::CheckResult;

use crate::door::Door;
use crate::subject::Definition;
use asked::Question;

const PLAINTEXT: &[u8] = b"Hello, World!";
const JSON: &[u8] = br#"{"message":"Hello, World!"}"#;

/// What was seen, or what is wrong.
type Verdict = Result<String, Problem>;

/// Why a check failed.
#[derive(Debug)]
enum Problem {
    /// An answer came, and it was wrong.
    Wrong(String),
    /// No whole answer came.
    NoAnswer(String),
}

/// One named check at one door.
#[derive(Clone, Debug)]
pub struct Check {
    pub name: String,
    door: Door,
    how: How,
}

#[derive(Clone, Debug)]
enum How {
    /// Plain HTTP/1.1, byte by byte.
    Bytes(fn(SocketAddr) -> Verdict),
    /// By the load's client.
    Asked(Box<Question>),
}

/// What a subject must prove at a door.
#[must_use]
pub fn contract(definition: &Definition, door: &Door) -> Vec<Check> {
    let named = |name: &str, how| Check { name: name.into(), door: door.clone(), how };
    let Some(media) = media(definition) else { return Vec::new() };
    if door.protocol == Protocol::H1 && media == Media::Checked {
        return bytes::HELLO.iter().map(|(name, run)| named(name, How::Bytes(*run))).collect();
    }
    asked::questions(door.protocol, media)
        .into_iter()
        .map(|q| named(&format!("{} over {}", q.name, door.protocol), How::Asked(Box::new(q))))
        .collect()
}

/// How many checks a subject has to pass, over all its protocols.
#[must_use]
pub fn count(definition: &Definition) -> usize {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let door = |&protocol: &Protocol| Door { addr: nowhere, protocol, authority: None };
    definition.protocols.iter().map(|protocol| contract(definition, &door(protocol)).len()).sum()
}

/// Whether the Content-Type of an answer is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Media {
    Checked,
    Any,
}

/// `None`: it keeps no contract.
fn media(definition: &Definition) -> Option<Media> {
    definition.checks.iter().find_map(|name| match name.as_str() {
        "hello" => Some(Media::Checked),
        "hello-bodies" => Some(Media::Any),
        _ => None,
    })
}

/// The body that a path must answer with, where a contract of the subject says so.
#[must_use]
pub fn body_of(definition: &Definition, path: &str) -> Option<&'static [u8]> {
    let keeps_hello = media(definition).is_some();
    match path {
        "/plaintext" if keeps_hello => Some(PLAINTEXT),
        "/json" if keeps_hello => Some(JSON),
        _ => None,
    }
}

impl Check {
    #[must_use]
    pub fn run(&self) -> CheckResult {
        let verdict = match &self.how {
            How::Bytes(run) => run(self.door.addr),
            How::Asked(question) => question.put(&self.door),
        };
        let (ok, answered, detail) = match verdict {
            Ok(detail) => (true, true, detail),
            Err(Problem::Wrong(detail)) => (false, true, detail),
            Err(Problem::NoAnswer(detail)) => (false, false, detail),
        };
        CheckResult { name: self.name.clone(), ok, answered, detail }
    }
}
