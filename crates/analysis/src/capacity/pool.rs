//! The loads of a search at one rate, judged by all their requests together.
//!
//! Loads that are shorter than the time between two stalls of a server mostly keep a percentile
//! that its requests do not. Votes of loads would find a percentile of seconds, so requests are put
//! together.

use dyno_archive::plan::Objective;
use dyno_archive::{LoadRecord, Times};

use super::objective::{FAILURES, ObjectiveVerdict, judge};
use crate::LoadResult;
use crate::caveat::{Caveat, Code};
use crate::load::{Percentiles, UnansweredRequests, responses};
use crate::verdict::{MAX_LOST, with_caveats};

/// Loads at one rate.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool(Vec<Pooled>);

#[derive(Clone, Debug)]
struct Pooled {
    result: LoadResult,
    times: Times,
    missing: UnansweredRequests,
    /// The generator could not offer the rate.
    is_generators: bool,
}

impl Pool {
    pub(super) fn add(&mut self, objective: &Objective, record: &LoadRecord, result: LoadResult) {
        let (times, missing) = responses(record);
        let is_generators =
            matches!(judge(objective, &result), ObjectiveVerdict::GeneratorMissed(_));
        self.0.push(Pooled { result, times, missing, is_generators });
    }

    /// Result of all requests, and whether they keep the objective; `None`: there are no loads.
    pub(super) fn verdict(&self, objective: &Objective) -> Option<(LoadResult, ObjectiveVerdict)> {
        let result = combine(&self.counted_loads())?;
        let judged = judge(objective, &result);
        Some((result, judged))
    }

    /// The loads that count: without those in which the generator was the limit, unless it was the
    /// limit for most of the time.
    fn counted_loads(&self) -> Vec<&Pooled> {
        let seconds = |all: &[&Pooled]| all.iter().map(|one| one.result.duration_s).sum::<f64>();
        let all: Vec<&Pooled> = self.0.iter().collect();
        let (limited, others): (Vec<&Pooled>, Vec<&Pooled>) =
            all.iter().copied().partition(|one| one.is_generators);
        match seconds(&limited) > seconds(&others) {
            true => limited,
            false => others,
        }
    }
}

/// Returns one result of all loads. Its judged values cover all of them.
fn combine(all: &[&Pooled]) -> Option<LoadResult> {
    let [first, rest @ ..] = all else { return None };
    if rest.is_empty() {
        return Some(first.result.clone());
    }
    let seconds: f64 = all.iter().map(|one| one.result.duration_s).sum();
    let mean = |of: fn(&LoadResult) -> f64| {
        all.iter().map(|one| of(&one.result) * one.result.duration_s).sum::<f64>() / seconds
    };
    let missing = all.iter().fold(UnansweredRequests::NONE, |sum, one| UnansweredRequests {
        count: sum.count + one.missing.count,
        longest_ns: sum.longest_ns.max(one.missing.longest_ns),
    });
    let times = Times::merge(all.iter().map(|one| &one.times));
    let mut result = pace_of(all).result.clone();
    result.duration_s = seconds;
    result.throughput_rps = mean(|load| load.throughput_rps);
    result.in_flight.mean = mean(|load| load.in_flight.mean);
    result.response_time_us = Percentiles::from_due(&times, missing);
    result.exchanges = all.iter().map(|one| one.result.exchanges).reduce(|a, b| a.plus(&b))?;
    result.outcomes = Default::default();
    all.iter().for_each(|one| result.outcomes.add(&one.result.outcomes));
    let caveats = caveats(all, result.error_share(), seconds);
    Some(with_caveats(result, |_| caveats))
}

/// A load that stands for whether responses kept up with the rate: one of those that did, if they
/// did for half of the time.
fn pace_of<'a>(all: &[&'a Pooled]) -> &'a Pooled {
    let keeps_up = |one: &&&Pooled| one.result.keeps_up() != Some(false);
    let seconds = |is: bool| -> f64 {
        all.iter().filter(|one| keeps_up(one) == is).map(|one| one.result.duration_s).sum()
    };
    let most = seconds(true) >= seconds(false);
    all.iter().find(|one| keeps_up(one) == most).expect("one of either kind")
}

/// The caveats of most of the time. An incorrect response is one in whichever load it came.
fn caveats(all: &[&Pooled], error_share: f64, seconds: f64) -> Vec<Caveat> {
    let mut kept: Vec<Caveat> = Vec::new();
    for caveat in all.iter().flat_map(|one| &one.result.caveats) {
        let has = |one: &&&Pooled| {
            one.result
                .caveats
                .iter()
                .any(|c| (c.code, c.severity) == (caveat.code, caveat.severity))
        };
        let its_s: f64 = all.iter().filter(has).map(|one| one.result.duration_s).sum();
        let is_kept = match caveat.code {
            Code::Errors => error_share >= MAX_LOST,
            code => FAILURES.contains(&code) || 2.0 * its_s > seconds,
        };
        if is_kept && !kept.iter().any(|known| known.code == caveat.code) {
            kept.push(caveat.clone());
        }
    }
    kept
}
