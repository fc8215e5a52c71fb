//! Detects from its first bytes whether a connection to a server uses HTTP/1.x or HTTP/2.
//!
//! The null responder and the simulated servers accept both on one port.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::h1::request;
use crate::h2::server;

/// The protocol of a server's connection, with the connection's state. `H2` is the type of the
/// state for HTTP/2.
#[derive(Debug)]
pub enum ServerProtocol<H2> {
    /// Not known yet: the bytes received so far could begin either protocol.
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
    /// Takes bytes of a connection whose protocol is not known yet. Returns `None` while the bytes
    /// could begin either protocol. Once the protocol is known, returns all bytes received so far,
    /// for the reader of that protocol. `begin_h2` creates the state of an HTTP/2 connection.
    ///
    /// # Panics
    ///
    /// If the protocol is already known.
    pub fn begin(&mut self, bytes: &[u8], begin_h2: impl FnOnce() -> H2) -> Option<Vec<u8>> {
        let ServerProtocol::Unknown(received) = self else {
            panic!("the reader of the known protocol should take these bytes")
        };
        received.extend_from_slice(bytes);
        let is_h2 = server::is_http2(received)?;
        let received = core::mem::take(received);
        *self = if is_h2 {
            ServerProtocol::H2(Box::new(begin_h2()))
        } else {
            ServerProtocol::H1(request::RequestReader::new())
        };
        Some(received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::frame::PREFACE;

    /// Begins a connection with bytes in two pieces, the first of which could begin either
    /// protocol. Returns its state and all bytes.
    fn begin(first: &[u8], second: &[u8]) -> (ServerProtocol<&'static str>, Vec<u8>) {
        let mut protocol = ServerProtocol::default();
        assert_eq!(protocol.begin(first, || "too early"), None);
        let bytes = protocol.begin(second, || "begun").expect("the second piece decides");
        (protocol, bytes)
    }

    #[test]
    fn bytes_before_detection_are_returned() {
        let (protocol, bytes) = begin(&PREFACE[..5], &PREFACE[5..]);
        assert!(matches!(protocol, ServerProtocol::H2(state) if *state == "begun"));
        assert_eq!(bytes, PREFACE);
        let (protocol, bytes) = begin(b"PR", b"OPFIND / HTTP/1.1\r\n");
        assert!(matches!(protocol, ServerProtocol::H1(_)));
        assert_eq!(bytes, b"PROPFIND / HTTP/1.1\r\n");
    }
}
