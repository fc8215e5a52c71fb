//! Every bound and patience of the runner, and what happens on reaching it.

use std::time::Duration;

/// How long a subject has to answer one request after a step. Then it counts as deaf.
pub const ALIVE: Duration = Duration::from_secs(3);

/// Open files that a load needs beside one per connection. With fewer it is refused before it begins.
pub const OTHER_FILES: u64 = 64;

/// How far ahead the common instants of all workers lie, in nanoseconds: long enough for each to learn of them in time.
/// One that learns of a cut too late ends its window a little later.
pub const AHEAD_NS: u64 = 2_000_000;

/// How long the control thread of a load sleeps at most before it looks around.
pub const GLANCE: Duration = Duration::from_millis(20);

/// Intervals of a running load that are kept apart. With more, neighbours are joined two by two, so that a load of any
/// length needs constant memory; what is streamed while it runs is not joined.
pub const INTERVALS: usize = 1024;

/// Samples of the subject that are kept of a running load. With more, every second one is left out.
pub const SAMPLES: usize = 1024;

/// The most that warming a start takes, unless the suite says (`warmup_limit`). Reaching it is a caveat of each of its steps.
pub const WARMUP_LIMIT_NS: u64 = 60_000_000_000;

/// The shortest limit that can be asked for: with less nothing could be judged.
pub const LEAST_WARMUP_LIMIT_NS: u64 = 1_000_000_000;

/// The warm-up of each step of a start that is steady: caches and connections are still new to it.
pub const STEP_WARMUP_NS: u64 = 200_000_000;

/// A slice of the warm-up of a start: the longest at first, and the shortest, where many workloads take turns. Shorter ones
/// would be noise alone.
pub const SLICE_NS: u64 = 125_000_000;
pub const LEAST_SLICE_NS: u64 = 62_500_000;

/// What the first slices that can be judged come to, if that is not less than the shortest each.
pub const SLICES_NS: u64 = 1_000_000_000;

/// A slice with fewer answers than this tells little: the next are twice as long, up to the longest.
pub const LEAST_ANSWERS: u64 = 20;
pub const LONGEST_SLICE_NS: u64 = 1_000_000_000;

/// Slices of a workload's first turn. Turns that follow are twice as long each time, up to the longest: each opens its
/// connections anew.
pub const TURN_SLICES: u64 = 4;
pub const LONGEST_TURN_NS: u64 = 2_000_000_000;

/// What of each turn is not looked at: its connections are new.
pub const TURN_SETTLES_NS: u64 = 20_000_000;

/// About what lies between two turns: connections are opened, and answered out. A guess for the clock on the screen.
pub const TURN_GAP_NS: u64 = 20_000_000;

/// The most trials, and the most starts, of a plan. All of them are listed in it; with ten seconds each these are 11 days.
pub const PLANNED: u64 = 100_000;

/// The most streams or pipelined requests that `dyno load` may be asked for on one connection. More are refused: each is made and
/// kept before any is answered.
pub const AT_ONCE: u32 = 1 << 20;

/// How often, and how long apart, a calibration looks whether the null responder listens. Then it gives up.
pub const LISTENS_GLANCES: u32 = 200;
pub const LISTENS: Duration = Duration::from_millis(10);
