//! Starts the guard, and registers with it what dyno has started. The guard is a small process that
//! ends shortly after dyno. If dyno is killed or crashes, the guard ends the remaining processes
//! and removes their control groups and folders ([`crate::guard_process`]). Temporary folders are
//! made here, because each one must be registered before it exists.
//!
//! Messages on the guard's standard input register (`+session 17`) and unregister (`-group /sys/…`)
//! things. Each message ends with a NUL, which no path contains. The input ends when dyno ends.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io::{self, BufRead, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::self_exec::own_program;
use crate::temporary_folders::{self, RANDOM_CHARS};
use crate::{children, lock};

/// First argument of dyno when it runs as the guard.
pub const ARGUMENT: &str = "__guard";

/// Byte that ends a message.
const END: u8 = 0;

/// Handle of the guard. Clones share one process.
#[derive(Clone, Debug)]
pub struct Guard {
    process: Arc<Mutex<GuardProcess>>,
}

#[derive(Debug)]
struct GuardProcess {
    /// Standard input of the guard. `None`: the standard input is closed.
    stdin: Option<ChildStdin>,
    child: Child,
}

impl Guard {
    /// Starts the guard: this program with [`ARGUMENT`]. Before that, removes the folders of dyno
    /// processes that were killed together with their guards.
    pub fn start() -> io::Result<Guard> {
        temporary_folders::sweep(&std::env::temp_dir());
        let mut command = Command::new(own_program());
        command
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/");
        let mut child = children::spawn(&mut command)?;
        let stdin = child.stdin.take();
        Ok(Guard { process: Arc::new(Mutex::new(GuardProcess { stdin, child })) })
    }

    /// Registers all processes with this cookie in their environment (`process::COOKIE`).
    pub(crate) fn watch_cookie(&self, cookie: &str) {
        self.send('+', "cookie", cookie);
    }

    pub(crate) fn forget_cookie(&self, cookie: &str) {
        self.send('-', "cookie", cookie);
    }

    pub(crate) fn watch_session(&self, session: u32) {
        self.send('+', "session", session.to_string());
    }

    pub(crate) fn forget_session(&self, session: u32) {
        self.send('-', "session", session.to_string());
    }

    pub(crate) fn watch_group(&self, folder: &Path) {
        self.send('+', "group", folder);
    }

    pub(crate) fn forget_group(&self, folder: &Path) {
        lock::release(folder);
        self.send('-', "group", folder);
    }

    /// Registers controllers that dyno enables for the children of a v2 group.
    pub(crate) fn watch_controllers(&self, folder: &Path, controllers: &[String]) {
        self.send('+', "controllers", controllers_message(folder, controllers));
    }

    pub(crate) fn forget_controllers(&self, folder: &Path, controllers: &[String]) {
        self.send('-', "controllers", controllers_message(folder, controllers));
    }

    /// Registers a v2 group into which dyno moves processes that it did not start.
    pub(crate) fn watch_moved(&self, folder: &Path) {
        self.send('+', "moved", folder);
    }

    pub(crate) fn forget_moved(&self, folder: &Path) {
        lock::release(folder);
        self.send('-', "moved", folder);
    }

