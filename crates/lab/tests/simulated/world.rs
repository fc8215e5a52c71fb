//! A suite in a temporary folder, with the simulated machine that runs it.

use std::fs;
use std::path::{Path, PathBuf};

use dyno_analysis::run_status::{RunCompleteness, RunStatus};
use dyno_analysis::{Caveat, Report};
use dyno_archive::RunDir;
use dyno_lab::run::{RunEnd, RunEvent, RunMemory, Runner};
use dyno_launch::supervision::Interrupts;
use dyno_model::plan::DriverKind;
use dyno_model::run::{Run, RunHeader, SCHEMA};
use dyno_model::start::FailureKind;
use dyno_model::{Plan, RunId};
use dyno_subject::definition::Definition;
use dyno_subject::definition::find::Folders;
use dyno_suite::file::SuiteFile;
use dyno_suite::machine::RunMachine;
use dyno_suite::plan::{Overrides, resolve};
use dyno_testkit::resource_use;

use crate::host::{SimulatedHost, Surroundings};
use crate::server::Server;

/// One step of each workload, with one start of each subject.
pub const LOAD: &str = "[suite]\nrepeats = 1\norder = \"fixed\"\n[load]\nconnections = 2\n\
                        warmup = \"100ms\"\nduration = \"400ms\"\ninterval = \"100ms\"\n";

/// Definition of a subject that supports HTTP/1.1 and h2c.
pub const SUBJECT: &str = "language = \"C\"\nprotocols = [\"h1\", \"h2c\"]\n[start]\n\
                       command = [\"x\", \"{port}\"]\n";

/// A run in a temporary folder.
pub struct World {
    folder: tempfile::TempDir,
    pub plan: Plan,
    pub surroundings: Surroundings,
    /// Actions on parts in the last walk, in the order of time.
    pub journal: Vec<String>,
}

impl World {
    /// Plans a suite whose subjects have these names, and begins its archive.
    pub fn new(names: &[&str], suite: &str) -> World {
        let definitions: Vec<(&str, &str)> = names.iter().map(|name| (*name, SUBJECT)).collect();
        World::with_definitions(&definitions, &format!("subjects = {names:?}\n{suite}"))
    }

    /// Plans a suite with these definitions, by name: of subjects, or of back ends whose name
    /// begins with `backends/`. The machine does not meet the needs of subjects whose description
    /// begins with `needs`.
    pub fn with_definitions(definitions: &[(&str, &str)], suite: &str) -> World {
        World::with_suite(definitions, parse(suite))
    }

    /// Plans a suite as [`World::with_definitions`] does.
    pub fn with_suite(definitions: &[(&str, &str)], suite: SuiteFile) -> World {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in definitions {
            let (path, file) = match name.strip_prefix("backends/") {
                Some(_) => (folder.path().join(name), "backend.toml"),
                None => (folder.path().join("subjects").join(name), "subject.toml"),
            };
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join(file), text).unwrap();
        }
        let folders = Folders(vec![folder.path().join("subjects")]);
        let unmet = |subject: &Definition| {
            subject.description.starts_with("needs ").then(|| subject.description.clone())
        };
        let machine = RunMachine { cpus: vec![0, 1], driver: DriverKind::Epoll, seed: 1 };
        let plan = resolve(suite, &folders, &Overrides::default(), &machine, &unmet);
        let plan = plan.unwrap_or_else(|error| panic!("{error}")).plan;
        World::with_plan(folder, plan)
    }

    /// Begins the archive of a plan.
    pub fn with_plan(folder: tempfile::TempDir, plan: Plan) -> World {
        let header = RunHeader {
            schema: SCHEMA.into(),
            id: "simulated".into(),
            run_id: RunId::default(),
            started: "2026-01-02T03:04:05Z".into(),
            command: Vec::new(),
            plan: plan.clone(),
            facts: resource_use::facts(),
            resumptions: Vec::new(),
        };
        RunDir::create(folder.path().join("run"), &header).unwrap();
        World { folder, plan, surroundings: Surroundings::default(), journal: Vec::new() }
    }

    /// Returns the path of a file of the archive.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("run").join(name)
    }

    /// Returns the run in the archive.
    pub fn read(&self) -> Run {
        RunDir::open(self.folder.path().join("run")).unwrap().read().unwrap()
    }

    /// Walks the plan, from the beginning or from the state of the archive.
    pub fn walk(&mut self, servers: &[(&'static str, Server)]) -> (RunEnd, Run) {
        self.walk_with(servers, &mut |_, _| {})
    }

    /// Walks the plan, and calls a function for each event.
    pub fn walk_with(
        &mut self,
        servers: &[(&'static str, Server)],
        on_event: &mut dyn FnMut(&Interrupts, RunEvent<'_>),
    ) -> (RunEnd, Run) {
        let dir = RunDir::open(self.folder.path().join("run")).unwrap();
        let interrupts = Interrupts::new();
        let run = dir.read().unwrap();
        let last_ns = last_ns(&run);
        let host =
            SimulatedHost::new(&self.plan, servers, &self.surroundings, &interrupts, last_ns);
        let mut runner = Runner {
            plan: &self.plan,
            host: &host,
            dir: &dir,
            interrupts: &interrupts,
            on_event: &mut |event| on_event(&interrupts, event),
            memory: RunMemory::default(),
        };
        let ended = runner.walk(&run).unwrap();
        self.journal = host.journal.take();
        (ended, dir.read().unwrap())
    }
}

/// Reads a suite.
pub fn parse(suite: &str) -> SuiteFile {
    let suite = SuiteFile::parse(Path::new("simulated.toml"), suite, &[]);
    suite.unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the instant at which the last start of a run ended, nanoseconds.
fn last_ns(run: &Run) -> u64 {
    run.starts.iter().filter_map(|start| start.ended_ns).max().unwrap_or(0)
}

/// Returns the kind of each start's failure.
pub fn kinds(run: &Run) -> Vec<Option<FailureKind>> {
    run.starts.iter().map(|start| start.failure.as_ref().map(|failure| failure.kind)).collect()
}

/// Returns the message of the failure of a start.
pub fn message(run: &Run, start: usize) -> &str {
    &run.starts[start].failure.as_ref().expect("the start should have failed").message
}

/// Returns the indices of the trials in the archive.
pub fn measured(run: &Run) -> Vec<usize> {
    run.trials.iter().map(|trial| trial.trial).collect()
}

/// Returns the codes of caveats, in order.
pub fn codes(caveats: &[Caveat]) -> Vec<&'static str> {
    caveats.iter().map(|caveat| caveat.code.name()).collect()
}

/// Returns whether a run is complete, and its status.
pub fn status(run: &Run) -> (RunCompleteness, RunStatus) {
    let report = report(run);
    let completeness = RunCompleteness::new(run, &report);
    (completeness, RunStatus::new(&report, completeness))
}

/// Returns the report of a run.
pub fn report(run: &Run) -> Report {
    dyno_analysis::report::report(run)
}

/// Rounds a number to decimal places.
pub fn round(x: f64, decimals: i32) -> f64 {
    dyno_analysis::round_decimals(x, decimals, f64::round)
}
