//! Tests lifecycle checks: a correct server passes all of them, and a server with one fault fails
//! the check for it.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use dyno_model::run::Run;
use dyno_model::start::FailureKind;
use dyno_model::trial::CheckResult;

use crate::drive::not_run;
use crate::walk::{self, UNOBSERVED};

const CONTRACT: &str = r#"
[[checks]]
name = "an item"
path = "/item"
expect = { body = "Hello, World!" }

[[checks]]
name = "says its port"
life = "serves"
prints = ['listening on port {port}\b']

[[checks]]
name = "a line for each"
life = "serves"
requests = [{ path = "/item" }, { path = "/" }]
prints = [{ matches = '"GET /item HTTP/1.1" 200', times = 1 }, '"GET / HTTP/1.1" 200']

[[checks]]
name = "asks the store each time, and for JSON once at most"
life = "serves"
requests = [{ path = "/item" }, { path = "/item" }]
asks = [
  { backend = "store", matches = '^GET /plaintext ', times = 2 },
  { backend = "store", matches = 'GET /json', at_most = 1 },
]

[[checks]]
name = "no start without an address"
life = "refuses-missing"
within = "5s"
prints = ["STORE is missing"]

[[checks]]
name = "no start without a store"
life = "refuses-unreachable"
within = "5s"

[[checks]]
name = "stops"
life = "stops"
path = "/item"
within = "3s"
"#;

/// Runs the server with a fault, with one trial per start. Adds keys of `[start]` and `[suite]`.
fn run_started(sandbox: &Path, fault: &str, start: &str, suite_keys: &str) -> Run {
    let folder = sandbox.join("subjects/front");
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(sandbox.join("contracts")).unwrap();
    fs::write(folder.join("life.py"), include_str!("life.py")).unwrap();
    fs::write(sandbox.join("contracts/life.toml"), CONTRACT).unwrap();
    let text = format!(
        "language = \"Python\"\nprotocols = [\"h1\"]\nchecks = [\"life\"]\n\
         [start]\ncommand = [\"python3\", \"{{dir}}/life.py\", \"{fault}\", \"{{port}}\"]\n\
         env = {{ STORE = \"http://{{store.host}}:{{store.port}}\" }}\n{start}\n[stop]\n\
         deadline = \"1s\"\n"
    );
    fs::write(folder.join("subject.toml"), text).unwrap();
    let store = sandbox.join("backends/store");
    fs::create_dir_all(&store).unwrap();
    fs::write(store.join("backend.toml"), format!("[start]\ncommand = {}\n", walk::null()))
        .unwrap();
    let suite = format!(
        "subjects = [\"front\"]\n[suite]\n{suite_keys}\n\
         {UNOBSERVED}\
         [load]\nconnections = 1\nwarmup = \"0\"\nduration = \"200ms\"\n[[workloads]]\n\
         path = \"/item\"\n"
    );
    walk::run(sandbox, &walk::planned_with(&sandbox.join("subjects"), &suite))
}

fn is_here() -> bool {
    let here = Command::new("python3").arg("--version").output().is_ok();
    if !here {
        not_run("promises about a server's life: no python3");
    }
    here
}

fn lifecycle_results(run: &Run, start: usize) -> Vec<&CheckResult> {
    let part = run.starts[start].subject().unwrap();
    part.checks_before.iter().filter(|check| check.is_lifecycle).collect()
}

/// All starts of the checks use the same port. A port that is in use here is free in another
/// network namespace.
#[test]
fn lifecycle_is_checked_once_in_each_network() {
    if !is_here() {
        return;
    }
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    assert_lifecycle_is_checked_once(port, "repeats = 2");
    if walk::can_make_networks() {
        let _holds = TcpListener::bind(("127.0.0.1", port)).unwrap();
        assert_lifecycle_is_checked_once(port, "repeats = 2\nisolation = \"netns\"");
    }
}

fn assert_lifecycle_is_checked_once(port: u16, suite_keys: &str) {
    let sandbox = tempfile::tempdir().unwrap();
    let run = run_started(sandbox.path(), "none", &format!("port = {port}"), suite_keys);
    assert_eq!(run.starts[0].failure, None);
    let first = lifecycle_results(&run, 0);
    assert!(first.iter().all(|check| check.ok), "{first:#?}");
    assert_eq!((first.len(), run.trials.len()), (6, 2));
    assert!(lifecycle_results(&run, 1).is_empty(), "a passed check is not repeated");
    let words = |name: &str| {
        let check = first.iter().find(|check| check.name == name).unwrap();
        (check.asked.as_str(), check.expected.as_str(), check.got.as_str())
    };
    let (asked, expected, got) = words("no start without an address");
    assert_eq!(
        (asked, expected),
        (
            "started without the address of its back ends",
            "the server ends with an error within 5 s, the server's output matches STORE is missing"
        )
    );
    assert!(
        got.starts_with("the server ended with status 1 after ")
            && got.contains("say where the store is"),
        "{got}"
    );
    let (asked, expected, got) = words("stops");
    assert_eq!(asked, "GET /item, in flight when the server gets the stop signal");
    assert_eq!(expected, "status 200 to 399; then the server ends by itself within 3 s");
    assert!(got.starts_with("200, ") && got.contains("the server exited "), "{got}");
    assert!(
        words("asks the store each time, and for JSON once at most")
            .2
            .contains("2 matches of ^GET /plaintext  in the server's requests to store")
    );
}

#[test]
#[ignore = "long: runs in make nightly"]
fn each_fault_fails_its_lifecycle_check() {
    if !is_here() {
        return;
    }
    for (fault, broken, words) in [
        (
            "silent",
            vec!["a line for each"],
            "0 matches of \"GET /item HTTP/1.1\" 200 in the server's output, which was empty",
        ),
        (
            "forgets",
            vec!["asks the store each time, and for JSON once at most"],
            "in the server's requests to store. The first requests were:\nGET /plaintext HTTP/1.1",
        ),
        (
            "careless",
            vec!["no start without an address", "no start without a store"],
            "the server still ran after 5.",
        ),
        ("rude", vec!["stops"], "the request in flight got no correct response"),
        ("stubborn", vec!["stops"], "the server still ran 3 s after the signal, so dyno killed it"),
    ] {
        let sandbox = tempfile::tempdir().unwrap();
        let run = run_started(sandbox.path(), fault, "", "repeats = 1");
        let failed: Vec<&CheckResult> =
            lifecycle_results(&run, 0).into_iter().filter(|check| !check.ok).collect();
        let names: Vec<&str> = failed.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(names, broken, "{fault}");
        assert!(failed[0].got.contains(words), "{fault}: {}", failed[0].got);
        // A failed check excludes all rows of the server.
        let failure = run.starts[0].failure.as_ref().unwrap();
        assert_eq!(
            (failure.kind, run.trials.len()),
            (FailureKind::IncorrectResponses, 0),
            "{fault}"
        );
        assert_eq!(lifecycle_results(&run, 0).len(), 6, "{fault}");
    }
}
