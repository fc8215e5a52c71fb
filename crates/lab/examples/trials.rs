//! Measures the runner's cost per trial at the beginning and at the end of a long run. The run is
//! walked on a simulated machine in virtual time, with its real archive. Its loads are short, so
//! that the cost of the runner is not hidden by the cost of the simulation.
//!
//! Prints a line per kind of run: its name, the number of trials, CPU time per trial in the first
//! and in the last tenth (microseconds), and the ratio of the two.

#[path = "../tests/simulated/host.rs"]
mod host;
#[allow(dead_code)] // The servers of this example have no faults.
#[path = "../tests/simulated/server.rs"]
mod server;

use std::error::Error;
use std::fs;
use std::path::Path;

use dyno_analysis::trial::RecordedTrial;
use dyno_archive::RunDir;
use dyno_engine::sim::ServiceTime;
use dyno_lab::run::{RunEvent, RunMemory, Runner};
use dyno_launch::supervision::Interrupts;
use dyno_model::plan::DriverKind;
use dyno_model::run::{RunHeader, SCHEMA};
use dyno_model::{Facts, Plan, RunId};
use dyno_subject::definition::find::Folders;
use dyno_suite::file::SuiteFile;
use dyno_suite::machine::RunMachine;
use dyno_suite::plan::{Overrides, resolve};
use rustix::time::{ClockId, clock_gettime};

use host::{SimulatedHost, Surroundings};
use server::Server;

/// Names of the servers.
const SERVERS: [&str; 2] = ["a", "b"];

/// A suite of 100 trials per repeat: two servers, five workloads and ten steps.
const SUITE: &str = "subjects = [\"a\", \"b\"]\n[load]\nwarmup = \"10ms\"\nduration = \"100ms\"\n\
                     interval = \"100ms\"\nconnections = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n";

/// Trials per repeat.
const TRIALS: usize = 100;

/// Additions to the suite, by the name of the kind of run. Equal servers never answer the question
/// of `[stop]`, so that all repeats are made.
const KINDS: [(&str, &str); 2] = [("plain", ""), ("stop", "[stop]\nmetrics = [\"throughput\"]\n")];

fn main() -> Result<(), Box<dyn Error>> {
    let repeats = match std::env::args().nth(1) {
        Some(trials) => trials.parse::<usize>()?.div_ceil(TRIALS),
        None => 20,
    };
    for (name, addition) in KINDS {
        let ends = walk(repeats, addition)?;
        let tenth = ends.len() / 10;
        let us_per_trial =
            |from: usize, to: usize| (ends[to] - ends[from]) as f64 / 1e3 / (to - from) as f64;
        let first = us_per_trial(0, tenth);
        let last = us_per_trial(ends.len() - 1 - tenth, ends.len() - 1);
        println!("{name}\t{}\t{first:.0}\t{last:.0}\t{:.2}", ends.len(), last / first);
    }
    Ok(())
}

/// Walks a run in a temporary folder. Returns the CPU time of this process at the end of each
/// trial, nanoseconds.
fn walk(repeats: usize, addition: &str) -> Result<Vec<u64>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let plan = plan(folder.path(), repeats, addition)?;
    let header = RunHeader {
        schema: SCHEMA.into(),
        id: "trials".into(),
        run_id: RunId::default(),
        started: "2026-01-02T03:04:05Z".into(),
        command: Vec::new(),
        plan: plan.clone(),
        facts: Facts::default(),
        resumptions: Vec::new(),
    };
    let dir = RunDir::create(folder.path().join("run"), &header)?;
    let server = Server { service: ServiceTime::Fixed { ns: 20_000_000 }, ..Server::default() };
    let servers = SERVERS.map(|name| (name, server.clone()));
    let (surroundings, interrupts) = (Surroundings::default(), Interrupts::new());
    let host = SimulatedHost::new(&plan, &servers, &surroundings, &interrupts, 0);
    let mut ends = Vec::new();
    // `dyno run` shows the result of each trial when it ends.
    let mut on_event = |event: RunEvent<'_>| {
        if let RunEvent::TrialEnded { start, record, .. } = event {
            let facts = &header.facts;
            let trial = RecordedTrial { plan: &plan, facts, start: Some(start), record };
            std::hint::black_box(trial.result());
            ends.push(cpu_ns());
        }
    };
    let mut runner = Runner {
        plan: &plan,
        host: &host,
        dir: &dir,
        interrupts: &interrupts,
        on_event: &mut on_event,
        memory: RunMemory::default(),
    };
    runner.walk(&dir.read()?)?;
    if ends.len() != plan.trials.len() {
        return Err(format!("{} of {} trials were measured", ends.len(), plan.trials.len()).into());
    }
    Ok(ends)
}

/// Plans the suite. `folder`: gets the files of the servers.
fn plan(folder: &Path, repeats: usize, addition: &str) -> Result<Plan, Box<dyn Error>> {
    for name in SERVERS {
        let subject = folder.join("subjects").join(name);
        fs::create_dir_all(&subject)?;
        let text =
            "language = \"C\"\nprotocols = [\"h1\"]\n[start]\ncommand = [\"x\", \"{port}\"]\n";
        fs::write(subject.join("subject.toml"), text)?;
    }
    let workloads = (0..5).map(|n| format!("[[workloads]]\nname = \"{n}\"\npath = \"/{n}\"\n"));
    let workloads: String = workloads.collect();
    let suite = format!("{SUITE}{addition}[suite]\nrepeats = {repeats}\n{workloads}");
    let suite = SuiteFile::parse(Path::new("trials.toml"), &suite, &[])?;
    let folders = Folders(vec![folder.join("subjects")]);
    let machine = RunMachine { cpus: vec![0, 1], driver: DriverKind::Epoll, seed: 1 };
    let planned = resolve(suite, &folders, &Overrides::default(), &machine, &|_| None)?;
    Ok(planned.plan)
}

/// Returns the CPU time of this process, nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
