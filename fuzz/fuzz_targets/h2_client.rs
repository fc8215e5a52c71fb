//! Any bytes, cut anywhere, while streams are open: the client never panics, and conforms to RFC
//! 9113 and to its own contract. Its events and output do not depend on the cuts.
#![no_main]

#[path = "../../crates/wire/tests/all/talk/mod.rs"]
mod talk;

use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::settings::ClientSettings;
use libfuzzer_sys::fuzz_target;
use talk::{Observed, Request, Talk};

const WINDOWS: [u32; 4] = [(1 << 30) - 1, 65_535, 10, 1023];
const TABLES: [u32; 4] = [4096, 0, 100, 65_536];

/// Creates a client and its requests from two bytes.
fn talk(own: u8, requests: u8) -> Talk {
    let choice = |shift: u8| usize::from(own >> shift & 3);
    let own = ClientSettings {
        header_table_size: TABLES[choice(0)],
        stream_window: WINDOWS[choice(2)],
        connection_window: WINDOWS[choice(4)],
    };
    let mut talk =
        if choice(6) == 1 { Talk::upgraded(own, RequestKind::Upgrade) } else { Talk::new(own) };
    for i in 0..requests % 8 {
        talk.requests.push_back(match i.wrapping_add(requests) % 4 {
            0 => Request { kind: RequestKind::Head, ..Request::get() },
            1 => Request::post(70_000),
            2 => Request { wants_fields: true, ..Request::post(10) },
            _ => Request::get(),
        });
    }
    talk.cancelled_stream = Some(u32::from(requests / 8) % 16);
    talk
}

fn read<'a>(mut talk: Talk, pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Observed>, Vec<u8>) {
    pieces.for_each(|piece| talk.receive(piece));
    (talk.events, talk.written)
}

fuzz_target!(|input: (u8, u8, u8, &[u8])| {
    let (own, requests, size, bytes) = input;
    let whole = read(talk(own, requests), std::iter::once(bytes));
    assert_eq!(whole, read(talk(own, requests), bytes.chunks(usize::from(size).max(1))));
    assert_eq!(whole, read(talk(own, requests), bytes.chunks(1)));
});
