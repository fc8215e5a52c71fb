//! The hello contract over plain HTTP/1.1, with sockets of our own that see every byte.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use dyno_wire::h1::encode;
use dyno_wire::h1::response::RequestKind;

use crate::check::{Problem, Verdict};
use crate::client::{Answer, Connection, Next};
use crate::limits::CHECK;
use crate::questions::{JSON, PLAINTEXT};

/// The checks by name, in the order in which a report shows them.
pub(crate) const HELLO: [(&str, fn(SocketAddr) -> Verdict); 9] = [
    ("plaintext", plaintext),
    ("json", json),
    ("unknown path is 404", unknown_path),
    ("HEAD has no body", head),
    ("keep-alive", keep_alive),
    ("pipelined in order", pipelined),
    ("request in pieces", in_pieces),
    ("Connection: close", connection_close),
    ("Content-Length", content_length),
];

fn request(method: &str, path: &str, close: bool) -> Vec<u8> {
    let close = if close { vec![("Connection".to_string(), "close".to_string())] } else { Vec::new() };
    encode::request(method, path, "127.0.0.1", &close, b"").expect("constant requests are valid")
}

fn connect(addr: SocketAddr) -> io::Result<Connection> {
    Connection::new(TcpStream::connect_timeout(&addr, CHECK)?, CHECK)
}

fn ask(connection: &mut Connection, method: &str, path: &str) -> Result<Answer, Problem> {
    let kind = if method == "HEAD" { RequestKind::Head } else { RequestKind::Other };
    let mut exchange = || -> io::Result<Answer> {
        connection.send(&request(method, path, false))?;
        connection.answer(kind)
    };
    exchange().map_err(|error| Problem::NoAnswer(format!("{method} {path}: {error}")))
}

fn open(addr: SocketAddr) -> Result<Connection, Problem> {
    connect(addr).map_err(|error| Problem::NoAnswer(format!("connecting: {error}")))
}

/// Fails with the request and the whole answer, as a reader needs to see them.
fn wrong(request: &str, wanted: &str, answer: &Answer) -> Problem {
    Problem::Wrong(format!("{request}: wanted {wanted}, got:\n{}", answer.shown()))
}

fn expect(request: &str, answer: &Answer, status: u16, body: &[u8]) -> Result<(), Problem> {
    if answer.status != status {
        return Err(wrong(request, &format!("status {status}"), answer));
    }
    if answer.body != body {
        return Err(wrong(request, &format!("the body {:?}", String::from_utf8_lossy(body)), answer));
    }
    Ok(())
}

fn plaintext(addr: SocketAddr) -> Verdict {
    let answer = ask(&mut open(addr)?, "GET", "/plaintext")?;
    expect("GET /plaintext", &answer, 200, PLAINTEXT)?;
    media_type("GET /plaintext", &answer, "text/plain")
}

fn json(addr: SocketAddr) -> Verdict {
    let answer = ask(&mut open(addr)?, "GET", "/json")?;
    expect("GET /json", &answer, 200, JSON)?;
    media_type("GET /json", &answer, "application/json")
}

fn media_type(request: &str, answer: &Answer, wanted: &str) -> Verdict {
    let given = answer.header("content-type").unwrap_or("none");
    let media = given.split(';').next().unwrap_or_default().trim();
    if media.eq_ignore_ascii_case(wanted) {
        Ok(format!("200, {given}, {} bytes", answer.body.len()))
    } else {
        Err(wrong(request, &format!("Content-Type {wanted}"), answer))
    }
}

fn unknown_path(addr: SocketAddr) -> Verdict {
    let answer = ask(&mut open(addr)?, "GET", "/no-such-path-here")?;
    if answer.status == 404 {
        Ok("404".into())
    } else {
        Err(wrong("GET /no-such-path-here", "status 404", &answer))
    }
}

fn head(addr: SocketAddr) -> Verdict {
    let mut connection = open(addr)?;
    let answer = ask(&mut connection, "HEAD", "/plaintext")?;
    expect("HEAD /plaintext", &answer, 200, b"")?;
    // A body that came after all would be read as the start of the next answer.
    let next = ask(&mut connection, "GET", "/plaintext")?;
    expect("GET after HEAD", &next, 200, PLAINTEXT)?;
    Ok("200 without a body, and the next answer is right".into())
}

fn keep_alive(addr: SocketAddr) -> Verdict {
    let mut connection = open(addr)?;
    for i in 1..=5 {
        let answer = ask(&mut connection, "GET", "/plaintext")?;
        expect(&format!("request {i}"), &answer, 200, PLAINTEXT)?;
        if !answer.reusable {
            return Err(wrong(
                &format!("request {i} on one connection"),
                "a connection that lives on",
                &answer,
            ));
        }
    }
    Ok("five requests on one connection".into())
}

