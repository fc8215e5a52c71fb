//! Records when the control thread reads counters, because one reading delays the next.

use dyno_engine::Instant;

/// The two latest series of readings. A series has no pause between its readings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Readings {
    earlier: Series,
    current: Series,
}

/// A series of readings. Without a reading, it begins and ends at the same instant.
#[derive(Clone, Copy, Debug, Default)]
struct Series {
    begun: Instant,
    ended: Instant,
}

impl Series {
    /// Returns how long the series took between two instants, nanoseconds.
    fn within_ns(self, from: Instant, to: Instant) -> u64 {
        self.ended.min(to).ns_since(self.begun.max(from))
    }
}

impl Readings {
    /// Begins a series.
    pub(super) fn begin(&mut self, now: Instant) {
        self.earlier = self.current;
        self.current = Series { begun: now, ended: now };
    }

    /// Notes the end of a reading of the current series.
    pub(super) fn end_one(&mut self, now: Instant) {
        self.current.ended = now;
    }

    /// Returns how long a reading of the current series, which began at `at`, waited for other
    /// readings after it was due, nanoseconds.
    pub(super) fn delay_ns(&self, due: Instant, at: Instant) -> u64 {
        self.earlier.within_ns(due, at) + self.current.within_ns(due, at)
    }
}
