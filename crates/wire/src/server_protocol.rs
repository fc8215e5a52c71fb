//! A server's connection that takes either protocol: its first bytes say which.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::h1::request;
use crate::h2::server;

/// The protocol of a server's connection, with its state. `H2` is the type of that state where it
/// is HTTP/2.
#[derive(Debug)]
pub enum ServerProtocol<H2> {
    /// Not known yet: the few bytes that have come could begin either.
    Unknown(Vec<u8>),
    H1(request::RequestReader),
    H2(Box<H2>),
}

impl<H2> Default for ServerProtocol<H2> {
    fn default() -> Self {
        ServerProtocol::Unknown(Vec::new())
    }
}

impl<H2> ServerProtocol<H2> {
    /// Takes bytes of a connection whose protocol is not known yet. Returns `None` while they could
    /// begin either, and then all bytes that have come: none of them has been read. `begin_h2`
    /// makes the state of a connection of HTTP/2.
    ///
    /// # Panics
    ///
    /// If the protocol is known already.
    pub fn begin(&mut self, bytes: &[u8], begin_h2: impl FnOnce() -> H2) -> Option<Vec<u8>> {
        let ServerProtocol::Unknown(kept) = self else {
            panic!("what is spoken is known, so these bytes are its")
        };
        kept.extend_from_slice(bytes);
        let is_h2 = server::is_spoken(kept)?;
        let first = core::mem::take(kept);
        *self = if is_h2 {
            ServerProtocol::H2(Box::new(begin_h2()))
        } else {
            ServerProtocol::H1(request::RequestReader::new())
        };
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::frame::PREFACE;

    /// Begins a connection with bytes in two pieces, the first of which could begin either
    /// protocol. Returns its state and all bytes.
    fn begin(first: &[u8], second: &[u8]) -> (ServerProtocol<&'static str>, Vec<u8>) {
        let mut talk = ServerProtocol::default();
        assert_eq!(talk.begin(first, || "too early"), None);
        let all = talk.begin(second, || "begun").expect("the second piece decides");
        (talk, all)
    }

    #[test]
    fn what_came_before_it_was_known_is_not_lost() {
        let (talk, all) = begin(&PREFACE[..5], &PREFACE[5..]);
        assert!(matches!(talk, ServerProtocol::H2(kept) if *kept == "begun"));
        assert_eq!(all, PREFACE);
        let (talk, all) = begin(b"PR", b"OPFIND / HTTP/1.1\r\n");
        assert!(matches!(talk, ServerProtocol::H1(_)));
        assert_eq!(all, b"PROPFIND / HTTP/1.1\r\n");
    }
}
