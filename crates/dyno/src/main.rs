//! The dyno program: parses the arguments and calls the command. ARCHITECTURE.md describes where
//! decisions are made.

// The print macros panic once the output pipe is closed, even in the middle of a run. Use the
// module `terminal` instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod background;
mod calibration;
mod cli;
mod clock;
mod cmd;
mod exit;
mod habits;
mod inputs;
mod line_writer;
mod live;
#[cfg(test)]
#[path = "../../../tests/support/only_entry.rs"]
mod only_entry;
mod other_programs;
#[cfg(test)]
#[path = "../../../tests/support/pipe.rs"]
mod pipe;
mod progress;
#[cfg(test)]
#[path = "../../../tests/support/not_run.rs"]
mod reasons;
mod result_file;
mod terminal;
mod this_machine;

use std::process::ExitCode;

use clap::error::ErrorKind;
use dyno_report::present::style::Style;

use crate::cli::usage_error;
use crate::exit::Exit;
use crate::terminal::{progress_style, style};

fn main() -> ExitCode {
    dyno_launch::survive_file_size_limit();
    let words: Vec<_> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == dyno_launch::guard::ARGUMENT) {
        dyno_launch::guard_process::main(std::io::stdin().lock());
        return ExitCode::SUCCESS;
    }
    match cli::Cli::read(&words) {
        Ok(cli) => cmd::dispatch(cli).unwrap_or_else(|error| print_error(&error)).into(),
        Err(message) => print_clap_message(&message),
    }
}

/// Prints a message of clap: an error, or the help or version.
fn print_clap_message(message: &clap::Error) -> ExitCode {
    let render = |style| match style {
        Style::Colour => message.render().ansi().to_string(),
        Style::Plain => message.render().to_string(),
    };
    let exit = match message.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            terminal::print(&render(style())).map_or_else(|e| print_error(&e), |()| Exit::Valid)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            terminal::say(render(progress_style()).trim_end());
            Exit::Usage
        }
        _ => print_error(&exit::usage_error(usage_error::message(message))),
    };
    exit.into()
}

fn print_error(error: &anyhow::Error) -> Exit {
    let exit = exit::exit_status(error);
    // A closed output needs no message.
    if exit != Exit::Unread {
        terminal::print_error(error);
    }
    exit
}
