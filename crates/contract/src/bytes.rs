//! Checks of HTTP/1.1 at the level of bytes, which a plain exchange does not show.

use std::time::Duration;

use dyno_engine::CompiledRequest;
use serde::Deserialize;

use crate::client::{Answer, Connection, PeerAction, ProbeClient, http1_bytes};
use crate::exchange::Problem;
use crate::limits::{CHECK, SHOWN_BODY_BYTES};

/// First bytes of every response.
const VERSION: &[u8] = b"HTTP/1.";

/// A check of bytes, by its name in contracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ByteCheck {
    /// The response to a HEAD request has no body: the next bytes are those of the next response.
    NoBody,
    /// The requests are sent all at once, twice. The responses come in order.
    Pipelined,
    /// The request is sent in four pieces.
    InPieces,
    /// The server closes the connection after a response to `Connection: close`.
    Closes,
}

impl ByteCheck {
    pub(crate) const fn request_text(self) -> &'static str {
        match self {
            ByteCheck::NoBody => "one after the other on one connection",
            ByteCheck::Pipelined => "all sent at once, twice",
            ByteCheck::InPieces => "sent in four pieces",
            ByteCheck::Closes => "on a separate connection",
        }
    }

    pub(crate) const fn expectation_text(self) -> &'static str {
        match self {
            ByteCheck::NoBody => {
                "no body after the first head, and the next response directly after it"
            }
            ByteCheck::Pipelined => "all responses correct, in the order of the requests",
            ByteCheck::InPieces => "a correct response",
            ByteCheck::Closes => "a correct response, and then the end of the connection",
        }
    }
}

pub(crate) fn run(
    check: ByteCheck,
    client: &ProbeClient,
    requests: &[CompiledRequest],
) -> Result<String, Problem> {
    let connection =
        client.connection(CHECK).map_err(|error| Problem::from_io(&error, "connecting"))?;
    let wire = Wire { connection, requests };
    match check {
        ByteCheck::NoBody => wire.no_body(),
        ByteCheck::Pipelined => wire.check_pipelined(),
        ByteCheck::InPieces => wire.in_pieces(),
        ByteCheck::Closes => wire.closes(),
    }
}

/// A connection, and the requests that are sent on it.
struct Wire<'a> {
    connection: Connection,
    requests: &'a [CompiledRequest],
}

impl Wire<'_> {
    fn send(&mut self, bytes: &[u8], during: &str) -> Result<(), Problem> {
        self.connection.send(bytes).map_err(|error| Problem::from_io(&error, during))
    }

    /// Reads the response to a request, and checks it.
    fn answer(&mut self, to: usize, during: &str) -> Result<Answer, Problem> {
        let request = &self.requests[to];
        let answer = self
            .connection
            .answer(request.kind)
            .map_err(|error| Problem::from_io(&error, during))?;
        let fault = request.expect.check(answer.status, &answer.headers, &answer.body);
        fault
            .map_err(|fault| Problem::Wrong(format!("{during}: {fault}:\n{}", answer.to_text())))?;
        Ok(answer)
    }

    fn bytes(&self, request: usize) -> Result<Vec<u8>, Problem> {
        http1_bytes(&self.requests[request])
            .map(<[u8]>::to_vec)
            .map_err(|error| Problem::Wrong(error.to_string()))
    }

    /// Checks that the response to HEAD has no body: a body would be in the place of the next
    /// response.
    fn no_body(mut self) -> Result<String, Problem> {
        let (head, next) = (self.bytes(0)?, self.bytes(self.requests.len() - 1)?);
        self.send(&head, "sending the first request")?;
        self.answer(0, "the first response")?;
        self.send(&next, "sending the next request")?;
        // The bytes that came before the next request was sent, and those up to the next head.
        let during = "the response after the one to HEAD";
        let came = self
            .connection
            .peek(VERSION.len())
            .map_err(|error| Problem::from_io(&error, during))?;
        if !came.starts_with(VERSION) {
            let text =
                String::from_utf8_lossy(&came[..came.len().min(SHOWN_BODY_BYTES)]).into_owned();
            return Err(Problem::Wrong(format!("the response to HEAD has a body: {text:?}")));
        }
        self.answer(self.requests.len() - 1, during)?;
        Ok("no body, and the next response is correct".into())
    }

    fn check_pipelined(mut self) -> Result<String, Problem> {
        let order: Vec<usize> =
            (0..self.requests.len()).cycle().take(2 * self.requests.len()).collect();
        let mut all = Vec::new();
        for &request in &order {
            all.extend(self.bytes(request)?);
        }
        self.send(&all, "sending all requests at once")?;
        for (i, &request) in order.iter().enumerate() {
            self.answer(request, &format!("response {} of {}", i + 1, order.len()))?;
        }
        Ok(format!("{} responses in order", order.len()))
    }

    fn in_pieces(mut self) -> Result<String, Problem> {
        let bytes = self.bytes(0)?;
        // Inside the method, the path and the header block; a pause lets each piece travel alone.
        let cuts = [2, 9, bytes.len() - 3];
        let mut from = 0;
        for to in cuts.into_iter().chain([bytes.len()]) {
            self.send(&bytes[from..to], "sending piece by piece")?;
            std::thread::sleep(Duration::from_millis(5));
            from = to;
        }
        let answer = self.answer(0, "the response to a request in four pieces")?;
        Ok(crate::description::answer_text(&answer))
    }

    fn closes(mut self) -> Result<String, Problem> {
        let bytes = self.bytes(0)?;
        self.send(&bytes, "sending the request")?;
        let answer = self.answer(0, "the response to a request with Connection: close")?;
        match self.connection.does_next() {
            PeerAction::Closes => Ok("a response, then closed by the server".into()),
            PeerAction::Sends => Err(Problem::Wrong(format!(
                "bytes after the last response on the connection:\n{}",
                answer.to_text()
            ))),
            // A loaded server closes late, as it responds late. One that never closes fails the
            // check when it is idle.
            PeerAction::Waits => Err(Problem::Late(format!(
                "a response, but the connection not closed within the {} s of a check",
                CHECK.as_secs()
            ))),
        }
    }
}

