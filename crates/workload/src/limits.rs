//! Limits of requests, each with the effect of exceeding it.

/// Maximum number of requests of one entry in the resources of a page, such as 20 in `/icon*20`. An
/// entry with a higher number is refused.
pub const RESOURCES: u32 = 1000;

/// Maximum number of steps of a sequence. A longer sequence is refused, because the times of its
/// steps could not be recorded separately.
pub const STEPS: usize = 256;
