//! Plans how many starts and how long a load give the most precise result within a given time.
//!
//! Both numbers follow from the variances in a pilot run (Kalibera and Jones, "Rigorous
//! benchmarking in reasonable time", ISMM 2013, §6).

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::plan::Plan;
use dyno_model::run::Run;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cell::{CellKey, Shape};
use crate::grid::Grid;
use crate::metric::{CPU, Metric, THROUGHPUT};
use crate::noise;
use crate::report::Report;
use crate::stats::{Looks, REPEATS_FOR_INTERVAL, standard_errors};
use crate::stopping::compared_pairs;

pub const SCHEMA: &str = "dyno.budget/1";

/// Minimum number of repeats of a pilot. Two are too few for an estimate of variance.
pub const MIN_PILOT_REPEATS: usize = 3;

/// Lengths of the load to choose from, as multiples of the pilot's length.
const LENGTH_FACTORS: [f64; 9] = [0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0];

/// Function that returns whether the suite can have a load of this length in seconds.
pub type FitsLength<'a> = dyn Fn(f64) -> bool + 'a;

/// Shortest recommended load, seconds. Edge effects would dominate a shorter window.
const MIN_DURATION_S: f64 = 0.8;

/// A plan for a given time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Budget {
    pub schema: &'static str,
    /// Id of the pilot run.
    pub pilot: String,
    pub pilot_repeats: usize,
    /// Time of a block outside of its measured windows: starts, checks, warm-ups and stops.
    pub overhead_s: f64,
    /// Time of the measured windows of a block.
    pub windows_s: f64,
    /// Recommended number of repeats.
    pub repeats: u32,
    /// Recommended length of the load of each step.
    pub duration_s: f64,
    /// Turns (slices of time) of each subject in a load of `duration_s`, always an even number;
    /// `None`: subjects do not take turns.
    pub slices: Option<u32>,
    /// Expected duration of the measurement before the run, from which the suite derives its rates.
    /// 0: the suite derives no rates.
    pub before_s: f64,
    /// Duration of the whole run, without builds.
    pub takes_s: f64,
    pub rows: Vec<Expected>,
    /// Planned comparisons without a row, because the pilot has too few valid repeats of both arms.
    /// Their precision is not considered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownPrecision>,
}

/// Two arms at one step whose variance the pilot does not show.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct UnknownPrecision {
    pub subject_a: String,
    pub subject_b: String,
    pub workload: String,
    pub step: Shape,
}

/// Expected precision of one metric for two arms at one step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Expected {
    pub subject_a: String,
    pub subject_b: String,
    pub workload: String,
    pub step: Shape,
    pub metric: &'static str,
    pub title: &'static str,
    /// Standard deviation of the logarithm of a pair's ratio that is caused by differences between
    /// starts. A longer load does not reduce it.
    pub between_starts: f64,
    /// Standard deviation that is caused by differences within a load of the pilot's length.
    /// `None`: subjects did not take turns, so all variance is attributed to the starts.
    pub within_starts: Option<f64>,
    /// Half the width of the expected 95 % interval of the ratio: 0.01 for ± 1 %.
    pub half_width: f64,
    /// Smallest change that four of five runs of this plan would detect: 0.015 for 1.5 %.
    pub detectable: f64,
}

/// Variances of the logarithm of a ratio, by their source.
#[derive(Clone, Copy, Debug)]
struct Noise {
    /// Variance between starts.
    between: f64,
    /// Variance of the mean over one load of the pilot's length; `None`: included in `between`.
    within: Option<f64>,
}

impl Noise {
    /// Computes the variances. `launch_ratios`: the ratio of the two arms for each pair of
    /// starts. `rounds_by_launch`: for each pair, the values of both arms in each round of turns.
    /// `None`: fewer than two pairs, or a ratio is not a positive number.
    fn from_ratios(launch_ratios: &[f64], rounds_by_launch: &[Vec<(f64, f64)>]) -> Option<Noise> {
        let logs: Vec<f64> = launch_ratios.iter().map(|ratio| ratio.ln()).collect();
        let total = variance(&logs)?;
        let within: Option<Vec<f64>> =
            rounds_by_launch.iter().map(|rounds| round_variance(rounds)).collect();
        let within = within.filter(|variances| variances.len() == launch_ratios.len());
        let within = within.map(|variances| variances.iter().sum::<f64>() / variances.len() as f64);
        Some(Noise { between: (total - within.unwrap_or(0.0)).max(0.0), within })
    }

