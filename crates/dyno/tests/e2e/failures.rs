//! Tests servers that fail: each failure is reported with its kind, the other subject has results,
//! and no process remains.

use std::process::Output;

use serde_json::Value;

use crate::drive::{Sandbox, not_run, refused_for, text};

/// Runs an unruly subject together with the null responder, checks what all such runs have in
/// common, and returns the report.
fn run_unruly(arguments: &[&str], extra: &str) -> Value {
    run_unruly_within("60s", arguments, extra)
}

/// Does the same with a subject that does not start, which is detected after `deadline`.
fn run_unruly_within(deadline: &str, arguments: &[&str], extra: &str) -> Value {
    let sandbox = Sandbox::new();
    sandbox.add_unruly_within(deadline, "bad", arguments, "");
    let (status, report) = sandbox.run(&["bad", "null"], extra);
    assert_eq!(status, 3, "the exit status of a run with a failed subject");
    let null: Vec<&Value> = trials(&report, "null");
    assert_eq!(null.len(), 2, "the other subject has all its steps");
    for trial in null {
        let refused = refused_for(&trial["caveats"]);
        assert!(refused.is_empty(), "{refused:?}: {:#}", trial["caveats"]);
        assert_books(trial);
    }
    for trial in trials(&report, "bad") {
        assert_books(trial);
    }
    report
}

fn trials<'a>(report: &'a Value, subject: &str) -> Vec<&'a Value> {
    report["trials"].as_array().unwrap().iter().filter(|t| t["subject"] == subject).collect()
}

fn assert_books(trial: &Value) {
    let n = |key: &str| trial["load"]["exchanges"][key].as_u64().unwrap();
    assert_eq!(n("carried_in") + n("scheduled"), n("started") + n("dropped"));
    assert_eq!(n("started"), n("completed") + n("failed") + n("in_flight_at_end"));
}

/// Returns the kind and message of the unruly subject's failure.
fn failure(report: &Value) -> (String, String) {
    let subject =
        report["subjects"].as_array().unwrap().iter().find(|s| s["name"] == "bad").unwrap();
    let failure = &subject["failures"][0];
    (failure["kind"].as_str().unwrap().into(), failure["message"].as_str().unwrap().into())
}

