//! Identifies the control group and the network namespaces whose counters a sample has. Two samples
//! are comparable only if both read the same ones: a new group or namespace counts from 0 again.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::cgroup::Group;
use crate::proc;

/// Device and inode of a file.
type FileId = (u64, u64);

/// The kernel objects that count for a party.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterSource {
    /// Each folder of the control group. `None`: the folder does not exist.
    pub group: Vec<Option<FileId>>,
    /// The network namespaces of the processes, without those that this user may not see.
    pub networks: BTreeSet<FileId>,
}

impl CounterSource {
    /// Finds the folders of a group, and the network namespaces of these processes.
    #[must_use]
    pub fn read(group: &Group, pids: &[u32]) -> CounterSource {
        CounterSource {
            group: group.folders().map(file_id).collect(),
            networks: network_namespaces(pids),
        }
    }
}

/// Returns the device and inode of a file. `None`: the file does not exist, or this user may not
/// see it.
fn file_id(path: &Path) -> Option<FileId> {
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Returns the network namespace of a process. `None`: the process has ended, or this user may not
/// see its namespace.
pub(crate) fn network_namespace(pid: u32) -> Option<FileId> {
    let of_process = file_id(Path::new(&format!("/proc/{pid}/ns/net")));
    of_process.or_else(|| file_id(&proc::other_thread_folder(pid)?.join("ns/net")))
}

/// Returns the network namespaces of processes, without those that this user may not see.
pub(crate) fn network_namespaces(pids: &[u32]) -> BTreeSet<FileId> {
    pids.iter().filter_map(|pid| network_namespace(*pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_group_is_another_source() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("group");
        fs::create_dir(&folder).unwrap();
        let group = Group { v2: Some(folder.clone()), ..Group::default() };
        let source = || CounterSource::read(&group, &[]).group;
        let first = source();
        assert!(first[0].is_some() && source() == first);
        // The old folder stays, so that the new one cannot have its inode.
        fs::rename(&folder, root.path().join("old")).unwrap();
        assert_eq!(source(), [None]);
        fs::create_dir(&folder).unwrap();
        assert!(source()[0].is_some() && source() != first);
        assert!(CounterSource::read(&Group::default(), &[]).group.is_empty());
    }

    #[test]
    fn processes_of_one_network_share_their_namespace() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pids = [std::process::id(), child.id()];
        let networks = CounterSource::read(&Group::default(), &pids).networks;
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(networks.len(), 1);
        assert!(network_namespaces(&[u32::MAX]).is_empty());
    }
}
