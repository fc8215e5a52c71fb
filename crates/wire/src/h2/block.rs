//! Joins a header block that is split over several frames (RFC 9113 §4.3, §6.10).

use alloc::vec::Vec;

use super::frame::{FrameHeader, flag};
use super::{Http2Error, limits};

/// The part of a header block that has arrived so far.
#[derive(Debug)]
pub(super) struct PartialBlock {
    pub(super) stream: u32,
    /// Whether the HEADERS frame has END_STREAM: the block ends its stream.
    pub(super) end: bool,
    pub(super) bytes: Vec<u8>,
    continuations: u32,
}

impl PartialBlock {
    /// Begins a block with a HEADERS frame that does not end it.
    pub(super) fn begin(header: &FrameHeader, fragment: &[u8]) -> PartialBlock {
        let end = header.has(flag::END_STREAM);
        PartialBlock { stream: header.stream, end, bytes: fragment.to_vec(), continuations: 0 }
    }

    /// Adds a CONTINUATION. Returns whether the block is complete.
    pub(super) fn add_continuation(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
    ) -> Result<bool, Http2Error> {
        if header.stream != self.stream {
            return Err(Http2Error::InterruptedBlock);
        }
        self.continuations += 1;
        if self.continuations > limits::CONTINUATIONS {
            return Err(Http2Error::TooManyContinuations);
        }
        if self.bytes.len() + payload.len() > limits::BLOCK_BYTES {
            return Err(Http2Error::BlockTooLarge);
        }
        self.bytes.extend_from_slice(payload);
        Ok(header.has(flag::END_HEADERS))
    }
}
