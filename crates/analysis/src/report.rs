//! Computes the report of a run from its archive, in the format `dyno.report/1`.

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::plan::Trial;
use dyno_model::run::Run;
use dyno_model::start::FailureKind;
use dyno_model::{Facts, MachineId, RunId, WorkloadId, plan};
use schemars::JsonSchema;
use serde::Serialize;

use crate::baseline::{Comparison, comparisons};
use crate::canary::{CanaryResult, canary};
use crate::capacity::{
    Bracket, SearchResult, brackets, missing_searches, refused_protocols, search_brackets, searches,
};
use crate::caveat::Caveat;
use crate::cell::CellKey;
use crate::experiment::{Effect, ExperimentResult, duets, experiment, twins};
use crate::grid::Grid;
use crate::metric::{METRICS, Metric};
use crate::noise::{NoiseFloor, noise};
use crate::nuisance::{Nuisance, nuisance};
use crate::other_programs::DisturbedSteps;
use crate::overview::{self, OverviewRow, Tie};
use crate::profile::{ProfileResult, profiles};
use crate::protocols::{self, ProtocolComparison};
use crate::results::{self, Results};
use crate::scaling::{ScalingResult, scaling};
use crate::stats::{Looks, median};
use crate::stopping;
use crate::subject::SubjectResult;
use crate::summary::{Summary, summaries};
use crate::tables::{Table, overview_table, trials_table};
use crate::trial::TrialResult;
use crate::verdict;
use crate::wire::{WireResult, wire};

pub const SCHEMA: &str = "dyno.report/1";

/// Everything that is computed from a run's archive.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    pub schema: &'static str,
    pub run: RunFacts,
    /// Caveats about the whole run.
    pub caveats: Vec<Caveat>,
    /// One entry per arm, in the plan's order: a cell's `arm` is an index here.
    pub subjects: Vec<SubjectResult>,
    pub trials: Vec<TrialResult>,
    /// Definitions of the metrics whose keys summaries, comparisons and `wire` use.
    pub metrics: &'static [Metric],
    /// One entry per cell, over all repeats.
    pub summaries: Vec<Summary>,
    pub overview: Vec<OverviewRow>,
    /// Subjects whose peak throughput does not differ significantly, workload by workload.
    pub ties: Vec<Tie>,
    pub comparisons: Vec<Comparison>,
    /// Result of the suite's experiment; `None`: the suite has none.
    pub experiment: Option<ExperimentResult>,
    /// Comparisons of arms that are identical under two names.
    pub twins: Vec<Effect>,
    /// Comparisons with the baseline, for arms that were loaded at the same time as the baseline.
    /// Empty if an experiment defines the comparisons.
    pub duets: Vec<Effect>,
    /// Influence of conditions such as the time of a start on its results; empty with fewer than
    /// ten starts.
    pub nuisance: Vec<Nuisance>,
    /// Spread between repeats of one step, by key of the metric.
    pub noise: BTreeMap<&'static str, NoiseFloor>,
    /// Time of a fixed piece of work before each start; `None`: not measured.
    pub canary: Option<CanaryResult>,
    /// Growth of throughput with the requests in flight; empty with fewer than two levels.
    pub scaling: Vec<ScalingResult>,
    /// Rates between which each arm stops meeting the suite's objective; empty without an objective
    /// or open loops.
    pub brackets: Vec<Bracket>,
    /// Searches of each start for the highest rate that meets the objective; empty without
    /// `rate = "find"` in the suite.
    pub searches: Vec<SearchResult>,
    /// Comparisons of HTTP/2 with HTTP/1.1, server by server; empty if no requests use both.
    pub protocols: Vec<ProtocolComparison>,
    /// Traffic on the wire, by subject and protocol.
    pub wire: Vec<WireResult>,
    pub tables: Vec<Table>,
    /// Profiles by cell; empty if no profiles were requested.
    pub profiles: Vec<ProfileResult>,
}

/// Ids that outlive the run. Other runs on an equal machine, and with an equal workload, have the
/// same ids of machine and workload.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunIds {
    pub run: RunId,
    /// The machine of the run's first part, if the run was resumed on another.
    pub machine: MachineId,
    /// In the order of the run's workloads; `null`: the report withholds a value of the workload,
    /// which could be guessed from the id.
    pub workloads: Vec<Option<WorkloadId>>,
}

