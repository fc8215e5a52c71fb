//! Gates: how much worse a metric may get.

use schemars::JsonSchema;
use serde::Serialize;

use super::verdict::although;
use super::{Difference, Row};
use crate::metric::{Better, METRICS, Metric};
use crate::stats::{ALPHA, Estimate, Over, holm};
use crate::words::percent;

/// Short names that gates may use.
const SHORT: [(&str, &str); 7] = [
    ("throughput", "throughput_rps"),
    ("rps", "throughput_rps"),
    ("cpu_us_per_request", "server_cpu_us_per_request"),
    ("p50", "response_p50_us"),
    ("p90", "response_p90_us"),
    ("p99", "response_p99_us"),
    ("memory", "server_memory_bytes"),
];

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
    /// What is wrong, and how it is written.
    pub fn parse(text: &str) -> Result<Vec<Gate>, String> {
        text.split(',').map(|one| Gate::one(one.trim())).collect()
    }

    fn one(text: &str) -> Result<Gate, String> {
        let wrong = || format!("{text:?} is no gate; write `cpu_us_per_request>+3%` or `throughput<-2%`");
        let at = text.find(['<', '>']).ok_or_else(wrong)?;
        let (name, rest) = (text[..at].trim(), text[at + 1..].trim());
        let is_above = text[at..].starts_with('>');
        let metric = metric(name)?;
        let share = rest.strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok()).ok_or_else(wrong)?;
        let wants_above = match metric.better {
            Better::Lower => true,
            Better::Higher => false,
            Better::Neither => is_above,
        };
        if !share.is_finite() || share == 0.0 || (share > 0.0) != is_above {
            return Err(format!(
                "{text:?} is missed by a change the other way; write a `>` with a `+`, or a `<` with a `-`"
            ));
        }
        if wants_above != is_above {
            return Err(format!(
                "{text:?} would fail what got better: of {name} the {} is the better",
                if wants_above { "lower" } else { "higher" }
            ));
        }
        if share <= -100.0 {
            return Err(format!("{text:?} can never be missed: nothing falls by more than 100 %"));
        }
        Ok(Gate { metric, ratio: 1.0 + share / 100.0 })
    }

    /// As it is written.
    #[must_use]
    pub fn text(&self) -> String {
        let sign = if self.ratio > 1.0 { ">+" } else { "<-" };
        // Rounded to what was written: 1.03 is not exactly 1 + 0.03.
        let share = ((self.ratio - 1.0).abs() * 1e10).round() / 1e8;
        format!("{}{sign}{share}%", self.metric.key)
    }

    /// Whether a ratio is beyond the gate.
    fn is_beyond(&self, ratio: f64) -> bool {
        if self.ratio > 1.0 { ratio > self.ratio } else { ratio < self.ratio }
    }
}

/// The metric of a name, or of a short one.
///
/// # Errors
/// There is none with ratios, as a sentence.
pub fn metric(name: &str) -> Result<&'static Metric, String> {
    let key = SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, key)| key);
    let comparable = || METRICS.iter().filter(|metric| metric.has_ratios());
    comparable().find(|metric| metric.key == key).ok_or_else(|| {
        let short: Vec<&str> = SHORT.iter().map(|(short, _)| *short).collect();
        let all: Vec<&str> = comparable().map(|metric| metric.key).collect();
        format!(
            "there is no metric {name:?} to compare by; there are {} and {}",
            short.join(", "),
            all.join(", ")
        )
    })
}

/// What became of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// It is as it should be, and what the gate forbids would have been found.
    Held,
    /// It is worse than it may be, and that is no chance.
    Missed,
    /// Nothing is shown, and what the gate forbids may have been overlooked.
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

