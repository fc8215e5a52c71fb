//! Test cases of the limiter `failure`.

use dyno_model::outcome::Outcome;

use crate::verdict::Resource;
use crate::verdict::table::limiter::{LimiterCase, check_limiter_cases, high};
use crate::verdict::table::world::TrialWorld;

const CASES: &[LimiterCase] = &[
    high(|w| w.record.server_failure = Some("it left".into()), |_| {}),
    high(
        |w| {
            *w = TrialWorld::with_responses(0);
            w.add_outcomes(1, Outcome::Reset);
        },
        |w| w.add_outcomes(1, Outcome::Reset),
    ),
    // An incorrect response is a failure of the server, and one failed request is not.
    high(
        |w| w.add_outcomes(1, Outcome::UnexpectedStatus),
        |w| w.add_outcomes(1, Outcome::ClosedEarly),
    ),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::Failure, CASES);
}
