//! Builds the overview: one row per subject and workload, ordered by peak throughput, and the ties.

mod absence;
mod figures;
mod ratios;

use std::cmp::Reverse;

use dyno_model::Protocol;
use dyno_model::cpus::AllowedCpus;
use dyno_model::plan::{Plan, Step};
use schemars::JsonSchema;
use serde::Serialize;

use crate::backend::BackendResult;
use crate::cell::{CellKey, Shape};
use crate::cost::{self, CostResult, HeldResources, PaidUse};
use crate::design::Design;
use crate::grid::{Cell, Grid};
use crate::metric::{self, MetricId, THROUGHPUT};
use crate::mixture::Mixture;
use crate::peak::{self, OpenStep, PeakBound, PeakBounds, Steps};
use crate::ranking::{PlaceRange, Ranking};
use crate::series::Series;
use crate::stats::{Looks, PAIRS_TO_TELL_APART, Repeated};
use crate::subject::{SubjectFailure, SubjectResult};
use crate::summary::{StepCaveat, Summary};
use crate::trial::TrialResult;
use crate::verdict::{Confidence, Peak, Resource};

use absence::{missing_reason, not_served_reason};
use figures::median_of_invalid;
pub use figures::{Figures, InvalidFigures};
pub use ratios::RowRatios;
use ratios::compare;

/// One subject with one workload in the overview. Throughput is from the step with the peak.
/// Response times, CPU and cost are from the reference step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OverviewRow {
    /// The cell (arm, workload and step) at the reference step.
    pub reference_cell: CellKey,
    /// The cell with the peak; `None`: no step has a valid repeat.
    pub peak_cell: Option<CellKey>,
    pub subject: String,
    pub workload: String,
    /// The subject's title, with the workload's name if there are several workloads.
    pub title: String,
    pub language: String,
    pub control: bool,
    pub baseline: bool,
    /// Throughput at the step with the highest median. A step with too few valid repeats to
    /// distinguish subjects is used only if all steps have too few.
    pub peak_rps: Option<Repeated>,
    /// Whether the server may do more than `peak_rps`, because `peak_open_steps` is not empty.
    pub peak_is_lower_bound: bool,
    /// Lower bound of the server's throughput, if it is above `peak_rps`. It includes repeats that
    /// are invalid only because of the generator. `None`: no higher throughput than `peak_rps` is
    /// known.
    pub peak_at_least_rps: Option<Repeated>,
    /// The load point of `peak_at_least_rps`.
    pub peak_at_least_at: Option<Shape>,
    /// Steps at which the server may have done more than `peak_rps`; empty: the peak is exact.
    pub peak_open_steps: Vec<OpenStep>,
    /// Whether the peak is the served part of an offered rate, because no closed loop has a valid
    /// repeat.
    pub peak_is_offered: bool,
    /// Levels of throughput whose mean is the peak or `peak_at_least_rps`. The server changed
    /// between these levels and never sustained the mean. `None`: throughput stayed on one level.
    pub peak_mixture: Option<Mixture>,
    /// The load point of `peak_rps`.
    pub peak_at: Option<Shape>,
    pub peak_connections: Option<u32>,
    pub peak_streams: Option<u32>,
    /// Number of the tie group, counted from 1. No member is significantly below the best member.
    /// `None`: a control, too few valid repeats, or a fixed order of starts.
    pub tie_group: Option<usize>,
    /// Possible ranks in the workload, by tests of all pairs together. `None`: a control, too few
    /// valid repeats, or a fixed order of starts.
    pub places: Option<PlaceRange>,
    /// The step of the response times, CPU and cost: the workload's step nearest to 64 requests in
    /// flight.
    pub reference_step: usize,
    pub reference_at: Shape,
    pub reference_connections: u32,
    /// Requests in flight at the reference step: connections × streams × pipeline.
    pub reference_in_flight: u64,
    /// Known medians of metrics at the reference step.
    pub figures: Figures,
    /// Price of the CPU time of 10⁹ requests at the reference step, in the currency of
    /// `[cost] per_vcpu_hour`.
    pub cost_per_billion_requests: Option<f64>,
    /// The price with its range and its parts.
    pub cost: Option<CostResult>,
    /// Resources that 10⁹ requests use at the reference step, without a price; `None`: the CPU time
    /// is unknown.
    pub paid: Option<PaidUse>,
    /// `paid` at both ends of the interval of the CPU time per request. With too few repeats for an
    /// interval, at the lowest and the highest repeat. `None`: unknown, or only one repeat.
    pub paid_between: Option<(PaidUse, PaidUse)>,
    /// Highest anonymous memory (resident if only that is known) in any sample of any measured
    /// window. The kernel's own peak includes page cache, so it is not used.
    pub memory_peak_bytes: Option<f64>,
    /// Whether the memory is known at each planned step. Only the ratio to the baseline needs this.
    #[serde(skip)]
    has_memory_of_all_steps: bool,
    /// The subject's back ends.
    pub backends: Vec<BackendRow>,
    /// Time from exec until the subject was ready: the median over the starts.
    pub startup_ms: Option<f64>,
    /// The figures above divided by the figures of the baseline's row for the same workload.
    /// `None`: this row is the baseline's, only one of the two was loaded alone, or the suite names
    /// no baseline.
    pub to_baseline: Option<RowRatios>,
    /// Requests without a correct response, over all trials of the row; `None`: no trial ran, or
    /// the window of a trial had no request.
    pub errors: Option<u64>,
    pub checks_passed: usize,
    /// Failed checks that the subject's file allows to fail.
    pub checks_waived: usize,
    pub checks: usize,
    /// Bottleneck at the first of these steps that is known: the step of `peak_at_least_rps`, the
    /// step of the peak, the reference step.
    pub limiter: Option<Resource>,
    pub limiter_confidence: Option<Confidence>,
    pub limiter_sentence: Option<String>,
    /// Caveats of the step of `limiter`.
    pub caveats: Vec<StepCaveat>,
    /// Medians of invalid repeats, for the figures above that no valid repeat has. They decide no
    /// verdict. `None`: no such figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<InvalidFigures>,
    /// Why all or some numbers are missing; `None`: no failure is known.
    pub absent: Option<String>,
}

