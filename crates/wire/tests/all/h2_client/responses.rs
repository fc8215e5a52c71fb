//! Responses: their fields and the lengths of their bodies.

use super::*;

#[test]
fn responses() {
    run([
        case("§8.1 a head without a body", [head(1, 200, END_STREAM)], [Head(1, 200), End(1)]),
        case(
            "§8.1 a head and a body",
            [head(1, 200, 0), data(1, "Hello, ", 0), data(1, "World!", END_STREAM)],
            [Head(1, 200), body(1, "Hello, World!"), End(1)],
        ),
        case(
            "§8.1 an empty DATA ends the stream",
            [head(1, 200, 0), data(1, "a", 0), data(1, "", 0), data(1, "", END_STREAM)],
            [Head(1, 200), body(1, "a"), End(1)],
        ),
        case(
            "§8.1 trailers",
            [head(1, 200, 0), data(1, "a", 0), fields(1, &[("grpc-status", "0")], END_STREAM)],
            [Head(1, 200), body(1, "a"), Trailers(1)],
        ),
        case(
            "§8.1 trailers without a body",
            [head(1, 200, 0), fields(1, &[("a", "b")], END_STREAM)],
            [Head(1, 200), Trailers(1)],
        ),
        case(
            "§8.1 empty trailers",
            [head(1, 200, 0), fields(1, &[], END_STREAM)],
            [Head(1, 200), Trailers(1)],
        ),
        case(
            "§8.1 streams are interleaved",
            [
                head(3, 200, 0),
                head(1, 201, 0),
                data(3, "3", 0),
                data(1, "1", 0),
                data(3, "3", 0),
                data(1, "", END_STREAM),
                fields(3, &[], END_STREAM),
            ],
            [
                Head(3, 200),
                Head(1, 201),
                body(3, "3"),
                body(1, "1"),
                body(3, "3"),
                End(1),
                Trailers(3),
            ],
        )
        .with_requests(2),
    ]);
}

#[test]
fn interim_responses() {
    run([
        case(
            "§8.1 interim responses",
            [head(1, 100, 0), head_with(1, 103, &[("link", "a")], 0), head(1, 200, END_STREAM)],
            [Interim(1, 100), Interim(1, 103), Head(1, 200), End(1)],
        ),
        malformed(
            "§8.1 an interim response ends its stream",
            [head(1, 103, END_STREAM)],
            M::Informational,
        ),
        malformed("§8.6 101", [head(1, 101, 0)], M::Informational),
        case(
            "§8.1 an interim response after the final one",
            [head(1, 200, 0), head(1, 100, 0)],
            [Head(1, 200), Malformed(1, M::Trailers, PROTOCOL)],
        ),
        case(
            "§8.1 as many interim responses as are allowed",
            interim(32, END_STREAM),
            [vec![Interim(1, 102); 32], vec![Head(1, 200), End(1)]].concat(),
        ),
        case(
            "§8.1 too many interim responses",
            interim(33, END_STREAM).into_iter().take(33).collect::<Vec<_>>(),
            [vec![Interim(1, 102); 32], vec![Malformed(1, M::TooManyInformational, PROTOCOL)]]
                .concat(),
        ),
    ]);
}

#[test]
fn response_out_of_order_is_malformed() {
    run([
        malformed("§8.1 DATA before the head", [data(1, "x", 0)], M::DataBeforeHead),
        malformed(
            "§8.1 DATA ends a stream without a head",
            [data(1, "", END_STREAM)],
            M::DataBeforeHead,
        ),
        case(
            "§8.1 DATA after an interim response",
            [head(1, 103, 0), data(1, "x", 0)],
            [Interim(1, 103), Malformed(1, M::DataBeforeHead, PROTOCOL)],
        ),
        case(
            "§8.1 trailers that do not end the stream",
            [head(1, 200, 0), fields(1, &[("a", "b")], 0)],
            [Head(1, 200), Malformed(1, M::Trailers, PROTOCOL)],
        ),
        case(
            "§8.1 trailers with a pseudo-header field",
            [head(1, 200, 0), head(1, 200, END_STREAM)],
            [Head(1, 200), Malformed(1, M::Trailers, PROTOCOL)],
        ),
        case(
            "§8.2.1 trailers with a wrong field",
            [head(1, 200, 0), fields(1, &[("A", "b")], END_STREAM)],
            [Head(1, 200), Malformed(1, M::FieldName, PROTOCOL)],
        ),
        // The stream is closed on both sides.
        case(
            "§5.1 no RST_STREAM after a finished response",
            [head(1, 200, 0), data(1, "x", END_STREAM), get()],
            [Head(1, 200), body(1, "x"), End(1), sent_get(3)],
        ),
    ]);
}

