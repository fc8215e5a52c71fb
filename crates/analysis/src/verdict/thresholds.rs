//! Defines the thresholds that several rules share, so that the rules cannot contradict each other.

/// The CPU is the server's limit if the server uses at least this share of its allowed CPU time.
pub const SERVER_BUSY: f64 = 0.9;

/// A server that uses at least this share of its allowed CPU time was certainly at its limit, even
/// if the generator was busy.
pub const SERVER_FULL: f64 = 0.95;

/// Largest share of the machine's CPU time that the hypervisor takes without a caveat.
pub const STEAL: f64 = 0.02;

/// Minimum CPU use of all other programs for a caveat, in CPUs. A smaller fall of their use
/// explains no growth of a server.
pub const OTHERS_CPUS: f64 = 0.1;

/// A server or generator that uses less than this share of its CPU time has headroom, so something
/// else is the limit.
pub const SERVER_IDLE: f64 = 0.75;

/// A network device is full if at least this share of its capacity is used. It is below 1 because
/// the gaps between frames use capacity but are not counted.
pub const LINK_FULL: f64 = 0.9;

/// Share of the periods of a CPU quota up to which throttling is not the server's limit.
pub const THROTTLED: f64 = 0.05;

/// Throttling is the limit if it occurs in at least this share of the periods of a CPU quota, even
/// if the server used little of the quota on average.
pub const MANY_THROTTLED: f64 = 0.5;

/// Largest share of the server's CPU time in the window that its JIT compilers use in a valid step.
/// Warm runtimes used less than 2 %, and cold ones 34 to 64 %. At 20 % throughput may still grow by
/// a quarter.
pub const JIT_SHARE: f64 = 0.2;

/// The generator may have been the limit above this share of a CPU. The step is then not valid. The
/// share applies to the work and waiting of one thread, and to the work of all threads that share
/// a CPU.
pub const GENERATOR_BUSY: f64 = 0.85;

/// Little's law relates two values of the mean number of requests in flight: by their recorded
/// times, and by their count. Above this relative difference between the two, a step is not
/// valid.
pub const LITTLE_TOLERANCE: f64 = 0.05;

/// Difference between the two values of Little's law, in requests in flight, up to which it is
/// ignored. With a closed port each request takes only microseconds, so on average a hundredth of a
/// request is in flight.
pub const LITTLE_LEAST: f64 = 0.005;

/// Longest pause of the generator that is accepted in a window of any length, nanoseconds.
/// Hypervisors take CPUs away for tens of milliseconds.
pub const PAUSE_NS: u64 = 50_000_000;

/// Largest share of the window's requests without a response in a valid step. With more, the server
/// got less load than planned.
pub(crate) const MAX_LOST: f64 = 0.01;
