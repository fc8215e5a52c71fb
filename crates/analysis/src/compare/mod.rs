//! Compares two runs, or two arms of one run, cell by cell: ratios, intervals, verdicts and gates.
//!
//! `dyno compare` and the experiments of a report share these rules. An arm is a server under one
//! set of conditions. A cell is one arm with one workload at one step.

mod arms;
mod checks;
mod differences;
mod drift;
mod environment;
mod failures;
mod gate;
mod identity;
mod no_ratio;
mod notes;
mod order;
mod repeats;
mod starts;
mod times;
mod verdict;

use std::collections::BTreeSet;

use dyno_model::plan::{Plan, Trial};
use dyno_model::run::Run;
use schemars::JsonSchema;
use serde::Serialize;

pub use differences::RunDifference;
pub use gate::{Gate, GateResult, GateState, metric};
pub use no_ratio::NoRatioReason;
pub use repeats::{Cause, CellRepeats, NotCounted, SideRepeats};
pub use starts::{ServerStarts, SideStarts};
pub use verdict::Verdict;

use arms::{compared_arms, counterpart, uncompared_controls, unmatched_arms};
use drift::drift;

use crate::cell::{CellKey, Shape};
use crate::grid::{Cell, Grid};
use crate::metric::{CPU, MEMORY, Metric, RESPONSE_P50, RESPONSE_P99, THROUGHPUT};
use crate::results::Results;
use crate::series::Series;
use crate::stats::{ALPHA, Estimate, Looks, PairUnit, Repeated, holm, permutation};

pub const SCHEMA: &str = "dyno.compare/1";

/// Metrics that every comparison includes.
const METRICS: [&Metric; 5] = [&THROUGHPUT, &CPU, &RESPONSE_P50, &RESPONSE_P99, &MEMORY];

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    pub run: &'a Run,
    pub results: Results<'a>,
    /// The compared arm; `None`: each arm is compared with the other side's arm of the same name.
    pub arm: Option<usize>,
}

/// Options of a comparison.
#[derive(Clone, Debug, Default)]
pub struct ComparisonOptions {
    pub gates: Vec<Gate>,
    /// Margin within which two sides are the same: 0.02 for 2 %. `None`: no verdict says that they
    /// are the same.
    pub same_within: Option<f64>,
    pub on_undecided: OnUndecided,
}

/// Effect of an undecided gate on the whole comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUndecided {
    /// The whole comparison is undecided, too.
    #[default]
    Fail,
    /// An undecided gate is treated as held.
    Pass,
}

/// Outcome of all gates of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateOutcome {
    /// There are no gates, or every gate is held or treated as held.
    Passed,
    /// At least one gate is missed.
    Missed,
    /// No gate is missed, and at least one gate is undecided.
    Undecided,
}

/// The result of a comparison. Ratios are `b` ÷ `a`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Compared")]
pub struct ComparisonResult {
    pub schema: &'static str,
    pub a: SideResult,
    pub b: SideResult,
    /// Whether repeats are compared in pairs. Pairs exist if both sides are of one run, because
    /// each block has one repeat of each side.
    pub paired: bool,
    /// Whether intervals are valid after every repeat, because the run could end as soon as its
    /// question was answered.
    pub at_every_look: bool,
    /// Unintended differences between the sides. With any, a measured difference has several
    /// possible causes.
    pub differences: Vec<RunDifference>,
    /// Notes that apply to all rows.
    pub notes: Vec<String>,
    /// Summary of the rows of each cell, without controls.
    pub answers: Vec<ComparisonAnswer>,
    pub rows: Vec<ComparisonRow>,
    pub gates: Vec<GateResult>,
    /// Whether no gate was missed.
    pub passed: bool,
    /// Number of undecided gates.
    pub undecided: usize,
    /// Effect of an undecided gate on the exit status, and in JUnit's XML.
    pub on_undecided: OnUndecided,
    /// For each cell of both sides, the number of included repeats, and why the others are
    /// excluded.
    pub repeats: Vec<CellRepeats>,
    /// For each server of both sides, the number of starts in which it failed, over all its cells.
    pub starts: Vec<ServerStarts>,
    /// Problems of the run that measured both sides (`--rev`). They decide the exit status if no
    /// gate is missed. Empty if the runs were read from archives.
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
    /// Name of the arm; `None`: all arms.
    pub subject: Option<String>,
}

/// Summary of the comparison in one cell of both sides.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Answer")]
pub struct ComparisonAnswer {
    /// Name of the arm in `a`, and in `b`.
    pub subject_a: String,
    pub subject_b: String,
    pub workload: String,
    pub step: Shape,
    /// Sentence on how `b` differs from `a`.
    pub sentence: String,
}

