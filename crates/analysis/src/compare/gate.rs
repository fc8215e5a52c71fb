//! Parses gates (how much worse a metric may get) and decides them.
//!
//! Gates make a comparison usable in CI: a significant regression fails it, and noise does not.

use schemars::JsonSchema;
use serde::Serialize;

use super::no_ratio::NoRatioReason;
use super::order::Confounding;
use super::repeats::{
    Failures, excess_failures, excused_share, p_of_failures, unestimated_control,
    unrecorded_controls,
};
use super::starts::{self, StartTest};
use super::verdict::with_differences;
use super::{CellRepeats, ComparisonRow, RunDifference, ServerStarts, SideRepeats, is_drift};
use crate::metric::{Better, METRICS, Metric};
use crate::number_format::{self, percent};
use crate::stats::{ALPHA, Estimate, PairUnit, weighted_holm};

/// Short names that gates may use.
const SHORT_NAMES: [(&str, &str); 7] = [
    ("throughput", "throughput_rps"),
    ("rps", "throughput_rps"),
    ("cpu_us_per_request", "server_cpu_us_per_request"),
    ("p50", "response_p50_us"),
    ("p90", "response_p90_us"),
    ("p99", "response_p99_us"),
    ("memory", "server_memory_bytes"),
];

/// The smallest share of a gate, in percent. A gate stores 1 + share, where smaller shares would
/// lose their digits.
const MIN_PERCENT: f64 = 0.001;

/// The most by which a metric may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    pub metric: &'static Metric,
    /// The ratio at which it is missed: above 1, it may not be higher; below 1, not lower.
    pub ratio: f64,
}

impl Gate {
    /// Reads `cpu_us_per_request>+3%,p99>+10%,throughput<-2%`.
    ///
    /// # Errors
    ///
    /// The mistake, and the correct form.
    pub fn parse(text: &str) -> Result<Vec<Gate>, String> {
        text.split(',').map(|gate| Gate::parse_one(gate.trim())).collect()
    }

    fn parse_one(text: &str) -> Result<Gate, String> {
        let format_error = || {
            format!(
                "{text:?}: not a gate\nhint: write a metric and a limit, such as \
                        `cpu_us_per_request>+3%` or `throughput<-2%`"
            )
        };
        let operator_index = text.find(['<', '>']).ok_or_else(format_error)?;
        let (name, limit) = (text[..operator_index].trim(), text[operator_index + 1..].trim());
        let is_above = text[operator_index..].starts_with('>');
        let metric = metric(name)?;
        let share = limit
            .strip_suffix('%')
            .and_then(|n| n.trim().parse::<f64>().ok())
            .ok_or_else(format_error)?;
        let is_miss_above = match metric.better {
            Better::Lower => true,
            Better::Higher => false,
            Better::Neither => is_above,
        };
        if !share.is_finite() || share == 0.0 || (share > 0.0) != is_above {
            return Err(format!(
                "{text:?}: the sign contradicts the direction\nhint: write `>` with `+`, or `<` \
                 with `-`"
            ));
        }
        if is_miss_above != is_above {
            return Err(format!(
                "{text:?}: would fail an improvement: for {name}, {} is better\nhint: use the \
                 other direction and sign",
                if is_miss_above { "lower" } else { "higher" }
            ));
        }
        if share.abs() < MIN_PERCENT {
            return Err(format!(
                "{text:?}: too small for any measurement\nhint: use at least {MIN_PERCENT} %"
            ));
        }
        if share <= -100.0 {
            return Err(format!(
                "{text:?}: can never be missed, because no metric falls by more \
                                than 100 %\nhint: use a smaller share"
            ));
        }
        Ok(Gate { metric, ratio: 1.0 + share / 100.0 })
    }

    /// Returns the gate in the form that [`Gate::parse`] reads.
    #[must_use]
    pub fn text(&self) -> String {
        let sign = if self.ratio > 1.0 { ">+" } else { "<-" };
        // Rounded to the written digits, because 1.03 is not exactly 1 + 0.03. See `MIN_PERCENT`.
        let share = ((self.ratio - 1.0).abs() * 1e10).round() / 1e8;
        format!("{}{sign}{share}%", self.metric.key)
    }