fn interim(times: usize, flags: u8) -> Vec<Step> {
    (0..times).map(|_| head(1, 102, 0)).chain([head(1, 200, flags)]).collect()
}

/// A malformed response with these fields.
fn wrong(name: &'static str, list: &[(&str, &str)], violation: M) -> Case {
    malformed(name, [fields(1, list, END_STREAM)], violation)
}

#[test]
fn invalid_response_field_is_malformed() {
    run([
        wrong("§8.3.2 no status", &[("a", "b")], M::Status),
        wrong("§8.3.2 two statuses", &[(":status", "200"), (":status", "200")], M::Status),
        wrong("RFC 9110 §15 a status has three digits", &[(":status", "20")], M::Status),
        wrong("RFC 9110 §15 a status is a number", &[(":status", "abc")], M::Status),
        wrong(
            "§8.3 a pseudo-header field of requests",
            &[(":status", "200"), (":path", "/")],
            M::PseudoField,
        ),
        wrong(
            "§8.3 an unknown pseudo-header field",
            &[(":status", "200"), (":x", "y")],
            M::PseudoField,
        ),
        wrong("§8.3 the status comes late", &[("a", "b"), (":status", "200")], M::PseudoField),
        wrong("§8.2.1 an upper-case name", &[(":status", "200"), ("Server", "x")], M::FieldName),
        wrong("§8.2.1 a name with a space", &[(":status", "200"), ("a b", "x")], M::FieldName),
        wrong("§8.2.1 a name with a colon", &[(":status", "200"), ("a:", "x")], M::FieldName),
        wrong("§8.2.1 a non-ASCII name", &[(":status", "200"), ("é", "x")], M::FieldName),
        wrong("§8.2.1 an empty name", &[(":status", "200"), ("", "x")], M::FieldName),
        wrong(
            "§8.2.1 a value with a line feed",
            &[(":status", "200"), ("a", "b\nc")],
            M::FieldValue,
        ),
        wrong("§8.2.1 a value with NUL", &[(":status", "200"), ("a", "\0")], M::FieldValue),
        wrong(
            "§8.2.1 a value that begins with a space",
            &[(":status", "200"), ("a", " b")],
            M::FieldValue,
        ),
        wrong(
            "§8.2.1 a value that ends with a tab",
            &[(":status", "200"), ("a", "b\t")],
            M::FieldValue,
        ),
    ]);
}

#[test]
fn connection_or_length_field_is_malformed() {
    run([
        wrong(
            "§8.2.2 connection",
            &[(":status", "200"), ("connection", "close")],
            M::ConnectionField,
        ),
        wrong(
            "§8.2.2 transfer-encoding",
            &[(":status", "200"), ("transfer-encoding", "chunked")],
            M::ConnectionField,
        ),
        wrong("§8.2.2 keep-alive", &[(":status", "200"), ("keep-alive", "1")], M::ConnectionField),
        wrong("§8.2.2 upgrade", &[(":status", "200"), ("upgrade", "h2c")], M::ConnectionField),
        wrong(
            "§8.2.2 proxy-connection",
            &[(":status", "200"), ("proxy-connection", "x")],
            M::ConnectionField,
        ),
        wrong(
            "RFC 9110 §8.6 not a number",
            &[(":status", "200"), ("content-length", "x")],
            M::ContentLength,
        ),
        wrong(
            "RFC 9110 §8.6 an empty length",
            &[(":status", "200"), ("content-length", "")],
            M::ContentLength,
        ),
        wrong(
            "RFC 9110 §8.6 more than 64 bits",
            &[(":status", "200"), ("content-length", "18446744073709551616")],
            M::ContentLength,
        ),
        wrong(
            "RFC 9110 §8.6 two lengths",
            &[(":status", "200"), ("content-length", "0"), ("content-length", "1")],
            M::ContentLength,
        ),
        case(
            "§8.2.1 characters that are allowed in a value",
            [head_with(1, 200, &[("a", "\u{e9}\x7f b\tc"), ("b", "")], END_STREAM)],
            [Head(1, 200), End(1)],
        ),
        case(
            "RFC 9110 §15 any class of status",
            [head(1, 999, END_STREAM)],
            [Head(1, 999), End(1)],
        ),
    ]);
}

#[test]
fn wanted_fields_are_stored() {
    let mut talk = Talk::new(LARGE);
    talk.step(&settings(&[]), 5);
    for wants_fields in [true, false, true] {
        talk.send_request(Request { wants_fields, ..Request::get() });
    }
    let list = [(":status", "200"), ("server", "x"), ("a", ""), ("a", "b")];
    talk.step(&fields(1, &list, END_STREAM), 5);
    assert_eq!(talk.head, crate::talk::fields(&list));
    // The same block is recognised for the second stream, and decoded for the third.
    talk.step(&fields(3, &list, END_STREAM), 5);
    talk.head.clear();
    talk.step(&fields(5, &list, END_STREAM), 5);
    assert_eq!(talk.head, crate::talk::fields(&list));
}

