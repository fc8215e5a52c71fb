//! Ranks series of values (such as peak throughputs) by tests of every pair of series.

use schemars::JsonSchema;
use serde::Serialize;

use crate::peak::PeakBound;
use crate::series::Series;
use crate::stats::{Looks, PAIRS_TO_TELL_APART, Pairs, holm};

/// Result of comparing each series of a metric with every other series. For `n` series there are
/// `n(n − 1) / 2` tests, so p-values are adjusted for the number of tests (Holm).
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    /// Whether the series of the first index is significantly above the series of the second index.
    above: Vec<Vec<bool>>,
    /// Whether a series has enough values for a significant difference.
    has_enough_values: Vec<bool>,
}

/// Places that a series may have by its tests. Place 1 is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Places")]
pub struct PlaceRange {
    pub best: usize,
    pub worst: usize,
}

impl Ranking {
    /// Ranks series of exact values.
    #[must_use]
    pub fn new(series: &[Series], looks: Looks) -> Ranking {
        let exact = vec![PeakBound::Exact; series.len()];
        Ranking::from_series(series, &exact, looks, &|a, b| series[a].pairs_with(&series[b]))
    }

    /// Ranks series whose values may be lower bounds. `pairs_of`: returns the pairs of two series.
    /// A series of lower bounds may rank significantly above another series, but never below. Two
    /// series of lower bounds are not comparable.
    #[must_use]
    pub fn from_series(
        series: &[Series],
        bounds: &[PeakBound],
        looks: Looks,
        pairs_of: &dyn Fn(usize, usize) -> Pairs,
    ) -> Ranking {
        let n = series.len();
        let is_open = |index: usize| bounds[index] == PeakBound::AtLeast;
        let all_pairs = (0..n).flat_map(|high| (high + 1..n).map(move |low| (high, low)));
        let index_pairs: Vec<(usize, usize)> =
            all_pairs.filter(|(a, b)| !(is_open(*a) && is_open(*b))).collect();
        let tested: Vec<Pairs> = index_pairs.iter().map(|(a, b)| pairs_of(*a, *b)).collect();
        let chances: Vec<(usize, f64)> = tested
            .iter()
            .enumerate()
            .filter_map(|(i, pairs)| Some((i, pairs.chance(looks)?)))
            .collect();
        let adjusted = holm(&chances.iter().map(|(_, p)| *p).collect::<Vec<f64>>());
        let mut chance: Vec<Option<f64>> = vec![None; index_pairs.len()];
        chances.iter().zip(adjusted).for_each(|((i, _), p)| chance[*i] = Some(p));
        let mut above = vec![vec![false; n]; n];
        for (((a, b), pairs), p) in index_pairs.into_iter().zip(&tested).zip(chance) {
            if pairs.are_apart(p) {
                let (high, low) = if pairs.mean_log() > 0.0 { (a, b) } else { (b, a) };
                above[high][low] = !is_open(low);
            }
        }
        Ranking {
            above,
            has_enough_values: series
                .iter()
                .map(|series| series.known_count() >= PAIRS_TO_TELL_APART)
                .collect(),
        }
    }

    /// Whether two series do not differ significantly.
    #[must_use]
    pub fn are_tied(&self, a: usize, b: usize) -> bool {
        !self.above[a][b] && !self.above[b][a]
    }

    /// Returns the number of the tie group of each series, counted from 1; `None`: the series has
    /// too few values for a significant difference.
    ///
    /// A series joins the first group whose best series is not significantly above it. Otherwise it
    /// starts a new group.
    #[must_use]
    pub fn groups(&self) -> Vec<Option<usize>> {
        let mut bests: Vec<usize> = Vec::new();
        let mut group_of = |index: usize| {
            if !self.has_enough_values[index] {
                return None;
            }
            let tied = bests.iter().position(|best| !self.above[*best][index]);
            let group = tied.unwrap_or(bests.len());
            if group == bests.len() {
                bests.push(index);
            }
            Some(group + 1)
        };
        (0..self.above.len()).map(&mut group_of).collect()
    }

    /// Returns the range of places of each series: below all that are significantly above it, and
    /// above all that are significantly below it. `None`: too few values.
    ///
    /// Tests are corrected for all pairs. With five or more launches, all ranges together therefore
    /// contain the true places in 95 % of runs (Al Mohamad, Goeman and van Zwet, "Simultaneous
    /// confidence intervals for ranks with application to ranking institutions", 2022).
    #[must_use]
    pub fn places(&self) -> Vec<Option<PlaceRange>> {
        let ranked =
            self.has_enough_values.iter().filter(|has_enough_values| **has_enough_values).count();
        let place_range = |index: usize| {
            let better = self.above.iter().filter(|other| other[index]).count();
            let worse = self.above[index].iter().filter(|below| **below).count();
            self.has_enough_values[index]
                .then_some(PlaceRange { best: better + 1, worst: ranked - worse })
        };
        (0..self.above.len()).map(place_range).collect()
    }
}

