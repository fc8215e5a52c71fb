//! Intended start times: a pure function of the plan, the seed and the index. No completion can influence them.

use dyno_archive::plan::Arrivals;

use crate::rng::Rng;

/// The arrivals of one worker, in nanoseconds since the load began.
///
/// All workers share one schedule: worker k of n takes the arrivals whose index is k modulo n, so that any number
/// of workers together produce the same instants.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// No schedule: an exchange is intended the moment a slot falls free.
    Closed,
    Open(Open),
}

/// An open-loop schedule, standing at its next arrival.
#[derive(Clone, Debug)]
pub struct Open {
    gaps: Gaps,
    stripe: Stripe,
    index: u64,
    next_ns: u64,
}

/// Which arrivals of the shared schedule a worker takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// 0 to `of` − 1.
    pub worker: u64,
    /// At least 1.
    pub of: u64,
}

#[derive(Clone, Debug)]
enum Gaps {
    Constant {
        rate: f64,
    },
    /// `at_ns` is the time of the arrival last drawn.
    Poisson {
        mean_ns: f64,
        at_ns: f64,
        rng: Rng,
    },
}

impl Schedule {
    /// `rate` of `arrivals` must be above zero.
    #[must_use]
    pub fn new(arrivals: Arrivals, seed: u64, stripe: Stripe) -> Schedule {
        let gaps = match arrivals {
            Arrivals::Closed => return Schedule::Closed,
            Arrivals::Constant { rate } => Gaps::Constant { rate },
            Arrivals::Poisson { rate } => {
                Gaps::Poisson { mean_ns: 1e9 / rate, at_ns: 0.0, rng: Rng::new(seed) }
            }
        };
        let mut open = Open { gaps, stripe, index: 0, next_ns: 0 };
        open.next_ns = open.draw();
        while open.index % stripe.of != stripe.worker {
            open.step();
        }
        Schedule::Open(open)
    }

    /// The next arrival, if there is a schedule.
    #[must_use]
    pub fn peek(&self) -> Option<u64> {
        match self {
            Schedule::Closed => None,
            Schedule::Open(open) => Some(open.next_ns),
        }
    }

    /// Takes the next arrival if it is due at `now_ns`.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<u64> {
        let Schedule::Open(open) = self else { return None };
        let due = open.next_ns;
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

    fn draw(&mut self) -> u64 {
        match &mut self.gaps {
            // From the index, not from the previous arrival: rounding must not add up over a long run.
            Gaps::Constant { rate } => (self.index as f64 * 1e9 / *rate) as u64,
            Gaps::Poisson { mean_ns, at_ns, rng } => {
                *at_ns += rng.exponential(*mean_ns);
                *at_ns as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn take(arrivals: Arrivals, seed: u64, stripe: Stripe, until_ns: u64) -> Vec<u64> {
        let mut schedule = Schedule::new(arrivals, seed, stripe);
        std::iter::from_fn(|| schedule.pop_due(until_ns)).collect()
    }

    const ALONE: Stripe = Stripe { worker: 0, of: 1 };

    #[test]
    fn a_constant_rate_does_not_drift() {
        let times = take(Arrivals::Constant { rate: 3.0 }, 0, ALONE, 3_600_000_000_000);
        assert_eq!(times.len(), 3 * 3600 + 1);
        assert_eq!(times[3 * 3600], 3_600_000_000_000);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_spread_of_an_exponential() {
        let times = take(Arrivals::Poisson { rate: 1000.0 }, 7, ALONE, 200_000_000_000);
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // 200,000 gaps: the standard error of the mean is 0.22 %, that of the coefficient of variation 0.32 %.
        assert!((mean / 1e6 - 1.0).abs() < 0.01, "mean gap {mean} ns");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.015, "coefficient {}", variance.sqrt() / mean);
    }

    proptest! {
        #[test]
        fn workers_partition_the_schedule(
            seed in any::<u64>(), of in 1u64..8, rate in 1.0f64..5000.0, poisson in any::<bool>(),
        ) {
            let arrivals = if poisson { Arrivals::Poisson { rate } } else { Arrivals::Constant { rate } };
            let until = 2_000_000_000;
            let whole = take(arrivals, seed, ALONE, until);
            let mut parts: Vec<u64> = (0..of)
                .flat_map(|worker| take(arrivals, seed, Stripe { worker, of }, until))
                .collect();
            parts.sort_unstable();
            prop_assert!(whole.is_sorted());
            prop_assert_eq!(whole, parts);
        }
    }
}
