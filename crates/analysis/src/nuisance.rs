//! Computes how much of the spread between repeats nuisance factors explain: the time of a start,
//! its place in the block, its CPUs, and the length of its environment.
//!
//! A share is the part of the variance of log values, around each cell's mean, that one factor
//! explains alone. It is the adjusted coefficient of determination (Theil, 1961), with Fisher's F
//! test. For a factor without effect, the share is 0 on average. Factors overlap, so the sum of the
//! shares may differ from 1.

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::plan::{Order, Plan};
use dyno_model::run::Run;
use dyno_model::start::{PADDING, StartRecord};
use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF as _, FisherSnedecor};

use crate::grid::Grid;
use crate::metric::{CPU, Metric, THROUGHPUT};
use crate::stats::holm;

/// Minimum number of starts for an estimate of shares.
const MIN_STARTS: usize = 10;

/// Minimum number of remaining degrees of freedom.
const MIN_FREEDOM: usize = 3;

/// Spread of one metric between the starts of a run, and the factors that explain it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Nuisance {
    /// Key and name of the metric.
    pub metric: &'static str,
    pub title: &'static str,
    /// Number of starts with a known value.
    pub starts: usize,
    /// Standard deviation of log values around each cell's mean: 0.02 is 2 %.
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
    /// p-value: the chance of this share or a larger one if the factor has no effect. It is
    /// adjusted for all factors of all metrics (Holm).
    pub p: f64,
}

/// A start and its known properties.
struct Start {
    arm: usize,
    /// Mean of the start's log values, each minus the mean of its cell.
    value: f64,
    block: u32,
    /// Place in the block, counted from 0.
    place: usize,
    /// Length of the padding of its environment, bytes.
    environment: Option<usize>,
}

/// Mean of the starts of one block, minus the mean of all blocks.
struct BlockMean {
    block: u32,
    value: f64,
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
    let mut all: Vec<Nuisance> = [&THROUGHPUT, &CPU]
        .into_iter()
        .filter_map(|metric| metric_nuisance(run, grid, metric))
        .collect();
    let ps: Vec<f64> =
        all.iter().flat_map(|metric| metric.factors.iter().map(|share| share.p)).collect();
    let shares = all.iter_mut().flat_map(|metric| &mut metric.factors);
    shares.zip(holm(&ps)).for_each(|(share, p)| share.p = p);
    all
}

/// Returns the shares in the spread of one metric; `None`: too few starts.
fn metric_nuisance(run: &Run, grid: &Grid<'_>, metric: &Metric) -> Option<Nuisance> {
    let starts = starts(run, grid, metric);
    if starts.len() < MIN_STARTS {
        return None;
    }
    let arms: BTreeSet<usize> = starts.iter().map(|start| start.arm).collect();
    let values: Vec<f64> = starts.iter().map(|start| start.value).collect();
    let free = starts.len().checked_sub(arms.len()).filter(|free| *free > 0)?;
    let spread = (values.iter().map(|value| value * value).sum::<f64>() / free as f64).sqrt();
    let blocks = block_means(&starts);
    let means: Vec<f64> = blocks.iter().map(|block| block.value).collect();
    // Some factors are the same for all starts of a block. They are tested with one value per
    // block, because the starts of a block are not independent.
    let block_shares = block_factors(&run.header.plan, &blocks).into_iter();
    let block_shares = block_shares
        .map(|(name, factor)| (name, factor.share(&means, blocks.len().saturating_sub(1))));
    let start_shares = factors(&run.header.plan, &starts).into_iter();
    let start_shares = start_shares.map(|(name, factor)| (name, factor.share(&values, free)));
    let share = |(name, result): (&'static str, Option<(f64, f64)>)| {
        result.map(|(share, p)| FactorShare { factor: name, share, p })
    };
    let factors = block_shares.chain(start_shares).filter_map(share).collect();
    Some(Nuisance {
        metric: metric.key,
        title: metric.title,
        starts: starts.len(),
        spread,
        factors,
    })
}

