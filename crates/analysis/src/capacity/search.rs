//! Searches for the highest rate that meets an objective. It is a state machine without input or
//! output: it returns the next rate and takes the outcome of each load.
//!
//! The search follows Multiple Loss Ratio search of FD.io (draft-ietf-bmwg-mlrsearch). Few loads
//! first find coarse bounds, and more loads then narrow them. A load that contradicts others leads
//! to more loads at its rate. There are two differences: all requests at a rate decide about it
//! together, instead of the majority of its loads, and one longer load confirms the result.

use std::collections::BTreeMap;

use super::CapacityTrial;

/// A search in progress.
#[derive(Clone, Debug)]
pub struct CapacitySearch {
    start_rps: f64,
    width: Width,
    /// The lowest rate that is tried. At lower rates loads have too few requests for the objective.
    least_rps: f64,
    /// Outcomes of the loads at each rate. Keys are rates in thousandths of a request per second,
    /// because a key must be an integer.
    rates: BTreeMap<u64, RateOutcomes>,
    loads: usize,
    confirmations: usize,
}

/// Required closeness of the bounds: the excess of the upper over the lower, as a share of the
/// lower. Above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Width(pub f64);

/// Whether a load met the objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialVerdict {
    Kept,
    Missed,
    /// The load was too short for a percentile of the objective.
    TooShort,
}

impl TrialVerdict {
    /// Returns the verdict that a trial contains.
    #[must_use]
    pub fn from_trial(trial: &CapacityTrial) -> TrialVerdict {
        match (trial.too_short, trial.kept) {
            (true, _) => TrialVerdict::TooShort,
            (false, true) => TrialVerdict::Kept,
            (false, false) => TrialVerdict::Missed,
        }
    }
}

/// The next step of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SearchStep {
    /// A load at this rate, requests per second.
    Try(f64),
    /// A longer load at this rate, to confirm it.
    Confirm(f64),
    Done(CapacityBounds),
}

/// Bounds of the capacity, requests per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CapacityBounds {
    /// The highest rate that met the objective below all that missed it; `None`: no rate met it.
    pub kept_rps: Option<f64>,
    /// The lowest rate that missed the objective; `None`: no rate missed it.
    pub missed_rps: Option<f64>,
    /// Whether the bounds are as close as requested, and no confirming load (a longer load at
    /// `kept_rps`) missed the objective.
    pub settled: bool,
    /// Whether a longer load has confirmed `kept_rps`.
    pub is_confirmed: bool,
    /// The highest rate that shorter loads met, if a longer load missed the objective there and no
    /// rate is kept. `None`: a rate is kept, or no longer load missed the objective.
    pub unconfirmed_rps: Option<f64>,
}

impl CapacityBounds {
    /// Returns the geometric mean of the bounds, or the only known bound; `None`: neither is known.
    fn middle(self) -> Option<f64> {
        let both = self.kept_rps.zip(self.missed_rps).map(|(kept, missed)| (kept * missed).sqrt());
        both.or(self.kept_rps).or(self.missed_rps)
    }
}

/// Outcomes of the loads at one rate.
#[derive(Clone, Copy, Debug, Default)]
struct RateOutcomes {
    loads: u32,
    /// Number of loads that meet the objective by themselves.
    kept_loads: u32,
    /// Whether all requests at this rate together meet the objective.
    is_kept: bool,
    /// Result of a longer load; `None`: no longer load ran.
    confirmed: Option<bool>,
}

impl RateOutcomes {
    /// Whether there are enough loads at this rate to decide about it: `loads` of them, or a longer
    /// load. If half or more of the loads meet the objective and all requests together miss it,
    /// more loads are needed: they distinguish a recurring stall from a single stall.
    fn is_decided(&self, loads: u32) -> bool {
        let is_contradictory =
            !self.is_kept && 2 * self.kept_loads >= self.loads && self.kept_loads > 0;
        let required_loads = if is_contradictory { CONTRADICTORY_LOADS } else { loads };
        self.confirmed.is_some() || self.loads >= required_loads
    }
}

