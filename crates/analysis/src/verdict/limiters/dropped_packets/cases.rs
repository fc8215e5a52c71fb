//! Test cases of the limiter `dropped_packets`.

use dyno_model::outcome::Outcome;

use crate::verdict::Confidence::High;
use crate::verdict::Resource;
use crate::verdict::table::limiter::{LimiterCase, check_limiter_cases, high};
use crate::verdict::table::world::TrialWorld;

const CASES: &[LimiterCase] = &[
    high(|w| w.set_tracking(64, Some(1)), |w| w.set_tracking(64, Some(0)))
        .given(|w| {
            *w = TrialWorld::with_responses(0);
            w.add_outcomes(1, Outcome::ConnectTimeout);
        })
        .near_miss_is(Resource::Failure, High),
    // Dropped packets cannot end a process.
    high(
        |w| w.set_tracking(64, Some(9)),
        |w| {
            w.set_tracking(64, Some(9));
            w.record.server_failure = Some("crashed: it left".into());
        },
    )
    .near_miss_is(Resource::Failure, High),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::DroppedPackets, CASES);
}
