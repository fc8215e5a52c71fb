//! Stores the output of a program in a file of bounded length, and reads its last lines.
//!
//! The output goes to a file, not to a pipe. If dyno did not read a pipe fast enough, the server
//! would wait in the middle of a request. Writing to a file costs the server the usual cost of
//! logging. dyno checks the length at intervals and truncates a file that is too long, which takes
//! less than a millisecond.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use crate::folder;
use crate::limits::{LINE_BYTES, LOG_BYTES, LOG_CHECK_INTERVAL, LOG_TAIL_BYTES};
use crate::secret_values::SecretValues;

/// File with the output of a program.
#[derive(Debug)]
pub struct Log {
    file: File,
    /// Last bytes before the latest truncation.
    truncated_end: Mutex<Vec<u8>>,
    /// Number of truncations.
    truncations: AtomicUsize,
    /// Secrets of the program's environment, which are erased from all texts of its output.
    secrets: SecretValues,
}

impl Log {
    /// Creates the file. `secrets`: the secrets in the program's environment.
    ///
    /// # Errors
    /// The file exists, or cannot be created.
    pub fn create(path: &Path, secrets: SecretValues) -> io::Result<Log> {
        // The file is in append mode, so that a write after a truncation goes to the new end.
        let file = folder::create(path, OpenOptions::new().read(true).append(true), 0o600)?;
        Ok(Log::new(file, secrets))
    }

    /// Creates a file without a name. The kernel removes it when its last descriptor is closed.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn anonymous(secrets: SecretValues) -> io::Result<Log> {
        Ok(Log::new(tempfile::tempfile()?, secrets))
    }

    fn new(file: File, secrets: SecretValues) -> Log {
        Log { file, truncated_end: Mutex::default(), truncations: AtomicUsize::new(0), secrets }
    }

    /// Returns the file as the output of a program.
    ///
    /// # Errors
    /// No more files can be opened.
    pub fn stdio(&self) -> io::Result<Stdio> {
        Ok(self.file.try_clone()?.into())
    }

    /// Truncates the file if it is too long.
    pub fn trim(&self) {
        if self.file.metadata().is_ok_and(|m| m.len() > LOG_BYTES) {
            let end = read_end(&self.file, LOG_TAIL_BYTES);
            // Text that is written between these two calls is lost.
            if self.file.set_len(0).is_ok() {
                self.truncations.fetch_add(1, Ordering::AcqRel);
                *self.truncated_end.lock().unwrap_or_else(PoisonError::into_inner) = end;
            }
        }
    }

    /// Erases the secrets from the file, which may outlive the program.
    ///
    /// # Errors
    /// The file cannot be truncated, so it still has the secrets.
    pub fn erase_secrets(&self) -> io::Result<()> {
        self.trim();
        let output = read_end(&self.file, LOG_BYTES);
        let text = self.secrets.erase(&output, &[0, output.len()]);
        if text == String::from_utf8_lossy(&output) {
            return Ok(());
        }
        self.file.set_len(0)?;
        // `write_all_at` is used, because the program has moved the position that dyno shares with
        // it. An error is ignored: on a full file system the end of the output is lost, but the
        // secrets are erased.
        let _ = self.file.write_all_at(text.as_bytes(), 0);
        Ok(())
    }

    /// Returns the text of a part of the output, without the secrets. The part may begin or end
    /// within a secret.
    #[must_use]
    pub fn text(&self, output: &[u8]) -> String {
        self.secrets.erase(output, &[0, output.len()])
    }

    /// Reads the bytes from an offset on. They include secrets, so they are only for comparisons
    /// and must not be quoted. `None`: the log was truncated, so the bytes are incomplete.
    #[must_use]
    pub fn bytes_from(&self, offset: u64) -> Option<Vec<u8>> {
        let length = self.file.metadata().map_or(0, |m| m.len());
        let bytes = read_end(&self.file, length.saturating_sub(offset));
        // This is checked after the read, because the log may be truncated during the read.
        (self.truncations.load(Ordering::Acquire) == 0).then_some(bytes)
    }

    /// Returns the length of the file, bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.file.metadata().map_or(0, |m| m.len())
    }

    /// Whether nothing has been written since the start, or since the last truncation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the last lines without the secrets. The lines have at most [`LOG_TAIL_BYTES`] bytes
    /// together, including the secrets.
    #[must_use]
    pub fn tail(&self, lines: usize) -> String {
        let mut bytes = self.truncated_end.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Output that was written during the truncation is missing at this offset.
        let joint_offset = bytes.len();
        bytes.extend(read_end(&self.file, LOG_TAIL_BYTES));
        let from = bytes.len().saturating_sub(LOG_TAIL_BYTES as usize);
        let cuts = [0, joint_offset.saturating_sub(from), bytes.len() - from];
        let text = self.secrets.erase(&bytes[from..], &cuts);
        let all_lines: Vec<&str> = text.lines().collect();
        all_lines[all_lines.len().saturating_sub(lines)..].join("\n")
    }
}

/// Text at the end of a line that was cut.
const CUT_MARK: &str = " … (line cut)";

