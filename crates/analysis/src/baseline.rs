//! Compares arms with the baseline, cell by cell. A cell is an arm (a server under one set of
//! conditions) with a workload at a step.

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::plan::Plan;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cell::{CellKey, Shape};
use crate::design::Design;
use crate::grid::{Cell, Grid};
use crate::metric::{self, MetricId, Ratios};
use crate::peak::{self, RatioBound};
use crate::series::Series;
use crate::stats::{Estimate, Looks, PairUnit, Pairs, Repeated, holm, median};
use crate::trial::TrialResult;

/// Offered rate of a cell, and the share of it that the valid trials served.
#[derive(Clone, Debug)]
pub struct Offered {
    /// Offered requests per second, the median of the trials; `None`: a closed loop, or no valid
    /// trial.
    pub rps: Option<f64>,
    /// Served share of the rate in each trial: 0 to 1.
    pub served_share: Repeated,
}

impl Offered {
    /// Computes the offered rate and the served shares of a cell.
    #[must_use]
    pub fn new(trials: &[TrialResult], cell: CellKey) -> Offered {
        let trials = trials.iter().filter(|trial| trial.cell == cell && trial.valid);
        let pairs =
            trials.filter_map(|trial| Some((trial.load.offered_rps()?, trial.load.throughput_rps)));
        let (offered, shares): (Vec<f64>, Vec<f64>) =
            pairs.map(|(offered, served)| (offered, (served / offered).min(1.0))).unzip();
        Offered { rps: median(&offered), served_share: Repeated::new(shares) }
    }
}

/// Comparison of an arm with the baseline in one cell. Ratios are arm ÷ baseline, of repeats paired
/// by block.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    pub cell: CellKey,
    pub subject: String,
    pub baseline: String,
    pub workload: String,
    pub step: usize,
    #[serde(flatten)]
    pub shape: Shape,
    /// The ratio of every metric by its key, without unknown ratios.
    pub metrics: Ratios,
    /// Ratio of throughput, with its interval. `None`: too few repeats, or a repeat has no value.
    pub throughput: Option<PairEstimate>,
    /// Ratio of CPU time per request, with its interval. `None`: as for throughput.
    pub cpu: Option<PairEstimate>,
    /// Whether the throughputs are not shown to differ. This is so in three cases:
    ///
    /// - They do not differ significantly ([`Pairs::are_apart`]). The test is corrected for all
    ///   arms that are compared with the baseline at this step.
    /// - The slower arm may do more (`throughput_bound`).
    /// - The order of starts was fixed.
    ///
    /// `None`: no pair of valid repeats.
    pub tie: Option<bool>,
    /// Whether the ratio of throughput is a bound, because repeats of one arm are not valid for
    /// reasons outside of the server. If only one arm may do more, the ratio also uses its repeats
    /// that only the generator limited: their throughput is a lower bound.
    pub throughput_bound: RatioBound,
}

impl Comparison {
    /// Returns the ratio of a metric; without values if it is unknown.
    #[must_use]
    pub fn ratio(&self, id: MetricId) -> &Repeated {
        metric::ratio_of(&self.metrics, id)
    }
}

/// An estimate of a ratio from pairs, with its limits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PairEstimate {
    #[serde(flatten)]
    pub estimate: Estimate,
    #[serde(rename = "over")]
    pub unit: PairUnit,
    /// Wider interval: in 19 of 20 runs, such intervals of all pairs of subjects at this step
    /// contain the true ratios (Bonferroni; Dunn, "Multiple comparisons among means", 1961). If it
    /// excludes 1, the pair also differs significantly in the corrected test (Holm). `None`:
    /// unbounded.
    pub interval_of_all: Option<(f64, f64)>,
}

impl PairEstimate {
    /// Estimates the ratio of pairs; `None`: too few pairs. `tests`: number of pairs of subjects at
    /// the step.
    fn from_pairs(pairs: &Pairs, looks: Looks, tests: usize) -> Option<PairEstimate> {
        let (estimate, unit) = pairs.estimate(looks)?;
        Some(PairEstimate { estimate, unit, interval_of_all: estimate.interval_among(tests) })
    }
}

/// Returns the number of pairs of subjects at a step, without controls, but at least 1.
fn pair_count(plan: &Plan, grid: &Grid<'_>, key: CellKey) -> usize {
    let is_compared =
        |arm: &usize| !plan.subject_of(*arm).control && grid.get(key.with_arm(*arm)).is_some();
    let arms = (0..plan.arms.len()).filter(is_compared).count();
    (arms * arms.saturating_sub(1) / 2).max(1)
}

