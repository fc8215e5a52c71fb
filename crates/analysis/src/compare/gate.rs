//! Parses gates, and decides whether a comparison passes them.
//!
//! A gate states how much worse a metric may get. Gates make a comparison usable in CI: a
//! significant regression fails it, but noise does not.

use schemars::JsonSchema;
use serde::Serialize;

use super::drift::{is_drift, shows_machine};
use super::failures::{CellFailures, Failures};
use super::no_ratio::NoRatioReason;
use super::order::Confounding;
use super::repeats::{unestimated_control, unrecorded_controls};
use super::starts::{self, StartTest};
use super::verdict::{append, with_differences};
use super::{CellRepeats, ComparisonRow, RunDifference, ServerStarts, SideRepeats};
use crate::metric::{Better, METRICS, Metric};
use crate::number_format::{self, percent};
use crate::stats::{ALPHA, Estimate, PairUnit, skew_clause, weighted_holm};

/// Short names that gates may use, each with the key of its metric.
const SHORT_NAMES: [(&str, &str); 7] = [
    ("throughput", "throughput_rps"),
    ("rps", "throughput_rps"),
    ("cpu_us_per_request", "server_cpu_us_per_request"),
    ("p50", "response_p50_us"),
    ("p90", "response_p90_us"),
    ("p99", "response_p99_us"),
    ("memory", "server_memory_bytes"),
];

/// Smallest percentage of a gate. A gate stores 1 + share, and a smaller share would lose digits.
const MIN_PERCENT: f64 = 0.001;

/// The largest allowed change of a metric for the worse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    pub metric: &'static Metric,
    /// Limit of the ratio `b` ÷ `a`: an upper limit if it is above 1, otherwise a lower limit.
    pub ratio: f64,
}

impl Gate {
    /// Parses a list of gates, such as `cpu_us_per_request>+3%,p99>+10%,throughput<-2%`.
    ///
    /// # Errors
    ///
    /// A message with the mistake and the correct form.
    pub fn parse(text: &str) -> Result<Vec<Gate>, String> {
        text.split(',').map(|gate| Gate::parse_one(gate.trim())).collect()
    }

    /// Parses a single gate.
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
                "{text:?}: `>` needs a positive percentage, and `<` a negative one\nhint: write \
                 `>+` for an increase, or `<-` for a decrease"
            ));
        }
        if is_miss_above != is_above {
            return Err(format!(
                "{text:?}: would reject an improvement, because a {} {name} is better\nhint: write \
                 `{name}{}{}%`",
                if is_miss_above { "lower" } else { "higher" },
                if is_miss_above { ">+" } else { "<-" },
                share.abs()
            ));
        }
        if share.abs() < MIN_PERCENT {
            return Err(format!(
                "{text:?}: too small a change to measure\nhint: use at least {MIN_PERCENT} %"
            ));
        }
        if share <= -100.0 {
            return Err(format!(
                "{text:?}: this gate can never fail, because no metric falls by more than 100 \
                 %\nhint: use a percentage below 100 %"
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

    /// Whether a ratio is beyond the limit of the gate.
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
            "{name:?}: not a metric that can be compared\nhint: use a short name ({}) or a key \
             ({})",
            short.join(", "),
            keys.join(", ")
        )
    })
}

/// Outcome of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// The metric is within the gate, and the repeats would have shown a forbidden change.
    Held,
    /// The metric is worse than allowed, and the change is significant.
    Missed,
    /// No forbidden change is shown, but the repeats may have missed one.
    Undecided,
}

/// The result of a gate in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GateResult {
    pub gate: String,
    pub subject_a: String,
    pub subject_b: String,
    pub workload: String,
    /// Index of the compared row among the result's rows.
    pub row: usize,
    pub state: GateState,
    pub sentence: String,
}