impl OverviewRow {
    /// Whether the peak shows the server's capacity, and not an offered rate.
    #[must_use]
    pub fn shows_capacity(&self) -> bool {
        !self.peak_is_offered && self.highest_throughput().is_some()
    }

    /// Returns whether the peak is exact or a lower bound.
    #[must_use]
    pub const fn peak_bound(&self) -> PeakBound {
        if self.peak_is_lower_bound { PeakBound::AtLeast } else { PeakBound::Exact }
    }

    /// Returns the highest known throughput of the server, over repeats, and its step. `None`: no
    /// throughput is known.
    #[must_use]
    pub fn highest_throughput(&self) -> Option<(&Repeated, Shape)> {
        let at_least = self.peak_at_least_rps.as_ref().zip(self.peak_at_least_at);
        at_least.or_else(|| self.peak_rps.as_ref().zip(self.peak_at))
    }

    /// Returns the cell of `peak_at_least_rps`.
    fn at_least_cell(&self) -> Option<CellKey> {
        let at = self.peak_at_least_at?;
        let step = self.peak_open_steps.iter().find(|step| step.at == at)?.step;
        Some(CellKey { step, ..self.reference_cell })
    }

    /// Whether the server may have done more at this step.
    fn is_open_at(&self, step: usize) -> bool {
        self.peak_open_steps.iter().any(|open| open.step == step)
    }

    /// Returns the median of [`OverviewRow::highest_throughput`].
    #[must_use]
    pub fn max_rps(&self) -> Option<f64> {
        self.highest_throughput().and_then(|(highest, _)| highest.median)
    }
}

