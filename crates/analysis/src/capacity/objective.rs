//! Parses objectives such as `p99<5ms,errors<0.1%`, and decides whether a load kept one.
//!
//! A missed objective may be the fault of the generator, or of too short a load. Such loads must
//! not count against the server.

use dyno_archive::plan::{Arrival, Condition, Objective};

use crate::LoadResult;
use crate::caveat::{Caveat, Code, Severity};
use crate::load::percentile_value::PercentileValue;
use crate::load::{Percentiles, SAMPLES_ABOVE};
use crate::number_format::percent;
use crate::trial::excuses_losses;
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
    /// Incorrect or missing responses caused the miss. Only loads at other rates show whether it
    /// depends on the rate.
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
    let conditions =
        text.split(',').map(|one| parse_condition(one.trim(), time)).collect::<Result<_, _>>()?;
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

/// A missed or unknown condition, in words, by kind.
enum Miss {
    Time(String),
    Failures(String),
    TooShort(String),
}

/// Checks the conditions that hold for every objective: the responses keep up with the offered
/// rate, and errors are few unless the objective limits them.
fn find_implied_miss(objective: &Objective, load: &LoadResult, error_share: f64) -> Option<Miss> {
    if load.keeps_up() == Some(false) {
        let offered = load.offered_rps().unwrap_or(0.0);
        return Some(Miss::Time(format!(
            "it fell behind: {:.0} correct responses/s for {offered:.0} requests/s",
            load.throughput_rps
        )));
    }
    let says_errors =
        objective.conditions.iter().any(|condition| matches!(condition, Condition::Errors { .. }));
    (!says_errors && error_share >= MAX_LOST).then(|| Miss::Failures(error_text(error_share)))
}

/// Returns the first missed condition; `Err`: no condition is missed, and a percentile is unknown.
/// `are_times_excused`: whether the generator's delay may explain missed times. It loses no
/// response, so failures then decide before times.
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
/// behind.
/// A generator that waited briefly for a CPU does not explain this.
fn is_saturated(load: &LoadResult) -> bool {
    const FULL: f64 = 0.5;
    let is_full = load.in_flight.mean >= FULL * load.max_in_flight() as f64;
    is_full || load.keeps_up() == Some(false)
}

/// Whether the times would meet the objective if each were shorter by the generator's wake lag: by
/// the lag of the same percentile, at least by its p99.
fn is_met_without_lag(objective: &Objective, load: &LoadResult) -> bool {
    let (times, lag) = (&load.response_time_us, &load.client.wake_lag_us);
    let known = |times: &Percentiles, q: f64| match times.value(q) {
        PercentileValue::Known(us) => Some(us),
        PercentileValue::Unanswered(_) | PercentileValue::TooFew => None,
    };
    let is_met = |condition: &Condition| match condition {
        Condition::Errors { .. } => true,
        Condition::Mean { below_us } => {
            times.mean.is_none_or(|us| us - lag.mean.unwrap_or(0.0) < *below_us)
        }
        Condition::Quantile { q, below_us, .. } => {
            let lag_us = known(lag, q.max(0.99)).or(lag.max).unwrap_or(0.0);
            known(times, *q).is_none_or(|us| us - lag_us < *below_us)
        }
    };
    objective.conditions.iter().all(is_met)
}

/// Whether so few requests failed for other reasons than a missing local port that they do not miss
/// the objective.
fn is_met_with_ports(objective: &Objective, load: &LoadResult) -> bool {
    let limits = objective.conditions.iter().map(|condition| match condition {
        Condition::Errors { below } => *below,
        Condition::Mean { .. } => MAX_LOST,
        Condition::Quantile { q, .. } => 1.0 - q,
    });
    let (share, limit) = (load.error_share_with_ports(), limits.fold(MAX_LOST, f64::min));
    load.without_port() > 0 && (share == 0.0 || share < limit)
}

