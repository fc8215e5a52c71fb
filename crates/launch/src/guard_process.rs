//! Runs the guard process. It waits until dyno has ended, and then ends and removes everything that
//! dyno left behind.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::BufRead;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::guard::{listen, parse_controllers};
use crate::limits::GROUP_REMOVAL;
use crate::{folder, group, process, sys};

/// Runs the guard until everything is cleaned up.
pub fn main(input: impl BufRead) {
    sys::detach_from_terminal();
    end_all(&listen(input));
}

/// Ends and removes all registered things: first processes, then their groups, then the changes of
/// dyno's own group, and last the folders, into which processes may write until they end.
pub(crate) fn end_all(watched: &BTreeSet<Vec<u8>>) {
    let items = |kind: &str| {
        let prefix = format!("{kind} ").into_bytes();
        let things = watched.iter().filter_map(move |thing| thing.strip_prefix(prefix.as_slice()));
        things.map(OsStr::from_bytes)
    };
    let sessions = items("session").filter_map(|id| id.to_str()?.parse().ok());
    sessions.for_each(|session| drop(process::kill_session(session)));
    items("cookie").for_each(|cookie| drop(process::kill_marked(&cookie.to_string_lossy())));
    // All groups together, so that there is one wait for all of them, and not one per controller.
    group::destroy(&group::from_folders(items("group").map(PathBuf::from)), GROUP_REMOVAL);
    items("controllers").for_each(disable_controllers);
    items("moved").for_each(|folder| group::move_processes_back(Path::new(folder)));
    items("folder").for_each(|path| drop(folder::remove(Path::new(path))));
}

fn disable_controllers(message: &OsStr) {
    if let Some((controllers, folder)) = parse_controllers(message) {
        group::disable_controllers(&folder, &controllers);
    }
}
