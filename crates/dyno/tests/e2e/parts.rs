//! Starts of several parts: a service behind the subject, watched beside it.

use dyno_archive::Party;
use dyno_archive::dir::Run;
use dyno_archive::plan::{Backend, Limits};
use dyno_archive::start::FailureKind;
use dyno_subject::definition::Definition;

use crate::walk::{self, define};

/// Runs one trial of `front`, behind which `store` is started by this command.
fn run(store: &str) -> Run {
    let place = tempfile::tempdir().unwrap();
    let subjects = place.path().join("subjects");
    define(&subjects, "front", &walk::null(), "STORE = \"{store.port}\"");
    let null = walk::null();
    define(&subjects, "store", if store.is_empty() { &null } else { store }, "");
    let mut planned = walk::planned(&subjects, "front");
    let service = Definition::read(&subjects.join("store")).unwrap();
    planned.plan.backends = vec![Backend {
        name: "store".into(),
        definition: service.fingerprint().ok(),
        limits: Limits::default(),
        cpus: planned.plan.arms[0].conditions.placement.subject.clone(),
    }];
    walk::run(place.path(), &planned, &[service])
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
