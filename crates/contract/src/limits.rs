//! Limits and time-outs of checks, each with the effect of reaching it.

use std::time::Duration;

/// Interval between attempts to reach a starting subject. The interval is short, because it limits
/// the resolution of the start-up time. A refused attempt on loopback costs about 10 µs.
pub const POLL: Duration = Duration::from_micros(100);

/// Time-out of one attempt to connect to a starting subject, whose accept queue may be full. The
/// attempt is repeated until the subject's deadline.
pub const CONNECT: Duration = Duration::from_secs(1);

/// Time-out of one attempt to get a first response. The attempt is repeated until the subject's
/// deadline.
pub const ATTEMPT: Duration = Duration::from_secs(2);

/// Time-out of one contract check. A check that reaches it has failed without a response.
pub const CHECK: Duration = Duration::from_secs(5);

/// Time-out of all responses together in the second try of a check. In the second try, each
/// response alone may take as long as all responses of a first try ([`CHECK`]). A second try that
/// reaches the time-out has failed with late responses.
pub const SECOND_TRY: Duration = Duration::from_secs(60);

/// Maximum number of bytes of a response's body that are stored. A longer body is an error if the
/// whole body is needed.
pub const BODY_BYTES: usize = 16 << 20;

/// Longest file of certificates or of a key, bytes. A longer one is refused.
pub const PEM_BYTES: u64 = 16 << 20;

/// Maximum number of bytes of a body in a report, and of a body that is stored for a report only.
pub const SHOWN_BODY_BYTES: usize = 500;

/// Maximum number of repetitions of a check, which is not a load.
pub const TIMES: u32 = 10_000;

/// Maximum number of concurrent requests of a check over HTTP/2.
pub const STREAMS: u32 = 1_000;

/// Interval between runs of a readiness command: each run starts a shell.
pub const COMMAND_POLL: Duration = Duration::from_millis(20);

/// Default time limit for a server's exit. A slower server has failed the check.
pub const EXIT: Duration = Duration::from_secs(15);

/// Highest time limit for an exit that a contract may set.
pub const MAX_EXIT: Duration = Duration::from_secs(120);

/// Time-out of expected output. Output that is still missing then has broken its promise.
pub const OUTPUT: Duration = Duration::from_secs(2);

/// Wait for further output and requests of a server, if a promise limits their number.
pub const SETTLING: Duration = Duration::from_millis(500);

/// Time for which responses of the back end are delayed while a server gets the signal to end.
pub const RESPONSE_DELAY: Duration = Duration::from_millis(500);

/// Maximum number of bytes of a server's requests to its back end that are stored. The rest is
/// forwarded unchecked.
pub const RELAYED_BYTES: usize = 16 << 20;

/// Wait of a relay after it could not accept a connection. The relay retries until it is closed.
pub const ACCEPT_RETRY: Duration = Duration::from_millis(20);
