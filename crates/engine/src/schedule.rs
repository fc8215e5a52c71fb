//! Computes the intended start times of requests. They depend only on the plan, the seed and the
//! index of the request, so a slow response cannot delay them.

use std::sync::Arc;

use dyno_model::plan::{Arrivals, Gaps, Segment};

use crate::rng::Rng;
use crate::slices::Slices;

/// The schedule of one worker, in nanoseconds since the load began.
///
/// All workers share one schedule. Worker k of n takes the arrivals whose index is k modulo n, so
/// the instants do not depend on the number of workers.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// A closed loop: a request is intended as soon as a slot is free for it.
    Closed,
    /// A closed loop that sends only in its own time slices, in turn with other loads.
    Sliced(Slices),
    Open(Open),
}

/// An open-loop schedule, positioned at its next arrival.
#[derive(Clone, Debug)]
pub struct Open {
    process: ArrivalProcess,
    stripe: Stripe,
    /// Index of the next arrival in the common schedule.
    index: u64,
    /// Instant of the next arrival; `None`: the schedule has ended.
    next_ns: Option<u64>,
}

/// The share of one worker in the common schedule: the arrivals whose index is `worker` modulo
/// `workers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// Index of the worker, 0 to `workers` − 1.
    pub worker: u64,
    /// Number of workers, at least 1.
    pub workers: u64,
}

/// Distribution of the instants of arrivals.
#[derive(Clone, Debug)]
enum ArrivalProcess {
    /// Arrival n comes at the instant by which the profile expects n arrivals.
    Even { profile: Profile },
    /// A Poisson process with the rate of the profile. Between two arrivals, the profile expects a
    /// random number of arrivals, drawn from the exponential distribution with mean 1 (the
    /// time-change theorem; Lewis and Shedler 1979 describe alternatives). `at`: the number of
    /// arrivals that the profile expects up to the last arrival.
    Exponential { profile: Profile, at: f64, rng: Rng },
    /// Recorded instants, nanoseconds since the load began, ascending.
    Recorded(Arc<[u64]>),
}

impl Schedule {
    /// Creates the schedule of one worker. `trace`: the instants of [`Arrivals::Trace`],
    /// nanoseconds, ascending; other arrivals ignore it. Rates must not be negative. The first rate
    /// of [`Arrivals::Constant`] and [`Arrivals::Poisson`] must be above zero.
    #[must_use]
    pub fn new(arrivals: &Arrivals, trace: &Arc<[u64]>, seed: u64, stripe: Stripe) -> Schedule {
        let constant =
            |rate: f64| Profile::new(&[Segment { from_rate: rate, to_rate: rate, duration_ns: 0 }]);
        let random =
            |profile| ArrivalProcess::Exponential { profile, at: 0.0, rng: Rng::new(seed) };
        let process = match arrivals {
            Arrivals::Closed => return Schedule::Closed,
            Arrivals::Constant { rate } => ArrivalProcess::Even { profile: constant(*rate) },
            Arrivals::Poisson { rate } => random(constant(*rate)),
            Arrivals::Shaped { segments, gaps: Gaps::Even } => {
                ArrivalProcess::Even { profile: Profile::new(segments) }
            }
            Arrivals::Shaped { segments, gaps: Gaps::Exponential } => {
                random(Profile::new(segments))
            }
            Arrivals::Trace { .. } => ArrivalProcess::Recorded(trace.clone()),
        };
        let mut open = Open { process, stripe, index: 0, next_ns: None };
        open.next_ns = open.next_arrival();
        while open.index % stripe.workers != stripe.worker {
            open.step();
        }
        Schedule::Open(open)
    }

    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Schedule::Closed | Schedule::Sliced(_))
    }

    /// Returns when the slots of a closed loop may take requests, from `now_ns` on: the start and
    /// end of a slice, nanoseconds since the load began. `None`: at any time.
    #[must_use]
    pub fn slice(&self, now_ns: u64) -> Option<(u64, u64)> {
        match self {
            Schedule::Sliced(slices) => Some(slices.current_or_next(now_ns)),
            Schedule::Closed | Schedule::Open(_) => None,
        }
    }

    /// Returns the next arrival; `None`: the schedule has ended, or the loop is closed.
    #[must_use]
    pub fn peek(&self) -> Option<u64> {
        match self {
            Schedule::Closed | Schedule::Sliced(_) => None,
            Schedule::Open(open) => open.next_ns,
        }
    }

    /// Takes the next arrival if it is intended at `now_ns` or earlier.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<u64> {
        let Schedule::Open(open) = self else { return None };
        let arrival_ns = open.next_ns?;
        if arrival_ns > now_ns {
            return None;
        }
        for _ in 0..open.stripe.workers {
            open.step();
        }
        Some(arrival_ns)
    }
}

