//! Tests HTTP/2 with a server of another implementation, whose counts must match dyno's.

use std::path::Path;

use serde_json::Value;

use crate::drive::{Sandbox, Server, text};

fn load(sandbox: &Sandbox, url: &str, arguments: &[&str]) -> (i32, Value) {
    let mut all = vec!["load", url, "--format", "json", "--expect-body", "Hello, World!"];
    all.extend(arguments);
    let output = sandbox.dyno(&all);
    let result =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output)));
    (output.status.code().unwrap(), result)
}

fn number(result: &Value, pointer: &str) -> u64 {
    result
        .pointer(pointer)
        .and_then(Value::as_u64)
        .unwrap_or_else(|| panic!("no {pointer} in {result}"))
}

fn codes(result: &Value) -> Vec<&str> {
    result["caveats"].as_array().unwrap().iter().filter_map(|c| c["code"].as_str()).collect()
}

/// Asserts that every request had a correct response, and that the server counted the same number.
fn assert_all_correct(result: &Value, server: &Server, context: &str) {
    let completed = number(result, "/exchanges/completed");
    assert_eq!(completed, server.answered().0, "{context}");
    assert_eq!(completed, number(result, "/outcomes/ok"), "{context}");
    assert_eq!(completed, number(result, "/exchanges/scheduled"), "{context}");
    assert_eq!(result["protocol_errors"], serde_json::json!({}), "{context}");
    assert_eq!(result["http2"]["resets_out"], serde_json::json!({}), "{context}");
}

#[test]
#[ignore = "long: runs in make nightly"]
fn completed_requests_match_server_count() {
    let shapes: [&[&str]; 6] = [
        &["-c", "4", "-m", "10", "-n", "5000"],
        &["-c", "1", "-m", "100", "-d", "500ms"],
        &["-c", "16", "-d", "500ms"],
        &["-c", "4", "-m", "8", "--requests-per-connection", "100", "-n", "3000"],
        &["-c", "4", "-m", "4", "-r", "2000", "--arrival", "poisson", "-d", "500ms"],
        &["-c", "6", "-m", "3", "-t", "2", "-n", "4001"],
    ];
    for driver in ["uring", "epoll"] {
        for shape in shapes {
            let sandbox = Sandbox::new();
            let server = Server::streams(&[]);
            let arguments = [shape, &["--protocol", "h2c", "--driver", driver]].concat();
            let (_, result) = load(&sandbox, &server.url("/plaintext"), &arguments);
            assert_all_correct(&result, &server, &format!("{driver} {shape:?}"));
            let frames = &result["http2"]["frames_in"];
            // The server sends HEADERS and one DATA for each, and the last interval may have begun
            // after some of them.
            assert!(number(frames, "/HEADERS") > 0 && number(frames, "/DATA") > 0, "{frames}");
        }
    }
}

#[test]
fn http2_over_tls_is_negotiated_by_alpn() {
    let sandbox = Sandbox::new();
    let (cert, key) = certificate(sandbox.path());
    for driver in ["uring", "epoll"] {
        for protocol in ["h2", "auto"] {
            let server = Server::streams(&["--cert", &cert, "--key", &key]);
            let url = format!("https://localhost:{}/plaintext", server.port);
            let arguments = [
                "--protocol",
                protocol,
                "--driver",
                driver,
                "--cacert",
                &cert,
                "-c",
                "4",
                "-m",
                "10",
                "-n",
                "5000",
            ];
            let (_, result) = load(&sandbox, &url, &arguments);
            assert_all_correct(&result, &server, &format!("{driver} {protocol}"));
            assert_eq!(result["tls"]["alpn"], "h2");
            assert_eq!(number(&result, "/http2/connections"), 4);
        }
    }
}

#[test]
fn requests_after_goaway_are_sent_again() {
    for driver in ["uring", "epoll"] {
        let sandbox = Sandbox::new();
        let server = Server::streams(&["--go-away-every", "100"]);
        let arguments =
            ["--protocol", "h2c", "--driver", driver, "-c", "4", "-m", "10", "-n", "5000"];
        let (_, result) = load(&sandbox, &server.url("/plaintext"), &arguments);
        assert_all_correct(&result, &server, driver);
        assert!(number(&result, "/connections/opened") > 40, "{}", result["connections"]);
        assert!(number(&result, "/http2/goaways/NO_ERROR") > 40, "{}", result["http2"]);
    }
}

