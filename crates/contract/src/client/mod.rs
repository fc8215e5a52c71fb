//! A plain blocking HTTP client for readiness probes and contract checks. Load never goes through it.

mod answer;
mod h2;
mod transport;

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use dyno_archive::Protocol;
use dyno_engine::Tls;
use dyno_wire::h1::encode;
use dyno_wire::h1::response::{Closed, End, Event, Reader, RequestKind};

use crate::listener::Listener;
use transport::{Transport, closed};

pub use answer::{Answer, Keep};

/// A connection with the answers still to be read on it.
#[derive(Debug)]
pub struct Connection {
    transport: Transport,
    reader: Reader,
    unread: Vec<u8>,
}

impl Connection {
    /// `timeout` is for everything that is done on this connection.
    pub fn new(stream: TcpStream, timeout: Duration) -> io::Result<Connection> {
        Ok(Connection::on(Transport::new(stream, None, timeout)?))
    }

    fn on(transport: Transport) -> Connection {
        Connection { transport, reader: Reader::new(), unread: Vec::new() }
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.transport.write_all(bytes)
    }

    /// Reads one whole answer.
    pub fn answer(&mut self, kind: RequestKind) -> io::Result<Answer> {
        self.read_answer(kind, Keep::Whole)
    }

    fn read_answer(&mut self, kind: RequestKind, keep: Keep) -> io::Result<Answer> {
        let mut answer = Answer { status: 0, headers: Vec::new(), body: Vec::new(), reusable: false };
        loop {
            let (used, done) = take(&mut self.reader, &self.unread, kind, keep, &mut answer)?;
            self.unread.drain(..used);
            if done {
                return Ok(answer);
            }
            let mut buffer = [0; 16 * 1024];
            let n = self.transport.read(&mut buffer)?;
            if n == 0 {
                return match self.reader.eof().map_err(io::Error::other)? {
                    Closed::EndsMessage => Ok(answer),
                    Closed::BetweenMessages => Err(closed()),
                };
            }
            self.unread.extend_from_slice(&buffer[..n]);
        }
    }

    /// Waits for what the peer does next, until this connection's deadline.
    pub fn does_next(&mut self) -> Next {
        if !self.unread.is_empty() {
            return Next::Sends;
        }
        match self.transport.read(&mut [0; 1]) {
            Ok(0) => Next::Closes,
            Ok(_) => Next::Sends,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Next::Waits,
            Err(_) => Next::Closes,
        }
    }
}

/// What a peer does after its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The peer closes the connection, in order or with a reset.
    Closes,
    /// The peer sends bytes that nobody asked for.
    Sends,
    /// The peer does nothing, in the time there was.
    Waits,
}

fn take(
    reader: &mut Reader,
    mut bytes: &[u8],
    kind: RequestKind,
    keep: Keep,
    answer: &mut Answer,
) -> io::Result<(usize, bool)> {
    let whole = bytes.len();
    loop {
        let (used, event) = reader.next(bytes, kind).map_err(io::Error::other)?;
        bytes = &bytes[used..];
        match event {
            Event::NeedMore => return Ok((whole - bytes.len(), false)),
            Event::Informational(_) | Event::Upgraded(_) => {}
            Event::Head(head) => {
                answer.status = head.status;
                let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
                answer.headers = head.fields().map(|(n, v)| (text(n), text(v))).collect();
            }
            Event::Body(data) => answer.extend(data, keep)?,
            Event::End(end) => {
                answer.reusable = end == End::Reusable;
                return Ok((whole - bytes.len(), true));
            }
        }
    }
}

/// GETs `path` on a fresh plain connection by HTTP/1.1, within `timeout`.
pub fn get(stream: TcpStream, path: &str, timeout: Duration) -> io::Result<Answer> {
    get_h1(Transport::new(stream, None, timeout)?, "127.0.0.1", path, Keep::Whole)
}

fn get_h1(transport: Transport, host: &str, path: &str, keep: Keep) -> io::Result<Answer> {
    let mut connection = Connection::on(transport);
    let request = encode::request("GET", path, host, &[], b"").map_err(io::Error::other)?;
    connection.send(&request)?;
    connection.read_answer(RequestKind::Other, keep)
}

/// A client for single requests to one listener, in its protocol.
#[derive(Debug)]
pub struct ProbeClient {
    listener: Listener,
    tls: Option<Tls>,
}

impl ProbeClient {
    /// # Errors
    /// A sentence: the listener's authority cannot be read.
    pub fn new(listener: &Listener) -> Result<ProbeClient, String> {
        let tls = listener.tls().map(|options| options.configure()).transpose()?;
        Ok(ProbeClient { listener: listener.clone(), tls })
    }

    #[must_use]
    pub fn listener(&self) -> &Listener {
        &self.listener
    }

    /// Connects and GETs `path`, each within `timeout`.
    pub fn ask(&self, path: &str, timeout: Duration, keep: Keep) -> io::Result<Answer> {
        self.get(TcpStream::connect_timeout(&self.listener.addr, timeout)?, path, timeout, keep)
    }

    /// GETs `path` on a fresh connection to the listener, within `timeout`.
    pub fn get(&self, stream: TcpStream, path: &str, timeout: Duration, keep: Keep) -> io::Result<Answer> {
        let mut transport = Transport::new(stream, self.tls.as_ref(), timeout)?;
        let host = self.listener.host();
        match self.listener.protocol {
            Protocol::H1 | Protocol::H1Tls | Protocol::H2cUpgrade => get_h1(transport, &host, path, keep),
            Protocol::H2 | Protocol::Auto => h2::get(&mut transport, "https", &host, path, keep),
            Protocol::H2c => h2::get(&mut transport, "http", &host, path, keep),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use crate::limits::{BODY_BYTES, SHOWN_BODY_BYTES};

    /// The answer to one question whose body has this many bytes.
    fn answer(bytes: usize, keep: Keep) -> io::Result<Answer> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
            // Who asks may have had enough before its end.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&vec![b'x'; bytes]));
        });
        let client = ProbeClient::new(&Listener { addr, protocol: Protocol::H1, authority: None }).unwrap();
        let answer = client.ask("/", Duration::from_secs(600), keep);
        server.join().unwrap();
        answer
    }

    #[test]
    fn a_body_is_kept_up_to_a_bound() {
        assert_eq!(answer(BODY_BYTES, Keep::Whole).unwrap().body.len(), BODY_BYTES);
        let error = answer(BODY_BYTES + 1, Keep::Whole).unwrap_err().to_string();
        assert!(error.contains("longer than 16 MiB"), "{error}");
        let cut = answer(BODY_BYTES + 1, Keep::Beginning).unwrap();
        assert_eq!((cut.status, cut.body.len(), cut.reusable), (200, SHOWN_BODY_BYTES, true));
    }
}
