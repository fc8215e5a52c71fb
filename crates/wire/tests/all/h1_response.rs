//! Tests that responses give the same events whole and in any pieces, and that violations are
//! reported.

use dyno_wire::h1::Http1Error;
use dyno_wire::h1::response::{Closed, End, HeadCache, RequestKind, ResponseEvent, ResponseReader};
use proptest::prelude::*;

/// An event of a reader. Parts of a body are joined, so events do not depend on the pieces of the
/// input.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ReadEvent {
    Interim(u16),
    Head(u16),
    Body(Vec<u8>),
    End(End),
    Error(Http1Error),
    Closed(Closed),
}

/// Name and value of a header field.
type Field = (Vec<u8>, Vec<u8>);

/// Reads twice with the same cache, which must not change the events and fields.
fn read(pieces: &[&[u8]], kind: RequestKind, close: bool) -> Vec<ReadEvent> {
    let mut cache = HeadCache::new();
    let mut read = || {
        let mut fields = Vec::new();
        (read_with_cache(pieces, kind, close, (&mut cache, &mut fields)), fields)
    };
    let (first, again) = (read(), read());
    assert_eq!(first, again, "a cached head is read differently");
    first.0
}

fn read_with_cache(
    pieces: &[&[u8]],
    kind: RequestKind,
    close: bool,
    (cache, fields): (&mut HeadCache, &mut Vec<Field>),
) -> Vec<ReadEvent> {
    let mut reader = ResponseReader::new();
    let mut events = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        loop {
            match reader.next_with_cache(rest, kind, cache) {
                Ok((used, event)) => {
                    rest = &rest[used..];
                    match event {
                        ResponseEvent::NeedMore => {
                            assert!(rest.is_empty(), "NeedMore with {} bytes unread", rest.len());
                            break;
                        }
                        ResponseEvent::Informational(head) => {
                            events.push(ReadEvent::Interim(head.status));
                        }
                        ResponseEvent::Upgraded(head) | ResponseEvent::Head(head) => {
                            fields.extend(head.fields().map(|(n, v)| (n.to_vec(), v.to_vec())));
                            events.push(ReadEvent::Head(head.status));
                        }
                        ResponseEvent::Body(data) => match events.last_mut() {
                            Some(ReadEvent::Body(body)) => body.extend_from_slice(data),
                            _ => events.push(ReadEvent::Body(data.to_vec())),
                        },
                        ResponseEvent::End(end) => events.push(ReadEvent::End(end)),
                    }
                }
                Err(error) => {
                    events.push(ReadEvent::Error(error));
                    return events;
                }
            }
        }
    }
    if close {
        events.push(reader.eof().map_or_else(ReadEvent::Error, ReadEvent::Closed));
    }
    events
}

fn read_whole(bytes: &str) -> Vec<ReadEvent> {
    read(&[bytes.as_bytes()], RequestKind::Other, false)
}

fn last_error(bytes: &str) -> Http1Error {
    match read_whole(bytes).last() {
        Some(ReadEvent::Error(error)) => *error,
        other => panic!("expected an error, got {other:?}"),
    }
}

fn body(text: &str) -> ReadEvent {
    ReadEvent::Body(text.as_bytes().to_vec())
}

#[test]
fn content_length_and_keep_alive() {
    let events = read_whole("HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!");
    assert_eq!(
        events,
        [ReadEvent::Head(200), body("Hello, World!"), ReadEvent::End(End::Reusable)]
    );
}

#[test]
fn connection_options_decide_reuse() {
    let end = |head: &str| read_whole(&format!("{head}Content-Length: 0\r\n\r\n")).pop().unwrap();
    assert_eq!(end("HTTP/1.1 200 OK\r\n"), ReadEvent::End(End::Reusable));
    assert_eq!(end("HTTP/1.1 200 OK\r\nConnection: Close\r\n"), ReadEvent::End(End::Final));
    assert_eq!(end("HTTP/1.1 200 OK\r\nconnection: x, close\r\n"), ReadEvent::End(End::Final));
    assert_eq!(end("HTTP/1.0 200 OK\r\n"), ReadEvent::End(End::Final));
    assert_eq!(end("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n"), ReadEvent::End(End::Reusable));
}

