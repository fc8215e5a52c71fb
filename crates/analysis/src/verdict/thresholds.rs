//! Defines the thresholds that several rules share, so that the rules cannot contradict each other.

/// Minimum share of its allowed CPU time at which a server counts as limited by it.
pub const SERVER_BUSY: f64 = 0.9;

/// Minimum share of its allowed CPU time at which a server was certainly at its limit, even if the
/// generator was busy too.
pub const SERVER_FULL: f64 = 0.95;

/// Share of the machine's CPU time that the hypervisor may take without a caveat.
pub const STEAL: f64 = 0.02;

/// Share of its CPU time below which a server or the generator has headroom. Below it, something
/// else is the limit.
pub const SERVER_IDLE: f64 = 0.75;

/// Minimum share of a network device's capacity at which it counts as full. The gaps between frames
/// use capacity too, and are not counted.
pub const LINK_FULL: f64 = 0.9;

/// Share of the periods of a CPU quota up to which throttling does not count as the server's limit.
pub const THROTTLED: f64 = 0.05;

/// Minimum share of the periods of a CPU quota at which throttling counts as the limit even of a
/// server that used little of the quota on average.
pub const MANY_THROTTLED: f64 = 0.5;

/// Share of the server's CPU time in the window that its JIT compilers may use. Above it a step is
/// refused. Warm runtimes used less than 2 %, and cold ones 34 to 64 %. At 20 % throughput
/// may still grow by a quarter.
pub const JIT_SHARE: f64 = 0.2;

/// Share of a CPU above which the generator may have been the limit, so that a step is refused. It
/// applies to the work and waiting of one thread, and to the work of all threads that share a CPU.
pub const GENERATOR_BUSY: f64 = 0.85;

/// Relative difference between the sides of Little's law above which a step is refused.
pub const LITTLE_TOLERANCE: f64 = 0.05;

/// Difference between the sides of Little's law, in requests in flight, up to which it is ignored.
/// Against a closed port only a hundredth of a request is in flight, for microseconds each time.
pub const LITTLE_LEAST: f64 = 0.005;

/// Longest pause of the generator that is accepted in a window of any length, nanoseconds.
/// Hypervisors take CPUs away for tens of milliseconds.
pub const PAUSE_NS: u64 = 50_000_000;
