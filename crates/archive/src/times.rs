//! Histograms of durations, in nanoseconds, with three significant digits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

/// The longest duration that keeps its value; longer ones are recorded as this one. One hour is beyond every
/// time-out a suite may ask for (`dyno-runner` refuses longer ones).
pub const MAX_NS: u64 = 3_600_000_000_000;

/// A distribution of durations in nanoseconds, 1 to [`MAX_NS`], relative error at most 0.1 %.
///
/// On disk it is the HdrHistogram V2 format, deflated, in base64: the field's interchange format, which other
/// tools read.
#[derive(Clone, Debug, PartialEq)]
pub struct Times(Histogram<u64>);

impl Times {
    #[must_use]
    pub fn new() -> Self {
        Times(Histogram::new_with_bounds(1, MAX_NS, 3).expect("constant bounds are valid"))
    }

    /// Records one duration. Zero is recorded as one nanosecond, the least the histogram can tell.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.clamp(1, MAX_NS));
    }

    pub fn add(&mut self, other: &Times) {
        self.0.add(&other.0).expect("all histograms share their bounds");
    }

    #[must_use]
    pub fn merged<'a>(all: impl IntoIterator<Item = &'a Times>) -> Times {
        let mut sum = Times::new();
        for times in all {
            sum.add(times);
        }
        sum
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value at quantile `q`, 0 to 1, or `None` without samples.
    #[must_use]
    pub fn at(&self, q: f64) -> Option<u64> {
        (!self.is_empty()).then(|| self.0.value_at_quantile(q))
    }

    #[must_use]
    pub fn min(&self) -> Option<u64> {
        (!self.is_empty()).then(|| self.0.min())
    }

    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (!self.is_empty()).then(|| self.0.max())
    }

    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.0.mean())
    }

    #[must_use]
    pub fn stdev(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.0.stdev())
    }

    /// `(value, samples at it)` for every value that occurred, ascending.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value()))
    }
}

impl Default for Times {
    fn default() -> Self {
        Times::new()
    }
}

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.is_empty() {
            return to.serialize_str("");
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).map_err(ser::Error::custom)?;
        to.serialize_str(&STANDARD.encode(bytes))
    }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let mut times = Times::new();
        if !text.is_empty() {
            let bytes = STANDARD.decode(text).map_err(de::Error::custom)?;
            let read: Histogram<u64> = hdrhistogram::serialization::Deserializer::new()
                .deserialize(&mut bytes.as_slice())
                .map_err(|e| de::Error::custom(format!("{e:?}")))?;
            times.0.add(&read).map_err(|e| de::Error::custom(format!("{e:?}")))?;
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_distribution_has_no_values() {
        let times = Times::new();
        assert_eq!((times.at(0.5), times.min(), times.max(), times.mean()), (None, None, None, None));
    }

    #[test]
    fn what_is_out_of_range_is_kept_at_the_edge() {
        let mut times = Times::new();
        times.record(0);
        times.record(u64::MAX);
        assert_eq!(times.count(), 2);
        assert_eq!(times.min(), Some(1));
        assert!(times.max().unwrap() >= MAX_NS);
    }

    proptest! {
        #[test]
        fn a_round_trip_changes_nothing(values in proptest::collection::vec(0u64..MAX_NS, 0..50)) {
            let mut times = Times::new();
            values.iter().for_each(|&v| times.record(v));
            let text = serde_json::to_string(&times).unwrap();
            let back: Times = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(times, back);
        }

        #[test]
        fn merging_does_not_depend_on_order(
            a in proptest::collection::vec(1u64..MAX_NS, 0..30),
            b in proptest::collection::vec(1u64..MAX_NS, 0..30),
        ) {
            let times = |values: &[u64]| {
                let mut t = Times::new();
                values.iter().for_each(|&v| t.record(v));
                t
            };
            let (a, b) = (times(&a), times(&b));
            prop_assert_eq!(Times::merged([&a, &b]), Times::merged([&b, &a]));
            prop_assert_eq!(Times::merged([&a, &b]).count(), a.count() + b.count());
        }
    }
}