/// A back end of a subject, in the subject's row.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BackendRow {
    pub name: String,
    /// CPU time per response of the subject, at the reference step.
    pub cpu_us_per_request: Option<f64>,
    /// Share of the CPU time that a request cost the subject and its back ends together: 0 to 1.
    pub cpu_share: Option<f64>,
    /// Highest value over all trials with the workload.
    pub memory_peak_bytes: Option<f64>,
    /// Time until the back end was ready.
    pub startup_ms: Option<f64>,
}

/// The best subject of a tie group, and the subjects whose peak throughput does not differ
/// significantly from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Tie {
    pub workload: String,
    /// The best subject of the group.
    pub best: String,
    /// Subjects that do not differ significantly from the best, best first; at least one.
    pub with: Vec<String>,
    /// Whether the subjects in `with` do not differ significantly from each other either.
    pub mutual: bool,
    /// Subjects of the tie, including the best, whose peak is a lower bound. They may be above the
    /// others.
    pub lower_bounds: Vec<String>,
}

/// Returns the index of the step at which subjects are compared. `steps`: indices of a workload's
/// steps.
///
/// It is the step nearest to 64 requests in flight, among the steps with the pipeline depth,
/// streams and arrivals of the first step. With several passes, it is the step of the last pass, in
/// which a server is the warmest. Requests in flight are used instead of connections, because a
/// connection may have several streams.
#[must_use]
pub fn reference_step(all: &[Step], steps: &[usize]) -> usize {
    const REFERENCE: u64 = 64;
    let first_index = steps.first().copied().unwrap_or(0);
    let is_like_first = |index: &usize| {
        let (step, first) = (&all[*index], &all[first_index]);
        step.pipeline == first.pipeline
            && step.streams == first.streams
            && step.arrivals == first.arrivals
    };
    let distance_and_pass = |index: &usize| {
        let step = &all[*index];
        (step.in_flight().abs_diff(REFERENCE), Reverse(step.pass))
    };
    let candidates = steps.iter().copied().filter(is_like_first);
    candidates.min_by_key(distance_and_pass).unwrap_or(first_index)
}

/// Returns the rows of the overview and the ties, workload by workload. The highest peak throughput
/// comes first, then subjects without numbers, then controls. A subject has a row for each workload
/// with which it was loaded.
#[must_use]
pub fn overview(
    plan: &Plan,
    subjects: &[SubjectResult],
    grid: &Grid<'_>,
    summaries: &[Summary],
) -> (Vec<OverviewRow>, Vec<Tie>) {
    let (mut rows_of_run, mut ties) = (Vec::new(), Vec::new());
    for workload in 0..plan.workloads.len() {
        let row_maker = RowMaker::new(plan, grid, summaries, workload);
        let mut rows: Vec<OverviewRow> = subjects
            .iter()
            .enumerate()
            .filter_map(|(index, subject)| row_maker.row(index, subject))
            .collect();
        rows.sort_by(|a, b| {
            let peak = |row: &OverviewRow| row.max_rps().unwrap_or(-1.0);
            a.control.cmp(&b.control).then(peak(b).total_cmp(&peak(a)))
        });
        // With a fixed order, a drift of the machine may cause the ranks.
        if !Design::new(plan).is_fixed() {
            ties.extend(rank(&mut rows, grid, Looks::from_plan(plan)));
        }
        compare(&mut rows, plan);
        rows_of_run.extend(rows);
    }
    (rows_of_run, ties)
}

