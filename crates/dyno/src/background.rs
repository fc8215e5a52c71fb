//! A thread that writes to a terminal, a pipe or a file. A run passes steps to it and never waits,
//! even if the terminal is stopped (Ctrl-S) or the pipe is full.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

/// Maximum number of steps that wait to be applied. Further steps are dropped and counted.
pub const QUEUE_STEPS: usize = 4096;

/// Maximum time for which dyno waits until the queued steps are applied. dyno waits only while no
/// load is running.
pub const PATIENCE: Duration = Duration::from_secs(2);

type Step<T> = Box<dyn FnOnce(&mut T) + Send>;

/// A thread that owns a value and applies steps to it, in their order.
pub struct Background<T> {
    /// `None`: the thread was ended.
    running: Option<RunningThread<T>>,
    dropped: Cell<u64>,
}

struct RunningThread<T> {
    queue: SyncSender<Step<T>>,
    /// The value, sent once after the last step.
    value: Receiver<T>,
}

/// What became of the steps of a thread.
#[derive(Debug)]
pub struct BackgroundEnd<T> {
    /// The value after all steps of the queue. `None`: the thread still waits for its output, or a
    /// step has panicked.
    pub value: Option<T>,
    /// Number of steps that were not queued.
    pub dropped: u64,
}

impl<T> fmt::Debug for Background<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("dropped", &self.dropped).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Background<T> {
    /// Starts the thread. `name`: its name, at most 15 bytes.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(name: &str, mut value: T) -> io::Result<Background<T>> {
        let (queue, steps) = mpsc::sync_channel::<Step<T>>(QUEUE_STEPS);
        let (sender, receiver) = mpsc::sync_channel(1);
        thread::Builder::new().name(name.into()).spawn(move || {
            steps.into_iter().for_each(|step| step(&mut value));
            // Without a receiver, the caller no longer waits, because the output was blocked for
            // too long.
            let _ = sender.send(value);
        })?;
        let running = Some(RunningThread { queue, value: receiver });
        Ok(Background { running, dropped: Cell::new(0) })
    }

    /// Queues a step. Never waits: if the queue is full, the step is dropped and counted.
    pub fn apply(&self, step: impl FnOnce(&mut T) + Send + 'static) {
        let queue = self.running.as_ref().map(|running| &running.queue);
        let is_queued = queue.is_some_and(|queue| queue.try_send(Box::new(step)).is_ok());
        self.dropped.set(self.dropped.get() + u64::from(!is_queued));
    }

    /// Waits until all steps so far are applied, but at most for `patience`. With a full queue it
    /// does not wait.
    pub fn settle(&self, patience: Duration) {
        let Some(running) = &self.running else { return };
        let (sender, applied) = mpsc::sync_channel(1);
        let is_queued = running.queue.try_send(Box::new(move |_| {
            // Without a receiver, the wait has ended.
            let _ = sender.send(());
        }));
        if is_queued.is_ok() {
            let _ = applied.recv_timeout(patience);
        }
    }

    /// Ends the thread after the queued steps, and waits for its end at most for `patience`. Later
    /// steps are dropped. `None`: an earlier call has ended the thread.
    pub fn end(&mut self, patience: Duration) -> Option<BackgroundEnd<T>> {
        let RunningThread { queue, value } = self.running.take()?;
        // The thread ends after the last step of the queue.
        drop(queue);
        let value = value.recv_timeout(patience).ok();
        Some(BackgroundEnd { value, dropped: self.dropped.get() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// A patient wait for an event that certainly comes.
    const LONG: Duration = Duration::from_secs(60);

    fn collecting() -> (Background<Sender<u64>>, Receiver<u64>) {
        let (sender, receiver) = channel();
        (Background::start("test", sender).unwrap(), receiver)
    }

    #[test]
    fn steps_are_applied_in_their_order() {
        let (mut thread, numbers) = collecting();
        (0..100).for_each(|n| thread.apply(move |sender| sender.send(n).unwrap()));
        let end = thread.end(LONG).unwrap();
        assert_eq!((end.value.is_some(), end.dropped), (true, 0));
        // Numbers end with their sender.
        drop(end);
        assert_eq!(numbers.iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        assert!(thread.end(LONG).is_none());
    }

    /// The terminal is stopped while a step is drawn.
    #[test]
    fn blocked_step_delays_nothing_and_drops_are_counted() {
        let (mut thread, numbers) = collecting();
        let (release, stopped) = channel::<()>();
        let (begin, begun) = channel();
        thread.apply(move |_| {
            begin.send(()).unwrap();
            let _ = stopped.recv();
        });
        begun.recv().unwrap();
        let more = 2 * QUEUE_STEPS as u64;
        (0..more).for_each(|n| thread.apply(move |sender| sender.send(n).unwrap()));
        thread.settle(Duration::ZERO);
        let end = thread.end(Duration::ZERO).unwrap();
        assert_eq!((end.value.is_some(), end.dropped), (false, QUEUE_STEPS as u64));
        drop(release);
        assert_eq!(numbers.iter().count(), QUEUE_STEPS);
    }
    /// A reader that continues gets the steps of a full queue.
    #[test]
    fn end_waits_for_full_queue() {
        let (mut thread, numbers) = collecting();
        let (release, stopped) = channel::<()>();
        thread.apply(move |_| {
            let _ = stopped.recv();
        });
        (0..2 * QUEUE_STEPS as u64).for_each(|n| thread.apply(move |s| s.send(n).unwrap()));
        drop(release);
        let end = thread.end(LONG).unwrap();
        assert!(end.value.is_some());
        drop(end);
        assert!(numbers.iter().count() >= QUEUE_STEPS - 1);
    }
}
