//! Matches the arms and cells of one side with the arms and cells of the other.

use dyno_model::TrialRecord;
use dyno_model::plan::Step;

use super::Side;
use crate::cell::CellKey;

impl Side<'_> {
    /// Returns the number of trials that a comparison would use on both sides, because the runs are
    /// copies of one run. One copy may be resumed, so the records are compared, too.
    #[must_use]
    pub fn common_trials(self, other: Side<'_>) -> usize {
        if self.run.header.run_id != other.run.header.run_id {
            return 0;
        }
        let arms = compared_arms(self, other);
        let arm =
            |side: Side<'_>, trial: &TrialRecord| side.run.header.plan.trials[trial.trial].arm;
        let is_compared = |trial: &TrialRecord, other_trial: &TrialRecord| {
            arms.contains(&(arm(self, trial), arm(other, other_trial)))
        };
        let is_common = |trial: &&TrialRecord| {
            let mut equal = other.run.trials.iter().filter(|record| record.load == trial.load);
            equal.any(|record| is_compared(trial, record))
        };
        self.run.trials.iter().filter(is_common).count()
    }
}

/// Returns the pairs of compared arms: the arms that the user named, or arms with the same name.
pub(super) fn compared_arms(a: Side<'_>, b: Side<'_>) -> Vec<(usize, usize)> {
    if let (Some(a), Some(b)) = (a.arm, b.arm) {
        return vec![(a, b)];
    }
    let is_selected = |(arm_a, arm_b): &(usize, usize)| {
        a.arm.is_none_or(|only| only == *arm_a) && b.arm.is_none_or(|only| only == *arm_b)
    };
    same_name_pairs(a, b).filter(is_selected).collect()
}

/// Returns the pairs of an arm of `a` and the arm of `b` with the same name.
fn same_name_pairs<'a>(a: Side<'a>, b: Side<'a>) -> impl Iterator<Item = (usize, usize)> {
    let (arms_a, arms_b) = (&a.run.header.plan.arms, &b.run.header.plan.arms);
    let pair =
        |arm: usize| Some((arm, arms_b.iter().position(|other| other.name == arms_a[arm].name)?));
    (0..arms_a.len()).filter_map(pair)
}

/// Returns the controls that both runs have, except controls that are compared arms. A control
/// shows how much the machine changed.
pub(super) fn uncompared_controls<'a>(
    a: Side<'a>,
    b: Side<'a>,
    compared: &'a [(usize, usize)],
) -> impl Iterator<Item = (usize, usize)> {
    let is_control = move |(arm_a, arm_b): &(usize, usize)| {
        a.run.header.plan.subject_of(*arm_a).control && b.run.header.plan.subject_of(*arm_b).control
    };
    same_name_pairs(a, b).filter(move |pair| is_control(pair) && !compared.contains(pair))
}

/// Returns the arms of `a` whose name no arm of `b` has, except controls. Empty if a side names an
/// arm.
pub(super) fn unmatched_arms(a: Side<'_>, b: Side<'_>) -> Vec<usize> {
    if a.arm.is_some() || b.arm.is_some() {
        return Vec::new();
    }
    let plan = &a.run.header.plan;
    let is_unmatched =
        |arm: &usize| b.run.header.plan.arms.iter().all(|other| other.name != plan.arms[*arm].name);
    (0..plan.arms.len()).filter(|arm| is_unmatched(arm) && !plan.subject_of(*arm).control).collect()
}

/// Returns the cell of the other side with the same workload name and the same step.
pub(super) fn counterpart(a: Side<'_>, key: CellKey, b: Side<'_>, arm: usize) -> Option<CellKey> {
    let (plan_a, plan_b) = (&a.run.header.plan, &b.run.header.plan);
    let name = &plan_a.workloads[key.workload].name;
    let workload = plan_b.workloads.iter().position(|workload| workload.name == *name)?;
    // Passes number the steps that look alike, such as two recordings of arrivals. Another suite
    // may number equal steps differently, so passes are ignored: the n-th of several equal steps
    // corresponds to the n-th on the other side.
    let step_a = &plan_a.load.steps[key.step];
    let is_equal = |step: &Step| Step { pass: step_a.pass, ..step.clone() } == *step_a;
    let earlier = plan_a.load.steps[..key.step].iter().filter(|step| is_equal(step)).count();
    let mut equal_steps = plan_b.load.steps.iter().enumerate().filter(|(_, step)| is_equal(step));
    let (step, _) = equal_steps.nth(earlier)?;
    Some(CellKey { arm, workload, step })
}

#[cfg(test)]
mod tests {
    use dyno_model::RunId;
    use dyno_model::plan::Subject;
    use dyno_model::run::Run;

    use super::*;
    use crate::fixture;
    use crate::report::report;

    #[test]
    fn copies_of_run_have_common_trials() {
        let subject = |name: &str| Subject { name: name.into(), ..Subject::default() };
        let requests = |arm: usize, block: u32| 1_000 * (arm as u64 + 1) + u64::from(block);
        let run = fixture::blocks_of(["x", "y"].map(subject).to_vec(), 5, requests);
        let common = |other: &Run, a: Option<usize>, b: Option<usize>| {
            let (report_a, report_b) = (report(&run), report(other));
            let side_a = Side { run: &run, results: report_a.results(), arm: a };
            side_a.common_trials(Side { run: other, results: report_b.results(), arm: b })
        };
        // The rest of the copy was measured again, so some trials differ.
        let mut copy = run.clone();
        for trial in &mut copy.trials[6..] {
            trial.load.began_ns += 1;
        }
        assert_eq!(common(&copy, None, None), 6);
        assert_eq!(common(&copy, Some(0), Some(0)), 3);
        assert_eq!(common(&copy, Some(0), Some(1)), 0, "different servers");
        copy.header.run_id = RunId::from_bits(1, 2);
        assert_eq!(common(&copy, None, None), 0);
    }
}
