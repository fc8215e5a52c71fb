//! All limits and time-outs of checks, and the effect of reaching each.

use std::time::Duration;

/// Interval between attempts to reach a starting subject. It is short because it is the resolution
/// of the start-up time; a refused attempt on loopback costs some 10 µs.
pub const POLL: Duration = Duration::from_micros(100);

/// Time-out of one attempt to connect to a starting subject: a full accept queue does not respond.
/// The attempt is then repeated, until the subject's deadline.
pub const CONNECT: Duration = Duration::from_secs(1);

/// How long one attempt to get a first response may take before the next is made.
pub const ATTEMPT: Duration = Duration::from_secs(2);

/// Time-out of one contract check, after which it has failed, unanswered.
pub const CHECK: Duration = Duration::from_secs(5);

/// Longest body that is kept of a response outside of loads. A longer one is an error where the
/// whole body is needed.
pub const BODY_BYTES: usize = 16 << 20;

/// Bytes that are kept of a body that is not compared: enough to show it.
pub const SHOWN_BODY_BYTES: usize = 500;

/// Most repetitions of a check: checks are for promises, not for load.
pub const TIMES: u32 = 10_000;

/// Most concurrent requests of a check over HTTP/2.
pub const STREAMS: u32 = 1_000;

/// Interval between runs of a readiness command: each run starts a shell.
pub const COMMAND_POLL: Duration = Duration::from_millis(20);

/// Time limit for a server's exit where a contract has none. A slower server has failed the check.
pub const LIFE: Duration = Duration::from_secs(15);

/// Highest time limit that a contract may set.
pub const LIFE_MOST: Duration = Duration::from_secs(120);

/// Time-out of expected output.
pub const PRINTED: Duration = Duration::from_secs(2);

/// Time for further output and requests of a server where a promise has an upper limit.
pub const SETTLED: Duration = Duration::from_millis(500);

/// Time for which the back end's responses are held back from a server that is asked to end.
pub const HELD: Duration = Duration::from_millis(500);

/// Bytes that are kept of a server's requests to its back end. The rest is forwarded unchecked.
pub const RELAYED_BYTES: usize = 16 << 20;
