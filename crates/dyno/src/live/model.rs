//! The numbers that the live view shows, without a clock. `cmd/load/watch.rs` fills them in after
//! each interval.

/// Points kept. More are merged in pairs: the oldest become the coarsest, the newest stay one per
/// interval.
const POINTS_KEPT: usize = 600;

/// The least ratio between the ends of a histogram. A narrower one would show gaps between the
/// values that can be recorded.
const MIN_RATIO: f64 = 2.0;

#[derive(Clone, Debug, Default)]
pub struct LiveModel {
    /// The URL that is loaded: `http://127.0.0.1:8080/plaintext`.
    pub title: String,
    /// How: `h1 · 64 connections · closed loop · io_uring × 1`.
    pub subtitle: String,
    pub phase: LivePhase,
    /// Time since the load began, warm-up included.
    pub elapsed_s: f64,
    /// Planned time, warm-up included; `None`: the load has no set end.
    pub planned_s: Option<f64>,
    /// Points of the warm-up and the measured window, not of the drain: back to back from 0, oldest
    /// first. [`LiveModel::push`] adds them, and bounds their number.
    pub points: Vec<LivePoint>,
    /// Response times of correct responses in the measured window so far: (nanoseconds, count),
    /// ascending, sparse.
    pub histogram: Vec<(u64, u64)>,
    /// Requests of the measured window so far that were due and got no correct response: they rank
    /// above the histogram.
    pub unanswered: u64,
    /// The longest wait known of those, in microseconds.
    pub longest_wait_us: Option<f64>,
    /// Exchanges that were not ok, without zeros: of the warm-up while it lasts, then of the
    /// measured window.
    pub outcomes: Vec<(&'static str, u64)>,
    pub connections_open: u64,
    pub connections_asked: u64,
    /// Share of the last interval for which each thread of the generator was busy, 0 to 1.
    pub threads: Vec<f64>,
    /// Requests intended per second; `None`: a closed loop, or no constant rate.
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

/// One finished interval, or some that were merged. It begins where the one before it ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LivePoint {
    /// Time since the load began.
    pub end_s: f64,
    pub warmup: bool,
    /// Correct responses per second.
    pub rps: f64,
    /// Percentiles of response time; `None`: nothing is known.
    pub p50_us: Option<f64>,
    pub p90_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub max_us: Option<f64>,
    /// Which of the four above are only lower bounds, because they lie among unanswered requests.
    pub beyond: [bool; 4],
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
    /// Longer than this: it lies among unanswered requests.
    Beyond(f64),
}

impl LivePoint {
    /// This point, which began at `start_s`, and the next as one. A percentile of a union lies
    /// between those of its parts, so the larger one never flatters.
    fn merge(&self, start_s: f64, next: &LivePoint) -> LivePoint {
        let widths = (self.end_s - start_s, next.end_s - self.end_s);
        let share = widths.0 / (widths.0 + widths.1);
        // Two points of no length weigh the same.
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 };
        LivePoint {
            end_s: next.end_s,
            warmup: self.warmup,
            rps: self.rps * share + next.rps * (1.0 - share),
            p50_us: larger(self.p50_us, next.p50_us),
            p90_us: larger(self.p90_us, next.p90_us),
            p99_us: larger(self.p99_us, next.p99_us),
            max_us: larger(self.max_us, next.max_us),
            beyond: std::array::from_fn(|i| self.beyond[i] || next.beyond[i]),
            failed: self.failed.saturating_add(next.failed),
            send_lag_p99_us: larger(self.send_lag_p99_us, next.send_lag_p99_us),
            loop_lag_p99_us: larger(self.loop_lag_p99_us, next.loop_lag_p99_us),
            wake_lag_p99_us: larger(self.wake_lag_p99_us, next.wake_lag_p99_us),
            dropped: self.dropped.saturating_add(next.dropped),
        }
    }
}

pub fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

impl LiveModel {
    /// Adds the latest interval, which must not be of the drain: that would dilute the rate.
    pub fn push(&mut self, point: LivePoint) {
        self.points.push(point);
        if self.points.len() > POINTS_KEPT {
            self.points = in_pairs(&self.points);
        }
    }

    /// Each point with the second it began at.
    pub fn spans(&self) -> impl Iterator<Item = (f64, &LivePoint)> {
        spans(&self.points)
    }

    /// Correct responses per second over the measured window so far.
    pub fn measured_rps(&self) -> Option<f64> {
        let measured = self.spans().filter(|(_, p)| !p.warmup);
        let (seconds, answers) = measured
            .map(|(start, p)| (p.end_s - start, p.rps * (p.end_s - start)))
            .fold((0.0, 0.0), |sum, x| (sum.0 + x.0, sum.1 + x.1));
        Some(answers / seconds).filter(|rps| rps.is_finite())
    }

    /// The response time in microseconds that a share (0 to 1) of all that was due did not exceed.
    pub fn response(&self, share: f64) -> Option<LiveResponseTime> {
        let longest = || self.longest_wait_us.map(LiveResponseTime::Beyond);
        self.response_us(share)
            .map(LiveResponseTime::At)
            .or_else(|| longest().filter(|_| self.unanswered > 0))
    }

    /// The share of all that was due in the measured window that got no correct response.
    pub fn unanswered_share(&self) -> f64 {
        let answered: f64 = self.histogram.iter().map(|&(_, n)| n as f64).sum();
        let unanswered = self.unanswered as f64;
        if unanswered > 0.0 { unanswered / (answered + unanswered) } else { 0.0 }
    }

