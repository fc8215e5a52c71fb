//! Responses, read whole and in every way of cutting them.

use dyno_wire::h1::Http1Error;
use dyno_wire::h1::response::{Closed, End, HeadCache, RequestKind, ResponseEvent, ResponseReader};
use proptest::prelude::*;

/// Events of a reader, in a form that does not depend on how the bytes were cut.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Interim(u16),
    Head(u16),
    Body(Vec<u8>),
    End(End),
    Error(Http1Error),
    Closed(Closed),
}

/// Reads twice: what is remembered of heads must not change what is seen of them.
fn read(pieces: &[&[u8]], kind: RequestKind, close: bool) -> Vec<Seen> {
    let mut cache = HeadCache::new();
    let first = read_with(pieces, kind, close, &mut cache);
    let again = read_with(pieces, kind, close, &mut cache);
    assert_eq!(first, again, "a remembered head is read differently");
    first
}

fn read_with(pieces: &[&[u8]], kind: RequestKind, close: bool, cache: &mut HeadCache) -> Vec<Seen> {
    let mut reader = ResponseReader::new();
    let mut seen = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        loop {
            match reader.next_with(rest, kind, cache) {
                Ok((used, event)) => {
                    rest = &rest[used..];
                    match event {
                        ResponseEvent::NeedMore => {
                            assert!(rest.is_empty(), "NeedMore with {} bytes unread", rest.len());
                            break;
                        }
                        ResponseEvent::Informational(head) => seen.push(Seen::Interim(head.status)),
                        ResponseEvent::Upgraded(head) | ResponseEvent::Head(head) => {
                            seen.push(Seen::Head(head.status));
                        }
                        ResponseEvent::Body(data) => match seen.last_mut() {
                            Some(Seen::Body(body)) => body.extend_from_slice(data),
                            _ => seen.push(Seen::Body(data.to_vec())),
                        },
                        ResponseEvent::End(end) => seen.push(Seen::End(end)),
                    }
                }
                Err(error) => {
                    seen.push(Seen::Error(error));
                    return seen;
                }
            }
        }
    }
    if close {
        seen.push(reader.eof().map_or_else(Seen::Error, Seen::Closed));
    }
    seen
}

fn whole(bytes: &str) -> Vec<Seen> {
    read(&[bytes.as_bytes()], RequestKind::Other, false)
}

fn error_of(bytes: &str) -> Http1Error {
    match whole(bytes).last() {
        Some(Seen::Error(error)) => *error,
        other => panic!("expected an error, saw {other:?}"),
    }
}

fn body(text: &str) -> Seen {
    Seen::Body(text.as_bytes().to_vec())
}

#[test]
fn content_length_and_keep_alive() {
    let seen = whole("HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!");
    assert_eq!(seen, [Seen::Head(200), body("Hello, World!"), Seen::End(End::Reusable)]);
}

#[test]
fn connection_options_decide_reuse() {
    let end = |head: &str| whole(&format!("{head}Content-Length: 0\r\n\r\n")).pop().unwrap();
    assert_eq!(end("HTTP/1.1 200 OK\r\n"), Seen::End(End::Reusable));
    assert_eq!(end("HTTP/1.1 200 OK\r\nConnection: Close\r\n"), Seen::End(End::Final));
    assert_eq!(end("HTTP/1.1 200 OK\r\nconnection: x, close\r\n"), Seen::End(End::Final));
    assert_eq!(end("HTTP/1.0 200 OK\r\n"), Seen::End(End::Final));
    assert_eq!(end("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n"), Seen::End(End::Reusable));
}

#[test]
fn missing_reason_is_accepted() {
    assert_eq!(whole("HTTP/1.1 204\r\n\r\n"), [Seen::Head(204), Seen::End(End::Reusable)]);
    assert_eq!(whole("HTTP/1.1 204 \r\n\r\n"), [Seen::Head(204), Seen::End(End::Reusable)]);
}

