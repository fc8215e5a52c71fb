//! What the terminal is and wants.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use dyno_launch::supervision::Interrupts;
use dyno_report::text::Style;

use crate::exit::{self, Exit};

/// Colours on standard output: only on a terminal, and not if `NO_COLOR` is set.
pub fn style() -> Style {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    if wanted && std::io::stdout().is_terminal() { Style::Colour } else { Style::Plain }
}

/// Colours on standard error.
pub fn progress_style() -> Style {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    if wanted && std::io::stderr().is_terminal() { Style::Colour } else { Style::Plain }
}

/// What the third Ctrl-C does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Third {
    /// It ends this process wherever it is: its guard ends what it has started, and the archive has what was finished.
    Ends,
    /// It ends this process after [`LAST_CALL`]: the result, of which nothing is written yet, is not lost to impatience.
    LeavesTimeForTheResult,
}

/// How long a load has to write its result once nobody wants to wait any more.
const LAST_CALL: Duration = Duration::from_secs(3);

/// Counts Ctrl-C and SIGTERM. The first is announced by `say`; after the second nothing waits any more.
pub fn catch_interrupts(say: &'static str, third: Third) -> anyhow::Result<Arc<Interrupts>> {
    let interrupts = Arc::new(Interrupts::new());
    let counted = Arc::clone(&interrupts);
    ctrlc::set_handler(move || match counted.raise() {
        1 => {
            crate::live::give_back();
            self::say(&format!("\n{say}"));
        }
        2 => {}
        3 if third == Third::LeavesTimeForTheResult => {
            crate::live::give_back();
            // Beside the signals' thread, which must see to the next one.
            std::thread::spawn(|| {
                std::thread::sleep(LAST_CALL);
                std::process::exit(Exit::Failed as i32)
            });
        }
        _ if third == Third::LeavesTimeForTheResult => {}
        _ => {
            crate::live::give_back();
            std::process::exit(Exit::Failed as i32)
        }
    })?;
    Ok(interrupts)
}

/// The wall clock, for time stamps that other tools read. Nothing is measured with it.
pub fn unix_seconds() -> f64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// A line on standard error: progress, notes. Nobody needs to read it, so that nobody does is no reason to end anything.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Text on standard output, whole. `Err`: it could not be written, and whoever asked for it must learn that from the exit
/// status.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(exit::unwritten)
}

/// An argument as a shell takes it, for commands that are shown to be typed again.
pub fn quoted(argument: &str) -> String {
    dyno_report::shell::command(&[argument.into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_one_word_for_a_shell() {
        for text in ["runs/a b", "it's", "", "$HOME", "a;b", "plain-1.2/x"] {
            let command = format!("printf %s {}", quoted(text));
            let echoed = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
            assert_eq!(echoed.stdout, text.as_bytes(), "{text}");
        }
        assert_eq!(quoted("runs/hello-1"), "runs/hello-1");
    }
}
