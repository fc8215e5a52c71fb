//! The guard process: it listens until dyno has ended, and then ends all processes that are left.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::BufRead;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::guard::{listen, read_handed};
use crate::limits::GROUP;
use crate::{group, process, sys};

/// Runs the guard until everything is cleaned up.
pub fn main(input: impl BufRead) {
    sys::detach_from_terminal();
    end_all(&listen(input));
}

/// Ends and removes all registered things: processes first, then their groups, then changes for the
/// groups, then the folders that processes may still write into.
pub(crate) fn end_all(watched: &BTreeSet<Vec<u8>>) {
    let of_kind = |kind: &str| {
        let prefix = format!("{kind} ").into_bytes();
        let things = watched.iter().filter_map(move |thing| thing.strip_prefix(prefix.as_slice()));
        things.map(OsStr::from_bytes)
    };
    let sessions = of_kind("session").filter_map(|id| id.to_str()?.parse().ok());
    sessions.for_each(process::end_session);
    of_kind("cookie").for_each(|cookie| process::end_cookie(&cookie.to_string_lossy()));
    // At once: what cannot be removed is waited for once, and not once per controller.
    group::destroy(&group::from_folders(of_kind("group").map(PathBuf::from)), GROUP);
    of_kind("controllers").for_each(take_back);
    of_kind("moved").for_each(|own| group::move_processes_back(Path::new(own)));
    of_kind("folder").for_each(|folder| drop(fs::remove_dir_all(folder)));
}

fn take_back(handed: &OsStr) {
    if let Some((controllers, folder)) = read_handed(handed) {
        group::take_controllers_back(&folder, &controllers);
    }
}
