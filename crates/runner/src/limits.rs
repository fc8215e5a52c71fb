//! Limits and time-outs of the runner, each with the effect of reaching it. They are in one place
//! so that they can be compared and documented.

use std::time::Duration;

/// Time-out of one request to a subject after a step. A slower subject has failed.
pub const ALIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// Number of source addresses of a loopback load whose connections are closed by dyno. The kernel
/// keeps the port of each for a minute (TIME_WAIT) and uses it again on loopback after one to two
/// seconds (`tcp_tw_reuse`, 2 by default). Meanwhile it searches half of its range, 14,000 ports,
/// for a free one, which takes longer than the other work for a connection. From one address a load
/// opens at most 14,000 connections per second. With this many addresses the CPU is the limit.
pub const LOOPBACK_SOURCES: u8 = 32;

/// Bytes of request bodies that may be in flight at once: the longest body times the requests in
/// flight. Connections keep the bodies that they send, in up to two and a half times that memory. A
/// load with more is refused.
pub const MAX_BODY_BYTES: u64 = 1 << 30;

/// Open files that a load needs in addition to one per connection. With fewer the load is refused
/// before it begins.
pub const RESERVED_FILES: u64 = 64;

/// Time from the announcement of a common instant to that instant, nanoseconds. A worker that
/// learns of an early end too late ends its window a little later than the others.
pub const BEGIN_NOTICE_NS: u64 = 2_000_000;

/// Interval at which a load's control thread checks whether to stop. The thread sleeps for this
/// long at most, so a check is late by at most this interval.
pub const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The same interval before the load begins. It is half of [`BEGIN_NOTICE_NS`], so that the control
/// thread wakes before the load begins.
pub const BEGIN_CHECK_INTERVAL: Duration = Duration::from_nanos(BEGIN_NOTICE_NS / 2);

/// Intervals of a running load that are recorded separately. With more, neighbours are joined in
/// pairs, so that a load of any length needs constant memory. Streamed intervals are not joined.
pub const MAX_INTERVALS: usize = 1024;

/// Samples of the subject that are recorded of a running load. With more samples, every second one
/// is dropped.
pub const MAX_SAMPLES: usize = 1024;

/// Default limit of the warm-up of a start, unless the suite sets `warmup_limit`. Reaching it is a
/// caveat of each step of the start.
pub const WARMUP_LIMIT_NS: u64 = 60_000_000_000;

/// The shortest `warmup_limit`: within less, steadiness cannot be judged.
pub const MIN_WARMUP_LIMIT_NS: u64 = 1_000_000_000;

/// Warm-up of each step once its start is steady, because connections and caches are still new.
pub const STEP_WARMUP_NS: u64 = 200_000_000;

/// Warm-up of each load of a search for a rate. A queue that grows becomes visible within it.
pub const SEARCH_WARMUP_NS: u64 = 500_000_000;

/// Intervals of each load of a search. They are enough to detect a server that falls behind, and
/// few, because the archive holds all loads of a search.
pub const SEARCH_INTERVALS: u64 = 3;

/// Default accuracy of a search: the gap between its final two rates, as a share of the lower.
/// Starts differ by as much.
pub const SEARCH_WIDTH: f64 = 0.05;

/// Estimated number of loads of a search, for the time display: about thirty, and longer ones that
/// confirm the result.
pub const SEARCH_LOADS: u64 = 45;

/// Bounds of the first slices of a start's warm-up. They are shorter with more workloads; below the
/// lower bound they would only be noise.
pub const SLICE_NS: u64 = 125_000_000;
pub const MIN_SLICE_NS: u64 = 62_500_000;

/// Total length of the first slices that are judged, unless the lower bound makes it longer.
pub const SLICES_NS: u64 = 1_000_000_000;

/// Minimum number of responses of a usable slice. After a slice with fewer, the slice length
/// doubles, up to [`LONGEST_SLICE_NS`].
pub const MIN_SLICE_RESPONSES: u64 = 20;
pub const LONGEST_SLICE_NS: u64 = 1_000_000_000;

