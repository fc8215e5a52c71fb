//! Every bound and time limit of the runner, and what happens on reaching it.

use std::time::Duration;

/// Time that a subject has to answer one request after a step. One that does not has failed.
pub const ALIVE: Duration = Duration::from_secs(3);

/// Addresses of a machine's own from which a load comes whose connections are closed by dyno. The
/// kernel keeps the port of each for a minute (TIME_WAIT) and uses it again on loopback after one
/// to two seconds (`tcp_tw_reuse`, 2 by default). Meanwhile it looks through half of its range,
/// 14,000 ports, for one that is free, which takes longer than all the rest of a connection: from
/// one address a load opens 14,000 connections per second and no more. With these it is the CPU
/// that ends it.
pub const LOOPBACK_SOURCES: u8 = 32;

/// Bytes of request bodies that may be in flight at once: the longest body times the requests in
/// flight. Connections keep the bodies that they send, in up to two and a half times that memory. A
/// load with more is refused.
pub const BODY_BYTES: u64 = 1 << 30;

/// Open files that a load needs besides one per connection. With fewer it is refused before it
/// begins.
pub const OTHER_FILES: u64 = 64;

/// Notice that workers get of a common instant, in nanoseconds. A worker that learns of an early
/// end too late ends its window a little later than the others.
pub const AHEAD_NS: u64 = 2_000_000;

/// Time between two looks of a load's control thread at whether it is to stop. One may be up to
/// twice as late, because the thread sleeps for as long at most.
pub const GLANCE: Duration = Duration::from_millis(20);

/// The same while the load has not begun: half of the notice that workers get ([`AHEAD_NS`]), so
/// that the control thread wakes before the load begins.
pub const UNTIL_BEGUN: Duration = Duration::from_nanos(AHEAD_NS / 2);

/// Intervals of a running load that are kept apart. With more, neighbours are joined two by two, so
/// that a load of any length needs constant memory; what is streamed while it runs is not joined.
pub const INTERVALS: usize = 1024;

/// Samples of the subject that are kept of a running load. With more, every second one is left out.
pub const SAMPLES: usize = 1024;

/// The longest warm-up of a start, unless the suite sets `warmup_limit`. Reaching it is a caveat of
/// each step of the start.
pub const WARMUP_LIMIT_NS: u64 = 60_000_000_000;

/// The shortest `warmup_limit`: within less, steadiness cannot be judged.
pub const LEAST_WARMUP_LIMIT_NS: u64 = 1_000_000_000;

/// The warm-up of each step once its start is steady: connections and caches are still new.
pub const STEP_WARMUP_NS: u64 = 200_000_000;

/// The warm-up of each load of a search for a rate: a queue that builds up shows within it.
pub const SEARCH_WARMUP_NS: u64 = 500_000_000;

/// Intervals of each of them: enough to see a server fall behind, and few, because a search is kept
/// with all its loads.
pub const SEARCH_INTERVALS: u64 = 3;

/// How far apart the rates lie between which a search of a suite ends, unless it says otherwise: a
/// share of the lower. Starts differ by as much.
pub const SEARCH_WIDTH: f64 = 0.05;

/// Loads that a search takes, roughly, for the clock on the screen: some thirty, and longer ones
/// that confirm what they found.
pub const SEARCH_LOADS: u64 = 45;

/// Bounds of the first slices of a start's warm-up. They are shorter the more workloads take turns;
/// below the lower bound they would be noise alone.
pub const SLICE_NS: u64 = 125_000_000;
pub const LEAST_SLICE_NS: u64 = 62_500_000;

/// Total length of the first slices that are judged, if each is no shorter than the lower bound.
pub const SLICES_NS: u64 = 1_000_000_000;

/// Answers that a slice needs to tell anything. After one with fewer, slices are twice as long, up
/// to the longest.
pub const LEAST_ANSWERS: u64 = 20;
pub const LONGEST_SLICE_NS: u64 = 1_000_000_000;

