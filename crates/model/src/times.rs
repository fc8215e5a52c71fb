//! Records distributions of durations, in nanoseconds, with three significant digits.
//!
//! The load path fills a [`Recording`], a flat array of counters. Sealing converts it to [`Times`],
//! which store only the used counters: a few kilobytes instead of a quarter of a megabyte. Both use
//! the layout of an HdrHistogram from 1 ns to one hour with three significant digits, so that other
//! tools can read them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::limits::COUNT;

/// Longest recordable duration. Longer durations are recorded as this duration. It is above every
/// timeout that `dyno-suite` accepts.
pub const MAX_NS: u64 = 3_600_000_000_000;

/// Maps durations to buckets by HdrHistogram's layout for three significant digits. The first 2,048
/// buckets are one nanosecond wide. Each following group of 1,024 buckets is twice as wide as the
/// group before it.
mod layout {
    use super::MAX_NS;

    const HALF_BITS: u32 = 10;
    const HALF: usize = 1 << HALF_BITS;
    pub(super) const BUCKETS: usize = index(MAX_NS) / HALF * HALF + HALF;

    /// Returns the bucket of a duration. `doublings`: how often the width of buckets has doubled.
    #[inline]
    pub(super) const fn index(ns: u64) -> usize {
        let doublings = (63 - HALF_BITS) - (ns | (2 * HALF as u64 - 1)).leading_zeros();
        (doublings as usize) * HALF + (ns >> doublings) as usize
    }

    /// Returns how often the width has doubled from the first bucket to this one.
    const fn doublings_before(index: usize) -> usize {
        (index >> HALF_BITS).saturating_sub(1)
    }

    /// Returns the shortest duration of a bucket.
    pub(super) const fn shortest(index: usize) -> u64 {
        let doublings = doublings_before(index);
        ((index - doublings * HALF) as u64) << doublings
    }

    /// Returns the longest duration of a bucket.
    pub(super) const fn longest(index: usize) -> u64 {
        shortest(index) + (1 << doublings_before(index)) - 1
    }
}

/// A distribution that is being filled. Recording neither allocates memory nor takes a lock. All
/// counters are in one array, and the kernel backs only its used pages with memory.
#[derive(Clone, Debug)]
pub struct Recording {
    counts: Box<[u64]>,
    count: u64,
    /// Lowest and highest bucket in use. No bucket is in use if `lowest` is above `highest`.
    lowest: usize,
    highest: usize,
}

impl Recording {
    #[must_use]
    pub fn new() -> Self {
        Recording {
            counts: vec![0; layout::BUCKETS].into(),
            count: 0,
            lowest: usize::MAX,
            highest: 0,
        }
    }

    /// Records a duration. Zero is recorded as one nanosecond.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.add_at(layout::index(ns.clamp(1, MAX_NS)), 1);
    }

    /// Adds all samples of a distribution.
    pub fn add(&mut self, times: &Times) {
        times.buckets().for_each(|(index, n)| self.add_at(index, n));
    }

    /// Returns the recorded samples, and empties the recording.
    pub fn seal(&mut self) -> Times {
        let times = self.to_times();
        if self.count > 0 {
            self.counts[self.lowest..=self.highest].fill(0);
        }
        (self.count, self.lowest, self.highest) = (0, usize::MAX, 0);
        times
    }

    /// Returns the distribution recorded so far.
    #[must_use]
    pub fn to_times(&self) -> Times {
        if self.count == 0 {
            return Times::new();
        }
        Times {
            count: self.count,
            payload: payload::encode(&self.counts[..=self.highest], self.lowest).into(),
        }
    }

    #[inline]
    fn add_at(&mut self, index: usize, n: u64) {
        self.counts[index] += n;
        self.count += n;
        self.lowest = self.lowest.min(index);
        self.highest = self.highest.max(index);
    }
}

impl Default for Recording {
    fn default() -> Self {
        Recording::new()
    }
}

/// A distribution of durations in nanoseconds, 1 to [`MAX_NS`], relative error at most 0.1 %.
///
/// Serialized as HdrHistogram V2, deflated, in base64, which is a common interchange format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    count: u64,
    /// The counters as HdrHistogram V2 writes them; empty without samples.
    payload: Box<[u8]>,
}

