//! Tests sequences of requests, with the sessions of the simulated server.

use dyno_engine::sim::Sessions;

use super::server::{SmallServer, ok};
use super::*;

/// A session: its second request needs the cookie and the token of the first response.
const SESSION: [&str; 7] = [
    "--step",
    "GET /login",
    "--step",
    "GET /items/{extract.token}",
    "--extract",
    "1 token=json:/token",
    "--cookies",
];

/// Simulates a load of sessions. Every `lacks`th session has no token.
fn simulate(lacks: u64, words: &[&str]) -> Simulated {
    let mut model = server_model();
    model.sessions = Sessions::Required { lacks };
    Simulated::new(&[&[URL], words].concat(), &model)
}

#[test]
fn cookies_and_values_are_sent_with_later_steps() {
    for (protocol, count) in [
        (&["-c", "1"][..], "20"),
        (&["-c", "4"], "40"),
        (&["-c", "2", "-m", "5", "--protocol", "h2c"], "1000"),
        (&["-c", "2", "--protocol", "h2c-upgrade"], "400"),
        (&["-c", "2", "-r", "500"], "200"),
    ] {
        let result = simulate(u64::MAX, &[&SESSION, protocol, &["-n", count]].concat()).json();
        let expected: u64 = count.parse().unwrap();
        assert_eq!(result["outcomes"]["ok"], expected, "{protocol:?}: {result:#}");
        for step in 0..2 {
            let request = &result["requests"][step];
            assert_eq!(request["outcomes"]["ok"], expected / 2, "{protocol:?}");
            assert_eq!(request["response_time_us"]["count"], expected / 2, "{protocol:?}");
        }
        assert_eq!(result["config"]["sequence"]["cookies"], "kept");
        let visits = &result["visits"];
        if protocol.contains(&"-r") {
            assert!(visits.is_null(), "an open loop has no visits");
            continue;
        }
        let counts = ["steps", "completed", "unfinished"].map(|key| visits[key].as_u64().unwrap());
        assert_eq!(counts, [2, expected / 2, 0], "{protocol:?}");
        assert_eq!(visits["time_us"]["count"], expected / 2, "{protocol:?}");
    }
}

#[test]
fn refusals_without_cookies_have_hint() {
    let words = [&SESSION[..6], &["-n", "20", "-c", "1"]].concat();
    let result = simulate(u64::MAX, &words).json();
    assert_eq!(
        (&result["valid"], &result["outcomes"]["unexpected_status"]),
        (&false.into(), &10.into())
    );
    let [kind] = kinds(&result["unexpected"])[..] else { panic!("{}", result["unexpected"]) };
    assert!(kind.contains("401") && kind.contains("--cookies"), "{kind}");
}

#[test]
fn failed_extraction_is_named() {
    let simulated = simulate(1, &[&SESSION[..], &["-n", "10", "-c", "2"]].concat());
    let result = simulated.json();
    assert_eq!(
        (&result["valid"], &result["outcomes"]["extraction_failed"]),
        (&false.into(), &10.into())
    );
    let reason = "value \"token\" cannot be extracted: JSON pointer \"/token\" is missing";
    assert_eq!(result["unexpected"], serde_json::json!({ reason: 10 }));
    let text = text::load(&simulated.result(), Style::Plain);
    let words: Vec<&str> = text.split_whitespace().collect();
    let sentence = "10 without a value that later requests need.";
    assert!(words.join(" ").contains(sentence), "{text}");
}

#[test]
fn curl_commands_with_shared_jar_are_sequence() {
    let script = format!("curl -c jar {URL}login\ncurl -b jar {URL}home");
    let load = prepare(&["--curl", &script]);
    let cookies = load.workload.sequence.map(|sequence| sequence.cookies);
    assert_eq!(cookies, Some(dyno_model::plan::Cookies::Kept));
    let paths: Vec<&str> = load.workload.requests.iter().map(|r| r.path.as_str()).collect();
    assert_eq!(paths, ["/login", "/home"]);
    let (error, exit) = failure(&["--curl", &format!("curl -L -c jar -b cookies {URL}login")]);
    assert!(exit == Exit::Usage && error.contains("cookies cannot be read from a file"), "{error}");
}

/// Starts a server whose sessions have a cookie and a token with the word `swordfish`.
fn session_server() -> SmallServer {
    SmallServer::start("127.0.0.1", |request| match request.split(' ').nth(1).unwrap() {
        "/token" => ok("Set-Cookie: sid=swordfish1\r\n", b"{\"data\":[\"swordfish2\"]}"),
        "/login" => ok("Set-Cookie: sid=1\r\n", b""),
        path => ok("", path.replace("swordfish", "").as_bytes()),
    })
}

/// The trial ends with the first failure, before the visitor would start anew.
#[test]
fn failed_step_of_trial_visit_is_named() {
    let server = session_server();
    let steps = ["GET /login", "GET /none", "GET /home"].map(|step| ["--step", step]).concat();
    let url = server.url("/");
    let words = [&[&*url, "--expect-header", "Set-Cookie"], &steps[..]].concat();
    let (error, exit) = failure(&words);
    assert!(error.starts_with("request 2: no correct response to a test request"), "{error}");
    assert!(error.contains("(unexpected_header: header Set-Cookie is missing)"), "{error}");
    assert_eq!((exit, server.requests().len()), (Exit::Failed, 2));
}

/// Cookies and values are secrets: they are in no result and in no archive.
#[test]
fn archive_has_no_cookies_and_values() {
    let (server, folder) = (session_server(), tempfile::tempdir().unwrap());
    let url = server.url("/");
    let steps = ["--step", "GET /token", "--step", "GET /items/{extract.token}", "--cookies"];
    let extract = ["--extract", "1 token=json:/data/0", "--expect-status", "200"];
    let save = ["-n", "8", "-c", "1", "--save", folder.path().to_str().unwrap()];
    let (_, result) = load(&[&[&*url], &steps[..], &extract, &save].concat());
    assert_eq!(result["outcomes"]["ok"], 8, "{result:#}");
    assert!(server.requests()[1].contains("sid=swordfish1"), "{:?}", server.requests());
    let mut texts = vec![result.to_string()];
    read_files(folder.path(), &mut texts);
    assert!(texts.len() > 2 && texts.iter().any(|text| text.contains("extract.token")));
    assert!(!texts.iter().any(|text| text.contains("swordfish")), "{texts:?}");
}

fn read_files(folder: &std::path::Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_files(&path, texts);
        } else {
            texts.push(String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned());
        }
    }
}
