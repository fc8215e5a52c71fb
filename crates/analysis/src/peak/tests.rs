//! Tests runs in which steps are not valid because of the generator or the machine.

use dyno_model::outcome::Outcome;
use dyno_model::plan::{self, ArmSharing, Arrivals, Launch, Step, Subject};
use dyno_model::run::Run;
use dyno_model::sample::ThreadUse;

use super::*;
use crate::fixture;
use crate::metric::MetricId;
use crate::overview::OverviewRow;
use crate::report::{Report, report};
use crate::turns::{RoundResult, TurnsResult};

/// Kind of a trial.
#[derive(Clone, Copy)]
enum TrialKind {
    Valid(u64),
    /// A number of responses, with a generator that had no headroom.
    Busy(u64),
    /// A number of responses, with counts of requests that do not add up.
    Doubtful(u64),
    /// A number of responses, every tenth of which is incorrect.
    Wrong(u64),
    NotRun,
}

use TrialKind::{Busy, Doubtful, NotRun, Valid, Wrong};

fn load(kind: TrialKind) -> Option<dyno_model::LoadRecord> {
    let (Valid(n) | Busy(n) | Doubtful(n) | Wrong(n)) = kind else { return None };
    let mut load = fixture::record(n);
    match kind {
        Busy(_) => {
            load.client.threads =
                vec![ThreadUse { run_ns: 900 * fixture::MS, ..ThreadUse::default() }];
        }
        Doubtful(_) => load.books.completed -= 1,
        Wrong(_) => {
            (0..n / 10).for_each(|_| load.intervals[0].outcomes.count(Outcome::UnexpectedBody));
        }
        _ => {}
    }
    Some(load)
}

/// A subject with the kind of each repeat at each step.
type Server<'a> = (&'a str, &'a [&'a [TrialKind]]);

/// Returns a run of servers. `connections`: the number of connections of each step.
fn run(connections: &[u32], servers: &[Server<'_>]) -> Run {
    let named =
        |name: &str| Subject { name: name.into(), title: name.into(), ..Subject::default() };
    let mut plan = fixture::plan(servers.iter().map(|(name, _)| named(name)).collect());
    let step = |n: &u32| Step { connections: *n, ..fixture::step(Arrivals::Closed) };
    plan.load.steps = connections.iter().map(step).collect();
    let blocks = servers[0].1[0].len();
    plan.repeats = blocks as u32;
    let arms = 0..servers.len();
    let launch = |block: usize| arms.clone().map(move |arm| Launch::with_arm(arm, block as u32));
    plan.launches = (0..blocks).flat_map(launch).collect();
    let mut trials = Vec::new();
    for (launch, planned) in plan.launches.iter().enumerate() {
        let (arm, block) = (planned.arms[0], planned.block as usize);
        for step in 0..connections.len() {
            let number = plan.trials.len();
            plan.trials.push(plan::Trial { launch, arm, workload: 0, step, seed: 0 });
            let done = load(servers[arm].1[step][block]);
            trials.extend(done.map(|load| fixture::trial_record(number, load)));
        }
    }
    fixture::run(plan, Vec::new(), trials)
}

fn report_of(connections: &[u32], servers: &[Server<'_>]) -> Report {
    report(&run(connections, servers))
}

fn row<'a>(report: &'a Report, subject: &str) -> &'a OverviewRow {
    report.overview.iter().find(|row| row.subject == subject).unwrap()
}

fn places(report: &Report, subject: &str) -> Option<(usize, usize)> {
    row(report, subject).places.map(|p| (p.best, p.worst))
}

/// Returns five valid repeats with slightly different throughput.
const fn valid(n: u64) -> [TrialKind; 5] {
    [Valid(n), Valid(n + 3), Valid(n + 1), Valid(n + 4), Valid(n + 2)]
}

const fn busy(n: u64) -> [TrialKind; 5] {
    [Busy(n), Busy(n + 3), Busy(n + 1), Busy(n + 4), Busy(n + 2)]
}