/// One metric in one cell of both sides.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Row")]
pub struct ComparisonRow {
    /// Name of the arm in `a`, and in `b`.
    pub subject_a: String,
    pub subject_b: String,
    /// Whether the server is a control. Its row shows how much the machine changed.
    pub control: bool,
    pub workload: String,
    pub step: Shape,
    /// Key and name of the metric.
    pub metric: &'static str,
    pub title: &'static str,
    pub a: Repeated,
    pub b: Repeated,
    /// Ratio `b` ÷ `a` of each pair of repeats; empty: the repeats do not form pairs, or a repeat
    /// has no value.
    pub pairs: Vec<f64>,
    /// Ratio `b` ÷ `a` of the medians; `None`: one median is unknown or 0.
    pub ratio_of_medians: Option<f64>,
    /// Estimate of the ratio; `None`: `lack` has the reason.
    pub estimate: Option<Estimate>,
    /// Why there is no estimate; `None`: an estimate exists.
    #[serde(rename = "lack")]
    pub no_ratio_reason: Option<NoRatioReason>,
    /// Whether most repeats of `b` are excluded because its server gave incorrect responses, failed
    /// or never became ready, while the server of `a` worked in most repeats.
    pub b_broke: bool,
    /// Chance that so many more repeats of `b` than of `a` fail if the two are alike (Fisher's
    /// exact test): 0 to 1, not adjusted for other tests. A repeat whose percentile lies among
    /// unanswered requests is also a failure here. `None`: no repeat failed.
    pub p_lost: Option<f64>,
    /// Units of the estimate; `None`: no estimate, or the repeats are not pairs.
    #[serde(rename = "over")]
    pub unit: Option<PairUnit>,
    /// p-value, adjusted for the tests of all rows (Holm): the chance of a difference at least as
    /// large if there is none.
    #[serde(rename = "p_of_all")]
    pub adjusted_p: Option<f64>,
    /// p-value of a permutation test, which assumes nothing about the distribution of the values.
    /// It exchanges the two sides in every possible way. `None`: too many ways, or nothing to
    /// exchange. Five pairs cannot have a value below 0.0625.
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

    /// Whether the sides differ significantly. The difference may be within the requested margin.
    /// An estimate over rounds shows no difference, because it is valid only for its few starts.
    fn differs(&self) -> bool {
        self.unit != Some(PairUnit::Rounds) && self.adjusted_p.is_some_and(|p| p < ALPHA)
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
    let Rows { mut rows, mut repeats, unmatched, .. } = selection.build_rows(a, b, &arm_pairs);
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
    let other_causes: Vec<RunDifference> =
        differences.iter().cloned().chain(order.difference()).collect();
    set_verdicts(&mut rows, options.same_within, &other_causes);
    let drift = drift(&rows).filter(|_| !is_one_run);
    let subject_rows: Vec<ComparisonRow> =
        rows.iter().filter(|row| !row.control).cloned().collect();
    let gates = gate::decide(&options.gates, (&rows, &repeats, &starts), order, &other_causes);
    let mut answers = answers(&subject_rows, options.same_within, &other_causes);
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
            (is_one_run, drift, order, &arms),
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

/// Returns the metrics that every comparison includes, and the metrics of the gates.
fn compared_metrics(gates: &[Gate]) -> Vec<&'static Metric> {
    let mut metrics: Vec<&Metric> = METRICS.to_vec();
    for gate in gates {
        if !metrics.contains(&gate.metric) {
            metrics.push(gate.metric);
        }
    }
    metrics
}

/// Appends the number of excluded repeats to the sentence of an answer.
fn add_repeats(answer: &mut ComparisonAnswer, repeats: &[CellRepeats]) {
    let is_same_cell = |cell: &&CellRepeats| {
        (&cell.subject_a, &cell.subject_b, &cell.workload, cell.step)
            == (&answer.subject_a, &answer.subject_b, &answer.workload, answer.step)
    };
    if let Some(excluded) = repeats.iter().find(is_same_cell).and_then(CellRepeats::count_in_words)
    {
        answer.sentence = format!("{}; {excluded}", answer.sentence);
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
    /// Number of measured cells of the first side that the plan of the second side lacks.
    unmatched: usize,
    /// Number of cells that both plans have and that neither side has measured.
    unmeasured: usize,
}

impl RowSelection<'_> {
    /// Builds a row for each metric of each cell in which either side has trials.
    ///
    /// With gates, every planned cell has rows, so that a server that never started passes no gate.
    /// `arms`: arms of `a`, each with its counterpart in `b`, if there is one.
    fn build_rows(&self, a: Side<'_>, b: Side<'_>, arms: &[(usize, Option<usize>)]) -> Rows {
        let (grid_a, grid_b) = (Grid::new(a.results.trials), Grid::new(b.results.trials));
        let mut built = Rows::default();
        for (arm_a, arm_b) in arms {
            let takes_part = takes_part(a, *arm_a) || arm_b.is_some_and(|arm| takes_part(b, arm));
            for key_a in planned_cells(a, *arm_a) {
                let key_b = arm_b.and_then(|arm| counterpart(a, key_a, b, arm));
                let key_b = key_b.filter(|key| is_planned(b, *key));
                let has_a = grid_a.get(key_a).is_some();
                let has_b = key_b.is_some_and(|key_b| grid_b.get(key_b).is_some());
                let lacks_step = arm_b.is_some() && key_b.is_none();
                built.unmeasured += usize::from(key_b.is_some() && !has_a && !has_b);
                built.unmatched += usize::from(has_a && lacks_step);
                let is_included = match self.gates {
                    [] => key_b.is_some() && (has_a || has_b),
                    _ => has_a || has_b || takes_part,
                };
                if is_included {
                    let (cell_a, cell_b) = (
                        SideCell::new(a, key_a, &grid_a),
                        key_b.map(|key| SideCell::new(b, key, &grid_b)),
                    );
                    let cell = cell_repeats(cell_a, cell_b);
                    built.rows.extend(self.cell_rows(cell_a, cell_b, &cell));
                    built.repeats.push(cell);
                }
            }
        }
        built
    }

    /// Builds the rows of one cell. If the two servers were loaded at the same time (a duet),
    /// metrics that include the wait for the other server are omitted, except metrics of gates.
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
            let has_gate = self.gates.iter().any(|gate| gate.metric == **metric);
            let includes_other_server = are_in_duet && metric.includes_waits;
            has_gate || !includes_other_server
        };
        let row = |metric: &&Metric| {
            row(repeats, &a.side.run.header.plan, (cell_a, cell_b), (metric, self.is_paired))
        };
        self.metrics.iter().filter(is_reported).map(row).collect()
    }
}

