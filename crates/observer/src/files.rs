//! Caches open files of the kernel, and counters of threads that have not run. The cache reduces
//! the CPU time that a sample takes from the server.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use dyno_model::sample::ThreadUse;

/// Maximum number of files that stay open: three per thread for 340 threads. Files of further
/// threads are opened for each reading, which is slow. With a limit of 192 files, a sample of
/// Jetty's 145 threads took 11 ms.
const MAX_OPEN: usize = 1024;

/// Default limit of files that stay open. Most systems allow a process 1,024 open files, and other
/// parts of dyno need most of these.
const DEFAULT_OPEN: usize = 192;

/// Files that stay open between readings.
///
/// Rereading an open file takes about a tenth of the time of opening and reading it (1 µs instead
/// of 8 for a control group's counter). The kernel generates the text at each reading (seq_file,
/// kernfs). The list of a control group's processes is an exception: an open file may return its
/// first list again. Such lists are not read through this cache.
#[derive(Debug)]
pub struct Files {
    open: RefCell<HashMap<PathBuf, File>>,
    max_open: usize,
    /// Last counters by PID and TID.
    threads: RefCell<HashMap<(u32, u32), CachedThread>>,
}

/// Maximum number of threads whose counters are cached. The number of threads is unlimited for
/// servers that start one per request.
const MAX_THREADS: usize = 4096;

/// Counters of a thread, and its `schedstat` from right before they were read.
#[derive(Debug)]
struct CachedThread {
    schedstat: String,
    used: ThreadUse,
    /// Whether an earlier read with the same `schedstat` had the same counters.
    is_confirmed: bool,
}

impl Default for Files {
    fn default() -> Files {
        Files::with_limit(DEFAULT_OPEN)
    }
}

impl Files {
    /// Creates a cache of at most this many open files.
    #[must_use]
    pub fn with_limit(max_open: usize) -> Files {
        Files {
            open: RefCell::default(),
            max_open: max_open.min(MAX_OPEN),
            threads: RefCell::default(),
        }
    }

    /// Returns the last counters of a thread that has not run since they were read. A thread with
    /// an unchanged `schedstat` (run time, run delay, number of time slices) has not run, so its
    /// ticks, switches and faults are unchanged, too.
    ///
    /// `None`: the thread has run, or its counters were read only once with this `schedstat`. One
    /// read is not enough: when a thread goes to sleep, the kernel updates its run time before the
    /// number of its switches (`__schedule` in kernel/sched/core.c). Counters that are read between
    /// the two updates lack the last switch. Two reads with the same `schedstat` and the same
    /// counters are therefore required.
    pub(crate) fn cached_thread(&self, pid: u32, tid: u32, schedstat: &str) -> Option<ThreadUse> {
        let threads = self.threads.borrow();
        let last = threads.get(&(pid, tid))?;
        (last.is_confirmed && last.schedstat == schedstat).then(|| last.used.clone())
    }

    /// Caches the counters of a thread. The counters must have been read after the thread's
    /// `schedstat`.
    pub(crate) fn cache_thread(&self, schedstat: String, used: &ThreadUse) {
        let mut threads = self.threads.borrow_mut();
        if threads.len() >= MAX_THREADS {
            threads.clear();
        }
        let key = (used.pid, used.tid);
        let is_confirmed = !schedstat.is_empty()
            && threads
                .get(&key)
                .is_some_and(|last| last.schedstat == schedstat && last.used == *used);
        threads.insert(key, CachedThread { schedstat, used: used.clone(), is_confirmed });
    }

    /// Reads a small file of the kernel. `None`: the file does not exist, or this user cannot read
    /// it.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        let path = path.as_ref();
        let mut open = self.open.borrow_mut();
        if let Some(file) = open.get(path) {
            if let Some(text) = text(file) {
                return Some(text);
            }
            // The file's thread or process has ended. Another one may have its number now.
            open.remove(path);
        }
        let file = File::open(path).ok()?;
        let text = text(&file)?;
        if open.len() < self.max_open {
            open.insert(path.into(), file);
        }
        Some(text)
    }

    /// Reads a file with one number. `None`: the file is not readable, or has no number.
    pub(crate) fn number(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.read(path)?.trim().parse().ok()
    }
}

