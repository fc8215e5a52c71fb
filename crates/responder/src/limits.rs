//! Defines all limits of the responder, and describes what happens at each limit.

/// Maximum number of new connections that wait to be accepted. Clients of further connections send
/// their SYN again.
pub const BACKLOG: i32 = 4096;

/// Size of the read buffer. Further bytes are read after the next `epoll_wait`.
pub const READ_BYTES: usize = 64 * 1024;

/// Maximum number of events of one `epoll_wait`. Further events are returned by the next one.
pub const EVENTS: usize = 1024;

/// Maximum length of the body of custom content. HTTP/2 responses do not wait for flow-control
/// windows, so they must be short. A longer body is rejected at startup.
pub const CONTENT_BYTES: usize = 1024;
