//! Every bound of what is asked for, and what happens on reaching it.

/// The most resources of a page that one entry may stand for. More are refused.
pub const RESOURCES: u32 = 1000;