    /// Returns the standard error of the mean over this many launches. `length`: length of the
    /// load, as a multiple of the pilot's length.
    fn error(self, launches: f64, length: f64) -> f64 {
        ((self.between + self.within.unwrap_or(0.0) / length) / launches).sqrt()
    }
}

/// Returns the part of the variance of a launch's ratio that its rounds cause. `rounds`: the values
/// of both arms in each round. `None`: fewer than four rounds.
///
/// The ratio of the two arms in the even rounds is compared with their ratio in the odd rounds.
/// Each ratio is the ratio of two sums: in a sum, a stall counts by its duration, as in the ratio
/// of the whole launch. The variance of the mean of two values that differ by d is d²/4.
fn round_variance(rounds: &[(f64, f64)]) -> Option<f64> {
    let half_ratio = |first: usize| {
        let half_rounds = || rounds.iter().skip(first).step_by(2);
        let (sum_a, sum_b) = half_rounds()
            .fold((0.0f64, 0.0f64), |(sum_a, sum_b), (value_a, value_b)| {
                (sum_a + value_a, sum_b + value_b)
            });
        (half_rounds().count() >= 2).then(|| (sum_a / sum_b).ln())
    };
    Some((half_ratio(0)? - half_ratio(1)?).powi(2) / 4.0).filter(|variance| variance.is_finite())
}

/// Returns the unbiased variance; `None`: fewer than two values, or one is not a number.
fn variance(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let sum = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    Some(sum / (n - 1.0)).filter(|variance| variance.is_finite())
}

/// Expected precision of a comparison, in logarithms of ratios.
struct Precision {
    /// Half the width of the 95 % interval.
    half_width: f64,
    /// Smallest difference that four of five runs detect.
    detectable: f64,
}

/// Returns the precision of this many launches. `length`: length of the load, as a multiple of the
/// pilot's length.
fn precision(noise: Noise, looks: Looks, launches: u32, length: f64) -> Precision {
    let error = noise.error(f64::from(launches), length);
    let (half_width, detectable) = standard_errors(looks, launches);
    Precision { half_width: half_width * error, detectable: detectable * error }
}

/// Returns half the width of the interval of the least precise comparison.
fn worst_half_width(
    variances: &[(Expected, Noise)],
    looks: Looks,
    launches: u32,
    length: f64,
) -> f64 {
    let half_widths =
        variances.iter().map(|(_, noise)| precision(*noise, looks, launches, length).half_width);
    half_widths.fold(0.0, f64::max)
}

/// Returns the error of a budget that is shorter than `min_s` seconds.
fn too_short(budget_s: f64, min_s: f64) -> String {
    format!(
        "--budget {budget_s:.0}s: too short. A verdict needs {REPEATS_FOR_INTERVAL} repeats, \
         which take at least {min_s} s\nhint: use --budget {min_s}s or more, or remove \
         subjects, workloads or steps from the suite"
    )
}