/// Plan and progress of the run, and its machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunFacts {
    /// Name of the run, unique on its machine.
    pub id: String,
    pub ids: RunIds,
    pub suite: String,
    pub description: String,
    pub seed: u64,
    /// RFC 3339, UTC.
    pub started: String,
    pub command: Vec<String>,
    /// Facts of the machine. Those of the run's first part, if the run was resumed in other
    /// conditions (caveat `mixed`).
    pub facts: Facts,
    pub repeats: u32,
    /// Repeats after which the run ended because its question was answered; `None`: all repeats
    /// were to run.
    pub answered_after: Option<u32>,
    /// Whether the run could end as soon as its question was answered. If so, intervals of ratios
    /// are valid after every repeat.
    pub at_every_look: bool,
    pub load: plan::Load,
    /// Measurement from which the load's rates are derived; `None`: the rates are absolute, or
    /// there are no rates.
    pub measured_first: Option<plan::MeasuredFirst>,
    pub workloads: Vec<plan::Workload>,
    /// Names of the arms in planned order, block by block.
    pub order: Vec<Vec<String>>,
    /// Names of the arms that were planned to be loaded at the same time; empty: arms ran one at a
    /// time, or took turns.
    #[serde(rename = "at_once")]
    pub concurrent_arms: Vec<String>,
    /// Name of the arm with which the others are compared; `None`: the suite names no baseline.
    pub baseline: Option<String>,
    /// Whether servers and generator swap CPUs from block to block. The conditions of subjects name
    /// the CPUs of the first block.
    pub swaps_cpus: bool,
    pub markers: Vec<plan::Marker>,
    /// Objective of servers at the rates of open loops, as written; `None`: no objective.
    pub objective: Option<String>,
    pub cost: Option<plan::Cost>,
    pub suite_source: String,
    /// Names of the applied profiles of the suite. Later profiles override earlier ones.
    pub profiles: Vec<String>,
    pub trials_planned: usize,
    pub trials_done: usize,
    /// Searches for a rate (`rate = "find"`) that are missing because the run was interrupted.
    pub searches_missing: usize,
    /// Trials after which the server's contract was not checked, because the run was interrupted.
    pub trials_unchecked: usize,
    /// Number of invalid trials, except trials of a control that refused connections as expected.
    pub trials_invalid: usize,
    /// Trials that are invalid because of other programs; `None`: no such trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_programs: Option<DisturbedSteps>,
    /// Share of the measured time in which dyno read counters on the generator's CPUs: the median
    /// over the trials. `None`: unknown in all trials.
    pub observing_share: Option<f64>,
}

impl Report {
    /// Returns the summary of a cell; `None`: the cell has no trials.
    #[must_use]
    pub fn summary(&self, cell: CellKey) -> Option<&Summary> {
        self.summaries.iter().find(|summary| summary.cell == cell)
    }

    /// Returns the comparison of a cell with the baseline's cell; `None`: the cell belongs to the
    /// baseline, or has no trials.
    #[must_use]
    pub fn comparison(&self, cell: CellKey) -> Option<&Comparison> {
        self.comparisons.iter().find(|comparison| comparison.cell == cell)
    }

    /// Returns the results that comparisons of arms use.
    #[must_use]
    pub fn results(&self) -> Results<'_> {
        Results {
            trials: &self.trials,
            subjects: &self.subjects,
            answered_after: self.run.answered_after,
        }
    }
}

/// Computes the report of a run.
#[must_use]
pub fn report(run: &Run) -> Report {
    let plan = &run.header.plan;
    let trials = results::trials(run);
    let subjects = results::subjects(run, &trials);
    let unstopped = Results { trials: &trials, subjects: &subjects, answered_after: None };
    let results = Results { answered_after: repeats_until_answer(run, unstopped), ..unstopped };
    let (experiment, twins, duets) =
        (experiment(run, results), twins(run, results), duets(run, results));
    let grid = Grid::new(&trials);
    let summaries = summaries(plan, &grid);
    let (overview, ties) = overview::overview(plan, &subjects, &grid, &summaries);
    let comparisons = comparisons(plan, &grid);
    let protocols = protocols::protocols(plan, &grid);
    let scaling = scaling(plan, &grid);
    let searches = searches(run);
    let brackets = brackets(plan, &subjects, &grid)
        .into_iter()
        .chain(search_brackets((plan, &grid), &searches, &subjects))
        .collect();
    let nuisance = nuisance(run, &grid);
    let noise = noise(plan, &grid, &subjects);
    let wire = wire(&trials);
    let tables = vec![overview_table(&overview), trials_table(&trials)];
    Report {
        schema: SCHEMA,
        caveats: verdict::run(run, &overview::peaks(plan, &overview)),
        run: run_facts(run, results),
        subjects,
        trials,
        metrics: METRICS,
        summaries,
        overview,
        ties,
        comparisons,
        experiment,
        twins,
        duets,
        nuisance,
        noise,
        canary: canary(run),
        scaling,
        brackets,
        searches,
        protocols,
        wire,
        tables,
        profiles: profiles(run),
    }
}

