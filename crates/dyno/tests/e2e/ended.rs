//! Servers with a thread or a process for each connection: the CPU time of those that have ended
//! is counted or unknown, and never 0.

use std::fs;

use serde_json::Value;

use crate::drive::{Place, am_root, not_run, text};

/// Lowest CPU time of a request on such a server, by its construction, µs.
const COSTS_US: f64 = 400.0;

fn add(place: &Place, kind: &str) {
    let folder = place.path().join("subjects").join(kind);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("ended.py"), include_str!("ended.py")).unwrap();
    let text = format!(
        "language = \"Python\"\nprotocols = [\"h1\"]\nchecks = []\n\
         [start]\ncommand = [\"python3\", \"{{dir}}/ended.py\", \"{kind}\", \"{{port}}\"]\n\
         [ready]\npath = \"/plaintext\"\ndeadline = \"60s\"\n"
    );
    fs::write(folder.join("subject.toml"), text).unwrap();
}

/// The trials of both kinds of server, at two connections. `load`: more of the load's settings.
fn trials(is_root: bool, load: &str) -> Vec<Value> {
    let place = Place::new();
    ["threads", "processes"].iter().for_each(|kind| add(&place, kind));
    let suite = format!(
        "subjects = [\"threads\", \"processes\"]\n[suite]\nrepeats = 2\nseed = 7\n\
         contaminated = \"counts\"\n\
         [[workloads]]\npath = \"/plaintext\"\n\
         [load]\nconnections = [2]\nwarmup = \"200ms\"\nduration = \"800ms\"\n{load}"
    );
    fs::write(place.path().join("suite.toml"), suite).unwrap();
    let run = ["run", "suite.toml"];
    let output = if is_root { place.dyno(&run) } else { place.dyno_as_ordinary_user(&run) };
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", text(&output));
    place.assert_nothing_is_left();
    let trials = place.report()["trials"].as_array().unwrap().clone();
    assert_eq!(trials.len(), 4, "{}", text(&output));
    trials
}

fn has_caveat(trial: &Value, code: &str) -> bool {
    trial["caveats"].as_array().unwrap().iter().any(|caveat| caveat["code"] == code)
}

/// Asserts that each reported fact about the server is true or unknown, and that no unknown
/// resource is named as the limit.
fn assert_honest(trial: &Value) {
    let server = &trial["server"];
    let is_unread = has_caveat(trial, "counters_unread");
    match server["cpu_us_per_request"].as_f64() {
        Some(cost_us) => assert!(cost_us >= COSTS_US, "{cost_us} µs: {trial:#}"),
        None => assert!(is_unread, "{trial:#}"),
    }
    // A closed loop of two has a server wait for its next request, which is a switch of contexts.
    for (name, least) in
        [("/per_request/context_switches", 0.01), ("/busiest_thread_utilisation", 0.02)]
    {
        match server.pointer(name).and_then(Value::as_f64) {
            Some(value) => assert!(value >= least, "{name} = {value}: {trial:#}"),
            None => assert!(is_unread, "{name}: {trial:#}"),
        }
    }
    let limiter = &trial["limiter"];
    assert_ne!(limiter["resource"], "concurrency", "{limiter:#}");
}

/// Looks at trials of root, whose servers have control groups, and of an ordinary user.
fn for_both_users(load: &str, look: fn(bool, &Value)) {
    for is_root in [true, false] {
        if is_root && !am_root() {
            not_run("servers whose threads end, with control groups: only root makes them");
            continue;
        }
        for trial in trials(is_root, load) {
            assert_honest(&trial);
            look(is_root, &trial);
        }
    }
}

#[test]
fn threads_that_end_with_their_connections_are_read_before() {
    for_both_users("", |_, trial| {
        assert!(trial["server"]["cpu_us_per_request"].is_f64(), "{trial:#}");
        assert!(trial["server"]["per_request"]["context_switches"].is_f64(), "{trial:#}");
    });
}

#[test]
fn what_threads_used_that_ended_in_the_window_is_counted_or_unknown() {
    for_both_users("requests_per_connection = 1\n", |is_root, trial| {
        // A control group has what its ended threads used.
        assert!(!is_root || trial["server"]["cpu_us_per_request"].is_f64(), "{trial:#}");
    });
}
