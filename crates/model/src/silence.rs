//! Finds silences: periods of a load without a complete response, although requests were in flight
//! or failed. Silences reveal stalls that averages hide.

use serde::{Deserialize, Serialize};

/// A period in which no request of one or several workers got a complete response, nanoseconds
/// since the load began. Its end is [`Silence::UNKNOWN_END`] if no response followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// Instant of the last complete response before the silence.
    pub start_ns: u64,
    /// Instant since which requests were continuously in flight, or failed one after the other.
    pub busy_ns: u64,
    pub end_ns: u64,
    /// Requests in flight at the end of the silence.
    pub in_flight: u64,
    /// Ends of the first and the last request that ended in the silence without a complete
    /// response. `None`: no such request, or the archive is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures_ns: Option<(u64, u64)>,
}

impl Silence {
    /// End of a silence that no response followed, because the worker had no more requests.
    pub const UNKNOWN_END: u64 = u64::MAX;

    /// Returns the part within a window in which requests were in flight or failed.
    #[must_use]
    pub fn clip(&self, (opens, closes): (u64, u64)) -> Option<Silence> {
        let start_ns = self.start_ns.max(self.busy_ns).max(opens);
        let end_ns = self.end_ns.min(closes);
        // The last failure is not clipped, because requests may time out long after the window.
        let failures = self.failures_ns.filter(|(_, last)| *last >= start_ns);
        let failures_ns = failures.map(|(first, last)| (first.max(start_ns), last));
        (start_ns < end_ns).then_some(Silence {
            start_ns,
            busy_ns: start_ns,
            end_ns,
            failures_ns,
            ..*self
        })
    }

