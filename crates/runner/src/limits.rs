//! All limits and time-outs of the runner, and the effect of reaching each.

use std::time::Duration;

/// Time-out of one request to a subject after a step. A slower subject has failed.
pub const ALIVE: Duration = Duration::from_secs(3);

/// Number of source addresses of a loopback load whose connections are closed by dyno. The kernel
/// keeps the port of each for a minute (TIME_WAIT) and uses it again on loopback after one to two
/// seconds (`tcp_tw_reuse`, 2 by default). Meanwhile it searches half of its range, 14,000 ports,
/// for a free one, which takes longer than all the rest of a connection. From one address a load
/// opens at most 14,000 connections per second. With this many addresses the CPU is the limit.
pub const LOOPBACK_SOURCES: u8 = 32;

/// Bytes of request bodies that may be in flight at once: the longest body times the requests in
/// flight. Connections keep the bodies that they send, in up to two and a half times that memory. A
/// load with more is refused.
pub const BODY_BYTES: u64 = 1 << 30;

/// Open files that a load needs besides one per connection. With fewer the load is refused before
/// it begins.
pub const OTHER_FILES: u64 = 64;

/// Notice that workers get of a common instant, in nanoseconds. A worker that learns of an early
/// end too late ends its window a little later than the others.
pub const AHEAD_NS: u64 = 2_000_000;

/// Interval at which a load's control thread checks whether to stop. A check may be late by as
/// much, because the thread sleeps for this long at most.
pub const GLANCE: Duration = Duration::from_millis(20);

/// The same while the load has not begun: half of the notice that workers get ([`AHEAD_NS`]), so
/// that the control thread wakes before the load begins.
pub const UNTIL_BEGUN: Duration = Duration::from_nanos(AHEAD_NS / 2);

/// Intervals of a running load that are kept apart. With more, neighbours are joined two by two, so
/// that a load of any length needs constant memory; streamed intervals are not joined.
pub const INTERVALS: usize = 1024;

/// Samples of the subject that are kept of a running load. With more samples, every second one is
/// left out.
pub const SAMPLES: usize = 1024;

/// Default limit of the warm-up of a start, unless the suite sets `warmup_limit`. Reaching it is a
/// caveat of each step of the start.
pub const WARMUP_LIMIT_NS: u64 = 60_000_000_000;

/// The shortest `warmup_limit`: within less, steadiness cannot be judged.
pub const MIN_WARMUP_LIMIT_NS: u64 = 1_000_000_000;

/// The warm-up of each step once its start is steady: connections and caches are still new.
pub const STEP_WARMUP_NS: u64 = 200_000_000;

/// The warm-up of each load of a search for a rate: a queue that builds up shows within it.
pub const SEARCH_WARMUP_NS: u64 = 500_000_000;

/// Intervals of each load of a search: enough to see a server fall behind, and few, because a
/// search is kept with all its loads.
pub const SEARCH_INTERVALS: u64 = 3;

/// Default accuracy of a search: the gap between its final two rates, as a share of the lower.
/// Starts differ by as much.
pub const SEARCH_WIDTH: f64 = 0.05;

/// Estimated number of loads of a search, for the clock on the screen: some thirty, and longer ones
/// that confirm the result.
pub const SEARCH_LOADS: u64 = 45;

/// Bounds of the first slices of a start's warm-up. They are shorter with more workloads; below the
/// lower bound they would only be noise.
pub const SLICE_NS: u64 = 125_000_000;
pub const MIN_SLICE_NS: u64 = 62_500_000;

/// Total length of the first slices that are judged, if each is no shorter than the lower bound.
pub const SLICES_NS: u64 = 1_000_000_000;

/// Least responses of a usable slice. After a slice with fewer, slices are twice as long, up to the
/// longest.
pub const MIN_ANSWERS: u64 = 20;
pub const LONGEST_SLICE_NS: u64 = 1_000_000_000;

