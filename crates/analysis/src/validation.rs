//! Computes the accuracy of verdicts on servers with known bottlenecks, in the format
//! `dyno.validation/1`.

use serde::Serialize;
use serde_json::Value;

use crate::caveat::{Code, Severity};
use crate::trial::TrialResult;
use crate::verdict::{Confidence, Limiter, Resource};

pub const SCHEMA: &str = "dyno.validation/1";

/// The user that dyno and the servers ran as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum User {
    Root,
    Ordinary,
}

impl User {
    /// Returns the name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            User::Root => "root",
            User::Ordinary => "ordinary user",
        }
    }
}

/// A step of a server whose bottleneck is known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KnownStep {
    pub behaviour: String,
    /// Description of the load, such as `8 connections`.
    pub load: String,
    pub user: User,
    /// Correct verdicts. The first one is the true cause, and the others are acceptable
    /// alternatives.
    #[serde(rename = "right")]
    pub correct_verdicts: Vec<Resource>,
    pub verdict: Resource,
    pub confidence: Confidence,
    pub sentence: String,
    pub evidence: Value,
    pub throughput_rps: f64,
    /// Mean number of CPUs that programs outside of the run used during the step. `None`: not
    /// measured.
    pub others_cpus: Option<f64>,
    /// Caveats that make the step invalid; empty: the step is valid.
    pub invalid: Vec<Code>,
    /// Whether the machine is the true cause. If so, the verdict is evaluated even if the step is
    /// invalid.
    pub is_of_machine: bool,
}

impl KnownStep {
    /// Compares the verdict of a trial with the correct verdicts.
    #[must_use]
    pub fn new(
        trial: &TrialResult,
        behaviour: &str,
        load: String,
        user: User,
        correct_verdicts: Vec<Resource>,
    ) -> KnownStep {
        let Limiter { resource, confidence, sentence, evidence, .. } = trial.limiter.clone();
        let others_cpus = trial.machine.others_cpus();
        let correct_verdicts = add_other_programs(correct_verdicts, others_cpus.unwrap_or(0.0));
        let invalid_caveats = trial.caveats.iter().filter(|c| c.severity == Severity::Invalid);
        KnownStep {
            behaviour: behaviour.into(),
            load,
            user,
            correct_verdicts,
            verdict: resource,
            confidence,
            sentence,
            evidence,
            throughput_rps: trial.load.throughput_rps,
            others_cpus,
            invalid: invalid_caveats.map(|c| c.code).collect(),
            is_of_machine: false,
        }
    }

    /// Whether the verdict is evaluated.
    #[must_use]
    pub fn is_evaluated(&self) -> bool {
        self.invalid.is_empty() || self.is_of_machine
    }

    /// Whether the verdict is one of the correct verdicts.
    #[must_use]
    pub fn is_correct(&self) -> bool {
        self.correct_verdicts.contains(&self.verdict)
    }

    /// Whether the verdict is wrong, and has high confidence.
    fn is_high_wrong(&self) -> bool {
        self.confidence == Confidence::High && !self.is_correct()
    }

    /// Returns the true cause; `None`: no verdict is correct.
    fn cause(&self) -> Option<Resource> {
        self.correct_verdicts.first().copied()
    }
}

/// Minimum number of CPUs that other programs use if they count as a second cause.
const OTHERS_LIMIT: f64 = 0.2;

/// Adds `other_programs` to the correct verdicts of a CPU-bound server if other programs use many
/// CPUs. With these CPUs, the server would be faster.
fn add_other_programs(mut verdicts: Vec<Resource>, others_cpus: f64) -> Vec<Resource> {
    const USE_CPU: [Resource; 4] =
        [Resource::ServerCpu, Resource::ServerThread, Resource::Gc, Resource::Jit];
    let is_cpu_bound = verdicts.iter().any(|resource| USE_CPU.contains(resource));
    if is_cpu_bound && others_cpus >= OTHERS_LIMIT && !verdicts.contains(&Resource::OtherPrograms) {
        verdicts.push(Resource::OtherPrograms);
    }
    verdicts
}

