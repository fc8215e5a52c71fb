//! The search for the highest rate that keeps an objective, where single loads may be wrong.
//!
//! It follows the Multiple Loss Ratio search of FD.io (draft-ietf-bmwg-mlrsearch): a rate is a lower or an upper bound by the majority
//! of its loads, bounds are first found coarsely by few loads and then made narrower by more, and a load that contradicts others leads
//! to more loads there instead of to a wrong end. A pure state machine: it says which rate is next, and is told what came of it.

use std::collections::BTreeMap;

use super::CapacityTrial;

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    start_rps: f64,
    width: Width,
    /// The lowest rate that is tried: below it loads are too short for the objective.
    least_rps: f64,
    /// Loads at each rate; rates in thousandths of a request per second, so that they are keys.
    votes: BTreeMap<u64, Votes>,
    loads: usize,
}

/// How close the bounds have to be: the upper is at most so much above the lower, as a share of it. Above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Width(pub f64);

/// Whether a load kept the objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    Kept,
    Missed,
    /// The load was too short for a percentile of the objective.
    TooShort,
}

impl Tried {
    #[must_use]
    pub fn of(trial: &CapacityTrial) -> Tried {
        match (trial.too_short, trial.kept) {
            (true, _) => Tried::TooShort,
            (false, true) => Tried::Kept,
            (false, false) => Tried::Missed,
        }
    }
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// A load at this rate, requests per second.
    Try(f64),
    Done(Found),
}

/// The bounds that were found, requests per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Found {
    /// The highest rate that kept the objective below all that missed it; `None`: none did.
    pub kept_rps: Option<f64>,
    /// The lowest rate that missed it; `None`: none did.
    pub missed_rps: Option<f64>,
    /// Whether they are as close as was asked, each by its majority.
    pub settled: bool,
}

