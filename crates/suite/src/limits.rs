//! Limits of suites and plans, each with the effect of reaching it. The lengths of the parts of a
//! run are here too, because estimates count them.

use std::time::Duration;

/// Warm-up of each step once its start is steady, because connections and caches are still new.
pub const STEP_WARMUP_NS: u64 = 200_000_000;

/// Bytes of request bodies that may be in flight at once: the longest body times the requests in
/// flight. Connections store the bodies that they send, in up to two and a half times that memory.
/// A load that needs more is refused.
pub const MAX_BODY_BYTES: u64 = 1 << 30;

/// Longest suite file, bytes. A longer one is refused.
pub const SUITE_BYTES: u64 = 16 << 20;

/// Largest total length, bytes, of three kinds of inputs, each counted separately: the request
/// bodies of a load, the files that the command line names, and the different files that requests
/// name. A longer file is refused before it is read, and more bodies are refused before the load.
pub const MAX_INPUT_BYTES: u64 = 1 << 30;

/// Default limit of the warm-up of a start, unless the suite sets `warmup_limit`. Each step of a
/// start that reaches the limit has a caveat.
pub const WARMUP_LIMIT_NS: u64 = 60_000_000_000;

/// The shortest `warmup_limit`. A shorter warm-up is too short to detect a steady state.
pub const MIN_WARMUP_LIMIT_NS: u64 = 1_000_000_000;

/// Warm-up of each load of a search for a rate. A queue that grows becomes visible within this
/// time.
pub const SEARCH_WARMUP_NS: u64 = 500_000_000;

/// Default accuracy of a search: the gap between its final two rates, as a share of the lower.
/// Different starts of a server differ by about as much.
pub const SEARCH_WIDTH: f64 = 0.05;

/// Estimated number of loads of a search, for the time display: about thirty, and longer ones that
/// confirm the result.
pub const SEARCH_LOADS: u64 = 45;

/// The longest first slice of a start's warm-up. First slices are shorter with more workloads.
pub const FIRST_SLICE_MAX_NS: u64 = 125_000_000;

/// The shortest first slice of a start's warm-up. Results of shorter slices would only be noise.
pub const FIRST_SLICE_MIN_NS: u64 = 62_500_000;

/// Total length of the first slices that are evaluated. The total is longer if the slices would be
/// shorter than [`FIRST_SLICE_MIN_NS`].
pub const FIRST_SLICES_NS: u64 = 1_000_000_000;

/// Slices of a workload's first turn. Each further turn is twice as long, up to
/// [`WARMUP_TURN_MAX_NS`], because each turn opens new connections.
pub const TURN_SLICES: u64 = 4;

/// The longest turn of a workload in a warm-up.
pub const WARMUP_TURN_MAX_NS: u64 = 2_000_000_000;

/// Time at the beginning of each turn that is not evaluated, because its connections are new.
pub const TURN_SETTLE_NS: u64 = 20_000_000;

/// Pause without requests between rounds of a warm-up in which compilers were busy.
pub const REST: Duration = Duration::from_millis(250);

/// Estimated time between two turns, in which connections are opened and drained. Used for the time
/// display.
pub const TURN_GAP_NS: u64 = 20_000_000;

/// Maximum number of repeats of the run that measures the capacities of which rates are shares.
pub const MAX_CAPACITY_REPEATS: u32 = 3;

/// Maximum number of trials, and of starts, of a plan. With ten seconds each they take 11 days.
pub const MAX_TRIALS: u64 = 100_000;

/// The most streams or pipelined requests on one connection of `dyno load`. More are refused,
/// because memory is reserved for each in advance.
pub const MAX_STREAMS: u32 = 1 << 20;

/// Number of pairs of slices that measure the cost of probes, one slice with the probes and one
/// without.
pub const PROBE_COST_PAIRS: usize = 10;

/// Length of a slice that measures the cost of probes.
pub const PROBE_COST_SLICE: Duration = Duration::from_millis(900);

/// Time before a slice that measures the cost of probes. This time is not measured.
pub const PROBE_COST_SETTLE: Duration = Duration::from_millis(100);

/// Length of the measurement of a server without requests.
pub const IDLE_MEASUREMENT: Duration = Duration::from_secs(1);

/// Length of a profile's sampling.
pub const PROFILE_LENGTH: Duration = Duration::from_secs(5);

/// Default lengths of turns. The first length that fits the load's duration is used. Short turns
/// are best, because the speed of the machine changes less between them
/// (docs/performance/reports-and-turns.md), but a long load has too many short turns.
pub const TURNS_NS: [u64; 3] = [100_000_000, 200_000_000, 400_000_000];

/// The shortest turn of a suite. In a shorter turn, the start and the end of the load take most of
/// the time.
pub const MIN_TURN_NS: u64 = 100_000_000;

/// The longest turn of a suite. The speed of the machine changes during a longer turn.
pub const MAX_TURN_NS: u64 = 2_000_000_000;

/// Shortest turn with a CPU quota. The quota is refilled every 100 ms, so it is inaccurate in a
/// shorter turn.
pub const MIN_QUOTA_TURN_NS: u64 = 1_000_000_000;

/// Default share of a plan's trials that may be re-run after interference. [`MIN_RERUNS`] trials
/// may always be re-run. The limit ensures that a run on a busy machine is not much longer than its
/// estimate.
pub const RERUN_SHARE: f64 = 0.1;

/// Re-runs after interference that each plan may have.
pub const MIN_RERUNS: u32 = 2;
