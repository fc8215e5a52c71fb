//! Decides whether responses and failures keep up with the schedule of an open loop. If they do,
//! the offered rate is not too high.
//!
//! A server that falls behind has a growing backlog, so its response times depend on the length of
//! the load.

use dyno_model::Phase;
use dyno_model::plan::LoadModel;

use serde_json::{Value, json};

use super::{IntervalResult, LoadResult};

/// Largest share of the offered requests that may lack a response if the server keeps up, in
/// addition to requests in flight.
const MAX_LAG_SHARE: f64 = 0.02;

/// Number of mean service times after which the number of requests at the server is settled. With
/// exponential service times, three of them bring it to 95 % (1 − e⁻³) of its final value.
const SETTLING_SERVICE_TIMES: f64 = 3.0;

/// Cap of the allowance for chance, as a share of the offered requests.
const MAX_CHANCE: f64 = 0.05;

/// Minimum of the cap that [`MAX_CHANCE`] sets, in requests.
const MIN_CHANCE_CAP: f64 = 5.0;

/// Offered requests and their responses over a part of the window. Instants are in seconds since
/// the load began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    from_s: f64,
    to_s: f64,
    /// Whether the part is the full window.
    is_full_window: bool,
    offered: f64,
    /// Complete responses, correct or incorrect, regardless of when their requests were intended.
    responses: f64,
    /// Requests that ended without a complete response, regardless of when they were intended.
    failed: f64,
    /// By how many requests the responses may lag behind the offered requests without a backlog.
    max_lag: f64,
}

impl Pace {
    fn seconds(&self) -> f64 {
        self.to_s - self.from_s
    }

    /// Whether there is no growing backlog: responses and failures keep up with the offered
    /// requests. A request that failed is no longer in a queue.
    pub(crate) fn has_kept_up(&self) -> bool {
        self.offered - self.responses - self.failed <= self.max_lag
    }

    /// Returns the number of offered requests that did not end.
    pub(crate) fn missing(&self) -> u64 {
        (self.offered - self.responses - self.failed).max(0.0).ceil() as u64
    }

    /// Whether the responses alone keep up with the offered requests.
    pub(crate) fn has_responded(&self) -> bool {
        self.offered - self.responses <= self.max_lag
    }

    /// Returns the offered requests per second.
    pub(crate) fn offered_rps(&self) -> f64 {
        self.offered / self.seconds()
    }

    /// Returns the responses per second.
    pub(crate) fn responses_rps(&self) -> f64 {
        self.responses / self.seconds()
    }

    /// Returns text such as `, and 12.0 failed`, per second. Empty: no request failed.
    pub(crate) fn failed_text(&self) -> String {
        if self.failed > 0.0 {
            format!(", and {} failed", rate_text(self.failed / self.seconds()))
        } else {
            String::new()
        }
    }

    /// Returns text such as ` (over 3.2 s of the window)`. Empty: the pace covers all of it.
    pub(crate) fn stretch_text(&self) -> String {
        if self.is_full_window {
            String::new()
        } else {
            format!(" (over {:.1} s of the window)", self.seconds())
        }
    }

    /// Returns the evidence for caveats about the rate.
    pub(crate) fn evidence(&self) -> Value {
        let mut evidence = json!({
            "offered": self.offered_rps(), "answered": self.responses_rps(),
            "seconds": self.seconds(),
        });
        if self.failed > 0.0 {
            evidence["failed"] = json!(self.failed / self.seconds());
        }
        evidence
    }
}

/// Formats requests per second, with one decimal below 100.
pub(crate) fn rate_text(rps: f64) -> String {
    if rps < 100.0 { format!("{rps:.1}") } else { format!("{rps:.0}") }
}

/// Sums counts over a stretch of time. Each count is (from, to, number), and is assumed to be
/// spread evenly over its time.
fn sum_in_stretch(
    counts: impl Iterator<Item = (f64, f64, u64)>,
    (from_s, to_s): (f64, f64),
) -> f64 {
    let share = |(begins_s, ends_s, count): (f64, f64, u64)| {
        let (length, common) = (ends_s - begins_s, to_s.min(ends_s) - from_s.max(begins_s));
        if length > 0.0 { common.max(0.0) / length * count as f64 } else { 0.0 }
    };
    counts.map(share).sum()
}

/// Returns by how much the requests in flight may grow during a stretch if the server keeps up.
///
/// `at_begin` and `at_end`: arrivals during one service time before the stretch begins, and before
/// it ends. They are the requests in flight then if the server keeps up. Two standard deviations of
/// their difference are allowed for chance (both are Poisson counts), but at least one request.
/// Without a cap, an overload would raise the allowance by longer service times.
fn max_backlog_growth(offered: f64, at_begin: f64, at_end: f64) -> f64 {
    let chance = (2.0 * (at_begin + at_end).sqrt()).max(1.0);
    (at_end - at_begin).max(0.0) + chance.min((offered * MAX_CHANCE).max(MIN_CHANCE_CAP))
}

impl LoadResult {
    /// Returns the requests per second that were scheduled in the window; `None` in a closed loop.
    /// The configured rate does not suffice: a Poisson schedule offers it on average only, and
    /// ramps, steps and traces have none.
    #[must_use]
    pub fn offered_rps(&self) -> Option<f64> {
        let is_open = self.config.model == LoadModel::Open && self.duration_s > 0.0;
        is_open.then(|| self.exchanges.scheduled as f64 / self.duration_s)
    }

    /// Whether responses and failures kept up with the offered rate, so that no backlog grew.
    /// `None`: a closed loop, whose requests wait for responses.
    #[must_use]
    pub fn keeps_up(&self) -> Option<bool> {
        self.pace().map(|pace| pace.has_kept_up())
    }

