//! Finds the control groups of dyno processes, and reads the owner of a group from its name. Groups
//! of a killed process must be removed, but groups of a running process must stay.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dyno_observer::monotonic_ns;

use crate::limits::{CREATE_ATTEMPTS, GROUP_CHECK_INTERVAL};
use crate::lock;
use crate::temporary_folders::is_random_part;

/// Text after `dyno-PID-` in the name of a marker (see `GroupOwner::Marker`).
const MARKER: &str = "user-";

/// Kind of the processes in a group that dyno has created, with the PID of the dyno process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupOwner {
    /// Processes of a subject: `dyno-PID-START-RANDOM`. dyno ends these processes. The random part
    /// ensures that a group of another program, such as `dyno-2024-11`, does not have such a name
    /// by chance.
    Subject(u32),
    /// Processes of the user, which dyno must not end: `dyno-PID-self-…`.
    Neighbours(u32),
    /// No processes: `dyno-PID-user-…` shows that a dyno process uses the groups in the folder.
    Marker(u32),
}

impl GroupOwner {
    /// Parses a group's name. `None`: dyno did not create the group.
    pub(super) fn from_name(name: &str) -> Option<GroupOwner> {
        let (pid, rest) = name.strip_prefix("dyno-")?.split_once('-')?;
        let pid = pid.parse().ok()?;
        if rest == "self" || rest.starts_with("self-") {
            return Some(GroupOwner::Neighbours(pid));
        }
        if rest.starts_with(MARKER) {
            return Some(GroupOwner::Marker(pid));
        }
        let (start, random) = rest.split_once('-')?;
        let is_start = start.parse::<usize>().is_ok() && is_random_part(random);
        is_start.then_some(GroupOwner::Subject(pid))
    }

    /// Returns the PID of the dyno process that created the group.
    pub(super) const fn pid(self) -> u32 {
        match self {
            GroupOwner::Subject(pid) | GroupOwner::Neighbours(pid) | GroupOwner::Marker(pid) => pid,
        }
    }
}

/// Returns the name of a new marker. `controllers`: the controllers that dyno processes have
/// enabled. The last dyno process to end disables these controllers.
pub(super) fn marker_name(controllers: &[String]) -> String {
    // The instant makes the name unique, because PIDs of two PID namespaces may be the same.
    let (pid, instant) = (std::process::id(), monotonic_ns());
    format!("dyno-{pid}-{MARKER}{instant:x}-{}", controllers.join("+"))
}

/// Lists the controllers that dyno processes have enabled in a folder, according to their markers.
pub(super) fn marked_controllers(folder: &Path) -> Vec<String> {
    let markers = owned_groups(folder);
    let markers = markers.iter().filter(|(owner, _)| matches!(owner, GroupOwner::Marker(_)));
    let names = markers.filter_map(|(_, folder)| folder.file_name()?.to_str()?.rsplit_once('-'));
    names.flat_map(|(_, controllers)| controllers.split('+')).map(String::from).collect()
}

/// Lists the groups in a folder that any dyno process has created.
pub(super) fn owned_groups(folder: &Path) -> Vec<(GroupOwner, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries
        .filter_map(|e| Some((GroupOwner::from_name(&e.file_name().to_string_lossy())?, e.path())))
        .collect()
}

/// Whether another dyno process, which may be running, has groups in a folder.
pub(super) fn has_groups_of_others(folder: &Path) -> bool {
    let groups = owned_groups(folder);
    groups.iter().any(|(owner, folder)| lock::is_owned_by_another(owner.pid(), folder))
}

/// Creates and locks a group's folder. An error names the folder.
pub(super) fn make_dir(folder: &Path) -> io::Result<()> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", folder.display()));
    for _ in 0..CREATE_ATTEMPTS {
        fs::create_dir(folder).map_err(named)?;
        if lock::hold(folder).is_ok() {
            return Ok(());
        }
        // Another dyno process is removing the folder as an abandoned group.
        for _ in 0..CREATE_ATTEMPTS {
            if !folder.exists() {
                break;
            }
            std::thread::sleep(GROUP_CHECK_INTERVAL);
        }
    }
    Err(named(io::Error::other("other dyno processes keep removing this folder")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_owner_is_parsed_from_name() {
        let subject = GroupOwner::from_name("dyno-17-3-x7YzabcdEF09");
        assert_eq!(subject, Some(GroupOwner::Subject(17)));
        assert_eq!(GroupOwner::from_name("dyno-17-self"), Some(GroupOwner::Neighbours(17)));
        assert_eq!(GroupOwner::from_name("dyno-17-self-9a"), Some(GroupOwner::Neighbours(17)));
        assert_eq!(GroupOwner::from_name("dyno-17-user-9a-cpu"), Some(GroupOwner::Marker(17)));
        for other in [
            "dynamo-17-3",
            "dyno-17",
            "dyno-2024-11",
            "dyno-2024-11-30",
            "dyno-17-3-x7YzabcdEF09-2",
            "dyno-17-x-x7YzabcdEF09",
            "dyno-x-3",
            "dyno-17-selfish",
            "dyno-17-probe",
            "dyno-probe-17",
            "dyno-17-",
        ] {
            assert_eq!(GroupOwner::from_name(other), None, "{other}");
        }
    }
}
