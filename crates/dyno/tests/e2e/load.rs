//! Tests `dyno load`: the documented keys of its JSON, and its counts compared with the server's
//! own.

use serde_json::Value;

use crate::drive::{Sandbox, Server, text};

/// Every documented key (design §6), by its path.
const KEYS: &[&str] = &[
    "schema",
    "valid",
    "caveats",
    "config.protocol",
    "config.driver",
    "config.threads",
    "config.connections",
    "config.streams",
    "duration_s",
    "exchanges.scheduled",
    "exchanges.started",
    "exchanges.completed",
    "exchanges.failed",
    "exchanges.dropped",
    "exchanges.in_flight_at_end",
    "outcomes.ok",
    "outcomes.status_1xx",
    "outcomes.status_2xx",
    "outcomes.status_3xx",
    "outcomes.status_4xx",
    "outcomes.status_5xx",
    "outcomes.connect_refused",
    "outcomes.connect_timeout",
    "outcomes.timeout",
    "outcomes.reset",
    "outcomes.closed_early",
    "outcomes.tls_error",
    "outcomes.protocol_error",
    "outcomes.unexpected_status",
    "outcomes.unexpected_body",
    "throughput_rps",
    "bytes.sent",
    "bytes.received",
    "bytes.body_received",
    "connections.asked",
    "connections.established",
    "connections.opened",
    "connections.closed_by_server",
    "connections.closed_by_us",
    "client.cpu_user_s",
    "client.cpu_sys_s",
    "client.cpu_us_per_exchange",
    "client.busiest_thread_utilisation",
    "client.loop_lag_us",
    "client.wake_lag_us",
    "client.rss_peak_bytes",
    "client.driver",
    "client.threads",
    "tcp.data_segments_in",
    "tcp.segments_in",
    "tcp.segments_out",
    "tcp.retransmits",
    "tcp.data_segments_per_response",
    "http2",
    "intervals",
];

const TIMES: &[&str] = &[
    "response_time_us",
    "service_time_us",
    "send_lag_us",
    "first_byte_us",
    "connect_us",
    "tls_handshake_us",
];

const STATISTICS: &[&str] =
    &["count", "min", "mean", "stdev", "p50", "p75", "p90", "p95", "p99", "p99_9", "p99_99", "max"];

fn load(sandbox: &Sandbox, url: &str, arguments: &[&str]) -> (i32, Value) {
    let mut all = vec!["load", url, "--format", "json"];
    all.extend(arguments);
    let output = sandbox.dyno(&all);
    let result =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output)));
    (output.status.code().unwrap(), result)
}

fn value_at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |v, key| v.as_object()?.get(key))
}

#[test]
fn json_has_every_documented_key() {
    let sandbox = Sandbox::new();
    let server = Server::start(&[]);
    let (_, result) = load(&sandbox, &server.url("/plaintext"), &["-c", "8", "-d", "1s"]);
    for key in KEYS {
        assert!(value_at(&result, key).is_some(), "{key} is missing");
    }
    for times in TIMES {
        for statistic in STATISTICS {
            assert!(
                value_at(&result, &format!("{times}.{statistic}")).is_some(),
                "{times}.{statistic} is missing"
            );
        }
    }
    assert_eq!(result["schema"], "dyno.load/1");
    let interval = &result["intervals"][0];
    for key in ["start_s", "ok", "failed", "response_time_us"] {
        assert!(value_at(interval, key).is_some(), "intervals[].{key} is missing");
    }
}

