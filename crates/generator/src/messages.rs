//! The messages between the controller of loads, their generators and their watches.

use dyno_engine::{Instant, Stop, WorkerReport};
use dyno_model::plan::Priority;
use dyno_model::{Interval, Sample};

use super::watch::{Edge, LoadStopReason};

/// Address of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerId {
    /// Index of the worker's load among the loads that run together.
    pub load: usize,
    /// Number of the worker in its load.
    pub worker: u32,
}

/// A message to the controller.
#[derive(Clone, Debug)]
pub enum Message {
    Worker(WorkerId, WorkerEvent),
    /// The counters of a load's server were read. `None`: there are no counters to read.
    Sampled {
        load: usize,
        sample: Option<Box<Sample>>,
    },
    /// The closing sample of a load now has the readings that take long.
    Completed {
        load: usize,
        sample: Box<Sample>,
    },
    /// Watches request the end of their loads, by index.
    StopRequested(Vec<(usize, LoadStopReason)>),
    /// Time has passed.
    Tick,
}

/// A message of a worker.
#[derive(Clone, Debug)]
pub enum WorkerEvent {
    /// Every connection was tried once. The worker waits for [`GeneratorOrder::Begin`].
    Ready,
    /// An interval has ended.
    Interval(Box<Interval>),
    /// No request waits for a response. The connections stay open until [`GeneratorOrder::Close`].
    Drained,
    /// All connections are closed. Last message of the worker.
    Closed(Box<WorkerResult>),
    /// The worker cannot run, with the reason. Last message of the worker.
    Failed(String),
}

/// The results of a worker, apart from its intervals.
#[derive(Clone, Debug)]
pub struct WorkerResult {
    pub report: WorkerReport,
    /// Priority that the worker had.
    pub priority: Priority,
}

/// An instruction of the controller. The caller executes instructions in their order.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadCommand {
    /// Give an order to the generator of a load.
    Order { load: usize, order: GeneratorOrder },
    /// Read the counters of a load's server, and answer with [`Message::Sampled`].
    Sample { load: usize, edge: Edge },
    /// Begin the readings that take long, after the samples at which windows open.
    OpenProbes { load: usize },
    /// Add the readings that take long to the closing sample of a load, and answer with
    /// [`Message::Completed`].
    Complete { load: usize, sample: Box<Sample> },
    /// Report an interval, with the sums over all workers, to the watch of a load.
    Report { load: usize, interval: Box<Interval> },
    /// Ask all watches for reasons to end their loads, and answer with [`Message::StopRequested`]
    /// if there is one.
    AskWatches,
}

/// An order to the generator of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeneratorOrder {
    /// Begin the load at an instant, the same for all workers of all loads.
    Begin(Instant),
    /// Take the machine's readings at which the measured window opens.
    OpenWindow,
    /// Take the machine's readings at which the measured window closes.
    CloseWindow,
    /// End the measured window early.
    End(Stop),
    /// Close the connections once there are no requests in flight.
    Close,
    /// Do not wait for this worker, which does not answer.
    GiveUp { worker: u32 },
}
