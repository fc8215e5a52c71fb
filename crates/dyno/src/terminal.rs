//! Handles the terminal: colours, Ctrl-C, and writing to standard output and standard error.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use dyno_launch::supervision::Interrupts;
use dyno_model::Plan;
use dyno_report::present::style::Style;
use dyno_report::redact::{self, RedactedPlan};
use dyno_report::terminal::{display, escape_controls, escape_keeping_colours};

use crate::exit::{self, Exit};

/// Style of standard output: coloured on a terminal, unless `NO_COLOR` is set and not empty.
pub fn style() -> Style {
    let is_allowed = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    if is_allowed && std::io::stdout().is_terminal() { Style::Colour } else { Style::Plain }
}

/// Style of standard error, by the same rule as [`style`].
pub fn progress_style() -> Style {
    let is_allowed = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    if is_allowed && std::io::stderr().is_terminal() { Style::Colour } else { Style::Plain }
}

/// The effect of the third Ctrl-C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThirdInterrupt {
    /// Ends this process immediately. The guard ends the started processes, and the archive has the
    /// finished steps.
    Ends,
    /// Ends this process after [`RESULT_TIME`], so that the result can still be written.
    LeavesTimeForTheResult,
}

/// Time for a load to write its result after the third Ctrl-C.
const RESULT_TIME: Duration = Duration::from_secs(3);

/// Counts Ctrl-C and SIGTERM. The first signal prints `message`. The second signal ends every wait.
/// `third` is the effect of the third signal.
pub fn catch_interrupts(
    message: &'static str,
    third: ThirdInterrupt,
) -> anyhow::Result<Arc<Interrupts>> {
    catch_interrupts_with(move || Some(message), third)
}

/// Counts Ctrl-C and SIGTERM, as [`catch_interrupts`] does. At the first signal, `message` returns
/// the message. `None`: no message is printed.
pub fn catch_interrupts_with(
    message: impl Fn() -> Option<&'static str> + Send + 'static,
    third: ThirdInterrupt,
) -> anyhow::Result<Arc<Interrupts>> {
    let interrupts = Arc::new(Interrupts::new());
    let counter = Arc::clone(&interrupts);
    let ignores_hangup = dyno_launch::ignores_hangup();
    ctrlc::set_handler(move || match counter.raise() {
        1 => {
            crate::live::restore_terminal();
            if let Some(message) = message() {
                // Printed in a separate thread, because a blocked terminal must not delay the next
                // signal.
                std::thread::spawn(move || say(&format!("\n{message}")));
            }
        }
        2 => {}
        3 if third == ThirdInterrupt::LeavesTimeForTheResult => {
            crate::live::restore_terminal();
            // Waits in a separate thread, because the thread that handles signals must be ready for
            // the next signal.
            std::thread::spawn(|| {
                std::thread::sleep(RESULT_TIME);
                std::process::exit(Exit::Failed as i32)
            });
        }
        // The thread that the third signal started ends this process.
        _ if third == ThirdInterrupt::LeavesTimeForTheResult => {}
        _ => {
            crate::live::restore_terminal();
            std::process::exit(Exit::Failed as i32)
        }
    })
    .map_err(handler_error)?;
    if ignores_hangup {
        // `set_handler` also catches SIGHUP, which `nohup` had set to be ignored.
        dyno_launch::ignore_hangup();
    }
    Ok(interrupts)
}

/// Returns the error if signals cannot be caught: their handler needs a pipe and a thread.
fn handler_error(error: ctrlc::Error) -> anyhow::Error {
    let cause = match error {
        ctrlc::Error::System(error) => error.to_string(),
        other => other.to_string(),
    };
    anyhow::anyhow!(
        "dyno cannot catch Ctrl-C: {cause}\nhint: catching signals needs one thread and two open \
         files: raise the limits (`ulimit -u`, `ulimit -n`), or end other programs of this user"
    )
}

/// Reads the wall clock, for timestamps that other tools read. Nothing is measured with it.
pub fn unix_seconds() -> f64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Prints a line of progress or a note on standard error. Control characters are made visible,
/// because a terminal would interpret those in a path or message. Without a terminal, secrets are
/// redacted, because the output may be a shared CI log. Errors are ignored, because the output may
/// have no reader.
pub fn say(text: &str) {
    let line = progress_line(text, std::io::stderr().is_terminal());
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

fn progress_line(text: &str, is_terminal: bool) -> String {
    escape_keeping_colours(&redact_unless_terminal(text, is_terminal)).into_owned()
}

/// Prints an error.
pub fn print_error(error: &anyhow::Error) {
    say(&format!("dyno: {}", display(format!("{error:#}"))));
}

/// Prints a text for people on standard output. On a terminal, control characters other than dyno's
/// colours are made visible. For other outputs, colours and secrets are removed.
pub fn print_text(text: &str) -> anyhow::Result<()> {
    if std::io::stdout().is_terminal() {
        print(text)
    } else {
        print(&escape_controls(&redact::text(text)))
    }
}

/// Prints a text about a plan, as [`print_text`] does. Unless standard output is a terminal, the
/// secrets of the plan are also removed.
pub fn print_text_about(plan: &Plan, text: &str) -> anyhow::Result<()> {
    print_text(&redact_about(plan, text, std::io::stdout().is_terminal())?)
}

/// Removes the secrets of a plan from a text about it, unless the text goes to a terminal.
pub fn redact_about<'a>(
    plan: &Plan,
    text: &'a str,
    is_terminal: bool,
) -> anyhow::Result<Cow<'a, str>> {
    if is_terminal {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(RedactedPlan::new(plan)?.text(text)))
}

