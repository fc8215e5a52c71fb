//! Requests with `Expect: 100-continue`: their bodies wait for the server's 100, at most as long as
//! curl waits (RFC 9110 §10.1.1).

use dyno_archive::load::Continues;
use dyno_archive::times::Recording;
use dyno_wire::h2::{Io, StreamKey};

use super::Worker;
use crate::driver::{ConnId, Driver};
use crate::slot::{HeldBody, ProtocolState};
use crate::{Instant, limits};

/// Counts and times of bodies that waited.
#[derive(Debug, Default)]
pub(super) struct ContinueBooks {
    counts: Continues,
    wait: Recording,
}

impl ContinueBooks {
    pub(super) fn report(mut self) -> Continues {
        Continues { wait: self.wait.seal(), ..self.counts }
    }
}

/// Length of the head of an HTTP/1.1 request.
pub(super) fn head_bytes(request: &[u8]) -> usize {
    request.windows(4).position(|w| w == b"\r\n\r\n").map_or(request.len(), |at| at + 4)
}

impl Worker {
    /// A body is held back.
    pub(super) fn count_held(&mut self) {
        if let Some(books) = &mut self.continues {
            books.counts.asked += 1;
        }
    }

    /// The server has sent 100 for a request whose head left at `sent`.
    fn count_continued(&mut self, sent: Instant, now: Instant) {
        if let Some(books) = &mut self.continues {
            books.counts.continued += 1;
            // The 100 had arrived at the completion's instant.
            books.wait.record(now.ns_since(sent));
        }
    }

    /// A final response began on an HTTP/1.1 connection. A body that it found waiting is not sent
    /// any more, and only a new connection shows the server that (RFC 9110 §10.1.1). That is so
    /// also if the 100 came just before it, and its request was not sent in full.
    #[inline]
    pub(super) fn drop_held(&mut self, conn: ConnId, status: u16) {
        let ProtocolState::H1(h1) = &mut self.slots[conn as usize].talk else { return };
        if h1.held.is_some()
            && h1.in_flight.len() == 1
            && let Some(held) = h1.held.take()
        {
            h1.said_close = true;
            self.count_answered_instead(status);
            self.count_early(held.bytes.len() as u64, status);
            if held.is_wanted
                && let Some(books) = &mut self.continues
            {
                books.counts.continued -= 1;
            }
        }
    }

    /// The server has sent a final response instead.
    pub(super) fn count_answered_instead(&mut self, status: u16) {
        if let Some(books) = &mut self.continues {
            books.counts.answered_instead += 1;
            books.counts.refused += u64::from(status == 417);
        }
    }

    fn count_waited_in_vain(&mut self) {
        if let Some(books) = &mut self.continues {
            books.counts.waited_in_vain += 1;
        }
    }

    /// An interim response came on an HTTP/1.1 connection, to its oldest request.
    #[cold]
    pub(super) fn see_interim(&mut self, conn: ConnId, status: u16, now: Instant) {
        let ProtocolState::H1(h1) = &mut self.slots[conn as usize].talk else { return };
        // Only the youngest request can wait, for nothing follows it before its body.
        let (Some(held), [exchange]) = (&mut h1.held, h1.in_flight.make_contiguous()) else {
            return;
        };
        if status != 100 || held.is_wanted {
            return;
        }
        held.is_wanted = true;
        let sent = exchange.sent;
        self.count_continued(sent, now);
    }

    /// Sends a body that the server has asked for.
    pub(super) fn send_wanted_body<D: Driver>(&mut self, conn: ConnId, driver: &mut D) {
        let ProtocolState::H1(h1) = &mut self.slots[conn as usize].talk else { return };
        if let Some(held) = h1.held.take_if(|held| held.is_wanted) {
            self.send_held(conn, &held, driver);
        }
    }

    fn send_held<D: Driver>(&mut self, conn: ConnId, held: &HeldBody, driver: &mut D) {
        if let Some(session) = &mut self.slots[conn as usize].tls {
            self.encrypted.clear();
            if session.write(&held.bytes, &mut self.encrypted).is_err() {
                return self.broken.push(conn);
            }
            driver.send(conn, &self.encrypted);
        } else {
            driver.send(conn, &held.bytes);
        }
        if held.bytes.len() >= limits::LARGE_REQUEST_BYTES {
            self.mark_end(conn, driver);
        }
    }

    /// Sends the body of an HTTP/1.1 connection that has waited for long enough. Returns when one
    /// that still waits is due.
    pub(super) fn send_overdue_body<D: Driver>(
        &mut self,
        conn: ConnId,
        now: Instant,
        driver: &mut D,
    ) -> Instant {
        let ProtocolState::H1(h1) = &mut self.slots[conn as usize].talk else {
            return Instant::NEVER;
        };
        let (Some(held), Some(exchange)) = (&h1.held, h1.in_flight.back()) else {
            return Instant::NEVER;
        };
        let due = exchange.continue_due();
        if due > now || held.is_wanted {
            return due;
        }
        if let Some(held) = h1.held.take() {
            self.count_waited_in_vain();
            self.send_held(conn, &held, driver);
        }
        Instant::NEVER
    }

    /// An interim response came on a stream.
    pub(super) fn see_interim_on_stream(
        &mut self,
        conn: ConnId,
        key: StreamKey,
        status: u16,
        now: Instant,
    ) {
        if status == 100
            && let Some(sent) = self.release_stream(conn, key, now)
        {
            self.count_continued(sent, now);
        }
    }

    /// Queues the bodies of an HTTP/2 connection that have waited for long enough. Returns when the
    /// next is due.
    pub(super) fn send_overdue_streams(&mut self, conn: ConnId, now: Instant) -> Instant {
        let mut next = Instant::NEVER;
        if self.continues.is_none() {
            return next;
        }
        let ProtocolState::H2(h2) = &self.slots[conn as usize].talk else { return next };
        let mut overdue = Vec::new();
        for (key, stream) in h2.client.iter().filter(|(_, stream)| stream.holds_body) {
            match stream.exchange.continue_due() {
                due if due <= now => overdue.push(key),
                due => next = next.min(due),
            }
        }
        for key in overdue {
            if self.release_stream(conn, key, now).is_some() {
                self.count_waited_in_vain();
            }
        }
        next
    }

    /// Queues the body of a stream that waits. Returns when its head left; `None`: it does not
    /// wait.
    fn release_stream(&mut self, conn: ConnId, key: StreamKey, now: Instant) -> Option<Instant> {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].talk else { return None };
        let stream = h2.client.data(key)?;
        if !std::mem::replace(&mut stream.holds_body, false) {
            return None;
        }
        let sent = stream.exchange.sent;
        let mut io = Io { out: &mut self.out, counts: &mut self.frames.counts };
        if !h2.client.release_body(key, &mut io)
            && let Some(stream) = h2.client.data(key)
        {
            // The windows hold the rest up from here on.
            stream.blocked_since = now;
        }
        Some(sent)
    }
}
