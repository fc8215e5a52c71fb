//! What a part of the page is of. The viewer shows and hides rows, cards and columns by it, and
//! knows nothing else of them.

use std::collections::BTreeSet;

use dyno_analysis::cell::CellKey;
use dyno_analysis::overview::OverviewRow;
use dyno_analysis::report::Report;

/// The subject, the workloads and the step that a part of the page is of, by their indices in the
/// plan. `None` in a field: the part is shown under every choice of
/// the reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PartScope {
    pub(super) subject: Option<usize>,
    pub(super) workloads: Option<String>,
    pub(super) step: Option<usize>,
    /// It is of a control: the scale must still distinguish the other subjects.
    pub(super) control: bool,
}

impl PartScope {
    /// Of a subject, given by the name of its arm.
    pub(super) fn subject(report: &Report, id: &str) -> PartScope {
        let subject = report.subjects.iter().position(|s| s.id == id);
        PartScope { subject, ..PartScope::default() }
    }

    pub(super) fn cell(report: &Report, cell: CellKey) -> PartScope {
        let step = (report.run.load.steps.len() > 1).then_some(cell.step);
        PartScope { subject: Some(cell.arm), step, ..PartScope::default() }
            .with_workloads(report, [cell.workload])
    }

    /// Of a row of the overview. One that has no numbers under any choice, because its subject or
    /// its whole workload has none, is of every workload.
    pub(super) fn row(report: &Report, row: &OverviewRow) -> PartScope {
        let key = row.reference_cell;
        let known =
            |is_own: &dyn Fn(CellKey) -> bool| report.summaries.iter().any(|s| is_own(s.cell));
        let has_numbers =
            known(&|cell| cell.arm == key.arm) && known(&|cell| cell.workload == key.workload);
        let all = 0..report.run.workloads.len();
        let workloads = if has_numbers { key.workload..key.workload + 1 } else { all };
        let of = PartScope { subject: Some(key.arm), control: row.control, ..PartScope::default() };
        of.with_workloads(report, workloads)
    }

    /// A report of one workload leaves nothing to choose.
    pub(super) fn with_workloads(
        mut self,
        report: &Report,
        all: impl IntoIterator<Item = usize>,
    ) -> PartScope {
        if report.run.workloads.len() > 1 {
            let all: BTreeSet<usize> = all.into_iter().collect();
            let all: Vec<String> = all.iter().map(usize::to_string).collect();
            self.workloads = Some(all.join(" "));
        }
        self
    }
}
