//! Tests the short form of the demo suite as an ordinary user: everything runs, and values that
//! need privileges are null with a caveat.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::drive::{DYNO, Sandbox, not_run, repository, text};

/// The subjects of the demo suite.
const DEMO: [&str; 7] =
    ["null", "h2o", "nginx", "go-nethttp", "node-http", "rust-hyper", "java-jetty"];

fn shell(script: &str) {
    let status = Command::new("sh").args(["-ec", script]).status().unwrap();
    assert!(status.success(), "{script}");
}

#[test]
#[ignore = "long: runs in make nightly"]
fn short_demo_runs_as_ordinary_user() {
    let sandbox = Sandbox::new();
    let root = repository();
    let here = sandbox.path().display();
    // The user who runs the tests builds the subjects once. The ordinary user owns the results.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("subjects");
    let built = Command::new(DYNO)
        .args(["subjects", "build"])
        .args(DEMO)
        .current_dir(&root)
        .env("DYNO_CACHE", &cache)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
    shell(&format!(
        "cp -r {}/subjects/. {here}/subjects/; cp -r {} {here}/cache",
        root.display(),
        cache.display()
    ));
    let suite = fs::read_to_string(root.join("suites/hello.toml")).unwrap();
    let short = suite
        .replace("repeats = 5", "repeats = 1")
        .replace("\"800ms\"", "\"300ms\"")
        .replace("[1, 64, 256]", "[1, 16]");
    assert_ne!(suite, short, "the demo suite has another form than expected");
    fs::write(sandbox.path().join("suite.toml"), short).unwrap();
    let output = sandbox.dyno_as_ordinary_user(&["run", "suite.toml"]);
    assert!(output.status.code().is_some_and(|c| c <= 1), "{}", text(&output));
    sandbox.assert_nothing_is_left();
    // Only subjects that this user's tools cannot build are skipped.
    let list =
        String::from_utf8(sandbox.dyno_as_ordinary_user(&["subjects", "list"]).stdout).unwrap();
    let unmet: Vec<&str> =
        list.lines().filter(|l| l.contains(" no: ")).filter_map(|l| l.split(' ').next()).collect();
    let unmet: Vec<&str> = unmet.into_iter().filter(|name| DEMO.contains(name)).collect();
    check(&sandbox.report(), &unmet);
}

fn check(report: &Value, unmet: &[&str]) {
    assert_eq!(report["run"]["facts"]["privileged"], false);
    let missing = report["run"]["facts"]["missing"].as_array().unwrap();
    let groups =
        missing.iter().find(|m| m["what"].as_str().unwrap().starts_with("CPU and memory limits"));
    let no_groups = groups.is_some();
    let mut measured = Vec::new();
    for subject in report["subjects"].as_array().unwrap() {
        let name = subject["name"].as_str().unwrap();
        let trials: Vec<&Value> =
            report["trials"].as_array().unwrap().iter().filter(|t| t["subject"] == name).collect();
        if let Some(reason) = subject["skipped"].as_str() {
            assert!(unmet.contains(&name) && trials.is_empty(), "{name}: {reason}");
            not_run(&format!("{name} as an ordinary user: {reason}"));
            continue;
        }
        assert_eq!(
            subject["failures"].as_array().unwrap().len(),
            0,
            "{name}: {}",
            subject["failures"]
        );
        assert_eq!(trials.len(), 2, "{name}");
        measured.push(name);
        for trial in trials {
            assert!(trial["server"]["cpu_us_per_request"].as_f64().unwrap() > 0.0, "{name}");
            assert!(trial["server"]["rss_bytes"].as_u64().unwrap() > 0, "{name}");
            // Values that this user cannot read are empty, with the reason.
            if trial["server"]["calls"].is_null() {
                let caveats = trial["caveats"].as_array().unwrap();
                let reason = caveats
                    .iter()
                    .find(|c| c["code"] == "syscalls_not_measured")
                    .expect("a caveat");
                assert!(
                    reason["message"].as_str().unwrap().contains("were not counted: "),
                    "{name}: {reason}"
                );
                assert!(trial["server"]["working"].is_null(), "{name}");
            }
            if no_groups {
                assert_eq!(trial["server"]["throttled_s"], Value::Null, "{name}");
                assert!(
                    trial["caveats"].as_array().unwrap().iter().any(|c| c["code"] == "no_cgroup"),
                    "{name}"
                );
            }
        }
    }
    assert_eq!(measured.len() + unmet.len(), DEMO.len(), "measured {measured:?}, unmet {unmet:?}");
    assert!(measured.contains(&"null") && measured.contains(&"nginx"), "measured: {measured:?}");
}
