//! Unsolicited bytes, which belong to no request. They put earlier responses of the connection in
//! doubt, so they are counted.

use super::Worker;
use crate::conversation::Conversation as _;
use crate::driver::{Completion, CompletionKind, ConnId, StreamDriver};

impl Worker {
    /// Counts bytes that belong to no request, and the earlier responses of the connection. It is
    /// unknown how many of these responses belonged to the wrong request.
    #[cold]
    pub(super) fn count_unsolicited(&mut self, conn: ConnId) {
        let slot = &self.slots[conn as usize];
        let responses = slot.served.saturating_sub(slot.in_flight() as u64);
        self.connections.unsolicited += 1;
        *self.connections.unsolicited_after.get_or_insert(0) += responses;
    }

    /// Handles a completion after the load. Bytes on a quiet connection are unsolicited, except for
    /// a notice before the close of an idle connection. Other connections are ignored.
    pub(crate) fn complete_after_load<D: StreamDriver>(
        &mut self,
        completion: Completion,
        driver: &mut D,
    ) {
        let Completion { conn, kind, .. } = completion;
        if kind != CompletionKind::Received || !self.slots[conn as usize].is_quiet() {
            return;
        }
        let slot = &mut self.slots[conn as usize];
        let has_bytes = match &mut slot.tls {
            None => !slot.conversation.is_close_notice(driver.received_bytes()),
            Some(session) => {
                let mut has_plain = false;
                // Session tickets and close notices are expected.
                let _ = session.read(driver.received_bytes(), &mut |plain| {
                    has_plain |= !plain.is_empty() && !slot.conversation.is_close_notice(plain);
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
