//! dyno: arguments and wiring. It decides nothing; see ARCHITECTURE.md for where things are decided.

// These panic where nobody reads any more, in the middle of a run: `terminal` has what does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod calibration;
mod cli;
mod cmd;
mod exit;
mod habits;
mod live;
mod progress;
mod terminal;

use std::process::ExitCode;

use crate::exit::Exit;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == dyno_runner::launch::guard::ARGUMENT) {
        dyno_runner::launch::guard::main(std::io::stdin().lock());
        return ExitCode::SUCCESS;
    }
    let cli = cli::Cli::read(&words).unwrap_or_else(|error| error.exit());
    match cmd::dispatch(cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            let exit = exit::of(&error);
            // Who closed the output knows why. Causes quote files, servers and compilers.
            if exit != Exit::Unread {
                terminal::say(&format!("dyno: {}", dyno_report::terminal::display(format!("{error:#}"))));
            }
            exit.into()
        }
    }
}
