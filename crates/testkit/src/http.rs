//! Implements the small part of HTTP/1.1 that test servers need: requests without bodies, and one
//! fixed response.

use std::io::{self, Read, Write};
use std::net::TcpStream;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\n";
pub const BODY: &[u8] = b"Hello, World!";

/// End of a request without a body.
const END: &[u8] = b"\r\n\r\n";

/// A connection of a server.
#[derive(Debug)]
pub struct ServerConnection {
    pub stream: TcpStream,
    /// Received bytes of incomplete requests.
    unparsed: Vec<u8>,
}

impl ServerConnection {
    pub fn new(stream: TcpStream) -> ServerConnection {
        ServerConnection { stream, unparsed: Vec::new() }
    }

    /// Reads once, and returns the number of complete requests. `None`: the connection has ended.
    pub fn receive(&mut self) -> Option<usize> {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => None,
            Ok(n) => {
                self.unparsed.extend_from_slice(&buffer[..n]);
                Some(take_requests(&mut self.unparsed))
            }
            Err(error) if is_temporary(&error) => Some(0),
            Err(_) => None,
        }
    }

    /// Sends a response in one write.
    pub fn respond(&mut self) -> io::Result<()> {
        self.stream.write_all(&[HEAD, BODY].concat())
    }

    /// Sends the head and the body of a response in separate writes.
    pub fn respond_in_two_writes(&mut self) -> io::Result<()> {
        self.stream.write_all(HEAD)?;
        self.stream.write_all(BODY)
    }
}

/// Sends a request to a test server, and reads its response.
pub fn request(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: backend\r\n\r\n")?;
    let (mut response, mut buffer) = (Vec::new(), [0; 512]);
    while !response.ends_with(BODY) {
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => response.extend_from_slice(&buffer[..n]),
        }
    }
    Ok(())
}

/// Whether a later read can succeed.
fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Removes complete requests from the received bytes, and returns their number.
fn take_requests(unparsed: &mut Vec<u8>) -> usize {
    let mut count = 0;
    while let Some(at) = unparsed.windows(END.len()).position(|window| window == END) {
        unparsed.drain(..at + END.len());
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_requests_keeps_incomplete_request() {
        let mut read = b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\nGET".to_vec();
        assert_eq!((take_requests(&mut read), read.as_slice()), (2, &b"GET"[..]));
        assert_eq!((take_requests(&mut read), read.as_slice()), (0, &b"GET"[..]));
    }
}
