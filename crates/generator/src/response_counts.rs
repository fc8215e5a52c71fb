//! Counts the responses of a running load, for measurements of costs per response.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of complete responses so far of each worker of a load, correct or not. It is used to
/// compute costs per response.
#[derive(Debug)]
pub struct ResponseCounts(Vec<WorkerCounter>);

/// A counter in its own cache line, so that a write does not invalidate another worker's line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct WorkerCounter(AtomicU64);

impl ResponseCounts {
    /// Returns counters for up to this many workers.
    #[must_use]
    pub fn new(workers: u32) -> Arc<ResponseCounts> {
        Arc::new(ResponseCounts((0..workers).map(|_| WorkerCounter::default()).collect()))
    }

    /// Returns the sum over all workers. Workers store their numbers once per iteration of their
    /// loops, so the latest responses are missing.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|worker| worker.0.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn record(&self, worker: u32, responses: u64) {
        if let Some(counter) = self.0.get(worker as usize) {
            counter.0.store(responses, Ordering::Relaxed);
        }
    }
}