/// A server behaviour that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotRun {
    pub behaviour: String,
    pub user: User,
    pub reason: String,
}

/// A cell of the confusion matrix: the number of steps of a cause with a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MatrixCell {
    pub cause: Resource,
    pub verdict: Resource,
    pub confidence: Confidence,
    pub steps: usize,
    /// Number of these steps for which this verdict is correct.
    #[serde(rename = "right")]
    pub correct: usize,
}

/// The result of `dyno calibrate --verdicts`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Validation {
    pub schema: &'static str,
    pub machine: String,
    /// Number of evaluated steps: valid steps, and steps whose true cause is the machine.
    pub judged: usize,
    /// Share of the evaluated steps whose verdict is correct; `None`: no step was evaluated.
    #[serde(rename = "right")]
    pub correct_share: Option<f64>,
    /// Share of the correct verdicts that have high confidence; `None`: no verdict is correct.
    #[serde(rename = "right_high")]
    pub correct_high_share: Option<f64>,
    /// Number of wrong verdicts with high confidence.
    pub high_wrong: usize,
    /// Number of steps that are not evaluated, because they are invalid.
    pub invalid: usize,
    pub matrix: Vec<MatrixCell>,
    /// Steps with wrong verdicts, with high confidence first.
    pub wrong: Vec<KnownStep>,
    pub invalid_steps: Vec<KnownStep>,
    pub not_run: Vec<NotRun>,
}

impl Validation {
    /// Computes the accuracy of the verdicts of all steps.
    #[must_use]
    pub fn new(machine: String, steps: Vec<KnownStep>, not_run: Vec<NotRun>) -> Validation {
        let (evaluated, invalid_steps): (Vec<_>, Vec<_>) =
            steps.into_iter().partition(KnownStep::is_evaluated);
        let correct: Vec<&KnownStep> = evaluated.iter().filter(|step| step.is_correct()).collect();
        let correct_count = correct.len();
        let correct_high_count =
            correct.iter().filter(|step| step.confidence == Confidence::High).count();
        let matrix = matrix(&evaluated);
        let (count, high_wrong) =
            (evaluated.len(), evaluated.iter().filter(|step| step.is_high_wrong()).count());
        let mut wrong: Vec<_> = evaluated.into_iter().filter(|step| !step.is_correct()).collect();
        wrong.sort_by_key(|step| rank(step.confidence));
        Validation {
            schema: SCHEMA,
            machine,
            judged: count,
            correct_share: share(correct_count, count),
            correct_high_share: share(correct_high_count, correct_count),
            high_wrong,
            invalid: invalid_steps.len(),
            matrix,
            wrong,
            invalid_steps,
            not_run,
        }
    }
}

/// Returns the share of a part: 0 to 1; `None`: the total is 0.
fn share(part: usize, total: usize) -> Option<f64> {
    (total > 0).then(|| part as f64 / total as f64)
}

/// Returns the place of a confidence in the matrix, the highest first.
const fn rank(confidence: Confidence) -> usize {
    match confidence {
        Confidence::High => 0,
        Confidence::Medium => 1,
        Confidence::Low => 2,
    }
}

