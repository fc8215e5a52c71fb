//! A closed-loop trial that a search for a rate follows.

use dyno_analysis::trial::RecordedTrial;
use dyno_model::plan::Plan;
use dyno_model::{Facts, StartRecord, TrialRecord};

/// A measured trial in a closed loop, with the start in which it was measured.
pub(super) struct ClosedTrial {
    record: TrialRecord,
    /// `None`: the record of the start is lost.
    start: Option<StartRecord>,
}

impl ClosedTrial {
    pub(super) fn new(record: &TrialRecord, start: Option<&StartRecord>) -> ClosedTrial {
        ClosedTrial { record: record.clone(), start: start.cloned() }
    }

    /// Returns the index of the trial in the plan.
    pub(super) const fn trial(&self) -> usize {
        self.record.trial
    }

    /// Returns the trial with everything that its result depends on.
    pub(super) const fn measured<'a>(
        &'a self,
        plan: &'a Plan,
        facts: &'a Facts,
    ) -> RecordedTrial<'a> {
        RecordedTrial { plan, facts, start: self.start.as_ref(), record: &self.record }
    }
}
