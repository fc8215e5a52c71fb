//! Creates, limits and removes the control groups of subjects. A group limits a subject's CPU time
//! and memory, and measures the use of all its processes.

mod limit;
mod owner;
#[cfg(test)]
mod tests;
mod v2;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use dyno_model::facts::CgroupVersion;
use dyno_observer::cgroup::{Group, Layout};
use owner::{GroupOwner, make_dir, owned_groups};
use v2::GroupChanges;

use crate::guard::Guard;
use crate::limits::{GROUP_CHECK_INTERVAL, SWEEP};
use crate::lock;
use crate::sys;

pub use limit::limit;
pub(crate) use v2::{move_processes_back, release_controllers};

/// v1 controllers of a subject's group, if they exist.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "pids"];

/// v2 controllers of a subject's group, if they exist.
const CONTROLLERS_V2: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// Factory for the groups of a run's subjects.
#[derive(Debug)]
pub struct Groups {
    layout: Layout,
    /// Whether groups can be created here. `Err`: the reason why not.
    availability: Result<(), String>,
    /// Changes of dyno's own v2 group, which are undone on drop.
    changes: GroupChanges,
}

impl Groups {
    /// Checks whether groups can be created here. In version 2, also moves dyno itself into a group
    /// below its current group, because a group with processes cannot enable controllers for its
    /// children.
    #[must_use]
    pub fn prepare(mut layout: Layout, guard: &Guard) -> Groups {
        let mut changes = GroupChanges::default();
        let availability = match (layout.version(), layout.v2.as_mut()) {
            (CgroupVersion::V2, Some(v2)) => v2::prepare(v2, &CONTROLLERS_V2, &mut changes, guard)
                .map_err(|e| format!("control groups cannot be created: {e}")),
            (CgroupVersion::V1, None | Some(_)) => check_permission(&layout),
            _ => Err("no control group with the controllers cpu and memory is mounted".into()),
        };
        Groups { layout, availability, changes }
    }

    /// Returns the reason why groups cannot be created here. `None`: groups can be created.
    #[must_use]
    pub fn unavailable_reason(&self) -> Option<&str> {
        self.availability.as_ref().err().map(String::as_str)
    }

    /// Explains why limits can no longer be set, although they could be set when the run began.
    /// `None`: limits can be set.
    #[must_use]
    pub fn lost_controllers_text(&self) -> Option<String> {
        let lost_controllers = self.changes.lost_controllers();
        (self.availability.is_ok() && !lost_controllers.is_empty()).then(|| {
            format!(
                "its limits cannot be set, because another program has disabled these control \
                 group controllers since the run began: {}",
                lost_controllers.join(", ")
            )
        })
    }

    /// Returns the folders that a group of this name will have.
    #[must_use]
    pub fn folders(&self, name: &str) -> Vec<PathBuf> {
        self.bases().into_iter().map(|base| base.join(name)).collect()
    }

    /// Returns the different folders in which groups are created.
    fn bases(&self) -> BTreeSet<&PathBuf> {
        if self.availability.is_err() {
            return BTreeSet::new();
        }
        match self.layout.version() {
            CgroupVersion::V2 => self.layout.v2.iter().map(|v2| &v2.folder).collect(),
            _ => self.v1_bases().map(|(_, base)| base).collect(),
        }
    }

    /// Describes the groups of an ended start that still exist. `None`: all groups were removed, as
    /// expected.
    #[must_use]
    pub fn remaining_groups_text(&self, start: usize) -> Option<String> {
        let prefix = format!("dyno-{}-{start}-", std::process::id());
        let is_of_start = |folder: &PathBuf| {
            folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
        };
        let groups = self.bases().into_iter().flat_map(|base| owned_groups(base));
        let groups_of_this_process =
            groups.filter(|(owner, folder)| !lock::is_owned_by_another(owner.pid(), folder));
        let folders_of_start = groups_of_this_process.map(|(_, folder)| folder).filter(is_of_start);
        let remaining = from_folders(folders_of_start);
        let list = |items: Vec<String>| items.join(", ");
        let folders =
            list(remaining.folders().map(|folder| folder.display().to_string()).collect());
        let pids = list(remaining.pids().iter().map(u32::to_string).collect());
        match (remaining.is_empty(), pids.as_str()) {
            (true, _) => None,
            (_, "") => Some(format!(
                "its control groups cannot be removed: {folders}\nhint: remove them with `rmdir`"
            )),
            _ => Some(format!(
                "some of its processes cannot be ended, and will disturb later measurements: \
                 {pids} in {folders}\nhint: end these processes, or restart the machine, before \
                 the next measurement"
            )),
        }
    }

    /// Creates a group. If groups are unavailable, the group has no folders.
    pub fn make(&self, name: &str) -> io::Result<Group> {
        let mut group = Group::default();
        if self.availability.is_err() {
            return Ok(group);
        }
        if self.layout.version() == CgroupVersion::V2 {
            let v2 = self.layout.v2.as_ref().expect("a layout of version 2 should have a v2 group");
            let folder = v2.folder.join(name);
            make_dir(&folder)?;
            group.v2 = Some(folder);
            return Ok(group);
        }
        for (controller, base) in self.v1_bases() {
            if let Err(error) = add_v1_folder(&mut group, controller, base, name) {
                remove(&group);
                group.folders().for_each(lock::release);
                return Err(error);
            }
        }
        Ok(group)
    }

