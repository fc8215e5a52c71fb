//! The pipe to the guard: a small process of our own that outlives us for a moment. It knows what
//! we have started, and if we end without having cleaned up (killed, crashed), it ends that and
//! removes its control groups and folders ([`crate::guard_process`]).
//!
//! The guard learns by messages on its standard input, each ended by a NUL, which no path holds:
//! `+session 17`, `-group /sys/…`. The end of that input is our end.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::self_exec::own_program;
use crate::{children, folder, lock};

/// The argument by which dyno knows that it is to be a guard.
pub const ARGUMENT: &str = "__guard";

/// Ends a message.
const END: u8 = 0;

/// A handle to the guard. Clones share one process.
#[derive(Clone, Debug)]
pub struct Guard {
    process: Arc<Mutex<GuardProcess>>,
}

#[derive(Debug)]
struct GuardProcess {
    /// Its standard input; `None` once closed.
    to: Option<ChildStdin>,
    child: Child,
}

impl Guard {
    /// Starts the guard: this same program with [`ARGUMENT`]. Before that, removes what dynos have
    /// left that were killed together with their guards.
    pub fn start() -> io::Result<Guard> {
        folder::sweep(&std::env::temp_dir());
        let mut command = Command::new(own_program());
        command
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/");
        let mut child = children::spawn(&mut command)?;
        let to = child.stdin.take();
        Ok(Guard { process: Arc::new(Mutex::new(GuardProcess { to, child })) })
    }

    /// The processes with this cookie in their environment (`process::COOKIE`), in whatever session
    /// or group they are.
    pub(crate) fn watch_cookie(&self, cookie: &str) {
        self.say('+', "cookie", cookie);
    }

    pub(crate) fn forget_cookie(&self, cookie: &str) {
        self.say('-', "cookie", cookie);
    }

    pub(crate) fn watch_session(&self, session: u32) {
        self.say('+', "session", session.to_string());
    }

    pub(crate) fn forget_session(&self, session: u32) {
        self.say('-', "session", session.to_string());
    }

    pub(crate) fn watch_group(&self, folder: &Path) {
        self.say('+', "group", folder);
    }

    pub(crate) fn forget_group(&self, folder: &Path) {
        lock::release(folder);
        self.say('-', "group", folder);
    }

    /// Controllers that dyno makes a v2 group hand down.
    pub(crate) fn watch_controllers(&self, folder: &Path, controllers: &[String]) {
        self.say('+', "controllers", handed_controllers(folder, controllers));
    }

    pub(crate) fn forget_controllers(&self, folder: &Path, controllers: &[String]) {
        self.say('-', "controllers", handed_controllers(folder, controllers));
    }

    /// A v2 group into which processes that are not ours are moved.
    pub(crate) fn watch_moved(&self, own: &Path) {
        self.say('+', "moved", own);
    }

    pub(crate) fn forget_moved(&self, own: &Path) {
        lock::release(own);
        self.say('-', "moved", own);
    }

    pub fn watch_folder(&self, folder: &Path) {
        self.say('+', "folder", folder);
    }

    pub fn forget_folder(&self, folder: &Path) {
        lock::release(folder);
        self.say('-', "folder", folder);
    }

    fn say(&self, sign: char, kind: &str, thing: impl AsRef<OsStr>) {
        let mut message = format!("{sign}{kind} ").into_bytes();
        message.extend(thing.as_ref().as_bytes());
        message.push(END);
        let mut guard = self.process.lock().expect("no holder panics");
        if let Some(to) = &mut guard.to {
            // A guard that is gone guards nothing; what we do ourselves does not depend on it.
            let _ = to.write_all(&message);
        }
    }
}

/// `cpu,memory FOLDER`.
fn handed_controllers(folder: &Path, controllers: &[String]) -> OsString {
    let mut text = OsString::from(format!("{} ", controllers.join(",")));
    text.push(folder);
    text
}

/// Reads the text that [`handed_controllers`] makes: the controllers, and the group that hands them
/// down.
pub(crate) fn read_handed(text: &OsStr) -> Option<(Vec<String>, PathBuf)> {
    let text = text.to_string_lossy();
    let (list, folder) = text.split_once(' ')?;
    Some((list.split(',').map(String::from).collect(), folder.into()))
}

impl Drop for GuardProcess {
    fn drop(&mut self) {
        self.to = None;
        let _ = self.child.wait();
        children::forget(self.child.id());
    }
}

/// Reads messages until the input ends. Returns what is watched then.
pub(crate) fn listen(input: impl BufRead) -> BTreeSet<Vec<u8>> {
    let mut watched = BTreeSet::new();
    for message in input.split(END).map_while(Result::ok) {
        match message.split_first() {
            Some((b'+', thing)) => drop(watched.insert(thing.to_vec())),
            Some((b'-', thing)) => drop(watched.remove(thing)),
            _ => {}
        }
    }
    watched
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use std::io::BufReader;
    use std::os::fd::OwnedFd;

    /// Messages that a guard received, in a test.
    #[derive(Debug)]
    pub(crate) struct GuardRecord(tempfile::NamedTempFile);

    impl GuardRecord {
        pub(crate) fn watched_entries(&self) -> BTreeSet<Vec<u8>> {
            listen(BufReader::new(self.0.reopen().unwrap()))
        }
    }

    impl Guard {
        /// A guard that does nothing but remember.
        pub(crate) fn with_record() -> (Guard, GuardRecord) {
            let record = tempfile::NamedTempFile::new().unwrap();
            let file = record.reopen().unwrap();
            let child = Command::new("true").spawn().unwrap();
            let to = Some(ChildStdin::from(OwnedFd::from(file)));
            let process = Arc::new(Mutex::new(GuardProcess { to, child }));
            (Guard { process }, GuardRecord(record))
        }
    }

    #[test]
    fn names_may_hold_anything() {
        let (guard, record) = Guard::with_record();
        let odd = OsStr::from_bytes(b"/tmp/a b\n+folder /home/\xFF");
        guard.watch_folder(Path::new(odd));
        guard.watch_folder(Path::new("/tmp/x"));
        guard.watch_session(17);
        guard.forget_folder(Path::new("/tmp/x"));
        let watched: Vec<_> = record.watched_entries().into_iter().collect();
        assert_eq!(watched, [[b"folder ", odd.as_bytes()].concat(), b"session 17".to_vec()]);
    }
}
