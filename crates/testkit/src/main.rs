//! Runs an HTTP/1.1 server with a known bottleneck.
//!
//! - `testkit --port P --behaviour NAME [--backend P] [--us N] [--workers N]` runs the server of a
//!   behaviour in the list.
//! - `testkit --burn N` uses N CPUs fully until it is killed.
//! - `testkit --rounds N` computes N rounds and ends.
#![forbid(unsafe_code)]

mod burn;
mod http;
mod model;
mod task;

use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;

use dyno_testkit::{Program, RequestWork, ThreadModel, behaviours, find};

use task::Task;

const USAGE: &str = "usage: testkit --port P --behaviour NAME [--backend P] [--us N] [--workers N]";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("testkit: {problem}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Runs the server or the computation that the arguments name.
fn run() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(rounds) = number(&arguments, "--rounds")? {
        burn::compute(rounds.into());
        return Ok(());
    }
    if let Some(threads) = number(&arguments, "--burn")? {
        burn::fill(threads);
    }
    let port = number(&arguments, "--port")?.ok_or("--port: missing")?;
    let port = u16::try_from(port).map_err(|_| "--port: must be below 65536")?;
    let name = value(&arguments, "--behaviour").ok_or("--behaviour: missing")?;
    let (model, work) = behaviour(name)?;
    let work = number(&arguments, "--us")?.map_or(work, |us| with_time(work, us));
    let model = match (number(&arguments, "--workers")?, model) {
        (Some(workers), ThreadModel::Pool(_)) => ThreadModel::Pool(workers),
        (_, model) => model,
    };
    let back_end = number(&arguments, "--backend")?.map(|port| port as u16);
    let listener =
        TcpListener::bind(("127.0.0.1", port)).map_err(|error| format!("port {port}: {error}"))?;
    let task = Task::new(work, back_end).map_err(|error| format!("{name}: {error}"))?;
    model::serve(&listener, model, &Arc::new(task)).map_err(|error| format!("{name}: {error}"))
}

/// Returns the threading model and the work of a behaviour of this program.
fn behaviour(name: &str) -> Result<(ThreadModel, RequestWork), String> {
    let names = || {
        let of_testkit = behaviours().filter(|b| matches!(b.program, Program::Testkit(..)));
        of_testkit.map(|b| b.name).collect::<Vec<_>>().join(", ")
    };
    match find(name).map(|behaviour| behaviour.program) {
        Some(Program::Testkit(model, work)) => Ok((model, work)),
        _ => Err(format!("--behaviour {name}: must be one of {}", names())),
    }
}

/// Returns the work with another time. Work without a time is unchanged.
const fn with_time(work: RequestWork, us: u32) -> RequestWork {
    match work {
        RequestWork::Burn(_) => RequestWork::Burn(us),
        RequestWork::BurnWithIdlers(_) => RequestWork::BurnWithIdlers(us),
        RequestWork::Sleep(_) => RequestWork::Sleep(us),
        RequestWork::ConditionWait(_) => RequestWork::ConditionWait(us),
        RequestWork::ChannelWait(_) => RequestWork::ChannelWait(us),
        RequestWork::Timer(_) => RequestWork::Timer(us),
        RequestWork::Turn(_) => RequestWork::Turn(us),
        RequestWork::Spinlock(_) => RequestWork::Spinlock(us),
        RequestWork::Process(_) => RequestWork::Process(us),
        RequestWork::Leak(_) => RequestWork::Leak(us),
        RequestWork::GrowingBurn(_) => RequestWork::GrowingBurn(us),
        RequestWork::Lock { burn, .. } => RequestWork::Lock { burn, sleep: us },
        other => other,
    }
}

/// Returns the value of an option. `None`: the option is not given.
fn value<'a>(arguments: &'a [String], option: &str) -> Option<&'a str> {
    let index = arguments.iter().position(|argument| argument == option)?;
    arguments.get(index + 1).map(String::as_str)
}

/// Returns the value of an option as a number. `None`: the option is not given.
fn number(arguments: &[String], option: &str) -> Result<Option<u32>, String> {
    let parse = |text: &str| text.parse().map_err(|_| format!("{option} {text}: must be a number"));
    value(arguments, option).map(parse).transpose()
}
