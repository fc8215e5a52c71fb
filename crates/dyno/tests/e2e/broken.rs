//! Tests the classification of faults with a server that breaks every rule a known number of times.
//! Each fault must be counted exactly, over keep-alive, pipelined and TLS connections.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use dyno_engine::rng::Rng;
use serde_json::Value;

use crate::drive::{Sandbox, Server};

/// Expected outcome of each class of the server.
const OUTCOMES: &[(&str, &str)] = &[
    ("good", "ok"),
    ("good_chunked", "ok"),
    ("good_pieces", "ok"),
    ("good_close", "ok"),
    ("good_until_close", "ok"),
    ("informational", "ok"),
    // The response is correct. The one after it belongs to no request, and is counted with the
    // connections.
    ("unsolicited", "ok"),
    ("status_500", "unexpected_status"),
    ("wrong_body", "unexpected_body"),
    ("wrong_header", "unexpected_header"),
    ("short_body", "closed_early"),
    ("cut_head", "closed_early"),
    ("no_answer", "closed_early"),
    ("reset", "reset"),
    ("reset_mid_body", "reset"),
    ("silent", "timeout_first_byte"),
    ("stalls", "timeout"),
    ("bad_status_line", "protocol_error"),
    ("bad_version", "protocol_error"),
    ("bad_chunk", "protocol_error"),
    ("bad_length", "protocol_error"),
    ("two_lengths", "protocol_error"),
    ("bare_lf", "protocol_error"),
    ("folded", "ok"),
    ("length_and_chunked", "protocol_error"),
    ("bare_cr", "protocol_error"),
    ("chunk_junk", "protocol_error"),
    ("tls_truncated", "closed_early"),
    ("tls_alert", "tls_error"),
    ("tls_garbage", "tls_error"),
];

/// Names of malformed responses: a part of the words, and the faults of the server that cause it.
const KINDS: &[(&str, &[&str])] = &[
    ("status line", &["bad_status_line"]),
    ("protocol version", &["bad_version"]),
    ("chunk size is not a hex", &["bad_chunk"]),
    ("Content-Length is not a number", &["bad_length", "two_lengths"]),
    ("bare line feed", &["bare_lf"]),
    ("both Content-Length and Transfer-Encoding", &["length_and_chunked"]),
    ("carriage return is not followed", &["bare_cr"]),
    ("not a chunk extension", &["chunk_junk"]),
];

const TLS_KINDS: &[(&str, &str)] =
    &[("alert internal_error", "tls_alert"), ("invalid content type", "tls_garbage")];

/// Number of requests after which the server has made each fault once. Every second response is
/// correct.
const PLAIN_PERIOD: u64 = 52;
const TLS_PERIOD: u64 = 58;

const ROUNDS: u64 = 3;

#[test]
fn faults_are_counted_in_clear_and_over_tls() {
    let sandbox = Sandbox::new();
    // Both loads wait for time-outs most of the time.
    thread::scope(|scope| {
        scope.spawn(|| assert_faults_are_counted(&sandbox));
        assert_faults_over_tls_are_counted(&sandbox);
    });
}

fn assert_faults_are_counted(sandbox: &Sandbox) {
    let server = Server::broken(&[]);
    let n = PLAIN_PERIOD * ROUNDS;
    let url = format!("http://127.0.0.1:{}/{{seq}}", server.port);
    let result = load(sandbox, &url, n, &["-c", "8", "--driver", "epoll"]);
    let counts = counts(&server);
    assert_fault_counts(&counts, n, PLAIN_PERIOD);
    assert_classified(&result, &counts, n);
}

fn assert_faults_over_tls_are_counted(sandbox: &Sandbox) {
    let (certificate, key) = certificate(sandbox.path());
    let paths = [certificate.display().to_string(), key.display().to_string()];
    let server = Server::broken(&["--cert", &paths[0], "--key", &paths[1]]);
    let n = TLS_PERIOD * ROUNDS;
    let url = format!("https://localhost:{}/{{seq}}", server.port);
    let resolve = format!("localhost:{}:127.0.0.1", server.port);
    let more = ["-c", "8", "--cacert", &paths[0], "--resolve", &resolve];
    let result = load(sandbox, &url, n, &more);
    let counts = counts_over_tls(server.port, &paths[0]);
    assert_fault_counts(&counts, n, TLS_PERIOD);
    assert_classified(&result, &counts, n);
    let errors = &result["tls"]["errors"];
    for (name_part, class) in TLS_KINDS {
        assert_eq!(sum_by_name(errors, name_part), counts[*class], "{name_part}: {errors}");
    }
    assert!(result["tls"]["handshakes_resumed"].as_u64().unwrap() > 0, "{}", result["tls"]);
}

