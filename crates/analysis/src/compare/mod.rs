//! Compares two sides cell by cell: ratios with intervals, verdicts in words, and gates.
//!
//! The sides are two runs, or two arms of one run. `dyno compare` and the experiments of a report
//! share these rules.

mod arms;
mod differences;
mod environment;
mod gate;
mod no_ratio;
mod notes;
mod order;
mod repeats;
mod starts;
mod times;
mod verdict;

use std::collections::BTreeSet;

use dyno_archive::plan::{Plan, Trial};
use dyno_archive::run::Run;
use schemars::JsonSchema;
use serde::Serialize;

pub use differences::RunDifference;
pub use gate::{Gate, GateResult, GateState, metric};
pub use no_ratio::NoRatioReason;
pub use repeats::{Cause, CellRepeats, NotCounted, SideRepeats};
pub use starts::{ServerStarts, SideStarts};
pub use verdict::Verdict;

use arms::{compared_arms, counterpart, uncompared_controls, unmatched_arms};

use crate::cell::{CellKey, Shape};
use crate::grid::{Cell, Grid};
use crate::metric::{CPU, MEMORY, Metric, RESPONSE_P50, RESPONSE_P99, THROUGHPUT};
use crate::report::Report;
use crate::series::Series;
use crate::stats::{ALPHA, Estimate, Looks, PairUnit, Repeated, holm, permutation};

pub const SCHEMA: &str = "dyno.compare/1";

/// Metrics that are compared without being asked for.
const METRICS: [&Metric; 5] = [&THROUGHPUT, &CPU, &RESPONSE_P50, &RESPONSE_P99, &MEMORY];

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    pub run: &'a Run,
    /// Report of the run.
    pub report: &'a Report,
    /// The compared arm; `None`: every arm, with the arm of the same name.
    pub arm: Option<usize>,
}

/// Options of a comparison.
#[derive(Clone, Debug, Default)]
pub struct ComparisonOptions {
    pub gates: Vec<Gate>,
    /// The ratio within which two sides count as the same: 0.02 for 2 %. `None`: no such verdict is
    /// given.
    pub same_within: Option<f64>,
    pub on_undecided: OnUndecided,
}

/// Effect of a gate that is neither held nor missed on the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUndecided {
    /// The comparison has no result.
    #[default]
    Fail,
    /// An undecided gate counts as held.
    Pass,
}

/// Outcome of all gates of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateOutcome {
    /// Every gate is held, or counts as held; or there are none.
    Passed,
    /// At least one is missed.
    Missed,
    /// None is missed, and at least one is undecided.
    Undecided,
}

/// Two sides, compared. Ratios are `b` ÷ `a`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Compared")]
pub struct ComparisonResult {
    pub schema: &'static str,
    pub a: SideResult,
    pub b: SideResult,
    /// Whether repeats are compared in pairs: both sides are of one run, whose blocks hold one
    /// repeat of each.
    pub paired: bool,
    /// Whether intervals hold at every look: the run could end as soon as it was answered.
    pub at_every_look: bool,
    /// Differences of the sides other than the compared arms. With any, the numbers are no result.
    pub differences: Vec<RunDifference>,
    /// Notes on all rows.
    pub notes: Vec<String>,
    /// Summary of the rows of each cell, without controls.
    pub answers: Vec<ComparisonAnswer>,
    pub rows: Vec<ComparisonRow>,
    pub gates: Vec<GateResult>,
    /// Whether no gate was missed.
    pub passed: bool,
    /// Gates that are undecided.
    pub undecided: usize,
    /// Effect of an undecided gate on the exit status, and in JUnit's XML.
    pub on_undecided: OnUndecided,
    /// For each cell of both sides, how many repeats count, and why the others do not.
    pub repeats: Vec<CellRepeats>,
    /// For each server of both sides, in how many starts it failed, over all of its cells.
    pub starts: Vec<ServerStarts>,
    /// Problems of the run that measured both sides (`--rev`). They decide the exit status unless a
    /// gate is missed. Empty for runs that were read.
    pub run_problems: Vec<RunProblem>,
}

