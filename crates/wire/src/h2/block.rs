//! A header block over several frames (RFC 9113 §4.3, §6.10).

use alloc::vec::Vec;

use super::frame::{Header, flag};
use super::{Error, limits};

/// What has come of it so far.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    /// It ends its stream.
    pub(super) end: bool,
    pub(super) bytes: Vec<u8>,
    continuations: u32,
}

impl Block {
    /// It begins with HEADERS that do not end it.
    pub(super) fn begin(header: &Header, fragment: &[u8]) -> Block {
        let end = header.has(flag::END_STREAM);
        Block { stream: header.stream, end, bytes: fragment.to_vec(), continuations: 0 }
    }

    /// Goes on with CONTINUATION. Returns whether it is complete.
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