/// Decides each gate in every cell that has its metric.
///
/// All tests of ratios and of failures are corrected together (Holm): if nothing changed, the
/// chance that any gate is missed is at most [`ALPHA`]. Gates do not apply to controls, which show
/// how much the machine changed between two runs.
pub(super) fn decide(
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
        let (state, sentence) = cell.decide(&family);
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

/// Inputs for the decision on gates.
struct Evidence<'a> {
    rows: &'a [ComparisonRow],
    repeats: &'a [CellRepeats],
    starts: Vec<StartTest<'a>>,
    order: Confounding,
    /// Sentence on a control that lacks records, so it cannot show whether the machine changed.
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
    /// Rows of controls in which the same metric changed significantly.
    controls: Vec<&'a ComparisonRow>,
    /// Failed repeats and failed requests, without those of `b` that controls explain.
    failures: CellFailures<'a>,
    /// Test of all starts of the server; `None`: `b` does not have the server.
    starts: Option<StartTest<'a>>,
    /// Why a control cannot show whether the machine changed; `None`: no control lacks records or
    /// values.
    missing_control: Option<String>,
}

/// A test of a gate.
#[derive(Clone, Copy, PartialEq)]
enum Test<'a> {
    /// The ratio of the row at this index.
    Ratio(usize),
    /// Failed repeats of a cell, with their numbers. Gates in the cell with equal numbers share
    /// this test.
    Repeats(&'a CellRepeats, (Failures, Failures)),
    /// Failed requests of a cell. All gates in the cell share this test.
    Requests(&'a CellRepeats),
    /// Starts of a server with failures. All gates on the server share this test.
    Starts(StartTest<'a>),
}

/// Share of [`ALPHA`] for tests of starts, if there are any. A test of starts covers all steps of a
/// server, so it finds failures that are too rare for the tests of single cells.
const STARTS_PART: f64 = 0.2;

/// All tests of the gates, each with its p-value, adjusted for the number of tests.
struct Family<'a>(Vec<(Test<'a>, f64)>);

impl<'a> Family<'a> {
    /// Collects the tests of all gates, each once, and adjusts their p-values.
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

    /// Returns the weight of each test. The tests of starts share [`STARTS_PART`] equally, and the
    /// other tests share the rest equally.
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

    /// Returns the number of tests for which the interval of a ratio is adjusted. With this number
    /// of tests of equal weight, each test gets the part of [`ALPHA`] that a ratio test gets in
    /// this family.
    fn equal_tests(&self) -> usize {
        let others = self.0.iter().filter(|(test, _)| !matches!(test, Test::Starts(_))).count();
        let others_part = if others == self.0.len() { 1.0 } else { 1.0 - STARTS_PART };
        (others as f64 / others_part).ceil() as usize
    }

    /// Returns the adjusted p-value of a test; `None`: there is no test.
    fn p(&self, test: Option<(Test<'a>, f64)>) -> Option<f64> {
        let (test, _) = test?;
        self.0.iter().find(|(known, _)| *known == test).map(|(_, p)| *p)
    }
}

impl<'a> GateCell<'a> {
    /// Collects the evidence for a gate on the row with this index.
    fn new(gate: Gate, index: usize, evidence: &'a Evidence<'a>) -> GateCell<'a> {
        let row = &evidence.rows[index];
        let cell = evidence.repeats.iter().find(|cell| cell.has_row(row));
        let cell = cell.expect("each row should belong to a cell");
        GateCell {
            gate,
            index,
            row,
            cell,
            order: evidence.order,
            controls: controls_of(row, evidence.rows),
            failures: CellFailures::new(cell, row, evidence.repeats),
            starts: evidence.starts.iter().copied().find(|test| {
                (&test.server.subject_a, &test.server.subject_b) == (&row.subject_a, &row.subject_b)
            }),
            missing_control: evidence
                .unrecorded
                .clone()
                .or_else(|| missing_control(gate.metric, evidence)),
        }
    }

