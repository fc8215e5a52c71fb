//! Tests sequences of requests with a small real server that has sessions, and with the null
//! responder.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use crate::drive::{Sandbox, Server, text};
use crate::small_server::SmallServer;

/// Number of sessions so far, over all servers of these tests. Tokens have this number.
static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// Starts a server that runs until the test's process ends. Returns its URL.
fn start_server() -> String {
    let server = SmallServer::start("127.0.0.1", |head| respond(head).into_bytes());
    format!("http://127.0.0.1:{}/", server.port)
}

/// Responds to a request. `/login` sets a cookie and redirects. `/token` also sends a token in
/// chunks. `/items/TOKEN` needs the cookie and, as a header, the token of the same session.
fn respond(head: &str) -> String {
    let path = head.split(' ').nth(1).unwrap();
    let field = |name: &str| {
        head.lines().find_map(|line| line.split_once(": ").filter(|(n, _)| *n == name)).map(|f| f.1)
    };
    let number = SESSIONS.fetch_add(u64::from(path == "/token"), Ordering::Relaxed);
    let token = path.strip_prefix("/items/").unwrap_or_default();
    let is_session = field("Cookie") == Some(&format!("sid={token}"))
        && field("Authorization") == Some(&format!("Bearer {token}"));
    match path {
        "/login" => "HTTP/1.1 302 Found\r\nLocation: /home\r\nSet-Cookie: sid=abc; Path=/\r\n\
                     Content-Length: 0\r\n\r\n"
            .into(),
        "/home" if field("Cookie") == Some("sid=abc") => ok("ok"),
        "/token" => format!(
            "HTTP/1.1 200 OK\r\nSet-Cookie: sid=swordfish{number}\r\nTransfer-Encoding: chunked\r\n\
             \r\n9\r\n{{\"data\":[\r\n{:x}\r\n\"swordfish{number}\"]}}\r\n0\r\n\r\n",
            format!("\"swordfish{number}\"]}}").len()
        ),
        _ if !token.is_empty() && is_session => ok("item"),
        "/none" => ok("{}"),
        _ => "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n".into(),
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn load(sandbox: &Sandbox, arguments: &[&str]) -> (i32, Value) {
    let output = sandbox.dyno(&[&["load"], arguments, &["--format", "json"]].concat());
    let result = serde_json::from_slice(&output.stdout);
    let result = result.unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
    (output.status.code().unwrap(), result)
}

const LOGIN: [&str; 4] = ["--step", "GET /login", "--step", "GET /home"];

const TOKEN: [&str; 7] = [
    "--step",
    "GET /token",
    "--step",
    "GET /items/{extract.token}",
    "--extract",
    "1 token=json:/data/0",
    "--cookies",
];

#[test]
fn cookie_of_response_is_sent_with_next_step() {
    let sandbox = Sandbox::new();
    let url = start_server();
    for driver in ["uring", "epoll"] {
        let more = [url.as_str(), "-n", "20", "-c", "1", "--driver", driver];
        let (_, result) = load(&sandbox, &[&more, &LOGIN[..], &["--cookies"]].concat());
        assert_eq!(result["outcomes"]["ok"], 20, "{result:#}");
        let visits = &result["visits"];
        assert_eq!((&visits["steps"], &visits["completed"]), (&2.into(), &10.into()), "{visits}");
        assert_eq!(visits["time_us"]["count"], 10);
        for step in 0..2 {
            assert_eq!(result["requests"][step]["outcomes"]["ok"], 10);
            assert_eq!(result["requests"][step]["response_time_us"]["count"], 10);
        }
        assert_eq!(result["config"]["sequence"]["cookies"], "kept");
    }
    let (status, result) =
        load(&sandbox, &[&[url.as_str(), "-n", "20", "-c", "1"], &LOGIN[..]].concat());
    assert_eq!((status, &result["outcomes"]["unexpected_status"]), (1, &10.into()));
    let kinds = result["unexpected"].as_object().unwrap();
    assert!(kinds.keys().any(|kind| kind.contains("--cookies")), "{kinds:?}");
}

#[test]
fn value_of_response_is_sent_with_later_steps() {
    let sandbox = Sandbox::new();
    let url = start_server();
    let header = ["-H", "Authorization: Bearer {extract.token}"];
    for check in [&[][..], &["--expect-header", "x", "--check-one-in", "0"]] {
        let more = [url.as_str(), "-n", "40", "-c", "4"];
        let arguments = [&more, &TOKEN[..], &header[..], check].concat();
        if check.is_empty() {
            let (_, result) = load(&sandbox, &arguments);
            assert_eq!(result["outcomes"]["ok"], 40, "{result:#}");
            // The last request may be the first step of a visit, at each of the 4 visitors.
            let completed = result["visits"]["completed"].as_u64().unwrap();
            assert!((18..=20).contains(&completed), "{}", result["visits"]);
            assert_eq!(result["visits"]["unfinished"], 0, "no response is missing");
            continue;
        }
        // One visit is tried before the load, because the expectation needs the whole response.
        let output = sandbox.dyno(&[&["load"], &arguments[..]].concat());
        let text = text(&output);
        assert!(text.contains("request 1: no correct response to a test request"), "{text}");
        assert!(text.contains("unexpected_header: header x is missing"), "{text}");
    }
}

/// The trial ends with the first failure, before the visitor would start anew.
#[test]
fn failed_step_of_trial_visit_is_named() {
    let sandbox = Sandbox::new();
    let url = start_server();
    let steps = ["GET /login", "GET /none", "GET /home"].map(|step| ["--step", step]).concat();
    let more = [url.as_str(), "-n", "30", "-c", "2", "--expect-header", "Set-Cookie"];
    let output = sandbox.dyno(&[&["load"], &more[..], &steps[..]].concat());
    let text = text(&output);
    assert!(text.contains("request 2: no correct response to a test request"), "{text}");
    assert!(text.contains("(unexpected_header: header Set-Cookie is missing)"), "{text}");
}

#[test]
fn failed_extraction_is_named() {
    let sandbox = Sandbox::new();
    let url = start_server();
    let steps = ["--step", "GET /none", "--step", "GET /home?{extract.token}"];
    let more = ["--extract", "1 token=json:/data/0", "-n", "10", "-c", "2"];
    let arguments = [&[url.as_str()], &steps[..], &more[..]].concat();
    let (status, result) = load(&sandbox, &arguments);
    assert_eq!((status, &result["outcomes"]["extraction_failed"]), (1, &10.into()), "{result:#}");
    let reason = "value \"token\" cannot be extracted: JSON pointer \"/data/0\" is missing";
    assert_eq!(result["unexpected"][reason], 10, "{}", result["unexpected"]);
    let output = sandbox.dyno(&[&["load"], &arguments[..]].concat());
    let text = text(&output);
    let words: Vec<&str> = text.split_whitespace().collect();
    let sentence = "10 without a value that later requests need.";
    assert!(words.join(" ").contains(sentence), "{text}");
}

/// Cookies and values are secrets: they are in no result and in no archive.
#[test]
fn archive_has_no_cookies_and_values() {
    let sandbox = Sandbox::new();
    let url = start_server();
    let folder = sandbox.path().join("saved");
    let folder = folder.to_str().unwrap();
    let more = ["-n", "8", "-c", "1", "--save", folder, "--expect-status", "200"];
    let output = sandbox.dyno(&[&["load", &url], &TOKEN[..], &more[..]].concat());
    let printed = text(&output);
    assert!(printed.contains("sequence of 2 requests"), "{printed}");
    let mut texts = vec![printed];
    read_files(Path::new(folder), &mut texts);
    assert!(texts.len() > 2 && texts.iter().any(|text| text.contains("extract.token")));
    assert!(!texts.iter().any(|text| text.contains("swordfish")), "{texts:?}");
}

fn read_files(folder: &Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_files(&path, texts);
        } else {
            texts.push(String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned());
        }
    }
}

