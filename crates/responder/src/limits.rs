//! All limits of the responder, with what happens when each is reached.

/// Maximum number of new connections that wait to be accepted. The clients of further ones retry
/// their SYN.
pub const BACKLOG: i32 = 4096;

/// Size of the read buffer. Further bytes are read in the next turn.
pub const READ_BYTES: usize = 64 * 1024;

/// Maximum number of events taken from one `epoll_wait`. Further events wait for the next turn.
pub const EVENTS: usize = 1024;

/// Longest body of custom content, because HTTP/2 responses do not wait for flow-control windows. A
/// longer one is rejected at startup.
pub const CONTENT_BYTES: usize = 1024;
