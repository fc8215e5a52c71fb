//! Runs a load while another measurement of the server is made, such as a profile or the cost of
//! probes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use dyno_launch::supervision::Interrupts;
use dyno_observer::kernel_probes::CallCounter;

use crate::limits::{RESPONSE_CHECK_INTERVAL, RESPONSE_CHECKS};
use crate::load::{self, LoadSpec, LoadStopReason, ResponseCounts, Watch};

/// Returns whether the measurement has to end, because the user interrupted it or the load is over.
pub(crate) type IsEnded<'a> = dyn Fn() -> bool + Sync + 'a;

/// Loads a server until a measurement is complete. `measure` is called after the load's warm-up,
/// when the server responds. The load ends when `measure` returns.
///
/// # Errors
/// A sentence: the load cannot begin, there are no responses, the server fails, or `measure` fails.
pub(crate) fn run_while_loaded<T: Send>(
    spec: &LoadSpec,
    interrupts: &Interrupts,
    measure: impl FnOnce(&ResponseCounts, &IsEnded<'_>) -> Result<T, String> + Send,
) -> Result<T, String> {
    // A load without a duration and without a number of requests ends only when it is stopped.
    let load = dyno_model::plan::Load { duration_ns: 0, requests: None, ..spec.load.clone() };
    let spec = LoadSpec { load, ..spec.clone() };
    let response_counts = ResponseCounts::new(spec.threads());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let measurement = scope.spawn(|| {
            let is_ended = || interrupts.count() > 0 || is_over.load(Ordering::Acquire);
            let result = wait_for_responses(&response_counts, &is_ended).and_then(|()| {
                wait(Duration::from_nanos(spec.load.warmup_ns), &is_ended);
                measure(&response_counts, &is_ended)
            });
            is_over.store(true, Ordering::Release);
            result
        });
        let record = load::run(
            &spec,
            &mut Watcher { response_counts: &response_counts, is_over: &is_over, interrupts },
        );
        // If the load could not begin, the measurement must not wait for responses.
        is_over.store(true, Ordering::Release);
        let result = measurement.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match record?.server_failure {
            Some(failure) => Err(failure),
            None => result,
        }
    })
}

/// Counts system calls while loads run, until the sender of `stop` is dropped. `response_counts`:
/// one per load, in the order of the loads' processes in `counter`.
///
/// # Errors
/// The kernel stopped counting.
pub(crate) fn count_calls(
    counter: &mut CallCounter,
    response_counts: &[&ResponseCounts],
    stop: &mpsc::Receiver<()>,
) -> Result<(), String> {
    let mut is_stopped_after =
        |pause| !matches!(stop.recv_timeout(pause), Err(mpsc::RecvTimeoutError::Timeout));
    counter.run(&|load| Some(response_counts[load].total()), &mut is_stopped_after)
}

/// Waits until the server responds, because a measurement without responses has no results.
fn wait_for_responses(
    response_counts: &ResponseCounts,
    is_ended: &IsEnded<'_>,
) -> Result<(), String> {
    for _ in 0..RESPONSE_CHECKS {
        if response_counts.total() > 0 || is_ended() {
            return Ok(());
        }
        thread::sleep(RESPONSE_CHECK_INTERVAL);
    }
    Err("the server sent no response within 10 s".into())
}

/// Waits for this length, or until the end of the measurement.
fn wait(length: Duration, is_ended: &IsEnded<'_>) {
    let checks = length.as_nanos() / RESPONSE_CHECK_INTERVAL.as_nanos();
    (0..checks).take_while(|_| !is_ended()).for_each(|_| thread::sleep(RESPONSE_CHECK_INTERVAL));
}

/// Ends the load once the measurement is done.
struct Watcher<'a> {
    response_counts: &'a Arc<ResponseCounts>,
    is_over: &'a AtomicBool,
    interrupts: &'a Interrupts,
}

impl Watch for Watcher<'_> {
    fn response_counts(&self) -> Option<Arc<ResponseCounts>> {
        Some(Arc::clone(self.response_counts))
    }

    fn stop(&mut self) -> Option<LoadStopReason> {
        let is_ended = self.interrupts.count() > 0 || self.is_over.load(Ordering::Acquire);
        is_ended.then_some(LoadStopReason::Stopped)
    }
}
