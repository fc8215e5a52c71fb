//! Frames are taken off the input here. DATA is shown as it comes, every other frame is dealt with
//! once it is whole.

use super::stream::StreamPhase;
use super::{Client, ClientEvent, Io, give_back};
use crate::h2::frame::{FrameHeader, HEADER_BYTES, Kind, fill, flag};
use crate::h2::streams::StreamKey;
use crate::h2::{Http2Error, Malformed, limits};

/// Where in its frame the next byte of input stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The next byte begins a frame, or continues a partial one.
    Frame,
    Data(DataLeft),
}

/// The rest of a DATA frame, which is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataLeft {
    stream: u32,
    /// Bytes of payload, the padding and its length among them.
    left: u32,
    padding: Padding,
    /// END_STREAM: the frame is the last of its stream.
    end: bool,
}

/// The padding of a DATA frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Padding {
    /// Not read yet: the next byte is its length.
    Unknown,
    Bytes(u32),
}

impl DataLeft {
    /// Bytes of the rest that belong to the body. The padding must be known.
    const fn body(&self) -> u32 {
        match self.padding {
            Padding::Bytes(padding) => self.left - padding,
            Padding::Unknown => self.left,
        }
    }
}

impl<T> Client<T> {
    /// Reads from `input`, and moves it on past what was used. (Returning that number with the
    /// event would put each event together twice, on the hottest path there is.)
    #[inline]
    pub fn next<'i>(
        &mut self,
        input: &mut &'i [u8],
        io: &mut Io<'_>,
    ) -> Result<ClientEvent<'i>, Http2Error> {
        if let Reading::Data(data) = self.reading {
            return self.read_data(data, input);
        }
        if self.kept.is_empty()
            && let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>()
        {
            let header = FrameHeader::parse(header);
            self.check_begin(&header, input)?;
            if header.kind == Kind::Data {
                *input = rest;
                return self.begin_data(&header, input, io);
            }
            if let Some((payload, rest)) = rest.split_at_checked(header.length as usize) {
                *input = rest;
                return self.frame(&header, payload, io);
            }
        }
        self.keep(input, io)
    }

    /// Checks whether a frame with this header may come now. `bytes` begin with the header.
    #[inline]
    fn check_begin(&self, header: &FrameHeader, bytes: &[u8]) -> Result<(), Http2Error> {
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

    /// Keeps the beginning of a frame until the rest of it is there.
    fn keep<'i>(
        &mut self,
        input: &mut &'i [u8],
        io: &mut Io<'_>,
    ) -> Result<ClientEvent<'i>, Http2Error> {
        let used = fill(&mut self.kept, HEADER_BYTES, input);
        *input = &input[used..];
        let Some(header) = self.kept.first_chunk().map(FrameHeader::parse) else {
            return Ok(ClientEvent::NeedMore);
        };
        self.check_begin(&header, &self.kept)?;
        if header.kind == Kind::Data {
            self.kept.clear();
            return self.begin_data(&header, input, io);
        }
        let whole = HEADER_BYTES + header.length as usize;
        let used = fill(&mut self.kept, whole, input);
        *input = &input[used..];
        if self.kept.len() < whole {
            return Ok(ClientEvent::NeedMore);
        }
        // Taken and given back, so that its memory is allocated once.
        let kept = core::mem::take(&mut self.kept);
        let event = self.frame(&header, &kept[HEADER_BYTES..], io);
        self.kept = kept;
        self.kept.clear();
        event
    }

    /// A DATA frame (RFC 9113 §6.1) begins; all of its payload counts against the windows (§6.9.1).
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
        give_back(&mut self.receive, 0, io);
        let padding = if header.has(flag::PADDED) { Padding::Unknown } else { Padding::Bytes(0) };
        if header.length == 0 && padding == Padding::Unknown {
            return Err(Http2Error::FrameLength);
        }
        let end = header.has(flag::END_STREAM);
        let data = DataLeft { stream: header.stream, left: header.length, padding, end };
        let Some((key, stream)) = self.streams.find_mut(header.stream) else {
            self.check_gone(header.stream, end)?;
            return self.read_data(data, input);
        };
        if !stream.receive.take(header.length) {
            return Ok(self.malformed_data(key, data, Malformed::WindowExceeded));
        }
        if stream.phase != StreamPhase::Body {
            return Ok(self.malformed_data(key, data, Malformed::DataBeforeHead));
        }
        if !end {
            give_back(&mut stream.receive, header.stream, io);
        }
        // Nearly always the whole of it is there, and then its stream need not be looked for again.
        let whole =
            input.split_at_checked(header.length as usize).filter(|_| padding == Padding::Bytes(0));
        let Some((body, rest)) = whole else { return self.read_data(data, input) };
        *input = rest;
        Ok(stream.show(key, body, 0, end, end))
    }

    /// Reports a malformed stream, which the caller cancels. The rest of its frame will be passed
    /// over.
    #[cold]
    fn malformed_data(
        &mut self,
        stream: StreamKey,
        data: DataLeft,
        why: Malformed,
    ) -> ClientEvent<'static> {
        self.reading = if data.left > 0 { Reading::Data(data) } else { Reading::Frame };
        ClientEvent::Malformed { stream, why }
    }

    /// Reads on in the payload of DATA.
    fn read_data<'i>(
        &mut self,
        mut data: DataLeft,
        input: &mut &'i [u8],
    ) -> Result<ClientEvent<'i>, Http2Error> {
        let whole = input.len();
        let padding = match data.padding {
            Padding::Bytes(n) => n,
            Padding::Unknown => {
                let Some((&n, rest)) = input.split_first() else {
                    self.reading = Reading::Data(data);
                    return Ok(ClientEvent::NeedMore);
                };
                *input = rest;
                data.left -= 1;
                u32::from(n)
            }
        };
        if padding > data.left {
            return Err(Http2Error::Padding);
        }
        let (body, rest) = input.split_at(input.len().min((data.left - padding) as usize));
        data.left -= body.len() as u32;
        let passed = if data.left == padding { rest.len().min(padding as usize) } else { 0 };
        *input = &rest[passed..];
        data.left -= passed as u32;
        data.padding = Padding::Bytes(padding - passed as u32);
        let is_over = data.left == 0;
        self.reading = if is_over { Reading::Frame } else { Reading::Data(data) };
        if input.len() == whole && !is_over {
            return Ok(ClientEvent::NeedMore);
        }
        Ok(self.show_data(data, body, is_over && data.end))
    }

    /// Turns a piece of DATA into an event of its stream. `left`: the rest of its frame. `end`: the
    /// piece is the stream's last.
    #[inline]
    fn show_data<'i>(&mut self, left: DataLeft, data: &'i [u8], end: bool) -> ClientEvent<'i> {
        let Some((key, stream)) = self.streams.find_mut(left.stream) else {
            return ClientEvent::Handled;
        };
        stream.show(key, data, left.body(), left.end, end)
    }
}
