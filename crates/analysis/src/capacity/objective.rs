//! The objective of a server: `p99<5ms,errors<0.1%`.

use dyno_archive::plan::{Arrival, Condition, Objective};

use crate::LoadResult;
use crate::caveat::{Caveat, Code, Severity};
use crate::load::place::PercentilePlace;
use crate::load::{Percentiles, SAMPLES_BEYOND};
use crate::number_format::percent;
use crate::verdict::MAX_LOST;

/// Percentiles that conditions may name.
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
    /// Incorrect or missing responses missed it, in words. Only other rates show whether that
    /// depends on the rate.
    Failed(String),
    /// The server did not start, in words.
    NotStarted(String),
    /// The load was too short for a percentile of the objective, in words: it is neither kept nor
    /// missed.
    TooShort(String),
    /// The generator could not offer the rate: what was missed says nothing of the server.
    GeneratorMissed(String),
}

/// Reads `p99<5ms,errors<0.1%`. `time`: reads a time, into nanoseconds.
///
/// # Errors
///
/// The mistake, and the correct form.
pub fn objective(
    text: &str,
    time: &dyn Fn(&str) -> Result<u64, String>,
) -> Result<Objective, String> {
    let conditions =
        text.split(',').map(|one| condition(one.trim(), time)).collect::<Result<_, _>>()?;
    Ok(Objective { text: text.trim().into(), conditions })
}

/// Requests that a load needs for every percentile of an objective to be known.
#[must_use]
pub fn requests(objective: &Objective) -> f64 {
    let needed = objective.conditions.iter().map(|condition| match condition {
        Condition::Quantile { q, .. } if *q < 1.0 => SAMPLES_BEYOND / (1.0 - q),
        _ => 0.0,
    });
    needed.fold(0.0, f64::max)
}

/// The lowest rate at which loads of this length have enough requests for every percentile of an
/// objective; 0: it has none.
#[must_use]
pub fn least_rps(objective: &Objective, duration_ns: u64, arrival: Arrival) -> f64 {
    let needed = requests(objective);
    // The number of Poisson arrivals varies by its square root.
    let spread = match arrival {
        Arrival::Constant | Arrival::Trace => 0.0,
        Arrival::Poisson => 4.0 * needed.sqrt(),
    };
    (needed + spread).ceil() / (duration_ns as f64 / 1e9)
}

/// A miss, in words, by what it is of.
enum Miss {
    Time(String),
    Failures(String),
    TooShort(String),
}

/// The conditions of every load: it answers as many requests as it is offered, and errors are few
/// unless the objective limits them.
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
    (!says_errors && error_share >= MAX_LOST).then(|| Miss::Failures(errors(error_share)))
}

/// The first miss that is known; `Err`: none is, and a percentile is unknown.
fn first_miss(objective: &Objective, load: &LoadResult) -> Result<Option<Miss>, String> {
    let error_share = load.error_share();
    let of_conditions =
        objective.conditions.iter().filter_map(|of| find_miss(of, load, error_share));
    let all: Vec<Miss> =
        of_conditions.chain(find_implied_miss(objective, load, error_share)).collect();
    let mut too_short = None;
    for miss in all {
        match miss {
            Miss::TooShort(why) => too_short = too_short.or(Some(why)),
            known => return Ok(Some(known)),
        }
    }
    too_short.map_or(Ok(None), Err)
}

/// Whether the server had as many requests as it could be given for half of the time or more, or
/// fell behind: a generator that waited a little for its CPU does not explain that.
fn is_saturated(load: &LoadResult) -> bool {
    const FULL: f64 = 0.5;
    let is_full = load.in_flight.mean >= FULL * load.places() as f64;
    is_full || load.keeps_up() == Some(false)
}

/// Judges a load.
#[must_use]
pub fn judge(objective: &Objective, load: &LoadResult) -> ObjectiveVerdict {
    let (missed, too_short) = match first_miss(objective, load) {
        Ok(missed) => (missed, None),
        Err(why) => (None, Some(why)),
    };
    let is_time = missed.is_some() && objective.conditions.iter().any(is_of_time);
    let is_missed = missed.is_some();
    let refuses = |caveat: &&Caveat| {
        // A control is let off, as it is there to show what the generator can do.
        let is_full =
            is_generators(caveat.code) && (is_missed || caveat.severity == Severity::Invalid);
        let is_late = matches!(caveat.code, Code::GeneratorLate | Code::GeneratorStarved);
        let is_disturbed = caveat.severity == Severity::Invalid && DISTURBED.contains(&caveat.code);
        is_full || is_disturbed || is_time && is_late && !is_saturated(load)
    };
    if let Some(caveat) = load.caveats.iter().find(refuses) {
        return ObjectiveVerdict::GeneratorMissed(caveat.message.clone());
    }
    match missed {
        Some(Miss::Failures(what)) => return ObjectiveVerdict::Failed(what),
        Some(Miss::Time(what) | Miss::TooShort(what)) => return ObjectiveVerdict::Missed(what),
        None => {}
    }
    // A load that is not to be used has kept nothing.
    let is_invalid = |caveat: &&Caveat| caveat.severity == Severity::Invalid;
    let invalid = load.caveats.iter().find(is_invalid);
    match (invalid, too_short) {
        (Some(caveat), _) if FAILURES.contains(&caveat.code) => {
            ObjectiveVerdict::Failed(caveat.message.clone())
        }
        (Some(caveat), _) => ObjectiveVerdict::Missed(caveat.message.clone()),
        (None, Some(why)) => ObjectiveVerdict::TooShort(why),
        (None, None) => ObjectiveVerdict::Kept,
    }
}