    /// Whether a ratio exceeds the gate, in the direction that it forbids.
    fn is_exceeded_by(&self, ratio: f64) -> bool {
        if self.ratio > 1.0 { ratio > self.ratio } else { ratio < self.ratio }
    }
}

/// Returns the metric with this key or short name.
///
/// # Errors
/// A message if there is no such metric, or if the metric has no ratios.
pub fn metric(name: &str) -> Result<&'static Metric, String> {
    let key = SHORT_NAMES.iter().find(|(short, _)| *short == name).map_or(name, |(_, key)| key);
    let comparable = || METRICS.iter().filter(|metric| metric.has_ratios());
    comparable().find(|metric| metric.key == key).ok_or_else(|| {
        let short: Vec<&str> = SHORT_NAMES.iter().map(|(short, _)| *short).collect();
        let keys: Vec<&str> = comparable().map(|metric| metric.key).collect();
        format!(
            "{name:?}: no such metric to compare by\nhint: use one of {}, or {}",
            short.join(", "),
            keys.join(", ")
        )
    })
}

/// Outcome of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// The metric is within the gate, and a forbidden change would have been found.
    Held,
    /// The metric is worse than allowed, by a significant difference.
    Missed,
    /// Nothing is shown, and a forbidden change may have been overlooked.
    Undecided,
}

/// A gate in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GateResult {
    pub gate: String,
    pub subject_a: String,
    pub subject_b: String,
    pub workload: String,
    /// Index among the rows.
    pub row: usize,
    pub state: GateState,
    pub sentence: String,
}

/// Judges gates over all rows of their metrics.
///
/// The tests of ratios and of failures are one family (Holm): if nothing changed, the chance that
/// any gate is missed is at most [`ALPHA`]. Gates do not apply to controls, which show how much the
/// machine changed between two runs.
pub(super) fn judge(
    gates: &[Gate],
    (rows, repeats, starts): (&[ComparisonRow], &[CellRepeats], &[ServerStarts]),
    order: Confounding,
    differences: &[RunDifference],
) -> Vec<GateResult> {
    let evidence = Evidence {
        rows,
        repeats,
        starts: starts::tests(starts),
        order,
        excused: excused_share(repeats, SideRepeats::failures),
        excused_losses: excused_share(repeats, SideRepeats::losses),
        unrecorded: unrecorded_controls(repeats),
    };
    let cells = gates.iter().flat_map(|gate| {
        let gate_rows = rows
            .iter()
            .enumerate()
            .filter(|(_, row)| row.metric == gate.metric.key && !row.control);
        gate_rows.map(|(index, _)| GateCell::new(*gate, index, &evidence))
    });
    let cells: Vec<GateCell<'_>> = cells.collect();
    let family = Family::new(&cells);
    let result = |cell: &GateCell<'_>| {
        let (state, sentence) = cell.judge(&family);
        GateResult {
            gate: cell.gate.text(),
            subject_a: cell.row.subject_a.clone(),
            subject_b: cell.row.subject_b.clone(),
            workload: cell.row.workload.clone(),
            row: cell.index,
            state,
            // The row's own sentence already names the differences.
            sentence: sentence.map_or_else(
                || cell.row.sentence.clone(),
                |sentence| with_differences(sentence, differences),
            ),
        }
    };
    cells.iter().map(result).collect()
}

/// Inputs of the judgement of gates.
struct Evidence<'a> {
    rows: &'a [ComparisonRow],
    repeats: &'a [CellRepeats],
    starts: Vec<StartTest<'a>>,
    order: Confounding,
    /// Difference of the shares of failed repeats of controls, `b` − `a`.
    excused: f64,
    /// Difference of the shares of repeats of controls in which requests failed, `b` − `a`.
    excused_losses: f64,
    /// A control that cannot show whether the machine changed, in words.
    unrecorded: Option<String>,
}

