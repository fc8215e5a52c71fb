//! Test cases of the limiter `link`.

use crate::verdict::Confidence::Low;
use crate::verdict::Resource;
use crate::verdict::table::limiter::{LimiterCase, check_limiter_cases, medium};
use crate::verdict::table::world::{MS, S};

const CASES: &[LimiterCase] = &[
    medium(|w| w.send_bytes(112_500_000), |w| w.send_bytes(112_499_999)),
    // If the server is busy too, the link may not be the limit.
    medium(
        |w| {
            w.set_server_cpu(750 * MS - 1);
            w.send_bytes(S);
        },
        |w| {
            w.set_server_cpu(750 * MS);
            w.send_bytes(S);
        },
    )
    .near_miss_is(Resource::Unknown, Low),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::Link, CASES);
}