/// Plans a run like `pilot` that takes at most `budget_s` seconds. This time includes `before_s`
/// seconds for a measurement before the run. `fits`: which lengths of the load are possible.
///
/// # Errors
/// A message if the pilot has too few repeats or nothing to compare, or if the time is too short
/// for a verdict.
pub fn budget(
    pilot: &Run,
    report: &Report,
    (budget_s, before_s): (f64, f64),
    fits: &FitsLength<'_>,
) -> Result<Budget, String> {
    let looks = Looks::from_plan(&pilot.header.plan);
    let (overhead_s, windows_s) = block_times(pilot)?;
    let variances = variances(pilot, report);
    if variances.is_empty() {
        return Err(format!(
            "{}: the variance between repeats is unknown, because no step has \
             {MIN_PILOT_REPEATS} valid repeats of each of two servers (not counting controls)\n\
             hint: make a pilot run of two servers or more. If this run has two, its report shows \
             why repeats are not valid",
            pilot.header.id
        ));
    }
    let pilot_s = pilot.header.plan.load.duration_ns as f64 / 1e9;
    let launch_count =
        |length: f64| ((budget_s - before_s) / (overhead_s + windows_s * length)).floor();
    let has_within = variances.iter().all(|(_, noise)| noise.within.is_some());
    let durations_s = LENGTH_FACTORS.map(|factor| duration_s(pilot_s, factor));
    // Without the variance within starts, the effect of another length is unknown.
    let is_possible = |duration_s: &f64| {
        *duration_s == pilot_s || has_within && *duration_s >= MIN_DURATION_S && fits(*duration_s)
    };
    let lengths = || durations_s.into_iter().filter(is_possible).map(|seconds| seconds / pilot_s);
    let possible = lengths().filter(|length| launch_count(*length) >= REPEATS_FOR_INTERVAL as f64);
    // The least precise comparison decides.
    let half_width =
        |length: &f64| worst_half_width(&variances, looks, launch_count(*length) as u32, *length);
    let best = possible.min_by(|a, b| half_width(a).total_cmp(&half_width(b)));
    let length = best.ok_or_else(|| {
        let block_s = overhead_s + windows_s * lengths().fold(1.0, f64::min);
        // Rounded up, because a shorter budget would fail again.
        too_short(budget_s, (before_s + REPEATS_FOR_INTERVAL as f64 * block_s).ceil())
    })?;
    let repeats = launch_count(length).min(f64::from(u32::MAX)) as u32;
    let duration_s = duration_s(pilot_s, length);
    let unknown = unknown_pairs(&pilot.header.plan, &variances);
    let rows = variances.into_iter().map(|(row, noise)| {
        let Precision { half_width, detectable } = precision(noise, looks, repeats, length);
        Expected { half_width: half_width.exp_m1(), detectable: detectable.exp_m1(), ..row }
    });
    Ok(Budget {
        schema: SCHEMA,
        pilot: pilot.header.id.clone(),
        pilot_repeats: first_load_times(pilot).len(),
        overhead_s,
        windows_s,
        repeats,
        duration_s,
        slices: pilot
            .header
            .plan
            .sharing
            .slice_ns()
            .map(|slice_ns| 2 * (duration_s * 1e9 / (2 * slice_ns) as f64).ceil() as u32),
        before_s,
        takes_s: before_s + f64::from(repeats) * (overhead_s + windows_s * length),
        rows: rows.collect(),
        unknown,
    })
}

/// Returns the length of the load for a multiple of the pilot's length, rounded to a tenth of a
/// second. The pilot's own length is not rounded, because it is possible for every pilot.
fn duration_s(pilot_s: f64, factor: f64) -> f64 {
    if factor == 1.0 { pilot_s } else { (pilot_s * factor * 10.0).round() / 10.0 }
}

/// Returns the planned comparisons whose variance is unknown.
fn unknown_pairs(plan: &Plan, known: &[(Expected, Noise)]) -> Vec<UnknownPrecision> {
    let planned = &CellKey::planned(plan);
    let pair = |(a, b): (usize, usize), key: &CellKey| UnknownPrecision {
        subject_a: plan.arms[a].name.clone(),
        subject_b: plan.arms[b].name.clone(),
        workload: plan.workloads[key.workload].name.clone(),
        step: Shape::from_step(&plan.load.steps[key.step]),
    };
    let is_known = |pair: &UnknownPrecision| {
        known.iter().any(|(row, _)| {
            (&row.subject_a, &row.subject_b, &row.workload, row.step)
                == (&pair.subject_a, &pair.subject_b, &pair.workload, pair.step)
        })
    };
    let pairs = compared_pairs(plan).into_iter().flat_map(|(a, b)| {
        let first_keys = planned.iter().filter(move |key| key.arm == a);
        first_keys
            .filter(move |key| planned.contains(&key.with_arm(b)))
            .map(move |key| pair((a, b), key))
    });
    pairs.filter(|pair| !is_known(pair)).collect()
}

/// Returns the smallest change that four of five runs with this many starts detect in a single
/// comparison, by the variance of `pilot`: 0.05 is 5 %. The report of such a run has the same
/// number as its noise.
#[must_use]
pub fn detectable(pilot: &Run, report: &Report, repeats: u32) -> Vec<(&'static str, f64)> {
    let grid = Grid::new(&report.trials);
    let change = |metric: &Metric| {
        Some((metric.key, noise::detectable(&pilot.header.plan, &grid, metric, Some(repeats))?))
    };
    [&THROUGHPUT, &CPU].into_iter().filter_map(change).collect()
}

/// Returns the start time of the first load of each block.
fn first_load_times(run: &Run) -> BTreeMap<u32, u64> {
    let plan = &run.header.plan;
    let mut first_loads: BTreeMap<u32, u64> = BTreeMap::new();
    for trial in &run.trials {
        let block = plan.launches[plan.trials[trial.trial].launch].block;
        let first = first_loads.entry(block).or_insert(trial.load.began_ns);
        *first = (*first).min(trial.load.began_ns);
    }
    first_loads
}

