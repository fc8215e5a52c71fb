//! Tests that the server half reads the requests that the client half encodes, and refuses invalid
//! requests.

use dyno_wire::h1::Http1Error;
use dyno_wire::h1::encode::{self, Invalid};
use dyno_wire::h1::request::{RequestEvent, RequestReader};
use proptest::prelude::*;

#[derive(Debug, PartialEq, Eq)]
struct ReadRequest {
    line: (String, String),
    persists: bool,
    body: Vec<u8>,
}

fn read(bytes: &[u8], piece: usize) -> Result<Vec<ReadRequest>, Http1Error> {
    let mut reader = RequestReader::new();
    let mut requests: Vec<ReadRequest> = Vec::new();
    for mut rest in bytes.chunks(piece) {
        loop {
            let (used, event) = reader.next(rest)?;
            rest = &rest[used..];
            match event {
                RequestEvent::NeedMore => break,
                RequestEvent::Head(head) => requests.push(ReadRequest {
                    line: (
                        String::from_utf8_lossy(head.method).into(),
                        String::from_utf8_lossy(head.target).into(),
                    ),
                    persists: head.persists(),
                    body: Vec::new(),
                }),
                RequestEvent::Body(data) => {
                    requests.last_mut().expect("a head came first").body.extend(data);
                }
                RequestEvent::End => {}
            }
        }
    }
    Ok(requests)
}

#[test]
fn pipelined_requests_read_in_order() {
    let bytes =
        b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nPOST /b HTTP/1.1\r\nHost: x\r\nContent-Length: \
          3\r\n\r\nabcHEAD /c HTTP/1.0\r\n\r\n";
    let requests = read(bytes, bytes.len()).unwrap();
    let lines: Vec<_> = requests.iter().map(|s| s.line.1.as_str()).collect();
    assert_eq!(lines, ["/a", "/b", "/c"]);
    assert_eq!(requests[1].body, b"abc");
    assert_eq!(requests.iter().map(|s| s.persists).collect::<Vec<_>>(), [true, true, false]);
}

#[test]
fn invalid_request_line_refused() {
    for line in ["GET /", "GET  / HTTP/1.1", "G T / HTTP/1.1", "GET / HTTP/1.1 x", " / HTTP/1.1"] {
        let bytes = format!("{line}\r\nHost: x\r\n\r\n");
        assert_eq!(read(bytes.as_bytes(), 1000), Err(Http1Error::RequestLine), "{line:?}");
    }
    assert_eq!(read(b"GET / HTTP/3.0\r\n\r\n", 100), Err(Http1Error::Version));
    assert_eq!(
        read(b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 100),
        Err(Http1Error::RequestNotChunked)
    );
}

#[test]
fn encode_invalid_request_refused() {
    let header = |name: &str, value: &str| [(name.to_string(), value.to_string())];
    assert!(matches!(encode::request("G T", "/", "h", &[], b""), Err(Invalid::Method(_))));
    assert!(matches!(encode::request("GET", "/a b", "h", &[], b""), Err(Invalid::Target(_))));
    assert!(matches!(
        encode::request("GET", "/", "h", &header("a b", "c"), b""),
        Err(Invalid::HeaderName(_))
    ));
    assert!(matches!(
        encode::request("GET", "/", "h", &header("a", "b\r\nc"), b""),
        Err(Invalid::HeaderValue(_))
    ));
}

#[test]
fn encode_adds_host_and_length_once() {
    let headers = [("host".to_string(), "mine".to_string())];
    let text =
        String::from_utf8(encode::request("POST", "/", "h", &headers, b"hi").unwrap()).unwrap();
    assert_eq!(text, "POST / HTTP/1.1\r\nhost: mine\r\nContent-Length: 2\r\n\r\nhi");
    let text = String::from_utf8(encode::request("GET", "/", "h", &[], b"").unwrap()).unwrap();
    assert_eq!(text, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
}

proptest! {
    #[test]
    fn encode_read_round_trip(
        method in "[A-Z]{1,8}",
        target in "/[!-~]{0,30}",
        body in proptest::collection::vec(any::<u8>(), 0..50),
        piece in 1usize..100,
    ) {
        let mut bytes = encode::request(&method, &target, "host", &[], &body).unwrap();
        bytes.extend(bytes.clone());
        let requests = read(&bytes, piece).unwrap();
        prop_assert_eq!(requests.len(), 2);
        for request in requests {
            prop_assert_eq!(&request.line, &(method.clone(), target.clone()));
            prop_assert_eq!(&request.body, &body);
        }
    }
}
