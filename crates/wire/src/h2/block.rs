//! A header block over several frames (RFC 9113 §4.3, §6.10).

use alloc::vec::Vec;

use super::frame::{Header, flag};
use super::{Error, limits};

/// The part of a header block that has come so far.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    /// END_STREAM: the block ends its stream.
    pub(super) end: bool,
    pub(super) bytes: Vec<u8>,
    continuations: u32,
}

impl Block {
    /// Begins a block with HEADERS that do not end it.
    pub(super) fn begin(header: &Header, fragment: &[u8]) -> Block {
        let end = header.has(flag::END_STREAM);
        Block { stream: header.stream, end, bytes: fragment.to_vec(), continuations: 0 }
    }

    /// Adds a CONTINUATION. Returns whether the block is complete.
    pub(super) fn go_on(&mut self, header: &Header, payload: &[u8]) -> Result<bool, Error> {
        if header.stream != self.stream {
            return Err(Error::InterruptedBlock);
        }
        self.continuations += 1;
        if self.continuations > limits::CONTINUATIONS {
            return Err(Error::TooManyContinuations);
        }
        if self.bytes.len() + payload.len() > limits::BLOCK_BYTES {
            return Err(Error::BlockTooLarge);
        }
        self.bytes.extend_from_slice(payload);
        Ok(header.has(flag::END_HEADERS))
    }
}