#[test]
fn body_length_mismatch_is_malformed() {
    let head_with_length = |n| head_with(1, 200, &[("content-length", n)], 0);
    let wrong = |name, steps: &[Step]| {
        case(
            name,
            [&[head_with_length("3")], steps].concat(),
            [Head(1, 200), Malformed(1, M::BodyLength, PROTOCOL)],
        )
    };
    run([
        case(
            "§8.1.1 as long as declared",
            [head_with_length("3"), data(1, "a", 0), data(1, padded("bc", 3), PADDED | END_STREAM)],
            [Head(1, 200), body(1, "abc"), End(1)],
        ),
        case(
            "§8.1.1 as long as declared, and trailers",
            [head_with_length("3"), data(1, "abc", 0), fields(1, &[], END_STREAM)],
            [Head(1, 200), body(1, "abc"), Trailers(1)],
        ),
        case(
            "§8.1.1 an empty body",
            [head_with_length("0"), data(1, "", END_STREAM)],
            [Head(1, 200), End(1)],
        ),
        malformed(
            "§8.1.1 a head that should have a body",
            [head_with(1, 200, &[("content-length", "3")], END_STREAM)],
            M::BodyLength,
        ),
        wrong("§8.1.1 a body that is too long", &[data(1, "abcd", 0)]),
        wrong("§8.1.1 a body that is too long at its end", &[data(1, "abcd", END_STREAM)]),
        wrong("§8.1.1 a body that is too short", &[data(1, "ab", END_STREAM)]),
        wrong(
            "§8.1.1 a padded body that is too short",
            &[data(1, padded("ab", 200), PADDED | END_STREAM)],
        ),
        wrong("§8.1.1 an empty body that is too short", &[data(1, "", END_STREAM)]),
        wrong("§8.1.1 trailers too early", &[fields(1, &[], END_STREAM)]),
        case(
            "§8.1.1 a body that becomes too long",
            [head_with_length("3"), data(1, "abc", 0), data(1, "d", 0)],
            [Head(1, 200), body(1, "abc"), Malformed(1, M::BodyLength, PROTOCOL)],
        ),
        case(
            "§8.1.1 the rest of a frame that is too long is skipped",
            [head_with_length("3"), data(1, "abcdef", 0), head(3, 204, END_STREAM)],
            [Head(1, 200), Malformed(1, M::BodyLength, PROTOCOL), Head(3, 204), End(3)],
        )
        .with_requests(2),
    ]);
}

#[test]
fn bodiless_response_with_data_is_malformed() {
    let head_case = |name, steps: &[Step], events: &[Observed]| {
        case(name, [&[head_request()], steps].concat(), [&[sent_get(1)], events].concat())
            .with_requests(0)
    };
    run([
        head_case(
            "RFC 9110 §9.3.2 HEAD has no body, for any length",
            &[head_with(1, 200, &[("content-length", "3")], END_STREAM)],
            &[Head(1, 200), End(1)],
        ),
        head_case(
            "RFC 9110 §9.3.2 HEAD, ended by an empty DATA",
            &[head_with(1, 200, &[("content-length", "3")], 0), data(1, "", END_STREAM)],
            &[Head(1, 200), End(1)],
        ),
        head_case(
            "RFC 9110 §9.3.2 HEAD, ended by trailers",
            &[head_with(1, 200, &[("content-length", "3")], 0), fields(1, &[], END_STREAM)],
            &[Head(1, 200), Trailers(1)],
        ),
        head_case(
            "RFC 9110 §9.3.2 HEAD with a body",
            &[head(1, 200, 0), data(1, "x", END_STREAM)],
            &[Head(1, 200), Malformed(1, M::BodyLength, PROTOCOL)],
        ),
        case(
            "RFC 9110 §15.4.5 304 has a length and no body",
            [head_with(1, 304, &[("content-length", "3")], END_STREAM)],
            [Head(1, 304), End(1)],
        ),
        case(
            "RFC 9110 §15.4.5 304 with a body",
            [head(1, 304, 0), data(1, "x", END_STREAM)],
            [Head(1, 304), Malformed(1, M::BodyLength, PROTOCOL)],
        ),
        case(
            "RFC 9110 §15.3.5 204",
            [head(1, 204, 0), data(1, "", END_STREAM)],
            [Head(1, 204), End(1)],
        ),
        case(
            "RFC 9110 §15.3.5 204 with a body",
            [head(1, 204, 0), data(1, "x", 0)],
            [Head(1, 204), Malformed(1, M::BodyLength, PROTOCOL)],
        ),
    ]);
}
