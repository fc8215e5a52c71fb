//! dyno itself, as a program to be started.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::children;
use crate::sys::{allowed_cpus, set_affinity};

/// Path of this program, from which the null responder and the guard are started.
#[must_use]
pub fn own_program() -> PathBuf {
    // A program that was replaced while it runs reads as "… (deleted)"; the kernel's link still
    // leads to it. By our number, because `self` would be the shell that a command is given to.
    let replaced = || format!("/proc/{}/exe", std::process::id()).into();
    std::env::current_exe().ok().filter(|path| path.exists()).unwrap_or_else(replaced)
}

/// A process of dyno itself, started with other arguments. Dropping it kills it.
///
/// The process must end with its standard input, which ends with dyno.
#[derive(Debug)]
pub struct OwnProcess(Child);

impl OwnProcess {
    /// Starts dyno with these arguments, on these CPUs; none: on those of the calling thread.
    ///
    /// # Errors
    /// It cannot be started, or not on these CPUs.
    pub fn start(arguments: &[&str], cpus: &[u32]) -> io::Result<OwnProcess> {
        let mut command = Command::new(own_program());
        command.args(arguments).stdin(Stdio::piped());
        let own = allowed_cpus();
        // The child inherits the CPUs of this thread, which goes back to its own at once.
        set_affinity(cpus)?;
        let child = children::spawn(&mut command);
        set_affinity(&own)?;
        child.map(OwnProcess)
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Whether it has ended by itself, or was killed.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for OwnProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        children::forget(self.0.id());
    }
}