/// Slices of a workload's first turn. Each further turn is twice as long, up to
/// [`LONGEST_TURN_NS`], because each turn opens new connections.
pub const TURN_SLICES: u64 = 4;
pub const LONGEST_TURN_NS: u64 = 2_000_000_000;

/// Time at the beginning of each turn that is not evaluated, because its connections are new.
pub const TURN_SETTLE_NS: u64 = 20_000_000;

/// Pause without requests between rounds of a warm-up in which compilers were busy.
pub(crate) const REST: Duration = Duration::from_millis(250);

/// Estimated time between two turns, in which connections are opened and drained. Used for the time
/// display.
pub const TURN_GAP_NS: u64 = 20_000_000;

/// Maximum number of trials, and of starts, of a plan. With ten seconds each they take 11 days.
pub const MAX_TRIALS: u64 = 100_000;

/// The most streams or pipelined requests on one connection of `dyno load`. More are refused,
/// because memory is reserved for each in advance.
pub const MAX_STREAMS: u32 = 1 << 20;

/// Attempts of a calibration to connect to the null responder, and the pause between them.
pub const CONNECT_ATTEMPTS: u32 = 200;
pub const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// Time-out of one run of a readiness command. The next run follows, until the part's deadline.
pub const READY_COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between reads of a starting part's output.
pub const OUTPUT_READ_INTERVAL: Duration = Duration::from_millis(50);

/// Number of pairs of slices that measure the cost of probes, one slice with the probes and one
/// without. Also the length of each slice, and the time before it that is not counted.
pub const PRICE_PAIRS: usize = 10;
pub const PRICE_SLICE: Duration = Duration::from_millis(900);
pub const PRICE_SETTLE: Duration = Duration::from_millis(100);

/// Number of checks whether a server responds, before a measurement that runs under load begins.
/// Also the pause between the checks.
pub const RESPONSE_CHECKS: u32 = 1000;
pub const RESPONSE_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Length of the measurement of a server without requests.
pub const IDLE_MEASUREMENT: Duration = Duration::from_secs(1);

/// Length of a profile's sampling.
pub const PROFILE_LENGTH: Duration = Duration::from_secs(5);

/// Pause between two requests to a server's runtime.
pub const RUNTIME_PAUSE: Duration = Duration::from_millis(250);

/// Time limit of a runtime's response. A slower runtime counts as unresponsive.
pub const RUNTIME_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of bytes, and of values, of a runtime's response. A larger response is refused.
pub const RUNTIME_BYTES: u64 = 16 * 1024;
pub const RUNTIME_VALUES: usize = 64;

/// Intervals per slice of loads that take turns. Comparisons leave out the first interval of each
/// slice, because it includes the change of turns.
pub const INTERVALS_PER_SLICE: u64 = 4;

/// Default lengths of turns. The first that fits the load's duration is used. The machine changes
/// less between short turns (docs/performance/reports-and-turns.md), but a long load has too many
/// of them. Also the shortest and the longest turn of a suite. A shorter turn is mostly edges, and
/// the machine changes during a longer one.
pub const TURNS_NS: [u64; 3] = [100_000_000, 200_000_000, 400_000_000];
pub const MIN_TURN_NS: u64 = 100_000_000;
pub const MAX_TURN_NS: u64 = 2_000_000_000;

/// Shortest turn with a CPU quota. The quota is refilled every 100 ms, so it is inaccurate in a
/// shorter turn.
pub const MIN_QUOTA_TURN_NS: u64 = 1_000_000_000;

/// Time that git has to check out a revision. Large repositories take minutes.
pub const CHECKOUT_TIMEOUT: Duration = Duration::from_secs(600);

/// Number of trials per permitted re-run after interference, and the re-runs that a short plan
/// permits. The limit keeps the length of a run close to its estimate on a busy machine.
pub const TRIALS_PER_RERUN: usize = 10;
pub const MIN_RERUNS: u32 = 2;
