//! Every bound and patience of asking a server, and what happens on reaching it.

use std::time::Duration;

/// How often a starting subject's port is tried, and its first answer asked for. Short, because the
/// resolution of start-up time is this; a refused attempt on loopback costs some 10 µs.
pub const POLL: Duration = Duration::from_micros(100);

/// How long one attempt to connect to a starting subject may take: a full queue of new connections
/// answers nothing at all. Then it is tried again, until its deadline.
pub const CONNECT: Duration = Duration::from_secs(1);

/// How long one attempt to get a first answer may take before the next is made.
pub const ATTEMPT: Duration = Duration::from_secs(2);

/// How long one contract check may take. Then it has failed, unanswered.
pub const CHECK: Duration = Duration::from_secs(5);

/// The longest body that is kept of an answer outside of loads. A longer one is an error where all
/// of it is wanted.
pub const BODY_BYTES: usize = 16 << 20;

/// Bytes that are kept of a body that nobody compares: enough to show what came.
pub const SHOWN_BODY_BYTES: usize = 500;

/// The most that a check may ask in a row. It is for promises, not for load.
pub const TIMES: u32 = 10_000;

/// The most requests that a check may have in flight at once over HTTP/2.
pub const STREAMS: u32 = 1_000;

/// How often a command that says whether a part is ready is tried: each try is a shell of its own.
pub const COMMAND_POLL: Duration = Duration::from_millis(20);

/// How long a server may take to end where a contract says nothing. Then it has failed the check.
pub const LIFE: Duration = Duration::from_secs(15);

/// The most that a contract may give it.
pub const LIFE_MOST: Duration = Duration::from_secs(120);

/// How long what a server prints is waited for.
pub const PRINTED: Duration = Duration::from_secs(2);

/// How long what a server prints and asks is waited for where there must be no more of it than so
/// much.
pub const SETTLED: Duration = Duration::from_millis(500);

/// How long answers of a back end are held back from a server that is asked to end.
pub const HELD: Duration = Duration::from_millis(500);

/// Bytes that are kept of what a server asks its back end. More is handed on, and not looked at.
pub const RELAYED_BYTES: usize = 16 << 20;