/// A gate in one cell, with the evidence that decides it.
struct GateCell<'a> {
    gate: Gate,
    /// Index of the row.
    index: usize,
    row: &'a ComparisonRow,
    cell: &'a CellRepeats,
    order: Confounding,
    /// The rows of controls with the same metric that changed.
    controls: Vec<&'a ComparisonRow>,
    /// Failed repeats of `a` and `b`; of `b` those in excess of the control's.
    failures: (Failures, Failures),
    /// Counted repeats of `a` and `b` in which requests failed; of `b` those in excess of
    /// the control's.
    losses: (Failures, Failures),
    /// All starts of the server; `None`: `b` does not have it.
    starts: Option<StartTest<'a>>,
    /// Why no control can show whether the machine changed, if records or values of it are missing.
    missing_control: Option<String>,
}

/// A test of a gate.
#[derive(Clone, Copy, PartialEq)]
enum Test<'a> {
    /// The ratio of the row at this index.
    Ratio(usize),
    /// A cell whose repeats failed, or had failed requests. Several gates share it.
    Failures(&'a CellRepeats, (Failures, Failures)),
    /// A server whose starts had failures. All of its gates share it.
    Starts(StartTest<'a>),
}

/// The part of [`ALPHA`] for tests of starts, if there are any. They compare the starts of a server
/// over all of its steps, so they find what no test of one cell among many would.
const STARTS_PART: f64 = 0.2;

/// All tests of the gates, each with its p-value, adjusted for the number of tests.
struct Family<'a>(Vec<(Test<'a>, f64)>);

