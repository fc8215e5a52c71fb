//! Tests that a walk reads nothing from its archive.

use std::fs;
use std::path::Path;

use dyno_archive::RunDir;
use dyno_engine::sim::ServiceTime;
use dyno_lab::run::{RunEnd, RunEvent, RunMemory, Runner};
use dyno_launch::supervision::Interrupts;

use crate::host::{SimulatedHost, Surroundings};
use crate::server::Server;
use crate::world::{LOAD, World};

/// Makes all files of a run unreadable for dyno.
fn spoil(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => spoil(&path),
            false => fs::write(path, "spoilt").unwrap(),
        }
    }
}

/// Walks the plan of a suite of two servers. All files of the run are spoilt before its beginning,
/// and after each trial and each start. Returns how the run ended, and the number of its trials.
fn walk_with_spoilt_files(suite: &str) -> (RunEnd, usize) {
    let world = World::new(&["a", "b"], suite);
    let run = world.file("");
    let dir = RunDir::open(&run).unwrap();
    let slow = Server { service: ServiceTime::Fixed { ns: 2_000_000 }, ..Server::default() };
    let (surroundings, interrupts) = (Surroundings::default(), Interrupts::new());
    let host = SimulatedHost::new(&world.plan, &[("b", slow)], &surroundings, &interrupts, 0);
    let mut trials = 0;
    let mut on_event = |event: RunEvent<'_>| {
        if matches!(event, RunEvent::TrialEnded { .. } | RunEvent::LaunchEnded { .. }) {
            trials += usize::from(matches!(event, RunEvent::TrialEnded { .. }));
            spoil(&run);
        }
    };
    let mut runner = Runner {
        plan: &world.plan,
        host: &host,
        dir: &dir,
        interrupts: &interrupts,
        on_event: &mut on_event,
        memory: RunMemory::default(),
    };
    let content = dir.read().unwrap();
    spoil(&run);
    let ended = runner.walk(&content).unwrap();
    assert!(dir.header().is_err() && dir.read().is_err(), "the files are spoilt");
    (ended, trials)
}

#[test]
fn walk_reads_no_archive() {
    let suite = LOAD.replace("repeats = 1", "repeats = 3");
    assert_eq!(walk_with_spoilt_files(&suite), (RunEnd::Complete, 6));
}

#[test]
fn walk_with_stop_rule_reads_no_archive() {
    let suite = LOAD.replace("repeats = 1\norder = \"fixed\"", "repeats = 30");
    let suite = format!("{suite}[stop]\nmetrics = [\"throughput\"]\n");
    let (ended, trials) = walk_with_spoilt_files(&suite);
    assert_eq!(ended, RunEnd::Answered, "one server has half the throughput of the other");
    assert!((10..60).contains(&trials), "{trials}");
}
