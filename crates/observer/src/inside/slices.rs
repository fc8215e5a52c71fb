//! When system calls are counted: all the time where that is cheap, else in short slices, so that counting them costs a server
//! no more than its share.
//!
//! The kernel takes a slower path through every system call while somebody counts them. A server that makes 300,000 calls per
//! second would lose a tenth of its throughput; one that makes 10,000 would not notice.

use std::time::Duration;

/// What one counted system call costs, in nanoseconds. Measured with h2o on Linux 6.18 in a virtual machine: 150 for the slower
/// path, as much again for counting.
const CALL_NS: f64 = 300.0;

/// Share of the machine's busiest CPU that counting may cost.
const BUDGET: f64 = 0.008;

/// Length of a slice where calls are not counted all the time.
const SLICE: Duration = Duration::from_millis(20);

/// Length of what is counted at once where they are: how soon a higher rate is noticed.
const ALWAYS: Duration = Duration::from_millis(100);

/// The first slice, from which the rate is learnt.
const FIRST: Duration = Duration::from_millis(10);

/// The longest time between slices.
const LONGEST_GAP: Duration = Duration::from_millis(900);

/// The next stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) counted: Duration,
    /// Until the next slice, without counting.
    pub(super) gap: Duration,
}

/// Plans slices, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Slices {
    /// Count every call, whatever that costs.
    is_every: bool,
    /// Number of slices so far.
    number: u32,
}

impl Slices {
    pub(super) const fn new(is_every: bool) -> Slices {
        Slices { is_every, number: 0 }
    }

    /// The slice after one in which so many calls per second were made on the busiest CPU; `None`: there was none yet.
    pub(super) fn next(&mut self, calls_per_s: Option<f64>) -> Slice {
        self.number += 1;
        let share = match calls_per_s {
            _ if self.is_every => 1.0,
            None => return Slice { counted: FIRST, gap: Duration::ZERO },
            Some(rate) => (BUDGET / (rate * CALL_NS / 1e9)).min(1.0),
        };
        if share >= 1.0 {
            return Slice { counted: ALWAYS, gap: Duration::ZERO };
        }
        let gap = SLICE.mul_f64(1.0 / share - 1.0).mul_f64(self.stretch());
        Slice { counted: SLICE, gap: gap.min(LONGEST_GAP) }
    }

    /// Between 0.5 and 1.5, spread evenly: slices at even distances could keep in step with something that the server does.
    fn stretch(&self) -> f64 {
        const GOLDEN_RATIO: f64 = 0.618_033_988_749_895;
        0.5 + (f64::from(self.number) * GOLDEN_RATIO).fract()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_calls_are_counted_all_the_time() {
        let mut slices = Slices::new(false);
        assert_eq!(slices.next(None), Slice { counted: FIRST, gap: Duration::ZERO });
        assert_eq!(slices.next(Some(0.0)).gap, Duration::ZERO);
        assert_eq!(slices.next(Some(20_000.0)), Slice { counted: ALWAYS, gap: Duration::ZERO });
    }

    #[test]
    fn many_calls_are_counted_for_what_the_budget_allows() {
        let mut slices = Slices::new(false);
        let rate = 300_000.0;
        let all: Vec<Slice> = (0..1000).map(|_| slices.next(Some(rate))).collect();
        let counted: f64 = all.iter().map(|s| s.counted.as_secs_f64()).sum();
        let whole: f64 = all.iter().map(|s| (s.counted + s.gap).as_secs_f64()).sum();
        let cost = counted / whole * rate * CALL_NS / 1e9;
        assert!((cost - BUDGET).abs() < BUDGET / 50.0, "{cost}");
        assert!(all.windows(2).any(|pair| pair[0].gap != pair[1].gap));
        assert!(slices.next(Some(1e9)).gap == LONGEST_GAP);
    }

    #[test]
    fn every_call_is_counted_where_that_is_asked_for() {
        let mut slices = Slices::new(true);
        assert_eq!(slices.next(None), slices.next(Some(1e9)));
        assert_eq!(slices.next(Some(1e9)).gap, Duration::ZERO);
    }
}
