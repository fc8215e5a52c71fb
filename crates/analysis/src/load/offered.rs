//! What an open loop offered: what it scheduled, whatever its rate is called.

use dyno_archive::Phase;

use super::{IntervalResult, LoadResult};

/// Share of what was offered that may be unanswered for the server to have kept up, beside what was on its way.
const LEFT_BEHIND: f64 = 0.02;

impl LoadResult {
    /// Requests per second that were scheduled in the window; `None` in a closed loop. A Poisson schedule offers its rate
    /// only on average, and ramps, steps and traces have none.
    #[must_use]
    pub fn offered_rps(&self) -> Option<f64> {
        let is_open = self.config.model == "open" && self.duration_s > 0.0;
        is_open.then(|| self.exchanges.scheduled as f64 / self.duration_s)
    }

    /// Whether the answers kept up with what was offered; `None` in a closed loop, which offers as much as is answered. They did
    /// if no more is left behind over the window than a share of what was offered and what was on its way as the window closed.
    #[must_use]
    pub fn keeps_up(&self) -> Option<bool> {
        let offered = self.offered_rps()? * self.duration_s;
        let behind = offered - self.throughput_rps * self.duration_s;
        Some(behind <= offered * LEFT_BEHIND + self.on_its_way())
    }

    /// By how many more requests a server that keeps up may have in hand when the window closes than when it opened: those that
    /// it has in hand at its pace, without those that it had already; and twice the standard deviation of that, for chance.
    fn on_its_way(&self) -> f64 {
        let last = self.window().next_back().map_or(0.0, IntervalResult::arrivals_rps);
        let in_hand = last * self.least_time_in_hand();
        (in_hand - self.exchanges.under_way_at_open as f64).max(0.0) + 2.0 * in_hand.sqrt()
    }

    /// Seconds from intended to ended, on average, by Little's law. Of an overloaded server they grow with its queue, so it is
    /// the interval with the least that counts. Intervals at the beginning of the load, which hold the quick answers only, do not
    /// count unless there are no others.
    fn least_time_in_hand(&self) -> f64 {
        let first_s = self.service_time_us.mean.unwrap_or(0.0) / 1e6;
        let least = |from_s: f64| {
            let arriving = self.window().filter(|i| i.start_s >= from_s && i.arrivals_rps() > 0.0);
            arriving.map(|i| i.in_flight_mean / i.arrivals_rps()).reduce(f64::min)
        };
        least(first_s).or_else(|| least(0.0)).unwrap_or(0.0)
    }

    fn window(&self) -> impl DoubleEndedIterator<Item = &IntervalResult> {
        self.intervals.iter().filter(|i| i.phase == Phase::Measured)
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
        for (scheduled, rate, kept) in [(950, 1000.0, true), (1000, 1000.0, true), (1030, 1000.0, false)] {
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

    /// Five seconds in which so many requests were intended each, of which so many had been answered by its end, and, besides,
    /// so many of those that were under way when the window opened.
    #[derive(Clone, Copy)]
    struct Load {
        opened_s: u64,
        rate: u64,
        own: [u64; 5],
        carried: [u64; 5],
        service_ms: u64,
    }

    /// Its result, everything being answered in the drain at last.
    fn result_of(load: &Load) -> LoadResult {
        let at = |second: u64| (load.opened_s + second) * S;
        let mut record = fixture::record(0);
        let scheduled = 5 * load.rate;
        record.window_ns = (at(0), at(5));
        record.books = Books { scheduled, started: scheduled, completed: scheduled, ..Books::default() };
        record.intervals = (0..6).map(|i| Interval::new(Phase::Measured, at(i), at(i + 1))).collect();
        record.intervals[5].phase = Phase::Drain;
        let mut in_hand = load.carried.iter().sum::<u64>();
        let left = scheduled - load.own.iter().sum::<u64>();
        let answered = load.own.into_iter().chain([left]).zip(load.carried.into_iter().chain([0]));
        for (second, (own, carried)) in answered.enumerate() {
            let interval = &mut record.intervals[second];
            interval.started = if second < 5 { load.rate } else { 0 };
            let after = in_hand + interval.started - own - carried;
            interval.in_flight_ns = (in_hand + after) * S / 2;
            in_hand = after;
            (0..carried).for_each(|_| interval.carried.count(Outcome::Ok));
            let mut times = Recording::new();
            for _ in 0..own {
                interval.outcomes.count(Outcome::Ok);
                times.record(load.service_ms * 1_000_000);
            }
            interval.times.response = times.seal();
            interval.times.service = interval.times.response.clone();
        }
        fixture::result(&record, Some(load.rate as f64))
    }

    #[test]
    fn what_is_on_its_way_as_the_window_closes_is_not_left_behind() {
        let cold = Load { opened_s: 0, rate: 1000, own: [1000; 5], carried: [0; 5], service_ms: 200 };
        let warm = |load: Load| Load { opened_s: 60, ..load };
        let slow_at_first = [800, 1000, 1000, 1000, 1000];
        for (name, load, kept) in [
            ("200 ms each", Load { own: slow_at_first, ..cold }, true),
            (
                "the same after a warm-up",
                warm(Load { own: slow_at_first, carried: [200, 0, 0, 0, 0], ..cold }),
                true,
            ),
            ("too slow", Load { own: [800, 900, 900, 900, 900], ..cold }, false),
            (
                "too slow for five seconds already",
                warm(Load { own: [400, 900, 900, 900, 900], carried: [500, 0, 0, 0, 0], ..cold }),
                false,
            ),
            ("too slow for a minute already", warm(Load { own: [0; 5], carried: [900; 5], ..cold }), false),
            ("half of what is offered", Load { own: [500; 5], ..cold }, false),
            (
                "a backlog of the warm-up that melts",
                warm(Load { own: [0, 400, 1200, 1200, 1200], carried: [1200, 800, 0, 0, 0], ..cold }),
                true,
            ),
            (
                "half of them in 2 ms and half in 1 s",
                Load { own: [500, 1000, 1000, 1000, 1000], service_ms: 500, ..cold },
                true,
            ),
            (
                "20 per second, in hand for 300 ms",
                Load { rate: 20, own: [14, 20, 20, 20, 20], service_ms: 300, ..cold },
                true,
            ),
            (
                "20 per second, of which 15 are answered",
                Load { rate: 20, own: [14, 15, 15, 15, 15], service_ms: 300, ..cold },
                false,
            ),
        ] {
            let result = result_of(&load);
            assert_eq!(result.keeps_up(), Some(kept), "{name}");
            let late = result.caveats.iter().find(|c| c.code == "rate_not_reached");
            assert_eq!(late.is_some(), !kept, "{name}");
            let (offered, answered) = (result.offered_rps().unwrap(), result.throughput_rps);
            assert!(late.is_none() || answered < offered, "{name}: the sentence is true");
        }
    }
}
