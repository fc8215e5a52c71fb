//! Locks folders (flock(2)). A lock shows other dyno processes that the owner of a folder is
//! running. The owner's PID would not show this, because each container numbers its processes from
//! 1.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dyno_observer::proc::Stat;

/// Folders that this process has locked.
static HELD: Mutex<BTreeMap<PathBuf, Lock>> = Mutex::new(BTreeMap::new());

fn held_locks() -> MutexGuard<'static, BTreeMap<PathBuf, Lock>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a folder until [`release`], or until this process ends.
///
/// # Errors
/// Another dyno process is removing the folder at this moment. A file system without locks is not
/// an error.
pub(crate) fn hold(folder: &Path) -> io::Result<()> {
    let removed_error = || {
        io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("{}: another dyno process is removing this folder", folder.display()),
        )
    };
    let file = open(folder)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Err(removed_error()),
        Err(TryLockError::Error(_)) => return Ok(()),
        Ok(()) => {}
    }
    let lock = Lock(file);
    // The folder may have been removed before the lock was taken.
    let still_exists = fs::metadata(folder).is_ok_and(|current| {
        lock.0
            .metadata()
            .is_ok_and(|locked| (locked.dev(), locked.ino()) == (current.dev(), current.ino()))
    });
    if !still_exists {
        return Err(removed_error());
    }
    held_locks().insert(folder.into(), lock);
    Ok(())
}

/// A lock of a folder, which is released when the value is dropped.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough, because a child that is being started may have a copy of
        // the descriptor until its exec.
        let _ = self.0.unlock();
    }
}

/// Releases a folder that [`hold`] locked.
pub(crate) fn release(folder: &Path) {
    held_locks().remove(folder);
}

/// Takes over a folder whose owner, the dyno process with PID `owner`, has ended. The lock prevents
/// other dyno processes from taking over the folder. `None`: the owner may be running.
pub(crate) fn seize(owner: u32, folder: &Path) -> Option<Lock> {
    let file = open(folder).ok()?;
    file.try_lock().ok()?;
    let lock = Lock(file);
    is_gone(owner).then_some(lock)
}

/// Whether another dyno process, which may be running, owns a folder.
pub(crate) fn is_owned_by_another(owner: u32, folder: &Path) -> bool {
    !held_locks().contains_key(folder) && seize(owner, folder).is_none()
}

/// Whether no other dyno process in this PID namespace has this PID. Old versions of dyno take no
/// locks, and are recognized only by their PIDs.
fn is_gone(pid: u32) -> bool {
    if pid == std::process::id() {
        return true;
    }
    match Stat::read(pid) {
        Some(stat) => stat.is_dead() || !stat.name.starts_with("dyno"),
        None => true,
    }
}

fn open(folder: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PID above the kernel's limit (PID_MAX_LIMIT).
    const NO_PROCESS: u32 = 4_194_999;

    #[test]
    fn folder_held_by_live_owner_is_not_seized() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x");
        fs::create_dir(&folder).unwrap();
        hold(&folder).unwrap();
        // The PID does not matter: the owner may be in another PID namespace.
        assert!(seize(NO_PROCESS, &folder).is_none());
        assert!(!is_owned_by_another(NO_PROCESS, &folder), "this process holds it");
        release(&folder);
        let seized = seize(NO_PROCESS, &folder);
        assert!(seized.is_some());
        assert!(hold(&folder).is_err(), "a folder that is being removed is held");
        drop(seized);
        hold(&folder).unwrap();
        release(&folder);
    }

    /// A child that is being started has copies of all descriptors until its exec.
    #[test]
    fn lock_is_released_despite_copied_descriptor() {
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
    fn folder_removed_before_lock_is_not_held() {
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
    fn process_with_another_name_is_not_taken_for_dyno() {
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