    /// [`LiveModel::response`] in microseconds if it lies among the correct responses, else `None`.
    pub fn response_us(&self, share: f64) -> Option<f64> {
        let answered: u128 = self.histogram.iter().map(|&(_, n)| u128::from(n)).sum();
        let total = answered + u128::from(self.unanswered);
        let wanted = ((total as f64 * share).ceil() as u128).clamp(1, total.max(1));
        let mut seen = 0;
        let at = self.histogram.iter().find(|(_, n)| {
            seen += u128::from(*n);
            seen >= wanted
        });
        at.map(|&(ns, _)| ns as f64 / 1e3)
    }
}

fn spans(points: &[LivePoint]) -> impl Iterator<Item = (f64, &LivePoint)> {
    let starts = std::iter::once(0.0).chain(points.iter().map(|p| p.end_s));
    starts.zip(points)
}

/// The points merged in pairs, but never one of the warm-up with a measured one.
fn in_pairs(points: &[LivePoint]) -> Vec<LivePoint> {
    let mut merged = Vec::with_capacity(points.len() / 2 + 1);
    let mut rest = spans(points).peekable();
    while let Some((start, point)) = rest.next() {
        let pair = rest.next_if(|(_, next)| next.warmup == point.warmup);
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
    /// `None` if there is nothing to count.
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

    /// The bin that a time falls into; the nearest one if it lies outside.
    pub fn bin(&self, ns: f64) -> usize {
        let share = (ns.max(1.0) / self.low_ns).ln() / (self.high_ns / self.low_ns).ln();
        ((share * self.counts.len() as f64).max(0.0) as usize).min(self.counts.len() - 1)
    }
}

/// A range of positive numbers, widened about its geometric middle so that its ends have at least
/// `ratio` between them.
pub fn widen(low: f64, high: f64, ratio: f64) -> (f64, f64) {
    let widen = (ratio * low / high).max(1.0).sqrt();
    (low / widen, high * widen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(end_s: f64, warmup: bool, rps: f64) -> LivePoint {
        LivePoint { end_s, warmup, rps, p99_us: Some(rps), failed: 1, ..LivePoint::default() }
    }

    #[test]
    fn points_are_bounded_and_lose_neither_failures_nor_the_mean() {
        let mut model = LiveModel::default();
        for i in 1..=5000 {
            model.push(point(f64::from(i), i <= 33, f64::from(i)));
            assert!(model.points.len() <= POINTS_KEPT);
        }
        assert_eq!(model.points.iter().map(|p| p.failed).sum::<u64>(), 5000);
        let warmup_ends = model.points.iter().rfind(|p| p.warmup).unwrap().end_s;
        assert_eq!(warmup_ends, 33.0, "the two phases stay apart");
        let mean = f64::midpoint(34.0, 5000.0);
        assert!((model.measured_rps().unwrap() / mean - 1.0).abs() < 1e-9);
        assert!(model.spans().all(|(start, p)| p.end_s > start));
    }

    #[test]
    fn merging_weighs_rates_by_time_and_keeps_the_worse_percentile() {
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
    fn bins_are_even_in_the_logarithm_and_count_everything() {
        let decades: Vec<_> = (0..=6).map(|e| (10u64.pow(e), 1 + u64::from(e))).collect();
        let bins = Bins::from_histogram(&decades, 6).unwrap();
        assert_eq!((bins.low_ns, bins.high_ns), (1.0, 1e6));
        assert_eq!(bins.counts.iter().sum::<u64>(), 28);
        assert_eq!(bins.counts[0], 1);
        assert_eq!((bins.bin(0.0), bins.bin(1e12)), (0, 5));
    }

    #[test]
    fn one_value_lies_in_the_middle_of_a_range_of_two() {
        let bins = Bins::from_histogram(&[(1, 0), (1000, 9), (u64::MAX, 0)], 7).unwrap();
        assert!((bins.high_ns / bins.low_ns - 2.0).abs() < 1e-9);
        assert_eq!(bins.counts[3], 9);
        assert!(
            Bins::from_histogram(&[], 7).is_none() && Bins::from_histogram(&[(5, 0)], 7).is_none()
        );
    }

    #[test]
    fn percentiles_come_from_the_histogram() {
        let histogram = vec![(1_000, 50), (2_000, 49), (9_000, 1)];
        let model = LiveModel { histogram, ..LiveModel::default() };
        assert_eq!(
            [0.5, 0.51, 0.99, 1.0].map(|q| model.response_us(q).unwrap()),
            [1.0, 2.0, 2.0, 9.0]
        );
        assert_eq!(LiveModel::default().response_us(0.99), None);
    }

    #[test]
    fn what_was_never_answered_ranks_above_every_answer() {
        let histogram = vec![(1_000, 50), (2_000, 40)];
        let (unanswered, longest_wait_us) = (10, Some(1.2e6));
        let model = LiveModel { histogram, unanswered, longest_wait_us, ..LiveModel::default() };
        let at = |q| model.response(q).unwrap();
        assert_eq!([0.5, 0.9].map(at), [LiveResponseTime::At(1.0), LiveResponseTime::At(2.0)]);
        assert_eq!([0.91, 0.99, 1.0].map(at), [LiveResponseTime::Beyond(1.2e6); 3]);
        assert_eq!(model.unanswered_share(), 0.1);
    }
}
