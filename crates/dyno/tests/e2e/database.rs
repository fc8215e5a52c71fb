//! Tests a server with the repository's own PostgreSQL back end, which is started, seeded, reset,
//! monitored, and killed in the middle of a run.

use std::fs;
use std::path::Path;
use std::process::Command;

use dyno_archive::Party;
use dyno_archive::start::FailureKind;
use dyno_runner::run::RunEvent;

use crate::drive::{not_run, repository};
use crate::walk;

/// Returns whether PostgreSQL and Python are installed, and prints which is missing.
fn has_tools() -> bool {
    let pg = repository().join("backends/postgres/pg");
    let postgres = Command::new(pg).args(["postgres", "--version"]).output();
    let python = Command::new("python3").arg("--version").output();
    let here = postgres.is_ok_and(|o| o.status.success()) && python.is_ok();
    if !here {
        not_run("PostgreSQL behind a server: no PostgreSQL, or no python3");
    }
    here
}

/// Writes the repository's own PostgreSQL definition, and a server that reads rows from it.
fn define(sandbox: &Path) {
    let folder = sandbox.join("subjects/worlds");
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(sandbox.join("contracts")).unwrap();
    fs::write(folder.join("worlds.py"), include_str!("worlds.py")).unwrap();
    let contract = "[[checks]]\nname = \"row\"\npath = \"/worlds/7\"\nexpect = \
                    { json = { \"/id\" = 7, \"/randomNumber\" = 5434 } }\n";
    fs::write(sandbox.join("contracts/worlds.toml"), contract).unwrap();
    let text = "language = \"Python\"\nprotocols = [\"h1\"]\nchecks = \
                [\"worlds\"]\n[start]\ncommand = [\"python3\", \"{dir}/worlds.py\", \"{port}\", \
                \"{postgres.port}\"]\n[ready]\npath = \"/worlds/1\"\n";
    fs::write(folder.join("subject.toml"), text).unwrap();
    walk::define(&sandbox.join("subjects"), "alone", &walk::null(), "");
    let copied =
        Command::new("cp").arg("-r").arg(repository().join("backends")).arg(sandbox).status();
    assert!(copied.unwrap().success());
}

/// Returns the begin of the command line of this test's PostgreSQL, which no other process has.
fn cluster() -> String {
    format!("postgres -D {}", std::env::temp_dir().join("dyno-").display())
}

#[test]
fn postgresql_back_end_is_run_and_monitored() {
    if !has_tools() {
        return;
    }
    let sandbox = tempfile::tempdir().unwrap();
    define(sandbox.path());
    let suite = "subjects = [\"worlds\"]\n[suite]\nrepeats = 1\n[load]\nconnections = [2, \
                 8]\nwarmup = \"100ms\"\nduration = \"500ms\"\n[[workloads]]\npath = \
                 \"/worlds/{rand:1..10000}\"\nexpect = { status = 200 }\n";
    let run =
        walk::run(sandbox.path(), &walk::planned_with(&sandbox.path().join("subjects"), suite));
    let [start] = run.starts.as_slice() else { panic!("{:?}", run.starts) };
    assert_eq!((&start.failure, run.trials.len()), (&None, 2));
    let postgres = start.part(Party::Backend(0)).unwrap();
    assert!(postgres.seeded_ns.is_some_and(|ns| ns > 0));
    assert!(postgres.stop.is_some_and(|stop| !stop.killed), "{:?}", postgres.stop);
    assert!(start.subject().unwrap().checks_before.iter().all(|check| check.ok));
    let report = dyno_analysis::report::report(&run);
    assert!(report.subjects[0].backends[0].version.as_ref().unwrap().contains("PostgreSQL"));
    for trial in &report.trials {
        let behind = &trial.backends[0];
        // PostgreSQL has a process per connection, which did a part of the work.
        assert!(
            behind.server.processes > Some(1)
                && behind.cpu_share.is_some_and(|share| share > 0.0 && share < 1.0)
        );
    }
}

#[test]
fn killed_postgresql_is_reported() {
    if !has_tools() {
        return;
    }
    let sandbox = tempfile::tempdir().unwrap();
    define(sandbox.path());
    let suite = "subjects = [\"worlds\", \"alone\"]\n[suite]\nrepeats = 1\norder = \
                 \"fixed\"\n[load]\nconnections = 2\nwarmup = \"100ms\"\nduration = \
                 \"1s\"\n[[workloads]]\npath = \"/worlds/1\"\nexpect = { status = 200 \
                 }\n[[workloads]]\npath = \"/plaintext\"\n";
    let mut left = 1;
    let run = walk::run_with(
        sandbox.path(),
        &walk::planned_with(&sandbox.path().join("subjects"), suite),
        &mut |event| {
            if left > 0 && matches!(event, RunEvent::Interval { .. }) {
                left -= 1;
                assert!(
                    Command::new("pkill")
                        .args(["-9", "-f", &cluster()])
                        .status()
                        .unwrap()
                        .success()
                );
            }
        },
    );
    let failure = run.starts[0].failure.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::BackendFailed, "{failure:?}");
    assert!(failure.message.contains("back end postgres ended with signal: 9"), "{failure:?}");
    assert_eq!(run.starts[1].failure, None, "the other subject is not affected");
    let alone_trials = run.trials.iter().filter(|trial| trial.start == 1).count();
    assert_eq!(alone_trials, 2);
}

/// The kernel still accepts connections, so only the readiness command shows that PostgreSQL hangs.
#[test]
#[ignore = "long: runs in make nightly"]
fn hanging_postgresql_is_reported() {
    if !has_tools() {
        return;
    }
    let sandbox = tempfile::tempdir().unwrap();
    define(sandbox.path());
    // Suspended processes (SIGSTOP) do not end on SIGTERM.
    let file = sandbox.path().join("backends/postgres/backend.toml");
    let hasty =
        fs::read_to_string(&file).unwrap().replace("deadline = \"20s\"", "deadline = \"100ms\"");
    fs::write(file, hasty).unwrap();
    let suite = "subjects = [\"worlds\"]\n[suite]\nrepeats = 1\n[load]\nconnections = 2\nwarmup = \
                 \"100ms\"\nduration = \"1s\"\n[[workloads]]\npath = \"/worlds/1\"\nexpect = { \
                 status = 200 }\n";
    let mut left = 1;
    let run = walk::run_with(
        sandbox.path(),
        &walk::planned_with(&sandbox.path().join("subjects"), suite),
        &mut |event| {
            if left > 0 && matches!(event, RunEvent::Interval { .. }) {
                left -= 1;
                // Its children first, while its command line still identifies it.
                let script = "pid=$(pgrep -of \"$0\") && pkill -STOP -P $pid; kill -STOP $pid";
                assert!(
                    Command::new("sh").args(["-c", script, &cluster()]).status().unwrap().success()
                );
            }
        },
    );
    let failure = run.starts[0].failure.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::BackendFailed, "{failure:?}");
    assert!(
        failure.message.contains(
            "back end postgres: its process runs, but its command for `ready`, run again,"
        ),
        "{failure:?}"
    );
    assert!(run.starts[0].part(Party::Backend(0)).unwrap().stop.is_some_and(|stop| stop.killed));
}
