//! Finds which repeats of both sides of a cell count, and why the others do not.
//!
//! A server that fails in many repeats must not pass a gate because its remaining repeats are fast.

use std::collections::BTreeSet;

use dyno_archive::plan::Launch;
use schemars::JsonSchema;
use serde::Serialize;

use super::{ComparisonRow, NoRatioReason, Side};
use crate::cell::{CellKey, Shape};
use crate::grid::{Cell, Grid};
use crate::metric::Metric;
use crate::number_format;
use crate::other_programs;
use crate::stats::permutation;
use crate::trial::TrialResult;

/// Why a repeat is excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The server did not build or start, ended under load, or its responses were wrong.
    ServerFailed,
    /// Too many requests got no response. A machine that stalls causes that, too.
    Unanswered,
    /// The machine, the generator, another server or dyno: no failure of this server.
    Measurement,
    /// The archive has no record of the repeat: the run was not finished, or files were removed.
    NoRecord,
}

impl Cause {
    /// Whether the repeat counts as failed in the test of failures.
    const fn is_failure(self) -> bool {
        matches!(self, Cause::ServerFailed | Cause::Unanswered)
    }
}

/// Repeats that are excluded for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotCounted {
    pub cause: Cause,
    /// A few words, such as `the server failed`.
    pub reason: String,
    /// Counted from 1.
    pub repeats: Vec<u32>,
}

/// The repeats of one side of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SideRepeats {
    /// Repeats that the run was to make; of a run that ended because its question was answered,
    /// those until then.
    pub planned: usize,
    /// Repeats whose numbers are compared. One that was measured again counts once.
    pub counted: usize,
    /// The others, by reason.
    pub not_counted: Vec<NotCounted>,
    /// Uncounted repeats in which the server served and did not fail: the generator, the machine or
    /// another server spoiled them.
    pub served: usize,
    /// Uncounted repeats of which only the generator's capacity was the limit. They count for CPU
    /// time per request.
    pub limited: usize,
    /// Counted and limited repeats in which requests failed: at most one request in a hundred, or
    /// the repeat would be invalid for that reason.
    pub with_failures: usize,
    /// Requests that failed in these repeats, and all that were due in them.
    pub failed_requests: u64,
    pub requests: u64,
    /// Counted and limited repeats in which requests failed and the machine may have dropped their
    /// packets. They are not in `with_failures`, and no gate of `b` is held with one.
    pub with_doubtful_failures: usize,
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
    /// `None`: all count, and no request failed.
    pub sentence: Option<String>,
}

/// Number of failed repeats, and of all repeats that could fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failures {
    pub failed: usize,
    pub all: usize,
}

impl Failures {
    /// Returns the share of failed repeats: 0 to 1.
    fn share(self) -> f64 {
        if self.all == 0 { 0.0 } else { self.failed as f64 / self.all as f64 }
    }
}

/// Returns the chance that so many more repeats of `b` fail if the two sides are alike (Fisher's
/// exact test). `None`: no repeat of either failed.
pub(super) fn p_of_failures(a: Failures, b: Failures) -> Option<f64> {
    (a.failed + b.failed > 0)
        .then(|| permutation::counts_chance((a.failed, a.all), (b.failed, b.all)))
}

impl SideRepeats {
    pub(super) fn new(side: Side<'_>, key: CellKey, grid: &Grid<'_>) -> SideRepeats {
        let plan = &side.run.header.plan;
        let trials = plan.trials.iter().filter(|trial| {
            (trial.arm, trial.workload, trial.step) == (key.arm, key.workload, key.step)
        });
        let planned = planned_blocks(side, trials.map(|trial| &plan.launches[trial.launch]));
        let mut result = SideRepeats { planned: planned.len(), ..SideRepeats::default() };
        let trials = grid.get(key).map_or(&[][..], Cell::trials);
        for block in planned {
            let trial = trials.iter().find(|trial| trial.block == block);
            let exclusion_reason = trial
                .map_or_else(|| Some(missing_cause(side, key, block)), |trial| exclusion(trial));
            let Some((cause, reason)) = exclusion_reason else {
                result.counted += 1;
                trial.into_iter().for_each(|trial| result.count_requests(trial));
                continue;
            };
            result.served += usize::from(trial.is_some() && cause == Cause::Measurement);
            if let Some(limited) = trial.filter(|trial| trial.has_known_cost()) {
                result.limited += 1;
                result.count_requests(limited);
            }
            result.add_uncounted(cause, reason, block);
        }
        result
    }