/// A problem of the run that measured both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunProblem {
    pub sentence: String,
    /// Whether a revision is not valid (exit status 1). Otherwise the run is incomplete (3).
    #[serde(rename = "invalid")]
    pub is_invalid: bool,
}

impl ComparisonResult {
    /// Returns the outcome of all gates.
    #[must_use]
    pub const fn outcome(&self) -> GateOutcome {
        match (self.passed, self.undecided, self.on_undecided) {
            (false, ..) => GateOutcome::Missed,
            (true, 0, _) | (true, _, OnUndecided::Pass) => GateOutcome::Passed,
            (true, _, OnUndecided::Fail) => GateOutcome::Undecided,
        }
    }
}

/// Identity of a side.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SideResult {
    pub run: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// Name of the arm; `None`: all of them.
    pub subject: Option<String>,
}

/// Answer for one cell of both sides.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Answer")]
pub struct ComparisonAnswer {
    /// Name of the arm in `a`, and in `b`.
    pub subject_a: String,
    pub subject_b: String,
    pub workload: String,
    pub step: Shape,
    /// Statement about `b`.
    pub sentence: String,
}

/// One metric in one cell of both sides.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Row")]
pub struct ComparisonRow {
    /// Name of the arm in `a`, and in `b`.
    pub subject_a: String,
    pub subject_b: String,
    /// A control: what it shows is how alike the machine was.
    pub control: bool,
    pub workload: String,
    pub step: Shape,
    /// Key and name of the metric.
    pub metric: &'static str,
    pub title: &'static str,
    pub a: Repeated,
    pub b: Repeated,
    /// Ratio `b` ÷ `a` of each pair of repeats; empty: they are no pairs, or one has no value.
    pub pairs: Vec<f64>,
    /// Ratio `b` ÷ `a` of the medians; `None`: one is not known, or 0.
    pub ratio_of_medians: Option<f64>,
    /// `None`: see `lack`.
    pub estimate: Option<Estimate>,
    /// Why there is no estimate; `None`: an estimate exists.
    #[serde(rename = "lack")]
    pub no_ratio_reason: Option<NoRatioReason>,
    /// Most repeats of `b` are excluded because its server gave incorrect responses, failed or
    /// never became ready, and in most of `a` the server did not fail.
    pub b_broke: bool,
    /// Chance that so many more repeats of `b` than of `a` fail, or have this percentile among
    /// requests that got no response, if the two are alike (Fisher's exact test): 0 to 1, not
    /// adjusted for other tests. `None`: no repeat of either did.
    pub p_lost: Option<f64>,
    /// Units of the estimate; `None`: no estimate, or the repeats are not pairs.
    #[serde(rename = "over")]
    pub unit: Option<PairUnit>,
    /// Chance of a difference at least as large if there is none, with all other rows allowed for
    /// (Holm).
    pub p_of_all: Option<f64>,
    /// The same chance by looking at every exchange of the two sides (signs of pairs, or divisions
    /// of all values), which asks nothing of how values are distributed. `None`: too many to look
    /// at, or nothing to exchange. Five pairs cannot have less than 0.0625.
    pub p_permuted: Option<f64>,
    pub verdict: Verdict,
    /// The verdict in words.
    pub sentence: String,
}

impl ComparisonRow {
    /// Whether a difference is shown.
    #[must_use]
    pub const fn is_shown(&self) -> bool {
        matches!(self.verdict, Verdict::Higher | Verdict::Lower)
    }

    /// Whether the sides differ significantly, also where the difference is within a margin that
    /// was asked for.
    fn differs(&self) -> bool {
        self.unit != Some(PairUnit::Rounds) && self.p_of_all.is_some_and(|p| p < ALPHA)
    }
}

