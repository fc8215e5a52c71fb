//! Files of the kernel that each sample reads again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use dyno_archive::sample::ThreadUse;

/// Most files that stay open: three per thread for 340 threads. Files of further threads are opened
/// for each reading. With 192, a sample of Jetty's 145 threads took 11 ms.
const MAX_OPEN: usize = 1024;

/// Most open files if the need of other parts is unknown: a process may have 1,024 by default.
const FEW_OPEN: usize = 192;

/// Files that stay open between readings: rereading takes about a tenth of the time of opening and
/// reading (1 µs of 8 for a control group's counter). The kernel generates their text at each
/// reading (seq_file, kernfs), but not that of lists of processes.
#[derive(Debug)]
pub struct Files {
    open: RefCell<HashMap<PathBuf, File>>,
    most: usize,
    threads: RefCell<HashMap<(u32, u32), LastRead>>,
}

/// Most threads whose counters are kept. Servers that start a thread per request would have an
/// unlimited number.
const MAX_THREADS: usize = 4096;

/// The counters of a thread, and its `schedstat` as they were read.
#[derive(Debug)]
struct LastRead {
    schedstat: String,
    used: ThreadUse,
}

impl Default for Files {
    fn default() -> Files {
        Files::with_limit(FEW_OPEN)
    }
}

impl Files {
    /// Keeps at most so many files open, because other parts of the process need some, too.
    #[must_use]
    pub fn with_limit(files: usize) -> Files {
        Files { open: RefCell::default(), most: files.min(MAX_OPEN), threads: RefCell::default() }
    }

    /// The counters of a thread as they were last read, if it has not run since. Its `schedstat`
    /// is then unchanged (run time, run delay, number of time slices), and a thread that does not
    /// run has no ticks, switches or faults.
    pub(crate) fn unless_it_ran(&self, pid: u32, tid: u32, schedstat: &str) -> Option<ThreadUse> {
        let threads = self.threads.borrow();
        let last = threads.get(&(pid, tid))?;
        (!schedstat.is_empty() && last.schedstat == schedstat).then(|| last.used.clone())
    }

    /// Keeps the counters of a thread, which were read after its `schedstat`.
    pub(crate) fn keep(&self, schedstat: String, used: &ThreadUse) {
        let mut threads = self.threads.borrow_mut();
        if threads.len() >= MAX_THREADS {
            threads.clear();
        }
        threads.insert((used.pid, used.tid), LastRead { schedstat, used: used.clone() });
    }

    /// Reads a small file of the kernel. `None`: it does not exist, or this user may not read it.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        let path = path.as_ref();
        let mut open = self.open.borrow_mut();
        if let Some(file) = open.get(path) {
            if let Some(text) = text(file) {
                return Some(text);
            }
            // Its thread or its process has ended, and another may have its number now.
            open.remove(path);
        }
        let file = File::open(path).ok()?;
        let text = text(&file)?;
        if open.len() < self.most {
            open.insert(path.into(), file);
        }
        Some(text)
    }

    /// Reads a file that holds one number.
    pub(crate) fn number(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.read(path)?.trim().parse().ok()
    }
}

/// A file from its beginning to its end.
fn text(file: &File) -> Option<String> {
    const PAGE: usize = 4096;
    /// A reading ends early where the next record does not fit into what is left of a page
    /// (fs/seq_file.c), and no record of what is read here is longer than this. Half of all
    /// readings would be of an end that is known.
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
    // As `crate::read` does.
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_read_anew_each_time() {
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
    fn counters_are_those_of_a_thread_that_has_not_run() {
        let files = Files::default();
        let used = |tid: u32| ThreadUse { pid: 7, tid, run_ns: 100, ..ThreadUse::default() };
        files.keep("100 5 3\n".into(), &used(8));
        assert_eq!(files.unless_it_ran(7, 8, "100 5 3\n"), Some(used(8)));
        assert_eq!(files.unless_it_ran(7, 8, "100 5 4\n"), None, "it had a turn");
        assert_eq!(files.unless_it_ran(7, 9, "100 5 3\n"), None, "another thread");
        files.keep(String::new(), &used(9));
        assert_eq!(files.unless_it_ran(7, 9, ""), None, "a kernel that does not say");
        (0..2 * MAX_THREADS as u32).for_each(|tid| files.keep("1 1 1\n".into(), &used(tid)));
        assert!(files.threads.borrow().len() <= MAX_THREADS);
    }

    #[test]
    fn no_more_stay_open_than_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::default();
        for number in 0..FEW_OPEN + 10 {
            let path = folder.path().join(number.to_string());
            std::fs::write(&path, number.to_string()).unwrap();
            assert_eq!(files.number(&path), Some(number as u64));
        }
        assert_eq!(files.open.borrow().len(), FEW_OPEN);
        let none = Files::with_limit(0);
        assert_eq!((none.number(folder.path().join("7")), none.open.borrow().len()), (Some(7), 0));
    }

    /// The number of a thread that has ended may be that of another.
    #[test]
    fn what_has_ended_does_not_stay_open() {
        let files = Files::default();
        let (ask, asked) = std::sync::mpsc::channel::<()>();
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_pid()).unwrap();
            let _ = asked.recv();
        });
        let path = format!("/proc/self/task/{}/stat", receiver.recv().unwrap());
        assert!(files.read(&path).is_some() && files.read(&path).is_some());
        drop(ask);
        thread.join().unwrap();
        // It may be a moment before the kernel has forgotten it.
        while files.read(&path).is_some() {
            std::thread::yield_now();
        }
        assert!(files.open.borrow().is_empty());
    }

    /// The kernel cuts a thread's name after 15 bytes, within a character, too.
    #[test]
    fn file_with_bytes_that_are_no_text_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"7 (dienst\xc3) S 1").unwrap();
        assert_eq!(Files::default().read(file.path()).unwrap(), "7 (dienst\u{fffd}) S 1");
        assert_eq!(crate::read(file.path()).unwrap(), "7 (dienst\u{fffd}) S 1");
    }
}