/// Returns the arm with which all others are compared: the arm that the suite names, otherwise the
/// first arm that is not a control, otherwise the first arm. Only arms with trials are considered.
/// `None`: no arm has trials.
#[must_use]
pub fn baseline(plan: &Plan, grid: &Grid<'_>) -> Option<usize> {
    let measured: Vec<usize> = (0..plan.arms.len()).filter(|arm| grid.has_arm(*arm)).collect();
    let find =
        |is_match: &dyn Fn(usize) -> bool| measured.iter().copied().find(|arm| is_match(*arm));
    let is_named = |arm: usize| plan.report.baseline.as_ref() == Some(&plan.arms[arm].name);
    find(&is_named)
        .or_else(|| find(&|arm| !plan.subject_of(arm).control))
        .or_else(|| find(&|_| true))
}

/// Compares the cells of every other arm with the cells of the baseline. An arm is omitted if only
/// the arm or only the baseline was loaded at the same time as others.
#[must_use]
pub fn comparisons(plan: &Plan, grid: &Grid<'_>) -> Vec<Comparison> {
    let Some(baseline) = baseline(plan, grid) else { return Vec::new() };
    let is_compared = |arm: usize| arm != baseline && plan.are_loaded_alike(arm, baseline);
    let others = grid.cells().filter(|(key, _)| is_compared(key.arm));
    let empty = Cell::default();
    let compare_with_baseline = |(key, cell): (CellKey, &Cell<'_>)| {
        let base = grid.get(key.with_arm(baseline)).unwrap_or(&empty);
        let (throughput, base_throughput) = peak::throughputs(cell, base);
        let pairs = throughput.pairs_with(&base_throughput);
        let tests = pair_count(plan, grid, key);
        (comparison(plan, key, cell, (baseline, base), tests), pairs)
    };
    let (mut comparisons, pairs): (Vec<Comparison>, Vec<Pairs>) =
        others.map(compare_with_baseline).unzip();
    let step_of = |c: &Comparison| (c.cell.workload, c.cell.step);
    let steps: BTreeSet<(usize, usize)> = comparisons.iter().map(step_of).collect();
    for step in steps {
        let indices: Vec<usize> =
            (0..comparisons.len()).filter(|i| step_of(&comparisons[*i]) == step).collect();
        let (tested, ps): (Vec<usize>, Vec<f64>) = indices
            .iter()
            .filter_map(|i| Some((*i, pairs[*i].chance(Looks::from_plan(plan))?)))
            .unzip();
        let chances: BTreeMap<usize, f64> = tested.into_iter().zip(holm(&ps)).collect();
        for i in indices {
            let decides = comparisons[i].throughput_bound.decides(pairs[i].mean_log().exp());
            let is_tie = !decides
                || Design::new(plan).is_fixed()
                || !pairs[i].are_apart(chances.get(&i).copied());
            comparisons[i].tie = (!pairs[i].launches.is_empty()).then_some(is_tie);
        }
    }
    comparisons
}

