//! Limits and time-outs of processes, each with the effect of reaching it.

use std::time::Duration;

/// Maximum number of bytes that a queried tool may print. A tool that prints more is ended, and its
/// output is discarded.
pub const OUTPUT_BYTES: u64 = 1 << 20;

/// Largest log of a subject or a build, bytes. A longer log is cut to its last [`LOG_TAIL_BYTES`]:
/// temporary files are often in memory, and the memory limit of the subject does not include them.
pub const LOG_BYTES: u64 = 4 << 20;

/// Interval between two checks of a log's length. A server that logs a gigabyte per second exceeds
/// the limit by 100 MB in this time.
pub const LOG_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Length of the end of a log, from which failures show the last lines.
pub const LOG_TAIL_BYTES: u64 = 64 << 10;

/// Longest line of a followed log, bytes. A longer line is cut to this length: output without line
/// feeds would otherwise be stored in memory without a bound.
pub const LINE_BYTES: usize = 64 << 10;

/// Longest time that killed processes may take to leave their control group. Usually they take
/// milliseconds, or seconds if they had much memory. Processes that remain after this time are
/// reported, and the guard tries once more.
pub const GROUP_REMOVAL: Duration = Duration::from_secs(5);

/// Longest total wait for the removal of groups that earlier dyno processes abandoned. The time is
/// short, because it may delay every run.
pub const SWEEP: Duration = Duration::from_millis(500);

/// Interval between two checks whether a group is empty.
pub const GROUP_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum number of attempts to create a group. An attempt fails if another dyno process removes
/// the group before this process locks it.
pub const CREATE_ATTEMPTS: usize = 50;

/// Maximum number of passes of moving processes out of a group. Further passes are needed for
/// processes that were started during a pass.
pub const MOVE_PASSES: usize = 16;

/// Longest time that a server may take to stop after the first Ctrl-C. After this time, the server
/// is killed, even if its own deadline is later.
pub const INTERRUPTED_STOP: Duration = Duration::from_secs(5);

/// Interval at which the minder of a command kills remaining processes.
pub const MINDER_PAUSE: Duration = Duration::from_millis(1);

/// Number of passes in which the minder kills remaining processes: ten seconds in all. A process
/// that still remains hangs in a system call and is abandoned.
pub const MINDER_PASSES: u32 = 10_000;

/// Number of passes of killing the orphans of a minder that was killed, [`MINDER_PAUSE`] apart: one
/// second in all. A process that hangs in a system call for longer is abandoned.
pub const ORPHAN_PASSES: u32 = 1000;

/// Longest time that the minder itself may take to end. After this time, the minder is killed, and
/// the kernel kills the command with it.
pub const MINDER_END: Duration = Duration::from_secs(12);
