//! Tests HTTP/2 with a server of another implementation, whose counts must match dyno's.

use std::path::Path;

use serde_json::{Value, json};

use crate::drive::{Sandbox, Server, text};

const DRIVERS: [&str; 2] = ["uring", "epoll"];

/// Loads a server with both drivers.
fn load(server: &[&str], load: &[&str], check: impl Fn(&Value, &Server)) {
    DRIVERS.iter().for_each(|driver| load_with(driver, server, load, &check));
}

/// Loads a server with a driver. Asserts that every request had a response, and that the server
/// counted the same number.
fn load_with(driver: &str, server: &[&str], load: &[&str], check: impl Fn(&Value, &Server)) {
    let sandbox = Sandbox::new();
    let server = Server::streams(server);
    let url = match load.contains(&"--cacert") {
        true => format!("https://localhost:{}/plaintext", server.port),
        false => server.url("/plaintext"),
    };
    let options = ["--format", "json", "--expect-body", "Hello, World!", "--driver", driver];
    let output = sandbox.dyno(&[&["load", &*url], &options[..], load].concat());
    let result: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
    assert_eq!(number(&result, "/outcomes/ok"), server.answered().0, "{driver} {load:?}");
    let [started, scheduled] =
        ["started", "scheduled"].map(|key| number(&result["exchanges"], &format!("/{key}")));
    assert_eq!(started, scheduled, "{driver} {load:?}");
    assert_eq!(result["protocol_errors"], json!({}), "{driver} {load:?}");
    assert_eq!(result["http2"]["resets_out"], json!({}), "{driver} {load:?}");
    check(&result, &server);
}

fn number(result: &Value, pointer: &str) -> u64 {
    let value = result.pointer(pointer).and_then(Value::as_u64);
    value.unwrap_or_else(|| panic!("no {pointer} in {result}"))
}

/// Asserts that every request of a load had a correct response.
fn assert_all_correct(result: &Value) {
    assert_eq!(number(result, "/outcomes/ok"), number(result, "/exchanges/scheduled"), "{result}");
}

const H2C: [&str; 2] = ["--protocol", "h2c"];

#[test]
fn requests_and_limits_match_other_implementation() {
    assert_shapes_are_counted();
    assert_ended_streams_and_connections_are_counted();
    assert_limits_are_kept();
    assert_alpn_chooses_http2();
}

/// The drivers take turns, because the other loads have both.
fn assert_shapes_are_counted() {
    let shapes = [
        &["-c", "4", "-m", "10", "-n", "5000"][..],
        &["-c", "1", "-m", "100", "-d", "500ms"],
        &["-c", "16", "-d", "500ms"],
        &["-c", "4", "-m", "8", "--requests-per-connection", "100", "-n", "3000"],
        &["-c", "4", "-m", "4", "-r", "2000", "--arrival", "poisson", "-d", "500ms"],
        &["-c", "6", "-m", "3", "-t", "2", "-n", "4001"],
    ];
    for (shape, driver) in shapes.into_iter().zip(DRIVERS.into_iter().cycle()) {
        load_with(driver, &[], &[&H2C, shape].concat(), |result, _| {
            assert_all_correct(result);
            let frames = &result["http2"]["frames_in"];
            // The server sends HEADERS and one DATA for each, and the last interval may have begun
            // after some of them.
            assert!(number(frames, "/HEADERS") > 0 && number(frames, "/DATA") > 0, "{frames}");
        });
    }
}

fn assert_ended_streams_and_connections_are_counted() {
    let shape = ["--protocol", "h2c", "-c", "2", "-m", "5", "-n", "2000"];
    load(&["--go-away-every", "100"], &shape, |result, _| {
        assert_all_correct(result);
        assert!(number(result, "/connections/opened") >= 16, "{}", result["connections"]);
        assert!(number(result, "/http2/goaways/NO_ERROR") >= 16, "{}", result["http2"]);
    });
    load(&["--refuse-every", "10"], &shape, |result, _| {
        assert_all_correct(result);
        let retried = number(result, "/http2/retried");
        assert_eq!(retried, number(result, "/http2/streams_refused"));
        // One in ten of all streams, including those that were sent again.
        assert!((200..=230).contains(&retried), "{retried}");
    });
    load(&["--reset-every", "10"], &shape, |result, _| {
        assert_eq!(number(result, "/outcomes/stream_reset"), 200);
        assert_eq!(number(result, "/http2/resets_in/INTERNAL_ERROR"), 200);
        assert_eq!(number(result, "/connections/opened"), 2);
    });
}

fn assert_limits_are_kept() {
    let sandbox = tempfile::tempdir().unwrap();
    let shape = ["--protocol", "h2c", "-c", "2", "-m", "10"];
    load(&["--max-streams", "3"], &[&shape[..], &["-n", "2000"]].concat(), |result, _| {
        assert_all_correct(result);
        let streams = json!({"asked": 10, "granted": 3, "most": 3});
        assert_eq!(result["http2"]["streams"], streams);
    });
    let body = sandbox.path().join("body");
    std::fs::write(&body, vec![b'x'; 100_000]).unwrap();
    let body = ["-n", "200", "--body-file", body.to_str().unwrap()];
    load(&["--window", "4096"], &[&shape[..], &body].concat(), |result, server| {
        assert_all_correct(result);
        assert_eq!(server.answered().1, 200 * 100_000);
        assert!(number(result, "/http2/window_stall_us/count") >= 200, "{}", result["http2"]);
    });
    let windows = ["--window-bits", "10", "--connection-window-bits", "16"];
    let table = ["-n", "20000", "--header-table-size", "0"];
    load(&[], &[&shape[..], &windows, &table].concat(), |result, _| {
        assert_all_correct(result);
        // 13 bytes of body, half a window of 65,535 at a time.
        let updates = number(result, "/http2/frames_out/WINDOW_UPDATE");
        assert!(updates <= 2 * (20_000 * 13 / 65_535 + 2), "{updates}");
    });
}

fn assert_alpn_chooses_http2() {
    let sandbox = tempfile::tempdir().unwrap();
    let (cert, key) = certificate(sandbox.path());
    for protocol in ["h2", "auto"] {
        let words =
            ["--protocol", protocol, "--cacert", &cert, "-c", "4", "-m", "10", "-n", "2000"];
        load(&["--cert", &cert, "--key", &key], &words, |result, _| {
            assert_all_correct(result);
            assert_eq!(result["tls"]["alpn"], "h2");
            assert_eq!(number(result, "/http2/connections"), 4);
        });
    }
}

fn certificate(folder: &Path) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    std::fs::write(path("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(path("key.pem"), made.signing_key.serialize_pem()).unwrap();
    (path("cert.pem"), path("key.pem"))
}
