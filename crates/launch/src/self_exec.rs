//! Starts dyno itself with other arguments. The null responder and the guard are such processes.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::children;
use crate::sys::{allowed_cpus, set_affinity};

/// Returns the path of this program.
#[must_use]
pub fn own_program() -> PathBuf {
    // If the file was replaced while dyno runs, its path ends with "(deleted)", but the kernel's
    // link still leads to it. The link contains dyno's PID, because in a shell command `/proc/self`
    // would be the shell.
    let kernel_link = || format!("/proc/{}/exe", std::process::id()).into();
    std::env::current_exe().ok().filter(|path| path.exists()).unwrap_or_else(kernel_link)
}

/// A process of dyno itself, started with other arguments. Dropping the value kills the process.
///
/// The process must end at the end of its standard input, which closes when the starting dyno
/// process ends.
#[derive(Debug)]
pub struct OwnProcess(Child);

impl OwnProcess {
    /// Starts dyno with these arguments and restricts it to `cpus`. Empty: the process may use the
    /// CPUs of the calling thread.
    ///
    /// # Errors
    /// The process cannot be started, or not be restricted to the CPUs.
    pub fn start(arguments: &[&str], cpus: &[u32]) -> io::Result<OwnProcess> {
        let mut command = Command::new(own_program());
        command.args(arguments).stdin(Stdio::piped());
        let original_cpus = allowed_cpus();
        // The child inherits the CPUs of this thread, which are restored right after the child's
        // start.
        set_affinity(cpus)?;
        let child = children::spawn(&mut command);
        set_affinity(&original_cpus)?;
        child.map(OwnProcess)
    }

    /// Returns the PID of the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Whether the process has ended for any reason.
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