impl Open {
    fn step(&mut self) {
        self.index += 1;
        self.next_ns = self.next_arrival();
    }

    fn next_arrival(&mut self) -> Option<u64> {
        match &mut self.process {
            // The instant is computed from the index and not from the previous arrival, because
            // rounding errors would add up over a long run.
            ArrivalProcess::Even { profile } => profile.arrival_instant(self.index as f64),
            ArrivalProcess::Exponential { profile, at, rng } => {
                *at += rng.exponential(1.0);
                profile.arrival_instant(*at)
            }
            ArrivalProcess::Recorded(times) => times.get(self.index as usize).copied(),
        }
    }
}

/// A rate over time. The integral of the rate is the number of arrivals expected by each instant.
#[derive(Clone, Debug)]
struct Profile {
    segments: Vec<ProfileSegment>,
}

/// A segment of a profile, and the number of arrivals expected before it.
#[derive(Clone, Copy, Debug)]
struct ProfileSegment {
    start_ns: f64,
    expected_before: f64,
    /// Arrivals per nanosecond at the start of the segment.
    from_rate: f64,
    /// Growth of the rate per nanosecond.
    slope: f64,
    duration_ns: f64,
    /// Number of arrivals expected within the segment.
    expected: f64,
}

impl Profile {
    /// Creates a profile. The final rate of the last segment continues forever.
    fn new(segments: &[Segment]) -> Profile {
        let mut profile = Vec::with_capacity(segments.len() + 1);
        let (mut start_ns, mut expected_before) = (0.0, 0.0);
        for segment in segments.iter().filter(|s| s.duration_ns > 0) {
            let duration_ns = segment.duration_ns as f64;
            let (from_rate, to_rate) = (segment.from_rate / 1e9, segment.to_rate / 1e9);
            let expected = (from_rate + to_rate) / 2.0 * duration_ns;
            let slope = (to_rate - from_rate) / duration_ns;
            profile.push(ProfileSegment {
                start_ns,
                expected_before,
                from_rate,
                slope,
                duration_ns,
                expected,
            });
            start_ns += duration_ns;
            expected_before += expected;
        }
        let last_rate = segments.last().map_or(0.0, |s| s.to_rate / 1e9);
        profile.push(ProfileSegment {
            start_ns,
            expected_before,
            from_rate: last_rate,
            slope: 0.0,
            duration_ns: f64::INFINITY,
            expected: if last_rate > 0.0 { f64::INFINITY } else { 0.0 },
        });
        Profile { segments: profile }
    }

