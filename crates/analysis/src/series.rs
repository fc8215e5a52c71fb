//! Defines the series of a metric's values in a cell, one per block, and its ratios to other
//! series.

use crate::load::percentile_value::repeated_percentile;
use std::collections::BTreeMap;

use crate::stats::{Pairs, Repeated};

/// A metric's value in one repeat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RepeatValue {
    Known(f64),
    /// A percentile that lies among unanswered requests. It ranks above every known value.
    Unanswered,
    /// Not measured, or too few samples for the percentile.
    Missing,
}

impl RepeatValue {
    /// Returns the value; `None`: not known.
    pub(crate) const fn known_value(self) -> Option<f64> {
        match self {
            RepeatValue::Known(value) => Some(value),
            RepeatValue::Unanswered | RepeatValue::Missing => None,
        }
    }
}

/// A metric's values in a trial that took turns.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnValues {
    /// Start of the load, on the machine's clock.
    pub(crate) began_ns: u64,
    /// Value in each round, in order of time; `None`: the metric is not known per round.
    pub(crate) rounds: Option<Vec<f64>>,
}

/// The values of one metric in one cell: one for each block whose trial the metric includes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    by_block: Vec<(u32, RepeatValue)>,
    /// Start of the load of each block that took turns, on the machine's clock. Loads with the same
    /// start took turns with each other.
    turn_starts: BTreeMap<u32, u64>,
    /// Part of the run in which each block's load ran. Blocks that are absent ran in the first.
    parts: BTreeMap<u32, usize>,
    /// Values per round of the blocks that took turns, if the metric is known per round.
    rounds: BTreeMap<u32, Vec<f64>>,
}

impl FromIterator<(u32, RepeatValue)> for Series {
    fn from_iter<I: IntoIterator<Item = (u32, RepeatValue)>>(points: I) -> Series {
        Series { by_block: points.into_iter().collect(), ..Series::default() }
    }
}

impl Series {
    /// Adds the blocks whose trials took turns.
    #[must_use]
    pub(crate) fn with_turns(
        mut self,
        turns: impl IntoIterator<Item = (u32, TurnValues)>,
    ) -> Series {
        for (block, turn_values) in turns {
            self.turn_starts.insert(block, turn_values.began_ns);
            self.rounds.extend(turn_values.rounds.map(|values| (block, values)));
        }
        self
    }

    /// Adds the part of the run in which the load of each block ran.
    #[must_use]
    pub(crate) fn with_parts(self, parts: impl IntoIterator<Item = (u32, usize)>) -> Series {
        Series { parts: parts.into_iter().filter(|(_, part)| *part > 0).collect(), ..self }
    }

    /// Removes the turns. Two series without turns are paired by block and part alone, even if
    /// their loads ran at different times.
    #[must_use]
    pub(crate) fn without_turns(self) -> Series {
        Series { by_block: self.by_block, parts: self.parts, ..Series::default() }
    }

    /// Whether the loads of a block are a pair. They are not if only one of them took turns, if
    /// they took turns with different loads, or if the run was interrupted between them and resumed
    /// later: hours may lie between them.
    fn are_pair(&self, other: &Series, block: u32) -> bool {
        let group = |series: &Series| {
            (series.turn_starts.get(&block).copied(), series.parts.get(&block).copied())
        };
        group(self) == group(other)
    }

    /// Returns the value of every repeat.
    pub(crate) fn points(&self) -> impl Iterator<Item = RepeatValue> {
        self.by_block.iter().map(|(_, point)| *point)
    }

    /// Returns the number of repeats with a known value.
    #[must_use]
    pub fn known_count(&self) -> usize {
        self.values().count()
    }

    /// Returns the number of repeats in which the percentile lies among unanswered requests.
    #[must_use]
    pub fn unanswered_count(&self) -> usize {
        self.by_block.iter().filter(|(_, point)| *point == RepeatValue::Unanswered).count()
    }

    /// Whether no repeat has a missing value.
    #[must_use]
    pub fn has_all_points(&self) -> bool {
        self.by_block.iter().all(|(_, point)| *point != RepeatValue::Missing)
    }