impl Found {
    /// The rate halfway between the bounds on a logarithmic scale, or the only bound; `None`:
    /// neither is known.
    fn middle(self) -> Option<f64> {
        let both = self.kept_rps.zip(self.missed_rps).map(|(kept, missed)| (kept * missed).sqrt());
        both.or(self.kept_rps).or(self.missed_rps)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Votes {
    kept: u32,
    missed: u32,
}

/// A stage of the search: so many equal votes decide about a rate, and the bounds are made so many times as narrow as asked.
struct Stage {
    votes: u32,
    times_width: f64,
}

/// Three of five loads decide in the end.
const STAGES: [Stage; 3] = [
    Stage { votes: 1, times_width: 8.0 },
    Stage { votes: 2, times_width: 3.0 },
    Stage { votes: 3, times_width: 1.0 },
];

/// Most loads of a search: one that the noise keeps from an end stops with the bounds that it has.
const LOADS: usize = 80;

/// The lowest rate that is tried for any objective, and the highest; requests per second.
const LEAST_RPS: f64 = 1.0;

/// By how much the lowest rate is raised after a load that was too short.
const RAISED: f64 = 1.05;
const MOST_RPS: f64 = 1e8;

impl Search {
    /// Begins at a rate.
    ///
    /// # Panics
    /// If the rate or the width is not above 0.
    #[must_use]
    pub fn new(start_rps: f64, width: Width) -> Search {
        assert!(start_rps > 0.0 && width.0 > 0.0, "a search begins above 0, and ends with a width");
        Search {
            start_rps: rate(key(start_rps.clamp(LEAST_RPS, MOST_RPS))),
            width,
            least_rps: LEAST_RPS,
            votes: BTreeMap::new(),
            loads: 0,
        }
    }

    /// The same, but no rate below this is tried, requests per second.
    #[must_use]
    pub fn with_least(self, least_rps: f64) -> Search {
        Search { least_rps: rate(key(least_rps.clamp(LEAST_RPS, MOST_RPS))), ..self }
    }

    /// Takes what came of a load at a rate.
    pub fn tell(&mut self, rate_rps: f64, tried: Tried) {
        self.loads += 1;
        match tried {
            Tried::Kept => self.votes.entry(key(rate_rps)).or_default().kept += 1,
            Tried::Missed => self.votes.entry(key(rate_rps)).or_default().missed += 1,
            // By chance a load has fewer requests than its rate promises. A higher rate has enough.
            Tried::TooShort => {
                self.least_rps = rate(key((RAISED * rate_rps).clamp(self.least_rps, MOST_RPS)));
            }
        }
    }

    /// What is to be done next.
    #[must_use]
    pub fn next(&self) -> Next {
        let next = (0..STAGES.len()).find_map(|stage| self.rate_for(stage));
        match next {
            Some(rate) if self.loads < LOADS => Next::Try(rate),
            Some(_) => Next::Done(self.so_far()),
            None => {
                let last = self.bounds(STAGES[STAGES.len() - 1].votes);
                Next::Done(Found { settled: last.kept_rps.is_some() && last.missed_rps.is_some(), ..last })
            }
        }
    }

    /// The bounds as far as they are known: by the most votes that decide about both, else about one.
    #[must_use]
    pub fn so_far(&self) -> Found {
        let by_votes = || STAGES.iter().rev().map(|stage| self.bounds(stage.votes));
        let is_bracket = |found: &Found| found.kept_rps.is_some() && found.missed_rps.is_some();
        let is_known = |found: &Found| found.kept_rps.is_some() || found.missed_rps.is_some();
        by_votes().find(is_bracket).or_else(|| by_votes().find(is_known)).unwrap_or_default()
    }

    /// The lowest rate that missed by so many votes, and the highest below it that kept.
    fn bounds(&self, votes: u32) -> Found {
        let missed = self
            .votes
            .iter()
            .find(|(_, of)| of.missed >= votes && of.missed > of.kept)
            .map(|(rate, _)| *rate);
        let below = self.votes.range(..missed.unwrap_or(u64::MAX));
        let kept = below.rev().find(|(_, of)| of.kept >= votes && of.kept > of.missed).map(|(rate, _)| *rate);
        Found { kept_rps: kept.map(rate), missed_rps: missed.map(rate), settled: false }
    }

    /// The rate that brings the bounds closer; `None`: they are close enough for the stage, or there is nowhere to go.
    fn rate_for(&self, index: usize) -> Option<f64> {
        let stage = &STAGES[index];
        let Found { kept_rps, missed_rps, .. } = self.bounds(stage.votes);
        let expected_rps = index.checked_sub(1).and_then(|before| self.bounds(STAGES[before].votes).middle());
        // A rate that was loaded, and about which these votes do not decide yet.
        let is_open = |of: &Votes| of.kept.max(of.missed) < stage.votes || of.kept == of.missed;
        let open_between = |from: f64, to: f64| {
            let between = self.votes.range(key(from) + 1..key(to));
            let open = between.filter(|(_, of)| is_open(of)).map(|(at, _)| rate(*at));
            // More votes are first asked for where fewer votes found the end, not at the rates on
            // the way there.
            let is_inside = |rate: &f64| (from..=to).contains(rate);
            let middle = expected_rps.filter(is_inside).unwrap_or((from.max(LEAST_RPS) * to).sqrt()).ln();
            open.min_by(|a, b| (a.ln() - middle).abs().total_cmp(&(b.ln() - middle).abs()))
        };
        match (kept_rps, missed_rps) {
            (None, None) => {
                Some(open_between(0.0, 2.0 * MOST_RPS).unwrap_or(self.start_rps.max(self.least_rps)))
            }
            (Some(low), None) => open_between(low, 2.0 * MOST_RPS)
                .or_else(|| (low < MOST_RPS).then(|| rate(key((2.0 * low).min(MOST_RPS))))),
            (None, Some(high)) => open_between(0.0, high)
                .or_else(|| (high > self.least_rps).then(|| rate(key((high / 2.0).max(self.least_rps))))),
            (Some(low), Some(high)) => {
                let is_close = high / low <= 1.0 + self.width.0 * stage.times_width;
                (!is_close).then(|| open_between(low, high).unwrap_or_else(|| rate(key((low * high).sqrt()))))
            }
        }
    }
}

fn key(rate_rps: f64) -> u64 {
    (rate_rps * 1e3).round() as u64
}

fn rate(key: u64) -> f64 {
    key as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::draws::Normal;

    fn found(start: f64, width: f64, mut kept: impl FnMut(f64) -> bool) -> (Found, usize) {
        let mut search = Search::new(start, Width(width));
        loop {
            match search.next() {
                Next::Try(rate) => {
                    assert_eq!(self::rate(key(rate)), rate, "results name the rate that was tried");
                    search.tell(rate, if kept(rate) { Tried::Kept } else { Tried::Missed });
                }
                Next::Done(found) => return (found, search.loads),
            }
        }
    }

    /// The most loads that a search with a width of 2 % takes to an edge that no load contradicts.
    ///
    /// One load at the start, and one for each doubling or halving until the edge is between two
    /// rates. Their ratio of 2 is then
    /// divided evenly three times, into 1.09 (at most 1.16 in the first stage): 3 loads. The second
    /// stage asks for a second vote at
    /// both bounds, and divides once, into 1.044 (at most 1.06): 2 + 2. The third asks for a third
    /// vote at both, and divides
    /// twice, into 1.011 (at most 1.02): 2 + 2 × 3.
    fn most_loads(edge: f64, start: f64) -> usize {
        let doublings = (edge / start).log2().abs().floor() as usize + 1;
        1 + doublings + 3 + 4 + 8
    }

    fn assert_edge_is_found(edge: f64, start: f64) {
        let (found, loads) = found(start, 0.02, |rate| rate <= edge);
        let (low, high) = (found.kept_rps.unwrap(), found.missed_rps.unwrap());
        assert!(found.settled && low <= edge && edge <= high && high / low <= 1.0201, "{found:?}");
        let most = most_loads(edge, start);
        assert!(loads <= most, "edge {edge}, start {start}: {loads} loads, at most {most}");
    }

    proptest! {
        #[test]
        fn a_sharp_edge_is_found_wherever_the_search_begins(edge in 2.0f64..1e7, start in 1.0f64..1e7) {
            assert_edge_is_found(edge, start);
        }
    }

    /// The first once took 48 loads, 22 of them on its way down; the others are the ends of the
    /// range.
    #[test]
    fn edges_far_from_the_start_take_few_loads() {
        for (edge, start) in [(2.0, 2_730_039.0), (2.0, 1e7), (1e7, 1.0), (2.0, 1.0), (1e7, 1e7)] {
            assert_edge_is_found(edge, start);
        }
        assert_eq!(most_loads(2.0, 2_730_039.0), 37);
        let decades = |n: u32| 2.0 * 10f64.powf(f64::from(n) / 6.0);
        for (edge, start) in (0..40).flat_map(|edge| (0..40).map(move |start| (edge, start))) {
            assert_edge_is_found(decades(edge), decades(start));
        }
    }

    /// Near the edge a load keeps the objective by chance, and one in twenty is wrong wherever it is.
    #[test]
    fn loads_that_lie_do_not_mislead() {
        let mut normal = Normal(21);
        let mut near = 0;
        for _ in 0..200 {
            let (found, _) = found(1000.0, 0.02, |rate| {
                let lies = normal.uniform() < 0.05;
                (rate * (0.01 * normal.draw()).exp() <= 37_000.0) != lies
            });
            let (low, high) = (found.kept_rps.unwrap(), found.missed_rps.unwrap());
            near += usize::from(low > 0.95 * 37_000.0 && high < 1.05 * 37_000.0);
        }
        assert!(near >= 190, "{near} of 200");
    }

    #[test]
    fn a_search_that_is_cut_short_tells_both_bounds_that_it_knows() {
        let mut search = Search::new(1000.0, Width(0.02));
        let mut tries = 0;
        while let Next::Try(rate) = search.next() {
            search.tell(rate, if rate <= 37_000.0 { Tried::Kept } else { Tried::Missed });
            tries += 1;
            let found = search.so_far();
            let (kept, missed) = (found.kept_rps, found.missed_rps);
            assert!(
                kept.is_none_or(|kept| kept <= 37_000.0) && missed.is_none_or(|missed| missed > 37_000.0)
            );
            assert!(tries < 8 || kept.is_some() && missed.is_some(), "{tries}: {found:?}");
        }
    }

    #[test]
    fn what_is_always_kept_or_never_is_said_to_be() {
        let (all, _) = found(1000.0, 0.02, |_| true);
        assert_eq!((all.kept_rps, all.missed_rps, all.settled), (Some(MOST_RPS), None, false));
        let (none, loads) = found(1000.0, 0.02, |_| false);
        assert_eq!((none.kept_rps, none.missed_rps, none.settled), (None, Some(LEAST_RPS), false));
        assert!(loads < 40, "{loads}");
    }

    /// Response times of M/M/1 by Lindley's recursion (1952): Poisson arrivals, exponential service, one server, first come first
    /// served.
    fn p99_of(rate: f64, service: f64, seconds: f64, draw: &mut Normal) -> f64 {
        let mut exponential = |mean: f64| -mean * draw.uniform().max(1e-300).ln();
        let (mut clock, mut free, mut times) = (0.0f64, 0.0f64, Vec::new());
        while clock < seconds + 0.5 {
            clock += exponential(1.0 / rate);
            free = free.max(clock) + exponential(1.0 / service);
            if clock > 0.5 {
                times.push(free - clock);
            }
        }
        times.sort_by(f64::total_cmp);
        times[(times.len() as f64 * 0.99) as usize]
    }

    /// In M/M/1 the response time is exponential with mean 1 / (μ − λ), so p99 is below t up to λ = μ − ln(100) / t.
    #[test]
    fn the_capacity_of_a_queue_is_that_of_theory() {
        let (service, most) = (40_000.0, 0.001_25);
        let truth = service - 100f64.ln() / most;
        let mut draw = Normal(33);
        for _ in 0..12 {
            let (found, loads) = found(1000.0, 0.02, |rate| p99_of(rate, service, 2.0, &mut draw) < most);
            let (low, high) = (found.kept_rps.unwrap(), found.missed_rps.unwrap());
            let middle = (low * high).sqrt();
            assert!(
                (middle / truth - 1.0).abs() < 0.03,
                "{low} to {high}, and {truth} in truth, by {loads} loads"
            );
        }
    }
}
