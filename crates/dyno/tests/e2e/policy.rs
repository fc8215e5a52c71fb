//! Tests the connections and requests of `dyno load`, as the server observes them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::drive::{Sandbox, Server, text};

const DRIVERS: [&str; 2] = ["uring", "epoll"];

fn load(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let output = sandbox.dyno(&[&["load"], arguments, &["--format", "json"]].concat());
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
}

fn server_counts(server: &Server) -> Value {
    let stream = std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let response = dyno_contract::client::get(stream, "/counts", Duration::from_secs(60)).unwrap();
    serde_json::from_slice(&response.body).unwrap()
}

#[test]
fn mix_keeps_proportions_and_is_reported_by_name() {
    for driver in DRIVERS {
        let sandbox = Sandbox::new();
        let server = Server::broken(&[]);
        let url = format!("http://127.0.0.1:{}", server.port);
        let mix = [
            "--request",
            "75 GET /only/good/{seq}",
            "--request",
            "25 POST /only/wrong_body/1 {\"n\":{seq}}",
        ];
        let result = load(
            &sandbox,
            &[
                &[url.as_str(), "-n", "4000", "--expect-body", "Hello, World!", "--driver", driver],
                &mix[..],
            ]
            .concat(),
        );
        let counts = server_counts(&server);
        let (good, wrong) =
            (counts["good"].as_u64().unwrap(), counts["wrong_body"].as_u64().unwrap());
        assert_eq!(good + wrong, 4000);
        // The standard deviation of the count is 27.
        assert!((850..1150).contains(&wrong), "{wrong} of 4,000");
        assert_eq!(result["outcomes"]["ok"], good);
        assert_eq!(result["outcomes"]["unexpected_body"], wrong);
        let requests = result["requests"].as_array().unwrap();
        assert_eq!(requests[0]["name"], "GET /only/good/{seq}");
        assert_eq!(requests[0]["outcomes"]["ok"], good);
        assert_eq!(requests[1]["outcomes"]["unexpected_body"], wrong);
        assert_eq!(requests[0]["response_time_us"]["count"], good);
    }
}

#[test]
fn expectations_are_fully_checked_before_load() {
    let sandbox = Sandbox::new();
    let server = Server::broken(&[]);
    let url = format!("http://127.0.0.1:{}/only/good/1", server.port);
    let output = sandbox.dyno(&["load", &url, "-n", "10", "--expect-contains", "Wurld"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("the body does not contain \"Wurld\""), "{}", text(&output));
    assert_eq!(
        server_counts(&server)["requests"],
        1,
        "only the check before the load sent a request"
    );
    let result =
        load(&sandbox, &[&url, "-n", "1000", "--expect-contains", "World", "--check-one-in", "10"]);
    assert_eq!(result["outcomes"]["ok"], 1000);
    let checked = result["checked"].as_u64().unwrap();
    // The standard deviation of the count is 9.5.
    assert!((50..150).contains(&checked), "{checked} of 1,000");
}

#[test]
fn ramped_connections_serve_requested_number() {
    for driver in DRIVERS {
        let sandbox = Sandbox::new();
        let server = Server::broken(&[]);
        let url = format!("http://127.0.0.1:{}/only/good/1", server.port);
        let result = load(
            &sandbox,
            &[&url, "-n", "200", "-c", "4", "--requests-per-connection", "10", "--driver", driver],
        );
        assert_eq!(result["outcomes"]["ok"], 200);
        // The last connection of each of the four slots may have served fewer requests.
        let opened = result["connections"]["opened"].as_u64().unwrap();
        assert!((20..=23).contains(&opened), "{opened}");
        // The server also counts the readiness check's connection, and the connection of the client
        // that reads the counts.
        assert_eq!(server_counts(&server)["connections"], opened + 2);

        let server = Server::broken(&[]);
        let url = format!("http://127.0.0.1:{}/only/good/1", server.port);
        let ramp = [
            "-c",
            "10",
            "--ramp-connections",
            "500ms",
            "-d",
            "800ms",
            "--interval",
            "100ms",
            "-r",
            "200",
        ];
        let result = load(&sandbox, &[&[url.as_str(), "--driver", driver], &ramp[..]].concat());
        let open: Vec<u64> = result["intervals"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| i["connections_open"].as_u64().unwrap())
            .collect();
        // The times at which they are opened are tested in the simulated world:
        // `ramp_opens_connections_one_by_one`.
        assert!(open.is_sorted_by(|a, b| a <= b || *b == 0), "{open:?}");
        assert_eq!(open.iter().max(), Some(&10), "{open:?}");
        assert_eq!(result["connections"]["established"], 10);
        assert_eq!(result["exchanges"]["scheduled"], 160);
        assert_eq!(result["outcomes"]["ok"], 160);
    }
}

#[test]
fn rate_ramp_and_trace_are_followed() {
    let sandbox = Sandbox::new();
    let server = Server::broken(&[]);
    let url = format!("http://127.0.0.1:{}/only/good/1", server.port);
    let result = load(&sandbox, &[&url, "-r", "0..1000", "-d", "1s"]);
    assert_eq!(result["exchanges"]["scheduled"], 500);
    assert_eq!(result["config"]["rate_over_time"][0]["to_rate"], 1000.0);
    let times: String = (0..50).map(|i| format!("{}\n", f64::from(i) * 0.01)).collect();
    fs::write(sandbox.path().join("trace"), times).unwrap();
    let result = load(&sandbox, &[&url, "--trace", "trace"]);
    assert_eq!(result["exchanges"]["scheduled"], 50);
    assert_eq!(result["config"]["arrival"], "trace");
    let more = load(&sandbox, &[&url, "--trace", "trace", "-n", "500"]);
    assert_eq!(more["exchanges"]["completed"], 50, "a trace that runs out ends the load");
    fs::write(sandbox.path().join("one"), "7\n").unwrap();
    let single = load(&sandbox, &[&url, "--trace", "one"]);
    assert_eq!(
        single["exchanges"]["completed"], 1,
        "a request that is due at the very end is sent"
    );
    let gaps = &result["gaps"];
    assert!(gaps["intended_cv"].as_f64().unwrap() < 0.01, "{gaps}");
    assert_eq!(gaps["intended_us"]["count"], 49);
}

#[test]
fn unix_socket_and_resolve_options_work() {
    for driver in DRIVERS {
        let sandbox = Sandbox::new();
        let path = sandbox.path().join("server.sock");
        let served = Arc::new(AtomicU64::new(0));
        serve_unix(UnixListener::bind(&path).unwrap(), Arc::clone(&served));
        let socket = path.display().to_string();
        let result = load(
            &sandbox,
            &["http://example.test/x", "--unix-socket", &socket, "-n", "300", "--driver", driver],
        );
        assert_eq!(result["outcomes"]["ok"], 300);
        assert_eq!(served.load(Ordering::SeqCst), 300);
        assert!(result["tcp"]["segments_in"].is_null(), "a Unix socket has no segments");
    }
    let sandbox = Sandbox::new();
    let server = Server::broken(&[]);
    let url = format!("http://example.test:{}/only/good/1", server.port);
    let resolve = format!("example.test:{}:127.0.0.1", server.port);
    let result =
        load(&sandbox, &[&url, "-n", "10", "--resolve", &resolve, "--source", "127.0.0.9"]);
    assert_eq!(result["outcomes"]["ok"], 10);
}

/// Responds to every request of every connection, and counts them.
fn serve_unix(listener: UnixListener, served: Arc<AtomicU64>) {
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let served = Arc::clone(&served);
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    assert!(
                        buffer[..n].ends_with(b"\r\n\r\n"),
                        "each read has one complete request"
                    );
                    served.fetch_add(1, Ordering::SeqCst);
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
                }
            });
        }
    });
}

