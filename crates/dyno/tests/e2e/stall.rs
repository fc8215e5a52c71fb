//! A server that stalls cannot hide it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::drive::{DYNO, Place, Server};

/// An h2c server is stopped for 1.2 s under a time-out of 1 s. One request on each connection times out and takes its neighbours
/// with it: a good tenth of all requests get no answer, and nothing about that may look like a quick server.
#[test]
fn a_stall_longer_than_the_time_out_is_in_the_percentiles() {
    let place = Place::new();
    let server = Server::streams(&[]);
    let url = server.url("/plaintext");
    let arguments = ["load", &url, "--protocol", "h2c", "-c", "16", "-m", "100", "-r", "1000", "-d", "8s"];
    let mut command = place.command(Path::new(DYNO));
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
        let of = |name: &str| number(&format!("/{times}/{name}"));
        assert_eq!(of("count") + of("unanswered"), due);
        assert_eq!(of("count"), number("/outcomes/ok"));
        assert!(of("unanswered") > 400, "{}", result[times]);
        assert!(result[times]["p99"].is_null(), "{}", result[times]);
        assert!(result[times]["longest_wait"].as_f64().unwrap() > 900_000.0, "{}", result[times]);
    }
    assert!(number("/outcomes/cancelled") > number("/outcomes/timeout"), "{}", result["outcomes"]);
    assert!(result["in_flight"]["by_littles_law"].is_number());
}
