//! Who can end what runs: the guard if dyno dies, the user at any time.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::guard::Guard;

/// Who can end a program that dyno has started, besides dyno: the guard if dyno dies, the user at any time.
#[derive(Clone, Copy, Debug)]
pub struct Supervision<'a> {
    pub guard: &'a Guard,
    pub interrupts: &'a Interrupts,
}

/// How often the user has asked us to end. Set by a signal handler.
#[derive(Debug, Default)]
pub struct Interrupts(AtomicU32);

impl Interrupts {
    #[must_use]
    pub const fn new() -> Self {
        Interrupts(AtomicU32::new(0))
    }

    /// Counts one more. Safe in a signal handler.
    pub fn raise(&self) -> u32 {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}