/// Returns the confusion matrix of the evaluated steps.
fn matrix(evaluated: &[KnownStep]) -> Vec<MatrixCell> {
    let mut cells: Vec<MatrixCell> = Vec::new();
    for step in evaluated {
        let Some(cause) = step.cause() else { continue };
        let (verdict, confidence) = (step.verdict, step.confidence);
        let is_same =
            |c: &MatrixCell| (c.cause, c.verdict, c.confidence) == (cause, verdict, confidence);
        let index = cells.iter().position(is_same).unwrap_or_else(|| {
            cells.push(MatrixCell { cause, verdict, confidence, steps: 0, correct: 0 });
            cells.len() - 1
        });
        cells[index].steps += 1;
        cells[index].correct += usize::from(step.is_correct());
    }
    cells.sort_by_key(|cell| (cell.cause, cell.verdict, rank(cell.confidence)));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use Confidence::{High, Low, Medium};
    use Resource::{Concurrency, Elsewhere, Lock, Unknown, Workers};

    fn step(correct: &[Resource], verdict: Resource, confidence: Confidence) -> KnownStep {
        KnownStep {
            behaviour: "known".into(),
            load: "8 connections".into(),
            user: User::Root,
            correct_verdicts: correct.to_vec(),
            verdict,
            confidence,
            sentence: String::new(),
            evidence: Value::Null,
            throughput_rps: 1.0,
            others_cpus: None,
            invalid: Vec::new(),
            is_of_machine: false,
        }
    }

    fn validation(steps: Vec<KnownStep>) -> Validation {
        Validation::new("a machine".into(), steps, Vec::new())
    }

    #[test]
    fn validation_shares_are_of_evaluated_and_correct_steps() {
        let invalid =
            KnownStep { invalid: vec![Code::GENERATOR_BUSY], ..step(&[Lock], Unknown, Low) };
        let all = validation(vec![
            step(&[Lock], Lock, High),
            step(&[Elsewhere, Lock], Lock, Medium),
            step(&[Lock], Concurrency, Medium),
            step(&[Concurrency], Workers, High),
            invalid,
        ]);
        assert_eq!((all.judged, all.invalid, all.high_wrong), (4, 1, 1));
        assert_eq!((all.correct_share, all.correct_high_share), (Some(0.5), Some(0.5)));
        let wrong: Vec<_> = all.wrong.iter().map(|step| step.verdict).collect();
        assert_eq!(wrong, [Workers, Concurrency], "high confidence comes first");
    }

    #[test]
    fn other_programs_are_correct_for_cpu_bound_servers() {
        use Resource::{OtherPrograms, ServerCpu};
        assert_eq!(add_other_programs(vec![ServerCpu], 0.19), [ServerCpu]);
        assert_eq!(add_other_programs(vec![ServerCpu], 0.2), [ServerCpu, OtherPrograms]);
        assert_eq!(
            add_other_programs(vec![Lock, ServerCpu], 1.5),
            [Lock, ServerCpu, OtherPrograms]
        );
        assert_eq!(
            add_other_programs(vec![OtherPrograms, ServerCpu], 1.5),
            [OtherPrograms, ServerCpu]
        );
        assert_eq!(add_other_programs(vec![Lock], 1.5), [Lock]);
    }

    #[test]
    fn invalid_steps_are_not_evaluated() {
        let invalid =
            KnownStep { invalid: vec![Code::GENERATOR_BUSY], ..step(&[Lock], Workers, High) };
        let all = validation(vec![invalid]);
        assert_eq!(
            (all.judged, all.high_wrong, all.correct_share, all.correct_high_share),
            (0, 0, None, None)
        );
        assert!(all.matrix.is_empty() && all.wrong.is_empty());
    }

    #[test]
    fn invalid_steps_with_machine_as_cause_are_evaluated() {
        let invalid = vec![Code::GENERATOR_BUSY];
        let step = KnownStep { invalid, is_of_machine: true, ..step(&[Unknown], Workers, High) };
        let all = validation(vec![step]);
        assert_eq!((all.judged, all.invalid, all.high_wrong), (1, 0, 1));
    }

    #[test]
    fn validation_without_correct_steps_has_no_share() {
        let all = validation(vec![step(&[Lock], Workers, Low)]);
        assert_eq!(
            (all.correct_share, all.correct_high_share, all.high_wrong),
            (Some(0.0), None, 0)
        );
    }

    #[test]
    fn matrix_counts_by_cause_verdict_and_confidence() {
        let all = validation(vec![
            step(&[Lock], Lock, High),
            step(&[Lock, Elsewhere], Lock, High),
            step(&[Lock], Lock, Low),
            step(&[Elsewhere, Lock], Lock, High),
            step(&[Elsewhere], Lock, High),
        ]);
        let cells =
            all.matrix.iter().map(|c| (c.cause, c.verdict, c.confidence, c.steps, c.correct));
        let cells: Vec<_> = cells.collect();
        let expected =
            [(Lock, Lock, High, 2, 2), (Lock, Lock, Low, 1, 1), (Elsewhere, Lock, High, 2, 1)];
        assert_eq!(cells, expected);
    }
}