#[test]
fn missing_reason_accepted() {
    assert_eq!(
        read_whole("HTTP/1.1 204\r\n\r\n"),
        [ReadEvent::Head(204), ReadEvent::End(End::Reusable)]
    );
    assert_eq!(
        read_whole("HTTP/1.1 204 \r\n\r\n"),
        [ReadEvent::Head(204), ReadEvent::End(End::Reusable)]
    );
}

#[test]
fn responses_to_head_204_and_304_have_no_body() {
    let response = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n";
    let events = read(&[response.as_bytes()], RequestKind::Head, false);
    assert_eq!(events, [ReadEvent::Head(200), ReadEvent::End(End::Reusable)]);
    for status in [204, 304] {
        let events = read_whole(&format!("HTTP/1.1 {status} X\r\nContent-Length: 5\r\n\r\n"));
        assert_eq!(events, [ReadEvent::Head(status), ReadEvent::End(End::Reusable)]);
    }
}

#[test]
fn interim_responses_precede_final() {
    let events = read_whole(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 \
         OK\r\nContent-Length: 1\r\n\r\nx",
    );
    assert_eq!(
        events,
        [
            ReadEvent::Interim(100),
            ReadEvent::Interim(103),
            ReadEvent::Head(200),
            body("x"),
            ReadEvent::End(End::Reusable)
        ]
    );
    let interim = |n: usize| "HTTP/1.1 102 P\r\n\r\n".repeat(n);
    assert_eq!(read_whole(&interim(32)), [const { ReadEvent::Interim(102) }; 32]);
    assert_eq!(last_error(&interim(33)), Http1Error::TooManyInformational);
    assert_eq!(
        last_error("HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\n"),
        Http1Error::UnexpectedUpgrade
    );
}

#[test]
fn chunked_with_extensions_and_trailers() {
    let events = read_whole(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n5;a=\"b\"\r\nHello\r\n00A\r\n, \
         World!!!\r\n0\r\nX: y\r\nZ: w\r\n\r\nHTTP/1.1 204 N\r\n\r\n",
    );
    assert_eq!(
        events,
        [
            ReadEvent::Head(200),
            body("Hello, World!!!"),
            ReadEvent::End(End::Reusable),
            ReadEvent::Head(204),
            ReadEvent::End(End::Reusable)
        ]
    );
}

#[test]
fn bodies_until_close() {
    let bytes = b"HTTP/1.1 200 OK\r\n\r\nabc";
    let events = read(&[bytes], RequestKind::Other, true);
    assert_eq!(events, [ReadEvent::Head(200), body("abc"), ReadEvent::Closed(Closed::EndsMessage)]);
}

#[test]
fn early_close_error_depends_on_position() {
    let closed = |bytes: &str| read(&[bytes.as_bytes()], RequestKind::Other, true).pop().unwrap();
    assert_eq!(closed(""), ReadEvent::Closed(Closed::BetweenMessages));
    assert_eq!(closed("HTTP/1.1 2"), ReadEvent::Error(Http1Error::ClosedInHead));
    assert_eq!(closed("HTTP/1.1 100 C\r\n\r\n"), ReadEvent::Error(Http1Error::ClosedInHead));
    assert_eq!(
        closed("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"),
        ReadEvent::Error(Http1Error::ClosedInBody)
    );
    assert_eq!(
        closed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na"),
        ReadEvent::Error(Http1Error::ClosedInBody)
    );
}

