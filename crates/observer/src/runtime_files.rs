//! Files about themselves that processes keep in `/tmp`: lists of their compiled code
//! (`perf-PID.map`, the kernel's tools/perf/Documentation/jit-interface.txt), and counters of JVMs
//! (`hsperfdata_USER/PID`). Every user may write to `/tmp`: a file is read only if it belongs to
//! the process's own user and is younger than the process.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;

use crate::{proc, read};

/// List of a process's compiled code, from the process's own `/tmp`.
pub(crate) fn list_of(pid: u32) -> Option<PathBuf> {
    Some(PathBuf::from(format!("/proc/{pid}/root/tmp/perf-{}.map", own_number(pid)?)))
}

/// Counters of a JVM, from the process's own `/tmp`.
pub(crate) fn counters_of(pid: u32) -> Option<PathBuf> {
    let own = own_number(pid)?.to_string();
    let folders = fs::read_dir(format!("/proc/{pid}/root/tmp")).ok()?.flatten();
    // A link would lead to somebody else's.
    let is_of_user = |folder: &fs::DirEntry| {
        folder.file_type().is_ok_and(|kind| kind.is_dir())
            && folder.file_name().to_str().is_some_and(|name| name.starts_with("hsperfdata_"))
    };
    let of_users = folders.filter(is_of_user);
    of_users.map(|folder| folder.path().join(&own)).find(|path| is_own_at(path, pid))
}

/// The first bytes of a file that a process keeps.
pub(crate) fn bytes(path: &Path, pid: u32, most: u64) -> Option<Vec<u8>> {
    // Neither a pipe without a writer nor a link may block this.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
    let file = fs::File::options().read(true).custom_flags(flags).open(path).ok()?;
    if !is_own(&file.metadata().ok()?, pid) {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Whether a file is one that a process has made.
fn is_own(file: &fs::Metadata, pid: u32) -> bool {
    let owner = fs::metadata(format!("/proc/{pid}")).ok().map(|process| process.uid());
    // Times of files have the resolution of the kernel's tick, starts of processes another.
    let is_younger = proc::start_time(pid)
        .zip(file.modified().ok())
        .is_some_and(|(began, written)| written + SLACK >= began);
    file.is_file() && owner == Some(file.uid()) && is_younger
}

fn is_own_at(path: &Path, pid: u32) -> bool {
    fs::symlink_metadata(path).is_ok_and(|file| is_own(&file, pid))
}

const SLACK: Duration = Duration::from_millis(1100);

/// The number of a process where it lives.
fn own_number(pid: u32) -> Option<u32> {
    let status = read(format!("/proc/{pid}/status"))?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?
        .split_ascii_whitespace()
        .last()?
        .parse()
        .ok()
}

/// Files that processes leave behind in dyno's own `/tmp` when they end.
#[derive(Clone, Debug, Default)]
pub struct RuntimeFiles(Vec<PathBuf>);

impl RuntimeFiles {
    /// Files of processes that still run. `compiled`: also the lists of their code, which only dyno
    /// asked for.
    #[must_use]
    pub fn from_pids(pids: &[u32], compiled: bool) -> RuntimeFiles {
        let identity = |path: &str| fs::metadata(path).ok().map(|is| (is.dev(), is.ino()));
        // In another `/tmp`, or with other PIDs, the files do no harm.
        let is_here = |pid: &u32| {
            identity("/tmp")
                .is_some_and(|tmp| identity(&format!("/proc/{pid}/root/tmp")) == Some(tmp))
                && own_number(*pid) == Some(*pid)
        };
        let each = |&pid: &u32| {
            [counters_of(pid), list_of(pid).filter(|_| compiled)].map(|path| (pid, path))
        };
        let all = pids.iter().filter(|pid| is_here(pid)).flat_map(each);
        let here = |(pid, path): (u32, Option<PathBuf>)| {
            let path = path.filter(|path| is_own_at(path, pid))?;
            // Once the process is gone there is no way through it.
            Some(Path::new("/").join(path.strip_prefix(format!("/proc/{pid}/root")).ok()?))
        };
        RuntimeFiles(all.filter_map(here).collect())
    }

    /// Removes the files.
    pub fn remove(self) {
        // One that is gone already needs nothing more.
        self.0.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_keeps_is_removed_and_no_link() {
        let us = std::process::id();
        let own = PathBuf::from(format!("/tmp/perf-{us}.map"));
        let _ = fs::remove_file(&own);
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = folder.path().join("precious");
        fs::write(&elsewhere, "1 1 a").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &own).unwrap();
        RuntimeFiles::from_pids(&[us], true).remove();
        assert!(own.is_symlink() && elsewhere.exists());
        fs::remove_file(&own).unwrap();
        fs::write(&own, "1 1 a").unwrap();
        RuntimeFiles::from_pids(&[us], false).remove();
        assert!(own.exists(), "dyno did not ask for it");
        RuntimeFiles::from_pids(&[us], true).remove();
        assert!(!own.exists());
        let jvms = PathBuf::from(format!("/tmp/hsperfdata_dyno-test-{us}"));
        fs::create_dir_all(&jvms).unwrap();
        fs::write(jvms.join(us.to_string()), "x").unwrap();
        assert_eq!(bytes(&counters_of(us).unwrap(), us, 10).unwrap(), b"x");
        RuntimeFiles::from_pids(&[us], false).remove();
        assert_eq!(counters_of(us), None);
        fs::remove_dir_all(&jvms).unwrap();
    }
}
