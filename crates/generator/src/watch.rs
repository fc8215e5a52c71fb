//! The interface between a running load and its observer.

use std::sync::Arc;

use dyno_model::{Interval, Sample};

use super::response_counts::ResponseCounts;

/// Position of a sample in the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    Warmup,
    /// The measured window opens here.
    Opens,
    Within,
    /// The measured window closes here.
    Closes,
}

/// An observer of a running load that can end the load. All calls come from the thread that runs
/// the load.
pub trait Watch {
    /// Reads the counters of the server. `None`: no counters to read.
    fn sample(&mut self, _edge: Edge) -> Option<Sample> {
        None
    }

    /// Begins the readings that take long. The samples at which windows open were taken for all
    /// loads.
    fn open_probes(&mut self) {}

    /// Adds the readings that take long to the closing sample. The connections are still open.
    fn complete(&mut self, _sample: &mut Sample) {}

    /// Returns the counters in which workers store their number of responses. `None`: the counters
    /// are not needed.
    fn response_counts(&self) -> Option<Arc<ResponseCounts>> {
        None
    }

    /// Receives an interval that has ended. The interval has the sums over all workers.
    fn interval(&mut self, _interval: &Interval) {}

    /// Returns a reason to end the load now. `None`: the load goes on. Called many times a second.
    fn stop(&mut self) -> Option<LoadStopReason>;
}

/// A watch that reads nothing, and ends the load once its condition is true.
#[allow(missing_debug_implementations)] // It holds a closure.
pub struct StopWhen<F>(pub F);

impl<F: FnMut() -> bool> Watch for StopWhen<F> {
    fn stop(&mut self) -> Option<LoadStopReason> {
        (self.0)().then_some(LoadStopReason::Stopped)
    }
}

/// Why a load ends before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadStopReason {
    /// The watch stopped the load. The result is valid for the measured part.
    Stopped,
    /// The server failed, with a description of the failure.
    ServerFailed(String),
}
