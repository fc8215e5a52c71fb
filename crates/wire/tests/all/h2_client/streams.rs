//! States of streams: idle, ended, reset, cancelled.

use super::*;

#[test]
fn frame_on_idle_stream_refused() {
    let idle = |name, step: Step| breaks(name, [step], E::IdleStream, PROTOCOL);
    run([
        idle("§5.1 HEADERS on an idle stream", head(3, 200, END_STREAM)),
        idle("§5.1 DATA on an idle stream", data(3, "x", 0)),
        idle("§6.4 RST_STREAM on an idle stream", reset(3, 8)),
        idle("§6.9 WINDOW_UPDATE on an idle stream", window(3, 1)),
        idle("§5.1.1 HEADERS on an even stream", head(2, 200, END_STREAM)),
        idle("§5.1.1 DATA on an even stream", data(2, "x", 0)),
        idle("§5.1.1 RST_STREAM on an even stream", reset(2, 8)),
        idle("§5.1.1 WINDOW_UPDATE on an even stream", window(2, 1)),
        idle("§5.1 DATA on the highest stream", data(STREAM, "", 0)),
    ]);
}

#[test]
fn frame_on_ended_stream_refused() {
    let ended = |name, more: Step| {
        case(
            name,
            [head(1, 200, END_STREAM), more],
            [Head(1, 200), End(1), Error(E::StreamClosed, ErrorCode::StreamClosed)],
        )
    };
    let quiet =
        |name, more: Step| case(name, [head(1, 200, END_STREAM), more], [Head(1, 200), End(1)]);
    let refused = |name, more: Step| {
        case(
            name,
            [reset(1, 7), more],
            [Reset(1, ErrorCode::RefusedStream), Error(E::StreamClosed, ErrorCode::StreamClosed)],
        )
    };
    run([
        ended("§5.1 HEADERS after the end", head(1, 200, 0)),
        ended("§5.1 DATA after the end", data(1, "x", 0)),
        ended("§5.1 an empty DATA after the end", data(1, "", END_STREAM)),
        quiet("§5.1 RST_STREAM after the end", reset(1, 0)),
        quiet("§5.1 WINDOW_UPDATE after the end", window(1, 1)),
        quiet("§5.1 PRIORITY after the end", frame(Kind::Priority, 0, 1, &[0; 5])),
        case("§6.4 reset before the head", [reset(1, 8)], [Reset(1, ErrorCode::Cancel)]),
        case(
            "§6.4 reset between head and body",
            [head(1, 200, 0), reset(1, 2)],
            [Head(1, 200), Reset(1, ErrorCode::InternalError)],
        ),
        case(
            "§6.4 reset within the body",
            [head(1, 200, 0), data(1, "x", 0), reset(1, 0)],
            [Head(1, 200), body(1, "x"), Reset(1, ErrorCode::NoError)],
        ),
        case("§7 an unknown code", [reset(1, 0xFFFF_FFFF)], [Reset(1, ErrorCode::Unknown)]),
        case("§6.4 reset twice", [reset(1, 7), reset(1, 7)], [Reset(1, ErrorCode::RefusedStream)]),
        refused("§5.1 HEADERS after RST_STREAM", head(1, 200, 0)),
        refused("§5.1 DATA after RST_STREAM", data(1, "x", 0)),
        case(
            "§6.4 a reset stream does not affect the others",
            [reset(1, 7), head(3, 204, END_STREAM), Step::Room],
            [Reset(1, ErrorCode::RefusedStream), Head(3, 204), End(3), Room(usize::MAX)],
        )
        .with_requests(2),
        case(
            "§6.4 nothing is sent on a stream that was reset",
            [post(100_000), reset(1, 7), window(0, 100_000), window(1, 100_000)],
            [
                sent_post(1),
                sent_data(1, 16_384),
                sent_data(1, 16_384),
                sent_data(1, 16_384),
                sent_data(1, 16_383),
                Reset(1, ErrorCode::RefusedStream),
                Window,
            ],
        )
        .with_requests(0),
    ]);
}

