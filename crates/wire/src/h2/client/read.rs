//! Splits the input into frames. Each arriving piece of DATA gives an event. Any other frame is
//! handled once it is whole.

use super::stream::StreamPhase;
use super::{Client, ClientEvent, Io, put_window_update};
use crate::h2::frame::{FrameHeader, HEADER_BYTES, Kind, fill, flag};
use crate::h2::streams::StreamKey;
use crate::h2::{Http2Error, Malformed, limits};

/// The position of the next byte of input in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadState {
    /// The next byte begins a frame, or continues a partial one.
    Frame,
    Data(PartialData),
}

/// A DATA frame of which a part is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartialData {
    stream: u32,
    /// Bytes of payload still to come, including the padding and its length.
    left: u32,
    padding: Padding,
    /// Whether the frame has END_STREAM: it is the last of its stream.
    end: bool,
}

/// The padding of a DATA frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Padding {
    /// Not read yet: the next byte is its length.
    Unknown,
    Bytes(u32),
}

impl PartialData {
    /// Bytes of body still to come. The padding must be known.
    const fn body_left(&self) -> u32 {
        match self.padding {
            Padding::Bytes(padding) => self.left - padding,
            Padding::Unknown => self.left,
        }
    }
}

impl<T> Client<T> {
    /// Reads from `input`, and advances it past the bytes used.
    ///
    /// The number of used bytes is not returned with the event, because this would copy each event
    /// on the hottest path of the generator.
    #[inline]
    pub fn next<'i>(
        &mut self,
        input: &mut &'i [u8],
        io: &mut Io<'_>,
    ) -> Result<ClientEvent<'i>, Http2Error> {
        if let ReadState::Data(frame) = self.reading {
            return self.read_data(frame, input);
        }
        if self.buffer.is_empty()
            && let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>()
        {
            let header = FrameHeader::parse(header);
            self.check_header(&header, input)?;
            if header.kind == Kind::Data {
                *input = rest;
                return self.begin_data(&header, input, io);
            }
            if let Some((payload, rest)) = rest.split_at_checked(header.length as usize) {
                *input = rest;
                return self.handle_frame(&header, payload, io);
            }
        }
        self.buffer_frame(input, io)
    }

    /// Checks whether a frame with this header may come now. `bytes` begin with the header.
    #[inline]
    fn check_header(&self, header: &FrameHeader, bytes: &[u8]) -> Result<(), Http2Error> {
        if !self.is_ready && (header.kind != Kind::Settings || header.has(flag::ACK)) {
            return Err(if bytes.starts_with(b"HTTP/1") {
                Http2Error::SpokeHttp1
            } else {
                Http2Error::NoPreface
            });
        }
        if header.length > limits::FRAME_BYTES {
            return Err(Http2Error::FrameTooLong);
        }
        if self.block.is_some() && header.kind != Kind::Continuation {
            return Err(Http2Error::InterruptedBlock);
        }
        Ok(())
    }

    /// Collects a frame that arrives in pieces, and handles it once it is whole.
    fn buffer_frame<'i>(
        &mut self,
        input: &mut &'i [u8],
        io: &mut Io<'_>,
    ) -> Result<ClientEvent<'i>, Http2Error> {
        let used = fill(&mut self.buffer, HEADER_BYTES, input);
        *input = &input[used..];
        let Some(header) = self.buffer.first_chunk().map(FrameHeader::parse) else {
            return Ok(ClientEvent::NeedMore);
        };
        self.check_header(&header, &self.buffer)?;
        if header.kind == Kind::Data {
            self.buffer.clear();
            return self.begin_data(&header, input, io);
        }
        let length = HEADER_BYTES + header.length as usize;
        let used = fill(&mut self.buffer, length, input);
        *input = &input[used..];
        if self.buffer.len() < length {
            return Ok(ClientEvent::NeedMore);
        }
        // The buffer is taken and put back, so that its memory is allocated once.
        let buffer = core::mem::take(&mut self.buffer);
        let event = self.handle_frame(&header, &buffer[HEADER_BYTES..], io);
        self.buffer = buffer;
        self.buffer.clear();
        event
    }

    /// Begins a DATA frame (RFC 9113 §6.1). The whole payload, padding included, is subtracted from
    /// the windows (§6.9.1).
    #[inline]
    fn begin_data<'i>(
        &mut self,
        header: &FrameHeader,
        input: &mut &'i [u8],
        io: &mut Io<'_>,
    ) -> Result<ClientEvent<'i>, Http2Error> {
        io.counts.received.count(Kind::Data);
        if header.stream == 0 {
            return Err(Http2Error::WrongStream);
        }
        if !self.receive.take(header.length) {
            return Err(Http2Error::WindowExceeded);
        }
        put_window_update(&mut self.receive, 0, io);
        let padding = if header.has(flag::PADDED) { Padding::Unknown } else { Padding::Bytes(0) };
        if header.length == 0 && padding == Padding::Unknown {
            return Err(Http2Error::FrameLength);
        }
        let end = header.has(flag::END_STREAM);
        let frame = PartialData { stream: header.stream, left: header.length, padding, end };
        let Some((key, stream)) = self.streams.find_mut(header.stream) else {
            self.check_closed_stream(header.stream, end)?;
            return self.read_data(frame, input);
        };
        if !stream.receive.take(header.length) {
            return Ok(self.malformed_data(key, frame, Malformed::WindowExceeded));
        }
        if stream.phase != StreamPhase::Body {
            return Ok(self.malformed_data(key, frame, Malformed::DataBeforeHead));
        }
        if !end {
            put_window_update(&mut stream.receive, header.stream, io);
        }
        if padding == Padding::Bytes(0)
            && let Some((body, rest)) = input.split_at_checked(header.length as usize)
        {
            // Nearly always the whole frame has arrived. `stream` is used without another look-up.
            *input = rest;
            return Ok(stream.body_event(key, body, 0, end, end));
        }
        self.read_data(frame, input)
    }

    /// Reports a malformed stream, which the caller must cancel. Cancelling removes the stream, so
    /// the rest of `frame` will be read without a stream and ignored.
    #[cold]
    fn malformed_data(
        &mut self,
        stream: StreamKey,
        frame: PartialData,
        violation: Malformed,
    ) -> ClientEvent<'static> {
        self.reading = if frame.left > 0 { ReadState::Data(frame) } else { ReadState::Frame };
        ClientEvent::Malformed { stream, violation }
    }

    /// Continues reading the payload of DATA.
    fn read_data<'i>(
        &mut self,
        mut frame: PartialData,
        input: &mut &'i [u8],
    ) -> Result<ClientEvent<'i>, Http2Error> {
        let available = input.len();
        let padding = match frame.padding {
            Padding::Bytes(n) => n,
            Padding::Unknown => {
                let Some((&n, rest)) = input.split_first() else {
                    self.reading = ReadState::Data(frame);
                    return Ok(ClientEvent::NeedMore);
                };
                *input = rest;
                frame.left -= 1;
                u32::from(n)
            }
        };
        if padding > frame.left {
            return Err(Http2Error::Padding);
        }
        let body_left = (frame.left - padding) as usize;
        let (body, rest) = input.split_at(input.len().min(body_left));
        frame.left -= body.len() as u32;
        // After the body, only padding is left.
        let skipped = if frame.left == padding { rest.len().min(padding as usize) } else { 0 };
        *input = &rest[skipped..];
        frame.left -= skipped as u32;
        frame.padding = Padding::Bytes(padding - skipped as u32);
        let is_complete = frame.left == 0;
        self.reading = if is_complete { ReadState::Frame } else { ReadState::Data(frame) };
        let has_read_nothing = input.len() == available;
        if has_read_nothing && !is_complete {
            return Ok(ClientEvent::NeedMore);
        }
        Ok(self.data_event(frame, body, is_complete && frame.end))
    }

    /// Turns a piece of DATA into an event of its stream. `frame`: the state of the frame after
    /// this piece. `end`: the piece is the stream's last.
    #[inline]
    fn data_event<'i>(&mut self, frame: PartialData, data: &'i [u8], end: bool) -> ClientEvent<'i> {
        let Some((key, stream)) = self.streams.find_mut(frame.stream) else {
            return ClientEvent::Handled;
        };
        stream.body_event(key, data, frame.body_left(), frame.end, end)
    }
}
