//! Share of the spread between repeats that comes from nuisance factors: the time of a start, its
//! place in the block, its CPUs, the length of its environment.
//!
//! Each share is of one factor alone, in the variance of logarithms about each arm's mean. It is
//! the adjusted coefficient of determination (Theil, 1961), which is 0 on average for a factor
//! without effect, with Fisher's F test. Factors overlap, so shares need not add up.

use std::collections::{BTreeMap, BTreeSet};

use dyno_archive::plan::{Order, Plan};
use dyno_archive::run::Run;
use dyno_archive::start::{PADDING, StartRecord};
use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF as _, FisherSnedecor};

use crate::grid::Grid;
use crate::metric::{CPU, Metric, THROUGHPUT};
use crate::stats::holm;

/// Fewest starts for an estimate of shares.
const STARTS: usize = 10;

/// Fewest degrees of freedom that a factor has to leave.
const LEFT: usize = 3;

/// Spread between the starts of a run in one metric.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Nuisance {
    /// Key and name of the metric.
    pub metric: &'static str,
    pub title: &'static str,
    /// Starts with a known value.
    pub starts: usize,
    /// Standard deviation of logarithms about each arm's mean: 0.02 is 2 %.
    pub spread: f64,
    pub factors: Vec<FactorShare>,
}

/// The share of one factor.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Share")]
pub struct FactorShare {
    /// Name of the factor, such as `CPUs`.
    pub factor: &'static str,
    /// Share of the variance: 0 to 1.
    pub share: f64,
    /// Chance of this share or a larger one if the factor has no effect, allowing for all factors
    /// of all metrics (Holm).
    pub p: f64,
}

/// A start and its known properties.
struct Start {
    arm: usize,
    /// Mean of the logarithms of its values, about the mean of each cell.
    value: f64,
    block: u32,
    place: usize,
    environment: Option<usize>,
}

/// Model of a factor's effect.
enum Factor {
    /// A separate mean per level.
    Levels(Vec<u64>),
    /// A straight line.
    Line(Vec<f64>),
}

/// Returns the shares for the whole run; empty: too few starts.
#[must_use]
pub(crate) fn nuisance(run: &Run, grid: &Grid<'_>) -> Vec<Nuisance> {
    let mut all: Vec<Nuisance> =
        [&THROUGHPUT, &CPU].into_iter().filter_map(|metric| of_metric(run, grid, metric)).collect();
    let ps: Vec<f64> = all.iter().flat_map(|of| of.factors.iter().map(|share| share.p)).collect();
    let shares = all.iter_mut().flat_map(|of| &mut of.factors);
    shares.zip(holm(&ps)).for_each(|(share, p)| share.p = p);
    all
}

fn of_metric(run: &Run, grid: &Grid<'_>, metric: &Metric) -> Option<Nuisance> {
    let starts = starts(run, grid, metric);
    if starts.len() < STARTS {
        return None;
    }
    let arms: BTreeSet<usize> = starts.iter().map(|start| start.arm).collect();
    let values: Vec<f64> = starts.iter().map(|start| start.value).collect();
    let free = starts.len().checked_sub(arms.len()).filter(|free| *free > 0)?;
    let spread = (values.iter().map(|value| value * value).sum::<f64>() / free as f64).sqrt();
    let blocks = by_block(&starts);
    let means: Vec<f64> = blocks.iter().map(|block| block.value).collect();
    // Factors that all starts of a block share need one value per block, because the starts of a
    // block are not independent.
    let of_blocks = factors_of_blocks(&run.header.plan, &blocks).into_iter();
    let of_blocks = of_blocks
        .map(|(factor, levels)| (factor, levels.share(&means, blocks.len().saturating_sub(1))));
    let of_starts = factors(&run.header.plan, &starts).into_iter();
    let of_starts = of_starts.map(|(factor, levels)| (factor, levels.share(&values, free)));
    let share = |(factor, result): (&'static str, Option<(f64, f64)>)| {
        result.map(|(share, p)| FactorShare { factor, share, p })
    };
    let factors = of_blocks.chain(of_starts).filter_map(share).collect();
    Some(Nuisance {
        metric: metric.key,
        title: metric.title,
        starts: starts.len(),
        spread,
        factors,
    })
}

