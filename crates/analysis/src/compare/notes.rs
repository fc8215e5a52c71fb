//! Writes notes that apply to all rows of a comparison.

use std::collections::BTreeSet;

use super::order::Confounding;
use super::{
    CellRepeats, ComparisonRow, ServerStarts, Side, SideRepeats, identity, is_control, times,
    unmatched_arms,
};
use crate::stats::{Looks, PairUnit, REPEATS_FOR_INTERVAL};

/// Returns notes on all rows.
pub(super) fn notes(
    a: Side<'_>,
    b: Side<'_>,
    (is_one_run, drift, order, arms): (bool, Option<String>, Confounding, &[(usize, usize)]),
    (rows, repeats, starts): (&[ComparisonRow], &[CellRepeats], &[ServerStarts]),
    (unmatched, has_gates): (usize, bool),
) -> Vec<String> {
    let mut notes = Vec::new();
    if !is_one_run {
        notes.extend(times::note(a.run, b.run));
        notes.extend(identity::notes(a, b, arms));
    }
    if let Some(drift) = drift {
        notes.push(format!(
            "The machine changed between the runs: {drift}. If a server's metric changed in the \
             same direction by the same amount or less, the machine may be the cause."
        ));
    } else if !is_one_run && !rows.iter().any(|row| row.control) && !is_control(a) {
        notes.push(
            "The runs have no common control: a subject such as `null` that is the same in both \
             runs. Without a control, a change of the machine looks like a change of the servers."
                .into(),
        );
    }
    if is_one_run && Looks::from_plan(&a.run.header.plan) == Looks::AfterEach {
        notes.push(
            "Because of `[stop]` in the suite, the run could end early, depending on its \
             results. Its intervals allow for this, and are therefore wider than usual."
                .into(),
        );
    } else if [a, b].iter().any(|side| Looks::from_plan(&side.run.header.plan) == Looks::AfterEach)
    {
        notes.push(
            "Because of `[stop]` in the suite, at least one of the runs could end early, depending \
             on its results. Intervals over two runs do not allow for this, so they are too narrow."
                .into(),
        );
    }
    if rows.iter().any(|row| row.unit == Some(PairUnit::Rounds)) {
        notes.push(format!(
            "With fewer than {REPEATS_FOR_INTERVAL} starts of each server, the intervals of \
             throughput and CPU time per request show only variations within these starts. Another \
             start may differ by more, so these intervals give no verdict. Use \
             {REPEATS_FOR_INTERVAL} or more repeats."
        ));
    }
    notes.extend(order.note().map(Into::into));
    notes.extend(starts.iter().filter_map(break_note));
    notes.extend(starts.iter().filter_map(warmup_note));
    notes.extend(starts.iter().filter_map(repeated_note));
    notes.extend(starts.iter().filter_map(|server| waived_checks_note(a, b, server)));
    notes.extend(starts.iter().filter_map(|server| one_sided_checks_note(server, has_gates)));
    notes.extend(unrecorded_notes(repeats));
    notes.extend(unmatched_arm_notes(a, b));
    if unmatched > 0 {
        let consequence = if has_gates { ", so their gates are undecided" } else { "" };
        notes.push(format!(
            "{unmatched} of the steps of A are not in the plan of B. These steps are not compared\
             {consequence}."
        ));
    }
    notes
}

/// Returns a note on a server that broke in some of its starts. Its valid steps may not show these
/// failures. `None`: no start broke.
fn break_note(server: &ServerStarts) -> Option<String> {
    Some(format!("{}: {}.", name(server), server.breaks_sentence()?))
}

/// Returns a note on a server whose warm-up had failed requests, because gates ignore them. `None`:
/// no request of a warm-up failed.
fn warmup_note(server: &ServerStarts) -> Option<String> {
    Some(format!("{}: {}.", name(server), server.warmup_sentence()?))
}

/// Returns a note on a server that closed idle connections when requests arrived. `None`: no
/// request was sent again for this reason.
fn repeated_note(server: &ServerStarts) -> Option<String> {
    Some(format!("{}: {}.", name(server), server.repeated_sentence()?))
}

