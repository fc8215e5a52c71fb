//! Checks HTTP/1.1 behaviour that single requests and responses do not show: pipelined requests,
//! requests in pieces, bodies after HEAD, and closed connections. The checks read and write the
//! bytes of a connection.

use std::time::Duration;

use dyno_engine::CompiledRequest;
use serde::Deserialize;

use crate::client::{Connection, PeerAction, ProbeClient, ProbeResponse, http1_bytes};
use crate::limits::{CHECK, SHOWN_BODY_BYTES};
use crate::problem::{Problem, TimeLimit};

/// First bytes of every response.
const VERSION: &[u8] = b"HTTP/1.";

/// A check of bytes, by its name in contracts (`bytes = "pipelined"`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ByteCheck {
    /// The response to a HEAD request has no body: the next response follows it directly.
    NoBody,
    /// The list of requests is sent twice, all requests at once. The responses come in order.
    Pipelined,
    /// The request is sent in four pieces.
    InPieces,
    /// The server closes the connection after a response to `Connection: close`.
    Closes,
}

impl ByteCheck {
    /// Describes how the requests are sent. The text follows the text of the requests.
    pub(crate) const fn request_text(self) -> &'static str {
        match self {
            ByteCheck::NoBody => "one after the other on one connection",
            ByteCheck::Pipelined => "all sent at once, twice",
            ByteCheck::InPieces => "sent in four pieces",
            ByteCheck::Closes => "on a separate connection",
        }
    }

    /// Describes what the server has to do.
    pub(crate) const fn expectation_text(self) -> &'static str {
        match self {
            ByteCheck::NoBody => {
                "a first response without a body, and directly after it the next response"
            }
            ByteCheck::Pipelined => "all responses correct, in the order of the requests",
            ByteCheck::InPieces => "a correct response",
            ByteCheck::Closes => "a correct response, and then the server closes the connection",
        }
    }
}

/// Runs a check of bytes on a new connection. `Ok`: the result, as text.
pub(crate) fn run(
    check: ByteCheck,
    client: &ProbeClient,
    requests: &[CompiledRequest],
    limit: TimeLimit,
) -> Result<String, Problem> {
    let connection =
        client.connection(CHECK).map_err(|error| Problem::from_io(&error, "connecting"))?;
    let wire = Wire { connection, requests, limit };
    match check {
        ByteCheck::NoBody => wire.check_no_body(),
        ByteCheck::Pipelined => wire.check_pipelined(),
        ByteCheck::InPieces => wire.check_in_pieces(),
        ByteCheck::Closes => wire.check_closes(),
    }
}

/// A connection, and the requests that are sent on it.
struct Wire<'a> {
    connection: Connection,
    requests: &'a [CompiledRequest],
    limit: TimeLimit,
}

