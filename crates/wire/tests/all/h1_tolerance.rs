//! Tests deviations from HTTP/1.x that are accepted or refused on purpose: a case for each row of
//! the tables in the documentation of the crate.

use dyno_wire::h1::response::{End, RequestKind, ResponseEvent, ResponseReader};
use dyno_wire::h1::{Http1Error, request};

/// An accepted response: its status, its body, and its end; `None`: the body continues until the
/// close.
type AcceptedResponse = (u16, Vec<u8>, Option<End>);

/// Reads a response whole and byte by byte, with the same result.
fn read_both_ways(bytes: &[u8], kind: RequestKind) -> Result<AcceptedResponse, Http1Error> {
    let whole = read(&[bytes], kind);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(whole, read(&single, kind), "cut into single bytes {bytes:?} is read differently");
    whole
}

fn read(pieces: &[&[u8]], kind: RequestKind) -> Result<AcceptedResponse, Http1Error> {
    let mut reader = ResponseReader::new();
    let (mut status, mut body) = (0, Vec::new());
    for mut rest in pieces.iter().copied() {
        loop {
            let (used, event) = reader.next(rest, kind)?;
            rest = &rest[used..];
            match event {
                ResponseEvent::NeedMore => break,
                ResponseEvent::Informational(_) => {}
                ResponseEvent::Upgraded(head) | ResponseEvent::Head(head) => status = head.status,
                ResponseEvent::Body(data) => body.extend_from_slice(data),
                ResponseEvent::End(end) => return Ok((status, body, Some(end))),
            }
        }
    }
    Ok((status, body, None))
}

fn check_accepted(bytes: &str, expected: (u16, &str, Option<End>)) {
    let response = read_both_ways(bytes.as_bytes(), RequestKind::Other);
    assert_eq!(response, Ok((expected.0, expected.1.into(), expected.2)), "{bytes:?}");
}

fn check_refused(bytes: &str, error: Http1Error) {
    assert_eq!(read_both_ways(bytes.as_bytes(), RequestKind::Other), Err(error), "{bytes:?}");
}

const REUSABLE: Option<End> = Some(End::Reusable);

/// A response with these fields and the body `ok`.
fn with_fields(fields: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nok")
}

/// A chunked response with a body of two bytes and this chunk-size line.
fn with_chunk_line(line: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{line}\r\nok\r\n0\r\n\r\n")
}

/// A chunked response with one Transfer-Encoding line per value.
fn with_codings(lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("Transfer-Encoding:{line}\r\n")).collect();
    format!("HTTP/1.1 200 OK\r\n{lines}\r\n2\r\nok\r\n0\r\n\r\n")
}

const CHUNKS: &str = "2\r\nok\r\n0\r\n\r\n";

#[test]
fn unusual_reason_accepted() {
    for reason in ["", " ", " Fine", " \t\0\u{7F}\u{FF}"] {
        check_accepted(&format!("HTTP/1.1 204{reason}\r\n\r\n"), (204, "", REUSABLE));
    }
    check_accepted("HTTP/1.1 999 ?\r\nContent-Length: 2\r\n\r\nok", (999, "ok", REUSABLE));
}

#[test]
fn control_characters_in_value_accepted() {
    check_accepted(
        &with_fields("A: \u{1}b\u{7F}\u{FF}\r\nContent-Length: 2"),
        (200, "ok", REUSABLE),
    );
}

#[test]
fn repeated_equal_length_accepted() {
    for lengths in ["Content-Length: 2, 2", "Content-Length: 2\r\nContent-Length: 2,2"] {
        check_accepted(&with_fields(lengths), (200, "ok", REUSABLE));
    }
}

#[test]
fn framing_fields_without_body_ignored() {
    for framing in ["Content-Length: 5", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip"] {
        for status in [204, 304] {
            check_accepted(
                &format!("HTTP/1.1 {status} X\r\n{framing}\r\n\r\n"),
                (status, "", REUSABLE),
            );
        }
        let interim = format!("HTTP/1.1 103 X\r\n{framing}\r\n\r\nHTTP/1.1 204 X\r\n\r\n");
        check_accepted(&interim, (204, "", REUSABLE));
        let to_head = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n");
        assert_eq!(
            read_both_ways(to_head.as_bytes(), RequestKind::Head),
            Ok((200, vec![], REUSABLE))
        );
    }
}