/// Requests after a fault are lost with its connection, so the number of faults depends on when
/// connections end: the server's own counts are the reference. Requests after a closing response
/// are excluded, because their number is random.
#[test]
#[ignore = "long: runs in make nightly"]
fn pipelined_faults_are_counted() {
    for driver in ["uring", "epoll"] {
        let sandbox = Sandbox::new();
        let server = Server::broken(&[]);
        fs::write(sandbox.path().join("numbers.csv"), shuffled_numbers()).unwrap();
        let url = format!("http://127.0.0.1:{}/{{csv:numbers.csv:1}}", server.port);
        let n = 600;
        let result = load(&sandbox, &url, n, &["-c", "4", "-p", "8", "--driver", driver]);
        let counts = counts(&server);
        let outcomes = &result["outcomes"];
        for outcome in ["ok", "unexpected_status", "unexpected_body", "unexpected_header"] {
            assert_eq!(
                outcomes[outcome].as_u64().unwrap(),
                expected_count(&counts, outcome),
                "{outcome}: {outcomes}"
            );
        }
        for outcome in ["timeout", "timeout_first_byte", "protocol_error"] {
            assert_eq!(
                outcomes[outcome].as_u64().unwrap(),
                expected_count(&counts, outcome),
                "{outcome}: {outcomes}"
            );
        }
        // All requests on a connection that the server ends are lost, and the end itself is counted
        // once.
        let lost = &result["connection_failures"];
        for outcome in ["closed_early", "reset", "timeout", "timeout_first_byte", "protocol_error"]
        {
            assert!(expected_count(&counts, outcome) > 0, "{outcome} never happened: {counts:?}");
            assert_eq!(
                lost[outcome].as_u64().unwrap(),
                expected_count(&counts, outcome),
                "{outcome}: {lost}"
            );
        }
        assert_named(&result, &counts);
        assert_books(&result, n);
        assert_eq!(total(outcomes), n, "{outcomes}");
    }
}

/// Returns one number per line: first the number of a correct response, then the others in random
/// order. In a regular order the same faults could always be lost after others.
fn shuffled_numbers() -> String {
    let once: Vec<u64> = (0..PLAIN_PERIOD).filter(|n| ![5, 7, 51].contains(n)).collect();
    let mut numbers = once.repeat(40);
    Rng::new(1).shuffle(&mut numbers[1..]);
    numbers.iter().map(|n| format!("{n}\n")).collect()
}

fn load(sandbox: &Sandbox, url: &str, n: u64, more: &[&str]) -> Value {
    let n = n.to_string();
    let mut arguments = vec!["load", url, "-n", &n, "--format", "json", "--timeout", "5s"];
    // Much longer than a response takes on a busy machine: only a missing response times out.
    arguments.extend([
        "--first-byte-timeout",
        "3s",
        "--check-one-in",
        "1",
        "--expect-status",
        "200",
    ]);
    arguments.extend(["--expect-body", "Hello, World!"]);
    arguments.extend(["--expect-header", "content-type: text/plain"]);
    arguments.extend(more);
    let output = sandbox.dyno(&arguments);
    let output_text = crate::drive::text(&output);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output_text}"))
}

fn counts(server: &Server) -> BTreeMap<String, u64> {
    let stream = std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let answer = dyno_contract::client::get(stream, "/counts", Duration::from_secs(60)).unwrap();
    without_precheck(serde_json::from_slice(&answer.body).unwrap())
}

/// Removes the request of the check before the load from the counts. It is number 0, whose response
/// is correct.
fn without_precheck(mut counts: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    for name in ["good", "requests"] {
        *counts.get_mut(name).unwrap() -= 1;
    }
    counts
}

