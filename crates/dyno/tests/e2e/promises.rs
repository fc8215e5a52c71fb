//! Tests contracts of the user: a failed check excludes only the trials that it concerns.

use std::fs;
use std::path::Path;

use dyno_archive::Protocol;
use dyno_archive::dir::Run;
use dyno_archive::start::FailureKind;

use crate::walk;

/// A contract that the null responder keeps over HTTP/1.1 and breaks over h2c.
const CONTRACT: &str = "[[checks]]\nname = \"greeting\"\npath = \"/plaintext\"\nexpect = { \
                        body_contains = \"World\" }\n[[checks]]\nname = \"parting\"\nprotocols = \
                        [\"h2c\"]\npath = \"/plaintext\"\nexpect = { body = \"Goodbye\" }\n";

/// Runs a server of both protocols, with one trial of each.
fn run(sandbox: &Path, keys: &str) -> Run {
    let folder = sandbox.join("subjects/own");
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(sandbox.join("contracts")).unwrap();
    fs::write(sandbox.join("contracts/own.toml"), CONTRACT).unwrap();
    let text = format!(
        "language = \"Rust\"\nprotocols = [\"h1\", \"h2c\"]\nchecks = \
         [\"own\"]\n{keys}\n[start]\ncommand = {}\n[ready]\npath = \"/json\"\n",
        walk::null()
    );
    fs::write(folder.join("subject.toml"), text).unwrap();
    let suite = "subjects = [\"own\"]\n[suite]\nrepeats = 1\norder = \
                 \"fixed\"\n[load]\nconnections = 4\nwarmup = \"100ms\"\nduration = \
                 \"400ms\"\ninterval = \"100ms\"\n[[workloads]]\nname = \"one\"\npath = \
                 \"/plaintext\"\n[[workloads]]\nname = \"two\"\nprotocol = \"h2c\"\npath = \
                 \"/plaintext\"\n";
    walk::run(sandbox, &walk::planned_with(&sandbox.join("subjects"), suite))
}

#[test]
fn failed_check_excludes_only_its_protocol() {
    let sandbox = tempfile::tempdir().unwrap();
    let run = run(sandbox.path(), "");
    let [start] = run.starts.as_slice() else { panic!("{:?}", run.starts) };
    assert_eq!(start.failure, None, "a server that breaks its contract is ready and serves");
    let refused: Vec<Protocol> = start.refused_protocols().into_keys().collect();
    assert_eq!(refused, [Protocol::H2c]);
    let workloads: Vec<usize> =
        run.trials.iter().map(|t| run.header.plan.trials[t.trial].workload).collect();
    assert_eq!(workloads, [0]);
    let report = dyno_analysis::report::report(&run);
    let [failure] = report.subjects[0].failures.as_slice() else {
        panic!("{:?}", report.subjects[0].failures)
    };
    assert_eq!(failure.failure.kind, FailureKind::IncorrectResponses);
    let message = &failure.failure.message;
    let begin = "no load was run over h2c, because the check \"parting\" failed: asked GET \
                 /plaintext; expected status 200 to 399, body \"Goodbye\"; got: GET /plaintext: \
                 the body differs from the expected body:\n200\n";
    assert!(message.starts_with(begin), "{message}");
    let row = |name: &str| report.overview.iter().find(|row| row.workload == name).unwrap();
    assert_eq!((row("one").absent.as_deref(), row("two").peak_at), (None, None));
    let reason = row("two").absent.as_deref().unwrap();
    assert!(reason.contains("responded incorrectly: no load was run over h2c"), "{reason}");
    assert!(
        report.trials.iter().all(|t| t.caveats.iter().all(|c| c.code.name() != "checks_failed"))
    );
}

#[test]
fn waived_check_is_reported_at_every_row() {
    let sandbox = tempfile::tempdir().unwrap();
    let run = run(sandbox.path(), "waive = [\"parting\"]");
    assert_eq!((run.starts[0].refused_protocols().len(), run.trials.len()), (0, 2));
    let report = dyno_analysis::report::report(&run);
    for trial in &report.trials {
        let marks = trial.caveats.iter().filter(|c| c.code.name() == "checks_waived").count();
        assert_eq!(marks, usize::from(trial.workload == "two"), "{:?}", trial.caveats);
        assert!(
            trial.caveats.iter().all(|c| c.code.name() != "checks_failed"),
            "{:?}",
            trial.caveats
        );
    }
    assert!(report.overview.iter().all(|row| row.checks_waived == 1));
    let page = dyno_report::html::FORMAT.render(&report);
    assert!(page.contains("✗ waived"), "the page has the mark");
    let text = dyno_report::text::FORMAT.render(&report);
    assert!(text.contains("2/3 ✗ 1 waived"), "{text}");
}
