//! Identifies the subject, workloads and step that a part of the page belongs to. The viewer shows
//! and hides rows, cards and columns by these attributes alone.

use std::collections::BTreeSet;

use dyno_analysis::cell::CellKey;
use dyno_analysis::overview::OverviewRow;
use dyno_analysis::report::Report;

/// Subject, workloads and step of a part of the page, as indices in the plan. With `None` in a
/// field, the part is shown whatever the reader selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PartScope {
    pub(super) subject: Option<usize>,
    pub(super) workloads: Option<String>,
    pub(super) step: Option<usize>,
    /// Whether the part belongs to a control. Scales are chosen so that they distinguish the other
    /// subjects.
    pub(super) control: bool,
}

impl PartScope {
    /// Scope of a subject, given the name of its arm.
    pub(super) fn subject(report: &Report, id: &str) -> PartScope {
        let subject = report.subjects.iter().position(|s| s.id == id);
        PartScope { subject, ..PartScope::default() }
    }

    /// Scope of a cell.
    pub(super) fn cell(report: &Report, cell: CellKey) -> PartScope {
        let step = (report.run.load.steps.len() > 1).then_some(cell.step);
        PartScope { subject: Some(cell.arm), step, ..PartScope::default() }
            .with_workloads(report, [cell.workload])
    }

    /// Scope of a row of the overview. If its subject or its workload has no numbers at all, the
    /// row belongs to every workload, so that it is always shown.
    pub(super) fn row(report: &Report, row: &OverviewRow) -> PartScope {
        let key = row.reference_cell;
        let has_summary =
            |is_own: &dyn Fn(CellKey) -> bool| report.summaries.iter().any(|s| is_own(s.cell));
        let has_numbers = has_summary(&|cell| cell.arm == key.arm)
            && has_summary(&|cell| cell.workload == key.workload);
        let every_workload = 0..report.run.workloads.len();
        let workloads = if has_numbers { key.workload..key.workload + 1 } else { every_workload };
        let scope =
            PartScope { subject: Some(key.arm), control: row.control, ..PartScope::default() };
        scope.with_workloads(report, workloads)
    }

    /// Sets the workloads, unless the report has only one.
    pub(super) fn with_workloads(
        mut self,
        report: &Report,
        workloads: impl IntoIterator<Item = usize>,
    ) -> PartScope {
        if report.run.workloads.len() > 1 {
            let indices: BTreeSet<usize> = workloads.into_iter().collect();
            let texts: Vec<String> = indices.iter().map(usize::to_string).collect();
            self.workloads = Some(texts.join(" "));
        }
        self
    }
}