/// Returns the number of repeats after which a run ended because its question was answered; `None`:
/// the run did not end for this reason.
fn repeats_until_answer(run: &Run, results: Results<'_>) -> Option<u32> {
    let plan = &run.header.plan;
    let block = |trial: usize| plan.launches[plan.trials[trial].launch].block;
    let finished_repeats = run.trials.iter().map(|trial| block(trial.trial) + 1).max()?;
    let takes_part =
        |launch: usize| plan.launches[launch].arms.iter().all(|arm| plan.takes_part(*arm));
    // A run that answered its question ends between two blocks. If any trial until then is missing,
    // the run was interrupted, or the record was lost.
    let is_planned =
        |trial: &usize| block(*trial) < finished_repeats && takes_part(plan.trials[*trial].launch);
    let recorded: BTreeSet<usize> = run.trials.iter().map(|record| record.trial).collect();
    // After a failed start, its remaining trials are omitted, and the run continues.
    let has_failed = |trial: usize| {
        let Trial { launch, workload, .. } = plan.trials[trial];
        let mut starts = run.starts.iter().filter(|start| start.launch == launch);
        let failure = starts.next_back().and_then(|start| start.failure.as_ref());
        failure.is_some_and(|failure| failure.kind != FailureKind::Interrupted)
            || refused_protocols(run, launch).contains(&plan.workloads[workload].protocol)
    };
    let is_done = |trial: usize| recorded.contains(&trial) || has_failed(trial);
    (finished_repeats < plan.repeats
        && stopping::is_answered(run, results)
        && (0..plan.trials.len()).filter(is_planned).all(is_done))
    .then_some(finished_repeats)
}

/// Returns the plan and the progress of the run.
pub(crate) fn run_facts(run: &Run, results: Results<'_>) -> RunFacts {
    let trials = results.trials;
    let plan = &run.header.plan;
    let order = (0..plan.repeats).map(|block| {
        let launches = plan.launches.iter().filter(|l| l.block == block);
        launches.flat_map(|l| &l.arms).map(|arm| plan.arms[*arm].name.clone()).collect()
    });
    let probe_shares = trials.iter().filter_map(|t| Some(t.server.probe_s? / t.server.window_s));
    RunFacts {
        id: run.header.id.clone(),
        ids: RunIds {
            run: run.header.run_id.clone(),
            machine: MachineId::new(&run.header.facts),
            workloads: WorkloadId::of_plan(plan).into_iter().map(Some).collect(),
        },
        suite: plan.suite.name.clone(),
        description: plan.suite.description.clone(),
        seed: plan.seed,
        started: run.header.started.clone(),
        command: run.header.command.clone(),
        facts: run.header.facts.clone(),
        repeats: plan.repeats,
        answered_after: results.answered_after,
        at_every_look: Looks::from_plan(plan) == Looks::AfterEach,
        load: plan.load.clone(),
        measured_first: plan.measured_first.clone(),
        workloads: plan.workloads.clone(),
        order: order.collect(),
        concurrent_arms: plan
            .sharing
            .duet()
            .iter()
            .map(|arm| plan.arms[*arm].name.clone())
            .collect(),
        baseline: plan.report.baseline.clone(),
        swaps_cpus: plan.swaps_cpus && plan.repeats > 1,
        markers: plan.report.markers.clone(),
        objective: plan.report.objective.as_ref().map(|objective| objective.text.clone()),
        cost: plan.cost,
        suite_source: plan.suite.source.clone(),
        profiles: plan.suite.profiles.clone(),
        trials_planned: plan.trials.len(),
        trials_done: trials.len(),
        searches_missing: missing_searches(run),
        trials_unchecked: stopping::unchecked_trials(run).len(),
        trials_invalid: trials.iter().filter(|t| t.is_unexpectedly_invalid()).count(),
        other_programs: DisturbedSteps::new(trials, |trial| {
            let records = &run.trials;
            let record = records.iter().find(|record| record.trial + 1 == trial.place);
            let facts = record.map_or(&run.header.facts, |record| run.facts_at(record.start));
            facts.online_cpus.unwrap_or(facts.cpus)
        }),
        observing_share: median(&probe_shares.collect::<Vec<f64>>()),
    }
}

#[cfg(test)]
mod tests {
    use dyno_model::TrialRecord;
    use dyno_model::plan::{Arm, DriverKind, Launch, LoadChanges, Subject};

    use super::*;
    use crate::fixture::{self, five_block_report, five_blocks};
    use crate::metric::MetricId;

