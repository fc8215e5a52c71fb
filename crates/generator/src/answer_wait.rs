//! Measures how long the controller has waited for its workers.

use dyno_engine::Instant;

use crate::limits::ANSWER_NS;

/// Longest step between two looks at the clock that counts, nanoseconds. A longer step shows that
/// dyno itself did not run, so the workers could not answer either.
const MAX_STEP_NS: u64 = 1_000_000_000;

/// The wait for answers since the last progress.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnswerWait {
    last: Option<Instant>,
    waited_ns: u64,
}

impl AnswerWait {
    /// Continues the wait until now. Returns whether it was longer than `limit_ns`, the time that
    /// correct workers need, plus [`ANSWER_NS`]. `None`: the workers may take any time.
    pub(super) fn is_exhausted(&mut self, now: Instant, limit_ns: Option<u64>) -> bool {
        let step_ns = self.last.map_or(0, |last| now.ns_since(last));
        self.last = Some(now);
        self.waited_ns = self.waited_ns.saturating_add(step_ns.min(MAX_STEP_NS));
        limit_ns.is_some_and(|limit_ns| self.waited_ns > limit_ns.saturating_add(ANSWER_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Waits for this many steps, and returns the number of steps until the wait is too
    /// long.
    fn steps_until_exhausted(step_ns: u64, limit_ns: Option<u64>, max_steps: u64) -> Option<u64> {
        let mut answer_wait = AnswerWait::default();
        (0..max_steps)
            .find(|step| answer_wait.is_exhausted(Instant(SECOND + step * step_ns), limit_ns))
    }

    #[test]
    fn wait_ends_after_limit_and_answer_time() {
        let expected = (5 * SECOND + ANSWER_NS) / SECOND + 1;
        assert_eq!(steps_until_exhausted(SECOND, Some(5 * SECOND), 1000), Some(expected));
        assert_eq!(steps_until_exhausted(SECOND, None, 1000), None);
    }

    #[test]
    fn suspended_process_does_not_wait_too_long() {
        assert_eq!(steps_until_exhausted(3600 * SECOND, Some(0), ANSWER_NS / SECOND), None);
    }
}