fn pipelined(addr: SocketAddr) -> Verdict {
    const PATHS: [&str; 4] = ["/plaintext", "/json", "/plaintext", "/json"];
    let mut connection = open(addr)?;
    let all: Vec<u8> = PATHS.iter().flat_map(|path| request("GET", path, false)).collect();
    connection
        .send(&all)
        .map_err(|e| Problem::NoAnswer(format!("sending {} requests at once: {e}", PATHS.len())))?;
    for (i, path) in PATHS.iter().enumerate() {
        let answer = connection
            .answer(RequestKind::Other)
            .map_err(|e| Problem::NoAnswer(format!("answer {} of {}: {e}", i + 1, PATHS.len())))?;
        let body = if *path == "/json" { JSON } else { PLAINTEXT };
        expect(&format!("answer {} of pipelined requests, GET {path}", i + 1), &answer, 200, body)?;
    }
    Ok("four requests sent at once, answered in order".into())
}

fn in_pieces(addr: SocketAddr) -> Verdict {
    let mut connection = open(addr)?;
    let bytes = request("GET", "/plaintext", false);
    // Inside the method, the path and the header block; a pause lets each piece travel alone.
    let cuts = [2, 9, bytes.len() - 3];
    let mut from = 0;
    for to in cuts.into_iter().chain([bytes.len()]) {
        connection
            .send(&bytes[from..to])
            .map_err(|e| Problem::NoAnswer(format!("sending piece by piece: {e}")))?;
        std::thread::sleep(Duration::from_millis(5));
        from = to;
    }
    let answer = connection
        .answer(RequestKind::Other)
        .map_err(|e| Problem::NoAnswer(format!("a request in four pieces: {e}")))?;
    expect("GET /plaintext in four pieces", &answer, 200, PLAINTEXT)?;
    Ok("a request in four pieces is answered".into())
}

fn connection_close(addr: SocketAddr) -> Verdict {
    closes_when_asked(open(addr)?)
}

fn closes_when_asked(mut connection: Connection) -> Verdict {
    connection.send(&request("GET", "/plaintext", true)).map_err(|e| Problem::NoAnswer(e.to_string()))?;
    let answer = connection
        .answer(RequestKind::Other)
        .map_err(|e| Problem::NoAnswer(format!("GET with Connection: close: {e}")))?;
    expect("GET with Connection: close", &answer, 200, PLAINTEXT)?;
    match connection.does_next() {
        Next::Closes => Ok("answered, then closed by the server".into()),
        Next::Sends => Err(wrong("GET with Connection: close", "nothing after the answer", &answer)),
        // A full server closes late, as it answers late; one that never closes is asked again when it is idle.
        Next::Waits => Err(Problem::NoAnswer(format!(
            "GET with Connection: close: answered, but not closed in time (a check has {} s)",
            CHECK.as_secs()
        ))),
    }
}

fn content_length(addr: SocketAddr) -> Verdict {
    let answer = ask(&mut open(addr)?, "GET", "/plaintext")?;
    match answer.header("content-length") {
        Some("13") => Ok("13".into()),
        _ => Err(wrong("GET /plaintext", "Content-Length: 13", &answer)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// What the check says of a server that does `then` after its answer. `then` ends when the client has gone.
    fn after_answer(then: fn(TcpStream)) -> Verdict {
        const ANSWER: &[u8] =
            b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: close\r\n\r\nHello, World!";
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            stream.write_all(ANSWER).unwrap();
            then(stream);
        });
        let stream = TcpStream::connect(addr).unwrap();
        let verdict = closes_when_asked(Connection::new(stream, Duration::from_millis(300)).unwrap());
        server.join().unwrap();
        verdict
    }

    #[test]
    fn a_late_closing_is_late_and_not_wrong() {
        let until_gone = |mut stream: TcpStream| {
            let _ = stream.read(&mut [0; 16]);
        };
        assert!(
            matches!(after_answer(until_gone), Err(Problem::NoAnswer(why)) if why.contains("not closed in time"))
        );
        assert!(after_answer(drop).is_ok());
        let sends_more = |mut stream: TcpStream| {
            let _ = stream.write_all(b"and more");
            let _ = stream.read(&mut [0; 16]);
        };
        assert!(matches!(after_answer(sends_more), Err(Problem::Wrong(_))));
    }
}
