//! Searches of a run: at each start the highest rate at which its server keeps the suite's objective.

use std::collections::BTreeMap;

use dyno_archive::plan::{self, Objective, Plan};
use dyno_archive::run::Run;
use dyno_archive::search::SearchRecord;
use dyno_archive::{LoadRecord, Party, StartRecord};
use schemars::JsonSchema;
use serde::Serialize;

use super::brackets::{Bracket, Searched};
use super::{CapacityResult, CapacityTrial, Next, Search, Tried, Width, judge, requests};
use crate::cell::{CellKey, Shape};
use crate::load::Config;
use crate::server::server_use;
use crate::stats::{Repeated, median};
use crate::trial::cpus_of;
use crate::verdict::{self, Context};

/// A search of one start.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SearchResult {
    pub cell: CellKey,
    /// Name of the arm.
    pub subject: String,
    pub workload: String,
    pub connections: u32,
    pub streams: u32,
    pub pipeline: u32,
    /// Counted from 1.
    pub repeat: u32,
    pub result: CapacityResult,
}

/// Share of a closed loop's throughput at which a search begins: below what most servers keep, and few loads from it.
const BEGINS_AT: f64 = 0.5;

/// A search that begins after a trial in a closed loop.
#[must_use]
pub fn begin(plan: &Plan, asked: plan::Search, objective: &Objective, closed: &LoadRecord) -> Search {
    let (opens, closes) = closed.window_ns;
    let seconds = (closes - opens) as f64 / 1e9;
    let measured = closed.intervals.iter().filter(|i| i.phase == dyno_archive::Phase::Measured);
    let answers: u64 = measured.map(dyno_archive::Interval::right_answers).sum();
    let rate = BEGINS_AT * answers as f64 / seconds.max(f64::MIN_POSITIVE);
    // Where the objective's percentiles are known.
    let least = requests(objective) / (plan.load.duration_ns as f64 / 1e9);
    Search::new(rate.max(least).max(1.0), Width(asked.width))
}

/// What a load of a search says. `start`: that of the trial which the search follows.
#[must_use]
pub fn tried(
    plan: &Plan,
    (trial, start): (usize, Option<&StartRecord>),
    (rate, load): (f64, &LoadRecord),
) -> Option<CapacityTrial> {
    let (asked, objective) = (plan.search?, plan.report.objective.as_ref()?);
    let planned = &plan.trials[trial];
    let (workload, subject) = (&plan.workloads[planned.workload], plan.subject_of(planned.arm));
    let step = plan::Step { arrivals: asked.arrivals(rate), ..plan.load.steps[planned.step].clone() };
    let config = Config::new(workload, &plan.load_of_trial(planned), &step, planned.seed);
    let party = plan.launches[planned.launch].party_of(planned.arm).unwrap_or(Party::SUBJECT);
    let part = start.and_then(|start| start.part(party));
    let server = server_use(load, party, cpus_of(&plan.arms[planned.arm].conditions, part));
    let context = Context { server: Some(&server), control: subject.control, ..Context::default() };
    let result = verdict::load(load, config, &context);
    Some(CapacityTrial::new(rate, &result, judge(objective, &result)))
}

/// Every search of a run, trial by trial.
#[must_use]
pub(crate) fn searches(run: &Run) -> Vec<SearchResult> {
    let plan = &run.header.plan;
    let mut all: Vec<&SearchRecord> = run.searches.iter().collect();
    all.sort_by_key(|search| plan.trials[search.trial].shown_at());
    all.into_iter().filter_map(|record| search(run, record)).collect()
}

fn search(run: &Run, record: &SearchRecord) -> Option<SearchResult> {
    let plan = &run.header.plan;
    let (asked, objective) = (plan.search?, plan.report.objective.as_ref()?);
    let planned = &plan.trials[record.trial];
    let own = run.trials.iter().find(|trial| trial.trial == record.trial);
    let start = own.and_then(|own| run.starts.iter().find(|start| start.start == own.start));
    let mut search = Search::new(record.loads.first().map_or(1.0, |load| load.rate), Width(asked.width));
    let mut trials = Vec::new();
    for one in &record.loads {
        let trial = tried(plan, (record.trial, start), (one.rate, &one.load))?;
        search.tell(one.rate, Tried::of(&trial));
        trials.push(trial);
    }
    let found = match search.next() {
        Next::Done(found) => found,
        Next::Try(_) => search.so_far(),
    };
    let Shape { connections, streams, pipeline, .. } = Shape::of(&plan.load.steps[planned.step]);
    Some(SearchResult {
        cell: CellKey { arm: planned.arm, workload: planned.workload, step: planned.step },
        subject: plan.arms[planned.arm].name.clone(),
        workload: plan.workloads[planned.workload].name.clone(),
        connections,
        streams,
        pipeline,
        repeat: plan.launches[planned.launch].block + 1,
        result: CapacityResult::new(objective, found, record.failure.clone(), trials),
    })
}

/// What the searches of each arm, workload and kind of connection come to: medians over starts.
#[must_use]
pub(crate) fn brackets_of(searches: &[SearchResult]) -> Vec<Bracket> {
    let mut by_cell: BTreeMap<CellKey, Vec<&SearchResult>> = BTreeMap::new();
    searches.iter().for_each(|search| by_cell.entry(search.cell).or_default().push(search));
    by_cell.into_values().map(|own| bracket_of(&own)).collect()
}

