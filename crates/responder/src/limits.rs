//! Every bound of the responder, and what happens on reaching it.

/// New connections that wait to be accepted. The kernel answers more with a retry of their own.
pub const BACKLOG: i32 = 4096;

/// Size of the one buffer that is read into. More is read in the next turn.
pub const READ_BYTES: usize = 64 * 1024;

/// Events taken from one `epoll_wait`. More wait for the next turn.
pub const EVENTS: usize = 1024;

/// The longest answer that the responder can be given: answers of HTTP/2 do not wait for windows. A
/// longer one is refused at its start.
pub const CONTENT_BYTES: usize = 1024;
