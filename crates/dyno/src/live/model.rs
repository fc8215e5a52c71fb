//! The numbers of the live view, without a clock. `cmd/load/watch.rs` updates them after each
//! interval.

use dyno_model::times;

/// Maximum number of points. If there are more, they are merged in pairs, so that older points
/// become coarser.
const MAX_POINTS: usize = 600;

/// Minimum ratio between the ends of a histogram. A narrower histogram would show gaps between
/// recordable values.
const MIN_RATIO: f64 = 2.0;

/// The numbers that the live view shows.
#[derive(Clone, Debug, Default)]
pub struct LiveModel {
    /// URL of the load: `http://127.0.0.1:8080/plaintext`.
    pub title: String,
    /// Shape of the load: `h1 · 64 connections · closed loop · io_uring × 1`.
    pub subtitle: String,
    pub phase: LivePhase,
    /// Time since the load began, warm-up included.
    pub elapsed_s: f64,
    /// Planned time, warm-up included. `None`: the load has no planned end.
    pub planned_s: Option<f64>,
    /// Points of the warm-up and the measured window, oldest first, without gaps from 0. The drain
    /// has no points. [`LiveModel::push`] adds points, and limits their number.
    pub points: Vec<LivePoint>,
    /// Response times of correct responses in the measured window so far, ascending: (nanoseconds,
    /// count).
    pub histogram: Vec<(u64, u64)>,
    /// Requests of the measured window so far without a correct response. In percentiles, these
    /// requests rank above the histogram.
    pub unanswered: u64,
    /// Longest known wait of requests without a correct response, in microseconds.
    pub longest_wait_us: Option<f64>,
    /// Requests of the warm-up that failed in the measured window.
    pub late_warmup_failures: u64,
    /// Counts of exchanges that were not ok, without zeros. During the warm-up the counts are of
    /// requests of the warm-up, later of requests of the measured window.
    pub outcomes: Vec<(&'static str, u64)>,
    pub connections_open: u64,
    pub connections_requested: u64,
    /// Busy share (0 to 1) of each generator thread in the last interval.
    pub threads: Vec<f64>,
    /// Intended requests per second. `None`: the load has no constant rate.
    pub offered_rps: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LivePhase {
    #[default]
    Connecting,
    Warmup,
    Measured,
    Drain,
}

impl LivePhase {
    pub fn name(self) -> &'static str {
        match self {
            LivePhase::Connecting => "connecting",
            LivePhase::Warmup => "warm-up",
            LivePhase::Measured => "measured",
            LivePhase::Drain => "drain",
        }
    }
}

/// A finished interval, or several merged intervals. A point begins at the end of the previous
/// point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LivePoint {
    /// Time since the load began.
    pub end_s: f64,
    pub warmup: bool,
    /// Correct responses per second.
    pub rps: f64,
    /// Percentiles of response time. `None`: unknown.
    pub p50_us: Option<f64>,
    pub p90_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub max_us: Option<f64>,
    /// Whether p50, p90, p99 and the maximum are only lower bounds, because they lie among requests
    /// without a correct response.
    pub are_lower_bounds: [bool; 4],
    /// Requests of the point's phase that failed.
    pub failed: u64,
    pub send_lag_p99_us: Option<f64>,
    pub loop_lag_p99_us: Option<f64>,
    pub wake_lag_p99_us: Option<f64>,
    pub dropped: u64,
}

/// A response time in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LiveResponseTime {
    At(f64),
    /// Longer than this wait, because the percentile lies among requests without a correct
    /// response.
    LongerThan(f64),
}

impl LivePoint {
    /// Merges this point, which began at `start_s`, with the next point. A percentile of both
    /// points together lies between the percentiles of the two, so the larger percentile is never
    /// too low.
    fn merge(&self, start_s: f64, next: &LivePoint) -> LivePoint {
        let (own_length_s, next_length_s) = (self.end_s - start_s, next.end_s - self.end_s);
        let share = own_length_s / (own_length_s + next_length_s);
        // Two points without length have the same weight.
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 };
        LivePoint {
            end_s: next.end_s,
            warmup: self.warmup,
            rps: self.rps * share + next.rps * (1.0 - share),
            p50_us: larger(self.p50_us, next.p50_us),
            p90_us: larger(self.p90_us, next.p90_us),
            p99_us: larger(self.p99_us, next.p99_us),
            max_us: larger(self.max_us, next.max_us),
            are_lower_bounds: std::array::from_fn(|i| {
                self.are_lower_bounds[i] || next.are_lower_bounds[i]
            }),
            failed: self.failed.saturating_add(next.failed),
            send_lag_p99_us: larger(self.send_lag_p99_us, next.send_lag_p99_us),
            loop_lag_p99_us: larger(self.loop_lag_p99_us, next.loop_lag_p99_us),
            wake_lag_p99_us: larger(self.wake_lag_p99_us, next.wake_lag_p99_us),
            dropped: self.dropped.saturating_add(next.dropped),
        }
    }
}