#[test]
fn head_204_and_304_have_no_body_whatever_they_say() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n";
    let seen = read(&[answer.as_bytes()], RequestKind::Head, false);
    assert_eq!(seen, [Seen::Head(200), Seen::End(End::Reusable)]);
    for status in [204, 304] {
        let seen = whole(&format!("HTTP/1.1 {status} X\r\nContent-Length: 5\r\n\r\n"));
        assert_eq!(seen, [Seen::Head(status), Seen::End(End::Reusable)]);
    }
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let seen = whole(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 \
         OK\r\nContent-Length: 1\r\n\r\nx",
    );
    assert_eq!(
        seen,
        [
            Seen::Interim(100),
            Seen::Interim(103),
            Seen::Head(200),
            body("x"),
            Seen::End(End::Reusable)
        ]
    );
    assert_eq!(error_of(&"HTTP/1.1 102 P\r\n\r\n".repeat(33)), Http1Error::TooManyInformational);
    assert_eq!(
        error_of("HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\n"),
        Http1Error::UnexpectedUpgrade
    );
}

#[test]
fn chunked_with_extensions_and_trailers() {
    let seen = whole(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n5;a=\"b\"\r\nHello\r\n00A\r\n, \
         World!!!\r\n0\r\nX: y\r\nZ: w\r\n\r\nHTTP/1.1 204 N\r\n\r\n",
    );
    assert_eq!(
        seen,
        [
            Seen::Head(200),
            body("Hello, World!!!"),
            Seen::End(End::Reusable),
            Seen::Head(204),
            Seen::End(End::Reusable)
        ]
    );
}

#[test]
fn bodies_until_close() {
    let bytes = b"HTTP/1.1 200 OK\r\n\r\nabc";
    let seen = read(&[bytes], RequestKind::Other, true);
    assert_eq!(seen, [Seen::Head(200), body("abc"), Seen::Closed(Closed::EndsMessage)]);
}

#[test]
fn early_close_is_named_by_where_it_came() {
    let closed = |bytes: &str| read(&[bytes.as_bytes()], RequestKind::Other, true).pop().unwrap();
    assert_eq!(closed(""), Seen::Closed(Closed::BetweenMessages));
    assert_eq!(closed("HTTP/1.1 2"), Seen::Error(Http1Error::ClosedInHead));
    assert_eq!(closed("HTTP/1.1 100 C\r\n\r\n"), Seen::Error(Http1Error::ClosedInHead));
    assert_eq!(
        closed("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"),
        Seen::Error(Http1Error::ClosedInBody)
    );
    assert_eq!(
        closed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na"),
        Seen::Error(Http1Error::ClosedInBody)
    );
}

