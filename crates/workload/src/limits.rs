//! Limits of requests, each with the effect of exceeding it.

/// Maximum number of requests of one entry in the resources of a page, such as 20 in `/icon*20`. An
/// entry with a higher number is refused.
pub const RESOURCES: u32 = 1000;
