//! Tests that many connections are held.

use serde_json::Value;

use crate::drive::{Sandbox, Server, not_run, text};

/// Memory stays proportional to the number of connections, and every connection is opened.
#[test]
fn ten_thousand_connections_are_held() {
    let limit = dyno_launch::raise_open_files();
    if limit < 10_500 {
        not_run(&format!(
            "10,000 connections: only {limit} files may be open; raise it with `ulimit -n`"
        ));
        return;
    }
    let sandbox = Sandbox::new();
    let null = Server::null();
    let url = null.url("/plaintext");
    let common = ["load", &url, "-r", "4000", "-d", "500ms", "--spin", "never", "--format", "json"];
    for driver in ["uring", "epoll"] {
        let load_with = |connections: &str| -> Value {
            let shape = ["-c", connections, "--driver", driver];
            let output = sandbox.dyno(&[&common[..], &shape].concat());
            serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
        };
        let (small, large) = (load_with("64"), load_with("10000"));
        assert_eq!(
            large["connections"]["established"], 10_000,
            "{driver}: {}",
            large["connections"]
        );
        assert_eq!(
            (&large["exchanges"]["completed"], &large["exchanges"]["failed"]),
            (&2000.into(), &0.into())
        );
        let memory = |result: &Value| result["client"]["rss_peak_bytes"].as_u64().unwrap();
        let bytes_per_connection = (memory(&large) - memory(&small)) / 9936;
        // A buffer per connection takes 4 kB or more.
        assert!(
            bytes_per_connection < 2048,
            "{driver}: {bytes_per_connection} bytes per connection"
        );
    }
}
