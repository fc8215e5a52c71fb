//! Intended start times: a pure function of the plan, the seed and the index. No completion can
//! influence them.

use std::sync::Arc;

use dyno_archive::plan::{Arrivals, Gaps, Segment};

use crate::rng::Rng;
use crate::slices::Slices;

/// The arrivals of one worker, in nanoseconds since the load began.
///
/// All workers share one schedule: worker k of n takes the arrivals whose index is k modulo n, so
/// that any number of workers together produce the same instants.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// No schedule: an exchange is intended the moment a slot falls free.
    Closed,
    /// The same, in a load's own slices of time: it alternates with others.
    Sliced(Slices),
    Open(Open),
}

/// An open-loop schedule, standing at its next arrival.
#[derive(Clone, Debug)]
pub struct Open {
    process: ArrivalProcess,
    stripe: Stripe,
    index: u64,
    /// `None`: there are no more.
    next_ns: Option<u64>,
}

/// The arrivals of the shared schedule that a worker takes: those whose index is `worker` modulo
/// `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// 0 to `of` − 1.
    pub worker: u64,
    /// At least 1.
    pub of: u64,
}

/// Distribution of the instants of arrivals.
#[derive(Clone, Debug)]
enum ArrivalProcess {
    /// Arrival number n comes at the instant by which n arrivals are expected.
    Even { profile: Profile },
    /// Unit exponential steps in the number of expected arrivals: a Poisson process of the
    /// profile's rate (the time-change theorem; Lewis and Shedler 1979 for other ways to draw one).
    /// `at`: that number at the last arrival.
    Exponential { profile: Profile, at: f64, rng: Rng },
    /// Recorded instants, nanoseconds since the load began, ascending.
    Recorded(Arc<[u64]>),
}

impl Schedule {
    /// `trace` holds the instants of [`Arrivals::Trace`], nanoseconds, ascending; nothing else
    /// looks at it. Rates must not be negative, and the first one of [`Arrivals::Constant`] and
    /// [`Arrivals::Poisson`] above zero.
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
        open.next_ns = open.draw();
        while open.index % stripe.of != stripe.worker {
            open.step();
        }
        Schedule::Open(open)
    }

    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Schedule::Closed | Schedule::Sliced(_))
    }

    /// When slots that fall free may take another request in a closed loop, from `now_ns` on:
    /// nanoseconds since the load began. `None`: at any time.
    #[must_use]
    pub fn slice(&self, now_ns: u64) -> Option<(u64, u64)> {
        match self {
            Schedule::Sliced(slices) => Some(slices.next(now_ns)),
            Schedule::Closed | Schedule::Open(_) => None,
        }
    }

    /// Returns the next arrival, or `None` at the end of the schedule or without one.
    #[must_use]
    pub fn peek(&self) -> Option<u64> {
        match self {
            Schedule::Closed | Schedule::Sliced(_) => None,
            Schedule::Open(open) => open.next_ns,
        }
    }

    /// Takes the next arrival if it is due at `now_ns`.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<u64> {
        let Schedule::Open(open) = self else { return None };
        let due = open.next_ns?;
        if due > now_ns {
            return None;
        }
        for _ in 0..open.stripe.of {
            open.step();
        }
        Some(due)
    }
}

impl Open {
    fn step(&mut self) {
        self.index += 1;
        self.next_ns = self.draw();
    }

    fn draw(&mut self) -> Option<u64> {
        match &mut self.process {
            // From the index, not from the previous arrival: rounding must not add up over a long
            // run.
            ArrivalProcess::Even { profile } => profile.arrival_instant(self.index as f64),
            ArrivalProcess::Exponential { profile, at, rng } => {
                *at += rng.exponential(1.0);
                profile.arrival_instant(*at)
            }
            ArrivalProcess::Recorded(times) => times.get(self.index as usize).copied(),
        }
    }
}

/// A rate over time. Its integral is the number of arrivals expected by each instant;
/// [`arrival_instant`](Self::arrival_instant) inverts that.
#[derive(Clone, Debug)]
struct Profile {
    segments: Vec<Stretch>,
}

/// A segment of a profile, and the number of arrivals expected before it.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    start_ns: f64,
    expected_before: f64,
    /// Arrivals per nanosecond where it starts.
    from: f64,
    /// Growth of that rate per nanosecond.
    slope: f64,
    duration_ns: f64,
    expected: f64,
}

impl Profile {
    /// The last segment's final rate continues for ever.
    fn new(segments: &[Segment]) -> Profile {
        let mut all = Vec::with_capacity(segments.len() + 1);
        let (mut start_ns, mut expected_before) = (0.0, 0.0);
        for segment in segments.iter().filter(|s| s.duration_ns > 0) {
            let duration_ns = segment.duration_ns as f64;
            let (from, to) = (segment.from_rate / 1e9, segment.to_rate / 1e9);
            let expected = (from + to) / 2.0 * duration_ns;
            let slope = (to - from) / duration_ns;
            all.push(Stretch { start_ns, expected_before, from, slope, duration_ns, expected });
            start_ns += duration_ns;
            expected_before += expected;
        }
        let last = segments.last().map_or(0.0, |s| s.to_rate / 1e9);
        let for_ever = f64::INFINITY;
        all.push(Stretch {
            start_ns,
            expected_before,
            from: last,
            slope: 0.0,
            duration_ns: for_ever,
            expected: if last > 0.0 { for_ever } else { 0.0 },
        });
        Profile { segments: all }
    }

