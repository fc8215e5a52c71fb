//! GOAWAY, and the counts of a connection.

use super::*;

#[test]
fn go_away_returns_unprocessed_streams() {
    use ErrorCode::NoError;
    run([
        case(
            "§6.8 streams above the last are not dealt with",
            [go_away(3, 0), Step::Room, head(3, 204, END_STREAM), head(1, 204, END_STREAM)],
            [GoAway(NoError, vec![5, 7]), Room(0), Head(3, 204), End(3), Head(1, 204), End(1)],
        )
        .with_requests(4),
        case(
            "§6.8 a warning, and then the last stream",
            [go_away(STREAM, 0), Step::Room, go_away(1, 0), head(1, 204, END_STREAM)],
            [GoAway(NoError, vec![]), Room(0), GoAway(NoError, vec![3]), Head(1, 204), End(1)],
        )
        .with_requests(2),
        case(
            "§6.8 the last stream falls to nothing",
            [go_away(3, 0), go_away(0, 11)],
            [GoAway(NoError, vec![5]), GoAway(ErrorCode::EnhanceYourCalm, vec![1, 3])],
        )
        .with_requests(3),
        case(
            "§6.8 the last stream cannot rise",
            [go_away(1, 0), go_away(5, 0), head(1, 204, END_STREAM)],
            [GoAway(NoError, vec![3]), GoAway(NoError, vec![]), Head(1, 204), End(1)],
        )
        .with_requests(2),
        case(
            "§6.8 debug data, and the reserved bit",
            [frame(Kind::GoAway, 0, 0, &[&[0x80, 0, 0, 1, 0, 0, 0, 2][..], b"debug"].concat())],
            [GoAway(ErrorCode::InternalError, vec![])],
        ),
        case("§7 an unknown code", [go_away(1, 77)], [GoAway(ErrorCode::Unknown, vec![])]),
    ]);
}

#[test]
fn go_away_keeps_processed_streams_open() {
    use ErrorCode::NoError;
    run([
        case(
            "§6.8 bodies of the streams that stay go on",
            [post(65_535), post(5), post(5), go_away(3, 0), window(0, 9)],
            [
                sent_post(1),
                sent_data(1, 16_384),
                sent_data(1, 16_384),
                sent_data(1, 16_384),
                sent_end(1, 16_383),
                sent_post(3),
                sent_post(5),
                GoAway(NoError, vec![5]),
                Window,
                sent_end(3, 5),
                Whole(3),
            ],
        )
        .with_requests(0),
        case(
            "§6.8 resets and settings still count",
            [
                go_away(1, 0),
                reset(3, 7),
                reset(1, 7),
                settings(&[(MAX_CONCURRENT_STREAMS, 9)]),
                Step::Room,
                ping(&[0; 8], 0),
            ],
            [
                GoAway(NoError, vec![3]),
                Reset(1, ErrorCode::RefusedStream),
                sent_ack(),
                Settings,
                Room(0),
                Observed::Sent(Sent::Pong([0; 8])),
            ],
        )
        .with_requests(2),
        case(
            "§6.8 DATA of a stream that was not to be dealt with",
            [go_away(1, 0), data(3, "x", 0)],
            [GoAway(NoError, vec![3]), Error(E::StreamClosed, ErrorCode::StreamClosed)],
        )
        .with_requests(2),
    ]);
}

#[test]
fn counts_of_frames_and_header_bytes() {
    let mut talk = Talk::new(LARGE);
    talk.step(&settings(&[]), usize::MAX);
    (0..3).for_each(|_| talk.step(&get(), 3));
    for step in
        [head(1, 200, 0), data(1, "x", END_STREAM), reset(3, 7), ping(&[0; 8], 0), go_away(3, 2)]
    {
        talk.step(&step, 3);
    }
    let (received, sent) = (talk.counts.received, talk.counts.sent);
    assert_eq!(received.frames, [1, 1, 0, 1, 1, 0, 1, 1, 0, 0, 0]);
    assert_eq!(received.resets[ErrorCode::RefusedStream as usize], 1);
    assert_eq!(received.go_aways[ErrorCode::InternalError as usize], 1);
    assert_eq!((received.block_bytes, received.field_bytes), (1, 10));
    assert_eq!(sent.frames, [0, 3, 0, 0, 2, 0, 1, 0, 1, 0, 0]);
    assert_eq!((talk.counts.pings, talk.counts.max_open_streams), (1, 3));
    assert_eq!(
        sent.field_bytes,
        3 * Request::get().fields().iter().map(|(n, v)| (n.len() + v.len()) as u64).sum::<u64>()
    );
}

/// `reply_bytes` includes the nine bytes of each frame header and the payload. It excludes a
/// request and its body.
#[test]
fn counts_of_reply_bytes() {
    let mut talk =
        Talk::new(ClientSettings { stream_window: 10, connection_window: 1 << 20, ..LARGE });
    let mut reply_bytes = |step: Step| {
        let before = talk.counts.reply_bytes;
        talk.step(&step, usize::MAX);
        talk.counts.reply_bytes - before
    };
    assert_eq!(reply_bytes(settings(&[])), 9, "SETTINGS are acknowledged");
    assert_eq!(reply_bytes(post(5)), 0);
    assert_eq!(reply_bytes(head(1, 200, 0)), 0);
    assert_eq!(reply_bytes(data(1, "1234", 0)), 0);
    assert_eq!(reply_bytes(data(1, "5", 0)), 9 + 4, "half of the window is used: WINDOW_UPDATE");
    assert_eq!(reply_bytes(ping(b"12345678", 0)), 9 + 8);
    assert_eq!(reply_bytes(ping(b"12345678", ACK)), 0);
    assert_eq!(reply_bytes(data(1, [0; 11], 0)), 9 + 4, "more than the window: RST_STREAM");
}
