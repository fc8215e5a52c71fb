//! A plain blocking HTTP client for readiness probes and contract checks. Load never goes through it.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use dyno_wire::h1::response::{Asked, Closed, End, Event, Reader};

/// One whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the connection could be used again.
    pub reusable: bool,
}

impl Answer {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// The answer in the form in which a report shows it.
    #[must_use]
    pub fn shown(&self) -> String {
        let headers: String = self.headers.iter().map(|(n, v)| format!("{n}: {v}\n")).collect();
        let body = String::from_utf8_lossy(&self.body[..self.body.len().min(500)]).into_owned();
        format!("{}\n{headers}\n{body}", self.status)
    }
}

/// A connection with the answers still to be read on it.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    reader: Reader,
    unread: Vec<u8>,
    deadline: Instant,
}

impl Connection {
    /// `timeout` is for everything that is done on this connection.
    pub fn new(stream: TcpStream, timeout: Duration) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Connection {
            stream,
            reader: Reader::new(),
            unread: Vec::new(),
            deadline: Instant::now() + timeout,
        })
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads one whole answer.
    pub fn answer(&mut self, asked: Asked) -> io::Result<Answer> {
        let mut answer = Answer { status: 0, headers: Vec::new(), body: Vec::new(), reusable: false };
        loop {
            let (used, done) = take(&mut self.reader, &self.unread, asked, &mut answer)?;
            self.unread.drain(..used);
            if done {
                return Ok(answer);
            }
            let mut buffer = [0; 16 * 1024];
            let n = self.read(&mut buffer)?;
            if n == 0 {
                return match self.reader.eof().map_err(io::Error::other)? {
                    Closed::EndsMessage => Ok(answer),
                    Closed::BetweenMessages => Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the connection was closed without an answer",
                    )),
                };
            }
            self.unread.extend_from_slice(&buffer[..n]);
        }
    }

    /// Whether the peer closes the connection, without sending anything more.
    pub fn is_closed_by_peer(&mut self) -> bool {
        self.unread.is_empty() && matches!(self.read(&mut [0; 1]), Ok(0))
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "no answer in time"),
            _ => error,
        })
    }
}

fn take(
    reader: &mut Reader,
    mut bytes: &[u8],
    asked: Asked,
    answer: &mut Answer,
) -> io::Result<(usize, bool)> {
    let whole = bytes.len();
    loop {
        let (used, event) = reader.next(bytes, asked).map_err(io::Error::other)?;
        bytes = &bytes[used..];
        match event {
            Event::NeedMore => return Ok((whole - bytes.len(), false)),
            Event::Informational(_) | Event::Upgraded(_) => {}
            Event::Head(head) => {
                answer.status = head.status;
                let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
                answer.headers = head.fields().map(|(n, v)| (text(n), text(v))).collect();
            }
            Event::Body(data) => answer.body.extend_from_slice(data),
            Event::End(end) => {
                answer.reusable = end == End::Reusable;
                return Ok((whole - bytes.len(), true));
            }
        }
    }
}

/// GETs `path` on a fresh connection, within `timeout`.
pub fn get(stream: TcpStream, path: &str, timeout: Duration) -> io::Result<Answer> {
    let mut connection = Connection::new(stream, timeout)?;
    let request =
        dyno_wire::h1::encode::request("GET", path, "127.0.0.1", &[], b"").map_err(io::Error::other)?;
    connection.send(&request)?;
    connection.answer(Asked::Other)
}