/// A stage of the search.
struct Stage {
    /// Loads that are needed to decide about a rate.
    loads: u32,
    /// Closeness of the bounds that ends the stage, as a multiple of the requested width.
    times_width: f64,
}

/// The stages, from one load per rate and coarse bounds to three loads and the requested width.
const STAGES: [Stage; 3] = [
    Stage { loads: 1, times_width: 8.0 },
    Stage { loads: 2, times_width: 3.0 },
    Stage { loads: 3, times_width: 1.0 },
];

/// Loads that are needed at a rate where half or more of the loads meet the objective, and all
/// requests together miss it.
const CONTRADICTORY_LOADS: u32 = 10;

/// Maximum number of loads of a search. If noise keeps a search from ending, the search stops with
/// the current bounds.
const MAX_LOADS: usize = 80;

/// Maximum number of longer loads of a search.
const MAX_CONFIRMATIONS: usize = 8;

/// Factor by which the step down from a contradicted rate grows each time. The first step is one
/// width, because the bound is often near.
const STEP_GROWTH: i32 = 3;

/// Relative rounding error of ratios, because rates are rounded to thousandths.
const ROUNDING: f64 = 1e-4;

/// The lowest rate that is tried for any objective, requests per second.
pub const MIN_RPS: f64 = 1.0;

/// The highest rate that is tried, requests per second.
const MAX_RPS: f64 = 1e8;

/// Factor by which the lowest rate is raised after a load that was too short.
const LEAST_RATE_GROWTH: f64 = 1.05;

impl CapacitySearch {
    /// Creates a search that begins at a rate.
    ///
    /// # Panics
    /// If the rate or the width is not above 0.
    #[must_use]
    pub fn new(start_rps: f64, width: Width) -> CapacitySearch {
        assert!(start_rps > 0.0 && width.0 > 0.0, "rate and width should be above 0");
        CapacitySearch {
            start_rps: rounded(start_rps.clamp(MIN_RPS, MAX_RPS)),
            width,
            least_rps: MIN_RPS,
            rates: BTreeMap::new(),
            loads: 0,
            confirmations: 0,
        }
    }

    /// Sets the lowest rate that is tried, requests per second.
    #[must_use]
    pub fn with_least_rps(self, least_rps: f64) -> CapacitySearch {
        CapacitySearch { least_rps: rounded(least_rps.clamp(MIN_RPS, MAX_RPS)), ..self }
    }

    /// Records the outcome of a load, and the outcome of all requests at its rate (`combined`).
    pub fn record(&mut self, rate_rps: f64, verdict: TrialVerdict, combined: TrialVerdict) {
        self.loads += 1;
        match combined {
            TrialVerdict::Kept | TrialVerdict::Missed => {
                let observed = self.rates.entry(key(rate_rps)).or_default();
                observed.loads += 1;
                observed.kept_loads += u32::from(verdict == TrialVerdict::Kept);
                observed.is_kept = combined == TrialVerdict::Kept;
            }
            // By chance, the load had fewer requests than expected. Loads at a higher rate have
            // enough.
            TrialVerdict::TooShort => {
                self.least_rps =
                    rounded((LEAST_RATE_GROWTH * rate_rps).clamp(self.least_rps, MAX_RPS));
            }
        }
    }

    /// Records the outcome of all requests at a rate after a longer load.
    pub fn record_confirmation(&mut self, rate_rps: f64, combined: TrialVerdict) {
        self.confirmations += 1;
        let observed = self.rates.entry(key(rate_rps)).or_default();
        observed.is_kept = combined == TrialVerdict::Kept;
        observed.confirmed = Some(observed.is_kept);
    }

    /// Returns the next step.
    #[must_use]
    pub fn next(&self) -> SearchStep {
        if self.confirmations == 0 {
            let next = (0..STAGES.len()).find_map(|stage| self.next_rate(stage));
            if let Some(rate) = next.filter(|_| self.loads < MAX_LOADS) {
                return SearchStep::Try(rate);
            }
        }
        self.confirmation_rate()
            .map_or_else(|| SearchStep::Done(self.current_bounds()), SearchStep::Confirm)
    }

