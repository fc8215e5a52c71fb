//! Control groups of subjects: creates them, limits them, reads the limits back and removes them.

mod limit;
mod owner;
#[cfg(test)]
mod tests;
mod v2;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use dyno_archive::facts::CgroupVersion;
use dyno_observer::cgroup::{Group, Layout};

use crate::guard::Guard;
use crate::limits::{GROUP_GLANCE, SWEEP};
use crate::lock;
use crate::sys;
use owner::{GroupOwner, make_dir, owned_groups};
use v2::GroupChanges;

pub use limit::limit;
pub(crate) use v2::{move_processes_back, take_controllers_back};

/// v1 controllers of a subject's group, if they exist.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "pids"];

/// v2 controllers of a subject's group, if they exist.
const CONTROLLERS_V2: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// Factory of the groups of one run's subjects.
#[derive(Debug)]
pub struct Groups {
    layout: Layout,
    /// `Err`: the reason why no group can be created here.
    usable: Result<(), String>,
    /// In version 2, what was changed so that groups can be made; undone on drop.
    _changed: GroupChanges,
}

impl Groups {
    /// Checks what this machine and this user allow. In version 2 it moves dyno itself into a group
    /// below its own, because a group with processes cannot enable controllers for its children.
    #[must_use]
    pub fn prepare(mut layout: Layout, guard: &Guard) -> Groups {
        let mut changed = GroupChanges::default();
        let usable = match (layout.version(), layout.v2.as_mut()) {
            (CgroupVersion::V2, Some(v2)) => v2::prepare(v2, &CONTROLLERS_V2, &mut changed, guard)
                .map_err(|e| format!("control groups cannot be made: {e}")),
            (CgroupVersion::V1, None | Some(_)) => may_make(&layout),
            _ => Err("no control group with the cpu and memory controllers is mounted".into()),
        };
        Groups { layout, usable, _changed: changed }
    }

    /// The reason if there are no groups here.
    #[must_use]
    pub fn unusable(&self) -> Option<&str> {
        self.usable.as_ref().err().map(String::as_str)
    }

    /// The folders that a group of this name will have.
    #[must_use]
    pub fn folders(&self, name: &str) -> Vec<PathBuf> {
        self.bases().into_iter().map(|base| base.join(name)).collect()
    }

    /// The folders in which groups are created.
    fn bases(&self) -> Vec<&PathBuf> {
        match self.layout.version() {
            _ if self.usable.is_err() => Vec::new(),
            CgroupVersion::V2 => self.layout.v2.iter().map(|v2| &v2.folder).collect(),
            _ => CONTROLLERS.iter().filter_map(|c| self.layout.v1.get(*c)).collect(),
        }
    }

    /// A sentence about remaining groups of a start that has ended. `None`: nothing is left, as
    /// expected.
    #[must_use]
    pub fn remaining_groups_text(&self, start: usize) -> Option<String> {
        let name = format!("dyno-{}-{start}-", std::process::id());
        let is_its = |folder: &PathBuf| {
            folder.file_name().is_some_and(|own| own.to_string_lossy().starts_with(&name))
        };
        let all = self.bases().into_iter().flat_map(|base| owned_groups(base));
        let ours = all.filter(|(whose, folder)| !lock::is_of_another(whose.owner(), folder));
        let left = from_folders(ours.map(|(_, folder)| folder).filter(is_its));
        let list = |words: Vec<String>| words.join(", ");
        let folders = list(left.folders().map(|folder| folder.display().to_string()).collect());
        let pids = list(left.pids().iter().map(u32::to_string).collect());
        match (left.is_empty(), pids.as_str()) {
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

    /// Creates a group, or a group without folders if none can be created.
    pub fn make(&self, name: &str) -> io::Result<Group> {
        let mut group = Group::default();
        if self.usable.is_err() {
            return Ok(group);
        }
        if self.layout.version() == CgroupVersion::V2 {
            let v2 = self.layout.v2.as_ref().expect("the version says so");
            let folder = v2.folder.join(name);
            make_dir(&folder)?;
            group.v2 = Some(folder);
            return Ok(group);
        }
        for controller in CONTROLLERS {
            if let Some(base) = self.layout.v1.get(controller) {
                let folder = base.join(name);
                make_dir(&folder)?;
                if controller == "cpuset" {
                    inherit_cpuset(base, &folder)?;
                }
                group.v1.insert(controller.into(), folder);
            }
        }
        Ok(group)
    }

    /// Removes the remains of an earlier dyno that no longer runs: its subjects' groups with their
    /// processes, and the group into which it moved other processes, which return to their old
    /// group. Called before dyno creates its own groups.
    pub fn sweep(&self) {
        let bases = self.layout.v1.values().chain(self.layout.v2.iter().map(|v2| &v2.folder));
        sweep(bases.map(PathBuf::as_path));
    }
}

fn sweep<'a>(bases: impl Iterator<Item = &'a Path>) {
    let (mut subjects, mut neighbours) = (Vec::new(), Vec::new());
    // Seized until all is gone: who makes a group of such a name meanwhile sees that it is swept.
    let mut seized = Vec::new();
    for (whose, folder) in bases.flat_map(owned_groups) {
        let Some(lock) = lock::seize(whose.owner(), &folder) else { continue };
        seized.push(lock);
        match whose {
            GroupOwner::Subject(_) => subjects.push(folder),
            GroupOwner::Neighbours(_) => neighbours.push(folder),
        }
    }
    // All at once: what cannot be removed is waited for once, and not once per controller.
    destroy(&from_folders(subjects), SWEEP);
    // Without a holder, these groups do not keep controllers from being disabled again.
    drop(seized);
    neighbours.iter().for_each(|folder| move_processes_back(folder));
}

fn may_make(layout: &Layout) -> Result<(), String> {
    let may = dyno_observer::facts::may_make_groups(layout);
    may.then_some(()).ok_or_else(|| "this user may not create control groups".into())
}

/// A group known by its folders only, of whatever controllers.
pub(crate) fn from_folders(folders: impl IntoIterator<Item = PathBuf>) -> Group {
    let named = folders.into_iter().map(|folder| (folder.display().to_string(), folder));
    Group { v1: named.collect(), v2: None }
}

/// A new v1 cpuset is empty and takes no process until it has CPUs and memory nodes.
fn inherit_cpuset(base: &Path, folder: &Path) -> io::Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        fs::write(folder.join(file), fs::read(base.join(file))?)?;
    }
    Ok(())
}

/// Kills every process of a group and of those below it, and removes them all. Returns whether
/// nothing is left.
pub fn destroy(group: &Group, patience: Duration) -> bool {
    let tries = patience.as_millis() / GROUP_GLANCE.as_millis();
    for _ in 0..tries {
        kill_all(group);
        if remove(group) {
            return true;
        }
        std::thread::sleep(GROUP_GLANCE);
    }
    false
}

fn kill_all(group: &Group) {
    for folder in group.folders() {
        // In version 2 the kernel kills all (Linux 5.14), and no process escapes by forking.
        // Elsewhere there is no such file, and none must be created.
        let file = fs::OpenOptions::new().write(true).open(folder.join("cgroup.kill"));
        let _ = file.and_then(|mut file| file.write_all(b"1"));
    }
    group.pids().into_iter().for_each(|pid| sys::kill(pid, libc::SIGKILL));
}

/// Removes all folders that can be: those that hold no process. Returns whether these were all.
fn remove(group: &Group) -> bool {
    group.tree().iter().filter(|folder| fs::remove_dir(folder).is_err() && folder.exists()).count()
        == 0
}
