//! Computes the result of a suite's experiment: the effect of each change between arms, and its
//! cause.
//!
//! A cause is named only if two arms differ in a single condition. With several differences, their
//! effects cannot be separated.

mod doses;

use std::collections::BTreeSet;

use dyno_model::plan::{Experiment, ExperimentKind, Plan, Subject};
use dyno_model::run::Run;
use dyno_model::start::LimitKind;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

pub use doses::DoseEffect;
use doses::doses;

use crate::compare::{self, ArmComparison, ComparisonAnswer, ComparisonRow};
use crate::design::Design;
use crate::json_difference::visit_differences;
use crate::results::Results;

/// An experiment of a suite.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ExperimentResult {
    pub kind: ExperimentKind,
    /// The varied factor, in the words of the suite's author.
    pub factor: Option<String>,
    pub effects: Vec<Effect>,
    /// Effect of the level, over all levels; empty if the arms have no levels.
    pub doses: Vec<DoseEffect>,
}

/// Effect of the change from one arm to another.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Effect {
    /// Names of the arms; ratios are `to` ÷ `from`.
    pub from: String,
    pub to: String,
    /// Planned differences between the two arms; empty: the arms are identical (*twins*).
    pub changed: Vec<ConditionChange>,
    /// The only difference between the two arms, in words. `None`: no difference, several
    /// differences, `not_set` or `fixed_order`.
    pub because: Option<String>,
    /// Whether a limit in which the two arms differ could not be set in one of their starts. If
    /// so, the arms may be identical.
    pub not_set: bool,
    /// Whether all blocks started the two arms in the same order. If so, a drift of the machine
    /// biases their difference.
    pub fixed_order: bool,
    /// Results, cell by cell.
    pub answers: Vec<ComparisonAnswer>,
    pub rows: Vec<ComparisonRow>,
}

/// One condition in which two arms differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Change")]
pub struct ConditionChange {
    #[serde(rename = "what")]
    pub name: String,
    /// `None`: not set, or withheld because values of the environment and of requests may be
    /// secret.
    pub from: Option<String>,
    pub to: Option<String>,
}

/// Returns the result of the run's experiment; `None`: the run has none.
#[must_use]
pub(crate) fn experiment(run: &Run, results: Results<'_>) -> Option<ExperimentResult> {
    let plan = &run.header.plan;
    let experiment = plan.experiment.as_ref()?;
    let arms = arms(plan, experiment);
    Some(ExperimentResult {
        kind: experiment.kind,
        factor: experiment.factor.clone(),
        effects: effects(run, results, &pairs(plan, experiment), named_factor(experiment)),
        doses: doses(run, results, &arms),
    })
}

/// Returns the pairs of arms that the experiment compares.
pub(crate) fn pairs(plan: &Plan, experiment: &Experiment) -> Vec<(usize, usize)> {
    let arms = arms(plan, experiment);
    match experiment.kind {
        ExperimentKind::Ladder => arms.windows(2).map(|pair| (pair[0], pair[1])).collect(),
        ExperimentKind::Matrix => single_changes(plan, &arms),
        ExperimentKind::Ablation | ExperimentKind::Toggle | ExperimentKind::Dose => {
            arms.iter().skip(1).map(|arm| (arms[0], *arm)).collect()
        }
    }
}

/// Whether two arms differ only in their names.
pub(crate) fn are_twins(plan: &Plan, a: usize, b: usize) -> bool {
    changes(plan, a, b).is_empty()
}

/// Returns the author's name of the varied factor, if one factor applies to all arms. In a ladder,
/// each arm may change a different condition.
fn named_factor(experiment: &Experiment) -> Option<&str> {
    let has_one_factor = matches!(experiment.kind, ExperimentKind::Toggle | ExperimentKind::Dose);
    experiment.factor.as_deref().filter(|_| has_one_factor)
}

