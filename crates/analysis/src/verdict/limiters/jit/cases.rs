//! Test cases of the limiter `jit`.

use crate::verdict::Confidence::{High, Low};
use crate::verdict::Resource;
use crate::verdict::table::limiter::{LimiterCase, check_limiter_cases, high};
use crate::verdict::table::world::{MS, S};

const CASES: &[LimiterCase] = &[
    high(|w| w.add_compiler_thread(200 * MS + 1), |w| w.add_compiler_thread(200 * MS))
        .given(|w| w.set_server_cpu(S))
        .near_miss_is(Resource::ServerCpu, High),
    high(
        |w| {
            w.set_server_cpu(900 * MS);
            w.add_compiler_thread(300 * MS);
        },
        |w| {
            w.set_server_cpu(900 * MS - 1);
            w.add_compiler_thread(300 * MS);
        },
    )
    .near_miss_is(Resource::Unknown, Low),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::Jit, CASES);
}
