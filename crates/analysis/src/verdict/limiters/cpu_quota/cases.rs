//! Test cases of the limiter `cpu_quota`.

use crate::verdict::Confidence::Medium;
use crate::verdict::Resource;
use crate::verdict::table::limiter::{
    LimiterCase, check_limiter_cases, high, medium, set_throttled_periods,
};
use crate::verdict::table::world::MS;

const CASES: &[LimiterCase] = &[
    // The quota of a busy server throttles it. Bursts of an idle server are throttled too.
    high(
        |w| {
            w.set_server_cpu(750 * MS);
            set_throttled_periods(w, 51);
        },
        |w| {
            w.set_server_cpu(750 * MS - 1);
            set_throttled_periods(w, 51);
        },
    )
    .near_miss_is(Resource::CpuQuota, Medium),
    high(|w| set_throttled_periods(w, 500), |w| set_throttled_periods(w, 499))
        .near_miss_is(Resource::CpuQuota, Medium),
    medium(|w| set_throttled_periods(w, 51), |w| set_throttled_periods(w, 50)),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::CpuQuota, CASES);
}
