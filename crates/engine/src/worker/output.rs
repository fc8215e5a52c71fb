//! Passes bytes to the driver, encrypted if the connection uses TLS.

use super::Worker;
use crate::conversation::{CloseReason, Conversation as _};
use crate::driver::{ConnId, StreamDriver};
use crate::limits;
use crate::slot::Slot;

/// TLS records to send.
#[derive(Debug, Default)]
pub(super) struct TlsOutput {
    /// Reused memory for the records of one call.
    encrypted: Vec<u8>,
    /// Connections whose TLS session failed to encrypt.
    pub(super) broken: Vec<ConnId>,
}

impl TlsOutput {
    /// Passes bytes of a connection to the driver.
    #[inline(always)]
    fn send<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        slot: &mut Slot,
        bytes: &[u8],
        driver: &mut D,
    ) {
        let Some(session) = &mut slot.tls else { return driver.send(conn, bytes) };
        self.encrypted.clear();
        if session.write(bytes, &mut self.encrypted).is_ok() {
            driver.send(conn, &self.encrypted);
        } else {
            self.broken.push(conn);
        }
    }

    /// Passes bytes of a conversation to the driver. If they can leave in several pieces, also
    /// records their place in the byte stream of the connection.
    #[inline]
    pub(super) fn send_output<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        slot: &mut Slot,
        bytes: &[u8],
        driver: &mut D,
    ) {
        if bytes.len() < limits::LARGE_REQUEST_BYTES {
            self.send(conn, slot, bytes, driver);
        } else {
            self.send_large(conn, slot, bytes, driver);
        }
    }

    #[cold]
    fn send_large<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        slot: &mut Slot,
        bytes: &[u8],
        driver: &mut D,
    ) {
        slot.has_large_request = true;
        let start = driver.queued_bytes(conn).total();
        self.send(conn, slot, bytes, driver);
        slot.conversation.on_queued(start, driver.queued_bytes(conn).total());
    }
}

impl Worker {
    /// Passes the output of a conversation to the driver.
    #[inline(always)]
    pub(super) fn queue_output<D: StreamDriver>(&mut self, conn: ConnId, driver: &mut D) {
        // HTTP/1.1 has no output here, so only this check is inlined.
        if !self.shared.output.is_empty() {
            self.send_all_output(conn, driver);
        }
    }

    fn send_all_output<D: StreamDriver>(&mut self, conn: ConnId, driver: &mut D) {
        let slot = &mut self.slots[conn as usize];
        self.tls_output.send_output(conn, slot, &self.shared.output, driver);
        self.shared.output.clear();
    }

    /// Sends a waiting body that the server has requested, or whose wait is over.
    pub(super) fn send_requested_body<D: StreamDriver>(&mut self, conn: ConnId, driver: &mut D) {
        let slot = &mut self.slots[conn as usize];
        if let Some(body) = slot.conversation.take_requested_body() {
            self.tls_output.send_output(conn, slot, &body, driver);
        }
    }

    /// Announces the close of a connection to the server, if the protocol allows it.
    pub(super) fn announce_close<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        reason: CloseReason<'_>,
        driver: &mut D,
    ) {
        self.slots[conn as usize].conversation.announce_close(reason, &mut self.shared);
        if !self.shared.output.is_empty() {
            self.queue_output(conn, driver);
            driver.flush(&mut |conn, at| self.on_handed_over(conn, at));
        }
    }

    /// Updates the number of bytes that have left on a connection with large requests, at a
    /// completion.
    #[inline]
    pub(super) fn update_sent_bytes<D: StreamDriver>(&mut self, conn: ConnId, driver: &D) {
        if self.slots[conn as usize].has_large_request {
            self.shared.sent_bytes =
                driver.queued_bytes(conn).taken.saturating_sub(driver.unsent_bytes(conn));
        }
    }
}
