//! One stream of a client's connection, and what may come on it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::ClientEvent;
use crate::h1::response::RequestKind;
use crate::h2::head::HeadSummary;
use crate::h2::streams::StreamKey;
use crate::h2::window::{ReceiveWindow, SendWindow};
use crate::h2::{Malformed, limits};

/// An open stream. `T` is the value that the caller keeps with it.
#[derive(Debug)]
pub(super) struct Stream<T> {
    pub(super) id: u32,
    pub(super) phase: StreamPhase,
    pub(super) send: SendWindow,
    pub(super) receive: ReceiveWindow,
    /// `None`: the whole request has been queued.
    pub(super) unsent: Option<Box<Unsent>>,
    pub(super) kind: RequestKind,
    pub(super) wants_fields: bool,
    /// Bytes of body that are still to come; `None`: any number.
    pub(super) expected: Option<u64>,
    pub(super) data: T,
}

/// The part of its response that a stream waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamPhase {
    Head { informational: u8 },
    Body,
}

/// The rest of a request's body.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) bytes: Vec<u8>,
    pub(super) at: usize,
}

impl<T> Stream<T> {
    /// Turns a piece of DATA into an event. `left`: bytes of this frame's body still to come.
    /// `ends`: the frame carries END_STREAM. `end`: this piece is its last.
    #[inline]
    pub(super) fn show<'i>(
        &mut self,
        key: StreamKey,
        data: &'i [u8],
        left: u32,
        ends: bool,
        end: bool,
    ) -> ClientEvent<'i> {
        if let Some(expected) = &mut self.expected {
            // A frame is judged as a whole with its first part: what is seen of it does not depend
            // on where it is cut.
            let whole = data.len() as u64 + u64::from(left);
            if whole > *expected || (ends && whole < *expected) {
                return ClientEvent::Malformed { stream: key, why: Malformed::BodyLength };
            }
            *expected -= data.len() as u64;
        }
        if data.is_empty() && !end {
            ClientEvent::Handled
        } else {
            ClientEvent::Body { stream: key, data, end }
        }
    }

    /// Takes the head of a response, interim or final. `informational`: interim ones before it.
    /// Returns its status.
    #[inline]
    pub(super) fn head(
        &mut self,
        seen: &HeadSummary,
        informational: u8,
        end: bool,
    ) -> Result<u16, Malformed> {
        let status = seen.head()?;
        if status < 200 {
            if end || status == 101 {
                return Err(Malformed::Informational);
            }
            if informational == limits::INFORMATIONAL {
                return Err(Malformed::TooManyInformational);
            }
            self.phase = StreamPhase::Head { informational: informational + 1 };
            return Ok(status);
        }
        // Such responses have no body, whatever length they declare (RFC 9110 §8.6, §15.3.5,
        // §15.4.5).
        let is_bodiless = self.kind == RequestKind::Head || matches!(status, 204 | 304);
        self.expected = if is_bodiless { Some(0) } else { seen.content_length };
        if end && self.expected.is_some_and(|n| n > 0) {
            return Err(Malformed::BodyLength);
        }
        self.phase = StreamPhase::Body;
        Ok(status)
    }

    pub(super) fn trailers(&self, seen: &HeadSummary, end: bool) -> Result<(), Malformed> {
        if !end {
            return Err(Malformed::Trailers);
        }
        seen.trailers()?;
        if self.expected.is_some_and(|n| n > 0) {
            return Err(Malformed::BodyLength);
        }
        Ok(())
    }
}
