//! All limits of the drivers, each with the effect of reaching it.

/// Entries of a submission queue. With more operations, a turn of the event loop submits them in
/// several calls.
pub const SUBMISSIONS: u32 = 1024;

/// Sends that are handed over with one system call. All of them get the timestamp that is read
/// right before this call. Further sends follow in the next call.
pub const SENDS_PER_BATCH: usize = SUBMISSIONS as usize / 2;

/// Size of one receive buffer. A longer response arrives as several completions, and a longer
/// datagram is cut.
pub const BUFFER_BYTES: usize = 8 * 1024;

/// Minimum number of receive buffers of an io_uring driver, which has about one per connection. If
/// no buffer is free, the kernel ends the receive of a connection. The driver arms the receive
/// again when buffers are returned.
pub const BUFFERS_MIN: u16 = 64;

/// Maximum number of receive buffers of an io_uring driver.
pub const BUFFERS_MAX: u16 = 512;

/// Size of the epoll driver's read buffer.
pub const READ_BYTES: usize = 64 * 1024;

/// Bytes that the first request of a connection allocates for its output: enough for a few
/// requests. The buffer grows when more bytes wait.
pub const OUT_BYTES: usize = 256;

/// Maximum number of events taken from one `epoll_wait`. Further events wait for the next turn.
pub const EVENTS: usize = 1024;

/// Waits longer than this share one standing timer, because a timer for each wait would cost more
/// CPU time than the rest of the wait's system call. Each shorter wait has its own exact timer.
pub const STANDING_TIMER_NS: u64 = 2_000_000;

/// Delay before the driver retries a connect to a Unix socket whose queue of new connections was
/// full.
pub const CONNECT_RETRY_NS: u64 = 1_000_000;