impl Times {
    #[must_use]
    pub fn new() -> Self {
        Times::default()
    }

    pub fn add(&mut self, other: &Times) {
        if self.is_empty() {
            *self = other.clone();
        } else if !other.is_empty() {
            *self = Times::merge([&*self, other]);
        }
    }

    #[must_use]
    pub fn merge<'a>(distributions: impl IntoIterator<Item = &'a Times>) -> Times {
        let mut sum = Recording::new();
        distributions.into_iter().for_each(|times| sum.add(times));
        sum.to_times()
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the value at quantile `q`, 0 to 1: the longest duration of the bucket with the
    /// sample of rank ⌈q·n⌉. `None`: no samples.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        if q == 0.0 {
            return self.buckets().next().map(|(index, _)| layout::shortest(index));
        }
        self.at_rank(rank(q, self.count))
    }

    /// Returns the sample of this rank, counted from 1 for the shortest: the longest duration of
    /// its bucket. `None`: fewer samples.
    #[must_use]
    pub fn at_rank(&self, rank: u64) -> Option<u64> {
        let mut samples = 0;
        let (index, _) = self.buckets().find(|(_, n)| {
            samples += n;
            samples >= rank
        })?;
        Some(layout::longest(index))
    }

    /// Splits off the `n` longest samples. Returns the shorter samples, and the `n` longest.
    #[must_use]
    pub fn split_longest(&self, n: u64) -> (Times, Times) {
        let mut remaining = self.count.saturating_sub(n);
        let (mut shorter, mut longest) = (Recording::new(), Recording::new());
        for (index, count) in self.buckets() {
            let short = count.min(remaining);
            remaining -= short;
            for (part, samples) in [(&mut shorter, short), (&mut longest, count - short)] {
                if samples > 0 {
                    part.add_at(index, samples);
                }
            }
        }
        (shorter.to_times(), longest.to_times())
    }

    #[must_use]
    pub fn min(&self) -> Option<u64> {
        self.buckets().next().map(|(index, _)| layout::shortest(index).max(1))
    }

    #[must_use]
    pub fn max(&self) -> Option<u64> {
        self.buckets().last().map(|(index, _)| layout::longest(index))
    }

    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.middles().map(|(ns, n)| ns * n).sum();
        (!self.is_empty()).then(|| sum / self.count as f64)
    }

    /// Returns the standard deviation of the samples (divided by n, not by n − 1).
    #[must_use]
    pub fn stdev(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares: f64 = self.middles().map(|(ns, n)| (ns - mean).powi(2) * n).sum();
        Some((squares / self.count as f64).sqrt())
    }

    /// Returns every recorded value with its number of samples, in ascending order.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets().map(|(index, n)| (layout::longest(index), n))
    }

    /// Returns the histogram in HdrHistogram's V2 format, deflated, as in `.hlog` files.
    #[must_use]
    pub fn to_v2_deflate(&self) -> Vec<u8> {
        v2::write(&self.payload)
    }

    /// Middles of the used buckets with their counts. HdrHistogram uses them for means.
    fn middles(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.buckets().map(|(index, n)| {
            let (shortest, longest) = (layout::shortest(index), layout::longest(index));
            ((shortest + (longest - shortest).div_ceil(2)) as f64, n as f64)
        })
    }

    fn buckets(&self) -> payload::Buckets<'_> {
        payload::Buckets { remainder: &self.payload, index: 0 }
    }
}

/// Encodes and decodes the payload of HdrHistogram V2: a zig-zag LEB128 number for each counter. A
/// negative number stands for a run of zeros.
mod payload {
    /// Encodes `counts`. The first `zeros` counts are zero, and the last count is not zero.
    pub(super) fn encode(counts: &[u64], zeros: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut run = zeros as i64;
        for &count in &counts[zeros..] {
            if count == 0 {
                run += 1;
                continue;
            }
            if run > 0 {
                put(&mut out, -run);
                run = 0;
            }
            put(&mut out, i64::try_from(count).unwrap_or(i64::MAX));
        }
        out
    }