/// At 16 connections the generator is the limit of the faster server.
#[test]
fn generator_limited_server_is_ranked_by_lower_bound() {
    let report = report_of(
        &[1, 16],
        &[("slow", &[&valid(528), &valid(1790)]), ("fast", &[&valid(816), &busy(2300)])],
    );
    let fast = row(&report, "fast");
    assert!(fast.peak_is_lower_bound && fast.peak_rps.as_ref().unwrap().median == Some(818.0));
    let (highest, at) = fast.highest_throughput().unwrap();
    assert_eq!((highest.median, at.connections, highest.values.len()), (Some(2302.0), 16, 5));
    assert_eq!(fast.peak_open_steps[0].reason, Some(Code::GENERATOR_BUSY));
    // Its lower bound is above the other server's maximum.
    assert_eq!((places(&report, "fast"), places(&report, "slow")), (Some((1, 1)), Some((2, 2))));
    assert_eq!((report.overview[0].subject.as_str(), report.ties.len()), ("fast", 0));
    assert_eq!(fast.limiter, Some(crate::verdict::Resource::Generator));
    let slow = row(&report, "slow");
    assert!(!slow.peak_is_lower_bound && slow.peak_open_steps.is_empty());
    let caveat = report.caveats.iter().find(|c| c.code == Code::PEAK_LOWER_BOUND).unwrap();
    assert!(
        caveat.message.contains("fast ≥ 2302/s (5 of 5 repeats at 16 connections)"),
        "{caveat:?}"
    );
    assert!(caveat.message.contains("`cpuset` under `[limits]`"), "{caveat:?}");
}

#[test]
fn lower_bound_below_other_peak_is_tied() {
    let report = report_of(
        &[1, 16],
        &[
            ("slow", &[&valid(528), &valid(1790)]),
            ("fast", &[&valid(816), &busy(1500)]),
            ("slowest", &[&valid(400), &valid(500)]),
        ],
    );
    assert_eq!(places(&report, "fast"), Some((1, 2)));
    assert_eq!((places(&report, "slow"), places(&report, "slowest")), (Some((1, 2)), Some((3, 3))));
    let [tie] = &report.ties[..] else { panic!("{:?}", report.ties) };
    assert_eq!(
        (&*tie.best, &tie.with[..], &tie.lower_bounds[..]),
        ("slow", &["fast".into()][..], &["fast".into()][..])
    );
}

#[test]
fn two_lower_bounds_are_tied() {
    let busy_at = |n| [Busy(n), Busy(n), Busy(n + 1), Busy(n), Busy(n)];
    let report = report_of(
        &[1, 16],
        &[("a", &[&valid(528), &busy_at(1790)]), ("b", &[&valid(816), &busy_at(2500)])],
    );
    assert_eq!((places(&report, "a"), places(&report, "b")), (Some((1, 2)), Some((1, 2))));
}

#[test]
fn one_generator_limited_repeat_makes_peak_lower_bound() {
    let mut with_busy = valid(1500);
    with_busy[3] = Busy(1600);
    let report = report_of(
        &[1, 16],
        &[("slow", &[&valid(528), &valid(1790)]), ("fast", &[&valid(816), &with_busy])],
    );
    let fast = row(&report, "fast");
    assert!(fast.peak_is_lower_bound);
    assert_eq!((fast.peak_open_steps[0].refused, fast.peak_open_steps[0].repeats), (1, 5));
    assert_eq!((places(&report, "fast"), places(&report, "slow")), (Some((1, 2)), Some((1, 2))));
    // At a common step it is not ranked below the other server either.
    let at_16 = report.comparisons.iter().find(|c| c.step == 1).unwrap();
    assert_eq!((at_16.tie, at_16.throughput_bound), (Some(true), RatioBound::AtLeast));
    let at_1 = report.comparisons.iter().find(|c| c.step == 0).unwrap();
    assert_eq!((at_1.tie, at_1.throughput_bound), (Some(false), RatioBound::Exact));
}

