//! Every bound of the drivers, and what happens on reaching it.

/// Entries of a submission queue. A turn that queues more operations submits in between.
pub const SUBMISSIONS: u32 = 1024;

/// Size of one receive buffer. A longer answer arrives as several completions.
pub const BUFFER_BYTES: usize = 8 * 1024;

/// Fewest and most receive buffers of an io_uring driver; between them, one per connection. Without a free buffer
/// the kernel ends a receive, which is armed again once buffers are back.
pub const BUFFERS_MIN: u16 = 64;
pub const BUFFERS_MAX: u16 = 1024;

/// Size of the one buffer that the epoll driver reads into.
pub const READ_BYTES: usize = 64 * 1024;

/// Events taken from one `epoll_wait`. More wait for the next turn.
pub const EVENTS: usize = 1024;
