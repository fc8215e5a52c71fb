//! Steps of scripted conversations, most of them frames that a server may send, valid or invalid.

use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::frame::Kind;
use dyno_wire::h2::hpack::encode::{self, Indexing};

use super::Request;

/// A part of a script.
#[derive(Clone, Debug)]
pub enum Step {
    /// The client receives bytes of the server.
    Receive(Vec<u8>),
    /// The client sends a request.
    Send(Request),
    /// The client cancels a stream.
    Cancel(u32),
    /// The number of streams that may be opened is recorded.
    Room,
}

pub const END_STREAM: u8 = 0x1;
pub const ACK: u8 = 0x1;
pub const END_HEADERS: u8 = 0x4;
pub const PADDED: u8 = 0x8;
pub const PRIORITY: u8 = 0x20;

pub const HEADER_TABLE_SIZE: u16 = 1;
pub const ENABLE_PUSH: u16 = 2;
pub const MAX_CONCURRENT_STREAMS: u16 = 3;
pub const INITIAL_WINDOW_SIZE: u16 = 4;
pub const MAX_FRAME_SIZE: u16 = 5;
pub const MAX_HEADER_LIST_SIZE: u16 = 6;

pub fn raw_frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

pub fn frame(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Step {
    Step::Receive(raw_frame(kind as u8, flags, stream, payload))
}

pub fn raw(bytes: impl AsRef<[u8]>) -> Step {
    Step::Receive(bytes.as_ref().to_vec())
}

/// The header of a frame whose payload has this length, without the payload.
pub fn only_header(kind: Kind, stream: u32, length: usize) -> Step {
    let mut out = (length as u32).to_be_bytes()[1..].to_vec();
    out.extend_from_slice(&[kind as u8, 0]);
    out.extend_from_slice(&stream.to_be_bytes());
    Step::Receive(out)
}

pub fn settings(list: &[(u16, u32)]) -> Step {
    let payload = list.iter().flat_map(|(id, value)| {
        let [i0, i1] = id.to_be_bytes();
        let [v0, v1, v2, v3] = value.to_be_bytes();
        [i0, i1, v0, v1, v2, v3]
    });
    frame(Kind::Settings, 0, 0, &payload.collect::<Vec<_>>())
}

pub fn ack() -> Step {
    frame(Kind::Settings, ACK, 0, &[])
}

/// A header block that does not change the dynamic table.
pub fn block(list: &[(&str, &str)]) -> Vec<u8> {
    block_with(list, Indexing::Without)
}

pub fn block_with(list: &[(&str, &str)], indexing: Indexing) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in list {
        encode::put_field(name.as_bytes(), value.as_bytes(), indexing, &mut out);
    }
    out
}

/// HEADERS with a status and more fields.
pub fn head_with(stream: u32, status: u16, more: &[(&str, &str)], flags: u8) -> Step {
    let status = status.to_string();
    let list: Vec<_> = std::iter::once((":status", &*status)).chain(more.iter().copied()).collect();
    fields(stream, &list, flags)
}

pub fn head(stream: u32, status: u16, flags: u8) -> Step {
    head_with(stream, status, &[], flags)
}

/// HEADERS with exactly these fields.
pub fn fields(stream: u32, list: &[(&str, &str)], flags: u8) -> Step {
    headers(stream, &block(list), flags | END_HEADERS)
}

/// HEADERS with this payload.
pub fn headers(stream: u32, payload: &[u8], flags: u8) -> Step {
    frame(Kind::Headers, flags, stream, payload)
}

pub fn continuation(stream: u32, payload: &[u8], flags: u8) -> Step {
    frame(Kind::Continuation, flags, stream, payload)
}

pub fn data(stream: u32, payload: impl AsRef<[u8]>, flags: u8) -> Step {
    frame(Kind::Data, flags, stream, payload.as_ref())
}

/// A payload with `padding` bytes of padding.
pub fn padded(payload: impl AsRef<[u8]>, padding: u8) -> Vec<u8> {
    [&[padding], payload.as_ref(), &vec![0; usize::from(padding)]].concat()
}

pub fn reset(stream: u32, code: u32) -> Step {
    frame(Kind::RstStream, 0, stream, &code.to_be_bytes())
}

pub fn window(stream: u32, increment: u32) -> Step {
    frame(Kind::WindowUpdate, 0, stream, &increment.to_be_bytes())
}

pub fn ping(payload: &[u8], flags: u8) -> Step {
    frame(Kind::Ping, flags, 0, payload)
}

pub fn go_away(last: u32, code: u32) -> Step {
    frame(Kind::GoAway, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

pub fn get() -> Step {
    Step::Send(Request::get())
}

pub fn head_request() -> Step {
    Step::Send(Request { kind: RequestKind::Head, ..Request::get() })
}

pub fn post(body: usize) -> Step {
    Step::Send(Request::post(body))
}
