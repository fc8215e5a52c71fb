//! dyno's own children, as distinct from the orphans that the kernel reparents to it: descendants
//! of a minder that was killed.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use dyno_observer::proc::{self, Stat};

use crate::limits::{MINDER_GLANCE, STRAY_LOOKS};
use crate::sys;

/// The children that dyno has started and not waited for.
static OWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Whether the kernel gives orphans to dyno.
static ADOPTS: AtomicBool = AtomicBool::new(false);

fn child_pids() -> MutexGuard<'static, BTreeSet<u32>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a child that is no orphan.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    // Held while it starts: it must not be taken for an orphan before its number is known.
    let mut own = child_pids();
    let child = command.spawn()?;
    own.insert(child.id());
    Ok(child)
}

/// A child was waited for: its number may be another process's by now.
pub(crate) fn forget(pid: u32) {
    child_pids().remove(&pid);
}

/// Makes the kernel give orphans to dyno from now on, unless dyno has children that it did not
/// start, as after the `exec` of a shell with jobs: their orphans would be taken for its own.
pub(crate) fn adopt_orphans() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if adopted_children(&child_pids()).is_empty() {
            sys::become_subreaper();
            ADOPTS.store(true, Ordering::Release);
        }
    });
}

/// Kills the orphans that dyno was given, until none is left.
pub(crate) fn end_orphans() {
    if !ADOPTS.load(Ordering::Acquire) {
        return;
    }
    let session = Stat::read(std::process::id()).map(|stat| stat.session);
    for _ in 0..STRAY_LOOKS {
        let own = child_pids();
        // A minder's descendants are in sessions of their own, the jobs of a shell in ours.
        let is_orphan =
            |pid: &u32| Stat::read(*pid).is_some_and(|stat| Some(stat.session) != session);
        let orphans: Vec<u32> = adopted_children(&own).into_iter().filter(is_orphan).collect();
        if orphans.is_empty() {
            return;
        }
        for pid in orphans {
            sys::kill(pid, libc::SIGKILL);
            sys::collect(pid);
        }
        drop(own);
        std::thread::sleep(MINDER_GLANCE);
    }
}

/// The children of this process that it has not started.
fn adopted_children(own: &BTreeSet<u32>) -> Vec<u32> {
    let us = std::process::id();
    let is_ours = |pid: &u32| Stat::read(*pid).is_some_and(|stat| stat.parent == us);
    proc::all_pids().into_iter().filter(|pid| !own.contains(pid) && is_ours(pid)).collect()
}
