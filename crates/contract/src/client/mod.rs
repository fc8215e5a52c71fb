//! A blocking HTTP client for readiness probes and contract checks. Loads do not use it.

mod h2;
mod response;
mod transport;

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use dyno_engine::traffic::Template;
use dyno_engine::{CompiledRequest, Http2, Tls, Traffic};
use dyno_model::Protocol;
use dyno_model::plan::{Request, Workload};
use dyno_wire::h1::encode;
use dyno_wire::h1::response::{Closed, End, RequestKind, ResponseEvent, ResponseReader};
use dyno_workload::compile;
use transport::{Transport, closed_error};

use crate::listener::Listener;

pub use response::{BodyRetention, ProbeResponse};

/// An HTTP/1.1 connection, with the received bytes that have not been parsed.
#[derive(Debug)]
pub struct Connection {
    transport: Transport,
    reader: ResponseReader,
    unread: Vec<u8>,
}

impl Connection {
    /// Wraps a stream. `timeout`: deadline of all operations on this connection.
    pub fn new(stream: TcpStream, timeout: Duration) -> io::Result<Connection> {
        Ok(Connection::from_transport(Transport::new(stream, None, timeout)?))
    }

    /// Sets the deadline of all further operations to this time from now.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.transport.set_timeout(timeout);
    }

    /// Waits until `length` bytes after the last response have arrived. Returns all unread bytes.
    pub fn peek(&mut self, length: usize) -> io::Result<&[u8]> {
        while self.unread.len() < length {
            let mut buffer = [0; 4096];
            match self.transport.read(&mut buffer)? {
                0 => return Err(closed_error()),
                n => self.unread.extend_from_slice(&buffer[..n]),
            }
        }
        Ok(&self.unread)
    }

    fn from_transport(transport: Transport) -> Connection {
        Connection { transport, reader: ResponseReader::new(), unread: Vec::new() }
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.transport.write_all(bytes)
    }

    /// Reads one whole response.
    pub fn read_response(&mut self, kind: RequestKind) -> io::Result<ProbeResponse> {
        self.read_response_with(kind, BodyRetention::Whole)
    }

    /// Reads one whole response, and stores its body as `retention` says.
    fn read_response_with(
        &mut self,
        kind: RequestKind,
        retention: BodyRetention,
    ) -> io::Result<ProbeResponse> {
        let mut response =
            ProbeResponse { status: 0, headers: Vec::new(), body: Vec::new(), reusable: false };
        loop {
            let (used, is_complete) =
                read_events(&mut self.reader, &self.unread, kind, retention, &mut response)?;
            self.unread.drain(..used);
            if is_complete {
                return Ok(response);
            }
            let mut buffer = [0; 16 * 1024];
            let n = self.transport.read(&mut buffer)?;
            if n == 0 {
                return match self.reader.eof().map_err(malformed_error)? {
                    Closed::EndsMessage => Ok(response),
                    Closed::BetweenMessages => Err(closed_error()),
                };
            }
            self.unread.extend_from_slice(&buffer[..n]);
        }
    }

    /// Waits for the peer's next action, until this connection's deadline.
    pub fn wait_for_action(&mut self) -> PeerAction {
        if !self.unread.is_empty() {
            return PeerAction::Sends;
        }
        match self.transport.read(&mut [0; 1]) {
            Ok(0) => PeerAction::Closes,
            Ok(_) => PeerAction::Sends,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => PeerAction::Waits,
            Err(_) => PeerAction::Closes,
        }
    }
}

/// A peer's action after its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAction {
    /// The peer closes the connection, normally or with a reset.
    Closes,
    /// The peer sends unsolicited bytes.
    Sends,
    /// The peer neither sends nor closes until the deadline.
    Waits,
}

/// Reads events from `bytes` into a response. Returns the number of bytes used, and whether the
/// response is complete.
fn read_events(
    reader: &mut ResponseReader,
    mut bytes: &[u8],
    kind: RequestKind,
    retention: BodyRetention,
    response: &mut ProbeResponse,
) -> io::Result<(usize, bool)> {
    let length = bytes.len();
    loop {
        let (used, event) = reader.next(bytes, kind).map_err(malformed_error)?;
        bytes = &bytes[used..];
        match event {
            ResponseEvent::NeedMore => return Ok((length - bytes.len(), false)),
            ResponseEvent::Informational(_) | ResponseEvent::Upgraded(_) => {}
            ResponseEvent::Head(head) => {
                response.status = head.status;
                let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
                response.headers = head.fields().map(|(n, v)| (text(n), text(v))).collect();
            }
            ResponseEvent::Body(data) => response.add_body(data, retention)?,
            ResponseEvent::End(end) => {
                response.reusable = end == End::Reusable;
                return Ok((length - bytes.len(), true));
            }
        }
    }
}

/// Returns the error for a response that violates its protocol.
fn malformed_error(violation: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, violation)
}

/// Sends GET for `path` over HTTP/1.1 on a new plain connection. `timeout`: of the whole exchange.
pub fn get(stream: TcpStream, path: &str, timeout: Duration) -> io::Result<ProbeResponse> {
    let request = encode::request("GET", path, "127.0.0.1", &[], b"").map_err(io::Error::other)?;
    let mut connection = Connection::new(stream, timeout)?;
    connection.send(&request)?;
    connection.read_response(RequestKind::Other)
}

/// A client for single exchanges with one listener, over its protocol.
#[derive(Debug)]
pub struct ProbeClient {
    listener: Listener,
    tls: Option<Tls>,
}

/// A connection that sends one request at a time, over the listener's protocol.
#[derive(Debug)]
pub struct Session(SessionProtocol);

