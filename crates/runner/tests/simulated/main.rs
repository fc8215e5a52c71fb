//! Walks plans on a simulated machine, in virtual time, and compares the archives with the exact
//! expectation.

mod host;
mod reads;

use std::fs;
use std::path::Path;

use dyno_archive::dir::{Run, RunHeader, SCHEMA};
use dyno_archive::start::FailureKind;
use dyno_archive::{Facts, Plan, Protocol, RunDir, RunId};
use dyno_launch::supervision::Interrupts;
use dyno_runner::plan::{Overrides, resolve};
use dyno_runner::run::{RunEnd, RunEvent, RunMemory, Runner};
use dyno_runner::suite::SuiteFile;
use dyno_subject::definition::find::Folders;

use host::{Server, SimulatedHost};

/// One step of each workload, with one start of each subject.
const LOAD: &str = "[suite]\nrepeats = 1\norder = \"fixed\"\n[load]\nconnections = 2\n\
                    warmup = \"100ms\"\nduration = \"400ms\"\ninterval = \"100ms\"\n";

/// A run in a temporary folder.
struct World {
    folder: tempfile::TempDir,
    plan: Plan,
    interrupts: Interrupts,
}

impl World {
    /// Plans a suite whose subjects have these names, and begins its archive.
    fn new(names: &[&str], suite: &str) -> World {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let subject = folder.path().join("subjects").join(name);
            fs::create_dir_all(&subject).unwrap();
            let text = "language = \"C\"\nprotocols = [\"h1\", \"h2c\"]\n[start]\n\
                        command = [\"x\", \"{port}\"]\n";
            fs::write(subject.join("subject.toml"), text).unwrap();
        }
        let suite = format!("subjects = {names:?}\n{suite}");
        let suite = SuiteFile::parse(Path::new("simulated.toml"), &suite, &[]).unwrap();
        let folders = Folders(vec![folder.path().join("subjects")]);
        let overrides = Overrides::default();
        let plan = resolve(suite, &folders, &overrides, &[0, 1], &|_| None).unwrap().plan;
        let header = RunHeader {
            schema: SCHEMA.into(),
            id: "simulated".into(),
            run_id: RunId::default(),
            started: "2026-01-02T03:04:05Z".into(),
            command: Vec::new(),
            plan: plan.clone(),
            facts: Facts::default(),
            resumptions: Vec::new(),
        };
        RunDir::create(folder.path().join("run"), &header).unwrap();
        World { folder, plan, interrupts: Interrupts::new() }
    }

    /// Walks the plan, from the beginning or from the state of the archive.
    fn walk(
        &self,
        servers: &[(&'static str, Server)],
        on_event: &mut dyn FnMut(RunEvent<'_>),
    ) -> (RunEnd, Run) {
        let dir = RunDir::open(self.folder.path().join("run")).unwrap();
        let host = SimulatedHost::new(&self.plan, servers, last_ns(&dir.read().unwrap()));
        let mut runner = Runner {
            plan: &self.plan,
            host: &host,
            dir: &dir,
            interrupts: &self.interrupts,
            on_event,
            memory: RunMemory::default(),
        };
        let ended = runner.walk().unwrap();
        (ended, dir.read().unwrap())
    }
}

/// Returns the instant at which the last start of a run ended, nanoseconds.
fn last_ns(run: &Run) -> u64 {
    run.starts.iter().filter_map(|start| start.ended_ns).max().unwrap_or(0)
}

fn kinds(run: &Run) -> Vec<Option<FailureKind>> {
    run.starts.iter().map(|start| start.failure.as_ref().map(|failure| failure.kind)).collect()
}

fn measured(run: &Run) -> Vec<usize> {
    run.trials.iter().map(|trial| trial.trial).collect()
}

#[test]
fn loads_of_two_servers_have_exact_rates() {
    let world = World::new(&["fast", "slow"], LOAD);
    let slow = Server { service_ns: 4_000_000, ..Server::default() };
    let (ended, run) = world.walk(&[("fast", Server::default()), ("slow", slow)], &mut |_| {});
    assert_eq!((ended, kinds(&run)), (RunEnd::Complete, vec![None, None]));
    let report = dyno_analysis::report::report(&run);
    // Two connections; each response takes the service time and a round trip of 20 µs.
    let rates: Vec<f64> = report.trials.iter().map(|t| t.load.throughput_rps.round()).collect();
    assert_eq!(rates, [1960.0, 500.0]);
}

#[test]
fn exit_under_load_ends_only_its_start() {
    let suite = LOAD.replace("connections = 2", "connections = [2, 4]");
    let world = World::new(&["bad", "good"], &suite);
    let bad = Server { exits_in_load: Some(0), ..Server::default() };
    let (ended, run) = world.walk(&[("bad", bad), ("good", Server::default())], &mut |_| {});
    assert_eq!((ended, kinds(&run)), (RunEnd::Complete, vec![Some(FailureKind::Crashed), None]));
    assert_eq!(measured(&run), [0, 2, 3], "the second trial of the server is not measured");
    let stops = |start: usize| run.starts[start].subject().unwrap().stop;
    assert_eq!((stops(0).is_some(), stops(1).is_some()), (false, true));
}

#[test]
fn check_broken_after_last_trial_fails_start() {
    let world = World::new(&["bad"], LOAD);
    let bad = Server { is_wrong_after: Some(1), ..Server::default() };
    let (_, run) = world.walk(&[("bad", bad)], &mut |_| {});
    assert_eq!(kinds(&run), [Some(FailureKind::IncorrectResponses)]);
    assert_eq!(measured(&run), [0]);
    let part = run.starts[0].subject().unwrap();
    let results = |checks: &[dyno_archive::trial::CheckResult]| {
        checks.iter().map(|check| check.ok).collect::<Vec<bool>>()
    };
    assert_eq!(
        (results(&part.checks_before), results(&part.checks_after)),
        (vec![true], vec![false])
    );
}

#[test]
fn broken_check_excludes_only_its_protocol() {
    let workloads = "[[workloads]]\nname = \"one\"\npath = \"/\"\n[[workloads]]\nname = \"two\"\n\
                     protocol = \"h2c\"\npath = \"/\"\n";
    let world = World::new(&["own"], &format!("{LOAD}{workloads}"));
    let own = Server {
        protocols: vec![Protocol::H1, Protocol::H2c],
        wrong_protocols: vec![Protocol::H2c],
        ..Server::default()
    };
    let (_, run) = world.walk(&[("own", own)], &mut |_| {});
    assert_eq!((kinds(&run), measured(&run)), (vec![None], vec![0]));
    let refused: Vec<Protocol> = run.starts[0].refused_protocols().into_keys().collect();
    assert_eq!(refused, [Protocol::H2c]);
}

#[test]
fn server_that_is_never_ready_has_no_trials() {
    let world = World::new(&["bad", "unbuilt", "good"], LOAD);
    let bad = Server { never_ready: Some("nothing listened on port 8080"), ..Server::default() };
    let unbuilt = Server { is_built: false, ..Server::default() };
    let good = Server::default();
    let (ended, run) =
        world.walk(&[("bad", bad), ("unbuilt", unbuilt), ("good", good)], &mut |_| {});
    assert_eq!((ended, kinds(&run)), (RunEnd::Complete, vec![Some(FailureKind::NeverReady), None]));
    assert_eq!(measured(&run), [2], "the server that was not built is not started");
}

#[test]
fn resumed_walk_measures_only_missing_trials() {
    let suite = LOAD.replace("connections = 2", "connections = [2, 4]");
    let world = World::new(&["good"], &suite);
    let servers = [("good", Server::default())];
    let first = world.walk(&servers, &mut |_| {}).1;
    fs::remove_file(world.folder.path().join("run/trials/0001.json")).unwrap();
    let (ended, second) = world.walk(&servers, &mut |_| {});
    assert_eq!((ended, measured(&second)), (RunEnd::Complete, vec![0, 1]));
    assert_eq!(first.trials[0], second.trials[0], "the trial in the archive is unchanged");
    let starts: Vec<usize> = second.trials.iter().map(|trial| trial.start).collect();
    assert_eq!(starts, [0, 1]);
    assert_eq!(second.starts.iter().map(|start| start.resumed).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn interrupted_walk_is_completed_by_the_next() {
    let suite = LOAD.replace("repeats = 1", "repeats = 2");
    let world = World::new(&["a", "b"], &suite);
    let servers = [("a", Server::default()), ("b", Server::default())];
    let interrupt = |event: RunEvent<'_>| {
        if let RunEvent::LaunchEnded { launch: 1 } = event {
            world.interrupts.raise();
        }
    };
    let (ended, run) = world.walk(&servers, &mut { interrupt });
    assert_eq!((ended, measured(&run)), (RunEnd::Interrupted, vec![0, 1]));
    let rest = World { interrupts: Interrupts::new(), ..world };
    let (ended, run) = rest.walk(&servers, &mut |_| {});
    assert_eq!((ended, measured(&run)), (RunEnd::Complete, vec![0, 1, 2, 3]));
    assert_eq!(run.starts.len(), 4, "no start is repeated");
}
