//! Tests of objectives, and of which loads meet them.

use dyno_model::outcome::Outcome;

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
    load.client.headroom.waiting = Some(0.1);
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

fn evaluate_load(objective: &str, change: impl FnOnce(&mut LoadResult)) -> ObjectiveVerdict {
    let mut load = load();
    change(&mut load);
    evaluate(&super::parse_objective(objective, &time).unwrap(), &load)
}

#[test]
fn objective_is_kept_if_every_condition_holds() {
    let kept = |objective| evaluate_load(objective, |_| {}) == ObjectiveVerdict::Kept;
    assert!(kept("p99<5ms") && kept("p99 < 5ms, errors < 0.1%, mean<1ms,max<9.1ms"));
    for (objective, expected) in [
        ("p99<4.9ms", "p99 4.900 ms"),
        ("p50<5ms,max<9ms", "max 9.000 ms"),
        ("mean<0.5ms", "mean 0.900 ms"),
    ] {
        assert_eq!(
            evaluate_load(objective, |_| {}),
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
        evaluate_load("mean<10ms", lost),
        ObjectiveVerdict::Failed(
            "mean 45.892 ms or more if requests without a correct response are included".into()
        )
    );
    assert_eq!(evaluate_load("mean<46ms", lost), ObjectiveVerdict::Kept);
    // An unknown percentile is neither kept nor missed, even if one request was very slow.
    let short = |expected: &str| {
        ObjectiveVerdict::TooShort(format!("too few requests for p99.9{expected}"))
    };
    assert_eq!(evaluate_load("p99.9<10ms", |_| {}), short(": 10000 of the 20000 that it needs"));
    assert_eq!(evaluate_load("p99.9<5ms", |_| {}), short(", but one of them took 9.000 ms"));
    assert_eq!(
        evaluate_load("p99.9<10ms,p99<4.9ms", |_| {}),
        ObjectiveVerdict::Missed("p99 4.900 ms".into())
    );
}

#[test]
fn errors_above_limit_fail_objective() {
    let failed = |l: &mut LoadResult| (l.exchanges.completed, l.exchanges.failed) = (9990, 10);
    assert_eq!(
        evaluate_load("errors<0.1%", failed),
        ObjectiveVerdict::Failed("errors 0.100 %".into())
    );
    assert_eq!(evaluate_load("errors<0.11%", failed), ObjectiveVerdict::Kept);
    // Without a condition on errors, 1 % is the limit.
    let many = |l: &mut LoadResult| (l.exchanges.completed, l.exchanges.failed) = (9900, 100);
    assert_eq!(evaluate_load("p99<5ms", many), ObjectiveVerdict::Failed("errors 1.000 %".into()));
    assert!(
        parse_objective("p99<5ms,errors<2%", &|_| Ok(5_000_000))
            .unwrap_err()
            .contains("the limit is too high")
    );
    let unanswered = |l: &mut LoadResult| {
        (l.response_time_us.p99, l.response_time_us.unanswered) = (None, 900);
    };
    assert_eq!(
        evaluate_load("p99<5ms", unanswered),
        ObjectiveVerdict::Failed(
            "p99 has no value, because too many requests got no correct response".into()
        )
    );
}

#[test]
fn generator_limit_is_not_attributed_to_server() {
    let verdict_with = |code: Code, objective: &str| {
        let mut load = load();
        let evidence = serde_json::Value::Null;
        load.caveats.push(Caveat::new(code, Severity::Invalid, "late".into(), evidence));
        evaluate(&super::parse_objective(objective, &time).unwrap(), &load)
    };
    for code in
        [Code::GENERATOR_BUSY, Code::GENERATOR_STOPPED, Code::DROPPED_PACKETS, Code::MACHINE_FAILED]
    {
        for objective in ["p99<5ms", "p99<1ms"] {
            let verdict = verdict_with(code, objective);
            assert_eq!(
                verdict,
                ObjectiveVerdict::GeneratorMissed("late".into()),
                "{code} {objective}"
            );
        }
    }
    assert_eq!(
        verdict_with(Code::STILL_WARMING, "p99<5ms"),
        ObjectiveVerdict::Missed("late".into())
    );
}

/// The generator could not check the responses of a load that misses no condition.
#[test]
fn unstored_bodies_are_not_attributed_to_server() {
    let verdict = |objective: &str| {
        evaluate_load(objective, |l| {
            let (code, severity) = (Code::UNSTORED_BODIES, Severity::Invalid);
            l.caveats.push(Caveat::new(code, severity, "unchecked".into(), Default::default()));
        })
    };
    assert_eq!(verdict("p99<5ms"), ObjectiveVerdict::GeneratorMissed("unchecked".into()));
    assert!(matches!(verdict("p99<1ms"), ObjectiveVerdict::Missed(_)), "the server was late");
}

#[test]
fn missing_ports_are_not_attributed_to_server() {
    let verdict = |objective: &str, exhausted: u64, reset: u64| {
        evaluate_load(objective, |l| {
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
    for code in [Code::GENERATOR_STARVED, Code::GENERATOR_BUSY, Code::GENERATOR_STOPPED] {
        let verdict = |is_wrong: bool| {
            let mut load = load();
            let caveat = |code, text: &str| {
                Caveat::new(code, Severity::Invalid, text.into(), serde_json::Value::Null)
            };
            load.caveats.push(caveat(code, "it waited for a CPU"));
            load.caveats.extend(is_wrong.then(|| caveat(Code::INCORRECT_RESPONSES, "50 of 50")));
            let objective = parse_objective("p99<1ms,errors<0.9%", &time).unwrap();
            evaluate(&objective, &load)
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
            Caveat::new(Code::GENERATOR_STARVED, Severity::Warning, message, Default::default());
        l.caveats.push(caveat);
    }
    let excused = ObjectiveVerdict::GeneratorMissed("it waited for a CPU".into());
    assert_eq!(evaluate_load("p99<1ms", add_starved_caveat), excused);
    let saturated = |l: &mut LoadResult| {
        add_starved_caveat(l);
        l.in_flight.mean = 0.5 * l.max_in_flight() as f64;
    };
    assert!(matches!(evaluate_load("p99<1ms", saturated), ObjectiveVerdict::Missed(_)));
}

/// A late generator loses no response, and a full server needs no excuse.
#[test]
fn late_or_busy_generator_does_not_excuse_server() {
    let add = |code: Code, severity: Severity, l: &mut LoadResult| {
        l.caveats.push(Caveat::new(code, severity, "late".into(), Default::default()));
    };
    for code in [Code::GENERATOR_LATE, Code::GENERATOR_STARVED] {
        let verdict = evaluate_load("p99<5ms,errors<0.1%", |l| {
            (l.exchanges.completed, l.exchanges.failed) = (9950, 50);
            add(code, Severity::Warning, l);
        });
        assert_eq!(verdict, ObjectiveVerdict::Failed("errors 0.500 %".into()), "{code}");
    }
    let with_busy_generator =
        |severity| evaluate_load("p99<1ms", |l| add(Code::GENERATOR_BUSY, severity, l));
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
        evaluate_load(objective, |l| {
            l.response_time_us.p99 = Some(5100.0);
            l.client.wake_lag_us =
                Percentiles { count: 10_000, p99: Some(150.0), ..Percentiles::default() };
            let severity = Severity::Warning;
            l.caveats.push(Caveat::new(code, severity, "late".into(), Default::default()));
            change(l);
        })
    };
    for code in [Code::GENERATOR_LATE, Code::GENERATOR_STARVED] {
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
        evaluate_load(objective, |l| {
            l.client.wake_lag_us = Percentiles {
                count: 10_000,
                mean: Some(20.0),
                p99: Some(150.0),
                max: Some(300.0),
                ..Percentiles::default()
            };
            let late = Caveat::new(
                Code::GENERATOR_LATE,
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

/// Waits for a CPU explain no miss that is much larger than the waits.
#[test]
fn starvation_excuses_only_misses_of_its_size() {
    let verdict = |objective: &str, change: fn(&mut LoadResult)| {
        evaluate_load(objective, |l| {
            let lag = |max| Percentiles { count: 10_000, max: Some(max), ..Percentiles::default() };
            l.client.headroom.waiting = Some(0.06);
            (l.client.wake_lag_us, l.client.loop_lag_us) = (lag(2000.0), lag(1000.0));
            let code = Code::GENERATOR_STARVED;
            l.caveats.push(Caveat::new(code, Severity::Warning, "late".into(), Default::default()));
            change(l);
        })
    };
    let slow = |l: &mut LoadResult| l.response_time_us.p99 = Some(500_000.0);
    let half_slow = |l: &mut LoadResult| l.response_time_us.p50 = Some(1200.0);
    let excused = ObjectiveVerdict::GeneratorMissed("late".into());
    for (objective, change) in [
        ("p99<1ms", (|_| {}) as fn(&mut LoadResult)),
        // 3 ms of lags, 5 ms without a lag, and 6 % of 500 ms.
        ("p99<463ms", slow),
        ("p50<1.07ms", half_slow),
        ("mean<0.5ms", |_| {}),
        ("max<1ms", |_| {}),
        // Without lags or waits their sizes are unknown.
        ("p99<5ms", |l| {
            l.response_time_us.p99 = Some(500_000.0);
            (l.client.wake_lag_us.max, l.client.loop_lag_us.max) = (None, None);
        }),
        ("p50<0.9ms", |l| {
            l.response_time_us.p50 = Some(1200.0);
            l.client.headroom.waiting = None;
        }),
    ] {
        assert_eq!(verdict(objective, change), excused, "{objective}");
    }
    for (objective, change) in [
        ("p99<461ms", slow as fn(&mut LoadResult)),
        ("p99<5ms", slow),
        ("p50<1.05ms", half_slow),
        ("mean<0.3ms", |_| {}),
        ("max<1ms", |l| l.response_time_us.max = Some(10_000.0)),
        ("p50<0.79ms,p99<461ms", slow),
    ] {
        let verdict = verdict(objective, change);
        assert!(matches!(verdict, ObjectiveVerdict::Missed(_)), "{objective}: {verdict:?}");
    }
}

/// A failed request does not turn an unknown percentile into a missed one.
#[test]
fn failed_request_does_not_decide_unknown_percentile() {
    let verdict = evaluate_load("p99.9<10ms", |l| {
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
            Code::INCORRECT_RESPONSES,
            Severity::Invalid,
            message,
            Default::default(),
        ));
    };
    assert_eq!(
        evaluate_load("p99<5ms,errors<1%", add_incorrect_responses),
        ObjectiveVerdict::Failed("3 responses were incorrect".into())
    );
}

#[test]
fn objective_percentiles_require_requests() {
    let required = |text| required_requests(&parse_objective(text, &time).unwrap());
    assert!((required("p99<5ms,p99.9<9ms,errors<1%") - 20_000.0).abs() < 1e-6);
    assert_eq!((required("errors<1%"), required("max<5ms")), (0.0, 0.0));
    let min_rate =
        |arrival| least_rps(&parse_objective("p99<5ms", &time).unwrap(), 2_000_000_000, arrival);
    assert_eq!((min_rate(Arrival::Constant), min_rate(Arrival::Poisson)), (1000.0, 1089.5));
    let bound =
        |text, least_rps| percentile_bound(&parse_objective(text, &time).unwrap(), least_rps);
    assert_eq!((bound("p99<5ms", 1000.0), bound("p50<5ms", 0.7)), (Some(1000.0), None));
    assert_eq!((bound("mean<5ms", 3.4), bound("max<5ms,errors<1%", 3.4)), (None, None));
    // Without a percentile, one request is needed.
    let mean = parse_objective("mean<5ms", &time).unwrap();
    assert_eq!(least_rps(&mean, 300_000_000, Arrival::Constant), 1.0 / 0.3);
    let without_requests = evaluate_load("mean<1000ms", |l| {
        (l.exchanges.scheduled, l.exchanges.carried_in) = (0, 0);
    });
    assert!(matches!(without_requests, ObjectiveVerdict::TooShort(_)), "{without_requests:?}");
}

/// In an open loop, fewer responses than requests per interval show that the server falls
/// behind.
#[test]
fn server_that_falls_behind_misses_objective() {
    let behind = |l: &mut LoadResult| {
        l.config.model = dyno_model::plan::LoadModel::Open;
        l.intervals
            .iter_mut()
            .for_each(|interval| interval.started = 10 * (interval.completed + 100));
    };
    let verdict = evaluate_load("p99<5ms", behind);
    let ObjectiveVerdict::Missed(message) = &verdict else { panic!("{verdict:?}") };
    assert!(message.starts_with("responses did not keep up"), "{message}");
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
        ("p99<0ms", "no response time is below 0"),
        ("errors<1%,mean<0ms", "no response time is below 0"),
        ("", "not a condition"),
    ] {
        let error = parse_objective(text, &time).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
