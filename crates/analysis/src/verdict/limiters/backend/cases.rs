//! Test cases of the limiter `backend`.

use crate::backend_use::BackendUse;
use crate::server::{Call, CallRates, ServerUse, Throttling};
use crate::verdict::Confidence::Medium;
use crate::verdict::Resource;
use crate::verdict::table::limiter::{
    LimiterCase, backend_use, check_limiter_cases, high, medium, set_shared_cpus,
};
use crate::verdict::table::world::{MS, S, TrialWorld};

const CASES: &[LimiterCase] = &[
    high(
        |w| w.backends = vec![backend_use("cache", 0.2, false), backend_use("db", 0.9, false)],
        |w| w.backends = vec![backend_use("db", 0.899, false)],
    )
    .given(|w| w.set_in_flight_time(64 * S))
    .near_miss_is(Resource::Elsewhere, Medium),
    high(
        |w| set_shared_cpus(w, 400, 0.55),
        |w| {
            w.set_server_cpu(400 * MS);
            w.backends = vec![backend_use("db", 0.55, false)];
        },
    ),
    // A back end that polls may fill the shared CPUs with nothing.
    medium(
        |w| w.backends = vec![BackendUse { shares_cpus: true, ..full_backend(None) }],
        |w| {
            w.backends = vec![BackendUse { shares_cpus: true, ..full_backend(Some(3.0)) }];
        },
    )
    .near_miss_is(Resource::Concurrency, Medium),
    high(
        |w| set_shared_cpus(w, 400, 0.5),
        // Server and back end share CPUs that have little time left.
        |w| set_shared_cpus(w, 400, 0.49),
    )
    .near_miss_is(Resource::Concurrency, Medium),
    // The busiest back end has separate CPUs.
    high(
        |w| w.backends = vec![backend_use("cache", 0.55, true), backend_use("db", 0.6, false)],
        |w| w.backends = vec![backend_use("cache", 0.34, true), backend_use("db", 0.6, false)],
    )
    .given(|w| w.set_server_cpu(400 * MS)),
    // A database reads until EAGAIN for each query.
    high(
        |w| w.backends = vec![reading_backend(0.74)],
        |w| w.backends = vec![reading_backend(0.75)],
    ),
    // Empty waits may take the CPU time of a back end that also works.
    high(
        |w| w.backends = vec![waiting_and_reading_backend(2.9)],
        |w| w.backends = vec![waiting_and_reading_backend(3.0)],
    )
    .near_miss_is(Resource::Backend, Medium),
    // A back end that polls is always full.
    medium(
        |w| w.backends = vec![full_backend(None)],
        |w| w.backends = vec![full_backend(Some(3.0))],
    ),
    // Without the results of its calls, a back end may poll.
    high(
        |w| w.backends = vec![backend_with_thread(1.0, Some(2.9))],
        |w| {
            let mut backend = backend_with_thread(1.0, Some(2.9));
            let calls = backend.server.calls.as_mut().expect("calls");
            let counted = Call { per_response: 50.0, ..Call::default() };
            calls.by_name = [("epoll_wait".into(), counted)].into();
            w.backends = vec![backend];
        },
    )
    .near_miss_is(Resource::Backend, Medium),
    // One thread of a back end that may use several CPUs is full.
    high(
        |w| w.backends = vec![backend_with_thread(0.9, Some(2.9))],
        |w| w.backends = vec![backend_with_thread(0.899, Some(2.9))],
    )
    .given(|w| w.set_in_flight_time(64 * S))
    .near_miss_is(Resource::Elsewhere, Medium),
    // A thread of a back end that polls is always busy.
    medium(
        |w| w.backends = vec![backend_with_thread(1.0, None)],
        |w| w.backends = vec![backend_with_thread(1.0, Some(3.0))],
    ),
    high(
        |w| w.backends = vec![throttled_backend(0.75, 60)],
        |w| w.backends = vec![throttled_backend(0.749, 60)],
    ),
    high(
        |w| w.backends = vec![throttled_backend(0.3, 500)],
        |w| w.backends = vec![throttled_backend(0.3, 499)],
    ),
    // A back end whose threads wait for its CPUs is a limit too.
    medium(
        |w| w.backends = vec![waiting_backend("db", 0.65, 0.5)],
        |w| w.backends = vec![waiting_backend("db", 0.65, 0.499)],
    )
    .given(|w| w.set_in_flight_time(64 * S))
    .near_miss_is(Resource::Elsewhere, Medium),
    medium(
        |w| w.backends = vec![waiting_backend("db", 0.85, 0.22)],
        |w| w.backends = vec![waiting_backend("db", 0.85, 0.2)],
    ),
];

