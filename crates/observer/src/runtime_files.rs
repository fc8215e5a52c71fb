//! Finds, reads and removes the files that language runtimes write to `/tmp` about themselves.
//! dyno takes function names and JVM counters from them.
//!
//! - `perf-PID.map` lists JIT-compiled code (the kernel's
//!   tools/perf/Documentation/jit-interface.txt).
//! - `hsperfdata_USER/PID` contains the counters of a JVM.
//!
//! Every user can write to `/tmp`. A file is therefore read only if it belongs to the process's
//! user and is younger than the process.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

use crate::{proc, read};

/// Returns the path of a process's list of JIT-compiled code, through the process's own `/tmp`.
pub(crate) fn perf_map_path(pid: u32) -> Option<PathBuf> {
    let folder = PathBuf::from(format!("/proc/{pid}/root/tmp"));
    Some(folder.join(perf_map_name(namespace_pid(pid)?)))
}

fn perf_map_name(pid: u32) -> String {
    format!("perf-{pid}.map")
}

/// Returns the path of a JVM's counters, through the process's own `/tmp`.
pub(crate) fn hsperfdata_path(pid: u32) -> Option<PathBuf> {
    let file_name = namespace_pid(pid)?.to_string();
    let entries = fs::read_dir(format!("/proc/{pid}/root/tmp")).ok()?.flatten();
    // Links are skipped, because they may lead to files of other users.
    let is_user_folder = |entry: &fs::DirEntry| {
        entry.file_type().is_ok_and(|kind| kind.is_dir())
            && entry.file_name().to_str().is_some_and(|name| name.starts_with("hsperfdata_"))
    };
    let user_folders = entries.filter(is_user_folder);
    user_folders
        .map(|folder| folder.path().join(&file_name))
        .find(|path| is_written_by_at(path, pid))
}

/// Reads at most `max_bytes` from the start of a file that a process has written.
pub(crate) fn read_bytes(path: &Path, pid: u32, max_bytes: u64) -> Option<Vec<u8>> {
    // The open call must neither block on a pipe without a writer, nor follow a link.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
    let file = fs::File::options().read(true).custom_flags(flags).open(path).ok()?;
    if !is_written_by(&file.metadata().ok()?, pid) {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Whether a file belongs to the user of a process and is younger than the process.
fn is_written_by(file: &fs::Metadata, pid: u32) -> bool {
    let owner = fs::metadata(format!("/proc/{pid}")).ok().map(|process| process.uid());
    let is_younger = || proc::start_time(pid).is_some_and(|began| is_younger(file, began));
    file.is_file() && owner == Some(file.uid()) && is_younger()
}

/// Whether a file was written after an instant, as far as the clocks can tell.
fn is_younger(file: &fs::Metadata, began: SystemTime) -> bool {
    file.modified().is_ok_and(|written| written + CLOCK_RESOLUTION >= began)
}

fn is_written_by_at(path: &Path, pid: u32) -> bool {
    fs::symlink_metadata(path).is_ok_and(|file| is_written_by(&file, pid))
}

/// Tolerance for comparing the time of a file with the start of a process. The start is known to a
/// second, and the time of a file to the kernel's tick.
const CLOCK_RESOLUTION: Duration = Duration::from_millis(1100);

/// Returns the PID of a process in its own PID namespace.
fn namespace_pid(pid: u32) -> Option<u32> {
    let status = read(format!("/proc/{pid}/status"))?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?
        .split_ascii_whitespace()
        .last()?
        .parse()
        .ok()
}

/// Files in dyno's `/tmp` that a killed process does not remove.
#[derive(Clone, Debug, Default)]
pub struct RuntimeFiles(Vec<PathBuf>);

impl RuntimeFiles {
    /// Finds the files of running processes. `with_perf_maps`: include the lists of JIT-compiled
    /// code, which runtimes write only because dyno asked them to.
    #[must_use]
    pub fn from_pids(pids: &[u32], with_perf_maps: bool) -> RuntimeFiles {
        let identity = |path: &str| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        // Files in the `/tmp` of a container are excluded, because they disappear with the
        // container.
        let shares_our_tmp = |pid: &u32| {
            identity("/tmp")
                .is_some_and(|tmp| identity(&format!("/proc/{pid}/root/tmp")) == Some(tmp))
                && namespace_pid(*pid) == Some(*pid)
        };
        let candidates = |&pid: &u32| {
            let perf_map = if with_perf_maps { perf_map_path(pid) } else { None };
            [hsperfdata_path(pid), perf_map].map(|path| (pid, path))
        };
        let files = pids.iter().filter(|pid| shares_our_tmp(pid)).flat_map(candidates);
        let path_from_root = |(pid, path): (u32, Option<PathBuf>)| {
            let path = path.filter(|path| is_written_by_at(path, pid))?;
            // `/proc/PID/root` disappears when the process ends.
            Some(Path::new("/").join(path.strip_prefix(format!("/proc/{pid}/root")).ok()?))
        };
        RuntimeFiles(files.filter_map(path_from_root).collect())
    }

    /// Finds the list of JIT-compiled code of a process that has ended. `began`: an instant right
    /// before its start, wall clock. A file of another user, of a running process or of an earlier
    /// process is excluded.
    #[must_use]
    pub fn of_ended(pid: u32, began: SystemTime) -> RuntimeFiles {
        let path = Path::new("/tmp").join(perf_map_name(pid));
        let is_ours = fs::symlink_metadata(&path).is_ok_and(|file| {
            let is_own = file.is_file() && file.uid() == rustix::process::geteuid().as_raw();
            is_own && is_younger(&file, began)
        });
        let is_running = Path::new(&format!("/proc/{pid}")).exists();
        RuntimeFiles(if is_ours && !is_running { vec![path] } else { Vec::new() })
    }

    /// Adds the files of other processes.
    pub fn add(&mut self, other: RuntimeFiles) {
        self.0.extend(other.0);
    }

    /// Removes the files.
    pub fn remove(self) {
        // The runtime may have removed its file itself.
        self.0.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtime_files_are_removed_but_links_are_not() {
        let us = std::process::id();
        let perf_map = PathBuf::from(format!("/tmp/perf-{us}.map"));
        let _ = fs::remove_file(&perf_map);
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = folder.path().join("precious");
        fs::write(&elsewhere, "1 1 a").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &perf_map).unwrap();
        RuntimeFiles::from_pids(&[us], true).remove();
        assert!(perf_map.is_symlink() && elsewhere.exists());
        fs::remove_file(&perf_map).unwrap();
        fs::write(&perf_map, "1 1 a").unwrap();
        RuntimeFiles::from_pids(&[us], false).remove();
        assert!(perf_map.exists(), "dyno did not ask for a perf map");
        RuntimeFiles::from_pids(&[us], true).remove();
        assert!(!perf_map.exists());
        let jvms = PathBuf::from(format!("/tmp/hsperfdata_dyno-test-{us}"));
        fs::create_dir_all(&jvms).unwrap();
        fs::write(jvms.join(us.to_string()), "x").unwrap();
        assert_eq!(read_bytes(&hsperfdata_path(us).unwrap(), us, 10).unwrap(), b"x");
        RuntimeFiles::from_pids(&[us], false).remove();
        assert_eq!(hsperfdata_path(us), None);
        fs::remove_dir_all(&jvms).unwrap();
    }
}