/// Compares a cell with the baseline's cell. `tests`: number of pairs of subjects at the step.
/// `tie` is set later, after all pairs of the step are tested.
fn comparison(
    plan: &Plan,
    key: CellKey,
    cell: &Cell<'_>,
    (baseline, base): (usize, &Cell<'_>),
    tests: usize,
) -> Comparison {
    let mut metrics = cell.ratios_to(base);
    let (throughput, base_throughput) = peak::throughputs(cell, base);
    let throughput_ratio = throughput.ratios_to(&base_throughput);
    if !throughput_ratio.values.is_empty() {
        metrics.insert(MetricId::Throughput, throughput_ratio);
    }
    let estimate = |values: &Series, base_values: &Series| {
        PairEstimate::from_pairs(&values.pairs_with(base_values), Looks::from_plan(plan), tests)
    };
    Comparison {
        cell: key,
        subject: plan.arms[key.arm].name.clone(),
        baseline: plan.arms[baseline].name.clone(),
        workload: plan.workloads[key.workload].name.clone(),
        step: key.step,
        shape: Shape::from_step(&plan.load.steps[key.step]),
        throughput: estimate(&throughput, &base_throughput),
        cpu: estimate(&cell.series(&metric::CPU), &base.series(&metric::CPU)),
        tie: None,
        throughput_bound: RatioBound::from_cells(cell, base),
        metrics,
    }
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::Subject;

    use super::*;
    use crate::fixture::{self, five_block_report, response_count};
    use crate::ranking::PlaceRange;
    use crate::stats::draws::Normal;

    #[test]
    fn comparison_ratios_are_paired_by_block() {
        let comparisons = five_block_report().comparisons;
        assert!(
            comparisons
                .iter()
                .all(|c| c.baseline == "slow" && c.subject != "slow" && c.tie == Some(false))
        );
        assert_eq!(comparisons.len(), 2 * 2 * 2);
        for comparison in &comparisons {
            let base = if comparison.subject == "fast" { 400 } else { 900 };
            let workload = usize::from(comparison.workload == "v");
            let is_spoilt = (base, workload, comparison.step) == (400, 0, 0);
            let blocks: &[usize] = if is_spoilt { &[1, 3, 4] } else { &[0, 1, 2, 3, 4] };
            let expected_responses = |base, block: &usize| {
                response_count(base, *block, workload, comparison.step) as f64
            };
            let ratios: Vec<f64> = blocks
                .iter()
                .map(|b| expected_responses(base, b) / expected_responses(200, b))
                .collect();
            assert_eq!(comparison.ratio(MetricId::Throughput).values, ratios, "{comparison:?}");
        }
    }

    #[test]
    fn comparison_without_pair_is_no_tie() {
        let mut run = fixture::five_blocks();
        let planned = &run.header.plan.trials;
        for trial in run.trials.iter_mut().filter(|trial| planned[trial.trial].arm == 0) {
            trial.load.server_failure = Some("it left".into());
        }
        let comparisons = crate::report::report(&run).comparisons;
        assert!(!comparisons.is_empty());
        assert!(comparisons.iter().all(|c| c.tie.is_none() && c.throughput.is_none()));
    }

    #[test]
    fn baseline_is_named_arm_or_first_subject() {
        let named = |name: &str| Subject { name: name.into(), ..Subject::default() };
        let control = |name: &str| Subject { control: true, ..named(name) };
        let trials = five_block_report().trials;
        let baseline_of = |subjects: [Subject; 3], baseline: Option<&str>, measured: &[usize]| {
            let mut plan = fixture::plan(subjects.into());
            plan.report.baseline = baseline.map(Into::into);
            let trials: Vec<_> =
                trials.iter().filter(|t| measured.contains(&t.cell.arm)).cloned().collect();
            super::baseline(&plan, &Grid::new(&trials))
        };
        let subjects = || [control("null"), named("a"), named("b")];
        assert_eq!(baseline_of(subjects(), Some("b"), &[0, 1, 2]), Some(2));
        assert_eq!(baseline_of(subjects(), Some("b"), &[0, 1]), Some(1), "subject without trials");
        assert_eq!(baseline_of(subjects(), Some("null"), &[0, 1]), Some(0));
        assert_eq!(baseline_of(subjects(), None, &[0, 1, 2]), Some(1));
        assert_eq!(baseline_of([control("x"), control("y"), named("a")], None, &[1, 0]), Some(0));
        assert_eq!(baseline_of(subjects(), None, &[]), None);
    }

    /// With equal servers, the interval for all pairs excludes 1 in at most one of twenty runs, and
    /// only if places are distinguished, too.
    #[test]
    fn intervals_of_all_pairs_agree_with_places() {
        const SIMULATIONS: u64 = 120;
        let mut alarms = 0;
        for seed in 0..SIMULATIONS {
            let named = |name: &str| Subject { name: name.into(), ..Subject::default() };
            let servers = ["a", "b", "c", "d", "e"].map(named).into();
            let run = fixture::blocks_of(servers, 5, |arm, block| {
                let mut normal = Normal(seed * 1000 + u64::from(block) * 10 + arm as u64);
                (2000.0 * normal.values(1, 1.0, 0.05)[0]) as u64
            });
            let report = crate::report::report(&run);
            let best = &report.overview[0];
            let second = &report.overview[1];
            let comparison_of =
                |row: &crate::overview::OverviewRow| report.comparison(row.reference_cell);
            let headline = comparison_of(best).or_else(|| comparison_of(second)).unwrap();
            let (low, high) = headline.throughput.unwrap().interval_of_all.unwrap();
            let is_apart = low > 1.0 || high < 1.0;
            alarms += u64::from(is_apart);
            let places = |id: &str| {
                report.overview.iter().find(|r| r.subject == id).unwrap().places.unwrap()
            };
            let (subject, base) = (places(&headline.subject), places(&headline.baseline));
            let is_narrow = |p: PlaceRange| (p.best, p.worst) != (1, 5);
            assert!(
                !is_apart || is_narrow(subject) && is_narrow(base),
                "{seed}: {subject:?} {base:?}"
            );
        }
        assert!(alarms <= SIMULATIONS / 20, "{alarms}");
    }
}