/// Returns the starts of all arms except controls, with their values per step.
fn starts(run: &Run, grid: &Grid<'_>, metric: &Metric) -> Vec<Start> {
    let plan = &run.header.plan;
    let mut logs: BTreeMap<(usize, u32), Vec<f64>> = BTreeMap::new();
    for (key, cell) in grid.cells().filter(|(key, _)| !plan.subject_of(key.arm).control) {
        let logs_of = cell
            .series(metric)
            .blocks()
            .map(|(block, value)| (block, value.ln()))
            .collect::<Vec<_>>();
        // A trial without responses has no logarithm.
        let own: Vec<(u32, f64)> = logs_of.into_iter().filter(|(_, log)| log.is_finite()).collect();
        let mean = own.iter().map(|(_, log)| log).sum::<f64>() / own.len().max(1) as f64;
        for (block, log) in own {
            logs.entry((key.arm, block)).or_default().push(log - mean);
        }
    }
    let start = |((arm, block), own): ((usize, u32), Vec<f64>)| {
        // Blocks of results are counted from 1.
        let launch =
            plan.launches.iter().position(|l| l.block + 1 == block && l.arms.contains(&arm))?;
        let place = plan.launches[..launch].iter().filter(|l| l.block + 1 == block).count();
        // A resumed launch has two starts, and the start of each value is no longer known here.
        let has_trials =
            |start: &&StartRecord| run.trials.iter().any(|trial| trial.start == start.start);
        let mut of_launch =
            run.starts.iter().filter(|start| start.launch == launch).filter(has_trials);
        let record = of_launch.next();
        if of_launch.next().is_some() {
            return None;
        }
        let environment =
            record.and_then(|start| Some(start.subject()?.environment.get(PADDING)?.len()));
        let value = own.iter().sum::<f64>() / own.len() as f64;
        Some(Start { arm, value, block, place, environment })
    };
    logs.into_iter().filter_map(start).collect()
}

fn factors(plan: &Plan, starts: &[Start]) -> Vec<(&'static str, Factor)> {
    let levels = |of: &dyn Fn(&Start) -> u64| Factor::Levels(starts.iter().map(of).collect());
    let mut all = vec![("block", levels(&|start| u64::from(start.block)))];
    if plan.slice_ns.is_none() && plan.duet.is_empty() && plan.order == Order::Random {
        all.push(("place in the block", levels(&|start| start.place as u64)));
    }
    let lengths: Option<Vec<f64>> =
        starts.iter().map(|start| Some(start.environment? as f64)).collect();
    all.extend(lengths.map(|lengths| ("length of the environment", Factor::Line(lengths))));
    all
}

/// Returns the mean of each block, about the mean of all.
fn by_block(starts: &[Start]) -> Vec<Start> {
    let mut of_block: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    starts.iter().for_each(|start| of_block.entry(start.block).or_default().push(start.value));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let means: Vec<(u32, f64)> =
        of_block.iter().map(|(block, values)| (*block, mean(values))).collect();
    let of_all = mean(&means.iter().map(|(_, value)| *value).collect::<Vec<f64>>());
    let start = |(block, value)| Start {
        arm: 0,
        value: value - of_all,
        block,
        place: 0,
        environment: None,
    };
    means.into_iter().map(start).collect()
}

/// Returns the factors that all starts of a block share.
fn factors_of_blocks(plan: &Plan, blocks: &[Start]) -> Vec<(&'static str, Factor)> {
    let mut all =
        vec![("time", Factor::Line(blocks.iter().map(|block| f64::from(block.block)).collect()))];
    if plan.swaps_cpus {
        let cpus = blocks.iter().map(|block| u64::from(block.block) % 2).collect();
        all.push(("CPUs", Factor::Levels(cpus)));
    }
    all
}

