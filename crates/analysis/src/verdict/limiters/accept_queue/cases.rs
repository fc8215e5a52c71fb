//! Test cases of the limiter `accept_queue`.

use dyno_model::sample::{ListenerUse, SocketsUse};

use crate::verdict::Confidence::Medium;
use crate::verdict::Resource;
use crate::verdict::table::limiter::{LimiterCase, check_limiter_cases, medium};
use crate::verdict::table::world::{S, TrialWorld};

const CASES: &[LimiterCase] = &[
    medium(
        |w| {
            w.plan.requests_per_connection = Some(1);
            w.server_counters().network.as_mut().expect("a network").listen_overflows = Some(1);
        },
        |w| {
            w.server_counters().network.as_mut().expect("a network").listen_overflows = Some(1);
        },
    ),
    // The server closes each connection after its response.
    medium(
        |w| {
            w.record.connections.opened = 64 + 500;
            w.server_counters().network.as_mut().expect("a network").listen_overflows = Some(1);
        },
        |w| {
            w.record.connections.opened = 64 + 499;
            w.server_counters().network.as_mut().expect("a network").listen_overflows = Some(1);
        },
    ),
    // Connections in the accept queue are waiting requests.
    medium(|w| set_accept_queue(w, 16, 8), |w| set_accept_queue(w, 17, 8))
        .near_miss_is(Resource::Concurrency, Medium),
    // A queue that is not full belongs to a server that accepts when it is ready.
    medium(|w| set_accept_queue(w, 10, 8), |w| set_accept_queue(w, 10, 7))
        .near_miss_is(Resource::Concurrency, Medium),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::AcceptQueue, CASES);
}

/// Sets requests in flight with a connection each, and how many of these wait to be accepted. The
/// queue is full with eight connections.
fn set_accept_queue(w: &mut TrialWorld, in_flight: u64, queued: u64) {
    w.set_in_flight_time(in_flight * S);
    w.plan.requests_per_connection = Some(1);
    let listeners = vec![ListenerUse { port: 80, queued, backlog: 8 }];
    w.server_counters().sockets = Some(SocketsUse { listeners, ..SocketsUse::default() });
}
