//! Bodies of responses that are stored until they are complete, within a memory budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::limits;

/// Memory budget for stored bodies, shared by its clones. It holds the number of bytes left.
#[derive(Clone, Debug)]
pub struct BodyBudget(Arc<AtomicUsize>);

impl Default for BodyBudget {
    fn default() -> Self {
        BodyBudget::new(limits::STORED_BODIES_BYTES)
    }
}

impl BodyBudget {
    /// Creates a budget of this number of bytes.
    #[must_use]
    pub fn new(bytes: usize) -> BodyBudget {
        BodyBudget(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Takes bytes from the budget. Returns whether the budget had enough bytes left.
    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn release(&self, bytes: usize) {
        self.0.fetch_add(bytes, Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn bytes_left(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// Reason why a body is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotStored {
    /// The body is longer than a single body may be.
    TooLong,
    /// The stored bodies together need all bytes of the budget.
    OverBudget,
}

/// A body that is stored until it is complete.
#[derive(Debug)]
pub(crate) struct StoredBody {
    bytes: Vec<u8>,
    budget: BodyBudget,
}

impl StoredBody {
    pub(crate) const fn new(budget: BodyBudget) -> StoredBody {
        StoredBody { bytes: Vec::new(), budget }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends a part of the body. `max_bytes`: longest body.
    pub(crate) fn push(&mut self, data: &[u8], max_bytes: usize) -> Result<(), NotStored> {
        if self.bytes.len() + data.len() > max_bytes {
            return Err(NotStored::TooLong);
        }
        if !self.budget.take(data.len()) {
            return Err(NotStored::OverBudget);
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    /// Removes the body, and keeps at most this much memory for the next one.
    pub(crate) fn clear(&mut self, max_retained_bytes: usize) {
        self.budget.release(self.bytes.len());
        self.bytes.clear();
        self.bytes.shrink_to(max_retained_bytes);
    }
}

impl Drop for StoredBody {
    fn drop(&mut self) {
        self.budget.release(self.bytes.len());
    }
}
