//! Bounds that more than one rule knows, each with its reason.

/// Share of its allowed CPU time above which a server counts as bound by it.
pub const SERVER_BUSY: f64 = 0.9;

/// Share above which the server was at its limit for certain, whatever else was busy too.
pub const SERVER_FULL: f64 = 0.95;

/// Share of the machine's CPU time above which the hypervisor's taking it is worth telling.
pub const STEAL: f64 = 0.02;

/// Below this share a server has room, so something else limits it. The same holds for the generator.
pub const SERVER_IDLE: f64 = 0.75;

/// Share of the periods of a CPU quota in which a server may be throttled without that being its limit.
pub const THROTTLED: f64 = 0.05;

/// Share of the server's CPU time in the window above which its compilers refuse a step. A warm virtual machine stays below
/// 2 %; cold ones were seen at 34 to 64 %, and at 20 % a quarter more throughput may be to come.
pub const JIT_SHARE: f64 = 0.2;

/// Share of a CPU above which the generator may have been the limit, so that a step is refused: of a thread, with what it
/// waited for a CPU, or of a CPU that threads share.
pub const GENERATOR_BUSY: f64 = 0.85;

/// How far Little's law may be off before a step is refused.
pub const LITTLE_TOLERANCE: f64 = 0.05;
