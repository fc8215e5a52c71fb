//! Tests saved loads (`--save`): they are archives of runs, with the numbers of the load itself.

use dyno_analysis::Report;
use dyno_analysis::report::report;
use dyno_analysis::run_status::{RunCompleteness, RunStatus};
use dyno_archive::RunDir;
use dyno_lab::load::{EarlyEnd, LoadStopReason};
use dyno_model::start::FailureKind;
use dyno_report::Format;

use super::server::{OK, SmallServer};
use super::*;
use crate::only_entry::only_in;

/// A saved load as `dyno report` reads it.
struct Archive {
    folder: tempfile::TempDir,
    report: Report,
    status: RunStatus,
}

impl Archive {
    /// Reads the only archive of a folder.
    fn read(folder: tempfile::TempDir) -> Archive {
        let run = RunDir::open(only_in(folder.path())).unwrap().read().unwrap();
        let report = report(&run);
        let status = RunStatus::new(&report, RunCompleteness::new(&run, &report));
        Archive { folder, report, status }
    }

    /// Saves a simulated load.
    fn new(simulated: &Simulated, was_interrupted: bool, ceiling: Option<Ceiling>) -> Archive {
        let folder = tempfile::tempdir().unwrap();
        let Simulated { load, record } = simulated;
        let saved = SavedLoad::begin(folder.path(), &load.plan()).unwrap();
        let end = LoadEnd::from_record(record, &load.spec.load, was_interrupted);
        saved.end(&end, ceiling).unwrap();
        Archive::read(folder)
    }
}

#[test]
fn report_of_saved_load_matches_load() {
    let ceiling = Ceiling { throughput_rps: 5000.0, measured: "2026-01-02".into() };
    for shape in [
        &["-c", "4", "-n", "2000"][..],
        &["-c", "4", "-d", "300ms", "--driver", "epoll", "--seed", "7"],
        &["-c", "8", "-r", "500..2k", "-d", "300ms", "-w", "100ms"],
        &["-c", "2", "-n", "500", "--protocol", "h2c", "-m", "4"],
        // A page of HTTP/2 has one connection.
        &["-c", "2", "-n", "500", "--protocol", "h2c", "--resource", "/plaintext*3"],
    ] {
        let simulated = Simulated::new(&[&[URL], shape].concat(), &server_model());
        let result = simulated.load.result(&simulated.record, Some(ceiling.clone()));
        let Archive { report, status, .. } = Archive::new(&simulated, false, Some(ceiling.clone()));
        let [trial] = report.trials.as_slice() else { panic!("{shape:?}: one trial") };
        // Plans do not have the complete address.
        let url = result.config.url.clone();
        let config = LoadConfig { url, ..trial.load.config.clone() };
        assert_eq!(LoadResult { config, ..trial.load.clone() }, result, "{shape:?}");
        assert_eq!((trial.valid, &trial.caveats), (result.valid, &result.caveats), "{shape:?}");
        assert_eq!(Exit::from(status) == Exit::Valid, result.valid, "{shape:?}");
        assert_eq!(report.subjects[0].name, "127.0.0.1:1");
    }
}

#[test]
fn every_report_form_says_server_was_not_monitored() {
    let simulated = Simulated::new(&[URL, "-c", "2", "-n", "200"], &server_model());
    let Archive { report, .. } = Archive::new(&simulated, false, None);
    for form in Format::ALL {
        let page = form.render(&report);
        // The terminal form breaks lines.
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        match form.name {
            "text" | "html" | "md" | "json" => assert!(
                page.contains("its start-up, CPU time, memory and checks are unknown"),
                "{}: {page}",
                form.name
            ),
            "csv" => assert_unknown_cells(&form.render(&report)),
            _ => {}
        }
    }
}

/// Asserts that the resource use of the server is unknown, not zero.
fn assert_unknown_cells(table: &str) {
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (names, cells) = (lines.next().unwrap(), lines.next().unwrap());
    for name in ["server_cpu_utilisation", "server_rss_bytes"] {
        let column = names.iter().position(|column| *column == name).unwrap();
        assert_eq!(cells[column], "", "{name}");
    }
    assert!(lines.next().is_none(), "{table}");
}

