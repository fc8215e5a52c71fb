//! Every bound of the engine, and what happens on reaching it.

/// Arrivals that may wait for a free connection, per worker. One more is counted as `dropped`,
/// never silent.
pub const WAITING: usize = 1 << 18;

/// Time after the measured window in which exchanges in flight may still end. Later ones are
/// reported as a lower bound.
pub const DRAIN_NS: u64 = 5_000_000_000;

/// Shortest and longest wait before a slot whose connection failed tries again. The wait doubles
/// with every failure in a row; the first retry comes at once. A server that serves again waits for
/// the next attempt, and this wait counts as its outage: the longest one is short.
pub const BACKOFF_MIN_NS: u64 = 1_000_000;
pub const BACKOFF_MAX_NS: u64 = 100_000_000;

/// Time after a cut in which exchanges in flight may still end. Later ones are reported as a lower
/// bound.
pub const CUT_DRAIN_NS: u64 = 1_000_000_000;

/// Longest sleep of a worker, so that it notices a cancellation.
pub const GLANCE_NS: u64 = 50_000_000;

/// The same while requests are in flight. A worker that is stopped within a wait is known to be
/// late only from the wait's deadline on: so much of each stop is not seen. A tenth of the shortest
/// stop that makes a step invalid.
pub const GLANCE_IN_FLIGHT_NS: u64 = 5_000_000;

/// How often a request is sent again that a server would not deal with (REFUSED_STREAM, or above
/// the last stream of a GOAWAY). One more refusal is its outcome.
pub const RETRIES: u8 = 8;

/// Streams of a connection for which there is room from its beginning. Room for more is made when
/// they are opened.
pub const STREAMS_AHEAD: u32 = 128;

/// Bytes of answers to a server's control frames that are queued on a connection of HTTP/2 while
/// the kernel takes nothing of what was queued before them: some 15,000 PINGs. Beyond it, and at
/// least a turn later, the connection ends with ENHANCE_YOUR_CALM, as a protocol error.
pub const REPLY_BYTES: u64 = 256 * 1024;

/// Completions that are handled before queued requests go to the kernel: more would save system
/// calls, and make the first request of a turn wait for the last.
pub const COMPLETIONS_PER_FLUSH: usize = 16;

/// Requests of this many bytes and more may leave in several pieces: a response can come before the
/// last of them.
pub const LARGE_REQUEST_BYTES: usize = 4096;

/// Time after the last response in which the generator looks for bytes that answer no request.
pub const LAST_LOOK_NS: u64 = 10_000_000;

/// A system call that does not wait takes no longer than this: beyond it the generator did not run.
pub const STANDSTILL_NS: u64 = 10_000_000;

/// Silences of a worker that are kept apart. Beyond it the short ones are forgotten.
pub const SILENCES: usize = 1024;

/// Longest wait of a request's body for 100 (Continue): the same as curl's.
/// A server need not send one (RFC 9110 §10.1.1).
pub const CONTINUE_NS: u64 = 1_000_000_000;

/// Responses of a worker whose heads are searched for Set-Cookie.
pub const COOKIE_LOOKS: u32 = 256;

/// Most kinds of malformed answers that are counted by name, per worker. Later kinds are counted as
/// `other`.
pub const PROTOCOL_ERROR_KINDS: usize = 64;

/// Most kinds of failed expectations that are counted in words, per worker. Later kinds are counted
/// as `other`.
pub const UNEXPECTED_KINDS: usize = 64;

/// Units of weight in a mix of requests, after division by their greatest common divisor. Up to
/// here requests are drawn from a lookup table with an entry per unit; larger mixes use a binary
/// search.
pub const CHOICE_TABLE_UNITS: u64 = 1 << 16;

/// How long before a deadline the generator stops sleeping and polls, where it spins at all. A
/// sleeping CPU of a virtual machine takes about this long to wake.
pub const SPIN_AHEAD_NS: u64 = 100_000;

/// How long after a hand-over the generator polls for the answer before it goes to sleep, where it
/// spins at all.
pub const SPIN_AFTER_NS: u64 = 250_000;

/// Bytes of TLS messages that have not arrived whole, per connection. A longer handshake is
/// refused: rustls itself takes no message above 64 KiB, and a record is at most 2¹⁴ + 256 + 5 (RFC
/// 8446 §5.2).
pub const TLS_UNREAD_BYTES: usize = 256 * 1024;

/// Bytes of a body that is kept to be checked in full. A longer one is an unexpected body.
pub const CHECKED_BODY_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of all such bodies at one time. Another one is an unexpected body, with its reason.
pub const CHECKED_BODIES_BYTES: usize = 4 * CHECKED_BODY_BYTES;

/// Most kinds of requests that are recorded separately. Larger mixes are recorded as a whole only.
pub const REQUESTS_TOLD_APART: usize = 256;
