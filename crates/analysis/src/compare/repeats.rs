//! Finds which repeats of a cell (one arm, workload and step) are included in a comparison, and why
//! the others are excluded.
//!
//! A server that fails in many repeats must not pass a gate because its remaining repeats are fast.

use std::collections::BTreeSet;

use dyno_model::plan::Launch;
use schemars::JsonSchema;
use serde::Serialize;

use super::failures::{BlockRequests, Explained, Failures, p_of_failures};
use super::{ComparisonRow, NoRatioReason, Side};
use crate::cell::{CellKey, Shape};
use crate::grid::{Cell, Grid};
use crate::metric::Metric;
use crate::number_format;
use crate::other_programs;
use crate::trial::TrialResult;

/// Statement on a step that only the plan of A has.
const MISSING_STEP: &str = "the plan of B lacks this step";

/// Why a repeat is excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The server did not build or start, ended under load, or its responses were wrong.
    ServerFailed,
    /// Too many requests got no response. A stall of the machine may also be the cause.
    Unanswered,
    /// The machine, the generator, another server or dyno was the cause. This server did not fail.
    Measurement,
    /// The archive has no record of the repeat: the run was not finished, or files were removed.
    NoRecord,
}

/// Repeats that are excluded for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotCounted {
    pub cause: Cause,
    /// A few words, such as `the server failed`.
    pub reason: String,
    /// Numbers of the repeats, counted from 1.
    pub repeats: Vec<u32>,
}

/// The repeats of one side of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SideRepeats {
    /// Planned repeats. If the run ended early because its question was answered, only the repeats
    /// before its end.
    pub planned: usize,
    /// Repeats whose numbers are compared. A repeat that was measured again is one repeat.
    pub counted: usize,
    /// The excluded repeats, by reason.
    pub not_counted: Vec<NotCounted>,
    /// Excluded repeats in which the server did not fail. The generator, the machine or another
    /// server made them invalid.
    pub served: usize,
    /// Excluded repeats that are invalid only because the generator's capacity was the limit. They
    /// are included in CPU time per request.
    pub limited: usize,
    /// Excluded repeats that are invalid only because the server's contract was not checked after
    /// them. Resumed runs keep such repeats if requests failed. Their failed requests count.
    pub unchecked: usize,
    /// Included, `limited` and `unchecked` repeats in which requests failed. At most one request in
    /// a hundred failed, because a repeat with more failures is invalid.
    pub with_failures: usize,
    /// Failed requests, and all requests, in the measured windows of the included, `limited` and
    /// `unchecked` repeats.
    pub failed_requests: u64,
    pub requests: u64,
    /// Included, `limited` and `unchecked` repeats in which requests failed and the machine may
    /// have dropped their packets. They are not in `with_failures`. No gate is held if `b` has such
    /// a repeat, or if `a` has one and requests of `b` failed.
    pub with_doubtful_failures: usize,
    /// Requests of the repeats in which the number of failed requests is known.
    #[serde(skip)]
    pub(super) known_requests: KnownRequests,
}

/// Requests of repeats, for the tests of failed requests. Repeats in which the machine may have
/// dropped packets are omitted, because nothing shows how many requests the server failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownRequests {
    /// Included repeats.
    included: Vec<BlockRequests>,
    /// Number of included repeats that are omitted from `included`.
    doubtful_included: usize,
    /// Repeats that are excluded only because the generator's capacity was the limit, or because
    /// the contract was not checked after them.
    excluded: Vec<BlockRequests>,
    /// Repeats with the cause [`Cause::Unanswered`].
    unanswered: Vec<BlockRequests>,
}

/// The repeats of both sides of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CellRepeats {
    /// Name of the arm in `a`, and in `b`.
    pub subject_a: String,
    pub subject_b: String,
    pub control: bool,
    pub workload: String,
    pub step: Shape,
    pub a: SideRepeats,
    pub b: SideRepeats,
    /// Chance that so many more repeats of `b` than of `a` fail (cause `server_failed` or
    /// `unanswered`) if the two are alike, by Fisher's exact test: 0 to 1, not adjusted for other
    /// tests. `None`: no repeat of either failed.
    pub p_failed: Option<f64>,
    /// The repeats that are excluded, with reasons, and the requests that failed in the others;
    /// `None`: all repeats are included, and no request failed.
    pub sentence: Option<String>,
}

