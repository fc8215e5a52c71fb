//! Summarizes each cell of a run over its repeats. A cell is an arm with a workload at a step.

use dyno_model::plan::Plan;
use schemars::JsonSchema;
use serde::Serialize;

use crate::backend::{self, BackendSummary};
use crate::caveat::{Code, Severity};
use crate::cell::{CellKey, Shape};
use crate::grid::{Cell, Grid};
use crate::load::Percentiles;
use crate::load::percentile_value::StepUnanswered;
use crate::machine::MachineResult;
use crate::metric::{self, ByMetric, MetricId, MetricSummary};
use crate::probe_results::InsideSummary;
use crate::stats::Repeated;
use crate::trial::TrialResult;
use crate::use_method::use_table;
use crate::use_row::UseRow;
use crate::verdict::{Confidence, Limiter, Resource};

/// One cell over all its repeats. Invalid trials are excluded from all metrics except the share of
/// errors, and those that only the generator limited are included in the cost of a request
/// ([`crate::metric::TrialSelection`]).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    pub cell: CellKey,
    pub subject: String,
    pub workload: String,
    /// Index among the plan's steps.
    pub step: usize,
    #[serde(flatten)]
    pub shape: Shape,
    /// Requests in flight: connections × streams × pipeline.
    pub in_flight: u64,
    pub trials: usize,
    pub invalid: usize,
    /// Unanswered requests. A percentile of the response time that lies among them is longer than
    /// their `longest_wait`.
    pub response_unanswered: StepUnanswered,
    /// The subject's back ends.
    pub backends: Vec<BackendSummary>,
    pub inside: InsideSummary,
    /// USE table (utilisation, saturation, errors) of the valid repeat with the median throughput,
    /// or of the first repeat.
    pub use_table: Vec<UseRow>,
    /// Activity of the machine in the repeat of `use_table`.
    pub machine: MachineResult,
    /// Every known metric by its key.
    pub metrics: ByMetric,
    /// Bottleneck of most repeats; without a majority, the most frequent one with low confidence.
    pub limiter: Resource,
    pub limiter_confidence: Confidence,
    pub limiter_sentence: String,
    /// Caveats of severity `warning` or `invalid` that any repeat has.
    pub caveats: Vec<StepCaveat>,
}

impl Summary {
    /// Returns a metric over the repeats; `None`: unknown.
    #[must_use]
    pub fn metric(&self, id: MetricId) -> Option<&MetricSummary> {
        self.metrics.get(&id)
    }

    /// Returns the values of a metric over the repeats; without values if the metric is unknown.
    #[must_use]
    pub fn values(&self, id: MetricId) -> &Repeated {
        metric::repeats_of(&self.metrics, id)
    }

    /// Returns the median of a metric over the repeats; `None`: unknown (see [`Repeated::median`]).
    #[must_use]
    pub fn median_of(&self, id: MetricId) -> Option<f64> {
        self.values(id).median
    }
}

/// A caveat of a cell, with the number of repeats that have it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepCaveat {
    pub code: Code,
    /// The highest severity among those repeats.
    pub severity: Severity,
    pub repeats: usize,
    /// The message in the first of those repeats.
    pub message: String,
}

/// Summarizes every cell that has trials, in the plan's order.
#[must_use]
pub fn summaries(plan: &Plan, grid: &Grid<'_>) -> Vec<Summary> {
    grid.cells().map(|(key, cell)| summary(plan, key, cell)).collect()
}

/// Summarizes one cell.
fn summary(plan: &Plan, key: CellKey, cell: &Cell<'_>) -> Summary {
    let trials = cell.trials();
    let valid: Vec<&TrialResult> = cell.valid().collect();
    let response: Vec<&Percentiles> = valid.iter().map(|t| &t.load.response_time_us).collect();
    // The limiters of invalid repeats do not apply to the numbers of valid ones.
    let counted_trials = if valid.is_empty() { trials } else { &valid };
    let verdicts: Vec<&Limiter> = counted_trials.iter().map(|t| &t.limiter).collect();
    let leading = leading_limiter(&verdicts);
    let middle = median_trial(&valid).unwrap_or(trials[0]);
    Summary {
        cell: key,
        subject: plan.arms[key.arm].name.clone(),
        workload: plan.workloads[key.workload].name.clone(),
        step: key.step,
        shape: Shape::from_step(&plan.load.steps[key.step]),
        in_flight: trials[0].step.in_flight,
        trials: trials.len(),
        invalid: trials.len() - valid.len(),
        response_unanswered: StepUnanswered::new(&response),
        backends: backend::cell_backends(cell),
        inside: InsideSummary::from_cell(cell),
        use_table: use_table(middle),
        machine: middle.machine.clone(),
        metrics: cell.metrics(),
        limiter: leading.resource,
        limiter_confidence: leading.confidence,
        limiter_sentence: leading.sentence,
        caveats: step_caveats(trials),
    }
}

/// Returns the trial with the median throughput, or the lower one of two middle trials.
fn median_trial<'a>(trials: &[&'a TrialResult]) -> Option<&'a TrialResult> {
    let mut sorted = trials.to_vec();
    sorted.sort_by(|a, b| a.load.throughput_rps.total_cmp(&b.load.throughput_rps));
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// Returns the caveats of a step's trials, the most severe first.
fn step_caveats(trials: &[&TrialResult]) -> Vec<StepCaveat> {
    let mut caveats: Vec<StepCaveat> = Vec::new();
    for caveat in trials.iter().flat_map(|t| &t.caveats).filter(|c| c.severity > Severity::Info) {
        match caveats.iter_mut().find(|c| c.code == caveat.code) {
            Some(known) => {
                known.repeats += 1;
                // The message gives the reason of the severity.
                if caveat.severity > known.severity {
                    (known.severity, known.message) = (caveat.severity, caveat.message.clone());
                }
            }
            None => caveats.push(StepCaveat {
                code: caveat.code,
                severity: caveat.severity,
                repeats: 1,
                message: caveat.message.clone(),
            }),
        }
    }
    caveats.sort_by_key(|c| std::cmp::Reverse(c.severity));
    caveats
}