/// Sets the tie groups and places of a workload's rows, and returns the ties. Rows whose peak is an
/// offered rate are not ranked.
fn rank(rows: &mut [OverviewRow], grid: &Grid<'_>, looks: Looks) -> Vec<Tie> {
    // Number of repeats with a throughput. For a lower bound, repeats that the generator limited
    // are included.
    let repeats = |row: &OverviewRow| peaks_by_block(row, grid).known_count();
    let is_ranked = |row: &OverviewRow| {
        !row.control && row.shows_capacity() && repeats(row) >= PAIRS_TO_TELL_APART
    };
    let ranked: Vec<usize> = (0..rows.len()).filter(|i| is_ranked(&rows[*i])).collect();
    let peaks: Vec<Series> = ranked.iter().map(|i| peaks_by_block(&rows[*i], grid)).collect();
    let bounds: Vec<PeakBound> = ranked.iter().map(|i| rows[*i].peak_bound()).collect();
    let step = |n: usize| rows[ranked[n]].highest_throughput().map(|(_, at)| at);
    // Loads of different steps did not take turns with each other, so their pairs are by block.
    let ranking = Ranking::from_series(&peaks, &bounds, looks, &|a, b| match step(a) == step(b) {
        true => peaks[a].pairs_with(&peaks[b]),
        false => peaks[a].clone().without_turns().pairs_with(&peaks[b].clone().without_turns()),
    });
    let groups = ranking.groups();
    for ((i, group), places) in ranked.iter().zip(&groups).zip(ranking.places()) {
        (rows[*i].tie_group, rows[*i].places) = (*group, places);
    }
    let last = groups.iter().flatten().max().copied().unwrap_or(0);
    let members =
        |group: usize| (0..ranked.len()).filter(|n| groups[*n] == Some(group)).collect::<Vec<_>>();
    let subject = |n: usize| &rows[ranked[n]];
    (1..=last).filter_map(|group| tie(&members(group), &ranking, &subject)).collect()
}

/// Returns the tie of a group: the members that do not differ significantly from its best member.
/// `None`: every other member differs significantly from the best.
fn tie<'a>(
    group: &[usize],
    ranking: &Ranking,
    row: &dyn Fn(usize) -> &'a OverviewRow,
) -> Option<Tie> {
    let (best, others) = group.split_first()?;
    let with: Vec<usize> =
        others.iter().copied().filter(|other| ranking.are_tied(*best, *other)).collect();
    let is_mutual = |i: usize| with[..i].iter().all(|other| ranking.are_tied(*other, with[i]));
    let members = [best].into_iter().chain(&with);
    let open = members.filter(|member| row(**member).peak_is_lower_bound);
    let name = |member: &usize| row(*member).subject.clone();
    (!with.is_empty()).then(|| Tie {
        workload: row(*best).workload.clone(),
        best: name(best),
        with: with.iter().map(name).collect(),
        mutual: (1..with.len()).all(is_mutual),
        lower_bounds: open.map(name).collect(),
    })
}

/// Returns the throughput at a row's peak, or at its lower bound, block by block.
fn peaks_by_block(row: &OverviewRow, grid: &Grid<'_>) -> Series {
    let cell_of = |key: Option<CellKey>| key.and_then(|key| grid.get(key));
    if let Some(cell) = cell_of(row.at_least_cell()) {
        return peak::lower_bounds(cell);
    }
    let Some(cell) = cell_of(row.peak_cell) else { return Series::default() };
    let valid = cell.series(&THROUGHPUT);
    // With too few valid repeats for a rank, repeats that the generator limited are included, as
    // lower bounds.
    if row.peak_is_lower_bound && valid.known_count() < PAIRS_TO_TELL_APART {
        return peak::lower_bounds(cell);
    }
    valid
}

/// Returns the peak of each row whose peak is not an offered rate.
pub(crate) fn peaks<'a>(plan: &'a Plan, rows: &'a [OverviewRow]) -> Vec<Peak<'a>> {
    let peak = |row: &'a OverviewRow| Peak {
        workload: &row.workload,
        subject: &row.subject,
        server: &plan.subject_of(row.reference_cell.arm).name,
        rps: row.peak_rps.as_ref().and_then(|peak| peak.median),
        repeats: row.peak_rps.as_ref().map_or(&[], |peak| &peak.values),
        control: row.control,
        max_rps: row.max_rps(),
        open: &row.peak_open_steps,
        is_complete: row.peak_cell.is_some_and(|cell| !row.is_open_at(cell.step)),
    };
    let is_not_offered =
        |row: &&OverviewRow| row.highest_throughput().is_none() || row.shows_capacity();
    rows.iter().filter(is_not_offered).map(peak).collect()
}

