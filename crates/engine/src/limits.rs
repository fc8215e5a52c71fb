//! All limits of the engine, each with the effect of reaching it.

/// Maximum number of arrivals that may wait for a free connection, per worker. Further arrivals are
/// counted as `dropped`.
pub const WAITING_ARRIVALS: usize = 1 << 18;

/// Longest wait for exchanges in flight after the measured window. If an exchange has not ended by
/// then, its age is reported as a lower bound.
pub const DRAIN_NS: u64 = 5_000_000_000;

/// Wait of a slot after its second consecutive connection failure, before it reconnects. After the
/// first failure there is no wait. Each further failure doubles the wait.
pub const BACKOFF_MIN_NS: u64 = 1_000_000;

/// Longest wait of a slot before it reconnects after a failure. A recovered server receives no
/// request before the next attempt, so the wait lengthens its measured outage. The longest wait is
/// therefore short.
pub const BACKOFF_MAX_NS: u64 = 100_000_000;

/// Longest wait for exchanges in flight after a user has stopped the load early. If an exchange has
/// not ended by then, its age is reported as a lower bound.
pub const CUT_DRAIN_NS: u64 = 1_000_000_000;

/// Longest sleep of a worker, after which it checks whether it was cancelled.
pub const MAX_SLEEP_NS: u64 = 50_000_000;

/// Longest sleep of a worker while requests are in flight. If the worker's CPU stalls during a
/// sleep, wake lag includes only the part of the stall after the planned end of the sleep. Up to
/// this much of each stall therefore stays invisible: a tenth of the shortest stall that makes a
/// load invalid.
pub const MAX_SLEEP_IN_FLIGHT_NS: u64 = 5_000_000;

/// Maximum number of retries of a request that the server refused to process (REFUSED_STREAM, or
/// above the last stream of a GOAWAY). After one more refusal the request fails as
/// `stream_refused`.
pub const RETRIES: u8 = 8;

/// Number of streams of a connection for which memory is reserved at its start. Further streams
/// allocate memory when they are opened.
pub const RESERVED_STREAMS: u32 = 128;

/// Maximum number of bytes of replies to control frames that are queued on an HTTP/2 connection
/// while earlier bytes wait: replies to some 15,000 PINGs. With more replies, a later turn ends the
/// connection with ENHANCE_YOUR_CALM and counts a protocol error.
pub const REPLY_BYTES: u64 = 256 * 1024;

/// Completions handled before queued requests are flushed. A larger number would save system calls
/// but delay the first request of a turn.
pub const COMPLETIONS_PER_FLUSH: usize = 16;

/// A request of at least this size can leave in several pieces, so its response can arrive before
/// its last piece has left.
pub const LARGE_REQUEST_BYTES: usize = 4096;

/// Time after the last response in which the generator checks for unsolicited bytes.
pub const LATE_BYTES_NS: u64 = 10_000_000;

/// Time without a request after which a connection is idle. A server may close an idle connection
/// without an announcement. The time-outs of servers are a second or more. A close with a request
/// in flight on a connection that was not idle is the server's failure.
pub const IDLE_NS: u64 = 500_000_000;

/// Longest time between a request and the close that crossed it: a round trip. A close after a
/// longer time is an answer to the request. A connection takes no request this long before the end
/// of the idle time that its server has announced (`Keep-Alive: timeout=5`).
pub const CROSSING_NS: u64 = 100_000_000;

/// Longest plausible duration of a system call that does not wait. If such a call takes longer, the
/// generator thread was not running.
pub const STANDSTILL_NS: u64 = 10_000_000;

/// Maximum number of silences (periods without a complete response) that a worker records. With
/// more silences, the shortest are discarded.
pub const SILENCES: usize = 1024;

/// Longest wait of a request body for 100 (Continue), as in curl. Then the body is sent, because a
/// server is not required to send 100 (RFC 9110 §10.1.1).
pub const CONTINUE_NS: u64 = 1_000_000_000;

/// Responses per worker whose heads are searched for Set-Cookie.
pub const COOKIE_SEARCHES: u32 = 256;

/// Maximum number of cookies that a visitor keeps. With more, the oldest one is forgotten. Browsers
/// keep at least 50 per site (RFC 6265 §6.1).
pub const COOKIES_PER_VISITOR: usize = 64;

/// Maximum number of bytes of a cookie's name and value. A longer cookie is ignored, as in browsers
/// (RFC 6265 §6.1).
pub const COOKIE_BYTES: usize = 4096;

/// Longest body from which a value is extracted, as sent and decoded. With a longer body, the
/// extraction fails. Each visitor stores at most one such body, and all visitors together at most
/// [`STORED_BODIES_BYTES`].
pub const EXTRACTED_BODY_BYTES: usize = 1024 * 1024;

/// Memory that a visitor keeps from a body with extracted values when its next response begins.
/// Longer bodies allocate memory each time.
pub const RETAINED_BODY_BYTES: usize = 16 * 1024;

/// Maximum number of kinds of protocol errors that are counted by name, per worker. Later kinds are
/// counted as `other`.
pub const PROTOCOL_ERROR_KINDS: usize = 64;

/// Maximum number of kinds of failed expectations that are counted by name, per worker. Later kinds
/// are counted as `other`.
pub const UNEXPECTED_KINDS: usize = 64;

/// Requests of a mix are drawn from a lookup table with one entry per unit of weight if the sum of
/// weights, divided by their greatest common divisor, is at most this. Larger mixes use a binary
/// search.
pub const CHOICE_TABLE_UNITS: u64 = 1 << 16;

/// Time before a deadline at which the generator stops sleeping and starts to poll, if polling is
/// enabled. A sleeping CPU of a virtual machine takes about this long to wake.
pub const SPIN_AHEAD_NS: u64 = 100_000;

/// Time after a hand-over during which the generator polls for the response before it sleeps, if
/// polling is enabled.
pub const SPIN_AFTER_NS: u64 = 250_000;

/// Maximum number of bytes of incomplete TLS messages per connection. The connection of a longer
/// message fails. Correct servers stay below: rustls itself takes no message above 64 KiB, and a
/// record has at most 2¹⁴ + 256 + 5 bytes (RFC 8446 §5.2).
pub const TLS_UNREAD_BYTES: usize = 256 * 1024;

/// Longest body that is checked in full. A longer body has the outcome `unexpected_body`.
pub const CHECKED_BODY_BYTES: usize = 64 * 1024 * 1024;

/// Maximum number of bytes of all bodies of a load that are stored for full checks at one time, and
/// of all bodies that are stored for extractions. Servers that are loaded at the same time have a
/// load each. A response without bytes left for its body is not checked in full, or ends its visit:
/// [`UnstoredBodies`](dyno_model::interval::UnstoredBodies).
pub const STORED_BODIES_BYTES: usize = 4 * CHECKED_BODY_BYTES;

/// Maximum number of requests of a mix that are recorded separately. Larger mixes are recorded only
/// as a whole.
pub const REQUESTS_RECORDED_APART: usize = 256;
