//! Kills orphaned processes that the kernel has made children of dyno. A minder (`minder.rs`)
//! normally ends the descendants of a command. If the minder itself is killed, the kernel reparents
//! its descendants to dyno. The children that dyno has started are registered, so that only orphans
//! are killed.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use dyno_observer::proc::{self, Stat};

use crate::limits::{MINDER_PAUSE, ORPHAN_PASSES};
use crate::sys;

/// PIDs of the children that dyno has started and not waited for.
static STARTED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Whether the kernel reparents orphans to dyno.
static IS_SUBREAPER: AtomicBool = AtomicBool::new(false);

fn child_pids() -> MutexGuard<'static, BTreeSet<u32>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a child and registers it.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    // The list is locked while the child starts. `kill_orphans` would kill a child that is not in
    // the list.
    let mut started = child_pids();
    let child = command.spawn()?;
    started.insert(child.id());
    Ok(child)
}

/// Unregisters a child that was waited for, because its PID may now belong to another process.
pub(crate) fn forget(pid: u32) {
    child_pids().remove(&pid);
}

/// Makes the kernel reparent orphans to dyno from now on. If a shell has replaced itself by dyno
/// (`exec`), the jobs of the shell are already dyno's children. In this case orphans are not
/// reparented to dyno, so that dyno does not kill an orphan of a job.
pub(crate) fn adopt_orphans() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let has_other_children = !adopted_children(&child_pids()).is_empty();
        if may_adopt(std::process::id(), has_other_children) {
            sys::become_subreaper();
            IS_SUBREAPER.store(true, Ordering::Release);
        }
    });
}

/// Whether all orphans that would be reparented to this process are descendants of dyno's commands.
/// A process with PID 1 also gets the other orphans of its container, for example of `docker exec`.
const fn may_adopt(pid: u32, has_other_children: bool) -> bool {
    pid != 1 && !has_other_children
}

/// Kills the orphans that the kernel reparented to dyno, until none is left. Returns the orphans
/// that cannot be ended.
pub(crate) fn kill_orphans() -> Vec<u32> {
    if !IS_SUBREAPER.load(Ordering::Acquire) {
        return Vec::new();
    }
    let mut orphans = Vec::new();
    let session = Stat::read(std::process::id()).map(|stat| stat.session);
    for _ in 0..ORPHAN_PASSES {
        let started = child_pids();
        // A minder's descendants are in other sessions than dyno. The jobs of a shell are in dyno's
        // session, and must not be killed.
        let is_orphan =
            |pid: &u32| Stat::read(*pid).is_some_and(|stat| Some(stat.session) != session);
        orphans = adopted_children(&started).into_iter().filter(is_orphan).collect();
        if orphans.is_empty() {
            break;
        }
        for &pid in &orphans {
            sys::kill(pid, libc::SIGKILL);
            sys::reap(pid);
        }
        drop(started);
        std::thread::sleep(MINDER_PAUSE);
    }
    orphans
}

/// Returns the children of this process that dyno has not started.
fn adopted_children(started: &BTreeSet<u32>) -> Vec<u32> {
    let own_pid = std::process::id();
    let is_child = |pid: &u32| Stat::read(*pid).is_some_and(|stat| stat.parent == own_pid);
    proc::all_pids().into_iter().filter(|pid| !started.contains(pid) && is_child(pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pid_1_of_container_adopts_no_orphans() {
        assert!(may_adopt(7, false));
        assert!(!may_adopt(1, false) && !may_adopt(7, true));
    }
}