    /// Adds the requests of a counted or limited repeat.
    fn count_requests(&mut self, trial: &TrialResult) {
        let failed = trial.server_losses();
        self.with_failures += usize::from(failed > 0);
        self.with_doubtful_failures += usize::from(trial.has_doubtful_losses());
        self.failed_requests += failed;
        self.requests += trial.load.exchanges.due();
    }

    fn add_uncounted(&mut self, cause: Cause, reason: String, block: u32) {
        match self
            .not_counted
            .iter_mut()
            .find(|known| (known.cause, &known.reason) == (cause, &reason))
        {
            Some(known) => known.repeats.push(block),
            None => self.not_counted.push(NotCounted { cause, reason, repeats: vec![block] }),
        }
    }

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

    pub(super) fn failures(&self) -> Failures {
        let failed = self.count_by_cause(Cause::is_failure);
        Failures { failed, all: failed + self.counted + self.served }
    }

    /// Returns the number of repeats with failed requests, of all counted and limited repeats. A
    /// generator at its limit does not make a server fail.
    pub(super) const fn losses(&self) -> Failures {
        Failures { failed: self.with_failures, all: self.counted + self.limited }
    }

    /// `8 of 1000 requests of B failed, in 2 of 5 repeats`.
    fn losses_in_words(&self, name: &str) -> String {
        format!(
            "{} of {} requests of {name} failed, in {} of {} repeats",
            self.failed_requests,
            self.requests,
            self.with_failures,
            self.losses().all
        )
    }

    /// States in how many repeats it is unknown why requests failed. `None`: in none.
    pub(super) fn doubt_in_words(&self, name: &str) -> Option<String> {
        (self.with_doubtful_failures > 0).then(|| {
            format!(
                "requests of {name} failed in {} of {} repeats in which the machine may have \
                 dropped their packets",
                self.with_doubtful_failures,
                self.losses().all
            )
        })
    }

    /// Returns the number of repeats that count for a metric.
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

