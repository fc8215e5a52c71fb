//! Decides from all requests of a search's loads at one rate whether they meet the objective.
//!
//! If a server stalls less often than once per load, most loads meet a percentile that all requests
//! together miss. A majority vote of the loads would hide the stalls.

use dyno_model::plan::Objective;
use dyno_model::{LoadRecord, Times};

use super::objective::{ObjectiveVerdict, evaluate, has_ended};
use crate::LoadResult;
use crate::caveat::{Caveat, Code, CodeProperty};
use crate::load::{GeneratorUse, Percentiles, UnansweredRequests, responses};
use crate::verdict::{MAX_LOST, with_caveats};

/// Loads at one rate.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool(Vec<PooledLoad>);

/// A load of the pool, with its response times and the requests without a correct response.
#[derive(Clone, Debug)]
struct PooledLoad {
    result: LoadResult,
    times: Times,
    missing: UnansweredRequests,
    /// Whether the generator could not offer the rate.
    is_limited_by_generator: bool,
}

impl Pool {
    /// Adds a load to the pool.
    pub(super) fn add(&mut self, objective: &Objective, record: &LoadRecord, result: LoadResult) {
        let (times, missing) = responses(record);
        let is_limited_by_generator =
            matches!(evaluate(objective, &result), ObjectiveVerdict::GeneratorMissed(_));
        self.0.push(PooledLoad { result, times, missing, is_limited_by_generator });
    }

    /// Returns the result of all requests, and whether they meet the objective; `None`: no loads.
    pub(super) fn verdict(&self, objective: &Objective) -> Option<(LoadResult, ObjectiveVerdict)> {
        let result = combine(&self.counted_loads())?;
        let verdict = evaluate(objective, &result);
        Some((result, verdict))
    }

    /// Returns the loads that decide: those in which the generator was not the limit. If the loads
    /// that the generator limited make up most of the time, these loads are returned instead. A
    /// load in which the server ended always decides, although it was short.
    fn counted_loads(&self) -> Vec<&PooledLoad> {
        let seconds =
            |loads: &[&PooledLoad]| loads.iter().map(|load| load.result.duration_s).sum::<f64>();
        let loads: Vec<&PooledLoad> = self.0.iter().collect();
        let (limited, others): (Vec<&PooledLoad>, Vec<&PooledLoad>) =
            loads.iter().copied().partition(|load| load.is_limited_by_generator);
        let has_ended = others.iter().any(|load| has_ended(&load.result));
        match !has_ended && seconds(&limited) > seconds(&others) {
            true => limited,
            false => others,
        }
    }
}

/// Combines loads into one result. Only the values that [`evaluate`] reads cover all loads.
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
    let longest_us = |pick: fn(&GeneratorUse) -> Option<f64>| -> Option<f64> {
        loads.iter().filter_map(|load| pick(&load.result.client)).max_by(f64::total_cmp)
    };
    result.client.wake_lag_us.max = longest_us(|client| client.wake_lag_us.max);
    result.client.loop_lag_us.max = longest_us(|client| client.loop_lag_us.max);
    // One load with unknown waits makes the largest wait unknown.
    let waits: Option<Vec<f64>> =
        loads.iter().map(|load| load.result.client.headroom.waiting).collect();
    result.client.headroom.waiting =
        waits.and_then(|waits| waits.into_iter().max_by(f64::total_cmp));
    result.exchanges = loads.iter().map(|load| load.result.exchanges).reduce(|a, b| a.plus(&b))?;
    result.outcomes = Default::default();
    loads.iter().for_each(|load| result.outcomes.add(&load.result.outcomes));
    let caveats = caveats(loads, result.error_share(), seconds);
    Some(with_caveats(result, |_| caveats))
}

/// Returns a load that represents all loads: a load whose responses kept up with the rate if such
/// loads make up half of the time or more, otherwise a load whose responses did not keep up.
fn representative_load<'a>(loads: &[&'a PooledLoad]) -> &'a PooledLoad {
    let keeps_up = |load: &&&PooledLoad| load.result.keeps_up() != Some(false);
    let seconds = |keeping: bool| -> f64 {
        loads
            .iter()
            .filter(|load| keeps_up(load) == keeping)
            .map(|load| load.result.duration_s)
            .sum()
    };
    let most_keep_up = seconds(true) >= seconds(false);
    loads
        .iter()
        .find(|load| keeps_up(load) == most_keep_up)
        .expect("the larger part of the time should have a load")
}

