//! Writes lines in a separate thread. A load passes lines to this thread and never waits, even if
//! the reader of the lines is slow or has stalled (a full pipe, a stopped terminal).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::background::Background;

/// A thread that writes lines in their order.
#[derive(Debug)]
pub struct LineWriter {
    thread: Background<LineOutput>,
    /// Number of lines passed to [`LineWriter::line`].
    lines: u64,
    /// Number of lines written without an error.
    written: Arc<AtomicU64>,
}

/// The output of the thread.
struct LineOutput {
    write: Box<dyn FnMut(&str) -> io::Result<()> + Send>,
    /// The first error. Later lines are not written.
    error: Option<io::Error>,
    written: Arc<AtomicU64>,
}

impl LineOutput {
    fn line(&mut self, line: &str) {
        if self.error.is_some() {
            return;
        }
        match (self.write)(line) {
            Ok(()) => {
                self.written.fetch_add(1, Ordering::AcqRel);
            }
            Err(error) => self.error = Some(error),
        }
    }
}

/// The state of a writer when [`LineWriter::end`] returns.
#[derive(Debug)]
pub enum WriterState {
    /// Every line of the queue was written.
    Finished,
    /// The writer still waits for its reader.
    Blocked,
    /// A line could not be written. No later line was written either.
    Failed(io::Error),
}

/// The state of a writer, and the number of lost lines.
#[derive(Debug)]
pub struct WriterEnd {
    pub state: WriterState,
    /// Number of lines that were not written. An incomplete line counts.
    pub missing_lines: u64,
}

impl LineWriter {
    /// Starts a thread that passes each line to `write`, without its line feed. After the first
    /// error of `write` all further lines are dropped.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        write: impl FnMut(&str) -> io::Result<()> + Send + 'static,
    ) -> io::Result<LineWriter> {
        let written = Arc::new(AtomicU64::new(0));
        let output =
            LineOutput { write: Box::new(write), error: None, written: Arc::clone(&written) };
        Ok(LineWriter { thread: Background::start("lines", output)?, lines: 0, written })
    }

    /// Puts a line into the queue. Never waits: if the queue is full, or an earlier line could not
    /// be written, the line is dropped and counted.
    pub fn line(&mut self, line: String) {
        self.lines += 1;
        // A dropped line is missing from the number of written lines.
        self.thread.apply(move |output| output.line(&line));
    }

    /// Waits until every line of the queue is written, but at most for `patience`.
    #[must_use]
    pub fn end(mut self, patience: Duration) -> WriterEnd {
        let output = self.thread.end(patience).and_then(|end| end.value);
        let state = match output.map(|output| output.error) {
            None => WriterState::Blocked,
            Some(None) => WriterState::Finished,
            Some(Some(error)) => WriterState::Failed(error),
        };
        WriterEnd { state, missing_lines: self.lines - self.written.load(Ordering::Acquire) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, ErrorKind, PipeReader, Write as _};
    use std::thread;

    use super::*;
    use crate::background::QUEUE_STEPS;

    /// A patient wait for an event that certainly comes.
    const LONG: Duration = Duration::from_secs(60);

    fn writer_to_pipe() -> (PipeReader, LineWriter) {
        let (reader, mut writer) = io::pipe().unwrap();
        let lines = LineWriter::start(move |line| writeln!(writer, "{line}")).unwrap();
        (reader, lines)
    }

    /// A line that no pipe takes as a whole, so that writing it waits for the reader.
    fn long_line() -> String {
        "x".repeat(8 << 20)
    }

    #[test]
    fn lines_are_written_in_their_order() {
        let (reader, mut lines) = writer_to_pipe();
        (0..100).for_each(|n| lines.line(n.to_string()));
        let end = lines.end(LONG);
        assert!(matches!(end.state, WriterState::Finished), "{end:?}");
        assert_eq!(end.missing_lines, 0);
        let read: Vec<String> = BufReader::new(reader).lines().map(Result::unwrap).collect();
        assert_eq!(read, (0..100).map(|n| n.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn blocked_writer_delays_nothing_and_counts_lines() {
        let (reader, mut lines) = writer_to_pipe();
        lines.line(long_line());
        let more = 2 * QUEUE_STEPS as u64;
        (0..more).for_each(|n| lines.line(n.to_string()));
        let end = lines.end(Duration::ZERO);
        assert!(matches!(end.state, WriterState::Blocked), "{end:?}");
        assert_eq!(end.missing_lines, 1 + more);
        drop(reader);
    }

    #[test]
    fn reader_that_continues_gets_lines_of_queue() {
        let (reader, mut lines) = writer_to_pipe();
        lines.line(long_line());
        let more = 2 * QUEUE_STEPS as u64;
        (0..more).for_each(|n| lines.line(n.to_string()));
        let reader = thread::spawn(move || BufReader::new(reader).lines().count() as u64);
        let end = lines.end(LONG);
        assert!(matches!(end.state, WriterState::Finished), "{end:?}");
        let read = reader.join().unwrap();
        assert!(read >= QUEUE_STEPS as u64, "{read}");
        assert_eq!(read + end.missing_lines, 1 + more);
    }

    #[test]
    fn broken_pipe_is_error_of_writer() {
        let (reader, mut lines) = writer_to_pipe();
        drop(reader);
        (0..3).for_each(|n| lines.line(n.to_string()));
        let end = lines.end(LONG);
        let WriterState::Failed(error) = &end.state else { panic!("{end:?}") };
        assert_eq!((error.kind(), end.missing_lines), (ErrorKind::BrokenPipe, 3));
    }
}
