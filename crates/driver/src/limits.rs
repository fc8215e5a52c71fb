//! Every bound of the drivers, and what happens on reaching it.

/// Entries of a submission queue. A turn that queues more operations submits in between.
pub const SUBMISSIONS: u32 = 1024;

/// Sends that are handed over with one system call, so that none is stamped before another call has
/// taken it. More go with the next one.
pub const SENDS_PER_BATCH: usize = SUBMISSIONS as usize / 2;

/// Size of one receive buffer. A longer answer arrives as several completions.
pub const BUFFER_BYTES: usize = 8 * 1024;

/// Fewest and most receive buffers of an io_uring driver; between them, one per connection. Without
/// a free buffer the kernel ends a receive, which is armed again once buffers are back.
pub const BUFFERS_MIN: u16 = 64;
pub const BUFFERS_MAX: u16 = 512;

/// Size of the one buffer that the epoll driver reads into.
pub const READ_BYTES: usize = 64 * 1024;

/// Bytes allocated for the output of a connection with its first request: enough for a few. More
/// are allocated when more wait.
pub const OUT_BYTES: usize = 256;

/// Events taken from one `epoll_wait`. More wait for the next turn.
pub const EVENTS: usize = 1024;

/// Waits longer than this are ended by one standing timer; shorter ones have a timer each, which is
/// exact.
pub const STANDING_TIMER_NS: u64 = 2_000_000;

/// How long until a Unix socket whose queue of new connections was full is tried again.
pub const PUT_OFF_NS: u64 = 1_000_000;
