//! Limits and time-outs of the load generator, each with the effect of reaching it.

use std::time::Duration;

/// Number of source addresses of a loopback load whose connections are closed by dyno.
///
/// After dyno closes a connection, its port is in TIME_WAIT for a minute. On loopback the kernel
/// may reuse the port after one to two seconds (`tcp_tw_reuse` = 2). Until then the kernel searches
/// half of the port range (14,000 ports) for a free port for each connection, which takes longer
/// than the other work for a connection. From one address a load opens at most 14,000 connections
/// per second. With this many addresses the CPU is the limit.
pub const LOOPBACK_SOURCES: u8 = 32;

/// Open files that a load needs in addition to one per connection. With fewer the load is refused
/// before it begins.
pub const RESERVED_FILES: u64 = 64;

/// Time from the decision that a load begins, or ends early, to the instant at which all its
/// workers begin or end, nanoseconds. A worker that reads the decision after this instant ends its
/// window a little later than the other workers.
pub const BEGIN_NOTICE_NS: u64 = 2_000_000;

/// Interval at which a load's control thread checks whether to stop. The thread sleeps for this
/// long at most, so a check is late by at most this interval.
pub const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Time in which a worker of a load has to answer, in addition to the time-outs of its requests,
/// nanoseconds. The load of a worker that does not answer fails.
pub const ANSWER_NS: u64 = 60_000_000_000;

/// Maximum number of recorded samples of a load. With more samples, every second sample is dropped.
pub const MAX_SAMPLES: usize = 1024;
