//! Upgrades the distributions of archives before `dyno.run/3`, whose response times included
//! timeouts. Today they include only correct responses, and timeouts are in a separate
//! distribution.

use serde_json::{Value, json};

use crate::load::UnansweredAges;
use crate::outcome::Outcome;
use crate::times::Times;

/// Upgrades a trial of `dyno.run/2` or before. Its response times included requests that timed out,
/// with a time of at least the timeout each. The ages of requests in flight at the end were
/// separate. Ages of other failures were not recorded.
pub(super) fn upgrade_trial(mut trial: Value) -> Value {
    let Some(record) = trial.as_object_mut() else { return trial };
    let at_end = record.get_mut("unanswered").map(Value::take).unwrap_or_default();
    let mut timeouts = Times::new();
    let intervals = record.get_mut("intervals").and_then(Value::as_array_mut);
    for interval in intervals.into_iter().flatten() {
        timeouts.add(&remove_timeouts(interval));
    }
    let mut ages = serde_json::Map::new();
    if !timeouts.is_empty() {
        ages.insert(Outcome::Timeout.name().into(), json!(timeouts));
    }
    if at_end.as_str().is_some_and(|text| !text.is_empty()) {
        ages.insert(UnansweredAges::AT_END.into(), at_end);
    }
    record.insert("unanswered".into(), json!({"ages": ages, "longest_service_ns": 0}));
    trial
}

/// Removes timeouts from an interval's times. The longest times are taken to be the timeouts,
/// because correct responses take no longer than the limit. Returns the removed times if they
/// belong to the measured window.
fn remove_timeouts(interval: &mut Value) -> Times {
    let count_timeouts = |outcomes: &Value| -> u64 {
        let kinds = Outcome::ALL.iter().filter(|outcome| outcome.is_timeout());
        kinds.filter_map(|outcome| outcomes.get(outcome.name())?.as_u64()).sum()
    };
    let shares = interval.get_mut("by_request").and_then(Value::as_array_mut);
    for share in shares.into_iter().flatten() {
        let n = count_timeouts(&share["outcomes"]);
        take_longest(share.get_mut("response"), n);
        take_longest(share.get_mut("service"), n);
    }
    // Timeouts of an earlier phase, which are in `carried`, had no times here.
    let n = count_timeouts(&interval["outcomes"]);
    let _service = take_longest(interval.pointer_mut("/times/service"), n);
    let response = take_longest(interval.pointer_mut("/times/response"), n);
    if interval["phase"] == "warmup" { Times::new() } else { response }
}

/// Removes the `n` longest times and returns them. A value that is not a distribution is unchanged,
/// because parsing reports it later.
fn take_longest(times: Option<&mut Value>, n: u64) -> Times {
    if n == 0 {
        return Times::new();
    }
    let Some(times) = times else { return Times::new() };
    let Ok(all) = serde_json::from_value::<Times>(times.clone()) else { return Times::new() };
    let (shorter, longest) = all.split_longest(n);
    *times = json!(shorter);
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::Recording;

    fn times(values: &[u64]) -> Times {
        let mut recording = Recording::new();
        values.iter().for_each(|&v| recording.record(v));
        recording.seal()
    }

    #[test]
    fn timeouts_move_from_response_times_to_ages() {
        let interval = |phase: &str| {
            json!({
                "phase": phase, "outcomes": {"ok": 2, "timeout": 1}, "carried": {"timeout": 4},
                "times": {"response": times(&[5, 7, 1000]), "service": times(&[4, 6, 900])}
            })
        };
        let old = json!({
            "unanswered": times(&[50]), "intervals": [interval("warmup"), interval("measured")],
        });
        let new = upgrade_trial(old);
        let ages = &new["unanswered"]["ages"];
        assert_eq!(
            serde_json::from_value::<Times>(ages["timeout"].clone()).unwrap(),
            times(&[1000])
        );
        assert_eq!(
            serde_json::from_value::<Times>(ages[UnansweredAges::AT_END].clone()).unwrap(),
            times(&[50])
        );
        for interval in new["intervals"].as_array().unwrap() {
            let response: Times =
                serde_json::from_value(interval["times"]["response"].clone()).unwrap();
            assert_eq!(response, times(&[5, 7]));
        }
    }

    #[test]
    fn invalid_trial_stays_invalid() {
        for nonsense in [
            json!({}),
            json!([]),
            json!(3),
            json!("x"),
            json!({"unanswered": [1], "intervals": 3}),
            json!({"intervals": [3]}),
            json!({"intervals": [[]]}),
            json!({"intervals": [{"times": 4, "outcomes": {"timeout": 1}}]}),
            json!({"intervals": [{"times": [4], "outcomes": {"timeout": 1}}]}),
            json!({"intervals": [{"by_request": [3], "outcomes": {}}]}),
            json!({"intervals": [{"outcomes": {"timeout": 1}}]}),
        ] {
            assert!(
                serde_json::from_value::<crate::TrialRecord>(super::super::trial(1, nonsense))
                    .is_err()
            );
        }
    }
}
