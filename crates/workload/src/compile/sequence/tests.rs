//! Tests the errors of sequences that cannot be sent, and the messages of requests with cookies.

use dyno_engine::{Draws, Http2, Protocol};
use dyno_model::plan::{Body, Extraction, Request, Sequence, Workload};

use super::*;
use crate::compile::CompileError;

fn extraction(name: &str, source: ExtractionSource) -> Extraction {
    Extraction { name: name.into(), source, matches: None }
}

fn json(name: &str) -> Extraction {
    extraction(name, ExtractionSource::Json("/a".into()))
}

fn step(path: &str, extract: &[Extraction]) -> Request {
    Request {
        name: path.trim_matches('/').into(),
        weight: 1,
        method: "GET".into(),
        path: path.into(),
        extract: extract.into(),
        ..Request::default()
    }
}

fn workload(protocol: Protocol, cookies: Cookies, requests: &[Request]) -> Workload {
    Workload {
        name: "w".into(),
        protocol,
        requests: requests.into(),
        page: None,
        sequence: Some(Sequence { cookies }),
        requests_per_connection: None,
    }
}

fn check(requests: &[Request]) -> Result<(), CompileError> {
    let workload = workload(Protocol::Auto, Cookies::Ignored, requests);
    crate::compile::check(&workload, &|_| Err("no files here".into()))
}

#[test]
fn wrong_values_are_refused_with_location() {
    let used = |step: Request| [step, self::step("/{extract.t}", &[])];
    let post = |body: &str| Request { body: Some(Body(body.into())), ..step("/b", &[]) };
    let extract = |name: &str| Field::Extract(name.into());
    let bad_pointer = extraction("t", ExtractionSource::Json("a".into()));
    let bad_escape = extraction("t", ExtractionSource::Json("/a~2".into()));
    let header = |name: &str| extraction("t", ExtractionSource::Header(name.into()));
    let empty_pattern = Extraction { matches: Some(String::new()), ..header("X-A") };
    let bad_pattern = Extraction { matches: Some("(".into()), ..json("t") };
    let head = Request { method: "HEAD".into(), ..step("/a", &[json("t")]) };
    let cases: &[(&[Request], usize, Field, &str)] = &[
        (
            &[step("/a", &[json("token")]), step("/{extract.tokn}", &[])],
            1,
            Field::Path,
            "no step extracts this value\nhint: did you mean {extract.token}?",
        ),
        (&[step("/a", &[]), post("{extract.x}")], 1, Field::Body, "add `extract = { x = … }`"),
        (
            &[step("/{extract.t}", &[]), step("/b", &[json("t")])],
            0,
            Field::Path,
            "is used before step 2 has extracted it",
        ),
        (
            &[step("/a", &[]), step("/{extract.t}", &[json("t")])],
            1,
            Field::Path,
            "is used before step 2 has extracted it",
        ),
        (
            &[step("/a", &[json("t")]), step("/b", &[json("t")]), step("/{extract.t}", &[])],
            0,
            extract("t"),
            "",
        ),
        (&[step("/a", &[json("t")]), step("/b", &[])], 0, extract("t"), "no later step uses it"),
        (&used(step("/a", &[bad_pointer])), 0, extract("t"), "not a JSON pointer"),
        (&used(step("/a", &[bad_escape])), 0, extract("t"), "not a JSON pointer"),
        (&used(step("/a", &[header("")])), 0, extract("t"), "not a valid name"),
        (&used(step("/a", &[header("X Y")])), 0, extract("t"), "not a valid name"),
        (&used(step("/a", &[empty_pattern])), 0, extract("t"), "an empty expression"),
        (&used(step("/a", &[bad_pattern])), 0, extract("t"), "not a regular expression"),
        (&used(head), 0, extract("t"), "a response to HEAD has no body"),
    ];
    for (requests, index, field, message) in cases {
        let error = check(requests).err().unwrap_or_else(|| panic!("{message}"));
        if message.is_empty() {
            let expected = "step 1 already extracts a value of this name";
            assert!(error.message.contains(expected), "{}", error.message);
            assert!(matches!(error.location, Some((1, Field::Extract(_)))), "{error:?}");
            continue;
        }
        assert_eq!(error.location, Some((*index, field.clone())), "{}", error.message);
        assert!(error.message.contains(message), "{}", error.message);
    }
    check(&used(step("/a", &[json("t")]))).unwrap();
    check(&[step("/{{extract.t}}", &[]), step("/b", &[])]).unwrap();
}

