//! Tests a server with the repository's own Elasticsearch back end, which is built, started,
//! queried, and killed in the middle of a run.

use std::fs;
use std::path::Path;
use std::process::Command;

use dyno_lab::run::RunEvent;
use dyno_model::Party;
use dyno_model::start::FailureKind;

use crate::drive::{not_run, repository};
use crate::walk;

/// Returns whether all tools of its build are installed, and prints which is missing.
fn has_tools() -> bool {
    let tool =
        |name: &str| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
    let here = ["mvn", "javac", "python3"].into_iter().all(tool);
    if !here {
        not_run("Elasticsearch behind a server: no Maven, no JDK, or no python3");
    }
    here
}

/// The repository's own Elasticsearch, which is warmed for less long, and a server that asks it for
/// names.
fn define(sandbox: &Path) {
    let folder = sandbox.join("subjects/cities");
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(sandbox.join("contracts")).unwrap();
    fs::write(folder.join("cities.py"), include_str!("cities.py")).unwrap();
    let contract = "[[checks]]\nname = \"Praha\"\npath = \"/101748113\"\nexpect = \
                    { status = 200, body = \"Praha\" }\n";
    fs::write(sandbox.join("contracts/cities.toml"), contract).unwrap();
    let text = "language = \"Python\"\nprotocols = [\"h1\"]\nchecks = [\"cities\"]\n\
         [start]\ncommand = [\"python3\", \"{dir}/cities.py\", \"{port}\", \
         \"{elasticsearch.port}\"]\n[ready]\npath = \"/101748109\"\n";
    fs::write(folder.join("subject.toml"), text).unwrap();
    walk::define(&sandbox.join("subjects"), "alone", &walk::null(), "");
    let copied =
        Command::new("cp").arg("-r").arg(repository().join("backends")).arg(sandbox).status();
    assert!(copied.unwrap().success());
    let file = sandbox.join("backends/elasticsearch/backend.toml");
    let source = fs::read_to_string(&file).unwrap();
    let warm = "warm 16 40000 && warm 1 10000";
    assert!(source.contains(warm), "the warm-up has another number of requests");
    // This program is not dyno.
    let source = source.replace("{dyno}", env!("CARGO_BIN_EXE_dyno"));
    fs::write(file, source.replace(warm, "warm 16 100 && warm 1 100")).unwrap();
}

#[test]
#[ignore = "long: runs in make nightly"]
fn killed_elasticsearch_is_reported_and_other_results_stand() {
    if !has_tools() {
        return;
    }
    let sandbox = tempfile::tempdir().unwrap();
    define(sandbox.path());
    let suite = "subjects = [\"cities\", \"alone\"]\n[suite]\nrepeats = 1\norder = \"fixed\"\n\
         [load]\nconnections = [1, 2]\nwarmup = \"100ms\"\nduration = \"1s\"\n\
         [[workloads]]\npath = \"/101748111\"\nexpect = { status = 200 }\n";
    let mut ended = 0;
    let run = walk::run_with(
        sandbox.path(),
        &walk::planned_with(&sandbox.path().join("subjects"), suite),
        &mut |event| match event {
            RunEvent::TrialEnded { .. } => ended += 1,
            // In the second trial, so that the first one has results.
            RunEvent::Interval { .. } if ended == 1 => {
                ended += 1;
                // It is started from the build of this test.
                let ours = format!("Server {}", sandbox.path().display());
                assert!(
                    Command::new("pkill").args(["-9", "-f", &ours]).status().unwrap().success()
                );
            }
            _ => {}
        },
    );
    let start = &run.starts[0];
    let failure = start.failure.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::BackendFailed, "{failure:?}");
    assert!(failure.message.contains("back end elasticsearch ended with signal: 9"), "{failure:?}");
    assert!(
        start.subject().unwrap().checks_before.iter().all(|check| check.ok),
        "its first trial is valid"
    );
    assert!(start.part(Party::Backend(0)).unwrap().seeded_ns.is_some());
    assert_eq!(run.starts[1].failure, None, "the other subject is not affected");
    let report = dyno_analysis::report::report(&run);
    let city_trials: Vec<_> =
        report.trials.iter().filter(|trial| trial.subject_id == "cities").collect();
    assert_eq!((city_trials.len(), city_trials[0].load.exchanges.failed), (2, 0));
    assert!(city_trials[0].load.exchanges.completed > 0 && !city_trials[1].valid);
    assert!(
        report.subjects[0].backends[0].version.as_ref().unwrap().contains("Elasticsearch 7.8.0")
    );
}