    /// Returns the instant by which this number of arrivals is expected, nanoseconds since the load
    /// began; `None`: never.
    fn arrival_instant(&self, expected: f64) -> Option<u64> {
        let is_before = |s: &ProfileSegment| expected >= s.expected_before + s.expected;
        let segment = self.segments.iter().find(|s| !is_before(s))?;
        let remaining = expected - segment.expected_before;
        // After time t in the segment, from_rate·t + slope·t²/2 arrivals are expected. The solution
        // for `remaining` arrivals has a form without division by the slope, which can be 0.
        let root = (segment.from_rate.powi(2) + 2.0 * segment.slope * remaining).max(0.0).sqrt();
        let t = if remaining > 0.0 { 2.0 * remaining / (segment.from_rate + root) } else { 0.0 };
        // The result is rounded. Truncation would place an arrival a nanosecond early if the
        // computed instant is a tiny fraction below a whole nanosecond.
        Some((segment.start_ns + t.min(segment.duration_ns)).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;
    const SINGLE_WORKER: Stripe = Stripe { worker: 0, workers: 1 };

    fn take(arrivals: &Arrivals, seed: u64, stripe: Stripe, until_ns: u64) -> Vec<u64> {
        let mut schedule = Schedule::new(arrivals, &Arc::from([]), seed, stripe);
        std::iter::from_fn(|| schedule.pop_due(until_ns)).collect()
    }

    fn segment(from_rate: f64, to_rate: f64, seconds: u64) -> Segment {
        Segment { from_rate, to_rate, duration_ns: seconds * SECOND }
    }

    fn shape(segments: Vec<Segment>, gaps: Gaps) -> Arrivals {
        Arrivals::Shaped { segments, gaps }
    }

    #[test]
    fn constant_rate_does_not_drift() {
        let times = take(&Arrivals::Constant { rate: 3.0 }, 0, SINGLE_WORKER, 3_600 * SECOND);
        assert_eq!(times.len(), 3 * 3600 + 1);
        let error_ns = times[3 * 3600].abs_diff(3_600 * SECOND);
        assert!(error_ns <= 1, "{error_ns} ns after an hour");
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let times = take(&Arrivals::Poisson { rate: 1000.0 }, 7, SINGLE_WORKER, 200 * SECOND);
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // 200,000 gaps: the standard error is 0.22 % for the mean, and 0.32 % for the coefficient
        // of variation.
        assert!((mean / 1e6 - 1.0).abs() < 0.01, "mean gap {mean} ns");
        assert!(
            (variance.sqrt() / mean - 1.0).abs() < 0.015,
            "coefficient of variation {}",
            variance.sqrt() / mean
        );
    }

    /// From 0 to 100 per second over 10 s: 5 t² arrivals have come after t seconds.
    #[test]
    fn ramp_arrivals_follow_integral_of_rate() {
        let times =
            take(&shape(vec![segment(0.0, 100.0, 10)], Gaps::Even), 0, SINGLE_WORKER, 12 * SECOND);
        for n in [1usize, 20, 125, 499] {
            let expected_ns = (n as f64 / 5.0).sqrt() * 1e9;
            assert!(
                (times[n] as f64 - expected_ns).abs() < 10.0,
                "arrival {n}: {}, expected {expected_ns}",
                times[n]
            );
        }
        // 500 in the ramp, then 100 per second.
        assert_eq!(times.len(), 500 + 200 + 1);
    }

    #[test]
    fn steps_and_pauses_have_planned_lengths() {
        let steps = vec![
            segment(10.0, 10.0, 2),
            segment(0.0, 0.0, 3),
            segment(100.0, 100.0, 1),
            segment(0.0, 0.0, 1),
        ];
        let times = take(&shape(steps, Gaps::Even), 0, SINGLE_WORKER, 100 * SECOND);
        let count_between = |from: u64, to: u64| {
            times.iter().filter(|t| (from * SECOND..to * SECOND).contains(t)).count()
        };
        assert_eq!(
            (count_between(0, 2), count_between(2, 5), count_between(5, 6), count_between(6, 100)),
            (20, 0, 100, 0)
        );
    }

    #[test]
    fn exponential_ramp_has_expected_count() {
        let ramp = shape(vec![segment(0.0, 2000.0, 100)], Gaps::Exponential);
        let times = take(&ramp, 5, SINGLE_WORKER, 100 * SECOND);
        // 100,000 expected, standard deviation 316; a quarter of them in the first half.
        assert!((times.len() as f64 - 1e5).abs() < 1500.0, "{}", times.len());
        let early = times.iter().filter(|t| **t < 50 * SECOND).count() as f64;
        assert!((early - 25_000.0).abs() < 800.0, "{early}");
    }

    #[test]
    fn trace_replays_recorded_instants_and_ends() {
        let trace: Arc<[u64]> = Arc::from([0, 5, 5, 90]);
        let arrivals = Arrivals::Trace { file: String::new(), count: 4, sha256: String::new() };
        let mut parts = Vec::new();
        for worker in 0..3 {
            let mut schedule = Schedule::new(&arrivals, &trace, 0, Stripe { worker, workers: 3 });
            parts.extend(std::iter::from_fn(|| schedule.pop_due(u64::MAX)));
            assert_eq!(schedule.peek(), None);
        }
        parts.sort_unstable();
        assert_eq!(parts, *trace);
    }

    proptest! {
        #[test]
        fn workers_partition_schedule(
            seed in any::<u64>(),
            workers in 1u64..8,
            rate in 1.0f64..5000.0,
            ramp in 0.0f64..3000.0,
            kind in 0..4,
        ) {
            let arrivals = match kind {
                0 => Arrivals::Constant { rate },
                1 => Arrivals::Poisson { rate },
                2 => shape(vec![segment(rate, ramp, 1), segment(ramp, rate, 1)], Gaps::Even),
                _ => shape(vec![segment(ramp, rate, 1)], Gaps::Exponential),
            };
            let until = 2 * SECOND;
            let undivided = take(&arrivals, seed, SINGLE_WORKER, until);
            let mut parts: Vec<u64> = (0..workers)
                .flat_map(|worker| take(&arrivals, seed, Stripe { worker, workers }, until))
                .collect();
            parts.sort_unstable();
            prop_assert!(undivided.is_sorted());
            prop_assert_eq!(undivided, parts);
        }
    }
}