#[test]
fn requests_of_other_tools_are_imported() {
    let sandbox = Sandbox::new();
    let server = Server::broken(&[]);
    let url = format!("http://127.0.0.1:{}/only/good", server.port);
    let har = serde_json::json!({"log": {"entries": [
        {"request": {"method": "GET", "url": format!("{url}/1"), "headers": []}},
        {"request": {"method": "GET", "url": format!("{url}/1"), "headers": []}},
        {"request": {"method": "POST", "url": format!("{url}/2"), "headers": [],
                     "postData": {"mimeType": "text/plain", "text": "hi"}}},
    ]}});
    fs::write(sandbox.path().join("session.har"), har.to_string()).unwrap();
    fs::write(
        sandbox.path().join("targets"),
        format!("GET {url}/1\nX-A: b\n\nPOST {url}/2\n@body\n"),
    )
    .unwrap();
    fs::write(sandbox.path().join("body"), "hello").unwrap();
    fs::write(sandbox.path().join("urls"), format!("{url}/1\n{url}/2\n{url}/3\n")).unwrap();
    for (file, requests) in [("session.har", 2), ("targets", 2), ("urls", 3)] {
        // The target names a file with a body.
        let result = load(&sandbox, &["--import", file, "--files", ".", "-n", "30"]);
        assert_eq!(result["outcomes"]["ok"], 30, "{file}");
        assert_eq!(result["requests"].as_array().unwrap().len(), requests, "{file}");
    }
    let result = load(&sandbox, &["--import", "session.har", "-n", "3"]);
    assert_eq!(result["requests"][0]["weight"], 2);
    let command = format!("curl '{url}/1' -H 'Accept: */*' --data-raw '{{\"a\":1}}'");
    let result = load(&sandbox, &["--curl", &command, "-n", "5"]);
    assert_eq!(
        (&result["outcomes"]["ok"], &result["config"]["method"]),
        (&5.into(), &"POST".into())
    );
}