/// Returns the larger of two values, if any is known.
pub fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

impl LiveModel {
    /// Adds the latest interval. An interval of the drain must not be added, because it would lower
    /// the rate. The last point is never merged, because the view shows it as the present state.
    pub fn push(&mut self, point: LivePoint) {
        if self.points.len() >= MAX_POINTS {
            self.points = merge_pairs(&self.points);
        }
        self.points.push(point);
    }

    /// Returns each point with its start in seconds.
    pub fn spans(&self) -> impl Iterator<Item = (f64, &LivePoint)> {
        spans(&self.points)
    }

    /// Returns the correct responses per second over the measured window so far.
    pub fn measured_rps(&self) -> Option<f64> {
        let (mut seconds, mut responses) = (0.0_f64, 0.0_f64);
        for (start_s, point) in self.spans().filter(|(_, point)| !point.warmup) {
            let length_s = point.end_s - start_s;
            seconds += length_s;
            responses += point.rps * length_s;
        }
        Some(responses / seconds).filter(|rps| rps.is_finite())
    }

    /// Returns the response time that a share (0 to 1) of the measured requests did not exceed.
    pub fn response(&self, share: f64) -> Option<LiveResponseTime> {
        match self.response_us(share) {
            Some(us) => Some(LiveResponseTime::At(us)),
            None if self.unanswered > 0 => self.longest_wait_us.map(LiveResponseTime::LongerThan),
            None => None,
        }
    }

    /// Returns the share of measured requests without a correct response.
    pub fn unanswered_share(&self) -> f64 {
        let correct: f64 = self.histogram.iter().map(|&(_, n)| n as f64).sum();
        let unanswered = self.unanswered as f64;
        if unanswered > 0.0 { unanswered / (correct + unanswered) } else { 0.0 }
    }

    /// Returns [`LiveModel::response`] in microseconds. `None`: the response time lies among
    /// requests without a correct response.
    pub fn response_us(&self, share: f64) -> Option<f64> {
        let correct = self.histogram.iter().fold(0, |sum: u64, &(_, n)| sum.saturating_add(n));
        let rank = times::rank(share, correct.saturating_add(self.unanswered));
        let mut counted: u64 = 0;
        for &(ns, n) in &self.histogram {
            counted = counted.saturating_add(n);
            if counted >= rank {
                return Some(ns as f64 / 1e3);
            }
        }
        None
    }
}

/// Returns each point with its start in seconds, which is the end of the previous point.
fn spans(points: &[LivePoint]) -> impl Iterator<Item = (f64, &LivePoint)> {
    let starts = std::iter::once(0.0).chain(points.iter().map(|p| p.end_s));
    starts.zip(points)
}

/// Merges points in pairs, but not a point of the warm-up with a point of the measured window.
fn merge_pairs(points: &[LivePoint]) -> Vec<LivePoint> {
    let mut merged = Vec::with_capacity(points.len() / 2 + 1);
    let mut remaining = spans(points).peekable();
    while let Some((start, point)) = remaining.next() {
        let pair = remaining.next_if(|(_, next)| next.warmup == point.warmup);
        merged.push(pair.map_or_else(|| point.clone(), |(_, next)| point.merge(start, next)));
    }
    merged
}

/// A histogram over equal steps of the logarithm of time.
#[derive(Debug)]
pub struct Bins {
    pub low_ns: f64,
    pub high_ns: f64,
    pub counts: Vec<u64>,
}

impl Bins {
    /// Counts a histogram. `None`: the histogram is empty.
    pub fn from_histogram(histogram: &[(u64, u64)], bins: usize) -> Option<Bins> {
        let mut counted = histogram.iter().filter(|(_, n)| *n > 0).map(|&(ns, _)| ns.max(1) as f64);
        let first = counted.next().filter(|_| bins > 0)?;
        let last = counted.next_back().unwrap_or(first);
        let (low_ns, high_ns) = widen(first, last, MIN_RATIO);
        let mut result = Bins { low_ns, high_ns, counts: vec![0; bins] };
        for &(ns, n) in histogram {
            let bin = result.bin(ns as f64);
            result.counts[bin] = result.counts[bin].saturating_add(n);
        }
        Some(result)
    }

    /// Returns the bin of a time, or the nearest bin if the time lies outside of the histogram.
    pub fn bin(&self, ns: f64) -> usize {
        // The position on the logarithmic axis, 0 to 1 within the histogram.
        let share = (ns.max(1.0) / self.low_ns).ln() / (self.high_ns / self.low_ns).ln();
        ((share * self.counts.len() as f64).max(0.0) as usize).min(self.counts.len() - 1)
    }
}