/// Caveats that refuse a load because the generator stopped or the machine dropped packets.
const DISTURBED: [Code; 2] = [Code::GeneratorStopped, Code::DroppedPackets];

/// Caveats that refuse a load for its responses.
pub(super) const FAILURES: [Code; 3] = [Code::WrongAnswers, Code::NoAnswers, Code::Errors];

/// Whether a caveat that refuses a load is about the generator, and not about the server.
pub(crate) const fn is_generators(code: Code) -> bool {
    matches!(code, Code::GeneratorBusy | Code::GeneratorCrowded | Code::GeneratorThrottled)
}

fn condition(text: &str, time: &dyn Fn(&str) -> Result<u64, String>) -> Result<Condition, String> {
    let wrong = || {
        format!(
            "{text:?}: not a condition\nhint: write `p99<5ms`, `mean<1ms` or `errors<0.1%`, \
             separated by commas"
        )
    };
    let (name, bound) = text.split_once('<').ok_or_else(wrong)?;
    let (name, bound) = (name.trim(), bound.trim());
    if name == "errors" {
        let share =
            bound.strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok()).ok_or_else(wrong)?;
        return match share / 100.0 {
            below if below > MAX_LOST => Err(format!(
                "{text:?}: above the limit: a load with more than {} of requests without a correct \
                 response is never valid\nhint: use a lower bound",
                percent(MAX_LOST)
            )),
            below if below > 0.0 => Ok(Condition::Errors { below }),
            _ => Err(wrong()),
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

fn errors(share: f64) -> String {
    format!("errors {:.3} %", share * 100.0)
}

const fn is_of_time(condition: &Condition) -> bool {
    !matches!(condition, Condition::Errors { .. })
}

/// Describes how a load misses a condition; `None`: it keeps it.
fn find_miss(condition: &Condition, load: &LoadResult, error_share: f64) -> Option<Miss> {
    let times = &load.response_time_us;
    match condition {
        Condition::Errors { below } => {
            (error_share >= *below).then(|| Miss::Failures(errors(error_share)))
        }
        Condition::Mean { below_us } => match times.mean {
            Some(mean) if mean < *below_us => None,
            Some(mean) => Some(Miss::Time(format!("mean {}", ms(mean)))),
            None => Some(Miss::Failures("no correct response".into())),
        },
        Condition::Quantile { name, q, below_us } => {
            find_quantile_miss(times, (name, *q), *below_us)
        }
    }
}

fn find_quantile_miss(times: &Percentiles, (name, q): (&str, f64), most: f64) -> Option<Miss> {
    match times.place(q) {
        PercentilePlace::At(us) => (us >= most).then(|| Miss::Time(format!("{name} {}", ms(us)))),
        PercentilePlace::Beyond(_) => Some(Miss::Failures(format!(
            "{name} among requests without a \
                                                                   correct response"
        ))),
        PercentilePlace::TooFew => Some(match times.max {
            Some(_) if times.unanswered > 0 => Miss::Failures(format!(
                "too few requests for {name}, and {} without a correct response",
                times.unanswered
            )),
            // One slow request does not place an unknown percentile.
            Some(us) if us >= most => {
                Miss::TooShort(format!("too few requests for {name}, and one took {}", ms(us)))
            }
            Some(_) => Miss::TooShort(format!(
                "too few requests for {name}: {} of {:.0}",
                times.due(),
                SAMPLES_BEYOND / (1.0 - q)
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
    use super::*;
    use crate::fixture::reported;

    fn time(text: &str) -> Result<u64, String> {
        let ms: f64 = text.strip_suffix("ms").and_then(|n| n.parse().ok()).ok_or("no time")?;
        Ok((ms * 1e6) as u64)
    }

    fn load() -> LoadResult {
        let mut load = reported().trials.remove(0).load;
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

    fn judge_load(objective: &str, change: fn(&mut LoadResult)) -> ObjectiveVerdict {
        let mut load = load();
        change(&mut load);
        judge(&super::objective(objective, &time).unwrap(), &load)
    }

    #[test]
    fn every_condition_has_to_hold() {
        let kept = |objective| judge_load(objective, |_| {}) == ObjectiveVerdict::Kept;
        assert!(kept("p99<5ms") && kept("p99 < 5ms, errors < 0.1%, mean<1ms,max<9.1ms"));
        for (objective, says) in [
            ("p99<4.9ms", "p99 4.900 ms"),
            ("p50<5ms,max<9ms", "max 9.000 ms"),
            ("mean<0.5ms", "mean 0.900 ms"),
        ] {
            assert_eq!(
                judge_load(objective, |_| {}),
                ObjectiveVerdict::Missed(says.into()),
                "{objective}"
            );
        }
        // An unknown percentile is neither kept nor missed, however slow one request was.
        let short =
            |says: &str| ObjectiveVerdict::TooShort(format!("too few requests for p99.9{says}"));
        assert_eq!(judge_load("p99.9<10ms", |_| {}), short(": 10000 of 20000"));
        assert_eq!(judge_load("p99.9<5ms", |_| {}), short(", and one took 9.000 ms"));
        assert_eq!(
            judge_load("p99.9<10ms,p99<4.9ms", |_| {}),
            ObjectiveVerdict::Missed("p99 4.900 ms".into())
        );
    }

    #[test]
    fn errors_and_rates_that_were_not_kept_are_missed() {
        let failed = |l: &mut LoadResult| (l.exchanges.completed, l.exchanges.failed) = (9990, 10);
        assert_eq!(
            judge_load("errors<0.1%", failed),
            ObjectiveVerdict::Failed("errors 0.100 %".into())
        );
        assert_eq!(judge_load("errors<0.11%", failed), ObjectiveVerdict::Kept);
        // Where nothing is said of errors, one in a hundred is too many.
        let many = |l: &mut LoadResult| (l.exchanges.completed, l.exchanges.failed) = (9900, 100);
        assert_eq!(judge_load("p99<5ms", many), ObjectiveVerdict::Failed("errors 1.000 %".into()));
        assert!(
            objective("p99<5ms,errors<2%", &|_| Ok(5_000_000))
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
    fn what_the_generator_cannot_offer_says_nothing_of_the_server() {
        let judged_with = |code: Code, objective: &str| {
            let mut load = load();
            let evidence = serde_json::Value::Null;
            load.caveats.push(Caveat::new(code, Severity::Invalid, "late".into(), evidence));
            judge(&super::objective(objective, &time).unwrap(), &load)
        };
        for code in [Code::GeneratorBusy, Code::GeneratorStopped, Code::DroppedPackets] {
            for objective in ["p99<5ms", "p99<1ms"] {
                let judged = judged_with(code, objective);
                assert_eq!(
                    judged,
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
    fn generator_that_waited_a_little_does_not_excuse_a_saturated_server() {
        fn starved(l: &mut LoadResult) {
            let message = "it waited for a CPU".into();
            let caveat =
                Caveat::new(Code::GeneratorStarved, Severity::Warning, message, Default::default());
            l.caveats.push(caveat);
        }
        let excused = ObjectiveVerdict::GeneratorMissed("it waited for a CPU".into());
        assert_eq!(judge_load("p99<1ms", starved), excused);
        let saturated = |l: &mut LoadResult| {
            starved(l);
            l.in_flight.mean = 0.5 * l.places() as f64;
        };
        assert!(matches!(judge_load("p99<1ms", saturated), ObjectiveVerdict::Missed(_)));
    }

    #[test]
    fn load_that_is_not_to_be_used_has_kept_nothing() {
        let wrong = |l: &mut LoadResult| {
            let message = "3 answers were wrong".into();
            l.caveats.push(Caveat::new(
                Code::WrongAnswers,
                Severity::Invalid,
                message,
                Default::default(),
            ));
        };
        assert_eq!(
            judge_load("p99<5ms,errors<1%", wrong),
            ObjectiveVerdict::Failed("3 answers were wrong".into())
        );
    }

    #[test]
    fn percentiles_need_requests() {
        let needed = |text| requests(&objective(text, &time).unwrap());
        assert!((needed("p99<5ms,p99.9<9ms,errors<1%") - 20_000.0).abs() < 1e-6);
        assert_eq!((needed("errors<1%"), needed("max<5ms")), (0.0, 0.0));
        let least =
            |arrival| least_rps(&objective("p99<5ms", &time).unwrap(), 2_000_000_000, arrival);
        assert_eq!((least(Arrival::Constant), least(Arrival::Poisson)), (1000.0, 1089.5));
    }

    /// An open loop whose server falls behind, as its intervals show.
    #[test]
    fn who_falls_behind_has_missed() {
        let behind = |l: &mut LoadResult| {
            l.config.model = dyno_archive::plan::LoadModel::Open;
            l.intervals
                .iter_mut()
                .for_each(|interval| interval.started = 10 * (interval.completed + 100));
        };
        let found = judge_load("p99<5ms", behind);
        assert!(
            matches!(&found, ObjectiveVerdict::Missed(what) if what.starts_with("it fell behind")),
            "{found:?}"
        );
    }

    #[test]
    fn what_is_no_objective_is_refused() {
        for (text, says) in [
            ("p99", "not a condition"),
            ("p99>5ms", "not a condition"),
            ("p42<5ms", "p50, p75, p90, p95, p99, p99.9, p99.99, max, mean or errors"),
            ("errors<1", "not a condition"),
            ("errors<0%", "not a condition"),
            ("p99<5", "no time"),
            ("", "not a condition"),
        ] {
            let error = objective(text, &time).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
