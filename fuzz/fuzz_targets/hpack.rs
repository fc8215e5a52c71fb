//! Any bytes as header blocks: the decoder never panics, and decoded fields are equal after they
//! are encoded and decoded again.
#![no_main]

use dyno_wire::h2::hpack::{Decoder, Encoder, huffman};
use libfuzzer_sys::fuzz_target;

type Field = (Vec<u8>, Vec<u8>);

fn decode(decoder: &mut Decoder, block: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    let (before, is_right) = (
        decoder.generation(),
        decoder.decode(block, |name, value| fields.push((name.to_vec(), value.to_vec()))).is_ok(),
    );
    if is_right && decoder.generation() == before {
        // The block did not change the table, so it decodes to the same fields again.
        let mut again = Vec::new();
        assert_eq!(
            decoder.decode(block, |name, value| again.push((name.to_vec(), value.to_vec()))),
            Ok(())
        );
        assert_eq!(again, fields);
    }
    is_right.then_some(fields)
}

/// Each block is preceded by its length.
fn blocks(mut bytes: &[u8], limit: u32) -> Vec<Vec<Field>> {
    let mut decoder = Decoder::new(limit);
    let mut lists = Vec::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (block, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        let Some(fields) = decode(&mut decoder, block) else { break };
        lists.push(fields);
        if length % 16 == 5 {
            // Later blocks must announce another size.
            decoder.set_limit(u32::from(*length));
        }
        bytes = rest;
    }
    lists
}

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let lists = blocks(bytes, u32::from(size) * 64);

    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    for (i, fields) in lists.iter().enumerate() {
        if i % 3 == 1 {
            let size = u32::from(size) * i as u32;
            decoder.set_limit(size);
            encoder.set_max_size(size);
        }
        let mut block = Vec::new();
        encoder.encode(fields.iter().map(|(name, value)| (&name[..], &value[..])), &mut block);
        assert_eq!(decode(&mut decoder, &block).as_ref(), Some(fields));
    }

    let (mut coded, mut decoded) = (Vec::new(), Vec::new());
    huffman::encode(bytes, &mut coded);
    assert_eq!(coded.len(), huffman::encoded_len(bytes));
    assert_eq!(huffman::decode(&coded, &mut decoded), Ok(()));
    assert_eq!(decoded, bytes);
    decoded.clear();
    if huffman::decode(bytes, &mut decoded).is_ok() {
        // There is one code for each string, and one padding.
        coded.clear();
        huffman::encode(&decoded, &mut coded);
        assert_eq!(coded, bytes);
    } else {
        assert!(decoded.is_empty());
    }
});