    /// Returns the tests of the gate, each with its p-value.
    fn tests(&self) -> [Option<(Test<'a>, f64)>; 4] {
        [self.ratio_test(), self.repeat_test(), self.request_test(), self.start_test()]
    }

    /// Returns the estimate that may decide the gate. `None`: there is none, or it comes from
    /// rounds of turns within too few starts.
    fn estimate(&self) -> Option<Estimate> {
        self.row.estimate.filter(|_| self.row.unit != Some(PairUnit::Rounds))
    }

    /// Returns the test of the ratio; `None`: no estimate.
    fn ratio_test(&self) -> Option<(Test<'a>, f64)> {
        Some((Test::Ratio(self.index), self.estimate()?.p))
    }

    /// Returns the test of failed repeats; `None`: no repeat failed.
    fn repeat_test(&self) -> Option<(Test<'a>, f64)> {
        let test = Test::Repeats(self.cell, self.failures.repeats);
        Some((test, self.failures.p_of_repeats()?))
    }

    /// Returns the test of failed requests; `None`: no request failed.
    fn request_test(&self) -> Option<(Test<'a>, f64)> {
        Some((Test::Requests(self.cell), self.failures.p_of_requests()?))
    }

    /// Returns the test of the server's starts; `None`: no start has failures.
    fn start_test(&self) -> Option<(Test<'a>, f64)> {
        Some((Test::Starts(self.starts?), self.starts?.p()?))
    }

    /// Returns the reason why the gate is missed regardless of the ratio: the server failed.
    fn failure_sentence(&self, family: &Family<'a>) -> Option<String> {
        // Noise does not cause incorrect responses, so no test is needed.
        if self.row.b_broke {
            return Some(BROKE.into());
        }
        if let Some(starts) = self.starts.filter(StartTest::is_broken) {
            return starts.server.breaks_sentence();
        }
        let significant = |test: Option<(Test<'a>, f64)>| family.p(test).filter(|p| *p < ALPHA);
        if let Some(p) = significant(self.repeat_test()) {
            return Some(self.failures.repeats_sentence(p));
        }
        if let Some(p) = significant(self.request_test()) {
            return Some(self.failures.requests_sentence(p));
        }
        if let Some(starts) = self.starts.filter(StartTest::is_separated) {
            return Some(starts.separation_sentence());
        }
        let starts = self.starts?;
        let p = significant(self.start_test())?;
        Some(starts.sentence(p))
    }

    /// Returns the state of the gate and its reason. `None`: the row's sentence is the reason.
    fn decide(&self, family: &Family<'a>) -> (GateState, Option<String>) {
        if let Some(failure) = self.failure_sentence(family) {
            return (GateState::Missed, Some(self.with_repeats(failure)));
        }
        let Some(estimate) = self.estimate() else {
            let text = self
                .cell
                .sentence
                .as_ref()
                .map(|excluded| format!("{}; {excluded}", self.row.sentence));
            return (GateState::Undecided, text);
        };
        let p = family.p(self.ratio_test()).expect("each estimate should have a test");
        let (state, text) = self.ratio_verdict(estimate.with_tests(family.equal_tests()), p);
        let text = if self.row.is_skewed() { append(&text, &skew_clause(&[])) } else { text };
        if let Some(reason) = self.order.gate_note() {
            return (GateState::Undecided, Some(self.with_repeats(append(&text, reason))));
        }
        if state == GateState::Held
            && let Some(reason) = self.missing_evidence(&text)
        {
            return (GateState::Undecided, Some(reason));
        }
        (state, Some(self.with_repeats(text)))
    }

    /// Returns why a gate is undecided although the ratio is within its limit; `None`: the gate is
    /// held. `text`: the change of the metric.
    fn missing_evidence(&self, text: &str) -> Option<String> {
        // Pairs that are all within the limit need no interval.
        let is_any_beyond = self.row.pairs.iter().any(|ratio| self.gate.is_exceeded_by(*ratio));
        if self.row.is_skewed() && is_any_beyond {
            return Some(format!(
                "{text}. The gate is undecided. Use a fixed number of repeats (a suite without \
                 `[stop]`)."
            ));
        }
        // The included repeats may be better than the excluded ones.
        if let Some(excluded) = &self.cell.sentence
            && !self.cell.are_all_counted_for(self.gate.metric)
        {
            return Some(format!(
                "{text} in the included repeats, but the gate is undecided: {excluded}"
            ));
        }
        if let Some(reason) = self.starts.and_then(|starts| starts.server.checks.gate_note()) {
            return Some(format!("{text}, but the gate is undecided: {reason}"));
        }
        if self.starts.is_some_and(|starts| starts.is_in_doubt()) {
            return Some(format!(
                "{text}, but the gate is undecided: more starts of B than of A may have failures. \
                 In some starts of A, requests failed for a cause that is unknown or outside of \
                 the server."
            ));
        }
        // Repeats in turns form a pair only if the two subjects took turns with each other.
        if self.lacks_pairs() {
            let (pairs, planned) = (self.row.pairs.len(), self.cell.a.planned);
            return Some(format!(
                "{text} in {pairs} of {planned} pairs of repeats. The gate is undecided, because \
                 in the other pairs the servers did not take turns with each other, a value is \
                 missing, or the run was interrupted between the two."
            ));
        }
        // The machine may have dropped packets of failed requests, so the cause is unknown. If that
        // concerns A only, it is unknown whether B fails more requests.
        let (a, b) = (&self.cell.a, &self.cell.b);
        if b.with_doubtful_failures > 0 || a.with_doubtful_failures > 0 && b.with_failures > 0 {
            return Some(self.with_repeats(text.into()));
        }
        let reason = self.missing_control.as_ref()?;
        Some(self.with_repeats(append(text, reason)))
    }

    /// Whether some included repeats of one run are not in a pair.
    fn lacks_pairs(&self) -> bool {
        let pairs = self.row.pairs.len();
        let included = |side: &SideRepeats| side.counted_for(self.gate.metric);
        pairs > 0 && pairs < included(&self.cell.a).max(included(&self.cell.b))
    }

    /// Appends the sentence on excluded repeats and failed requests, if there is one.
    fn with_repeats(&self, text: String) -> String {
        match &self.cell.sentence {
            Some(excluded) => append(&text, excluded),
            None => text,
        }
    }

    /// Returns the state by the ratio alone, with its reason. `p`: adjusted p-value of the ratio.
    fn ratio_verdict(&self, estimate: Estimate, p: f64) -> (GateState, String) {
        let gate = self.gate;
        let change = format!("the metric changed by {}", signed_percent(estimate.ratio - 1.0));
        if gate.is_exceeded_by(estimate.ratio) && p >= ALPHA {
            let detectable = detectable_text(estimate);
            let text = format!("{change}, which may be chance. {detectable} Use more repeats.");
            return (GateState::Undecided, text);
        }
        if gate.is_exceeded_by(estimate.ratio) {
            let changes = self.remaining_changes(estimate);
            let same_direction = changes.filter(|change| change.is_in_direction_of(gate));
            // The control with the largest change decides.
            let largest =
                same_direction.max_by(|a, b| a.control_change().total_cmp(&b.control_change()));
            let significant = format!(
                "{change}, which is significant ({}, corrected for the number of gates)",
                number_format::p_value(p)
            );
            return match largest {
                None => (GateState::Missed, significant),
                Some(remaining) if remaining.misses(gate) => {
                    (GateState::Missed, format!("{significant}; {}", remaining.in_words()))
                }
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
                "{change}, with an interval of {range}. A part of this interval is beyond the \
                 limit of the gate. Use more repeats."
            );
            return (GateState::Undecided, text);
        }
        // If the machine became faster and the server did not, the server became slower. One
        // control is enough to show that the machine changed.
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

    /// Returns, for each control that changed, the change of the metric that remains after the
    /// control's change is removed.
    fn remaining_changes(&self, change: Estimate) -> impl Iterator<Item = RemainingChange<'a>> {
        self.controls.iter().filter_map(move |row| RemainingChange::new(row, change))
    }
}

/// States the smallest difference that the repeats would show, as a sentence.
fn detectable_text(estimate: Estimate) -> String {
    estimate.detectable.map_or_else(
        || "So few repeats cannot show any difference.".into(),
        |ratio| {
            let change = number_format::change(ratio);
            format!("The smallest difference that these repeats can show is {change}.")
        },
    )
}

/// Describes a control whose repeats or values are missing, so that no control has an estimate of a
/// metric. `None`: a control has an estimate, controls have no values by design, or the metric of a
/// control does not show changes of the machine.
fn missing_control(metric: &Metric, evidence: &Evidence<'_>) -> Option<String> {
    if !shows_machine(metric.key) {
        return None;
    }
    let is_control = |row: &&ComparisonRow| row.control && row.metric == metric.key;
    let controls: Vec<&ComparisonRow> = evidence.rows.iter().filter(is_control).collect();
    if controls.iter().any(|control| control.estimate.is_some()) {
        return None;
    }
    unestimated_control(evidence.repeats, metric).or_else(|| {
        controls.iter().find_map(|control| partly_unknown(control, evidence.repeats, metric))
    })
}

/// Describes a control for which some values of a metric are unknown, so the metric has no
/// estimate. `None`: the control has all values, or none by design.
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
            "the {} of the control {} is unknown in {} of A and {} of B, so the control cannot \
             show whether the machine changed",
            row.title,
            row.subject_a,
            number_format::plural(a as u64, "repeat"),
            number_format::plural(b as u64, "repeat")
        )
    })
}

