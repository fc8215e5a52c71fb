use super::*;

#[test]
fn load_changes_override_only_named_settings() {
    let load = Load {
        warmup_ns: 1,
        until_steady: None,
        still_warming: StillWarming::Refused,
        order: Order::Fixed,
        duration_ns: 2,
        requests: None,
        interval_ns: 3,
        timeout_ns: 4,
        connect_timeout_ns: 5,
        drain_ns: 6,
        first_byte_timeout_ns: None,
        requests_per_connection: Some(7),
        ramp_connections_ns: None,
        reconnect: Reconnect::AtOnce,
        max_waiting: None,
        check_one_in: 8,
        spin: Spin::Never,
        priority: Priority::Normal,
        threads: 9,
        driver: DriverKind::Uring,
        http2: Http2::default(),
        proxy_protocol: None,
        connection: ConnectionSettings::default(),
        steps: Vec::new(),
    };
    assert_eq!(LoadChanges::default().apply_to(&load), load);
    let http2 = Http2 { window_bits: 16, ..Http2::default() };
    let changes = LoadChanges {
        driver: Some(DriverKind::Epoll),
        spin: Some(Spin::Always),
        threads: Some(2),
        http2: Some(http2),
        requests_per_connection: Some(100),
    };
    let changed = Load {
        driver: DriverKind::Epoll,
        spin: Spin::Always,
        threads: 2,
        http2,
        requests_per_connection: Some(100),
        ..load.clone()
    };
    assert_eq!(changes.apply_to(&load), changed);
}
