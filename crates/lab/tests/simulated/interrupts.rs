//! Ctrl-C at an instant, runs without final checks, and resumed runs.

use std::fs;

use dyno_analysis::run_status::{RunCompleteness, RunStatus};
use dyno_engine::sim::{Fault, ServiceTime};
use dyno_lab::run::{RunEnd, RunEvent, has_remaining_work, unbuilt_steps};
use dyno_model::plan::{Arm, Launch};
use dyno_model::run::Run;
use dyno_model::start::{FailureKind, StartRecord};

use crate::server::{Server, TroubleKind};
use crate::world::{World, codes, kinds, measured, report, status};

const SUITE: &str = "[suite]\nrepeats = 2\norder = \"fixed\"\nseed = 7\n[load]\n\
                     connections = [2, 4]\nwarmup = \"50ms\"\nduration = \"400ms\"\n\
                     interval = \"200ms\"\ntimeout = \"1s\"\n";

/// Returns the start of each trial.
fn starts(run: &Run) -> Vec<usize> {
    run.trials.iter().map(|trial| trial.start).collect()
}

/// The user presses Ctrl-C in the middle of the third of eight trials.
#[test]
fn ctrl_c_preserves_finished_trials_for_resume() {
    let undisturbed = World::new(&["one", "two"], SUITE).walk(&[]).1;
    let mut world = World::new(&["one", "two"], SUITE);
    world.surroundings.interrupts_ns = vec![undisturbed.trials[2].load.began_ns + 250_000_000];
    let (ended, run) = world.walk(&[]);
    assert_eq!((ended, measured(&run)), (RunEnd::Interrupted, vec![0, 1]));
    assert_eq!(kinds(&run), [None, Some(FailureKind::Interrupted)]);
    assert_eq!(status(&run), (RunCompleteness::Incomplete, RunStatus::Failed));
    // An interrupt by the user is not a failure of a server.
    assert!(report(&run).subjects.iter().all(|subject| subject.failures.is_empty()));
    assert_eq!(world.journal.last().unwrap(), "stop two", "the server is stopped");
    world.surroundings.interrupts_ns.clear();
    let (ended, run) = world.walk(&[]);
    assert_eq!((ended, starts(&run)), (RunEnd::Complete, vec![0, 0, 2, 2, 3, 3, 4, 4]));
    let report = report(&run);
    assert!(codes(&report.caveats).contains(&"resumed"), "{:?}", report.caveats);
    assert_eq!(status(&run).1, RunStatus::Valid);
    let loads = |run: &Run| -> Vec<_> {
        run.trials.iter().map(|trial| trial.load.intervals.clone()).collect()
    };
    assert_eq!(loads(&run), loads(&undisturbed), "the trials are as without an interrupt");
}

/// The user presses Ctrl-C in the first load of a start. Incorrect responses of this load, and a
/// check that fails after it, are not hidden by a repetition.
#[test]
fn ctrl_c_hides_no_fault_of_first_load() {
    let undisturbed = World::new(&["one"], SUITE).walk(&[]).1;
    let began_ns = undisturbed.trials[0].load.began_ns;
    let interrupted_after = |ms: u64, server: Server| {
        let mut world = World::new(&["one"], SUITE);
        world.surroundings.interrupts_ns = vec![began_ns + ms * 1_000_000];
        let (ended, run) = world.walk(&[("one", server)]);
        assert_eq!(ended, RunEnd::Interrupted);
        world.surroundings.interrupts_ns.clear();
        (run, world.walk(&[]).1)
    };
    let interrupted = |server: Server| interrupted_after(250, server);
    let wrong = Server { faults: vec![(Fault::Status, 0.5)], ..Server::default() };
    let (run, resumed) = interrupted(wrong);
    assert_eq!(measured(&run), [0]);
    assert!(run.trials[0].load.cut_short);
    assert_eq!(measured(&resumed), [0, 1, 2, 3]);
    assert_eq!(resumed.trials[0], run.trials[0], "it is kept");
    assert_eq!(status(&resumed), (RunCompleteness::Complete, RunStatus::Invalid));
    let (run, _) = interrupted(Server::with_trouble(TroubleKind::FailsCheck, 1));
    let kind = run.starts[0].failure.as_ref().unwrap().kind;
    assert!(kind.is_caused_by_subject(), "{kind:?}");
    // Before the first response, in the warm-up, and in the window.
    for ms in [0, 20, 51, 250] {
        let (run, resumed) = interrupted_after(ms, Server::default());
        assert_eq!(measured(&run), [0; 0], "after {ms} ms");
        assert_eq!(status(&resumed).1, RunStatus::Valid, "after {ms} ms");
    }
}