    fn put(out: &mut Vec<u8>, value: i64) {
        let mut remainder = ((value << 1) ^ (value >> 63)) as u64;
        // A number has at most nine bytes. The ninth has eight bits.
        for _ in 0..8 {
            if remainder < 0x80 {
                return out.push(remainder as u8);
            }
            out.push(remainder as u8 | 0x80);
            remainder >>= 7;
        }
        out.push(remainder as u8);
    }

    /// Iterator over the non-zero counters of a payload, with their indices. It ends early if the
    /// payload is truncated.
    #[derive(Debug)]
    pub(super) struct Buckets<'a> {
        pub(super) remainder: &'a [u8],
        pub(super) index: usize,
    }

    impl Buckets<'_> {
        fn take(&mut self) -> Option<i64> {
            let mut value = 0u64;
            for i in 0..9 {
                let (&byte, remainder) = self.remainder.split_first()?;
                self.remainder = remainder;
                if i == 8 {
                    value |= u64::from(byte) << 56;
                    break;
                }
                value |= u64::from(byte & 0x7F) << (7 * i);
                if byte & 0x80 == 0 {
                    break;
                }
            }
            // Zig-zag: the lowest bit is the sign.
            Some((value >> 1) as i64 ^ -((value & 1) as i64))
        }
    }

    impl Iterator for Buckets<'_> {
        type Item = (usize, u64);

        fn next(&mut self) -> Option<(usize, u64)> {
            loop {
                match self.take()? {
                    0 => self.index = self.index.saturating_add(1),
                    zeros @ ..0 => {
                        self.index = self.index.saturating_add(zeros.unsigned_abs() as usize);
                    }
                    count => {
                        let index = self.index;
                        self.index = index.saturating_add(1);
                        return Some((index, count as u64));
                    }
                }
            }
        }
    }
}

/// Writes and reads HdrHistogram's V2 container.
mod v2 {
    use std::io::{Read as _, Write as _};

    use flate2::Compression;
    use flate2::read::ZlibDecoder;
    use flate2::write::ZlibEncoder;

    use super::MAX_NS;

    const COOKIE: u32 = 0x1C84_9313;
    const COMPRESSED_COOKIE: u32 = 0x1C84_9314;
    const HEADER_BYTES: usize = 40;
    const DIGITS: u32 = 3;
    const LONGEST_COUNTER: usize = 9;