/// A cell of a side, and the grid with its trials.
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

    /// Returns the cell with its trials; `None`: no trials.
    fn cell(&self) -> Option<&Cell<'a>> {
        self.grid.get(self.key)
    }

    fn arm_name(&self) -> &str {
        &self.side.run.header.plan.arms[self.key.arm].name
    }

    /// Whether the cell only shows changes of the machine. A control that the user named as a side
    /// is an ordinary arm.
    fn is_control(&self) -> bool {
        self.side.arm.is_none() && self.side.run.header.plan.subject_of(self.key.arm).control
    }

    fn repeats(&self) -> SideRepeats {
        SideRepeats::new(self.side, self.key, self.grid)
    }
}

/// Returns the repeats of a cell. `b`: `None` if the plan of that run lacks the cell.
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

/// Whether an arm of a side was to take part in its run: its subject is not skipped. A server whose
/// build failed passes no gate.
fn takes_part(side: Side<'_>, arm: usize) -> bool {
    side.run.header.plan.subject_of(arm).skipped.is_none()
}

/// Whether the plan of a side has a cell.
fn is_planned(side: Side<'_>, key: CellKey) -> bool {
    let is_in_cell = |trial: &Trial| {
        (trial.arm, trial.workload, trial.step) == (key.arm, key.workload, key.step)
    };
    side.run.header.plan.trials.iter().any(is_in_cell)
}

/// Whether another server was loaded at the same time as the cell's server.
fn is_in_duet(cell: &Cell<'_>) -> bool {
    cell.trials().iter().any(|trial| trial.duet.is_some())
}

/// A comparison of two arms of one run.
pub(crate) struct ArmComparison {
    pub(crate) rows: Vec<ComparisonRow>,
    /// Other differences between the two arms that may be the cause of a result.
    other_causes: Vec<RunDifference>,
    repeats: Vec<CellRepeats>,
    /// Number of common cells of the plan without any trial. They have no rows.
    pub(crate) unmeasured: usize,
}

impl ArmComparison {
    /// Returns the summary of the rows of each cell.
    pub(crate) fn answers(&self, same_within: Option<f64>) -> Vec<ComparisonAnswer> {
        let mut answers = answers(&self.rows, same_within, &self.other_causes);
        answers.iter_mut().for_each(|answer| add_repeats(answer, &self.repeats));
        answers
    }
}

