//! Parses objectives such as `p99<5ms,errors<0.1%`, and decides whether a load met an objective.
//!
//! An objective may be missed because of the generator, or because the load was too short. Such
//! loads are no evidence against the server.

use dyno_model::plan::{Arrival, Condition, Objective};

use super::MIN_RPS;
use crate::LoadResult;
use crate::caveat::{Caveat, Code, CodeProperty, Severity};
use crate::faults::excuses_losses;
use crate::load::percentile_value::PercentileValue;
use crate::load::{Percentiles, SAMPLES_ABOVE};
use crate::number_format::percent;
use crate::verdict::MAX_LOST;

/// Percentiles that a condition can name.
const QUANTILES: [(&str, f64); 8] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("max", 1.0),
];

/// Verdict of an objective on a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectiveVerdict {
    Kept,
    /// The missed condition, in words.
    Missed(String),
    /// Incorrect or missing responses caused the miss. Only loads at other rates show whether such
    /// responses depend on the rate.
    Failed(String),
    /// The failure that prevented a start, in words.
    NotStarted(String),
    /// The load was too short for a percentile of the objective, which is neither kept nor missed.
    TooShort(String),
    /// The generator could not offer the rate, so the miss is not attributed to the server.
    GeneratorMissed(String),
}

/// Parses an objective such as `p99<5ms,errors<0.1%`. `time`: parses a time to nanoseconds.
///
/// # Errors
///
/// The mistake, and the correct form.
pub fn parse_objective(
    text: &str,
    time: &dyn Fn(&str) -> Result<u64, String>,
) -> Result<Objective, String> {
    let conditions = text
        .split(',')
        .map(|condition| parse_condition(condition.trim(), time))
        .collect::<Result<_, _>>()?;
    Ok(Objective { text: text.trim().into(), conditions })
}

/// Returns the number of requests that a load needs for all percentiles of an objective.
#[must_use]
pub fn required_requests(objective: &Objective) -> f64 {
    let required = objective.conditions.iter().map(|condition| match condition {
        Condition::Quantile { q, .. } if *q < 1.0 => SAMPLES_ABOVE / (1.0 - q),
        _ => 0.0,
    });
    required.fold(0.0, f64::max)
}

/// Returns the lowest rate at which loads of this length have enough requests for all percentiles
/// of an objective, and at least one.
#[must_use]
pub fn least_rps(objective: &Objective, duration_ns: u64, arrival: Arrival) -> f64 {
    let needed = required_requests(objective).max(1.0);
    // The number of Poisson arrivals varies by its square root.
    let spread = match arrival {
        Arrival::Constant | Arrival::Trace => 0.0,
        Arrival::Poisson => 4.0 * needed.sqrt(),
    };
    (needed + spread).ceil() / (duration_ns as f64 / 1e9)
}

/// Returns the lowest rate at which loads have enough requests for the percentiles of an objective,
/// if this rate, and not [`MIN_RPS`], bounds a search. `least_rps`: of [`least_rps`]. `None`: the
/// objective has no percentile that needs requests, or loads at any rate have enough.
#[must_use]
pub fn percentile_bound(objective: &Objective, least_rps: f64) -> Option<f64> {
    (required_requests(objective) > 0.0 && least_rps > MIN_RPS).then_some(least_rps)
}

/// A missed or unknown condition, in words, by kind.
enum Miss {
    Time(String),
    Failures(String),
    TooShort(String),
}

/// Checks the conditions that every objective implies: the responses keep up with the offered rate,
/// and errors are few. The second condition applies only if the objective itself has no limit of
/// errors.
fn find_implied_miss(objective: &Objective, load: &LoadResult, error_share: f64) -> Option<Miss> {
    if load.keeps_up() == Some(false) {
        let offered = load.offered_rps().unwrap_or(0.0);
        return Some(Miss::Time(format!(
            "responses did not keep up: {:.0} correct responses/s for {offered:.0} requests/s",
            load.throughput_rps
        )));
    }
    let limits_errors =
        objective.conditions.iter().any(|condition| matches!(condition, Condition::Errors { .. }));
    (!limits_errors && error_share >= MAX_LOST).then(|| Miss::Failures(error_text(error_share)))
}

