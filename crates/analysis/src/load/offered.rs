//! What an open loop offered: what it scheduled, whatever its rate is called.

use dyno_archive::Phase;
use dyno_archive::plan::Model;

use super::{IntervalResult, LoadResult};

/// Share of what was offered that may be unanswered for the server to have kept up, beside what was on its way.
const LEFT_BEHIND: f64 = 0.02;

impl LoadResult {
    /// Requests per second that were scheduled in the window; `None` in a closed loop. A Poisson schedule offers its rate
    /// only on average, and ramps, steps and traces have none.
    #[must_use]
    pub fn offered_rps(&self) -> Option<f64> {
        let is_open = self.config.model == Model::Open && self.duration_s > 0.0;
        is_open.then(|| self.exchanges.scheduled as f64 / self.duration_s)
    }

    /// Whether the answers kept up with what was offered; `None` in a closed loop, which offers as much as is answered.
    /// What is asked shortly before the window closes is answered after it, by any server that takes its time.
    #[must_use]
    pub fn keeps_up(&self) -> Option<bool> {
        let offered = self.offered_rps()? * self.duration_s;
        // Answers to what was asked in the warm-up would make up for what is not answered of the window's own.
        let behind = offered - self.exchanges.ok_in_window as f64;
        Some(behind <= offered * LEFT_BEHIND + self.on_its_way())
    }

    /// Requests that a server which keeps up has in hand when the window closes: its rate then × the service time. Of an
    /// overloaded server that grows with its queue, so the least median of any interval counts.
    fn on_its_way(&self) -> f64 {
        let window = || self.intervals.iter().filter(|i| i.phase == Phase::Measured);
        let medians = window().filter_map(|i| i.service_time_us.p50);
        let service_us = medians.reduce(f64::min).or(self.service_time_us.min).unwrap_or(0.0);
        window().next_back().map_or(0.0, IntervalResult::arrivals_rps) * service_us / 1e6
    }

    /// Requests that may be in flight at once.
    #[must_use]
    pub fn places(&self) -> u64 {
        let config = &self.config;
        let connections = u64::from(config.connections) * u64::from(config.page_connections.unwrap_or(1));
        connections * u64::from(config.streams) * u64::from(config.pipeline)
    }

    /// Requests that were with the server, on average: of those in flight no more than there are places, for the others wait in
    /// the generator.
    #[must_use]
    pub fn at_server(&self) -> f64 {
        let asked = u64::from(self.config.streams.max(1));
        // A server may grant fewer streams than were asked for, and HTTP/1.1 has none.
        let granted = match &self.http2 {
            Some(http2) => http2.streams.granted.map_or(asked, |n| u64::from(n).min(asked)),
            None => 1,
        };
        self.in_flight.mean.min((self.places() / asked * granted) as f64)
    }
}

#[cfg(test)]
mod tests {
    use dyno_archive::outcome::Outcome;
    use dyno_archive::times::Recording;
    use dyno_archive::trial::Books;
    use dyno_archive::{Interval, Phase};

    use crate::fixture;
    use crate::load::LoadResult;

    const S: u64 = 1_000_000_000;

    #[test]
    fn what_is_offered_is_what_was_scheduled() {
        for (scheduled, rate, kept) in [(950, 1000.0, true), (1000, 1000.0, true), (1022, 1000.0, false)] {
            let mut record = fixture::record(scheduled.min(1000));
            record.books.scheduled = scheduled;
            record.books.started = scheduled;
            record.books.completed = scheduled;
            let result = fixture::result(&record, Some(rate));
            assert_eq!(result.offered_rps(), Some(scheduled as f64));
            assert_eq!(result.keeps_up(), Some(kept), "{scheduled}");
            let late = result.caveats.iter().any(|c| c.code == "rate_not_reached");
            assert_eq!(late, !kept, "{scheduled}");
        }
        let closed = fixture::result(&fixture::record(1000), None);
        assert_eq!((closed.offered_rps(), closed.keeps_up()), (None, None));
    }

    /// Five seconds of 1,000 per second against a server that answers so many of them each second, after 200 ms at first and so
    /// much later with every second.
    /// In each second so many come besides that were asked for in the warm-up.
    fn served(each_second: [u64; 5], later_ms: u64, carried: u64) -> LoadResult {
        let mut record = fixture::record(0);
        record.window_ns = (0, 5 * S);
        record.books = Books { scheduled: 5000, started: 5000, completed: 5000, ..Books::default() };
        record.intervals = (0..6).map(|i| Interval::new(Phase::Measured, i * S, (i + 1) * S)).collect();
        record.intervals[5].phase = Phase::Drain;
        let left = 5000 - each_second.iter().sum::<u64>();
        for (second, answers) in (0u64..).zip(each_second.into_iter().chain([left])) {
            let interval = &mut record.intervals[second as usize];
            interval.started = if second < 5 { 1000 } else { 0 };
            (0..carried).for_each(|_| interval.carried.count(Outcome::Ok));
            let mut times = Recording::new();
            for _ in 0..answers {
                interval.outcomes.count(Outcome::Ok);
                times.record((200 + second * later_ms) * 1_000_000);
            }
            interval.times.response = times.seal();
            interval.times.service = interval.times.response.clone();
        }
        fixture::result(&record, Some(1000.0))
    }

    #[test]
    fn what_is_on_its_way_as_the_window_closes_is_not_left_behind() {
        for (name, each_second, later_ms, carried, kept) in [
            ("200 ms each", [800, 1000, 1000, 1000, 1000], 0, 0, true),
            ("the same after a warm-up", [800, 1000, 1000, 1000, 1000], 0, 40, true),
            ("200 ms each, and too slow", [800, 900, 900, 900, 900], 100, 0, false),
            ("the same after a warm-up", [800, 900, 900, 900, 900], 100, 100, false),
            ("half of what is offered", [500; 5], 500, 0, false),
        ] {
            let result = served(each_second, later_ms, carried);
            assert_eq!(result.keeps_up(), Some(kept), "{name}");
            let late = result.caveats.iter().any(|c| c.code == "rate_not_reached");
            assert_eq!(late, !kept, "{name}");
        }
    }
}