/// Returns the mistake of requests that do not fit a check of bytes.
pub(crate) fn requests_fault(
    check: ByteCheck,
    requests: &[dyno_archive::plan::Request],
) -> Option<&'static str> {
    let is_close = |r: &dyno_archive::plan::Request| {
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
        ByteCheck::InPieces | ByteCheck::Closes if requests.len() != 1 => {
            Some("`bytes`: this check needs exactly one request")
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

    use dyno_archive::Protocol;
    use dyno_archive::plan::{Body, Expect, Request};

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

    /// Returns the result of a check against a server that runs `serve` on its only connection.
    /// `serve` ends when the client has gone.
    fn look(
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
        let wire = Wire { connection, requests: traffic.requests() };
        let seen = match check {
            ByteCheck::NoBody => wire.no_body(),
            ByteCheck::Pipelined => wire.check_pipelined(),
            ByteCheck::InPieces => wire.in_pieces(),
            ByteCheck::Closes => wire.closes(),
        };
        server.join().unwrap();
        seen
    }

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!";

    fn read(stream: &mut TcpStream) {
        let _ = stream.read(&mut [0; 4096]);
    }

    #[test]
    fn late_closing_is_late_and_not_wrong() {
        let close = || vec![request("GET", &[("Connection", "close")])];
        let never = |mut stream: TcpStream| {
            read(&mut stream);
            stream.write_all(ANSWER).unwrap();
            read(&mut stream);
        };
        let Err(Problem::Late(why)) = look(ByteCheck::Closes, close(), never) else {
            panic!("it is late")
        };
        assert!(why.contains("connection not closed"), "{why}");
        let closes = |mut stream: TcpStream| {
            read(&mut stream);
            stream.write_all(ANSWER).unwrap();
        };
        assert!(look(ByteCheck::Closes, close(), closes).is_ok());
        let sends_more = |mut stream: TcpStream| {
            read(&mut stream);
            stream.write_all(&[ANSWER, b"and more"].concat()).unwrap();
            read(&mut stream);
        };
        assert!(matches!(look(ByteCheck::Closes, close(), sends_more), Err(Problem::Wrong(_))));
    }

    #[test]
    fn body_after_the_response_to_head_is_reported() {
        let asked = || vec![request("HEAD", &[]), request("GET", &[])];
        let head = &ANSWER[..ANSWER.len() - 13];
        assert!(head.ends_with(b"\r\n\r\n"));
        let right = |mut stream: TcpStream| {
            read(&mut stream);
            stream.write_all(&ANSWER[..ANSWER.len() - 13]).unwrap();
            read(&mut stream);
            stream.write_all(ANSWER).unwrap();
        };
        assert_eq!(
            look(ByteCheck::NoBody, asked(), right).unwrap(),
            "no body, and the next response is correct"
        );
        let wrong = |mut stream: TcpStream| {
            read(&mut stream);
            stream.write_all(ANSWER).unwrap();
            read(&mut stream);
            let _ = stream.write_all(ANSWER);
        };
        let Err(Problem::Wrong(why)) = look(ByteCheck::NoBody, asked(), wrong) else {
            panic!("it is wrong")
        };
        assert!(why.contains("has a body: \"Hello, World!"), "{why}");
    }

    #[test]
    fn answers_out_of_order_are_wrong() {
        let asked = || {
            vec![
                request("GET", &[]),
                Request { path: "/other".into(), expect: Expect::default(), ..request("GET", &[]) },
            ]
        };
        let thrice = |mut stream: TcpStream| {
            read(&mut stream);
            stream
                .write_all(
                    &[ANSWER, ANSWER, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"].concat(),
                )
                .unwrap();
            read(&mut stream);
        };
        let Err(Problem::Wrong(why)) = look(ByteCheck::Pipelined, asked(), thrice) else {
            panic!("it is wrong")
        };
        assert!(
            why.starts_with("response 3 of 4: the body differs from the expected one"),
            "{why}"
        );
        let whole = |mut stream: TcpStream| {
            let mut got = Vec::new();
            while !got.ends_with(b"\r\n\r\n") {
                let mut buffer = [0; 4096];
                let n = stream.read(&mut buffer).unwrap();
                got.extend_from_slice(&buffer[..n]);
            }
            stream.write_all(ANSWER).unwrap();
        };
        assert!(look(ByteCheck::InPieces, vec![request("GET", &[])], whole).is_ok());
    }
}
