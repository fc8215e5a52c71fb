//! One stream of a client's connection. Checks that its response follows the protocol.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::ClientEvent;
use crate::h1::response::RequestKind;
use crate::h2::head::HeadSummary;
use crate::h2::streams::StreamKey;
use crate::h2::window::{ReceiveWindow, SendWindow};
use crate::h2::{Malformed, limits};

/// An open stream. `T` is the value that the caller stores with it.
#[derive(Debug)]
pub(super) struct Stream<T> {
    pub(super) id: u32,
    pub(super) phase: StreamPhase,
    pub(super) send: SendWindow,
    pub(super) receive: ReceiveWindow,
    /// `None`: the whole request has been queued.
    pub(super) unsent: Option<Box<UnsentBody>>,
    pub(super) kind: RequestKind,
    pub(super) wants_fields: bool,
    /// Bytes of body that are still to come; `None`: any number.
    pub(super) expected: Option<u64>,
    pub(super) value: T,
}

/// The part of the response that comes next on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamPhase {
    Head { informational: u8 },
    Body,
}

/// The rest of a request's body.
#[derive(Debug)]
pub(super) struct UnsentBody {
    pub(super) bytes: Vec<u8>,
    /// Bytes that have been queued.
    pub(super) queued: usize,
}

impl<T> Stream<T> {
    /// Turns a piece of DATA into an event. `left`: bytes of this frame's body still to come.
    /// `ends_stream`: the frame has END_STREAM. `end`: this piece is the stream's last.
    #[inline]
    pub(super) fn body_event<'i>(
        &mut self,
        key: StreamKey,
        data: &'i [u8],
        left: u32,
        ends_stream: bool,
        end: bool,
    ) -> ClientEvent<'i> {
        if let Some(expected) = &mut self.expected {
            // The first piece checks the length of the whole frame, so the events do not depend on
            // the pieces in which the frame arrives.
            let length = data.len() as u64 + u64::from(left);
            if length > *expected || (ends_stream && length < *expected) {
                return ClientEvent::Malformed { stream: key, violation: Malformed::BodyLength };
            }
            *expected -= data.len() as u64;
        }
        if data.is_empty() && !end {
            ClientEvent::Handled
        } else {
            ClientEvent::Body { stream: key, data, end }
        }
    }

    /// Applies the head of a response, interim or final. `informational`: the number of interim
    /// responses before it. Returns its status.
    #[inline]
    pub(super) fn apply_head(
        &mut self,
        summary: &HeadSummary,
        informational: u8,
        end: bool,
    ) -> Result<u16, Malformed> {
        let status = summary.check_head()?;
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
        // These responses have no body, even if they declare a length (RFC 9110 §8.6, §15.3.5,
        // §15.4.5).
        let has_no_body = self.kind == RequestKind::Head || matches!(status, 204 | 304);
        self.expected = if has_no_body { Some(0) } else { summary.content_length };
        if end && self.expected.is_some_and(|n| n > 0) {
            return Err(Malformed::BodyLength);
        }
        self.phase = StreamPhase::Body;
        Ok(status)
    }

    /// Checks trailers, which must end the stream and complete the body.
    pub(super) fn check_trailers(&self, summary: &HeadSummary, end: bool) -> Result<(), Malformed> {
        if !end {
            return Err(Malformed::Trailers);
        }
        summary.check_trailers()?;
        if self.expected.is_some_and(|n| n > 0) {
            return Err(Malformed::BodyLength);
        }
        Ok(())
    }
}