#[test]
fn every_mistake_has_its_name() {
    let head = |fields: &str| error_of(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n"));
    assert_eq!(error_of("HTTP/1.1 20 OK\r\n\r\n"), Http1Error::StatusLine);
    assert_eq!(error_of("HTTP/1.1 2000 OK\r\n\r\n"), Http1Error::StatusLine);
    assert_eq!(error_of("SSH-2.0-OpenSSH\r\n\r\n"), Http1Error::StatusLine);
    assert_eq!(error_of("HTTP/2.0 200 OK\r\n\r\n"), Http1Error::Version);
    assert_eq!(error_of("HTTP/1.1 200 OK\nA: b\n\n"), Http1Error::BareLineFeed);
    assert_eq!(head("no colon"), Http1Error::FieldName);
    assert_eq!(head("spaced : x"), Http1Error::FieldName);
    assert_eq!(head(": x"), Http1Error::FieldName);
    assert_eq!(head(" folded"), Http1Error::FoldedField);
    assert_eq!(head("A: b\0c"), Http1Error::FieldValue);
    assert_eq!(head("Content-Length: -1"), Http1Error::ContentLength);
    assert_eq!(head("Content-Length: 99999999999999999999"), Http1Error::ContentLength);
    assert_eq!(head("Content-Length: 1\r\nContent-Length: 2"), Http1Error::ContentLength);
    assert_eq!(
        head("Content-Length: 1\r\nTransfer-Encoding: chunked"),
        Http1Error::LengthAndTransferEncoding
    );
    assert_eq!(
        error_of("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        Http1Error::TransferEncodingInHttp10
    );
    let chunked = |rest: &str| {
        error_of(&format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{rest}"))
    };
    assert_eq!(chunked("\r\n"), Http1Error::ChunkSize);
    assert_eq!(chunked("g\r\n"), Http1Error::ChunkSize);
    assert_eq!(chunked("11112222333344445\r\n"), Http1Error::ChunkSize);
    assert_eq!(chunked("1\rx"), Http1Error::BareCarriageReturn);
    assert_eq!(chunked("1\n"), Http1Error::BareLineFeed);
    assert_eq!(chunked("1;a\n"), Http1Error::BareLineFeed);
    assert_eq!(chunked("1\r\nab"), Http1Error::ChunkEnd);
    assert_eq!(chunked(&format!("1;{}", "x".repeat(5000))), Http1Error::ChunkLineTooLong);
    assert_eq!(chunked(&format!("0\r\n{}", "T: x\r\n".repeat(3000))), Http1Error::TrailersTooLarge);
    assert_eq!(
        error_of(&format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(70_000))),
        Http1Error::HeadTooLarge
    );
    assert_eq!(
        error_of(&format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(70_000))),
        Http1Error::HeadTooLarge
    );
}

#[test]
fn identical_content_lengths_count_as_one() {
    let seen = whole("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(seen, [Seen::Head(200), body("ok"), Seen::End(End::Reusable)]);
}

#[test]
fn fields_are_found_without_regard_to_case() {
    let mut reader = ResponseReader::new();
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Type:  text/plain \r\nContent-Length: 0\r\n\r\n";
    let (_, ResponseEvent::Head(head)) = reader.next(bytes, RequestKind::Other).unwrap() else {
        panic!("no head")
    };
    assert_eq!(head.fields().get("content-type"), Some(&b"text/plain"[..]));
    assert_eq!(head.fields().get("absent"), None);
    assert_eq!(head.fields().count(), 2);
    assert_eq!(head.wire_bytes, bytes.len());
}

/// One message, right or wrong, as a server might send it.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let text = proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        4 => text.clone().prop_map(|b| {
            let length = b.len();
            let mut m =
                format!("HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: {length}\r\n\r\n")
                    .into_bytes();
            m.extend(b);
            m
        }),
        3 => proptest::collection::vec(text.clone(), 0..4).prop_map(|chunks| {
            let mut m = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            for chunk in chunks.iter().filter(|c| !c.is_empty()) {
                m.extend(format!("{:x};e=1\r\n", chunk.len()).bytes());
                m.extend(chunk);
                m.extend(b"\r\n");
            }
            m.extend(b"0\r\nTrailer: t\r\n\r\n");
            m
        }),
        1 => Just(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()),
        1 => Just(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
        1 => Just(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n.".to_vec()),
        2 => "[0-9a;= x\"\\\\\t\r\n]{0,30}".prop_map(|line| {
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1{line}\r\n").into_bytes()
        }),
        2 => "(chunked|gzip|[,; \"\t\r]){0,5}".prop_map(|codings| {
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {codings}\r\n\r\n0\r\n\r\n").into_bytes()
        }),
        1 => "[A-Z\r\n ]{0,20}".prop_map(|words| {
            format!("HTTP/1.1 200 OK{words}\r\nA: b{words}\r\n\r\n").into_bytes()
        }),
        1 => text,
        1 => "[A-Za-z0-9 :/.\r\n-]{0,60}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Split invariance: however the bytes are cut, the events are the same.
    #[test]
    fn any_cut_gives_the_same_events(
        messages in proptest::collection::vec(message(), 1..5),
        cuts in proptest::collection::vec(0usize..400, 0..12),
        head in any::<bool>(),
    ) {
        let bytes = messages.concat();
        let kind = if head { RequestKind::Head } else { RequestKind::Other };
        let mut at: Vec<usize> = cuts.into_iter().map(|c| c % (bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let pieces: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        prop_assert_eq!(read(&[&bytes], kind, true), read(&pieces, kind, true));
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(read(&[&bytes], kind, true), read(&single, kind, true));
    }
}

#[test]
fn between_messages_nothing_of_the_next_has_been_read() {
    let after = |bytes: &[u8]| {
        let mut reader = ResponseReader::new();
        let mut rest = bytes;
        loop {
            let (used, event) = reader.next(rest, RequestKind::Other).unwrap();
            let needs_more = matches!(event, ResponseEvent::NeedMore);
            rest = &rest[used..];
            if needs_more || rest.is_empty() {
                break reader.is_between_messages();
            }
        }
    };
    assert!(after(b""));
    assert!(!after(b"HTTP/1.1 2"), "a part of a head");
    assert!(!after(b"HTTP/1.1 100 Continue\r\n\r\n"), "a head that another follows");
    assert!(!after(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1"), "a part of a body");
}
