//! Flow control, in both directions.

use super::*;

#[test]
fn send_windows_limit_request_bodies() {
    let posted =
        |id| [sent_post(id), sent_data(id, 16_384), sent_data(id, 16_384), sent_data(id, 16_384)];
    run([
        case(
            "§6.9.2 both windows begin with 65,535",
            [post(70_000), window(0, 9000), window(1, 4465)],
            [&posted(1)[..], &[sent_data(1, 16_383), Window, Window, sent_end(1, 4465), Whole(1)]]
                .concat(),
        )
        .with_requests(0),
        case(
            "§6.9 a body as long as the window",
            [post(65_535)],
            [&posted(1)[..], &[sent_end(1, 16_383)]].concat(),
        )
        .with_requests(0),
        case(
            "§6.9.1 all streams share the connection's window",
            [post(65_535), post(2), window(0, 1), window(0, 9)],
            [
                &posted(1)[..],
                &[
                    sent_end(1, 16_383),
                    sent_post(3),
                    Window,
                    sent_data(3, 1),
                    Window,
                    sent_end(3, 1),
                    Whole(3),
                ],
            ]
            .concat(),
        )
        .with_requests(0),
        case(
            "§6.9 an empty body needs no window",
            [post(65_535), get()],
            [&posted(1)[..], &[sent_end(1, 16_383), sent_get(3)]].concat(),
        )
        .with_requests(0),
    ]);
}

#[test]
fn initial_window_applies_to_open_streams() {
    run([
        case(
            "§6.9.2 empty initial windows",
            [settings(&[(INITIAL_WINDOW_SIZE, 0)]), post(3), window(1, 2), window(1, 7)],
            [
                sent_ack(),
                Settings,
                sent_post(1),
                Window,
                sent_data(1, 2),
                Window,
                sent_end(1, 1),
                Whole(1),
            ],
        )
        .with_requests(0),
        case(
            "§6.9.2 a raised initial window applies to open streams",
            [
                settings(&[(INITIAL_WINDOW_SIZE, 1)]),
                post(5),
                post(1),
                settings(&[(INITIAL_WINDOW_SIZE, 3)]),
                settings(&[(INITIAL_WINDOW_SIZE, 65_535)]),
            ],
            [
                sent_ack(),
                Settings,
                sent_post(1),
                sent_data(1, 1),
                sent_post(3),
                sent_end(3, 1),
                sent_ack(),
                Settings,
                sent_data(1, 2),
                sent_ack(),
                Settings,
                sent_end(1, 2),
                Whole(1),
            ],
        )
        .with_requests(0),
    ]);
}

#[test]
fn lowered_initial_window_makes_window_negative() {
    run([case(
        "§6.9.2 a lowered initial window makes windows negative",
        [
            settings(&[(INITIAL_WINDOW_SIZE, 10)]),
            post(12),
            settings(&[(INITIAL_WINDOW_SIZE, 5)]),
            window(1, 5),
            window(1, 1),
            settings(&[(INITIAL_WINDOW_SIZE, 6)]),
        ],
        [
            sent_ack(),
            Settings,
            sent_post(1),
            sent_data(1, 10),
            sent_ack(),
            Settings,
            Window,
            Window,
            sent_data(1, 1),
            sent_ack(),
            Settings,
            sent_end(1, 1),
            Whole(1),
        ],
    )
    .with_requests(0)]);
}

#[test]
fn window_overflow_refused() {
    let posted =
        |id| [sent_post(id), sent_data(id, 16_384), sent_data(id, 16_384), sent_data(id, 16_384)];
    run([
        case(
            "§6.9.2 settings do not change the connection's window",
            [post(65_535), settings(&[(INITIAL_WINDOW_SIZE, STREAM)]), post(1), window(0, 1)],
            [
                &posted(1)[..],
                &[
                    sent_end(1, 16_383),
                    sent_ack(),
                    Settings,
                    sent_post(3),
                    Window,
                    sent_end(3, 1),
                    Whole(3),
                ],
            ]
            .concat(),
        )
        .with_requests(0),
        case(
            "§6.9.2 a window overflows by settings",
            [window(1, STREAM - 65_535), settings(&[(INITIAL_WINDOW_SIZE, 65_536)])],
            [Window, Error(E::WindowOverflow, FLOW)],
        ),
        case(
            "§6.9.1 the largest windows",
            [window(1, STREAM - 65_535), window(0, STREAM - 65_535)],
            [Window, Window],
        ),
        breaks(
            "§6.9.1 the connection's window overflows",
            [window(0, STREAM - 65_534)],
            E::WindowOverflow,
            FLOW,
        ),
        case(
            "§6.9.1 a stream's window overflows",
            [window(1, STREAM - 65_534)],
            [Malformed(1, M::Window, FLOW)],
        ),
        breaks(
            "§6.9 the connection's window is raised by 0",
            [window(0, 0)],
            E::WindowByNothing,
            PROTOCOL,
        ),
        malformed("§6.9 a stream's window is raised by 0", [window(1, 0)], M::WindowByNothing),
        case("§6.9 the reserved bit is ignored", [window(1, 1 << 31 | 5)], [Window]),
        case(
            "§5.1 WINDOW_UPDATE on a stream that has ended",
            [head(1, 204, END_STREAM), window(1, 5), window(1, 0), window(1, STREAM)],
            [Head(1, 204), End(1)],
        ),
    ]);
}