    /// `7 of 14 repeats of B are excluded (the server failed: 7)`; `None`: all count.
    fn sentence(&self, name: &str) -> Option<String> {
        let reason = |group: &NotCounted| format!("{}: {}", group.reason, group.repeats.len());
        let reasons: Vec<String> = self.not_counted.iter().map(reason).collect();
        let uncounted = self.planned - self.counted;
        let exception = match self.limited {
            0 => String::new(),
            limited if limited == uncounted => ", except for CPU time per request".into(),
            limited => format!(", except for CPU time per request in {limited} of them"),
        };
        (uncounted > 0).then(|| {
            format!(
                "{uncounted} of {} repeats of {name} are excluded ({}){exception}",
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
        let not_planned = (self.b.planned == 0).then(|| "B did not plan this step".into());
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

    /// Whether all repeats count for a metric.
    pub(super) const fn are_all_counted_for(&self, metric: &Metric) -> bool {
        self.a.counted_for(metric) == self.a.planned
            && self.b.counted_for(metric) == self.b.planned
            && self.b.planned > 0
    }

    /// `7 of 14 repeats of B are excluded`, without reasons; `None`: all count.
    pub(super) fn count_in_words(&self) -> Option<String> {
        let side = |side: &SideRepeats, name: &str| {
            let uncounted = side.planned - side.counted;
            (uncounted > 0).then(|| format!("{uncounted} of {} repeats of {name}", side.planned))
        };
        let both: Vec<String> =
            [side(&self.a, "A"), side(&self.b, "B")].into_iter().flatten().collect();
        (!both.is_empty()).then(|| format!("{} are excluded", both.join(" and ")))
    }

    /// Returns the failures of both sides for one metric. A valid repeat also fails if the
    /// percentile lies among its unanswered requests.
    pub(super) fn failures_in(
        &self,
        no_ratio_reason: Option<NoRatioReason>,
    ) -> (Failures, Failures) {
        let (a, b) = (self.a.failures(), self.b.failures());
        let add_failures = |counts: Failures, unanswered: usize| Failures {
            failed: counts.failed + unanswered,
            ..counts
        };
        match no_ratio_reason {
            Some(NoRatioReason::Unanswered { a: unanswered_a, b: unanswered_b }) => {
                (add_failures(a, unanswered_a), add_failures(b, unanswered_b))
            }
            _ => (a, b),
        }
    }
}

/// Returns by how much the share of failed repeats of controls is higher in `b` than in `a`: the
/// largest difference of all cells, or 0.
pub(super) fn excused_share(cells: &[CellRepeats], count: fn(&SideRepeats) -> Failures) -> f64 {
    let controls = cells.iter().filter(|cell| cell.control);
    largest_excess(controls.map(|cell| (count(&cell.a), count(&cell.b))))
}

/// Returns by how much the second share of failures is higher than the first: the largest
/// difference of all pairs, or 0.
pub(super) fn largest_excess(pairs: impl Iterator<Item = (Failures, Failures)>) -> f64 {
    pairs.map(|(a, b)| b.share() - a.share()).fold(0.0, f64::max)
}

/// Describes a control whose repeats were excluded so often that its metric has no estimate in any
/// cell. It then cannot show whether the machine changed. A control that refuses all connections
/// has no values by design, and no excluded repeats.
pub(super) fn unestimated_control(cells: &[CellRepeats], metric: &Metric) -> Option<String> {
    let is_short = |cell: &&CellRepeats| cell.control && !cell.are_all_counted_for(metric);
    let cell = cells.iter().find(is_short)?;
    let excluded = cell.count_in_words().unwrap_or_else(|| "B did not plan this step".into());
    Some(format!(
        "too few repeats of the control {} count, so it cannot show whether the machine changed \
         ({excluded})",
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
        "records of the control {} are missing, so it cannot show whether the machine changed",
        cell.subject_a
    ))
}

/// Returns the failures that remain if the machine caused this share of all repeats to fail.
pub(super) fn excess_failures(share: f64, counts: Failures) -> Failures {
    /// Larger than the rounding of a difference of shares, and smaller than the share of a repeat.
    const ROUNDING: f64 = 1e-9;
    let excused = (share * counts.all as f64 - ROUNDING).ceil().max(0.0) as usize;
    Failures { failed: counts.failed.saturating_sub(excused), ..counts }
}

/// Returns the blocks, from 1, of planned launches. If the run ended because its question was
/// answered, later blocks are left out.
pub(super) fn planned_blocks<'a>(
    side: Side<'_>,
    launches: impl Iterator<Item = &'a Launch>,
) -> BTreeSet<u32> {
    let last_block = side.report.run.answered_after.unwrap_or(u32::MAX);
    launches.map(|launch| launch.block + 1).filter(|block| *block <= last_block).collect()
}

/// Returns why a repeat is excluded; `None`: it counts.
fn exclusion(trial: &TrialResult) -> Option<(Cause, String)> {
    if trial.valid || trial.refused {
        return None;
    }
    let reason = trial.refusal().map_or("the step is not valid", other_programs::reason);
    let cause = match trial {
        trial if trial.is_broken() => Cause::ServerFailed,
        trial if trial.has_lost() => Cause::Unanswered,
        _ => Cause::Measurement,
    };
    Some((cause, reason.into()))
}

/// Returns why a repeat has no trial.
fn missing_cause(side: Side<'_>, key: CellKey, block: u32) -> (Cause, String) {
    let plan = &side.run.header.plan;
    let protocol = plan.workloads[key.workload].protocol;
    let subject = side.report.subjects.get(key.arm);
    if let Some(reason) = subject.and_then(|subject| subject.skipped.as_ref()) {
        return (Cause::Measurement, format!("skipped: {reason}"));
    }
    let failures = subject.map_or(&[][..], |subject| &subject.failures);
    // If the repeat was tried several times, a failure of the server counts more than others.
    let block_failures = failures.iter().filter(|failure| {
        [0, block].contains(&failure.repeat) && failure.protocol.is_none_or(|only| only == protocol)
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

    /// 0.8 − 0.6 is a little more than 0.2 as a floating-point number.
    #[test]
    fn excused_share_is_not_rounded_up_by_an_ulp() {
        let controls = [(Failures { failed: 3, all: 5 }, Failures { failed: 4, all: 5 })];
        let excused = largest_excess(controls.into_iter());
        let of_five = |failed| excess_failures(excused, Failures { failed, all: 5 }).failed;
        assert_eq!([5, 1, 0].map(of_five), [4, 0, 0]);
        // A share of a repeat excuses the whole repeat.
        assert_eq!(excess_failures(0.01, Failures { failed: 5, all: 5 }).failed, 4);
        assert_eq!(excess_failures(0.0, Failures { failed: 5, all: 5 }).failed, 5);
    }
}
