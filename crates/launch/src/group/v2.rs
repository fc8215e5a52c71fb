//! Enables controllers for the groups of subjects in cgroup v2, and undoes the change at the end.
//!
//! A v2 group with processes cannot enable controllers for its children. dyno and the other
//! processes of dyno's group are therefore moved to a new group below that group, and back at the
//! end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dyno_observer::cgroup::V2;
use dyno_observer::monotonic_ns;

use super::owner::{
    GroupOwner, has_groups_of_others, make_dir, marked_controllers, marker_name, owned_groups,
};
use crate::guard::Guard;
use crate::limits::MOVE_PASSES;
use crate::lock;

/// Changes of the v2 group that dyno runs in. Dropping the value undoes the changes in the order of
/// the fields. The controllers must be disabled before the processes move back, because a group
/// with enabled controllers accepts no processes.
#[derive(Debug, Default)]
pub(super) struct GroupChanges {
    enabled: Option<EnabledControllers>,
    moved: Option<MovedProcesses>,
}

impl GroupChanges {
    #[cfg(test)]
    pub(super) fn marker(&self) -> Option<&Path> {
        self.enabled.as_ref().map(|enabled| enabled.marker.as_path())
    }

    /// Lists the controllers that were enabled when dyno prepared the groups, and are now disabled.
    pub(super) fn lost_controllers(&self) -> Vec<String> {
        let Some(EnabledControllers { folder, usable, .. }) = &self.enabled else {
            return Vec::new();
        };
        let enabled = controllers(folder, "cgroup.subtree_control");
        usable.iter().filter(|controller| !enabled.contains(controller)).cloned().collect()
    }
}

/// Enables controllers for the children of dyno's group. If the group has processes and is not the
/// root, the processes are first moved to a new group below it. If another dyno process has already
/// moved this process to such a group, both processes use the parent of the new group.
pub(super) fn prepare(
    v2: &mut V2,
    requested_controllers: &[&str],
    changes: &mut GroupChanges,
    guard: &Guard,
) -> io::Result<()> {
    leave_groups_of_dyno(v2);
    let usable = requested_controllers
        .iter()
        .map(ToString::to_string)
        .filter(|c| v2.controllers.contains(c));
    let usable: Vec<String> = usable.collect();
    let to_enable = EnabledControllers::register(&v2.folder, usable, guard)?;
    let enabled = changes.enabled.insert(to_enable);
    match enabled.enable() {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
        result => return result,
    }
    changes.moved = Some(MovedProcesses::move_out(v2, guard)?);
    enabled.enable()
}

/// Makes `v2` refer to the parent if it refers to a group `dyno-PID-self-…` of any dyno process. A
/// new group below `dyno-PID-self-…` would prevent that process from removing the group. If that
/// process and its guard were killed, the group's processes return to the parent.
pub(super) fn leave_groups_of_dyno(v2: &mut V2) {
    while let Some(GroupOwner::Neighbours(_)) = owner_of(&v2.folder)
        && let Some(parent) = v2.folder.parent().map(PathBuf::from)
    {
        return_if_abandoned(&v2.folder);
        v2.controllers = controllers(&parent, "cgroup.controllers");
        v2.folder = parent;
    }
}

fn owner_of(folder: &Path) -> Option<GroupOwner> {
    GroupOwner::from_name(&folder.file_name()?.to_string_lossy())
}

/// Moves the processes of a group `dyno-PID-self-…` back and removes it, if the dyno process that
/// created it has ended.
fn return_if_abandoned(folder: &Path) {
    // This statement also releases the lock again, because a locked group is treated as a group in
    // use.
    let is_abandoned =
        owner_of(folder).is_some_and(|owner| lock::seize(owner.pid(), folder).is_some());
    if is_abandoned {
        move_processes_back(folder);
    }
}

/// Moves back the processes of each group `dyno-PID-self-…` in a folder whose owner has ended. Such
/// a group remains if its owner ended while another dyno process used the controllers of the
/// folder.
fn return_abandoned_neighbours(folder: &Path) {
    for (owner, group) in owned_groups(folder) {
        if let GroupOwner::Neighbours(_) = owner {
            return_if_abandoned(&group);
        }
    }
}

/// Reads a list of controllers.
pub(super) fn controllers(folder: &Path, file: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.split_ascii_whitespace().map(String::from).collect()
}

/// Enables (`+`) or disables (`-`) controllers for the children of a group.
pub(super) fn write_controllers(
    folder: &Path,
    sign: char,
    controllers: &[String],
) -> io::Result<()> {
    let list: Vec<String> = controllers.iter().map(|c| format!("{sign}{c}")).collect();
    fs::write(folder.join("cgroup.subtree_control"), list.join(" "))
}

/// Controllers for the children of a group, and a marker (an empty group) that prevents other dyno
/// processes from disabling them. Dropping the value removes the marker. If no other dyno process
/// has a marker, the controllers that dyno processes have enabled are disabled. Then the group
/// accepts processes again, and the processes that ended dyno processes had moved away return.
#[derive(Debug)]
struct EnabledControllers {
    folder: PathBuf,
    /// All controllers that groups use.
    usable: Vec<String>,
    /// The controllers that this or another dyno process has enabled.
    controllers: Vec<String>,
    marker: PathBuf,
    guard: Guard,
}