    /// The instant by which this number of arrivals is expected, nanoseconds since the load began;
    /// `None`: never.
    fn arrival_instant(&self, expected: f64) -> Option<u64> {
        let after = |s: &Stretch| expected >= s.expected_before + s.expected;
        let stretch = self.segments.iter().find(|s| !after(s))?;
        let rest = expected - stretch.expected_before;
        // The root of from·t + slope·t²/2 = rest, in the form that also holds for no slope.
        let root = (stretch.from.powi(2) + 2.0 * stretch.slope * rest).max(0.0).sqrt();
        let t = if rest > 0.0 { 2.0 * rest / (stretch.from + root) } else { 0.0 };
        // Rounded, so that an arrival at a whole instant is there and not a nanosecond before.
        Some((stretch.start_ns + t.min(stretch.duration_ns)).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;
    const ALONE: Stripe = Stripe { worker: 0, of: 1 };

    fn take(arrivals: &Arrivals, seed: u64, stripe: Stripe, until_ns: u64) -> Vec<u64> {
        let mut schedule = Schedule::new(arrivals, &Arc::from([]), seed, stripe);
        std::iter::from_fn(|| schedule.pop_due(until_ns)).collect()
    }

    fn segment(from_rate: f64, to_rate: f64, seconds: u64) -> Segment {
        Segment { from_rate, to_rate, duration_ns: seconds * SECOND }
    }

    fn shaped(segments: Vec<Segment>, gaps: Gaps) -> Arrivals {
        Arrivals::Shaped { segments, gaps }
    }

    #[test]
    fn constant_rate_does_not_drift() {
        let times = take(&Arrivals::Constant { rate: 3.0 }, 0, ALONE, 3_600 * SECOND);
        assert_eq!(times.len(), 3 * 3600 + 1);
        let off = times[3 * 3600].abs_diff(3_600 * SECOND);
        assert!(off <= 1, "{off} ns after an hour");
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_spread_of_an_exponential() {
        let times = take(&Arrivals::Poisson { rate: 1000.0 }, 7, ALONE, 200 * SECOND);
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // 200,000 gaps: the standard error of the mean is 0.22 %, that of the coefficient of
        // variation 0.32 %.
        assert!((mean / 1e6 - 1.0).abs() < 0.01, "mean gap {mean} ns");
        assert!(
            (variance.sqrt() / mean - 1.0).abs() < 0.015,
            "coefficient {}",
            variance.sqrt() / mean
        );
    }

    /// From 0 to 100 per second over 10 s: t seconds in, 5 t² arrivals have been.
    #[test]
    fn ramp_follows_the_integral_of_its_rate() {
        let times = take(&shaped(vec![segment(0.0, 100.0, 10)], Gaps::Even), 0, ALONE, 12 * SECOND);
        for n in [1usize, 20, 125, 499] {
            let truth = (n as f64 / 5.0).sqrt() * 1e9;
            assert!(
                (times[n] as f64 - truth).abs() < 10.0,
                "arrival {n}: {} against {truth}",
                times[n]
            );
        }
        // 500 in the ramp, then 100 per second for ever.
        assert_eq!(times.len(), 500 + 200 + 1);
    }

    #[test]
    fn steps_and_pauses_keep_their_lengths() {
        let steps = vec![
            segment(10.0, 10.0, 2),
            segment(0.0, 0.0, 3),
            segment(100.0, 100.0, 1),
            segment(0.0, 0.0, 1),
        ];
        let times = take(&shaped(steps, Gaps::Even), 0, ALONE, 100 * SECOND);
        let within = |from: u64, to: u64| {
            times.iter().filter(|t| (from * SECOND..to * SECOND).contains(t)).count()
        };
        assert_eq!((within(0, 2), within(2, 5), within(5, 6), within(6, 100)), (20, 0, 100, 0));
    }

    #[test]
    fn random_ramp_has_as_many_arrivals_as_expected() {
        let ramp = shaped(vec![segment(0.0, 2000.0, 100)], Gaps::Exponential);
        let times = take(&ramp, 5, ALONE, 100 * SECOND);
        // 100,000 expected, standard deviation 316; a quarter of them in the first half.
        assert!((times.len() as f64 - 1e5).abs() < 1500.0, "{}", times.len());
        let early = times.iter().filter(|t| **t < 50 * SECOND).count() as f64;
        assert!((early - 25_000.0).abs() < 800.0, "{early}");
    }

    #[test]
    fn trace_is_played_as_recorded_and_then_ends() {
        let trace: Arc<[u64]> = Arc::from([0, 5, 5, 90]);
        let arrivals = Arrivals::Trace { file: String::new(), count: 4, sha256: String::new() };
        let mut parts = Vec::new();
        for worker in 0..3 {
            let mut schedule = Schedule::new(&arrivals, &trace, 0, Stripe { worker, of: 3 });
            parts.extend(std::iter::from_fn(|| schedule.pop_due(u64::MAX)));
            assert_eq!(schedule.peek(), None);
        }
        parts.sort_unstable();
        assert_eq!(parts, *trace);
    }

    proptest! {
        #[test]
        fn workers_partition_the_schedule(
            seed in any::<u64>(),
            of in 1u64..8,
            rate in 1.0f64..5000.0,
            ramp in 0.0f64..3000.0,
            kind in 0..4,
        ) {
            let arrivals = match kind {
                0 => Arrivals::Constant { rate },
                1 => Arrivals::Poisson { rate },
                2 => shaped(vec![segment(rate, ramp, 1), segment(ramp, rate, 1)], Gaps::Even),
                _ => shaped(vec![segment(ramp, rate, 1)], Gaps::Exponential),
            };
            let until = 2 * SECOND;
            let whole = take(&arrivals, seed, ALONE, until);
            let mut parts: Vec<u64> = (0..of)
                .flat_map(|worker| take(&arrivals, seed, Stripe { worker, of }, until))
                .collect();
            parts.sort_unstable();
            prop_assert!(whole.is_sorted());
            prop_assert_eq!(whole, parts);
        }
    }
}
