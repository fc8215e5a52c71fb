//! Tests the bytes of compiled requests, and the errors of requests that cannot be sent.

use super::*;
use dyno_engine::Draws;
use dyno_wire::h1::request::{RequestEvent, RequestReader};

fn request(method: &str, path: &str, body: Option<&str>) -> plan::Request {
    plan::Request {
        name: "r".into(),
        weight: 1,
        method: method.into(),
        path: path.into(),
        headers: vec![("X-Id".into(), "{seq}".into())],
        body: body.map(|b| plan::Body(b.as_bytes().to_vec())),
        ..plan::Request::default()
    }
}

fn compile(request: plan::Request) -> Result<Traffic, String> {
    let workload = plan::Workload {
        name: "w".into(),
        protocol: Protocol::H2c,
        requests: vec![request],
        page: None,
        sequence: None,
        requests_per_connection: None,
    };
    let read = |file: &str| match file {
        "blank" => Ok(b"a\nb c\n".to_vec()),
        _ => Err("no files here".to_string()),
    };
    super::compile(&workload, "h:1", &Http2::default(), &read)
}

/// Returns the bytes of the second request of worker 0, and the body that a server reads from
/// them.
fn second_request(traffic: &Traffic) -> (String, String) {
    let (mut draws, mut buffer) = (Draws::new(1, 0, 1), Vec::new());
    let template = &traffic.requests()[0].template;
    template.bytes(&mut draws, &mut buffer);
    let bytes = template.bytes(&mut draws, &mut buffer).to_vec();
    let (mut reader, mut rest, mut body) = (RequestReader::new(), &bytes[..], Vec::new());
    loop {
        let (used, event) = reader.next(rest).unwrap();
        rest = &rest[used..];
        match event {
            RequestEvent::Body(data) => body.extend_from_slice(data),
            RequestEvent::End => break,
            RequestEvent::NeedMore => panic!("a whole request was sent"),
            RequestEvent::Head(_) => {}
        }
    }
    assert!(rest.is_empty());
    (String::from_utf8(bytes).unwrap(), String::from_utf8(body).unwrap())
}

#[test]
fn request_without_placeholders_is_fixed_bytes() {
    let mut plain = request("GET", "/a", None);
    plain.headers.clear();
    let traffic = compile(plain).unwrap();
    let Template::Fixed(bytes) = &traffic.requests()[0].template else {
        panic!("it has no placeholders")
    };
    assert_eq!(&bytes[..], b"GET /a HTTP/1.1\r\nHost: h:1\r\n\r\n");
}

#[test]
fn empty_body_gets_content_length_for_any_method() {
    let head = |body| second_request(&compile(request("DELETE", "/a", body)).unwrap()).0;
    assert_eq!(
        head(Some("")),
        "DELETE /a HTTP/1.1\r\nHost: h:1\r\nX-Id: 1\r\nContent-Length: 0\r\n\r\n"
    );
    assert_eq!(head(None), "DELETE /a HTTP/1.1\r\nHost: h:1\r\nX-Id: 1\r\n\r\n");
}

#[test]
fn varying_head_and_body_get_values_and_length() {
    let traffic =
        compile(request("POST", "/n/{seq}", Some("{\"n\":{seq},\"r\":{rand:10..99}}"))).unwrap();
    let (bytes, body) = second_request(&traffic);
    assert!(
        bytes.starts_with(
            "POST /n/1 HTTP/1.1\r\nHost: h:1\r\nX-Id: 1\r\nContent-Length: 14\r\n\r\n"
        ),
        "{bytes}"
    );
    assert!(body.starts_with("{\"n\":1,\"r\":") && body.len() == 14, "{body}");
}

#[test]
fn fixed_body_follows_varying_head() {
    let (bytes, body) = second_request(&compile(request("PUT", "/a", Some("xyz"))).unwrap());
    assert_eq!(bytes, "PUT /a HTTP/1.1\r\nHost: h:1\r\nX-Id: 1\r\nContent-Length: 3\r\n\r\nxyz");
    assert_eq!(body, "xyz");
}

#[test]
fn header_of_other_protocol_refused_with_location() {
    for (protocol, header, is_refused) in [
        (Protocol::H2c, ("Connection", "close"), true),
        (Protocol::H2cUpgrade, ("Upgrade", "websocket"), true),
        (Protocol::Auto, ("TE", "gzip"), true),
        (Protocol::H2, ("TE", "trailers"), false),
        (Protocol::H1, ("Connection", "close"), false),
        (Protocol::H1, (":path", "/"), true),
    ] {
        let mut request = request("GET", "/", None);
        request.headers.push((header.0.into(), header.1.into()));
        let workload = plan::Workload {
            name: "w".into(),
            protocol,
            requests: vec![request],
            page: None,
            sequence: None,
            requests_per_connection: None,
        };
        let location = check(&workload, &|_| Err("no files here".into()))
            .err()
            .and_then(|error| error.location);
        let expected = is_refused.then(|| (0, Field::Header(header.0.into())));
        assert_eq!(location, expected, "{protocol} {header:?}");
    }
}

#[test]
fn unsendable_request_error_names_request() {
    for (request, expected) in [
        (request("GET", "/a b", None), "percent-encode"),
        (request("CONNECT", "/", None), "another method"),
        (request("GET", "/{rand:2..1}", None), "{rand:1..100}"),
        (request("GET", "/{csv:f:1}", None), "no files here"),
        (request("GET", "/\u{F8FF}", None), "U+F8FF"),
        (request("GET", "/{csv:blank:1}", None), "percent-encode"),
    ] {
        let error = compile(request).unwrap_err();
        assert!(error.contains("request \"r\"") && error.contains(expected), "{error}");
    }
    let mut wrong = request("GET", "/", None);
    wrong.expect.body_sha256 = Some("12".into());
    assert!(compile(wrong.clone()).unwrap_err().contains("64 hexadecimal"));
    wrong.expect = plan::Expect { json: vec![("a".into(), 1.into())], ..plan::Expect::default() };
    assert!(compile(wrong).unwrap_err().contains("RFC 6901"));
}