/// Removes the secrets of a text, unless the text goes to a terminal. Other outputs may be shared.
pub fn redact_unless_terminal(text: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal { Cow::Borrowed(text) } else { Cow::Owned(redact::text(text)) }
}

/// Prints a text for programs on standard output. On a terminal, control characters are made
/// visible. `Err`: the text could not be written, which affects the exit status.
pub fn print(text: &str) -> anyhow::Result<()> {
    let is_terminal = std::io::stdout().is_terminal();
    let text = if is_terminal { escape_keeping_colours(text) } else { Cow::Borrowed(text) };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(exit::unwritten)
}

/// Prints until the first error, and keeps the error, so that a closed standard output does not end
/// the work.
#[derive(Debug, Default)]
pub struct Printer {
    error: Option<anyhow::Error>,
}

impl Printer {
    /// Calls a function that prints, unless an earlier call failed.
    pub fn print(&mut self, print: impl FnOnce() -> anyhow::Result<()>) {
        if self.error.is_none() {
            self.error = print().err();
        }
    }

    pub const fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Returns the error at the end of the work. A closed standard output is an error only if the
    /// exit status of the work is 0, because other statuses are worse.
    pub fn end(self, exit: Exit) -> anyhow::Result<()> {
        match self.error {
            Some(error) if exit == Exit::Valid || !error.is::<exit::Unread>() => Err(error),
            _ => Ok(()),
        }
    }
}

/// Returns the first of several errors, and prints the others. A closed standard output is returned
/// only if there is no other error: its status tells scripts that all files were written.
pub fn first_error(results: impl IntoIterator<Item = anyhow::Result<()>>) -> anyhow::Result<()> {
    let errors = results.into_iter().filter_map(Result::err);
    let (unread, others): (Vec<_>, Vec<_>) = errors.partition(anyhow::Error::is::<exit::Unread>);
    let mut others = others.into_iter();
    match others.next() {
        Some(first) => {
            others.for_each(|error| print_error(&error));
            Err(first)
        }
        None => unread.into_iter().next().map_or(Ok(()), Err),
    }
}

/// Quotes an argument for a shell, for commands in messages.
pub fn quote(argument: &str) -> String {
    dyno_report::shell::command(&[argument.into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_handler_error_has_cause_and_hint() {
        let error = handler_error(ctrlc::Error::System(std::io::Error::from_raw_os_error(11)));
        let text = error.to_string();
        assert!(text.contains("Resource temporarily unavailable"), "{text}");
        assert!(text.contains("\nhint: ") && text.contains("ulimit -u"), "{text}");
    }

    #[test]
    fn printer_stops_after_first_error() {
        let print_all = |error: fn() -> anyhow::Error| {
            let (mut printer, mut calls) = (Printer::default(), 0);
            for result in [Ok(()), Err(error()), Ok(())] {
                printer.print(|| {
                    calls += 1;
                    result
                });
            }
            assert_eq!((calls, printer.has_failed()), (2, true));
            printer
        };
        let status = |printer: Printer, exit| {
            printer.end(exit).map_or_else(|error| exit::exit_status(&error), |()| exit)
        };
        for (exit, expected) in [(Exit::Valid, Exit::Unread), (Exit::Invalid, Exit::Invalid)] {
            assert_eq!(status(print_all(|| exit::Unread.into()), exit), expected);
            let full = || anyhow::anyhow!("standard output: no space left");
            assert_eq!(status(print_all(full), exit), Exit::Failed);
        }
        assert_eq!(status(Printer::default(), Exit::Valid), Exit::Valid);
    }

    #[test]
    fn closed_output_hides_no_other_error() {
        let unread = || Err(exit::Unread.into());
        let missing = |file: &str| Err(anyhow::anyhow!("{file}: cannot be written"));
        let error = first_error([unread(), Ok(()), missing("a"), missing("b")]).unwrap_err();
        assert_eq!(error.to_string(), "a: cannot be written");
        assert_eq!(exit::exit_status(&error), Exit::Failed);
        let error = first_error([Ok(()), unread(), unread()]).unwrap_err();
        assert_eq!(exit::exit_status(&error), Exit::Unread);
        assert!(first_error([Ok(()), Ok(())]).is_ok());
    }

    #[test]
    fn progress_line_controls_no_terminal() {
        for is_terminal in [true, false] {
            let line = progress_line("a\u{1b}]0;b\u{7}", is_terminal);
            assert!(line.contains("]0;b") && !line.contains(['\u{1b}', '\u{7}']), "{line:?}");
        }
    }

    #[test]
    fn quoted_argument_is_one_word_for_shell() {
        for text in ["runs/a b", "it's", "", "$HOME", "a;b", "plain-1.2/x"] {
            let command = format!("printf %s {}", quote(text));
            let echoed = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
            assert_eq!(echoed.stdout, text.as_bytes(), "{text}");
        }
        assert_eq!(quote("runs/hello-1"), "runs/hello-1");
    }
}
