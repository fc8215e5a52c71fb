//! Creates, limits and removes the control groups of subjects. They limit a subject's CPU time and
//! memory, and count the use of all its processes.

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

use dyno_archive::facts::CgroupVersion;
use dyno_observer::cgroup::{Group, Layout};

use crate::guard::Guard;
use crate::limits::{GROUP_CHECK_INTERVAL, SWEEP};
use crate::lock;
use crate::sys;
use owner::{GroupOwner, make_dir, owned_groups};
use v2::GroupChanges;

pub use limit::limit;
pub(crate) use v2::{disable_controllers, move_processes_back};

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
    /// Checks whether groups can be created here. In version 2 it moves dyno itself into a group
    /// below its own, because a group with processes cannot enable controllers for its children.
    #[must_use]
    pub fn prepare(mut layout: Layout, guard: &Guard) -> Groups {
        let mut changes = GroupChanges::default();
        let availability = match (layout.version(), layout.v2.as_mut()) {
            (CgroupVersion::V2, Some(v2)) => v2::prepare(v2, &CONTROLLERS_V2, &mut changes, guard)
                .map_err(|e| format!("control groups cannot be made: {e}")),
            (CgroupVersion::V1, None | Some(_)) => check_permission(&layout),
            _ => Err("no control group with the cpu and memory controllers is mounted".into()),
        };
        Groups { layout, availability, changes }
    }

    /// Reason why groups cannot be created here. `None`: groups can be created.
    #[must_use]
    pub fn unavailable_reason(&self) -> Option<&str> {
        self.availability.as_ref().err().map(String::as_str)
    }

    /// Explains that limits which could be set at the beginning no longer can. `None`: they can.
    #[must_use]
    pub fn lost_controllers_text(&self) -> Option<String> {
        let lost = self.changes.lost_controllers();
        (self.availability.is_ok() && !lost.is_empty()).then(|| {
            format!(
                "its limits cannot be set, because another program has disabled the controllers \
                 {} of control groups since this run began",
                lost.join(", ")
            )
        })
    }

    /// Folders that a group of this name will have.
    #[must_use]
    pub fn folders(&self, name: &str) -> Vec<PathBuf> {
        self.bases().into_iter().map(|base| base.join(name)).collect()
    }

    /// Folders in which groups are created, each once.
    fn bases(&self) -> BTreeSet<&PathBuf> {
        match self.layout.version() {
            _ if self.availability.is_err() => BTreeSet::new(),
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
        let ours = groups.filter(|(owner, folder)| !lock::is_owned_by_another(owner.pid(), folder));
        let remaining = from_folders(ours.map(|(_, folder)| folder).filter(is_of_start));
        let list = |items: Vec<String>| items.join(", ");
        let folders =
            list(remaining.folders().map(|folder| folder.display().to_string()).collect());
        let pids = list(remaining.pids().iter().map(u32::to_string).collect());
        match (remaining.is_empty(), pids.as_str()) {
            (true, _) => None,
            (_, "") => {
                Some(format!("its control groups cannot be removed: {folders}\nhint: use rmdir"))
            }
            _ => Some(format!(
                "it left processes that cannot be ended and disturb later measurements: {pids} in \
                 {folders}\nhint: end them, or restart the machine, before you measure again"
            )),
        }
    }

    /// Creates a group. It has no folders if groups are unavailable.
    pub fn make(&self, name: &str) -> io::Result<Group> {
        let mut group = Group::default();
        if self.availability.is_err() {
            return Ok(group);
        }
        if self.layout.version() == CgroupVersion::V2 {
            let v2 = self.layout.v2.as_ref().expect("the version says so");
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

    /// The v1 controllers of groups, with the folders in which groups are created.
    fn v1_bases(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        CONTROLLERS.iter().filter_map(|name| Some((*name, self.layout.v1.get(*name)?)))
    }

    /// Removes the groups of earlier dyno processes that have ended. Processes of their subjects
    /// are killed. Other processes that they moved return to their old group. Called before dyno
    /// creates its own groups.
    pub fn sweep(&self) {
        sweep_in(&self.layout);
    }
}

/// Removes the groups of a dyno process that this one started and had to kill, as
/// [`Groups::sweep`] does.
pub fn sweep_abandoned() {
    let mut layout = Layout::read();
    if let Some(v2) = layout.v2.as_mut() {
        v2::leave_stale_group(v2);
    }
    sweep_in(&layout);
}

fn sweep_in(layout: &Layout) {
    let bases = layout.v1.values().chain(layout.v2.iter().map(|v2| &v2.folder));
    sweep(bases.map(PathBuf::as_path));
}

fn sweep<'a>(bases: impl Iterator<Item = &'a Path>) {
    let (mut subjects, mut neighbours) = (Vec::new(), Vec::new());
    // Held until all groups are removed, so that another dyno process does not use a group of the
    // same name meanwhile.
    let mut locks = Vec::new();
    for (owner, folder) in bases.flat_map(owned_groups) {
        let Some(lock) = lock::seize(owner.pid(), &folder) else { continue };
        locks.push(lock);
        match owner {
            // A marker has no processes, so it is removed in the same way.
            GroupOwner::Subject(_) | GroupOwner::Marker(_) => subjects.push(folder),
            GroupOwner::Neighbours(_) => neighbours.push(folder),
        }
    }
    // All together, so that there is one wait for all groups, and not one per controller.
    destroy(&from_folders(subjects), SWEEP);
    // A locked group counts as one in use, and would prevent the disabling of controllers.
    drop(locks);
    neighbours.iter().for_each(|folder| move_processes_back(folder));
}

fn check_permission(layout: &Layout) -> Result<(), String> {
    let may = dyno_observer::facts::may_make_groups(layout);
    may.then_some(()).ok_or_else(|| "this user may not create control groups".into())
}

/// Returns a group with these folders. Their controllers are unknown, so the paths replace their
/// names.
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

/// Copies CPUs and memory nodes from a parent cpuset. A new v1 cpuset has none, and without them it
/// accepts no processes.
fn inherit_cpuset(base: &Path, folder: &Path) -> io::Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        fs::write(folder.join(file), fs::read(base.join(file))?)?;
    }
    Ok(())
}

/// Kills all processes of a group and of the groups below it, and removes the groups. Returns
/// whether they are gone.
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
        // In version 2 the kernel kills all at once (Linux 5.14), so that no process escapes by
        // forking. The file is opened without creating it, because other versions do not have it.
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
