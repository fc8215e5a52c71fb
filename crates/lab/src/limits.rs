//! Limits and time-outs of a run, each with the effect of reaching it. They are in one place so
//! that they can be compared and documented.

use std::time::Duration;

pub use dyno_generator::limits::{LOOPBACK_SOURCES, STOP_CHECK_INTERVAL};

/// Time-out of one request to a subject after a step. A slower subject has failed.
pub const ALIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// Intervals of each load of a search. Three intervals are enough to detect a server that falls
/// behind. There are few, because the archive has all loads of a search.
pub const SEARCH_INTERVALS: u64 = 3;

/// Minimum number of responses of a usable slice. After a slice with fewer responses, the length of
/// slices doubles, up to [`SLICE_MAX_NS`].
pub const MIN_SLICE_RESPONSES: u64 = 20;

/// The longest slice of a warm-up.
pub const SLICE_MAX_NS: u64 = 1_000_000_000;

/// Attempts of a calibration to connect to the null responder.
pub const CONNECT_ATTEMPTS: u32 = 200;

/// Pause between two attempts of a calibration to connect to the null responder.
pub const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// Time-out of one run of a readiness command. The next run follows, until the part's deadline.
pub const READY_COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between reads of a starting part's output.
pub const OUTPUT_READ_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of checks whether a server responds. They precede a measurement under load.
pub const RESPONSE_CHECKS: u32 = 1000;

/// Pause between two checks whether a server responds.
pub const RESPONSE_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Pause between two requests to a server's runtime.
pub const RUNTIME_PAUSE: Duration = Duration::from_millis(250);

/// Time limit of a runtime's response. A slower runtime is treated as unresponsive.
pub const RUNTIME_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of bytes of the statistics that a runtime sends. A larger response is refused.
pub const RUNTIME_BYTES: u64 = 16 * 1024;

/// Maximum number of values of the statistics that a runtime sends. More are refused.
pub const RUNTIME_VALUES: usize = 64;

/// Time that git has to check out a revision. Large repositories take minutes.
pub const CHECKOUT_TIMEOUT: Duration = Duration::from_secs(600);
