//! All limits of requests, and the effect of reaching each.

/// The most resources of a page that one entry may stand for. More are refused.
pub const RESOURCES: u32 = 1000;