/// dyno may be killed while it stops a server.
#[test]
fn failure_is_recorded_before_server_is_stopped() {
    let mut world = World::new(&["one"], SUITE);
    let file = world.file("starts/000.json");
    let mut stored = None;
    let broken = Server::with_trouble(TroubleKind::FailsCheck, 2);
    world.walk_with(&[("one", broken)], &mut |_, event| {
        // The event follows the stop, and precedes the record of the stop.
        if let RunEvent::Failed { launch: 0, .. } = event {
            let text = fs::read_to_string(&file).unwrap();
            stored.get_or_insert(serde_json::from_str::<StartRecord>(&text).unwrap());
        }
    });
    let stored = stored.unwrap();
    assert!(stored.ended_ns.is_none() && stored.parts[0].stop.is_none());
    assert_eq!(stored.failure, world.read().starts[0].failure);
    assert!(!stored.parts[0].checks_after.is_empty());
}

/// Only the walk of a run with work left may be recorded as a resumption.
#[test]
fn complete_run_has_no_remaining_work() {
    let mut world = World::new(&["one", "two"], SUITE);
    let has_work = |world: &World| has_remaining_work(&world.plan, &world.read(), |_| true);
    assert!(has_work(&world));
    world.walk(&[]);
    assert!(!has_work(&world));
    fs::remove_file(world.file("trials/0003.json")).unwrap();
    assert!(has_work(&world));
    assert!(!has_remaining_work(&world.plan, &world.read(), |_| false), "no server is built");
    let unbuilt = |is_built: &dyn Fn(&Arm) -> bool| {
        unbuilt_steps(&world.plan, &world.read(), is_built).into_iter().collect::<Vec<_>>()
    };
    // Trial 3 is the second step of the second server.
    assert_eq!(unbuilt(&|arm| arm.subject == 0), [(1, 1)]);
    assert_eq!(unbuilt(&|arm| arm.subject == 1), []);
    assert_eq!(unbuilt(&|_| true), []);
    world.walk(&[]);
    assert!(!has_work(&world));
}

#[test]
fn run_that_ended_with_its_answer_has_no_remaining_work() {
    let suite = SUITE.replace("repeats = 2\norder = \"fixed\"", "repeats = 30");
    let mut world =
        World::new(&["one", "two"], &format!("{suite}[stop]\nmetrics = [\"throughput\"]\n"));
    let slow = Server { service: ServiceTime::Fixed { ns: 2_000_000 }, ..Server::default() };
    let (ended, run) = world.walk(&[("two", slow)]);
    assert_eq!(ended, RunEnd::Answered);
    assert!(run.trials.len() < world.plan.trials.len());
    assert!(!has_remaining_work(&world.plan, &run, |_| true));
}

/// dyno was killed in the checks after the last step of one of two servers that take turns.
#[test]
fn resume_repeats_steps_without_final_checks() {
    let suite = SUITE
        .replace("order = \"fixed\"", "order = \"interleaved\"\nslice = \"100ms\"")
        .replace("interval = \"200ms\"\n", "")
        .replace("repeats = 2", "repeats = 1");
    let mut world = World::new(&["one", "two"], &suite);
    let mut killed: StartRecord = world.walk(&[]).1.starts.remove(1);
    assert_eq!(status(&world.read()).1, RunStatus::Valid);
    killed.ended_ns = None;
    killed.parts[0].checks_after.clear();
    fs::write(world.file("starts/001.json"), serde_json::to_string(&killed).unwrap()).unwrap();
    let run = world.read();
    assert_eq!(status(&run), (RunCompleteness::Incomplete, RunStatus::Failed));
    let valid: Vec<bool> = report(&run).trials.iter().map(|trial| trial.valid).collect();
    assert_eq!(valid.iter().filter(|valid| **valid).count(), 2, "of the other server");
    let run = world.walk(&[]).1;
    assert_eq!((starts(&run), status(&run).1), (vec![2, 2, 3, 3], RunStatus::Valid));
    // A missing trial is measured in turns with its partner, and no other trial is.
    fs::remove_file(world.file("trials/0003.json")).unwrap();
    let run = world.walk(&[]).1;
    assert_eq!((starts(&run), status(&run).1), (vec![2, 4, 3, 5], RunStatus::Valid));
    assert!(run.trials.iter().all(|trial| trial.load.slices_ns.is_some()), "all have turns");
}

#[test]
fn launch_of_several_arms_is_harness_failure() {
    let suite = SUITE.replace("repeats = 2", "repeats = 1");
    let mut plan = World::new(&["one", "two"], &suite).plan;
    plan.launches = vec![Launch { arms: vec![0, 1], block: 0 }];
    plan.trials.retain(|trial| trial.launch == 0);
    let run = World::with_plan(tempfile::tempdir().unwrap(), plan).walk(&[]).1;
    let [start] = run.starts.as_slice() else { panic!("{:?}", run.starts) };
    let failure = start.failure.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::Harness);
    assert!(failure.message.contains("the plan starts several subjects as one"), "{failure:?}");
    assert!(start.parts.is_empty() && run.trials.is_empty());
}