    /// Returns the offered requests and responses of the settled part of the window, which begins
    /// three service times after the load began. Earlier, the number of requests at the server
    /// still grows. `None` in a closed loop.
    pub(crate) fn pace(&self) -> Option<Pace> {
        self.offered_rps()?;
        let opens_s = self.window().next().map_or(0.0, |i| i.start_s);
        let to_s = self.last_full_interval().map_or(opens_s, |i| i.end_s);
        let service_s = self.service_s();
        // If the load is short relative to its service times, the stretch is its second half, or
        // the part after the first service time.
        let latest_s = opens_s.midpoint(to_s).max(service_s);
        let from_s = (SETTLING_SERVICE_TIMES * service_s).min(latest_s).max(opens_s);
        // A window that is shorter than a service time is used in full.
        let from_s = if from_s < to_s { from_s } else { opens_s };
        // No response comes before the first service time is over.
        let by_interval =
            self.window().map(|i| (i.start_s.max(service_s.min(from_s)), i.end_s, i.completed));
        let failures_by_interval = self.window().map(|i| (i.start_s, i.end_s, i.lost()));
        let (offered, responses) =
            (self.arrivals_within(from_s, to_s), sum_in_stretch(by_interval, (from_s, to_s)));
        let (at_begin, at_end) = self.arrivals_before((from_s, to_s), service_s);
        Some(Pace {
            from_s,
            to_s,
            is_full_window: from_s <= opens_s
                && self.window().next_back().is_none_or(|i| i.end_s <= to_s),
            offered,
            responses,
            failed: sum_in_stretch(failures_by_interval, (from_s, to_s)),
            max_lag: offered * MAX_LAG_SHARE + max_backlog_growth(offered, at_begin, at_end),
        })
    }

    /// Returns the offered requests and responses of the window if there were significantly more
    /// responses than offered requests: the surplus is the backlog of the warm-up. `None`: no
    /// surplus, or a closed loop.
    pub(crate) fn surplus(&self) -> Option<Pace> {
        self.offered_rps()?;
        let (from_s, to_s) = (self.window().next()?.start_s, self.window().next_back()?.end_s);
        let offered = self.arrivals_within(from_s, to_s);
        let responses = self.window().map(|i| i.completed).sum::<u64>() as f64;
        let (at_begin, at_end) = self.arrivals_before((from_s, to_s), self.service_s());
        // A surplus reduces the backlog, so the two ends are swapped.
        let is_surplus = responses - offered
            > offered * MAX_LAG_SHARE + max_backlog_growth(offered, at_end, at_begin);
        is_surplus.then_some(Pace {
            from_s,
            to_s,
            is_full_window: true,
            offered,
            responses,
            failed: self.window().map(IntervalResult::lost).sum::<u64>() as f64,
            max_lag: 0.0,
        })
    }

    /// Returns the last interval during all of which requests arrived. A load with a number of
    /// requests ends its arrivals in the middle of an interval, so the previous interval is
    /// returned if there is one.
    fn last_full_interval(&self) -> Option<&IntervalResult> {
        if self.config.requests.is_none() {
            return self.window().next_back();
        }
        let mut arriving = self.window().filter(|i| i.arrivals() > 0).rev();
        let last = arriving.next();
        arriving.next().or(last).or(self.window().next_back())
    }

    /// Returns the mean service time, in seconds, of the requests with a response in the window; 0
    /// without such requests.
    fn service_s(&self) -> f64 {
        let weighted_us = |i: &IntervalResult| {
            i.service_time_us.mean.unwrap_or(0.0) * i.service_time_us.count as f64
        };
        let count: u64 = self.window().map(|i| i.service_time_us.count).sum();
        if count == 0 {
            0.0
        } else {
            self.window().map(weighted_us).sum::<f64>() / count as f64 / 1e6
        }
    }

    /// Returns the arrivals in the last service time before the beginning and before the end of a
    /// stretch.
    fn arrivals_before(&self, (from_s, to_s): (f64, f64), service_s: f64) -> (f64, f64) {
        let before = |at_s: f64| self.arrivals_within(at_s - service_s, at_s);
        (before(from_s), before(to_s))
    }

    /// Returns the requests started or dropped between two instants, without the requests of the
    /// drain.
    fn arrivals_within(&self, from_s: f64, to_s: f64) -> f64 {
        let with_arrivals = self.intervals.iter().filter(|i| i.phase != Phase::Drain);
        sum_in_stretch(with_arrivals.map(|i| (i.start_s, i.end_s, i.arrivals())), (from_s, to_s))
    }

    /// Returns the intervals of the measured window.
    fn window(&self) -> impl DoubleEndedIterator<Item = &IntervalResult> {
        self.intervals.iter().filter(|i| i.phase == Phase::Measured)
    }

    /// Returns the number of requests that may be in flight at once.
    #[must_use]
    pub fn max_in_flight(&self) -> u64 {
        let config = &self.config;
        config.total_connections() * u64::from(config.streams) * u64::from(config.pipeline)
    }

    /// Returns the number of requests that may be at the server at once. Further requests wait in
    /// the generator.
    #[must_use]
    pub fn max_at_server(&self) -> u64 {
        let requested = u64::from(self.config.streams.max(1));
        // A server may grant fewer streams than requested, and HTTP/1.1 has none.
        let granted = match &self.http2 {
            Some(http2) => http2.streams.granted.map_or(requested, |n| u64::from(n).min(requested)),
            None => 1,
        };
        self.max_in_flight() / requested * granted
    }

    /// Returns the mean number of requests at the server. Further requests wait in the generator.
    #[must_use]
    pub fn mean_at_server(&self) -> f64 {
        self.in_flight.mean.min(self.max_at_server() as f64)
    }
}

#[cfg(test)]
mod tests;
