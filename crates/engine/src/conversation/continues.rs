//! Counts of requests with `Expect: 100-continue` (RFC 9110 §10.1.1). Their bodies wait for 100
//! (Continue) from the server, at most [`CONTINUE_NS`](crate::limits::CONTINUE_NS).

use dyno_model::load::Continues;
use dyno_model::times::Recording;

use crate::Instant;

/// Counts and waits of bodies that waited for 100 (Continue).
#[derive(Debug, Default)]
pub(crate) struct ContinueBooks {
    counts: Continues,
    wait: Recording,
}

impl ContinueBooks {
    pub(crate) fn report(mut self) -> Continues {
        Continues { wait: self.wait.seal(), ..self.counts }
    }

    /// Counts a body that waits.
    pub(super) fn count_held(&mut self) {
        self.counts.asked += 1;
    }

    /// Counts a 100 (Continue) for a request whose head left at `sent`.
    pub(super) fn count_continued(&mut self, sent: Instant, now: Instant) {
        self.counts.continued += 1;
        self.wait.record(now.ns_since(sent));
    }

    /// Takes back the count of a 100 (Continue) that the body did not follow.
    pub(super) fn discount_continued(&mut self) {
        self.counts.continued -= 1;
    }

    /// Counts a final response in place of 100 (Continue).
    pub(super) fn count_final(&mut self, status: u16) {
        self.counts.answered_instead += 1;
        self.counts.refused += u64::from(status == 417);
    }

    /// Counts a body that was sent after the longest wait.
    pub(super) fn count_expired(&mut self) {
        self.counts.waited_in_vain += 1;
    }
}
