//! Searches of a run: at each start the highest rate at which its server keeps the suite's
//! objective.

use dyno_archive::plan;
use dyno_archive::run::Run;
use dyno_archive::search::SearchRecord;
use dyno_archive::{LoadRecord, Party, TrialRecord};
use schemars::JsonSchema;
use serde::Serialize;

use super::brackets::{Bracket, SearchCounts, failed_starts};
use super::{CapacityResult, CapacitySearch, RateSearch, Width, least_rps};
use crate::LoadResult;
use crate::cell::{CellKey, Shape};
use crate::duet::CoRunners;
use crate::grid::{Cell, Grid};
use crate::load::LoadConfig;
use crate::server::server_use;
use crate::stats::Repeated;
use crate::subject::SubjectResult;
use crate::trial::{TrialResult, cpus_of, trial};
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
    pub pass: u32,
    /// Counted from 1.
    pub repeat: u32,
    pub result: CapacityResult,
}

/// Share of a closed loop's throughput at which a search begins: below what most servers keep, and
/// few loads from it.
const BEGINS_AT: f64 = 0.5;

/// A search that begins after a trial in a closed loop: at half of what that did, or where the
/// objective's percentiles are known. `None`: nothing is looked for, or nothing was answered right.
#[must_use]
pub fn begin(run: &Run, closed: &TrialRecord) -> Option<RateSearch> {
    let plan = &run.header.plan;
    let (asked, objective) = (plan.search?, plan.report.objective.as_ref()?);
    let closed =
        trial(plan, &run.header.facts, run.start_of(closed), closed, &CoRunners::default());
    let rate = Some(closed.load.throughput_rps).filter(|rate| *rate > 0.0)? * BEGINS_AT;
    let least = least_rps(objective, plan.load.duration_ns, asked.arrival);
    let search = CapacitySearch::new(rate.max(least).max(1.0), Width(asked.width));
    Some(RateSearch::new(search, objective.clone(), least))
}

/// The result of a load of the search that follows a trial.
///
/// # Panics
/// If the plan has no search.
#[must_use]
pub fn load_result(
    run: &Run,
    closed: &TrialRecord,
    (rate, load): (f64, &LoadRecord),
) -> LoadResult {
    let plan = &run.header.plan;
    let asked = plan.search.expect("a search is asked for");
    let planned = &plan.trials[closed.trial];
    let (workload, subject) = (&plan.workloads[planned.workload], plan.subject_of(planned.arm));
    let step =
        plan::Step { arrivals: asked.arrivals(rate), ..plan.load.steps[planned.step].clone() };
    let config = LoadConfig::new(workload, &plan.load_of_trial(planned), &step, planned.seed);
    let party = plan.launches[planned.launch].party_of(planned.arm).unwrap_or(Party::SUBJECT);
    let part = run.start_of(closed).and_then(|start| start.part(party));
    let server = server_use(load, party, cpus_of(&plan.arms[planned.arm].conditions, part));
    let context = Context { server: Some(&server), control: subject.control, ..Context::default() };
    verdict::load(load, config, &context)
}

/// Every search of a run, trial by trial.
#[must_use]
pub(crate) fn searches(run: &Run) -> Vec<SearchResult> {
    let plan = &run.header.plan;
    let mut all: Vec<&SearchRecord> = run.searches.iter().collect();
    all.sort_by_key(|search| plan.trials[search.trial].display_order());
    all.into_iter().filter_map(|record| search(run, record)).collect()
}

fn search(run: &Run, record: &SearchRecord) -> Option<SearchResult> {
    let plan = &run.header.plan;
    let (asked, objective) = (plan.search?, plan.report.objective.as_ref()?);
    let planned = &plan.trials[record.trial];
    // A search without the trial that it followed is part of an interrupted run.
    let closed = run.trials.iter().find(|trial| trial.trial == record.trial)?;
    let least = least_rps(objective, plan.load.duration_ns, asked.arrival);
    let first = record.loads.first().map_or(1.0, |load| load.rate);
    let search = CapacitySearch::new(first, Width(asked.width));
    let mut search = RateSearch::new(search, objective.clone(), least);
    for one in &record.loads {
        let result = load_result(run, closed, (one.rate, &one.load));
        search.take((one.rate, one.confirms), &one.load, result);
    }
    let Shape { connections, streams, pipeline, pass, .. } =
        Shape::from_step(&plan.load.steps[planned.step]);
    Some(SearchResult {
        cell: CellKey { arm: planned.arm, workload: planned.workload, step: planned.step },
        subject: plan.arms[planned.arm].name.clone(),
        workload: plan.workloads[planned.workload].name.clone(),
        connections,
        streams,
        pipeline,
        pass,
        repeat: plan.launches[planned.launch].block + 1,
        result: search.result(record.failure.clone()),
    })
}

