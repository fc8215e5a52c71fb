//! Any bytes, cut anywhere: the reader never panics, and the events do not depend on the cuts.
#![no_main]

use dyno_wire::h1::Http1Error;
use dyno_wire::h1::response::{HeadCache, RequestKind, ResponseEvent, ResponseReader};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, PartialEq)]
enum Seen {
    Head(u16),
    /// All later bytes belong to another protocol.
    Upgraded(u16),
    Body(Vec<u8>),
    End,
    Error(Http1Error),
    Eof(bool),
}

fn read<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    kind: RequestKind,
    cache: &mut HeadCache,
) -> Vec<Seen> {
    let mut reader = ResponseReader::new();
    let mut seen = Vec::new();
    for mut rest in pieces {
        loop {
            let (used, event) = match reader.next_with_cache(rest, kind, cache) {
                Ok(found) => found,
                Err(error) => {
                    seen.push(Seen::Error(error));
                    return seen;
                }
            };
            rest = &rest[used..];
            match event {
                ResponseEvent::NeedMore => break,
                ResponseEvent::Informational(head) | ResponseEvent::Head(head) => {
                    seen.push(Seen::Head(head.status))
                }
                ResponseEvent::Upgraded(head) => {
                    seen.push(Seen::Upgraded(head.status));
                    return seen;
                }
                ResponseEvent::Body(data) => match seen.last_mut() {
                    Some(Seen::Body(body)) => body.extend_from_slice(data),
                    _ => seen.push(Seen::Body(data.to_vec())),
                },
                ResponseEvent::End(_) => seen.push(Seen::End),
            }
        }
        assert!(rest.is_empty(), "asked for more with bytes unread");
    }
    seen.push(Seen::Eof(reader.eof().is_ok()));
    seen
}

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (kind, size, bytes) = input;
    let kind = [RequestKind::Other, RequestKind::Head, RequestKind::Upgrade][usize::from(kind % 3)];
    let mut cache = HeadCache::new();
    let whole = read(std::iter::once(bytes), kind, &mut cache);
    assert_eq!(whole, read(bytes.chunks(usize::from(size).max(1)), kind, &mut cache));
    assert_eq!(whole, read(bytes.chunks(1), kind, &mut HeadCache::new()));
    assert_eq!(whole, read(std::iter::once(bytes), kind, &mut cache));
});
