//! Tests that a stall of the server is visible in the results.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::drive::{DYNO, Sandbox, Server, send_signal};

/// An h2c server is stopped for 1.2 s, with a time-out of 1 s. One request on each connection times
/// out, and the others on the connection are cancelled. More than a tenth of all requests get no
/// response, which percentiles must include.
#[test]
fn stall_above_timeout_is_in_percentiles() {
    let sandbox = Sandbox::new();
    let server = Server::streams(&[]);
    let url = server.url("/plaintext");
    let arguments =
        ["load", &url, "--protocol", "h2c", "-c", "16", "-m", "100", "-r", "1000", "-d", "8s"];
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(arguments).args(["--timeout", "1s", "--format", "json", "--no-tui"]);
    let load = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    while server.answered().0 < 1500 {
        std::thread::sleep(Duration::from_millis(5));
    }
    server.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(1200));
    server.signal(libc::SIGCONT);
    let output = load.wait_with_output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |pointer: &str| result.pointer(pointer).and_then(Value::as_u64).unwrap();
    let due = number("/exchanges/carried_in") + number("/exchanges/scheduled");
    assert_eq!(due, 8000);
    for times in ["response_time_us", "service_time_us"] {
        let value = |name: &str| number(&format!("/{times}/{name}"));
        assert_eq!(value("count") + value("unanswered"), due);
        assert_eq!(value("count"), number("/outcomes/ok"));
        assert!(value("unanswered") > 400, "{}", result[times]);
        assert!(result[times]["p99"].is_null(), "{}", result[times]);
        assert!(result[times]["longest_wait"].as_f64().unwrap() > 900_000.0, "{}", result[times]);
    }
    assert!(number("/outcomes/cancelled") > number("/outcomes/timeout"), "{}", result["outcomes"]);
    assert!(result["in_flight"]["by_littles_law"].is_number());
}

/// Runs a closed loop of two seconds. The server or the generator is stopped for one second.
fn stopped_for_a_second(is_server: bool) -> Value {
    let sandbox = Sandbox::new();
    let server = Server::streams(&[]);
    let url = server.url("/plaintext");
    let mut command = sandbox.command(Path::new(DYNO));
    command.args([
        "load",
        &url,
        "--protocol",
        "h2c",
        "-c",
        "4",
        "-d",
        "2s",
        "--format",
        "json",
        "--no-tui",
    ]);
    let load = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    while server.answered().0 < 50 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let signal =
        |signal| if is_server { server.signal(signal) } else { send_signal(load.id(), signal) };
    signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_secs(1));
    signal(libc::SIGCONT);
    let output = load.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn caveat<'a>(result: &'a Value, code: &str) -> Option<&'a Value> {
    result["caveats"].as_array().unwrap().iter().find(|caveat| caveat["code"] == code)
}

#[test]
fn stalled_server_in_closed_loop_is_reported() {
    let result = stopped_for_a_second(true);
    let stalled = caveat(&result, "stalled").unwrap_or_else(|| panic!("{}", result["caveats"]));
    assert!(stalled["evidence"]["longest_s"].as_f64().unwrap() > 0.8, "{stalled}");
    assert_eq!(stalled["evidence"]["in_flight"], 4, "{stalled}");
    assert!(stalled["evidence"]["estimated_open_loop_p99_us"].as_f64().unwrap() > 5e5, "{stalled}");
}

#[test]
fn stopped_generator_makes_load_invalid() {
    let result = stopped_for_a_second(false);
    let stopped =
        caveat(&result, "generator_stopped").unwrap_or_else(|| panic!("{}", result["caveats"]));
    assert_eq!(stopped["severity"], "invalid");
    assert_eq!(result["valid"], false);
    assert!(caveat(&result, "stalled").is_none(), "the server is blamed: {}", result["caveats"]);
}