#[test]
fn saved_secrets_are_withheld_from_reports() {
    let secrets = ["q1w2e3r4t5y6", "a1s2d3f4g5h6"];
    let url = "http://127.0.0.1:1/plaintext?token=q1w2e3r4t5y6";
    let header = "Authorization: Bearer a1s2d3f4g5h6";
    let simulated = Simulated::new(&[url, "-H", header, "-n", "10"], &server_model());
    let Archive { folder, report, .. } = Archive::new(&simulated, false, None);
    let run = fs::read_to_string(only_in(folder.path()).join("run.json")).unwrap();
    // The archive needs the secrets for another load.
    assert!(secrets.iter().all(|secret| run.contains(secret)));
    let plan: Value = serde_json::from_str(&run).unwrap();
    let name_and_title = plan["plan"]["subjects"].to_string();
    for text in Format::ALL.iter().map(|form| form.render(&report)).chain([name_and_title]) {
        assert!(secrets.iter().all(|secret| !text.contains(secret)), "{text}");
    }
}

#[test]
fn interrupted_load_is_saved() {
    let end = EarlyEnd { at_ns: 500_000_000, reason: LoadStopReason::Stopped };
    let simulated = Simulated::until(&[URL, "-c", "2", "-d", "300s"], &server_model(), Some(&end));
    let Archive { report, status, .. } = Archive::new(&simulated, true, None);
    assert_eq!(status, RunStatus::Failed);
    let trial = &report.trials[0];
    assert!(trial.caveats.iter().any(|caveat| caveat.code.name() == "cut_short"));
    // The worker reads the order to end at its next responses.
    assert_eq!(trial.load.exchanges.completed, 984);
    // An interrupt by the user is not a failure of the server.
    assert!(report.subjects[0].failures.is_empty());
}

/// A killed load leaves an archive without results.
#[test]
fn load_without_end_has_no_results() {
    let folder = tempfile::tempdir().unwrap();
    drop(SavedLoad::begin(folder.path(), &prepare(&[URL]).plan()).unwrap());
    let Archive { report, status, .. } = Archive::read(folder);
    assert_eq!((status, report.trials.len()), (RunStatus::Failed, 0));
    let text = Format::ALL.iter().find(|form| form.name == "text").unwrap().render(&report);
    assert!(text.contains("No results yet."), "{text}");
}

#[test]
fn saved_load_that_cannot_begin_has_reason() {
    let server = SmallServer::with_response(OK);
    let url = server.url("/");
    for (words, reason) in [
        (&["-c", "4000000"][..], "ulimit -n"),
        (&["--expect-contains", "Goodbye"], "a test request before the load"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let save = [&*url, "-n", "10", "--save", folder.path().to_str().unwrap()];
        let (error, exit) = failure(&[&save, words].concat());
        assert!(exit == Exit::Failed && error.contains(reason), "{error}");
        let Archive { report, status, .. } = Archive::read(folder);
        assert_eq!((status, report.trials.len()), (RunStatus::Failed, 0));
        let [failed] = report.subjects[0].failures.as_slice() else { panic!("one failure") };
        let failure = &failed.failure;
        assert_eq!((failure.kind, &failure.message), (FailureKind::Harness, &error));
    }
}

#[test]
fn unwritable_archive_is_reported_before_load() {
    let (server, file) = (SmallServer::with_response(OK), tempfile::NamedTempFile::new().unwrap());
    fs::write(file.path(), "mine").unwrap();
    let path = file.path().to_str().unwrap();
    let (error, exit) = failure(&[&server.url("/"), "-n", "10", "--save", path]);
    assert_eq!(exit, Exit::Usage, "{error}");
    assert!(error.contains(&format!("--save {path}: cannot be written")), "{error}");
    assert_eq!(server.requests(), [""; 0], "the server received no request");
    assert_eq!(fs::read_to_string(path).unwrap(), "mine");
}