    /// Returns the first and the last failure of a longer silence, if these lie in this silence.
    /// Other failures of the longer silence are unknown. `None`: neither lies in this silence.
    fn failures_within(&self, longer: &Silence) -> Option<(u64, u64)> {
        let (first, last) = longer.failures_ns?;
        let contains = |instant: u64| (self.start_ns..=self.end_ns).contains(&instant);
        match (contains(first), contains(last)) {
            (true, true) => Some((first, last)),
            (true, false) => Some((first, first)),
            (false, true) => Some((last, last)),
            (false, false) => None,
        }
    }

    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Length of the shortest recorded silence of a window: 1 % of the window, from 1 to 20 ms. The
/// upper bound exists because several short stalls matter as much as a long one.
#[must_use]
pub fn least_ns(window_ns: u64) -> u64 {
    (window_ns / 100).clamp(1_000_000, 20_000_000)
}

/// Returns the silences of a load within its window that are long enough to record.
#[must_use]
pub fn long_silences(all: &[Silence], window_ns: (u64, u64)) -> Vec<Silence> {
    let (opens, closes) = window_ns;
    let least_ns = least_ns(closes.saturating_sub(opens));
    let clipped = all.iter().filter_map(|silence| silence.clip(window_ns));
    clipped.filter(|silence| silence.length_ns() >= least_ns).collect()
}

/// Returns the periods in which two workers are both silent. Each list is in order of time, without
/// overlaps.
#[must_use]
pub fn common(first: &[Silence], second: &[Silence]) -> Vec<Silence> {
    let (mut i, mut j) = (0, 0);
    let mut common = Vec::new();
    while let (Some(a), Some(b)) = (first.get(i), second.get(j)) {
        let silence = Silence {
            start_ns: a.start_ns.max(b.start_ns),
            busy_ns: a.busy_ns.min(b.busy_ns),
            end_ns: a.end_ns.min(b.end_ns),
            in_flight: a.in_flight + b.in_flight,
            failures_ns: None,
        };
        if silence.start_ns < silence.end_ns {
            let failures = [a, b].into_iter().filter_map(|longer| silence.failures_within(longer));
            let failures_ns = failures.reduce(|(first, last), (other_first, other_last)| {
                (first.min(other_first), last.max(other_last))
            });
            common.push(Silence { failures_ns, ..silence });
        }
        if a.end_ns <= b.end_ns {
            i += 1;
        } else {
            j += 1;
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silence(start_ns: u64, end_ns: u64, in_flight: u64) -> Silence {
        Silence { start_ns, busy_ns: start_ns, end_ns, in_flight, failures_ns: None }
    }

    #[test]
    fn common_silences_are_intersections() {
        let one = [silence(0, 10, 2), silence(20, 50, 2)];
        let other = [silence(5, 30, 3), silence(40, 45, 3), silence(48, 60, 3)];
        let both = [silence(5, 10, 5), silence(20, 30, 5), silence(40, 45, 5), silence(48, 50, 5)];
        assert_eq!(
            common(&one, &other),
            both.map(|s| Silence { busy_ns: busy(&one, &other, s), ..s })
        );
        assert_eq!(common(&one, &[]), []);
    }

    /// Returns the earlier of the two beginnings: one request in flight is enough.
    fn busy(one: &[Silence], other: &[Silence], both: Silence) -> u64 {
        let around = |all: &[Silence]| {
            let contains_both =
                |s: &&Silence| s.start_ns <= both.start_ns && both.end_ns <= s.end_ns;
            all.iter().find(contains_both).map_or(u64::MAX, |s| s.busy_ns)
        };
        around(one).min(around(other))
    }

    /// One worker's connection is dead during the whole load. Short pauses of the other worker must
    /// not become outages because of that.
    #[test]
    fn failures_count_only_within_common_silence() {
        let dead = Silence { failures_ns: Some((10, 990)), ..silence(0, 1000, 0) };
        let failures = |other: &[Silence]| -> Vec<Option<(u64, u64)>> {
            common(&[dead], other).iter().map(|both| both.failures_ns).collect()
        };
        assert_eq!(failures(&[silence(500, 530, 1)]), [None]);
        assert_eq!(failures(&[silence(5, 400, 1)]), [Some((10, 10))]);
        assert_eq!(failures(&[silence(5, 995, 1)]), [Some((10, 990))]);
        let down = Silence { failures_ns: Some((300, 600)), ..silence(200, 700, 1) };
        assert_eq!(failures(&[down]), [Some((300, 600))]);
        assert_eq!(dead.clip((100, 900)).unwrap().failures_ns, Some((100, 990)));
        assert_eq!(down.clip((0, 250)).unwrap().failures_ns, Some((300, 600)), "they time out");
        assert_eq!(down.clip((650, 900)).unwrap().failures_ns, None, "in the warm-up");
    }

    #[test]
    fn silences_above_20_ms_of_long_window_are_retained() {
        const MS: u64 = 1_000_000;
        let all: Vec<Silence> =
            (0..9).map(|n| silence(1000 * n * MS, (1000 * n + 30) * MS, 1)).collect();
        assert_eq!(
            long_silences(&all, (0, 10_000 * MS)),
            all,
            "none of them is a hundredth of the window"
        );
        assert_eq!(long_silences(&[silence(0, 19 * MS, 1)], (0, 10_000 * MS)), []);
        assert_eq!((least_ns(500 * MS), least_ns(50 * MS)), (5 * MS, MS));
    }

    #[test]
    fn idle_worker_neither_hides_nor_causes_silence() {
        let stuck = silence(100, 900, 1);
        let idle = Silence {
            start_ns: 50,
            busy_ns: Silence::UNKNOWN_END,
            end_ns: Silence::UNKNOWN_END,
            in_flight: 0,
            failures_ns: None,
        };
        assert_eq!(common(&[stuck], &[idle]), [stuck]);
        assert_eq!(idle.clip((0, 1000)), None);
        assert_eq!(stuck.clip((200, 800)), Some(silence(200, 800, 1)));
        assert_eq!(stuck.clip((900, 1000)), None);
    }
}
