//! dyno: arguments and wiring. It decides nothing; see ARCHITECTURE.md for where things are decided.

mod calibration;
mod cli;
mod cmd;
mod exit;
mod live;
mod progress;
mod terminal;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(dyno_runner::launch::guard::ARGUMENT) {
        dyno_runner::launch::guard::main(std::io::stdin().lock());
        return ExitCode::SUCCESS;
    }
    terminal::die_quietly_on_closed_pipes();
    match cmd::dispatch(cli::Cli::parse()) {
        Ok(exit) => exit.into(),
        Err(error) => {
            let exit = exit::of(&error);
            // Causes quote files, servers and compilers.
            eprintln!("dyno: {}", dyno_report::terminal::display(format!("{error:#}")));
            exit.into()
        }
    }
}
