//! Requests that leave in several pieces, and responses that come before the last of them (RFC 9112
//! §9.3).

use dyno_archive::interval::EarlyResponses;

use super::Worker;
use crate::driver::{ConnId, Driver};
use crate::slot::{H2Connection, ProtocolState};

impl Worker {
    /// Keeps where the request that was queued last on an HTTP/1.1 connection ends.
    #[cold]
    pub(super) fn mark_end<D: Driver>(&mut self, conn: ConnId, driver: &D) {
        let slot = &mut self.slots[conn as usize];
        slot.has_large = true;
        if let ProtocolState::H1(h1) = &mut slot.talk
            && let Some(exchange) = h1.in_flight.back_mut()
        {
            exchange.ends_at = driver.queued(conn).total();
        }
    }

    /// Keeps where the large requests in `out` end. Over TLS their records are longer, so that this
    /// is too early by as much.
    #[cold]
    pub(super) fn mark_ends<D: Driver>(&mut self, conn: ConnId, driver: &D) {
        let slot = &mut self.slots[conn as usize];
        slot.has_large = true;
        let before = driver.queued(conn).total();
        let ProtocolState::H2(h2) = &mut slot.talk else { return };
        let H2Connection { large, client, .. } = &mut **h2;
        for (key, end) in large.drain(..) {
            if let Some(stream) = client.data(key) {
                stream.exchange.ends_at = before + end as u64;
            }
        }
    }

    /// Keeps how much of a connection with large requests has left now that a completion is
    /// handled.
    #[inline]
    pub(super) fn note_left<D: Driver>(&mut self, conn: ConnId, driver: &D) {
        if self.slots[conn as usize].has_large {
            self.left = driver.queued(conn).taken.saturating_sub(driver.unsent(conn));
        }
    }

    /// A response of this status was complete before its request had been sent in full (RFC 9112
    /// §9.3): so many bytes were not.
    #[cold]
    pub(super) fn count_early(&mut self, unsent_bytes: u64, status: u16) {
        let early = self.recorder.current().answered_early.get_or_insert_default();
        let refusals = Some(u64::from(status >= 400));
        early.add(&EarlyResponses { responses: 1, unsent_bytes, refusals });
    }
}
