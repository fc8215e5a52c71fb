//! Every bound and patience of asking a server, and what happens on reaching it.

use std::time::Duration;

/// How often a starting subject's port is tried, and its first answer asked for. Short, because the resolution of
/// start-up time is this; a refused attempt on loopback costs some 10 µs.
pub const POLL: Duration = Duration::from_micros(100);

/// How long one attempt to connect to a starting subject may take: a full queue of new connections answers nothing at
/// all. Then it is tried again, until its deadline.
pub const CONNECT: Duration = Duration::from_secs(1);

/// How long one attempt to get a first answer may take before the next is made.
pub const ATTEMPT: Duration = Duration::from_secs(2);

/// How long one contract check may take. Then it has failed, unanswered.
pub const CHECK: Duration = Duration::from_secs(5);

/// The longest body that is kept of an answer outside of loads. A longer one is an error where all of it is wanted.
pub const BODY_BYTES: usize = 16 << 20;

/// Bytes that are kept of a body that nobody compares: enough to show what came.
pub const SHOWN_BODY_BYTES: usize = 500;

/// The most that a check may ask in a row. It is for promises, not for load.
pub const TIMES: u32 = 10_000;

/// The most requests that a check may have in flight at once over HTTP/2.
pub const STREAMS: u32 = 1_000;

/// How often a command that says whether a part is ready is tried: each try is a shell of its own.
pub const COMMAND_POLL: Duration = Duration::from_millis(20);
