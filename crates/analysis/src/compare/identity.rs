//! Names the machines, workloads and versions of servers that differ between two runs, by their
//! ids.

use std::collections::BTreeSet;

use dyno_model::facts::Facts;
use dyno_model::plan::Subject;
use dyno_model::{MachineId, SubjectVersion, WorkloadId};

use super::Side;

/// Hexadecimal digits of an id in a sentence.
const SHOWN_DIGITS: usize = 12;

/// Returns notes on the ids that differ between the sides. `arms`: the compared arms.
pub(super) fn notes(a: Side<'_>, b: Side<'_>, arms: &[(usize, usize)]) -> Vec<String> {
    let machine = machine_note(&a.run.header.facts, &b.run.header.facts);
    machine.into_iter().chain(workload_notes(a, b)).chain(version_notes(a, b, arms)).collect()
}

/// Whether two workloads of the same name send equal requests with equal load settings.
pub(super) fn is_same_workload(a: (Side<'_>, usize), b: (Side<'_>, usize)) -> bool {
    let id = |(side, workload): (Side<'_>, usize)| WorkloadId::new(&side.run.header.plan, workload);
    id(a) == id(b)
}

/// Returns a note on the machines. `None`: A and B have equal machines.
fn machine_note(a: &Facts, b: &Facts) -> Option<String> {
    let (id_a, id_b) = (MachineId::new(a), MachineId::new(b));
    if id_a == id_b {
        return None;
    }
    let facts = [
        ("CPU model", a.cpu_model != b.cpu_model),
        ("number of CPUs", a.online_cpus != b.online_cpus),
        ("memory", a.memory_bytes != b.memory_bytes),
        ("virtualisation", a.virtualisation != b.virtualisation),
    ];
    let names: Vec<&str> =
        facts.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect();
    Some(format!(
        "A and B were measured on different machines ({} and {}): {} {}.",
        short(&id_a),
        short(&id_b),
        names.join(", "),
        if names.len() == 1 { "differs" } else { "differ" }
    ))
}

/// Returns a note on each workload of both sides that is not the same.
fn workload_notes<'a>(a: Side<'a>, b: Side<'a>) -> impl Iterator<Item = String> + 'a {
    let (plan_a, plan_b) = (&a.run.header.plan, &b.run.header.plan);
    plan_a.workloads.iter().enumerate().filter_map(move |(index_a, workload)| {
        let index_b = plan_b.workloads.iter().position(|other| other.name == workload.name)?;
        if is_same_workload((a, index_a), (b, index_b)) {
            return None;
        }
        let part = match *workload == plan_b.workloads[index_b] {
            true => "settings of the load",
            false => "requests, or settings of the load",
        };
        Some(format!("Workload {}: A and B have different {part}.", workload.name))
    })
}

/// Returns a note on each server of which A and B measured different versions.
fn version_notes<'a>(
    a: Side<'a>,
    b: Side<'a>,
    arms: &[(usize, usize)],
) -> impl Iterator<Item = String> {
    let subjects = arms.iter().map(move |(arm_a, arm_b)| {
        (a.run.header.plan.subject_of(*arm_a), b.run.header.plan.subject_of(*arm_b))
    });
    let notes: BTreeSet<String> = subjects.filter_map(|(a, b)| version_note(a, b)).collect();
    notes.into_iter()
}

/// Returns a note on the versions of a server. `None`: A and B have the same version, a version is
/// unknown, or the sides have different servers.
fn version_note(a: &Subject, b: &Subject) -> Option<String> {
    let (version_a, version_b) = (SubjectVersion::new(a)?, SubjectVersion::new(b)?);
    if version_a == version_b || (&a.name, &a.variant) != (&b.name, &b.variant) {
        return None;
    }
    let inputs =
        |subject: &Subject| subject.build.as_ref().map(|build| build.portable_inputs.clone());
    let cause = match (a.definition != b.definition, inputs(a) != inputs(b)) {
        (true, true) => "the definition and the inputs of its build differ",
        (true, false) => "the definition differs",
        (false, _) => "the inputs of its build differ",
    };
    let name = dyno_model::plan::server_id(&a.name, a.variant.as_deref(), None);
    Some(format!(
        "{name}: A and B measured different versions ({} and {}): {cause}.",
        short(&version_a),
        short(&version_b)
    ))
}

fn short(id: &impl ToString) -> String {
    id.to_string().chars().take(SHOWN_DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::Build;
    use dyno_model::run::Run;

    use super::*;
    use crate::fixture;
    use crate::report::report;

    fn run() -> Run {
        let build = Some(Build { portable_inputs: "p".into(), ..Build::default() });
        let definition = Some("d".into());
        let subject = Subject { name: "x".into(), definition, build, ..Subject::default() };
        fixture::blocks_of(vec![subject], 5, |_, block| 1_000 + u64::from(block))
    }

    /// Returns the notes on a run and a changed copy.
    fn notes_after(change: impl FnOnce(&mut Run)) -> Vec<String> {
        let (a, mut b) = (run(), run());
        change(&mut b);
        let (report_a, report_b) = (report(&a), report(&b));
        let side_a = Side { run: &a, results: report_a.results(), arm: None };
        let side_b = Side { run: &b, results: report_b.results(), arm: None };
        notes(side_a, side_b, &[(0, 0)])
    }

    /// Removes the ids in brackets.
    fn without_ids(notes: &[String]) -> Vec<String> {
        let without_id = |note: &String| match (note.find(" ("), note.find(')')) {
            (Some(from), Some(to)) => format!("{}{}", &note[..from], &note[to + 1..]),
            _ => note.clone(),
        };
        notes.iter().map(without_id).collect()
    }

    #[test]
    fn differing_ids_have_notes_with_cause() {
        assert!(notes_after(|_| {}).is_empty());
        assert!(notes_after(|b| b.header.facts.kernel = Some("6.9".into())).is_empty());
        let machine = notes_after(|b| {
            b.header.facts.cpu_model = Some("other".into());
            b.header.facts.online_cpus = Some(64);
        });
        let expected =
            "A and B were measured on different machines: CPU model, number of CPUs differ.";
        assert_eq!(without_ids(&machine), [expected]);
        let load = notes_after(|b| b.header.plan.load.timeout_ns += 1);
        assert_eq!(load, ["Workload w: A and B have different settings of the load."]);
        let requests = notes_after(|b| b.header.plan.workloads[0].requests[0].weight += 1);
        let expected = "Workload w: A and B have different requests, or settings of the load.";
        assert_eq!(requests, [expected]);
        let definition = notes_after(|b| b.header.plan.subjects[0].definition = Some("e".into()));
        let expected = "x: A and B measured different versions: the definition differs.";
        assert_eq!(without_ids(&definition), [expected]);
        let build = notes_after(|b| b.header.plan.subjects[0].build = Some(Build::default()));
        let expected = "x: A and B measured different versions: the inputs of its build differ.";
        assert_eq!(without_ids(&build), [expected]);
        assert!(notes_after(|b| b.header.plan.subjects[0].definition = None).is_empty());
    }

    #[test]
    fn sides_with_different_servers_have_no_version_note() {
        let notes = notes_after(|b| {
            b.header.plan.subjects[0].name = "y".into();
            b.header.plan.subjects[0].definition = Some("e".into());
        });
        assert!(notes.is_empty(), "{notes:?}");
    }
}
