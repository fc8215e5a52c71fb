//! Tests that a stop of the generator is visible in the results.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::drive::{DYNO, Sandbox, Server, send_signal};

/// Runs a closed loop of two seconds. The generator is stopped for one second.
fn stopped_for_a_second() -> Value {
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
    send_signal(load.id(), libc::SIGSTOP);
    std::thread::sleep(Duration::from_secs(1));
    send_signal(load.id(), libc::SIGCONT);
    let output = load.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn caveat<'a>(result: &'a Value, code: &str) -> Option<&'a Value> {
    result["caveats"].as_array().unwrap().iter().find(|caveat| caveat["code"] == code)
}

#[test]
fn stopped_generator_makes_load_invalid() {
    let result = stopped_for_a_second();
    let stopped =
        caveat(&result, "generator_stopped").unwrap_or_else(|| panic!("{}", result["caveats"]));
    assert_eq!(stopped["severity"], "invalid");
    assert_eq!(result["valid"], false);
    assert!(caveat(&result, "stalled").is_none(), "the server is blamed: {}", result["caveats"]);
}
