//! Tests `dyno load` within this process: in the simulated world, and with small real servers.

mod archives;
mod files;
mod messages;
mod refusals;
mod sequences;
mod server;
mod simulated;
mod sockets;

use std::ffi::OsString;
use std::fs;

use dyno_engine::sim::{Queue, ServerModel, ServiceTime, World};
use dyno_lab::load::{EarlyEnd, SimulatedLoad, simulate};
use serde_json::Value;

use super::*;
use crate::cli::{Cli, Command, usage_error as command_line};
use crate::exit::exit_status;

/// An address at which no server listens.
const URL: &str = "http://127.0.0.1:1/";

/// The I/O backends, as `--driver` names them.
const DRIVERS: [&str; 2] = ["uring", "epoll"];

/// Parses `dyno load` with these words, as the program does.
pub fn parse(words: &[&str]) -> anyhow::Result<LoadArgs> {
    let words: Vec<OsString> = ["dyno", "load"].iter().chain(words).map(OsString::from).collect();
    match Cli::read(&words) {
        Ok(Cli { command: Command::Load(args) }) => Ok(*args),
        Ok(cli) => panic!("{cli:?}"),
        Err(error) => Err(usage_error(command_line::message(&error))),
    }
}

/// Prepares a load, as the program does before its first request.
fn prepare(words: &[&str]) -> PreparedLoad {
    PreparedLoad::new(parse(words).unwrap()).unwrap()
}

/// Runs `dyno load` with these words. The result goes to standard output or a file.
fn run(words: &[&str]) -> anyhow::Result<Exit> {
    run_after(Preparation::default(), parse(words)?)
}

/// Runs `dyno load` with these words. Returns its exit status, and its result in JSON.
fn load(words: &[&str]) -> (Exit, Value) {
    load_after(Preparation::default(), words)
}

/// Runs `dyno load` as [`load`] does, after its preparation.
fn load_after(preparation: Preparation, words: &[&str]) -> (Exit, Value) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = ["--format", "json", "-o", file.path().to_str().unwrap()];
    let args = parse(&[words, &output].concat()).unwrap();
    let exit = run_after(preparation, args).unwrap();
    (exit, serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap())
}

/// Returns the message and the exit status of an error.
fn failure(words: &[&str]) -> (String, Exit) {
    let error = run(words).expect_err("the load should fail");
    (format!("{error:#}"), exit_status(&error))
}

/// Returns the codes of caveats.
fn codes(result: &Value) -> Vec<&str> {
    let caveats = result["caveats"].as_array().unwrap().iter();
    caveats.map(|caveat| caveat["code"].as_str().unwrap()).collect()
}

/// Returns the keys of an object of counts.
fn kinds(counts: &Value) -> Vec<&str> {
    counts.as_object().unwrap().keys().map(String::as_str).collect()
}

/// A server that takes 1 ms for each request, and serves connections at the same time.
fn server_model() -> ServerModel {
    ServerModel::new(ServiceTime::Fixed { ns: 1_000_000 }, Queue::PerConnection)
}

/// A load in the simulated world, with its record.
struct Simulated {
    load: PreparedLoad,
    record: LoadRecord,
}

impl Simulated {
    /// Simulates `dyno load` with these words and one thread.
    fn new(words: &[&str], model: &ServerModel) -> Simulated {
        Simulated::until(words, model, None)
    }

    fn until(words: &[&str], model: &ServerModel, early_end: Option<&EarlyEnd>) -> Simulated {
        let load = prepare(&[words, &["-t", "1"]].concat());
        let simulated = SimulatedLoad {
            spec: &load.spec,
            world: &|worker| World::new(worker.into(), model.clone()),
            early_end,
            read_counters: &mut |_, _| None,
        };
        let record = simulate(simulated, 1_000_000_000).unwrap();
        Simulated { load, record }
    }

    fn result(&self) -> LoadResult {
        self.load.result(&self.record, None)
    }

    /// Returns the result in JSON.
    fn json(&self) -> Value {
        serde_json::to_value(self.result()).unwrap()
    }
}

#[test]
fn wall_clock_at_instant_before_now_is_earlier() {
    assert_eq!(wall_clock_at(5_000_000_000, 12_500_000_000, 1000.0), 992.5);
}
