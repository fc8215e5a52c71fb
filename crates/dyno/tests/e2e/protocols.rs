//! Tests real servers over every protocol that they support, over TLS with dyno's own certificates,
//! and sessions over TLS.

use std::fs;

use serde_json::Value;

use crate::drive::{Sandbox, text};

const WORKLOADS: [(&str, &str, bool); 5] = [
    ("h1", "h1", false),
    ("h1-tls", "h1", true),
    ("h2", "h2", true),
    ("h2c", "h2c", false),
    ("h2c-upgrade", "h2c-upgrade", false),
];

fn suite(subjects: &[&str]) -> String {
    let workload = |(name, protocol, tls): (&str, &str, bool)| {
        format!(
            "[[workloads]]\nname = {name:?}\nprotocol = {protocol:?}\ntls = {tls}\n\
             path = \"/plaintext\"\n\
             expect = {{ status = 200, body = \"Hello, World!\" }}\n"
        )
    };
    format!(
        "subjects = {subjects:?}\n[suite]\nrepeats = 1\norder = \"fixed\"\nseed = 7\n\
         [load]\nin_flight = 20\nstreams = 5\nwarmup = \"50ms\"\nduration = \"1s\"\n\
         interval = \"200ms\"\n{}",
        WORKLOADS.map(workload).concat()
    )
}