/// Compares all pairs of identical arms. Their difference is noise.
#[must_use]
pub(crate) fn twins(run: &Run, results: Results<'_>) -> Vec<Effect> {
    let plan = &run.header.plan;
    let all = 0..plan.arms.len();
    let pairs: Vec<(usize, usize)> = all
        .clone()
        .flat_map(|a| all.clone().skip(a + 1).map(move |b| (a, b)))
        .filter(|(a, b)| are_twins(plan, *a, *b))
        .collect();
    effects(run, results, &pairs, None)
}

/// Compares arms that were loaded at the same time: each with the baseline, or with the first arm
/// if none of them is the baseline. Empty if an experiment defines the comparisons.
pub(crate) fn duets(run: &Run, results: Results<'_>) -> Vec<Effect> {
    let plan = &run.header.plan;
    let is_in = |arm: &usize| plan.sharing.duet().contains(arm) && plan.takes_part(*arm);
    let arms: Vec<usize> =
        (0..plan.arms.len()).filter(|arm| plan.experiment.is_none() && is_in(arm)).collect();
    let is_named = |arm: &&usize| plan.report.baseline.as_ref() == Some(&plan.arms[**arm].name);
    let Some(baseline) = arms.iter().find(is_named).or(arms.first()).copied() else {
        return Vec::new();
    };
    let others =
        arms.iter().copied().filter(|arm| *arm != baseline && !are_twins(plan, baseline, *arm));
    let pairs: Vec<(usize, usize)> = others.map(|arm| (baseline, arm)).collect();
    effects(run, results, &pairs, None)
}

/// Returns the arms of the experiment. Of identical arms (twins), only the first is returned. The
/// arms are selected from the first of these lists that applies:
///
/// - the arms that the experiment made
/// - all arms except controls, if these are at least two
/// - all arms
pub(crate) fn arms(plan: &Plan, experiment: &Experiment) -> Vec<usize> {
    let all = 0..plan.arms.len();
    let is_selected = |arm: &usize| match experiment.arms.is_empty() {
        true => !plan.subject_of(*arm).control,
        false => experiment.arms.contains(&plan.arms[*arm].name),
    };
    let preferred: Vec<usize> = all.clone().filter(is_selected).collect();
    let needs_controls = preferred.len() < 2 && experiment.arms.is_empty();
    let selected = if needs_controls { all.collect() } else { preferred };
    let has_no_earlier_twin =
        |arm: &usize| selected.iter().all(|other| other >= arm || !are_twins(plan, *other, *arm));
    selected.iter().copied().filter(has_no_earlier_twin).collect()
}

/// Returns the pairs of arms of a matrix that differ in a single condition. For each arm and
/// condition, only the first arm that differs in this condition alone is used.
fn single_changes(plan: &Plan, arms: &[usize]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for (index, to) in arms.iter().enumerate() {
        let mut known_changes = BTreeSet::new();
        for from in &arms[..index] {
            let changed = changes(plan, *from, *to);
            if let [only] = changed.as_slice()
                && known_changes.insert(only.name.clone())
            {
                pairs.push((*from, *to));
            }
        }
    }
    pairs
}

/// Compares pairs of arms of a run. `factor`: the author's name of the varied factor.
fn effects(
    run: &Run,
    results: Results<'_>,
    pairs: &[(usize, usize)],
    factor: Option<&str>,
) -> Vec<Effect> {
    let plan = &run.header.plan;
    let same_within = plan.stop.as_ref().and_then(|stop| stop.same_within);
    let comparisons = compare::compare_arms(run, results, pairs);
    let fixed_order = Design::new(plan).is_fixed();
    let effect = |((from, to), comparisons): (&(usize, usize), ArmComparison)| {
        let changed = changes(plan, *from, *to);
        Effect {
            from: plan.arms[*from].name.clone(),
            to: plan.arms[*to].name.clone(),
            because: single_cause(&changed, factor)
                .filter(|_| !fixed_order && are_limits_set(run, &[*from, *to], &changed)),
            fixed_order,
            not_set: !are_limits_set(run, &[*from, *to], &changed),
            answers: comparisons.answers(same_within),
            changed,
            rows: comparisons.rows,
        }
    };
    pairs.iter().zip(comparisons).map(effect).collect()
}