/// Returns a note on a server that fails checks that its own file waives. Repeats with these
/// failures are valid, so no gate shows the failures. `None`: neither side failed a waived check.
fn waived_checks_note(a: Side<'_>, b: Side<'_>, server: &ServerStarts) -> Option<String> {
    let failed_by_a = waived_checks(a, &server.subject_a);
    let failed_by_b = waived_checks(b, &server.subject_b);
    let different_work =
        "A and B may have done different work, so their numbers may not be comparable";
    let (sides, consequence) = match (failed_by_a.is_empty(), failed_by_b.is_empty()) {
        (true, true) => return None,
        _ if failed_by_a == failed_by_b => {
            ("A and B fail", "The numbers of both sides are for a server with this defect")
        }
        (false, true) => ("A, but not B, fails", different_work),
        (true, false) => ("B, but not A, fails", different_work),
        (false, false) => {
            ("A and B do not fail the same checks. A, B or both fail", different_work)
        }
    };
    let checks: Vec<String> =
        failed_by_a.union(&failed_by_b).map(|check| format!("{check:?}")).collect();
    let noun = if checks.len() == 1 { "the check" } else { "the checks" };
    Some(format!(
        "{}: {sides} {noun} {} for correct responses. The subject file of the server allows this \
         failure (`waive`). {consequence}.",
        name(server),
        checks.join(", ")
    ))
}

/// Returns a note on the checks that only one side of a server was held to. `None`: both sides were
/// held to the same checks, or the server is a control.
fn one_sided_checks_note(server: &ServerStarts, has_gates: bool) -> Option<String> {
    let sentence = server.checks.note(has_gates).filter(|_| !server.control)?;
    Some(format!("{}: {sentence}.", name(server)))
}

/// Returns the waived checks that a side's arm failed with an incorrect response.
fn waived_checks<'a>(side: Side<'a>, arm_name: &str) -> BTreeSet<&'a str> {
    let arms = side.run.header.plan.arms.iter().zip(side.results.subjects);
    let subject = arms.into_iter().find(|(arm, _)| arm.name == arm_name);
    let checks = subject.map_or(&[][..], |(_, subject)| &subject.checks);
    checks.iter().filter(|c| c.waived && !c.late).map(|check| check.name.as_str()).collect()
}

/// Returns the name of a server, or both names if they differ.
fn name(server: &ServerStarts) -> String {
    let (a, b) = (&server.subject_a, &server.subject_b);
    if a == b { a.clone() } else { format!("{a} and {b}") }
}

/// Returns a note per side on servers whose name the other side does not have.
fn unmatched_arm_notes(a: Side<'_>, b: Side<'_>) -> Vec<String> {
    let note = |(side, label): (Side<'_>, &str), other: Side<'_>| {
        let names: Vec<&str> = unmatched_arms(side, other)
            .iter()
            .map(|arm| &*side.run.header.plan.arms[*arm].name)
            .collect();
        (!names.is_empty()).then(|| {
            format!(
                "Only {label} has these servers, so they are not compared: {}.",
                names.join(", ")
            )
        })
    };
    [note((a, "A"), b), note((b, "B"), a)].into_iter().flatten().collect()
}

/// Returns, for each side, a note on the records that its archive lacks.
fn unrecorded_notes(repeats: &[CellRepeats]) -> Vec<String> {
    let side_note = |(label, pick): (&str, fn(&CellRepeats) -> &SideRepeats)| {
        let missing: usize = repeats.iter().map(|cell| pick(cell).without_record()).sum();
        (missing > 0).then(|| {
            format!(
                "The archive of {label} lacks {missing} planned repeats of the compared steps: the \
                 run was not finished, or files were removed. Use `dyno run --resume` to measure \
                 these repeats."
            )
        })
    };
    let sides: [(&str, fn(&CellRepeats) -> &SideRepeats); 2] =
        [("A", |cell| &cell.a), ("B", |cell| &cell.b)];
    sides.into_iter().filter_map(side_note).collect()
}