/// Slices of a workload's first turn. Each further turn is twice as long, up to the longest,
/// because each opens its connections anew.
pub const TURN_SLICES: u64 = 4;
pub const LONGEST_TURN_NS: u64 = 2_000_000_000;

/// Time at the beginning of each turn that is left out: its connections are new.
pub const TURN_SETTLES_NS: u64 = 20_000_000;

/// Pause without requests between rounds of a warm-up in which compilers were busy.
pub(crate) const REST: Duration = Duration::from_millis(250);

/// Time between two turns, in which connections are opened and drained. A guess for the clock on
/// the screen.
pub const TURN_GAP_NS: u64 = 20_000_000;

/// Most trials, and most starts, of a plan. At ten seconds each they take 11 days.
pub const PLANNED: u64 = 100_000;

/// The most streams or pipelined requests on one connection of `dyno load`. More are refused,
/// because memory is reserved for each in advance.
pub const AT_ONCE: u32 = 1 << 20;

/// Attempts of a calibration to connect to the null responder, and the pause between them.
pub const LISTENS_GLANCES: u32 = 200;
pub const LISTENS: Duration = Duration::from_millis(10);

/// Time-out of one run of a readiness command. The next run follows, until the part's deadline.
pub const READY_COMMAND: Duration = Duration::from_secs(10);

/// Interval between reads of a starting part's output.
pub const OUTPUT_GLANCE: Duration = Duration::from_millis(50);

/// Number of pairs of slices with and without probes that measure the probes' cost, the length of
/// each slice, and the time before it that is not counted.
pub const PRICE_PAIRS: usize = 10;
pub const PRICE_SLICE: Duration = Duration::from_millis(900);
pub const PRICE_SETTLES: Duration = Duration::from_millis(100);

/// Number of checks whether a server responds at all before the cost of its probes is measured, and
/// the pause between them.
pub const ANSWERS_GLANCES: u32 = 1000;
pub const ANSWERS_GLANCE: Duration = Duration::from_millis(10);

/// Length of the measurement of a server without requests.
pub const IDLE: Duration = Duration::from_secs(1);

/// Length of a profile's sampling.
pub const PROFILE: Duration = Duration::from_secs(5);

/// Pause between two requests to a server's runtime.
pub const RUNTIME_PAUSE: Duration = Duration::from_millis(250);

/// Time limit of a runtime's response. One that is slower counts as silent.
pub const RUNTIME_ANSWER: Duration = Duration::from_secs(1);

/// Most bytes, and most values, of a response. A larger response is refused.
pub const RUNTIME_BYTES: u64 = 16 * 1024;
pub const RUNTIME_VALUES: usize = 64;

/// Intervals per slice of loads that take turns. Comparisons leave out the first of each slice, its
/// edge.
pub const INTERVALS_OF_SLICE: u64 = 4;

/// Default lengths of turns: the first that fits the load's duration. The machine changes less
/// between short turns (docs/performance/reports-and-turns.md), but a long load has too many of
/// them. Also the shortest and the longest turn of a suite: a shorter one is mostly edges, and
/// during a longer one the machine changes.
pub const TURNS_NS: [u64; 3] = [100_000_000, 200_000_000, 400_000_000];
pub const MIN_TURN_NS: u64 = 100_000_000;
pub const MAX_TURN_NS: u64 = 2_000_000_000;

/// Shortest turn with a CPU quota, which is refilled every 100 ms: in a shorter one the quota is
/// inaccurate.
pub const TURN_OF_QUOTA_NS: u64 = 1_000_000_000;

/// Time that git has to check out a revision. Large repositories take minutes.
pub const CHECK_OUT: Duration = Duration::from_secs(600);

/// Number of trials per permitted re-run after interference, and the re-runs of a short plan. The
/// limit keeps a run close to its estimate on a machine that is never quiet.
pub const AGAIN_OF: usize = 10;
pub const AGAIN_AT_LEAST: u32 = 2;
