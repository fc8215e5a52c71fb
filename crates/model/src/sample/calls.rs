//! Counters of system calls.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// System calls, counted all the time or in slices of time. Sums since monitoring of the party
/// began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallsUse {
    /// Time in which calls were counted, nanoseconds. If responses are not counted, the counts of
    /// each slice are scaled up to the slice and the gap before it. In this case, the field is the
    /// time of slices and gaps together.
    pub counted_ns: u64,
    /// Number of slices in which calls were counted.
    pub slices: u64,
    /// Number of complete responses, correct or not, that the generator received while calls were
    /// counted; `None`: no generator.
    #[serde(rename = "answers")]
    pub responses: Option<u64>,
    /// Calls by name; futex calls by their operation.
    pub by_name: BTreeMap<String, CallUse>,
    /// Rates of the slices, if responses are not counted. The archive does not contain them.
    #[serde(skip)]
    pub slice_rates: SliceRates,
}

/// Sums over the rates of slices, in which calls are counted. A gap is the time between two slices.
/// The sums give the error of an estimate of the number of calls in slices and gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SliceRates {
    /// Number of slices after a gap.
    slices: u128,
    /// Sum of the rates of these slices, calls per second.
    sum: u128,
    /// Sum of the squares of these rates.
    squares: u128,
    /// Sum of the squares of the lengths of gaps, ns².
    gap_squares: u128,
    /// The calls of each gap have two estimates: from the slice after the gap, and from the slice
    /// before it. The field is the sum of the squares of the differences between the two estimates.
    step_squares: u128,
    /// Rate of the last slice, with or without a gap, calls per second. `None`: no slice yet.
    last_rate: Option<u128>,
}

impl SliceRates {
    /// Adds a slice after a gap, nanoseconds. A slice that follows another without a gap (0) only
    /// sets the rate before the next gap.
    pub fn add(&mut self, calls_per_s: u64, gap_ns: u64) {
        let (rate, gap_ns) = (u128::from(calls_per_s), u128::from(gap_ns));
        let last_rate = self.last_rate.replace(rate);
        if gap_ns == 0 {
            return;
        }
        let step = rate.abs_diff(last_rate.unwrap_or(rate)) * gap_ns / 1_000_000_000;
        self.step_squares += step * step;
        self.slices += 1;
        self.sum += rate;
        self.squares += rate * rate;
        self.gap_squares += gap_ns * gap_ns;
    }

    /// Returns the sums since an earlier reading.
    #[must_use]
    pub const fn since(&self, base: &SliceRates) -> SliceRates {
        SliceRates {
            slices: self.slices.saturating_sub(base.slices),
            sum: self.sum.saturating_sub(base.sum),
            squares: self.squares.saturating_sub(base.squares),
            gap_squares: self.gap_squares.saturating_sub(base.gap_squares),
            step_squares: self.step_squares.saturating_sub(base.step_squares),
            last_rate: self.last_rate,
        }
    }

    /// Adds the sums of another stretch of time.
    #[must_use]
    pub const fn merge(&self, other: &SliceRates) -> SliceRates {
        SliceRates {
            slices: self.slices + other.slices,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
            gap_squares: self.gap_squares + other.gap_squares,
            step_squares: self.step_squares + other.step_squares,
            last_rate: other.last_rate,
        }
    }

    /// Returns the standard error of the number of calls. Calls in gaps are not counted, but
    /// estimated from the slice after each gap. The result is the larger of two estimates:
    ///
    /// - from the sample variance of the rates (Cochran, *Sampling Techniques*, 1977, §2.6)
    /// - from the differences between the slices after and before each gap (Wolter, *Introduction
    ///   to Variance Estimation*, 2007, §8.2). Without this estimate, a burst that ends in a gap
    ///   would be missed, because the few slices after it may all be idle.
    ///
    /// 0: there were no gaps. `None`: one slice, or slices of the same rate, do not show how much
    /// rates vary.
    #[must_use]
    pub fn standard_error(&self) -> Option<f64> {
        if self.gap_squares == 0 {
            return Some(0.0);
        }
        let slices = self.slices as f64;
        let (sum, squares) = (self.sum as f64, self.squares as f64);
        let variance = (squares - sum * sum / slices).max(0.0) / (slices - 1.0);
        let by_variance = (variance * self.gap_squares as f64).sqrt() / 1e9;
        let by_steps = (self.step_squares as f64 / 2.0).sqrt();
        Some(by_variance.max(by_steps)).filter(|error| self.slices > 1 && *error > 0.0)
    }
}

/// System calls of one name that have returned. `None`: the calls were only counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallUse {
    pub count: u64,
    /// Part of `count` that failed.
    pub errors: Option<u64>,
    /// Part of `errors`: calls to be tried again later (EAGAIN).
    pub again: Option<u64>,
    /// Sum of the amounts that successful calls returned ([`crate::syscall::returned_amount`]):
    /// bytes of reads and writes, events of waits. 0: calls of this name return no amount.
    pub returned: Option<u64>,
}

impl Default for CallUse {
    /// Returns a record of zero calls, with all counts known.
    fn default() -> CallUse {
        CallUse { count: 0, errors: Some(0), again: Some(0), returned: Some(0) }
    }
}

impl CallUse {
    /// Returns these calls multiplied by a factor, rounded.
    #[must_use]
    pub fn scale(&self, times: f64) -> CallUse {
        let scaled = |n: u64| (n as f64 * times).round() as u64;
        CallUse {
            count: scaled(self.count),
            errors: self.errors.map(scaled),
            again: self.again.map(scaled),
            returned: self.returned.map(scaled),
        }
    }

    /// Adds other calls.
    pub fn add(&mut self, other: &CallUse) {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        self.count += other.count;
        self.errors = sum(self.errors, other.errors);
        self.again = sum(self.again, other.again);
        self.returned = sum(self.returned, other.returned);
    }

    /// Returns the calls made after `base` was read.
    #[must_use]
    pub fn growth_since(&self, base: &CallUse) -> CallUse {
        let since = |now: Option<u64>, base: Option<u64>| Some(now?.saturating_sub(base?));
        CallUse {
            count: self.count.saturating_sub(base.count),
            errors: since(self.errors, base.errors),
            again: since(self.again, base.again),
            returned: since(self.returned, base.returned),
        }
    }

    /// Returns the calls made after `base` was read, by name. Names without such calls are absent.
    #[must_use]
    pub fn all_since(
        now: &BTreeMap<String, CallUse>,
        base: &BTreeMap<String, CallUse>,
    ) -> BTreeMap<String, CallUse> {
        let none = CallUse::default();
        let since = |(name, now): (&String, &CallUse)| {
            (name.clone(), now.growth_since(base.get(name).unwrap_or(&none)))
        };
        now.iter().map(since).filter(|(_, made)| made.count > 0).collect()
    }
}
