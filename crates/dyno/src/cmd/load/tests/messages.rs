//! Tests the requests that a load sends, as a server receives them.

use std::path::Path;

use serde_json::json;

use super::server::{OK, SmallServer, ok};
use super::*;

/// Sends requests over one connection. Returns them as the server received them.
fn send(words: impl Fn(&SmallServer) -> Vec<String>, count: u64) -> Vec<String> {
    let server = SmallServer::with_response(OK);
    let words = words(&server);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (_, result) = load(&[&words[..], &["-c", "1", "-n", &count.to_string()]].concat());
    assert_eq!(result["outcomes"]["ok"], count, "{result:#}");
    server.requests()
}

/// Writes a recording with one request, and returns its path.
fn har(folder: &Path, request: &Value, status: u16) -> String {
    let entry = json!({"request": request, "response": {"status": status}});
    let path = folder.join("x.har");
    fs::write(&path, json!({"log": {"entries": [entry]}}).to_string()).unwrap();
    path.to_str().unwrap().into()
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(String::from).into()
}

#[test]
fn har_requests_are_sent_as_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let body = "{csv:/etc/passwd:1} {seq} {uuid} {rand} {{seq}}";
    let recorded = |server: &SmallServer, text: &str| {
        let request = json!({
            "method": "POST", "url": server.url("/{seq}?u={uuid}"),
            "headers": [{"name": "X-Text", "value": "{rand:1..9}"}],
            "postData": {"mimeType": "text/plain", "text": text},
        });
        har(folder.path(), &request, 200)
    };
    let sent = send(|server| words(["--import", &recorded(server, body)]), 3);
    for request in &sent {
        assert!(request.starts_with("POST /{seq}?u={uuid} HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("X-Text: {rand:1..9}\r\n"), "{request}");
        assert!(request.ends_with(&format!("\r\n\r\n{body}")), "{request}");
    }
    assert_eq!(sent.len(), 3);
    let filled = send(|s| words(["--import", &recorded(s, "{seq}"), "--import-templates"]), 2);
    for (i, request) in filled.iter().enumerate() {
        assert!(request.starts_with(&format!("POST /{i}?u=")), "{request}");
        assert!(request.ends_with(&format!("\r\n\r\n{i}")), "{request}");
    }
}

#[test]
fn recorded_status_is_default_expectation() {
    let folder = tempfile::tempdir().unwrap();
    let request = json!({"method": "GET", "url": URL});
    let path = har(folder.path(), &request, 404);
    let status = |options: &[&str]| {
        let load = prepare(&[&["--import", &path], options].concat());
        load.workload.requests[0].expect.status
    };
    assert_eq!(status(&[]), Some(404));
    assert_eq!(status(&["--expect-status", "200"]), Some(200));
}

#[test]
fn requests_of_other_tools_are_imported() {
    let folder = tempfile::tempdir().unwrap();
    let get = json!({"request": {"method": "GET", "url": format!("{URL}1"), "headers": []}});
    let post = json!({"request": {"method": "POST", "url": format!("{URL}2"), "headers": [],
                                  "postData": {"mimeType": "text/plain", "text": "hi"}}});
    let entries = json!({"log": {"entries": [&get, &get, &post]}}).to_string();
    let targets = format!("GET {URL}1\nX-A: b\n\nPOST {URL}2\n@body\n");
    let urls = format!("{URL}1\n{URL}2\n{URL}3\n");
    fs::write(folder.path().join("body"), "hello").unwrap();
    for (name, text, expected) in [
        ("session.har", &entries, &["2 GET /1", "1 POST /2 hi"][..]),
        ("targets", &targets, &["1 GET /1", "1 POST /2 hello"]),
        ("urls", &urls, &["1 GET /1", "1 GET /2", "1 GET /3"]),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let files = ["--files", folder.path().to_str().unwrap()];
        let import = ["--import", path.to_str().unwrap()];
        let has_files = name == "targets";
        let load = prepare(&[&import[..], if has_files { &files[..] } else { &[] }].concat());
        let requests = load.workload.requests.iter().map(|request| {
            let body = request.body.as_ref().map(|body| String::from_utf8_lossy(&body.0));
            let text = format!("{} {} {}", request.weight, request.method, request.path);
            body.map_or(text.clone(), |body| format!("{text} {body}"))
        });
        assert_eq!(requests.collect::<Vec<_>>(), expected, "{name}");
    }
    let curl = format!("curl '{URL}1' -H 'Accept: */*' --data-raw '{{\"a\":1}}'");
    assert_eq!(prepare(&["--curl", &curl]).config.method, "POST");
}

#[test]
fn changes_to_imported_request_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let form = "application/x-www-form-urlencoded";
    let recorded = |server: &SmallServer| {
        let request = json!({
            "method": "POST", "url": server.url("/post"),
            "headers": [
                {"name": "Content-Type", "value": form}, {"name": "TE", "value": "trailers"}
            ],
            "postData": {"mimeType": form,
                         "params": [{"name": "field%5B1%5D", "value": "value%5B1%5D"}]}});
        har(folder.path(), &request, 200)
    };
    let sent = send(|server| words(["--import", &recorded(server)]), 1).remove(0);
    assert!(sent.ends_with("\r\n\r\nfield%5B1%5D=value%5B1%5D"), "{sent}");
    assert!(!sent.contains("TE:"), "{sent}");
    let path = folder.path().join("x.har");
    let mut args = parse(&["--import", path.to_str().unwrap()]).unwrap();
    let files = requests::readable_files(&args);
    let (.., changes) = requests::read_requests(&mut args, &files).unwrap();
    let lines = changes.lines();
    let expected = ["import: headers omitted", "import: bodies made from postData.params"];
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{lines:?}");
    }
    assert!(
        lines[0].ends_with(" (1): te") && lines[1].contains("(assumed to be encoded)"),
        "{lines:?}"
    );
    let listed = prepare(&["--import", path.to_str().unwrap()]).config.import_changes;
    let kinds: Vec<&str> = listed.iter().map(|change| change.kind.as_str()).collect();
    assert_eq!(kinds, ["connection-header", "form-params"]);
}

