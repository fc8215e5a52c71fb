//! The way of a worker's events to the controller.

use std::sync::{Arc, mpsc};

use super::messages::{Message, WorkerEvent, WorkerId};
use super::response_counts::ResponseCounts;

/// Receives the events of one load's workers.
#[derive(Clone, Debug)]
pub struct Sink {
    /// Index of the load among the loads that run together.
    load: usize,
    to_controller: mpsc::Sender<Message>,
    response_counts: Arc<ResponseCounts>,
}

impl Sink {
    pub(super) const fn new(
        load: usize,
        to_controller: mpsc::Sender<Message>,
        response_counts: Arc<ResponseCounts>,
    ) -> Sink {
        Sink { load, to_controller, response_counts }
    }

    /// Sends an event of a worker. An event after the end of the load is dropped.
    pub fn send(&self, worker: u32, event: WorkerEvent) {
        let id = WorkerId { load: self.load, worker };
        drop(self.to_controller.send(Message::Worker(id, event)));
    }

    /// Stores the number of complete responses so far of a worker.
    pub fn count(&self, worker: u32, responses: u64) {
        self.response_counts.record(worker, responses);
    }
}
