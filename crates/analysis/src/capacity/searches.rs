//! Evaluates the searches of a run: at each start, the highest rate at which the server meets the
//! suite's objective.
//!
//! The runner and the report share this code, so that a report computed from an archive has the
//! rates that the run chose.

use std::collections::BTreeSet;

use dyno_model::plan;
use dyno_model::run::Run;
use dyno_model::search::SearchRecord;
use dyno_model::{LoadRecord, Party};
use schemars::JsonSchema;
use serde::Serialize;

use super::brackets::{Bracket, SearchCounts, failed_starts};
use super::{CapacityResult, CapacitySearch, RateSearch, Width, least_rps};
use crate::LoadResult;
use crate::cell::{CellKey, Shape};
use crate::grid::{Cell, Grid};
use crate::load::LoadConfig;
use crate::server::{ServerUse, server_use};
use crate::stats::Repeated;
use crate::subject::{SubjectResult, without_requests};
use crate::trial::{RecordedTrial, TrialResult, cpus_of};
use crate::verdict::{self, Context};

/// A search of one start.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SearchResult {
    pub cell: CellKey,
    /// Name of the arm.
    pub subject: String,
    pub workload: String,
    /// The closed loop before the search.
    #[serde(flatten)]
    pub shape: Shape,
    /// Number of the repeat, counted from 1.
    pub repeat: u32,
    pub result: CapacityResult,
}

/// Share of a closed loop's throughput at which a search begins. Most servers meet an objective at
/// this rate, and the search needs few loads from there.
const START_SHARE: f64 = 0.5;

/// Begins a search after a trial in a closed loop, at half of its throughput or at the lowest rate
/// with enough requests for the objective. `None`: no search is planned, or the trial had no
/// correct response.
#[must_use]
pub fn begin(closed: RecordedTrial<'_>) -> Option<RateSearch> {
    let plan = closed.plan;
    let (options, objective) = (plan.search?, plan.report.objective.as_ref()?);
    let rate = Some(closed.result().load.throughput_rps).filter(|rate| *rate > 0.0)? * START_SHARE;
    let least_rps = least_rps(objective, plan.load.duration_ns, options.arrival);
    let search = CapacitySearch::new(rate.max(least_rps).max(1.0), Width(options.width));
    Some(RateSearch::new(search, objective.clone(), least_rps))
}

/// Computes the result of a load of the search that follows a trial.
///
/// # Panics
/// If the plan has no search.
#[must_use]
pub fn load_result(closed: RecordedTrial<'_>, (rate, load): (f64, &LoadRecord)) -> LoadResult {
    let plan = closed.plan;
    let options = plan.search.expect("the plan should have a search");
    let planned = &plan.trials[closed.record.trial];
    let (workload, subject) = (&plan.workloads[planned.workload], plan.subject_of(planned.arm));
    let step =
        plan::Step { arrivals: options.arrivals(rate), ..plan.load.steps[planned.step].clone() };
    let config = LoadConfig::new(workload, &plan.load_of_trial(planned), &step, planned.seed);
    let party = plan.launches[planned.launch].party_of(planned.arm).unwrap_or(Party::SUBJECT);
    let part = closed.start.and_then(|start| start.part(party));
    let cpus = cpus_of(&plan.arms[planned.arm].conditions, part);
    let without_requests =
        without_requests(plan, closed.start).get(&planned.arm).copied().unwrap_or_default();
    let server = ServerUse { without_requests, ..server_use(load, party, &cpus) };
    let context = Context { server: Some(&server), control: subject.control, ..Context::default() };
    verdict::load(load, config, &context)
}

/// Returns the result of every search of a run, in the order of trials.
#[must_use]
pub(crate) fn searches(run: &Run) -> Vec<SearchResult> {
    let plan = &run.header.plan;
    let mut records: Vec<&SearchRecord> = run.searches.iter().collect();
    records.sort_by_key(|search| plan.trials[search.trial].display_order());
    records.into_iter().filter_map(|record| search(run, record)).collect()
}