/// Decides whether a load met an objective.
#[must_use]
pub fn judge(objective: &Objective, load: &LoadResult) -> ObjectiveVerdict {
    if load.exchanges.due() == 0 {
        return ObjectiveVerdict::TooShort("no request was due".into());
    }
    let is_late = |caveat: &Caveat| match caveat.code {
        Code::GeneratorStarved => true,
        Code::GeneratorLate => is_met_without_lag(objective, load),
        _ => false,
    };
    let are_times_excused = !is_saturated(load) && load.caveats.iter().any(is_late);
    let (missed, too_short) = match first_miss(objective, load, are_times_excused) {
        Ok(missed) => (missed, None),
        Err(reason) => (None, Some(reason)),
    };
    // The generator causes no incorrect response.
    let is_wrong = |caveat: &&Caveat| {
        caveat.severity == Severity::Invalid && caveat.code == Code::IncorrectResponses
    };
    if let Some(wrong) = load.caveats.iter().find(is_wrong) {
        let text = match missed {
            Some(Miss::Failures(text)) => text,
            _ => wrong.message.clone(),
        };
        return ObjectiveVerdict::Failed(text);
    }
    if matches!(missed, Some(Miss::Failures(_))) && is_met_with_ports(objective, load) {
        let message = "no local port was left to connect from".into();
        return ObjectiveVerdict::GeneratorMissed(message);
    }
    let has_missed_time = matches!(missed, Some(Miss::Time(_)));
    let is_missed = missed.is_some();
    let is_disqualifying = |caveat: &&Caveat| {
        let is_excusing = match caveat.severity {
            Severity::Invalid => excuses_losses(caveat.code),
            // The server was at its own limit as well.
            Severity::Warning => false,
            // A control, which measures the generator.
            Severity::Info => is_missed && caveat.code.is_generator_limit(),
        };
        is_excusing || has_missed_time && are_times_excused && is_late(caveat)
    };
    if let Some(caveat) = load.caveats.iter().find(is_disqualifying) {
        return ObjectiveVerdict::GeneratorMissed(caveat.message.clone());
    }
    match missed {
        Some(Miss::Failures(message)) => ObjectiveVerdict::Failed(message),
        Some(Miss::Time(message) | Miss::TooShort(message)) => ObjectiveVerdict::Missed(message),
        None => judge_validity(load, too_short),
    }
}

/// Judges a load that misses no condition. `too_short`: why a condition is undecided.
fn judge_validity(load: &LoadResult, too_short: Option<String>) -> ObjectiveVerdict {
    // A load that is not valid does not meet an objective.
    let is_invalid = |caveat: &&Caveat| caveat.severity == Severity::Invalid;
    let invalid = load.caveats.iter().find(is_invalid);
    match (invalid, too_short) {
        (Some(caveat), _) if FAILURES.contains(&caveat.code) => {
            ObjectiveVerdict::Failed(caveat.message.clone())
        }
        (Some(caveat), _) => ObjectiveVerdict::Missed(caveat.message.clone()),
        (None, Some(reason)) => ObjectiveVerdict::TooShort(reason),
        (None, None) => ObjectiveVerdict::Kept,
    }
}