/// Returns the first missed condition. `Err`: no condition is missed, and a percentile is unknown.
/// `are_times_excused`: whether the generator's delay may explain long times. If so, failures are
/// tested first, because a late generator causes no failures.
fn first_miss(
    objective: &Objective,
    load: &LoadResult,
    are_times_excused: bool,
) -> Result<Option<Miss>, String> {
    let error_share = load.error_share();
    let condition_misses =
        objective.conditions.iter().filter_map(|condition| find_miss(condition, load, error_share));
    let mut misses: Vec<Miss> =
        condition_misses.chain(find_implied_miss(objective, load, error_share)).collect();
    if are_times_excused {
        // `false` sorts first, so failures come first.
        misses.sort_by_key(|miss| !matches!(miss, Miss::Failures(_)));
    }
    let mut too_short = None;
    for miss in misses {
        match miss {
            Miss::TooShort(reason) => too_short = too_short.or(Some(reason)),
            known => return Ok(Some(known)),
        }
    }
    too_short.map_or(Ok(None), Err)
}

/// Whether half or more of the possible requests were in flight on average, or responses fell
/// behind. A generator that waited briefly for a CPU does not explain either of them.
fn is_saturated(load: &LoadResult) -> bool {
    const FULL: f64 = 0.5;
    let is_full = load.in_flight.mean >= FULL * load.max_in_flight() as f64;
    is_full || load.keeps_up() == Some(false)
}

/// Whether the times would meet the objective if each were shorter by the generator's wake lag.
/// From a percentile, the same percentile of the lag is subtracted, but at least the p99 of the
/// lag.
fn is_met_without_lag(objective: &Objective, load: &LoadResult) -> bool {
    let (times, lag) = (&load.response_time_us, &load.client.wake_lag_us);
    let is_met = |condition: &Condition| match condition {
        Condition::Errors { .. } => true,
        Condition::Mean { below_us } => {
            times.mean.is_none_or(|us| us - lag.mean.unwrap_or(0.0) < *below_us)
        }
        Condition::Quantile { q, below_us, .. } => {
            let lag_us = known_us(lag, q.max(0.99)).or(lag.max).unwrap_or(0.0);
            known_us(times, *q).is_none_or(|us| us - lag_us < *below_us)
        }
    };
    objective.conditions.iter().all(is_met)
}

/// Returns a percentile, microseconds. `None`: too few requests, or the percentile lies among
/// requests without a correct response.
fn known_us(times: &Percentiles, q: f64) -> Option<f64> {
    match times.value(q) {
        PercentileValue::Known(us) => Some(us),
        PercentileValue::Unanswered(_) | PercentileValue::TooFew => None,
    }
}

/// Longest wait of a generator thread for a CPU that no recorded lag shows, microseconds. With
/// requests in flight a thread sleeps for at most 5 ms, and a late end of that sleep is recorded.
const UNRECORDED_WAIT_US: f64 = 5000.0;

/// Whether the generator's waits for a CPU can explain all missed times of an objective. The excess
/// of each missed time over its limit is compared with two bounds. Both bounds use the share of the
/// window for which a thread waited. Both are wide: if in doubt, the miss is not attributed to the
/// server.
///
/// - One request waits at most for the longest recorded lags, plus [`UNRECORDED_WAIT_US`], plus
///   this share of its own time. The excess must not be longer.
/// - All requests together wait at most for this share of their times. For a percentile, the
///   slowest requests (1 − q of all) exceed the limit, so (1 − q) × excess ÷ time must be at most
///   this share. For the mean, excess ÷ longest time must be at most this share.
///
/// Unknown lags and unknown waits set no bound.
fn can_starvation_explain(objective: &Objective, load: &LoadResult) -> bool {
    let (times, client) = (&load.response_time_us, &load.client);
    let Some(share) = client.headroom.waiting else { return true };
    let lags_us = [client.wake_lag_us.max, client.loop_lag_us.max];
    let longest_us = lags_us
        .iter()
        .any(Option::is_some)
        .then(|| lags_us.iter().flatten().sum::<f64>() + UNRECORDED_WAIT_US);
    let is_short = |excess_us: f64, us: f64| {
        longest_us.is_none_or(|longest_us| excess_us <= longest_us + share * us)
    };
    let is_explained = |condition: &Condition| match condition {
        Condition::Errors { .. } => true,
        Condition::Mean { below_us } => times.mean.zip(times.max).is_none_or(|(us, max_us)| {
            let excess_us = us - below_us;
            excess_us <= share * max_us && is_short(excess_us, max_us)
        }),
        Condition::Quantile { q, below_us, .. } => known_us(times, *q).is_none_or(|us| {
            let excess_us = us - below_us;
            (1.0 - q) * excess_us <= share * us && is_short(excess_us, us)
        }),
    };
    objective.conditions.iter().all(is_explained)
}

/// Whether requests failed for lack of a local port, and all other failed requests together are too
/// few to miss the objective.
fn is_met_with_ports(objective: &Objective, load: &LoadResult) -> bool {
    let limits = objective.conditions.iter().map(|condition| match condition {
        Condition::Errors { below } => *below,
        Condition::Mean { .. } => MAX_LOST,
        Condition::Quantile { q, .. } => 1.0 - q,
    });
    let (share, limit) = (load.error_share_with_ports(), limits.fold(MAX_LOST, f64::min));
    load.without_port() > 0 && (share == 0.0 || share < limit)
}

