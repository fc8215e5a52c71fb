//! Encodes dyno's SETTINGS frames and reads the peer's (RFC 9113 §6.5).

use alloc::vec::Vec;

use super::frame::{self, Kind, flag};
use super::{Http2Error, limits};

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;

/// The initial window of each stream and connection, bytes (RFC 9113 §6.9.2).
pub const DEFAULT_WINDOW: u32 = 65_535;

/// The settings that a client announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// Bytes of the HPACK table that the peer may use.
    pub header_table_size: u32,
    /// Bytes that the peer may send on a stream without a WINDOW_UPDATE, at most 2³¹ − 1.
    pub stream_window: u32,
    /// Bytes that the peer may send on the whole connection without a WINDOW_UPDATE, at most 2³¹ −
    /// 1.
    pub connection_window: u32,
}

impl Default for ClientSettings {
    /// Returns the values that apply until other values are announced (§6.5.2).
    fn default() -> Self {
        ClientSettings {
            header_table_size: 4096,
            stream_window: DEFAULT_WINDOW,
            connection_window: DEFAULT_WINDOW,
        }
    }
}

impl ClientSettings {
    /// Appends the payload of the SETTINGS frame. Push is always disabled: a pushed response would
    /// not belong to a request of the load.
    pub fn put_payload(&self, out: &mut Vec<u8>) {
        put_setting(ENABLE_PUSH, 0, out);
        put_setting(INITIAL_WINDOW_SIZE, self.stream_window, out);
        if self.header_table_size != ClientSettings::default().header_table_size {
            put_setting(HEADER_TABLE_SIZE, self.header_table_size, out);
        }
    }

    pub fn put_frame(&self, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        self.put_payload(&mut payload);
        frame::put_header(Kind::Settings, 0, 0, payload.len(), out);
        out.extend_from_slice(&payload);
    }
}

/// The settings that a server announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Largest number of streams that the client may have open at once; `None`: no limit.
    pub max_streams: Option<u32>,
    /// Bytes of a request's body that the client may send on a stream without a WINDOW_UPDATE, at
    /// most 2³¹ − 1.
    pub stream_window: u32,
}

impl Default for ServerSettings {
    fn default() -> Self {
        ServerSettings { max_streams: None, stream_window: DEFAULT_WINDOW }
    }
}

impl ServerSettings {
    pub fn put_frame(&self, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        if let Some(max_streams) = self.max_streams {
            put_setting(MAX_CONCURRENT_STREAMS, max_streams, &mut payload);
        }
        if self.stream_window != DEFAULT_WINDOW {
            put_setting(INITIAL_WINDOW_SIZE, self.stream_window, &mut payload);
        }
        frame::put_header(Kind::Settings, 0, 0, payload.len(), out);
        out.extend_from_slice(&payload);
    }
}

/// Appends one setting (§6.5.1).
fn put_setting(id: u16, value: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&value.to_be_bytes());
}

/// The side that sends a SETTINGS frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Client,
    Server,
}

/// The peer's settings. Initially they are the values that apply until the peer announces others
/// (§6.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Bytes of the HPACK table that dyno's blocks may use.
    pub header_table_size: u32,
    /// Streams that dyno may have open at once; `None`: no limit.
    pub max_concurrent_streams: Option<u32>,
    /// Bytes that dyno may send on a new stream without a WINDOW_UPDATE.
    pub initial_window: u32,
    /// Bytes of the largest payload that dyno may send, 2¹⁴ to 2²⁴ − 1.
    pub max_frame_size: u32,
}

impl Default for PeerSettings {
    fn default() -> Self {
        PeerSettings {
            header_table_size: limits::ENCODER_TABLE_BYTES,
            max_concurrent_streams: None,
            initial_window: DEFAULT_WINDOW,
            max_frame_size: 16_384,
        }
    }
}

impl PeerSettings {
    /// Applies the settings in a frame of the peer, which is the `sender`. The last value of a
    /// setting applies. Unknown settings are ignored (§6.5).
    pub fn read(&mut self, payload: &[u8], sender: Sender) -> Result<(), Http2Error> {
        let (entries, []) = payload.as_chunks::<6>() else { return Err(Http2Error::FrameLength) };
        for [i0, i1, v0, v1, v2, v3] in entries {
            let value = u32::from_be_bytes([*v0, *v1, *v2, *v3]);
            match u16::from_be_bytes([*i0, *i1]) {
                HEADER_TABLE_SIZE => self.header_table_size = value,
                MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = Some(value),
                // A client may enable push, a server must not (§6.5.2). dyno never pushes.
                ENABLE_PUSH if value > u32::from(sender == Sender::Client) => {
                    return Err(Http2Error::SettingValue);
                }
                INITIAL_WINDOW_SIZE if value > i32::MAX as u32 => {
                    return Err(Http2Error::WindowOverflow);
                }
                INITIAL_WINDOW_SIZE => self.initial_window = value,
                MAX_FRAME_SIZE if !(16_384..=16_777_215).contains(&value) => {
                    return Err(Http2Error::SettingValue);
                }
                MAX_FRAME_SIZE => self.max_frame_size = value,
                _ => {}
            }
        }
        Ok(())
    }
}

/// The smallest HEADER_TABLE_SIZE in a SETTINGS frame; `None`: the frame has none. A frame may have
/// several, and the smallest decides which entries are evicted (RFC 7541 §4.2).
pub(super) fn smallest_table(payload: &[u8]) -> Option<u32> {
    let (entries, _) = payload.as_chunks::<6>();
    let sizes = entries.iter().filter_map(|[i0, i1, size @ ..]| {
        (u16::from_be_bytes([*i0, *i1]) == HEADER_TABLE_SIZE).then_some(u32::from_be_bytes(*size))
    });
    sizes.min()
}

pub fn put_ack(out: &mut Vec<u8>) {
    frame::put_header(Kind::Settings, flag::ACK, 0, 0, out);
}