/// Compares two sides.
#[must_use]
pub fn compare(a: Side<'_>, b: Side<'_>, options: &ComparisonOptions) -> ComparisonResult {
    // Equal ids do not suffice: two machines may start a suite within the same second.
    let is_one_run = a.run.header == b.run.header;
    let arms = compared_arms(a, b);
    let differences = if is_one_run {
        differences::arm_differences(a.run, &arms)
    } else {
        differences::run_differences(a, b, &arms)
    };
    let metrics = compared_metrics(&options.gates);
    let selection =
        RowSelection { metrics: &metrics, is_paired: is_one_run, gates: &options.gates };
    let matched = arms.iter().map(|(arm_a, arm_b)| (*arm_a, Some(*arm_b)));
    let arm_pairs: Vec<(usize, Option<usize>)> =
        matched.chain(unmatched_arms(a, b).into_iter().map(|arm| (arm, None))).collect();
    let Rows { mut rows, mut repeats, unmatched } = selection.build_rows(a, b, &arm_pairs);
    let server_starts = |(arm_a, arm_b): (usize, usize)| ServerStarts::new((a, arm_a), (b, arm_b));
    let mut starts: Vec<ServerStarts> = arms.iter().copied().map(server_starts).collect();
    if !is_one_run && !rows.is_empty() {
        let control_starts = uncompared_controls(a, b, &arms).map(server_starts);
        starts.extend(control_starts.map(|server| ServerStarts { control: true, ..server }));
        let pairs: Vec<(usize, Option<usize>)> =
            uncompared_controls(a, b, &arms).map(|(arm_a, arm_b)| (arm_a, Some(arm_b))).collect();
        let controls = RowSelection { gates: &[], ..selection }.build_rows(a, b, &pairs);
        rows.extend(controls.rows.into_iter().map(|row| ComparisonRow { control: true, ..row }));
        repeats
            .extend(controls.repeats.into_iter().map(|cell| CellRepeats { control: true, ..cell }));
    }
    let order = order::confounding(a, b, &arms);
    let hedges: Vec<RunDifference> =
        differences.iter().cloned().chain(order.difference()).collect();
    judge(&mut rows, options.same_within, &hedges);
    let drift = drift(&rows).filter(|_| !is_one_run);
    let subject_rows: Vec<ComparisonRow> =
        rows.iter().filter(|row| !row.control).cloned().collect();
    let gates = gate::judge(&options.gates, (&rows, &repeats, &starts), order, &hedges);
    let mut answers = answers(&subject_rows, options.same_within, &hedges);
    answers.iter_mut().for_each(|answer| add_repeats(answer, &repeats));
    ComparisonResult {
        schema: SCHEMA,
        a: side_result(a),
        b: side_result(b),
        paired: is_one_run,
        at_every_look: is_one_run && Looks::from_plan(&a.run.header.plan) == Looks::AfterEach,
        notes: notes::notes(
            a,
            b,
            (is_one_run, drift, order),
            (&rows, &repeats, &starts),
            (unmatched, !options.gates.is_empty()),
        ),
        answers,
        differences,
        passed: gates.iter().all(|gate| gate.state != GateState::Missed),
        undecided: gates.iter().filter(|gate| gate.state == GateState::Undecided).count(),
        on_undecided: options.on_undecided,
        rows,
        gates,
        repeats,
        starts,
        run_problems: Vec::new(),
    }
}

/// Returns the metrics that are always compared, and the metrics of the gates.
fn compared_metrics(gates: &[Gate]) -> Vec<&'static Metric> {
    let mut metrics: Vec<&Metric> = METRICS.to_vec();
    for gate in gates {
        if !metrics.contains(&gate.metric) {
            metrics.push(gate.metric);
        }
    }
    metrics
}

/// Adds the number of uncounted repeats to an answer.
fn add_repeats(answer: &mut ComparisonAnswer, repeats: &[CellRepeats]) {
    let is_same_cell = |cell: &&CellRepeats| {
        (&cell.subject_a, &cell.subject_b, &cell.workload, cell.step)
            == (&answer.subject_a, &answer.subject_b, &answer.workload, answer.step)
    };
    if let Some(uncounted) = repeats.iter().find(is_same_cell).and_then(CellRepeats::count_in_words)
    {
        answer.sentence = format!("{}; {uncounted}", answer.sentence);
    }
}

