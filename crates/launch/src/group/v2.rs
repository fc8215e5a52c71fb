//! Version 2: a group with processes cannot enable controllers for its children. dyno and its
//! neighbours are therefore moved to another group, and back at the end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dyno_observer::cgroup::V2;
use dyno_observer::monotonic_ns;

use super::owner::{GroupOwner, make_dir, others_live};
use crate::guard::Guard;
use crate::limits::MOVES;
use crate::lock;

/// Changes of the v2 group that dyno runs in, for as long as dyno runs. Dropping undoes them: first
/// the controllers are taken back, because a group that hands them down takes no processes, then
/// the processes move back.
#[derive(Debug, Default)]
pub(super) struct GroupChanges {
    handed: Option<Handed>,
    moved: Option<Moved>,
}

/// Hands the controllers down. A group that holds processes may not (the root aside): then they are
/// moved into a group of their own below it first.
pub(super) fn prepare(
    v2: &mut V2,
    wanted: &[&str],
    changed: &mut GroupChanges,
    guard: &Guard,
) -> io::Result<()> {
    leave_stale_group(v2);
    let is_down = controllers(&v2.folder, "cgroup.subtree_control");
    let offered = wanted.iter().map(ToString::to_string).filter(|c| v2.controllers.contains(c));
    let missing: Vec<String> = offered.filter(|c| !is_down.contains(c)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let handed = changed.handed.insert(Handed::announce(&v2.folder, missing, guard));
    match handed.down() {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
        result => return result,
    }
    changed.moved = Some(Moved::out_of_the_way(v2, guard)?);
    handed.down()
}

/// Leaves the group of an earlier dyno that was killed together with its guard: the process that
/// started this dyno may be in it. All its processes go back to the group that they came from.
pub(super) fn leave_stale_group(v2: &mut V2) {
    while let Some(GroupOwner::Neighbours(owner)) =
        v2.folder.file_name().and_then(|n| GroupOwner::from_name(&n.to_string_lossy()))
        && lock::seize(owner, &v2.folder).is_some()
        && let Some(above) = v2.folder.parent().map(PathBuf::from)
    {
        move_processes_back(&v2.folder);
        if v2.folder.exists() {
            return;
        }
        v2.controllers = controllers(&above, "cgroup.controllers");
        v2.folder = above;
    }
}

pub(super) fn controllers(folder: &Path, file: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.split_ascii_whitespace().map(String::from).collect()
}

pub(super) fn hand_down(folder: &Path, sign: char, controllers: &[String]) -> io::Result<()> {
    let list: Vec<String> = controllers.iter().map(|c| format!("{sign}{c}")).collect();
    fs::write(folder.join("cgroup.subtree_control"), list.join(" "))
}

/// Controllers that a group did not hand down before us. Dropping takes them back.
#[derive(Debug)]
struct Handed {
    folder: PathBuf,
    controllers: Vec<String>,
    guard: Guard,
}

impl Handed {
    /// From here on the guard knows what is to be undone.
    fn announce(folder: &Path, controllers: Vec<String>, guard: &Guard) -> Handed {
        guard.watch_controllers(folder, &controllers);
        Handed { folder: folder.into(), controllers, guard: guard.clone() }
    }

    fn down(&self) -> io::Result<()> {
        hand_down(&self.folder, '+', &self.controllers)
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        take_controllers_back(&self.folder, &self.controllers);
        self.guard.forget_controllers(&self.folder, &self.controllers);
    }
}

/// Takes controllers back that a dyno has handed down, unless another dyno's subjects are limited
/// by them meanwhile.
pub(crate) fn take_controllers_back(folder: &Path, controllers: &[String]) {
    if !others_live(folder) {
        let _ = hand_down(folder, '-', controllers);
    }
}

/// Processes that were moved out of a v2 group so that it can hand its controllers down. Dropping
/// moves them back.
#[derive(Debug)]
struct Moved {
    own: PathBuf,
    guard: Guard,
}

impl Moved {
    fn out_of_the_way(v2: &V2, guard: &Guard) -> io::Result<Moved> {
        // The instant distinguishes it from the group of a dyno in another PID namespace, which may
        // have the same PID.
        let name = format!("dyno-{}-self-{:x}", std::process::id(), monotonic_ns());
        let own = v2.folder.join(name);
        guard.watch_moved(&own);
        let moved = Moved { own, guard: guard.clone() };
        make_dir(&moved.own)?;
        move_all(&v2.folder, &moved.own);
        Ok(moved)
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        move_processes_back(&self.own);
        // The guard still has the groups that are left, and tries again when dyno ends.
        if !self.own.exists() {
            self.guard.forget_moved(&self.own);
        }
    }
}

/// Moves the processes of a group `dyno-PID-self-…` to where that dyno took them from, and removes
/// it.
pub(crate) fn move_processes_back(own: &Path) {
    let (Some(above), Some(name)) = (own.parent(), own.file_name()) else { return };
    let Some(GroupOwner::Neighbours(_)) = GroupOwner::from_name(&name.to_string_lossy()) else {
        return;
    };
    // A group that hands controllers down takes no processes. It held some, so that whatever it
    // hands down is dyno's doing.
    let handed = controllers(above, "cgroup.subtree_control");
    if !handed.is_empty() {
        take_controllers_back(above, &handed);
    }
    move_all(own, above);
    let _ = fs::remove_dir(own);
}

/// Moves processes until none is left that can be: those that are moved may just have started
/// others.
pub(super) fn move_all(from: &Path, to: &Path) {
    for _ in 0..MOVES {
        if move_once(from, to) == 0 {
            return;
        }
    }
}

/// Moves processes one by one, and returns how many. One that has ended meanwhile, or that the
/// kernel keeps where it is, is passed over.
fn move_once(from: &Path, to: &Path) -> usize {
    let pids = fs::read_to_string(from.join("cgroup.procs")).unwrap_or_default();
    // 0 is a process of another name space, and as input it is we ourselves.
    let pids = pids.lines().filter(|pid| *pid != "0");
    pids.filter(|pid| fs::write(to.join("cgroup.procs"), pid).is_ok()).count()
}
