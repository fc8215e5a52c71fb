//! Observes times in which dyno did not run, although it was due and did not wait for a CPU.
//!
//! A worker that waits for responses has no planned end of its wait, so it does not notice that it
//! was stopped meanwhile. The control thread sleeps for short times with a planned end. SIGSTOP,
//! the freezer of a control group and a stopped virtual machine stop it together with the workers.

use std::time::Duration;

use dyno_model::machine::Stops;

use crate::limits::STOP_CHECK_INTERVAL;

/// Shortest pause that is counted, nanoseconds. Timers of a busy machine are late by less.
const MIN_PAUSE_NS: u64 = 2_000_000;

/// Shortest planned sleep of the control thread.
const MIN_SLEEP: Duration = Duration::from_millis(5);

/// Pauses of the control thread.
#[derive(Debug)]
pub(crate) struct ControlPauses {
    /// `None`: waits for a CPU are unknown.
    total: Option<Stops>,
    /// Time for which the thread has waited for a CPU, at the last reading.
    waited_ns: u64,
    /// State of the pseudo-random sleeps.
    seed: u32,
}

impl ControlPauses {
    /// `waited_ns`: time for which the thread has waited for a CPU. `None`: unknown.
    pub(crate) fn new(waited_ns: Option<u64>) -> ControlPauses {
        let total = waited_ns.map(|_| Stops::default());
        ControlPauses { total, waited_ns: waited_ns.unwrap_or(0), seed: 1 }
    }

    /// Returns the length of the next sleep, at most `limit`. Lengths differ, so that regular
    /// pauses do not fall between the ends of the sleeps.
    pub(crate) fn next_sleep(&mut self, limit: Duration) -> Duration {
        // Numerical Recipes, section 7.1.
        self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let range = STOP_CHECK_INTERVAL.saturating_sub(MIN_SLEEP);
        limit.min(MIN_SLEEP + range.mul_f64(f64::from(self.seed >> 16) / 65_536.0))
    }

    /// Counts the end of a sleep. `late_ns`: time since the planned end. `waited_ns`: reads the
    /// time for which the thread has waited for a CPU, which takes some microseconds.
    pub(crate) fn count(&mut self, late_ns: u64, waited_ns: impl FnOnce() -> Option<u64>) {
        if late_ns < MIN_PAUSE_NS {
            return;
        }
        let Some(waited_ns) = waited_ns() else { return self.total = None };
        // Waits since the last reading, of which some may be outside of this pause.
        let waits_ns = waited_ns.saturating_sub(std::mem::replace(&mut self.waited_ns, waited_ns));
        let stopped_ns = late_ns.saturating_sub(waits_ns);
        if let Some(total) = self.total.as_mut().filter(|_| stopped_ns >= MIN_PAUSE_NS) {
            total.count += 1;
            total.ns += stopped_ns;
        }
    }

    /// Returns the pauses so far. `None`: unknown.
    pub(crate) const fn total(&self) -> Option<Stops> {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn pause_excludes_waits_for_a_cpu() {
        let mut pauses = ControlPauses::new(Some(100));
        pauses.count(15 * MS, || Some(100));
        let stops = |count: u64, ms: u64| Some(Stops { count, ns: ms * MS });
        assert_eq!(pauses.total(), stops(1, 15));
        pauses.count(15 * MS, || Some(100 + 10 * MS));
        assert_eq!(pauses.total(), stops(2, 20));
        pauses.count(15 * MS, || Some(100 + 24 * MS));
        assert_eq!(pauses.total(), stops(2, 20), "1 ms may be the timer");
        pauses.count(2 * MS - 1, || panic!("an ordinary delay"));
        pauses.count(15 * MS, || None);
        assert_eq!(pauses.total(), None);
        let mut unknown = ControlPauses::new(None);
        unknown.count(15 * MS, || Some(0));
        assert_eq!(unknown.total(), None);
    }

    /// Simulates a program that is stopped regularly. Regular sleeps would always end in a run.
    #[test]
    fn regular_pauses_are_seen() {
        for (run_ms, stop_ms) in [(15, 15), (25, 15), (5, 15), (10, 10), (40, 20)] {
            let (mut pauses, mut now) = (ControlPauses::new(Some(0)), 0);
            let period = (run_ms + stop_ms) * MS;
            while now < 3000 * MS {
                let until = now + pauses.next_sleep(STOP_CHECK_INTERVAL).as_nanos() as u64;
                let is_stopped = until % period >= run_ms * MS;
                now = if is_stopped { until.next_multiple_of(period) } else { until };
                pauses.count(now - until, || Some(0));
            }
            let seen = pauses.total().unwrap().ns;
            let stopped = 3000 * MS * stop_ms / (run_ms + stop_ms);
            assert!((stopped / 4..=stopped).contains(&seen), "{run_ms} {stop_ms}: {seen}");
        }
    }
}