#[test]
fn each_violation_has_its_error() {
    let head = |fields: &str| last_error(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n"));
    assert_eq!(last_error("HTTP/1.1 20 OK\r\n\r\n"), Http1Error::StatusLine);
    assert_eq!(last_error("HTTP/1.1 2000 OK\r\n\r\n"), Http1Error::StatusLine);
    assert_eq!(last_error("SSH-2.0-OpenSSH\r\n\r\n"), Http1Error::StatusLine);
    assert_eq!(last_error("HTTP/2.0 200 OK\r\n\r\n"), Http1Error::Version);
    assert_eq!(last_error("HTTP/1.1 200 OK\nA: b\n\n"), Http1Error::BareLineFeed);
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
        last_error("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        Http1Error::TransferEncodingInHttp10
    );
    let chunked = |rest: &str| {
        last_error(&format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{rest}"))
    };
    assert_eq!(chunked("\r\n"), Http1Error::ChunkSize);
    assert_eq!(chunked("g\r\n"), Http1Error::ChunkSize);
    assert_eq!(chunked("11112222333344445\r\n"), Http1Error::ChunkSize);
    assert_eq!(chunked("0011112222333344445\r\n"), Http1Error::ChunkSize);
    assert_eq!(chunked(&"0".repeat(5000)), Http1Error::ChunkLineTooLong);
    for trailer in ["no colon", "T\r\n", ": x", "T : x", " folded", "T: x\r\nU\r\n"] {
        assert_eq!(chunked(&format!("0\r\n{trailer}\r\n")), Http1Error::TrailerFieldName);
    }
    assert_eq!(chunked("0\r\nT\n"), Http1Error::BareLineFeed);
    assert_eq!(chunked("1\rx"), Http1Error::BareCarriageReturn);
    assert_eq!(chunked("1\n"), Http1Error::BareLineFeed);
    assert_eq!(chunked("1;a\n"), Http1Error::BareLineFeed);
    assert_eq!(chunked("1\r\nab"), Http1Error::ChunkEnd);
    assert_eq!(chunked(&format!("1;{}", "x".repeat(5000))), Http1Error::ChunkLineTooLong);
    assert_eq!(chunked(&format!("0\r\n{}", "T: x\r\n".repeat(3000))), Http1Error::TrailersTooLarge);
    assert_eq!(
        last_error(&format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(70_000))),
        Http1Error::HeadTooLarge
    );
    assert_eq!(
        last_error(&format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(70_000))),
        Http1Error::HeadTooLarge
    );
}

#[test]
fn identical_content_lengths_accepted() {
    let events =
        read_whole("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(events, [ReadEvent::Head(200), body("ok"), ReadEvent::End(End::Reusable)]);
}

#[test]
fn field_lookup_ignores_case() {
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

/// A message of a server, valid or invalid.
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

    /// Cutting the bytes at any positions does not change the events.
    #[test]
    fn pieces_do_not_change_events(
        messages in proptest::collection::vec(message(), 1..5),
        cuts in proptest::collection::vec(0usize..400, 0..12),
        head in any::<bool>(),
    ) {
        let bytes = messages.concat();
        let kind = if head { RequestKind::Head } else { RequestKind::Other };
        let mut positions: Vec<usize> = cuts.into_iter().map(|c| c % (bytes.len() + 1)).collect();
        positions.extend([0, bytes.len()]);
        positions.sort_unstable();
        let pieces: Vec<&[u8]> = positions.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        prop_assert_eq!(read(&[&bytes], kind, true), read(&pieces, kind, true));
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(read(&[&bytes], kind, true), read(&single, kind, true));
    }
}

#[test]
fn partial_message_is_not_between_messages() {
    let is_between = |bytes: &[u8]| {
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
    assert!(is_between(b""));
    assert!(!is_between(b"HTTP/1.1 2"), "a part of a head");
    assert!(!is_between(b"HTTP/1.1 100 Continue\r\n\r\n"), "a head that another follows");
    assert!(!is_between(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1"), "a part of a body");
}