/// Judges gates over all rows of their metrics. The chance that any of them is missed where nothing changed is at most [`ALPHA`]
/// (Holm). `drift`: the machine has changed between the sides, in words; then nothing is missed but what
/// broke.
pub(super) fn judge(
    gates: &[Gate],
    rows: &[Row],
    drift: Option<&str>,
    differences: &[Difference],
) -> Vec<GateResult> {
    let each = gates.iter().flat_map(|gate| {
        let of_gate =
            rows.iter().enumerate().filter(|(_, row)| row.metric == gate.metric.key && !row.control);
        of_gate.map(move |(index, row)| (gate, index, row))
    });
    let each: Vec<(&Gate, usize, &Row)> = each.collect();
    let ps: Vec<f64> = each.iter().filter_map(|(_, _, row)| tested(row)).collect();
    let mut adjusted = holm(&ps).into_iter();
    let result = |(gate, index, row): &(&Gate, usize, &Row)| {
        let estimate = decides(row).map(|estimate| estimate.among(ps.len()));
        let p = tested(row).map(|_| adjusted.next().expect("each that is tested has a chance"));
        let (state, sentence) = match state(gate, row, (estimate, p), drift) {
            (state, Some(sentence)) => (state, although(sentence, differences)),
            // It says so itself.
            (state, None) => (state, row.sentence.clone()),
        };
        GateResult {
            gate: gate.text(),
            subject_a: row.subject_a.clone(),
            subject_b: row.subject_b.clone(),
            workload: row.workload.clone(),
            row: *index,
            state,
            sentence,
        }
    };
    each.iter().map(result).collect()
}

/// The estimate of a row that a gate may be decided by.
fn decides(row: &Row) -> Option<Estimate> {
    row.estimate.filter(|_| row.over != Some(Over::Rounds))
}

/// The chance that a row tests: of its ratio, or, where it has none, of what B lost.
fn tested(row: &Row) -> Option<f64> {
    decides(row).map(|estimate| estimate.p).or(row.p_lost)
}

/// `p`: with all others that are gated allowed for. The sentence is `None` where the row says what there is to say.
fn state(
    gate: &Gate,
    row: &Row,
    (estimate, p): (Option<Estimate>, Option<f64>),
    drift: Option<&str>,
) -> (GateState, Option<String>) {
    // No noise answers wrong, and no machine is slow in that way.
    if row.b_broke {
        const BROKE: &str = "most repeats of B do not count, because its server answered wrong, failed or never came up, and most of A do";
        return (GateState::Missed, Some(BROKE.into()));
    }
    let Some(estimate) = estimate else {
        // Whoever leaves requests without an answer has made nothing better.
        const LOST: &str = "it is not known of B, of which more repeats than of A left requests without an answer, and that is no chance";
        return match p.filter(|p| *p < ALPHA && drift.is_none()) {
            Some(p) => (GateState::Missed, Some(format!("{LOST} ({})", of_chance(p)))),
            None => (GateState::Undecided, None),
        };
    };
    let p = p.expect("what has an estimate is tested");
    let change = format!("it changed by {}", signed(estimate.ratio - 1.0));
    if let Some(drift) = drift {
        return (GateState::Undecided, Some(format!("{change}, but {drift}")));
    }
    if gate.is_beyond(estimate.ratio) {
        return if p < ALPHA {
            (GateState::Missed, Some(format!("{change}, and that is no chance ({})", of_chance(p))))
        } else {
            let would = estimate.detectable.map_or_else(
                || "with so few repeats none would have been found".into(),
                |least| format!("a difference of {} would have been found", percent(least - 1.0)),
            );
            (
                GateState::Undecided,
                Some(format!("{change}, which may be chance; {would}. Ask for more repeats.")),
            )
        };
    }
    if !gate.is_beyond(estimate.low) && !gate.is_beyond(estimate.high) {
        return (GateState::Held, Some(change));
    }
    let range = format!("{} to {}", signed(estimate.low - 1.0), signed(estimate.high - 1.0));
    let sentence =
        format!("{change}; it may be {range}, which the gate does not all allow. Ask for more repeats.");
    (GateState::Undecided, Some(sentence))
}

/// `p 0.012`, or `p below 0.001`.
fn of_chance(p: f64) -> String {
    if p < 0.001 { "p below 0.001".into() } else { format!("p {p:.3}") }
}

/// `+3.1 %`, `−2 %`.
fn signed(share: f64) -> String {
    format!("{}{}", if share < 0.0 { "−" } else { "+" }, percent(share.abs()))
}