    /// Creates `dyno-PID-KIND-…` in the folder for temporary files. The folder is registered before
    /// it exists. The guard removes it if dyno does not.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn make_folder(&self, kind: &str) -> io::Result<PathBuf> {
        self.make_folder_in(&std::env::temp_dir(), kind)
    }

    /// Creates a folder as [`Guard::make_folder`] does, but in `base`.
    pub fn make_folder_in(&self, base: &Path, kind: &str) -> io::Result<PathBuf> {
        // The path must be absolute, because the guard has another working folder than dyno.
        let base = std::path::absolute(base)?;
        let named = |e: io::Error| {
            io::Error::new(
                e.kind(),
                format!("{}: a folder cannot be created there: {e}", base.display()),
            )
        };
        let prefix = temporary_folders::name_prefix(kind);
        let mut builder = tempfile::Builder::new();
        let created = builder.prefix(&prefix).rand_bytes(RANDOM_CHARS).make_in(&base, |path| {
            self.watch_folder(path);
            // If the folder exists, it belongs to another process, and another name is tried.
            let result = DirBuilder::new().mode(0o700).create(path).and_then(|()| lock::hold(path));
            result.inspect_err(|_| self.forget_folder(path))
        });
        Ok(created.map_err(named)?.into_temp_path().keep()?)
    }

    pub fn watch_folder(&self, folder: &Path) {
        self.send('+', "folder", folder);
    }

    pub fn forget_folder(&self, folder: &Path) {
        lock::release(folder);
        self.send('-', "folder", folder);
    }

    fn send(&self, sign: char, kind: &str, thing: impl AsRef<OsStr>) {
        let mut message = format!("{sign}{kind} ").into_bytes();
        message.extend(thing.as_ref().as_bytes());
        message.push(END);
        let mut guard = self.process.lock().expect("no holder of the lock should panic");
        if let Some(stdin) = &mut guard.stdin {
            // The write fails if the guard was killed. dyno itself does not depend on the guard.
            let _ = stdin.write_all(&message);
        }
    }
}

/// Formats a list of controllers and the folder of their group: `cpu,memory FOLDER`.
fn controllers_message(folder: &Path, controllers: &[String]) -> OsString {
    let mut text = OsString::from(format!("{} ", controllers.join(",")));
    text.push(folder);
    text
}

/// Parses the text of [`controllers_message`]: controllers, and the folder of their group.
pub(crate) fn parse_controllers(text: &OsStr) -> Option<(Vec<String>, PathBuf)> {
    let text = text.to_string_lossy();
    let (list, folder) = text.split_once(' ')?;
    Some((list.split(',').map(String::from).collect(), folder.into()))
}

impl Drop for GuardProcess {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
        children::forget(self.child.id());
    }
}

/// Reads messages until the input ends. Returns the things that are registered at its end.
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

    use std::fs;
    use std::io::BufReader;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::PermissionsExt as _;

    /// Messages that a guard received, in a test.
    #[derive(Debug)]
    pub(crate) struct GuardRecord(tempfile::NamedTempFile);

    impl GuardRecord {
        pub(crate) fn watched_entries(&self) -> BTreeSet<Vec<u8>> {
            listen(BufReader::new(self.0.reopen().unwrap()))
        }
    }

    impl Guard {
        /// Creates a guard that only records messages.
        pub(crate) fn with_record() -> (Guard, GuardRecord) {
            let record = tempfile::NamedTempFile::new().unwrap();
            let file = record.reopen().unwrap();
            let child = Command::new("true").spawn().unwrap();
            let stdin = Some(ChildStdin::from(OwnedFd::from(file)));
            let process = Arc::new(Mutex::new(GuardProcess { stdin, child }));
            (Guard { process }, GuardRecord(record))
        }
    }

    #[test]
    fn message_with_any_path_is_parsed() {
        let (guard, record) = Guard::with_record();
        let unusual_path = OsStr::from_bytes(b"/tmp/a b\n+folder /home/\xFF");
        guard.watch_folder(Path::new(unusual_path));
        guard.watch_folder(Path::new("/tmp/x"));
        guard.watch_session(17);
        guard.forget_folder(Path::new("/tmp/x"));
        let watched: Vec<_> = record.watched_entries().into_iter().collect();
        assert_eq!(
            watched,
            [[b"folder ", unusual_path.as_bytes()].concat(), b"session 17".to_vec()]
        );
    }

    #[test]
    fn temporary_folder_is_private_with_random_name() {
        let root = tempfile::tempdir().unwrap();
        // The guard of a test is this test program, which ends immediately with the unknown
        // argument.
        let guard = Guard::start().unwrap();
        let [folder, other] = [(); 2].map(|()| guard.make_folder_in(root.path(), "7").unwrap());
        assert_ne!(folder, other);
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        let name = folder.file_name().unwrap().to_str().unwrap();
        let random = name.strip_prefix(&format!("dyno-{}-7-", std::process::id())).unwrap();
        assert_eq!(random.len(), 12, "{name}");
    }
}
