//! What the terminal is and wants.

use std::io::IsTerminal as _;
use std::sync::Arc;

use dyno_report::text::Style;
use dyno_runner::run::Interrupts;

use crate::exit::Exit;

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

/// Counts Ctrl-C and SIGTERM. The first is announced by `say`; after the second nothing waits any more, and the third
/// ends this process wherever it is: its guard ends what it has started.
pub fn catch_interrupts(say: &'static str) -> anyhow::Result<Arc<Interrupts>> {
    let interrupts = Arc::new(Interrupts::new());
    let counted = Arc::clone(&interrupts);
    ctrlc::set_handler(move || match counted.raise() {
        1 => {
            crate::live::give_back();
            eprintln!("\n{say}");
        }
        2 => {}
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

/// `dyno … | head` ends like any other tool, without a panic about the closed pipe.
pub fn die_quietly_on_closed_pipes() {
    std::panic::set_hook({
        let usual = std::panic::take_hook();
        Box::new(move |panic| {
            let text = panic.payload().downcast_ref::<String>().map(String::as_str).unwrap_or_default();
            if text.contains("Broken pipe") {
                std::process::exit(0);
            }
            usual(panic);
        })
    });
}