/// Whether the run was interrupted between two blocks and resumed later. The time between such
/// blocks is meaningless: days may pass, and a reboot resets the clock.
fn is_interrupted(run: &Run, block: u32, next: u32) -> bool {
    let launches = &run.header.plan.launches;
    let first_start = |block: u32| {
        let starts = run.starts.iter().filter(|start| launches[start.launch].block == block);
        starts.map(|start| start.start).min()
    };
    let is_between = |from: usize| {
        first_start(block).is_some_and(|start| start < from)
            && first_start(next).is_some_and(|start| start >= from)
    };
    run.header.resumptions.iter().any(|part| is_between(part.from_start))
}

/// Returns the seconds of a block outside of its windows, and the seconds of its windows.
fn block_times(run: &Run) -> Result<(f64, f64), String> {
    let plan = &run.header.plan;
    let began = first_load_times(run);
    if began.len() < MIN_PILOT_REPEATS {
        return Err(format!(
            "{}: a pilot needs at least {MIN_PILOT_REPEATS} repeats, and this run has {}\nhint: \
             make a pilot run with `--repeats {MIN_PILOT_REPEATS}`",
            run.header.id,
            began.len()
        ));
    }
    let began: Vec<(u32, u64)> = began.into_iter().collect();
    let period_s = |pair: &[(u32, u64)]| {
        let ((block, began_ns), (next_block, next_began_ns)) = (pair[0], pair[1]);
        let is_uninterrupted = !is_interrupted(run, block, next_block);
        is_uninterrupted.then(|| next_began_ns.saturating_sub(began_ns) as f64 / 1e9)
    };
    let mut periods: Vec<f64> = began.windows(2).filter_map(period_s).collect();
    periods.sort_by(f64::total_cmp);
    // The median. If the number of periods is even, it is the shorter of the middle two periods,
    // because an event may have delayed the longer one.
    let middle = periods.len().saturating_sub(1) / 2;
    let period_s = *periods.get(middle).ok_or_else(|| {
        format!(
            "{}: this run was interrupted during every repeat, so the duration of a repeat is \
             unknown\nhint: make another pilot run",
            run.header.id
        )
    })?;
    let trials = run.trials.iter().map(|trial| (trial.trial, &trial.load));
    let searches = run
        .searches
        .iter()
        .flat_map(|search| search.loads.iter().map(|load| (search.trial, &load.load)));
    // Subjects that take turns have the same window, which the set contains once.
    let windows: BTreeSet<(u32, u64, u64)> = trials
        .chain(searches)
        .map(|(trial, load)| {
            let block = plan.launches[plan.trials[trial].launch].block;
            (block, load.began_ns, load.window_ns.1 - load.window_ns.0)
        })
        .collect();
    let windows_ns: u64 = windows.iter().map(|(_, _, length)| length).sum();
    let windows_s = windows_ns as f64 / 1e9 / began.len() as f64;
    Ok(((period_s - windows_s).max(0.0), windows_s))
}