/// Widens a range of positive numbers about its geometric middle, so that the ratio of its ends is
/// at least `ratio`.
pub fn widen(low: f64, high: f64, ratio: f64) -> (f64, f64) {
    let factor = (ratio * low / high).max(1.0).sqrt();
    (low / factor, high * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(end_s: f64, warmup: bool, rps: f64) -> LivePoint {
        LivePoint { end_s, warmup, rps, p99_us: Some(rps), failed: 1, ..LivePoint::default() }
    }

    #[test]
    fn push_limits_points_and_keeps_failures_and_mean() {
        let mut model = LiveModel::default();
        for i in 1..=5000 {
            let last = point(f64::from(i), i <= 33, f64::from(i));
            model.push(last.clone());
            assert!(model.points.len() <= MAX_POINTS);
            assert_eq!(model.points.last(), Some(&last), "the present state is one interval");
        }
        assert_eq!(model.points.iter().map(|p| p.failed).sum::<u64>(), 5000);
        let warmup_ends = model.points.iter().rfind(|p| p.warmup).unwrap().end_s;
        assert_eq!(warmup_ends, 33.0, "the warm-up is not merged with the measured window");
        let mean = f64::midpoint(34.0, 5000.0);
        assert!((model.measured_rps().unwrap() / mean - 1.0).abs() < 1e-9);
        assert!(model.spans().all(|(start, p)| p.end_s > start));
    }

    #[test]
    fn merge_weights_rates_and_keeps_larger_percentile() {
        let next = LivePoint { p50_us: Some(7.0), ..point(4.0, false, 40.0) };
        let merged = point(1.0, false, 80.0).merge(0.0, &next);
        assert_eq!(
            merged,
            LivePoint {
                failed: 2,
                p99_us: Some(80.0),
                p50_us: Some(7.0),
                ..point(4.0, false, 50.0)
            }
        );
        assert_eq!(point(0.0, false, 2.0).merge(0.0, &point(0.0, false, 4.0)).rps, 3.0);
    }

    #[test]
    fn bins_are_logarithmic_and_count_everything() {
        let decades: Vec<_> = (0..=6).map(|e| (10u64.pow(e), 1 + u64::from(e))).collect();
        let bins = Bins::from_histogram(&decades, 6).unwrap();
        assert_eq!((bins.low_ns, bins.high_ns), (1.0, 1e6));
        assert_eq!(bins.counts.iter().sum::<u64>(), 28);
        assert_eq!(bins.counts[0], 1);
        assert_eq!((bins.bin(0.0), bins.bin(1e12)), (0, 5));
    }

    #[test]
    fn single_value_lies_in_middle_of_range() {
        let bins = Bins::from_histogram(&[(1, 0), (1000, 9), (u64::MAX, 0)], 7).unwrap();
        assert!((bins.high_ns / bins.low_ns - 2.0).abs() < 1e-9);
        assert_eq!(bins.counts[3], 9);
        assert!(
            Bins::from_histogram(&[], 7).is_none() && Bins::from_histogram(&[(5, 0)], 7).is_none()
        );
    }

    #[test]
    fn response_us_is_from_histogram() {
        let histogram = vec![(1_000, 50), (2_000, 49), (9_000, 1)];
        let model = LiveModel { histogram, ..LiveModel::default() };
        assert_eq!(
            [0.5, 0.51, 0.99, 1.0].map(|q| model.response_us(q).unwrap()),
            [1.0, 2.0, 2.0, 9.0]
        );
        assert_eq!(LiveModel::default().response_us(0.99), None);
        let histogram = (1..=100).map(|us| (us * 1_000, 1)).collect();
        let model = LiveModel { histogram, ..LiveModel::default() };
        assert_eq!(model.response_us(0.07), Some(7.0), "the product is rounded to above 7");
    }

    #[test]
    fn unanswered_requests_rank_above_responses() {
        let histogram = vec![(1_000, 50), (2_000, 40)];
        let (unanswered, longest_wait_us) = (10, Some(1.2e6));
        let model = LiveModel { histogram, unanswered, longest_wait_us, ..LiveModel::default() };
        let at = |q| model.response(q).unwrap();
        assert_eq!([0.5, 0.9].map(at), [LiveResponseTime::At(1.0), LiveResponseTime::At(2.0)]);
        assert_eq!([0.91, 0.99, 1.0].map(at), [LiveResponseTime::LongerThan(1.2e6); 3]);
        assert_eq!(model.unanswered_share(), 0.1);
    }
}