/// In turns, pairs need the turns of both servers. Repeats that the generator limited have these
/// turns, too.
#[test]
fn lower_bounds_of_turns_are_paired() {
    let run = run(&[16], &[("slow", &[&valid(1790)]), ("fast", &[&busy(2300)])]);
    let mut result = report(&run);
    for trial in &mut result.trials {
        let round = RoundResult {
            throughput_rps: Some(trial.load.throughput_rps),
            cpu_us_per_request: None,
        };
        trial.turns = Some(TurnsResult {
            slice_s: 0.1,
            began_ns: u64::from(trial.block),
            idle_cpus: None,
            idle_share: None,
            carried_share: None,
            throughput_rps: None,
            rounds: vec![round; 2],
        });
    }
    let grid = Grid::new(&result.trials);
    let fast = lower_bounds(grid.get(CellKey { arm: 1, workload: 0, step: 0 }).unwrap());
    let slow = grid.get(CellKey { arm: 0, workload: 0, step: 0 }).unwrap().series(&THROUGHPUT);
    let pairs = fast.pairs_with(&slow);
    assert_eq!((pairs.launches.len(), pairs.rounds.len()), (5, 5));
    let comparison = &crate::baseline::comparisons(&run.header.plan, &grid)[0];
    assert_eq!(comparison.throughput_bound, RatioBound::AtLeast);
    assert!(
        comparison.tie == Some(false) && comparison.ratio(MetricId::Throughput).values.len() == 5,
        "{comparison:?}"
    );
}

/// Even if the invalid repeat were arbitrarily fast, the median of its step would be below the
/// peak.
#[test]
fn invalid_repeats_below_peak_leave_it_exact() {
    let mut higher = valid(700);
    higher[2] = Busy(900);
    let report = report_of(
        &[16, 64],
        &[("a", &[&valid(1000), &higher]), ("b", &[&valid(800), &valid(790)])],
    );
    assert!(!row(&report, "a").peak_is_lower_bound);
    assert_eq!(places(&report, "a"), Some((1, 1)));
}

/// An invalid step with fewer requests in flight is a candidate only if it was near the peak.
#[test]
fn invalid_lower_step_is_open_if_near_peak() {
    let is_lower_bound = |n: u64| {
        let report = report_of(
            &[1, 16],
            &[("a", &[&busy(n), &valid(2000)]), ("b", &[&valid(800), &valid(790)])],
        );
        row(&report, "a").peak_is_lower_bound
    };
    assert_eq!(
        (is_lower_bound(300), is_lower_bound(1900), is_lower_bound(2400)),
        (false, true, true)
    );
}

#[test]
fn doubtful_repeats_make_peak_lower_bound() {
    let doubtful = [Doubtful(900), Doubtful(900), Doubtful(900), Doubtful(900), Doubtful(900)];
    let report = report_of(
        &[1, 16],
        &[("slow", &[&valid(528), &valid(1790)]), ("fast", &[&valid(816), &doubtful])],
    );
    let fast = row(&report, "fast");
    // Repeats whose counts do not add up are neither a lower bound nor evidence.
    assert_eq!((fast.peak_is_lower_bound, fast.max_rps()), (true, Some(818.0)));
    assert_eq!((places(&report, "fast"), places(&report, "slow")), (Some((1, 2)), Some((1, 2))));
}