/// Returns the variances for each comparison of the run.
fn variances(run: &Run, report: &Report) -> Vec<(Expected, Noise)> {
    let plan = &run.header.plan;
    let grid = Grid::new(&report.trials);
    let mut rows = Vec::new();
    for (a, b) in compared_pairs(plan) {
        for (key, base) in grid.cells().filter(|(key, _)| key.arm == a) {
            let Some(other) = grid.get(key.with_arm(b)) else { continue };
            for metric in [&THROUGHPUT, &CPU] {
                let metric = Metric::from_key(metric.key);
                let pairs = other.series(metric).ratios_by_block(&base.series(metric));
                let (launch_ratios, rounds_by_launch): (Vec<f64>, Vec<Vec<(f64, f64)>>) =
                    pairs.into_iter().unzip();
                if launch_ratios.len() < MIN_PILOT_REPEATS {
                    continue;
                }
                let Some(noise) = Noise::from_ratios(&launch_ratios, &rounds_by_launch) else {
                    continue;
                };
                let row = Expected {
                    subject_a: plan.arms[a].name.clone(),
                    subject_b: plan.arms[b].name.clone(),
                    workload: plan.workloads[key.workload].name.clone(),
                    step: Shape::from_step(&plan.load.steps[key.step]),
                    metric: metric.key,
                    title: metric.title,
                    between_starts: noise.between.sqrt(),
                    within_starts: noise.within.map(f64::sqrt),
                    half_width: 0.0,
                    detectable: 0.0,
                };
                rows.push((row, noise));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::{ArmSharing, Subject};
    use dyno_model::search::{SearchLoad, SearchRecord};

    use super::*;
    use crate::fixture;
    use crate::stats::draws::Normal;

    #[test]
    fn variances_of_starts_and_loads_are_separate() {
        let mut normal = Normal(3);
        // Starts differ by 2 %, and rounds within one by 4 %.
        let starts: Vec<f64> = normal.values(400, 1.0, 0.02);
        let rounds_of_start = |start: &f64| {
            normal.values(16, *start, 0.04).into_iter().map(|ratio| (ratio, 1.0)).collect()
        };
        let rounds: Vec<Vec<(f64, f64)>> = starts.iter().map(rounds_of_start).collect();
        let mean = |rounds: &Vec<(f64, f64)>| {
            rounds.iter().map(|(ratio, _)| ratio).sum::<f64>() / rounds.len() as f64
        };
        let launches: Vec<f64> = rounds.iter().map(mean).collect();
        let noise = Noise::from_ratios(&launches, &rounds).unwrap();
        assert!((noise.between.sqrt() - 0.02).abs() < 0.002, "{noise:?}");
        assert!((noise.within.unwrap().sqrt() - 0.01).abs() < 0.001, "{noise:?}");
        // The predicted precision matches the spread of means of ten starts with a load twice as
        // long.
        let means: Vec<f64> = (0..2000)
            .map(|_| {
                let starts = normal.values(10, 1.0, 0.02);
                let each = starts.iter().map(|start| {
                    normal.values(32, *start, 0.04).iter().map(|r| r.ln()).sum::<f64>() / 32.0
                });
                each.sum::<f64>() / 10.0
            })
            .collect();
        let measured = variance(&means).unwrap().sqrt();
        let predicted = noise.error(10.0, 2.0);
        assert!((predicted / measured - 1.0).abs() < 0.1, "{predicted} {measured}");
    }

    /// Returns a pilot of four blocks that start every ten seconds, with a window of one second for
    /// each of two servers.
    fn pilot() -> Run {
        let named =
            |name: &str| Subject { name: name.into(), title: name.into(), ..Subject::default() };
        let mut run = fixture::blocks_of(vec![named("a"), named("b")], 4, |arm, block| {
            10_000 + 100 * u64::from(block) + arm as u64 * (1000 + 37 * u64::from(block % 2))
        });
        for (number, trial) in run.trials.iter_mut().enumerate() {
            trial.load.began_ns =
                (number as u64 / 2) * 10_000_000_000 + (number as u64 % 2) * 4_000_000_000;
        }
        run.header.plan.load.duration_ns = 1_000_000_000;
        run
    }

    #[test]
    fn detectable_change_follows_from_pilot_variance() {
        let run = pilot();
        let report = crate::report::report(&run);
        let planned = budget(&run, &report, (600.0, 0.0), &|_| true).unwrap();
        let [(key, change)] = detectable(&run, &report, planned.repeats)[..] else {
            panic!("one metric")
        };
        assert_eq!(key, "throughput_rps");
        assert!((change / planned.rows[0].detectable - 1.0).abs() < 1e-9, "{change} {planned:?}");
        let few = detectable(&run, &report, planned.repeats / 4)[0].1;
        assert!((1.9..2.2).contains(&(few / change)), "{few} {change}");
        assert_eq!(detectable(&run, &report, 1), [], "one repeat finds nothing");
    }

    #[test]
    fn length_of_pilot_is_always_possible() {
        for duration_ms in [250, 750, 1000, 1250, 2250, 12_345] {
            let mut run = pilot();
            run.header.plan.load.duration_ns = duration_ms * 1_000_000;
            let report = crate::report::report(&run);
            let planned = budget(&run, &report, (600.0, 0.0), &|_| false).unwrap();
            assert_eq!(planned.duration_s, duration_ms as f64 / 1e3);
            assert_eq!((planned.repeats, planned.takes_s), (60, 600.0));
        }
    }

    /// The least precise comparison decides, so comparisons of unknown precision are reported.
    #[test]
    fn budget_names_pairs_of_unknown_precision() {
        let named =
            |name: &str| Subject { name: name.into(), title: name.into(), ..Subject::default() };
        let arms = vec![named("a"), named("b"), named("bad")];
        let mut run = fixture::blocks_of(arms, 4, |arm, block| {
            10_000 + 100 * u64::from(block) + arm as u64 * (1000 + 37 * u64::from(block % 2))
        });
        for (number, trial) in run.trials.iter_mut().enumerate() {
            trial.load.began_ns =
                (number as u64 / 3) * 12_000_000_000 + (number as u64 % 3) * 4_000_000_000;
        }
        run.header.plan.load.duration_ns = 1_000_000_000;
        let plan = run.header.plan.clone();
        run.trials.retain(|record| plan.trials[record.trial].arm != 2 || record.trial < 3);
        let report = crate::report::report(&run);
        let planned = budget(&run, &report, (600.0, 0.0), &|_| true).unwrap();
        let pairs = planned.unknown.iter().map(|pair| (&*pair.subject_a, &*pair.subject_b));
        assert_eq!(pairs.collect::<Vec<_>>(), [("a", "bad"), ("b", "bad")]);
        assert!(planned.rows.iter().all(|row| row.subject_b == "b"));
    }

    #[test]
    fn budget_without_rounds_plans_more_starts() {
        let run = pilot();
        let report = crate::report::report(&run);
        let planned = budget(&run, &report, (600.0, 0.0), &|_| true).unwrap();
        assert_eq!((planned.pilot_repeats, planned.overhead_s, planned.windows_s), (4, 8.0, 2.0));
        assert_eq!((planned.repeats, planned.duration_s, planned.takes_s), (60, 1.0, 600.0));
        let row = &planned.rows[0];
        assert_eq!((&*row.subject_a, &*row.subject_b, row.metric), ("a", "b", "throughput_rps"));
        assert!(
            row.within_starts.is_none() && row.half_width > 0.0 && row.detectable > row.half_width,
            "{row:?}"
        );
        assert_eq!(planned.unknown, []);
        let more = budget(&run, &report, (2400.0, 0.0), &|_| true).unwrap();
        // Four times as many starts halve the interval, except for the change of Student's t.
        assert!((1.9..2.1).contains(&(row.half_width / more.rows[0].half_width)), "{row:?}");
        assert!(
            budget(&run, &report, (49.0, 0.0), &|_| true).unwrap_err().contains(
                "5 repeats, which take at least 50 s\nhint: use --budget 50s or more, or"
            )
        );
        // The named budget is enough.
        let needed = budget(&run, &report, (49.0, 0.4), &|_| true).unwrap_err();
        assert!(needed.contains("--budget 51s"), "{needed}");
        assert!(budget(&run, &report, (51.0, 0.4), &|_| true).is_ok());
        assert_eq!(planned.slices, None);
        let after = budget(&run, &report, (600.0, 100.0), &|_| true).unwrap();
        assert_eq!((after.repeats, after.before_s, after.takes_s), (50, 100.0, 600.0));
        // Windows include the loads of searches, and turns are reported.
        let mut with_searches = pilot();
        let search_record = |trial: usize, began_ns: u64| {
            let mut load = with_searches.trials[trial].load.clone();
            load.began_ns = began_ns;
            SearchRecord {
                trial,
                loads: vec![SearchLoad { rate: 1.0, load, confirms: false }],
                failure: None,
            }
        };
        with_searches.searches =
            (0..8).map(|trial| search_record(trial, 100_000_000_000 + trial as u64)).collect();
        with_searches.header.plan.sharing = ArmSharing::Turns { slice_ns: 100_000_000 };
        let planned = budget(&with_searches, &report, (600.0, 0.0), &|_| true).unwrap();
        assert_eq!((planned.overhead_s, planned.windows_s, planned.slices), (6.0, 4.0, Some(10)));
    }

    #[test]
    fn budget_of_resumed_or_short_pilot() {
        let report = crate::report::report(&pilot());
        // A run that was resumed after a reboot has another clock.
        let mut resumed = pilot();
        resumed.starts = (0..8)
            .map(|start| dyno_model::StartRecord {
                start,
                launch: start,
                ..dyno_model::StartRecord::default()
            })
            .collect();
        for trial in &mut resumed.trials[4..] {
            trial.load.began_ns -= 20_000_000_000;
        }
        resumed.header.resumptions = vec![fixture::resumption(&resumed, 4, Vec::new())];
        let planned = budget(&resumed, &report, (600.0, 0.0), &|_| true).unwrap();
        assert_eq!((planned.overhead_s, planned.repeats), (8.0, 60));
        let mut short = pilot();
        short.trials.truncate(4);
        assert!(
            budget(&short, &report, (600.0, 0.0), &|_| true)
                .unwrap_err()
                .contains("this run has 2")
        );
    }
}
