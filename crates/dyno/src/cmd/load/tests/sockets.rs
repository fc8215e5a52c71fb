//! Tests loads over real sockets, with counts that the server confirms.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use super::server::{OK, SmallServer, ok, serve_unix};
use super::*;
use crate::pipe::make_pipe;

fn count(result: &Value, pointer: &str) -> u64 {
    let value = result.pointer(pointer).and_then(Value::as_u64);
    value.unwrap_or_else(|| panic!("{pointer}: {result:#}"))
}

#[test]
fn completed_requests_match_server_count() {
    for driver in DRIVERS {
        for shape in [
            &["-c", "16", "-n", "5000"][..],
            &["-c", "16", "-d", "50ms"],
            &["-c", "4", "-p", "16", "-d", "50ms"],
            &["-c", "8", "--requests-per-connection", "7", "-d", "50ms"],
            &["-c", "8", "-r", "2000", "--arrival", "poisson", "-d", "100ms"],
            &["-c", "7", "-t", "2", "-n", "4001"],
        ] {
            let server = SmallServer::with_response(OK);
            let url = server.url("/");
            let words = [&[&*url, "--driver", driver, "--expect-body", "ok"], shape].concat();
            let (_, result) = load(&words);
            let completed = count(&result, "/exchanges/completed");
            assert_eq!(completed, server.requests().len() as u64, "{driver} {shape:?}");
            assert_eq!(completed, count(&result, "/outcomes/ok"), "{driver} {shape:?}");
            assert_eq!(completed, count(&result, "/exchanges/scheduled"), "{driver} {shape:?}");
            let opened = count(&result, "/connections/opened");
            assert_eq!(opened, server.sources().len() as u64, "{driver} {shape:?}");
            if let [.., "-n", n] = shape {
                assert_eq!(completed.to_string(), *n, "{driver} {shape:?}");
            }
        }
    }
}

#[test]
fn mix_has_outcomes_by_request() {
    let server = SmallServer::start("127.0.0.1", |request| match request.starts_with("GET ") {
        true => OK.into(),
        false => ok("", b"wrong"),
    });
    let mix = ["--request", "75 GET /{seq}", "--request", "25 POST /1 {\"n\":{seq}}"];
    let url = server.url("/");
    let (_, result) = load(&[&[&*url, "-n", "400", "--expect-body", "ok"], &mix[..]].concat());
    let wrong = server.requests().iter().filter(|request| request.starts_with("POST ")).count();
    assert_eq!(count(&result, "/outcomes/unexpected_body"), wrong as u64);
    assert_eq!(count(&result, "/requests/1/outcomes/unexpected_body"), wrong as u64);
    assert_eq!(count(&result, "/requests/0/outcomes/ok"), 400 - wrong as u64);
}

/// The server sends two responses, and then announces a close.
#[test]
fn responses_after_close_are_not_counted() {
    let server = SmallServer::start("127.0.0.1", |_| ok("Connection: close\r\n", b"ok").repeat(2));
    let (exit, result) = load(&[&server.url("/"), "-n", "50", "-c", "2"]);
    assert_eq!((exit, count(&result, "/connections/unsolicited")), (Exit::Invalid, 50));
}

/// The server switches to HTTP/2 and responds in one write.
#[test]
fn request_of_upgrade_counts_for_its_connection() {
    let server = SmallServer::start("127.0.0.1", |request| {
        if !request.starts_with("GET ") {
            return Vec::new();
        }
        let switch =
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        // HEADERS with the end of stream 1; the field is `:status: 200`.
        let response = [0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88];
        [&switch[..], &settings, &response].concat()
    });
    let options = ["--protocol", "h2c-upgrade", "-n", "20", "-c", "1"];
    let limits = ["--requests-per-connection", "1", "--timeout", "500ms"];
    let (_, result) = load(&[&[&*server.url("/")], &options[..], &limits].concat());
    let counts = ["/outcomes/ok", "/connections/opened"].map(|key| count(&result, key));
    assert_eq!(counts, [20, 20], "{result:#}");
}

