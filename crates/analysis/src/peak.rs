//! Decides whether the peak of a server with a workload is its maximum, or only a lower bound.
//!
//! If a step is invalid because of the generator, the server may have reached more at this step
//! than at all others. Faster servers reach the generator's limit sooner, so such steps are not
//! missing at random. The best of the other steps is therefore a lower bound of the peak (a
//! right-censored value, as in survival analysis; Kaplan and Meier, 1958).

use dyno_model::plan::Plan;
use schemars::JsonSchema;
use serde::Serialize;

use crate::caveat::Code;
use crate::cell::{CellKey, Shape};
use crate::grid::{Cell, Grid};
use crate::metric::THROUGHPUT;
use crate::series::Series;
use crate::stats::{PAIRS_TO_TELL_APART, Repeated, median};
use crate::trial::TrialResult;

/// Share of the peak from which on a throughput is near the peak. A step with fewer requests in
/// flight than the peak's step is an [`OpenStep`] only if its repeats came near the peak.
pub(crate) const NEAR_PEAK: f64 = 0.5;

/// Relation of a peak to the server's maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PeakBound {
    /// The maximum over the steps.
    #[default]
    Exact,
    /// A lower bound: the server may reach more.
    AtLeast,
}

/// Relation of the ratio of two servers to the true ratio, if repeats of one are not valid for
/// reasons outside of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RatioBound {
    #[default]
    Exact,
    /// The ratio may be higher: the first server may reach more.
    AtLeast,
    /// The ratio may be lower: the second server may reach more.
    AtMost,
    /// Both servers may reach more.
    Unknown,
}

impl RatioBound {
    /// Returns the bound of the ratio of `cell` to `base`.
    pub(crate) fn from_cells(cell: &Cell<'_>, base: &Cell<'_>) -> RatioBound {
        match (is_open(cell), is_open(base)) {
            (false, false) => RatioBound::Exact,
            (true, false) => RatioBound::AtLeast,
            (false, true) => RatioBound::AtMost,
            (true, true) => RatioBound::Unknown,
        }
    }

    /// Whether a ratio that differs from 1 shows which of the two is higher.
    pub(crate) fn decides(self, ratio: f64) -> bool {
        match self {
            RatioBound::Exact => true,
            RatioBound::AtLeast => ratio > 1.0,
            RatioBound::AtMost => ratio < 1.0,
            RatioBound::Unknown => false,
        }
    }
}

/// A step at which a server may have reached more than its peak, because repeats are not valid for
/// reasons outside of the server. *Open* means undecided, and has no relation to open loops.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OpenStep {
    /// Index among the plan's steps.
    pub step: usize,
    pub at: Shape,
    /// Repeats that are not valid for reasons outside of the server.
    pub refused: usize,
    /// Planned repeats. 0: none of them ran.
    pub repeats: usize,
    /// `contaminated` if other programs used the CPUs in most of the excluded repeats. Otherwise
    /// the reason of the first of them; a limit of the generator comes before other reasons.
    /// `None`: no repeat ran.
    pub reason: Option<Code>,
}

/// Bounds of a peak in addition to the best valid step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PeakBounds {
    /// Steps at which the server may have reached more. Empty: the peak is exact.
    pub(crate) open: Vec<OpenStep>,
    /// Highest throughput among repeats that are excluded only because of the generator, and its
    /// step; `None`: not above the peak.
    pub(crate) at_least: Option<(CellKey, Repeated)>,
}

/// The steps of an arm with a workload.
pub(crate) struct Steps<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) grid: &'a Grid<'a>,
    pub(crate) arm: usize,
    pub(crate) workload: usize,
    /// Whether the server's own failures are the reason why no repeat ran in some blocks.
    pub(crate) has_failed: bool,
}

