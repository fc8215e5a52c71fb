//! The time before a load begins, in which Ctrl-C ends dyno without a result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use dyno_launch::supervision::Interrupts;

use crate::terminal::{self, ThirdInterrupt};

pub const ENDING_EARLY: &str = "ending early: the result covers what was measured so far";

/// Interval between two checks for an interrupt.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The time from the start of `dyno load` until its load, or its first one, begins.
pub struct Beginning {
    interrupts: Arc<Interrupts>,
    is_over: Arc<AtomicBool>,
}

impl Beginning {
    /// Catches Ctrl-C, SIGTERM and SIGHUP from now on.
    pub fn new() -> anyhow::Result<Beginning> {
        let is_over = Arc::new(AtomicBool::new(false));
        let is_load_running = Arc::clone(&is_over);
        // Before the load, the error of the command is the only message.
        let message = move || is_load_running.load(Ordering::Acquire).then_some(ENDING_EARLY);
        let interrupts =
            terminal::catch_interrupts_with(message, ThirdInterrupt::LeavesTimeForTheResult)?;
        Ok(Beginning { interrupts, is_over })
    }

    /// Runs work that may wait for a name server, the loaded server or the reader of a pipe. `Err`:
    /// the work failed, or the user interrupted it. It then continues until this process ends.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let (sender, receiver) = mpsc::channel();
        let worker = thread::Builder::new().name("beginning".into()).spawn(move || {
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

    /// Ends the time before the load. From now on an interrupt ends the load early.
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

    fn beginning() -> Beginning {
        Beginning { interrupts: Arc::default(), is_over: Arc::default() }
    }

    #[test]
    fn interrupt_ends_work_before_load() {
        let beginning = beginning();
        let interrupts = Arc::clone(&beginning.interrupts);
        let (_unused, never) = mpsc::channel::<()>();
        let error = beginning
            .run(move || {
                interrupts.raise();
                Ok(never.recv()?)
            })
            .unwrap_err();
        assert!(error.to_string().starts_with("interrupted: "), "{error}");
        assert_eq!(crate::exit::exit_status(&error), crate::exit::Exit::Failed);
        assert!(beginning.end().is_err(), "interrupted right before the load");
    }

    #[test]
    fn work_before_load_returns_its_result() {
        let beginning = beginning();
        assert_eq!(beginning.run(|| Ok(7)).unwrap(), 7);
        let error = beginning.run(|| anyhow::bail!("no such host") as anyhow::Result<()>);
        assert_eq!(error.unwrap_err().to_string(), "no such host");
        assert_eq!(beginning.end().unwrap().count(), 0);
    }
}