    pub(super) fn write(payload: &[u8]) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend(COOKIE.to_be_bytes());
        header.extend((payload.len() as u32).to_be_bytes());
        // The normalising offset, which is unused.
        header.extend(0u32.to_be_bytes());
        header.extend(DIGITS.to_be_bytes());
        header.extend(1u64.to_be_bytes());
        header.extend(MAX_NS.to_be_bytes());
        header.extend(1f64.to_be_bytes());
        let mut deflate = ZlibEncoder::new(Vec::new(), Compression::default());
        let deflated = deflate.write_all(&header).and_then(|()| deflate.write_all(payload));
        let deflated =
            deflated.and_then(|()| deflate.finish()).expect("writes to memory should succeed");
        let mut out = Vec::with_capacity(deflated.len() + 8);
        out.extend(COMPRESSED_COOKIE.to_be_bytes());
        out.extend((deflated.len() as u32).to_be_bytes());
        out.extend(deflated);
        out
    }

    /// Returns the payload of a histogram with the bounds of [`super::layout`].
    pub(super) fn read(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let (cookie, remainder) = bytes.split_at_checked(8).ok_or("truncated")?;
        if cookie[..4] != COMPRESSED_COOKIE.to_be_bytes() {
            return Err("not a deflated HdrHistogram (V2)".into());
        }
        let mut content = Vec::new();
        // A few bytes of a malicious file could inflate to gigabytes. No valid payload is longer
        // than all counters at their longest.
        let max_bytes = HEADER_BYTES + super::layout::BUCKETS * LONGEST_COUNTER;
        ZlibDecoder::new(remainder)
            .take(max_bytes as u64)
            .read_to_end(&mut content)
            .map_err(|error| error.to_string())?;
        let (header, payload) = content.split_at_checked(HEADER_BYTES).ok_or("truncated")?;
        let bounds = (&header[12..16], &header[16..24], &header[24..32]);
        if header[..4] != COOKIE.to_be_bytes() || bounds != header_bytes() {
            return Err("not a histogram of times from 1 ns to one hour with three significant \
                        digits"
                .into());
        }
        Ok(payload.to_vec())
    }

    const fn header_bytes() -> (&'static [u8], &'static [u8], &'static [u8]) {
        const ONE: [u8; 8] = 1u64.to_be_bytes();
        const MAX: [u8; 8] = MAX_NS.to_be_bytes();
        const THREE: [u8; 4] = DIGITS.to_be_bytes();
        (&THREE, &ONE, &MAX)
    }
}

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.is_empty() {
            return to.serialize_str("");
        }
        to.serialize_str(&STANDARD.encode(self.to_v2_deflate()))
    }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let mut recording = Recording::new();
        if !text.is_empty() {
            let bytes = STANDARD.decode(text).map_err(de::Error::custom)?;
            let payload = v2::read(&bytes).map_err(de::Error::custom)?;
            for (index, n) in (payload::Buckets { remainder: &payload, index: 0 }) {
                if index >= layout::BUCKETS {
                    return Err(de::Error::custom(
                        "the histogram has more counters than its bounds allow",
                    ));
                }
                // Sums over many distributions must not overflow.
                if n > COUNT - recording.count {
                    return Err(de::Error::custom(format!(
                        "the histogram has more than {COUNT} samples"
                    )));
                }
                recording.add_at(index, n);
            }
        }
        Ok(recording.to_times())
    }
}