/// Returns the only change in words; `None`: no change, or several changes.
fn single_cause(changed: &[ConditionChange], factor: Option<&str>) -> Option<String> {
    let [only] = changed else { return None };
    let name = factor.unwrap_or(&only.name);
    Some(match (&only.from, &only.to) {
        (Some(from), Some(to)) => format!("{name} ({from} → {to})"),
        (None, Some(to)) => format!("{name} (not set → {to})"),
        (Some(from), None) => format!("{name} ({from} → not set)"),
        (None, None) => name.to_string(),
    })
}

/// Whether every limit in which arms differ was set in all of their starts.
fn are_limits_set(run: &Run, arms: &[usize], changed: &[ConditionChange]) -> bool {
    const LIMITS: [(&str, LimitKind); 3] = [
        ("cpus", LimitKind::CpuQuota),
        ("memory_bytes", LimitKind::Memory),
        ("open_files", LimitKind::OpenFiles),
    ];
    let plan = &run.header.plan;
    let has_change = |name: &str| changed.iter().any(|change| change.name == name);
    let is_changed =
        |kind: LimitKind| LIMITS.iter().any(|(name, limit)| *limit == kind && has_change(name));
    let starts = run
        .starts
        .iter()
        .filter(|start| plan.launches[start.launch].arms.iter().any(|arm| arms.contains(arm)));
    let mut limits = starts.filter_map(|start| start.subject()).flat_map(|part| &part.limits);
    !limits.any(|limit| limit.read_back.is_none() && is_changed(limit.kind))
}