/// Reader of the new lines of a log. Lines longer than [`LINE_BYTES`] are cut.
#[derive(Debug)]
pub struct LogFollower<'a> {
    log: &'a Log,
    /// Offset of the first byte that has not been read.
    offset: u64,
    /// Beginning of a line that is not complete yet, at most [`LINE_BYTES`] between two reads.
    partial_line: Vec<u8>,
    /// Whether the beginning of the current line was too long and has been passed on. The rest of
    /// the line is skipped.
    is_skipping: bool,
    /// Position in `partial_line` at which a truncation removed output.
    cut: Option<usize>,
    /// Number of truncations at the last read.
    truncations: usize,
}

impl<'a> LogFollower<'a> {
    #[must_use]
    pub fn new(log: &'a Log) -> LogFollower<'a> {
        LogFollower {
            log,
            offset: 0,
            partial_line: Vec::new(),
            is_skipping: false,
            cut: None,
            truncations: 0,
        }
    }

    /// Passes each new complete line to `on_line`, without the secrets. Lines that a truncation has
    /// removed since the last call are skipped.
    pub fn read_lines(&mut self, on_line: &mut dyn FnMut(&str)) {
        let length = self.log.file.metadata().map_or(0, |m| m.len());
        let truncations = self.log.truncations.load(Ordering::Acquire);
        if length < self.offset {
            self.offset = 0;
        }
        if self.offset == 0 || truncations != self.truncations {
            self.cut = Some(self.partial_line.len());
        }
        self.truncations = truncations;
        let mut bytes = vec![0; LINE_BYTES];
        while let Ok(n @ 1..) = self.log.file.read_at(&mut bytes, self.offset) {
            self.offset += n as u64;
            self.add(&bytes[..n], on_line);
        }
    }

    /// Adds output, and passes the complete lines to `on_line`. The beginning of a line that is too
    /// long is also passed on.
    fn add(&mut self, output: &[u8], on_line: &mut dyn FnMut(&str)) {
        let mut output = output;
        if self.is_skipping {
            let Some(end) = output.iter().position(|byte| *byte == b'\n') else { return };
            output = &output[end + 1..];
            self.is_skipping = false;
        }
        self.partial_line.extend_from_slice(output);
        if let Some(end) = self.partial_line.iter().rposition(|byte| *byte == b'\n') {
            let partial_line = self.partial_line.split_off(end + 1);
            let complete = std::mem::replace(&mut self.partial_line, partial_line);
            let text = self.text(&complete[..end]);
            text.split('\n').for_each(|line| on_line(&cut_line(line)));
        }
        if self.partial_line.len() > LINE_BYTES {
            let line = std::mem::take(&mut self.partial_line);
            let beginning = self.text(&line[..LINE_BYTES]);
            on_line(&(beginning + CUT_MARK));
            self.is_skipping = true;
        }
    }

    /// Returns the text of output up to the end of a line, or up to a cut, without the secrets.
    fn text(&mut self, output: &[u8]) -> String {
        let cuts = [self.cut.take().unwrap_or(0), output.len()];
        self.log.secrets.erase(output, &cuts)
    }

    /// Passes all remaining lines to `on_line`, including an incomplete last line.
    pub fn finish(mut self, on_line: &mut dyn FnMut(&str)) {
        self.read_lines(on_line);
        if !self.partial_line.is_empty() {
            let partial_line = std::mem::take(&mut self.partial_line);
            on_line(&self.text(&partial_line));
        }
    }
}

/// Cuts a line without secrets to [`LINE_BYTES`] and a mark, if it is longer.
fn cut_line(line: &str) -> Cow<'_, str> {
    if line.len() <= LINE_BYTES {
        return Cow::Borrowed(line);
    }
    let end = (0..=LINE_BYTES).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(0);
    Cow::Owned(format!("{}{CUT_MARK}", &line[..end]))
}

/// Reads at most `max_bytes` bytes from the end of a file.
fn read_end(file: &File, max_bytes: u64) -> Vec<u8> {
    let length = file.metadata().map_or(0, |m| m.len());
    let from = length.saturating_sub(max_bytes);
    let mut bytes = vec![0; (length - from) as usize];
    let mut read = 0;
    while let Ok(n @ 1..) = file.read_at(&mut bytes[read..], from + read as u64) {
        read += n;
    }
    bytes.truncate(read);
    bytes
}

