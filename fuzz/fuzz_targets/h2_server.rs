//! Any bytes, cut anywhere: the server half of HTTP/2 never panics, and its responses do not depend
//! on the cuts.
#![no_main]

use dyno_wire::h2::frame::PREFACE;
use dyno_wire::h2::server::{EncodedResponse, FrameLayout, Server, ServerEvent};
use dyno_wire::h2::settings::ServerSettings;
use dyno_wire::h2::{ErrorCode, Http2Error};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, PartialEq)]
enum Seen {
    Request(u32, bool, bool, usize),
    Body(u32, Vec<u8>, bool),
    Reset(u32),
    Error(Http2Error),
}

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Seen>, Vec<u8>) {
    let (mut seen, mut out) = (Vec::new(), Vec::new());
    let mut server =
        Server::new(ServerSettings { max_streams: Some(100), stream_window: 1000 }, &mut out);
    let fields = [(":status", "200"), ("server", "x")];
    let answers = [
        EncodedResponse::new(&fields, b"", FrameLayout::Two),
        EncodedResponse::new(&fields, b"Hello", FrameLayout::Two),
        EncodedResponse::new(&fields, &[7; 70_000], FrameLayout::Three),
    ];
    let mut deferred = Vec::new();
    for mut rest in pieces {
        loop {
            let (used, event) = match server.next(rest, &mut out) {
                Ok(found) => found,
                Err(error) => {
                    seen.push(Seen::Error(error));
                    return (seen, out);
                }
            };
            rest = &rest[used..];
            let asked = match event {
                ServerEvent::NeedMore => break,
                ServerEvent::Handled => continue,
                ServerEvent::Request { stream, end, repeated } => {
                    seen.push(Seen::Request(stream, end, repeated, server.fields().iter().count()));
                    end.then_some(stream)
                }
                ServerEvent::Body { stream, data, end } => {
                    seen.push(Seen::Body(stream, data.to_vec(), end));
                    end.then_some(stream)
                }
                ServerEvent::Reset { stream } => {
                    seen.push(Seen::Reset(stream));
                    deferred.retain(|deferred| *deferred != stream);
                    None
                }
            };
            match asked {
                Some(stream) if stream % 5 == 0 => {
                    server.reset(stream, ErrorCode::RefusedStream, &mut out)
                }
                Some(stream) if stream % 3 == 0 => {
                    server.defer(stream);
                    deferred.push(stream);
                }
                Some(stream) => server.respond(stream, &answers[stream as usize % 3], &mut out),
                None if deferred.len() > 1 => {
                    let stream = deferred.remove(0);
                    server.respond(stream, &answers[stream as usize / 3 % 3], &mut out);
                }
                None => {}
            }
            if seen.len() == 30 {
                server.go_away(ErrorCode::NoError, &mut out);
            }
        }
        assert!(rest.is_empty(), "asked for more with bytes unread");
    }
    (seen, out)
}

fuzz_target!(|input: (bool, u8, &[u8])| {
    let (is_greeted, size, bytes) = input;
    let all = if is_greeted { [PREFACE, bytes].concat() } else { bytes.to_vec() };
    let whole = read(std::iter::once(&all[..]));
    assert_eq!(whole, read(all.chunks(usize::from(size).max(1))));
    assert_eq!(whole, read(all.chunks(1)));
});
