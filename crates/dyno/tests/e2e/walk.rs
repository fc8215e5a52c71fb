//! Helpers that run a plan with the runner itself, without a suite file, and return the run.

use std::fs;
use std::path::Path;

use dyno_archive::RunDir;
use dyno_lab::prepare::prepare;
use dyno_lab::run::{RealHost, RunEvent, RunMemory, Runner};
use dyno_launch::guard::Guard;
use dyno_launch::network::Network;
use dyno_launch::supervision::{Interrupts, Supervision};
use dyno_model::run::{Run, RunHeader, SCHEMA};
use dyno_model::{Facts, RunId};
use dyno_subject::definition::find::Folders;
use dyno_suite::file::SuiteFile;
use dyno_suite::plan::{Overrides, Planned, resolve};

use crate::drive::{not_run, wait_for_other_loads};

/// Table of a suite without probes. The first start of a subject with probes takes a second longer.
pub const UNOBSERVED: &str = "[observe]\nsyscalls = false\nstates = false\nruntime = false\n";

/// Returns the start command of the null responder.
pub fn null() -> String {
    format!("[{:?}, \"serve-null\", \"--port\", \"{{port}}\"]", env!("CARGO_BIN_EXE_dyno"))
}

/// Writes the definition of a subject with this start command and this environment.
pub fn define(subjects: &Path, name: &str, command: &str, env: &str) {
    let folder = subjects.join(name);
    fs::create_dir_all(&folder).unwrap();
    let text = format!(
        "name = {name:?}\ntitle = {name:?}\nlanguage = \"Rust\"\nprotocols = [\"h1\"]\n\
         checks = [\"hello\"]\n\
         [start]\ncommand = {command}\nenv = {{ {env} }}\n[ready]\npath = \"/plaintext\"\n\
         deadline = \"20s\"\n"
    );
    fs::write(folder.join("subject.toml"), text).unwrap();
}

/// Returns the plan of one short trial of a subject.
pub fn planned(subjects: &Path, name: &str) -> Planned {
    planned_with(
        subjects,
        &format!(
            "subjects = [{name:?}]\n[load]\nconnections = 4\nwarmup = \"100ms\"\nduration = \
             \"500ms\"\n[suite]\nrepeats = 1\n"
        ),
    )
}

/// Returns the plan of a suite.
pub fn planned_with(subjects: &Path, suite: &str) -> Planned {
    let suite = SuiteFile::parse(Path::new("by-hand.toml"), suite, &[]).unwrap();
    let folders = Folders(vec![subjects.into()]);
    let machine = dyno_lab::this_machine::read(dyno_launch::allowed_cpus());
    let mut planned = resolve(suite, &folders, &Overrides::default(), &machine, &|_| None).unwrap();
    // Events are counted, and must not depend on other programs on the machine.
    planned.plan.again = 0;
    planned
}

/// Returns whether this user can create network namespaces for servers, and prints why not.
pub fn can_make_networks() -> bool {
    let refused = Network::pair().map(drop);
    if let Err(reason) = &refused {
        not_run(&format!("starts in separate network namespaces: {reason}"));
    }
    refused.is_ok()
}

/// Builds, walks the plan, and reads what it left in `sandbox`.
pub fn run(sandbox: &Path, planned: &Planned) -> Run {
    run_with(sandbox, planned, &mut |_| {})
}

/// Runs a plan, and calls a function for each event.
pub fn run_with(sandbox: &Path, planned: &Planned, on_event: &mut dyn FnMut(RunEvent<'_>)) -> Run {
    let interrupts = &Interrupts::new();
    // A process also has only one set of control groups, which a run prepares and removes.
    let _only_load = wait_for_other_loads();
    let guard = Guard::start().unwrap();
    let supervision = Supervision { guard: &guard, interrupts };
    let cache = sandbox.join("cache");
    let mut planned = planned.clone();
    let builds = prepare(&mut planned, &cache, &supervision, &mut |_| {}).unwrap();
    let header = RunHeader {
        schema: SCHEMA.into(),
        id: "by-hand".into(),
        run_id: RunId::default(),
        started: "2026-01-02T03:04:05Z".into(),
        command: Vec::new(),
        plan: planned.plan.clone(),
        facts: Facts::default(),
        resumptions: Vec::new(),
    };
    let dir = RunDir::create(sandbox.join("run"), &header).unwrap();
    let host = RealHost::new(&planned, &builds, supervision).unwrap();
    let mut runner = Runner {
        plan: &planned.plan,
        host: &host,
        dir: &dir,
        interrupts,
        on_event,
        memory: RunMemory::default(),
    };
    runner.walk(&dir.read().unwrap()).unwrap();
    dir.read().unwrap()
}
