//! Test cases of the limiter `refusal`.

use dyno_model::outcome::Outcome;

use crate::verdict::Confidence::High;
use crate::verdict::Resource;
use crate::verdict::table::limiter::{LimiterCase, check_limiter_cases, high};

const CASES: &[LimiterCase] = &[high(
    |w| {
        w.refuse_connections(1);
    },
    |w| {
        w.refuse_connections(0);
        w.add_outcomes(1, Outcome::ConnectReset);
    },
)
.near_miss_is(Resource::Failure, High)];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::Refusal, CASES);
}
