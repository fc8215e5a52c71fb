//! The deadlines of all connections of a worker.

use crate::Instant;
use crate::config::Policy;
use crate::driver::ConnId;

/// The table of deadlines, one per slot.
///
/// A deadline in the table is never too late, but can be too early: it is not moved when its
/// exchange ends, because that would cost time in each exchange. A check asks the slots with early
/// deadlines for their exact deadlines.
#[derive(Debug)]
pub(super) struct Timers {
    /// By slot; `NEVER`: nothing can time out.
    deadlines: Vec<Instant>,
    /// When to check next.
    next_check: Instant,
    /// Shortest time from the submission of a request to its time-out, nanoseconds.
    pub(super) response_ns: u64,
}

impl Timers {
    pub(super) fn new(connections: u32, policy: &Policy) -> Timers {
        Timers {
            deadlines: vec![Instant::NEVER; connections as usize],
            next_check: Instant::NEVER,
            response_ns: policy.shortest_response_timeout_ns(),
        }
    }

    /// Returns the instant of the next check.
    #[inline]
    pub(super) fn next_check(&self) -> Instant {
        self.next_check
    }

    /// Adds a deadline to a slot. The earliest deadline of the slot counts.
    #[inline]
    pub(super) fn add(&mut self, conn: ConnId, at: Instant) {
        // An earlier deadline of the slot has set `next_check` already.
        let deadline = &mut self.deadlines[conn as usize];
        if at < *deadline {
            *deadline = at;
            self.next_check = self.next_check.min(at);
        }
    }

    /// Whether the deadline of a slot may be over.
    pub(super) fn is_due(&self, conn: ConnId, now: Instant) -> bool {
        self.deadlines[conn as usize] <= now
    }

    /// Sets the next check to the earliest deadline, but not before `earliest` and not after
    /// `latest`. `exact` returns the deadline of a slot in its present state.
    ///
    /// `latest` is the earliest deadline of what has not happened yet. No deadline of a slot with
    /// an early one is set after it: a request that is sent later may have an earlier deadline than
    /// the same request had while it waited.
    pub(super) fn plan_check(
        &mut self,
        earliest: Instant,
        latest: Instant,
        exact: impl Fn(ConnId) -> Instant,
    ) {
        let mut next = latest;
        for (conn, deadline) in (0..).zip(&mut self.deadlines) {
            if *deadline < next {
                *deadline = exact(conn).min(latest);
                next = next.min(*deadline);
            }
        }
        self.next_check = next.max(earliest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timers(deadlines: &[u64]) -> Timers {
        let mut timers = Timers {
            deadlines: vec![Instant::NEVER; 4],
            next_check: Instant::NEVER,
            response_ns: 1,
        };
        for (conn, at) in (0..).zip(deadlines) {
            timers.add(conn, Instant(*at));
        }
        timers
    }

    #[test]
    fn earliest_deadline_of_a_slot_counts() {
        let mut timers = timers(&[50, 40]);
        timers.add(1, Instant(45));
        assert_eq!(timers.next_check(), Instant(40));
        assert!(timers.is_due(1, Instant(40)) && !timers.is_due(0, Instant(40)));
        timers.add(0, Instant(30));
        assert_eq!(timers.next_check(), Instant(30));
    }

    #[test]
    fn plan_asks_only_slots_with_early_deadlines() {
        let mut timers = timers(&[10, 20, 60, 15]);
        let asked = std::cell::RefCell::new(Vec::new());
        timers.plan_check(Instant(5), Instant(100), |conn| {
            asked.borrow_mut().push(conn);
            Instant([80, 30, 0, 70][conn as usize])
        });
        // Slot 2 cannot expire before slot 1.
        assert_eq!(asked.into_inner(), [0, 1, 3]);
        assert_eq!(timers.next_check(), Instant(30));
        assert!(timers.is_due(1, Instant(30)) && !timers.is_due(3, Instant(69)));
    }

    #[test]
    fn plan_stays_within_its_limits() {
        let mut timers = timers(&[10]);
        timers.plan_check(Instant(20), Instant(100), |_| Instant(10));
        assert_eq!(timers.next_check(), Instant(20));
        timers.plan_check(Instant(20), Instant(100), |_| Instant::NEVER);
        assert_eq!(timers.next_check(), Instant(100));
        assert!(timers.is_due(0, Instant(100)), "its state may have changed by then");
    }
}