/// The metrics and cells for which rows are built.
#[derive(Clone, Copy)]
struct RowSelection<'a> {
    metrics: &'a [&'a Metric],
    /// Whether both sides are of one run.
    is_paired: bool,
    gates: &'a [Gate],
}

/// The rows of several cells.
#[derive(Default)]
struct Rows {
    rows: Vec<ComparisonRow>,
    repeats: Vec<CellRepeats>,
    /// Number of measured cells of the first side that the second side did not plan.
    unmatched: usize,
}

impl RowSelection<'_> {
    /// Builds a row for each metric of each cell in which either side has trials.
    ///
    /// With gates, every planned cell has rows, so that a server that never started passes no gate.
    /// `arms`: an arm of `a`, and its counterpart in `b` if there is one.
    fn build_rows(&self, a: Side<'_>, b: Side<'_>, arms: &[(usize, Option<usize>)]) -> Rows {
        let (grid_a, grid_b) = (Grid::new(&a.report.trials), Grid::new(&b.report.trials));
        let mut built = Rows::default();
        for (arm_a, arm_b) in arms {
            let takes_part = takes_part(a, *arm_a) || arm_b.is_some_and(|arm| takes_part(b, arm));
            for key_a in planned_cells(a, *arm_a) {
                let key_b = arm_b.and_then(|arm| counterpart(a, key_a, b, arm));
                let key_b = key_b.filter(|key_a| is_planned(b, *key_a));
                let has_a = grid_a.get(key_a).is_some();
                let has_b = key_b.is_some_and(|key_b| grid_b.get(key_b).is_some());
                built.unmatched += usize::from(has_a && key_b.is_none() && arm_b.is_some());
                let is_included = match self.gates {
                    [] => key_b.is_some() && (has_a || has_b),
                    _ => has_a || has_b || takes_part,
                };
                if is_included {
                    let (cell_a, cell_b) = (
                        SideCell::new(a, key_a, &grid_a),
                        key_b.map(|key_a| SideCell::new(b, key_a, &grid_b)),
                    );
                    let cell = cell_repeats(cell_a, cell_b);
                    built.rows.extend(self.cell_rows(cell_a, cell_b, &cell));
                    built.repeats.push(cell);
                }
            }
        }
        built
    }

    /// Builds the rows of one cell. In a duet, metrics that include the wait for the other server
    /// are omitted unless a gate asks for them.
    fn cell_rows(
        &self,
        a: SideCell<'_>,
        b: Option<SideCell<'_>>,
        repeats: &CellRepeats,
    ) -> Vec<ComparisonRow> {
        let empty = Cell::default();
        let cell_a = a.cell().unwrap_or(&empty);
        let cell_b = b.as_ref().and_then(SideCell::cell).unwrap_or(&empty);
        let are_in_duet = is_in_duet(cell_a) && is_in_duet(cell_b);
        let is_reported = |metric: &&&Metric| {
            let includes_waits =
                metric.includes_waits && !self.gates.iter().any(|gate| gate.metric == **metric);
            !(includes_waits && are_in_duet)
        };
        let row = |metric: &&Metric| {
            row(repeats, &a.side.run.header.plan, (cell_a, cell_b), (metric, self.is_paired))
        };
        self.metrics.iter().filter(is_reported).map(row).collect()
    }
}

/// A cell of a side, with the grid that holds its trials.
#[derive(Clone, Copy)]
struct SideCell<'a> {
    side: Side<'a>,
    key: CellKey,
    grid: &'a Grid<'a>,
}