impl Steps<'_> {
    /// Returns the bounds of a peak. `peak`: the best valid step with its throughput; `None`: no
    /// step has a valid repeat.
    pub(crate) fn find_bounds(&self, peak: Option<(CellKey, &Repeated)>) -> PeakBounds {
        // Servers of a duet share their CPUs at the same time. Their throughput depends on the
        // other servers, so there is no peak to bound.
        if self.plan.sharing.duet().contains(&self.arm) {
            return PeakBounds::default();
        }
        let peak_median = peak.and_then(|(key, throughput)| Some((key, throughput.median?)));
        let open: Vec<OpenStep> = self
            .planned_steps()
            .into_iter()
            .filter_map(|step| self.open_step(step, peak_median))
            .collect();
        // A throughput with too few repeats to distinguish servers is used only if the peak has too
        // few repeats, too.
        let has_enough = |throughput: &Repeated| throughput.values.len() >= PAIRS_TO_TELL_APART;
        let has_peak_enough = peak.is_some_and(|(_, throughput)| has_enough(throughput));
        let is_above_peak = |rps: f64| peak_median.is_none_or(|(_, peak_rps)| rps > peak_rps);
        let observed = open.iter().filter_map(|step| {
            let key = self.key(step.step);
            Some((key, lower_bounds(self.grid.get(key)?).repeated()))
        });
        let higher = observed.filter(|(_, throughput)| {
            (has_enough(throughput) || !has_peak_enough)
                && throughput.median.is_some_and(is_above_peak)
        });
        let at_least = higher
            .max_by(|(_, a), (_, b)| a.median.unwrap_or(0.0).total_cmp(&b.median.unwrap_or(0.0)));
        PeakBounds { open, at_least }
    }

    const fn key(&self, step: usize) -> CellKey {
        CellKey { arm: self.arm, workload: self.workload, step }
    }

    /// Returns the planned closed loops, or all steps if there are no closed loops.
    fn planned_steps(&self) -> Vec<usize> {
        let trials =
            self.plan.trials.iter().filter(|t| (t.arm, t.workload) == (self.arm, self.workload));
        let mut steps: Vec<usize> = trials.map(|trial| trial.step).collect();
        steps.sort_unstable();
        steps.dedup();
        let is_closed = |step: &usize| self.plan.load.steps[*step].arrivals.is_closed();
        let closed: Vec<usize> = steps.iter().copied().filter(is_closed).collect();
        if closed.is_empty() { steps } else { closed }
    }

    /// Returns the step if the server may have reached more than its peak there. `None`: the step
    /// shows that the server did not reach more, or the server's own failures are the reason for
    /// missing repeats.
    fn open_step(&self, step: usize, peak: Option<(CellKey, f64)>) -> Option<OpenStep> {
        let at = Shape::from_step(&self.plan.load.steps[step]);
        let in_flight = |step: usize| self.plan.load.steps[step].in_flight();
        let has_fewer_in_flight =
            peak.is_some_and(|(key, _)| in_flight(step) < in_flight(key.step));
        let Some(cell) = self.grid.get(self.key(step)) else {
            // No repeat of this step ran.
            let is_open = !self.has_failed && !has_fewer_in_flight && peak.is_some();
            return is_open.then_some(OpenStep { step, at, refused: 0, repeats: 0, reason: None });
        };
        let excluded = open_repeats(cell);
        // If the peak's own step has too few valid repeats as well, the run is incomplete, and all
        // steps are equally uncertain. In this case, missing repeats are ignored.
        let is_peak_shown =
            peak.is_some_and(|(key, _)| self.grid.get(key).is_some_and(shows_throughput));
        let missing = match self.has_failed || !is_peak_shown {
            true => 0,
            false => missing_repeats(self.plan, self.key(step), cell),
        };
        if excluded.is_empty() && missing == 0 {
            return None;
        }
        let highest = highest_median(cell, excluded.len() + missing);
        // If repeats are only missing, they are assumed to be like the repeats that ran.
        let observed = median(&rates(if excluded.is_empty() { cell.trials() } else { &excluded }));
        let may_be_higher = peak.is_none_or(|(_, peak)| {
            let is_near = observed.is_some_and(|rps| rps >= NEAR_PEAK * peak);
            highest.is_none_or(|highest| highest > peak) && (!has_fewer_in_flight || is_near)
        });
        may_be_higher.then(|| OpenStep {
            step,
            at,
            refused: excluded.len() + missing,
            repeats: cell.trials().len() + missing,
            reason: if missing > excluded.len() { None } else { exclusion_reason(&excluded) },
        })
    }
}

