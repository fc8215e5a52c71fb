//! Bytes that answer no request.

use super::Worker;
use crate::driver::{Completion, CompletionKind, ConnId, Driver};

impl Worker {
    /// Bytes came that answer no request. How many before them did not either is not known.
    #[cold]
    pub(super) fn count_unsolicited(&mut self, conn: ConnId) {
        let slot = &self.slots[conn as usize];
        let counted = slot.served.saturating_sub(slot.in_flight() as u64);
        self.connections.unsolicited += 1;
        *self.connections.unsolicited_after.get_or_insert(0) += counted;
    }

    /// Everything has been answered: whatever still comes on a connection of HTTP/1.1 answers
    /// nothing.
    pub(crate) fn complete_late<D: Driver>(&mut self, completion: Completion, driver: &mut D) {
        let Completion { conn, what, .. } = completion;
        if what != CompletionKind::Received || !self.slots[conn as usize].is_quiet() {
            return;
        }
        let slot = &mut self.slots[conn as usize];
        let has_bytes = match &mut slot.tls {
            None => !is_idle_notice(driver.bytes()),
            Some(session) => {
                let mut has_plain = false;
                // Tickets and closing notices are no bytes of the server's.
                let _ = session.read(driver.bytes(), &mut |plain| {
                    has_plain |= !plain.is_empty() && !is_idle_notice(plain);
                    Ok::<(), ()>(())
                });
                has_plain
            }
        };
        if has_bytes {
            self.count_unsolicited(conn);
            self.connections.closed_by_us += 1;
            driver.close(conn);
            self.slots[conn as usize].disconnect();
        }
    }
}

/// Whether these bytes begin a 408, with which servers close connections that are idle.
pub(super) fn is_idle_notice(bytes: &[u8]) -> bool {
    [&b"HTTP/1.1 408 "[..], b"HTTP/1.0 408 "].iter().any(|notice| bytes.starts_with(notice))
}