impl<'a> SideCell<'a> {
    const fn new(side: Side<'a>, key: CellKey, grid: &'a Grid<'a>) -> SideCell<'a> {
        SideCell { side, key, grid }
    }

    fn cell(&self) -> Option<&Cell<'a>> {
        self.grid.get(self.key)
    }

    fn arm_name(&self) -> &str {
        &self.side.run.header.plan.arms[self.key.arm].name
    }

    /// Whether the cell shows the machine only. A control that was named as a side is a compared
    /// arm.
    fn is_control(&self) -> bool {
        self.side.arm.is_none() && self.side.run.header.plan.subject_of(self.key.arm).control
    }

    fn repeats(&self) -> SideRepeats {
        SideRepeats::new(self.side, self.key, self.grid)
    }
}

/// Returns the repeats of a cell. `b`: `None` if that run did not plan the cell.
fn cell_repeats(a: SideCell<'_>, b: Option<SideCell<'_>>) -> CellRepeats {
    let plan = &a.side.run.header.plan;
    let cell = CellRepeats {
        subject_a: a.arm_name().into(),
        subject_b: b.as_ref().map_or(a.arm_name(), SideCell::arm_name).into(),
        control: a.is_control() && b.as_ref().is_none_or(SideCell::is_control),
        workload: plan.workloads[a.key.workload].name.clone(),
        step: Shape::from_step(&plan.load.steps[a.key.step]),
        a: a.repeats(),
        b: b.as_ref().map(SideCell::repeats).unwrap_or_default(),
        p_failed: None,
        sentence: None,
    };
    cell.with_summary()
}

/// Returns the planned cells of an arm, in the plan's order.
fn planned_cells(side: Side<'_>, arm: usize) -> BTreeSet<CellKey> {
    let trials = side.run.header.plan.trials.iter().filter(|trial| trial.arm == arm);
    trials.map(|trial| CellKey { arm, workload: trial.workload, step: trial.step }).collect()
}

fn takes_part(side: Side<'_>, arm: usize) -> bool {
    side.run.header.plan.takes_part(arm)
}

/// Whether the plan of a side has a cell.
fn is_planned(side: Side<'_>, key: CellKey) -> bool {
    let is_in_cell = |trial: &Trial| {
        (trial.arm, trial.workload, trial.step) == (key.arm, key.workload, key.step)
    };
    side.run.header.plan.trials.iter().any(is_in_cell)
}

/// Whether another server was loaded at the same time.
fn is_in_duet(cell: &Cell<'_>) -> bool {
    cell.trials().iter().any(|trial| trial.duet.is_some())
}

/// A comparison of two arms of one run.
pub(crate) struct ArmComparison {
    pub(crate) rows: Vec<ComparisonRow>,
    /// Other differences between the two that may be the cause of a result.
    hedges: Vec<RunDifference>,
    repeats: Vec<CellRepeats>,
}

impl ArmComparison {
    /// Returns the summary of the rows of each cell.
    pub(crate) fn answers(&self, same_within: Option<f64>) -> Vec<ComparisonAnswer> {
        let mut answers = answers(&self.rows, same_within, &self.hedges);
        answers.iter_mut().for_each(|answer| add_repeats(answer, &self.repeats));
        answers
    }
}

