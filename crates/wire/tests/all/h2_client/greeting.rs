//! The beginning of connections, and the effect of settings.

use super::*;

#[test]
fn connection_requires_settings_first() {
    run([
        case(
            "§3.4 settings come first, and are acknowledged",
            [settings(&[])],
            [sent_ack(), Settings],
        )
        .bare(),
        case(
            "§3.4 no room for requests before the settings",
            [Step::Room, settings(&[]), Step::Room],
            [Room(0), sent_ack(), Settings, Room(usize::MAX)],
        )
        .bare(),
        breaks("§3.4 PING first", [ping(&[0; 8], 0)], E::NoPreface, PROTOCOL).bare(),
        breaks("§3.4 GOAWAY first", [go_away(0, 1)], E::NoPreface, PROTOCOL).bare(),
        breaks("§3.4 an acknowledgement first", [ack()], E::NoPreface, PROTOCOL).bare(),
        breaks("§3.4 a response first", [head(1, 200, END_STREAM)], E::NoPreface, PROTOCOL).bare(),
        breaks("§3.4 DATA first", [data(1, "x", 0)], E::NoPreface, PROTOCOL).bare(),
        breaks(
            "§3.4 an unknown frame first",
            [raw(raw_frame(99, 0, 0, b"x"))],
            E::NoPreface,
            PROTOCOL,
        )
        .bare(),
        breaks("§3.4 another protocol", [raw("SSH-2.0-OpenSSH_9.2p1\r\n")], E::NoPreface, PROTOCOL)
            .bare(),
        breaks("§3.4 HTTP/1.1", [raw("HTTP/1.1 400 Bad Request\r\n\r\n")], E::SpokeHttp1, PROTOCOL)
            .bare(),
        breaks("§3.4 HTTP/1.0", [raw("HTTP/1.0 505 x\r\n\r\n")], E::SpokeHttp1, PROTOCOL).bare(),
        breaks(
            "§3.4 settings on a stream first",
            [frame(Kind::Settings, 0, 1, &[])],
            E::WrongStream,
            PROTOCOL,
        )
        .bare(),
    ]);
}

#[test]
fn upgraded_connection_has_open_stream_1() {
    run([
        case(
            "RFC 7540 §3.2 stream 1 of an upgrade",
            [
                settings(&[]),
                head(1, 200, 0),
                data(1, "ok", END_STREAM),
                get(),
                head(3, 204, END_STREAM),
            ],
            [
                sent_ack(),
                Settings,
                Head(1, 200),
                body(1, "ok"),
                End(1),
                sent_get(3),
                Head(3, 204),
                End(3),
            ],
        )
        .upgraded(RequestKind::Other),
        case(
            "RFC 7540 §3.2 the upgrade was requested with HEAD",
            [settings(&[]), head_with(1, 200, &[("content-length", "5")], END_STREAM)],
            [sent_ack(), Settings, Head(1, 200), End(1)],
        )
        .upgraded(RequestKind::Head),
        breaks(
            "RFC 7540 §3.2 an upgrade's settings come first, too",
            [head(1, 200, END_STREAM)],
            E::NoPreface,
            PROTOCOL,
        )
        .upgraded(RequestKind::Other),
        case(
            "RFC 7540 §3.2 stream 1 needs no window, because its request is whole",
            [settings(&[(INITIAL_WINDOW_SIZE, 0)]), window(1, STREAM), head(1, 200, END_STREAM)],
            [sent_ack(), Settings, Window, Head(1, 200), End(1)],
        )
        .upgraded(RequestKind::Other),
    ]);
}

#[test]
fn greeting_announces_client_settings() {
    let greeting = |client_settings| Talk::new(client_settings).events;
    let settings = |list: &[(u16, u32)]| Observed::Sent(Sent::Settings(list.to_vec()));
    let client_settings = ClientSettings::default();
    assert_eq!(
        greeting(client_settings),
        [settings(&[(ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, 65_535)])]
    );
    assert_eq!(
        greeting(ClientSettings { header_table_size: 0, ..LARGE }),
        [
            settings(&[
                (ENABLE_PUSH, 0),
                (INITIAL_WINDOW_SIZE, (1 << 30) - 1),
                (HEADER_TABLE_SIZE, 0)
            ]),
            sent_window(0, (1 << 30) - 1 - 65_535),
        ]
    );
    let largest =
        ClientSettings { connection_window: STREAM, stream_window: STREAM, ..client_settings };
    assert_eq!(greeting(largest)[1], sent_window(0, STREAM - 65_535), "§6.9.1: up to 2³¹ − 1");
    // A window below the initial window of a connection cannot be set immediately (§6.9.2).
    assert_eq!(greeting(ClientSettings { connection_window: 1023, ..client_settings }).len(), 1);
}