impl SideRepeats {
    /// Finds the included and the excluded repeats of a cell.
    pub(super) fn new(side: Side<'_>, key: CellKey, grid: &Grid<'_>) -> SideRepeats {
        let plan = &side.run.header.plan;
        let planned_trials = plan.trials.iter().filter(|trial| CellKey::from_trial(trial) == key);
        let launches = planned_trials.map(|trial| &plan.launches[trial.launch]);
        let planned = planned_blocks(side, launches);
        let mut result = SideRepeats { planned: planned.len(), ..SideRepeats::default() };
        let trials = grid.get(key).map_or(&[][..], Cell::trials);
        for block in planned {
            let trial = trials.iter().find(|trial| trial.block == block);
            let exclusion_reason = match trial {
                Some(trial) => exclusion(trial),
                None => Some(missing_cause(side, key, block)),
            };
            let Some((cause, reason)) = exclusion_reason else {
                result.counted += 1;
                match trial.and_then(|trial| result.count_requests(trial)) {
                    Some(known) => result.known_requests.included.push(known),
                    None => result.known_requests.doubtful_included += 1,
                }
                continue;
            };
            result.served += usize::from(trial.is_some() && cause == Cause::Measurement);
            let limited = trial.filter(|trial| trial.has_known_cost());
            let unchecked = trial.filter(|trial| trial.is_only_unchecked());
            result.limited += usize::from(limited.is_some());
            result.unchecked += usize::from(unchecked.is_some());
            if let Some(excluded) = limited.or(unchecked) {
                let known = result.count_requests(excluded);
                result.known_requests.excluded.extend(known);
            }
            if let Some(unanswered) = trial.filter(|_| cause == Cause::Unanswered) {
                result.known_requests.unanswered.push(BlockRequests {
                    block,
                    failed: unanswered.server_losses(),
                    requests: unanswered.load.exchanges.due(),
                    has_outage: unanswered.has_outage(),
                });
            }
            result.add_excluded(cause, reason, block);
        }
        result
    }

    /// Adds the requests of a repeat that is included, `limited` or `unchecked`, and returns them.
    /// `None`: it is unknown how many requests the server failed.
    fn count_requests(&mut self, trial: &TrialResult) -> Option<BlockRequests> {
        let failed = trial.server_losses();
        self.with_failures += usize::from(failed > 0);
        self.with_doubtful_failures += usize::from(trial.has_doubtful_losses());
        self.failed_requests += failed;
        let requests = trial.load.exchanges.due();
        self.requests += requests;
        let is_known = !trial.has_doubtful_losses();
        let has_outage = trial.has_outage();
        is_known.then_some(BlockRequests { block: trial.block, failed, requests, has_outage })
    }

    /// Adds an excluded repeat to the group of its reason.
    fn add_excluded(&mut self, cause: Cause, reason: String, block: u32) {
        match self
            .not_counted
            .iter_mut()
            .find(|known| (known.cause, &known.reason) == (cause, &reason))
        {
            Some(known) => known.repeats.push(block),
            None => self.not_counted.push(NotCounted { cause, reason, repeats: vec![block] }),
        }
    }

    /// Returns the number of excluded repeats with the selected causes.
    fn count_by_cause(&self, is_selected: impl Fn(Cause) -> bool) -> usize {
        self.not_counted
            .iter()
            .filter(|group| is_selected(group.cause))
            .map(|group| group.repeats.len())
            .sum()
    }

    /// Returns the number of repeats that the archive has no record of.
    pub(super) fn without_record(&self) -> usize {
        self.count_by_cause(|cause| cause == Cause::NoRecord)
    }

    /// Returns the number of failed repeats, of all repeats that show whether the server failed.
    pub(super) fn failures(&self) -> Failures {
        self.failures_without(&Explained::default(), 0)
    }

