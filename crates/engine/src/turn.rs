//! The loop that joins a worker and a driver.

use dyno_archive::interval::Interval;

use crate::driver::Wait;
use crate::{Driver, Instant, Worker, limits};

/// Whether to continue, asked once per turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    No,
    /// The measured window ends at this instant, the same for all workers. Requests in flight may
    /// still end.
    At(Instant),
    /// As `At`, but requests in flight may end only within [`limits::CUT_DRAIN_NS`]: a user waits
    /// for the result.
    Now(Instant),
}

/// Runs a worker from its first connection to the end of its drain, and closes its connections.
pub fn run<D: Driver>(
    worker: &mut Worker,
    driver: &mut D,
    begin: impl FnMut() -> Option<Instant>,
    stop: impl FnMut(u64) -> Stop,
    seal: impl FnMut(Interval),
) {
    run_until_drained(worker, driver, begin, stop, seal);
    worker.close(driver);
}

/// Runs a worker from its first connection to the end of its drain. Its connections stay open: a
/// server may end threads and processes with their connections, and with them their counters.
///
/// Each turn calls `begin` once the worker has tried all its connections. It returns the instant at
/// which the load begins, the same for all workers. `stop` receives the number of complete answers
/// so far. Sealed intervals go to `seal` as they end.
pub fn run_until_drained<D: Driver>(
    worker: &mut Worker,
    driver: &mut D,
    mut begin: impl FnMut() -> Option<Instant>,
    mut stop: impl FnMut(u64) -> Stop,
    mut seal: impl FnMut(Interval),
) {
    worker.open(driver);
    let mut begun = false;
    while !worker.is_finished() {
        if !begun
            && worker.is_ready()
            && let Some(at) = begin()
        {
            worker.begin(at);
            begun = true;
        }
        match stop(worker.answers()) {
            Stop::No => {}
            Stop::At(at) => worker.cut(at),
            Stop::Now(at) => worker.hurry(at),
        }
        if worker.is_finished() {
            break;
        }
        turn(worker, driver);
        if worker.has_sealed() {
            worker.take_sealed().into_iter().for_each(&mut seal);
        }
    }
    look_last(worker, driver);
    worker.take_sealed().into_iter().for_each(&mut seal);
}

/// Looks for bytes that answer no request after everything has been answered. A server that is one
/// response ahead shows it in nothing else.
fn look_last<D: Driver>(worker: &mut Worker, driver: &mut D) {
    let Some(until) = worker.last_look() else { return };
    loop {
        let turn = driver.turn(Wait::asleep(until), &mut |_, _| ());
        while let Some(completion) = driver.next() {
            worker.complete_late(completion, driver);
        }
        if turn.woke >= until {
            return;
        }
    }
}

/// One turn: hand over, sleep, handle what completed, start what is due.
pub(crate) fn turn<D: Driver>(worker: &mut Worker, driver: &mut D) {
    let wait = worker.wait();
    let turn = driver.turn(wait, &mut |conn, at| worker.on_handed_over(conn, at));
    worker.on_wake(turn, wait, driver);
    let mut handled = 0;
    let mut latest = turn.woke;
    while let Some(completion) = driver.next() {
        latest = completion.at;
        worker.complete(completion, driver);
        handled += 1;
        if handled % limits::COMPLETIONS_PER_FLUSH == 0 {
            driver.flush(&mut |conn, at| worker.on_handed_over(conn, at));
        }
    }
    // Requests that fell due while completions were handled start now and not after the next sleep.
    // Without a schedule nothing is due to the microsecond, and the clock need not be read once
    // more: what begins now begins no earlier than the completion that was handled last, up to
    // which the books have counted.
    let now = if worker.has_schedule() { driver.now() } else { latest.max(turn.woke) };
    worker.fire(now, driver);
}
