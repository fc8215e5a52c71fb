//! Finds unintended differences between two runs: in machine, dyno, load, requests, conditions and
//! back ends.
//!
//! An unintended difference may be the cause of a measured difference, so sentences and gates name
//! it.

use std::collections::BTreeSet;

use dyno_model::plan::{Plan, Workload};
use dyno_model::run::Run;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Side, environment, identity};
use crate::experiment;
use crate::json_difference::visit_differences;

/// Memory may differ by this share between two boots of one machine.
const MEMORY_TOLERANCE: f64 = 0.01;

/// A plan, and the index of one of its arms.
type PlannedArm<'a> = (&'a Plan, usize);

/// A property in which two sides differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Difference")]
pub struct RunDifference {
    /// Its name, such as `load.duration_ns`.
    #[serde(rename = "what")]
    pub name: String,
    /// The value on each side. `None`: the value is withheld, because it may be secret or is too
    /// long for a report.
    pub a: Option<String>,
    pub b: Option<String>,
}

/// Returns the differences of two runs in the conditions of the compared arms.
pub(super) fn run_differences(
    a: Side<'_>,
    b: Side<'_>,
    arms: &[(usize, usize)],
) -> Vec<RunDifference> {
    let mut list = DifferenceList::default();
    let (plan_a, plan_b) = (&a.run.header.plan, &b.run.header.plan);
    list.add_parts("A", a.run);
    list.add_parts("B", b.run);
    list.add("machine", &facts(a, b), &facts(b, a));
    list.add("load", &load(plan_a), &load(plan_b));
    for (index_a, workload) in plan_a.workloads.iter().enumerate() {
        let has_name = |other: &Workload| other.name == workload.name;
        let index_b = plan_b.workloads.iter().position(has_name);
        let is_other = |index: &usize| !identity::is_same_workload((a, index_a), (b, *index));
        if let Some(index_b) = index_b.filter(is_other) {
            let name = format!("workload {}", workload.name);
            list.add_names(&name, &json!(workload), &json!(plan_b.workloads[index_b]));
        }
    }
    list.add("turns", &turns(plan_a), &turns(plan_b));
    list.add("search", &json!(plan_a.search), &json!(plan_b.search));
    list.add(
        "whether servers and generator swap CPUs",
        &json!(plan_a.swaps_cpus),
        &json!(plan_b.swaps_cpus),
    );
    list.add("files", &json!(plan_a.files), &json!(plan_b.files));
    for (index_a, index_b) in arms {
        let (arm_a, arm_b) = (&plan_a.arms[*index_a], &plan_b.arms[*index_b]);
        let name = if arm_a.name == arm_b.name {
            arm_a.name.clone()
        } else {
            format!("{} and {}", arm_a.name, arm_b.name)
        };
        list.add(
            &format!("{name}: other servers that were loaded at the same time"),
            &concurrent_subjects(a, *index_a),
            &concurrent_subjects(b, *index_b),
        );
        list.all.extend(environment::differences(&name, (a.run, *index_a), (b.run, *index_b)));
        list.add_conditions(&name, (plan_a, *index_a), (plan_b, *index_b));
    }
    list.all
}

/// Returns the unintended differences between arms of one run: their conditions, whether others
/// were loaded at the same time, and differences between the parts of the run. The conditions of an
/// experiment's arms differ by intent, so they are omitted.
pub(super) fn arm_differences(run: &Run, arms: &[(usize, usize)]) -> Vec<RunDifference> {
    let plan = &run.header.plan;
    let mut list = DifferenceList::default();
    list.add_parts("the run", run);
    for (a, b) in arms {
        let name = format!("{} and {}", plan.arms[*a].name, plan.arms[*b].name);
        let is_in_duet = |arm: &usize| json!(plan.sharing.duet().contains(arm));
        list.add(
            &format!("{name}: whether other servers were loaded at the same time"),
            &is_in_duet(a),
            &is_in_duet(b),
        );
        if !are_of_experiment(plan, [a, b]) {
            list.add_conditions(&name, (plan, *a), (plan, *b));
        }
    }
    list.all
}

/// Whether an experiment intends the differences between these arms.
fn are_of_experiment(plan: &Plan, arms: [&usize; 2]) -> bool {
    let experiment_arms = |experiment| experiment::arms(plan, experiment);
    plan.experiment
        .as_ref()
        .map(experiment_arms)
        .is_some_and(|all| arms.into_iter().all(|arm| all.contains(arm)))
}

/// Returns each group of subjects that were loaded at the same time as an arm (in a duet).
fn concurrent_subjects(side: Side<'_>, arm: usize) -> Value {
    let trials = side.results.trials.iter().filter(|trial| trial.valid && trial.cell.arm == arm);
    let groups: BTreeSet<&[String]> =
        trials.filter_map(|trial| Some(&*trial.duet.as_ref()?.concurrent_subjects)).collect();
    json!(groups)
}

