//! Control groups of this dyno and of others. Their names identify the owner.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::limits::{GROUP_GLANCE, HOLDS};
use crate::lock;

/// Owner of the processes in a group that a dyno has created, with the PID of that dyno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupOwner {
    /// Processes of a subject: `dyno-PID-START-…`. dyno ends them.
    Subject(u32),
    /// Processes of the user: `dyno-PID-self-…`. dyno must not end them.
    Neighbours(u32),
}

impl GroupOwner {
    pub(super) fn from_name(name: &str) -> Option<GroupOwner> {
        let (owner, rest) = name.strip_prefix("dyno-")?.split_once('-')?;
        let owner = owner.parse().ok()?;
        if rest == "self" || rest.starts_with("self-") {
            return Some(GroupOwner::Neighbours(owner));
        }
        let start = rest.split('-').next()?;
        start.parse::<usize>().ok().map(|_| GroupOwner::Subject(owner))
    }

    pub(super) const fn owner(self) -> u32 {
        match self {
            GroupOwner::Subject(owner) | GroupOwner::Neighbours(owner) => owner,
        }
    }
}

/// The groups of any dyno in a folder.
pub(super) fn owned_groups(folder: &Path) -> Vec<(GroupOwner, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries
        .filter_map(|e| Some((GroupOwner::from_name(&e.file_name().to_string_lossy())?, e.path())))
        .collect()
}

/// Whether another dyno that may run has groups in a folder.
pub(super) fn others_live(folder: &Path) -> bool {
    owned_groups(folder).iter().any(|(whose, folder)| lock::is_of_another(whose.owner(), folder))
}

/// Creates and locks a group's folder. An error names the folder.
pub(super) fn make_dir(folder: &Path) -> io::Result<()> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", folder.display()));
    for _ in 0..HOLDS {
        fs::create_dir(folder).map_err(named)?;
        if lock::hold(folder).is_ok() {
            return Ok(());
        }
        // A concurrent sweep took it for an abandoned group, and removes it.
        for _ in 0..HOLDS {
            if !folder.exists() {
                break;
            }
            std::thread::sleep(GROUP_GLANCE);
        }
    }
    Err(named(io::Error::other("other dyno processes keep removing it")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_read_from_names() {
        assert_eq!(GroupOwner::from_name("dyno-17-3"), Some(GroupOwner::Subject(17)));
        assert_eq!(GroupOwner::from_name("dyno-17-3-x7Yz"), Some(GroupOwner::Subject(17)));
        assert_eq!(GroupOwner::from_name("dyno-17-self"), Some(GroupOwner::Neighbours(17)));
        assert_eq!(GroupOwner::from_name("dyno-17-self-9a"), Some(GroupOwner::Neighbours(17)));
        for other in [
            "dynamo-17-3",
            "dyno-17",
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
