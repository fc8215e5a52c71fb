//! Test cases of the limiter `offered_rate`.

use dyno_model::outcome::Outcome;
use dyno_model::plan::Arrivals;
use dyno_model::sample::CallUse;

use crate::verdict::Confidence::{High, Low, Medium};
use crate::verdict::Resource;
use crate::verdict::table::limiter::{
    LimiterCase, check_limiter_cases, high, set_thread, set_throttled_periods,
};
use crate::verdict::table::world::{MS, S, TrialWorld};

const CASES: &[LimiterCase] = &[
    high(
        |w| w.set_rate(1000.0),
        |w| {
            w.set_rate(1000.0);
            w.interval().started = 1500;
        },
    )
    .near_miss_is(Resource::Unknown, Low),
    // Failed requests are no backlog, but a server that fails them does not keep up.
    high(
        |w| w.add_outcomes(10, Outcome::Reset),
        |w| {
            w.interval().started = 1500;
            w.add_outcomes(500, Outcome::Reset);
        },
    )
    .given(|w| w.set_rate(1000.0))
    .near_miss_is(Resource::Unknown, Low),
    // A server that keeps up is not limited by a quota, a compiler or a collector.
    high(
        |w| {
            w.set_server_cpu(900 * MS);
            set_throttled_periods(w, 130);
        },
        |w| {
            w.interval().started = 1500;
            w.set_server_cpu(900 * MS);
            set_throttled_periods(w, 130);
        },
    )
    .given(|w| w.set_rate(1000.0))
    .near_miss_is(Resource::CpuQuota, High),
    high(
        |w| {
            w.set_server_cpu(940 * MS);
            w.add_compiler_thread(300 * MS);
        },
        |w| {
            w.set_server_cpu(950 * MS);
            w.add_compiler_thread(300 * MS);
        },
    )
    .given(|w| w.set_rate(1000.0))
    .near_miss_is(Resource::Jit, High),
    high(
        |w| {
            w.set_server_cpu(940 * MS);
            w.add_collector_thread(400 * MS);
        },
        |w| {
            w.set_server_cpu(950 * MS);
            w.add_collector_thread(400 * MS);
            set_throttled_periods(w, 130);
        },
    )
    .given(|w| w.set_rate(1000.0))
    .near_miss_is(Resource::Gc, High),
    high(|w| w.set_server_cpu(950 * MS - 1), |w| w.set_server_cpu(950 * MS))
        .given(|w| w.set_rate(1000.0))
        .near_miss_is(Resource::ServerCpu, Medium),
    high(
        |w| {
            w.step.arrivals = trace_arrivals();
            w.record.samples.clear();
        },
        |w| w.record.samples.clear(),
    )
    .near_miss_is(Resource::Unknown, Low),
    // A full thread may be the limit even if the server keeps up. A spinning thread is always full.
    high(|w| set_rate_and_thread(w, 950 * MS - 1), |w| set_rate_and_thread(w, 950 * MS))
        .near_miss_is(Resource::ServerThread, Medium),
    // A server that uses CPU time while no request is in flight polls: its full CPU is not the
    // limit.
    high(|w| w.set_in_flight_time(390 * MS), |w| w.set_in_flight_time(400 * MS))
        .given(|w| {
            w.set_rate(1000.0);
            w.set_server_cpu(S);
        })
        // A server that spins fills its CPU at every rate.
        .near_miss_is(Resource::ServerCpu, Medium),
    // The CPU of a server that reads until EAGAIN may be full of work.
    high(|w| set_reads_at_rate(w, 39_000), |w| set_reads_at_rate(w, 20_000))
        .near_miss_is(Resource::OfferedRate, Medium),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::OfferedRate, CASES);
}

fn trace_arrivals() -> Arrivals {
    Arrivals::Trace { file: "t".into(), count: 1000, sha256: String::new() }
}

/// Also sets an offered rate.
fn set_rate_and_thread(w: &mut TrialWorld, run_ns: u64) {
    set_thread(w, run_ns);
    w.set_rate(1000.0);
}

/// Sets 40,000 reads at a full CPU and an offered rate. `again`: reads that failed with EAGAIN.
fn set_reads_at_rate(w: &mut TrialWorld, again: u64) {
    w.set_rate(1000.0);
    w.set_server_cpu(S);
    let reads =
        CallUse { count: 40_000, errors: Some(again), again: Some(again), ..CallUse::default() };
    w.set_calls("recvfrom", reads);
}