/// Returns the facts about the machine of a side that are compared with another side.
fn facts(side: Side<'_>, other: Side<'_>) -> Value {
    let mut facts = json!(side.run.header.facts);
    // The numbers themselves show which measurements are missing.
    let fields = facts.as_object_mut().expect("facts should be a JSON object");
    fields.remove("missing");
    // The following facts may be unknown. A fact that only one side knows is no difference. For
    // `loopback_tracked`, the value must also be `false`, because connection tracking may be the
    // cause of a measured difference.
    let is_tracked = |side: Side<'_>| side.run.header.facts.loopback_tracked;
    if (is_tracked(side), is_tracked(other)) == (Some(false), None) {
        fields.remove("loopback_tracked");
    }
    if other.run.header.facts.online_cpus.is_none() {
        fields.remove("online_cpus");
    }
    if other.run.header.facts.irq_time_accounting.is_none() {
        fields.remove("irq_time_accounting");
    }
    facts
}

/// Returns the load without its steps. They are omitted because only equal steps are compared.
fn load(plan: &Plan) -> Value {
    let mut load = json!(plan.load);
    load.as_object_mut().expect("a load should be a JSON object").remove("steps");
    load
}

/// Returns how arms share the CPUs: one arm at a time (null), in turns, or at the same time.
fn turns(plan: &Plan) -> Value {
    let names = |arms: &mut dyn Iterator<Item = usize>| -> Vec<&str> {
        arms.map(|arm| &*plan.arms[arm].name).collect()
    };
    match plan.sharing.slice_ns() {
        Some(slice_ns) => json!({"slice_ns": slice_ns, "arms": names(&mut (0..plan.arms.len()))}),
        None if plan.sharing.duet().is_empty() => Value::Null,
        None => json!({"at_once": names(&mut plan.sharing.duet().iter().copied())}),
    }
}

/// Returns the conditions of an arm and its back ends, without values that may be secret.
fn conditions((plan, arm): PlannedArm<'_>) -> Value {
    let arm = &plan.arms[arm];
    let mut conditions = arm.conditions.without_values();
    let backends = arm.backends.iter().map(|index| {
        let backend = &plan.backends[*index];
        let facts = json!({
            "of": backend.definition_name, "variant": backend.variant, "version": backend.version,
            "definition": backend.definition, "limits": backend.limits, "cpus": backend.cpus,
        });
        (backend.name.clone(), facts)
    });
    conditions["backends"] = backends.collect::<serde_json::Map<String, Value>>().into();
    conditions
}

/// Differences found so far.
#[derive(Default)]
struct DifferenceList {
    all: Vec<RunDifference>,
}

impl DifferenceList {
    /// Adds differences in conditions between the parts of a resumed run.
    fn add_parts(&mut self, name: &str, run: &Run) {
        let parts = run.later_parts();
        let differences = parts.iter().flat_map(|part| &part.differences);
        let names: BTreeSet<&str> = differences.map(|difference| &*difference.name).collect();
        self.all.extend(names.into_iter().map(|difference| RunDifference {
            name: format!("parts of {name}: {difference}"),
            a: None,
            b: None,
        }));
    }

    /// Adds the differences between the conditions that the suites set for two arms.
    fn add_conditions(&mut self, name: &str, a: PlannedArm<'_>, b: PlannedArm<'_>) {
        let (conditions_a, conditions_b) = (&a.0.arms[a.1].conditions, &b.0.arms[b.1].conditions);
        self.add_names(&format!("{name}: env"), &json!(conditions_a.env), &json!(conditions_b.env));
        self.add_names(
            &format!("{name}: request"),
            &json!(conditions_a.request),
            &json!(conditions_b.request),
        );
        self.add(name, &conditions(a), &conditions(b));
    }

    /// Adds differences with both values.
    fn add(&mut self, name: &str, a: &Value, b: &Value) {
        self.add_differences(name, a, b, true);
    }

    /// Adds differences by name only, because the values may be secret.
    fn add_names(&mut self, name: &str, a: &Value, b: &Value) {
        self.add_differences(name, a, b, false);
    }

    /// Adds the differences of two values, by their paths. `has_values`: whether the values are
    /// reported.
    fn add_differences(&mut self, name: &str, a: &Value, b: &Value, has_values: bool) {
        visit_differences(name, a, b, &mut |name, a, b| {
            let numbers = a.as_f64().zip(b.as_f64());
            let is_near = |(a, b): (f64, f64)| (a - b).abs() <= MEMORY_TOLERANCE * a.max(b);
            if name == "machine.memory_bytes" && numbers.is_some_and(is_near) {
                return;
            }
            let text = |value: &Value| {
                has_values.then(|| value.as_str().map_or_else(|| value.to_string(), Into::into))
            };
            self.all.push(RunDifference { name: name.into(), a: text(a), b: text(b) });
        });
    }
}