#[test]
fn valid_settings_acknowledged_invalid_refused() {
    let setting = |id, value| [settings(&[(id, value)])];
    run([
        case("§6.5.2 unknown settings are ignored", setting(0xABCD, 7), [sent_ack(), Settings]),
        case(
            "§6.5.2 a header list's size is advisory",
            setting(MAX_HEADER_LIST_SIZE, 1),
            [sent_ack(), Settings],
        ),
        case(
            "§6.5 the last value of a repeated setting applies",
            [settings(&[(MAX_CONCURRENT_STREAMS, 0), (MAX_CONCURRENT_STREAMS, 5)]), Step::Room],
            [sent_ack(), Settings, Room(4)],
        ),
        case(
            "§4.2 as many settings as fit into a frame",
            [settings(&[(7, 7); 2730])],
            [sent_ack(), Settings],
        ),
        case(
            "§6.5.3 each is acknowledged",
            [settings(&[]), settings(&[])],
            [sent_ack(), Settings, sent_ack(), Settings],
        ),
        breaks(
            "§6.5 a payload with an acknowledgement",
            [frame(Kind::Settings, ACK, 0, &[0; 6])],
            E::FrameLength,
            SIZE,
        ),
        breaks(
            "§6.5 length is not a multiple of six",
            [frame(Kind::Settings, 0, 0, &[0; 5])],
            E::FrameLength,
            SIZE,
        ),
        breaks("§6.5 on a stream", [frame(Kind::Settings, 0, 1, &[])], E::WrongStream, PROTOCOL),
        breaks(
            "§6.5 an acknowledgement on a stream",
            [frame(Kind::Settings, ACK, 1, &[])],
            E::WrongStream,
            PROTOCOL,
        ),
        breaks("§6.5 one acknowledgement too many", [ack()], E::SettingsAck, PROTOCOL),
    ]);
}

#[test]
fn setting_value_out_of_range_refused() {
    let setting = |id, value| [settings(&[(id, value)])];
    run([
        case("§6.5.2 a server may disable push", setting(ENABLE_PUSH, 0), [sent_ack(), Settings]),
        breaks(
            "§6.5.2 a server must not enable push",
            setting(ENABLE_PUSH, 1),
            E::SettingValue,
            PROTOCOL,
        ),
        breaks("§6.5.2 push is 0 or 1", setting(ENABLE_PUSH, 2), E::SettingValue, PROTOCOL),
        case(
            "§6.5.2 the largest window",
            setting(INITIAL_WINDOW_SIZE, STREAM),
            [sent_ack(), Settings],
        ),
        breaks(
            "§6.5.2 a larger window",
            setting(INITIAL_WINDOW_SIZE, STREAM + 1),
            E::WindowOverflow,
            FLOW,
        ),
        breaks(
            "§6.5.2 the smallest frame is 2^14",
            setting(MAX_FRAME_SIZE, 16_383),
            E::SettingValue,
            PROTOCOL,
        ),
        case("§6.5.2 frames of 2^14", setting(MAX_FRAME_SIZE, 16_384), [sent_ack(), Settings]),
        case(
            "§6.5.2 frames of 2^24 - 1",
            setting(MAX_FRAME_SIZE, (1 << 24) - 1),
            [sent_ack(), Settings],
        ),
        breaks(
            "§6.5.2 the largest frame is 2^24 - 1",
            setting(MAX_FRAME_SIZE, 1 << 24),
            E::SettingValue,
            PROTOCOL,
        ),
    ]);
}

#[test]
fn max_concurrent_streams_limits_room() {
    run([
        case(
            "§6.5.2 no stream is allowed, then two",
            [
                settings(&[(MAX_CONCURRENT_STREAMS, 0)]),
                Step::Room,
                settings(&[(MAX_CONCURRENT_STREAMS, 2)]),
                Step::Room,
                get(),
                Step::Room,
                head(1, 204, END_STREAM),
                Step::Room,
            ],
            [
                sent_ack(),
                Settings,
                Room(0),
                sent_ack(),
                Settings,
                Room(2),
                sent_get(1),
                Room(1),
                Head(1, 204),
                End(1),
                Room(2),
            ],
        )
        .with_requests(0),
        case(
            "§5.1.2 fewer are allowed than are open",
            [
                settings(&[(MAX_CONCURRENT_STREAMS, 1)]),
                Step::Room,
                head(3, 204, END_STREAM),
                Step::Room,
                head(1, 204, END_STREAM),
                Step::Room,
            ],
            [
                sent_ack(),
                Settings,
                Room(0),
                Head(3, 204),
                End(3),
                Room(0),
                Head(1, 204),
                End(1),
                Room(1),
            ],
        )
        .with_requests(2),
    ]);
}
