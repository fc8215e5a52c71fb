//! The guard: a small process of our own that outlives us for a moment. It knows what we have started, and if we
//! end without having cleaned up (killed, crashed), it ends that and removes its control groups and folders.
//!
//! It learns by lines on its standard input: `+session 17`, `-group /sys/…`. The end of that input is our end.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use super::{group, process, sys};

/// The argument by which dyno knows that it is to be a guard.
pub const ARGUMENT: &str = "__guard";

/// Our end of the line to the guard.
#[derive(Clone, Debug)]
pub struct Guard {
    line: Arc<Mutex<Line>>,
}

#[derive(Debug)]
struct Line {
    /// `None` once closed.
    to: Option<ChildStdin>,
    child: Child,
}

impl Guard {
    /// Starts the guard: this same program with [`ARGUMENT`].
    pub fn start() -> io::Result<Guard> {
        let mut command = Command::new(crate::own_program());
        command
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/");
        let mut child = command.spawn()?;
        let to = child.stdin.take();
        Ok(Guard { line: Arc::new(Mutex::new(Line { to, child })) })
    }

    /// What is named so in its environment, wherever it has put itself (see [`process::COOKIE`]).
    pub(super) fn watch_cookie(&self, cookie: &str) {
        self.say(&format!("+cookie {cookie}"));
    }

    pub(super) fn forget_cookie(&self, cookie: &str) {
        self.say(&format!("-cookie {cookie}"));
    }

    pub(crate) fn watch_session(&self, session: u32) {
        self.say(&format!("+session {session}"));
    }

    pub(crate) fn forget_session(&self, session: u32) {
        self.say(&format!("-session {session}"));
    }

    pub(super) fn watch_group(&self, folder: &Path) {
        self.say(&format!("+group {}", folder.display()));
    }

    pub(super) fn forget_group(&self, folder: &Path) {
        self.say(&format!("-group {}", folder.display()));
    }

    pub fn watch_folder(&self, folder: &Path) {
        self.say(&format!("+folder {}", folder.display()));
    }

    pub fn forget_folder(&self, folder: &Path) {
        self.say(&format!("-folder {}", folder.display()));
    }

    fn say(&self, line: &str) {
        let mut guard = self.line.lock().expect("nobody panics while holding it");
        if let Some(to) = &mut guard.to {
            // A guard that is gone guards nothing; what we do ourselves does not depend on it.
            let _ = writeln!(to, "{line}");
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.to = None;
        let _ = self.child.wait();
    }
}

/// The guard's whole life.
pub fn main(input: impl BufRead) {
    sys::detach_from_terminal();
    let mut watched = BTreeSet::new();
    for line in input.lines().map_while(Result::ok) {
        if let Some(thing) = line.strip_prefix('+') {
            watched.insert(thing.to_string());
        } else if let Some(thing) = line.strip_prefix('-') {
            watched.remove(thing);
        }
    }
    // Processes first, then what they are in, then what they may still write into.
    for kind in ["session ", "cookie ", "group ", "folder "] {
        watched.iter().filter(|thing| thing.starts_with(kind)).for_each(|thing| end(thing));
    }
}

fn end(thing: &str) {
    match thing.split_once(' ') {
        Some(("session", id)) => {
            if let Ok(id) = id.parse() {
                process::end_session(id);
            }
        }
        Some(("group", folder)) => {
            group::destroy(&group::of_folder(folder.into()));
        }
        Some(("cookie", cookie)) => process::end_cookie(cookie),
        Some(("folder", folder)) => {
            let _ = fs::remove_dir_all(folder);
        }
        _ => {}
    }
}
