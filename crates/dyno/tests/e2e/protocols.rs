//! Tests real servers over every protocol that they support, over TLS with dyno's own certificates.

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
