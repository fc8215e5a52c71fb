//! Tests servers that fail: each failure is reported with its kind and its cause, the other
//! subjects have results, and no process remains.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::drive::{DYNO, Sandbox, control_characters, free_port, not_run, refused_for, text};

fn trials<'a>(report: &'a Value, subject: &str) -> Vec<&'a Value> {
    report["trials"].as_array().unwrap().iter().filter(|t| t["subject"] == subject).collect()
}

fn subject<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["subjects"].as_array().unwrap().iter().find(|s| s["name"] == name).unwrap()
}

fn assert_books(trial: &Value) {
    let n = |key: &str| trial["load"]["exchanges"][key].as_u64().unwrap();
    assert_eq!(n("carried_in") + n("scheduled"), n("started") + n("dropped"));
    assert_eq!(n("started"), n("completed") + n("failed") + n("in_flight_at_end"));
}

/// Two servers are loaded at the same time, and the controls alone.
#[test]
fn real_servers_and_controls_are_measured() {
    let sandbox = Sandbox::new();
    sandbox.copy_subject("nginx");
    sandbox.add_unruly("good", &[], "");
    sandbox.write_suite(&["nginx", "good", "null", "closed-port"], "");
    sandbox.replace("suite.toml", "\"fixed\"", "\"duet\"");
    let output = sandbox.dyno(&["run", "suite.toml"]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    sandbox.assert_nothing_is_left();
    let report = sandbox.report();
    assert_eq!(report["schema"], "dyno.report/1");
    for name in ["nginx", "good", "null"] {
        let trials = trials(&report, name);
        assert_eq!(trials.len(), 2, "{name}");
        for trial in trials {
            assert_books(trial);
            assert!(trial["load"]["outcomes"]["ok"].as_u64().unwrap() > 0);
            assert!(trial["server"]["cpu_us_per_request"].as_f64().unwrap() > 0.0);
            assert!(!trial["limiter"]["sentence"].as_str().unwrap().is_empty());
        }
        let subject = subject(&report, name);
        let checks = subject["checks"].as_array().unwrap();
        // Eight over HTTP/1.1, and five over HTTP/2 where it is supported.
        assert_eq!(checks.len(), if name == "null" { 13 } else { 8 });
        assert!(
            checks.iter().all(|c| c["ok"] == true && c["passed"].as_u64() >= Some(2)),
            "{checks:?}"
        );
        assert!(subject["startup_ms"]["first_answer"]["median"].as_f64().unwrap() > 0.0);
    }
    for step in 0..2 {
        let [nginx, good, null] =
            ["nginx", "good", "null"].map(|name| &trials(&report, name)[step]["duet"]);
        assert_eq!((&nginx["loads"], &nginx["beside"][0]), (&2.into(), &"good".into()), "{nginx}");
        assert_eq!(nginx["began_ns"], good["began_ns"], "the loads began at the same instant");
        assert!(null.is_null(), "{null}");
    }
    let refused = trials(&report, "closed-port");
    assert_eq!(refused.len(), 2);
    for trial in refused {
        assert_eq!((&trial["valid"], &trial["refused"]), (&false.into(), &true.into()));
        assert!(trial["load"]["outcomes"]["connect_refused"].as_u64() > Some(0));
        assert_books(trial);
    }
    // Refusals by the control are expected.
    let is_invalid = |trial: &&Value| trial["valid"] == false && trial["refused"] != true;
    let invalid = report["trials"].as_array().unwrap().iter().filter(is_invalid).count();
    assert_eq!(report["run"]["trials_invalid"], invalid);
}

/// Servers that fail: name, options, kind of the failure, and parts of its cause and its log.
const FAULTY: [(&str, &str, &str, &str, &str); 6] = [
    ("crash", "--mode crash --after 300", "crashed", "exit status: 9", "out of luck"),
    ("exits", "--mode exit-at-once", "never_ready", "exit status: 7", "line 3"),
    ("never", "--mode never", "never_ready", NO_LISTENER, ""),
    ("one-port", "--mode one-port --second-port {tls_port}", "never_ready", NO_LISTENER, ""),
    ("escapes", "--mode escapes", "wrong_answers", "52;c;aGk=", "unruly is red"),
    ("hog", "--mode hog --after 100", "out_of_memory", "because the memory limit was reached", ""),
];

const NO_LISTENER: &str = "nothing listened on port";

/// Adds a subject whose build replaces `{dyno}`'s file by `other`, prints control sequences and
/// fails.
fn add_failing_build(sandbox: &Sandbox) {
    let [program, other] = ["dyno", "other"].map(|name| sandbox.path().join(name));
    for copy in [&program, &other] {
        fs::copy(DYNO, copy).unwrap();
    }
    let command = format!(
        "mv {} {}; printf '\\033[31merror\\033[0m: \\033]0;owned\\007'; exit 1",
        other.display(),
        program.display()
    );
    let build = format!("[build]\ninputs = []\ncommand = {command:?}\n");
    sandbox.add_unruly("unbuilt", &[], &build);
}

/// Asserts that the output has no control sequences, and that it shows those of servers.
fn assert_no_control_sequences(output: &Output, expected: &str) {
    let printed = text(output);
    assert_eq!(control_characters(&printed), [], "{printed:?}");
    assert!(printed.contains(expected), "{expected:?} is not shown: {printed}");
}

#[test]
fn failures_have_kind_and_cause_and_escaped_output() {
    let has_groups = dyno_observer::facts::may_make_groups(&dyno_observer::cgroup::Layout::read());
    if !has_groups {
        not_run("this user cannot create control groups, so there is no memory limit and no quota");
    }
    let sandbox = Sandbox::new();
    let faulty = || FAULTY.iter().filter(|(name, ..)| has_groups || *name != "hog");
    for (name, options, _, cause, _) in faulty() {
        // A server without a listener is detected at its deadline.
        let deadline = if *cause == NO_LISTENER { "500ms" } else { "60s" };
        sandbox.add_unruly_within(deadline, name, &options.split(' ').collect::<Vec<_>>(), "");
    }
    sandbox.add_unruly("slow", &["--second-port", "{tls_port}"], "");
    add_failing_build(&sandbox);
    let entry = |name: &str| match name {
        "hog" => "{ use = \"hog\", memory = \"96MiB\" }".into(),
        "slow" if has_groups => "{ use = \"slow\", cpus = 0.2 }".into(),
        name => format!("{name:?}"),
    };
    let names = ["unbuilt"].into_iter().chain(faulty().map(|(name, ..)| *name));
    let entries: Vec<String> = names.chain(["slow", "null"]).map(entry).collect();
    sandbox.write_suite_of(&format!("[{}]", entries.join(", ")), "");
    let mut command = sandbox.command(&sandbox.path().join("dyno"));
    let output = command.args(["run", "suite.toml", "--observe", "none"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    sandbox.assert_nothing_is_left();
    let report = sandbox.report();
    for (name, _, kind, cause, log) in faulty() {
        let failure = &subject(&report, name)["failures"][0];
        assert_eq!(failure["kind"], *kind, "{name}: {failure}");
        assert!(failure["message"].as_str().unwrap().contains(cause), "{name}: {failure}");
        assert!(failure["log_tail"].as_str().unwrap_or("").contains(log), "{name}: {failure}");
        trials(&report, name).into_iter().for_each(assert_books);
    }
    let failure = &subject(&report, "unbuilt")["failures"][0];
    assert_eq!((&failure["kind"], trials(&report, "unbuilt").len()), (&"build_failed".into(), 0));
    assert_others_are_measured(&report, has_groups);
    assert_nothing_is_observed(&sandbox, &report);
    assert_output_is_escaped(&sandbox, &output);
    assert_wrong_port_is_named(&sandbox);
}

/// Checks that a run without probes has none of their values, and says so.
fn assert_nothing_is_observed(sandbox: &Sandbox, report: &Value) {
    let trial = trials(report, "null")[0];
    let values = ["calls", "working"].map(|key| &trial["server"][key]);
    assert_eq!(values, [&Value::Null; 2]);
    let caveats = trial["caveats"].as_array().unwrap();
    let found = caveats.iter().find(|c| c["code"] == "syscalls_not_measured").expect("a caveat");
    let message = found["message"].as_str().unwrap();
    assert!(message.contains("`--observe` did not include them"), "{found}");
    let run = sandbox.run_folder().unwrap();
    let output = sandbox.dyno(&["profile", run.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("`profile = true` under [observe]"), "{}", text(&output));
}

/// Checks a server that listens on another port than dyno's.
fn assert_wrong_port_is_named(sandbox: &Sandbox) {
    let port = free_port();
    let script = format!("echo port {port} it is; exec {DYNO} serve-null --port {port}");
    let folder = sandbox.path().join("subjects/astray");
    fs::create_dir(&folder).unwrap();
    let definition = format!(
        "language = \"Rust\"\nprotocols = [\"h1\"]\n[start]\ncommand = [\"sh\", \"-c\", \
         {script:?}]\nenv = {{ PORT = \"{{port}}\" }}\n[ready]\ndeadline = \"1s\"\n"
    );
    fs::write(folder.join("subject.toml"), definition).unwrap();
    let output = sandbox.dyno(&["subjects", "check", "astray"]);
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(3), "{printed}");
    for part in [
        "nothing listened on port ",
        &format!(". The process listens on 127.0.0.1:{port}"),
        "last output lines of astray:",
        &format!("port {port} it is"),
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
}

/// Checks the servers that do not fail: the one with a quota, and a control.
fn assert_others_are_measured(report: &Value, has_groups: bool) {
    for name in ["slow", "null"] {
        let trials = trials(report, name);
        assert_eq!(trials.len(), 2, "{name} has all its steps");
        for trial in trials {
            let refused = refused_for(&trial["caveats"]);
            assert!(refused.is_empty(), "{refused:?}: {:#}", trial["caveats"]);
            assert_books(trial);
        }
    }
    // `{dyno}` refers to the running program, whose file the build has replaced.
    let version = &subject(report, "null")["version"];
    assert!(version.as_str().is_some_and(|v| v.starts_with("dyno ")), "{version}");
    if !has_groups {
        return;
    }
    let limits = subject(report, "hog")["limits"].as_array().unwrap();
    let memory = limits.iter().find(|limit| limit["name"] == "memory").unwrap();
    assert_eq!(memory["read_back"], "100663296 bytes");
    // If a busy machine gave the server less than its quota, the quota is not the limiter.
    let trials = trials(report, "slow");
    let limited = trials.iter().filter(|trial| trial["limiter"]["resource"] == "cpu_quota");
    let throttled: Vec<f64> =
        limited.map(|trial| trial["server"]["throttled_s"].as_f64().unwrap()).collect();
    let limiters: Vec<_> = trials.iter().map(|trial| &trial["limiter"]["sentence"]).collect();
    assert!(
        !throttled.is_empty() && throttled.iter().all(|s| *s > 0.0),
        "{throttled:?}: {limiters:?}"
    );
}

/// Checks the output of a run with a failed build and a server that prints control sequences, and
/// of other commands about them.
fn assert_output_is_escaped(sandbox: &Sandbox, run: &Output) {
    let (of_build, response) = ("error: ␛]0;owned␇", "52;c;aGk=");
    // Colours are removed, and the sequence for a title is made visible.
    for expected in [of_build, response, "unruly is red ␛]0;owned␇"] {
        assert_no_control_sequences(run, expected);
    }
    let folder = sandbox.run_folder().unwrap().display().to_string();
    for (arguments, expected) in [
        (&["report", &folder][..], response),
        (&["report", &folder, "--format", "md"], "responded incorrectly"),
        (&["subjects", "check", "escapes"], response),
        (&["subjects", "build", "unbuilt"], of_build),
        (&["subjects", "check", "unbuilt"], of_build),
    ] {
        assert_no_control_sequences(&sandbox.dyno(arguments), expected);
    }
}