    /// Returns the best known bounds: from the latest stage that has both bounds, otherwise from
    /// the latest stage with one bound.
    #[must_use]
    pub fn current_bounds(&self) -> CapacityBounds {
        let final_bounds = self.bounds(STAGES[STAGES.len() - 1].loads);
        let latest_first = || STAGES.iter().rev().map(|stage| self.bounds(stage.loads));
        let has_both =
            |found: &CapacityBounds| found.kept_rps.is_some() && found.missed_rps.is_some();
        let has_any =
            |found: &CapacityBounds| found.kept_rps.is_some() || found.missed_rps.is_some();
        if self.confirmations > 0 || has_both(&final_bounds) {
            return final_bounds;
        }
        let best = latest_first().find(has_both).or_else(|| latest_first().find(has_any));
        CapacityBounds { settled: false, ..best.unwrap_or_default() }
    }

    /// Returns the lowest rate that missed the objective, and the highest rate below it that met
    /// the objective. `loads`: number of loads that decide about a rate.
    fn bounds(&self, loads: u32) -> CapacityBounds {
        let missed = self
            .rates
            .iter()
            .find(|(_, outcomes)| outcomes.is_decided(loads) && !outcomes.is_kept)
            .map(|(rate, _)| *rate);
        // A rate that a longer load confirmed has precedence over rates that only shorter loads
        // met.
        let below = || self.rates.range(..missed.unwrap_or(u64::MAX)).rev();
        let longer = below().find(|(_, outcomes)| outcomes.confirmed == Some(true));
        let highest_kept = longer.or_else(|| {
            below().find(|(_, outcomes)| outcomes.is_decided(loads) && outcomes.is_kept)
        });
        let is_confirmed =
            highest_kept.is_some_and(|(_, outcomes)| outcomes.confirmed == Some(true));
        // The first longer load is at the highest rate that shorter loads met, and all others are
        // at lower rates.
        let contradicted =
            self.rates.iter().rev().find(|(_, outcomes)| outcomes.confirmed == Some(false));
        let is_contradicted = contradicted.is_some() && !is_confirmed;
        let (kept_rps, missed_rps) = (highest_kept.map(|(kept, _)| rate(*kept)), missed.map(rate));
        let is_close =
            kept_rps.zip(missed_rps).is_some_and(|(kept, missed)| self.are_close(kept, missed));
        let settled = is_close && !is_contradicted;
        let unconfirmed_rps =
            contradicted.filter(|_| kept_rps.is_none()).map(|(highest, _)| rate(*highest));
        CapacityBounds { kept_rps, missed_rps, settled, is_confirmed, unconfirmed_rps }
    }

    /// Whether two bounds are as close as requested.
    fn are_close(&self, kept_rps: f64, missed_rps: f64) -> bool {
        missed_rps / kept_rps <= (1.0 + self.width.0) * (1.0 + ROUNDING)
    }

    /// Returns the rate of the next longer load; `None`: no rate needs confirmation, or the limit
    /// of longer loads is reached.
    fn confirmation_rate(&self) -> Option<f64> {
        if self.confirmations >= MAX_CONFIRMATIONS {
            return None;
        }
        let longer = |is_kept: bool| {
            let rates =
                self.rates.iter().filter(move |(_, outcomes)| outcomes.confirmed == Some(is_kept));
            rates.map(|(at, _)| rate(*at))
        };
        let (confirmed, contradicted) =
            (longer(true).reduce(f64::max), longer(false).reduce(f64::min));
        match (confirmed, contradicted) {
            // No longer load ran so far: the first one is at the highest rate that shorter loads
            // met.
            (None, None) => self.current_bounds().kept_rps,
            (Some(_), None) => None,
            // Longer loads divide the range until the bounds are close.
            (Some(low), Some(high)) if self.are_close(low, high) => None,
            (Some(low), Some(high)) => Some(rounded((low * high).sqrt())),
            // All longer loads missed the objective, so the rate is lowered: by 1, 3, 9 … widths,
            // each below the rate before.
            (None, Some(high)) => {
                let widths = STEP_GROWTH.pow(longer(false).count() as u32 - 1);
                let lower = high / (1.0 + self.width.0).powi(widths);
                (high > self.least_rps).then(|| rounded(lower.max(self.least_rps)))
            }
        }
    }

