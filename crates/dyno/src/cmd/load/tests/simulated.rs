//! Tests loads of the simulated world, whose numbers are exact.

use dyno_engine::sim::Fault;
use dyno_suite::settings::single::usable_cpus;

use super::*;

/// Every documented key of the JSON result, by its path.
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

fn value_at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |v, key| v.as_object()?.get(key))
}

#[test]
fn json_has_every_documented_key() {
    let result = Simulated::new(&[URL, "-c", "8", "-d", "1s"], &server_model()).json();
    let of_times = |times: &'static &str| {
        STATISTICS.iter().map(move |statistic| format!("{times}.{statistic}"))
    };
    let keys = KEYS.iter().map(ToString::to_string).chain(TIMES.iter().flat_map(of_times));
    for key in keys {
        assert!(value_at(&result, &key).is_some(), "{key} is missing");
    }
    assert_eq!(result["schema"], "dyno.load/1");
    let interval = &result["intervals"][0];
    for key in ["start_s", "ok", "failed", "response_time_us"] {
        assert!(value_at(interval, key).is_some(), "intervals[].{key} is missing");
    }
}

#[test]
fn rate_ramp_and_trace_are_followed() {
    let simulate = |words: &[&str]| Simulated::new(&[&[URL], words].concat(), &server_model());
    let ramp = simulate(&["-r", "0..1000", "-d", "1s"]).json();
    assert_eq!(ramp["exchanges"]["scheduled"], 500);
    assert_eq!(ramp["config"]["rate_over_time"][0]["to_rate"], 1000.0);
    let folder = tempfile::tempdir().unwrap();
    let trace = |name: &str, lines: &str| {
        let path = folder.path().join(name);
        fs::write(&path, lines).unwrap();
        path.to_str().unwrap().to_string()
    };
    let times: String = (0..50).map(|i| format!("{}\n", f64::from(i) * 0.01)).collect();
    let (fifty, one) = (trace("fifty", &times), trace("one", "7\n"));
    let result = simulate(&["--trace", &fifty]).json();
    assert_eq!(
        (&result["exchanges"]["scheduled"], &result["config"]["arrival"]),
        (&50.into(), &"trace".into())
    );
    let gaps = &result["gaps"];
    assert_eq!(gaps["intended_us"]["count"], 49);
    assert!(gaps["intended_cv"].as_f64().unwrap() < 1e-6, "{gaps}");
    let completed = |words: &[&str]| simulate(words).record.books.completed;
    assert_eq!(
        completed(&["--trace", &fifty, "-n", "500"]),
        50,
        "a trace that runs out ends the load"
    );
    assert_eq!(completed(&["--trace", &one]), 1, "a request that is due at the very end is sent");
}

#[test]
fn connections_are_opened_as_requested() {
    let simulate = |words: &[&str]| Simulated::new(&[&[URL], words].concat(), &server_model());
    let replaced = simulate(&["-n", "200", "-c", "4", "--requests-per-connection", "10"]).record;
    assert_eq!((replaced.books.completed, replaced.connections.opened), (200, 20));
    let ramp = ["--ramp-connections", "500ms", "-d", "800ms", "--interval", "100ms"];
    let ramped = simulate(&[&["-c", "10", "-r", "200"], &ramp[..]].concat()).json();
    let intervals = ramped["intervals"].as_array().unwrap().iter();
    let open: Vec<u64> = intervals.map(|i| i["connections_open"].as_u64().unwrap()).collect();
    assert_eq!(open[..8], [2, 4, 6, 8, 10, 10, 10, 10]);
    assert_eq!(ramped["connections"]["established"], 10);
    assert_eq!(
        (&ramped["exchanges"]["scheduled"], &ramped["outcomes"]["ok"]),
        (&160.into(), &160.into())
    );
}

#[test]
fn closing_server_gets_no_connection_warning() {
    let mut model = server_model();
    model.faults = vec![(Fault::PoliteClose, 1.0)];
    let result = Simulated::new(&[URL, "-n", "300", "-c", "8"], &model).json();
    assert_eq!(
        (&result["outcomes"]["ok"], &result["connections"]["opened"]),
        (&300.into(), &300.into())
    );
    assert!(!codes(&result).contains(&"connections"), "{:?}", codes(&result));
}

/// If the server chooses HTTP/1.1, the load uses it, and the result reports the fallback.
#[test]
fn protocol_fallback_is_reported() {
    let words = [URL, "--protocol", "h2c-upgrade", "-n", "200"];
    let result = Simulated::new(&words, &server_model()).json();
    assert_eq!((&result["valid"], &result["outcomes"]["ok"]), (&false.into(), &200.into()));
    assert_eq!(result["http2"]["fallen_back"], result["connections"]["opened"]);
    assert!(codes(&result).contains(&"fell_back"), "{:?}", codes(&result));
}

#[test]
fn threads_depend_on_cpus() {
    let load = |words: &[&str]| prepare(&[&[URL, "-n", "100"], words].concat());
    let note = |load: &PreparedLoad| spec::note_on_threads(&load.args, &load.spec);
    let shared = note(&load(&["-t", "2", "--cpus", "0"])).unwrap();
    assert!(shared.starts_with("-t 2: the threads share 1 CPU, so "), "{shared}");
    let reduced = note(&load(&["-t", "2", "-c", "1"])).unwrap();
    assert!(reduced.starts_with("-t 2: reduced to 1 thread, because "), "{reduced}");
    // A server on this machine needs the other CPUs.
    let default = load(&[]);
    let usable = usable_cpus(&[], &dyno_launch::allowed_cpus());
    assert_eq!(default.spec.load.threads, (usable / 2).clamp(1, 64));
    assert_eq!(note(&default), None);
}

/// A check that is one in ten is drawn for each response.
#[test]
fn share_of_responses_is_checked() {
    let checks = ["--expect-contains", "World", "--check-one-in", "10"];
    let result =
        Simulated::new(&[&[URL, "-n", "1000"], &checks[..]].concat(), &server_model()).json();
    assert_eq!((&result["outcomes"]["ok"], &result["checked"]), (&1000.into(), &85.into()));
}

#[test]
fn requests_of_mix_are_drawn_by_weight() {
    let mix = ["--request", "75 GET /{seq}", "--request", "25 POST /1 {\"n\":{seq}}"];
    let result = Simulated::new(&[&[URL, "-n", "4000"], &mix[..]].concat(), &server_model()).json();
    let requests = result["requests"].as_array().unwrap();
    let ok = |i: usize| requests[i]["outcomes"]["ok"].as_u64().unwrap();
    assert_eq!(requests[0]["name"], "GET /{seq}");
    assert_eq!((ok(0), ok(1)), (2977, 1023));
    assert_eq!(requests[0]["response_time_us"]["count"], ok(0));
}
