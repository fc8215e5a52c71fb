//! Requests with `Expect: 100-continue` (RFC 9110 §10.1.1). Their bodies wait for 100 (Continue)
//! from the server, at most [`limits::CONTINUE_NS`].

use dyno_archive::load::Continues;
use dyno_archive::times::Recording;
use dyno_wire::h2::{Io, StreamKey};

use super::Worker;
use crate::driver::{ConnId, Driver};
use crate::slot::{HeldBody, ProtocolState};
use crate::{Instant, limits};

/// Counts and waits of bodies that waited for 100 (Continue).
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

/// Returns the length of the head of an HTTP/1.1 request.
pub(super) fn head_bytes(request: &[u8]) -> usize {
    request.windows(4).position(|w| w == b"\r\n\r\n").map_or(request.len(), |start| start + 4)
}

impl Worker {
    /// Counts a body that waits for 100 (Continue).
    pub(super) fn count_held_body(&mut self) {
        if let Some(books) = &mut self.continues {
            books.counts.asked += 1;
        }
    }

    /// Counts a 100 (Continue) for a request whose head left at `sent`.
    fn count_continued(&mut self, sent: Instant, now: Instant) {
        if let Some(books) = &mut self.continues {
            books.counts.continued += 1;
            books.wait.record(now.ns_since(sent));
        }
    }

    /// Drops a waiting body when a final response begins on an HTTP/1.1 connection. The body is not
    /// sent, so the connection must be closed (RFC 9110 §10.1.1). If 100 came in the same read as
    /// the response, the body is dropped as well, because it has not been sent yet.
    #[inline]
    pub(super) fn drop_held_body(&mut self, conn: ConnId, status: u16) {
        let ProtocolState::H1(h1) = &mut self.slots[conn as usize].protocol else { return };
        if h1.held_body.is_some()
            && h1.in_flight.len() == 1
            && let Some(held) = h1.held_body.take()
        {
            h1.has_sent_close = true;
            self.count_final_response(status);
            self.count_early_response(held.bytes.len() as u64, status);
            if held.is_requested
                && let Some(books) = &mut self.continues
            {
                // `on_interim` has counted the 100, but the body did not follow it.
                books.counts.continued -= 1;
            }
        }
    }

    /// Counts a final response in place of 100 (Continue).
    pub(super) fn count_final_response(&mut self, status: u16) {
        if let Some(books) = &mut self.continues {
            books.counts.answered_instead += 1;
            books.counts.refused += u64::from(status == 417);
        }
    }

    /// Counts a body that was sent without 100 (Continue), after the longest wait.
    fn count_expired_wait(&mut self) {
        if let Some(books) = &mut self.continues {
            books.counts.waited_in_vain += 1;
        }
    }

    /// Counts and handles an interim response to the oldest request of an HTTP/1.1 connection.
    #[cold]
    pub(super) fn on_interim(&mut self, conn: ConnId, status: u16, now: Instant) {
        self.recorder.current().outcomes.count_status(status);
        let ProtocolState::H1(h1) = &mut self.slots[conn as usize].protocol else { return };
        // A request whose body waits is the latest on its connection, because later requests are
        // sent after the body. An interim response belongs to the oldest request, so it concerns
        // the waiting body only if the connection has just one request in flight.
        let (Some(held), [exchange]) = (&mut h1.held_body, h1.in_flight.make_contiguous()) else {
            return;
        };
        if status != 100 || held.is_requested {
            return;
        }
        held.is_requested = true;
        let sent = exchange.sent;
        self.count_continued(sent, now);
    }

    /// Sends the waiting body if the server has sent 100 (Continue).
    pub(super) fn send_requested_body<D: Driver>(&mut self, conn: ConnId, driver: &mut D) {
        let ProtocolState::H1(h1) = &mut self.slots[conn as usize].protocol else { return };
        if let Some(held) = h1.held_body.take_if(|held| held.is_requested) {
            self.send_held_body(conn, &held, driver);
        }
    }

    fn send_held_body<D: Driver>(&mut self, conn: ConnId, held: &HeldBody, driver: &mut D) {
        if let Some(session) = &mut self.slots[conn as usize].tls {
            self.encrypted.clear();
            if session.write(&held.bytes, &mut self.encrypted).is_err() {
                return self.broken_tls.push(conn);
            }
            driver.send(conn, &self.encrypted);
        } else {
            driver.send(conn, &held.bytes);
        }
        if held.bytes.len() >= limits::LARGE_REQUEST_BYTES {
            self.record_request_end(conn, driver);
        }
    }

    /// Sends the waiting body of an HTTP/1.1 connection if its wait is over. Returns the end of the
    /// wait; `NEVER`: no body waits, or the head has not left.
    pub(super) fn send_overdue_body<D: Driver>(
        &mut self,
        conn: ConnId,
        now: Instant,
        driver: &mut D,
    ) -> Instant {
        let ProtocolState::H1(h1) = &mut self.slots[conn as usize].protocol else {
            return Instant::NEVER;
        };
        let (Some(held), Some(exchange)) = (&h1.held_body, h1.in_flight.back()) else {
            return Instant::NEVER;
        };
        let wait_ends = exchange.continue_deadline();
        if wait_ends > now || held.is_requested {
            return wait_ends;
        }
        if let Some(held) = h1.held_body.take() {
            self.count_expired_wait();
            self.send_held_body(conn, &held, driver);
        }
        Instant::NEVER
    }

    /// Handles an interim response on a stream.
    pub(super) fn on_stream_interim(
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

    /// Queues the waiting bodies of an HTTP/2 connection whose wait is over. Returns the end of the
    /// next wait.
    pub(super) fn send_overdue_streams(&mut self, conn: ConnId, now: Instant) -> Instant {
        let mut next = Instant::NEVER;
        if self.continues.is_none() {
            return next;
        }
        let ProtocolState::H2(h2) = &self.slots[conn as usize].protocol else { return next };
        let mut overdue = Vec::new();
        for (key, stream) in h2.client.iter().filter(|(_, stream)| stream.holds_body) {
            let wait_ends = stream.exchange.continue_deadline();
            if wait_ends <= now {
                overdue.push(key);
            } else {
                next = next.min(wait_ends);
            }
        }
        for key in overdue {
            if self.release_stream(conn, key, now).is_some() {
                self.count_expired_wait();
            }
        }
        next
    }

    /// Queues the waiting body of a stream. Returns when its head left; `None`: no body waits.
    fn release_stream(&mut self, conn: ConnId, key: StreamKey, now: Instant) -> Option<Instant> {
        let ProtocolState::H2(h2) = &mut self.slots[conn as usize].protocol else { return None };
        let stream = h2.client.value(key)?;
        if !std::mem::replace(&mut stream.holds_body, false) {
            return None;
        }
        let sent = stream.exchange.sent;
        let mut io = Io { out: &mut self.output, counts: &mut self.frames.counts };
        if !h2.client.release_body(key, &mut io)
            && let Some(stream) = h2.client.value(key)
        {
            // Flow-control windows block the remaining bytes from now on.
            stream.blocked_since = now;
        }
        Some(sent)
    }
}
