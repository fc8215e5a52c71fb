//! Starts of several parts: a service behind the subject, watched beside it.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use dyno_archive::dir::{Header, Run, SCHEMA};
use dyno_archive::plan::{Backend, Limits};
use dyno_archive::start::FailureKind;
use dyno_archive::{Facts, Party, RunDir};
use dyno_launch::guard::Guard;
use dyno_launch::supervision::{Interrupts, Supervision};
use dyno_runner::plan::{Overrides, Planned, resolve};
use dyno_runner::run::{Runner, Service};
use dyno_runner::suite::SuiteFile;
use dyno_subject::build;
use dyno_subject::definition::Definition;

/// A server of dyno's own, under another name and with something in its environment.
fn define(folder: &Path, name: &str, command: &str, env: &str) {
    let folder = folder.join(name);
    fs::create_dir_all(&folder).unwrap();
    let text = format!(
        "name = {name:?}\ntitle = {name:?}\nlanguage = \"Rust\"\nprotocols = [\"h1\"]\nchecks = [\"hello\"]\n\
         [start]\ncommand = {command}\nenv = {{ {env} }}\n[ready]\npath = \"/plaintext\"\ndeadline = \"20s\"\n"
    );
    fs::write(folder.join("subject.toml"), text).unwrap();
}

/// One run at a time: a process has one set of control groups, which a run prepares and removes.
static ONE_RUN: Mutex<()> = Mutex::new(());

/// Runs one trial of `front`, behind which `store` is started by this command.
fn run(store: &str) -> Run {
    let _alone = ONE_RUN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let place = tempfile::tempdir().unwrap();
    let subjects = place.path().join("subjects");
    let null = format!("[{:?}, \"serve-null\", \"--port\", \"{{port}}\"]", env!("CARGO_BIN_EXE_dyno"));
    define(&subjects, "front", &null, "STORE = \"{store.port}\"");
    define(&subjects, "store", if store.is_empty() { &null } else { store }, "");
    let suite = "subjects = [\"front\"]\n[suite]\nrepeats = 1\n\
                 [load]\nconnections = 4\nwarmup = \"100ms\"\nduration = \"500ms\"\n";
    let suite = SuiteFile::parse(&place.path().join("parts.toml"), suite).unwrap();
    let Planned { mut plan, definitions } =
        resolve(suite, &subjects, &Overrides::default(), &dyno_launch::allowed_cpus(), &|_| None).unwrap();
    let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
    let care = Supervision { guard: &guard, interrupts: &interrupts };
    let cache = place.path().join("cache");
    let service = Definition::read(&subjects.join("store")).unwrap();
    plan.backends = vec![Backend {
        name: "store".into(),
        definition: service.fingerprint().ok(),
        limits: Limits::default(),
        cpus: plan.placement.subject.clone(),
    }];
    let header = Header {
        schema: SCHEMA.into(),
        id: "parts".into(),
        started: "2026-01-02T03:04:05Z".into(),
        command: Vec::new(),
        plan: plan.clone(),
        facts: Facts::default(),
        resumptions: Vec::new(),
    };
    let dir = RunDir::create(place.path().join("run"), &header).unwrap();
    let built = [Some(build::build(&definitions[0], &cache, &care).unwrap())];
    let backends = [Service { built: build::build(&service, &cache, &care).unwrap(), definition: service }];
    let mut runner = Runner {
        plan: &plan,
        definitions: &definitions,
        built: &built,
        backends: &backends,
        dir: &dir,
        guard: &guard,
        interrupts: &interrupts,
        on: &mut |_| {},
    };
    runner.walk().unwrap();
    dir.read().unwrap()
}

#[test]
fn a_back_end_is_started_watched_archived_and_reported_beside_its_subject() {
    let run = run("");
    let [start] = run.starts.as_slice() else { panic!("{:?}", run.starts) };
    assert_eq!(start.failure, None);
    // The runner starts two parts, the back end first, and stops both.
    let parts: Vec<(Party, &str)> = start.parts.iter().map(|p| (p.party, p.name.as_str())).collect();
    assert_eq!(parts, [(Party::Backend(0), "store"), (Party::SUBJECT, "front")]);
    let [store, front] = start.parts.as_slice() else { unreachable!("seen above") };
    assert!(store.pid.is_some() && store.pid != front.pid);
    for part in &start.parts {
        assert!(part.startup.is_some() && part.stop.is_some_and(|stop| !stop.killed), "{part:?}");
    }
    // The subject is told where it is, and it alone is checked.
    assert!(front.environment["STORE"].parse::<u16>().is_ok(), "{:?}", front.environment);
    assert!(store.checks_before.is_empty() && front.checks_before.iter().all(|check| check.ok));
    // Every sample holds both, and the generator.
    let [trial] = run.trials.as_slice() else { panic!("{:?}", run.trials.len()) };
    assert!(trial.load.samples.len() >= 2);
    for sample in &trial.load.samples {
        let mut watched: Vec<Party> = sample.parties.iter().map(|used| used.party).collect();
        watched.sort_unstable();
        assert_eq!(watched, [Party::SUBJECT, Party::Backend(0), Party::GENERATOR]);
        assert!(sample.of(Party::Backend(0)).unwrap().processes >= 1);
    }
    // And the report tells both apart: one had all the work.
    let report = dyno_analysis::report::report(&run);
    let trial = &report.trials[0];
    let [behind] = trial.backends.as_slice() else { panic!("{:?}", trial.backends) };
    assert_eq!(behind.name, "store");
    assert_eq!(behind.server.window_s, trial.server.window_s);
    let cpu_us = |server: &dyno_analysis::server::ServerUse| server.cpu_us_per_request.unwrap();
    assert!(cpu_us(&behind.server) < cpu_us(&trial.server), "{:?} {:?}", behind.server, trial.server);
    let page = dyno_report::html::render(&report);
    assert!(page.contains("Back ends") && page.contains(">store<"), "the page shows both");
}

#[test]
fn a_back_end_that_does_not_come_up_is_told_as_that() {
    let run = run("[\"false\", \"{port}\"]");
    let [start] = run.starts.as_slice() else { panic!("{:?}", run.starts) };
    let failure = start.failure.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::BackendFailed, "it is not the subject's fault");
    assert!(
        failure.message.starts_with("back end store never got ready: it ended with exit status: 1"),
        "{failure:?}"
    );
    assert_eq!(start.parts.len(), 1, "the subject was not started");
    assert_eq!(run.trials.len(), 0);
}
