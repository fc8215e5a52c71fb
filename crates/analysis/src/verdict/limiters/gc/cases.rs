//! Test cases of the limiter `gc`.

use crate::verdict::Confidence::High;
use crate::verdict::Resource;
use crate::verdict::table::limiter::{LimiterCase, check_limiter_cases, high};
use crate::verdict::table::world::{MS, S};

const CASES: &[LimiterCase] =
    &[high(|w| w.add_collector_thread(300 * MS + 1), |w| w.add_collector_thread(300 * MS))
        .given(|w| w.set_server_cpu(S))
        .near_miss_is(Resource::ServerCpu, High)];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::Gc, CASES);
}
