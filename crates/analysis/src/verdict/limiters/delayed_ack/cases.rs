//! Test cases of the limiter `delayed_ack`.

use dyno_model::sample::CallUse;

use crate::verdict::Confidence::{High, Medium};
use crate::verdict::Resource;
use crate::verdict::table::limiter::{LimiterCase, check_limiter_cases, high, medium};
use crate::verdict::table::world::MS;

const CASES: &[LimiterCase] = &[
    high(|w| w.delay_responses(8, 40, 15), |w| w.delay_responses(8, 40, 14))
        .near_miss_is(Resource::Concurrency, Medium),
    // If few acknowledgements are delayed, the server may instead wait for a query between two
    // writes of a response.
    high(|w| w.set_delayed_acks(100), |w| w.set_delayed_acks(99))
        .given(|w| w.delay_responses(8, 40, 20))
        .near_miss_is(Resource::DelayedAck, Medium),
    high(|w| w.delay_responses(8, 40, 24), |w| w.delay_responses(8, 40, 25))
        .near_miss_is(Resource::DelayedAck, Medium),
    high(
        |w| w.delay_responses(8, 40, 20),
        |w| {
            w.delay_responses(8, 40, 20);
            w.sleep_once_per_response();
        },
    )
    .near_miss_is(Resource::DelayedAck, Medium),
    // Without the results of calls, a response may wait for a timer. Calls without a name may
    // sleep.
    medium(
        |w| w.set_calls("epoll_wait", CallUse { count: 400, errors: None, ..CallUse::default() }),
        |w| {
            let calls = CallUse { count: 400, returned: Some(400), ..CallUse::default() };
            w.set_calls("epoll_wait", calls);
        },
    )
    .given(|w| w.delay_responses(8, 40, 20))
    .near_miss_is(Resource::DelayedAck, High),
    // A delayed acknowledgement explains at least 38 of the 40 ms. A server that computes each
    // response for more than the other 2 ms may spend the time in another way.
    high(
        |w| w.delay_responses(8, 40, 20),
        |w| {
            w.delay_responses(8, 40, 20);
            w.allowed_cpus = 4.0;
            w.server_cgroup().cpu_ns = Some(200 * 3 * MS);
        },
    )
    .near_miss_is(Resource::DelayedAck, Medium),
    medium(
        |w| {
            w.delay_responses(8, 40, 20);
            w.server_counters().calls = None;
        },
        |w| {
            w.delay_responses(8, 20, 20);
            w.server_counters().calls = None;
        },
    )
    .near_miss_is(Resource::Concurrency, Medium),
    medium(
        |w| {
            w.set_nodelay(0);
            w.server_counters().calls = None;
        },
        |w| {
            w.set_nodelay(8);
            w.server_counters().calls = None;
        },
    )
    .given(|w| w.delay_responses(8, 40, 20))
    .near_miss_is(Resource::Concurrency, Medium),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::DelayedAck, CASES);
}