/// Returns the verdict of most repeats: the first one with the median of their confidences, or with
/// the lower one of two middle confidences. Without a majority, it is the first of the most
/// frequent verdicts, with low confidence.
fn leading_limiter(verdicts: &[&Limiter]) -> Limiter {
    let votes = |r: Resource| verdicts.iter().filter(|v| v.resource == r).count();
    let max_votes = verdicts.iter().map(|v| votes(v.resource)).max().unwrap_or(0);
    let first = verdicts
        .iter()
        .find(|v| votes(v.resource) == max_votes)
        .expect("a cell should have trials");
    if 2 * max_votes > verdicts.len() {
        let leading = || verdicts.iter().filter(|v| v.resource == first.resource);
        let mut confidences: Vec<Confidence> = leading().map(|v| v.confidence).collect();
        confidences.sort();
        let median = confidences[confidences.len() / 2];
        let typical = leading().find(|v| v.confidence == median).unwrap_or(first);
        return Limiter::clone(typical);
    }
    let doubt = format!(
        " Only {max_votes} of {} repeats have this verdict. The verdicts of the other repeats \
         differ from it.",
        verdicts.len()
    );
    first.weaken(Confidence::Low, &doubt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::five_block_report;

    #[test]
    fn summary_excludes_invalid_trials_from_metrics() {
        let report = five_block_report();
        assert_eq!(report.summaries.len(), 3 * 2 * 2);
        let fast = &report.summaries[4];
        assert_eq!((fast.subject.as_str(), fast.workload.as_str(), fast.step), ("fast", "w", 0));
        assert_eq!(
            (fast.trials, fast.invalid, &fast.values(MetricId::Throughput).values[..]),
            (5, 2, &[401.0, 403.0, 404.0][..])
        );
        // The failed repeat is not what limits the others.
        assert_eq!(fast.limiter, Resource::Unknown);
        let caveats: Vec<_> =
            fast.caveats.iter().map(|c| (c.code, c.severity, c.repeats)).collect();
        assert_eq!(
            caveats,
            [
                (Code::SUBJECT_FAILED, Severity::Invalid, 1),
                (Code::CHECKS_FAILED, Severity::Invalid, 2)
            ]
        );
    }

    #[test]
    fn majority_limiter_has_median_confidence() {
        use Confidence::{High, Low, Medium};
        for (confidences, confidence) in [
            (&[High][..], High),
            (&[High, Low, Low], Low),
            (&[Low, High, High], High),
            (&[High, Medium], Medium),
            (&[Low, Medium, High], Medium),
        ] {
            let verdict = |confidence: &Confidence| {
                let evidence = serde_json::json!({});
                Limiter::new(Resource::ServerCpu, *confidence, "It.".into(), evidence)
            };
            let mut verdicts: Vec<Limiter> = confidences.iter().map(verdict).collect();
            let other = Limiter::new(Resource::Lock, High, "It.".into(), serde_json::json!({}));
            verdicts.extend((confidences.len() > 1).then_some(other));
            let leading = leading_limiter(&verdicts.iter().collect::<Vec<_>>());
            assert_eq!(leading.confidence, confidence, "{confidences:?}");
        }
    }

    #[test]
    fn step_caveat_has_message_of_its_severity() {
        let mut trials = five_block_report().trials;
        trials.truncate(3);
        for (trial, severity) in
            trials.iter_mut().zip([Severity::Warning, Severity::Invalid, Severity::Warning])
        {
            let message = format!("{severity:?}");
            let evidence = serde_json::json!({});
            trial.caveats =
                vec![crate::Caveat::new(Code::GENERATOR_BUSY, severity, message, evidence)];
        }
        let caveats = step_caveats(&trials.iter().collect::<Vec<_>>());
        let [caveat] = &caveats[..] else { panic!("{caveats:?}") };
        assert_eq!((caveat.severity, caveat.repeats), (Severity::Invalid, 3));
        assert_eq!(caveat.message, "Invalid");
    }

    #[test]
    fn limiter_without_majority_has_low_confidence() {
        use Confidence::{High, Low};
        use Resource::{Concurrency, Generator, ServerCpu};
        for (resources, resource, confidence) in [
            (&[ServerCpu][..], ServerCpu, High),
            (&[Generator, ServerCpu, ServerCpu], ServerCpu, High),
            (&[ServerCpu, Generator, Concurrency], ServerCpu, Low),
            (&[Generator, ServerCpu], Generator, Low),
            (&[Generator, ServerCpu, ServerCpu, Generator], Generator, Low),
        ] {
            let verdict = |resource: &Resource| {
                Limiter::new(*resource, High, "It.".into(), serde_json::json!({}))
            };
            let verdicts: Vec<Limiter> = resources.iter().map(verdict).collect();
            let leading = leading_limiter(&verdicts.iter().collect::<Vec<_>>());
            assert_eq!(
                (leading.resource, leading.confidence),
                (resource, confidence),
                "{resources:?}"
            );
            assert_eq!(leading.sentence != "It.", confidence == Low, "{}", leading.sentence);
        }
    }
}
