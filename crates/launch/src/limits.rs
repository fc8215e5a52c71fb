//! Every bound and patience around processes, and what happens on reaching it.

use std::time::Duration;

/// The most that a tool may print in answer to a question. With more it is ended, and what it said
/// does not count.
pub const ANSWER_BYTES: u64 = 1 << 20;

/// Largest log of a subject or a build, bytes. A longer log is cut to its last [`LOG_TAIL_BYTES`]:
/// temporary files are often memory, and the subject's own limit would not count them.
pub const LOG_BYTES: u64 = 4 << 20;

/// How often the length of a log is looked at. A server that logs a gigabyte per second is 100 MB
/// over by then.
pub const LOG_GLANCE: Duration = Duration::from_millis(100);

/// The end of a log from which failures show the last lines.
pub const LOG_TAIL_BYTES: u64 = 64 << 10;

/// Longest time that killed processes may take to leave their control group: milliseconds in
/// practice, seconds if they had much memory. Processes that are left then are reported, and the
/// guard tries once more.
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

/// Interval at which the minder of a command looks for remaining processes when it ends them, and
/// the number of looks: ten seconds in all. A process that is left then hangs in a system call, and
/// is not waited for.
pub const MINDER_GLANCE: Duration = Duration::from_millis(1);
pub const MINDER_LOOKS: u32 = 10_000;

/// Number of looks for the orphans of a minder that was killed, [`MINDER_GLANCE`] apart: one second
/// in all. A process that hangs in a system call for longer is not waited for.
pub const STRAY_LOOKS: u32 = 1000;

/// How long the minder itself may take to end. Then it is killed, and the kernel kills the shell
/// with it.
pub const MINDER: Duration = Duration::from_secs(12);