    /// Returns a run with three blocks of one server in two arms. The second arm has another driver
    /// and half the throughput.
    fn two_arms() -> Run {
        let server = Subject { name: "a".into(), title: "A".into(), ..Subject::default() };
        let mut plan = fixture::plan(vec![server]);
        let mut other = Arm { name: "a by uring".into(), level: Some(2.0), ..plan.arms[0].clone() };
        other.conditions.load =
            LoadChanges { driver: Some(DriverKind::Uring), ..LoadChanges::default() };
        plan.arms.push(other);
        plan.load.steps = vec![fixture::step(plan::Arrivals::Closed)];
        plan.launches =
            (0..3).flat_map(|block| [1, 0].map(|arm| Launch::with_arm(arm, block))).collect();
        let trials = plan.launches.iter().enumerate().map(|(launch, planned)| {
            let arm = planned.arms[0];
            let responses = [200, 100][arm] + u64::from(planned.block);
            plan.trials.push(Trial { launch, arm, workload: 0, step: 0, seed: 0 });
            fixture::trial_record(launch, fixture::record(responses))
        });
        let trials: Vec<TrialRecord> = trials.collect();
        fixture::run(plan, Vec::new(), trials)
    }

    #[test]
    fn arms_of_one_subject_have_separate_names() {
        let report = report(&two_arms());
        let ids: Vec<(&str, &str)> = report.subjects.iter().map(|s| (&*s.id, &*s.title)).collect();
        assert_eq!(ids, [("a", "A"), ("a by uring", "A, a by uring")]);
        assert_eq!(report.subjects[1].conditions.level, Some(2.0));
        assert_eq!(report.run.order[0], ["a by uring", "a"]);
        let drivers: Vec<(&str, DriverKind)> =
            report.trials.iter().map(|t| (&*t.subject_id, t.load.config.driver)).collect();
        assert_eq!(drivers[..2], [("a by uring", DriverKind::Uring), ("a", DriverKind::Epoll)]);
        let rows: Vec<(&str, Option<f64>)> = report
            .overview
            .iter()
            .map(|r| (&*r.subject, r.peak_rps.as_ref().and_then(|q| q.median)))
            .collect();
        assert_eq!(rows, [("a", Some(201.0)), ("a by uring", Some(101.0))]);
        let [comparison] = report.comparisons.as_slice() else {
            panic!("{:?}", report.comparisons)
        };
        assert_eq!((&*comparison.subject, &*comparison.baseline), ("a by uring", "a"));
        assert_eq!(comparison.ratio(MetricId::Throughput).values.len(), 3);
        assert!(report.summaries.iter().all(|s| s.trials == 3));
    }

    #[test]
    fn report_finds_cells_by_key() {
        let report = five_block_report();
        for summary in &report.summaries {
            assert_eq!(report.summary(summary.cell), Some(summary));
        }
        for comparison in &report.comparisons {
            assert_eq!(report.comparison(comparison.cell), Some(comparison));
        }
        let unknown = CellKey { arm: 9, ..CellKey::default() };
        assert_eq!((report.summary(unknown), report.comparison(unknown)), (None, None));
        assert_eq!(report.comparison(report.summaries[0].cell), None, "it is the baseline's");
        assert_eq!(report.summaries[5].shape.connections, 128);
        let metric =
            |key| report.summaries[0].metric(key).map(|summary| summary.repeats.values.clone());
        assert_eq!(metric(MetricId::Throughput), Some(vec![200.0, 201.0, 202.0, 203.0, 204.0]));
        assert_eq!(metric(MetricId::PagesPerSecond), None);
    }

    #[test]
    fn run_facts_count_planned_and_done_trials() {
        let mut run = five_blocks();
        for load in run.trials.iter_mut().map(|trial| &mut trial.load) {
            load.window_ns.1 *= 2;
            for sample in &mut load.samples {
                (sample.took_ns, sample.at_ns) = (2_000_000, sample.at_ns * 2);
            }
        }
        run.header.plan.trials.push(run.header.plan.trials[0]);
        let facts = report(&run).run;
        assert_eq!((facts.trials_planned, facts.trials_done, facts.trials_invalid), (61, 60, 2));
        assert_eq!(
            facts.order,
            vec![["slow", "fast", "null", "gone"].map(String::from).to_vec(); 5]
        );
        // Two samples of 2 ms each in two seconds.
        assert_eq!(facts.observing_share, Some(0.002));
    }

    #[test]
    fn trial_uses_back_ends_of_its_start() {
        let mut run = five_blocks();
        let start = |start, name: &str| {
            let part =
                dyno_model::start::PartStart::new(dyno_model::Party::Backend(0), name.into());
            dyno_model::StartRecord { start, parts: vec![part], ..Default::default() }
        };
        run.header.plan.backends = vec![plan::Backend::default()];
        run.starts = vec![start(0, "early"), start(1, "late")];
        run.trials.iter_mut().for_each(|t| t.start = usize::from(t.trial > 3));
        for trial in report(&run).trials {
            let expected = if trial.place > 4 { "late" } else { "early" };
            assert_eq!(trial.backends[0].name, expected, "{}", trial.place);
        }
    }
}
