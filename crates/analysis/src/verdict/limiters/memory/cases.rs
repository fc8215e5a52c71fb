//! Test cases of the limiter `memory`.

use crate::verdict::Confidence::Medium;
use crate::verdict::Resource;
use crate::verdict::table::limiter::{LimiterCase, check_limiter_cases, high, medium, read_pages};
use crate::verdict::table::world::MS;

const CASES: &[LimiterCase] = &[
    high(|w| read_pages(w, 50, Some(150 * MS)), |w| read_pages(w, 49, Some(150 * MS))),
    // If the memory pressure is below half of the time of waits for the disk, most pages may be
    // read for the first time.
    high(|w| read_pages(w, 50, Some(150 * MS)), |w| read_pages(w, 50, Some(150 * MS - 1)))
        .near_miss_is(Resource::Memory, Medium),
    medium(|w| read_pages(w, 50, None), |w| read_pages(w, 49, None)),
    // Waits for a fast disk are short, so page faults per response decide.
    medium(
        |w| w.server_counters().threads[0].faults_major = Some(1000),
        |w| w.server_counters().threads[0].faults_major = Some(999),
    )
    .given(|w| w.all_server_counters().for_each(|u| u.threads[0].faults_major = Some(0))),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::Memory, CASES);
}
