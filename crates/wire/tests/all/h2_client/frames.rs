//! Frames: their lengths, their padding, and ours.

use super::*;

#[test]
fn frame_too_long_refused_unknown_ignored() {
    run([
        breaks(
            "§4.2 a frame is too long",
            [only_header(Kind::Headers, 1, 16_385)],
            E::FrameTooLong,
            SIZE,
        ),
        breaks(
            "§4.2 DATA is too long",
            [only_header(Kind::Data, 1, 16_385)],
            E::FrameTooLong,
            SIZE,
        ),
        breaks(
            "§4.2 an unknown frame is too long",
            [only_header(Kind::Unknown, 0, 16_385)],
            E::FrameTooLong,
            SIZE,
        ),
        breaks(
            "§4.2 SETTINGS are too long",
            [only_header(Kind::Settings, 0, 16_386)],
            E::FrameTooLong,
            SIZE,
        )
        .bare(),
        case(
            "§4.2 a frame is as long as it may be",
            [head(1, 200, 0), data(1, [b'x'; 16_384], 0), data(1, "", END_STREAM)],
            [Head(1, 200), body(1, [b'x'; 16_384]), End(1)],
        ),
        case(
            "§4.1 unknown frames are ignored, wherever they are",
            [
                raw(raw_frame(10, 0xFF, 0, b"altsvc")),
                raw(raw_frame(200, 0, 1, b"")),
                raw(raw_frame(255, 0, 98, &[1; 16_384])),
                head(1, 204, END_STREAM),
            ],
            [Head(1, 204), End(1)],
        ),
        case(
            "§4.1 the reserved bit is ignored",
            [head(1 | 1 << 31, 204, END_STREAM)],
            [Head(1, 204), End(1)],
        ),
        case(
            "§4.1 flags without a meaning are ignored",
            [
                headers(1, &block(&[(":status", "200")]), END_HEADERS | 0xD2),
                data(1, "x", 0xF6),
                data(1, "y", END_STREAM | 0xF6),
                ping(&[1; 8], 0xFE),
            ],
            [Head(1, 200), body(1, "xy"), End(1), Observed::Sent(Sent::Pong([1; 8]))],
        ),
    ]);
}

#[test]
fn invalid_ping_or_priority_refused() {
    run([
        case(
            "§6.7 PING is acknowledged with the same payload",
            [ping(b"12345678", 0)],
            [Observed::Sent(Sent::Pong(*b"12345678"))],
        ),
        case("§6.7 an acknowledgement is not acknowledged", [ping(b"12345678", ACK)], []),
        breaks("§6.7 a short PING", [ping(&[0; 7], 0)], E::FrameLength, SIZE),
        breaks("§6.7 a long PING", [ping(&[0; 9], 0)], E::FrameLength, SIZE),
        breaks("§6.7 a short acknowledgement", [ping(&[], ACK)], E::FrameLength, SIZE),
        breaks(
            "§6.7 PING on a stream",
            [frame(Kind::Ping, 0, 1, &[0; 8])],
            E::WrongStream,
            PROTOCOL,
        ),
        case(
            "§6.3 PRIORITY is ignored, on any stream",
            [
                frame(Kind::Priority, 0, 1, &[0; 5]),
                frame(Kind::Priority, 0, 99, &[0; 5]),
                frame(Kind::Priority, 0, 2, &[0; 5]),
            ],
            [],
        ),
        // A stream error may be treated as one of the connection (§5.4.2).
        breaks(
            "§6.3 PRIORITY has five bytes",
            [frame(Kind::Priority, 0, 1, &[0; 4])],
            E::FrameLength,
            SIZE,
        ),
        breaks(
            "§6.3 PRIORITY on stream 0",
            [frame(Kind::Priority, 0, 0, &[0; 5])],
            E::WrongStream,
            PROTOCOL,
        ),
    ]);
}

#[test]
fn frame_of_wrong_length_or_stream_refused() {
    run([
        breaks("§6.1 DATA on stream 0", [data(0, "x", 0)], E::WrongStream, PROTOCOL),
        breaks("§6.2 HEADERS on stream 0", [head(0, 200, 0)], E::WrongStream, PROTOCOL),
        breaks("§6.4 RST_STREAM on stream 0", [reset(0, 0)], E::WrongStream, PROTOCOL),
        breaks(
            "§6.4 a short RST_STREAM",
            [frame(Kind::RstStream, 0, 1, &[0; 3])],
            E::FrameLength,
            SIZE,
        ),
        breaks(
            "§6.4 a long RST_STREAM",
            [frame(Kind::RstStream, 0, 1, &[0; 5])],
            E::FrameLength,
            SIZE,
        ),
        breaks(
            "§6.8 GOAWAY on a stream",
            [frame(Kind::GoAway, 0, 1, &[0; 8])],
            E::WrongStream,
            PROTOCOL,
        ),
        breaks("§6.8 a short GOAWAY", [frame(Kind::GoAway, 0, 0, &[0; 7])], E::FrameLength, SIZE),
        breaks(
            "§6.9 a short WINDOW_UPDATE",
            [frame(Kind::WindowUpdate, 0, 1, &[0; 3])],
            E::FrameLength,
            SIZE,
        ),
        breaks(
            "§6.9 a long WINDOW_UPDATE",
            [frame(Kind::WindowUpdate, 0, 0, &[0; 5])],
            E::FrameLength,
            SIZE,
        ),
        breaks(
            "§8.4 PUSH_PROMISE",
            [frame(Kind::PushPromise, END_HEADERS, 1, &[0, 0, 0, 2])],
            E::Push,
            PROTOCOL,
        ),
        breaks(
            "§6.6 PUSH_PROMISE on stream 0",
            [frame(Kind::PushPromise, END_HEADERS, 0, &[0, 0, 0, 2])],
            E::WrongStream,
            PROTOCOL,
        ),
        breaks(
            "§8.4 PUSH_PROMISE on an idle stream",
            [frame(Kind::PushPromise, END_HEADERS, 7, &[0, 0, 0, 2])],
            E::Push,
            PROTOCOL,
        ),
    ]);
}