fn search(run: &Run, record: &SearchRecord) -> Option<SearchResult> {
    let plan = &run.header.plan;
    let (options, objective) = (plan.search?, plan.report.objective.as_ref()?);
    let planned = &plan.trials[record.trial];
    // In an interrupted run, the trial that a search follows may be missing.
    let closed = run.trials.iter().find(|trial| trial.trial == record.trial)?;
    let closed = RecordedTrial::new(run, closed);
    let min_rps = least_rps(objective, plan.load.duration_ns, options.arrival);
    let first = record.loads.first().map_or(1.0, |load| load.rate);
    let search = CapacitySearch::new(first, Width(options.width));
    let mut search = RateSearch::new(search, objective.clone(), min_rps);
    for load in &record.loads {
        let result = load_result(closed, (load.rate, &load.load));
        search.take((load.rate, load.confirms), &load.load, result);
    }
    Some(SearchResult {
        cell: CellKey { arm: planned.arm, workload: planned.workload, step: planned.step },
        subject: plan.arms[planned.arm].name.clone(),
        workload: plan.workloads[planned.workload].name.clone(),
        shape: Shape::from_step(&plan.load.steps[planned.step]),
        repeat: plan.launches[planned.launch].block + 1,
        result: search.result(record.failure.clone()),
    })
}