fn counts_over_tls(port: u16, certificate: &str) -> BTreeMap<String, u64> {
    let config = {
        use rustls::pki_types::pem::PemObject as _;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(rustls::pki_types::CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        std::sync::Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
    };
    let connection =
        rustls::ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
    let socket = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut stream = rustls::StreamOwned::new(connection, socket);
    use std::io::{Read as _, Write as _};
    stream
        .write_all(b"GET /counts HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    without_precheck(serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap())
}

/// Creates a self-signed certificate for `localhost`, and its key.
fn certificate(folder: &Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let paths = (folder.join("certificate.pem"), folder.join("key.pem"));
    fs::write(&paths.0, made.cert.pem()).unwrap();
    fs::write(&paths.1, made.signing_key.serialize_pem()).unwrap();
    paths
}

/// Returns how often the server did something that must end as `outcome`.
fn expected_count(counts: &BTreeMap<String, u64>, outcome: &str) -> u64 {
    let classes = OUTCOMES.iter().filter(|(_, o)| *o == outcome);
    classes.map(|(class, _)| counts.get(*class).copied().unwrap_or(0)).sum()
}

fn assert_fault_counts(counts: &BTreeMap<String, u64>, n: u64, period: u64) {
    assert_eq!(counts["requests"], n);
    for (class, times) in
        counts.iter().filter(|(class, _)| !["requests", "connections"].contains(&class.as_str()))
    {
        let expected = if class == "good" { n / 2 } else { n / period };
        assert_eq!(*times, expected, "{class}");
        assert!(
            OUTCOMES.iter().any(|(known, _)| known == class),
            "no expected outcome for class {class}"
        );
    }
}

fn assert_classified(result: &Value, counts: &BTreeMap<String, u64>, n: u64) {
    let outcomes = &result["outcomes"];
    for (outcome, seen) in outcomes.as_object().unwrap() {
        if !outcome.starts_with("status_") {
            assert_eq!(
                seen.as_u64().unwrap(),
                expected_count(counts, outcome),
                "{outcome}: {outcomes}"
            );
        }
    }
    assert_eq!(outcomes["status_1xx"].as_u64().unwrap(), 2 * counts["informational"]);
    assert_eq!(outcomes["status_5xx"].as_u64().unwrap(), counts["status_500"]);
    assert_eq!(result["connections"]["unsolicited"].as_u64().unwrap(), counts["unsolicited"]);
    let timeouts = &result["timeouts"];
    let timed_out = |class: &str| timeouts[class].as_u64().unwrap_or_default();
    assert_eq!(
        (timed_out("nothing"), timed_out("part_of_body")),
        (counts["silent"], counts["stalls"])
    );
    if counts["stalls"] > 0 {
        assert_eq!(
            (timed_out("example_bytes"), timed_out("example_length")),
            (5, 13),
            "{timeouts}"
        );
    }
    assert_named(result, counts);
    assert_books(result, n);
    assert_eq!(total(outcomes), n);
}

fn assert_named(result: &Value, counts: &BTreeMap<String, u64>) {
    let kinds = &result["protocol_errors"];
    for (name_part, classes) in KINDS {
        let expected: u64 = classes.iter().map(|class| counts[*class]).sum();
        assert_eq!(sum_by_name(kinds, name_part), expected, "{name_part}: {kinds}");
    }
    assert_eq!(
        sum_by_name(&result["unexpected"], "content-type"),
        counts["wrong_header"],
        "{}",
        result["unexpected"]
    );
}

fn sum_by_name(kinds: &Value, name_part: &str) -> u64 {
    let counts = kinds.as_object().unwrap().iter();
    counts.filter(|(name, _)| name.contains(name_part)).map(|(_, n)| n.as_u64().unwrap()).sum()
}

fn total(outcomes: &Value) -> u64 {
    let counts = outcomes.as_object().unwrap().iter();
    counts.filter(|(name, _)| !name.starts_with("status_")).map(|(_, n)| n.as_u64().unwrap()).sum()
}

fn assert_books(result: &Value, n: u64) {
    let books = |key: &str| result["exchanges"][key].as_u64().unwrap();
    assert_eq!(books("scheduled"), n);
    assert_eq!(books("scheduled"), books("started") + books("dropped"));
    assert_eq!(books("started"), books("completed") + books("failed") + books("in_flight_at_end"));
    assert_eq!(books("in_flight_at_end"), 0);
    let codes: Vec<&str> =
        result["caveats"].as_array().unwrap().iter().map(|c| c["code"].as_str().unwrap()).collect();
    assert!(!codes.contains(&"books") && !codes.contains(&"littles_law"), "{codes:?}");
}