#[test]
fn blocked_bodies_resume_in_order() {
    run([case(
        "§6.9 blocked bodies resume in order",
        [
            settings(&[(INITIAL_WINDOW_SIZE, 0)]),
            post(2),
            post(2),
            window(3, 1),
            window(1, 1),
            settings(&[(INITIAL_WINDOW_SIZE, 9)]),
        ],
        [
            sent_ack(),
            Settings,
            sent_post(1),
            sent_post(3),
            Window,
            sent_data(3, 1),
            Window,
            sent_data(1, 1),
            sent_ack(),
            Settings,
            sent_end(1, 1),
            sent_end(3, 1),
            Whole(1),
            Whole(3),
        ],
    )
    .with_requests(0)]);
}

#[test]
fn receive_window_exceeded_is_malformed() {
    let client_settings = |stream_window, connection_window| ClientSettings {
        stream_window,
        connection_window,
        ..LARGE
    };
    let small_responses =
        (0..100).flat_map(|i| [head(1 + 2 * i, 200, 0), data(1 + 2 * i, [b'x'; 1000], END_STREAM)]);
    let small_seen = (0..100)
        .flat_map(|i| [Head(1 + 2 * i, 200), body(1 + 2 * i, [b'x'; 1000]), End(1 + 2 * i)]);
    run([
        case(
            "§6.9 small responses need no WINDOW_UPDATE",
            small_responses.collect::<Vec<_>>(),
            small_seen.collect::<Vec<_>>(),
        )
        .with_requests(100),
        case(
            "§6.9 a stream's window is exceeded",
            [head(1, 200, 0), data(1, [0; 11], 0)],
            [Head(1, 200), Malformed(1, M::WindowExceeded, FLOW)],
        )
        .with_settings(client_settings(10, 1 << 20)),
        case(
            "§6.9.1 padding counts, and its length",
            [head(1, 200, 0), data(1, padded("x", 9), PADDED)],
            [Head(1, 200), Malformed(1, M::WindowExceeded, FLOW)],
        )
        .with_settings(client_settings(10, 1 << 20)),
        case(
            "§6.9.1 a window may be used up",
            [head(1, 200, 0), data(1, padded("x", 8), PADDED | END_STREAM)],
            [Head(1, 200), body(1, "x"), End(1)],
        )
        .with_settings(client_settings(10, 1 << 20)),
    ]);
}

#[test]
fn receive_window_of_stream_raised_at_half() {
    let client_settings = |stream_window, connection_window| ClientSettings {
        stream_window,
        connection_window,
        ..LARGE
    };
    run([
        case(
            "§6.9 a stream's window is raised at half",
            [
                head(1, 200, 0),
                data(1, "1234", 0),
                data(1, "5", 0),
                data(1, "6789", 0),
                data(1, "012345", END_STREAM),
            ],
            [Head(1, 200), body(1, "1234"), sent_window(1, 5), body(1, "56789012345"), End(1)],
        )
        .with_settings(client_settings(10, 1 << 20)),
        case(
            "§6.9 padding counts, too",
            [head(1, 200, 0), data(1, padded("", 9), PADDED), data(1, "", END_STREAM)],
            [Head(1, 200), sent_window(1, 10), End(1)],
        )
        .with_settings(client_settings(10, 1 << 20)),
        case(
            "§6.9 a smallest window",
            [head(1, 200, 0), data(1, "1", 0), data(1, "2", 0), data(1, "3", END_STREAM)],
            [
                Head(1, 200),
                sent_window(1, 1),
                body(1, "1"),
                sent_window(1, 1),
                body(1, "23"),
                End(1),
            ],
        )
        .with_settings(client_settings(1, 1 << 20)),
        case(
            "§6.9 a window that is odd",
            [
                head(1, 200, 0),
                data(1, "1", 0),
                data(1, "2", 0),
                data(1, "3", 0),
                data(1, "4", END_STREAM),
            ],
            [Head(1, 200), body(1, "1"), sent_window(1, 2), body(1, "234"), End(1)],
        )
        .with_settings(client_settings(3, 1 << 20)),
    ]);
}

#[test]
fn receive_window_of_connection_counts_all_data() {
    let client_settings = |stream_window, connection_window| ClientSettings {
        stream_window,
        connection_window,
        ..LARGE
    };
    run([
        case(
            "§6.9.1 DATA of cancelled streams counts for the connection",
            [
                Step::Cancel(1),
                data(1, [0; 16_384], 0),
                data(1, [0; 16_384], 0),
                data(1, [0; 16_384], 0),
            ],
            [Observed::Sent(Sent::Reset(1, ErrorCode::Cancel)), sent_window(0, 32_768)],
        )
        .with_settings(client_settings(1 << 20, 65_535)),
        case(
            "§6.9 the connection's window is exceeded",
            [
                head(1, 200, 0),
                data(1, [0; 16_384], 0),
                data(1, [0; 16_384], 0),
                data(1, [0; 16_384], 0),
                data(1, [0; 16_384], 0),
            ],
            [Head(1, 200), body(1, [0; 3 * 16_384]), Error(E::WindowExceeded, FLOW)],
        )
        .with_settings(client_settings(1 << 20, 1023)),
        case(
            "§6.9 a stream that exceeds its window does not affect the connection's",
            [
                head(1, 200, 0),
                data(1, [0; 16_384], 0),
                data(1, [0; 16_384], END_STREAM),
                head(3, 204, END_STREAM),
            ],
            [
                Head(1, 200),
                Malformed(1, M::WindowExceeded, FLOW),
                sent_window(0, 32_768),
                Head(3, 204),
                End(3),
            ],
        )
        .with_requests(2)
        .with_settings(client_settings(10, 65_535)),
    ]);
}