/// Returns the starts of all arms except controls, each with its mean value.
fn starts(run: &Run, grid: &Grid<'_>, metric: &Metric) -> Vec<Start> {
    let plan = &run.header.plan;
    let mut logs: BTreeMap<(usize, u32), Vec<f64>> = BTreeMap::new();
    for (key, cell) in grid.cells().filter(|(key, _)| !plan.subject_of(key.arm).control) {
        let logs_by_block = cell
            .series(metric)
            .blocks()
            .map(|(block, value)| (block, value.ln()))
            .collect::<Vec<_>>();
        // A trial without responses has no logarithm.
        let finite_logs: Vec<(u32, f64)> =
            logs_by_block.into_iter().filter(|(_, log)| log.is_finite()).collect();
        let mean =
            finite_logs.iter().map(|(_, log)| log).sum::<f64>() / finite_logs.len().max(1) as f64;
        for (block, log) in finite_logs {
            logs.entry((key.arm, block)).or_default().push(log - mean);
        }
    }
    let start = |((arm, block), finite_logs): ((usize, u32), Vec<f64>)| {
        // Blocks of results are counted from 1.
        let launch =
            plan.launches.iter().position(|l| l.block + 1 == block && l.arms.contains(&arm))?;
        let place = plan.launches[..launch].iter().filter(|l| l.block + 1 == block).count();
        // A resumed launch has two starts, so it is unknown from which start a value is.
        let has_trials =
            |start: &&StartRecord| run.trials.iter().any(|trial| trial.start == start.start);
        let mut records =
            run.starts.iter().filter(|start| start.launch == launch).filter(has_trials);
        let record = records.next();
        if records.next().is_some() {
            return None;
        }
        let environment =
            record.and_then(|start| Some(start.subject()?.environment.get(PADDING)?.len()));
        let value = finite_logs.iter().sum::<f64>() / finite_logs.len() as f64;
        Some(Start { arm, value, block, place, environment })
    };
    logs.into_iter().filter_map(start).collect()
}

/// Returns the factors that are tested with one value per start: the block itself, and the factors
/// that differ between the starts of a block.
fn factors(plan: &Plan, starts: &[Start]) -> Vec<(&'static str, Factor)> {
    let levels = |pick: &dyn Fn(&Start) -> u64| Factor::Levels(starts.iter().map(pick).collect());
    let mut factors = vec![("block", levels(&|start| u64::from(start.block)))];
    // The place is omitted in two cases. In turns and duets, several starts of a block run at the
    // same time. In a fixed order, an arm has the same place in each block.
    if plan.sharing.slice_ns().is_none()
        && plan.sharing.duet().is_empty()
        && plan.order == Order::Random
    {
        factors.push(("place in the block", levels(&|start| start.place as u64)));
    }
    let lengths: Option<Vec<f64>> =
        starts.iter().map(|start| Some(start.environment? as f64)).collect();
    factors.extend(lengths.map(|lengths| ("length of the environment", Factor::Line(lengths))));
    factors
}

/// Returns the mean of each block, minus the mean of all blocks.
fn block_means(starts: &[Start]) -> Vec<BlockMean> {
    let mut values_by_block: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    starts
        .iter()
        .for_each(|start| values_by_block.entry(start.block).or_default().push(start.value));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let means: Vec<(u32, f64)> =
        values_by_block.iter().map(|(block, values)| (*block, mean(values))).collect();
    let total_mean = mean(&means.iter().map(|(_, value)| *value).collect::<Vec<f64>>());
    means.into_iter().map(|(block, value)| BlockMean { block, value: value - total_mean }).collect()
}

/// Returns the factors that are the same for all starts of a block.
fn block_factors(plan: &Plan, blocks: &[BlockMean]) -> Vec<(&'static str, Factor)> {
    let mut all =
        vec![("time", Factor::Line(blocks.iter().map(|block| f64::from(block.block)).collect()))];
    // Servers and generator swap their CPUs in every second block.
    if plan.swaps_cpus {
        let cpus = blocks.iter().map(|block| u64::from(block.block) % 2).collect();
        all.push(("CPUs", Factor::Levels(cpus)));
    }
    all
}

impl Factor {
    /// Returns the factor's share of the variance of values around their cells' means, and its
    /// p-value. `free`: degrees of freedom of the values. `None`: the factor does not vary, or too
    /// few degrees of freedom remain.
    fn share(&self, values: &[f64], free: usize) -> Option<(f64, f64)> {
        let (factor_freedom, explained) = match self {
            Factor::Levels(levels) => level_squares(levels, values),
            Factor::Line(places) => (1, line_squares(places, values)?),
        };
        let remaining_freedom = free
            .checked_sub(factor_freedom)
            .filter(|remaining_freedom| *remaining_freedom >= MIN_FREEDOM && factor_freedom > 0)?;
        let total: f64 = values.iter().map(|value| value * value).sum();
        let unexplained = (total - explained).max(0.0);
        if total <= 0.0 || !explained.is_finite() {
            return None;
        }
        let share = 1.0 - (unexplained / remaining_freedom as f64) / (total / free as f64);
        let f = (explained / factor_freedom as f64)
            / (unexplained / remaining_freedom as f64).max(f64::MIN_POSITIVE);
        let fisher = FisherSnedecor::new(factor_freedom as f64, remaining_freedom as f64).ok()?;
        Some((share.clamp(0.0, 1.0), fisher.sf(f)))
    }
}

