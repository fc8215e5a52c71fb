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

/// Ends and removes everything that is registered: first processes, then their groups, then the
/// changes of dyno's own group. Folders are last, because processes may write into them until they
/// end.
pub(crate) fn end_all(watched: &BTreeSet<Vec<u8>>) {
    let items = |kind: &str| {
        let prefix = format!("{kind} ").into_bytes();
        let names = watched.iter().filter_map(move |item| item.strip_prefix(prefix.as_slice()));
        names.map(OsStr::from_bytes)
    };
    let sessions = items("session").filter_map(|id| id.to_str()?.parse().ok());
    sessions.for_each(|session| drop(process::kill_session(session)));
    items("cookie").for_each(|cookie| drop(process::kill_marked(&cookie.to_string_lossy())));
    // All groups are removed together, so that there is one wait for all of them.
    group::destroy(&group::from_folders(items("group").map(PathBuf::from)), GROUP_REMOVAL);
    items("controllers").for_each(release_controllers);
    items("moved").for_each(|folder| group::move_processes_back(Path::new(folder)));
    items("folder").for_each(|path| drop(folder::remove(Path::new(path))));
}

fn release_controllers(message: &OsStr) {
    if let Some((controllers, folder)) = parse_controllers(message) {
        group::release_controllers(&folder, &controllers);
    }
}