    /// Returns the number of failed repeats, of all repeats that show whether the server failed. A
    /// repeat whose failed requests are explained by failures of a control is not failed. A repeat
    /// in which the server ended or responded incorrectly is always failed.
    ///
    /// `valid_unanswered`: number of valid repeats in which a percentile lies among unanswered
    /// requests. They are the repeats with the largest failed shares.
    fn failures_without(&self, explained: &Explained, valid_unanswered: usize) -> Failures {
        let known = &self.known_requests;
        let mut valid: Vec<BlockRequests> =
            known.included.iter().copied().filter(|repeat| repeat.failed > 0).collect();
        valid.sort_by(|x, y| y.share().total_cmp(&x.share()));
        // Doubtful repeats are not in `valid`, but `valid_unanswered` may count them. Their number
        // is therefore subtracted.
        valid.truncate(valid_unanswered.saturating_sub(known.doubtful_included));
        let is_failed_valid = |repeat: &&BlockRequests| !explained.explains_all(**repeat);
        let is_failed = |repeat: &&BlockRequests| !explained.explains_invalid(**repeat);
        let broken = self.count_by_cause(|cause| cause == Cause::ServerFailed);
        let failed = broken
            + known.unanswered.iter().filter(is_failed).count()
            + valid.iter().filter(is_failed_valid).count();
        let all = broken + known.unanswered.len() + self.counted + self.served;
        Failures { failed, all }
    }

    /// Returns the requests of the included, `limited` and `unchecked` repeats in which the number
    /// of failed requests is known.
    pub(super) fn used_requests(&self) -> impl Iterator<Item = BlockRequests> {
        let known = &self.known_requests;
        known.included.iter().chain(&known.excluded).copied()
    }

    /// Returns the requests of all repeats in which the number of failed requests is known, also of
    /// those with too many.
    pub(super) fn all_requests(&self) -> Vec<BlockRequests> {
        self.used_requests().chain(self.known_requests.unanswered.iter().copied()).collect()
    }

    /// Returns the number of repeats with failed requests, of all included, `limited` and
    /// `unchecked` repeats. Neither a generator at its limit nor a missing check makes a server
    /// fail.
    pub(super) const fn losses(&self) -> Failures {
        Failures { failed: self.with_failures, all: self.counted + self.limited + self.unchecked }
    }

    /// Returns text such as `8 of 1000 requests of B failed, in 2 of 5 repeats`.
    fn losses_in_words(&self, label: &str) -> String {
        format!(
            "{} of {} requests of {label} failed, in {} of {} repeats",
            self.failed_requests,
            self.requests,
            self.with_failures,
            self.losses().all
        )
    }

    /// States in how many repeats it is unknown why requests failed. `None`: in none.
    pub(super) fn doubt_in_words(&self, label: &str) -> Option<String> {
        (self.with_doubtful_failures > 0).then(|| {
            format!(
                "in {} of {} repeats, requests of {label} failed and the machine may have dropped \
                 their packets",
                self.with_doubtful_failures,
                self.losses().all
            )
        })
    }

    /// Returns the number of repeats that are included in a metric.
    pub(super) const fn counted_for(&self, metric: &Metric) -> usize {
        self.counted + if metric.includes_limited() { self.limited } else { 0 }
    }

    /// Whether the server failed in most of the planned repeats. Noise does not cause such
    /// failures.
    fn is_broken(&self) -> bool {
        2 * self.count_by_cause(|cause| cause == Cause::ServerFailed) > self.planned
    }

    /// Whether the server served in most of the planned repeats.
    fn is_working(&self) -> bool {
        2 * (self.counted + self.served) > self.planned
    }