/// Returns the degrees of freedom of a factor's levels, and the sum of squares that they explain.
fn level_squares(levels: &[u64], values: &[f64]) -> (usize, f64) {
    let mut sums_by_level: BTreeMap<u64, (f64, usize)> = BTreeMap::new();
    for (level, value) in levels.iter().zip(values) {
        let (sum, n) = sums_by_level.entry(*level).or_default();
        *sum += value;
        *n += 1;
    }
    let explained = sums_by_level.values().map(|(sum, n)| sum * sum / *n as f64).sum();
    (sums_by_level.len().saturating_sub(1), explained)
}

/// Returns the sum of squares that a line explains; `None`: all positions are equal.
fn line_squares(positions: &[f64], values: &[f64]) -> Option<f64> {
    let mean = positions.iter().sum::<f64>() / positions.len() as f64;
    let spread: f64 = positions.iter().map(|position| (position - mean).powi(2)).sum();
    let covariance: f64 =
        positions.iter().zip(values).map(|(position, value)| (position - mean) * value).sum();
    (spread > 0.0).then(|| covariance * covariance / spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::draws::Normal;

    /// Returns values of two arms with twenty blocks each, about the means of the arms.
    fn values(draw_value: impl Fn(usize, &mut Normal) -> f64, seed: u64) -> Vec<f64> {
        let mut normal = Normal(seed);
        let values: Vec<f64> = (0..40).map(|i| draw_value(i % 20, &mut normal)).collect();
        let mean = |half: &[f64]| half.iter().sum::<f64>() / 20.0;
        let means = [mean(&values[..20]), mean(&values[20..])];
        values.iter().enumerate().map(|(i, value)| value - means[i / 20]).collect()
    }

    fn cpus() -> Factor {
        Factor::Levels((0..40).map(|i| (i % 20) % 2).collect())
    }

    #[test]
    fn factor_share_matches_simulated_half() {
        // Levels at ±1 have the variance 1, like the noise.
        let shares: Vec<(f64, f64)> = (0..200)
            .map(|seed| {
                let values = values(
                    |block, normal| if block % 2 == 0 { 1.0 } else { -1.0 } + normal.draw(),
                    seed,
                );
                cpus().share(&values, 38).unwrap()
            })
            .collect();
        let mean = shares.iter().map(|(share, _)| share).sum::<f64>() / 200.0;
        assert!((mean - 0.5).abs() < 0.03, "{mean}");
        assert!(shares.iter().filter(|(_, p)| *p < 0.05).count() > 195);
    }

    #[test]
    fn factor_without_effect_has_stated_alarm_rate() {
        const SIMULATIONS: u64 = 2000;
        for factor in [cpus(), Factor::Line((0..40).map(|i| f64::from(i % 20)).collect())] {
            let simulated_share =
                |seed| factor.share(&values(|_, normal| normal.draw(), seed), 38).unwrap();
            let all: Vec<(f64, f64)> = (0..SIMULATIONS).map(simulated_share).collect();
            let significant =
                all.iter().filter(|(_, p)| *p < 0.05).count() as f64 / SIMULATIONS as f64;
            assert!((0.035..=0.065).contains(&significant), "{significant}");
            assert!(all.iter().map(|(share, _)| share).sum::<f64>() / (SIMULATIONS as f64) < 0.03);
        }
    }

    #[test]
    fn constant_factor_has_no_share() {
        let values = values(|_, normal| normal.draw(), 1);
        assert_eq!(Factor::Levels(vec![3; 40]).share(&values, 38), None);
        assert_eq!(Factor::Line(vec![3.0; 40]).share(&values, 38), None);
        assert_eq!(
            Factor::Levels((0..40).collect()).share(&values, 38),
            None,
            "nothing would be left"
        );
    }
}
