//! The order of starts and trials, failed starts, interrupts, and resumed runs.

use std::fs;

use dyno_engine::sim::ServiceTime;
use dyno_lab::run::{RunEnd, RunEvent};
use dyno_model::Outcome;
use dyno_model::start::FailureKind;
use dyno_model::trial::CheckResult;

use crate::server::{Server, TroubleKind};
use crate::world::{LOAD, World, kinds, measured, report};

#[test]
fn loads_of_two_servers_have_exact_rates() {
    let mut world = World::new(&["fast", "slow"], LOAD);
    let slow = Server { service: ServiceTime::Fixed { ns: 4_000_000 }, ..Server::default() };
    let (ended, run) = world.walk(&[("slow", slow)]);
    assert_eq!((ended, kinds(&run)), (RunEnd::Complete, vec![None, None]));
    // Two connections; each response takes the service time and a round trip of 20 µs.
    let rates: Vec<f64> =
        report(&run).trials.iter().map(|t| t.load.throughput_rps.round()).collect();
    assert_eq!(rates, [1960.0, 500.0]);
}

#[test]
fn exit_under_load_ends_only_its_start() {
    let suite = LOAD.replace("connections = 2", "connections = [2, 4]");
    let mut world = World::new(&["bad", "good"], &suite);
    let bad = Server::with_trouble(TroubleKind::Exits { at_ns: 300_000_000 }, 0);
    let (ended, run) = world.walk(&[("bad", bad)]);
    assert_eq!((ended, kinds(&run)), (RunEnd::Complete, vec![Some(FailureKind::Crashed), None]));
    assert_eq!(measured(&run), [0, 2, 3], "the second trial of the server is not measured");
    let stops = |start: usize| run.starts[start].subject().unwrap().stop;
    assert_eq!((stops(0).is_some(), stops(1).is_some()), (false, true));
}

#[test]
fn check_broken_after_last_trial_fails_start() {
    let mut world = World::new(&["bad"], LOAD);
    let bad = Server::with_trouble(TroubleKind::FailsCheck, 1);
    let (_, run) = world.walk(&[("bad", bad)]);
    assert_eq!(kinds(&run), [Some(FailureKind::IncorrectResponses)]);
    assert_eq!(measured(&run), [0]);
    let part = run.starts[0].subject().unwrap();
    let results =
        |checks: &[CheckResult]| -> Vec<bool> { checks.iter().map(|check| check.ok).collect() };
    assert_eq!(
        (results(&part.checks_before), results(&part.checks_after)),
        (vec![true], vec![false])
    );
}

#[test]
fn server_that_is_never_ready_has_no_trials() {
    let mut world = World::new(&["bad", "unbuilt", "good"], LOAD);
    let bad = Server { never_ready: Some("nothing listened on port 8080"), ..Server::default() };
    let unbuilt = Server { is_built: false, ..Server::default() };
    let (ended, run) = world.walk(&[("bad", bad), ("unbuilt", unbuilt)]);
    assert_eq!((ended, kinds(&run)), (RunEnd::Complete, vec![Some(FailureKind::NeverReady), None]));
    assert_eq!(measured(&run), [2], "the server that was not built is not started");
}

#[test]
fn resumed_walk_measures_only_missing_trials() {
    let suite = LOAD.replace("connections = 2", "connections = [2, 4]");
    let mut world = World::new(&["good"], &suite);
    let first = world.walk(&[]).1;
    fs::remove_file(world.file("trials/0001.json")).unwrap();
    let (ended, second) = world.walk(&[]);
    assert_eq!((ended, measured(&second)), (RunEnd::Complete, vec![0, 1]));
    assert_eq!(first.trials[0], second.trials[0], "the trial in the archive is unchanged");
    let starts: Vec<usize> = second.trials.iter().map(|trial| trial.start).collect();
    assert_eq!(starts, [0, 1]);
    assert_eq!(second.starts.iter().map(|start| start.resumed).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn suite_with_steps_is_measured_and_reported() {
    let sequence = "[[workloads]]\nname = \"session\"\ncookies = true\n\n\
                    [[workloads.steps]]\npath = \"/plaintext\"\n\
                    extract = { word = { matches = \"Hello, (W[a-z]*)\" } }\n\n\
                    [[workloads.steps]]\nname = \"second\"\npath = \"/plaintext\"\n\
                    headers = { X = \"{extract.word}\" }\n";
    let run = World::new(&["good"], &format!("{LOAD}{sequence}")).walk(&[]).1;
    let report = report(&run);
    let [trial] = report.trials.as_slice() else { panic!("one trial") };
    let visits = trial.load.visits.as_ref().unwrap();
    assert_eq!((visits.group.completed, visits.group.unfinished), (394, 0));
    assert_eq!(trial.load.requests[1].name, "second");
    assert_eq!(trial.load.outcomes.get(Outcome::ExtractionFailed), 0);
    let page = dyno_report::html::FORMAT.render(&report);
    assert!(page.contains("<h3>Visits</h3>"));
}

#[test]
fn interrupted_walk_is_completed_by_the_next() {
    let suite = LOAD.replace("repeats = 1", "repeats = 2");
    let mut world = World::new(&["a", "b"], &suite);
    let (ended, run) = world.walk_with(&[], &mut |interrupts, event| {
        if let RunEvent::LaunchEnded { launch: 1 } = event {
            interrupts.raise();
        }
    });
    assert_eq!((ended, measured(&run)), (RunEnd::Interrupted, vec![0, 1]));
    let (ended, run) = world.walk(&[]);
    assert_eq!((ended, measured(&run)), (RunEnd::Complete, vec![0, 1, 2, 3]));
    assert_eq!(run.starts.len(), 4, "no start is repeated");
}