    /// Returns text such as `7 of 14 repeats of B are excluded (the server failed: 7)`; `None`: no
    /// repeat is excluded.
    fn sentence(&self, label: &str) -> Option<String> {
        let reason = |group: &NotCounted| format!("{}: {}", group.reason, group.repeats.len());
        let reasons: Vec<String> = self.not_counted.iter().map(reason).collect();
        let excluded = self.planned - self.counted;
        let exception = match self.limited {
            0 => String::new(),
            limited if limited == excluded => ", but used for CPU time per request".into(),
            1 => ", but 1 of these is used for CPU time per request".into(),
            limited => format!(", but {limited} of these are used for CPU time per request"),
        };
        (excluded > 0).then(|| {
            format!(
                "{excluded} of {} repeats of {label} are excluded ({}){exception}",
                self.planned,
                reasons.join(", ")
            )
        })
    }
}

impl CellRepeats {
    /// Fills in the fields that follow from the repeats of both sides.
    pub(super) fn with_summary(self) -> CellRepeats {
        let (failures_a, failures_b) = (self.a.failures(), self.b.failures());
        let p_failed = p_of_failures(failures_a, failures_b);
        let not_planned = (self.b.planned == 0).then(|| MISSING_STEP.into());
        let sides = [self.a.sentence("A"), self.b.sentence("B"), not_planned];
        let mut texts: Vec<String> = sides.into_iter().flatten().collect();
        if let Some(p) = p_failed {
            texts.push(format!(
                "the server failed in {} of {} repeats of A and in {} of {} of B ({}, Fisher's \
                 exact test)",
                failures_a.failed,
                failures_a.all,
                failures_b.failed,
                failures_b.all,
                number_format::p_value(p)
            ));
        }
        if self.a.failed_requests + self.b.failed_requests > 0 {
            texts.extend([self.a.losses_in_words("A"), self.b.losses_in_words("B")]);
        }
        texts
            .extend([self.a.doubt_in_words("A"), self.b.doubt_in_words("B")].into_iter().flatten());
        let sentence = (!texts.is_empty()).then(|| texts.join("; "));
        CellRepeats { p_failed, sentence, ..self }
    }

    /// Whether the server of `b` failed in most repeats, and the server of `a` did not.
    pub(super) fn is_b_broken(&self) -> bool {
        self.b.is_broken() && self.a.is_working()
    }

    /// Whether a row compares the repeats of this cell.
    pub(super) fn has_row(&self, row: &ComparisonRow) -> bool {
        (&self.subject_a, &self.subject_b, &self.workload, self.step, self.control)
            == (&row.subject_a, &row.subject_b, &row.workload, row.step, row.control)
    }

    /// Whether all repeats of both sides are included in a metric.
    pub(super) const fn are_all_counted_for(&self, metric: &Metric) -> bool {
        self.a.counted_for(metric) == self.a.planned
            && self.b.counted_for(metric) == self.b.planned
            && self.b.planned > 0
    }

    /// Returns text such as `7 of 14 repeats of B are excluded`, without reasons; `None`: no repeat
    /// is excluded.
    pub(super) fn count_in_words(&self) -> Option<String> {
        let side = |side: &SideRepeats, label: &str| {
            let excluded = side.planned - side.counted;
            (excluded > 0).then(|| format!("{excluded} of {} repeats of {label}", side.planned))
        };
        let both: Vec<String> =
            [side(&self.a, "A"), side(&self.b, "B")].into_iter().flatten().collect();
        (!both.is_empty()).then(|| format!("{} are excluded", both.join(" and ")))
    }

    /// Returns the failures of both sides for one metric, without failures of `b` that controls
    /// explain. A valid repeat is also a failure if the percentile lies among its unanswered
    /// requests.
    pub(super) fn failures_in(
        &self,
        no_ratio_reason: Option<NoRatioReason>,
        explained: &Explained,
    ) -> (Failures, Failures) {
        let (unanswered_a, unanswered_b) = match no_ratio_reason {
            Some(NoRatioReason::Unanswered { a, b }) => (a, b),
            _ => (0, 0),
        };
        (
            self.a.failures_without(&Explained::default(), unanswered_a),
            self.b.failures_without(explained, unanswered_b),
        )
    }
}