    /// Returns the next rate of a stage; `None`: the bounds are close enough for the stage, or the
    /// range of rates is exhausted.
    fn next_rate(&self, index: usize) -> Option<f64> {
        let stage = &STAGES[index];
        let CapacityBounds { kept_rps, missed_rps, .. } = self.bounds(stage.loads);
        let expected_rps =
            index.checked_sub(1).and_then(|before| self.bounds(STAGES[before].loads).middle());
        // Rates that were loaded, but need more loads in this stage.
        let needs_loads = |outcomes: &RateOutcomes| !outcomes.is_decided(stage.loads);
        let open_between = |from: f64, to: f64| {
            let between = self.rates.range(key(from) + 1..key(to));
            let open =
                between.filter(|(_, outcomes)| needs_loads(outcomes)).map(|(at, _)| rate(*at));
            // The rates next to the bounds of the previous stage come first.
            let is_inside = |rate: &f64| (from..=to).contains(rate);
            let middle =
                expected_rps.filter(is_inside).unwrap_or((from.max(MIN_RPS) * to).sqrt()).ln();
            open.min_by(|a, b| (a.ln() - middle).abs().total_cmp(&(b.ln() - middle).abs()))
        };
        match (kept_rps, missed_rps) {
            // No rate is decided: the start rate.
            (None, None) => {
                Some(open_between(0.0, 2.0 * MAX_RPS).unwrap_or(self.start_rps.max(self.least_rps)))
            }
            // Every decided rate met the objective: twice the highest.
            (Some(low), None) => open_between(low, 2.0 * MAX_RPS)
                .or_else(|| (low < MAX_RPS).then(|| rounded((2.0 * low).min(MAX_RPS)))),
            // Every decided rate missed the objective: half of the lowest.
            (None, Some(high)) => open_between(0.0, high).or_else(|| {
                (high > self.least_rps).then(|| rounded((high / 2.0).max(self.least_rps)))
            }),
            // Both bounds are known: their geometric mean, until they are close enough.
            (Some(low), Some(high)) => {
                let is_close = high / low <= 1.0 + self.width.0 * stage.times_width;
                (!is_close).then(|| {
                    open_between(low, high).unwrap_or_else(|| rounded((low * high).sqrt()))
                })
            }
        }
    }
}

/// Converts a rate to a key: thousandths of a request per second.
fn key(rate_rps: f64) -> u64 {
    (rate_rps * 1e3).round() as u64
}

/// Rounds a rate to thousandths of a request per second, as keys do.
fn rounded(rate_rps: f64) -> f64 {
    rate(key(rate_rps))
}