impl Wire<'_> {
    fn send(&mut self, bytes: &[u8], during: &str) -> Result<(), Problem> {
        self.connection.send(bytes).map_err(|error| Problem::from_io(&error, during))
    }

    /// Reads the response to the request at this index, and checks it.
    fn read_response(&mut self, index: usize, during: &str) -> Result<ProbeResponse, Problem> {
        let request = &self.requests[index];
        self.restart_time_limit();
        let response = self
            .connection
            .read_response(request.kind)
            .map_err(|error| Problem::from_io(&error, during))?;
        let fault = request.expect.check(response.status, &response.headers, &response.body);
        fault.map_err(|fault| {
            Problem::Wrong(format!("{during}: {fault}:\n{}", response.to_text()))
        })?;
        Ok(response)
    }

    /// Restarts the time limit, if each response has its own.
    fn restart_time_limit(&mut self) {
        if self.limit == TimeLimit::Response {
            self.connection.set_timeout(CHECK);
        }
    }

    /// Returns the bytes of the request at this index.
    fn bytes(&self, index: usize) -> Result<Vec<u8>, Problem> {
        http1_bytes(&self.requests[index])
            .map(<[u8]>::to_vec)
            .map_err(|error| Problem::Wrong(error.to_string()))
    }

    /// Checks that the response to HEAD has no body: a body would come before the next response.
    fn check_no_body(mut self) -> Result<String, Problem> {
        let (head, next) = (self.bytes(0)?, self.bytes(self.requests.len() - 1)?);
        self.send(&head, "sending the first request")?;
        self.read_response(0, "the first response")?;
        self.send(&next, "sending the next request")?;
        // The bytes after the first response: a body, or the next head.
        let during = "the response to the request after HEAD";
        self.restart_time_limit();
        let received = self
            .connection
            .peek(VERSION.len())
            .map_err(|error| Problem::from_io(&error, during))?;
        if !received.starts_with(VERSION) {
            let length = received.len().min(SHOWN_BODY_BYTES);
            let text = String::from_utf8_lossy(&received[..length]).into_owned();
            return Err(Problem::Wrong(format!("the response to HEAD has a body: {text:?}")));
        }
        self.read_response(self.requests.len() - 1, during)?;
        Ok("no body, and the next response is correct".into())
    }

    /// Checks that requests sent all at once get their responses in order.
    fn check_pipelined(mut self) -> Result<String, Problem> {
        let order: Vec<usize> =
            (0..self.requests.len()).cycle().take(2 * self.requests.len()).collect();
        let mut bytes = Vec::new();
        for &request in &order {
            bytes.extend(self.bytes(request)?);
        }
        self.send(&bytes, "sending all requests at once")?;
        for (i, &request) in order.iter().enumerate() {
            self.read_response(request, &format!("response {} of {}", i + 1, order.len()))?;
        }
        Ok(format!("{} responses in order", order.len()))
    }

    /// Checks that a request in several segments gets a correct response.
    fn check_in_pieces(mut self) -> Result<String, Problem> {
        let bytes = self.bytes(0)?;
        // The cuts are in the method, in the path and in the header block. The pauses make the
        // kernel send separate segments.
        let cuts = [2, 9, bytes.len() - 3];
        let mut start = 0;
        for end in cuts.into_iter().chain([bytes.len()]) {
            self.send(&bytes[start..end], "sending piece by piece")?;
            std::thread::sleep(Duration::from_millis(5));
            start = end;
        }
        let response = self.read_response(0, "the response to a request in four pieces")?;
        Ok(crate::description::response_text(&response))
    }

    /// Checks that the server closes the connection after `Connection: close`.
    fn check_closes(mut self) -> Result<String, Problem> {
        let bytes = self.bytes(0)?;
        self.send(&bytes, "sending the request")?;
        let response = self.read_response(0, "the response to a request with Connection: close")?;
        self.restart_time_limit();
        match self.connection.wait_for_action() {
            PeerAction::Closes => {
                Ok("a response, and then the server closed the connection".into())
            }
            PeerAction::Sends => Err(Problem::Wrong(format!(
                "the server sent further bytes after the last response on the connection. The last \
                 response:\n{}",
                response.to_text()
            ))),
            // A loaded server may close late. A server that never closes fails the check when it is
            // idle.
            PeerAction::Waits => Err(Problem::Late(format!(
                "the server responded, but did not close the connection within {} s, the time \
                 limit of a check",
                CHECK.as_secs()
            ))),
        }
    }
}