#[derive(Debug)]
enum SessionProtocol {
    H1(Connection),
    H2(Box<h2::H2Session>),
}

impl Session {
    /// Sets the deadline of all further exchanges to this time from now.
    pub fn set_timeout(&mut self, timeout: Duration) {
        match &mut self.0 {
            SessionProtocol::H1(connection) => connection.set_timeout(timeout),
            SessionProtocol::H2(session) => session.set_timeout(timeout),
        }
    }

    /// Sends a request, and reads the whole response. An error of the kind `InvalidData` means that
    /// the response violates its protocol.
    pub fn exchange(
        &mut self,
        request: &CompiledRequest,
        retention: BodyRetention,
    ) -> io::Result<ProbeResponse> {
        match &mut self.0 {
            SessionProtocol::H1(connection) => {
                connection.send(http1_bytes(request)?)?;
                connection.read_response_with(request.kind, retention)
            }
            SessionProtocol::H2(session) => {
                session.exchange(h2::StreamedRequest::new(request)?, retention)
            }
        }
    }
}

/// Returns the bytes of a request over HTTP/1.1.
pub(crate) fn http1_bytes(request: &CompiledRequest) -> io::Result<&[u8]> {
    match &request.template {
        Template::Fixed(bytes) => Ok(bytes),
        Template::Varying { .. } => Err(io::Error::other("the request has placeholders")),
    }
}

impl ProbeClient {
    /// # Errors
    /// The listener's authority cannot be read.
    pub fn new(listener: &Listener) -> Result<ProbeClient, String> {
        let tls = listener.tls().map(|options| options.configure()).transpose()?;
        Ok(ProbeClient { listener: listener.clone(), tls })
    }

    #[must_use]
    pub fn listener(&self) -> &Listener {
        &self.listener
    }

    /// Compiles requests for the listener.
    ///
    /// # Errors
    /// A request cannot be sent.
    pub fn compile(&self, requests: Vec<Request>) -> Result<Traffic, String> {
        let protocol = self.listener.protocol;
        let workload = Workload {
            name: String::new(),
            protocol,
            requests,
            page: None,
            sequence: None,
            requests_per_connection: None,
        };
        compile::compile(&workload, &self.listener.host(), &Http2::default(), &|_| {
            Err("no files here".into())
        })
    }

    /// Connects. `timeout`: deadline of the connection and of all operations on it.
    pub fn session(&self, traffic: &Traffic, timeout: Duration) -> io::Result<Session> {
        self.session_on(TcpStream::connect_timeout(&self.listener.addr, timeout)?, traffic, timeout)
    }

    /// Connects, with or without TLS, for a check of HTTP/1.1 bytes.
    pub fn connection(&self, timeout: Duration) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&self.listener.addr, timeout)?;
        Ok(Connection::from_transport(Transport::new(stream, self.tls.as_ref(), timeout)?))
    }

    /// Starts the listener's protocol on a new connection.
    fn session_on(
        &self,
        stream: TcpStream,
        traffic: &Traffic,
        timeout: Duration,
    ) -> io::Result<Session> {
        let transport = Transport::new(stream, self.tls.as_ref(), timeout)?;
        Ok(Session(match self.listener.protocol {
            // Requests of this client ask for no upgrade, so the connection stays with HTTP/1.1.
            Protocol::H1 | Protocol::H1Tls | Protocol::H2cUpgrade => {
                SessionProtocol::H1(Connection::from_transport(transport))
            }
            Protocol::H2 | Protocol::Auto | Protocol::H2c => {
                SessionProtocol::H2(Box::new(h2::H2Session::new(transport, traffic)))
            }
        }))
    }

    /// Connects and sends GET for `path`. `timeout`: of the connection, and of the exchange.
    pub fn get(
        &self,
        path: &str,
        timeout: Duration,
        retention: BodyRetention,
    ) -> io::Result<ProbeResponse> {
        let stream = TcpStream::connect_timeout(&self.listener.addr, timeout)?;
        self.get_on(stream, path, timeout, retention)
    }

    /// Sends GET for `path` on a new connection to the listener. `timeout`: of the exchange.
    pub fn get_on(
        &self,
        stream: TcpStream,
        path: &str,
        timeout: Duration,
        retention: BodyRetention,
    ) -> io::Result<ProbeResponse> {
        let request =
            Request { weight: 1, method: "GET".into(), path: path.into(), ..Request::default() };
        let traffic = self.compile(vec![request]).map_err(io::Error::other)?;
        self.session_on(stream, &traffic, timeout)?.exchange(&traffic.requests()[0], retention)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use crate::limits::{BODY_BYTES, SHOWN_BODY_BYTES};

    /// Returns the response to one request, with a body of `bytes` bytes.
    fn receive_body(bytes: usize, retention: BodyRetention) -> io::Result<ProbeResponse> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
            // The client may close the connection before the end of the body.
            let _ = stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(&vec![b'x'; bytes]));
        });
        let client =
            ProbeClient::new(&Listener { addr, protocol: Protocol::H1, authority: None }).unwrap();
        let response = client.get("/", Duration::from_secs(600), retention);
        server.join().unwrap();
        response
    }

    #[test]
    fn body_longer_than_limit_fails_or_is_cut() {
        assert_eq!(receive_body(BODY_BYTES, BodyRetention::Whole).unwrap().body.len(), BODY_BYTES);
        let error = receive_body(BODY_BYTES + 1, BodyRetention::Whole).unwrap_err().to_string();
        assert!(error.contains("longer than 16 MiB"), "{error}");
        let cut = receive_body(BODY_BYTES + 1, BodyRetention::Beginning).unwrap();
        assert_eq!((cut.status, cut.body.len(), cut.reusable), (200, SHOWN_BODY_BYTES, true));
    }
}
