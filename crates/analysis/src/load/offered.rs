//! What an open loop offered: what it scheduled, whatever its rate is called.

use super::LoadResult;

/// Share of what was offered that must be answered in time for the server to have kept up.
const ANSWERED: f64 = 0.98;

impl LoadResult {
    /// Requests per second that were scheduled in the window; `None` in a closed loop. A Poisson schedule offers its rate
    /// only on average, and ramps, steps and traces have none.
    #[must_use]
    pub fn offered_rps(&self) -> Option<f64> {
        let is_open = self.config.model == "open" && self.duration_s > 0.0;
        is_open.then(|| self.exchanges.scheduled as f64 / self.duration_s)
    }

    /// Whether the answers kept up with what was offered; `None` in a closed loop, which offers as much as is answered.
    #[must_use]
    pub fn keeps_up(&self) -> Option<bool> {
        self.offered_rps().map(|offered| self.throughput_rps >= offered * ANSWERED)
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
    use crate::fixture;

    #[test]
    fn what_is_offered_is_what_was_scheduled() {
        for (scheduled, rate, kept) in [(950, 1000.0, true), (1000, 1000.0, true), (1021, 1000.0, false)] {
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
}
