//! Ids of runs, machines, workloads and versions of subjects, which outlive a run.
//!
//! Results of two archives that have equal ids can be compared as results of the same thing. Except
//! for [`RunId`], ids are hashes of other parts of the archive. The same parts have the same id in
//! each archive: the order of keys, and the folder from which a definition was read, do not matter.
//! An optional key that is added to a hashed type must be skipped if it is absent, so that ids of
//! earlier archives stay equal.

use std::fmt::{self, Write as _};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::Facts;
use crate::plan::{Plan, Subject};

/// Bytes of a hash that an id keeps.
const ID_BYTES: usize = 16;

/// Id of a run: a random number of 128 bits, so that no two runs of any machines have the same id.
/// A resumed run and a copied archive keep it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RunId(String);

impl RunId {
    /// Returns the id with these random bits.
    #[must_use]
    pub fn from_bits(high: u64, low: u64) -> RunId {
        RunId(format!("{high:016x}{low:016x}"))
    }
}

/// Id of a kind of machine: a hash of the facts that neither a reboot nor an update changes. They
/// are the model and number of the online CPUs, the installed memory and the virtualisation.
///
/// Other facts are no part of it. The kernel and its version, the operating system, kernel settings
/// and the frequency governor are set by the user, and updates change them. The kernel chooses the
/// clock source anew in each boot. The number of usable CPUs, the limits and the privileges belong
/// to the process. Two machines of one model have the same id, because their results can be
/// compared. Serial numbers would also identify the owner of a shared report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct MachineId(String);

impl MachineId {
    #[must_use]
    pub fn new(facts: &Facts) -> MachineId {
        MachineId(hash(
            "machine",
            &json!({
                "cpu_model": facts.cpu_model,
                "online_cpus": facts.online_cpus,
                "memory_bytes": facts.memory_bytes.map(installed_memory),
                "virtualisation": facts.virtualisation,
            }),
        ))
    }
}

/// Returns the likely size of the installed memory: the next larger of the sizes 2ⁿ and 1.5 · 2ⁿ
/// bytes. The kernel reports a little less, because firmware and kernel use a part, and this part
/// differs from boot to boot.
fn installed_memory(bytes: u64) -> u64 {
    let power = bytes.checked_next_power_of_two().unwrap_or(u64::MAX);
    let smaller = power / 4 * 3;
    if bytes <= smaller { smaller } else { power }
}

/// Id of a workload under a load: a hash of the requests, of their expectations and of all load
/// settings except the steps. Conditions of arms, such as another driver, are no part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct WorkloadId(String);

impl WorkloadId {
    /// Returns the id of a workload of a plan, by its index.
    #[must_use]
    pub fn new(plan: &Plan, workload: usize) -> WorkloadId {
        let mut load = json!(plan.load);
        load.as_object_mut().expect("a load should be a JSON object").remove("steps");
        let parts = json!({"workload": plan.workloads[workload], "load": load});
        WorkloadId(hash("workload", &parts))
    }

    /// Returns the ids of all workloads of a plan.
    #[must_use]
    pub fn of_plan(plan: &Plan) -> Vec<WorkloadId> {
        (0..plan.workloads.len()).map(|workload| WorkloadId::new(plan, workload)).collect()
    }
}

/// Id of a version of a subject: a hash of its definition and of the inputs of its build. The path
/// of its folder, its revision's name and the conditions of arms are no part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SubjectVersion(String);

impl SubjectVersion {
    /// Returns the version of a subject; `None`: dyno did not start it, could not read its
    /// definition, or did not build it.
    #[must_use]
    pub fn new(subject: &Subject) -> Option<SubjectVersion> {
        let definition = subject.definition.as_ref()?;
        if subject.skipped.is_some() || subject.build_failed.is_some() {
            return None;
        }
        let build = subject.build.as_ref().map(|build| &build.portable_inputs);
        let parts = json!({"definition": definition, "build": build});
        Some(SubjectVersion(hash("subject", &parts)))
    }
}

macro_rules! display {
    ($($id:ty),*) => {$(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

display!(RunId, MachineId, WorkloadId, SubjectVersion);

/// Returns the hash of a value. `kind`: distinguishes ids of different kinds.
fn hash(kind: &str, value: &Value) -> String {
    let mut text = String::from(kind);
    write_canonical(value, &mut text);
    let digest = Sha256::digest(text);
    digest.iter().take(ID_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a value as JSON with sorted keys. Fractions are rounded to 15 significant digits, because
/// a parser may change the last bit of a fraction.
fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or_default();
            write!(text, "{number:.14e}").expect("a string can be written to");
        }
        Value::Array(values) => {
            text.push('[');
            for value in values {
                write_canonical(value, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in members {
                text.push_str(&json!(name).to_string());
                text.push(':');
                write_canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
