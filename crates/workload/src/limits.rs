//! Limits of requests, each with the effect of exceeding it.

/// Maximum number of resources of a page that one entry may stand for. An entry for more is
/// refused.
pub const RESOURCES: u32 = 1000;