/// Returns the mistake in the requests of a check of bytes; `None`: the check can use them.
pub(crate) fn invalid_requests_text(
    check: ByteCheck,
    requests: &[dyno_model::plan::Request],
) -> Option<&'static str> {
    let is_close = |r: &dyno_model::plan::Request| {
        r.headers
            .iter()
            .any(|(n, v)| n.eq_ignore_ascii_case("connection") && v.eq_ignore_ascii_case("close"))
    };
    match check {
        ByteCheck::NoBody
            if requests.len() != 2
                || requests[0].method != "HEAD"
                || requests[1].method == "HEAD" =>
        {
            Some(
                "`bytes = \"no-body\"`: needs two `requests`, the first with HEAD and the second \
                 with another method",
            )
        }
        ByteCheck::InPieces if requests.len() != 1 => {
            Some("`bytes = \"in-pieces\"`: needs exactly one request")
        }
        ByteCheck::Closes if requests.len() != 1 => {
            Some("`bytes = \"closes\"`: needs exactly one request")
        }
        ByteCheck::Closes if !is_close(&requests[0]) => Some(
            "`bytes = \"closes\"`: needs a request with `headers = { Connection = \"close\" }`",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use dyno_model::Protocol;
    use dyno_model::plan::{Body, Expect, Request};

    use super::*;
    use crate::listener::Listener;

    fn request(method: &str, headers: &[(&str, &str)]) -> Request {
        let body = Some(Body(b"Hello, World!".to_vec()));
        Request {
            weight: 1,
            method: method.into(),
            path: "/plaintext".into(),
            headers: headers.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect(),
            expect: Expect { status: Some(200), body, ..Expect::default() },
            ..Request::default()
        }
    }

    /// Runs a check with a server that calls `serve` for its only connection. `serve` must return
    /// when the client closes the connection.
    fn run_check(
        check: ByteCheck,
        requests: Vec<Request>,
        serve: fn(TcpStream),
    ) -> Result<String, Problem> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || serve(listener.accept().unwrap().0));
        let client =
            ProbeClient::new(&Listener { addr, protocol: Protocol::H1, authority: None }).unwrap();
        let traffic = client.compile(requests).unwrap();
        let connection = client.connection(Duration::from_millis(300)).unwrap();
        let requests = traffic.requests();
        let wire = Wire { connection, requests, limit: TimeLimit::Check };
        let result = match check {
            ByteCheck::NoBody => wire.check_no_body(),
            ByteCheck::Pipelined => wire.check_pipelined(),
            ByteCheck::InPieces => wire.check_in_pieces(),
            ByteCheck::Closes => wire.check_closes(),
        };
        server.join().unwrap();
        result
    }

    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!";

    fn read(stream: &mut TcpStream) {
        let _ = stream.read(&mut [0; 4096]);
    }

    #[test]
    fn missing_close_is_late_not_wrong() {
        let close = || vec![request("GET", &[("Connection", "close")])];
        let never_closes = |mut stream: TcpStream| {
            read(&mut stream);
            stream.write_all(RESPONSE).unwrap();
            read(&mut stream);
        };
        let Err(Problem::Late(message)) = run_check(ByteCheck::Closes, close(), never_closes)
        else {
            panic!("the close is late")
        };
        assert!(message.contains("did not close the connection"), "{message}");
        let closes = |mut stream: TcpStream| {
            read(&mut stream);
            stream.write_all(RESPONSE).unwrap();
        };
        assert!(run_check(ByteCheck::Closes, close(), closes).is_ok());
        let sends_more = |mut stream: TcpStream| {
            read(&mut stream);
            stream.write_all(&[RESPONSE, b"and more"].concat()).unwrap();
            read(&mut stream);
        };
        assert!(matches!(
            run_check(ByteCheck::Closes, close(), sends_more),
            Err(Problem::Wrong(_))
        ));
    }

    #[test]
    fn body_after_head_is_wrong() {
        let requests = || vec![request("HEAD", &[]), request("GET", &[])];
        let head = &RESPONSE[..RESPONSE.len() - 13];
        assert!(head.ends_with(b"\r\n\r\n"));
        let right = |mut stream: TcpStream| {
            read(&mut stream);
            stream.write_all(&RESPONSE[..RESPONSE.len() - 13]).unwrap();
            read(&mut stream);
            stream.write_all(RESPONSE).unwrap();
        };
        assert_eq!(
            run_check(ByteCheck::NoBody, requests(), right).unwrap(),
            "no body, and the next response is correct"
        );
        let wrong = |mut stream: TcpStream| {
            read(&mut stream);
            stream.write_all(RESPONSE).unwrap();
            read(&mut stream);
            let _ = stream.write_all(RESPONSE);
        };
        let Err(Problem::Wrong(message)) = run_check(ByteCheck::NoBody, requests(), wrong) else {
            panic!("the response has a body")
        };
        assert!(message.contains("has a body: \"Hello, World!"), "{message}");
    }

    #[test]
    fn pipelined_responses_out_of_order_are_wrong() {
        let requests = || {
            vec![
                request("GET", &[]),
                Request { path: "/other".into(), expect: Expect::default(), ..request("GET", &[]) },
            ]
        };
        let wrong_order = |mut stream: TcpStream| {
            read(&mut stream);
            stream
                .write_all(
                    &[RESPONSE, RESPONSE, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"].concat(),
                )
                .unwrap();
            read(&mut stream);
        };
        let Err(Problem::Wrong(message)) = run_check(ByteCheck::Pipelined, requests(), wrong_order)
        else {
            panic!("the third response is that to another request")
        };
        assert!(
            message.starts_with("response 3 of 4: the body differs from the expected body"),
            "{message}"
        );
        let whole = |mut stream: TcpStream| {
            let mut received = Vec::new();
            while !received.ends_with(b"\r\n\r\n") {
                let mut buffer = [0; 4096];
                let n = stream.read(&mut buffer).unwrap();
                received.extend_from_slice(&buffer[..n]);
            }
            stream.write_all(RESPONSE).unwrap();
        };
        assert!(run_check(ByteCheck::InPieces, vec![request("GET", &[])], whole).is_ok());
    }
}