/// Returns the value with the highest median throughput. A throughput with too few repeats to
/// distinguish subjects is used only if all have too few.
fn best<'a, T>(peaks: impl Iterator<Item = (&'a Repeated, T)>) -> Option<T> {
    let with_medians = peaks.filter_map(|(peak, value)| Some((peak, peak.median?, value)));
    let has_enough = |peak: &Repeated| peak.values.len() >= PAIRS_TO_TELL_APART;
    let best = with_medians.max_by(|(peak_a, median_a, _), (peak_b, median_b, _)| {
        has_enough(peak_a).cmp(&has_enough(peak_b)).then(median_a.total_cmp(median_b))
    });
    best.map(|(_, _, value)| value)
}

/// Returns the ends of the interval of repeats, or their lowest and highest value if they are too
/// few for an interval. `None`: fewer than two repeats.
fn bounds(value: &Repeated) -> Option<(f64, f64)> {
    value.spread().filter(|_| value.values.len() > 1)
}

/// The best steps of a subject with a workload.
struct BestSteps<'a> {
    /// The step with the highest median of valid repeats; `None`: no step has a valid repeat.
    valid: Option<&'a Summary>,
    /// The step with the highest known throughput.
    shown: Option<&'a Summary>,
    /// Whether the peak is the served part of an offered rate.
    is_offered: bool,
    /// Steps at which the server may have done more.
    open: Vec<OpenStep>,
    /// Lower bound of the server's throughput, and its step; `None`: not above the `valid` step.
    at_least: Option<(Shape, Repeated)>,
}

/// Builds the rows of one workload.
struct RowMaker<'a> {
    plan: &'a Plan,
    grid: &'a Grid<'a>,
    summaries: &'a [Summary],
    workload: usize,
    /// Index of the step at which subjects are compared.
    reference: usize,
}