/// Returns the caveats of loads that made up most of the time. Caveats about responses are retained
/// even if only one load has them.
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
            Code::ERRORS => error_share >= MAX_LOST,
            Code::FELL_BACK => true,
            Code::SUBJECT_FAILED => loads.iter().any(|load| has_ended(&load.result)),
            code => code.has(CodeProperty::FailsObjective) || 2.0 * duration_s > seconds,
        };
        if is_retained && !retained.iter().any(|known| known.code == caveat.code) {
            retained.push(with_losses_of_all(caveat, loads));
        }
    }
    retained
}

/// Returns a caveat that explains the missing responses which it explains in all loads together.
fn with_losses_of_all(caveat: &Caveat, loads: &[&PooledLoad]) -> Caveat {
    if caveat.explained_losses().is_none() {
        return caveat.clone();
    }
    let caveats = loads.iter().flat_map(|load| &load.result.caveats);
    let explained = caveats
        .filter(|other| (other.code, other.severity) == (caveat.code, caveat.severity))
        .map(Caveat::explained_losses);
    caveat.clone().with_explained_losses(explained.sum())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::capacity::parse_objective;
    use crate::caveat::Severity;
    use crate::fixture::{self, five_block_report};

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
            [Code::UNSOLICITED, Code::SUBJECT_FAILED, Code::FELL_BACK, Code::INCORRECT_RESPONSES]
        {
            assert!(retained(code), "{code}");
        }
        assert!(!retained(Code::CONTAMINATED), "it holds for a third of the time");
    }

    #[test]
    fn pool_explains_losses_of_all_loads() {
        let result = five_block_report().trials.remove(0).load;
        let load = |explained: Option<u64>| {
            let caveat =
                Caveat::new(Code::GENERATOR_STOPPED, Severity::Invalid, String::new(), json!({}));
            PooledLoad {
                result: with_caveats(result.clone(), |_| {
                    vec![caveat.with_explained_losses(explained)]
                }),
                times: Times::default(),
                missing: UnansweredRequests::NONE,
                is_limited_by_generator: true,
            }
        };
        let explained = |loads: [Option<u64>; 2]| {
            let loads = loads.map(load);
            let seconds = 2.0 * result.duration_s;
            caveats(&loads.each_ref(), 0.0, seconds)[0].explained_losses()
        };
        assert_eq!(explained([Some(5), Some(7)]), Some(12));
        assert_eq!(explained([Some(5), None]), None);
        assert_eq!(explained([None, Some(5)]), None);
    }

    /// A crash makes its load short.
    #[test]
    fn load_in_which_server_ended_decides() {
        let objective = parse_objective("errors<1%", &|_| Err(String::new())).unwrap();
        let (record, result) = (fixture::record(1000), five_block_report().trials.remove(0).load);
        let load = |codes: &[Code], seconds: f64| {
            let caveat =
                |code: &Code| Caveat::new(*code, Severity::Invalid, String::new(), json!({}));
            let caveats = codes.iter().map(caveat).collect();
            LoadResult { duration_s: seconds, ..with_caveats(result.clone(), |_| caveats) }
        };
        let verdict = |crash: &[Code]| {
            let mut pool = Pool::default();
            pool.add(&objective, &record, load(&[Code::GENERATOR_BUSY], 2.0));
            pool.add(&objective, &record, load(crash, 0.2));
            pool.verdict(&objective).unwrap().1
        };
        let is_missed = |verdict| matches!(verdict, ObjectiveVerdict::Missed(_));
        assert!(is_missed(verdict(&[Code::SUBJECT_FAILED])));
        assert!(is_missed(verdict(&[Code::SUBJECT_FAILED, Code::GENERATOR_BUSY])));
        assert!(!is_missed(verdict(&[Code::SUBJECT_FAILED, Code::BACKEND_FAILED])));
    }
}
