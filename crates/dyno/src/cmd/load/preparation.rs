//! The preparation of a load. Until the load begins, Ctrl-C ends dyno at once, without a result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use dyno_launch::supervision::Interrupts;

use crate::terminal::{self, ThirdInterrupt};

pub const ENDING_EARLY: &str = "ending early: the result covers only the time so far";

/// Interval between two checks for an interrupt.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The phase from the start of `dyno load` until the load, or the first load of a search, begins.
/// During this phase, Ctrl-C ends dyno at once. Later interrupts are only counted, and the load has
/// to react. A default preparation catches no signals.
#[derive(Default)]
pub struct Preparation {
    pub interrupts: Arc<Interrupts>,
    is_over: Arc<AtomicBool>,
}

impl Preparation {
    /// Catches Ctrl-C, SIGTERM and SIGHUP from now on.
    pub fn new() -> anyhow::Result<Preparation> {
        let is_over = Arc::new(AtomicBool::new(false));
        let is_preparation_over = Arc::clone(&is_over);
        // During the preparation, an interrupt prints no message, because `check` returns an error
        // that is printed.
        let message = move || is_preparation_over.load(Ordering::Acquire).then_some(ENDING_EARLY);
        let interrupts =
            terminal::catch_interrupts_with(message, ThirdInterrupt::LeavesTimeForTheResult)?;
        Ok(Preparation { interrupts, is_over })
    }

    /// Runs work that may wait for a name server, the loaded server or the reader of a pipe. `Err`:
    /// the work failed, or the user interrupted it. Interrupted work continues until this process
    /// ends.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let (sender, receiver) = mpsc::channel();
        let worker = thread::Builder::new().name("preparation".into()).spawn(move || {
            // After an interrupt there is no receiver.
            let _ = sender.send(work());
        })?;
        loop {
            self.check()?;
            match receiver.recv_timeout(CHECK_INTERVAL) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => Err(anyhow::anyhow!("the thread that prepares the load has ended")),
        }
    }

    /// Ends the preparation. The load must end early if an interrupt is counted from now on.
    pub fn end(self) -> anyhow::Result<Arc<Interrupts>> {
        self.is_over.store(true, Ordering::Release);
        self.check()?;
        Ok(self.interrupts)
    }

    fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.interrupts.count() == 0,
            "interrupted: the load had not begun, so there is no result"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupt_ends_work_before_load() {
        let preparation = Preparation::default();
        let interrupts = Arc::clone(&preparation.interrupts);
        let (_unused, never) = mpsc::channel::<()>();
        let error = preparation
            .run(move || {
                interrupts.raise();
                Ok(never.recv()?)
            })
            .unwrap_err();
        assert!(error.to_string().starts_with("interrupted: "), "{error}");
        assert_eq!(crate::exit::exit_status(&error), crate::exit::Exit::Failed);
        assert!(preparation.end().is_err(), "interrupted right before the load");
    }

    #[test]
    fn work_before_load_returns_its_result() {
        let preparation = Preparation::default();
        assert_eq!(preparation.run(|| Ok(7)).unwrap(), 7);
        let error = preparation.run(|| anyhow::bail!("no such host") as anyhow::Result<()>);
        assert_eq!(error.unwrap_err().to_string(), "no such host");
        assert_eq!(preparation.end().unwrap().count(), 0);
    }
}