impl<'a> RowMaker<'a> {
    fn new(
        plan: &'a Plan,
        grid: &'a Grid<'a>,
        summaries: &'a [Summary],
        workload: usize,
    ) -> RowMaker<'a> {
        let cells = grid.cells().filter(|(key, _)| key.workload == workload);
        let mut steps: Vec<usize> = cells.map(|(key, _)| key.step).collect();
        steps.sort_unstable();
        let reference = reference_step(&plan.load.steps, &steps);
        RowMaker { plan, grid, summaries, workload, reference }
    }

    /// Returns a subject's row. A subject has a row in three cases:
    ///
    /// - It has trials of this workload.
    /// - It has no trials at all. The row states the reason, in the first workload only.
    /// - It has trials of other workloads only, because its planned trials of this workload failed.
    fn row(&self, index: usize, subject: &SubjectResult) -> Option<OverviewRow> {
        let has_numbers = self.grid.steps(index, self.workload).next().is_some();
        let has_trials = self.grid.has_arm(index);
        let is_absent = self.workload == 0 && !has_trials;
        let has_failed = || {
            has_trials
                && missing_reason(subject, self.protocol(), true).is_some()
                && self.is_planned(index)
        };
        (has_numbers || is_absent || has_failed()).then(|| self.build_row(index, subject))
    }

    /// Returns the subject's back ends. `trials`: all trials of the row.
    fn backends(
        &self,
        subject: &SubjectResult,
        at_reference: Option<&Summary>,
        trials: &[&TrialResult],
    ) -> Vec<BackendRow> {
        let row = |backend: &BackendResult| {
            let summary =
                at_reference.and_then(|s| s.backends.iter().find(|b| b.name == backend.name));
            let uses = trials.iter().flat_map(|t| &t.backends).filter(|b| b.name == backend.name);
            BackendRow {
                name: backend.name.clone(),
                cpu_us_per_request: summary.and_then(|s| s.cpu_us_per_request.median),
                cpu_share: summary.and_then(|s| s.cpu_share.median),
                memory_peak_bytes: uses
                    .filter_map(|b| b.server.memory_held_bytes)
                    .max()
                    .map(|bytes| bytes as f64),
                startup_ms: backend.startup_ms.ready.median,
            }
        };
        subject.backends.iter().map(row).collect()
    }

    /// Returns the price of 10⁹ requests at a step; `None`: the suite names no price, or the CPU
    /// time or the memory that has a price is unknown.
    fn cost(&self, held: HeldResources, at: &Summary) -> Option<CostResult> {
        let cpu_us = at.values(MetricId::Cpu);
        cost::result(cpu_us.median?, bounds(cpu_us), held, self.plan.cost?)
    }

    /// Returns the price of 10⁹ requests at a step, the resources that they use, and these
    /// resources at both ends of the CPU time's interval. All are `None` without a step.
    fn costs(
        &self,
        arm: usize,
        subject: &SubjectResult,
        at: Option<&Summary>,
    ) -> (Option<CostResult>, Option<PaidUse>, Option<(PaidUse, PaidUse)>) {
        let Some(at) = at else { return (None, None, None) };
        let (paid, paid_between) = self.paid_use_with_bounds(arm, subject, at);
        (self.cost(self.held_resources(arm, subject, at), at), paid, paid_between)
    }

    /// Returns the resources that 10⁹ requests use at a step, and these resources at both ends of
    /// the CPU time's interval.
    fn paid_use_with_bounds(
        &self,
        arm: usize,
        subject: &SubjectResult,
        at: &Summary,
    ) -> (Option<PaidUse>, Option<(PaidUse, PaidUse)>) {
        let (cpu, held) = (at.values(MetricId::Cpu), self.held_resources(arm, subject, at));
        let ends = bounds(cpu)
            .and_then(|(low, high)| self.paid_use(held, low).zip(self.paid_use(held, high)));
        (cpu.median.and_then(|us| self.paid_use(held, us)), ends)
    }

    /// Returns the resources for 10⁹ requests with this CPU time each; `None`: the server's
    /// lifetime is shorter than its start-up.
    fn paid_use(&self, held: HeldResources, cpu_us: f64) -> Option<PaidUse> {
        PaidUse::from_cpu_time(cpu_us, held, self.plan.cost.and_then(|cost| cost.lifetime_hours))
    }

    /// Returns the resources that the server holds at a step.
    fn held_resources(&self, arm: usize, subject: &SubjectResult, at: &Summary) -> HeldResources {
        let conditions = &self.plan.arms[arm].conditions;
        HeldResources {
            cpus: AllowedCpus::new(&subject.limits, &conditions.placement, &conditions.limits)
                .count,
            memory_bytes: at.median_of(MetricId::Memory),
            startup_s: subject.startup_ms.ready.median.map(|ms| ms / 1e3),
        }
    }

    /// Returns the summaries of an arm with this workload.
    fn summaries_of(&self, arm: usize) -> Vec<&'a Summary> {
        let is_of_arm = |s: &&Summary| (s.cell.arm, s.cell.workload) == (arm, self.workload);
        self.summaries.iter().filter(is_of_arm).collect()
    }

    /// Whether the plan has trials of an arm with this workload.
    fn is_planned(&self, index: usize) -> bool {
        self.plan.trials.iter().any(|t| (t.arm, t.workload) == (index, self.workload))
    }

    fn protocol(&self) -> Protocol {
        self.plan.workloads[self.workload].protocol
    }

    /// Returns the subject's title, followed by the workload's name if there are several workloads
    /// and the subject has numbers of this workload.
    fn title(&self, subject: &SubjectResult, summaries: &[&Summary]) -> String {
        match (self.plan.workloads.len(), summaries) {
            (0 | 1, _) | (_, []) => subject.title.clone(),
            _ => format!("{} · {}", subject.title, self.plan.workloads[self.workload].name),
        }
    }

    /// Returns the best steps of a subject. `summaries`: its summaries of this workload.
    fn best(
        &self,
        index: usize,
        subject: &SubjectResult,
        summaries: &[&'a Summary],
    ) -> BestSteps<'a> {
        let plan = self.plan;
        let is_closed = |s: &&&Summary| plan.load.steps[s.step].arrivals.is_closed();
        let peak = |summaries: &[&'a Summary]| {
            best(summaries.iter().map(|s| (s.values(MetricId::Throughput), *s)))
        };
        let closed: Vec<&Summary> = summaries.iter().filter(is_closed).copied().collect();
        // A peak at an offered rate is used only if no closed loop has a valid repeat.
        let valid = peak(&closed).or_else(|| peak(summaries));
        let has_failed = subject.failures.iter().any(SubjectFailure::is_servers_fault);
        let steps =
            Steps { plan, grid: self.grid, arm: index, workload: self.workload, has_failed };
        let PeakBounds { open, at_least } =
            steps.find_bounds(valid.map(|s| (s.cell, s.values(MetricId::Throughput))));
        let summary_of = |cell: CellKey| summaries.iter().copied().find(|s| s.cell == cell);
        let at_bound = at_least.as_ref().and_then(|(cell, _)| summary_of(*cell));
        BestSteps {
            valid,
            shown: at_bound.or(valid),
            is_offered: at_bound.or(valid).is_some_and(|s| !is_closed(&&s)),
            open,
            at_least: at_least
                .map(|(cell, rps)| (Shape::from_step(&plan.load.steps[cell.step]), rps)),
        }
    }

    /// Returns figures of invalid repeats for the figures that no valid repeat has; `None`: there
    /// are no such figures.
    fn invalid_figures(
        &self,
        index: usize,
        has_peak: bool,
        at_reference: Option<&Summary>,
    ) -> Option<InvalidFigures> {
        let peaks = self.grid.steps(index, self.workload).filter_map(|(key, cell)| {
            Some((
                median_of_invalid(cell, &THROUGHPUT)?,
                Shape::from_step(&self.plan.load.steps[key.step]),
            ))
        });
        let peak = peaks.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|_| !has_peak);
        let invalid_median = |id: MetricId| {
            let summary = at_reference.filter(|summary| summary.values(id).values.is_empty())?;
            median_of_invalid(self.grid.get(summary.cell)?, id.metric())
        };
        let figures = InvalidFigures {
            peak_rps: peak.map(|(rps, _)| rps),
            peak_at: peak.map(|(_, at)| at),
            figures: Figures::new(invalid_median),
        };
        (figures != InvalidFigures::default()).then_some(figures)
    }

    /// Whether the subject's memory is known at each planned step of the workload.
    fn has_memory_of_all_steps(&self, index: usize) -> bool {
        let is_planned = |key: &CellKey| (key.arm, key.workload) == (index, self.workload);
        let is_known = |key: CellKey| {
            let trials = self.grid.get(key).map_or(&[][..], Cell::trials);
            trials.iter().any(|trial| metric::memory(trial).is_some())
        };
        CellKey::planned(self.plan).into_iter().filter(is_planned).all(is_known)
    }

    /// Returns why the subject has no figures; `None`: no failure is known. `lacks_peak`: no peak
    /// is known; `lacks_summaries`: the subject has no trial of this workload.
    fn absence(
        &self,
        index: usize,
        subject: &SubjectResult,
        (lacks_peak, lacks_summaries): (bool, bool),
    ) -> Option<String> {
        let server = self.plan.arms[index].subject;
        missing_reason(subject, self.protocol(), lacks_peak)
            .or_else(|| not_served_reason(self.plan, server).filter(|_| lacks_summaries))
    }

    /// Returns the levels of throughput in a cell; `None`: throughput stayed on one level.
    fn mixture(&self, key: CellKey) -> Option<Mixture> {
        Mixture::new(self.grid.get(key)?.trials().iter().copied())
    }

    /// Builds the row of a subject.
    fn build_row(&self, index: usize, subject: &SubjectResult) -> OverviewRow {
        let plan = self.plan;
        let summaries = self.summaries_of(index);
        let BestSteps { valid: best, shown, is_offered, open, at_least } =
            self.best(index, subject, &summaries);
        let (peak_at_least_at, peak_at_least_rps) = at_least.unzip();
        let at_reference = summaries.iter().copied().find(|s| s.step == self.reference);
        let trials = self.grid.steps(index, self.workload).flat_map(|(_, cell)| cell.trials());
        let trials: Vec<&TrialResult> = trials.copied().collect();
        let peak_or_reference = shown.or(at_reference);
        let (cost, paid, paid_between) = self.costs(index, subject, at_reference);
        let reference = &plan.load.steps[self.reference];
        OverviewRow {
            reference_cell: CellKey { arm: index, workload: self.workload, step: self.reference },
            peak_cell: best.map(|s| s.cell),
            subject: subject.id.clone(),
            workload: plan.workloads[self.workload].name.clone(),
            title: self.title(subject, &summaries),
            language: subject.language.clone(),
            control: subject.control,
            baseline: plan.report.baseline.as_ref() == Some(&subject.id),
            peak_rps: best.map(|s| s.values(MetricId::Throughput).clone()),
            peak_is_lower_bound: !open.is_empty(),
            peak_at_least_at,
            peak_at_least_rps,
            peak_open_steps: open,
            peak_is_offered: is_offered,
            peak_mixture: shown.and_then(|s| self.mixture(s.cell)),
            peak_at: best.map(|s| Shape::from_step(&plan.load.steps[s.step])),
            peak_connections: best.map(|s| s.shape.connections),
            peak_streams: best.map(|s| s.shape.streams),
            tie_group: None,
            places: None,
            reference_step: self.reference,
            reference_at: Shape::from_step(reference),
            reference_connections: reference.connections,
            reference_in_flight: reference.in_flight(),
            figures: Figures::new(|id| at_reference?.median_of(id)),
            cost_per_billion_requests: cost.map(|cost| cost.per_billion),
            cost,
            paid,
            paid_between,
            memory_peak_bytes: trials.iter().filter_map(|t| metric::memory(t)).reduce(f64::max),
            has_memory_of_all_steps: self.has_memory_of_all_steps(index),
            backends: self.backends(subject, at_reference, &trials),
            startup_ms: subject.startup_ms.ready.median,
            to_baseline: None,
            errors: errors(&trials),
            checks_passed: subject.checks.iter().filter(|c| c.ok).count(),
            checks_waived: subject.checks.iter().filter(|c| c.waived).count(),
            checks: subject.checks.len(),
            limiter: peak_or_reference.map(|s| s.limiter),
            limiter_confidence: peak_or_reference.map(|s| s.limiter_confidence),
            limiter_sentence: peak_or_reference.map(|s| s.limiter_sentence.clone()),
            caveats: peak_or_reference.map(|s| s.caveats.clone()).unwrap_or_default(),
            invalid: self.invalid_figures(index, shown.is_some(), at_reference),
            absent: self.absence(index, subject, (best.is_none(), summaries.is_empty())),
        }
    }
}

/// Returns the sum of failed requests; `None`: no trial, or a window had no request.
fn errors(trials: &[&TrialResult]) -> Option<u64> {
    let failed = |t: &&TrialResult| t.error_share.map(|_| t.load.failed_requests());
    let all: Option<Vec<u64>> = trials.iter().map(failed).collect();
    all.filter(|all| !all.is_empty()).map(|all| all.iter().sum())
}

#[cfg(test)]
mod tests;
