//! The default load, and settings that follow from others.

use dyno_engine::{Http2, SpinPolicy, limits};
use dyno_model::plan::{self, Arrivals, ConnectionSettings};

use crate::limits::STEP_WARMUP_NS;

/// Returns the default load, the base for suites, the command line and dyno's own checks. `driver`:
/// the best driver of the machine.
#[must_use]
pub fn default_load(driver: plan::DriverKind) -> plan::Load {
    const S: u64 = 1_000_000_000;
    plan::Load {
        warmup_ns: STEP_WARMUP_NS,
        until_steady: None,
        still_warming: plan::StillWarming::Refused,
        proxy_protocol: None,
        connection: ConnectionSettings::default(),
        order: plan::Order::Fixed,
        duration_ns: 10 * S,
        requests: None,
        interval_ns: S,
        timeout_ns: 10 * S,
        connect_timeout_ns: 5 * S,
        drain_ns: drain_ns(10 * S),
        first_byte_timeout_ns: None,
        requests_per_connection: None,
        ramp_connections_ns: None,
        reconnect: plan::Reconnect::Backoff,
        max_waiting: None,
        check_one_in: CHECK_ONE_IN,
        spin: plan::Spin::Auto,
        priority: plan::Priority::Normal,
        threads: 1,
        driver,
        http2: Http2::default(),
        steps: Vec::new(),
    }
}

/// Default number of streams for a page in HTTP/2: the usual limit of servers, because browsers
/// request all resources of a page at once.
pub const PAGE_STREAMS: u32 = 100;

/// By default, one in this many responses is fully checked.
pub const CHECK_ONE_IN: u64 = 100;

/// Returns the length of the drain (the wait for the last responses after the window), for a
/// time-out. The drain includes the full time-out of the last request, so that the server and dyno
/// count the same number of requests.
#[must_use]
pub const fn drain_ns(timeout_ns: u64) -> u64 {
    if timeout_ns > limits::DRAIN_NS { timeout_ns } else { limits::DRAIN_NS }
}

/// Returns whether the workers of a load poll while they wait. With `auto`, they poll in an open
/// loop if the generator has separate CPUs.
#[must_use]
pub fn polling(requested: plan::Spin, arrivals: &Arrivals, has_own_cpus: bool) -> SpinPolicy {
    match requested {
        plan::Spin::Always => SpinPolicy::Always,
        plan::Spin::Auto if !arrivals.is_closed() && has_own_cpus => SpinPolicy::Near,
        plan::Spin::Auto | plan::Spin::Never => SpinPolicy::Never,
    }
}