#[test]
fn padding_is_not_content() {
    let ok = block(&[(":status", "200")]);
    let priority = [&[0x80, 0, 0, 0, 16][..], &ok].concat();
    run([
        case(
            "§6.1 padding is not content",
            [
                head(1, 200, 0),
                data(1, padded("abc", 5), PADDED),
                data(1, padded("", 255), PADDED),
                data(1, padded("d", 0), PADDED | END_STREAM),
            ],
            [Head(1, 200), body(1, "abcd"), End(1)],
        ),
        case(
            "§6.1 padding ends the stream",
            [head(1, 200, 0), data(1, padded("", 9), PADDED | END_STREAM)],
            [Head(1, 200), End(1)],
        ),
        case(
            "§6.2 padded HEADERS",
            [headers(1, &padded(&ok, 7), PADDED | END_HEADERS | END_STREAM)],
            [Head(1, 200), End(1)],
        ),
        case(
            "§6.2 HEADERS with a priority",
            [headers(1, &priority, PRIORITY | END_HEADERS | END_STREAM)],
            [Head(1, 200), End(1)],
        ),
        case(
            "§6.2 HEADERS with padding and a priority",
            [headers(1, &padded(&priority, 3), PADDED | PRIORITY | END_HEADERS | END_STREAM)],
            [Head(1, 200), End(1)],
        ),
        case(
            "§6.10 a padded beginning, continued",
            [headers(1, &padded([], 30), PADDED | END_STREAM), continuation(1, &ok, END_HEADERS)],
            [Head(1, 200), End(1)],
        ),
    ]);
}

#[test]
fn padding_too_long_refused() {
    run([
        case(
            "§6.1 padding without a byte of payload",
            [head(1, 200, 0), data(1, [1], PADDED)],
            [Head(1, 200), Error(E::Padding, PROTOCOL)],
        ),
        case(
            "§6.1 padding fills the payload",
            [head(1, 200, 0), data(1, [3, 0, 0, 0], PADDED | END_STREAM)],
            [Head(1, 200), End(1)],
        ),
        case(
            "§6.1 padding longer than the rest",
            [head(1, 200, 0), data(1, [4, b'a', 0, 0], PADDED)],
            [Head(1, 200), Error(E::Padding, PROTOCOL)],
        ),
        case(
            "§4.2 DATA too short for its padding's length",
            [head(1, 200, 0), data(1, [], PADDED)],
            [Head(1, 200), Error(E::FrameLength, SIZE)],
        ),
        breaks(
            "§6.2 padding longer than a block",
            [headers(1, &[2, 0x88], PADDED | END_HEADERS)],
            E::Padding,
            PROTOCOL,
        ),
        breaks(
            "§4.2 HEADERS too short for its padding's length",
            [headers(1, &[], PADDED | END_HEADERS)],
            E::FrameLength,
            SIZE,
        ),
        breaks(
            "§4.2 HEADERS too short for its priority",
            [headers(1, &[0; 4], PRIORITY | END_HEADERS)],
            E::FrameLength,
            SIZE,
        ),
        breaks(
            "§4.2 HEADERS too short for padding and priority",
            [headers(1, &[0; 5], PADDED | PRIORITY | END_HEADERS)],
            E::FrameLength,
            SIZE,
        ),
        breaks(
            "§6.2 padding reaches into the priority",
            [headers(1, &[3, 0, 0, 0, 0, 0, 0, 0], PADDED | PRIORITY | END_HEADERS)],
            E::Padding,
            PROTOCOL,
        ),
    ]);
}

#[test]
fn client_frames_respect_size_and_stream_order() {
    let long = |field| Step::Send(Request { field, ..Request::get() });
    run([
        case(
            "§6.10 a long head is continued",
            [long(40_000)],
            [Observed::Sent(Sent::Headers(1, 3, true))],
        )
        .with_requests(0),
        case(
            "§6.10 a long head before a body",
            [Step::Send(Request { field: 20_000, ..Request::post(3) })],
            [Observed::Sent(Sent::Headers(1, 2, false)), sent_end(1, 3)],
        )
        .with_requests(0),
        case(
            "§4.2 longer frames are allowed",
            [
                settings(&[(MAX_FRAME_SIZE, 50_000), (INITIAL_WINDOW_SIZE, 100_000)]),
                window(0, 100_000),
                long(40_000),
                post(60_000),
                settings(&[(MAX_FRAME_SIZE, 16_384)]),
                long(40_000),
                post(17_000),
            ],
            [
                sent_ack(),
                Settings,
                Window,
                sent_get(1),
                sent_post(3),
                sent_data(3, 50_000),
                sent_end(3, 10_000),
                sent_ack(),
                Settings,
                Observed::Sent(Sent::Headers(5, 3, true)),
                sent_post(7),
                sent_data(7, 16_384),
                sent_end(7, 616),
            ],
        )
        .with_requests(0),
        case(
            "§5.1.1 streams are odd and rise",
            [get(), head(1, 204, END_STREAM), get(), Step::Cancel(3), get()],
            [
                sent_get(1),
                Head(1, 204),
                End(1),
                sent_get(3),
                Observed::Sent(Sent::Reset(3, ErrorCode::Cancel)),
                sent_get(5),
            ],
        )
        .with_requests(0),
    ]);
}
