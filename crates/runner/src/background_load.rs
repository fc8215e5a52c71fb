//! A load that runs for as long as a measurement of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use dyno_launch::supervision::Interrupts;
use dyno_observer::kernel_probes::CallCounter;

use crate::limits::{ANSWERS_GLANCE, ANSWERS_GLANCES};
use crate::load::{self, AnswerCounts, LoadSpec, LoadStopReason, Watch};

/// Returns whether the measurement is to end: the user interrupted it, or the load is over.
pub(crate) type IsEnded<'a> = dyn Fn() -> bool + Sync + 'a;

/// Loads a server without a set end, and calls `look` once it responds and the warm-up of the load
/// is over. The load ends when `look` returns.
///
/// # Errors
/// The load cannot begin, there are no responses, the server fails, or `look` fails; as a sentence.
pub(crate) fn run_while_loaded<T: Send>(
    spec: &LoadSpec,
    interrupts: &Interrupts,
    look: impl FnOnce(&AnswerCounts, &IsEnded<'_>) -> Result<T, String> + Send,
) -> Result<T, String> {
    let load = dyno_archive::plan::Load { duration_ns: 0, requests: None, ..spec.load.clone() };
    let spec = LoadSpec { load, ..spec.clone() };
    let answers = AnswerCounts::new(spec.threads());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let is_ended = || interrupts.count() > 0 || is_over.load(Ordering::Acquire);
            let seen = wait_for_answers(&answers, &is_ended).and_then(|()| {
                wait(Duration::from_nanos(spec.load.warmup_ns), &is_ended);
                look(&answers, &is_ended)
            });
            is_over.store(true, Ordering::Release);
            seen
        });
        let record =
            load::run(&spec, &mut Watcher { answers: &answers, is_over: &is_over, interrupts });
        // If the load could not begin, the measurement must not wait for its responses.
        is_over.store(true, Ordering::Release);
        let seen = looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match record?.server_failure {
            Some(failure) => Err(failure),
            None => seen,
        }
    })
}

/// Counts system calls while loads run, until the sender of `stop` is dropped. `answers`: responses
/// of each load, in the order in which `counting` has their processes.
///
/// # Errors
/// The kernel stopped counting; in words.
pub(crate) fn count(
    counting: &mut CallCounter,
    answers: &[&AnswerCounts],
    stop: &mpsc::Receiver<()>,
) -> Result<(), String> {
    let mut wait =
        |pause| !matches!(stop.recv_timeout(pause), Err(mpsc::RecvTimeoutError::Timeout));
    counting.run(&|load| Some(answers[load].total()), &mut wait)
}

/// Waits until the server responds. A load without responses has no results.
fn wait_for_answers(answers: &AnswerCounts, is_ended: &IsEnded<'_>) -> Result<(), String> {
    for _ in 0..ANSWERS_GLANCES {
        if answers.total() > 0 || is_ended() {
            return Ok(());
        }
        thread::sleep(ANSWERS_GLANCE);
    }
    Err("no response within 10 s".into())
}

/// Waits for this length, or until the end of the measurement.
fn wait(length: Duration, is_ended: &IsEnded<'_>) {
    let glances = length.as_nanos() / ANSWERS_GLANCE.as_nanos();
    (0..glances).take_while(|_| !is_ended()).for_each(|_| thread::sleep(ANSWERS_GLANCE));
}

/// Ends the load once the measurement is done.
struct Watcher<'a> {
    answers: &'a Arc<AnswerCounts>,
    is_over: &'a AtomicBool,
    interrupts: &'a Interrupts,
}

impl Watch for Watcher<'_> {
    fn answers(&self) -> Option<Arc<AnswerCounts>> {
        Some(Arc::clone(self.answers))
    }

    fn stop(&mut self) -> Option<LoadStopReason> {
        let is_ended = self.interrupts.count() > 0 || self.is_over.load(Ordering::Acquire);
        is_ended.then_some(LoadStopReason::Stopped)
    }
}