#[test]
fn refused_streams_are_retried_and_resets_counted() {
    let sandbox = Sandbox::new();
    let server = Server::streams(&["--refuse-every", "10"]);
    let arguments = ["--protocol", "h2c", "-c", "2", "-m", "5", "-n", "2000"];
    let (_, result) = load(&sandbox, &server.url("/plaintext"), &arguments);
    assert_all_correct(&result, &server, "refused");
    let retried = number(&result, "/http2/retried");
    assert_eq!(retried, number(&result, "/http2/streams_refused"));
    // One in ten of all streams, including those that were sent again.
    assert!((200..=230).contains(&retried), "{retried}");

    let server = Server::streams(&["--reset-every", "10"]);
    let (_, result) = load(&sandbox, &server.url("/plaintext"), &arguments);
    assert_eq!(number(&result, "/outcomes/stream_reset"), 200);
    assert_eq!(number(&result, "/http2/resets_in/INTERNAL_ERROR"), 200);
    assert_eq!(number(&result, "/outcomes/ok"), server.answered().0);
    assert_eq!(number(&result, "/connections/opened"), 2);
}

#[test]
fn streams_do_not_exceed_server_limit() {
    let sandbox = Sandbox::new();
    let server = Server::streams(&["--max-streams", "3"]);
    let arguments = ["--protocol", "h2c", "-c", "2", "-m", "10", "-n", "2000"];
    let (_, result) = load(&sandbox, &server.url("/plaintext"), &arguments);
    assert_all_correct(&result, &server, "few streams");
    assert_eq!(
        result["http2"]["streams"],
        serde_json::json!({"asked": 10, "granted": 3, "most": 3})
    );
    assert!(codes(&result).contains(&"streams_not_granted"), "{}", result["caveats"]);
}

#[test]
fn bodies_wait_for_flow_control_windows() {
    let sandbox = Sandbox::new();
    let body = sandbox.path().join("body");
    std::fs::write(&body, vec![b'x'; 100_000]).unwrap();
    let server = Server::streams(&["--window", "4096"]);
    let body = body.display().to_string();
    let arguments = ["--protocol", "h2c", "-c", "2", "-m", "4", "-n", "200", "--body-file", &body];
    let (_, result) = load(&sandbox, &server.url("/"), &arguments);
    assert_all_correct(&result, &server, "bodies");
    assert_eq!(server.answered().1, 200 * 100_000);
    assert!(number(&result, "/http2/window_stall_us/count") >= 200, "{}", result["http2"]);
}

#[test]
fn small_client_windows_lose_no_data() {
    let sandbox = Sandbox::new();
    let server = Server::streams(&[]);
    let arguments = [
        "--protocol",
        "h2c",
        "-c",
        "2",
        "-m",
        "8",
        "-n",
        "20000",
        "--window-bits",
        "10",
        "--connection-window-bits",
        "16",
        "--header-table-size",
        "0",
    ];
    let (_, result) = load(&sandbox, &server.url("/plaintext"), &arguments);
    assert_all_correct(&result, &server, "small windows");
    // 13 bytes of body, half a window of 65,535 at a time.
    let updates = number(&result, "/http2/frames_out/WINDOW_UPDATE");
    assert!(updates <= 2 * (20_000 * 13 / 65_535 + 2), "{updates}");
}

/// If the server chooses HTTP/1.1, the load uses it, and the result reports the fallback.
#[test]
fn protocol_fallback_is_reported() {
    let sandbox = Sandbox::new();
    let server = Server::start(&[]);
    let (status, result) =
        load(&sandbox, &server.url("/plaintext"), &["--protocol", "h2c-upgrade", "-n", "200"]);
    assert_eq!((status, &result["valid"]), (1, &Value::Bool(false)));
    assert_eq!(number(&result, "/outcomes/ok"), 200);
    assert_eq!(number(&result, "/http2/fallen_back"), number(&result, "/connections/opened"));
    // Other caveats are possible, because the generator may be busy in so short a load.
    assert!(codes(&result).contains(&"fell_back"), "{}", result["caveats"]);

    // With prior knowledge, a response in HTTP/1.1 is a protocol error.
    let (status, result) =
        load(&sandbox, &server.url("/plaintext"), &["--protocol", "h2c", "-n", "20"]);
    assert_eq!(status, 1);
    assert_eq!(number(&result, "/outcomes/ok"), 0);
}

fn certificate(folder: &Path) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    std::fs::write(path("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(path("key.pem"), made.signing_key.serialize_pem()).unwrap();
    (path("cert.pem"), path("key.pem"))
}
