//! Plans when system calls are counted: continuously if that is cheap, otherwise in short slices.
//! This bounds the CPU time that counting takes from a server.
//!
//! While calls are counted, the kernel takes a slower path through every call. A server that makes
//! 300,000 calls per second would lose a tenth of its throughput. The loss of a server that makes
//! 10,000 calls is not measurable.

use std::time::Duration;

/// Cost of counting, in nanoseconds. Measured with h2o on Linux 6.18 in a virtual machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountingCost {
    /// Cost per call.
    call_ns: f64,
    /// Cost of beginning and ending a slice.
    slice_ns: f64,
}

impl CountingCost {
    /// Cost of an eBPF program. Half of it is the kernel's slower path, the other half counting.
    pub(super) const PROGRAM: CountingCost = CountingCost { call_ns: 300.0, slice_ns: 0.0 };

    /// Cost of perf events, which are opened and closed for each slice. The kernel then changes its
    /// own code, and waits until every CPU uses it.
    pub(super) const PERF_EVENTS: CountingCost = CountingCost { call_ns: 300.0, slice_ns: 8e6 };
}

/// Share of the machine's busiest CPU that counting may cost.
const BUDGET: f64 = 0.008;

/// Length of a slice if calls are not counted continuously.
const SLICE: Duration = Duration::from_millis(20);

/// Shortest slice. It is long enough: only servers with very many calls get it, and they make
/// thousands of calls in this time.
const SHORTEST_SLICE: Duration = Duration::from_millis(2);

/// Usual mean gap between slices. At a higher rate of calls, slices become shorter, down to
/// [`SHORTEST_SLICE`], before gaps become longer. A window of half a second therefore has a slice,
/// even for a polling server with a million calls per second.
const USUAL_GAP: Duration = Duration::from_millis(250);

/// Length of a slice if calls are counted continuously: the time until a higher rate is noticed.
const CONTINUOUS_SLICE: Duration = Duration::from_millis(100);

/// Length of the first slice, which measures the rate of calls.
const FIRST_SLICE: Duration = Duration::from_millis(10);

/// Longest gap between slices at any cost, so that a window of a second has a slice.
const LONGEST_GAP: Duration = Duration::from_millis(900);

/// A slice and the gap after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) counted: Duration,
    /// Time without counting, until the next slice.
    pub(super) gap: Duration,
}

/// Planner of successive slices.
#[derive(Clone, Debug)]
pub(super) struct SlicePlanner {
    /// Whether every call is counted, at any cost.
    counts_every_call: bool,
    cost: CountingCost,
    /// Number of slices so far.
    number: u32,
}

impl SlicePlanner {
    pub(super) const fn new(counts_every_call: bool, cost: CountingCost) -> SlicePlanner {
        SlicePlanner { counts_every_call, cost, number: 0 }
    }

    /// Plans the next slice. `calls_per_s`: rate on the busiest CPU in the last slice; `None`: no
    /// slice yet.
    pub(super) fn next(&mut self, calls_per_s: Option<f64>) -> Slice {
        self.number += 1;
        // Share of a CPU that counting costs within a slice.
        let share = match (self.counts_every_call, calls_per_s) {
            (true, _) => 0.0,
            (false, None) => return Slice { counted: FIRST_SLICE, gap: Duration::ZERO },
            (false, Some(rate)) => rate * self.cost.call_ns / 1e9,
        };
        if share <= BUDGET {
            return Slice { counted: CONTINUOUS_SLICE, gap: Duration::ZERO };
        }
        let counted = self.length(share);
        let cpu_time = counted.mul_f64(share) + Duration::from_nanos(self.cost.slice_ns as u64);
        let gap = cpu_time.div_f64(BUDGET).saturating_sub(counted).mul_f64(self.gap_factor());
        Slice { counted, gap: gap.min(LONGEST_GAP) }
    }

    /// Returns the length of a slice in which counting costs this share of a CPU. Shorter slices
    /// would save little if the slice itself has a cost.
    fn length(&self, share: f64) -> Duration {
        if self.cost.slice_ns > 0.0 {
            return SLICE;
        }
        let affordable = USUAL_GAP.as_secs_f64() * BUDGET / share;
        Duration::from_secs_f64(affordable.min(SLICE.as_secs_f64())).max(SHORTEST_SLICE)
    }

    /// Returns the factor of the next gap, evenly distributed between 0.5 and 1.5. Slices at equal
    /// distances could coincide with periodic work of the server.
    fn gap_factor(&self) -> f64 {
        const GOLDEN_RATIO: f64 = 0.618_033_988_749_895;
        0.5 + (f64::from(self.number) * GOLDEN_RATIO).fract()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_calls_are_counted_continuously() {
        let mut slices = SlicePlanner::new(false, CountingCost::PROGRAM);
        assert_eq!(slices.next(None), Slice { counted: FIRST_SLICE, gap: Duration::ZERO });
        assert_eq!(slices.next(Some(0.0)).gap, Duration::ZERO);
        let continuous = Slice { counted: CONTINUOUS_SLICE, gap: Duration::ZERO };
        assert_eq!(slices.next(Some(20_000.0)), continuous);
    }

    #[test]
    fn many_calls_are_counted_within_budget() {
        // Perf events exceed the budget, because the longest gap limits it.
        for (cost, expected) in
            [(CountingCost::PROGRAM, BUDGET), (CountingCost::PERF_EVENTS, 0.0111)]
        {
            let mut planner = SlicePlanner::new(false, cost);
            let rate = 300_000.0;
            let slices: Vec<Slice> = (0..1000).map(|_| planner.next(Some(rate))).collect();
            let counted: f64 = slices.iter().map(|s| s.counted.as_secs_f64()).sum();
            let total: f64 = slices.iter().map(|s| (s.counted + s.gap).as_secs_f64()).sum();
            let share =
                counted / total * rate * cost.call_ns / 1e9 + 1000.0 / total * cost.slice_ns / 1e9;
            assert!((share - expected).abs() < expected / 50.0, "{cost:?}: {share}");
            assert!(slices.windows(2).any(|pair| pair[0].gap != pair[1].gap));
            assert_eq!(planner.next(Some(1e9)).gap, LONGEST_GAP);
        }
    }

    /// A server that polls makes a million calls per second or more.
    #[test]
    fn slices_of_polling_server_fit_short_window() {
        for rate in [500_000.0, 1_000_000.0, 3_000_000.0] {
            let mut planner = SlicePlanner::new(false, CountingCost::PROGRAM);
            let slices: Vec<Slice> = (0..100).map(|_| planner.next(Some(rate))).collect();
            let longest = slices.iter().map(|s| s.counted + s.gap).max().unwrap();
            assert!(longest < Duration::from_millis(500), "{rate}: {longest:?}");
            let counted: f64 = slices.iter().map(|s| s.counted.as_secs_f64()).sum();
            let total: f64 = slices.iter().map(|s| (s.counted + s.gap).as_secs_f64()).sum();
            let share = counted / total * rate * CountingCost::PROGRAM.call_ns / 1e9;
            assert!(share < 1.1 * BUDGET, "{rate}: {share}");
        }
        let with_perf_events =
            SlicePlanner::new(false, CountingCost::PERF_EVENTS).next(Some(1_000_000.0));
        assert_eq!(with_perf_events.counted, SLICE);
    }

    #[test]
    fn planner_for_every_call_has_no_gaps() {
        let mut slices = SlicePlanner::new(true, CountingCost::PROGRAM);
        assert_eq!(slices.next(None), slices.next(Some(1e9)));
        assert_eq!(slices.next(Some(1e9)).gap, Duration::ZERO);
    }
}