/// Caveats that disqualify a load because of its responses.
pub(super) const FAILURES: [Code; 5] = [
    Code::IncorrectResponses,
    Code::NoCorrectResponse,
    Code::Errors,
    Code::Unsolicited,
    Code::AnsweredEarly,
];

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
                "{text:?}: above the limit: a load with more than {} of requests without a correct \
                 response is never valid\nhint: use a lower bound",
                percent(MAX_LOST)
            )),
            below if below > 0.0 => Ok(Condition::Errors { below }),
            _ => Err(format_error()),
        };
    }
    let us = |text| time(text).map(|ns| ns as f64 / 1e3);
    if name == "mean" {
        return Ok(Condition::Mean { below_us: us(bound)? });
    }
    let (name, q) = QUANTILES.into_iter().find(|(known, _)| *known == name).ok_or_else(|| {
        let known: Vec<&str> = QUANTILES.iter().map(|(name, _)| *name).collect();
        format!(
            "{name:?}: not a metric of an objective\nhint: use {}, mean or errors",
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
            // Lost requests do not help.
            (Some(_), Some(least)) if least >= *below_us => Some(Miss::Failures(format!(
                "mean {} or more, with the requests without a correct response",
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
        PercentileValue::Unanswered(_) => {
            Some(Miss::Failures(format!("{name} among requests without a correct response")))
        }
        PercentileValue::TooFew => Some(match times.max {
            // One slow request does not decide an unknown percentile.
            Some(us) if us >= limit_us => {
                Miss::TooShort(format!("too few requests for {name}, and one took {}", ms(us)))
            }
            Some(_) => Miss::TooShort(format!(
                "too few requests for {name}: {} of {:.0}",
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
mod tests {
    use dyno_archive::outcome::Outcome;

    use super::*;
    use crate::fixture::five_block_report;

    fn time(text: &str) -> Result<u64, String> {
        let ms: f64 = text.strip_suffix("ms").and_then(|n| n.parse().ok()).ok_or("no time")?;
        Ok((ms * 1e6) as u64)
    }

    fn load() -> LoadResult {
        let mut load = five_block_report().trials.remove(0).load;
        load.caveats.clear();
        load.exchanges.scheduled = 10_000 - load.exchanges.carried_in;
        (load.exchanges.completed, load.exchanges.failed) = (10_000, 0);
        (load.exchanges.dropped, load.exchanges.in_flight_at_end) = (0, 0);
        load.throughput_rps = 1000.0;
        load.response_time_us = Percentiles {
            count: 10_000,
            mean: Some(900.0),
            p50: Some(800.0),
            p99: Some(4900.0),
            max: Some(9000.0),
            ..Percentiles::default()
        };
        load
    }

    fn judge_load(objective: &str, change: impl FnOnce(&mut LoadResult)) -> ObjectiveVerdict {
        let mut load = load();
        change(&mut load);
        judge(&super::parse_objective(objective, &time).unwrap(), &load)
    }

    #[test]
    fn objective_is_kept_if_every_condition_holds() {
        let kept = |objective| judge_load(objective, |_| {}) == ObjectiveVerdict::Kept;
        assert!(kept("p99<5ms") && kept("p99 < 5ms, errors < 0.1%, mean<1ms,max<9.1ms"));
        for (objective, expected) in [
            ("p99<4.9ms", "p99 4.900 ms"),
            ("p50<5ms,max<9ms", "max 9.000 ms"),
            ("mean<0.5ms", "mean 0.900 ms"),
        ] {
            assert_eq!(
                judge_load(objective, |_| {}),
                ObjectiveVerdict::Missed(expected.into()),
                "{objective}"
            );
        }
        // 90 of 10,000 requests got no response within 5 s.
        let lost = |l: &mut LoadResult| {
            let times = &mut l.response_time_us;
            (times.count, times.unanswered, times.unanswered_sum) = (9910, 90, 90.0 * 5e6);
        };
        assert_eq!(
            judge_load("mean<10ms", lost),
            ObjectiveVerdict::Failed(
                "mean 45.892 ms or more, with the requests without a correct response".into()
            )
        );
        assert_eq!(judge_load("mean<46ms", lost), ObjectiveVerdict::Kept);
        // An unknown percentile is neither kept nor missed, however slow one request was.
        let short = |expected: &str| {
            ObjectiveVerdict::TooShort(format!("too few requests for p99.9{expected}"))
        };
        assert_eq!(judge_load("p99.9<10ms", |_| {}), short(": 10000 of 20000"));
        assert_eq!(judge_load("p99.9<5ms", |_| {}), short(", and one took 9.000 ms"));
        assert_eq!(
            judge_load("p99.9<10ms,p99<4.9ms", |_| {}),
            ObjectiveVerdict::Missed("p99 4.900 ms".into())
        );
    }

    #[test]
    fn errors_above_limit_fail_objective() {
        let failed = |l: &mut LoadResult| (l.exchanges.completed, l.exchanges.failed) = (9990, 10);
        assert_eq!(
            judge_load("errors<0.1%", failed),
            ObjectiveVerdict::Failed("errors 0.100 %".into())
        );
        assert_eq!(judge_load("errors<0.11%", failed), ObjectiveVerdict::Kept);
        // Without a condition on errors, 1 % is the limit.
        let many = |l: &mut LoadResult| (l.exchanges.completed, l.exchanges.failed) = (9900, 100);
        assert_eq!(judge_load("p99<5ms", many), ObjectiveVerdict::Failed("errors 1.000 %".into()));
        assert!(
            parse_objective("p99<5ms,errors<2%", &|_| Ok(5_000_000))
                .unwrap_err()
                .contains("above the limit")
        );
        let unanswered = |l: &mut LoadResult| {
            (l.response_time_us.p99, l.response_time_us.unanswered) = (None, 900);
        };
        assert_eq!(
            judge_load("p99<5ms", unanswered),
            ObjectiveVerdict::Failed("p99 among requests without a correct response".into())
        );
    }

    #[test]
    fn generator_limit_is_not_attributed_to_server() {
        let judged_with = |code: Code, objective: &str| {
            let mut load = load();
            let evidence = serde_json::Value::Null;
            load.caveats.push(Caveat::new(code, Severity::Invalid, "late".into(), evidence));
            judge(&super::parse_objective(objective, &time).unwrap(), &load)
        };
        for code in
            [Code::GeneratorBusy, Code::GeneratorStopped, Code::DroppedPackets, Code::MachineFailed]
        {
            for objective in ["p99<5ms", "p99<1ms"] {
                let verdict = judged_with(code, objective);
                assert_eq!(
                    verdict,
                    ObjectiveVerdict::GeneratorMissed("late".into()),
                    "{code} {objective}"
                );
            }
        }
        assert_eq!(
            judged_with(Code::StillWarming, "p99<5ms"),
            ObjectiveVerdict::Missed("late".into())
        );
    }

    #[test]
    fn missing_ports_are_not_attributed_to_server() {
        let verdict = |objective: &str, exhausted: u64, reset: u64| {
            judge_load(objective, |l| {
                let failed = exhausted + reset;
                (l.exchanges.completed, l.exchanges.failed) = (10_000 - failed, failed);
                (0..exhausted).for_each(|_| l.outcomes.count(Outcome::AddressExhausted));
                (0..reset).for_each(|_| l.outcomes.count(Outcome::Reset));
            })
        };
        for objective in ["errors<0.1%", "p99<5ms,errors<0.1%"] {
            let missed = verdict(objective, 30, 9);
            assert!(matches!(missed, ObjectiveVerdict::GeneratorMissed(_)), "{missed:?}");
            assert!(matches!(verdict(objective, 30, 10), ObjectiveVerdict::Failed(_)));
            assert_eq!(verdict(objective, 5, 4), ObjectiveVerdict::Kept);
        }
        assert!(matches!(verdict("p99<5ms", 500, 0), ObjectiveVerdict::GeneratorMissed(_)));
    }

    /// A generator that waits for a CPU changes no response.
    #[test]
    fn generator_wait_does_not_excuse_incorrect_responses() {
        for code in [Code::GeneratorStarved, Code::GeneratorBusy, Code::GeneratorStopped] {
            let verdict = |is_wrong: bool| {
                let mut load = load();
                let caveat = |code, text: &str| {
                    Caveat::new(code, Severity::Invalid, text.into(), serde_json::Value::Null)
                };
                load.caveats.push(caveat(code, "it waited for a CPU"));
                load.caveats.extend(is_wrong.then(|| caveat(Code::IncorrectResponses, "50 of 50")));
                let objective = parse_objective("p99<1ms,errors<0.9%", &time).unwrap();
                judge(&objective, &load)
            };
            assert_eq!(verdict(true), ObjectiveVerdict::Failed("50 of 50".into()), "{code}");
            assert!(matches!(verdict(false), ObjectiveVerdict::GeneratorMissed(_)), "{code}");
        }
    }

    #[test]
    fn generator_wait_does_not_excuse_saturated_server() {
        fn add_starved_caveat(l: &mut LoadResult) {
            let message = "it waited for a CPU".into();
            let caveat =
                Caveat::new(Code::GeneratorStarved, Severity::Warning, message, Default::default());
            l.caveats.push(caveat);
        }
        let excused = ObjectiveVerdict::GeneratorMissed("it waited for a CPU".into());
        assert_eq!(judge_load("p99<1ms", add_starved_caveat), excused);
        let saturated = |l: &mut LoadResult| {
            add_starved_caveat(l);
            l.in_flight.mean = 0.5 * l.max_in_flight() as f64;
        };
        assert!(matches!(judge_load("p99<1ms", saturated), ObjectiveVerdict::Missed(_)));
    }

    /// A late generator loses no response, and a full server needs no excuse.
    #[test]
    fn late_or_busy_generator_does_not_excuse_server() {
        let add = |code: Code, severity: Severity, l: &mut LoadResult| {
            l.caveats.push(Caveat::new(code, severity, "late".into(), Default::default()));
        };
        for code in [Code::GeneratorLate, Code::GeneratorStarved] {
            let verdict = judge_load("p99<5ms,errors<0.1%", |l| {
                (l.exchanges.completed, l.exchanges.failed) = (9950, 50);
                add(code, Severity::Warning, l);
            });
            assert_eq!(verdict, ObjectiveVerdict::Failed("errors 0.500 %".into()), "{code}");
        }
        let with_busy_generator =
            |severity| judge_load("p99<1ms", |l| add(Code::GeneratorBusy, severity, l));
        let excused = ObjectiveVerdict::GeneratorMissed("late".into());
        assert_eq!(with_busy_generator(Severity::Invalid), excused);
        assert_eq!(with_busy_generator(Severity::Info), excused, "a control");
        let missed = with_busy_generator(Severity::Warning);
        assert!(matches!(missed, ObjectiveVerdict::Missed(_)), "its CPU was full: {missed:?}");
    }

    /// The order in which conditions are written does not matter.
    #[test]
    fn late_generator_excuses_no_failures_in_any_order() {
        let verdict = |code: Code, objective: &str, change: fn(&mut LoadResult)| {
            judge_load(objective, |l| {
                l.response_time_us.p99 = Some(5100.0);
                l.client.wake_lag_us =
                    Percentiles { count: 10_000, p99: Some(150.0), ..Percentiles::default() };
                let severity = Severity::Warning;
                l.caveats.push(Caveat::new(code, severity, "late".into(), Default::default()));
                change(l);
            })
        };
        for code in [Code::GeneratorLate, Code::GeneratorStarved] {
            for objective in ["p99<5ms,errors<0.1%", "errors<0.1%,p99<5ms"] {
                let failed = ObjectiveVerdict::Failed("errors 0.500 %".into());
                let verdict = verdict(code, objective, |l| {
                    (l.exchanges.completed, l.exchanges.failed) = (9950, 50);
                });
                assert_eq!(verdict, failed, "{code} {objective}");
            }
            for objective in ["p99<5ms,p99.9<20ms", "p99.9<20ms,p99<5ms"] {
                let verdict = verdict(code, objective, |l| {
                    (l.response_time_us.count, l.response_time_us.unanswered) = (29_950, 50);
                });
                assert!(matches!(verdict, ObjectiveVerdict::Failed(_)), "{objective}: {verdict:?}");
            }
        }
    }

    /// A wake lag of 0.15 ms does not explain a percentile that is many milliseconds too high.
    #[test]
    fn wake_lag_excuses_only_misses_of_its_size() {
        let verdict = |objective: &str| {
            judge_load(objective, |l| {
                l.client.wake_lag_us = Percentiles {
                    count: 10_000,
                    mean: Some(20.0),
                    p99: Some(150.0),
                    max: Some(300.0),
                    ..Percentiles::default()
                };
                let late = Caveat::new(
                    Code::GeneratorLate,
                    Severity::Warning,
                    "late".into(),
                    serde_json::Value::Null,
                );
                l.caveats.push(late);
            })
        };
        let excused = ObjectiveVerdict::GeneratorMissed("late".into());
        for objective in ["p99<4.8ms", "mean<0.89ms", "max<8.8ms"] {
            assert_eq!(verdict(objective), excused, "{objective}");
        }
        for objective in ["p99<4.7ms", "mean<0.87ms", "max<8.6ms", "p99<4.8ms,mean<0.5ms"] {
            let verdict = verdict(objective);
            assert!(matches!(verdict, ObjectiveVerdict::Missed(_)), "{objective}: {verdict:?}");
        }
    }

    /// A failed request does not turn an unknown percentile into a missed one.
    #[test]
    fn failed_request_does_not_decide_unknown_percentile() {
        let verdict = judge_load("p99.9<10ms", |l| {
            (l.exchanges.completed, l.exchanges.failed) = (9999, 1);
            (l.response_time_us.count, l.response_time_us.unanswered) = (9999, 1);
        });
        assert!(matches!(verdict, ObjectiveVerdict::TooShort(_)), "{verdict:?}");
    }

    #[test]
    fn invalid_load_does_not_keep_objective() {
        let add_incorrect_responses = |l: &mut LoadResult| {
            let message = "3 responses were incorrect".into();
            l.caveats.push(Caveat::new(
                Code::IncorrectResponses,
                Severity::Invalid,
                message,
                Default::default(),
            ));
        };
        assert_eq!(
            judge_load("p99<5ms,errors<1%", add_incorrect_responses),
            ObjectiveVerdict::Failed("3 responses were incorrect".into())
        );
    }

    #[test]
    fn objective_percentiles_require_requests() {
        let required = |text| required_requests(&parse_objective(text, &time).unwrap());
        assert!((required("p99<5ms,p99.9<9ms,errors<1%") - 20_000.0).abs() < 1e-6);
        assert_eq!((required("errors<1%"), required("max<5ms")), (0.0, 0.0));
        let min_rate = |arrival| {
            least_rps(&parse_objective("p99<5ms", &time).unwrap(), 2_000_000_000, arrival)
        };
        assert_eq!((min_rate(Arrival::Constant), min_rate(Arrival::Poisson)), (1000.0, 1089.5));
        // Without a percentile, one request has to be due.
        let mean = parse_objective("mean<5ms", &time).unwrap();
        assert_eq!(least_rps(&mean, 300_000_000, Arrival::Constant), 1.0 / 0.3);
        let without_requests = judge_load("mean<1000ms", |l| {
            (l.exchanges.scheduled, l.exchanges.carried_in) = (0, 0);
        });
        assert!(matches!(without_requests, ObjectiveVerdict::TooShort(_)), "{without_requests:?}");
    }

    /// In an open loop, fewer responses than requests per interval show that the server falls
    /// behind.
    #[test]
    fn server_that_falls_behind_misses_objective() {
        let behind = |l: &mut LoadResult| {
            l.config.model = dyno_archive::plan::LoadModel::Open;
            l.intervals
                .iter_mut()
                .for_each(|interval| interval.started = 10 * (interval.completed + 100));
        };
        let verdict = judge_load("p99<5ms", behind);
        let ObjectiveVerdict::Missed(message) = &verdict else { panic!("{verdict:?}") };
        assert!(message.starts_with("it fell behind"), "{message}");
    }

    #[test]
    fn invalid_objective_text_is_rejected() {
        for (text, expected) in [
            ("p99", "not a condition"),
            ("p99>5ms", "not a condition"),
            ("p42<5ms", "p50, p75, p90, p95, p99, p99.9, p99.99, max, mean or errors"),
            ("errors<1", "not a condition"),
            ("errors<0%", "not a condition"),
            ("p99<5", "no time"),
            ("", "not a condition"),
        ] {
            let error = parse_objective(text, &time).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
