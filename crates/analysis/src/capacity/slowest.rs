//! Throughput of the slowest subject of a run in closed loops: all subjects are compared at rates
//! that it can serve.

use dyno_archive::plan::{Capacity, Plan};

use crate::grid::Grid;
use crate::peak::lower_bounds;
use crate::report::Report;

/// For each workload that is loaded in closed loops, the throughput of the subject whose best step
/// has the least: the median over its starts. Controls are no subjects here. One that could have
/// done more, had the generator not been the limit, counts with what it did.
#[must_use]
pub fn slowest(plan: &Plan, report: &Report) -> Vec<Capacity> {
    let grid = Grid::new(&report.trials);
    let of_workload = |workload: usize| {
        let arms = (0..plan.arms.len()).filter(|arm| !plan.subject_of(*arm).control);
        let best = |arm: usize| {
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
        arms.filter_map(best).min_by(|a, b| a.rps.total_cmp(&b.rps))
    };
    (0..plan.workloads.len()).filter_map(of_workload).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn slowest_decides_for_each_workload_and_controls_do_not() {
        let run = fixture::five_blocks();
        let report = crate::report::report(&run);
        let found: Vec<(String, String)> = slowest(&run.header.plan, &report)
            .into_iter()
            .map(|c| (c.workload, c.subject))
            .collect();
        assert_eq!(
            found,
            [("w", "slow"), ("v", "slow")].map(|(w, s)| (w.to_string(), s.to_string()))
        );
        // The better of its two steps, the median of five starts.
        let rps = slowest(&run.header.plan, &report)[0].rps;
        let best = report.overview.iter().find(|row| row.subject == "slow").unwrap();
        assert_eq!(Some(rps), best.peak_rps.as_ref().unwrap().median);
    }
}