/// Thread that trims a log until the value is dropped.
#[derive(Debug)]
pub struct LogTrimmer {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LogTrimmer {
    #[must_use]
    pub fn new(log: &Arc<Log>) -> LogTrimmer {
        let log = Arc::clone(log);
        let (stop, stop_signal) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            while stop_signal.recv_timeout(LOG_CHECK_INTERVAL)
                == Err(mpsc::RecvTimeoutError::Timeout)
            {
                log.trim();
            }
        });
        LogTrimmer { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for LogTrimmer {
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

    use std::ffi::OsStr;
    use std::io::Write as _;

    #[test]
    fn log_is_bounded_and_keeps_its_end() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("log");
        let log = Log::create(&path, SecretValues::default()).unwrap();
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
        // Right after a truncation the lines before it are still returned.
        std::iter::repeat_n(&line, (LOG_BYTES / 100) as usize + 1)
            .for_each(|l| writeln!(writer, "{l}").unwrap());
        log.trim();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        assert_eq!(log.tail(2), format!("{line}\n{line}"));
    }

    const TOKEN: &str = "Zq81-hhTT-0123456789";

    fn log_with_token(folder: &Path) -> Log {
        let secrets = SecretValues::from_variables([("MY_TOKEN", OsStr::new(TOKEN))]);
        Log::create(&folder.join("log"), secrets).unwrap()
    }

    #[test]
    fn followed_lines_have_no_secret_of_two_reads() {
        let root = tempfile::tempdir().unwrap();
        let log = log_with_token(root.path());
        let mut writer = log.file.try_clone().unwrap();
        let mut follower = LogFollower::new(&log);
        let mut lines = Vec::new();
        for part in ["a ", &TOKEN[..9], &TOKEN[9..], " b\n", &TOKEN[..9]] {
            writer.write_all(part.as_bytes()).unwrap();
            follower.read_lines(&mut |line| lines.push(line.to_string()));
        }
        // The rest of the line is lost in a truncation, and the next one begins within the secret.
        log.file.set_len(0).unwrap();
        writeln!(writer, "{} c", &TOKEN[12..]).unwrap();
        follower.read_lines(&mut |line| lines.push(line.to_string()));
        writer.write_all(&TOKEN.as_bytes()[..15]).unwrap();
        follower.finish(&mut |line| lines.push(line.to_string()));
        let mark = dyno_config::secret::NOT_RECORDED;
        let expected = [format!("a {mark} b"), format!("{mark}{mark} c"), mark.into()];
        assert_eq!(lines, expected);
    }

    #[test]
    fn output_without_line_feed_is_cut_and_bounded() {
        let root = tempfile::tempdir().unwrap();
        let log = log_with_token(root.path());
        let mut writer = log.file.try_clone().unwrap();
        let mut follower = LogFollower::new(&log);
        let mut lines = Vec::new();
        // The secret lies across the end of the part that is kept.
        let kept = "x".repeat(LINE_BYTES - 9);
        write!(writer, "{kept}{TOKEN}").unwrap();
        for _ in 0..8 {
            writer.write_all(&vec![b'y'; LINE_BYTES]).unwrap();
            follower.read_lines(&mut |line| lines.push(line.to_string()));
            assert!(follower.partial_line.len() <= LINE_BYTES);
        }
        writeln!(writer, "\nnext").unwrap();
        follower.finish(&mut |line| lines.push(line.to_string()));
        let mark = dyno_config::secret::NOT_RECORDED;
        assert_eq!(lines, [format!("{kept}{mark}{CUT_MARK}"), "next".into()]);
    }

    #[test]
    fn complete_long_line_is_cut_between_characters() {
        let root = tempfile::tempdir().unwrap();
        let log = Log::create(&root.path().join("log"), SecretValues::default()).unwrap();
        let mut writer = log.file.try_clone().unwrap();
        let longest = "x".repeat(LINE_BYTES);
        writeln!(writer, "a\n{}ä\n{longest}", &longest[1..]).unwrap();
        let mut lines = Vec::new();
        LogFollower::new(&log).finish(&mut |line| lines.push(line.to_string()));
        let expected = ["a".into(), format!("{}{CUT_MARK}", &longest[1..]), longest.clone()];
        let lengths: Vec<usize> = lines.iter().map(String::len).collect();
        assert!(lines == expected, "{lengths:?}");
    }

    #[test]
    fn tail_has_no_secret_cut_at_its_beginning_or_end() {
        let root = tempfile::tempdir().unwrap();
        let log = log_with_token(root.path());
        let mut writer = log.file.try_clone().unwrap();
        let rest = "x".repeat(LOG_TAIL_BYTES as usize - 8 - 9);
        write!(writer, "{TOKEN}{rest}{}", &TOKEN[..9]).unwrap();
        let mark = dyno_config::secret::NOT_RECORDED;
        assert_eq!(log.tail(20), format!("{mark}{rest}{mark}"));
    }

    #[test]
    fn stored_log_has_no_secrets() {
        let root = tempfile::tempdir().unwrap();
        let log = log_with_token(root.path());
        let mut writer = log.file.try_clone().unwrap();
        write!(writer, "a {TOKEN}\n\u{FFFD}b").unwrap();
        log.erase_secrets().unwrap();
        let stored = std::fs::read_to_string(root.path().join("log")).unwrap();
        assert_eq!(stored, format!("a {}\n\u{FFFD}b", dyno_config::secret::NOT_RECORDED));
    }

    #[test]
    fn tail_of_long_line_is_bounded() {
        let root = tempfile::tempdir().unwrap();
        let log = Log::create(&root.path().join("log"), SecretValues::default()).unwrap();
        log.file.try_clone().unwrap().write_all(&vec![b'x'; 1 << 20]).unwrap();
        assert_eq!(log.tail(20).len() as u64, LOG_TAIL_BYTES);
    }
}