/// Returns the brackets of the searches, per arm, workload and connection count. A bracket has the
/// highest rate that met the objective and the lowest rate that missed it, as medians over starts.
#[must_use]
pub(crate) fn search_brackets(
    (plan, grid): (&plan::Plan, &Grid<'_>),
    searches: &[SearchResult],
    subjects: &[SubjectResult],
) -> Vec<Bracket> {
    if plan.search.is_none() || plan.report.objective.is_none() {
        return Vec::new();
    }
    // Searches follow closed loops only.
    let is_closed = |key: &CellKey| plan.load.steps[key.step].arrivals.is_closed();
    let bracket = |key: CellKey| {
        let own_searches: Vec<&SearchResult> =
            searches.iter().filter(|search| search.cell == key).collect();
        let has_search = |block: u32| {
            own_searches
                .iter()
                .any(|search| search.repeat == block && !search.result.trials.is_empty())
        };
        // If a server failed in the closed loop, before its search, the start counts as one that
        // met the objective at no rate.
        let failed_in_loop =
            |trial: &&&TrialResult| trial.is_servers_fault() && !has_search(trial.block);
        let closed = grid.get(key).map_or(&[][..], Cell::trials);
        let failed: BTreeSet<u32> = failed_starts(plan, &subjects[key.arm], key, &has_search)
            .map(|(block, _)| block)
            .chain(closed.iter().filter(failed_in_loop).map(|trial| trial.block))
            .collect();
        let failed = failed.len();
        (own_searches.len() + failed > 0).then(|| bracket_of((plan, key), &own_searches, failed))
    };
    CellKey::planned(plan).into_iter().filter(is_closed).filter_map(bracket).collect()
}

/// Returns the bracket of one cell. `failed`: number of starts that failed before a search.
fn bracket_of(
    (plan, key): (&plan::Plan, CellKey),
    searches: &[&SearchResult],
    failed: usize,
) -> Bracket {
    // A search without loads has no result.
    let with_loads: Vec<&CapacityResult> = searches
        .iter()
        .map(|search| &search.result)
        .filter(|result| !result.trials.is_empty())
        .collect();
    let searched = SearchCounts { failed_starts: failed, ..count(&with_loads) };
    let starts = with_loads.len() + failed;
    let at_any_rate = 2 * searched.failing_starts > starts;
    // Starts that failed, or whose failures occur at any rate, count as starts that met the
    // objective at no rate.
    let without_rate = if at_any_rate { 0 } else { failed + searched.failing_starts };
    let with_rates: Vec<&CapacityResult> =
        with_loads.into_iter().filter(|result| !at_any_rate && has_rate(result)).collect();
    let limited_by_generator =
        !at_any_rate && 2 * searched.limited_by_generator > with_rates.len() + without_rate;
    // If the generator limited a search at its lowest rate, the result of the search is unknown.
    let is_decided = |r: &&CapacityResult| r.kept_rps.is_some() || !r.limited_by_generator;
    let decided: Vec<&CapacityResult> = with_rates.into_iter().filter(is_decided).collect();
    let failed_values = || std::iter::repeat_n(None, without_rate);
    let by_repeat: Vec<f64> = decided
        .iter()
        .map(|result| result.kept_rps)
        .chain(failed_values())
        .map(|rps| rps.unwrap_or(0.0))
        .collect();
    Bracket {
        subject: plan.arms[key.arm].name.clone(),
        workload: plan.workloads[key.workload].name.clone(),
        shape: Shape::from_step(&plan.load.steps[key.step]),
        kept_rps: lower_middle(decided.iter().map(|result| result.kept_rps).chain(failed_values())),
        missed_rps: upper_middle(
            decided.iter().map(|result| result.missed_rps).chain(failed_values()),
        ),
        limited_by_generator,
        rates: Vec::new(),
        searched: Some(searched),
        failures_at_any_rate: at_any_rate,
        interval_rps: Repeated::new(by_repeat.clone()).interval,
        by_repeat_rps: by_repeat,
    }
}

/// Whether the result of a search depends on the rate: it found a rate, or found that all rates are
/// too high. The result does not depend on the rate if failures occur at any rate.
const fn has_rate(result: &CapacityResult) -> bool {
    result.failures_at_any_rate.is_none()
}

/// Counts the searches of starts that did not fail.
fn count(results: &[&CapacityResult]) -> SearchCounts {
    let number = |has_property: fn(&CapacityResult) -> bool| {
        results.iter().filter(|result| has_property(result)).count()
    };
    SearchCounts {
        starts: results.len(),
        failed_starts: 0,
        failing_starts: number(|result| !has_rate(result)),
        loads: results.iter().map(|result| result.trials.len()).sum(),
        settled: number(|result| result.settled),
        confirmed: number(|result| result.confirmed),
        limited_by_generator: number(|r| has_rate(r) && r.limited_by_generator),
        holds_s: results.iter().filter_map(|r| r.kept_rps.and(r.holds_s)).reduce(f64::min),
    }
}

/// Returns the median of the kept rates, with `None` as 0. With an even number of rates it is the
/// lower of the middle two, because no load ran at the mean of the two. `None`: the median is 0.
fn lower_middle(kept_rates: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let mut sorted: Vec<f64> = kept_rates.map(|rps| rps.unwrap_or(0.0)).collect();
    sorted.sort_by(f64::total_cmp);
    Some(sorted[sorted.len().checked_sub(1)? / 2]).filter(|rps| *rps > 0.0)
}

/// Returns the median of the missed rates, with `None` as infinite, and the upper of the middle
/// two. `None`: the median is infinite.
fn upper_middle(missed_rates: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let mut sorted: Vec<f64> = missed_rates.map(|rps| rps.unwrap_or(f64::INFINITY)).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().filter(|rps| rps.is_finite())
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::{Arrival, Condition};
    use dyno_model::search::SearchLoad;
    use dyno_model::start::{Failure, FailureKind};
    use dyno_model::times::Recording;
    use dyno_model::{StartRecord, TrialRecord};

    use super::*;
    use crate::capacity::SearchStep;
    use crate::fixture;

    #[test]
    fn middle_bound_of_even_count_is_tried_rate() {
        let bounds = |kept: &[Option<f64>], missed: &[Option<f64>]| {
            (lower_middle(kept.iter().copied()), upper_middle(missed.iter().copied()))
        };
        let even_count = bounds(&[Some(13305.0), None], &[Some(19957.5), Some(100.0)]);
        assert_eq!(even_count, (None, Some(19957.5)));
        assert_eq!(
            bounds(&[Some(3.0), Some(1.0), Some(2.0)], &[Some(4.0), None, None]),
            (Some(2.0), None)
        );
        assert_eq!(bounds(&[], &[]), (None, None));
    }

    const ASKED: plan::SearchOptions =
        plan::SearchOptions { width: 0.05, arrival: Arrival::Constant };

    /// Returns a run with one block per edge. Up to the edge (requests per second) the server
    /// responds within 1 ms, and above within 9 ms.
    fn run(edges: &[f64]) -> Run {
        let subject = plan::Subject { name: "a".into(), ..plan::Subject::default() };
        let mut run = fixture::blocks_of(vec![subject], edges.len() as u32, |_, _| 4000);
        let condition = Condition::Quantile { name: "p50".into(), q: 0.5, below_us: 5000.0 };
        run.header.plan.report.objective =
            Some(plan::Objective { text: "p50<5ms".into(), conditions: vec![condition] });
        run.header.plan.search = Some(ASKED);
        run.searches =
            (0..edges.len()).map(|trial| search_with_edge(&run, trial, edges[trial])).collect();
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

    /// Runs a search by loads of one second. Returns its record and its result.
    fn search_by(
        run: &Run,
        (trial, mut search): (usize, RateSearch),
        mut load: impl FnMut(f64, f64) -> LoadRecord,
    ) -> (SearchRecord, CapacityResult) {
        let closed = &run.trials[trial];
        let mut record = SearchRecord { trial, ..SearchRecord::default() };
        loop {
            let (rate, confirms) = match search.next() {
                SearchStep::Try(rate) => (rate, false),
                SearchStep::Confirm(rate) => (rate, true),
                SearchStep::Done(_) => return (record, search.result(None)),
            };
            let load = load(rate, if confirms { 10.0 } else { 1.0 });
            search.take(
                (rate, confirms),
                &load,
                load_result(RecordedTrial::new(run, closed), (rate, &load)),
            );
            record.loads.push(SearchLoad { rate, load, confirms });
        }
    }

    /// Returns a load. `ms`: response time of the request that is sent at an instant in seconds.
    fn load_with_times(rate: f64, seconds: f64, ms: impl Fn(f64) -> f64) -> LoadRecord {
        let requests = (rate * seconds) as u64;
        let mut load = fixture::record(requests);
        let end_ns = (seconds * 1e9) as u64;
        load.window_ns.1 = end_ns;
        load.intervals[0].end_ns = end_ns;
        let mut times = Recording::new();
        (0..requests).for_each(|n| times.record((ms(n as f64 / rate) * 1e6) as u64));
        load.intervals[0].times.response = times.seal();
        load
    }

    /// The server stops for 150 ms every 5 s. Some loads lie between two stops, and a vote of loads
    /// would find a p99 below 60 ms up to 595/s.
    #[test]
    fn rare_pauses_prevent_kept_rate() {
        for first in [0.0, 1.1, 2.3, 3.7] {
            let mut clock: f64 = first;
            let result = find_capacity("p99<60ms", |rate, seconds| {
                let began = clock;
                clock += seconds + 0.5;
                load_with_times(rate, seconds, |at| {
                    let since = (began + at) % 5.0;
                    1.0 + (150.0 - since * 1e3).max(0.0)
                })
            });
            assert_eq!((result.kept_rps, result.confirmed), (None, false), "{first}");
            assert!(
                result.trials.iter().any(|trial| trial.kept),
                "{first}: some loads meet no pause"
            );
        }
    }

    /// If a longer load misses the objective, the rate is lowered until a longer load meets it.
    #[test]
    fn kept_rate_holds_in_ten_times_longer_load() {
        let slower_when_long = |lasting: f64| {
            move |rate: f64, seconds: f64| {
                let edge = if seconds > 1.0 { lasting } else { 9000.0 };
                load_with_times(rate, seconds, |_| if rate > edge { 40.0 } else { 1.0 })
            }
        };
        let result = find_capacity("p99<20ms", slower_when_long(9000.0));
        let confirms =
            |result: &CapacityResult| result.trials.iter().filter(|t| t.confirms).count();
        assert_eq!((result.confirmed, result.settled, confirms(&result)), (true, true, 1));
        assert_eq!(result.holds_s, Some(10.0));
        let lower = find_capacity("p99<20ms", slower_when_long(8000.0));
        let kept = lower.kept_rps.unwrap();
        assert!(lower.confirmed && kept <= 8000.0 && kept > 7000.0, "{kept}");
        assert!(confirms(&lower) <= 8, "{}", confirms(&lower));
        assert_eq!(lower.kept_together.as_ref().unwrap().requests, (10.0 * kept).floor());
        // Every longer load misses the objective.
        let short = find_capacity("p99<20ms", slower_when_long(0.0));
        assert_eq!((short.kept_rps, short.confirmed, short.holds_s), (None, false, Some(1.0)));
        assert!(short.unconfirmed_rps.is_some_and(|rps| rps <= 9000.0 && rps > 8800.0));
    }

    /// Older versions made no confirming loads.
    #[test]
    fn search_without_longer_load_is_not_confirmed() {
        let mut run = run(&[3000.0]);
        run.searches[0].loads.retain(|load| !load.confirms);
        let result = &searches(&run)[0].result;
        assert_eq!((result.settled, result.confirmed, result.holds_s), (true, false, Some(1.0)));
        let load = serde_json::to_value(&run.searches[0].loads[0]).unwrap();
        assert!(load.get("confirms").is_none(), "the field is left out of an ordinary load");
    }

    /// Runs a search as the runner does, with a server that has a sharp limit.
    fn search_with_edge(run: &Run, trial: usize, edge: f64) -> SearchRecord {
        let search = begin(RecordedTrial::new(run, &run.trials[trial])).unwrap();
        search_by(run, (trial, search), |rate, _| load(rate, edge)).0
    }

    #[test]
    fn bracket_is_median_of_searches_of_all_starts() {
        let run = run(&[3000.0, 5000.0, 3100.0]);
        assert_eq!(run.searches[0].loads[0].rate, 2000.0, "half of what the closed loop did");
        let found = searches(&run);
        for (search, edge) in found.iter().zip([3000.0, 5000.0, 3100.0]) {
            let result = &search.result;
            let (kept, missed) = (result.kept_rps.unwrap(), result.missed_rps.unwrap());
            assert!(
                result.settled && kept <= edge && edge < missed && missed / kept <= 1.0501,
                "{result:?}"
            );
        }
        let bracket = &crate::report::report(&run).brackets[0];
        assert_eq!(bracket.kept_rps, found[2].result.kept_rps);
        assert_eq!(bracket.missed_rps, found[2].result.missed_rps);
        let counts = bracket.searched.unwrap();
        assert_eq!((counts.starts, counts.settled, bracket.by_repeat_rps.len()), (3, 3, 3));
        assert_eq!(
            counts.loads,
            run.searches.iter().map(|search| search.loads.len()).sum::<usize>()
        );
        assert_eq!(bracket.interval_rps, None, "too few starts");
    }

    #[test]
    fn search_that_generator_limited_at_every_rate_has_no_vote() {
        let run = run(&[3000.0, 5000.0, 3100.0]);
        let mut found = searches(&run);
        (found[1].result.kept_rps, found[1].result.limited_by_generator) = (None, true);
        let key = CellKey::planned(&run.header.plan).into_iter().next().unwrap();
        let bracket = bracket_of((&run.header.plan, key), &found.iter().collect::<Vec<_>>(), 0);
        assert_eq!((bracket.by_repeat_rps.len(), bracket.limited_by_generator), (2, false));
        assert_eq!(bracket.kept_rps, found[0].result.kept_rps);
        assert_eq!(bracket.searched.unwrap().limited_by_generator, 1);
        // The server met the objective at no rate.
        found[1].result.limited_by_generator = false;
        let bracket = bracket_of((&run.header.plan, key), &found.iter().collect::<Vec<_>>(), 0);
        assert_eq!(bracket.by_repeat_rps.iter().filter(|rps| **rps == 0.0).count(), 1);
    }

    #[test]
    fn starts_that_failed_before_any_load_keep_no_rate() {
        let report_without = |lost: &[usize]| {
            let mut run = run(&[3000.0, 5000.0, 3100.0]);
            let message = "it ended".into();
            let failure = Failure { kind: FailureKind::NeverReady, message };
            run.starts.extend(lost.iter().map(|launch| StartRecord {
                start: *launch,
                launch: *launch,
                failure: Some(failure.clone()),
                ..StartRecord::default()
            }));
            run.trials.retain(|trial| !lost.contains(&trial.trial));
            run.searches.retain(|search| !lost.contains(&search.trial));
            crate::report::report(&run).brackets.remove(0)
        };
        let counts = |bracket: &Bracket| {
            let counts = bracket.searched.unwrap();
            (counts.starts, counts.failed_starts, bracket.by_repeat_rps.len())
        };
        let (none, one) = (report_without(&[]), report_without(&[1]));
        assert_eq!((counts(&none), counts(&one)), ((3, 0, 3), (2, 1, 3)));
        assert!(one.kept_rps.unwrap() <= 3000.0 && one.missed_rps.unwrap() > 3100.0, "{one:?}");
        for lost in [&[0, 1][..], &[1, 2], &[0, 1, 2]] {
            let bracket = report_without(lost);
            assert_eq!((bracket.kept_rps, bracket.missed_rps), (None, None), "{lost:?}");
            assert_eq!(counts(&bracket), (3 - lost.len(), lost.len(), 3));
        }
    }

    /// Five starts at two connection counts. Three servers end in the first search, or in the
    /// second closed loop before any search.
    #[test]
    fn starts_that_ended_at_one_level_keep_no_rate_at_other() {
        let mut whole = run(&[3000.0, 5000.0, 3100.0, 3200.0, 3300.0]);
        let plan = &mut whole.header.plan;
        plan.load.steps.push(plan::Step { connections: 2, ..plan.load.steps[0].clone() });
        for launch in 0..5 {
            plan.trials.push(plan::Trial { step: 1, ..plan.trials[launch] });
            let record = whole.trials[launch].clone();
            whole.trials.push(TrialRecord { trial: 5 + launch, ..record });
            let search = whole.searches[launch].clone();
            whole.searches.push(SearchRecord { trial: 5 + launch, ..search });
        }
        let counts = |run: &Run| -> Vec<_> {
            let count = |bracket: &Bracket| {
                let searched = bracket.searched.unwrap();
                (searched.starts, searched.failed_starts, bracket.by_repeat_rps.len())
            };
            crate::report::report(run).brackets.iter().map(count).collect()
        };
        assert_eq!(counts(&whole), [(5, 0, 5); 2]);
        let message: String = "it ended".into();
        whole.starts.extend((0..3).map(|launch| StartRecord {
            start: launch,
            launch,
            failure: Some(Failure { kind: FailureKind::Crashed, message: message.clone() }),
            ..StartRecord::default()
        }));
        let mut in_search = whole.clone();
        in_search.searches.retain(|search| ![5, 6, 7].contains(&search.trial));
        assert_eq!(counts(&in_search), [(5, 0, 5), (2, 3, 5)]);
        assert_eq!(crate::report::report(&in_search).brackets[1].kept_rps, None);
        let mut in_loop = in_search;
        in_loop.searches.retain(|search| ![0, 1, 2].contains(&search.trial));
        for record in in_loop.trials.iter_mut().filter(|record| [5, 6, 7].contains(&record.trial)) {
            record.load.server_failure = Some(message.clone());
        }
        assert_eq!(counts(&in_loop), [(2, 3, 5); 2]);
        // Starts that were interrupted, or that dyno failed, show nothing.
        for kind in [FailureKind::Interrupted, FailureKind::Harness] {
            let mut ended = whole.clone();
            ended.searches.retain(|search| ![5, 6, 7].contains(&search.trial));
            ended.starts.iter_mut().for_each(|start| start.failure.as_mut().unwrap().kind = kind);
            assert_eq!(counts(&ended), [(5, 0, 5), (2, 0, 2)], "{kind:?}");
        }
    }

    /// Incorrect responses in the closed loop prevented a search.
    #[test]
    fn start_that_failed_in_closed_loop_keeps_no_rate() {
        let mut run = run(&[3000.0, 5000.0, 3100.0]);
        for lost in [0, 1] {
            let outcomes = &mut run.trials[lost].load.intervals[0].outcomes;
            outcomes.count(dyno_model::Outcome::UnexpectedStatus);
            match lost {
                0 => run.searches.retain(|search| search.trial != lost),
                _ => run.searches[0].loads.clear(),
            }
        }
        let bracket = crate::report::report(&run).brackets.remove(0);
        let counts = bracket.searched.unwrap();
        assert_eq!((counts.starts, counts.failed_starts), (1, 2));
        assert_eq!((bracket.kept_rps, bracket.missed_rps), (None, None));
    }

    /// Returns loads in which every n-th response is incorrect, at any rate.
    fn fail_every_nth(number: u64) -> impl FnMut(f64, f64) -> LoadRecord {
        let mut total = 0;
        move |rate: f64, seconds: f64| {
            let mut load = load_with_times(rate, seconds, |_| 1.0);
            let requests = (rate * seconds) as u64;
            let wrong = (total + requests) / number - total / number;
            total += requests;
            let outcomes = &mut load.intervals[0].outcomes;
            (0..wrong).for_each(|_| outcomes.count(dyno_model::Outcome::UnexpectedStatus));
            load
        }
    }

    fn find_capacity(objective: &str, load: impl FnMut(f64, f64) -> LoadRecord) -> CapacityResult {
        let mut run = run(&[1.0]);
        let time = |text: &str| {
            let ms: Result<u64, _> = text.trim_end_matches("ms").parse();
            ms.map(|ms| ms * 1_000_000).map_err(|_| String::new())
        };
        run.header.plan.report.objective =
            Some(super::super::parse_objective(objective, &time).unwrap());
        run.header.plan.search = Some(plan::SearchOptions { width: 0.02, ..ASKED });
        let search = begin(RecordedTrial::new(&run, &run.trials[0])).unwrap();
        let (record, result) = search_by(&run, (0, search), load);
        run.searches = vec![record];
        let archived = searches(&run).remove(0).result;
        assert_eq!(archived, result, "the archive holds the result of the search");
        archived
    }

    /// Starts whose failures do not depend on the rate must not raise the rate of the others.
    #[test]
    fn starts_with_failures_at_any_rate_keep_no_rate() {
        let bracket_of = |edges: &[f64], failing: &[usize]| {
            let mut run = run(edges);
            for trial in failing {
                let search = begin(RecordedTrial::new(&run, &run.trials[*trial])).unwrap();
                let record = search_by(&run, (*trial, search), fail_every_nth(7)).0;
                run.searches[*trial] = record;
            }
            crate::report::report(&run).brackets.remove(0)
        };
        let edges = [3000.0, 5000.0, 3000.0, 5000.0];
        let bracket = bracket_of(&edges, &[2, 3]);
        let counts = bracket.searched.unwrap();
        assert_eq!((counts.starts, counts.failing_starts), (4, 2));
        assert_eq!((bracket.kept_rps, bracket.failures_at_any_rate), (None, false));
        assert_eq!((bracket.missed_rps, bracket.by_repeat_rps.len()), (None, 4));
        // With one such start of five, the median is the rate of another start.
        let bracket = bracket_of(&[3000.0, 5000.0, 3100.0, 5000.0, 5000.0], &[1]);
        assert!(bracket.kept_rps.is_some_and(|rps| rps > 3000.0 && rps <= 5000.0), "{bracket:?}");
        assert!(bracket_of(&edges, &[1, 2, 3]).failures_at_any_rate);
    }

    #[test]
    fn failures_at_any_rate_settle_nothing() {
        let mut tested = 0;
        for objective in ["p99<20ms", "p50<20ms", "errors<0.5%", "p99<20ms,errors<0.5%"] {
            for number in [7, 40, 500, 1500, 2500] {
                let result = find_capacity(objective, fail_every_nth(number));
                let case = format!("{objective}, each {number}th");
                assert_eq!((result.kept_rps, result.settled), (None, false), "{case}");
                let Some(shares) = result.failures_at_any_rate else {
                    // If only one rate was tried, failures cannot be compared between rates.
                    let is_missed = |trial: &crate::capacity::CapacityTrial| {
                        Some(trial.rate_rps) == result.missed_rps
                    };
                    assert!(result.trials.iter().all(is_missed), "{case}");
                    continue;
                };
                tested += 1;
                assert_eq!(result.missed_rps, None, "{case}");
                assert!(shares.failed_below + shares.failed_above > 0, "{case}: {shares:?}");
            }
        }
        assert!(tested >= 10, "{tested} of 20");
    }

    /// The server refuses requests above its limit, so its failures depend on the rate.
    #[test]
    fn failures_above_rate_are_limit() {
        for limit in [2100.0, 2600.0, 9000.0] {
            let refuse_above_limit = |rate: f64, seconds: f64| {
                let mut load = load_with_times(rate, seconds, |_| 1.0);
                let wrong = ((rate - limit).max(0.0) * seconds).ceil() as u64;
                let outcomes = &mut load.intervals[0].outcomes;
                (0..wrong).for_each(|_| outcomes.count(dyno_model::Outcome::UnexpectedStatus));
                load
            };
            let result = find_capacity("p99<20ms", refuse_above_limit);
            let (kept, missed) = (result.kept_rps.unwrap(), result.missed_rps.unwrap());
            assert!(
                result.settled && kept <= limit && limit <= missed,
                "{limit}: {kept} to {missed}"
            );
            assert_eq!((result.failures_at_any_rate, result.least_rps), (None, Some(2000.0)));
        }
    }

    /// Loads below 2,000/s have too few requests for p99.
    #[test]
    fn search_skips_rates_with_too_few_requests() {
        let result = find_capacity("p99<5ms", |rate, _| load(rate, 700.0));
        assert!(result.trials.iter().all(|trial| trial.rate_rps >= 2000.0 && !trial.too_short));
        assert_eq!(
            (result.kept_rps, result.missed_rps, result.settled),
            (None, Some(2000.0), false)
        );
        assert_eq!(result.least_rps, Some(2000.0));
    }

    /// A mean needs no number of requests, so lower rates are not too short for it.
    #[test]
    fn missed_mean_is_not_blamed_on_short_loads() {
        let result = find_capacity("mean<1ms", |rate, _| load(rate, 700.0));
        assert_eq!((result.kept_rps, result.least_rps), (None, None));
    }

    #[test]
    fn unfinished_search_reports_its_failure() {
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
        run.trials.clear();
        assert!(searches(&run).is_empty(), "the load that the search followed is missing");
    }

    #[test]
    fn lower_middle_counts_missing_bounds_as_zero() {
        let middle_of = |bounds: &[Option<f64>]| lower_middle(bounds.iter().copied());
        assert_eq!(middle_of(&[Some(5.0), None, Some(7.0)]), Some(5.0));
        assert_eq!(middle_of(&[Some(5.0), None]), None, "no bound in half of the starts");
        assert_eq!(middle_of(&[Some(5.0), Some(7.0)]), Some(5.0));
        assert_eq!((middle_of(&[]), middle_of(&[None, None, Some(1.0)])), (None, None));
    }

    #[test]
    fn search_does_not_begin_without_responses() {
        let mut run = run(&[3000.0]);
        run.trials[0] = fixture::trial_record(0, fixture::record(0));
        assert!(begin(RecordedTrial::new(&run, &run.trials[0])).is_none());
        run.header.plan.search = None;
        assert!(searches(&run).is_empty(), "no search was planned");
    }
}
