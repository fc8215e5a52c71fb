//! Locks on folders (flock(2)): they show other dynos that a folder's owner is running. A process
//! number would not, because each container numbers its processes from 1.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dyno_observer::proc::Stat;

/// The folders that this process holds.
static HELD: Mutex<BTreeMap<PathBuf, Lock>> = Mutex::new(BTreeMap::new());

fn held_locks() -> MutexGuard<'static, BTreeMap<PathBuf, Lock>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds a folder until [`release`], or until this process ends.
///
/// # Errors
/// Another dyno sweeps it away at this moment. A file system without locks is no error.
pub(crate) fn hold(folder: &Path) -> io::Result<()> {
    let swept =
        || io::Error::new(io::ErrorKind::AlreadyExists, format!("{} is swept", folder.display()));
    let file = open(folder)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Err(swept()),
        Err(TryLockError::Error(_)) => return Ok(()),
        Ok(()) => {}
    }
    let lock = Lock(file);
    // It may have been removed before the lock was taken.
    let is_there = fs::metadata(folder).is_ok_and(|found| {
        lock.0.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino()))
    });
    if !is_there {
        return Err(swept());
    }
    held_locks().insert(folder.into(), lock);
    Ok(())
}

/// A lock that is held as long as this lives.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child that is being started may have a copy until its exec.
        let _ = self.0.unlock();
    }
}

/// Ends what [`hold`] began.
pub(crate) fn release(folder: &Path) {
    held_locks().remove(folder);
}

/// Takes a folder over whose dyno, `owner`, has ended: no other dyno does while the lock lives.
/// `None`: the owner may run.
pub(crate) fn seize(owner: u32, folder: &Path) -> Option<Lock> {
    let file = open(folder).ok()?;
    file.try_lock().ok()?;
    let lock = Lock(file);
    is_gone(owner).then_some(lock)
}

/// Whether a dyno that may run, other than this process, owns a folder.
pub(crate) fn is_of_another(owner: u32, folder: &Path) -> bool {
    !held_locks().contains_key(folder) && seize(owner, folder).is_none()
}

/// Whether no dyno here has this number. Dynos older than the locks hold none, and are known by
/// their numbers alone.
fn is_gone(pid: u32) -> bool {
    pid == std::process::id()
        || Stat::read(pid).is_none_or(|stat| stat.is_dead() || !stat.name.starts_with("dyno"))
}

fn open(folder: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Above the largest number that a kernel gives (PID_MAX_LIMIT).
    const NO_PROCESS: u32 = 4_194_999;

    #[test]
    fn folder_held_by_a_live_owner_is_not_seized() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x");
        fs::create_dir(&folder).unwrap();
        hold(&folder).unwrap();
        // Its number says nothing: in another PID namespace it is any.
        assert!(seize(NO_PROCESS, &folder).is_none());
        assert!(!is_of_another(NO_PROCESS, &folder), "it is ours");
        release(&folder);
        let seized = seize(NO_PROCESS, &folder);
        assert!(seized.is_some());
        assert!(hold(&folder).is_err(), "who makes one that is swept makes another");
        drop(seized);
        hold(&folder).unwrap();
        release(&folder);
    }

    /// A child that is being started has copies of all files until its exec.
    #[test]
    fn copy_of_a_file_keeps_no_lock() {
        let root = tempfile::tempdir().unwrap();
        let seized = seize(NO_PROCESS, root.path()).unwrap();
        let copy = seized.0.try_clone().unwrap();
        assert!(seize(NO_PROCESS, root.path()).is_none());
        drop(seized);
        assert!(seize(NO_PROCESS, root.path()).is_some());
        hold(root.path()).unwrap();
        release(root.path());
        drop(copy);
    }

    #[test]
    fn folder_removed_before_the_lock_is_not_held() {
        let root = tempfile::tempdir().unwrap();
        assert!(hold(&root.path().join("gone")).is_err());
    }

    #[test]
    fn link_is_neither_held_nor_seized() {
        let root = tempfile::tempdir().unwrap();
        let link = root.path().join("link");
        std::os::unix::fs::symlink("/", &link).unwrap();
        assert!(hold(&link).is_err() && seize(NO_PROCESS, &link).is_none());
    }

    #[test]
    fn process_of_another_name_is_no_older_dyno() {
        let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let id = other.id();
        // The child is `sleep` from its exec on.
        while Stat::read(id).unwrap().name != "sleep" {
            std::thread::yield_now();
        }
        assert!(is_gone(id) && is_gone(std::process::id()));
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
