//! Upper limits of a run's contents. dyno does not write larger values, and refuses a file with
//! one, because sums would overflow. Each limit is far above the values of any present machine.

/// Events of one kind in one entry of a trial: 10 million a second for 20 days.
pub const COUNT: u64 = 1 << 44;

/// Bytes in one entry of a trial: a petabyte.
pub const BYTES: u64 = 1 << 50;

/// A duration within a trial: 104 days. A load may take 30 days after a warm-up of 30 days.
pub const DURATION_NS: u64 = 1 << 53;

/// An instant of the monotonic clock, and sums of time over connections or over a machine's CPUs:
/// 73 years.
pub const INSTANT_NS: u64 = 1 << 61;

/// CPU time of all CPUs since a machine was started: 292 years.
pub const CPU_TIME_SINCE_BOOT: u64 = 1 << 63;

/// Counters since a machine was started, and sums of amounts. The sum of eight such values does not
/// overflow.
pub const SINCE_BOOT: u64 = 1 << 60;

/// Intervals of a trial. dyno records at most 1,024, and merges further ones.
pub const INTERVALS: usize = 4096;

/// Loads of a search. dyno makes 80 at most.
pub const SEARCH_LOADS: usize = 1024;

/// Range of the rates of a search's loads, requests per second.
pub const SEARCH_RATES: std::ops::RangeInclusive<f64> = 1.0..=1e8;

/// Slices of a warm-up. dyno makes a few per second, for at most an hour.
pub const WARM_UP_SLICES: usize = 1 << 20;

/// Samples of a trial.
pub const SAMPLES: usize = 1 << 20;

/// Threads of the generator.
pub const GENERATOR_THREADS: usize = 4096;

/// Threads and processes of a subject in one sample.
pub const SUBJECT_THREADS: usize = 1 << 16;

/// Repeats of a suite.
pub const REPEATS: u32 = 100_000;

/// Requests in flight of a step: connections × streams × pipeline.
pub const IN_FLIGHT: u32 = 1 << 30;

/// Frames of a stack, including inlined ones.
pub const STACK_FRAMES: usize = 1024;

/// Bytes of the name of a function, and of the name of its file.
pub const FUNCTION_NAME_BYTES: usize = 2048;