#[test]
fn http1_response_over_http2_is_protocol_error() {
    let server = SmallServer::with_response(OK);
    let (exit, result) = load(&[&server.url("/"), "--protocol", "h2c", "-n", "20"]);
    assert_eq!((exit, count(&result, "/outcomes/ok")), (Exit::Invalid, 0));
    assert_eq!(count(&result, "/outcomes/protocol_error"), 20);
}

#[test]
fn websocket_upgrade_is_reported() {
    let response =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    let server = SmallServer::with_response(response);
    let url = server.url("/");
    let upgrade = ["-H", "Upgrade: websocket", "-H", "Connection: Upgrade"];
    let requested = [&[&*url, "-n", "4", "-c", "2"], &upgrade[..]].concat();
    let note = requests::note_on_upgrade(&prepare(&requested).workload).unwrap();
    assert!(note.contains("does not switch to WebSocket"), "{note}");
    for (words, reason) in
        [(&requested[..], "as requested"), (&[&url, "-n", "4", "-c", "2"], "did not ask for it")]
    {
        let (_, result) = load(words);
        let errors = kinds(&result["protocol_errors"]);
        assert!(errors.len() == 1 && errors[0].contains(reason), "{errors:?}");
        assert_eq!(count(&result, "/outcomes/protocol_error"), 4);
    }
}

#[test]
fn refusals_after_cookies_have_hint() {
    let server =
        SmallServer::start("127.0.0.1", |request| match request.starts_with("GET /login") {
            true => ok("Set-Cookie: sid=abc\r\n", b""),
            false => b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n".to_vec(),
        });
    let mix = ["--request", "1 GET /login", "--request", "1 GET /home"];
    let url = server.url("/");
    let (_, result) = load(&[&[&*url, "-n", "60", "-c", "1"], &mix[..]].concat());
    let kinds = kinds(&result["unexpected"]);
    assert!(kinds.iter().any(|kind| kind.contains("401") && kind.contains("cookies")), "{kinds:?}");
}

#[test]
fn wrong_scheme_for_port_is_reported() {
    // A TLS alert, which servers send to a client without TLS.
    let secured = SmallServer::start("127.0.0.1", |_| b"\x15\x03\x03\x00\x02\x02\x46".to_vec());
    let (_, result) = load(&[&secured.url("/"), "-n", "1"]);
    let errors = kinds(&result["protocol_errors"]);
    assert!(errors.len() == 1 && errors[0].contains("use https://"), "{errors:?}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n");
        }
    });
    let (_, result) = load(&[&url, "-k", "-n", "1"]);
    let errors = kinds(&result["tls"]["errors"]);
    assert!(errors.len() == 1 && errors[0].contains("use http://"), "{errors:?}");
}

#[test]
fn unix_socket_carries_requests() {
    let folder = tempfile::tempdir().unwrap();
    for driver in DRIVERS {
        let path = folder.path().join(driver);
        let received = serve_unix(&path, OK);
        let socket = ["--unix-socket", path.to_str().unwrap(), "--driver", driver, "-n", "300"];
        let (_, result) = load(&[&["http://example.test/x"], &socket[..]].concat());
        assert_eq!(count(&result, "/outcomes/ok"), 300);
        assert_eq!(received.requests().len(), 300);
        assert!(result["tcp"]["segments_in"].is_null(), "a Unix socket has no segments");
    }
}

/// The server listens but never accepts a connection, so its queue fills. The kernel completes the
/// first few connects, and drops the others. These must be distinguished from completed and refused
/// ones.
#[test]
fn unaccepted_connects_time_out() {
    for driver in DRIVERS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let limits =
            ["--connect-timeout", "200ms", "--timeout", "400ms", "--first-byte-timeout", "300ms"];
        let (_, result) =
            load(&[&[&*url, "-n", "8", "-c", "8", "--driver", driver], &limits[..]].concat());
        let outcomes = ["connect_timeout", "timeout_first_byte"]
            .map(|outcome| count(&result["outcomes"], &format!("/{outcome}")));
        assert!(outcomes.iter().all(|n| *n > 0), "{}", result["outcomes"]);
        assert_eq!(outcomes.iter().sum::<u64>(), 8, "{}", result["outcomes"]);
        assert_eq!(count(&result, "/exchanges/failed"), 8);
    }
}

