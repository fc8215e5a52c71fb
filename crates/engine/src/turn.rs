//! The event loop that runs a worker on a driver, turn by turn. Workers and drivers contain no
//! loop, so each can be tested alone.

use dyno_model::interval::Interval;

use crate::driver::Wait;
use crate::{Instant, StreamDriver, Worker, limits};

/// Request to end a load, polled once per turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    No,
    /// The measured window ends at this instant, the same for all workers. The workers still wait
    /// for requests in flight.
    At(Instant),
    /// Ends the window as `At` does, but waits for requests in flight only for
    /// [`limits::CUT_DRAIN_NS`]. For interactive use, because a user waits for the result.
    Now(Instant),
}

/// Runs a worker from its first connection to the end of its drain, and closes its connections.
pub fn run<D: StreamDriver>(
    worker: &mut Worker,
    driver: &mut D,
    begin: impl FnMut() -> Option<Instant>,
    stop: impl FnMut(u64) -> Stop,
    seal: impl FnMut(Interval),
) {
    run_until_drained(worker, driver, begin, stop, seal);
    worker.close(driver);
}

/// Runs a worker from its first connection to the end of its drain. The connections stay open: some
/// servers end a thread or process when its connection closes, and the counters of that thread or
/// process would be lost.
///
/// Once all connections have been tried, each turn calls `begin` until it returns the instant at
/// which the load begins, the same for all workers. `stop` receives the number of complete
/// responses so far. `seal` receives each interval when it ends.
pub fn run_until_drained<D: StreamDriver>(
    worker: &mut Worker,
    driver: &mut D,
    mut begin: impl FnMut() -> Option<Instant>,
    mut stop: impl FnMut(u64) -> Stop,
    mut seal: impl FnMut(Interval),
) {
    worker.open(driver);
    let mut has_begun = false;
    while !worker.is_finished() {
        if !has_begun
            && worker.is_ready()
            && let Some(at) = begin()
        {
            worker.begin(at);
            has_begun = true;
        }
        match stop(worker.responses()) {
            Stop::No => {}
            Stop::At(at) => worker.end_window(at),
            Stop::Now(at) => worker.end_window_soon(at),
        }
        if worker.is_finished() {
            break;
        }
        turn(worker, driver);
        if worker.has_sealed() {
            worker.take_sealed().into_iter().for_each(&mut seal);
        }
    }
    check_late_bytes(worker, driver);
    worker.take_sealed().into_iter().for_each(&mut seal);
}

/// Waits briefly for bytes after the last response. A server that sends one response too many can
/// send the extra response after the load.
fn check_late_bytes<D: StreamDriver>(worker: &mut Worker, driver: &mut D) {
    let Some(until) = worker.late_bytes_until() else { return };
    loop {
        let turn = driver.turn(Wait::sleep_until(until), &mut |_, _| ());
        while let Some(completion) = driver.next() {
            worker.complete_after_load(completion, driver);
        }
        if turn.woke >= until {
            return;
        }
    }
}

/// Runs one turn: hands over requests, waits, handles completions, and starts scheduled work.
pub(crate) fn turn<D: StreamDriver>(worker: &mut Worker, driver: &mut D) {
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
    // Requests whose intended start came while completions were handled start now, not after the
    // next wait. A closed loop has no schedule, so the clock is not read again. `now` is then the
    // instant of the last completion, because the recorder's time must not go back.
    let now = if worker.has_schedule() { driver.now() } else { latest.max(turn.woke) };
    worker.run_due(now, driver);
}