fn bracket_of(own: &[&SearchResult]) -> Bracket {
    let first = own[0];
    let most = |is_it: fn(&&&SearchResult) -> bool| 2 * own.iter().filter(is_it).count() > own.len();
    // A search that kept nothing, or missed nothing, counts as one whose bound lies beyond all others.
    let middle = |bound: fn(&CapacityResult) -> Option<f64>, beyond: f64| {
        let all: Vec<f64> = own.iter().map(|search| bound(&search.result).unwrap_or(beyond)).collect();
        median(&all).filter(|rate| rate.is_finite() && *rate > 0.0)
    };
    let by_repeat: Vec<f64> = own.iter().map(|search| search.result.kept_rps.unwrap_or(0.0)).collect();
    Bracket {
        subject: first.subject.clone(),
        workload: first.workload.clone(),
        connections: first.connections,
        streams: first.streams,
        pipeline: first.pipeline,
        kept_rps: middle(|result| result.kept_rps, 0.0),
        missed_rps: middle(|result| result.missed_rps, f64::INFINITY),
        limited_by_generator: most(|search| search.result.limited_by_generator),
        rates: Vec::new(),
        searched: Some(Searched {
            starts: own.len(),
            loads: own.iter().map(|search| search.result.trials.len()).sum(),
            settled: own.iter().filter(|search| search.result.settled).count(),
        }),
        interval_rps: Repeated::new(by_repeat.clone()).interval,
        by_repeat_rps: by_repeat,
    }
}

#[cfg(test)]
mod tests {
    use dyno_archive::plan::{Arrival, Condition};
    use dyno_archive::search::SearchLoad;
    use dyno_archive::times::Recording;

    use super::*;
    use crate::fixture;

    const ASKED: plan::Search = plan::Search { width: 0.05, arrival: Arrival::Constant };

    /// Blocks of a server that answers within a millisecond up to so many requests per second in each, and within nine above.
    fn run(edges: &[f64]) -> Run {
        let subject = plan::Subject { name: "a".into(), ..plan::Subject::default() };
        let mut run = fixture::blocks_of(vec![subject], edges.len() as u32, |_, _| 4000);
        let condition = Condition::Quantile { name: "p50".into(), q: 0.5, below_us: 5000.0 };
        run.header.plan.report.objective =
            Some(Objective { text: "p50<5ms".into(), conditions: vec![condition] });
        run.header.plan.search = Some(ASKED);
        run.searches = (0..edges.len()).map(|trial| searched(&run, trial, edges[trial])).collect();
        run
    }

    fn load(rate: f64, edge: f64) -> LoadRecord {
        let mut load = fixture::record(rate as u64);
        if rate > edge {
            let mut times = Recording::new();
            (0..rate as u64).for_each(|_| times.record(9_000_000));
            load.intervals[0].times.response = times.seal();
        }
        load
    }

    /// What the runner does, with a server that is no more than an edge.
    fn searched(run: &Run, trial: usize, edge: f64) -> SearchRecord {
        let plan = &run.header.plan;
        let objective = plan.report.objective.as_ref().unwrap();
        let mut search = begin(plan, ASKED, objective, &run.trials[trial].load);
        let mut record = SearchRecord { trial, ..SearchRecord::default() };
        while let Next::Try(rate) = search.next() {
            let load = load(rate, edge);
            search.tell(rate, Tried::of(&tried(plan, (trial, None), (rate, &load)).unwrap()));
            record.loads.push(SearchLoad { rate, load });
        }
        record
    }

    #[test]
    fn each_start_has_a_search_and_their_median_counts() {
        let run = run(&[3000.0, 5000.0, 3100.0]);
        assert_eq!(run.searches[0].loads[0].rate, 2000.0, "half of what the closed loop did");
        let found = searches(&run);
        for (search, edge) in found.iter().zip([3000.0, 5000.0, 3100.0]) {
            let result = &search.result;
            let (kept, missed) = (result.kept_rps.unwrap(), result.missed_rps.unwrap());
            assert!(result.settled && kept <= edge && edge < missed && missed / kept <= 1.0501, "{result:?}");
        }
        let bracket = &crate::report::report(&run).brackets[0];
        assert_eq!(bracket.kept_rps, found[2].result.kept_rps);
        assert_eq!(bracket.missed_rps, found[2].result.missed_rps);
        let searched = bracket.searched.unwrap();
        assert_eq!((searched.starts, searched.settled, bracket.by_repeat_rps.len()), (3, 3, 3));
        assert_eq!(searched.loads, run.searches.iter().map(|search| search.loads.len()).sum::<usize>());
        assert_eq!(bracket.interval_rps, None, "too few starts");
    }

    #[test]
    fn a_search_that_did_not_end_says_so() {
        let mut run = run(&[3000.0]);
        run.searches[0].loads.truncate(3);
        run.searches[0].failure = Some("it crashed".into());
        let result = &searches(&run)[0].result;
        assert_eq!((result.settled, result.ended.as_deref()), (false, Some("it crashed")));
        run.searches[0].loads.clear();
        let bracket = &crate::report::report(&run).brackets[0];
        assert_eq!(
            (bracket.kept_rps, bracket.missed_rps, bracket.searched.unwrap().settled),
            (None, None, 0)
        );
        run.header.plan.search = None;
        assert!(searches(&run).is_empty(), "nobody asked");
    }
}
