//! Sends requests over one HTTP/2 connection, one after the other, for readiness probes and
//! contract checks.

use std::io::{self, Error};
use std::time::Duration;

use dyno_engine::traffic::StreamTemplate;
use dyno_engine::{CompiledRequest, Traffic};
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::settings::ClientSettings;
use dyno_wire::h2::{
    Client, ClientEvent, EncodedRequest, ErrorCode, FrameCounts, Io, encode::EncodedBlock,
};

use super::response::{BodyRetention, ProbeResponse};
use super::transport::{Transport, closed_error};

/// A connection that speaks HTTP/2.
#[derive(Debug)]
pub(super) struct H2Session {
    transport: Transport,
    client: Client<()>,
    /// Received bytes after the last response, such as a WINDOW_UPDATE.
    unread: Vec<u8>,
    out: Vec<u8>,
    counts: FrameCounts,
}

/// A request that can be sent on a stream.
#[derive(Clone, Copy)]
pub(super) struct StreamedRequest<'a> {
    block: &'a EncodedBlock,
    body: &'a [u8],
    kind: RequestKind,
}

impl<'a> StreamedRequest<'a> {
    pub(super) fn new(request: &'a CompiledRequest) -> io::Result<StreamedRequest<'a>> {
        match &request.stream {
            Some(StreamTemplate::Fixed { block, body }) => {
                Ok(StreamedRequest { block, body, kind: request.kind })
            }
            _ => Err(Error::other("the request has placeholders, or cannot be sent over HTTP/2")),
        }
    }
}

impl H2Session {
    /// Starts HTTP/2 on a new connection. `traffic`: the requests that will be sent.
    pub(super) fn new(transport: Transport, traffic: &Traffic) -> H2Session {
        let (mut out, mut counts) = (Vec::new(), FrameCounts::default());
        let mut io = Io { out: &mut out, counts: &mut counts };
        let client = Client::new(ClientSettings::default(), traffic.shared_bytes(), &mut io);
        H2Session { transport, client, unread: Vec::new(), out, counts }
    }

    pub(super) fn set_timeout(&mut self, timeout: Duration) {
        self.transport.set_timeout(timeout);
    }

    /// Sends a request, and reads the whole response.
    pub(super) fn exchange(
        &mut self,
        request: StreamedRequest<'_>,
        retention: BodyRetention,
    ) -> io::Result<ProbeResponse> {
        let mut response =
            ProbeResponse { status: 0, headers: Vec::new(), body: Vec::new(), reusable: true };
        let unread = std::mem::take(&mut self.unread);
        self.read_bytes(&unread, retention, &mut response)?;
        let mut buffer = [0; 16 * 1024];
        let mut is_open = self.open_stream(request);
        loop {
            if !is_open && self.client.is_draining() {
                return Err(closed_error());
            }
            self.transport.write_all(&std::mem::take(&mut self.out))?;
            let n = self.transport.read(&mut buffer)?;
            if n == 0 {
                return Err(closed_error());
            }
            if self.read_bytes(&buffer[..n], retention, &mut response)? {
                return Ok(response);
            }
            is_open = is_open || self.open_stream(request);
        }
    }

    /// Opens a stream for a request if the server's settings have arrived and allow a stream.
    /// Returns whether the stream is open.
    fn open_stream(&mut self, streamed: StreamedRequest<'_>) -> bool {
        if self.client.room() == 0 {
            return false;
        }
        let request = EncodedRequest {
            block: streamed.block.form(self.client.form()),
            field_bytes: streamed.block.field_bytes,
            body: streamed.body,
            kind: streamed.kind,
            wants_fields: true,
            holds_body: false,
        };
        self.client.request(&request, (), &mut Io { out: &mut self.out, counts: &mut self.counts });
        true
    }

