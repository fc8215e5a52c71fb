//! Responses that are encoded once for many streams.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::h2::frame::{self, FrameHeader, HEADER_BYTES, Kind, flag};
use crate::h2::hpack::encode::{self as hpack, Indexing};
use crate::h2::limits;

/// Division of a response into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameLayout {
    /// HEADERS, and DATA that ends the stream.
    Two,
    /// HEADERS, DATA, and an empty DATA that ends the stream. Servers write this if they do not
    /// know the end of a body in advance.
    Three,
}

/// A response for many streams. Its frames are encoded once. Only the stream identifier differs.
#[derive(Clone, Debug)]
pub struct EncodedResponse {
    pub(super) block: Vec<u8>,
    pub(super) body: Arc<[u8]>,
    pub(super) layout: FrameLayout,
    /// The frames with stream identifier 0. Empty: block or body is too long for one frame, and
    /// frames are encoded for each stream.
    pub(super) frames: Vec<u8>,
    /// Offsets of the stream identifiers in `frames`.
    pub(super) id_offsets: Vec<usize>,
}

impl EncodedResponse {
    /// Encodes a response without use of the table, so that it is valid on every connection.
    /// `fields` begin with `:status`. Their names are not changed to lower case.
    #[must_use]
    pub fn new(fields: &[(&str, &str)], body: &[u8], layout: FrameLayout) -> EncodedResponse {
        let mut block = Vec::new();
        for (name, value) in fields {
            hpack::put_field(name.as_bytes(), value.as_bytes(), Indexing::Without, &mut block);
        }
        let mut response = EncodedResponse {
            block,
            body: body.into(),
            layout,
            frames: Vec::new(),
            id_offsets: Vec::new(),
        };
        // Every peer accepts frames of this size.
        let max_payload = limits::FRAME_BYTES as usize;
        if response.block.len() <= max_payload && body.len() <= max_payload {
            response.encode_frames();
        }
        response
    }

    fn encode_frames(&mut self) {
        let mut frames = Vec::new();
        frame::put_block(0, &self.block, self.body.is_empty(), usize::MAX, &mut frames);
        if !self.body.is_empty() {
            let end = if self.layout == FrameLayout::Two { flag::END_STREAM } else { 0 };
            frame::put_header(Kind::Data, end, 0, self.body.len(), &mut frames);
            frames.extend_from_slice(&self.body);
            if self.layout == FrameLayout::Three {
                frame::put_header(Kind::Data, flag::END_STREAM, 0, 0, &mut frames);
            }
        }
        let mut at = 0;
        while let Some(header) = frames[at..].first_chunk().map(FrameHeader::parse) {
            self.id_offsets.push(at + HEADER_BYTES - 4);
            at += HEADER_BYTES + header.length as usize;
        }
        self.frames = frames;
    }
}
