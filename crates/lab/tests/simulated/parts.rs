//! Starts with a back end: its cost, its failures, and the failures that it causes.

use dyno_analysis::run_status::RunStatus;
use dyno_lab::run::RunEnd;
use dyno_model::run::Run;
use dyno_model::start::FailureKind;
use dyno_model::trial::CheckResult;
use dyno_model::{Party, Protocol};
use dyno_testkit::resource_use::ServerCosts;

use crate::server::{Server, Trouble, TroubleKind};
use crate::world::{World, codes, kinds, message, report, status};

const STORE: &str = "title = \"The store\"\n[start]\ncommand = [\"x\", \"{port}\"]\n[reset]\n\
                     command = \"y\"\n";

const ALONE: &str = "language = \"C\"\nprotocols = [\"h1\", \"h2c\"]\n[start]\n\
                     command = [\"x\", \"{port}\"]\n";

/// Walks a plan of `front`, which needs the store, and of `alone`, which does not.
fn walk(store: Server, front: Server, repeats: u32) -> (World, RunEnd, Run) {
    let suite = format!(
        "subjects = [\"front\", \"alone\"]\n[suite]\nrepeats = {repeats}\norder = \"fixed\"\n\
         [[workloads]]\nname = \"one\"\npath = \"/\"\n[load]\nconnections = 4\n\
         warmup = \"100ms\"\nduration = \"500ms\"\n"
    );
    let front_definition = format!("{ALONE}env = {{ STORE = \"{{store.port}}\" }}\n");
    let definitions = [("backends/store", STORE), ("front", &front_definition), ("alone", ALONE)];
    let mut world = World::with_definitions(&definitions, &suite);
    let (ended, run) = world.walk(&[("store", store), ("front", front)]);
    (world, ended, run)
}

fn with_trouble(kind: TroubleKind) -> Server {
    Server::with_trouble(kind, 0)
}

#[test]
fn back_end_runs_with_its_subject() {
    let costs = ServerCosts { cpu_us: 20.0, ..Server::default().costs };
    let store = Server { costs, ..Server::default() };
    let (world, _, run) = walk(store, Server::default(), 1);
    let actions = ["start store", "start front", "reset store", "stop front", "stop store"];
    assert_eq!(world.journal, [&actions[..], &["start alone", "stop alone"]].concat());
    assert_eq!(status(&run).1, RunStatus::Valid);
    let report = report(&run);
    let costs: Vec<_> = report
        .trials
        .iter()
        .map(|trial| {
            let of_backends = trial.backends.iter();
            let backends: Vec<_> = of_backends
                .map(|backend| (&*backend.name, backend.server.cpu_us_per_request))
                .collect();
            (&*trial.subject_id, trial.server.cpu_us_per_request, backends)
        })
        .collect();
    assert_eq!(
        costs,
        [("front", Some(50.0), vec![("store", Some(20.0))]), ("alone", Some(50.0), Vec::new()),]
    );
    let page = dyno_report::html::FORMAT.render(&report);
    assert!(page.contains("Back ends") && page.contains(">store<"), "the page shows both costs");
}

#[test]
fn back_end_that_is_never_ready_has_failed() {
    let reason = "nothing listened on port 8080";
    let store = Server { never_ready: Some(reason), ..Server::default() };
    let (_, _, run) = walk(store, Server::default(), 1);
    assert_eq!(kinds(&run), [Some(FailureKind::BackendFailed), None]);
    let message = message(&run, 0);
    assert!(message.starts_with("back end store ") && message.ends_with(reason), "{message}");
}

#[test]
fn killed_back_end_does_not_affect_other_results() {
    let kind = TroubleKind::Exits { at_ns: 300_000_000 };
    let trouble = Some(Trouble { kind, start: Some(0), after_loads: 0 });
    let (_, _, run) = walk(Server { trouble, ..Server::default() }, Server::default(), 2);
    assert_eq!(kinds(&run), [Some(FailureKind::BackendFailed), None, None, None]);
    let expected = "back end store ended with exit status: 9. Failure of the subject: its back \
                    end store ended with exit status: 9 under load";
    assert_eq!(message(&run, 0), expected);
    let report = report(&run);
    let failed: Vec<bool> = report
        .trials
        .iter()
        .map(|trial| codes(&trial.caveats).contains(&"backend_failed"))
        .collect();
    assert_eq!(failed, [true, false, false, false], "the other starts are not affected");
}