#[test]
fn each_rule_triggers_at_its_bound() {
    check_limiter_cases(Resource::Backend, CASES);
}

/// A back end whose busiest thread has this utilisation. `idle_polls`: waits per response that
/// returned no event; `None`: its calls were not counted.
fn backend_with_thread(busiest: f64, idle_polls: Option<f64>) -> BackendUse {
    let mut backend = backend_use("db", busiest / 4.0, false);
    backend.server.busiest_serving_utilisation = Some(busiest);
    backend.server.calls = idle_polls.map(polls);
    backend
}

/// A back end whose only CPU is full. `idle_polls`: as above.
fn full_backend(idle_polls: Option<f64>) -> BackendUse {
    let mut backend = backend_use("db", 1.0, false);
    backend.server.calls = idle_polls.map(polls);
    backend
}

/// A back end whose only CPU is full, with 40 reads per response. `idle_share`: share of the reads
/// that failed with EAGAIN.
fn reading_backend(idle_share: f64) -> BackendUse {
    let mut backend = backend_use("db", 1.0, false);
    let again = Some((idle_share * 100.0) as u64);
    let call = Call { count: 100, per_response: 40.0, errors: again, again, ..Call::default() };
    let by_name = [("recvfrom".into(), call)].into();
    backend.server.calls = Some(CallRates { by_name, ..CallRates::default() });
    backend
}

/// The same, with ten reads that succeed, and this many waits per response that returned no event.
fn waiting_and_reading_backend(idle_waits: f64) -> BackendUse {
    let mut backend = full_backend(Some(idle_waits));
    let reads =
        Call { count: 100, per_response: 10.0, errors: Some(0), again: Some(0), ..Call::default() };
    let calls = backend.server.calls.as_mut().expect("calls");
    calls.by_name.insert("recvfrom".into(), reads);
    backend
}

/// Calls with this many waits per response that returned no event.
fn polls(per_response: f64) -> CallRates {
    let call = Call { per_response, errors: Some(0), returned_mean: Some(0.0), ..Call::default() };
    CallRates { by_name: [("epoll_wait".into(), call)].into(), ..CallRates::default() }
}

/// A back end that its CPU quota throttled in some of 1,000 periods.
fn throttled_backend(utilisation: f64, throttled_periods: u64) -> BackendUse {
    let mut backend = backend_use("db", utilisation, false);
    backend.server.throttling = Some(Throttling { periods: 1000, throttled_periods });
    backend
}

/// A back end on two CPUs for a second, which other programs used for half a second. `waited_s`:
/// time that its threads waited for a CPU.
fn waiting_backend(name: &str, utilisation: f64, waited_s: f64) -> BackendUse {
    let mut backend = backend_use(name, utilisation, false);
    (backend.server.cpu_allowed_s, backend.server.run_delay_s) = (Some(2.0), Some(waited_s));
    backend.server.others_on_its_cpus_s = Some(0.5);
    backend
}

/// A back end may wait for its own threads, for the server, or for its quota.
#[test]
fn back_end_alone_on_its_cpus_is_not_starved() {
    let resource = |change: fn(&mut ServerUse)| {
        let mut world = TrialWorld::default();
        world.set_in_flight_time(64 * S);
        let mut backend = waiting_backend("db", 0.65, 0.5);
        change(&mut backend.server);
        world.backends = vec![backend];
        world.limiter().resource
    };
    assert_eq!(resource(|_| {}), Resource::Backend);
    assert_eq!(resource(|db| db.others_on_its_cpus_s = Some(0.19)), Resource::Elsewhere);
    assert_eq!(resource(|db| db.others_on_its_cpus_s = None), Resource::Elsewhere);
    let is_throttled: fn(&mut ServerUse) =
        |db| db.throttling = Some(Throttling { periods: 1000, throttled_periods: 60 });
    assert_eq!(resource(is_throttled), Resource::Elsewhere);
}
