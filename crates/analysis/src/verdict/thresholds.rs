//! Thresholds that several rules share.

/// Share of its allowed CPU time from which on a server counts as limited by it.
pub const SERVER_BUSY: f64 = 0.9;

/// Share of its allowed CPU time from which on a server was certainly at its limit, whatever else
/// was busy.
pub const SERVER_FULL: f64 = 0.95;

/// Share of the machine's CPU time above which its loss to the hypervisor gives a caveat.
pub const STEAL: f64 = 0.02;

/// Share of its CPU time below which a server or the generator has room, so that something else is
/// the limit.
pub const SERVER_IDLE: f64 = 0.75;

/// Share of what a network device can carry from which on it counts as full: small frames fill it
/// before that with the gaps between them, which are not counted.
pub const LINK_FULL: f64 = 0.9;

/// Share of the periods of a CPU quota in which a server may be throttled without that being its
/// limit.
pub const THROTTLED: f64 = 0.05;

/// Share of the server's CPU time in the window, used by its JIT compilers, above which a step is
/// refused. A warm virtual machine stays below 2 %; cold ones used 34 to 64 %, and at 20 %
/// throughput may still grow by a quarter.
pub const JIT_SHARE: f64 = 0.2;

/// Share of a CPU above which the generator may have been the limit, so that a step is refused:
/// work and waiting of one thread, or work of all threads that share a CPU.
pub const GENERATOR_BUSY: f64 = 0.85;

/// Relative difference between the sides of Little's law above which a step is refused.
pub const LITTLE_TOLERANCE: f64 = 0.05;

/// Difference between the sides of Little's law, in requests in flight, below which it means
/// nothing: against a closed port a hundredth of a request is in flight, for microseconds each
/// time.
pub const LITTLE_LEAST: f64 = 0.005;

/// Time for which the generator may stand still within a window however short it is, nanoseconds.
/// Hypervisors take CPUs away for tens of milliseconds.
pub const PAUSE_NS: u64 = 50_000_000;
