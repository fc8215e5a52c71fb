//! Tests that starts are warmed until they are steady, and that cold servers are not measured.

use std::fs;

use serde_json::Value;

use crate::drive::{Sandbox, text};

/// Runs one unruly server with these keys of `[load]`. Returns the exit status, the output and the
/// report.
fn run(sandbox: &Sandbox, arguments: &[&str], load: &str) -> (Option<i32>, String, Value) {
    sandbox.add_unruly("bad", arguments, "");
    let suite = format!(
        "subjects = [\"bad\"]\n[suite]\nrepeats = 1\nseed = 7\n\
         [[workloads]]\nname = \"text\"\npath = \"/plaintext\"\n[[workloads]]\nname = \"json\"\n\
         path = \"/json\"\n\
         [load]\nconnections = [2, 4]\nduration = \"400ms\"\ninterval = \"200ms\"\n\
         timeout = \"1s\"\n{load}"
    );
    fs::write(sandbox.path().join("suite.toml"), suite).unwrap();
    let output = sandbox.dyno(&["run", "suite.toml"]);
    sandbox.assert_nothing_is_left();
    (output.status.code(), text(&output), sandbox.report())
}

fn warm_up(report: &Value) -> &Value {
    &report["subjects"][0]["warm_ups"][0]
}

fn caveats(trial: &Value) -> Vec<&str> {
    trial["caveats"].as_array().unwrap().iter().map(|c| c["code"].as_str().unwrap()).collect()
}

#[test]
fn cold_server_is_warmed_with_all_workloads() {
    let sandbox = Sandbox::new();
    let (_, message, report) = run(&sandbox, &["--mode", "cold"], "");
    let warm_up = warm_up(&report);
    assert_eq!(warm_up["ended"], "steady", "{message}");
    assert!(message.contains("steady after"), "{message}");
    let slices = warm_up["slices"].as_array().unwrap();
    // For a warm server, eight rounds of the two workloads are enough.
    assert!(slices.len() > 16, "{} slices", slices.len());
    let count_slices =
        |workload: usize| slices.iter().filter(|s| s["workload"] == workload).count();
    assert_eq!(count_slices(0), count_slices(1), "workloads take turns");
    let speed = |slice: &Value| slice["throughput_rps"].as_f64().unwrap();
    // The best of the later half, because on a busy machine any slice may have had no CPU.
    let best = slices[slices.len() / 2..].iter().map(speed).fold(0.0, f64::max);
    assert!(best > 2.0 * speed(&slices[0]), "{warm_up:#}");
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4);
    for trial in trials {
        let codes = caveats(trial);
        assert!(!codes.contains(&"still_warming") && !codes.contains(&"warmup_limit"), "{codes:?}");
    }
    let summaries: Vec<_> = trials
        .iter()
        .map(|t| (t["workload"].as_str(), t["step"]["connections"].as_u64()))
        .collect();
    let (text, json) = (Some("text"), Some("json"));
    assert_eq!(
        summaries,
        [(text, Some(2)), (text, Some(4)), (json, Some(2)), (json, Some(4))],
        "in any order of the workloads"
    );
    let mut places: Vec<_> = trials.iter().map(|t| t["place"].as_u64().unwrap()).collect();
    places.sort_unstable();
    assert_eq!(places, [1, 2, 3, 4]);
}

#[test]
fn endless_compilation_ends_warm_up_at_limit() {
    let sandbox = Sandbox::new();
    let (status, message, report) =
        run(&sandbox, &["--mode", "compiling"], "warmup_limit = \"2s\"\n");
    assert_eq!(status, Some(1), "{message}");
    assert_eq!(warm_up(&report)["ended"], "limit");
    assert!(message.contains("the limit of the warm-up"), "{message}");
    for trial in report["trials"].as_array().unwrap() {
        assert_eq!(trial["valid"], false);
        let codes = caveats(trial);
        assert!(codes.contains(&"still_warming") && codes.contains(&"warmup_limit"), "{codes:?}");
    }
}

#[test]
fn step_after_short_fixed_warm_up_is_invalid() {
    let sandbox = Sandbox::new();
    let (status, message, report) = run(&sandbox, &["--mode", "compiling"], "warmup = \"50ms\"\n");
    assert_eq!(status, Some(1), "{message}");
    assert_eq!(report["subjects"][0]["warm_ups"], Value::Array(Vec::new()));
    assert!(
        report["trials"].as_array().unwrap().iter().all(|t| caveats(t).contains(&"still_warming"))
    );
}

#[test]
fn server_failure_in_warm_up_is_reported() {
    for (mode, kind) in [("crash", "crashed"), ("deaf", "deaf")] {
        let sandbox = Sandbox::new();
        let (status, message, report) = run(&sandbox, &["--mode", mode, "--after", "300"], "");
        assert_eq!(status, Some(3), "{message}");
        let failure = &report["subjects"][0]["failures"][0];
        assert_eq!(failure["kind"], kind, "{failure}");
        assert!(failure["message"].as_str().unwrap().contains("during its warm-up"), "{failure}");
        assert_eq!(report["trials"], Value::Array(Vec::new()));
        assert_eq!(warm_up(&report)["ended"], "cut_short");
    }
}