/// Returns the rows of controls in which the same metric changed. If a control was measured at the
/// same workload and step, rows of other workloads and steps are omitted.
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

/// The change that remains after the change of a control is removed: the server's ratio divided by
/// the control's. The interval includes the errors of both ratios.
struct RemainingChange<'a> {
    name: &'a str,
    /// Estimate of the control.
    control: Estimate,
    ratio: f64,
    low: f64,
    high: f64,
}

impl<'a> RemainingChange<'a> {
    /// Removes the change of a control's row. `None`: the row has no estimate.
    fn new(row: &'a ComparisonRow, change: Estimate) -> Option<RemainingChange<'a>> {
        let control = row.estimate?;
        Some(RemainingChange {
            name: &row.subject_a,
            control,
            ratio: change.ratio / control.ratio,
            low: change.low / control.high,
            high: change.high / control.low,
        })
    }

    /// Returns the size of the control's change: the absolute logarithm of its ratio.
    fn control_change(&self) -> f64 {
        self.control.ratio.ln().abs()
    }

    /// Whether the control changed in the direction that a gate forbids.
    fn is_in_direction_of(&self, gate: Gate) -> bool {
        (self.control.ratio > 1.0) == (gate.ratio > 1.0)
    }

    /// Whether the remaining change exceeds a gate, and its interval excludes 1.
    fn misses(&self, gate: Gate) -> bool {
        let excludes_1 = if gate.ratio > 1.0 { self.low > 1.0 } else { self.high < 1.0 };
        gate.is_exceeded_by(self.ratio) && excludes_1
    }

    /// Returns a statement on the control's change and the remaining change.
    fn in_words(&self) -> String {
        format!(
            "the control {} changed by {}, and relative to it the metric changed by {} ({} to {})",
            self.name,
            signed_percent(self.control.ratio - 1.0),
            signed_percent(self.ratio - 1.0),
            signed_percent(self.low - 1.0),
            signed_percent(self.high - 1.0)
        )
    }
}

const BROKE: &str = "most repeats of B are excluded, because the server of B gave incorrect \
                     responses, failed or never started. The server of A worked in most repeats";

/// Formats a change with its sign, such as `+3.1 %` or `−2 %`.
fn signed_percent(share: f64) -> String {
    /// Smaller shares are rounding errors of floating-point divisions.
    const MIN_SHARE: f64 = 1e-9;
    if share.abs() < MIN_SHARE {
        return percent(0.0);
    }
    format!("{}{}", if share < 0.0 { "−" } else { "+" }, percent(share.abs()))
}