impl<'a> Family<'a> {
    fn new(gates: &[GateCell<'a>]) -> Family<'a> {
        let mut tests: Vec<(Test<'a>, f64)> = Vec::new();
        for (test, p) in gates.iter().flat_map(GateCell::tests).flatten() {
            if tests.iter().all(|(known, _)| *known != test) {
                tests.push((test, p));
            }
        }
        let weights = Family::weights(&tests);
        let weighted: Vec<(f64, f64)> =
            tests.iter().zip(weights).map(|((_, p), weight)| (*p, weight)).collect();
        let adjusted = weighted_holm(&weighted);
        Family(tests.into_iter().zip(adjusted).map(|((test, _), p)| (test, p)).collect())
    }

    /// Returns the weight of each test.
    fn weights(tests: &[(Test<'a>, f64)]) -> Vec<f64> {
        let is_of_starts = |test: &Test<'_>| matches!(test, Test::Starts(_));
        let starts = tests.iter().filter(|(test, _)| is_of_starts(test)).count();
        let others = tests.len() - starts;
        let weight = |test: &Test<'_>| match is_of_starts(test) {
            true => STARTS_PART / starts as f64,
            false if starts == 0 => 1.0,
            false => (1.0 - STARTS_PART) / others as f64,
        };
        tests.iter().map(|(test, _)| weight(test)).collect()
    }

    /// Returns the number of equally weighted tests that gives a ratio test the same part of
    /// [`ALPHA`].
    fn equal_tests(&self) -> usize {
        let others = self.0.iter().filter(|(test, _)| !matches!(test, Test::Starts(_))).count();
        let part = if others == self.0.len() { 1.0 } else { 1.0 - STARTS_PART };
        (others as f64 / part).ceil() as usize
    }

    /// Returns the adjusted p-value; `None`: no test was made.
    fn p(&self, test: Option<(Test<'a>, f64)>) -> Option<f64> {
        let (test, _) = test?;
        self.0.iter().find(|(known, _)| *known == test).map(|(_, p)| *p)
    }
}

impl<'a> GateCell<'a> {
    fn new(gate: Gate, index: usize, evidence: &'a Evidence<'a>) -> GateCell<'a> {
        let row = &evidence.rows[index];
        let cell = evidence.repeats.iter().find(|cell| cell.has_row(row));
        let cell = cell.expect("each row is of a cell");
        let (failures_a, failures_b) = cell.failures_in(row.no_ratio_reason);
        let failures = (failures_a, excess_failures(evidence.excused, failures_b));
        let losses = (cell.a.losses(), excess_failures(evidence.excused_losses, cell.b.losses()));
        GateCell {
            gate,
            index,
            row,
            cell,
            order: evidence.order,
            controls: controls_of(row, evidence.rows),
            failures,
            losses,
            starts: evidence.starts.iter().copied().find(|test| {
                (&test.server.subject_a, &test.server.subject_b) == (&row.subject_a, &row.subject_b)
            }),
            missing_control: evidence.unrecorded.clone().or_else(|| {
                let is_control =
                    |other: &&ComparisonRow| other.control && other.metric == row.metric;
                let mut controls = evidence.rows.iter().filter(is_control);
                if controls.clone().any(|other| other.estimate.is_some()) {
                    return None;
                }
                unestimated_control(evidence.repeats, gate.metric).or_else(|| {
                    controls.find_map(|row| partly_unknown(row, evidence.repeats, gate.metric))
                })
            }),
        }
    }

    fn tests(&self) -> [Option<(Test<'a>, f64)>; 4] {
        [
            self.ratio_test(),
            self.failure_test(self.failures),
            self.failure_test(self.losses),
            self.start_test(),
        ]
    }

    /// Returns the estimate that may decide the gate. One over rounds of turns within few starts
    /// may not.
    fn estimate(&self) -> Option<Estimate> {
        self.row.estimate.filter(|_| self.row.unit != Some(PairUnit::Rounds))
    }

    fn ratio_test(&self) -> Option<(Test<'a>, f64)> {
        Some((Test::Ratio(self.index), self.estimate()?.p))
    }

    fn failure_test(&self, counts: (Failures, Failures)) -> Option<(Test<'a>, f64)> {
        Some((Test::Failures(self.cell, counts), p_of_failures(counts.0, counts.1)?))
    }

    fn start_test(&self) -> Option<(Test<'a>, f64)> {
        Some((Test::Starts(self.starts?), self.starts?.p()?))
    }

    /// Returns the reason why the gate is missed regardless of the ratio: the server failed.
    fn failure_sentence(&self, family: &Family<'a>) -> Option<String> {
        // Noise does not cause incorrect responses, so no test is needed.
        let (_, failures_b) = self.failures;
        if self.row.b_broke && 2 * failures_b.failed > failures_b.all {
            return Some(BROKE.into());
        }
        if let Some(starts) = self.starts.filter(StartTest::is_broken) {
            return starts.server.breaks_sentence();
        }
        let significant = |test: Option<(Test<'a>, f64)>| family.p(test).filter(|p| *p < ALPHA);
        for (counts, event) in [(self.failures, "fail"), (self.losses, "have failed requests")] {
            let Some(p) = significant(self.failure_test(counts)) else { continue };
            let (failures_a, failures_b) = counts;
            return Some(format!(
                "more repeats of B {event} than of A: {} of {} compared with {} of {}, which is \
                 significant ({}, Fisher's exact test)",
                failures_b.failed,
                failures_b.all,
                failures_a.failed,
                failures_a.all,
                number_format::p_value(p)
            ));
        }
        if let Some(starts) = self.starts.filter(StartTest::is_separated) {
            return Some(starts.separation_sentence());
        }
        Some(self.starts?.sentence(significant(self.start_test())?))
    }

    /// Decides the gate. The sentence is `None` if the row's sentence suffices.
    fn judge(&self, family: &Family<'a>) -> (GateState, Option<String>) {
        if let Some(failure) = self.failure_sentence(family) {
            return (GateState::Missed, Some(self.with_repeats(failure)));
        }
        let Some(estimate) = self.estimate() else {
            let text = self
                .cell
                .sentence
                .as_ref()
                .map(|uncounted| format!("{}; {uncounted}", self.row.sentence));
            return (GateState::Undecided, text);
        };
        let p = family.p(self.ratio_test()).expect("a row with an estimate has a test");
        let (state, text) = self.ratio_verdict(estimate.with_tests(family.equal_tests()), p);
        if let Some(reason) = self.order.gate_note() {
            return (GateState::Undecided, Some(self.with_repeats(format!("{text}; {reason}"))));
        }
        match (state, &self.cell.sentence) {
            // The remaining repeats may be a selection of the better ones.
            (GateState::Held, Some(uncounted))
                if !self.cell.are_all_counted_for(self.gate.metric) =>
            {
                let text =
                    format!("{text} over the remaining repeats, but a gate needs all: {uncounted}");
                (GateState::Undecided, Some(text))
            }
            // Repeats in turns are a pair only if both subjects had their turns next to each other.
            (GateState::Held, _) if self.lacks_pairs() => {
                let (pairs, planned) = (self.row.pairs.len(), self.cell.a.planned);
                let text = format!(
                    "{text} over {pairs} pairs of {planned} repeats, but a gate needs all. The \
                     other repeats were not measured in turns with each other, or lack a value."
                );
                (GateState::Undecided, Some(text))
            }
            // It is unknown whether the server failed these requests. The sentence names them.
            (GateState::Held, _) if self.cell.b.with_doubtful_failures > 0 => {
                (GateState::Undecided, Some(self.with_repeats(text)))
            }
            (state, _) => {
                match self.missing_control.as_ref().filter(|_| state == GateState::Held) {
                    Some(reason) => {
                        (GateState::Undecided, Some(self.with_repeats(format!("{text}; {reason}"))))
                    }
                    None => (state, Some(self.with_repeats(text))),
                }
            }
        }
    }

    /// Whether some counted repeats of one run are not in a pair.
    fn lacks_pairs(&self) -> bool {
        let pairs = self.row.pairs.len();
        let counted = |side: &SideRepeats| side.counted_for(self.gate.metric);
        pairs > 0 && pairs < counted(&self.cell.a).max(counted(&self.cell.b))
    }

    /// Appends the excluded repeats.
    fn with_repeats(&self, text: String) -> String {
        match &self.cell.sentence {
            Some(uncounted) => format!("{text}; {uncounted}"),
            None => text,
        }
    }

    /// Returns the verdict of the ratio alone.
    fn ratio_verdict(&self, estimate: Estimate, p: f64) -> (GateState, String) {
        let gate = self.gate;
        let change = format!("it changed by {}", signed_percent(estimate.ratio - 1.0));
        if gate.is_exceeded_by(estimate.ratio) && p >= ALPHA {
            let detectable_text = detectable_text(estimate);
            return (
                GateState::Undecided,
                format!("{change}, which may be chance: {detectable_text}. Use more repeats."),
            );
        }
        if gate.is_exceeded_by(estimate.ratio) {
            // The control that excuses most of the change.
            let towards = self
                .remaining_changes(estimate)
                .filter(|remaining| remaining.is_in_direction_of(gate));
            return match towards.max_by(|a, b| a.excused_change().total_cmp(&b.excused_change())) {
                None => (
                    GateState::Missed,
                    format!(
                        "{change}, which is significant among the tests of the gates ({})",
                        number_format::p_value(p)
                    ),
                ),
                Some(remaining) if remaining.misses(gate) => (
                    GateState::Missed,
                    format!(
                        "{change}, which is significant among the tests of the gates ({}); {}",
                        number_format::p_value(p),
                        remaining.in_words()
                    ),
                ),
                Some(remaining) => {
                    (GateState::Undecided, format!("{change}; {}", remaining.in_words()))
                }
            };
        }
        if gate.is_exceeded_by(estimate.low) || gate.is_exceeded_by(estimate.high) {
            let range = format!(
                "{} to {}",
                signed_percent(estimate.low - 1.0),
                signed_percent(estimate.high - 1.0)
            );
            let text = format!(
                "{change}, with an interval of {range}, which is partly beyond the gate. Use more \
                 repeats."
            );
            return (GateState::Undecided, text);
        }
        // If the machine became faster and the server did not, the server became slower. One
        // control that shows this is enough.
        let is_doubtful = |remaining: &RemainingChange<'_>| {
            gate.is_exceeded_by(remaining.low) || gate.is_exceeded_by(remaining.high)
        };
        match self.remaining_changes(estimate).find(is_doubtful) {
            Some(remaining) => {
                (GateState::Undecided, format!("{change}; {}", remaining.in_words()))
            }
            None => (GateState::Held, change),
        }
    }

    fn remaining_changes(&self, change: Estimate) -> impl Iterator<Item = RemainingChange<'a>> {
        self.controls.iter().filter_map(move |row| RemainingChange::control(row, change))
    }
}

/// States the difference that would have been found.
fn detectable_text(estimate: Estimate) -> String {
    estimate.detectable.map_or_else(
        || "with so few repeats no difference would have been found".into(),
        |ratio| format!("a difference of {} would have been found", number_format::change(ratio)),
    )
}

/// Describes a control that has values of a metric, and whose other values are unknown: the metric
/// has no estimate. `None`: the control has all values, or none by design.
fn partly_unknown(row: &ComparisonRow, cells: &[CellRepeats], metric: &Metric) -> Option<String> {
    let (Some(NoRatioReason::Unanswered { a, b }) | Some(NoRatioReason::NotMeasured { a, b })) =
        row.no_ratio_reason
    else {
        return None;
    };
    let cell = cells.iter().find(|cell| cell.has_row(row))?;
    let has_values = a < cell.a.counted_for(metric) || b < cell.b.counted_for(metric);
    has_values.then(|| {
        format!(
            "the {} of the control {} is unknown in {} of A and {} of B, so it cannot show whether \
             the machine changed",
            row.title,
            row.subject_a,
            number_format::plural(a as u64, "repeat"),
            number_format::plural(b as u64, "repeat")
        )
    })
}

/// Returns the rows of controls that changed in the same metric: in the same cell if a control was
/// measured there, otherwise in all cells.
fn controls_of<'a>(row: &ComparisonRow, rows: &'a [ComparisonRow]) -> Vec<&'a ComparisonRow> {
    let is_in_cell =
        |other: &ComparisonRow| (&other.workload, other.step) == (&row.workload, row.step);
    let is_measured = |other: &ComparisonRow| {
        other.control && other.metric == row.metric && other.estimate.is_some()
    };
    let has_control_in_cell = rows.iter().any(|other| is_measured(other) && is_in_cell(other));
    let is_selected = |other: &&ComparisonRow| {
        is_drift(other) && other.metric == row.metric && (!has_control_in_cell || is_in_cell(other))
    };
    rows.iter().filter(is_selected).collect()
}

/// The change that remains after the change of a control is removed: the ratio of both ratios. Its
/// interval includes the errors of both.
struct RemainingChange<'a> {
    name: &'a str,
    /// Estimate of the control.
    control: Estimate,
    ratio: f64,
    low: f64,
    high: f64,
}

impl<'a> RemainingChange<'a> {
    fn control(row: &'a ComparisonRow, change: Estimate) -> Option<RemainingChange<'a>> {
        let control = row.estimate?;
        Some(RemainingChange {
            name: &row.subject_a,
            control,
            ratio: change.ratio / control.ratio,
            low: change.low / control.high,
            high: change.high / control.low,
        })
    }

    /// Returns the size of the change that the control excuses: the absolute logarithm of its
    /// ratio.
    fn excused_change(&self) -> f64 {
        self.control.ratio.ln().abs()
    }

    /// Whether the control changed in the direction that a gate forbids.
    fn is_in_direction_of(&self, gate: Gate) -> bool {
        (self.control.ratio > 1.0) == (gate.ratio > 1.0)
    }

    /// Whether the remaining change exceeds a gate, and its interval excludes 1.
    fn misses(&self, gate: Gate) -> bool {
        gate.is_exceeded_by(self.ratio)
            && if gate.ratio > 1.0 { self.low > 1.0 } else { self.high < 1.0 }
    }

    fn in_words(&self) -> String {
        format!(
            "the control {} changed by {}, and the remaining change is {} ({} to {})",
            self.name,
            signed_percent(self.control.ratio - 1.0),
            signed_percent(self.ratio - 1.0),
            signed_percent(self.low - 1.0),
            signed_percent(self.high - 1.0)
        )
    }
}

const BROKE: &str = "most repeats of B are excluded, because the server gave incorrect responses, \
                     failed or never started, and in most repeats of A it did not fail";

/// `+3.1 %`, `−2 %`.
fn signed_percent(share: f64) -> String {
    /// Smaller shares are rounding errors of floating-point divisions.
    const MIN_SHARE: f64 = 1e-9;
    if share.abs() < MIN_SHARE {
        return percent(0.0);
    }
    format!("{}{}", if share < 0.0 { "−" } else { "+" }, percent(share.abs()))
}
