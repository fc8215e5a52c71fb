//! Sentences that hold for all rows of a comparison.

use std::collections::BTreeSet;

use super::order::Confounding;
use super::{
    CellRepeats, ComparisonRow, ServerStarts, Side, SideRepeats, is_control, times, unmatched_arms,
};
use crate::stats::{Looks, PairUnit, REPEATS_FOR_INTERVAL};

/// Returns notes on all rows.
pub(super) fn notes(
    a: Side<'_>,
    b: Side<'_>,
    (is_one_run, drift, order): (bool, Option<String>, Confounding),
    (rows, repeats, starts): (&[ComparisonRow], &[CellRepeats], &[ServerStarts]),
    (unmatched, has_gates): (usize, bool),
) -> Vec<String> {
    let mut notes = Vec::new();
    if !is_one_run {
        notes.extend(times::note(a.run, b.run));
    }
    if let Some(drift) = drift {
        notes.push(format!(
            "The machine changed between the runs: {drift}. A change of the same metric in the \
             same direction may come from the machine, if it is no larger."
        ));
    } else if !is_one_run && !rows.iter().any(|row| row.control) && !is_control(a) {
        notes.push(
            "The runs have no control in common, such as the subject `null`. Without one, a change \
             of the machine looks like a change of the servers."
                .into(),
        );
    }
    if is_one_run && Looks::from_plan(&a.run.header.plan) == Looks::AfterEach {
        notes.push(
            "The run could end as soon as its suite's question was answered. Its intervals \
             therefore hold after every repeat, and are wider than those of a fixed number of \
             repeats."
                .into(),
        );
    } else if [a, b].iter().any(|side| Looks::from_plan(&side.run.header.plan) == Looks::AfterEach)
    {
        notes.push(
            "A run ended, or could have ended, as soon as its own question was answered \
             (`[stop]`). Its number of repeats depends on its results, so intervals over two runs \
             are too narrow."
                .into(),
        );
    }
    if rows.iter().any(|row| row.unit == Some(PairUnit::Rounds)) {
        notes.push(format!(
            "With fewer than {REPEATS_FOR_INTERVAL} starts of each, intervals of throughput and \
             CPU per request are over rounds of turns, or over pieces of a duet's window. They \
             hold only for these starts, and another start may differ by more. They give no \
             verdict. Use {REPEATS_FOR_INTERVAL} or more repeats."
        ));
    }
    notes.extend(order.note().map(Into::into));
    notes.extend(starts.iter().filter_map(break_note));
    notes.extend(starts.iter().filter_map(warmup_note));
    notes.extend(starts.iter().filter_map(|server| waived_checks_note(a, b, server)));
    notes.extend(unrecorded_notes(repeats));
    notes.extend(unmatched_arm_notes(a, b));
    if unmatched > 0 {
        let consequence = if has_gates { ", so their gates are undecided" } else { "" };
        notes.push(format!(
            "{unmatched} of the steps of A are not planned in B. They are not compared\
             {consequence}."
        ));
    }
    notes
}

/// Returns a note on a server that broke in some of its starts, which may have no step left that
/// shows it. `None`: no start broke.
fn break_note(server: &ServerStarts) -> Option<String> {
    Some(format!("{}: {}.", name(server), server.breaks_sentence()?))
}

/// Returns a note on a server that failed requests of a warm-up, which no gate counts. `None`: no
/// request of a warm-up failed.
fn warmup_note(server: &ServerStarts) -> Option<String> {
    Some(format!("{}: {}.", name(server), server.warmup_sentence()?))
}

/// Returns a note on a server that fails checks which its own file waives. Its repeats count, and
/// no gate is missed. `None`: no check of either side is waived.
fn waived_checks_note(a: Side<'_>, b: Side<'_>, server: &ServerStarts) -> Option<String> {
    let failed_by_a = waived_checks(a, &server.subject_a);
    let failed_by_b = waived_checks(b, &server.subject_b);
    let only_one = "Their numbers may be for different work";
    let (sides, consequence) = match (failed_by_a.is_empty(), failed_by_b.is_empty()) {
        (true, true) => return None,
        _ if failed_by_a == failed_by_b => ("A and B fail", "Both are compared with this defect"),
        (false, true) => ("A fails, and B does not fail,", only_one),
        (true, false) => ("B fails, and A does not fail,", only_one),
        (false, false) => ("A and B do not fail the same checks. At least one fails", only_one),
    };
    let checks: Vec<String> =
        failed_by_a.union(&failed_by_b).map(|check| format!("{check:?}")).collect();
    let noun = if checks.len() == 1 { "the check" } else { "the checks" };
    Some(format!(
        "{}: {sides} {noun} {} of the contract, which the server's own file waives (`waive`). \
         {consequence}.",
        name(server),
        checks.join(", ")
    ))
}

/// Returns the checks that a side's arm failed with a response, and its file waives.
fn waived_checks<'a>(side: Side<'a>, arm_name: &str) -> BTreeSet<&'a str> {
    let arms = side.run.header.plan.arms.iter().zip(&side.report.subjects);
    let subject = arms.into_iter().find(|(arm, _)| arm.name == arm_name);
    let checks = subject.map_or(&[][..], |(_, subject)| &subject.checks);
    checks.iter().filter(|c| c.waived && !c.late).map(|check| check.name.as_str()).collect()
}

fn name(server: &ServerStarts) -> String {
    let (a, b) = (&server.subject_a, &server.subject_b);
    if a == b { a.clone() } else { format!("{a} and {b}") }
}

/// Returns a note per side on servers whose name the other side does not have.
fn unmatched_arm_notes(a: Side<'_>, b: Side<'_>) -> Vec<String> {
    let note = |(side, name): (Side<'_>, &str), (other, other_name): (Side<'_>, &str)| {
        let names: Vec<&str> = unmatched_arms(side, other)
            .iter()
            .map(|arm| &*side.run.header.plan.arms[*arm].name)
            .collect();
        (!names.is_empty()).then(|| {
            format!(
                "{name} has servers that {other_name} does not have. They are not compared: {}.",
                names.join(", ")
            )
        })
    };
    [note((a, "A"), (b, "B")), note((b, "B"), (a, "A"))].into_iter().flatten().collect()
}

/// Returns a note on records that the archives lack, per side.
fn unrecorded_notes(repeats: &[CellRepeats]) -> Vec<String> {
    let side_note = |(name, pick): (&str, fn(&CellRepeats) -> &SideRepeats)| {
        let missing: usize = repeats.iter().map(|cell| pick(cell).without_record()).sum();
        (missing > 0).then(|| {
            format!(
                "The archive of {name} lacks {missing} planned repeats of the compared steps: the \
                 run was not finished, or files were removed. Use `dyno run --resume` to measure \
                 them."
            )
        })
    };
    let sides: [(&str, fn(&CellRepeats) -> &SideRepeats); 2] =
        [("A", |cell| &cell.a), ("B", |cell| &cell.b)];
    sides.into_iter().filter_map(side_note).collect()
}
