//! Tests servers with a thread or a process per connection: the CPU time of ended threads and
//! processes is counted or unknown, and never 0.

use std::fs;

use serde_json::Value;

use crate::drive::{Sandbox, not_run, runs_as_root, text};

/// Lowest CPU time of a request on such a server, by its construction, µs.
const COSTS_US: f64 = 400.0;

fn add(sandbox: &Sandbox, kind: &str) {
    let folder = sandbox.path().join("subjects").join(kind);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("ended.py"), include_str!("ended.py")).unwrap();
    let text = format!(
        "language = \"Python\"\nprotocols = [\"h1\"]\nchecks = []\n\
         [start]\ncommand = [\"python3\", \"{{dir}}/ended.py\", \"{kind}\", \"{{port}}\"]\n\
         [ready]\npath = \"/plaintext\"\ndeadline = \"60s\"\n"
    );
    fs::write(folder.join("subject.toml"), text).unwrap();
}

/// Returns the trials of both kinds of server, at two connections, with connections that stay open
/// and with one connection per request.
fn trials(is_root: bool) -> Vec<Value> {
    let sandbox = Sandbox::new();
    ["threads", "processes"].iter().for_each(|kind| add(&sandbox, kind));
    let suite = "subjects = [\"threads\", \"processes\"]\n[suite]\nrepeats = 2\nseed = 7\n\
                 contaminated = \"counts\"\n\
                 [[workloads]]\nname = \"open\"\npath = \"/plaintext\"\n\
                 [[workloads]]\nname = \"closed\"\npath = \"/plaintext\"\n\
                 requests_per_connection = 1\n\
                 [load]\nconnections = [2]\nwarmup = \"200ms\"\nduration = \"800ms\"\n";
    fs::write(sandbox.path().join("suite.toml"), suite).unwrap();
    let run = ["run", "suite.toml"];
    let output = if is_root { sandbox.dyno(&run) } else { sandbox.dyno_as_ordinary_user(&run) };
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    sandbox.assert_nothing_is_left();
    let trials = sandbox.report()["trials"].as_array().unwrap().clone();
    assert_eq!(trials.len(), 8, "{}", text(&output));
    trials
}

fn has_caveat(trial: &Value, code: &str) -> bool {
    trial["caveats"].as_array().unwrap().iter().any(|caveat| caveat["code"] == code)
}

/// Asserts that each reported value of the server is correct or unknown, and that an unknown
/// resource is not reported as the limiter.
fn assert_correct_or_unknown(trial: &Value) {
    let server = &trial["server"];
    let is_unread = has_caveat(trial, "counters_unread");
    match server["cpu_us_per_request"].as_f64() {
        Some(cost_us) => assert!(cost_us >= COSTS_US, "{cost_us} µs: {trial:#}"),
        None => assert!(is_unread, "{trial:#}"),
    }
    // With two connections the server waits for its next request, which is a context switch.
    for (name, min) in
        [("/per_request/context_switches", 0.01), ("/busiest_thread_utilisation", 0.02)]
    {
        match server.pointer(name).and_then(Value::as_f64) {
            Some(value) => assert!(value >= min, "{name} = {value}: {trial:#}"),
            None => assert!(is_unread, "{name}: {trial:#}"),
        }
    }
    let limiter = &trial["limiter"];
    assert_ne!(limiter["resource"], "concurrency", "{limiter:#}");
}

/// Servers of root have control groups, which include the CPU time of ended threads. Threads of
/// open connections are sampled before these close.
#[test]
#[ignore = "long: runs in make nightly"]
fn cpu_time_of_ended_threads_is_counted_or_unknown() {
    for is_root in [true, false] {
        if is_root && !runs_as_root() {
            not_run("servers whose threads end, with control groups: only root makes them");
            continue;
        }
        for trial in trials(is_root) {
            assert_correct_or_unknown(&trial);
            let (server, is_open) = (&trial["server"], trial["workload"] == "open");
            let is_counted = server["cpu_us_per_request"].is_f64();
            assert!(is_counted || !is_root && !is_open, "{trial:#}");
            let switches = &server["per_request"]["context_switches"];
            assert!(switches.is_f64() || !is_open, "{trial:#}");
        }
    }
}