/// The reason is `contaminated` if other programs disturbed most repeats.
#[test]
fn exclusion_reason_is_that_of_most_repeats() {
    let report = report_of(&[1, 16], &[("a", &[&valid(816), &busy(2300)])]);
    let mut trials: Vec<TrialResult> = report.trials;
    trials.retain(TrialResult::is_unexpectedly_invalid);
    let reason_with = |disturbed: usize| {
        let mut trials = trials.clone();
        trials[..disturbed].iter_mut().for_each(|trial| {
            trial.limiter.resource = crate::verdict::Resource::OtherPrograms;
        });
        exclusion_reason(&trials.iter().collect::<Vec<_>>())
    };
    assert_eq!(
        (reason_with(2), reason_with(3)),
        (Some(Code::GENERATOR_BUSY), Some(Code::CONTAMINATED))
    );
    assert_eq!(exclusion_reason(&[]), None);
}

/// Three valid repeats show the throughput of a server, except if the generator limited the others.
#[test]
fn few_doubtful_repeats_leave_peak_exact() {
    let result_with = |refused: &[usize], kind: TrialKind| {
        let mut repeats = valid(700);
        refused.iter().for_each(|i| repeats[*i] = kind);
        let report = report_of(
            &[1, 16],
            &[("slow", &[&valid(100), &valid(700)]), ("fast", &[&valid(300), &repeats])],
        );
        (row(&report, "fast").peak_is_lower_bound, report.comparisons[1].throughput_bound)
    };
    assert_eq!(result_with(&[0, 3], Doubtful(600)), (false, RatioBound::Exact));
    assert_eq!(result_with(&[0, 3], Busy(600)), (true, RatioBound::AtLeast));
    assert_eq!(result_with(&[0, 1, 3], Doubtful(600)), (true, RatioBound::AtLeast));
}

#[test]
fn server_failures_leave_peak_exact() {
    let wrong = [Wrong(2000), Wrong(2000), Wrong(2000), Wrong(2000), Wrong(2000)];
    let report = report_of(
        &[1, 16],
        &[("slow", &[&valid(528), &valid(1790)]), ("fast", &[&valid(816), &wrong])],
    );
    assert!(!row(&report, "fast").peak_is_lower_bound);
    assert_eq!((places(&report, "slow"), places(&report, "fast")), (Some((1, 1)), Some((2, 2))));
}

#[test]
fn missing_step_leaves_peak_open() {
    let report = report_of(
        &[1, 16],
        &[("slow", &[&valid(528), &valid(1790)]), ("fast", &[&valid(816), &[NotRun; 5]])],
    );
    let fast = row(&report, "fast");
    assert_eq!((fast.peak_is_lower_bound, fast.peak_open_steps[0].repeats), (true, 0));
    assert_eq!((places(&report, "fast"), places(&report, "slow")), (Some((1, 2)), Some((1, 2))));
}

/// In an interrupted run, the higher step has two of five repeats.
#[test]
fn missing_repeats_leave_peak_open() {
    let report_with = |highest_step: &[TrialKind]| {
        report_of(
            &[1, 16],
            &[("slow", &[&valid(528), &valid(1790)]), ("fast", &[&valid(816), highest_step])],
        )
    };
    let report = report_with(&[Valid(2300), Valid(2310), NotRun, NotRun, NotRun]);
    let fast = row(&report, "fast");
    assert_eq!((fast.peak_open_steps[0].refused, fast.peak_open_steps[0].repeats), (3, 5));
    assert_eq!((places(&report, "fast"), places(&report, "slow")), (Some((1, 2)), Some((1, 2))));
    let caveat = report.caveats.iter().find(|c| c.code == Code::PEAK_LOWER_BOUND).unwrap();
    assert!(
        caveat.message.contains("3 of 5 repeats at 16 connections did not run or are excluded"),
        "{caveat:?}"
    );
    // Three repeats are enough.
    let report = report_with(&[Valid(700), Valid(701), Valid(702), NotRun, NotRun]);
    assert!(!row(&report, "fast").peak_is_lower_bound);
}

