//! Tests probes inside servers: system calls, waits of threads, and profiles.

use std::fs;

use serde_json::Value;

use crate::drive::{DYNO, Sandbox, not_run, text};

/// Returns why probes are unavailable. `None`: probes are available.
fn refusal() -> Option<String> {
    dyno_observer::probes::refusal().map(|refusal| refusal.reason)
}

/// Runs one server with this number of connections, and returns its only trial.
fn run_trial(sandbox: &Sandbox, subject: &str, connections: u32, rest: &str) -> Value {
    let suite = format!(
        "subjects = [{subject:?}]\n[suite]\nrepeats = 1\nseed = 7\n[[workloads]]\n\
         path = \"/plaintext\"\n\
         [load]\nconnections = {connections}\nwarmup = \"200ms\"\nduration = \"2s\"\n{rest}"
    );
    fs::write(sandbox.path().join("suite.toml"), suite).unwrap();
    let output = sandbox.dyno(&["run", "suite.toml"]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    sandbox.assert_nothing_is_left();
    sandbox.report()["trials"][0].clone()
}

fn number(value: &Value, pointer: &str) -> f64 {
    value
        .pointer(pointer)
        .and_then(Value::as_f64)
        .unwrap_or_else(|| panic!("no {pointer} in {value:#}"))
}

#[test]
fn h2o_system_calls_are_counted_also_in_container() {
    assert_calls_and_bytes_are_counted();
    assert_calls_in_container_have_unknown_results();
}

fn assert_calls_and_bytes_are_counted() {
    if let Some(reason) = refusal() {
        return not_run(&format!("the system calls of h2o: {reason}"));
    }
    let sandbox = Sandbox::new();
    sandbox.copy_subject("h2o");
    let trial = run_trial(&sandbox, "h2o", 64, "[observe]\nevery_syscall = true\n");
    let calls = &trial["server"]["calls"];
    for call in ["read", "writev", "pread64"] {
        let each = number(calls, &format!("/by_name/{call}/per_response"));
        assert!((each - 1.0).abs() < 0.01, "{call}: {each}\n{calls:#}");
        assert_eq!(trial["server"]["per_request"]["syscalls"][call], each);
    }
    let all = number(calls, "/per_response");
    assert!((3.0..4.0).contains(&all), "{all}");
    let per_response = |key: &str| {
        number(&trial, &format!("/load/bytes/{key}")) / number(&trial, "/load/bytes/responses")
    };
    let (wrote, got) = (number(calls, "/writes/bytes_per_response"), per_response("received"));
    assert!(
        (wrote / got - 1.0).abs() < 0.01,
        "it wrote {wrote} bytes per response, and {got} came"
    );
    let read = number(calls, "/by_name/read/returned_mean");
    assert!((read - per_response("sent")).abs() < 1.0, "{read}");
    let sockets = &trial["server"]["sockets"];
    // The generator's connections, and sometimes one that checks the contract.
    assert!((64.0..68.0).contains(&number(sockets, "/connections")), "{sockets:#}");
    assert!(number(sockets, "/nodelay") == 1.0, "{sockets:#}");
    assert!(number(sockets, "/listeners/0/backlog") > 0.0, "{sockets:#}");
    // The states of the threads add up to the total time.
    let work = &trial["server"]["by_thread_role"]["work"];
    let states =
        work["states_s"].as_object().unwrap().values().filter_map(Value::as_f64).sum::<f64>();
    let lived = number(work, "/threads") * number(&trial, "/server/window_s");
    assert!((states / lived - 1.0).abs() < 0.01, "{states} s of {lived} s");
}

/// In another PID namespace, the program in the kernel cannot identify the processes.
fn assert_calls_in_container_have_unknown_results() {
    if !dyno_observer::probes::can_count_syscalls() {
        return not_run("system calls by counters: this user cannot count any");
    }
    let sandbox = Sandbox::new();
    sandbox.copy_subject("h2o");
    let suite = "subjects = [\"h2o\"]\n[suite]\nrepeats = 1\n[[workloads]]\npath = \"/plaintext\"\n\
         [load]\nconnections = 16\nwarmup = \"200ms\"\nduration = \"2s\"\n";
    fs::write(sandbox.path().join("suite.toml"), suite).unwrap();
    let mut container = sandbox.command("unshare".as_ref());
    container.args(["--pid", "--fork", "--mount-proc", DYNO, "run", "suite.toml"]);
    let output = container.output().unwrap();
    if text(&output).contains("unshare failed") {
        return not_run("system calls in a PID namespace: this user cannot create one");
    }
    let trial = sandbox.report()["trials"][0].clone();
    let calls = &trial["server"]["calls"];
    for call in ["read", "writev", "pread64"] {
        let each = number(calls, &format!("/by_name/{call}/per_response"));
        assert!((0.97..1.03).contains(&each), "{call}: {each}\n{calls:#}");
        assert!(calls["by_name"][call]["returned_mean"].is_null(), "{calls:#}");
    }
    assert!((3.0..4.0).contains(&number(calls, "/per_response")), "{calls:#}");
    assert!(calls["reads"]["bytes_per_response"].is_null(), "{calls:#}");
    let caveats = trial["caveats"].to_string();
    assert!(
        caveats
            .contains("dyno could not record states, because dyno runs in its own PID namespace"),
        "{caveats}"
    );
}

#[test]
#[ignore = "long: runs in make nightly"]
fn thread_waits_identify_limiter() {
    if let Some(reason) = refusal() {
        return not_run(&format!("reasons why threads wait: {reason}"));
    }
    for (mode, connections, limiter) in
        [("sleepy-workers", 64, "workers"), ("lock", 32, "lock"), ("good", 1, "concurrency")]
    {
        let sandbox = Sandbox::new();
        sandbox.add_unruly(mode, &["--mode", mode], "");
        // If other programs took the CPUs, the server's bottleneck is unknown, and the verdict says
        // so.
        let mut found =
            (0..TRIES).map(|_| run_trial(&sandbox, mode, connections, "")["limiter"].clone());
        let Some(found) = found.find(|found| !is_disturbed(found)) else {
            return not_run(&format!(
                "reasons why threads of {mode} wait: other programs used the CPUs"
            ));
        };
        let observed = found["resource"].as_str().unwrap();
        // With one connection, the CPU may be the limiter on a slow machine.
        let may_be = observed == "server_cpu" && mode == "good";
        assert!(observed == limiter || may_be, "{mode}: {found:#}");
    }
}

/// Number of loads that may be disturbed before a check is skipped.
const TRIES: usize = 4;

/// Returns whether the verdict is that other programs used CPUs of the server or the generator.
fn is_disturbed(found: &Value) -> bool {
    let evidence = &found["evidence"];
    let above = |key: &str, min: f64| evidence[key].as_f64().is_some_and(|value| value > min);
    let is_starved = above("server_run_delay_s", 0.1)
        || above("steal_share", 0.02)
        || evidence["generator_starved"] == true;
    match found["resource"].as_str() {
        Some("other_programs") => true,
        Some("unknown") => is_starved,
        // The verdict is a guess if other programs used a part of its CPUs.
        Some("generator") => found["confidence"] == "low",
        _ => false,
    }
}

/// Returns the names of the functions in a flame graph, without entries that are only an address in
/// a file.
fn functions(flame: &Value) -> Vec<String> {
    let all = flame["functions"].as_array().unwrap_or_else(|| panic!("no functions in {flame:#}"));
    all.iter().filter_map(|function| Some(function["name"].as_str()?.to_string())).collect()
}

#[test]
#[ignore = "long: runs in make nightly"]
fn profiles_and_runtime_values_are_recorded_on_request() {
    assert_runtime_values_are_read_on_request();
    if let Some(refusal) = dyno_observer::stacks::refusal() {
        return not_run(&format!("stacks of servers: {}", refusal.reason));
    }
    for (subject, wanted) in
        [("h2o", ["h2o_evloop_run", "main"]), ("node-http", ["uv_run", "parserOnIncoming"])]
    {
        let sandbox = Sandbox::new();
        sandbox.copy_subject(subject);
        let trial = run_trial(&sandbox, subject, 16, "[observe]\nprofile = true\n");
        assert_profile_is_complete(&sandbox, &trial, wanted);
        assert_profile_is_printed(&sandbox, subject);
    }
}

/// Asserts that a profile has functions of the server and of the kernel, which add up to the CPU
/// time.
fn assert_profile_is_complete(sandbox: &Sandbox, trial: &Value, wanted: [&str; 2]) {
    let profile = &sandbox.report()["profiles"][0];
    assert_eq!(profile["failures"], serde_json::json!([]));
    let (running, waiting) = (&profile["running"], &profile["waiting"]);
    let names = functions(running);
    for name in wanted.iter().chain(&["tcp_sendmsg", "do_syscall_64"]) {
        assert!(names.iter().any(|known| known.contains(name)), "no {name} among {names:?}");
    }
    assert!(number(running, "/whole_share") > 0.9, "{running:#}");
    // The samples add up to the CPU time that the kernel reports, except for the time to begin and
    // to end. While the host runs other guests, no samples are taken.
    let stolen = trial.pointer("/server/steal_share").and_then(Value::as_f64).unwrap_or(0.0);
    let (observed, used) =
        (number(running, "/us_per_request"), number(profile, "/cpu_us_per_request"));
    assert!(
        (0.9 - 2.0 * stolen..1.05).contains(&(observed / used)),
        "{wanted:?}: {observed} µs in samples, and {used} µs used; stolen {stolen}"
    );
    assert!(observed / used - number(profile, "/sampled_share") < 1e-9);
    let is_wait = |name: &String| name.contains("wait") || name.contains("poll");
    assert!(functions(waiting).iter().any(is_wait), "{wanted:?}");
}

/// Asserts that `dyno profile` prints a profile in all its forms.
fn assert_profile_is_printed(sandbox: &Sandbox, subject: &str) {
    let run = sandbox.run_folder().unwrap();
    let run = run.to_str().unwrap();
    let profile_output = |options: &[&str]| {
        let output = sandbox.dyno(&[&["profile", run, "--trial", "1"], options].concat());
        assert!(output.status.success(), "{}", text(&output));
        output.stdout
    };
    let listed = text(&sandbox.dyno(&["profile", run]));
    let line = format!("--trial 1    {subject}, 16 connections");
    assert!(listed.contains(&line), "{listed}");
    let which = sandbox.dyno(&["profile", run, "--format", "html"]);
    assert_eq!(which.status.code(), Some(2), "{}", text(&which));
    let stacks = String::from_utf8(profile_output(&[])).unwrap();
    assert!(stacks.lines().any(|line| line.contains(";tcp_sendmsg_[k]")), "{stacks}");
    let same_stacks = String::from_utf8(profile_output(&["--beside-trial", "1"])).unwrap();
    assert!(same_stacks.lines().all(|line| {
        let counts: Vec<&str> = line.rsplitn(3, ' ').collect();
        counts[0] == counts[1]
    }));
    let page = String::from_utf8(profile_output(&["--off-cpu", "--format", "html"])).unwrap();
    assert!(page.contains("dyno.profile/1") && page.contains("data-side=\"waiting\""));
    let file = sandbox.path().join("profile.pb.gz");
    profile_output(&["--format", "pprof", "-o", file.to_str().unwrap()]);
    assert!(fs::read(&file).unwrap().starts_with(&[0x1f, 0x8b]), "it is compressed");
}

fn assert_runtime_values_are_read_on_request() {
    let is_here = std::process::Command::new("node").arg("--version").output().is_ok();
    if !is_here {
        return not_run("statistics of Node.js: no node");
    }
    // One folder after the other, because only one dyno runs at a time.
    let trial_of_node = |rest: &str| {
        let sandbox = Sandbox::new();
        sandbox.copy_subject("node-http");
        run_trial(&sandbox, "node-http", 16, rest)
    };
    let found = trial_of_node("")["server"]["runtime"].clone();
    let busy = number(&found, "/utilisation/event_loop");
    assert!((0.1..=1.0).contains(&busy), "{found:#}");
    assert!(
        number(&found, "/highest/heap_bytes") > 1e6 && number(&found, "/readings") >= 2.0,
        "{found:#}"
    );
    let trial = trial_of_node("[observe]\nruntime = false\n");
    assert_eq!(trial["server"]["runtime"], Value::Null);
    let messages = trial["caveats"].to_string();
    assert!(!messages.contains("runtime"), "no caveat without the probe: {messages}");
}