#[test]
fn empty_list_members_ignored() {
    check_accepted(
        &with_fields("Connection: ,, close,\r\nContent-Length: 2"),
        (200, "ok", Some(End::Final)),
    );
    for value in [" chunked,", " ,chunked", " , ,\t, Chunked , ,", "chunked"] {
        check_accepted(&with_codings(&[value]), (200, "ok", REUSABLE));
    }
    check_accepted(&with_codings(&["", " chunked", " ,"]), (200, "ok", REUSABLE));
}

#[test]
fn codings_before_chunked_accepted() {
    for lines in
        [&[" gzip, chunked"][..], &[" gzip", " chunked"], &[" x;a=\"b, chunked\" ;c=d, chunked"]]
    {
        check_accepted(&with_codings(lines), (200, "ok", REUSABLE));
    }
}

#[test]
fn unknown_parameters_and_options_ignored() {
    check_accepted(&with_codings(&[" gzip;;=\u{7f}, chunked"]), (200, "ok", REUSABLE));
    check_accepted(
        &with_fields("Connection: (x), close y, =\r\nContent-Length: 2"),
        (200, "ok", REUSABLE),
    );
}

#[test]
fn last_coding_not_chunked_reads_until_close() {
    for lines in
        [&[" gzip"][..], &[" chunked, gzip"], &[" chunked", " gzip"], &[" x;a=\"b, chunked"]]
    {
        check_accepted(&with_codings(lines), (200, CHUNKS, None));
    }
    check_accepted("HTTP/1.1 200 OK\r\n\r\nok", (200, "ok", None));
}

#[test]
fn chunk_extensions_ignored() {
    for extension in [
        ";a",
        " ;a",
        "\t; a",
        ";a=b",
        "; a = b",
        ";a;b=c ; d",
        ";a=\"\"",
        ";a=\"x\\\"; y\u{FF}\t\" ;b",
        ";a=\"b\\\\\"",
    ] {
        check_accepted(&with_chunk_line(&format!("2{extension}")), (200, "ok", REUSABLE));
    }
    check_accepted(&with_chunk_line("0000000000000002"), (200, "ok", REUSABLE));
}

/// RFC 9112 §5.2: a user agent replaces each folding by blanks before it interprets the value.
#[test]
fn folded_fields_joined() {
    for head in [
        "A: b\r\n c\r\nContent-Length: 2",
        "A: b\r\n\tc\r\n  d\r\nContent-Length: 2",
        "Content-Length: 2\r\nA:\r\n b",
        "Content-Length: 2\r\nA: b\r\n ",
        "Content-Length:\r\n 2",
        "Content-Length: 2,\r\n\t2",
    ] {
        check_accepted(&with_fields(head), (200, "ok", REUSABLE));
    }
    let closing = with_fields("Connection: x,\r\n close\r\nContent-Length: 2");
    check_accepted(&closing, (200, "ok", Some(End::Final)));
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\tchunked\r\n\r\n2\r\nok\r\n0\r\nA: \
                   b\r\n c\r\n\r\n";
    check_accepted(chunked, (200, "ok", REUSABLE));
    let interim = "HTTP/1.1 103 Early\r\nLink: a,\r\n b\r\n\r\nHTTP/1.1 204 No\r\n\r\n";
    check_accepted(interim, (204, "", REUSABLE));
    check_refused(&with_fields("Content-Length: 1\r\n 2"), Http1Error::ContentLength);
}

#[test]
fn folded_value_has_blanks_for_line_breaks() {
    let bytes = with_fields("A: b\r\n\t c\r\n d\r\nContent-Length: 2");
    let mut reader = ResponseReader::new();
    let (used, event) = reader.next(bytes.as_bytes(), RequestKind::Other).unwrap();
    let ResponseEvent::Head(head) = event else { panic!("a whole head came") };
    assert_eq!((used, head.wire_bytes), (bytes.len() - 2, bytes.len() - 2));
    assert_eq!(head.fields().get("a"), Some(&b"b    c   d"[..]));
}

#[test]
fn bare_carriage_return_refused() {
    for head in [
        "HTTP/1.1 200 OK\rContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\rx",
        "HTTP/1.1 200\r OK\r\n\r\n",
        "\rHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA\r: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\rContent-Length: 0\r\n\r\n",
        // The error does not need a following LF.
        "HTTP/1.1 200 OK\rA: b\r\r",
    ] {
        check_refused(head, Http1Error::BareCarriageReturn);
    }
    check_refused(&with_chunk_line("2\r"), Http1Error::BareCarriageReturn);
    check_refused(&with_chunk_line("2;a\r"), Http1Error::BareCarriageReturn);
    check_refused(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\rC: d\r\n\r\n",
        Http1Error::BareCarriageReturn,
    );
}