#[test]
fn curl_commands_with_shared_jar_are_sequence() {
    let sandbox = Sandbox::new();
    let url = start_server();
    let script = format!("curl -c jar {url}login\ncurl -b jar {url}home");
    let (_, result) = load(&sandbox, &["--curl", &script, "-n", "20", "-c", "2"]);
    assert_eq!(result["outcomes"]["ok"], 20, "{result:#}");
    // The last request may be the first step of a visit, at each of the 2 visitors.
    let completed = result["visits"]["completed"].as_u64().unwrap();
    assert!((9..=10).contains(&completed), "{}", result["visits"]);
    let output =
        sandbox.dyno(&["load", "--curl", &format!("curl -L -c jar -b cookies {url}login")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("cookies cannot be read from a file"), "{}", text(&output));
}

#[test]
fn sequences_run_over_http2_and_at_rate() {
    let sandbox = Sandbox::new();
    let server = Server::null();
    let url = server.url("/");
    let steps = ["--step", "GET /plaintext", "--step", "GET /plaintext"];
    let extract = ["--extract", "1 word=matches:Hello, (W[a-z]*)", "-H", "X: {extract.word}"];
    for (more, count) in [
        (&["--protocol", "h2c", "-m", "5", "-c", "2"][..], "1000"),
        (&["--protocol", "h2c-upgrade", "-c", "2"], "400"),
        (&["-c", "2", "-r", "500"], "200"),
    ] {
        let arguments =
            [&[url.as_str(), "-n", count, "--cookies"], &steps[..], &extract[..], more].concat();
        let (_, result) = load(&sandbox, &arguments);
        let expected: u64 = count.parse().unwrap();
        assert_eq!(result["outcomes"]["ok"], expected, "{more:?}: {result:#}");
        let requests = result["requests"].as_array().unwrap();
        let ok = |i: usize| requests[i]["outcomes"]["ok"].as_u64().unwrap();
        assert!(ok(0).abs_diff(ok(1)) <= 10 && ok(0) + ok(1) == expected, "{more:?}");
        assert_eq!(result.get("visits").is_some(), !more.contains(&"-r"));
    }
}

#[test]
fn suite_with_steps_is_measured_and_reported() {
    let sandbox = Sandbox::new();
    let suite = "[[workloads]]\nname = \"session\"\ncookies = true\n\n[[workloads.steps]]\npath = \
                 \"/plaintext\"\nextract = { word = { matches = \"Hello, (W[a-z]*)\" } }\n\n\
                 [[workloads.steps]]\nname = \"second\"\npath = \"/plaintext\"\n\
                 headers = { X = \"{extract.word}\" }\n";
    let (_, report) = sandbox.run(&["null"], suite);
    let trials = report["trials"].as_array().unwrap();
    let loads = trials.iter().map(|trial| &trial["load"]).filter(|load| load["visits"].is_object());
    let loads: Vec<&Value> = loads.collect();
    assert_eq!(loads.len(), 2, "two steps of the plan");
    for load in loads {
        assert!(load["visits"]["completed"].as_u64().unwrap() > 0, "{load:#}");
        assert_eq!(load["requests"][1]["name"], "second");
        assert_eq!(load["outcomes"]["extraction_failed"], 0);
    }
    let page = fs::read_to_string(sandbox.run_folder().unwrap().join("report.html")).unwrap();
    assert!(page.contains("<h3>Visits</h3>"));
}