/// Compares pairs of arms of one run. The tests of all rows are adjusted together (Holm). Controls
/// are treated as ordinary arms.
pub(crate) fn compare_arms(
    run: &Run,
    results: Results<'_>,
    pairs: &[(usize, usize)],
) -> Vec<ArmComparison> {
    let side = |arm| Side { run, results, arm: Some(arm) };
    let mut metrics = METRICS.to_vec();
    let stop_metrics = run.header.plan.stop.iter().flat_map(|stop| &stop.metrics);
    for metric in stop_metrics.filter_map(|key| metric(key).ok()) {
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    let selection = RowSelection { metrics: &metrics, is_paired: true, gates: &[] };
    let pair_rows =
        |(a, b): &(usize, usize)| selection.build_rows(side(*a), side(*b), &[(*a, Some(*b))]);
    let rows_by_pair: Vec<Rows> = pairs.iter().map(pair_rows).collect();
    let mut rows: Vec<ComparisonRow> =
        rows_by_pair.iter().flat_map(|pair| pair.rows.iter().cloned()).collect();
    let same_within = run.header.plan.stop.as_ref().and_then(|stop| stop.same_within);
    let other_causes = order::arm_differences(&run.header.plan);
    set_verdicts(&mut rows, same_within, &other_causes);
    let mut rows = rows.into_iter();
    let comparison = |pair: Rows| ArmComparison {
        rows: rows.by_ref().take(pair.rows.len()).collect(),
        other_causes: other_causes.clone(),
        repeats: pair.repeats,
        unmeasured: pair.unmeasured,
    };
    rows_by_pair.into_iter().map(comparison).collect()
}

/// Whether the user named a control as this side.
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

/// Compares one metric in one cell. The verdict is set later.
fn row(
    repeats: &CellRepeats,
    plan: &Plan,
    (cell_a, cell_b): (&Cell<'_>, &Cell<'_>),
    (metric, is_paired): (&Metric, bool),
) -> ComparisonRow {
    let metric = Metric::from_key(metric.key);
    let (series_a, series_b) = (cell_a.series(metric), cell_b.series(metric));
    let looks = is_paired.then(|| Looks::from_plan(plan));
    let (estimate, unit) = estimate(&series_a, &series_b, looks);
    // The permutation test is not valid if the results decided the number of pairs.
    let p_permuted = permutation_chance(&series_a, &series_b, is_paired)
        .filter(|_| looks != Some(Looks::AfterEach));
    let pairs = if is_paired { series_b.ratios_to(&series_a).values } else { Vec::new() };
    let are_in_duet = is_in_duet(cell_a) && is_in_duet(cell_b);
    let no_ratio_reason = match estimate {
        Some(_) => None,
        None if are_in_duet && metric.includes_waits => Some(NoRatioReason::Waited),
        None => Some(NoRatioReason::from_series(&series_a, &series_b, is_paired)),
    };
    let (failed_a, failed_b) =
        repeats.failures_in(no_ratio_reason, &failures::Explained::default());
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
        p_lost: failures::p_of_failures(failed_a, failed_b),
        unit,
        adjusted_p: None,
        p_permuted,
        verdict: Verdict::Missing,
        sentence: String::new(),
    }
}

/// Returns the estimate of the ratio of two series, with its unit if the repeats are pairs. `None`:
/// too few repeats, or a repeat has no value. The repeats with a value alone would be a biased
/// selection.
///
/// `looks`: when the run checks its pairs; `None`: the repeats are not pairs.
fn estimate(a: &Series, b: &Series, looks: Option<Looks>) -> (Option<Estimate>, Option<PairUnit>) {
    if let Some(looks) = looks {
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

/// Sets the verdict and the sentence of each row. p-values are adjusted (Holm) for the tests of all
/// compared arms together, and separately for the tests of controls.
fn set_verdicts(
    rows: &mut [ComparisonRow],
    same_within: Option<f64>,
    differences: &[RunDifference],
) {
    let subjects: Vec<usize> = (0..rows.len()).filter(|i| !rows[*i].control).collect();
    let controls: Vec<usize> = (0..rows.len()).filter(|i| rows[*i].control).collect();
    for family in [subjects, controls] {
        // An estimate over rounds is valid only for its few starts, so it decides nothing.
        let is_tested =
            |i: &usize| rows[*i].estimate.is_some() && rows[*i].unit != Some(PairUnit::Rounds);
        let tested: Vec<usize> = family.iter().copied().filter(is_tested).collect();
        let ps: Vec<f64> = tested.iter().filter_map(|i| rows[*i].estimate.map(|e| e.p)).collect();
        tested.iter().zip(holm(&ps)).for_each(|(i, p)| rows[*i].adjusted_p = Some(p));
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
        let sentence = verdict::answer(cell, same_within, differences);
        ComparisonAnswer { subject_a, subject_b, workload, step, sentence }
    };
    cells.map(answer).collect()
}

#[cfg(test)]
mod tests;