#[test]
fn bare_carriage_return_after_limit_is_head_too_large() {
    for before in [65_533, 65_534, 65_535, 65_536, 65_537] {
        let head = format!("HTTP/1.1 200 OK\r\nA: {}\rx", "b".repeat(before - 20));
        let error = if before + 2 <= 65_536 {
            Http1Error::BareCarriageReturn
        } else {
            Http1Error::HeadTooLarge
        };
        check_refused(&head, error);
    }
}

/// A size is `1*HEXDIG` (RFC 9112 §7.1), so any number of zeros may come first.
#[test]
fn zeros_before_chunk_size_accepted() {
    for zeros in [1, 15, 16, 300, 4000] {
        check_accepted(&with_chunk_line(&("0".repeat(zeros) + "2")), (200, "ok", REUSABLE));
    }
    check_accepted(&with_chunk_line(&("0".repeat(40) + "2;a=b")), (200, "ok", REUSABLE));
}

#[test]
fn trailer_fields_accepted() {
    for trailer in
        ["", "T: x\r\n", "T: \0\r\n", "T:\r\nU: a:b\r\n", "T: x\r\n folded\r\n\tagain\r\n"]
    {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check_accepted(&format!("{head}2\r\nok\r\n0\r\n{trailer}\r\n"), (200, "ok", REUSABLE));
    }
}

#[test]
fn junk_after_chunk_size_refused() {
    for junk in [
        " erfrferferf",
        " ",
        "\t",
        " 2",
        ";",
        "; ",
        ";;a",
        ";a=",
        ";a= ",
        ";a b",
        ";a=b c",
        ";a=\"b\"c",
        ";a=\"b\u{1}\"",
        ";=b",
        ";\"a\"",
        ";a,b",
        ";a=\"b",
    ] {
        let bytes = with_chunk_line(&format!("2{junk}"));
        assert_eq!(
            read_both_ways(bytes.as_bytes(), RequestKind::Other),
            Err(Http1Error::ChunkExtension),
            "{junk:?}"
        );
    }
    for (line, error) in [
        ("2x", Http1Error::ChunkSize),
        (" 2", Http1Error::ChunkSize),
        ("0x2", Http1Error::ChunkSize),
    ] {
        check_refused(&with_chunk_line(line), error);
    }
}

#[test]
fn invalid_coding_list_refused() {
    for lines in [
        &[""][..],
        &[" "],
        &[" ,,"],
        &[" chunked;a=b"],
        &[" chunked gzip"],
        &[" ;a"],
        &[" \"chunked\""],
    ] {
        check_refused(&with_codings(lines), Http1Error::TransferCoding);
    }
    for lines in
        [&[" chunked, chunked"][..], &[" chunked", " chunked"], &[" chunked, gzip, Chunked"]]
    {
        check_refused(&with_codings(lines), Http1Error::ChunkedTwice);
    }
}

#[test]
fn optional_leniency_refused() {
    for (bytes, error) in [
        ("HTTP/1.1 200 OK\nA: b\n\n", Http1Error::BareLineFeed),
        ("HTTP/1.1 200 OK\r\nA: b\n\r\n", Http1Error::BareLineFeed),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", Http1Error::StatusLine),
        ("HTTP/1.1 200 OK\r\n A: b\r\n\r\n", Http1Error::FoldedField),
        ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", Http1Error::FieldName),
        ("HTTP/1.1  200 OK\r\n\r\n", Http1Error::StatusLine),
        ("HTTP/1.1\t200 OK\r\n\r\n", Http1Error::StatusLine),
        ("HTTP/1.2 200 OK\r\n\r\n", Http1Error::Version),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
            Http1Error::LengthAndTransferEncoding,
        ),
    ] {
        check_refused(bytes, error);
    }
}

/// The server half follows the same rules.
#[test]
fn invalid_requests_refused() {
    for (bytes, error) in [
        ("GET / HTTP/1.1\rHost: x\r\n\r\n", Http1Error::BareCarriageReturn),
        ("\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", Http1Error::RequestLine),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", Http1Error::FoldedField),
        (
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
            Http1Error::RequestNotChunked,
        ),
        (
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
            Http1Error::ChunkedTwice,
        ),
    ] {
        let mut reader = request::RequestReader::new();
        assert_eq!(reader.next(bytes.as_bytes()).err(), Some(error), "{bytes:?}");
    }
}
