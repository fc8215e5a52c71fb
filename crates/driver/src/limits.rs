//! All limits of the drivers, with what happens when each is reached.

/// Entries of a submission queue. A turn with more operations submits them in several calls.
pub const SUBMISSIONS: u32 = 1024;

/// Sends that are handed over with one system call. One call for all of them means that their
/// timestamp is read right before it. Further sends go with the next call.
pub const SENDS_PER_BATCH: usize = SUBMISSIONS as usize / 2;

/// Size of one receive buffer. A longer response arrives as several completions.
pub const BUFFER_BYTES: usize = 8 * 1024;

/// Minimum and maximum number of receive buffers of an io_uring driver; in between, one per
/// connection. Without a free buffer the kernel ends a receive, which is armed again once buffers
/// are returned.
pub const BUFFERS_MIN: u16 = 64;
pub const BUFFERS_MAX: u16 = 512;

/// Size of the buffer that the epoll driver reads into.
pub const READ_BYTES: usize = 64 * 1024;

/// Bytes allocated for the output of a connection with its first request: enough for a few
/// requests. More are allocated when more bytes wait.
pub const OUT_BYTES: usize = 256;

/// Maximum number of events taken from one `epoll_wait`. Further events wait for the next turn.
pub const EVENTS: usize = 1024;

/// Waits longer than this share one standing timer; shorter ones have an exact timer each.
pub const STANDING_TIMER_NS: u64 = 2_000_000;

/// Delay before a connect to a Unix socket whose queue of new connections was full is retried.
pub const CONNECT_RETRY_NS: u64 = 1_000_000;
