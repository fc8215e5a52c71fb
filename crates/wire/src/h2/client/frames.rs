//! Handles all frames except DATA.

use alloc::boxed::Box;

use super::stream::StreamPhase;
use super::{Client, ClientEvent, Io};
use crate::h2::block::PartialBlock;
use crate::h2::frame::{self, FrameHeader, HEADER_BYTES, Kind, flag};
use crate::h2::settings::{self, Sender};
use crate::h2::{ErrorCode, Http2Error, Malformed};

impl<T> Client<T> {
    /// Handles a whole frame other than DATA.
    #[inline]
    pub(super) fn handle_frame(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        io: &mut Io<'_>,
    ) -> Result<ClientEvent<'static>, Http2Error> {
        if header.kind == Kind::Headers {
            return self.handle_headers(header, payload, io);
        }
        self.handle_rare_frame(header, payload, io)
    }

    /// Handles a whole frame other than DATA and HEADERS. Other frames are rare, because nearly
    /// every response consists of DATA and HEADERS.
    fn handle_rare_frame(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        io: &mut Io<'_>,
    ) -> Result<ClientEvent<'static>, Http2Error> {
        io.counts.received.count(header.kind);
        let needs_stream_zero = matches!(header.kind, Kind::Settings | Kind::Ping | Kind::GoAway);
        let allows_any_stream = matches!(header.kind, Kind::WindowUpdate | Kind::Unknown);
        if !allows_any_stream && needs_stream_zero != (header.stream == 0) {
            return Err(Http2Error::WrongStream);
        }
        match header.kind {
            Kind::Continuation => self.handle_continuation(header, payload, io),
            Kind::Settings => self.handle_settings(header, payload, io),
            Kind::WindowUpdate => self.handle_window_update(header.stream, payload),
            Kind::RstStream => self.handle_reset(header.stream, payload, io),
            Kind::GoAway => self.handle_go_away(payload, io),
            Kind::Ping => handle_ping(header, payload, io),
            Kind::PushPromise => Err(Http2Error::Push),
            // PRIORITY is deprecated, but its length is still checked (§6.3).
            Kind::Priority if payload.len() != 5 => Err(Http2Error::FrameLength),
            // The callers have handled DATA and HEADERS.
            Kind::Priority | Kind::Unknown | Kind::Data | Kind::Headers => Ok(ClientEvent::Handled),
        }
    }

    /// HEADERS (RFC 9113 §6.2).
    #[inline]
    fn handle_headers(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        io: &mut Io<'_>,
    ) -> Result<ClientEvent<'static>, Http2Error> {
        io.counts.received.count(Kind::Headers);
        if header.stream == 0 {
            return Err(Http2Error::WrongStream);
        }
        let block = frame::fragment(header, payload)?;
        let end = header.has(flag::END_STREAM);
        if header.has(flag::END_HEADERS) {
            return self.read_block(header.stream, block, end, io);
        }
        self.block = Some(Box::new(PartialBlock::begin(header, block)));
        Ok(ClientEvent::Handled)
    }

    /// CONTINUATION (RFC 9113 §6.10).
    fn handle_continuation(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        io: &mut Io<'_>,
    ) -> Result<ClientEvent<'static>, Http2Error> {
        let Some(mut block) = self.block.take() else { return Err(Http2Error::Continuation) };
        if block.add_continuation(header, payload)? {
            return self.read_block(block.stream, &block.bytes, block.end, io);
        }
        self.block = Some(block);
        Ok(ClientEvent::Handled)
    }

    /// Handles a whole header block. The block is decoded even if its stream has ended, because
    /// all streams of the connection share HPACK's dynamic table (RFC 9113 §4.3).
    #[inline]
    fn read_block(
        &mut self,
        id: u32,
        block: &[u8],
        end: bool,
        io: &mut Io<'_>,
    ) -> Result<ClientEvent<'static>, Http2Error> {
        let found = self.streams.find_mut(id);
        let wants_fields = found.as_ref().is_some_and(|(_, stream)| stream.wants_fields);
        let summary = self.heads.read(block, wants_fields)?;
        io.counts.received.block_bytes += block.len() as u64;
        io.counts.received.field_bytes += u64::from(summary.field_bytes);
        let Some((key, stream)) = found else {
            self.check_closed_stream(id, end)?;
            return Ok(ClientEvent::Handled);
        };
        let malformed = |violation| ClientEvent::Malformed { stream: key, violation };
        Ok(match stream.phase {
            StreamPhase::Head { informational } => {
                match stream.apply_head(&summary, informational, end) {
                    Ok(status @ ..200) => ClientEvent::Informational { stream: key, status },
                    Ok(status) => ClientEvent::Head { stream: key, status, end },
                    Err(violation) => malformed(violation),
                }
            }
            StreamPhase::Body => match stream.check_trailers(&summary, end) {
                Ok(()) => ClientEvent::End { stream: key },
                Err(violation) => malformed(violation),
            },
        })
    }

    /// SETTINGS (RFC 9113 §6.5).
    fn handle_settings(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        io: &mut Io<'_>,
    ) -> Result<ClientEvent<'static>, Http2Error> {
        if header.has(flag::ACK) {
            if !payload.is_empty() {
                return Err(Http2Error::FrameLength);
            }
            self.unacknowledged =
                self.unacknowledged.checked_sub(1).ok_or(Http2Error::SettingsAck)?;
            self.heads.set_limit(self.settings.header_table_size);
            return Ok(ClientEvent::Handled);
        }
        let before = self.peer;
        self.peer.read(payload, Sender::Server)?;
        let difference = i64::from(self.peer.initial_window) - i64::from(before.initial_window);
        if difference != 0 {
            // The change of the initial window applies to open streams, too (§6.9.2).
            for (_, stream) in self.streams.iter_mut() {
                if !stream.send.change(difference) {
                    return Err(Http2Error::WindowOverflow);
                }
            }
        }
        self.table.apply_settings(payload, &self.peer);
        self.is_ready = true;
        settings::put_ack(io.out);
        io.counts.reply_bytes += HEADER_BYTES as u64;
        io.counts.sent.count(Kind::Settings);
        Ok(ClientEvent::Settings)
    }

    /// WINDOW_UPDATE (RFC 9113 §6.9).
    fn handle_window_update(
        &mut self,
        id: u32,
        payload: &[u8],
    ) -> Result<ClientEvent<'static>, Http2Error> {
        let bytes: [u8; 4] = payload.try_into().map_err(|_| Http2Error::FrameLength)?;
        let increment = i64::from(u32::from_be_bytes(bytes) & 0x7FFF_FFFF);
        if id == 0 {
            if increment == 0 {
                return Err(Http2Error::WindowByNothing);
            }
            return if self.send.change(increment) {
                Ok(ClientEvent::Window)
            } else {
                Err(Http2Error::WindowOverflow)
            };
        }
        let Some((key, stream)) = self.streams.find_mut(id) else {
            return if self.is_idle(id) {
                Err(Http2Error::IdleStream)
            } else {
                Ok(ClientEvent::Handled)
            };
        };
        if increment == 0 {
            return Ok(ClientEvent::Malformed {
                stream: key,
                violation: Malformed::WindowByNothing,
            });
        }
        if !stream.send.change(increment) {
            return Ok(ClientEvent::Malformed { stream: key, violation: Malformed::Window });
        }
        Ok(ClientEvent::Window)
    }

    /// RST_STREAM (RFC 9113 §6.4).
    fn handle_reset(
        &mut self,
        id: u32,
        payload: &[u8],
        io: &mut Io<'_>,
    ) -> Result<ClientEvent<'static>, Http2Error> {
        let bytes: [u8; 4] = payload.try_into().map_err(|_| Http2Error::FrameLength)?;
        if self.is_idle(id) {
            return Err(Http2Error::IdleStream);
        }
        let code = ErrorCode::from_wire(u32::from_be_bytes(bytes));
        io.counts.received.resets[code as usize] += 1;
        self.reset_streams.remove(&id);
        // RST_STREAM after the stream's end has no effect (§5.1).
        Ok(self
            .streams
            .find(id)
            .map_or(ClientEvent::Handled, |stream| ClientEvent::Reset { stream, code }))
    }

    /// GOAWAY (RFC 9113 §6.8).
    fn handle_go_away(
        &mut self,
        payload: &[u8],
        io: &mut Io<'_>,
    ) -> Result<ClientEvent<'static>, Http2Error> {
        let Some(([s0, s1, s2, s3, c0, c1, c2, c3], _debug)) = payload.split_first_chunk() else {
            return Err(Http2Error::FrameLength);
        };
        let last = u32::from_be_bytes([s0 & 0x7F, *s1, *s2, *s3]);
        let code = ErrorCode::from_wire(u32::from_be_bytes([*c0, *c1, *c2, *c3]));
        io.counts.received.go_aways[code as usize] += 1;
        // GOAWAY can come several times. Its last stream may only get lower.
        self.last_stream = Some(self.last_stream.map_or(last, |before| before.min(last)));
        Ok(ClientEvent::GoAway { code })
    }

    /// Checks whether DATA or HEADERS may come on a stream that is not open (RFC 9113 §5.1).
    pub(super) fn check_closed_stream(&mut self, id: u32, end: bool) -> Result<(), Http2Error> {
        if self.is_idle(id) {
            return Err(Http2Error::IdleStream);
        }
        // Frames that were in transit when dyno reset the stream are ignored.
        let was_reset =
            if end { self.reset_streams.remove(&id) } else { self.reset_streams.contains(&id) };
        if was_reset { Ok(()) } else { Err(Http2Error::StreamClosed) }
    }

    /// Whether this stream has never been opened. The peer cannot open streams, because push is
    /// disabled.
    fn is_idle(&self, id: u32) -> bool {
        id.is_multiple_of(2) || id >= self.next_id
    }
}

/// PING (RFC 9113 §6.7).
fn handle_ping(
    header: &FrameHeader,
    payload: &[u8],
    io: &mut Io<'_>,
) -> Result<ClientEvent<'static>, Http2Error> {
    if payload.len() != 8 {
        return Err(Http2Error::FrameLength);
    }
    if !header.has(flag::ACK) {
        io.counts.pings += 1;
        frame::put_header(Kind::Ping, flag::ACK, 0, payload.len(), io.out);
        io.out.extend_from_slice(payload);
        io.counts.reply_bytes += (HEADER_BYTES + payload.len()) as u64;
        io.counts.sent.count(Kind::Ping);
    }
    Ok(ClientEvent::Handled)
}
