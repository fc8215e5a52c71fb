//! Finds the slowest subject of each workload in closed loops.
//!
//! `dyno run` derives its rates from it, so that all subjects are compared at rates that each of
//! them can serve.

use dyno_archive::plan::{Capacity, Plan};

use crate::grid::Grid;
use crate::peak::lower_bounds;
use crate::report::Report;

/// Returns the slowest subject of each workload with closed loops, and its peak throughput: the
/// median over its starts. Controls are left out. Lower bounds count like other values.
#[must_use]
pub fn slowest_subjects(plan: &Plan, report: &Report) -> Vec<Capacity> {
    let grid = Grid::new(&report.trials);
    let slowest_subject = |workload: usize| {
        let arms = (0..plan.arms.len()).filter(|arm| !plan.subject_of(*arm).control);
        let peak_throughput = |arm: usize| {
            let steps = grid
                .steps(arm, workload)
                .filter(|(key, _)| plan.load.steps[key.step].arrivals.is_closed());
            let rps = steps
                .filter_map(|(_, cell)| lower_bounds(cell).repeated().median)
                .reduce(f64::max)?;
            Some(Capacity {
                workload: plan.workloads[workload].name.clone(),
                rps,
                subject: plan.arms[arm].name.clone(),
            })
        };
        arms.filter_map(peak_throughput).min_by(|a, b| a.rps.total_cmp(&b.rps))
    };
    (0..plan.workloads.len()).filter_map(slowest_subject).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn slowest_subject_of_each_workload_is_not_a_control() {
        let run = fixture::five_blocks();
        let report = crate::report::report(&run);
        let subjects: Vec<(String, String)> = slowest_subjects(&run.header.plan, &report)
            .into_iter()
            .map(|c| (c.workload, c.subject))
            .collect();
        assert_eq!(
            subjects,
            [("w", "slow"), ("v", "slow")].map(|(w, s)| (w.to_string(), s.to_string()))
        );
        // The better of its two steps, as the median of five starts.
        let rps = slowest_subjects(&run.header.plan, &report)[0].rps;
        let best = report.overview.iter().find(|row| row.subject == "slow").unwrap();
        assert_eq!(Some(rps), best.peak_rps.as_ref().unwrap().median);
    }
}