impl Effect {
    /// Whether any difference is shown.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.rows.iter().any(ComparisonRow::is_shown)
    }

    /// Returns a sentence on the possible cause of a difference.
    #[must_use]
    pub fn reason(&self) -> String {
        self.reason_if(self.is_shown())
    }

    /// Whether a difference is shown in a cell.
    #[must_use]
    pub fn is_shown_in(&self, cell: &ComparisonAnswer) -> bool {
        self.cell_rows(cell).any(ComparisonRow::is_shown)
    }

    /// Whether the repeats of a cell were enough for an interval of some metric.
    #[must_use]
    pub fn is_compared_in(&self, cell: &ComparisonAnswer) -> bool {
        self.cell_rows(cell).any(|row| row.estimate.is_some())
    }

    /// Returns the rows of a cell.
    fn cell_rows<'a>(
        &'a self,
        cell: &'a ComparisonAnswer,
    ) -> impl Iterator<Item = &'a ComparisonRow> {
        self.rows.iter().filter(|row| (&row.workload, row.step) == (&cell.workload, cell.step))
    }

    /// Returns a sentence on the possible cause of a difference in a cell. It names a cause only if
    /// a difference is shown.
    #[must_use]
    pub fn reason_in(&self, cell: &ComparisonAnswer) -> String {
        self.reason_if(self.is_shown_in(cell))
    }

    /// Returns the sentence on the possible cause. `is_shown`: whether a difference is shown.
    fn reason_if(&self, is_shown: bool) -> String {
        let names = || {
            self.changed.iter().map(|change| change.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        match (&self.because, self.changed.len()) {
            (_, 0) if self.fixed_order => {
                "The two configurations are identical and ran in the same order in every repeat. \
                 Any difference between them is noise, or a change of the machine's speed."
                    .into()
            }
            (_, 0) => {
                "The two configurations are identical. Any difference between them is noise.".into()
            }
            _ if self.not_set => {
                format!(
                    "A limit could not be set on this machine, so the two configurations may be \
                     identical. Planned differences: {}.",
                    names()
                )
            }
            _ if self.fixed_order => format!(
                "The cause is unknown. The two configurations ran in the same order in every \
                 repeat, so a change of the machine's speed cannot be distinguished from the \
                 effect of {}. Use `order = \"random\"` under `[suite]`.",
                names()
            ),
            (Some(because), _) if is_shown => {
                format!(
                    "The cause is {because}, the only difference between the two configurations."
                )
            }
            (Some(because), _) => format!("The two configurations differ only in {because}."),
            (None, _) => format!(
                "The cause cannot be identified, because the two configurations differ in several \
                 conditions: {}.",
                names()
            ),
        }
    }
}

/// Returns the planned differences between two arms.
fn changes(plan: &Plan, a: usize, b: usize) -> Vec<ConditionChange> {
    let (subject_a, subject_b) = (plan.subject_of(a), plan.subject_of(b));
    let mut changes = Vec::new();
    if subject_a.name != subject_b.name {
        changes.push(ConditionChange {
            name: "server".into(),
            from: Some(subject_a.id()),
            to: Some(subject_b.id()),
        });
    } else if subject_a.variant != subject_b.variant {
        let variant =
            |variant: &Option<String>| Some(variant.clone().unwrap_or_else(|| "none".into()));
        changes.push(ConditionChange {
            name: "variant".into(),
            from: variant(&subject_a.variant),
            to: variant(&subject_b.variant),
        });
    }
    let revision =
        |subject: &Subject| subject.revision.as_ref().map(|revision| revision.name.clone());
    if revision(subject_a) != revision(subject_b) {
        changes.push(ConditionChange {
            name: "revision".into(),
            from: revision(subject_a),
            to: revision(subject_b),
        });
    }
    let (arm_a, arm_b) = (&plan.arms[a], &plan.arms[b]);
    let (values_a, values_b) = (arm_a.conditions.values(), arm_b.conditions.values());
    let names: BTreeSet<&String> = values_a.keys().chain(values_b.keys()).collect();
    let differs = |name: &&&String| values_a.get(**name) != values_b.get(**name);
    let without_values =
        |name: &&String| ConditionChange { name: (*name).clone(), from: None, to: None };
    changes.extend(names.iter().filter(differs).map(without_values));
    let backends = |arm: &dyno_model::plan::Arm| {
        let names: Vec<&str> =
            arm.backends.iter().map(|index| &*plan.backends[*index].name).collect();
        json!(names.join(", "))
    };
    add_changes("back ends", &backends(arm_a), &backends(arm_b), &mut changes);
    add_changes(
        "",
        &arm_a.conditions.without_values(),
        &arm_b.conditions.without_values(),
        &mut changes,
    );
    changes
}

/// Adds a change for each difference between two JSON values. The last part of the path names the
/// change: `cpus` for `limits.cpus`.
fn add_changes(name: &str, a: &Value, b: &Value, found: &mut Vec<ConditionChange>) {
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    visit_differences(name, a, b, &mut |path, a, b| {
        let name = path.rsplit('.').next().unwrap_or(path).into();
        found.push(ConditionChange { name, from: text(a), to: text(b) });
    });
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::{Arm, Arrivals, Launch, Subject, Trial};
    use dyno_model::start::{Failure, FailureKind, LimitReadBack, PartStart};
    use dyno_model::{Party, StartRecord, TrialRecord};

    use super::*;
    use crate::fixture;

    /// Returns a run of six blocks. Each arm has a name, a number of responses, and a change of its
    /// conditions.
    fn run(kind: ExperimentKind, arms: &[(&str, u64, fn(&mut Arm))]) -> Run {
        let server = Subject { name: "a".into(), title: "A".into(), ..Subject::default() };
        let mut plan = fixture::plan(vec![server]);
        let first = plan.arms[0].clone();
        plan.arms = arms
            .iter()
            .map(|(name, _, change)| {
                let mut arm = Arm { name: (*name).into(), ..first.clone() };
                change(&mut arm);
                arm
            })
            .collect();
        plan.experiment = Some(Experiment { kind, factor: None, arms: Vec::new() });
        plan.load.steps = vec![fixture::step(Arrivals::Closed)];
        let each = 0..arms.len();
        plan.launches = (0..6)
            .flat_map(|block| each.clone().map(move |arm| Launch::with_arm(arm, block)))
            .collect();
        plan.repeats = 6;
        let trials = plan.launches.iter().enumerate().map(|(launch, planned)| {
            let arm = planned.arms[0];
            // Blocks differ more than arms do, and the difference between arms varies a little per
            // block.
            let responses = arms[arm].1 * (10 + u64::from(planned.block)) + (launch as u64 * 7) % 5;
            plan.trials.push(Trial { launch, arm, workload: 0, step: 0, seed: 0 });
            fixture::trial_record(launch, fixture::record(responses))
        });
        let trials: Vec<TrialRecord> = trials.collect();
        fixture::run(plan, Vec::new(), trials)
    }

    fn result(kind: ExperimentKind, arms: &[(&str, u64, fn(&mut Arm))]) -> ExperimentResult {
        crate::report::report(&run(kind, arms)).experiment.unwrap()
    }

    const fn unchanged(_: &mut Arm) {}

    fn compared_names(result: &ExperimentResult) -> Vec<(&str, &str)> {
        result.effects.iter().map(|effect| (&*effect.from, &*effect.to)).collect()
    }

    #[test]
    fn single_change_is_cause_and_several_have_none() {
        let arms: [(&str, u64, fn(&mut Arm)); 3] = [
            ("whole", 100, unchanged),
            ("small", 80, |arm| arm.conditions.limits.cpus = Some(0.5)),
            ("both", 120, |arm| {
                arm.conditions.limits.cpus = Some(0.5);
                arm.conditions.env.insert("X".into(), "secret".into());
            }),
        ];
        let ablation = result(ExperimentKind::Ablation, &arms);
        assert_eq!(compared_names(&ablation), [("whole", "small"), ("whole", "both")]);
        let [small, both] = &ablation.effects[..] else { panic!() };
        assert_eq!(small.because.as_deref(), Some("cpus (not set → 0.5)"));
        assert_eq!(
            small.reason(),
            "The cause is cpus (not set → 0.5), the only difference between the two configurations."
        );
        let throughput = &small.rows[0];
        assert_eq!(
            (throughput.metric, throughput.verdict),
            ("throughput_rps", compare::Verdict::Lower)
        );
        assert!((throughput.estimate.unwrap().ratio - 0.8).abs() < 0.01);
        assert!(small.answers[0].sentence.contains("less throughput"), "{:?}", small.answers);
        assert_eq!(both.because, None);
        assert!(both.reason().ends_with("several conditions: env.X, cpus."), "{}", both.reason());
        assert!(both.changed.iter().all(|change| change.to.as_deref() != Some("secret")));
        let ladder = result(ExperimentKind::Ladder, &arms);
        assert_eq!(compared_names(&ladder), [("whole", "small"), ("small", "both")]);
        assert_eq!(ladder.effects[1].because.as_deref(), Some("env.X"));
        assert!(ladder.doses.is_empty());
    }

    #[test]
    fn dose_is_effect_of_doubling() {
        let arms: [(&str, u64, fn(&mut Arm)); 3] = [
            ("one", 100, |arm| arm.level = Some(1.0)),
            ("two", 200, |arm| (arm.level, arm.conditions.limits.cpus) = (Some(2.0), Some(2.0))),
            ("four", 400, |arm| (arm.level, arm.conditions.limits.cpus) = (Some(4.0), Some(4.0))),
        ];
        let dose = result(ExperimentKind::Dose, &arms);
        assert_eq!(compared_names(&dose), [("one", "two"), ("one", "four")]);
        let throughput = dose.doses.iter().find(|dose| dose.metric == "throughput_rps").unwrap();
        let doubling = throughput.doubling.unwrap();
        assert!(
            (doubling.ratio - 2.0).abs() < 0.01 && doubling.low > 1.9 && doubling.high < 2.1,
            "{doubling:?}"
        );
        assert!((throughput.doubling_median.unwrap() - 2.0).abs() < 0.01);
        assert_eq!((throughput.counted_blocks, throughput.loaded_blocks), (6, 6));
        // Blocks with a valid repeat at every level may be a biased selection.
        let run = run(ExperimentKind::Dose, &arms);
        let dose_after = |change: fn(&mut Vec<crate::trial::TrialResult>)| {
            let mut report = crate::report::report(&run);
            change(&mut report.trials);
            let result = experiment(&run, report.results()).unwrap();
            let dose = result.doses.into_iter().find(|dose| dose.metric == "throughput_rps");
            dose.map(|d| (d.doubling, d.doubling_median, d.counted_blocks, d.loaded_blocks))
        };
        assert_eq!(dose_after(|trials| trials[4].valid = false), Some((None, None, 5, 6)));
        assert_eq!(dose_after(|trials| drop(trials.remove(4))), Some((None, None, 5, 6)));
    }

    /// In the last block no level started.
    #[test]
    fn block_without_any_start_leaves_dose_unknown() {
        let arms: [(&str, u64, fn(&mut Arm)); 2] = [
            ("one", 100, |arm| arm.level = Some(1.0)),
            ("two", 200, |arm| (arm.level, arm.conditions.limits.cpus) = (Some(2.0), Some(2.0))),
        ];
        let after = |kind: FailureKind| {
            let mut run = run(ExperimentKind::Dose, &arms);
            run.trials.truncate(10);
            run.starts = [10, 11]
                .map(|launch| StartRecord {
                    start: launch,
                    launch,
                    failure: Some(Failure { kind, message: "it ended".into() }),
                    ..StartRecord::default()
                })
                .into();
            let doses = crate::report::report(&run).experiment.unwrap().doses;
            let dose = doses.iter().find(|dose| dose.metric == "throughput_rps").unwrap();
            (dose.doubling.is_some(), dose.counted_blocks, dose.loaded_blocks)
        };
        assert_eq!(after(FailureKind::Crashed), (false, 5, 6));
        assert_eq!(after(FailureKind::Interrupted), (true, 5, 5));
    }

    #[test]
    fn fixed_order_names_no_cause() {
        let arms: [(&str, u64, fn(&mut Arm)); 2] = [
            ("one", 100, |arm| arm.level = Some(1.0)),
            ("two", 80, |arm| (arm.level, arm.conditions.limits.cpus) = (Some(2.0), Some(0.5))),
        ];
        let mut run = run(ExperimentKind::Dose, &arms);
        run.header.plan.order = dyno_model::plan::Order::Fixed;
        run.header.plan.stop = Some(dyno_model::plan::StopRule {
            metrics: vec!["throughput_rps".into()],
            same_within: None,
        });
        let report = crate::report::report(&run);
        let has_answer = |run: &Run| crate::stopping::has_answer(run, &mut Default::default());
        assert!(!has_answer(&run), "a drift may be the answer");
        let result = report.experiment.unwrap();
        let [effect] = &result.effects[..] else { panic!() };
        assert!(effect.is_shown() && effect.fixed_order);
        assert_eq!(effect.because, None);
        let reason = effect.reason();
        assert!(reason.contains("cannot be distinguished from the effect of cpus"), "{reason}");
        assert!(
            effect.answers[0].sentence.contains("position in the fixed order"),
            "{:?}",
            effect.answers
        );
        assert!(result.doses.iter().all(|dose| dose.doubling.is_none() && !dose.metric.is_empty()));
        run.header.plan.order = dyno_model::plan::Order::Random;
        assert!(has_answer(&run));
    }

    #[test]
    fn matrix_compares_arms_with_single_changes() {
        let arms: [(&str, u64, fn(&mut Arm)); 4] = [
            ("neither", 100, unchanged),
            ("cpus", 80, |arm| arm.conditions.limits.cpus = Some(0.5)),
            ("files", 100, |arm| arm.conditions.limits.open_files = Some(64)),
            ("both", 80, |arm| {
                (arm.conditions.limits.cpus, arm.conditions.limits.open_files) =
                    (Some(0.5), Some(64));
            }),
        ];
        let matrix = result(ExperimentKind::Matrix, &arms);
        let names =
            [("neither", "cpus"), ("neither", "files"), ("cpus", "both"), ("files", "both")];
        assert_eq!(compared_names(&matrix), names);
        assert!(matrix.effects.iter().all(|effect| effect.because.is_some()));
        assert!(!matrix.effects[1].is_shown());
        assert_eq!(
            matrix.effects[1].reason(),
            "The two configurations differ only in open_files (not set → 64)."
        );
    }

    #[test]
    fn arms_outside_of_experiment_are_excluded() {
        let arms: [(&str, u64, fn(&mut Arm)); 3] = [
            ("one", 100, |arm| arm.level = Some(1.0)),
            ("two", 200, |arm| (arm.level, arm.conditions.limits.cpus) = (Some(2.0), Some(2.0))),
            ("other", 400, |arm| arm.conditions.limits.open_files = Some(64)),
        ];
        let mut run = run(ExperimentKind::Dose, &arms);
        let experiment = run.header.plan.experiment.as_mut().unwrap();
        experiment.arms = vec!["one".into(), "two".into()];
        let result = crate::report::report(&run).experiment.unwrap();
        assert_eq!(compared_names(&result), [("one", "two")]);
        assert!(result.doses.iter().any(|dose| dose.doubling.is_some()));
    }

    #[test]
    fn limit_that_was_not_set_is_not_cause() {
        let arms: [(&str, u64, fn(&mut Arm)); 2] =
            [("whole", 100, unchanged), ("half", 80, |arm| arm.conditions.limits.cpus = Some(0.5))];
        let mut run = run(ExperimentKind::Toggle, &arms);
        let mut part = PartStart::new(Party::SUBJECT, "half".into());
        part.limits.push(LimitReadBack {
            kind: LimitKind::CpuQuota,
            asked: "0.5".into(),
            read_back: None,
            reason: Some("no".into()),
        });
        run.starts = vec![StartRecord { launch: 1, parts: vec![part], ..StartRecord::default() }];
        let result = crate::report::report(&run).experiment.unwrap();
        assert_eq!((&result.effects[0].because, result.effects[0].not_set), (&None, true));
        assert!(result.effects[0].reason().contains("could not be set on this machine"));
    }

    #[test]
    fn cause_is_named_only_for_shown_difference() {
        let arms: [(&str, u64, fn(&mut Arm)); 2] =
            [("whole", 100, unchanged), ("half", 80, |arm| arm.conditions.limits.cpus = Some(0.5))];
        let mut effect = result(ExperimentKind::Toggle, &arms).effects.remove(0);
        let cell = effect.answers[0].clone();
        assert!(effect.reason_in(&cell).starts_with("The cause is cpus"));
        let elsewhere = ComparisonAnswer { workload: "another".into(), ..cell };
        assert_eq!(
            effect.reason_in(&elsewhere),
            "The two configurations differ only in cpus (not set → 0.5)."
        );
        effect.changed.clear();
        assert!(effect.reason().contains("noise"));
    }

    #[test]
    fn twins_are_found_by_conditions_and_not_compared() {
        let arms: [(&str, u64, fn(&mut Arm)); 3] = [
            ("a", 100, unchanged),
            ("b", 200, |arm| arm.conditions.limits.cpus = Some(0.5)),
            ("twin of a", 100, unchanged),
        ];
        let report = crate::report::report(&run(ExperimentKind::Toggle, &arms));
        assert_eq!(compared_names(report.experiment.as_ref().unwrap()), [("a", "b")]);
        let [twins] = &report.twins[..] else { panic!("{:?}", report.twins) };
        assert_eq!((&*twins.from, &*twins.to, twins.changed.len()), ("a", "twin of a", 0));
        assert!(!twins.is_shown());
        assert_eq!(
            twins.reason(),
            "The two configurations are identical. Any difference between them is noise."
        );
    }
}