/// Converts a key back to a rate.
fn rate(key: u64) -> f64 {
    key as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::draws::Normal;

    /// A simulated load.
    struct Load {
        /// Share of slow requests: 0 to 1.
        slow: f64,
    }

    const KEPT: Load = Load { slow: 0.0 };
    const MISSED: Load = Load { slow: 0.5 };

    /// The objective is missed if at least this share of the requests is slow.
    const SLOW: f64 = 0.01;

    fn verdict_of_share(slow: f64) -> TrialVerdict {
        if slow < SLOW { TrialVerdict::Kept } else { TrialVerdict::Missed }
    }

    /// Runs a search. `load`: simulates a load of a rate and a length in seconds. Returns the
    /// bounds, and the numbers of ordinary and of longer loads.
    fn search(
        search: CapacitySearch,
        mut load: impl FnMut(f64, f64) -> Load,
    ) -> (CapacityBounds, usize, usize) {
        let mut search = search;
        let mut all: BTreeMap<u64, Vec<(f64, f64)>> = BTreeMap::new();
        loop {
            let (rate, seconds) = match search.next() {
                SearchStep::Try(rate) => (rate, 2.0),
                SearchStep::Confirm(rate) => (rate, 20.0),
                SearchStep::Done(found) => return (found, search.loads, search.confirmations),
            };
            assert_eq!(self::rate(key(rate)), rate, "results name the rate that was tried");
            let Load { slow } = load(rate, seconds);
            let loads = all.entry(key(rate)).or_default();
            loads.push((seconds, slow));
            let length: f64 = loads.iter().map(|(seconds, _)| seconds).sum();
            let slow_share =
                loads.iter().map(|(seconds, slow)| seconds * slow).sum::<f64>() / length;
            match search.next() {
                SearchStep::Confirm(_) => {
                    search.record_confirmation(rate, verdict_of_share(slow_share));
                }
                _ => search.record(rate, verdict_of_share(slow), verdict_of_share(slow_share)),
            }
        }
    }

    fn search_bounds(
        start: f64,
        width: f64,
        mut is_kept: impl FnMut(f64) -> bool,
    ) -> (CapacityBounds, usize) {
        let load = |rate, _| if is_kept(rate) { KEPT } else { MISSED };
        let (found, loads, confirmations) = search(CapacitySearch::new(start, Width(width)), load);
        assert!(confirmations <= MAX_CONFIRMATIONS);
        (found, loads)
    }

    /// Returns the most loads that a search with a width of 2 % needs to find a sharp edge.
    ///
    /// - One load at the start, and one for each doubling or halving until two rates enclose the
    ///   edge. Their ratio is 2.
    /// - The first stage divides it three times, to 1.09 (limit 1.16): 3 loads.
    /// - The second stage needs a second load at both bounds, and divides once, to 1.044 (limit
    ///   1.06): 2 + 2 loads.
    /// - The third needs a third load at both bounds, and divides twice, to 1.011 (limit 1.02):
    ///   2 + 2 × 3 loads.
    fn max_loads(edge: f64, start: f64) -> usize {
        let doublings = (edge / start).log2().abs().floor() as usize + 1;
        1 + doublings + 3 + 4 + 8
    }

    fn assert_edge_is_found(edge: f64, start: f64) {
        let (found, loads) = search_bounds(start, 0.02, |rate| rate <= edge);
        let (low, high) = (found.kept_rps.unwrap(), found.missed_rps.unwrap());
        assert!(found.settled && low <= edge && edge <= high && high / low <= 1.0201, "{found:?}");
        let limit = max_loads(edge, start);
        assert!(loads <= limit, "edge {edge}, start {start}: {loads} loads, at most {limit}");
    }

    proptest! {
        #[test]
        fn search_finds_sharp_edge_from_any_start(
            edge in 2.0f64..1e7,
            start in 1.0f64..1e7,
        ) {
            assert_edge_is_found(edge, start);
        }
    }

    /// The first pair once took 48 loads. The others are the ends of the range of rates.
    #[test]
    fn edge_far_from_start_takes_few_loads() {
        for (edge, start) in [(2.0, 2_730_039.0), (2.0, 1e7), (1e7, 1.0), (2.0, 1.0), (1e7, 1e7)] {
            assert_edge_is_found(edge, start);
        }
        assert_eq!(max_loads(2.0, 2_730_039.0), 37);
        let decades = |n: u32| 2.0 * 10f64.powf(f64::from(n) / 6.0);
        for (edge, start) in (0..40).flat_map(|edge| (0..40).map(move |start| (edge, start))) {
            assert_edge_is_found(decades(edge), decades(start));
        }
    }

    /// Near the edge a load meets the objective by chance, and one load in twenty has a stall that
    /// the machine caused.
    #[test]
    fn search_tolerates_loads_that_are_wrong_by_chance() {
        let mut normal = Normal(21);
        let (mut near, mut total, mut longer) = (0, 0, 0);
        for _ in 0..200 {
            let load = |rate: f64, seconds: f64| {
                let edge = 37_000.0 * (0.01 * normal.draw() * (2.0 / seconds).sqrt()).exp();
                let stalls =
                    (0..(seconds / 2.0) as usize).filter(|_| normal.uniform() < 0.05).count();
                let stalled = stalls as f64 * 0.05 * 2.0 / seconds;
                // Above the edge the share of slow requests rises fast.
                Load { slow: (0.01 * (rate / edge).powi(40)).min(1.0) + stalled }
            };
            let (found, loads, confirmations) =
                search(CapacitySearch::new(1000.0, Width(0.02)), load);
            (total, longer) = (total + loads, longer + confirmations);
            let is_near = |rate: Option<f64>| {
                rate.is_some_and(|rate| (0.9..1.05).contains(&(rate / 37_000.0)))
            };
            near += usize::from(is_near(found.kept_rps) && is_near(found.missed_rps));
        }
        assert!(near >= 180, "{near} of 200");
        assert!(total < 200 * 40 && longer < 200 * 4, "{total} loads and {longer} longer ones");
    }

    /// A server that stops for 150 ms every 5 s: 3 % of its requests wait, in some loads.
    fn pauses(clock: &mut f64, rate: f64, seconds: f64, edge: f64) -> Load {
        let from = *clock + 0.5;
        *clock = from + seconds;
        let (to, mut waiting) = (*clock, 0.0);
        let mut pause = (from / 5.0).floor() * 5.0;
        while pause < to {
            waiting += ((pause + 0.15).min(to) - pause.max(from)).max(0.0);
            pause += 5.0;
        }
        Load { slow: waiting / seconds + if rate > edge { 0.5 } else { 0.0 } }
    }

    #[test]
    fn pauses_rarer_than_loads_keep_no_rate() {
        for phase in [0.0, 0.7, 1.4, 2.1, 2.8, 3.5, 4.2] {
            let mut clock = phase;
            let load = |rate: f64, seconds: f64| pauses(&mut clock, rate, seconds, 2500.0);
            let (found, _, longer) =
                search(CapacitySearch::new(1000.0, Width(0.1)).with_least_rps(100.0), load);
            assert_eq!(
                (found.kept_rps, found.is_confirmed),
                (None, false),
                "{phase}: {found:?}, {longer}"
            );
        }
    }

    /// Models a server that is fast only as long as its burst of CPU time lasts.
    #[test]
    fn rate_missed_by_longer_load_is_not_kept() {
        for lasting in [1000.0, 900.0, 700.0, 300.0] {
            let load = |rate: f64, seconds: f64| {
                if rate <= if seconds > 2.0 { lasting } else { 1000.0 } { KEPT } else { MISSED }
            };
            let (found, loads, longer) = search(CapacitySearch::new(400.0, Width(0.02)), load);
            let kept = found.kept_rps.unwrap();
            assert!(
                found.is_confirmed && kept <= lasting && kept >= 0.6 * lasting,
                "{lasting}: {found:?}"
            );
            assert_eq!(found.unconfirmed_rps, None, "{lasting}");
            assert!(
                loads <= max_loads(1000.0, 400.0) && longer <= MAX_CONFIRMATIONS,
                "{loads}, {longer}"
            );
        }
        // No longer load meets the objective at any rate.
        let load =
            |rate: f64, seconds: f64| if seconds > 2.0 || rate > 1000.0 { MISSED } else { KEPT };
        let (found, _, longer) = search(CapacitySearch::new(400.0, Width(0.02)), load);
        assert!(!found.is_confirmed && !found.settled && longer <= MAX_CONFIRMATIONS, "{found:?}");
        let is_highest_short = |rps: f64| (980.0..=1000.0).contains(&rps);
        assert_eq!((found.kept_rps, found.missed_rps), (None, Some(MIN_RPS)));
        assert!(found.unconfirmed_rps.is_some_and(is_highest_short), "{found:?}");
    }

    /// The numbers of docs/methodology/levels-and-capacity.md.
    #[test]
    fn longer_loads_are_lowered_by_growing_steps() {
        let mut longer = Vec::new();
        let load = |rate: f64, seconds: f64| {
            if seconds > 2.0 {
                longer.push(rate);
            }
            if seconds > 2.0 || rate > 1000.0 { MISSED } else { KEPT }
        };
        search(CapacitySearch::new(400.0, Width(0.02)), load);
        let widths = longer.iter().map(|rate| (longer[0] / rate).ln() / 1.02f64.ln());
        let widths: Vec<i64> = widths.map(|widths| widths.round() as i64).take(5).collect();
        assert_eq!(widths, [0, 1, 4, 13, 40]);
    }

    #[test]
    fn interrupted_search_returns_known_bounds() {
        let mut search = CapacitySearch::new(1000.0, Width(0.02));
        let mut tries = 0;
        while let SearchStep::Try(rate) = search.next() {
            let verdict = if rate <= 37_000.0 { TrialVerdict::Kept } else { TrialVerdict::Missed };
            search.record(rate, verdict, verdict);
            tries += 1;
            let found = search.current_bounds();
            let (kept, missed) = (found.kept_rps, found.missed_rps);
            assert!(
                kept.is_none_or(|kept| kept <= 37_000.0)
                    && missed.is_none_or(|missed| missed > 37_000.0)
            );
            assert!(tries < 8 || kept.is_some() && missed.is_some(), "{tries}: {found:?}");
        }
    }

    #[test]
    fn search_without_edge_has_one_bound() {
        let (all, _) = search_bounds(1000.0, 0.02, |_| true);
        assert_eq!((all.kept_rps, all.missed_rps, all.settled), (Some(MAX_RPS), None, false));
        let (none, loads) = search_bounds(1000.0, 0.02, |_| false);
        assert_eq!((none.kept_rps, none.missed_rps, none.settled), (None, Some(MIN_RPS), false));
        assert!(loads < 40, "{loads}");
    }

    /// Simulates an M/M/1 queue (Poisson arrivals, exponential service times, one server) by
    /// Lindley's recursion (1952). Requests that take longer than `limit` seconds are slow.
    fn queue(rate: f64, service: f64, (seconds, limit): (f64, f64), draw: &mut Normal) -> Load {
        let mut exponential = |mean: f64| -mean * draw.uniform().max(1e-300).ln();
        let (mut clock, mut free, mut all, mut slow) = (0.0f64, 0.0f64, 0.0, 0.0);
        while clock < seconds + 0.5 {
            clock += exponential(1.0 / rate);
            free = free.max(clock) + exponential(1.0 / service);
            if clock > 0.5 {
                all += 1.0;
                slow += f64::from(u8::from(free - clock >= limit));
            }
        }
        Load { slow: slow / all }
    }

    /// In M/M/1 the response time is exponential with mean 1 / (μ − λ), so p99 is below t up to λ =
    /// μ − ln(100) / t.
    #[test]
    fn search_finds_theoretical_capacity_of_queue() {
        let (service, limit) = (4000.0, 0.012_5);
        let truth = service - 100f64.ln() / limit;
        let mut draw = Normal(33);
        let (mut all, mut longer) = (0, 0);
        for _ in 0..12 {
            let load = |rate: f64, seconds: f64| queue(rate, service, (seconds, limit), &mut draw);
            let (found, loads, confirmations) =
                search(CapacitySearch::new(1000.0, Width(0.02)), load);
            (all, longer) = (all + loads, longer + confirmations);
            let kept = found.kept_rps.unwrap();
            assert!(
                found.is_confirmed && (kept / truth - 1.0).abs() < 0.05,
                "{found:?}, and {truth} in truth, by {loads} loads and {confirmations} longer ones"
            );
        }
        assert!(all <= 12 * 30 && longer <= 12 * 4, "{all} loads and {longer} longer ones");
    }
}
