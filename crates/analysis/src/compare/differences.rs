//! Differences of two runs other than the compared arms: machine, dyno, load, requests,
//! conditions, back ends.

use std::collections::BTreeSet;

use dyno_archive::plan::{Arm, Plan};
use dyno_archive::run::Run;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Side, environment};
use crate::json_difference::differing;

/// Memory may differ by this share between two boots of one machine.
const MEMORY_TOLERANCE: f64 = 0.01;

/// Something in which two runs differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Difference")]
pub struct RunDifference {
    /// Its name, such as `load.duration_ns`.
    pub what: String,
    /// The value in each run; `None`: it may be secret, or is long.
    pub a: Option<String>,
    pub b: Option<String>,
}

/// Returns the differences of two runs in the conditions of the compared arms.
pub(super) fn run_differences(
    a: Side<'_>,
    b: Side<'_>,
    arms: &[(usize, usize)],
) -> Vec<RunDifference> {
    let mut found = DifferenceList::default();
    let (plan_a, plan_b) = (&a.run.header.plan, &b.run.header.plan);
    found.parts("A", a.run);
    found.parts("B", b.run);
    found.walk("machine", &facts(a, b), &facts(b, a));
    found.walk("load", &load(plan_a), &load(plan_b));
    for own in &plan_a.workloads {
        let other = plan_b.workloads.iter().find(|other| other.name == own.name);
        if let Some(other) = other.filter(|other| *other != own) {
            found.walk_unshown(&format!("workload {}", own.name), &json!(own), &json!(other));
        }
    }
    found.walk("turns", &turns(plan_a), &turns(plan_b));
    found.walk("search", &json!(plan_a.search), &json!(plan_b.search));
    found.walk(
        "CPUs that change from block to block",
        &json!(plan_a.swaps_cpus),
        &json!(plan_b.swaps_cpus),
    );
    found.walk("files", &json!(plan_a.files), &json!(plan_b.files));
    for (arm_a, arm_b) in arms {
        let (own, other) = (&plan_a.arms[*arm_a], &plan_b.arms[*arm_b]);
        let name = if own.name == other.name {
            own.name.clone()
        } else {
            format!("{} and {}", own.name, other.name)
        };
        found.walk(&format!("{name}: loaded with"), &co_loads(a, *arm_a), &co_loads(b, *arm_b));
        found.walk_unshown(
            &format!("{name}: env"),
            &json!(own.conditions.env),
            &json!(other.conditions.env),
        );
        found.all.extend(environment::differences(&name, (a.run, *arm_a), (b.run, *arm_b)));
        let of_requests = |arm: &Arm| json!(arm.conditions.request);
        found.walk_unshown(&format!("{name}: request"), &of_requests(own), &of_requests(other));
        found.walk(&name, &conditions(plan_a, *arm_a), &conditions(plan_b, *arm_b));
    }
    found.all
}

/// Differences of conditions between arms of one run: whether others were loaded at the same
/// time, and differences between the parts of the run.
pub(super) fn arm_differences(run: &Run, arms: &[(usize, usize)]) -> Vec<RunDifference> {
    let plan = &run.header.plan;
    let mut found = DifferenceList::default();
    found.parts("the run", run);
    for (a, b) in arms {
        let name = format!("{} and {}", plan.arms[*a].name, plan.arms[*b].name);
        let has_co_loads = |arm: &usize| json!(plan.duet.contains(arm));
        found.walk(&format!("{name}: loaded with others"), &has_co_loads(a), &has_co_loads(b));
    }
    found.all
}

/// Each set of planned arms that were loaded at the same time as an arm.
fn co_loads(side: Side<'_>, arm: usize) -> Value {
    let own = side.report.trials.iter().filter(|trial| trial.valid && trial.cell.arm == arm);
    let ways: BTreeSet<&[String]> =
        own.filter_map(|trial| Some(&*trial.duet.as_ref()?.beside)).collect();
    json!(ways)
}

fn facts(of: Side<'_>, other: Side<'_>) -> Value {
    let mut facts = json!(of.run.header.facts);
    // Missing measurements show in the numbers themselves.
    let named = facts.as_object_mut().expect("facts have names");
    named.remove("missing");
    // Older archives lack this field; `false` equals that.
    let tracked = |side: Side<'_>| side.run.header.facts.loopback_tracked;
    if (tracked(of), tracked(other)) == (Some(false), None) {
        named.remove("loopback_tracked");
    }
    facts
}

/// The load without its steps, which are compared one by one.
fn load(plan: &Plan) -> Value {
    let mut load = json!(plan.load);
    load.as_object_mut().expect("a load has names").remove("steps");
    load
}

/// How arms share the CPUs: a server has them to itself, in turns, or together with others.
fn turns(plan: &Plan) -> Value {
    let names = |arms: &mut dyn Iterator<Item = usize>| -> Vec<&str> {
        arms.map(|arm| &*plan.arms[arm].name).collect()
    };
    match plan.slice_ns {
        Some(slice_ns) => json!({"slice_ns": slice_ns, "arms": names(&mut (0..plan.arms.len()))}),
        None if plan.duet.is_empty() => Value::Null,
        None => json!({"at_once": names(&mut plan.duet.iter().copied())}),
    }
}

/// The conditions of an arm but values that may hold secrets, with the services behind it.
fn conditions(plan: &Plan, arm: usize) -> Value {
    let arm = &plan.arms[arm];
    let mut conditions = arm.conditions.without_values();
    let behind = arm.backends.iter().map(|index| {
        let backend = &plan.backends[*index];
        let facts = json!({"of": backend.of, "variant": backend.variant, "version": backend.version,
            "definition": backend.definition, "limits": backend.limits, "cpus": backend.cpus});
        (backend.name.clone(), facts)
    });
    conditions["backends"] = behind.collect::<serde_json::Map<String, Value>>().into();
    conditions
}

#[derive(Default)]
struct DifferenceList {
    all: Vec<RunDifference>,
}

impl DifferenceList {
    /// Adds differences between the parts of a run that was resumed in spite of them: the parts are
    /// not one experiment.
    fn parts(&mut self, name: &str, run: &Run) {
        let parts = run.later_parts();
        let all = parts.iter().flat_map(|part| &part.differences);
        let names: BTreeSet<&str> = all.map(|difference| &*difference.what).collect();
        self.all.extend(names.into_iter().map(|what| RunDifference {
            what: format!("parts of {name}: {what}"),
            a: None,
            b: None,
        }));
    }

    fn walk(&mut self, name: &str, a: &Value, b: &Value) {
        self.walk_visible(name, a, b, true);
    }

    /// Adds differences of values that may hold secrets, by name only.
    fn walk_unshown(&mut self, name: &str, a: &Value, b: &Value) {
        self.walk_visible(name, a, b, false);
    }

    fn walk_visible(&mut self, name: &str, a: &Value, b: &Value, is_shown: bool) {
        differing(name, a, b, &mut |name, a, b| {
            let numbers = a.as_f64().zip(b.as_f64());
            let is_near = |(a, b): (f64, f64)| (a - b).abs() <= MEMORY_TOLERANCE * a.max(b);
            if name == "machine.memory_bytes" && numbers.is_some_and(is_near) {
                return;
            }
            let text = |value: &Value| {
                is_shown.then(|| value.as_str().map_or_else(|| value.to_string(), Into::into))
            };
            self.all.push(RunDifference { what: name.into(), a: text(a), b: text(b) });
        });
    }
}