#[test]
fn values_outside_of_sequence_are_refused() {
    let mix = |request: Request| Workload {
        sequence: None,
        ..workload(Protocol::H1, Cookies::Ignored, &[request])
    };
    for (request, expected) in [
        (step("/{extract.t}", &[]), "{extract.t}: has no value here"),
        (step("/a", &[json("t")]), "value \"t\": only steps of a sequence can extract values"),
    ] {
        let error = crate::compile::check(&mix(request), &|_| Err(String::new())).unwrap_err();
        assert!(error.message.contains(expected), "{}", error.message);
    }
}

#[test]
fn cookie_line_follows_other_headers() {
    let read = |_: &str| Err("no files here".to_string());
    let post = Request { body: Some(Body(b"x".to_vec())), ..step("/b", &[]) };
    for protocol in [Protocol::H1, Protocol::H2c, Protocol::H2cUpgrade] {
        let workload = workload(protocol, Cookies::Kept, &[step("/a", &[]), post.clone()]);
        let traffic = crate::compile::compile(&workload, "h:1", &Http2::default(), &read).unwrap();
        let sequence = traffic.sequence().unwrap();
        assert_eq!((sequence.cookies, sequence.requests.len()), (CookiePolicy::Keep, 2));
        let Template::Varying { head, body } = &traffic.requests()[1].template else { panic!() };
        let [RequestPart::Bytes(lines), RequestPart::CookieLine, RequestPart::Bytes(end)] =
            &head[..]
        else {
            panic!("{head:?}")
        };
        assert_eq!(&lines[..], b"GET /b HTTP/1.1\r\nHost: h:1\r\nContent-Length: 1\r\n");
        assert_eq!(
            (&end[..], &body[..]),
            (&b"\r\n"[..], &[RequestPart::Bytes(b"x"[..].into())][..])
        );
    }
    let with_header = Request { headers: vec![("cookie".into(), "a=1".into())], ..step("/b", &[]) };
    let workload = workload(Protocol::H1, Cookies::Kept, &[step("/a", &[]), with_header]);
    let error = crate::compile::check(&workload, &read).unwrap_err();
    assert_eq!(error.location, Some((1, Field::Header("cookie".into()))));
}

#[test]
fn requests_without_cookies_stay_fixed() {
    let read = |_: &str| Err("no files here".to_string());
    let requests = [step("/a", &[]), step("/b", &[])];
    let workload = workload(Protocol::H1, Cookies::Ignored, &requests);
    let traffic = crate::compile::compile(&workload, "h", &Http2::default(), &read).unwrap();
    let (mut draws, mut memory) = (Draws::new(1, 0, 1), Vec::new());
    let bytes = traffic.requests()[0].template.bytes(&mut draws, &mut memory);
    assert_eq!(bytes, b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
}

#[test]
fn cookie_host_has_no_port() {
    for (authority, header, expected) in [
        ("Example.test:8080", None, "example.test"),
        ("127.0.0.1:80", None, "127.0.0.1"),
        ("[::1]:80", None, "::1"),
        ("h", None, "h"),
        ("h:1", Some("App.test:2"), "app.test"),
        ("h:1", Some("{uuid}.test"), "h"),
    ] {
        let headers = header.map(|value| ("Host".to_string(), value.to_string()));
        let request = Request { headers: headers.into_iter().collect(), ..step("/", &[]) };
        assert_eq!(&*cookie_host(&request, authority), expected.as_bytes(), "{authority}");
    }
}
