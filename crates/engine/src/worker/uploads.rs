//! Requests that leave in several pieces, and responses that arrive before the last piece has left
//! (RFC 9112 §9.3).

use dyno_archive::interval::EarlyResponses;

use super::Worker;
use crate::driver::{ConnId, Driver};
use crate::slot::{H2Connection, ProtocolState};

impl Worker {
    /// Records the end of the last queued request of an HTTP/1.1 connection in its byte stream.
    #[cold]
    pub(super) fn record_request_end<D: Driver>(&mut self, conn: ConnId, driver: &D) {
        let slot = &mut self.slots[conn as usize];
        slot.has_large_request = true;
        if let ProtocolState::H1(h1) = &mut slot.protocol
            && let Some(exchange) = h1.in_flight.back_mut()
        {
            exchange.end_offset = driver.queued_bytes(conn).total();
        }
    }

    /// Records the ends of the large requests in `output`. TLS records are longer than `output`, so
    /// over TLS the recorded ends are too early by the difference.
    #[cold]
    pub(super) fn record_stream_ends<D: Driver>(&mut self, conn: ConnId, driver: &D) {
        let slot = &mut self.slots[conn as usize];
        slot.has_large_request = true;
        let offset = driver.queued_bytes(conn).total();
        let ProtocolState::H2(h2) = &mut slot.protocol else { return };
        let H2Connection { large_requests, client, .. } = &mut **h2;
        for (key, end) in large_requests.drain(..) {
            if let Some(stream) = client.value(key) {
                stream.exchange.end_offset = offset + end as u64;
            }
        }
    }

    /// Updates the number of bytes that have left on a connection with large requests, at a
    /// completion.
    #[inline]
    pub(super) fn update_sent_bytes<D: Driver>(&mut self, conn: ConnId, driver: &D) {
        if self.slots[conn as usize].has_large_request {
            self.current_sent_bytes =
                driver.queued_bytes(conn).taken.saturating_sub(driver.unsent_bytes(conn));
        }
    }

    /// Counts a response that was complete before its request had been sent in full (RFC 9112
    /// §9.3). `unsent_bytes`: bytes of the request that had not left.
    #[cold]
    pub(super) fn count_early_response(&mut self, unsent_bytes: u64, status: u16) {
        let early = self.recorder.current().answered_early.get_or_insert_default();
        let refusals = Some(u64::from(status >= 400));
        early.add(&EarlyResponses { responses: 1, unsent_bytes, refusals });
    }
}