/// Returns the rank of quantile `q`, 0 to 1, among `count` samples: ⌈q·n⌉, 1 to `count`, counted
/// from the shortest. It is 1 without samples.
///
/// A product that is an integer but for rounding is that integer: 0.07 × 100 is the 7th sample.
#[must_use]
pub fn rank(q: f64, count: u64) -> u64 {
    // The product is off by less than a unit in its last place, and so is q.
    let product = q * count as f64 * (1.0 - 4.0 * f64::EPSILON);
    (product.ceil() as u64).clamp(1, count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{
        Deserializer as HdrDeserializer, Serializer as _, V2DeflateSerializer,
    };
    use proptest::prelude::*;

    fn times(values: &[u64]) -> Times {
        let mut recording = Recording::new();
        values.iter().for_each(|&v| recording.record(v));
        recording.seal()
    }

    /// Returns the histogram of the values from the reference implementation.
    fn reference(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, MAX_NS, 3).unwrap();
        values.iter().for_each(|&v| histogram.record(v.clamp(1, MAX_NS)).unwrap());
        histogram
    }

    #[test]
    fn rank_allows_for_rounding_of_product() {
        let ranks = [(0.07, 100), (0.071, 100), (0.99, 100), (0.0, 9), (1.0, 9), (0.5, 0)]
            .map(|(q, count)| rank(q, count));
        assert_eq!(ranks, [7, 8, 99, 1, 9, 1]);
        for n in 1..2_000 {
            assert_eq!(rank(0.9, 10 * n), 9 * n);
            assert_eq!(rank(0.999, 1_000 * n), 999 * n);
        }
    }

    #[test]
    fn empty_distribution_has_no_values() {
        let times = Times::new();
        assert_eq!(
            (times.quantile(0.5), times.min(), times.max(), times.mean()),
            (None, None, None, None)
        );
    }

    #[test]
    fn out_of_range_duration_is_recorded_at_bound() {
        let times = times(&[0, u64::MAX]);
        assert_eq!(times.count(), 2);
        assert_eq!(times.min(), Some(1));
        assert!(times.max().unwrap() >= MAX_NS);
    }

    #[test]
    fn sealed_recording_is_empty() {
        let mut recording = Recording::new();
        [1, 5000, MAX_NS].into_iter().for_each(|v| recording.record(v));
        assert_eq!(recording.seal().count(), 3);
        assert_eq!(recording.seal(), Times::new());
        assert!(recording.counts.iter().all(|&n| n == 0));
    }

    #[test]
    fn split_longest_separates_longest_samples() {
        let all = times(&[10, 20, 20, 30]);
        assert_eq!(all.split_longest(2), (times(&[10, 20]), times(&[20, 30])));
        assert_eq!(all.split_longest(0), (all.clone(), Times::new()));
        assert_eq!(all.split_longest(9), (Times::new(), all.clone()));
        assert_eq!(
            [1, 2, 3, 4, 5].map(|rank| all.at_rank(rank)),
            [Some(10), Some(20), Some(20), Some(30), None]
        );
    }

    #[test]
    fn histogram_with_other_bounds_or_damage_is_refused() {
        let other = {
            let mut h = Histogram::<u64>::new_with_bounds(1, 1000, 2).unwrap();
            h.record(7).unwrap();
            let mut bytes = Vec::new();
            V2DeflateSerializer::new().serialize(&h, &mut bytes).unwrap();
            STANDARD.encode(bytes)
        };
        for text in [
            other,
            "AAAA".into(),
            "!".into(),
            STANDARD.encode([0x1C, 0x84, 0x93, 0x14, 0, 0, 0, 1, 7]),
        ]
        .into_iter()
        .chain(
            [[&[0xFF; 9][..], &[2]].concat(), [&[0xFE; 9][..], &[0xFE; 9]].concat()].map(
                |payload| {
                    // A run of zeros longer than the index range; counts whose sum does not fit.
                    STANDARD.encode(v2::write(&payload))
                },
            ),
        ) {
            assert!(serde_json::from_value::<Times>(text.clone().into()).is_err(), "{text}");
        }
    }

    fn durations(n: usize) -> impl Strategy<Value = Vec<u64>> {
        // Evenly over the magnitudes, edges of buckets included.
        proptest::collection::vec(
            (0u32..42, any::<u64>()).prop_map(|(bits, v)| v % ((1 << bits) + 2)),
            0..n,
        )
    }

    proptest! {
        #[test]
        fn statistics_equal_those_of_hdrhistogram(values in durations(80), q in 0.0f64..=1.0) {
            let (ours, theirs) = (times(&values), reference(&values));
            prop_assert_eq!(ours.count(), theirs.len());
            if !values.is_empty() {
                prop_assert_eq!(ours.quantile(q), Some(theirs.value_at_quantile(q)));
                prop_assert_eq!(ours.max(), Some(theirs.max()));
                prop_assert_eq!(ours.min(), Some(theirs.min()));
                prop_assert!((ours.mean().unwrap() / theirs.mean() - 1.0).abs() < 1e-9);
                let difference = (ours.stdev().unwrap() - theirs.stdev()).abs();
                prop_assert!(difference <= 1e-9 * theirs.stdev());
            }
        }

        #[test]
        fn v2_format_is_compatible_both_ways(values in durations(80)) {
            let (ours, theirs) = (times(&values), reference(&values));
            let read: Histogram<u64> =
                HdrDeserializer::new().deserialize(&mut ours.to_v2_deflate().as_slice()).unwrap();
            prop_assert_eq!(&read, &theirs);
            let mut bytes = Vec::new();
            V2DeflateSerializer::new().serialize(&theirs, &mut bytes).unwrap();
            let back: Times = serde_json::from_value(STANDARD.encode(bytes).into()).unwrap();
            prop_assert_eq!(back, ours);
        }

        #[test]
        fn json_round_trip_is_lossless(values in durations(50)) {
            let times = times(&values);
            let text = serde_json::to_string(&times).unwrap();
            prop_assert_eq!(serde_json::from_str::<Times>(&text).unwrap(), times);
        }

        #[test]
        fn merge_is_independent_of_order(a in durations(30), b in durations(30)) {
            let (a, b) = (times(&a), times(&b));
            let mut sum = a.clone();
            sum.add(&b);
            prop_assert_eq!(&sum, &Times::merge([&b, &a]));
            prop_assert_eq!(sum.count(), a.count() + b.count());
        }
    }
}