impl Pairs {
    /// Returns the mean of the logarithms of the ratios of launches.
    pub(crate) fn mean_log(&self) -> f64 {
        self.launches.iter().map(|ratio| ratio.ln()).sum::<f64>() / self.launches.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::RepeatValue::Known;
    use crate::stats::draws::Normal;

    fn series(values: &[f64]) -> Series {
        (1..).zip(values.iter().map(|value| Known(*value))).collect()
    }

    fn rank(series: &[Series]) -> (Vec<Option<usize>>, Vec<Option<(usize, usize)>>) {
        let ranking = Ranking::new(series, Looks::AtTheEnd);
        let places = ranking.places().into_iter().map(|p| p.map(|p| (p.best, p.worst)));
        (ranking.groups(), places.collect())
    }

    #[test]
    fn groups_contain_series_tied_with_best() {
        let ranked = [[100.0, 110.0, 120.0], [97.0, 104.0, 115.0], [93.0, 101.0, 109.0], [10.0; 3]];
        let ranked = ranked.map(|values| series(&values));
        // The third is tied with the second but not with the best, so it starts a new group.
        let (groups, places) = rank(&ranked);
        assert_eq!(groups, [Some(1), Some(1), Some(2), Some(3)]);
        assert_eq!(places, [Some((1, 2)), Some((1, 3)), Some((2, 3)), Some((4, 4))]);
        // With five pairs or more, a constant difference of 0.1 % is enough.
        let (groups, places) = rank(&[series(&[100.1; 5]), series(&[100.0; 5])]);
        assert_eq!((groups, places), (vec![Some(1), Some(2)], vec![Some((1, 1)), Some((2, 2))]));
        // Repeats of different blocks do not form pairs.
        let later: Series = [4, 5, 6].map(|block| (block, Known(1.0))).into_iter().collect();
        assert_eq!(rank(&[ranked[0].clone(), later]).0, [Some(1), Some(1)]);
        assert_eq!(
            rank(&[series(&[1.0, 2.0]), series(&[1.0; 3])]),
            (vec![None, Some(1)], vec![None, Some((1, 1))])
        );
        assert_eq!(rank(&[]), (vec![], vec![]));
    }

    #[test]
    fn ranking_requires_consistent_pairs() {
        let three = |value: f64| series(&[value; 3]);
        // A series of one or two repeats is in no group, wherever it ranks.
        assert_eq!(
            rank(&[three(200.0), three(100.0), series(&[90.0])]).0,
            [Some(1), Some(2), None]
        );
        let best = series(&[300.0, 300.0]);
        assert_eq!(rank(&[best.clone(), three(200.0), three(100.0)]).0, [None, Some(1), Some(2)]);
        assert_eq!(rank(&[best.clone(), best]).0, [None, None]);
        // The first series has the higher median because of blocks that the second lacks. In every
        // pair it is below.
        let first = series(&[100.0, 100.0, 100.0, 140.0, 140.0, 140.0, 140.0]);
        let (groups, places) = rank(&[first, three(110.0)]);
        assert_eq!((groups, places), (vec![Some(1), Some(1)], vec![Some((2, 2)), Some((1, 1))]));
    }

    /// With ten equal servers, any pair differs in at most about one of twenty simulations.
    #[test]
    fn equal_servers_rarely_differ() {
        let (mut alarms, mut normal) = (0, Normal(11));
        const SIMULATIONS: usize = 1000;
        for _ in 0..SIMULATIONS {
            let equals: Vec<Series> =
                (0..10).map(|_| series(&normal.values(6, 100.0, 0.05))).collect();
            let ranking = Ranking::new(&equals, Looks::AtTheEnd);
            alarms += usize::from(
                ranking.places().iter().flatten().any(|p| (p.best, p.worst) != (1, 10)),
            );
        }
        let share = alarms as f64 / SIMULATIONS as f64;
        assert!(share <= 0.055, "{share}");
    }

    /// Each of ten servers is 3 % faster than the next. The true places lie within the reported
    /// ranges for all servers at once.
    #[test]
    fn place_ranges_contain_true_places() {
        let (mut held, mut narrower, mut normal) = (0, 0, Normal(12));
        const SIMULATIONS: usize = 400;
        for _ in 0..SIMULATIONS {
            let mut servers: Vec<(usize, Vec<f64>)> = (0..10)
                .map(|k| (k + 1, normal.values(8, 100.0 * 0.97f64.powi(k as i32), 0.02)))
                .collect();
            servers.sort_by(|(_, a), (_, b)| {
                crate::stats::median(b).partial_cmp(&crate::stats::median(a)).unwrap()
            });
            let ranked_series: Vec<Series> =
                servers.iter().map(|(_, values)| series(values)).collect();
            let places: Vec<PlaceRange> = Ranking::new(&ranked_series, Looks::AtTheEnd)
                .places()
                .into_iter()
                .flatten()
                .collect();
            let holds = |((truth, _), p): (&(usize, Vec<f64>), &PlaceRange)| {
                (p.best..=p.worst).contains(truth)
            };
            held += usize::from(servers.iter().zip(&places).all(holds));
            narrower += usize::from(places.iter().all(|p| p.worst - p.best <= 6));
        }
        assert!(held >= 95 * SIMULATIONS / 100, "{held}");
        assert!(narrower >= 9 * SIMULATIONS / 10, "{narrower}: places say something");
    }
}
