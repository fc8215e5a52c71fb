//! Any bytes, cut anywhere: the server half never panics, and finds the same requests.
#![no_main]

use dyno_wire::h1::Error;
use dyno_wire::h1::request::{Event, Reader};
use libfuzzer_sys::fuzz_target;

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, Option<Error>) {
    let mut reader = Reader::new();
    let mut targets = Vec::new();
    for mut rest in pieces {
        loop {
            match reader.next(rest) {
                Ok((used, event)) => {
                    rest = &rest[used..];
                    match event {
                        Event::NeedMore => break,
                        Event::Head(head) => targets.push(head.target.to_vec()),
                        Event::Body(_) | Event::End => {}
                    }
                }
                Err(error) => return (targets, Some(error)),
            }
        }
    }
    (targets, None)
}

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    assert_eq!(read(std::iter::once(bytes)), read(bytes.chunks(usize::from(size).max(1))));
});