/// Returns the reason why these repeats are excluded: other programs if they disturbed most
/// repeats. Otherwise a limit of the generator comes before other reasons.
fn exclusion_reason(excluded: &[&TrialResult]) -> Option<Code> {
    let (disturbed, others): (Vec<&TrialResult>, Vec<&TrialResult>) = excluded
        .iter()
        .copied()
        .partition(|trial| trial.invalid_reason() == Some(Code::CONTAMINATED));
    if disturbed.len() > others.len() {
        return Some(Code::CONTAMINATED);
    }
    let reasons = || others.iter().flat_map(|trial| trial.invalid_codes());
    reasons().find(|code| code.is_generator_limit()).or_else(|| reasons().next())
}

/// Returns the excluded repeats of a cell in which the server may have been able to reach more.
///
/// A generator without headroom affects the fastest servers most. Other reasons outside of the
/// server, such as other programs, do not depend on the server's speed. If all
/// reasons are of this kind, three valid repeats suffice to show the server's throughput.
fn open_repeats<'a>(cell: &Cell<'a>) -> Vec<&'a TrialResult> {
    let is_shown = shows_throughput(cell);
    let is_open = |trial: &&TrialResult| {
        let is_uncertain = !is_shown || trial.invalid_codes().any(Code::is_generator_limit);
        is_uncertain && trial.is_inconclusive()
    };
    cell.trials().iter().copied().filter(is_open).collect()
}

/// Returns the number of planned repeats of a cell that did not run, if too few repeats are valid.
/// 0 for a run with `[stop]`, which ends early on purpose.
pub(crate) fn missing_repeats(plan: &Plan, key: CellKey, cell: &Cell<'_>) -> usize {
    if plan.stop.is_some() || shows_throughput(cell) {
        return 0;
    }
    let planned = plan.trials.iter().filter(|trial| {
        (trial.arm, trial.workload, trial.step) == (key.arm, key.workload, key.step)
    });
    planned.count().saturating_sub(cell.trials().len())
}

/// Whether enough repeats are valid to show the throughput of the server.
fn shows_throughput(cell: &Cell<'_>) -> bool {
    cell.trials().iter().filter(|trial| trial.valid).count() >= PAIRS_TO_TELL_APART
}

/// Returns the throughput of each trial.
fn rates(trials: &[&TrialResult]) -> Vec<f64> {
    trials.iter().map(|trial| trial.load.throughput_rps).collect()
}

/// Returns the highest median that a cell could have if this many more repeats had any throughput.
/// `None`: the median could have any value.
fn highest_median(cell: &Cell<'_>, open: usize) -> Option<f64> {
    let valid =
        cell.trials().iter().filter(|trial| trial.valid).map(|trial| trial.load.throughput_rps);
    let rates_with_open: Vec<f64> = valid.chain(std::iter::repeat_n(f64::INFINITY, open)).collect();
    median(&rates_with_open).filter(|rps| rps.is_finite())
}

/// Whether a cell has excluded repeats in which its server may have been able to reach more.
pub(crate) fn is_open(cell: &Cell<'_>) -> bool {
    !open_repeats(cell).is_empty()
}

/// Returns a lower bound of a server's throughput, block by block, from the repeats that are valid
/// or that only the generator limited.
pub(crate) fn lower_bounds(cell: &Cell<'_>) -> Series {
    cell.select(|trial| trial.valid || trial.is_limited_by_generator()).series_of_all(&THROUGHPUT)
}

/// Returns the throughput of the valid repeats of two cells, block by block. If only one of the two
/// servers may have reached more, its series also includes repeats that only the generator limited.
/// Their throughput is a lower bound.
pub(crate) fn throughputs(cell: &Cell<'_>, base: &Cell<'_>) -> (Series, Series) {
    let valid = |cell: &Cell<'_>| cell.series(&THROUGHPUT);
    match RatioBound::from_cells(cell, base) {
        RatioBound::AtLeast => (lower_bounds(cell), valid(base)),
        RatioBound::AtMost => (valid(cell), lower_bounds(base)),
        RatioBound::Exact | RatioBound::Unknown => (valid(cell), valid(base)),
    }
}

#[cfg(test)]
mod tests;