impl Factor {
    /// Returns the factor's share of the variance of values about their arms' means, and the chance
    /// of such a share. `free`: degrees of freedom of the values. `None`: the factor does not vary,
    /// or leaves too few.
    fn share(&self, values: &[f64], free: usize) -> Option<(f64, f64)> {
        let (taken, explained) = match self {
            Factor::Levels(levels) => by_levels(levels, values),
            Factor::Line(places) => (1, by_line(places, values)?),
        };
        let left = free.checked_sub(taken).filter(|left| *left >= LEFT && taken > 0)?;
        let all: f64 = values.iter().map(|value| value * value).sum();
        let rest = (all - explained).max(0.0);
        if all <= 0.0 || !explained.is_finite() {
            return None;
        }
        let share = 1.0 - (rest / left as f64) / (all / free as f64);
        let f = (explained / taken as f64) / (rest / left as f64).max(f64::MIN_POSITIVE);
        let fisher = FisherSnedecor::new(taken as f64, left as f64).ok()?;
        Some((share.clamp(0.0, 1.0), fisher.sf(f)))
    }
}

/// Returns the degrees of freedom of levels, and the squares that their means explain.
fn by_levels(levels: &[u64], values: &[f64]) -> (usize, f64) {
    let mut of_level: BTreeMap<u64, (f64, usize)> = BTreeMap::new();
    for (level, value) in levels.iter().zip(values) {
        let (sum, n) = of_level.entry(*level).or_default();
        *sum += value;
        *n += 1;
    }
    let explained = of_level.values().map(|(sum, n)| sum * sum / *n as f64).sum();
    (of_level.len().saturating_sub(1), explained)
}

/// Returns the squares that a line explains; `None`: all places are equal.
fn by_line(places: &[f64], values: &[f64]) -> Option<f64> {
    let mean = places.iter().sum::<f64>() / places.len() as f64;
    let spread: f64 = places.iter().map(|place| (place - mean).powi(2)).sum();
    let with: f64 = places.iter().zip(values).map(|(place, value)| (place - mean) * value).sum();
    (spread > 0.0).then(|| with * with / spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::draws::Normal;

    /// Two arms of twenty blocks each, with these values about their means.
    fn values(of: impl Fn(usize, &mut Normal) -> f64, seed: u64) -> Vec<f64> {
        let mut normal = Normal(seed);
        let own: Vec<f64> = (0..40).map(|i| of(i % 20, &mut normal)).collect();
        let mean = |half: &[f64]| half.iter().sum::<f64>() / 20.0;
        let means = [mean(&own[..20]), mean(&own[20..])];
        own.iter().enumerate().map(|(i, value)| value - means[i / 20]).collect()
    }

    fn cpus() -> Factor {
        Factor::Levels((0..40).map(|i| (i % 20) % 2).collect())
    }

    #[test]
    fn factor_that_does_half_has_half() {
        // Levels at ±1 have the variance 1, like the noise.
        let shares: Vec<(f64, f64)> = (0..200)
            .map(|seed| {
                let own = values(
                    |block, normal| if block % 2 == 0 { 1.0 } else { -1.0 } + normal.draw(),
                    seed,
                );
                cpus().share(&own, 38).unwrap()
            })
            .collect();
        let mean = shares.iter().map(|(share, _)| share).sum::<f64>() / 200.0;
        assert!((mean - 0.5).abs() < 0.03, "{mean}");
        assert!(shares.iter().filter(|(_, p)| *p < 0.05).count() > 195);
    }

    #[test]
    fn factor_that_does_nothing_has_none_and_is_seldom_shown() {
        const WORLDS: u64 = 2000;
        for factor in [cpus(), Factor::Line((0..40).map(|i| f64::from(i % 20)).collect())] {
            let of = |seed| factor.share(&values(|_, normal| normal.draw(), seed), 38).unwrap();
            let all: Vec<(f64, f64)> = (0..WORLDS).map(of).collect();
            let shown = all.iter().filter(|(_, p)| *p < 0.05).count() as f64 / WORLDS as f64;
            assert!((0.035..=0.065).contains(&shown), "{shown}");
            assert!(all.iter().map(|(share, _)| share).sum::<f64>() / (WORLDS as f64) < 0.03);
        }
    }

    #[test]
    fn constant_values_have_no_share() {
        let own = values(|_, normal| normal.draw(), 1);
        assert_eq!(Factor::Levels(vec![3; 40]).share(&own, 38), None);
        assert_eq!(Factor::Line(vec![3.0; 40]).share(&own, 38), None);
        assert_eq!(
            Factor::Levels((0..40).collect()).share(&own, 38),
            None,
            "nothing would be left"
        );
    }
}