/// Describes a control some of whose repeats are excluded from a metric, to explain why no control
/// has an estimate of the metric. A control that refuses all connections has no values by design,
/// and no excluded repeats.
pub(super) fn unestimated_control(cells: &[CellRepeats], metric: &Metric) -> Option<String> {
    let has_excluded_repeats =
        |cell: &&CellRepeats| cell.control && !cell.are_all_counted_for(metric);
    let cell = cells.iter().find(has_excluded_repeats)?;
    let excluded = cell.count_in_words().unwrap_or_else(|| MISSING_STEP.into());
    Some(format!(
        "too few repeats of the control {} are included, so the control cannot show whether the \
         machine changed ({excluded})",
        cell.subject_a
    ))
}

/// Describes a control whose archive lacks records, and which therefore cannot show whether the
/// machine changed. `None`: the archives have all records of all controls.
pub(super) fn unrecorded_controls(cells: &[CellRepeats]) -> Option<String> {
    let lacks_records =
        |cell: &&CellRepeats| cell.control && cell.a.without_record() + cell.b.without_record() > 0;
    let cell = cells.iter().find(lacks_records)?;
    Some(format!(
        "records of the control {} are missing, so the control cannot show whether the machine \
         changed",
        cell.subject_a
    ))
}

/// Returns the blocks, from 1, of planned launches. If the run ended because its question was
/// answered, later blocks are omitted.
pub(super) fn planned_blocks<'a>(
    side: Side<'_>,
    launches: impl Iterator<Item = &'a Launch>,
) -> BTreeSet<u32> {
    let last_block = side.results.answered_after.unwrap_or(u32::MAX);
    launches.map(|launch| launch.block + 1).filter(|block| *block <= last_block).collect()
}

/// Returns why a repeat is excluded; `None`: the repeat is included.
fn exclusion(trial: &TrialResult) -> Option<(Cause, String)> {
    // A control that refuses connections as intended is included, although it is not valid.
    if trial.valid || trial.refused {
        return None;
    }
    let reason = trial.invalid_reason().map_or("the step is not valid", other_programs::reason);
    let cause = match trial {
        trial if trial.is_broken() => Cause::ServerFailed,
        trial if trial.has_lost_requests() => Cause::Unanswered,
        _ => Cause::Measurement,
    };
    Some((cause, reason.into()))
}

/// Returns the cause, and the reason in words, why a repeat has no trial.
fn missing_cause(side: Side<'_>, key: CellKey, block: u32) -> (Cause, String) {
    let plan = &side.run.header.plan;
    let protocol = plan.workloads[key.workload].protocol;
    let subject = side.results.subjects.get(key.arm);
    if let Some(reason) = subject.and_then(|subject| subject.skipped.as_ref()) {
        return (Cause::Measurement, format!("skipped: {reason}"));
    }
    let failures = subject.map_or(&[][..], |subject| &subject.failures);
    // If the repeat was tried several times, a failure of the server is reported first.
    let block_failures = failures.iter().filter(|failure| {
        let concerns_block = failure.is_of_build() || failure.repeat == block;
        concerns_block && failure.protocol.is_none_or(|only| only == protocol)
    });
    let worst = block_failures.max_by_key(|failure| failure.is_servers_fault());
    match worst {
        Some(failure) if failure.is_servers_fault() => {
            (Cause::ServerFailed, failure.failure.kind.name().into())
        }
        Some(failure) => (Cause::Measurement, failure.failure.kind.name().into()),
        None => (Cause::NoRecord, "no record in the archive".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubtful_limited_repeat_hides_no_failure() {
        let included =
            |block| BlockRequests { block, failed: 20, requests: 1000, has_outage: false };
        let failed = |doubtful_included: usize, with_doubtful_failures: usize| {
            let known_requests = KnownRequests {
                included: vec![included(1), included(2)],
                doubtful_included,
                ..KnownRequests::default()
            };
            let side = SideRepeats {
                counted: 2 + doubtful_included,
                with_doubtful_failures,
                known_requests,
                ..SideRepeats::default()
            };
            side.failures_without(&Explained::default(), 2).failed
        };
        assert_eq!(failed(0, 0), 2);
        // The doubtful repeat is excluded, because only the generator limited it.
        assert_eq!(failed(0, 1), 2);
        assert_eq!(failed(1, 1), 1);
    }
}