#[test]
fn server_with_only_invalid_steps_has_lower_bound() {
    let report = report_of(
        &[1, 16],
        &[("slow", &[&valid(528), &valid(1790)]), ("fast", &[&busy(816), &busy(2300)])],
    );
    let fast = row(&report, "fast");
    assert_eq!((fast.peak_rps.as_ref(), fast.max_rps()), (None, Some(2302.0)));
    assert_eq!((places(&report, "fast"), places(&report, "slow")), (Some((1, 1)), Some((2, 2))));
    assert_eq!(report.overview[0].subject, "fast");
}

/// A few valid repeats must not worsen the place of a server.
#[test]
fn few_valid_repeats_among_invalid_ones_keep_place() {
    let places_of_fast = |fast: [TrialKind; 5]| {
        let report = report_of(&[16], &[("slow", &[&valid(1790)]), ("fast", &[&fast])]);
        assert!(row(&report, "fast").peak_is_lower_bound);
        places(&report, "fast")
    };
    let places_with = |kind: fn(u64) -> TrialKind, count: usize| {
        let mut repeats = busy(2300);
        repeats[..count].iter_mut().for_each(|repeat| *repeat = kind(2305));
        places_of_fast(repeats)
    };
    for count in 0..=2 {
        assert_eq!(places_with(Valid, count), Some((1, 1)), "{count}");
    }
    // Repeats whose counts do not add up are not lower bounds.
    assert_eq!((places_with(Doubtful, 2), places_with(Doubtful, 3)), (Some((1, 1)), None));
}

#[test]
fn baseline_ratio_of_lower_bound_is_bound() {
    let ratios = |baseline: &str, subject: &str| {
        let mut run = run(
            &[1, 16],
            &[("slow", &[&valid(528), &valid(1790)]), ("fast", &[&valid(816), &busy(2300)])],
        );
        run.header.plan.report.baseline = Some(baseline.into());
        let row_ratios = row(&report(&run), subject).to_baseline.clone().unwrap();
        (row_ratios.peak_rps, row_ratios.peak_rps_at_least)
    };
    assert_eq!(ratios("slow", "fast"), (None, Some(2302.0 / 1792.0)));
    assert_eq!(ratios("fast", "slow"), (None, None));
}

/// The curve bends where the generator becomes the limit, which is neither a knee nor the end of
/// the server's growth.
#[test]
fn curve_with_invalid_top_has_no_knee() {
    let curve = |top: &[TrialKind], connections: &[u32]| {
        let levels = [
            valid(1000),
            valid(2000),
            valid(4000),
            valid(8000),
            valid(8100),
            valid(8110),
            valid(8120),
        ];
        let mut steps: Vec<&[TrialKind]> = levels.iter().map(|level| &level[..]).collect();
        steps.push(top);
        report_of(connections, &[("a", &steps)]).scaling.remove(0)
    };
    let connections = [1, 2, 4, 8, 16, 32, 64, 128];
    let known = curve(&valid(8100), &connections);
    assert!((known.knee.unwrap() - 8.0).abs() < 1e-9 && known.open_levels.is_empty());
    assert!(known.law.unwrap().max_rps.is_some());
    let open = curve(&busy(8200), &connections);
    assert_eq!((open.knee, &open.open_levels[..]), (None, &[128][..]));
    assert_eq!(open.law.map(|law| (law.max_rps, law.peak_at)), Some((None, None)));
    assert_eq!(curve(&[NotRun; 5], &connections).open_levels, [128]);
}

/// Servers of a duet wait for each other, so no repeat shows a throughput.
#[test]
fn duet_has_no_lower_bounds() {
    let servers: &[Server<'_>] = &[("a", &[&busy(528)]), ("b", &[&valid(816)])];
    let mut run = run(&[16], servers);
    assert!(row(&report(&run), "a").peak_is_lower_bound);
    run.header.plan.sharing = ArmSharing::from_duet([0, 1].into());
    let report = report(&run);
    assert!(report.caveats.iter().all(|caveat| caveat.code != Code::PEAK_LOWER_BOUND));
    assert!(report.overview.iter().all(|row| row.peak_open_steps.is_empty()));
}
