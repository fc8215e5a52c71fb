//! Contracts that servers must keep (docs/subjects.md): over plain HTTP/1.1 with sockets of our own, which see every
//! byte, and over everything else by questions to a client that has to understand the protocol anyway.

use dyno_archive::Protocol;

use crate::bytes;
use crate::check::{Check, How};
use crate::questions::{JSON, Media, PLAINTEXT, questions};

/// The contracts that a server may keep, by their names.
pub const CONTRACTS: [&str; 2] = ["hello", "hello-bodies"];

/// The checks that a server which keeps these contracts must pass at a listener of a protocol.
#[must_use]
pub fn checks_of(kept: &[String], protocol: Protocol) -> Vec<Check> {
    let Some(media) = media(kept) else { return Vec::new() };
    if protocol == Protocol::H1 && media == Media::Checked {
        let named = |(name, run): &(&str, _)| Check { name: (*name).into(), how: How::Bytes(*run) };
        return bytes::HELLO.iter().map(named).collect();
    }
    let over = |name: &str| format!("{name} over {protocol}");
    let asked = |question| How::Question(Box::new(question));
    questions(protocol, media).into_iter().map(|q| Check { name: over(&q.name), how: asked(q) }).collect()
}

/// How many checks a server has to pass, over all its protocols.
#[must_use]
pub fn count(kept: &[String], protocols: &[Protocol]) -> usize {
    protocols.iter().map(|&protocol| checks_of(kept, protocol).len()).sum()
}

/// `None`: no contract is kept.
fn media(kept: &[String]) -> Option<Media> {
    kept.iter().find_map(|name| match name.as_str() {
        "hello" => Some(Media::Checked),
        "hello-bodies" => Some(Media::Any),
        _ => None,
    })
}

/// The body that a path must be answered with, where a contract says so.
#[must_use]
pub fn body_of(kept: &[String], path: &str) -> Option<&'static [u8]> {
    let keeps_hello = media(kept).is_some();
    match path {
        "/plaintext" if keeps_hello => Some(PLAINTEXT),
        "/json" if keeps_hello => Some(JSON),
        _ => None,
    }
}