impl EnabledControllers {
    /// Registers the change with the guard before the change is made, and creates the marker.
    fn register(folder: &Path, usable: Vec<String>, guard: &Guard) -> io::Result<Self> {
        let enabled = controllers(folder, "cgroup.subtree_control");
        let marked = marked_controllers(folder);
        let is_enabled_by_dyno = |c: &&String| !enabled.contains(c) || marked.contains(c);
        let controllers: Vec<String> = usable.iter().filter(is_enabled_by_dyno).cloned().collect();
        let (folder, marker) = (folder.to_path_buf(), folder.join(marker_name(&controllers)));
        guard.watch_group(&marker);
        guard.watch_controllers(&folder, &controllers);
        // From here on, dropping the value undoes everything.
        let enabled =
            EnabledControllers { folder, usable, controllers, marker, guard: guard.clone() };
        make_dir(&enabled.marker)?;
        Ok(enabled)
    }

    /// Enables the controllers. This includes controllers that another dyno process had enabled,
    /// because that process may have disabled them before it saw the marker.
    fn enable(&self) -> io::Result<()> {
        match self.controllers.is_empty() {
            true => Ok(()),
            false => write_controllers(&self.folder, '+', &self.controllers),
        }
    }
}

impl Drop for EnabledControllers {
    fn drop(&mut self) {
        // The marker is removed first. If two processes end together, at least one of them then
        // sees no marker of the other, and disables the controllers.
        let _ = fs::remove_dir(&self.marker);
        self.guard.forget_group(&self.marker);
        release_controllers(&self.folder, &self.controllers);
        self.guard.forget_controllers(&self.folder, &self.controllers);
    }
}

/// Undoes [`EnabledControllers`] after the removal of its marker.
pub(crate) fn release_controllers(folder: &Path, controllers: &[String]) {
    disable_controllers(folder, controllers);
    return_abandoned_neighbours(folder);
}

/// Disables controllers that dyno enabled, if no other dyno process uses them for its subjects.
fn disable_controllers(folder: &Path, controllers: &[String]) {
    if !controllers.is_empty() && !has_groups_of_others(folder) {
        let _ = write_controllers(folder, '-', controllers);
    }
}

/// Processes that were moved out of a v2 group so that the group can enable controllers. Dropping
/// the value moves them back.
#[derive(Debug)]
struct MovedProcesses {
    /// Folder of the group to which the processes were moved.
    folder: PathBuf,
    guard: Guard,
}

impl MovedProcesses {
    /// Moves the processes of a group to a new group below it, which is registered with the guard.
    fn move_out(v2: &V2, guard: &Guard) -> io::Result<MovedProcesses> {
        // The instant makes the name unique, because a dyno process in another PID namespace may
        // have the same PID.
        let name = format!("dyno-{}-self-{:x}", std::process::id(), monotonic_ns());
        let folder = v2.folder.join(name);
        guard.watch_moved(&folder);
        let moved = MovedProcesses { folder, guard: guard.clone() };
        make_dir(&moved.folder)?;
        move_all(&v2.folder, &moved.folder);
        Ok(moved)
    }
}

impl Drop for MovedProcesses {
    fn drop(&mut self) {
        move_processes_back(&self.folder);
        // If the group still exists, the guard tries again when dyno ends.
        if !self.folder.exists() {
            self.guard.forget_moved(&self.folder);
        }
    }
}

/// Moves the processes of a group `dyno-PID-self-…` back to its parent group, and removes it.
pub(crate) fn move_processes_back(folder: &Path) {
    let (Some(parent), Some(GroupOwner::Neighbours(_))) = (folder.parent(), owner_of(folder))
    else {
        return;
    };
    // A group with enabled controllers accepts no processes. The parent had processes before dyno
    // moved them, so it had no enabled controllers then: dyno has enabled all of them.
    let enabled = controllers(parent, "cgroup.subtree_control");
    if !enabled.is_empty() {
        disable_controllers(parent, &enabled);
    }
    move_all(folder, parent);
    let _ = fs::remove_dir(folder);
}

/// Moves all movable processes. Several passes are needed, because a process may start others while
/// it is moved.
pub(super) fn move_all(from: &Path, to: &Path) {
    for _ in 0..MOVE_PASSES {
        if move_once(from, to) == 0 {
            return;
        }
    }
}

/// Moves processes one by one, and returns their number. Processes that have already ended, or that
/// the kernel does not move, are skipped.
fn move_once(from: &Path, to: &Path) -> usize {
    let pids = fs::read_to_string(from.join("cgroup.procs")).unwrap_or_default();
    // A PID that is read as 0 belongs to another PID namespace. Writing 0 would move this process.
    let pids = pids.lines().filter(|pid| *pid != "0");
    pids.filter(|pid| fs::write(to.join("cgroup.procs"), pid).is_ok()).count()
}
