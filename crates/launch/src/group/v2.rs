//! Enables controllers for the groups of subjects in cgroup v2, and undoes that at the end.
//!
//! A v2 group with processes cannot enable controllers for its children. dyno and the other
//! processes of its group are therefore moved to a new group below it, and back at the end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dyno_observer::cgroup::V2;
use dyno_observer::monotonic_ns;

use super::owner::{GroupOwner, has_groups_of_others, make_dir, marked_controllers, marker_name};
use crate::guard::Guard;
use crate::limits::MOVE_PASSES;
use crate::lock;

/// Changes of the v2 group that dyno runs in. Dropping undoes them in the order of the fields. The
/// controllers must be disabled first, because a group with enabled controllers accepts no
/// processes.
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

    /// Lists the controllers of groups that were enabled when dyno prepared them, and no longer
    /// are.
    pub(super) fn lost_controllers(&self) -> Vec<String> {
        let Some(EnabledControllers { folder, usable, .. }) = &self.enabled else {
            return Vec::new();
        };
        let enabled = controllers(folder, "cgroup.subtree_control");
        usable.iter().filter(|controller| !enabled.contains(controller)).cloned().collect()
    }
}

/// Enables controllers for the children of dyno's group. If the group has processes, and is not the
/// root, they are first moved to a new group below it.
pub(super) fn prepare(
    v2: &mut V2,
    wanted: &[&str],
    changes: &mut GroupChanges,
    guard: &Guard,
) -> io::Result<()> {
    leave_stale_group(v2);
    let usable = wanted.iter().map(ToString::to_string).filter(|c| v2.controllers.contains(c));
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

/// Leaves the group of an earlier dyno process that was killed together with its guard. This
/// process is in it if its parent is. All processes return to the group that they came from.
pub(super) fn leave_stale_group(v2: &mut V2) {
    while let Some(GroupOwner::Neighbours(owner)) =
        v2.folder.file_name().and_then(|n| GroupOwner::from_name(&n.to_string_lossy()))
        && lock::seize(owner, &v2.folder).is_some()
        && let Some(parent) = v2.folder.parent().map(PathBuf::from)
    {
        move_processes_back(&v2.folder);
        if v2.folder.exists() {
            return;
        }
        v2.controllers = controllers(&parent, "cgroup.controllers");
        v2.folder = parent;
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

/// Controllers for the children of a group, and a marker that keeps other dyno processes from
/// disabling them. Dropping this disables those that a dyno process has enabled, unless another one
/// has a marker.
#[derive(Debug)]
struct EnabledControllers {
    folder: PathBuf,
    /// All controllers that groups use.
    usable: Vec<String>,
    /// Those that this or another dyno process has enabled.
    controllers: Vec<String>,
    marker: PathBuf,
    guard: Guard,
}

impl EnabledControllers {
    /// Registers the change with the guard, before it is made, and creates the marker.
    fn register(folder: &Path, usable: Vec<String>, guard: &Guard) -> io::Result<Self> {
        let enabled = controllers(folder, "cgroup.subtree_control");
        let marked = marked_controllers(folder);
        let is_ours = |c: &&String| !enabled.contains(c) || marked.contains(c);
        let controllers: Vec<String> = usable.iter().filter(is_ours).cloned().collect();
        let (folder, marker) = (folder.to_path_buf(), folder.join(marker_name(&controllers)));
        guard.watch_group(&marker);
        guard.watch_controllers(&folder, &controllers);
        // From here on its drop undoes everything.
        let enabled =
            EnabledControllers { folder, usable, controllers, marker, guard: guard.clone() };
        make_dir(&enabled.marker)?;
        Ok(enabled)
    }

    /// Enables also the controllers that another dyno process had enabled, because that one may
    /// have disabled them before it saw the marker.
    fn enable(&self) -> io::Result<()> {
        match self.controllers.is_empty() {
            true => Ok(()),
            false => write_controllers(&self.folder, '+', &self.controllers),
        }
    }
}

impl Drop for EnabledControllers {
    fn drop(&mut self) {
        // Removed first: of two processes that end together, one sees no marker of the other.
        let _ = fs::remove_dir(&self.marker);
        self.guard.forget_group(&self.marker);
        disable_controllers(&self.folder, &self.controllers);
        self.guard.forget_controllers(&self.folder, &self.controllers);
    }
}

/// Disables controllers that dyno enabled, unless another dyno process uses them for its subjects.
pub(crate) fn disable_controllers(folder: &Path, controllers: &[String]) {
    if !controllers.is_empty() && !has_groups_of_others(folder) {
        let _ = write_controllers(folder, '-', controllers);
    }
}

/// Processes that were moved out of a v2 group so that it can enable controllers. Dropping this
/// moves them back.
#[derive(Debug)]
struct MovedProcesses {
    /// Folder of the group that they were moved to.
    folder: PathBuf,
    guard: Guard,
}

impl MovedProcesses {
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
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else { return };
    let Some(GroupOwner::Neighbours(_)) = GroupOwner::from_name(&name.to_string_lossy()) else {
        return;
    };
    // A group with enabled controllers accepts no processes. The parent had processes before, so
    // dyno has enabled all its controllers.
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

/// Moves processes one by one, and returns their number. Processes that have ended meanwhile, or
/// that the kernel does not move, are skipped.
fn move_once(from: &Path, to: &Path) -> usize {
    let pids = fs::read_to_string(from.join("cgroup.procs")).unwrap_or_default();
    // Read, 0 is a process of another PID namespace. Written, it would be this process.
    let pids = pids.lines().filter(|pid| *pid != "0");
    pids.filter(|pid| fs::write(to.join("cgroup.procs"), pid).is_ok()).count()
}
