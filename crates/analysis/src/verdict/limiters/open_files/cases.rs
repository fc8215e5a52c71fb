//! Test cases of the limiter `open_files`.

use dyno_model::outcome::Outcome;
use dyno_model::sample::{CallUse, ListenerUse, OpenFiles, SocketsUse};

use crate::verdict::Confidence::High;
use crate::verdict::Resource;
use crate::verdict::table::limiter::{LimiterCase, check_limiter_cases, high, medium};
use crate::verdict::table::world::{MS, TrialWorld};

const CASES: &[LimiterCase] = &[
    high(|w| set_open_files(w, 1023, 1), |w| set_open_files(w, 1022, 1)),
    // A server that has accepted all connections needs no further file.
    high(|w| set_open_files(w, 1024, 1), |w| set_open_files(w, 1024, 0)),
    // Requests of connections that are not accepted hang.
    high(|w| set_open_files(w, 1024, 1), |w| set_open_files(w, 1022, 1))
        .given(|w| {
            w.add_outcomes(1, Outcome::Timeout);
            w.set_in_flight_time(1130 * MS);
        })
        .near_miss_is(Resource::Failure, High),
    // A server that ended failed by itself.
    high(|_| {}, |w| w.record.server_failure = Some("it left".into()))
        .given(|w| set_open_files(w, 1024, 1))
        .near_miss_is(Resource::Failure, High),
    // A full CPU is the limit, unless calls that cannot accept fill it.
    medium(|w| fail_accepts(w, 1000), |w| fail_accepts(w, 999))
        .given(|w| {
            w.set_server_cpu(900 * MS);
            set_open_files(w, 1024, 1);
        })
        .near_miss_is(Resource::ServerCpu, High),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::OpenFiles, CASES);
}

/// Sets the open files of the server, whose limit is 1,024, and the connections that wait to be
/// accepted.
fn set_open_files(w: &mut TrialWorld, open: u64, queued: u64) {
    w.server_counters().sockets = Some(SocketsUse {
        listeners: vec![ListenerUse { port: 80, queued, backlog: 4096 }],
        open_files: Some(OpenFiles { open, limit: 1024 }),
        ..SocketsUse::default()
    });
}

/// Adds 1,500 calls to accept in 1,000 responses. `failed` of them fail, and 500 find no
/// connection.
fn fail_accepts(w: &mut TrialWorld, failed: u64) {
    let (errors, again) = (Some(500 + failed), Some(500));
    w.set_calls("accept4", CallUse { count: 1500, errors, again, returned: Some(0) });
}