#[test]
fn real_server_and_null_responder_are_measured() {
    let sandbox = Sandbox::new();
    sandbox.copy_subject("nginx");
    let (status, report) = sandbox.run(&["nginx", "null"], "");
    assert!(status <= 1, "status {status}");
    assert_eq!(report["schema"], "dyno.report/1");
    for subject in ["nginx", "null"] {
        let trials = trials(&report, subject);
        assert_eq!(trials.len(), 2);
        for trial in trials {
            assert_books(trial);
            assert!(trial["load"]["outcomes"]["ok"].as_u64().unwrap() > 0);
            assert!(trial["server"]["cpu_us_per_request"].as_f64().unwrap() > 0.0);
            assert!(!trial["limiter"]["sentence"].as_str().unwrap().is_empty());
        }
    }
    let subjects = report["subjects"].as_array().unwrap();
    for subject in subjects {
        let checks = subject["checks"].as_array().unwrap();
        // Eight over HTTP/1.1, and five over HTTP/2 where it is supported.
        assert_eq!(checks.len(), if subject["id"] == "null" { 13 } else { 8 });
        assert!(
            checks.iter().all(|c| c["ok"] == true && c["passed"].as_u64() >= Some(2)),
            "{checks:?}"
        );
        assert!(subject["startup_ms"]["first_answer"]["median"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn closed_port_refusals_do_not_fail_run() {
    let sandbox = Sandbox::new();
    let (status, report) = sandbox.run(&["closed-port"], "");
    assert_eq!(status, 0, "{:#}", report["run"]);
    let refused = trials(&report, "closed-port");
    assert_eq!((refused.len(), &report["run"]["trials_invalid"]), (2, &Value::from(0)));
    for trial in refused {
        assert_eq!((&trial["valid"], &trial["refused"]), (&Value::from(false), &Value::from(true)));
        assert!(trial["load"]["outcomes"]["connect_refused"].as_u64() > Some(0));
        assert_books(trial);
    }
}

#[test]
fn crash_under_load_is_reported() {
    let report = run_unruly(&["--mode", "crash", "--after", "300"], "");
    let (kind, message) = failure(&report);
    assert_eq!(kind, "crashed");
    assert!(message.contains("exit status: 9"), "{message}");
    let subject =
        report["subjects"].as_array().unwrap().iter().find(|s| s["name"] == "bad").unwrap();
    assert!(subject["failures"][0]["log_tail"].as_str().unwrap().contains("out of luck"));
}

#[test]
fn server_that_never_listens_is_not_ready() {
    let (kind, message) = failure(&run_unruly_within("2s", &["--mode", "never"], ""));
    assert_eq!(kind, "never_ready");
    assert!(message.contains("nothing listened on port"), "{message}");
}

#[test]
fn server_that_exits_at_once_is_reported_with_output() {
    let report = run_unruly(&["--mode", "exit-at-once"], "");
    let (kind, message) = failure(&report);
    assert_eq!(kind, "never_ready");
    assert!(message.contains("exit status: 7"), "{message}");
    let subject =
        report["subjects"].as_array().unwrap().iter().find(|s| s["name"] == "bad").unwrap();
    assert!(subject["failures"][0]["log_tail"].as_str().unwrap().contains("line 3"));
}

#[test]
fn server_that_listens_on_one_of_two_ports_is_not_ready() {
    let report =
        run_unruly_within("2s", &["--mode", "one-port", "--second-port", "{tls_port}"], "");
    let (kind, message) = failure(&report);
    assert_eq!(kind, "never_ready");
    assert!(message.contains("nothing listened on port"), "{message}");
}

#[test]
fn server_on_both_ports_is_ready() {
    let sandbox = Sandbox::new();
    sandbox.add_unruly("both", &["--second-port", "{tls_port}"], "");
    let (_, report) = sandbox.run(&["both"], "");
    assert_eq!(trials(&report, "both").len(), 2);
}

#[test]
fn server_that_ignores_signal_is_killed() {
    let sandbox = Sandbox::new();
    sandbox.add_unruly_within("2s", "stubborn", &["--mode", "stubborn"], "");
    let (_, report) = sandbox.run(&["stubborn"], "");
    assert_eq!(trials(&report, "stubborn").len(), 2, "its results are valid");
    assert_eq!(report["subjects"][0]["stop_killed"], 1);
}

#[test]
fn memory_limit_kill_is_reported() {
    if !dyno_observer::facts::may_make_groups(&dyno_observer::cgroup::Layout::read()) {
        not_run("this user cannot create control groups, so there is no memory limit");
        return;
    }
    let report = run_unruly(&["--mode", "hog", "--after", "100"], "[limits]\nmemory = \"96MiB\"");
    assert_eq!(failure(&report).0, "out_of_memory");
    let limits = report["subjects"][0]["limits"].as_array().unwrap();
    let memory = limits.iter().find(|l| l["name"] == "memory").unwrap();
    assert_eq!(memory["read_back"], "100663296 bytes");
}

#[test]
fn cpu_quota_is_enforced_and_is_limiter() {
    if !dyno_observer::facts::may_make_groups(&dyno_observer::cgroup::Layout::read()) {
        not_run("this user cannot create control groups, so there is no quota");
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.add_unruly("good", &[], "");
    let (_, report) = sandbox.run(&["good"], "[limits]\ncpus = 0.2");
    // If a busy machine gave the server less than its quota, the quota is not the limiter.
    let trials = trials(&report, "good");
    let limited = trials.iter().filter(|trial| trial["limiter"]["resource"] == "cpu_quota");
    let throttled =
        limited.map(|trial| trial["server"]["throttled_s"].as_f64().unwrap()).collect::<Vec<_>>();
    let limiters: Vec<_> = trials.iter().map(|trial| &trial["limiter"]["sentence"]).collect();
    assert!(
        !throttled.is_empty() && throttled.iter().all(|s| *s > 0.0),
        "{throttled:?}: {limiters:?}"
    );
}

#[test]
fn failed_build_does_not_affect_other_subjects() {
    let sandbox = Sandbox::new();
    let build =
        "[build]\ncommand = \"echo missing semicolon; false\"\ninputs = [\"subject.toml\"]\n";
    sandbox.add_unruly("bad", &[], build);
    let (status, report) = sandbox.run(&["bad", "null"], "");
    assert_eq!(status, 3);
    let (kind, message) = failure(&report);
    assert_eq!(kind, "build_failed");
    assert!(message.contains("missing semicolon"), "{message}");
    assert_eq!(trials(&report, "null").len(), 2);
}

#[test]
fn invalid_suite_exits_with_2_and_position() {
    let sandbox = Sandbox::without_load();
    std::fs::write(sandbox.path().join("suite.toml"), "subjects = [\"nul\"]\n").unwrap();
    let output = sandbox.dyno(&["run", "suite.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let text = crate::drive::text(&output);
    assert!(
        text.contains("suite.toml:1:")
            && text.contains("did you mean \"null\"?")
            && text.contains("^^^"),
        "{text}"
    );
    assert_eq!(sandbox.dyno(&["run", "absent.toml"]).status.code(), Some(2));
    assert_eq!(sandbox.dyno(&["frobnicate"]).status.code(), Some(2));
}

/// Asserts that the output has no control sequences.
fn assert_no_control_sequences(output: &Output, expected: &str) {
    let printed = text(output);
    let obeyed: Vec<char> =
        printed.chars().filter(|c| c.is_control() && !"\n\t".contains(*c)).collect();
    assert_eq!(obeyed, [], "{printed:?}");
    assert!(printed.contains(expected), "{expected:?} is not shown: {printed}");
}

#[test]
fn server_output_is_escaped() {
    let sandbox = Sandbox::new();
    sandbox.add_unruly("bad", &["--mode", "escapes"], "");
    sandbox.write_suite(&["bad"], "");
    let output = sandbox.dyno(&["run", "suite.toml"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    // The output of the server: colours are removed, and the sequence for a title is made visible.
    assert_no_control_sequences(&output, "52;c;aGk=");
    assert!(text(&output).contains("unruly is red ␛]0;owned␇"), "the log: {}", text(&output));
    let run = sandbox.run_folder().unwrap();
    assert_no_control_sequences(&sandbox.dyno(&["report", run.to_str().unwrap()]), "52;c;aGk=");
    assert_no_control_sequences(
        &sandbox.dyno(&["report", run.to_str().unwrap(), "--format", "md"]),
        "responded incorrectly",
    );
    assert_no_control_sequences(&sandbox.dyno(&["subjects", "check", "bad"]), "52;c;aGk=");
}

#[test]
fn build_output_is_escaped() {
    let sandbox = Sandbox::new();
    let build = "[build]\ninputs = []\ncommand = \"printf '\\\\033[31merror\\\\033[0m: \
                 \\\\033]0;owned\\\\007'; exit 1\"\n";
    sandbox.add_unruly("bad", &[], build);
    sandbox.write_suite(&["bad", "null"], "");
    let expected = "error: ␛]0;owned␇";
    assert_no_control_sequences(&sandbox.dyno(&["subjects", "build", "bad"]), expected);
    assert_no_control_sequences(&sandbox.dyno(&["run", "suite.toml"]), expected);
    assert_no_control_sequences(&sandbox.dyno(&["subjects", "check", "bad"]), expected);
}

#[test]
fn file_content_in_errors_is_escaped() {
    let sandbox = Sandbox::without_load();
    std::fs::write(sandbox.path().join("suite.toml"), "subjects = [\"\u{9b}2J\u{202e}x\"]\n")
        .unwrap();
    let output = sandbox.dyno(&["run", "suite.toml"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert_no_control_sequences(&output, "\\u{9b}2J");
}