#[test]
fn imports_send_recorded_requests_and_list_changes() {
    let sandbox = Sandbox::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/post", listener.local_addr().unwrap());
    let har = serde_json::json!({"log": {"entries": [{"request": {
        "method": "POST", "url": url,
        "headers": [
            {"name": "Content-Type", "value": "application/x-www-form-urlencoded"},
            {"name": "TE", "value": "trailers"}
        ],
        "postData": {"mimeType": "application/x-www-form-urlencoded",
                     "params": [{"name": "field%5B1%5D", "value": "value%5B1%5D"}]}}}]}});
    fs::write(sandbox.path().join("form.har"), har.to_string()).unwrap();
    let recorder = std::thread::spawn(move || {
        // A connection may be opened without a request.
        for stream in listener.incoming() {
            let (mut stream, mut request) = (stream.unwrap(), Vec::new());
            let mut buffer = [0; 4096];
            while !request.ends_with(b"%5D") {
                match stream.read(&mut buffer).unwrap() {
                    0 => break,
                    n => request.extend_from_slice(&buffer[..n]),
                }
            }
            if !request.is_empty() {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
                return String::from_utf8(request).unwrap();
            }
        }
        String::new()
    });
    let output =
        sandbox.dyno(&["load", "--import", "form.har", "-n", "1", "-c", "1", "--format", "json"]);
    let request = recorder.join().unwrap();
    assert!(
        request.ends_with("\r\n\r\nfield%5B1%5D=value%5B1%5D") && !request.contains("TE:"),
        "{request}"
    );
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    for line in [
        "import: 1 headers omitted",
        ": te",
        "import: 1 bodies made from postData.params",
        "(assumed to be encoded)",
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kinds: Vec<&Value> = result["config"]["import_changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| &change["kind"])
        .collect();
    assert_eq!(kinds, ["connection-header", "form-params"]);
}

/// Memory stays proportional to the number of connections, and every connection is opened.
#[test]
fn ten_thousand_connections_are_held() {
    let limit = dyno_launch::raise_open_files();
    if limit < 10_500 {
        crate::drive::not_run(&format!(
            "10,000 connections: only {limit} files may be open; raise it with `ulimit -n`"
        ));
        return;
    }
    let sandbox = Sandbox::new();
    let null = Server::null();
    let url = null.url("/plaintext");
    for driver in DRIVERS {
        let load_with = |connections: &str| {
            load(
                &sandbox,
                &[
                    &url,
                    "-c",
                    connections,
                    "-r",
                    "1000",
                    "-d",
                    "2s",
                    "--spin",
                    "never",
                    "--driver",
                    driver,
                ],
            )
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
        assert!(
            bytes_per_connection < 1024,
            "{driver}: {bytes_per_connection} bytes per connection"
        );
    }
}

/// The server listens but never accepts a connection, so its queue fills. The kernel completes the
/// first few connects, and drops the others. These must be distinguished from completed and refused
/// ones.
#[test]
fn unaccepted_connects_time_out() {
    for driver in DRIVERS {
        let sandbox = Sandbox::new();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        shorten_queue(&listener);
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let limits =
            ["--connect-timeout", "200ms", "--timeout", "400ms", "--first-byte-timeout", "300ms"];
        let arguments =
            [&[url.as_str(), "-n", "8", "-c", "8", "--driver", driver][..], &limits[..]].concat();
        let result = load(&sandbox, &arguments);
        let outcome_count = |outcome: &str| result["outcomes"][outcome].as_u64().unwrap();
        assert!(
            outcome_count("connect_timeout") > 0 && outcome_count("timeout_first_byte") > 0,
            "{}",
            result["outcomes"]
        );
        assert_eq!(
            outcome_count("connect_timeout") + outcome_count("timeout_first_byte"),
            8,
            "{}",
            result["outcomes"]
        );
        assert_eq!(result["exchanges"]["failed"], 8);
    }
}

/// Shortens the queue of new connections, by another call of `listen`.
fn shorten_queue(listener: &std::net::TcpListener) {
    use std::os::fd::AsRawFd as _;
    // SAFETY: no memory is involved.
    #[allow(unsafe_code)]
    let ok = unsafe { libc::listen(listener.as_raw_fd(), 1) };
    assert_eq!(ok, 0);
}

/// Responds once on each of this number of connections, and returns their source addresses.
fn source_addresses(connections: usize, arguments: &[&str]) -> Vec<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let answer = |_| {
            let (mut stream, from) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            from.ip().to_string()
        };
        (0..connections).map(answer).collect()
    });
    let (sandbox, n) = (Sandbox::new(), connections.to_string());
    let result = load(&sandbox, &[&[url.as_str(), "-c", "1", "-n", &n], arguments].concat());
    assert_eq!(result["outcomes"]["ok"], connections, "{result:#}");
    server.join().unwrap()
}

#[test]
fn closed_connections_use_several_addresses() {
    let once = ["--requests-per-connection", "1"];
    for driver in DRIVERS {
        let options = ["--driver", driver, "--requests-per-connection", "1"];
        assert_eq!(
            source_addresses(3, &options),
            ["127.0.0.1", "127.0.0.2", "127.0.0.3"],
            "{driver}"
        );
    }
    assert_eq!(
        source_addresses(2, &[&once[..], &["--source", "127.0.0.9"]].concat()),
        ["127.0.0.9"; 2]
    );
    assert_eq!(
        source_addresses(1, &[]),
        ["127.0.0.1"],
        "persistent connections need only one address"
    );
}
