//! Handles the terminal: colours, Ctrl-C, and writing to standard output and standard error.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use dyno_launch::supervision::Interrupts;
use dyno_report::redact;
use dyno_report::terminal::{escape_controls, escape_foreign};
use dyno_report::text::Style;

use crate::exit::{self, Exit};

/// Style of standard output. It is coloured on a terminal, unless `NO_COLOR` is set and not empty.
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
    /// It ends this process immediately. The guard ends the started processes, and the archive has
    /// the finished steps.
    Ends,
    /// It ends this process after [`LAST_CALL`], so that the result can still be written.
    LeavesTimeForTheResult,
}

/// Time for a load to write its result after the third Ctrl-C.
const LAST_CALL: Duration = Duration::from_secs(3);

/// Counts Ctrl-C and SIGTERM. The first prints `message`. After the second, every wait ends.
pub fn catch_interrupts(
    message: &'static str,
    third: ThirdInterrupt,
) -> anyhow::Result<Arc<Interrupts>> {
    catch_interrupts_with(move || Some(message), third)
}

/// Counts Ctrl-C and SIGTERM, as [`catch_interrupts`] does. At the first one, `message` returns the
/// message. `None`: none is printed.
pub fn catch_interrupts_with(
    message: impl Fn() -> Option<&'static str> + Send + 'static,
    third: ThirdInterrupt,
) -> anyhow::Result<Arc<Interrupts>> {
    let interrupts = Arc::new(Interrupts::new());
    let counter = Arc::clone(&interrupts);
    let is_without_terminal = dyno_launch::ignores_hangup();
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
            // Waits in a separate thread, because the thread of signals must handle the next one.
            std::thread::spawn(|| {
                std::thread::sleep(LAST_CALL);
                std::process::exit(Exit::Failed as i32)
            });
        }
        _ if third == ThirdInterrupt::LeavesTimeForTheResult => {}
        _ => {
            crate::live::restore_terminal();
            std::process::exit(Exit::Failed as i32)
        }
    })?;
    if is_without_terminal {
        // `nohup` requires this.
        dyno_launch::ignore_hangup();
    }
    Ok(interrupts)
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
    let text = redact_unless_terminal(text, std::io::stderr().is_terminal());
    let _ = writeln!(std::io::stderr().lock(), "{}", escape_foreign(&text));
}

/// Prints a text for people on standard output. Unless that is a terminal, colours and secrets are
/// removed.
pub fn print_text(text: &str) -> anyhow::Result<()> {
    if std::io::stdout().is_terminal() {
        print(text)
    } else {
        print(&escape_controls(&redact::text(text)))
    }
}

/// Removes the secrets of a text, unless it goes to a terminal. Other outputs may be shared.
pub fn redact_unless_terminal(text: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal { Cow::Borrowed(text) } else { Cow::Owned(redact::text(text)) }
}

/// Prints a text for programs on standard output. On a terminal, control characters are made
/// visible. `Err`: the text could not be written, which affects the exit status.
pub fn print(text: &str) -> anyhow::Result<()> {
    let is_terminal = std::io::stdout().is_terminal();
    let text = if is_terminal { escape_foreign(text) } else { Cow::Borrowed(text) };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(exit::unwritten)
}

/// Quotes an argument for a shell, for commands in messages.
pub fn quote(argument: &str) -> String {
    dyno_report::shell::command(&[argument.into()])
}

#[cfg(test)]
mod tests {
    use super::*;

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
