//! The part of HTTP/1.1 that a load generator needs: requests without bodies, one fixed answer.

use std::io::{self, Read, Write};
use std::net::TcpStream;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\n";
pub const BODY: &[u8] = b"Hello, World!";

const END: &[u8] = b"\r\n\r\n";

/// A connection, and what was read of the next request.
#[derive(Debug)]
pub struct ServerConnection {
    pub stream: TcpStream,
    read: Vec<u8>,
}

impl ServerConnection {
    pub fn new(stream: TcpStream) -> ServerConnection {
        ServerConnection { stream, read: Vec::new() }
    }

    /// Reads once. Returns how many requests are complete; `None` once the connection is at its
    /// end.
    pub fn receive(&mut self) -> Option<usize> {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => None,
            Ok(n) => {
                self.read.extend_from_slice(&buffer[..n]);
                Some(take_requests(&mut self.read))
            }
            Err(error) if is_early(&error) => Some(0),
            Err(_) => None,
        }
    }

    pub fn answer(&mut self) -> io::Result<()> {
        self.stream.write_all(&[HEAD, BODY].concat())
    }

    pub fn answer_in_two_writes(&mut self) -> io::Result<()> {
        self.stream.write_all(HEAD)?;
        self.stream.write_all(BODY)
    }
}

/// Asks a server of this kind once.
pub fn ask(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: backend\r\n\r\n")?;
    let (mut answer, mut buffer) = (Vec::new(), [0; 512]);
    while !answer.ends_with(BODY) {
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => answer.extend_from_slice(&buffer[..n]),
        }
    }
    Ok(())
}

fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Removes the complete requests, and returns how many there were.
fn take_requests(read: &mut Vec<u8>) -> usize {
    let mut count = 0;
    while let Some(at) = read.windows(END.len()).position(|four| four == END) {
        read.drain(..at + END.len());
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_request_stays() {
        let mut read = b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\nGET".to_vec();
        assert_eq!((take_requests(&mut read), read.as_slice()), (2, &b"GET"[..]));
        assert_eq!((take_requests(&mut read), read.as_slice()), (0, &b"GET"[..]));
    }
}