/// Compares pairs of arms of one run. The tests of all rows are one family (Holm). Controls count
/// as ordinary arms.
pub(crate) fn compare_arms(
    run: &Run,
    report: &Report,
    pairs: &[(usize, usize)],
) -> Vec<ArmComparison> {
    let side = |arm| Side { run, report, arm: Some(arm) };
    let mut metrics = METRICS.to_vec();
    let asked = run.header.plan.stop.iter().flat_map(|stop| &stop.metrics);
    for metric in asked.filter_map(|key| metric(key).ok()) {
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    let asked = RowSelection { metrics: &metrics, is_paired: true, gates: &[] };
    let pair_rows =
        |(a, b): &(usize, usize)| asked.build_rows(side(*a), side(*b), &[(*a, Some(*b))]);
    let rows_by_pair: Vec<Rows> = pairs.iter().map(pair_rows).collect();
    let mut rows: Vec<ComparisonRow> =
        rows_by_pair.iter().flat_map(|pair| pair.rows.iter().cloned()).collect();
    let same_within = run.header.plan.stop.as_ref().and_then(|stop| stop.same_within);
    let hedges = order::arm_differences(&run.header.plan);
    judge(&mut rows, same_within, &hedges);
    let mut rows = rows.into_iter();
    let comparison = |pair: Rows| ArmComparison {
        rows: rows.by_ref().take(pair.rows.len()).collect(),
        hedges: hedges.clone(),
        repeats: pair.repeats,
    };
    rows_by_pair.into_iter().map(comparison).collect()
}

/// Whether a control was named as a side.
fn is_control(side: Side<'_>) -> bool {
    side.arm.is_some_and(|arm| side.run.header.plan.subject_of(arm).control)
}

fn side_result(side: Side<'_>) -> SideResult {
    let header = &side.run.header;
    SideResult {
        run: header.id.clone(),
        started: header.started.clone(),
        subject: side.arm.map(|arm| header.plan.arms[arm].name.clone()),
    }
}

fn row(
    repeats: &CellRepeats,
    plan: &Plan,
    (cell_a, cell_b): (&Cell<'_>, &Cell<'_>),
    (metric, is_paired): (&Metric, bool),
) -> ComparisonRow {
    let metric = Metric::from_key(metric.key);
    let (series_a, series_b) = (cell_a.series(metric), cell_b.series(metric));
    let paired = is_paired.then(|| Looks::from_plan(plan));
    let (estimate, unit) = estimate(&series_a, &series_b, paired);
    // The permutation test is not valid if the results decided the number of pairs.
    let p_permuted = permutation_chance(&series_a, &series_b, is_paired)
        .filter(|_| paired != Some(Looks::AfterEach));
    let pairs = if is_paired { series_b.ratios_to(&series_a).values } else { Vec::new() };
    let has_co_loads = metric.includes_waits && is_in_duet(cell_a) && is_in_duet(cell_b);
    let no_ratio_reason = match estimate {
        Some(_) => None,
        None if has_co_loads => Some(NoRatioReason::Waited),
        None => Some(NoRatioReason::from_series(&series_a, &series_b, is_paired)),
    };
    let (failed_a, failed_b) = repeats.failures_in(no_ratio_reason);
    let (series_a, series_b) = (series_a.repeated_if_complete(), series_b.repeated_if_complete());
    let ratio = series_a.median.zip(series_b.median).map(|(a, b)| b / a);
    ComparisonRow {
        subject_a: repeats.subject_a.clone(),
        subject_b: repeats.subject_b.clone(),
        control: repeats.control,
        workload: repeats.workload.clone(),
        step: repeats.step,
        metric: metric.key,
        title: metric.title,
        a: series_a,
        b: series_b,
        pairs,
        ratio_of_medians: ratio.filter(|ratio| ratio.is_finite()),
        estimate,
        no_ratio_reason,
        b_broke: repeats.is_b_broken(),
        p_lost: repeats::p_of_failures(failed_a, failed_b),
        unit,
        p_of_all: None,
        p_permuted,
        verdict: Verdict::Missing,
        sentence: String::new(),
    }
}

/// Returns the ratio of two series, or `None` if a repeat has no value: the measured quantity would
/// then select the remaining repeats. `paired`: whether pairs are looked at after each repeat or at
/// the end; `None`: unpaired.
fn estimate(a: &Series, b: &Series, paired: Option<Looks>) -> (Option<Estimate>, Option<PairUnit>) {
    if let Some(looks) = paired {
        return b.pairs_with(a).estimate(looks).unzip();
    }
    let unpaired = || Estimate::from_samples(&a.repeated().values, &b.repeated().values);
    ((a.is_known() && b.is_known()).then(unpaired).flatten(), None)
}

/// Returns the p-value of a permutation test; `None`: a repeat has no value, or there are too many
/// repeats.
fn permutation_chance(a: &Series, b: &Series, is_paired: bool) -> Option<f64> {
    let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let chance = if is_paired {
        permutation::pairs_chance(&logs(&b.ratios_to(a).values))
    } else if a.is_known() && b.is_known() {
        permutation::samples_chance(&logs(&a.repeated().values), &logs(&b.repeated().values))
    } else {
        None
    };
    chance.filter(|p| p.is_finite())
}

/// Sets the verdict of each row. The tests of compared arms are one family, and the tests of
/// controls another (Holm).
fn judge(rows: &mut [ComparisonRow], same_within: Option<f64>, differences: &[RunDifference]) {
    let subjects: Vec<usize> = (0..rows.len()).filter(|i| !rows[*i].control).collect();
    let controls: Vec<usize> = (0..rows.len()).filter(|i| rows[*i].control).collect();
    for family in [subjects, controls] {
        let is_tested =
            |i: &usize| rows[*i].estimate.is_some() && rows[*i].unit != Some(PairUnit::Rounds);
        let tested: Vec<usize> = family.iter().copied().filter(is_tested).collect();
        let ps: Vec<f64> = tested.iter().filter_map(|i| rows[*i].estimate.map(|e| e.p)).collect();
        tested.iter().zip(holm(&ps)).for_each(|(i, p)| rows[*i].p_of_all = Some(p));
        for i in &tested {
            rows[*i].estimate = rows[*i].estimate.map(|estimate| estimate.with_tests(tested.len()));
        }
        for index in family {
            rows[index].verdict = Verdict::from_row(&rows[index], same_within);
            rows[index].sentence = verdict::sentence(&rows[index], same_within, differences);
        }
    }
}

/// Returns the summary of the rows of each cell.
fn answers(
    rows: &[ComparisonRow],
    same_within: Option<f64>,
    differences: &[RunDifference],
) -> Vec<ComparisonAnswer> {
    let is_same_cell = |a: &ComparisonRow, b: &ComparisonRow| {
        (&a.subject_a, &a.subject_b, &a.workload, a.step)
            == (&b.subject_a, &b.subject_b, &b.workload, b.step)
    };
    let cells = rows.chunk_by(is_same_cell);
    let answer = |cell: &[ComparisonRow]| {
        let ComparisonRow { subject_a, subject_b, workload, step, .. } = cell[0].clone();
        let sentence = verdict::with_differences(verdict::answer(cell, same_within), differences);
        ComparisonAnswer { subject_a, subject_b, workload, step, sentence }
    };
    cells.map(answer).collect()
}

/// Whether a control differs between the sides. It is the same program, so the machine changed.
/// Memory is ignored, because it always differs by a few pages.
fn is_drift(row: &ComparisonRow) -> bool {
    row.control && row.metric != MEMORY.key && row.differs()
}

/// Describes the control that differs, with the largest change of each metric; `None`: no control
/// differs.
fn drift(rows: &[ComparisonRow]) -> Option<String> {
    let size = |row: &ComparisonRow| row.estimate.map_or(0.0, |estimate| estimate.ratio.ln().abs());
    let mut largest: Vec<&ComparisonRow> = Vec::new();
    for row in rows.iter().filter(|row| is_drift(row)) {
        let is_same = |known: &&mut &ComparisonRow| {
            (&known.subject_a, known.metric) == (&row.subject_a, row.metric)
        };
        match largest.iter_mut().find(is_same) {
            Some(known) if size(known) < size(row) => *known = row,
            Some(_) => {}
            None => largest.push(row),
        }
    }
    let text = |row: &&ComparisonRow| format!("{}: {}", row.title, row.sentence);
    let name = &largest.first()?.subject_a;
    let texts: Vec<String> =
        largest.iter().filter(|row| row.subject_a == *name).map(text).collect();
    Some(format!("the control {name} differs as well ({})", texts.join("; ")))
}

#[cfg(test)]
mod tests;
