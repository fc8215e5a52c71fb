//! The orders that a worker has received.

use std::sync::mpsc::{Receiver, TryRecvError};

use dyno_engine::{Instant, Stop};

use super::messages::GeneratorOrder;

/// The orders to one worker. If the controller is gone, the worker ends.
#[derive(Debug)]
pub(super) struct Mailbox {
    orders: Receiver<GeneratorOrder>,
    begin: Option<Instant>,
    stop: Stop,
    may_close: bool,
}

impl Mailbox {
    pub(super) const fn new(orders: Receiver<GeneratorOrder>) -> Mailbox {
        Mailbox { orders, begin: None, stop: Stop::No, may_close: false }
    }

    /// Returns the instant at which the load begins; `None`: not ordered yet.
    pub(super) fn begin(&mut self) -> Option<Instant> {
        self.read();
        self.begin
    }

    /// Returns how the load ends early.
    pub(super) fn stop(&mut self) -> Stop {
        self.read();
        self.stop
    }

    /// Waits for the order to close the connections.
    pub(super) fn wait_until_closable(mut self) {
        while !self.may_close {
            match self.orders.recv() {
                Ok(order) => self.add(order),
                Err(_) => return,
            }
        }
    }

    /// Reads all orders that have arrived.
    fn read(&mut self) {
        loop {
            match self.orders.try_recv() {
                Ok(order) => self.add(order),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.stop = Stop::At(Instant(0));
                    return;
                }
            }
        }
    }

    const fn add(&mut self, order: GeneratorOrder) {
        match order {
            GeneratorOrder::Begin(at) => self.begin = Some(at),
            GeneratorOrder::End(stop) => self.stop = stop,
            GeneratorOrder::Close => self.may_close = true,
            GeneratorOrder::OpenWindow
            | GeneratorOrder::CloseWindow
            | GeneratorOrder::GiveUp { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn mailbox_returns_latest_orders() {
        let (orders, mailbox) = mpsc::channel();
        let mut mailbox = Mailbox::new(mailbox);
        assert_eq!((mailbox.begin(), mailbox.stop()), (None, Stop::No));
        orders.send(GeneratorOrder::Begin(Instant(5))).unwrap();
        orders.send(GeneratorOrder::End(Stop::Now(Instant(7)))).unwrap();
        assert_eq!((mailbox.begin(), mailbox.stop()), (Some(Instant(5)), Stop::Now(Instant(7))));
        orders.send(GeneratorOrder::Close).unwrap();
        mailbox.wait_until_closable();
    }

    #[test]
    fn mailbox_without_controller_ends_worker() {
        let (orders, mailbox) = mpsc::channel();
        let mut mailbox = Mailbox::new(mailbox);
        drop(orders);
        assert_eq!((mailbox.begin(), mailbox.stop()), (None, Stop::At(Instant(0))));
        mailbox.wait_until_closable();
    }
}
