//! Judges the loads of a search at one rate by all their requests together.
//!
//! If a server stalls less often than once per load, most loads keep a percentile that the requests
//! as a whole miss. A majority of loads would hide the stalls.

use dyno_archive::plan::Objective;
use dyno_archive::{LoadRecord, Times};

use super::objective::{FAILURES, ObjectiveVerdict, judge};
use crate::LoadResult;
use crate::caveat::{Caveat, Code};
use crate::load::{Percentiles, UnansweredRequests, responses};
use crate::verdict::{MAX_LOST, with_caveats};

/// Loads at one rate.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool(Vec<PooledLoad>);

#[derive(Clone, Debug)]
struct PooledLoad {
    result: LoadResult,
    times: Times,
    missing: UnansweredRequests,
    /// Whether the generator could not offer the rate.
    is_limited_by_generator: bool,
}

impl Pool {
    pub(super) fn add(&mut self, objective: &Objective, record: &LoadRecord, result: LoadResult) {
        let (times, missing) = responses(record);
        let is_limited_by_generator =
            matches!(judge(objective, &result), ObjectiveVerdict::GeneratorMissed(_));
        self.0.push(PooledLoad { result, times, missing, is_limited_by_generator });
    }

    /// Returns the result of all requests, and whether they meet the objective; `None`: no loads.
    pub(super) fn verdict(&self, objective: &Objective) -> Option<(LoadResult, ObjectiveVerdict)> {
        let result = combine(&self.counted_loads())?;
        let verdict = judge(objective, &result);
        Some((result, verdict))
    }

    /// Returns the loads that count. Loads in which the generator was the limit are left out,
    /// unless it was the limit for most of the time.
    fn counted_loads(&self) -> Vec<&PooledLoad> {
        let seconds =
            |loads: &[&PooledLoad]| loads.iter().map(|load| load.result.duration_s).sum::<f64>();
        let loads: Vec<&PooledLoad> = self.0.iter().collect();
        let (limited, others): (Vec<&PooledLoad>, Vec<&PooledLoad>) =
            loads.iter().copied().partition(|load| load.is_limited_by_generator);
        match seconds(&limited) > seconds(&others) {
            true => limited,
            false => others,
        }
    }
}

/// Combines loads into one result. Only the values that [`judge`] reads cover all loads.
fn combine(loads: &[&PooledLoad]) -> Option<LoadResult> {
    let [first, others @ ..] = loads else { return None };
    if others.is_empty() {
        return Some(first.result.clone());
    }
    let seconds: f64 = loads.iter().map(|load| load.result.duration_s).sum();
    let mean = |pick: fn(&LoadResult) -> f64| {
        loads.iter().map(|load| pick(&load.result) * load.result.duration_s).sum::<f64>() / seconds
    };
    let missing = loads.iter().fold(UnansweredRequests::NONE, |sum, load| UnansweredRequests {
        count: sum.count + load.missing.count,
        longest_ns: sum.longest_ns.max(load.missing.longest_ns),
        sum_ns: sum.sum_ns + load.missing.sum_ns,
    });
    let times = Times::merge(loads.iter().map(|load| &load.times));
    let mut result = representative_load(loads).result.clone();
    result.duration_s = seconds;
    result.throughput_rps = mean(|load| load.throughput_rps);
    result.in_flight.mean = mean(|load| load.in_flight.mean);
    result.response_time_us = Percentiles::from_due(&times, missing);
    let lags = loads.iter().map(|load| &load.result.client.wake_lag_us);
    let p99 = |lag: &Percentiles| lag.p99.unwrap_or(0.0);
    result.client.wake_lag_us = lags.max_by(|a, b| p99(a).total_cmp(&p99(b)))?.clone();
    result.exchanges = loads.iter().map(|load| load.result.exchanges).reduce(|a, b| a.plus(&b))?;
    result.outcomes = Default::default();
    loads.iter().for_each(|load| result.outcomes.add(&load.result.outcomes));
    let caveats = caveats(loads, result.error_share(), seconds);
    Some(with_caveats(result, |_| caveats))
}

/// Returns a load that represents whether responses kept up with the rate: one that did, if loads
/// that did make up half of the time or more.
fn representative_load<'a>(loads: &[&'a PooledLoad]) -> &'a PooledLoad {
    let keeps_up = |load: &&&PooledLoad| load.result.keeps_up() != Some(false);
    let seconds = |keeping: bool| -> f64 {
        loads
            .iter()
            .filter(|load| keeps_up(load) == keeping)
            .map(|load| load.result.duration_s)
            .sum()
    };
    let keeping_wins = seconds(true) >= seconds(false);
    loads.iter().find(|load| keeps_up(load) == keeping_wins).expect("one of either kind")
}

/// Returns the caveats that hold for most of the time. Caveats about responses are retained even if
/// they hold for one load only.
fn caveats(loads: &[&PooledLoad], error_share: f64, seconds: f64) -> Vec<Caveat> {
    let mut retained: Vec<Caveat> = Vec::new();
    for caveat in loads.iter().flat_map(|load| &load.result.caveats) {
        let has_caveat = |load: &&&PooledLoad| {
            load.result
                .caveats
                .iter()
                .any(|c| (c.code, c.severity) == (caveat.code, caveat.severity))
        };
        let duration_s: f64 =
            loads.iter().filter(has_caveat).map(|load| load.result.duration_s).sum();
        let is_retained = match caveat.code {
            Code::Errors => error_share >= MAX_LOST,
            Code::FellBack => true,
            code => FAILURES.contains(&code) || 2.0 * duration_s > seconds,
        };
        if is_retained && !retained.iter().any(|known| known.code == caveat.code) {
            retained.push(caveat.clone());
        }
    }
    retained
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caveat::Severity;
    use crate::fixture::five_block_report;

    /// One of three loads has the caveat.
    #[test]
    fn caveats_about_responses_of_one_load_are_retained() {
        let result = five_block_report().trials.remove(0).load;
        let load = |code: Option<Code>| PooledLoad {
            result: with_caveats(result.clone(), |_| {
                let caveat = |code| Caveat::new(code, Severity::Invalid, String::new(), ().into());
                code.map(caveat).into_iter().collect()
            }),
            times: Times::default(),
            missing: UnansweredRequests::NONE,
            is_limited_by_generator: false,
        };
        let retained = |code: Code| {
            let loads = [load(Some(code)), load(None), load(None)];
            let seconds = 3.0 * result.duration_s;
            caveats(&loads.each_ref(), 0.0, seconds).iter().any(|caveat| caveat.code == code)
        };
        for code in
            [Code::Unsolicited, Code::AnsweredEarly, Code::FellBack, Code::IncorrectResponses]
        {
            assert!(retained(code), "{code}");
        }
        assert!(!retained(Code::Contaminated), "it holds for a third of the time");
    }
}