/// Slices of a workload's first turn. Each further turn is twice as long, up to the longest,
/// because each opens its connections anew.
pub const TURN_SLICES: u64 = 4;
pub const LONGEST_TURN_NS: u64 = 2_000_000_000;

/// Time at the beginning of each turn that is not judged: its connections are new.
pub const TURN_SETTLES_NS: u64 = 20_000_000;

/// How long a server is left alone between rounds of its warm-up whose compilers were at work.
pub(crate) const REST: Duration = Duration::from_millis(250);

/// Time between two turns, in which connections are opened and drained. A guess for the clock on
/// the screen.
pub const TURN_GAP_NS: u64 = 20_000_000;

/// The most trials, and the most starts, that a plan lists. At ten seconds each they take 11 days.
pub const PLANNED: u64 = 100_000;

/// The most streams or pipelined requests on one connection of `dyno load`. More are refused:
/// memory is set aside for each before any is answered.
pub const AT_ONCE: u32 = 1 << 20;

/// How often a calibration tries to connect to the null responder before it gives up, and the pause
/// between tries.
pub const LISTENS_GLANCES: u32 = 200;
pub const LISTENS: Duration = Duration::from_millis(10);

/// How long one try of the command may take that says whether a part is ready. Then the next is
/// made, until the part's deadline.
pub const READY_COMMAND: Duration = Duration::from_secs(10);

/// How often it is looked what a starting part has printed.
pub const OUTPUT_GLANCE: Duration = Duration::from_millis(50);

/// Pairs of slices with and without probes, by which their price is told, the length of each slice,
/// and the time before it that is not judged.
pub const PRICE_PAIRS: usize = 10;
pub const PRICE_SLICE: Duration = Duration::from_millis(900);
pub const PRICE_SETTLES: Duration = Duration::from_millis(100);

/// How often it is looked whether a server answers at all that is to tell what probes cost it, and
/// the pause between looks.
pub const ANSWERS_GLANCES: u32 = 1000;
pub const ANSWERS_GLANCE: Duration = Duration::from_millis(10);

/// How long it is looked what a server does while nobody asks anything of it.
pub const IDLE: Duration = Duration::from_secs(1);

/// How long a profile takes stacks.
pub const PROFILE: Duration = Duration::from_secs(5);

/// Pause between two questions to a server's runtime.
pub const RUNTIME_PAUSE: Duration = Duration::from_millis(250);

/// Time that a runtime has to answer. One that does not has told nothing.
pub const RUNTIME_ANSWER: Duration = Duration::from_secs(1);

/// Bytes, and values, of an answer. One with more is refused.
pub const RUNTIME_BYTES: u64 = 16 * 1024;
pub const RUNTIME_VALUES: usize = 64;

/// Intervals into which a slice is cut where loads take turns: the first of each is its edge, which
/// comparisons leave out.
pub const INTERVALS_OF_SLICE: u64 = 4;

/// Lengths of the turns that subjects take where a suite does not say, the first that fits its
/// duration: in short ones the machine changes less from one to the next (docs/performance.md), and
/// of long loads more of them cannot be kept apart. And the shortest and the longest that a suite
/// may ask for: in a shorter one its edges are most of it, in a longer one the machine changes.
pub const TURNS_NS: [u64; 3] = [100_000_000, 200_000_000, 400_000_000];
pub const LEAST_TURN_NS: u64 = 100_000_000;
pub const MOST_TURN_NS: u64 = 2_000_000_000;

/// The shortest turn in which a CPU quota, refilled every 100 ms, is what it says.
pub const TURN_OF_QUOTA_NS: u64 = 1_000_000_000;

/// Time that git has to check out a revision. Large repositories take minutes.
pub const CHECK_OUT: Duration = Duration::from_secs(600);

/// Of how many trials one may be done again because something else used the machine, and how many
/// of a short plan: a run takes little longer than it says on a machine that is never quiet.
pub const AGAIN_OF: usize = 10;
pub const AGAIN_AT_LEAST: u32 = 2;