#[test]
fn header_of_command_line_replaces_imported_one() {
    let curl = format!("curl {URL} -H 'Accept-Encoding: gzip' -H 'X-Kept: yes'");
    let load = prepare(&["--curl", &curl, "-H", "accept-encoding: identity"]);
    let headers = load.workload.requests[0].headers.iter();
    let headers: Vec<String> = headers.map(|(name, value)| format!("{name}: {value}")).collect();
    assert!(headers.contains(&"X-Kept: yes".into()), "{headers:?}");
    let encodings = headers.iter().filter(|line| line.to_lowercase().contains("accept-encoding"));
    assert_eq!(encodings.collect::<Vec<_>>(), ["accept-encoding: identity"]);
}

#[test]
fn request_omits_ipv6_zone() {
    let server = SmallServer::start("::1", |_| OK.into());
    let port = server.addr.port();
    for zone in ["%25lo", "%lo", "%251"] {
        let (_, result) = load(&[&format!("http://[::1{zone}]:{port}/"), "-n", "1"]);
        assert_eq!(result["outcomes"]["ok"], 1, "{zone}");
    }
    for request in server.requests() {
        assert!(request.contains(&format!("Host: [::1]:{port}\r\n")), "{request}");
    }
}

#[test]
fn host_name_uses_address_that_accepts() {
    let server = SmallServer::with_response(OK);
    let port = server.addr.port();
    let resolve = [format!("dual.test:{port}:[::1]"), format!("dual.test:{port}:127.0.0.1")];
    let named = format!("http://dual.test:{port}/");
    let resolved = [&*named, "--resolve", &resolve[0], "--resolve", &resolve[1]];
    for words in [&resolved[..], &[&format!("http://localhost:{port}/")]] {
        let load = prepare(words);
        assert_eq!(load.spec.target.endpoint.peer, PeerAddress::Tcp(server.addr), "{words:?}");
    }
    let source = ["--source", "127.0.0.9", "-n", "10", "-c", "1"];
    let (_, result) = load(&[&resolved[..], &source].concat());
    assert_eq!(result["outcomes"]["ok"], 10);
    assert_eq!(result["address"], server.addr.to_string());
    assert_eq!(server.sources().last().unwrap().to_string(), "127.0.0.9");
}

#[test]
fn host_name_without_listener_fails() {
    let (error, exit) = failure(&["http://localhost:1/", "-n", "1"]);
    assert_eq!(exit, Exit::Failed, "{error}");
    for part in ["127.0.0.1:1: ", "refused", "hint: "] {
        assert!(error.contains(part), "{error}");
    }
}

/// `{"hello":"world"}` in Brotli, as Node.js encodes it.
const BROTLI: &[u8] = b"\x0b\x08\x80{\"hello\":\"world\"}\x03";

#[test]
fn encoded_bodies_are_decoded_before_checks() {
    let server =
        SmallServer::start("127.0.0.1", |request| match request.contains("Accept-Encoding: br") {
            true => ok("Content-Encoding: br\r\n", BROTLI),
            false => ok("Content-Encoding: other\r\n", b"{}"),
        });
    let url = server.url("/");
    let checks = ["--expect-json", "/hello=world", "--expect-body", "{\"hello\":\"world\"}"];
    let words = ["-H", "Accept-Encoding: br", "-n", "20", "-c", "1"];
    let all = [&[&*url], &checks[..], &words].concat();
    // By default, encoded bodies are compared only in a sample.
    let (_, result) = load(&all);
    assert!(codes(&result).contains(&"partly_checked"), "{:?}", codes(&result));
    let (_, result) = load(&[&all[..], &["--check-one-in", "1"]].concat());
    assert_eq!((&result["outcomes"]["ok"], &result["checked"]), (&20.into(), &20.into()));
    assert!(!codes(&result).contains(&"partly_checked"), "{:?}", codes(&result));
    let (error, exit) = failure(&[&url, "-n", "1", "--expect-json", "/hello=world"]);
    assert!(error.contains("\"other\", which dyno does not decode"), "{error}");
    assert_eq!(exit, Exit::Failed);
}

#[test]
fn expectations_are_fully_checked_before_load() {
    let server = SmallServer::with_response(OK);
    let (error, exit) = failure(&[&server.url("/"), "-n", "10", "--expect-contains", "Wurld"]);
    assert!(error.contains("the body does not contain \"Wurld\""), "{error}");
    assert_eq!((exit, server.requests().len()), (Exit::Failed, 1));
}