/// Whether the server ended during a load. The generator, the machine's packets and missing ports
/// end no server, but a failed back end or a lack of memory may.
pub(super) fn has_ended(load: &LoadResult) -> bool {
    let has = |code: Code| {
        let is_invalid = |c: &Caveat| (c.code, c.severity) == (code, Severity::Invalid);
        load.caveats.iter().any(is_invalid)
    };
    has(Code::SUBJECT_FAILED) && !has(Code::BACKEND_FAILED) && !has(Code::MACHINE_FAILED)
}

/// Decides whether a load met an objective. The first of these rules that applies decides. Rules 3
/// and 4 do not apply if the server ended.
///
/// 1. Without requests, the load is too short.
/// 2. With incorrect responses, the server failed.
/// 3. If only failures for lack of local ports missed the objective, the generator missed it.
/// 4. If a caveat attributes the losses or the times to the generator, the generator missed it.
/// 5. If a condition is missed, the server missed it.
/// 6. If the load is not valid, the server missed the objective. If it is not valid only because
///    the generator could not store bodies, the generator missed it.
/// 7. If a percentile is unknown, the load is too short.
#[must_use]
pub fn evaluate(objective: &Objective, load: &LoadResult) -> ObjectiveVerdict {
    if load.exchanges.due() == 0 {
        return ObjectiveVerdict::TooShort("the window had no request".into());
    }
    let is_late = |caveat: &Caveat| match caveat.code {
        Code::GENERATOR_STARVED => can_starvation_explain(objective, load),
        Code::GENERATOR_LATE => is_met_without_lag(objective, load),
        _ => false,
    };
    let are_times_excused = !is_saturated(load) && load.caveats.iter().any(is_late);
    let (missed, too_short) = match first_miss(objective, load, are_times_excused) {
        Ok(missed) => (missed, None),
        Err(reason) => (None, Some(reason)),
    };
    // The generator causes no incorrect response.
    let is_wrong = |caveat: &&Caveat| {
        caveat.severity == Severity::Invalid && caveat.code == Code::INCORRECT_RESPONSES
    };
    if let Some(wrong) = load.caveats.iter().find(is_wrong) {
        let text = match missed {
            Some(Miss::Failures(text)) => text,
            _ => wrong.message.clone(),
        };
        return ObjectiveVerdict::Failed(text);
    }
    if matches!(missed, Some(Miss::Failures(_)))
        && !has_ended(load)
        && is_met_with_ports(objective, load)
    {
        let message = "no local port was free for a new connection".into();
        return ObjectiveVerdict::GeneratorMissed(message);
    }
    let has_missed_time = matches!(missed, Some(Miss::Time(_)));
    let is_missed = missed.is_some();
    let is_disqualifying = |caveat: &&Caveat| {
        let is_excusing = match caveat.severity {
            // The server's failures are its own, and times may be late because of the generator.
            Severity::Invalid if caveat.code.is_generator_limit() && has_missed_time => true,
            Severity::Invalid => excuses_losses(caveat, load),
            // With a warning, the server was fully used as well, or the generator was not the
            // limit.
            Severity::Warning => false,
            // On a control, a limit of the generator is only an info, because a control shows the
            // generator's maximum.
            Severity::Info => is_missed && caveat.code.is_generator_limit(),
        };
        is_excusing || has_missed_time && are_times_excused && is_late(caveat)
    };
    if !has_ended(load)
        && let Some(caveat) = load.caveats.iter().find(is_disqualifying)
    {
        return ObjectiveVerdict::GeneratorMissed(caveat.message.clone());
    }
    match missed {
        Some(Miss::Failures(message)) => ObjectiveVerdict::Failed(message),
        Some(Miss::Time(message) | Miss::TooShort(message)) => ObjectiveVerdict::Missed(message),
        None => verdict_without_miss(load, too_short),
    }
}

