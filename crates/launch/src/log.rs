//! The output of a program: a file that does not grow without bound, and whose end can be shown.
//!
//! It is a file and no pipe, because the reader of a pipe would have to keep up with the server,
//! which else waits for us in the middle of a request. A file costs the server what logging into a
//! file costs anywhere. All that we do is to look at its length now and then, and to shorten it
//! when it is too long, which takes the file system less than a millisecond.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use crate::folder;
use crate::limits::{LOG_BYTES, LOG_GLANCE, LOG_TAIL_BYTES};

#[derive(Debug)]
pub struct Log {
    file: File,
    /// The last lines of what was cut off.
    cut: Mutex<Vec<u8>>,
    /// How often something was.
    cuts: AtomicUsize,
}

impl Log {
    /// Makes the file, which must not be there.
    ///
    /// # Errors
    /// It is there, or cannot be made.
    pub fn create(path: &Path) -> io::Result<Log> {
        // Append mode: a write after the file was shortened goes to its new end.
        let file = folder::create(path, OpenOptions::new().read(true).append(true), 0o600)?;
        Ok(Log { file, cut: Mutex::default(), cuts: AtomicUsize::new(0) })
    }

    /// A file without a name, gone with the last who has it open.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn anonymous() -> io::Result<Log> {
        Ok(Log { file: tempfile::tempfile()?, cut: Mutex::default(), cuts: AtomicUsize::new(0) })
    }

    /// The file as the output of a program.
    ///
    /// # Errors
    /// No more files can be opened.
    pub fn stdio(&self) -> io::Result<Stdio> {
        Ok(self.file.try_clone()?.into())
    }

    /// Shortens it if it is too long.
    pub fn trim(&self) {
        if self.file.metadata().is_ok_and(|m| m.len() > LOG_BYTES) {
            let end = last(&self.file, LOG_TAIL_BYTES);
            // Text that is written in between is lost: it is in the part that is cut.
            if self.file.set_len(0).is_ok() {
                self.cuts.fetch_add(1, Ordering::AcqRel);
                *self.cut.lock().unwrap_or_else(PoisonError::into_inner) = end;
            }
        }
    }

    /// Text that was written from an offset on, in bytes of the file. `None`: some of the log was
    /// cut off, so that the text is unknown.
    #[must_use]
    pub fn text_from(&self, place: u64) -> Option<Vec<u8>> {
        let length = self.file.metadata().map_or(0, |m| m.len());
        let bytes = last(&self.file, length.saturating_sub(place));
        // Looked at last: what was cut off while it was read is not in it.
        (self.cuts.load(Ordering::Acquire) == 0).then_some(bytes)
    }

    /// Bytes of the file.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.file.metadata().map_or(0, |m| m.len())
    }

    /// Whether nothing has been written, or nothing since it was cut off.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The last lines, of at most [`LOG_TAIL_BYTES`].
    #[must_use]
    pub fn tail(&self, lines: usize) -> String {
        let mut bytes = self.cut.lock().unwrap_or_else(PoisonError::into_inner).clone();
        bytes.extend(last(&self.file, LOG_TAIL_BYTES));
        let from = bytes.len().saturating_sub(LOG_TAIL_BYTES as usize);
        let text = String::from_utf8_lossy(&bytes[from..]);
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

/// A reader of what is new in a log, line by line.
#[derive(Debug)]
pub struct Follower<'a> {
    log: &'a Log,
    /// Bytes of the file that have been read.
    at: u64,
    /// The begin of a line whose end has not come.
    begun: Vec<u8>,
}

impl<'a> Follower<'a> {
    #[must_use]
    pub fn new(log: &'a Log) -> Follower<'a> {
        Follower { log, at: 0, begun: Vec::new() }
    }

    /// Passes each complete line to `on`. If the log was shortened in the meantime, the lines that
    /// were cut off are skipped.
    pub fn lines(&mut self, on: &mut dyn FnMut(&str)) {
        let length = self.log.file.metadata().map_or(0, |m| m.len());
        if length < self.at {
            self.at = 0;
        }
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(n @ 1..) = self.log.file.read_at(&mut bytes, self.at) {
            self.at += n as u64;
            self.begun.extend_from_slice(&bytes[..n]);
        }
        let Some(end) = self.begun.iter().rposition(|byte| *byte == b'\n') else { return };
        let rest = self.begun.split_off(end + 1);
        let whole = std::mem::replace(&mut self.begun, rest);
        whole[..end]
            .split(|byte| *byte == b'\n')
            .for_each(|line| on(&String::from_utf8_lossy(line)));
    }

    /// Hands on what is left, with a line that has no end.
    pub fn rest(mut self, on: &mut dyn FnMut(&str)) {
        self.lines(on);
        if !self.begun.is_empty() {
            on(&String::from_utf8_lossy(&self.begun));
        }
    }
}

/// At most so many bytes from the end of a file.
fn last(file: &File, most: u64) -> Vec<u8> {
    let length = file.metadata().map_or(0, |m| m.len());
    let from = length.saturating_sub(most);
    let mut bytes = vec![0; (length - from) as usize];
    let mut read = 0;
    while let Ok(n @ 1..) = file.read_at(&mut bytes[read..], from + read as u64) {
        read += n;
    }
    bytes.truncate(read);
    bytes
}

/// A thread that trims a log until it is dropped.
#[derive(Debug)]
pub struct Keeper {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    #[must_use]
    pub fn new(log: &Arc<Log>) -> Keeper {
        let log = Arc::clone(log);
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(LOG_GLANCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                log.trim();
            }
        });
        Keeper { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::Write as _;

    #[test]
    fn log_is_bounded_and_keeps_its_end() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("log");
        let log = Log::create(&path).unwrap();
        let mut writer = log.file.try_clone().unwrap();
        let line = "x".repeat(99);
        let mut longest = 0;
        for n in 0..3 * LOG_BYTES / 100 {
            writeln!(writer, "{n:07} {}", &line[8..]).unwrap();
            log.trim();
            longest = longest.max(std::fs::metadata(&path).unwrap().len());
        }
        assert!(longest <= LOG_BYTES + 100, "{longest}");
        writeln!(writer, "the last").unwrap();
        let tail = log.tail(3);
        let numbers: Vec<_> = tail.lines().map(|l| l[..7].to_string()).collect();
        let n = 3 * LOG_BYTES / 100;
        assert_eq!(numbers, [format!("{:07}", n - 2), format!("{:07}", n - 1), "the las".into()]);
        // Right after a cut the lines before it are still returned.
        std::iter::repeat_n(&line, (LOG_BYTES / 100) as usize + 1)
            .for_each(|l| writeln!(writer, "{l}").unwrap());
        log.trim();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        assert_eq!(log.tail(2), format!("{line}\n{line}"));
    }

    #[test]
    fn end_of_one_endless_line_is_bounded() {
        let root = tempfile::tempdir().unwrap();
        let log = Log::create(&root.path().join("log")).unwrap();
        log.file.try_clone().unwrap().write_all(&vec![b'x'; 1 << 20]).unwrap();
        assert_eq!(log.tail(20).len() as u64, LOG_TAIL_BYTES);
    }
}