/// Brackets of the searches of each arm, workload and kind of connection: medians over starts.
#[must_use]
pub(crate) fn brackets_of(
    (plan, grid): (&plan::Plan, &Grid<'_>),
    searches: &[SearchResult],
    subjects: &[SubjectResult],
) -> Vec<Bracket> {
    if plan.search.is_none() || plan.report.objective.is_none() {
        return Vec::new();
    }
    // Rates are searched after closed loops.
    let is_closed = |key: &CellKey| plan.load.steps[key.step].arrivals.is_closed();
    let bracket = |key: CellKey| {
        let own: Vec<&SearchResult> = searches.iter().filter(|of| of.cell == key).collect();
        // A server that failed in the closed loop before its search kept no rate either.
        let has_search =
            |block: u32| own.iter().any(|of| of.repeat == block && !of.result.trials.is_empty());
        let failed_in_loop = |trial: &&&TrialResult| {
            (trial.is_broken() || trial.has_lost()) && !has_search(trial.block)
        };
        let closed = grid.get(key).map_or(&[][..], Cell::trials);
        let failed = failed_starts((plan, grid), &subjects[key.arm], key).count()
            + closed.iter().filter(failed_in_loop).count();
        (own.len() + failed > 0).then(|| bracket_of((plan, key), &own, failed))
    };
    CellKey::planned(plan).into_iter().filter(is_closed).filter_map(bracket).collect()
}

/// `failed`: starts without a search. Each kept no rate.
fn bracket_of(
    (plan, key): (&plan::Plan, CellKey),
    own: &[&SearchResult],
    failed: usize,
) -> Bracket {
    let Shape { connections, streams, pipeline, pass, .. } =
        Shape::from_step(&plan.load.steps[key.step]);
    // A search without any answered request found nothing.
    let begun: Vec<&CapacityResult> = own
        .iter()
        .map(|search| &search.result)
        .filter(|result| !result.trials.is_empty())
        .collect();
    let most =
        |is_it: fn(&&&CapacityResult) -> bool| 2 * begun.iter().filter(is_it).count() > begun.len();
    let at_any_rate = most(|result| result.failures_at_any_rate.is_some());
    let starts = begun.len();
    let loads = begun.iter().map(|result| result.trials.len()).sum();
    let settled = begun.iter().filter(|result| result.settled).count();
    let confirmed = begun.iter().filter(|result| result.confirmed).count();
    let holds_s = begun.iter().filter_map(|result| result.holds_s).reduce(f64::min);
    // A search whose loads failed at any rate yields no rate.
    let has_rate = |result: &&CapacityResult| !at_any_rate && result.failures_at_any_rate.is_none();
    let begun: Vec<&CapacityResult> = begun.iter().copied().filter(has_rate).collect();
    let limited_by_generator = begun.iter().filter(|result| result.limited_by_generator).count();
    let lost = || std::iter::repeat_n(None, if at_any_rate { 0 } else { failed });
    let by_repeat: Vec<f64> =
        begun.iter().map(|of| of.kept_rps).chain(lost()).map(|rps| rps.unwrap_or(0.0)).collect();
    Bracket {
        subject: plan.arms[key.arm].name.clone(),
        workload: plan.workloads[key.workload].name.clone(),
        connections,
        streams,
        pipeline,
        pass,
        kept_rps: lower_middle(begun.iter().map(|result| result.kept_rps).chain(lost())),
        missed_rps: upper_middle(begun.iter().map(|result| result.missed_rps).chain(lost())),
        limited_by_generator: 2 * limited_by_generator > begun.len() + failed,
        rates: Vec::new(),
        searched: Some(SearchCounts {
            starts,
            failed_starts: failed,
            loads,
            settled,
            confirmed,
            limited_by_generator,
            holds_s,
        }),
        failures_at_any_rate: at_any_rate,
        interval_rps: Repeated::new(by_repeat.clone()).interval,
        by_repeat_rps: by_repeat,
    }
}

/// The median of what searches kept; of an even number the lower one of the middle two, which was
/// tried and which half of the searches kept. `None`: that one kept nothing.
fn lower_middle(kept: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let mut all: Vec<f64> = kept.map(|rps| rps.unwrap_or(0.0)).collect();
    all.sort_by(f64::total_cmp);
    Some(all[all.len().checked_sub(1)? / 2]).filter(|rps| *rps > 0.0)
}

/// The same of what they missed: the upper one. `None`: that one missed nothing.
fn upper_middle(missed: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let mut all: Vec<f64> = missed.map(|rps| rps.unwrap_or(f64::INFINITY)).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().filter(|rps| rps.is_finite())
}

#[cfg(test)]
mod tests {
    use dyno_archive::StartRecord;
    use dyno_archive::plan::{Arrival, Condition};
    use dyno_archive::search::SearchLoad;
    use dyno_archive::start::{Failure, FailureKind};
    use dyno_archive::times::Recording;

    use super::*;
    use crate::capacity::SearchStep;
    use crate::fixture;

    #[test]
    fn bounds_of_an_even_number_of_searches_were_tried() {
        let bounds = |kept: &[Option<f64>], missed: &[Option<f64>]| {
            (lower_middle(kept.iter().copied()), upper_middle(missed.iter().copied()))
        };
        let of_two = bounds(&[Some(13305.0), None], &[Some(19957.5), Some(100.0)]);
        assert_eq!(of_two, (None, Some(19957.5)));
        assert_eq!(
            bounds(&[Some(3.0), Some(1.0), Some(2.0)], &[Some(4.0), None, None]),
            (Some(2.0), None)
        );
        assert_eq!(bounds(&[], &[]), (None, None));
    }

    const ASKED: plan::SearchOptions =
        plan::SearchOptions { width: 0.05, arrival: Arrival::Constant };

    /// Blocks of a server that answers within a millisecond up to so many requests per second in
    /// each, and within nine above.
    fn run(edges: &[f64]) -> Run {
        let subject = plan::Subject { name: "a".into(), ..plan::Subject::default() };
        let mut run = fixture::blocks_of(vec![subject], edges.len() as u32, |_, _| 4000);
        let condition = Condition::Quantile { name: "p50".into(), q: 0.5, below_us: 5000.0 };
        run.header.plan.report.objective =
            Some(plan::Objective { text: "p50<5ms".into(), conditions: vec![condition] });
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

    /// A search by loads of a second, and what it came to.
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
            search.take((rate, confirms), &load, load_result(run, closed, (rate, &load)));
            record.loads.push(SearchLoad { rate, load, confirms });
        }
    }

    /// A load of so many seconds, with one response time for each request, in milliseconds.
    fn load_of(rate: f64, seconds: f64, ms: impl Fn(f64) -> f64) -> LoadRecord {
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

    /// A server that stops for 150 ms every 5 s. By votes of loads, two of which lie between two
    /// stops, it was said to keep a p99 of 60 ms up to 595/s.
    #[test]
    fn pauses_rarer_than_loads_are_long_are_found() {
        for first in [0.0, 1.1, 2.3, 3.7] {
            let mut clock: f64 = first;
            let result = search_of("p99<60ms", |rate, seconds| {
                let began = clock;
                clock += seconds + 0.5;
                load_of(rate, seconds, |at| {
                    let since = (began + at) % 5.0;
                    1.0 + (150.0 - since * 1e3).max(0.0)
                })
            });
            assert_eq!(
                (result.kept_rps, result.confirmed, result.holds_s),
                (None, false, None),
                "{first}"
            );
            assert!(
                result.trials.iter().any(|trial| trial.kept),
                "{first}: some loads meet no pause"
            );
        }
    }

    /// A rate that a load ten times as long does not keep is lowered until one keeps it.
    #[test]
    fn rate_holds_in_a_load_ten_times_as_long() {
        let tires = |lasting: f64| {
            move |rate: f64, seconds: f64| {
                let edge = if seconds > 1.0 { lasting } else { 9000.0 };
                load_of(rate, seconds, |_| if rate > edge { 40.0 } else { 1.0 })
            }
        };
        let result = search_of("p99<20ms", tires(9000.0));
        let confirms =
            |result: &CapacityResult| result.trials.iter().filter(|t| t.confirms).count();
        assert_eq!((result.confirmed, result.settled, confirms(&result)), (true, true, 1));
        assert_eq!(result.holds_s, Some(10.0));
        let lower = search_of("p99<20ms", tires(8000.0));
        let kept = lower.kept_rps.unwrap();
        assert!(lower.confirmed && kept <= 8000.0 && kept > 7000.0, "{kept}");
        assert!(confirms(&lower) <= 8, "{}", confirms(&lower));
        assert_eq!(lower.kept_together.as_ref().unwrap().requests, (10.0 * kept).floor());
    }

    /// An archive of a version that confirmed nothing says for how long its rate was seen to hold.
    #[test]
    fn search_without_a_longer_load_is_not_confirmed() {
        let mut run = run(&[3000.0]);
        run.searches[0].loads.retain(|load| !load.confirms);
        let result = &searches(&run)[0].result;
        assert_eq!((result.settled, result.confirmed, result.holds_s), (true, false, Some(1.0)));
        let kept = serde_json::to_value(&run.searches[0].loads[0]).unwrap();
        assert!(kept.get("confirms").is_none(), "the field is left out of an ordinary load");
    }

    /// Searches as the runner does, with a server that has a sharp edge only.
    fn searched(run: &Run, trial: usize, edge: f64) -> SearchRecord {
        let search = begin(run, &run.trials[trial]).unwrap();
        search_by(run, (trial, search), |rate, _| load(rate, edge)).0
    }

    #[test]
    fn each_start_has_a_search_and_their_median_counts() {
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
        let searched = bracket.searched.unwrap();
        assert_eq!((searched.starts, searched.settled, bracket.by_repeat_rps.len()), (3, 3, 3));
        assert_eq!(
            searched.loads,
            run.searches.iter().map(|search| search.loads.len()).sum::<usize>()
        );
        assert_eq!(bracket.interval_rps, None, "too few starts");
    }

    #[test]
    fn starts_that_failed_before_any_load_keep_no_rate() {
        let lose = |lost: &[usize]| {
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
            let searched = bracket.searched.unwrap();
            (searched.starts, searched.failed_starts, bracket.by_repeat_rps.len())
        };
        let (none, one) = (lose(&[]), lose(&[1]));
        assert_eq!((counts(&none), counts(&one)), ((3, 0, 3), (2, 1, 3)));
        assert!(one.kept_rps.unwrap() <= 3000.0 && one.missed_rps.unwrap() > 3100.0, "{one:?}");
        for lost in [&[0, 1][..], &[1, 2], &[0, 1, 2]] {
            let bracket = lose(lost);
            assert_eq!((bracket.kept_rps, bracket.missed_rps), (None, None), "{lost:?}");
            assert_eq!(counts(&bracket), (3 - lost.len(), lost.len(), 3));
        }
    }

    /// The closed loop before the search had incorrect responses, and so no search followed.
    #[test]
    fn start_that_failed_in_its_closed_loop_keeps_no_rate() {
        let mut run = run(&[3000.0, 5000.0, 3100.0]);
        for lost in [0, 1] {
            let outcomes = &mut run.trials[lost].load.intervals[0].outcomes;
            outcomes.count(dyno_archive::Outcome::UnexpectedStatus);
            match lost {
                0 => run.searches.retain(|search| search.trial != lost),
                _ => run.searches[0].loads.clear(),
            }
        }
        let bracket = crate::report::report(&run).brackets.remove(0);
        let searched = bracket.searched.unwrap();
        assert_eq!((searched.starts, searched.failed_starts), (1, 2));
        assert_eq!((bracket.kept_rps, bracket.missed_rps), (None, None));
    }

    /// A server that answers every n-th request wrong, at any rate, and each at once.
    fn wrong_each(number: u64) -> impl FnMut(f64, f64) -> LoadRecord {
        let mut asked = 0;
        move |rate: f64, seconds: f64| {
            let mut load = load_of(rate, seconds, |_| 1.0);
            let requests = (rate * seconds) as u64;
            let wrong = (asked + requests) / number - asked / number;
            asked += requests;
            let outcomes = &mut load.intervals[0].outcomes;
            (0..wrong).for_each(|_| outcomes.count(dyno_archive::Outcome::UnexpectedStatus));
            load
        }
    }

    fn search_of(objective: &str, load: impl FnMut(f64, f64) -> LoadRecord) -> CapacityResult {
        let mut run = run(&[1.0]);
        let time = |text: &str| {
            let ms: Result<u64, _> = text.trim_end_matches("ms").parse();
            ms.map(|ms| ms * 1_000_000).map_err(|_| String::new())
        };
        run.header.plan.report.objective = Some(super::super::objective(objective, &time).unwrap());
        run.header.plan.search = Some(plan::SearchOptions { width: 0.02, ..ASKED });
        let search = begin(&run, &run.trials[0]).unwrap();
        let (record, result) = search_by(&run, (0, search), load);
        run.searches = vec![record];
        let read = searches(&run).remove(0).result;
        assert_eq!(read, result, "the archive holds the result of the search");
        read
    }

    #[test]
    fn failures_at_any_rate_settle_nothing() {
        let mut compared = 0;
        for objective in ["p99<20ms", "p50<20ms", "errors<0.5%", "p99<20ms,errors<0.5%"] {
            for number in [7, 40, 500, 1500, 2500] {
                let result = search_of(objective, wrong_each(number));
                let case = format!("{objective}, each {number}th");
                assert_eq!((result.kept_rps, result.settled), (None, false), "{case}");
                let Some(shares) = result.failures_at_any_rate else {
                    // Without another rate nothing is compared.
                    let is_missed = |trial: &crate::capacity::CapacityTrial| {
                        Some(trial.rate_rps) == result.missed_rps
                    };
                    assert!(result.trials.iter().all(is_missed), "{case}");
                    continue;
                };
                compared += 1;
                assert_eq!(result.missed_rps, None, "{case}");
                assert!(shares.failed_below + shares.failed_above > 0, "{case}: {shares:?}");
            }
        }
        assert!(compared >= 10, "{compared} of 20");
    }

    /// A server that refuses what is above its limit has a limit.
    #[test]
    fn failures_above_a_rate_are_a_limit() {
        for limit in [2100.0, 2600.0, 9000.0] {
            let shed = |rate: f64, seconds: f64| {
                let mut load = load_of(rate, seconds, |_| 1.0);
                let wrong = ((rate - limit).max(0.0) * seconds).ceil() as u64;
                let outcomes = &mut load.intervals[0].outcomes;
                (0..wrong).for_each(|_| outcomes.count(dyno_archive::Outcome::UnexpectedStatus));
                load
            };
            let result = search_of("p99<20ms", shed);
            let (kept, missed) = (result.kept_rps.unwrap(), result.missed_rps.unwrap());
            assert!(
                result.settled && kept <= limit && limit <= missed,
                "{limit}: {kept} to {missed}"
            );
            assert_eq!((result.failures_at_any_rate, result.least_rps), (None, Some(2000.0)));
        }
    }

    /// Loads below 2,000/s are too short for p99, so no such rate is tried, and none is kept.
    #[test]
    fn rates_with_too_few_requests_are_not_tried() {
        let result = search_of("p99<5ms", |rate, _| load(rate, 700.0));
        assert!(result.trials.iter().all(|trial| trial.rate_rps >= 2000.0 && !trial.too_short));
        assert_eq!(
            (result.kept_rps, result.missed_rps, result.settled),
            (None, Some(2000.0), false)
        );
    }

    #[test]
    fn search_that_did_not_end_says_so() {
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
        assert!(searches(&run).is_empty(), "what it followed is not there");
    }

    #[test]
    fn bound_that_most_starts_did_not_find_is_none() {
        let of = |bounds: &[Option<f64>]| lower_middle(bounds.iter().copied());
        assert_eq!(of(&[Some(5.0), None, Some(7.0)]), Some(5.0));
        assert_eq!(of(&[Some(5.0), None]), None, "no bound in half of the starts");
        assert_eq!(of(&[Some(5.0), Some(7.0)]), Some(5.0));
        assert_eq!((of(&[]), of(&[None, None, Some(1.0)])), (None, None));
    }

    #[test]
    fn nothing_is_looked_for_after_nothing() {
        let mut run = run(&[3000.0]);
        run.trials[0] = fixture::trial_record(0, fixture::record(0));
        assert!(begin(&run, &run.trials[0]).is_none());
        run.header.plan.search = None;
        assert!(searches(&run).is_empty(), "no search was planned");
    }
}