    /// Returns the v1 controllers of groups, with the folders in which groups are created.
    fn v1_bases(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        CONTROLLERS.iter().filter_map(|name| Some((*name, self.layout.v1.get(*name)?)))
    }

    /// Removes the groups of earlier dyno processes that have ended. Processes of subjects in these
    /// groups are killed. Other processes, which an earlier dyno process has moved, return to their
    /// old group. Called before dyno creates its own groups.
    pub fn sweep(&self) {
        sweep_in(&self.layout);
    }
}

/// Removes the groups of a dyno process that this process started and had to kill, as
/// [`Groups::sweep`] does.
pub fn sweep_abandoned() {
    let mut layout = Layout::read();
    if let Some(v2) = layout.v2.as_mut() {
        v2::leave_groups_of_dyno(v2);
    }
    sweep_in(&layout);
}

fn sweep_in(layout: &Layout) {
    let bases = layout.v1.values().chain(layout.v2.iter().map(|v2| &v2.folder));
    sweep(bases.map(PathBuf::as_path));
}

/// Removes the abandoned groups in these folders.
fn sweep<'a>(bases: impl Iterator<Item = &'a Path>) {
    let (mut subjects, mut neighbours) = (Vec::new(), Vec::new());
    // The locks are held until all groups are removed, so that no other dyno process creates a
    // group of the same name before that.
    let mut locks = Vec::new();
    for (owner, folder) in bases.flat_map(owned_groups) {
        let Some(lock) = lock::seize(owner.pid(), &folder) else { continue };
        locks.push(lock);
        match owner {
            // A marker is a group without processes, so it is removed in the same way.
            GroupOwner::Subject(_) | GroupOwner::Marker(_) => subjects.push(folder),
            GroupOwner::Neighbours(_) => neighbours.push(folder),
        }
    }
    // All groups are removed together, so that there is one wait for all of them.
    destroy(&from_folders(subjects), SWEEP);
    // Processes can move back only after the controllers of their old group are disabled. The locks
    // are released before that, because a locked group counts as a group that uses the controllers.
    drop(locks);
    neighbours.iter().for_each(|folder| move_processes_back(folder));
}

fn check_permission(layout: &Layout) -> Result<(), String> {
    if dyno_observer::facts::may_make_groups(layout) {
        Ok(())
    } else {
        Err("this user is not allowed to create control groups".into())
    }
}

/// Returns a group with these folders. The controllers of the folders are unknown, so the paths are
/// used in place of the controllers' names.
pub(crate) fn from_folders(folders: impl IntoIterator<Item = PathBuf>) -> Group {
    let named = folders.into_iter().map(|folder| (folder.display().to_string(), folder));
    Group { v1: named.collect(), v2: None }
}

/// Creates the folder of a v1 controller below `base`, and adds it to a group.
fn add_v1_folder(group: &mut Group, controller: &str, base: &Path, name: &str) -> io::Result<()> {
    let folder = base.join(name);
    // Controllers that are mounted together share a folder.
    if group.folders().all(|other| other != folder) {
        make_dir(&folder)?;
    }
    group.v1.insert(controller.into(), folder.clone());
    if controller == "cpuset" { inherit_cpuset(base, &folder) } else { Ok(()) }
}

/// Copies CPUs and memory nodes from a parent cpuset. A new v1 cpuset has no CPUs and memory nodes,
/// and accepts no processes without them.
fn inherit_cpuset(base: &Path, folder: &Path) -> io::Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        fs::write(folder.join(file), fs::read(base.join(file))?)?;
    }
    Ok(())
}

/// Kills all processes of a group and of the groups below it, and removes the groups. Returns
/// whether the groups are gone.
pub fn destroy(group: &Group, patience: Duration) -> bool {
    let tries = patience.as_millis() / GROUP_CHECK_INTERVAL.as_millis();
    for _ in 0..tries {
        kill_all(group);
        if remove(group) {
            return true;
        }
        std::thread::sleep(GROUP_CHECK_INTERVAL);
    }
    false
}

fn kill_all(group: &Group) {
    for folder in group.folders() {
        // In version 2, the kernel kills all processes of a group at once (Linux 5.14), so that no
        // process escapes by forking. The file is opened without creating it, because other
        // versions do not have this file.
        let file = fs::OpenOptions::new().write(true).open(folder.join("cgroup.kill"));
        let _ = file.and_then(|mut file| file.write_all(b"1"));
    }
    group.pids().into_iter().for_each(|pid| sys::kill(pid, libc::SIGKILL));
}

/// Removes all folders without processes. Returns whether none is left.
fn remove(group: &Group) -> bool {
    let remains = |folder: &&PathBuf| fs::remove_dir(folder).is_err() && folder.exists();
    group.tree().iter().filter(remains).count() == 0
}
