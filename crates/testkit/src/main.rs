//! An HTTP/1.1 server with a known bottleneck.
//!
//! `testkit --port P --behaviour NAME [--backend P] [--us N] [--workers N]`: one of the table;
//! `testkit --burn N`: fills N CPUs until it is ended; `testkit --rounds N`: computes once.
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

fn run() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(rounds) = number(&words, "--rounds")? {
        burn::turn(rounds.into());
        return Ok(());
    }
    if let Some(threads) = number(&words, "--burn")? {
        burn::fill(threads);
    }
    let port = number(&words, "--port")?.ok_or("--port: missing")?;
    let port = u16::try_from(port).map_err(|_| "--port: must be below 65536")?;
    let name = value(&words, "--behaviour").ok_or("--behaviour: missing")?;
    let (model, work) = behaviour(name)?;
    let work = number(&words, "--us")?.map_or(work, |us| with_time(work, us));
    let model = match (number(&words, "--workers")?, model) {
        (Some(workers), ThreadModel::Pool(_)) => ThreadModel::Pool(workers),
        (_, model) => model,
    };
    let back_end = number(&words, "--backend")?.map(|port| port as u16);
    let listener =
        TcpListener::bind(("127.0.0.1", port)).map_err(|error| format!("port {port}: {error}"))?;
    let task = Task::new(work, back_end).map_err(|error| format!("{name}: {error}"))?;
    model::serve(&listener, model, &Arc::new(task)).map_err(|error| format!("{name}: {error}"))
}

fn behaviour(name: &str) -> Result<(ThreadModel, RequestWork), String> {
    let is_ours = |p: &Program| matches!(p, Program::Testkit(..));
    let names = || {
        let ours = behaviours().filter(|b| is_ours(&b.program)).map(|b| b.name);
        ours.collect::<Vec<_>>().join(", ")
    };
    match find(name).map(|behaviour| behaviour.program) {
        Some(Program::Testkit(model, work)) => Ok((model, work)),
        _ => Err(format!("--behaviour {name}: must be one of {}", names())),
    }
}

/// The work, with another time where it has one.
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
        RequestWork::Dearer(_) => RequestWork::Dearer(us),
        RequestWork::Lock { burn, .. } => RequestWork::Lock { burn, sleep: us },
        other => other,
    }
}

fn value<'a>(words: &'a [String], option: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| word == option)?;
    words.get(at + 1).map(String::as_str)
}

fn number(words: &[String], option: &str) -> Result<Option<u32>, String> {
    let parse = |word: &str| word.parse().map_err(|_| format!("{option} {word}: must be a number"));
    value(words, option).map(parse).transpose()
}