/// The subject works without the back end, so only the back end's own check shows the failure.
#[test]
fn hanging_back_end_is_reported_after_step() {
    let store = with_trouble(TroubleKind::Deaf { at_ns: 300_000_000 });
    let (_, _, run) = walk(store, Server::default(), 1);
    assert_eq!(kinds(&run), [Some(FailureKind::BackendFailed), None]);
    let expected = "back end store: its process runs, but does not respond: no response in time";
    assert_eq!(message(&run, 0), expected);
}

/// The front serves another protocol, but the dead back end may have broken the checks of this one.
#[test]
fn broken_checks_are_blamed_on_dead_back_end() {
    let front = Server {
        protocols: vec![Protocol::H1, Protocol::H2c],
        wrong_protocols: vec![Protocol::H2c],
        ..Server::default()
    };
    let (_, _, run) = walk(with_trouble(TroubleKind::HasExited), front, 1);
    assert_eq!(kinds(&run), [Some(FailureKind::BackendFailed), None]);
    let start = &run.starts[0];
    assert!(start.subject().unwrap().checks_before.iter().any(CheckResult::is_broken));
    assert!(start.refused_protocols().is_empty(), "a resumed run measures both protocols");
    assert!(run.trials.iter().all(|trial| trial.start == 1));
    let failures = report(&run).subjects.remove(0).failures;
    let kinds: Vec<FailureKind> = failures.iter().map(|failure| failure.failure.kind).collect();
    assert_eq!(kinds, [FailureKind::BackendFailed]);
}

/// The user ends the search for the cause of failed checks, so these must not count against the
/// server: a resumed run would never start it again.
#[test]
fn checks_of_unknown_cause_are_not_recorded() {
    let store = with_trouble(TroubleKind::Interrupted);
    let (mut world, ended, run) = walk(store, with_trouble(TroubleKind::FailsCheck), 1);
    assert_eq!((ended, kinds(&run)), (RunEnd::Interrupted, vec![Some(FailureKind::Interrupted)]));
    assert!(run.starts[0].subject().unwrap().checks_before.is_empty());
    assert!(run.starts[0].refused_protocols().is_empty());
    let (ended, run) = world.walk(&[]);
    assert_eq!((ended, run.trials.len()), (RunEnd::Complete, 2), "the server is started again");
}

/// The server stops responding under load. The user ends the test of the back end that may have
/// caused it, so that the cause stays unknown.
#[test]
fn ctrl_c_in_test_of_back_end_repeats_trial_of_silent_server() {
    let store = with_trouble(TroubleKind::Interrupted);
    let front = with_trouble(TroubleKind::Deaf { at_ns: 300_000_000 });
    let (mut world, ended, run) = walk(store, front, 1);
    assert_eq!((ended, kinds(&run)), (RunEnd::Interrupted, vec![Some(FailureKind::Interrupted)]));
    assert!(run.trials.is_empty(), "its load is not kept");
    assert!(report(&run).subjects.iter().all(|subject| subject.failures.is_empty()));
    let (ended, run) = world.walk(&[]);
    assert_eq!((ended, status(&run).1), (RunEnd::Complete, RunStatus::Valid));
    let starts: Vec<usize> = run.trials.iter().map(|trial| trial.start).collect();
    assert_eq!(starts, [1, 2], "the server is started and loaded again");
}

/// The readiness command of the back end cannot be repeated, so its failure proves nothing.
#[test]
fn subject_exit_is_not_blamed_on_back_end() {
    let store = with_trouble(TroubleKind::Silent);
    let front = with_trouble(TroubleKind::Exits { at_ns: 300_000_000 });
    let (_, _, run) = walk(store, front, 1);
    assert_eq!(kinds(&run), [Some(FailureKind::Crashed), None]);
    assert_eq!(message(&run, 0), "its process ended with exit status: 9 under load");
}

/// An interrupt while the back end restores its data: nothing is measured, and no subject counts
/// as failed.
#[test]
fn ctrl_c_during_data_restore_allows_resume() {
    let store = Server { interrupted_resets: 1, ..Server::default() };
    let (mut world, ended, run) = walk(store, Server::default(), 1);
    assert_eq!((ended, kinds(&run)), (RunEnd::Interrupted, vec![Some(FailureKind::Interrupted)]));
    assert_eq!((run.trials.len(), status(&run).1), (0, RunStatus::Failed));
    assert!(report(&run).subjects.iter().all(|subject| subject.failures.is_empty()));
    let (ended, run) = world.walk(&[]);
    assert_eq!((ended, run.trials.len()), (RunEnd::Complete, 2));
    assert_eq!(status(&run).1, RunStatus::Valid);
    let parts: Vec<Party> = run.starts[1].parts.iter().map(|part| part.party).collect();
    assert_eq!(parts, [Party::Backend(0), Party::SUBJECT]);
}