    /// Processes received bytes. Returns whether the response is complete. Bytes after a complete
    /// response are kept for the next exchange.
    fn read_bytes(
        &mut self,
        mut bytes: &[u8],
        retention: BodyRetention,
        response: &mut ProbeResponse,
    ) -> io::Result<bool> {
        loop {
            let mut io = Io { out: &mut self.out, counts: &mut self.counts };
            let complete = match self.client.next(&mut bytes, &mut io).map_err(malformed_error)? {
                ClientEvent::NeedMore => return Ok(false),
                ClientEvent::Head { stream, status, end } => {
                    response.status = status;
                    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
                    let (_, fields) = self.client.value_and_fields(stream);
                    response.headers =
                        fields.iter().map(|(name, value)| (text(name), text(value))).collect();
                    end.then_some(stream)
                }
                ClientEvent::Body { stream, data, end } => {
                    response.add_body(data, retention)?;
                    end.then_some(stream)
                }
                ClientEvent::End { stream } => Some(stream),
                ClientEvent::Reset { code, .. } => return Err(refused_error(code)),
                ClientEvent::GoAway { code } if code != ErrorCode::NoError => {
                    return Err(refused_error(code));
                }
                ClientEvent::Malformed { violation, .. } => return Err(malformed_error(violation)),
                ClientEvent::Window | ClientEvent::Settings => {
                    // A part of the request that waits for flow control may now be sent.
                    self.client.resume(&mut io, &mut |()| {});
                    None
                }
                ClientEvent::Handled
                | ClientEvent::Informational { .. }
                | ClientEvent::GoAway { .. } => None,
            };
            if let Some(stream) = complete {
                self.client.finish(stream, &mut io);
                self.unread = bytes.to_vec();
                return Ok(true);
            }
        }
    }
}

fn malformed_error(violation: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(io::ErrorKind::InvalidData, violation)
}

fn refused_error(code: ErrorCode) -> Error {
    Error::new(io::ErrorKind::InvalidData, format!("the server refused the request: {code:?}"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use dyno_model::Protocol;
    use dyno_model::plan::{Body, Request};
    use dyno_wire::h2::frame::{
        FrameHeader, HEADER_BYTES, Kind, PREFACE, flag, put_header, put_window_update,
    };

    use super::*;
    use crate::client::ProbeClient;
    use crate::listener::Listener;

    const BODY_LENGTH: usize = 1024;

    /// Field block of `:status: 200`, entry 8 of the static table (RFC 7541 §6.1).
    const STATUS_200: u8 = 0x88;

    /// Sends HEADERS and a WINDOW_UPDATE of the connection for each request, in one write. The last
    /// `held` bytes of the WINDOW_UPDATE follow with the next response. Panics if the client splits
    /// a body, which it does if its window is too small.
    fn serve(mut stream: TcpStream, held: usize) -> io::Result<()> {
        let mut out = Vec::new();
        put_header(Kind::Settings, 0, 0, 0, &mut out);
        stream.write_all(&std::mem::take(&mut out))?;
        stream.read_exact(&mut [0; PREFACE.len()])?;
        loop {
            let mut header = [0; HEADER_BYTES];
            stream.read_exact(&mut header)?;
            let header = FrameHeader::parse(&header);
            let mut payload = vec![0; header.length as usize];
            stream.read_exact(&mut payload)?;
            if header.kind != Kind::Data {
                continue;
            }
            assert_eq!(payload.len(), BODY_LENGTH, "stream {}", header.stream);
            let flags = flag::END_HEADERS | flag::END_STREAM;
            put_header(Kind::Headers, flags, header.stream, 1, &mut out);
            out.push(STATUS_200);
            put_window_update(0, BODY_LENGTH as u32, &mut out);
            let later = out.split_off(out.len() - held);
            stream.write_all(&out)?;
            out = later;
        }
    }

    /// The bodies of all requests together are larger than the window of a connection.
    #[test]
    fn window_update_after_response_is_kept() {
        for held in [0, 4] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let addr = listener.local_addr().unwrap();
            let server = thread::spawn(move || serve(listener.accept().unwrap().0, held));
            let listener = Listener { addr, protocol: Protocol::H2c, authority: None };
            let client = ProbeClient::new(&listener).unwrap();
            let request = Request {
                weight: 1,
                method: "POST".into(),
                path: "/".into(),
                body: Some(Body(vec![b'x'; BODY_LENGTH])),
                ..Request::default()
            };
            let traffic = client.compile(vec![request]).unwrap();
            let mut session = client.session(&traffic, Duration::from_secs(600)).unwrap();
            for i in 1..=100 {
                let response = session.exchange(&traffic.requests()[0], BodyRetention::Whole);
                let status = response.map(|response| response.status);
                assert!(matches!(status, Ok(200)), "held {held}, exchange {i}: {status:?}");
            }
            drop(session);
            let _ = server.join().unwrap();
        }
    }
}