/// Late frames on streams that we have reset are ignored (§5.1).
#[test]
fn late_frames_on_reset_stream_ignored() {
    let cancelled = || Observed::Sent(Sent::Reset(1, ErrorCode::Cancel));
    let late = |name, steps: &[Step]| {
        case(
            name,
            [&[Step::Cancel(1)], steps, &[head(3, 204, END_STREAM)]].concat(),
            [cancelled(), Head(3, 204), End(3)],
        )
        .with_requests(2)
    };
    let closed = |name, steps: &[Step]| {
        case(
            name,
            [&[Step::Cancel(1)], steps].concat(),
            [cancelled(), Error(E::StreamClosed, ErrorCode::StreamClosed)],
        )
    };
    run([
        late("§5.1 a late response", &[head(1, 200, 0), data(1, "x", 0), data(1, "y", END_STREAM)]),
        late(
            "§5.1 a late response with trailers",
            &[head(1, 200, 0), data(1, "x", 0), fields(1, &[("a", "b")], END_STREAM)],
        ),
        late("§5.1 late DATA, padded", &[data(1, padded("x", 9), PADDED)]),
        late("§5.1 a late interim response", &[head(1, 103, 0), head(1, 200, END_STREAM)]),
        late("§5.1 a late response that is malformed", &[fields(1, &[("A", "b")], 0)]),
        late(
            "§5.1 a late block in pieces",
            &[headers(1, &[], 0), continuation(1, &[0x88], END_HEADERS)],
        ),
        late("§5.1 a late reset", &[reset(1, 0)]),
        late(
            "§5.1 late WINDOW_UPDATEs, valid and invalid",
            &[window(1, 5), window(1, 0), window(1, STREAM)],
        ),
        closed("§5.1 frames after the late end", &[head(1, 200, END_STREAM), data(1, "x", 0)]),
        closed("§5.1 frames after the late reset", &[reset(1, 0), head(1, 200, END_STREAM)]),
    ]);
}

#[test]
fn violation_on_reset_stream_still_checked() {
    let cancelled = || Observed::Sent(Sent::Reset(1, ErrorCode::Cancel));
    run([
        case(
            "§4.3 a late block that cannot be decoded",
            [Step::Cancel(1), headers(1, &[0x80], END_HEADERS)],
            [
                cancelled(),
                Error(E::Hpack(hpack::HpackError::IndexZero), ErrorCode::CompressionError),
            ],
        ),
        case(
            "§6.1 late DATA with too much padding",
            [Step::Cancel(1), data(1, [1], PADDED)],
            [cancelled(), Error(E::Padding, PROTOCOL)],
        ),
        case(
            "§5.4.2 the rest of a malformed response is ignored",
            [
                fields(1, &[("a", "b")], 0),
                data(1, "x", 0),
                data(1, "y", END_STREAM),
                head(3, 204, END_STREAM),
            ],
            [Malformed(1, M::Status, PROTOCOL), Head(3, 204), End(3)],
        )
        .with_requests(2),
        case(
            "§5.4.2 a malformed end, and a reset by the server",
            [fields(1, &[("a", "b")], END_STREAM), reset(1, 1)],
            [Malformed(1, M::Status, PROTOCOL)],
        ),
        case(
            "§8.1 a response before the request is whole",
            [
                post(100_000),
                head(1, 413, END_STREAM),
                reset(1, 0),
                window(0, 100_000),
                window(1, 100_000),
            ],
            [
                sent_post(1),
                sent_data(1, 16_384),
                sent_data(1, 16_384),
                sent_data(1, 16_384),
                sent_data(1, 16_383),
                Head(1, 413),
                End(1),
                Observed::Sent(Sent::Reset(1, ErrorCode::NoError)),
                Window,
            ],
        )
        .with_requests(0),
    ]);
}

/// The list of reset streams drops the oldest, to limit memory. The protocol does not require it.
#[test]
fn remembered_resets_above_limit_drop_oldest() {
    let mut talk = Talk::new(LARGE);
    talk.step(&settings(&[]), usize::MAX);
    for _ in 0..=limits::REMEMBERED_RESETS {
        let id = talk.send_request(Request::get());
        talk.cancel(id);
    }
    talk.events.clear();
    talk.step(&data(3, "late", 0), usize::MAX);
    assert_eq!(talk.events, []);
    talk.step(&data(1, "too late", 0), usize::MAX);
    assert_eq!(talk.events, [Error(E::StreamClosed, ErrorCode::StreamClosed)]);
}

/// A stream is cancelled while a DATA frame of it arrives.
#[test]
fn stream_cancelled_within_data_frame() {
    let mut talk = Talk::new(LARGE);
    talk.step(&settings(&[]), usize::MAX);
    talk.send_request(Request::get());
    talk.send_request(Request::get());
    talk.step(&head(1, 200, 0), usize::MAX);
    talk.events.clear();
    let frame = raw_frame(0, END_STREAM | PADDED, 1, &padded("abcdef", 4));
    talk.receive(&frame[..12]);
    talk.cancel(1);
    talk.receive(&frame[12..]);
    talk.step(&head(3, 204, END_STREAM), usize::MAX);
    assert_eq!(
        talk.events,
        [body(1, "ab"), Observed::Sent(Sent::Reset(1, ErrorCode::Cancel)), Head(3, 204), End(3)]
    );
}