/// Returns the verdict on a load that misses no condition. `too_short`: why a condition is
/// undecided.
fn verdict_without_miss(load: &LoadResult, too_short: Option<String>) -> ObjectiveVerdict {
    // A load that is not valid does not meet an objective.
    let is_invalid = |caveat: &&Caveat| caveat.severity == Severity::Invalid;
    // The server's failures come before limits of the generator.
    let fails =
        |caveat: &&Caveat| is_invalid(caveat) && caveat.code.has(CodeProperty::FailsObjective);
    let invalid = load.caveats.iter().find(fails).or_else(|| load.caveats.iter().find(is_invalid));
    match (invalid, too_short) {
        (Some(caveat), _) if caveat.code.has(CodeProperty::FailsObjective) => {
            ObjectiveVerdict::Failed(caveat.message.clone())
        }
        (Some(caveat), _) if caveat.code == Code::UNSTORED_BODIES => {
            ObjectiveVerdict::GeneratorMissed(caveat.message.clone())
        }
        (Some(caveat), _) => ObjectiveVerdict::Missed(caveat.message.clone()),
        (None, Some(reason)) => ObjectiveVerdict::TooShort(reason),
        (None, None) => ObjectiveVerdict::Kept,
    }
}

fn parse_condition(
    text: &str,
    time: &dyn Fn(&str) -> Result<u64, String>,
) -> Result<Condition, String> {
    let format_error = || {
        format!(
            "{text:?}: not a condition\nhint: write `p99<5ms`, `mean<1ms` or `errors<0.1%`, \
             separated by commas"
        )
    };
    let (name, bound) = text.split_once('<').ok_or_else(format_error)?;
    let (name, bound) = (name.trim(), bound.trim());
    if name == "errors" {
        let share = bound
            .strip_suffix('%')
            .and_then(|n| n.trim().parse::<f64>().ok())
            .ok_or_else(format_error)?;
        return match share / 100.0 {
            below if below > MAX_LOST => Err(format!(
                "{text:?}: the limit is too high. A load is never valid if more than {max} of the \
                 requests get no correct response\nhint: use at most {max}",
                max = percent(MAX_LOST)
            )),
            below if below > 0.0 => Ok(Condition::Errors { below }),
            _ => Err(format_error()),
        };
    }
    let us = |bound| match time(bound)? {
        0 => Err(format!(
            "{text:?}: no response time is below 0\nhint: use a longer time, such as `{name}<5ms`"
        )),
        ns => Ok(ns as f64 / 1e3),
    };
    if name == "mean" {
        return Ok(Condition::Mean { below_us: us(bound)? });
    }
    let (name, q) = QUANTILES.into_iter().find(|(known, _)| *known == name).ok_or_else(|| {
        let known: Vec<&str> = QUANTILES.iter().map(|(name, _)| *name).collect();
        format!(
            "{name:?}: not a metric that an objective can limit\nhint: use {}, mean or errors",
            known.join(", ")
        )
    })?;
    Ok(Condition::Quantile { name: name.into(), q, below_us: us(bound)? })
}

fn error_text(share: f64) -> String {
    format!("errors {:.3} %", share * 100.0)
}

/// Describes how a load misses a condition; `None`: the load keeps the condition.
fn find_miss(condition: &Condition, load: &LoadResult, error_share: f64) -> Option<Miss> {
    let times = &load.response_time_us;
    match condition {
        Condition::Errors { below } => {
            (error_share >= *below).then(|| Miss::Failures(error_text(error_share)))
        }
        Condition::Mean { below_us } => match (times.mean, times.least_mean()) {
            (None, _) => Some(Miss::Failures("no correct response".into())),
            (Some(mean), _) if mean >= *below_us => Some(Miss::Time(format!("mean {}", ms(mean)))),
            // Requests without a correct response only make the mean longer.
            (Some(_), Some(least)) if least >= *below_us => Some(Miss::Failures(format!(
                "mean {} or more if requests without a correct response are included",
                ms(least)
            ))),
            _ => None,
        },
        Condition::Quantile { name, q, below_us } => {
            find_quantile_miss(times, (name, *q), *below_us)
        }
    }
}

fn find_quantile_miss(times: &Percentiles, (name, q): (&str, f64), limit_us: f64) -> Option<Miss> {
    match times.value(q) {
        PercentileValue::Known(us) => {
            (us >= limit_us).then(|| Miss::Time(format!("{name} {}", ms(us))))
        }
        PercentileValue::Unanswered(_) => Some(Miss::Failures(format!(
            "{name} has no value, because too many requests got no correct response"
        ))),
        PercentileValue::TooFew => Some(match times.max {
            // One slow request does not decide an unknown percentile.
            Some(us) if us >= limit_us => {
                let slowest = ms(us);
                let text = format!("too few requests for {name}, but one of them took {slowest}");
                Miss::TooShort(text)
            }
            Some(_) => Miss::TooShort(format!(
                "too few requests for {name}: {} of the {:.0} that it needs",
                times.due(),
                SAMPLES_ABOVE / (1.0 - q)
            )),
            None => Miss::Failures("no correct response".into()),
        }),
    }
}

fn ms(us: f64) -> String {
    format!("{:.3} ms", us / 1e3)
}

#[cfg(test)]
mod tests;