#[test]
fn completed_requests_match_server_count() {
    let shapes: [&[&str]; 6] = [
        &["-c", "16", "-n", "5000"],
        &["-c", "16", "-d", "500ms"],
        &["-c", "4", "-p", "16", "-d", "500ms"],
        &["-c", "8", "--requests-per-connection", "7", "-d", "500ms"],
        &["-c", "8", "-r", "2000", "--arrival", "poisson", "-d", "500ms"],
        &["-c", "7", "-t", "2", "-n", "4001"],
    ];
    for driver in ["uring", "epoll"] {
        for shape in shapes {
            let sandbox = Sandbox::new();
            let server = Server::start(&[]);
            let mut arguments = shape.to_vec();
            arguments.extend(["--driver", driver, "--expect-body", "Hello, World!"]);
            let (_, result) = load(&sandbox, &server.url("/plaintext"), &arguments);
            let completed = result["exchanges"]["completed"].as_u64().unwrap();
            assert_eq!(completed, server.count(), "{driver} {shape:?}");
            assert_eq!(result["outcomes"]["ok"].as_u64().unwrap(), completed, "{driver} {shape:?}");
            assert_eq!(result["exchanges"]["in_flight_at_end"], 0);
            if let Some(n) =
                shape.iter().position(|w| *w == "-n").and_then(|i| shape[i + 1].parse::<u64>().ok())
            {
                assert_eq!(completed, n, "{driver} {shape:?}");
            }
        }
    }
}

#[test]
fn crash_under_load_keeps_books_balanced() {
    for driver in ["uring", "epoll"] {
        let sandbox = Sandbox::new();
        let server = Server::start(&["--mode", "crash", "--after", "500"]);
        let (status, result) = load(
            &sandbox,
            &server.url("/plaintext"),
            &["-c", "8", "-n", "1000", "--driver", driver],
        );
        assert!(status <= 1);
        let n = |key: &str| result["exchanges"][key].as_u64().unwrap();
        assert_eq!(n("started"), n("completed") + n("failed") + n("in_flight_at_end"));
        assert!(n("completed") >= 490 && n("failed") > 0, "{}", result["outcomes"]);
    }
}

#[test]
fn usage_error_exits_with_2_and_hint() {
    let sandbox = Sandbox::new();
    for (arguments, said) in [
        (&["load"][..], "Usage"),
        (&["load", "ftp://127.0.0.1/"], "must be http or https"),
        (&["load", "https://127.0.0.1/", "--cacert", "/no/such"], "/no/such"),
        (&["load", "http://127.0.0.1:1/", "-r", "1k.."], "1k..5k"),
        (&["load", "http://127.0.0.1:1/", "--trace", "/no/such"], "/no/such"),
        (&["load", "http://127.0.0.1:1/", "--request", "GET /"], "'80 GET /items'"),
        (&["load", "http://127.0.0.1:1/{csv:/no/such:1}"], "/no/such"),
        (&["load", "http://127.0.0.1:1/", "--expect-sha256", "12"], "64 hexadecimal"),
        (&["load", "http://127.0.0.1:1/", "--resolve", "x:1"], "example.com:443:127.0.0.1"),
        (&["load", "--curl", "wget http://127.0.0.1:1/"], "curl"),
        (&["load", "http://127.0.0.1:1/", "--source", "::1"], "IPv6"),
        (&["load", "http://127.0.0.1:1/", "-w", "10q"], "500ms, 10s"),
        (&["load", "http://127.0.0.1:1/", "-H", "nonsense"], "Name: value"),
        (&["load", "http://127.0.0.1:1/a b"], "percent-encode"),
        (&["load", "http://127.0.0.1:1/", "--protocol", "h2"], "--protocol h2c"),
        (&["load", "https://127.0.0.1:1/", "--protocol", "h2c"], "--protocol h2"),
        (&["load", "http://127.0.0.1:1/", "-m", "4"], "--protocol h2c"),
        (&["load", "http://127.0.0.1:1/", "--protocol", "h2c", "-p", "4"], "--streams"),
        (&["load", "https://127.0.0.1:1/", "-p", "4"], "--protocol h1"),
        (&["load", "http://127.0.0.1:1/", "--protocol", "h2c", "--resource", "x"], "/style.css"),
        (&["load", "http://127.0.0.1:1/", "--resource", "/a"], "--protocol h1, h2 or h2c"),
    ] {
        let output = sandbox.dyno(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output).contains(said), "{arguments:?}: {}", text(&output));
    }
}

#[test]
fn connections_above_open_files_are_refused() {
    let sandbox = Sandbox::new();
    let output = sandbox.dyno(&["load", "http://127.0.0.1:1/", "-c", "4000000"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output).contains("ulimit -n"), "{}", text(&output));
}