#[test]
fn closed_connections_use_several_addresses() {
    let once = ["--requests-per-connection", "1"];
    for (words, expected) in [
        (&[&["--driver", "uring"], &once[..]].concat()[..], &[1, 2, 3][..]),
        (&[&["--driver", "epoll"], &once[..]].concat(), &[1, 2, 3]),
        (&[&["--source", "127.0.0.9"], &once[..]].concat(), &[9, 9]),
        // Persistent connections need only one address.
        (&[], &[1]),
    ] {
        let (server, n) = (SmallServer::with_response(OK), expected.len().to_string());
        load(&[&[&*server.url("/"), "-c", "1", "-n", &n], words].concat());
        let expected: Vec<String> = expected.iter().map(|n| format!("127.0.0.{n}")).collect();
        let sources: Vec<String> = server.sources().iter().map(ToString::to_string).collect();
        assert_eq!(sources, expected, "{words:?}");
    }
}

#[test]
fn load_of_closed_port_ends_at_once() {
    let (exit, result) = load(&[URL, "-d", "1h", "--interval", "100ms"]);
    assert_eq!((exit, count(&result, "/outcomes/ok")), (Exit::Invalid, 0));
}

#[test]
fn connections_above_open_files_are_refused() {
    let (error, exit) = failure(&[URL, "-c", "4000000"]);
    assert!(exit == Exit::Failed && error.contains("ulimit -n"), "{error}");
}

/// The load has sent all its requests, and waits for their responses.
#[test]
fn interrupt_ends_wait_for_last_responses() {
    let (to, received) = mpsc::channel();
    let server = SmallServer::start("127.0.0.1", move |_| {
        to.send(()).unwrap();
        Vec::new()
    });
    let preparation = Preparation::default();
    let interrupts = Arc::clone(&preparation.interrupts);
    let user = thread::spawn(move || {
        (0..4).for_each(|_| received.recv().unwrap());
        interrupts.raise();
    });
    let words = [&*server.url("/"), "-n", "4", "-c", "4", "--timeout", "1h"];
    let (exit, result) = load_after(preparation, &words);
    user.join().unwrap();
    let counts = ["scheduled", "in_flight_at_end"]
        .map(|key| count(&result["exchanges"], &format!("/{key}")));
    assert_eq!((exit, counts), (Exit::Failed, [4, 4]));
}

#[test]
fn output_pipe_is_opened_once() {
    let server = SmallServer::with_response(OK);
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    make_pipe(&pipe);
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut text = String::new();
            File::open(pipe).unwrap().read_to_string(&mut text).unwrap();
            text
        }
    });
    load(&[&server.url("/"), "-n", "10", "--stream", pipe.to_str().unwrap()]);
    let lines = reader.join().unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!(lines.filter_map(|line| line["ok"].as_u64()).sum::<u64>(), 10);
}

/// Without a reader of the pipe, the load would wait forever.
#[test]
fn interrupt_ends_wait_for_pipe_reader() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    make_pipe(&pipe);
    let load = prepare(&[URL, "--stream", pipe.to_str().unwrap()]);
    let preparation = Preparation::default();
    preparation.interrupts.raise();
    let error = load.open_stream(&preparation).map(drop).unwrap_err();
    let text = "interrupted: the load had not begun, so there is no result";
    assert_eq!(error.to_string(), text);
}

/// A port in use, and a source address of another machine.
#[test]
fn load_that_cannot_begin_leaves_its_stream_as_it_is() {
    let server = SmallServer::with_response(OK);
    let folder = tempfile::tempdir().unwrap();
    let (path, taken, url) =
        (folder.path().join("stream"), server.addr.to_string(), server.url("/"));
    for (option, value, status) in
        [("--metrics", taken.as_str(), Exit::Usage), ("--source", "192.0.2.1", Exit::Failed)]
    {
        let words = [&*url, "-n", "10", "--stream", path.to_str().unwrap(), option, value];
        for before in [None, Some("lines of an earlier load\n")] {
            before.inspect(|text| fs::write(&path, text).unwrap());
            assert_eq!(failure(&words).1, status, "{option}");
            assert_eq!(fs::read_to_string(&path).ok().as_deref(), before, "{option}");
        }
        fs::remove_file(&path).unwrap();
    }
}