#[test]
#[ignore = "long: runs in make nightly"]
fn server_is_loaded_over_its_protocols_only() {
    let sandbox = Sandbox::new();
    sandbox.copy_subject("nginx");
    sandbox.copy_subject("h2o");
    sandbox.copy_subject("nghttpd");
    let subjects = ["null", "nginx/h2", "nginx/h2c", "h2o/h2", "nghttpd", "nghttpd/h2"];
    fs::write(sandbox.path().join("suite.toml"), suite(&subjects)).unwrap();
    let output = sandbox.dyno(&["run", "suite.toml"]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    sandbox.assert_nothing_is_left();
    let report = sandbox.report();
    let served = |subject: &str| -> Vec<&str> {
        let trials = report["trials"].as_array().unwrap().iter();
        trials
            .filter(|t| t["subject_id"] == subject)
            .map(|t| t["workload"].as_str().unwrap())
            .collect()
    };
    assert_eq!(served("nginx/h2"), ["h1", "h1-tls", "h2"]);
    assert_eq!(served("nginx/h2c"), ["h2c"]);
    assert_eq!(served("nghttpd"), ["h2c"]);
    assert_eq!(served("nghttpd/h2"), ["h2"]);
    assert_eq!(served("h2o/h2"), WORKLOADS.map(|(name, ..)| name));
    for trial in report["trials"].as_array().unwrap() {
        assert_trial(trial);
    }
    for subject in report["subjects"].as_array().unwrap() {
        assert_eq!(subject["failures"].as_array().unwrap().len(), 0, "{}", subject["failures"]);
        for check in subject["checks"].as_array().unwrap() {
            assert_eq!(check["ok"], true, "{} {check}", subject["id"]);
        }
    }
    let caveats = report["caveats"].as_array().unwrap();
    let not_served = caveats.iter().find(|c| c["code"] == "not_served").unwrap();
    let words = not_served["message"].as_str().unwrap();
    assert!(
        words.contains("nginx/h2c, nghttpd were not loaded with h1: each speaks h2c, not h1."),
        "{words}"
    );
    assert!(words.contains("nghttpd/h2 was not loaded with h1: it speaks h2, not h1."), "{words}");
}

/// Asserts that a trial had 20 requests in flight and only correct responses, over any protocol.
fn assert_trial(trial: &Value) {
    let name = format!("{} {}", trial["subject_id"], trial["workload"]);
    let workload = trial["workload"].as_str().unwrap();
    let is_h2 = workload.starts_with("h2");
    let load = &trial["load"];
    let step = (
        trial["step"]["connections"].as_u64().unwrap(),
        trial["step"]["streams"].as_u64().unwrap(),
    );
    assert_eq!(step, if is_h2 { (4, 5) } else { (20, 1) }, "{name}");
    assert_eq!(load["connections"]["opened"].as_u64().unwrap(), step.0, "{name}");
    let n = |key: &str| load["exchanges"][key].as_u64().unwrap();
    assert!(n("completed") > 0, "{name}");
    assert_eq!(
        (n("failed"), load["unexpected"].as_object().unwrap().len()),
        (0, 0),
        "{name}: {load:#}"
    );
    assert_eq!(load["http2"].is_null(), !is_h2, "{name}");
    match workload {
        "h2" => assert_eq!(load["tls"]["alpn"], "h2", "{name}"),
        "h1-tls" => assert_eq!(load["tls"]["alpn"], "http/1.1", "{name}"),
        _ => assert!(load["tls"].is_null(), "{name}"),
    }
}

/// Locations of nginx: `/login` begins a session, and an item needs the cookie and the token of one
/// session.
const SESSIONS: &str = r#"location = /login {
            add_header Set-Cookie "sid=s-$request_id; Path=/; Secure; HttpOnly";
            return 200 '{"token":"$request_id"}';
        }

        location ~ ^/items/(?<token>[0-9a-f]+)$ {
            if ($cookie_sid != "s-$token") {
                return 401;
            }
            return 200 "ok";
        }

        location = /json {"#;

/// Visitors of sessions: name of the workload, its protocol, and whether they keep cookies.
const VISITORS: [(&str, &str, bool); 3] =
    [("h1-tls", "h1", true), ("h2", "h2", true), ("h2-without-cookies", "h2", false)];

fn session_suite() -> String {
    let workload = |(name, protocol, cookies): (&str, &str, bool)| {
        format!(
            "[[workloads]]\nname = {name:?}\nprotocol = {protocol:?}\ntls = true\n\
             cookies = {cookies}\n[[workloads.steps]]\npath = \"/login\"\n\
             extract = {{ token = {{ json = \"/token\" }} }}\nexpect = {{ status = 200 }}\n\
             [[workloads.steps]]\nname = \"item\"\npath = \"/items/{{extract.token}}\"\n\
             expect = {{ status = 200, body = \"ok\" }}\n"
        )
    };
    format!(
        "subjects = [\"nginx/h2\"]\n[suite]\nrepeats = 1\norder = \"fixed\"\nseed = 7\n\
         contaminated = \"counts\"\n[load]\nin_flight = 20\nstreams = 5\nwarmup = \"50ms\"\n\
         duration = \"400ms\"\ninterval = \"200ms\"\n{}",
        VISITORS.map(workload).concat()
    )
}

#[test]
fn sequences_keep_sessions_over_tls() {
    let sandbox = Sandbox::new();
    sandbox.copy_subject("nginx");
    sandbox.replace("subjects/nginx/nginx.conf.in", "location = /json {", SESSIONS);
    fs::write(sandbox.path().join("suite.toml"), session_suite()).unwrap();
    let output = sandbox.dyno(&["run", "suite.toml", "--observe", "none"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    sandbox.assert_nothing_is_left();
    let report = sandbox.report();
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.len(), VISITORS.len(), "{}", text(&output));
    for (name, protocol, keeps_cookies) in VISITORS {
        let trial = trials.iter().find(|trial| trial["workload"] == name).unwrap();
        let load = &trial["load"];
        let alpn = if protocol == "h1" { "http/1.1" } else { "h2" };
        assert_eq!(load["tls"]["alpn"], alpn, "{name}");
        let outcomes = |step: usize| -> Vec<&str> {
            let counts = load["requests"][step]["outcomes"].as_object().unwrap();
            counts.keys().map(String::as_str).collect()
        };
        // The server refuses each item without a cookie.
        let of_item = if keeps_cookies { "ok" } else { "unexpected_status" };
        assert_eq!([outcomes(0), outcomes(1)], [["ok"], [of_item]], "{name}: {load:#}");
        assert_eq!(load["exchanges"]["failed"], 0, "{name}: {load:#}");
        let visits = load["visits"]["completed"].as_u64();
        assert_eq!(visits > Some(0), keeps_cookies, "{name}: {load:#}");
    }
}
