//! Counts the user's requests to stop dyno, and derives how long servers may take to stop. A second
//! Ctrl-C must not wait for a slow server.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::guard::Guard;
use crate::limits::INTERRUPTED_STOP;

/// Supervisors that can end a running program: the guard if dyno is killed, the user at any time.
#[derive(Clone, Copy, Debug)]
pub struct Supervision<'a> {
    pub guard: &'a Guard,
    pub interrupts: &'a Interrupts,
}

/// Number of the user's requests to stop dyno. A signal handler increments it.
#[derive(Debug, Default)]
pub struct Interrupts(AtomicU32);

/// How long a server may take to stop, depending on the user's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// The whole deadline of the server's `[stop]`.
    Whole,
    /// At most [`INTERRUPTED_STOP`], because Ctrl-C was pressed.
    Short,
    /// No time, because Ctrl-C was pressed again.
    None,
}

impl Patience {
    /// Returns the longest wait in nanoseconds, given the deadline of a server's `[stop]`.
    #[must_use]
    pub fn limit_ns(self, deadline_ns: u64) -> u64 {
        match self {
            Patience::Whole => deadline_ns,
            Patience::Short => deadline_ns.min(INTERRUPTED_STOP.as_nanos() as u64),
            Patience::None => 0,
        }
    }
}

impl Interrupts {
    #[must_use]
    pub const fn new() -> Self {
        Interrupts(AtomicU32::new(0))
    }

    /// Counts one request. Safe in a signal handler.
    pub fn raise(&self) -> u32 {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Returns the patience after the requests so far.
    #[must_use]
    pub fn patience(&self) -> Patience {
        match self.count() {
            0 => Patience::Whole,
            1 => Patience::Short,
            _ => Patience::None,
        }
    }

    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_shorten_wait_for_servers() {
        let interrupts = Interrupts::new();
        let limits = |deadline_ns| {
            [interrupts.patience().limit_ns(deadline_ns), interrupts.raise().into()][0]
        };
        let minute = 60_000_000_000;
        assert_eq!([minute; 3].map(limits), [minute, 5_000_000_000, 0]);
        assert_eq!(Patience::Short.limit_ns(1_000_000), 1_000_000, "a shorter deadline holds");
    }
}
