//! Any bytes, cut anywhere: the server half never panics, and its requests do not depend on the
//! cuts.
#![no_main]

use dyno_wire::h1::Http1Error;
use dyno_wire::h1::request::{RequestEvent, RequestReader};
use libfuzzer_sys::fuzz_target;

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, Option<Http1Error>) {
    let mut reader = RequestReader::new();
    let mut targets = Vec::new();
    for mut rest in pieces {
        loop {
            match reader.next(rest) {
                Ok((used, event)) => {
                    rest = &rest[used..];
                    match event {
                        RequestEvent::NeedMore => break,
                        RequestEvent::Head(head) => targets.push(head.target.to_vec()),
                        RequestEvent::Body(_) | RequestEvent::End => {}
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
