//! Tests a server with the repository's own PostgreSQL back end, which is started, seeded, reset
//! and monitored.

use std::fs;
use std::path::Path;
use std::process::Command;

use dyno_model::Party;

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
    let copied =
        Command::new("cp").arg("-r").arg(repository().join("backends")).arg(sandbox).status();
    assert!(copied.unwrap().success());
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
