//! Identifies the subject, workloads and step that a part of the page belongs to. Subject,
//! workloads and step become attributes, by which the viewer shows and hides rows, cards and
//! columns.

use std::collections::BTreeSet;

use dyno_analysis::cell::CellKey;
use dyno_analysis::overview::OverviewRow;
use dyno_analysis::report::Report;

/// Subject, workloads and step of a part of the page, as indices in the plan. `None`: the part is
/// shown under any selection of the reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartScope {
    pub(crate) subject: Option<usize>,
    pub(crate) workloads: Option<String>,
    pub(crate) step: Option<usize>,
    /// Whether the part belongs to a control. The viewer scales charts to the other subjects, so
    /// that their differences stay visible next to a fast control.
    pub(crate) control: bool,
}

impl PartScope {
    /// Returns the scope of a subject, given the name of its arm.
    pub(crate) fn subject(report: &Report, id: &str) -> PartScope {
        let subject = report.subjects.iter().position(|s| s.id == id);
        PartScope { subject, ..PartScope::default() }
    }

    /// Returns the scope of a cell.
    pub(crate) fn cell(report: &Report, cell: CellKey) -> PartScope {
        let step = (report.run.load.steps.len() > 1).then_some(cell.step);
        PartScope { subject: Some(cell.arm), step, ..PartScope::default() }
            .with_workloads(report, [cell.workload])
    }

    /// Returns the scope of a row of the overview. If its subject or its workload has no numbers,
    /// the row belongs to every workload, so that it is always shown.
    pub(crate) fn row(report: &Report, row: &OverviewRow) -> PartScope {
        let key = row.reference_cell;
        let has_arm_numbers = report.summaries.iter().any(|s| s.cell.arm == key.arm);
        let has_workload_numbers = report.summaries.iter().any(|s| s.cell.workload == key.workload);
        let every_workload = 0..report.run.workloads.len();
        let workloads = if has_arm_numbers && has_workload_numbers {
            key.workload..key.workload + 1
        } else {
            every_workload
        };
        let scope =
            PartScope { subject: Some(key.arm), control: row.control, ..PartScope::default() };
        scope.with_workloads(report, workloads)
    }

    /// Sets the workloads if the report has several.
    pub(crate) fn with_workloads(
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
