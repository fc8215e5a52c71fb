//! Every bound and patience around processes, and what happens on reaching it.

use std::time::Duration;

/// The most that a tool may print in answer to a question. With more it is ended, and what it said
/// does not count.
pub const ANSWER_BYTES: u64 = 1 << 20;

/// The most that is kept of what a subject or a build prints. What is beyond is cut off from the
/// front, but for the last
/// [`LOG_TAIL_BYTES`]: temporary files are often memory, and the subject's own limit would not count them.
pub const LOG_BYTES: u64 = 4 << 20;

/// How often the length of a log is looked at. A server that logs a gigabyte per second is 100 MB
/// over by then.
pub const LOG_GLANCE: Duration = Duration::from_millis(100);

/// The end of a log from which failures show the last lines.
pub const LOG_TAIL_BYTES: u64 = 64 << 10;

/// How long killed processes may take to leave their control group: milliseconds in practice,
/// seconds where they had much memory. What is left then is told of, and is the guard's to try once
/// more.
pub const GROUP: Duration = Duration::from_secs(5);

/// The same for all groups together that an earlier dyno has left. Its guard has waited already,
/// and every run comes by here.
pub const SWEEP: Duration = Duration::from_millis(500);

/// How often it is looked whether a group is empty.
pub const GROUP_GLANCE: Duration = Duration::from_millis(10);

/// How often a group is made anew that another dyno's sweep removes before it is held.
pub const HOLDS: usize = 50;

/// How often processes are moved out of a group until none is left there: each may start others
/// meanwhile.
pub const MOVES: usize = 16;

/// How long a server that was asked to stop is waited for after the first Ctrl-C, if its own
/// deadline is later. Then it is killed.
pub const INTERRUPTED_STOP: Duration = Duration::from_secs(5);

/// How often the minder of a command looks for what is left of it when it ends that, and how many
/// times: for ten seconds. What the kernel does not let end by then hangs in a system call, and is
/// not waited for.
pub const MINDER_GLANCE: Duration = Duration::from_millis(1);
pub const MINDER_LOOKS: u32 = 10_000;

/// How often dyno looks for the orphans of a minder that was killed, [`MINDER_GLANCE`] apart: for a
/// second. What hangs in a system call longer is not waited for.
pub const STRAY_LOOKS: u32 = 1000;

/// How long the minder itself may take to end. Then it is killed, and the kernel kills the shell
/// with it.
pub const MINDER: Duration = Duration::from_secs(12);
