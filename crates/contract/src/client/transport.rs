//! The bytes of a connection, plain or over TLS.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use dyno_engine::Tls;
use rustls::{ClientConnection, StreamOwned};

/// Bytes to and from a server, until a deadline.
#[derive(Debug)]
pub(super) struct Transport {
    stream: Stream,
    /// For everything that is done on this connection.
    deadline: Instant,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Transport {
    pub(super) fn new(stream: TcpStream, tls: Option<&Tls>, timeout: Duration) -> io::Result<Transport> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let stream = match tls {
            None => Stream::Plain(stream),
            Some(tls) => {
                let connection = ClientConnection::new(tls.config.clone(), tls.name.clone());
                let connection = connection.map_err(io::Error::other)?;
                // The handshake is made with the first write.
                Stream::Tls(Box::new(StreamOwned::new(connection, stream)))
            }
        };
        Ok(Transport { stream, deadline: Instant::now() + timeout })
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(bytes),
            Stream::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let read = match &mut self.stream {
                Stream::Plain(stream) => {
                    stream.set_read_timeout(Some(left))?;
                    stream.read(buffer)
                }
                Stream::Tls(stream) => {
                    stream.sock.set_read_timeout(Some(left))?;
                    stream.read(buffer)
                }
            };
            return match read {
                // A ring of a load that has just ended is still being taken down, which interrupts this thread.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"))
                }
                read => read,
            };
        }
    }
}

/// The error of a connection that is closed without an answer.
pub(super) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed without an answer")
}