/// Reads a whole file from its beginning.
fn text(file: &File) -> Option<String> {
    const PAGE: usize = 4096;
    /// Longest record of the files that are read here. A read returns less than a page if the next
    /// record does not fit into the rest of the page (fs/seq_file.c). If the rest is longer than
    /// this, the file has ended, and a second read is not needed.
    const LONGEST_RECORD: usize = PAGE / 2;
    let mut bytes = vec![0; PAGE];
    let mut length = 0;
    loop {
        match file.read_at(&mut bytes[length..], length as u64).ok()? {
            0 => break,
            n => length += n,
        }
        if length < PAGE - LONGEST_RECORD {
            break;
        }
        if length == bytes.len() {
            bytes.resize(2 * length, 0);
        }
    }
    bytes.truncate(length);
    // The name of a thread may contain bytes that are not UTF-8, as in `crate::read`.
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_file_is_reread_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let files = Files::default();
        assert_eq!(files.read(&path), None);
        for length in [0, 7, 2047, 2048, 4096, 20_000] {
            std::fs::write(&path, "7".repeat(length)).unwrap();
            assert_eq!(files.read(&path).map(|text| text.len()), Some(length));
        }
        assert_eq!(files.open.borrow().len(), 1);
    }

    #[test]
    fn cached_thread_requires_unchanged_schedstat() {
        let files = Files::default();
        let used = |tid: u32| ThreadUse { pid: 7, tid, run_ns: 100, ..ThreadUse::default() };
        let early = ThreadUse { switches_voluntary: Some(1), ..used(8) };
        files.cache_thread("100 5 3\n".into(), &early);
        assert_eq!(files.cached_thread(7, 8, "100 5 3\n"), None, "read once");
        files.cache_thread("100 5 3\n".into(), &used(8));
        assert_eq!(files.cached_thread(7, 8, "100 5 3\n"), None, "the switches differ");
        files.cache_thread("100 5 3\n".into(), &used(8));
        assert_eq!(files.cached_thread(7, 8, "100 5 3\n"), Some(used(8)));
        assert_eq!(files.cached_thread(7, 8, "100 5 4\n"), None, "it had a time slice");
        assert_eq!(files.cached_thread(7, 9, "100 5 3\n"), None, "another thread");
        (0..2).for_each(|_| files.cache_thread(String::new(), &used(9)));
        assert_eq!(files.cached_thread(7, 9, ""), None, "a kernel without schedstat");
        (0..2 * MAX_THREADS as u32)
            .for_each(|tid| files.cache_thread("1 1 1\n".into(), &used(tid)));
        assert!(files.threads.borrow().len() <= MAX_THREADS);
    }

    #[test]
    fn number_of_open_files_is_limited() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::default();
        for number in 0..DEFAULT_OPEN + 10 {
            let path = folder.path().join(number.to_string());
            std::fs::write(&path, number.to_string()).unwrap();
            assert_eq!(files.number(&path), Some(number as u64));
        }
        assert_eq!(files.open.borrow().len(), DEFAULT_OPEN);
        let no_files = Files::with_limit(0);
        assert_eq!(
            (no_files.number(folder.path().join("7")), no_files.open.borrow().len()),
            (Some(7), 0)
        );
    }

    /// Another thread may get the number of a thread that has ended.
    #[test]
    fn file_of_ended_thread_is_closed() {
        let files = Files::default();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_pid()).unwrap();
            let _ = ended.recv();
        });
        let path = format!("/proc/self/task/{}/stat", receiver.recv().unwrap());
        assert!(files.read(&path).is_some() && files.read(&path).is_some());
        drop(end);
        thread.join().unwrap();
        // The kernel may remove the thread's files a moment later.
        while files.read(&path).is_some() {
            std::thread::yield_now();
        }
        assert!(files.open.borrow().is_empty());
    }

    /// The kernel cuts a thread's name after 15 bytes, even within a character.
    #[test]
    fn file_with_invalid_utf8_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"7 (dienst\xc3) S 1").unwrap();
        assert_eq!(Files::default().read(file.path()).unwrap(), "7 (dienst\u{fffd}) S 1");
        assert_eq!(crate::read(file.path()).unwrap(), "7 (dienst\u{fffd}) S 1");
    }
}
