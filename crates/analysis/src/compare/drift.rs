//! Finds changes of the machine between two runs: the results of controls, which are the same
//! program in both.

use super::ComparisonRow;
use crate::metric::MEMORY;

/// Whether a metric of a control shows changes of the machine. Memory does not, because it always
/// differs by a few pages.
pub(super) fn shows_machine(metric: &str) -> bool {
    metric != MEMORY.key
}

/// Whether a row shows that a control differs between the sides. A control is the same program on
/// both sides, so a difference shows that the machine changed.
pub(super) fn is_drift(row: &ComparisonRow) -> bool {
    row.control && shows_machine(row.metric) && row.differs()
}

/// Describes a control that differs, with the largest change of each metric. If several controls
/// differ, only the first is described. `None`: no control differs.
pub(super) fn drift(rows: &[ComparisonRow]) -> Option<String> {
    let size = |row: &ComparisonRow| row.estimate.map_or(0.0, |estimate| estimate.ratio.ln().abs());
    let mut largest: Vec<&ComparisonRow> = Vec::new();
    for row in rows.iter().filter(|row| is_drift(row)) {
        let is_same = |known: &&mut &ComparisonRow| {
            (&known.subject_a, known.metric) == (&row.subject_a, row.metric)
        };
        match largest.iter_mut().find(is_same) {
            Some(known) if size(known) < size(row) => *known = row,
            Some(_) => {}
            None => largest.push(row),
        }
    }
    let text = |row: &&ComparisonRow| format!("{}: {}", row.title, row.sentence);
    let name = &largest.first()?.subject_a;
    let texts: Vec<String> =
        largest.iter().filter(|row| row.subject_a == *name).map(text).collect();
    Some(format!(
        "the control {name} is the same program in both runs, but its results differ ({})",
        texts.join("; ")
    ))
}
