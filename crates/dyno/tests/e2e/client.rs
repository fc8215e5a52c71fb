//! Tests `dyno load` as a client: addresses, headers, encodings, cookies and TLS, with small real
//! servers.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::thread;

use serde_json::Value;

use crate::drive::{Sandbox, free_port, text};
use crate::small_server::SmallServer;

fn response(fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn load(sandbox: &Sandbox, arguments: &[&str]) -> (Value, String) {
    let output = sandbox.dyno(&[&["load"], arguments, &["--format", "json"]].concat());
    let result = serde_json::from_slice(&output.stdout);
    let result = result.unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
    (result, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The server sends two responses, and then closes the connection.
#[test]
fn responses_after_close_are_not_counted() {
    let sandbox = Sandbox::new();
    let server = SmallServer::start("127.0.0.1", |_| {
        let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
        answer.repeat(2).into_bytes()
    });
    let url = format!("http://127.0.0.1:{}/", server.port);
    let output = sandbox.dyno(&["load", &url, "-n", "50", "-c", "2", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["connections"]["unsolicited"], 50, "{result:#}");
}

/// The server switches to HTTP/2 and responds in one write.
#[test]
fn request_of_upgrade_counts_for_its_connection() {
    let sandbox = Sandbox::new();
    let server = SmallServer::start("127.0.0.1", |head| {
        if !head.starts_with("GET ") {
            return Vec::new();
        }
        let switch =
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        // HEADERS with the end of stream 1; the field is `:status: 200`.
        let response = [0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88];
        [&switch[..], &settings, &response].concat()
    });
    let url = format!("http://127.0.0.1:{}/", server.port);
    let limits = ["--requests-per-connection", "1", "--timeout", "500ms"];
    let options = ["--protocol", "h2c-upgrade", "-n", "20", "-c", "1"];
    let (result, message) = load(&sandbox, &[&[&*url], &options[..], &limits[..]].concat());
    let counts = (&result["outcomes"]["ok"], &result["connections"]["opened"]);
    assert_eq!(counts, (&20.into(), &20.into()), "{result:#}\n{message}");
}

/// A header of the command line replaces that of an import.
#[test]
fn header_of_command_line_replaces_imported_one() {
    let sandbox = Sandbox::new();
    let server = SmallServer::start("127.0.0.1", |_| response("", b"ok"));
    let url = format!("http://127.0.0.1:{}/", server.port);
    let import = format!("curl {url} -H 'Accept-Encoding: gzip' -H 'X-Kept: yes'\n");
    fs::write(sandbox.path().join("requests"), import).unwrap();
    let plain = ["-H", "accept-encoding: identity"];
    load(&sandbox, &[&["--import", "requests", "-n", "1", "-c", "1"], &plain[..]].concat());
    let heads = server.heads();
    let head = heads.last().unwrap().to_ascii_lowercase();
    assert!(head.contains("accept-encoding: identity") && head.contains("x-kept: yes"), "{head}");
    assert!(!head.contains("gzip"), "{head}");
}

/// Encoded bodies are compared only in a sample, which can be all of them.
#[test]
fn encoded_bodies_are_all_checked_on_request() {
    let sandbox = Sandbox::new();
    let server = SmallServer::start("127.0.0.1", |_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
    });
    let url = format!("http://127.0.0.1:{}/", server.port);
    let coded =
        ["load", &url, "-n", "50", "-c", "1", "--format", "json", "-H", "Accept-Encoding: gzip"];
    let run = |more: &[&str]| {
        let output = sandbox.dyno(&[&coded[..], &["--expect-body", "ok"], more].concat());
        // Such a short load may be invalid if another program used the machine meanwhile.
        assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let is_partly = |result: &Value| {
        result["caveats"]
            .as_array()
            .unwrap()
            .iter()
            .any(|caveat| caveat["code"] == "partly_checked")
    };
    assert!(is_partly(&run(&[])));
    let result = run(&["--check-one-in", "1"]);
    assert!(!is_partly(&result) && result["checked"] == 50, "{result:#}");
}

#[test]
fn host_name_uses_address_that_accepts() {
    let sandbox = Sandbox::new();
    let server = SmallServer::start("127.0.0.1", |_| response("", b"ok"));
    let port = server.port;
    let url = format!("http://dual.test:{port}/");
    let resolve = [format!("dual.test:{port}:[::1]"), format!("dual.test:{port}:127.0.0.1")];
    let (result, _) = load(
        &sandbox,
        &[&url, "-n", "8", "-c", "2", "--resolve", &resolve[0], "--resolve", &resolve[1]],
    );
    assert_eq!(result["address"], format!("127.0.0.1:{port}"));
    assert_eq!(result["outcomes"]["ok"], 8);
    let (result, _) = load(&sandbox, &[&format!("http://localhost:{port}/"), "-n", "1"]);
    assert_eq!(result["address"], format!("127.0.0.1:{port}"));
}

#[test]
fn host_name_without_listener_fails() {
    let sandbox = Sandbox::new();
    let url = format!("http://localhost:{}/", free_port());
    let output = sandbox.dyno(&["load", &url, "-n", "1"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("127.0.0.1:") && error.contains("refused") && error.contains("hint: "),
        "{error}"
    );
}

#[test]
fn request_omits_ipv6_zone() {
    let sandbox = Sandbox::new();
    let server = SmallServer::start("::1", |_| response("", b"ok"));
    for zone in ["%25lo", "%lo", "%251"] {
        let (result, _) =
            load(&sandbox, &[&format!("http://[::1{zone}]:{}/", server.port), "-n", "1"]);
        assert_eq!(result["outcomes"]["ok"], 1, "{zone}");
    }
    for head in server.heads() {
        assert!(head.contains(&format!("Host: [::1]:{}\r\n", server.port)), "{head}");
    }
}

#[test]
fn websocket_upgrade_is_reported() {
    let sandbox = Sandbox::new();
    let server = SmallServer::start("127.0.0.1", |_| {
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
            .to_vec()
    });
    let url = format!("http://127.0.0.1:{}/", server.port);
    let arguments = ["-H", "Upgrade: websocket", "-H", "Connection: Upgrade", "-n", "4", "-c", "2"];
    let (result, noted) = load(&sandbox, &[&[url.as_str()], &arguments[..]].concat());
    assert!(noted.contains("does not switch to WebSocket"), "{noted}");
    let errors = result["protocol_errors"].as_object().unwrap();
    assert!(errors.keys().all(|kind| kind.contains("as requested")), "{errors:?}");
    assert_eq!(result["outcomes"]["protocol_error"], 4);
    let (result, _) = load(&sandbox, &[&url, "-n", "2", "-c", "1"]);
    let errors = result["protocol_errors"].as_object().unwrap();
    assert!(errors.keys().all(|kind| kind.contains("did not ask for it")), "{errors:?}");
}

#[test]
fn connection_headers_over_http2_are_refused() {
    let sandbox = Sandbox::new();
    for (arguments, place_of_it) in [
        (&["https://127.0.0.1:1/", "-H", "Connection: close"][..], "-H \"Connection: close\""),
        (&["http://127.0.0.1:1/", "--protocol", "h2c", "-H", "TE: gzip"][..], "-H \"TE: gzip\""),
        (&["http://127.0.0.1:1/", "-H", ":path: /x"][..], "-H \":path: /x\""),
        (&["http://127.0.0.1:1/", "-H", "Host: a", "-H", "host: b"][..], "-H \"host\""),
        (&["http://127.0.0.1:1/", "-H", "X: a\nY: b"][..], "-H \"X: a\\nY: b\""),
    ] {
        let output = sandbox.dyno(&[&["load", "-n", "1"], arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(place_of_it), "{error}");
    }
}

/// `{"hello":"world"}` in Brotli, as Node.js encodes it.
const BROTLI: &[u8] = b"\x0b\x08\x80{\"hello\":\"world\"}\x03";

#[test]
fn encoded_bodies_are_decoded_before_checks() {
    let sandbox = Sandbox::new();
    let server =
        SmallServer::start("127.0.0.1", |head| match head.contains("Accept-Encoding: br") {
            true => response("Content-Encoding: br\r\n", BROTLI),
            false => response("Content-Encoding: other\r\n", b"{}"),
        });
    let url = format!("http://127.0.0.1:{}/", server.port);
    let checks = ["--expect-json", "/hello=world", "--expect-body", "{\"hello\":\"world\"}"];
    let arguments = ["-H", "Accept-Encoding: br", "-n", "20", "-c", "1", "--check-one-in", "1"];
    let (result, _) = load(&sandbox, &[&[url.as_str()], &checks[..], &arguments[..]].concat());
    assert_eq!(result["outcomes"]["ok"], 20);
    assert_eq!(result["checked"], 20);
    let output = sandbox.dyno(&["load", &url, "-n", "1", "--expect-json", "/hello=world"]);
    assert!(text(&output).contains("\"other\", which dyno does not decode"), "{}", text(&output));
}

#[test]
fn refusals_after_cookies_have_hint() {
    let sandbox = Sandbox::new();
    let server = SmallServer::start("127.0.0.1", |head| match head.starts_with("GET /login") {
        true => response("Set-Cookie: sid=abc\r\n", b""),
        false => b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n".to_vec(),
    });
    let url = format!("http://127.0.0.1:{}/", server.port);
    let mix = ["--request", "1 GET /login", "--request", "1 GET /home"];
    let (result, _) = load(&sandbox, &[&[url.as_str(), "-n", "60", "-c", "1"], &mix[..]].concat());
    let kinds = result["unexpected"].as_object().unwrap();
    assert!(kinds.keys().any(|kind| kind.contains("401") && kind.contains("cookies")), "{kinds:?}");
}

#[test]
fn closing_server_gets_no_connection_warning() {
    let sandbox = Sandbox::new();
    let server = SmallServer::start("127.0.0.1", |_| response("Connection: close\r\n", b"ok"));
    let url = format!("http://127.0.0.1:{}/", server.port);
    let (result, _) = load(&sandbox, &[&url, "-n", "300", "-c", "8"]);
    let caveats = result["caveats"].as_array().unwrap();
    assert!(caveats.iter().all(|caveat| caveat["code"] != "connections"), "{caveats:?}");
    assert_eq!(result["outcomes"]["ok"], 300);
}

#[test]
fn wrong_scheme_for_port_is_reported() {
    let sandbox = Sandbox::new();
    let plain = SmallServer::start("127.0.0.1", |_| response("", b"ok"));
    // A TLS alert, which servers send to a client without TLS.
    let secured = SmallServer::start("127.0.0.1", |_| b"\x15\x03\x03\x00\x02\x02\x46".to_vec());
    let (result, _) = load(&sandbox, &[&format!("http://127.0.0.1:{}/", secured.port), "-n", "1"]);
    let errors = result["protocol_errors"].as_object().unwrap();
    assert!(errors.keys().any(|kind| kind.contains("use https://")), "{errors:?}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n");
        }
    });
    let (result, _) = load(&sandbox, &[&format!("https://127.0.0.1:{port}/"), "-k", "-n", "1"]);
    let errors = result["tls"]["errors"].as_object().unwrap();
    assert!(errors.keys().any(|kind| kind.contains("use http://")), "{errors:?}");
    let key = sandbox.path().join("k.pem");
    fs::write(
        &key,
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .unwrap();
    let key = key.display().to_string();
    let url = format!("https://127.0.0.1:{}/", plain.port);
    let output = sandbox.dyno(&["load", &url, "-k", "--cert", &key, "--key", &key, "-n", "1"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
}
