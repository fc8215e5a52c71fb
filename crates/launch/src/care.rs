//! Who looks after what runs: the guard ends it if dyno dies, the user may end it.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::guard::Guard;

/// Who looks after what is run: the guard ends it if we die, the user may end it.
#[derive(Clone, Copy, Debug)]
pub struct Care<'a> {
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
