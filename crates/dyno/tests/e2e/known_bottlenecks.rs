//! Tests verdicts with servers whose bottlenecks are known: `dyno calibrate --verdicts`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::drive::{DYNO, Sandbox, repository, runs_as_root, text};

/// Servers whose waits last much longer than those for a CPU on a busy machine.
const CERTAIN: &str = "wait-epoll,wait-nanosleep,wait-condition,lock-sleep,workers-sleep,\
                       backend-event-loop,connection-pool-one,nagle,offered-rate,stall";

/// Calibrates with a build cache in the repository, so that the server is built only once.
pub fn calibrate(sandbox: &Sandbox, extra: &[&str]) -> Command {
    let cache = repository().join("target/known-servers");
    std::fs::create_dir_all(&cache).unwrap();
    let mut command = sandbox.command(Path::new(DYNO));
    command.args(["calibrate", "--verdicts", "--cache"]).arg(cache).args(extra);
    command
}

/// A verdict with high confidence is correct, even if other programs run on the machine.
#[test]
#[ignore = "long: runs in make nightly"]
fn servers_get_no_wrong_verdict_with_high_confidence() {
    assert_known_servers_are_diagnosed();
    assert_unseen_servers_are_diagnosed();
}

fn assert_known_servers_are_diagnosed() {
    let sandbox = Sandbox::new();
    let output = calibrate(&sandbox, &["--only", CERTAIN, "--format", "json"]).output().unwrap();
    let message = text(&output);
    assert_eq!(output.status.code(), Some(0), "{message}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["high_wrong"], 0, "{message}");
    assert_eq!(result["not_run"], serde_json::json!([]), "{message}");
    // On a busy machine steps may be invalid, but each is reported.
    let users = if runs_as_root() { 2 } else { 1 };
    let counted = |key: &str| result[key].as_u64().unwrap();
    let loads = |name: &str| dyno_testkit::find(name).expect("it is known").loads.len() as u64;
    let steps: u64 = CERTAIN.split(',').map(loads).sum();
    assert_eq!(counted("judged") + counted("invalid"), steps * users, "{message}");
    let cells = result["matrix"].as_array().unwrap();
    let in_matrix: u64 = cells.iter().map(|cell| cell["steps"].as_u64().unwrap()).sum();
    assert_eq!(in_matrix, counted("judged"), "{message}");
    sandbox.assert_nothing_is_left_soon();
}

/// Servers that were written without knowledge of the limiter rules, with the correct verdicts at 1
/// connection and at 16. More connections raise the throughput of servers with `concurrency`.
const UNSEEN: [(&str, [&[&str]; 2]); 10] = [
    // A mutex that is held for 4 ms, and limiters with the same symptoms.
    ("go-mutex", [&["lock", "concurrency", "elsewhere"], &["lock", "elsewhere"]]),
    // Two connections to an unmonitored back end, which takes 3 ms.
    ("go-dbpool", [&["concurrency", "backend", "elsewhere"], &["backend", "workers", "elsewhere"]]),
    // Four workers that wait 5 ms each.
    ("java-pool4", [&["concurrency", "workers", "elsewhere"], &["workers", "elsewhere"]]),
    // 80 % of the time are collections of a heap that is nearly full.
    (
        "java-gc",
        [
            &["gc", "memory", "server_cpu", "server_thread", "concurrency"],
            &["gc", "memory", "server_cpu", "server_thread"],
        ],
    ),
    // 0.9 ms of CPU time per request, in one thread.
    (
        "node-cpu",
        [&["server_cpu", "server_thread", "concurrency"], &["server_cpu", "server_thread"]],
    ),
    // Each request waits 20 ms, with any number at the same time.
    ("py-await20", [&["concurrency"], &["concurrency"]]),
    // Head and body in two segments, Nagle's algorithm, and delayed acknowledgements.
    ("py-nagle", [&["delayed_ack", "concurrency"], &["delayed_ack", "concurrency"]]),
    // A process of 34 MB is forked per request.
    ("c", [&["server_cpu", "server_thread", "concurrency"], &["server_cpu", "server_thread"]]),
    // Three calls of fsync per request, one request at a time.
    ("c/fsync", [&["disk", "concurrency", "elsewhere"], &["disk", "elsewhere"]]),
    // 10 ms per request, with any number at the same time, by a thread that always polls.
    ("c/busypoll", [&["concurrency"], &["concurrency"]]),
];

fn assert_unseen_servers_are_diagnosed() {
    let sandbox = Sandbox::new();
    let names: Vec<String> = UNSEEN.iter().map(|(name, _)| format!("{name:?}")).collect();
    let suite = format!(
        "subjects = [{}]\n[suite]\nrepeats = 1\ncontaminated = \"counts\"\n\
         [[workloads]]\npath = \"/\"\nexpect = {{ status = 200, body = \"ok\" }}\n\
         [load]\nconnections = [1, 16]\nduration = \"600ms\"\n",
        names.join(", ")
    );
    std::fs::write(sandbox.path().join("unseen.toml"), suite).unwrap();
    let (cache, subjects) =
        (repository().join("target/known-servers"), repository().join("crates/testkit/unseen"));
    let mut command = sandbox.command(Path::new(DYNO));
    command
        .args(["run", "unseen.toml", "--runs", "runs", "--cache"])
        .arg(cache)
        .arg("--subjects")
        .arg(subjects);
    let message = text(&command.output().unwrap());
    let run = std::fs::read_dir(sandbox.path().join("runs"))
        .unwrap()
        .next()
        .expect("a run")
        .unwrap()
        .path();
    let report: Value =
        serde_json::from_slice(&std::fs::read(run.join("report.json")).unwrap()).unwrap();
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2 * UNSEEN.len(), "{message}");
    for trial in trials {
        let (_, right) =
            UNSEEN.iter().find(|(name, _)| trial["subject_id"] == *name).expect("it is known");
        let right = right[usize::from(trial["step"]["connections"] == 16)];
        let (verdict, confidence) =
            (&trial["limiter"]["resource"], &trial["limiter"]["confidence"]);
        let is_right = right.iter().any(|name| verdict == name)
            // The effect of other programs is judged separately.
            || verdict == "other_programs";
        let is_judged = trial["valid"] == true;
        let name = &trial["subject_id"];
        assert!(
            is_right || confidence != "high" || !is_judged,
            "{name}, {}: {}\n{trial}",
            trial["step"],
            trial["limiter"]
        );
    }
    sandbox.assert_nothing_is_left_soon();
}