    /// Whether there are repeats, and every repeat has a known value.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !self.by_block.is_empty() && self.known_count() == self.by_block.len()
    }

    /// Returns the value of a block; `None`: not known.
    pub(crate) fn value_in_block(&self, block: u32) -> Option<f64> {
        self.blocks().find(|(value_block, _)| *value_block == block).map(|(_, value)| value)
    }

    /// Returns the blocks with a known value, and their values.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (u32, f64)> {
        self.by_block.iter().filter_map(|(block, point)| Some((*block, point.known_value()?)))
    }

    /// Returns the known values.
    fn values(&self) -> impl Iterator<Item = f64> {
        self.by_block.iter().filter_map(|(_, point)| point.known_value())
    }

    /// Returns the median, range and interval over the repeats.
    #[must_use]
    pub fn repeated(&self) -> Repeated {
        repeated_percentile(self.values().collect(), self.unanswered_count())
    }

    /// Returns [`Series::repeated`]. If a repeat has a missing value, only the values are returned,
    /// without median and interval, because the other repeats are a biased selection.
    #[must_use]
    pub fn repeated_if_complete(&self) -> Repeated {
        let repeats = self.repeated();
        match self.has_all_points() {
            true => repeats,
            false => Repeated { values: repeats.values, ..Repeated::default() },
        }
    }

    /// Returns the ratios to another series, block by block. The trials of a block are close in
    /// time, so a drift of the machine cancels out.
    ///
    /// If a pair has no ratio (a value is missing, or the divisor is 0), the result is empty,
    /// because the remaining pairs would be a biased selection.
    #[must_use]
    pub fn ratios_to(&self, base: &Series) -> Repeated {
        let ratio = |(value, base): (RepeatValue, RepeatValue)| {
            Some(value.known_value()? / base.known_value()?)
        };
        let ratios: Option<Vec<f64>> =
            self.paired_with(base).map(|pair| ratio(pair).filter(|r| r.is_finite())).collect();
        Repeated::new(ratios.unwrap_or_default())
    }

    /// Returns the ratios to another series by block, and also by round if the two took turns.
    #[must_use]
    pub fn pairs_with(&self, base: &Series) -> Pairs {
        let launches = self.ratios_to(base).values;
        let rounds_of_block = |(block, rounds): (&u32, &Vec<f64>)| {
            let base_rounds = base.rounds.get(block)?;
            let are_paired = self.are_pair(base, *block) && rounds.len() == base_rounds.len();
            are_paired
                .then(|| rounds.iter().zip(base_rounds).map(|(value, base)| value / base).collect())
        };
        let rounds: Vec<Vec<f64>> = self.rounds.iter().filter_map(rounds_of_block).collect();
        // The rounds of only some blocks would be a biased selection.
        let has_all_rounds = rounds.len() == launches.len();
        Pairs { launches, rounds: if has_all_rounds { rounds } else { Vec::new() } }
    }

    /// Returns the ratio to another series for each block that both have. If the two took turns,
    /// the values of both in each round are included.
    pub(crate) fn ratios_by_block(&self, base: &Series) -> Vec<(f64, Vec<(f64, f64)>)> {
        let block_ratio = |(block, value): (u32, f64)| {
            let ratio = value / base.value_in_block(block)?;
            let rounds = self.rounds.get(&block).zip(base.rounds.get(&block));
            let rounds = rounds.filter(|(rounds, base_rounds)| rounds.len() == base_rounds.len());
            let round_pairs = rounds.map(|(rounds, base_rounds)| {
                rounds.iter().copied().zip(base_rounds.iter().copied()).collect()
            });
            self.are_pair(base, block).then(|| (ratio, round_pairs.unwrap_or_default()))
        };
        self.blocks().filter_map(block_ratio).collect()
    }

    /// Returns the values of the blocks that all series have. Blocks in which only some of the
    /// loads are pairs are omitted.
    pub(crate) fn common_points(series: &[&Series]) -> Vec<Vec<RepeatValue>> {
        let Some((first, others)) = series.split_first() else { return Vec::new() };
        let points_of_block = |(block, point): &(u32, RepeatValue)| {
            let is_paired = |other: &&Series| first.are_pair(other, *block);
            let point_of = |other: &&Series| {
                other
                    .by_block
                    .iter()
                    .find(|(other_block, _)| other_block == block)
                    .map(|(_, point)| *point)
            };
            let others = others.iter().map(|other| point_of(other).filter(|_| is_paired(other)));
            std::iter::once(Some(*point)).chain(others).collect()
        };
        first.by_block.iter().filter_map(points_of_block).collect()
    }

    /// Returns the pairs of values of two series, as [`Series::common_points`].
    pub(crate) fn paired_with(
        &self,
        other: &Series,
    ) -> impl Iterator<Item = (RepeatValue, RepeatValue)> {
        Series::common_points(&[self, other]).into_iter().map(|both| (both[0], both[1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Looks, PairUnit};
    use RepeatValue::{Known, Missing, Unanswered};

    fn series(values: &[f64]) -> Series {
        (1..).zip(values.iter().map(|value| Known(*value))).collect()
    }

    fn series_from_points(points: &[(u32, RepeatValue)]) -> Series {
        points.iter().copied().collect()
    }

    /// Returns three launches of six rounds each.
    fn turns(began_ns: u64, values: [f64; 3]) -> Series {
        let rounds = |value: f64| (0..6).map(|k| value + f64::from(k) / 100.0).collect();
        let values_by_block = (1..).zip(values);
        let turn_values = values_by_block.clone().map(|(block, value)| {
            (
                block,
                TurnValues { began_ns: began_ns + u64::from(block), rounds: Some(rounds(value)) },
            )
        });
        let points: Series = values_by_block.map(|(block, value)| (block, Known(value))).collect();
        points.with_turns(turn_values.collect::<Vec<_>>())
    }

    /// The run was interrupted in the third block, after the trial of the first series.
    #[test]
    fn loads_before_and_after_an_interruption_are_no_pair() {
        let first = series(&[1.0, 1.0, 1.0, 1.0]).with_parts([(3, 0), (4, 1)]);
        let second = series(&[2.0, 2.0, 9.0, 2.0]).with_parts([(3, 1), (4, 1)]);
        assert_eq!(second.ratios_to(&first).values, [2.0; 3]);
        assert_eq!(second.clone().without_turns().pairs_with(&first).launches, [2.0; 3]);
        assert_eq!(Series::common_points(&[&first, &second]).len(), 3);
        assert_eq!(second.ratios_by_block(&first).len(), 3);
    }

    #[test]
    fn rounds_are_used_with_too_few_launches() {
        let (base, higher) = (turns(7, [100.0, 101.0, 99.0]), turns(7, [102.0, 103.0, 101.0]));
        let pairs = higher.pairs_with(&base);
        assert_eq!((pairs.launches.len(), pairs.rounds.len()), (3, 3));
        let (estimate, unit) = pairs.estimate(Looks::AtTheEnd).unwrap();
        assert_eq!(unit, PairUnit::Rounds);
        assert!(estimate.low < estimate.ratio && estimate.ratio < estimate.high, "{estimate:?}");
        assert!((1.019..1.0201).contains(&estimate.ratio), "{estimate:?}");
        assert!(
            pairs.are_apart_as_single_test() && base.pairs_with(&higher).are_apart_as_single_test()
        );
        // If starts differ as much as servers do, many rounds do not show a difference.
        assert!(!turns(7, [104.0, 105.0, 99.1]).pairs_with(&base).are_apart_as_single_test());
        // Loads that began at different times did not take turns with each other.
        let apart = turns(9, [102.0, 103.0, 101.0]).pairs_with(&base);
        assert_eq!(
            (apart.launches.len(), apart.rounds.len(), apart.estimate(Looks::AtTheEnd)),
            (0, 0, None)
        );
    }

    #[test]
    fn ratios_use_common_blocks() {
        let values = series_from_points(&[(1, Known(2.0)), (2, Known(9.0)), (3, Known(6.0))]);
        let base = series_from_points(&[(3, Known(2.0)), (1, Known(1.0)), (7, Unanswered)]);
        assert_eq!(values.ratios_to(&base).values, [2.0, 3.0]);
        assert_eq!(values.ratios_to(&Series::default()).values, [0.0; 0]);
    }

    #[test]
    fn pair_without_ratio_yields_no_ratios() {
        let values = series(&[2.0, 4.0]);
        for spoilt in [Unanswered, Missing, Known(0.0)] {
            let base = series_from_points(&[(1, Known(1.0)), (2, spoilt)]);
            assert_eq!(values.ratios_to(&base).values, [0.0; 0], "{spoilt:?}");
        }
        assert_eq!(series_from_points(&[(1, Missing)]).ratios_to(&values).values, [0.0; 0]);
    }

    #[test]
    fn unanswered_repeats_rank_above_known_values() {
        let with_unanswered =
            series_from_points(&[(1, Known(3.0)), (2, Unanswered), (3, Known(1.0)), (4, Missing)]);
        assert_eq!((with_unanswered.known_count(), with_unanswered.unanswered_count()), (2, 1));
        assert_eq!(
            (with_unanswered.repeated().median, with_unanswered.repeated().values),
            (Some(3.0), vec![3.0, 1.0])
        );
    }
}
