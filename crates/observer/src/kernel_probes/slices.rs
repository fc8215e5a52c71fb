//! When system calls are counted: all the time where that is cheap, else in short slices, so that
//! counting them costs a server no more than its share.
//!
//! The kernel takes a slower path through every system call while somebody counts them. A server
//! that makes 300,000 calls per second would lose a tenth of its throughput; one that makes 10,000
//! would not notice.

use std::time::Duration;

/// Cost of counting, in nanoseconds. Measured with h2o on Linux 6.18 in a virtual machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price {
    /// Cost per call.
    call_ns: f64,
    /// Cost of beginning and ending a slice.
    slice_ns: f64,
}

impl Price {
    /// By a program: half of it is the kernel's slower path, the other half counting.
    pub(super) const PROGRAM: Price = Price { call_ns: 300.0, slice_ns: 0.0 };

    /// By counters, each of which is opened and closed: the kernel changes its own code then, and
    /// waits for every CPU to have seen it.
    pub(super) const COUNTERS: Price = Price { call_ns: 300.0, slice_ns: 8e6 };
}

/// Share of the machine's busiest CPU that counting may cost.
const BUDGET: f64 = 0.008;

/// Length of a slice where calls are not counted all the time.
const SLICE: Duration = Duration::from_millis(20);

/// Shortest slice: a server that makes so many calls that no longer one fits the budget makes
/// thousands in this time.
const SHORTEST_SLICE: Duration = Duration::from_millis(2);

/// Mean time between slices that shorter slices keep, so that a window of half a second has one.
/// A server that polls makes a million calls per second.
const USUAL_GAP: Duration = Duration::from_millis(250);

/// Length of what is counted at once where they are: how soon a higher rate is noticed.
const ALWAYS: Duration = Duration::from_millis(100);

/// The first slice, from which the rate is learnt.
const FIRST: Duration = Duration::from_millis(10);

/// The longest time between slices, whatever they cost: a window of a second is to have one.
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
pub(super) struct SlicePlanner {
    /// Count every call, whatever that costs.
    is_every: bool,
    price: Price,
    /// Number of slices so far.
    number: u32,
}

impl SlicePlanner {
    pub(super) const fn new(is_every: bool, price: Price) -> SlicePlanner {
        SlicePlanner { is_every, price, number: 0 }
    }

    /// The slice after one in which so many calls per second were made on the busiest CPU; `None`:
    /// there was none yet.
    pub(super) fn next(&mut self, calls_per_s: Option<f64>) -> Slice {
        self.number += 1;
        // Part of a CPU that counting costs while it goes on.
        let cost = match calls_per_s {
            _ if self.is_every => 0.0,
            None => return Slice { counted: FIRST, gap: Duration::ZERO },
            Some(rate) => rate * self.price.call_ns / 1e9,
        };
        if cost <= BUDGET {
            return Slice { counted: ALWAYS, gap: Duration::ZERO };
        }
        let counted = self.length(cost);
        let slice = counted.mul_f64(cost) + Duration::from_nanos(self.price.slice_ns as u64);
        let gap = slice.div_f64(BUDGET).saturating_sub(counted).mul_f64(self.stretch());
        Slice { counted, gap: gap.min(LONGEST_GAP) }
    }

    /// Length of a slice in which counting costs this part of a CPU. Where each slice has a price
    /// of its own, shorter ones would save little.
    fn length(&self, cost: f64) -> Duration {
        if self.price.slice_ns > 0.0 {
            return SLICE;
        }
        let affordable = USUAL_GAP.as_secs_f64() * BUDGET / cost;
        Duration::from_secs_f64(affordable.min(SLICE.as_secs_f64())).max(SHORTEST_SLICE)
    }

    /// Between 0.5 and 1.5, spread evenly: slices at even distances could keep in step with
    /// something that the server does.
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
        let mut slices = SlicePlanner::new(false, Price::PROGRAM);
        assert_eq!(slices.next(None), Slice { counted: FIRST, gap: Duration::ZERO });
        assert_eq!(slices.next(Some(0.0)).gap, Duration::ZERO);
        assert_eq!(slices.next(Some(20_000.0)), Slice { counted: ALWAYS, gap: Duration::ZERO });
    }

    #[test]
    fn many_calls_are_counted_for_what_the_budget_allows() {
        // Slices that cost much by themselves come as often as they must.
        for (price, wanted) in [(Price::PROGRAM, BUDGET), (Price::COUNTERS, 0.0111)] {
            let mut slices = SlicePlanner::new(false, price);
            let rate = 300_000.0;
            let all: Vec<Slice> = (0..1000).map(|_| slices.next(Some(rate))).collect();
            let counted: f64 = all.iter().map(|s| s.counted.as_secs_f64()).sum();
            let whole: f64 = all.iter().map(|s| (s.counted + s.gap).as_secs_f64()).sum();
            let cost = counted / whole * rate * price.call_ns / 1e9
                + 1000.0 / whole * price.slice_ns / 1e9;
            assert!((cost - wanted).abs() < wanted / 50.0, "{price:?}: {cost}");
            assert!(all.windows(2).any(|pair| pair[0].gap != pair[1].gap));
            assert_eq!(slices.next(Some(1e9)).gap, LONGEST_GAP);
        }
    }

    /// A server that polls makes a million calls per second or more.
    #[test]
    fn slices_of_a_polling_server_fit_a_short_window() {
        for rate in [500_000.0, 1_000_000.0, 3_000_000.0] {
            let mut slices = SlicePlanner::new(false, Price::PROGRAM);
            let all: Vec<Slice> = (0..100).map(|_| slices.next(Some(rate))).collect();
            let longest = all.iter().map(|s| s.counted + s.gap).max().unwrap();
            assert!(longest < Duration::from_millis(500), "{rate}: {longest:?}");
            let counted: f64 = all.iter().map(|s| s.counted.as_secs_f64()).sum();
            let whole: f64 = all.iter().map(|s| (s.counted + s.gap).as_secs_f64()).sum();
            let cost = counted / whole * rate * Price::PROGRAM.call_ns / 1e9;
            assert!(cost < 1.1 * BUDGET, "{rate}: {cost}");
        }
        let dear = SlicePlanner::new(false, Price::COUNTERS).next(Some(1_000_000.0));
        assert_eq!(dear.counted, SLICE);
    }

    #[test]
    fn every_call_is_counted_where_that_is_asked_for() {
        let mut slices = SlicePlanner::new(true, Price::PROGRAM);
        assert_eq!(slices.next(None), slices.next(Some(1e9)));
        assert_eq!(slices.next(Some(1e9)).gap, Duration::ZERO);
    }
}
