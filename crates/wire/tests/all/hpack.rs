//! Tests header blocks: the examples of RFC 7541, invalid blocks, and random ones.

use dyno_wire::h2::hpack::encode::{self, Indexing};
use dyno_wire::h2::hpack::{Decoder, Encoder, HpackError, huffman, limits};
use proptest::prelude::*;

type Field = (Vec<u8>, Vec<u8>);

fn parse_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Field>, HpackError> {
    let mut decoded = Vec::new();
    decoder.decode(block, |name, value| decoded.push((name.to_vec(), value.to_vec())))?;
    Ok(decoded)
}

fn fields(list: &[(&str, &str)]) -> Vec<Field> {
    list.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

fn slices(fields: &[Field]) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
}

/// The error of decoding the first block of a connection.
fn first_block_error(block: &[u8]) -> HpackError {
    decode(&mut Decoder::new(4096), block).unwrap_err()
}

/// The entries of the dynamic table, read with indexes 62 and above.
fn table(decoder: &mut Decoder) -> Vec<Field> {
    (62..)
        .map_while(|index| {
            let mut block = Vec::new();
            encode::put_indexed(index, &mut block);
            decode(decoder, &block).ok()
        })
        .flatten()
        .collect()
}

// RFC 7541 Appendix C.

#[test]
fn rfc7541_c1_integers() {
    for (prefix, value, bytes) in [(5, 10, "0a"), (5, 1337, "1f 9a 0a"), (8, 42, "2a")] {
        let mut out = Vec::new();
        encode::put_int(prefix, 0, value, &mut out);
        assert_eq!(out, parse_hex(bytes));
    }
    let mut out = Vec::new();
    encode::put_size_update(1337, &mut out);
    assert_eq!(out, parse_hex("3f 9a 0a"));
    assert_eq!(decode(&mut Decoder::new(1337), &out), Ok(vec![]));
    assert_eq!(decode(&mut Decoder::new(1336), &out), Err(HpackError::SizeAboveLimit));
}

#[test]
fn rfc7541_c2_fields() {
    let cases = [
        (
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            ("custom-key", "custom-header"),
            1,
        ),
        ("040c 2f73 616d 706c 652f 7061 7468", (":path", "/sample/path"), 0),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", ("password", "secret"), 0),
        ("82", (":method", "GET"), 0),
    ];
    for (block, field, inserted) in cases {
        let mut decoder = Decoder::new(4096);
        assert_eq!(decode(&mut decoder, &parse_hex(block)), Ok(fields(&[field])));
        assert_eq!(table(&mut decoder).len(), inserted);
    }
}

/// Decodes three blocks of a connection. Checks the entries of the table after each. Returns all
/// fields.
fn decode_three_blocks(
    limit: u32,
    blocks: [(&str, &[(&str, &str)], &[(&str, &str)]); 3],
) -> [Vec<Field>; 3] {
    let mut decoder = Decoder::new(limit);
    blocks.map(|(block, expected, entries)| {
        let decoded = decode(&mut decoder, &parse_hex(block)).unwrap();
        assert_eq!(decoded, fields(expected));
        assert_eq!(table(&mut decoder), fields(entries));
        decoded
    })
}

/// Checks that our encoder gives these blocks. It uses Huffman codes where they are shorter, as the
/// examples with Huffman do.
fn check_encoder(max_size: Option<u32>, lists: &[Vec<Field>; 3], blocks: [&str; 3]) {
    let mut encoder = Encoder::new();
    if let Some(size) = max_size {
        encoder.set_max_size(size);
        encoder.begin(&mut Vec::new());
    }
    for (list, block) in lists.iter().zip(blocks) {
        let mut out = Vec::new();
        encoder.encode(slices(list), &mut out);
        assert_eq!(out, parse_hex(block));
    }
}

const REQUESTS: [&[(&str, &str)]; 3] = [
    &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
        ("cache-control", "no-cache"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ],
];

const REQUEST_TABLES: [&[(&str, &str)]; 3] = [
    &[(":authority", "www.example.com")],
    &[("cache-control", "no-cache"), (":authority", "www.example.com")],
    &[
        ("custom-key", "custom-value"),
        ("cache-control", "no-cache"),
        (":authority", "www.example.com"),
    ],
];

#[test]
fn rfc7541_c3_requests_without_huffman() {
    let blocks = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    decode_three_blocks(4096, [0, 1, 2].map(|n| (blocks[n], REQUESTS[n], REQUEST_TABLES[n])));
}

#[test]
fn rfc7541_c4_requests_with_huffman() {
    let blocks = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    let lists =
        decode_three_blocks(4096, [0, 1, 2].map(|n| (blocks[n], REQUESTS[n], REQUEST_TABLES[n])));
    check_encoder(None, &lists, blocks);
}

const COOKIE: &str = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";

const RESPONSES: [&[(&str, &str)]; 3] = [
    &[
        (":status", "302"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "307"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "200"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
        ("location", "https://www.example.com"),
        ("content-encoding", "gzip"),
        ("set-cookie", COOKIE),
    ],
];

/// The table has 256 bytes here, so the second and third block evict.
const RESPONSE_TABLES: [&[(&str, &str)]; 3] = [
    &[
        ("location", "https://www.example.com"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("cache-control", "private"),
        (":status", "302"),
    ],
    &[
        (":status", "307"),
        ("location", "https://www.example.com"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("cache-control", "private"),
    ],
    &[
        ("set-cookie", COOKIE),
        ("content-encoding", "gzip"),
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
    ],
];

#[test]
fn rfc7541_c5_responses_without_huffman() {
    let blocks = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032
         303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0
         5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851
         5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
    ];
    decode_three_blocks(256, [0, 1, 2].map(|n| (blocks[n], RESPONSES[n], RESPONSE_TABLES[n])));
}

#[test]
fn rfc7541_c6_responses_with_huffman() {
    let blocks = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b
         ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad
         94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160
         65c0 03ed 4ee5 b106 3d50 07",
    ];
    let lists =
        decode_three_blocks(256, [0, 1, 2].map(|n| (blocks[n], RESPONSES[n], RESPONSE_TABLES[n])));
    // "307" has the same length with and without Huffman: only the example codes it.
    let ours = [blocks[0], "4803 3330 37c1 c0bf", blocks[2]];
    check_encoder(Some(256), &lists, ours);
}

// Invalid blocks.

#[test]
fn index_outside_of_tables_refused() {
    assert_eq!(first_block_error(&[0x80]), HpackError::IndexZero);
    assert_eq!(first_block_error(&[0x80 | 62]), HpackError::IndexOutOfRange);
    assert_eq!(first_block_error(&parse_hex("ff ff ff ff ff 0e")), HpackError::IndexOutOfRange);
    // As the name of a literal.
    assert_eq!(first_block_error(&parse_hex("7e 00")), HpackError::IndexOutOfRange);
}

#[test]
fn integer_above_32_bits_refused() {
    // 2^32 - 1, as a string's length, and one more.
    assert_eq!(first_block_error(&parse_hex("00 7f 80 ff ff ff 0f")), HpackError::StringTooLong);
    assert_eq!(first_block_error(&parse_hex("00 7f 81 ff ff ff 0f")), HpackError::IntegerTooLarge);
    assert_eq!(first_block_error(&parse_hex("ff ff ff ff ff 7f")), HpackError::IntegerTooLarge);
    // Zeros in front, as many as allowed and more.
    assert_eq!(decode(&mut Decoder::new(4096), &parse_hex("3f e1 80 80 80 00")), Ok(vec![]));
    assert_eq!(first_block_error(&parse_hex("ff 80 80 80 80 80 00")), HpackError::IntegerTooLarge);
}

#[test]
fn truncated_block_refused() {
    let block = parse_hex("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff 40 01 61 01 62");
    let whole_fields = [0, 1, 2, 3, 17, 22];
    for end in 0..=block.len() {
        let decoded = decode(&mut Decoder::new(4096), &block[..end]).map(|decoded| decoded.len());
        let expected = whole_fields.iter().position(|at| *at == end).ok_or(HpackError::Truncated);
        assert_eq!(decoded, expected, "cut at {end}");
    }
    assert_eq!(first_block_error(&[0xff]), HpackError::Truncated);
    assert_eq!(first_block_error(&[0x3f, 0x80]), HpackError::Truncated);
}

#[test]
fn misplaced_size_update_refused() {
    assert_eq!(first_block_error(&[0x82, 0x20]), HpackError::SizeUpdateNotFirst);
    assert_eq!(first_block_error(&parse_hex("3f e2 1f")), HpackError::SizeAboveLimit);
    assert_eq!(
        decode(&mut Decoder::new(4096), &parse_hex("20 3f e1 1f 82")).map(|decoded| decoded.len()),
        Ok(1)
    );
    // A higher limit has no effect before the peer makes use of it.
    let mut decoder = Decoder::new(8192);
    assert_eq!(decode(&mut decoder, &parse_hex("82")).map(|decoded| decoded.len()), Ok(1));
    assert_eq!(decode(&mut decoder, &parse_hex("3f e1 3f 82")).map(|decoded| decoded.len()), Ok(1));
}

#[test]
fn lower_limit_requires_size_update() {
    let lowered = |limits: &[u32]| {
        let mut decoder = Decoder::new(4096);
        for limit in limits {
            decoder.set_limit(*limit);
        }
        decoder
    };
    assert_eq!(decode(&mut lowered(&[100]), &[0x82]), Err(HpackError::SizeUpdateMissing));
    assert_eq!(decode(&mut lowered(&[100]), &[]), Err(HpackError::SizeUpdateMissing));
    assert_eq!(decode(&mut lowered(&[10, 4096]), &[0x82]), Err(HpackError::SizeUpdateMissing));
    assert_eq!(
        decode(&mut lowered(&[10, 4096]), &[0x2b, 0x82]),
        Err(HpackError::SizeUpdateMissing)
    );
    assert_eq!(decode(&mut lowered(&[10]), &[0x2b, 0x82]), Err(HpackError::SizeAboveLimit));
    assert!(decode(&mut lowered(&[10, 4096]), &parse_hex("2a 3f e1 1f 82")).is_ok());
    assert!(decode(&mut lowered(&[10]), &[0x2a, 0x82]).is_ok());
    assert!(decode(&mut lowered(&[5000, 4096]), &[0x82]).is_ok());
    // One update is enough.
    let mut decoder = lowered(&[10]);
    assert!(decode(&mut decoder, &[0x20]).is_ok());
    assert!(decode(&mut decoder, &[0x82]).is_ok());
}

#[test]
fn string_or_list_above_limit_refused() {
    let literal = |value: &[u8]| {
        let mut block = vec![0x00, 0x01, b'a'];
        encode::put_int(7, 0, value.len(), &mut block);
        block.extend_from_slice(value);
        block
    };
    let longest = vec![b'\x01'; limits::STRING_BYTES];
    assert!(decode(&mut Decoder::new(4096), &literal(&longest)).is_ok());
    assert_eq!(
        first_block_error(&literal(&[longest.as_slice(), b"\x01"].concat())),
        HpackError::StringTooLong
    );
    // The coded string is below the limit, the decoded one above.
    let mut block = vec![0x00, 0x01, b'a'];
    encode::put_string(&vec![b'0'; limits::STRING_BYTES + 1], &mut block);
    assert_eq!(first_block_error(&block), HpackError::StringTooLong);

    let mut decoder = Decoder::new(4096);
    let value = vec![b'x'; 4096 - 32 - 1];
    let mut block = Vec::new();
    encode::put_field(b"a", &value, Indexing::Incremental, &mut block);
    assert!(decode(&mut decoder, &block).is_ok());
    let limit = limits::HEADER_LIST_BYTES / 4096;
    assert_eq!(
        decode(&mut decoder, &vec![0x80 | 62; limit]).map(|decoded| decoded.len()),
        Ok(limit)
    );
    assert_eq!(
        decode(&mut decoder, &vec![0x80 | 62; limit + 1]),
        Err(HpackError::HeaderListTooLarge)
    );
}

#[test]
fn invalid_huffman_code_refused() {
    let decoded = |hex: &str| {
        let mut out = b"before".to_vec();
        huffman::decode(&parse_hex(hex), &mut out).map(|()| out.split_off(6))
    };
    assert_eq!(decoded(""), Ok(vec![]));
    assert_eq!(decoded("07"), Ok(b"0".to_vec()));
    assert_eq!(decoded("00 7f"), Ok(b"01".to_vec()));
    assert_eq!(decoded("06"), Err(HpackError::HuffmanPadding));
    assert_eq!(decoded("00"), Err(HpackError::HuffmanPadding));
    assert_eq!(decoded("07 ff"), Err(HpackError::HuffmanPaddingTooLong));
    assert_eq!(decoded("ff"), Err(HpackError::HuffmanPaddingTooLong));
    assert_eq!(decoded("ff ff ff"), Err(HpackError::HuffmanPaddingTooLong));
    assert_eq!(decoded("ff ff ff ff"), Err(HpackError::HuffmanEndOfString));
    assert_eq!(decoded("07 ff ff ff ff 00"), Err(HpackError::HuffmanEndOfString));
    // The longest code, and the first bytes of one with 28 bits.
    assert_eq!(decoded("ff ff ff f3"), Ok(b"\x0a".to_vec()));
    assert_eq!(decoded("ff ff fe"), Err(HpackError::HuffmanPadding));
    assert_eq!(first_block_error(&parse_hex("00 81 ff 00")), HpackError::HuffmanPaddingTooLong);
}

// The table.

#[test]
fn name_of_evicted_entry_is_usable() {
    let mut decoder = Decoder::new(100);
    let name = "n".repeat(40);
    let mut block = Vec::new();
    encode::put_field(name.as_bytes(), b"old", Indexing::Incremental, &mut block);
    // The name has index 62.
    block.extend_from_slice(&[0x40 | 62, 3, b'n', b'e', b'w']);
    assert_eq!(decode(&mut decoder, &block), Ok(fields(&[(&name, "old"), (&name, "new")])));
    assert_eq!(table(&mut decoder), fields(&[(&name, "new")]));
}

#[test]
fn entry_larger_than_table_empties_table() {
    let mut decoder = Decoder::new(64);
    assert!(decode(&mut decoder, &parse_hex("40 01 61 01 62")).is_ok());
    assert_eq!(table(&mut decoder).len(), 1);
    let mut block = Vec::new();
    encode::put_field(b"a", &[b'x'; 32], Indexing::Incremental, &mut block);
    assert_eq!(decode(&mut decoder, &block).map(|decoded| decoded.len()), Ok(1));
    assert_eq!(table(&mut decoder), []);
}

#[test]
fn generation_changes_only_with_table() {
    let mut decoder = Decoder::new(4096);
    let changes = |decoder: &mut Decoder, block: &[u8]| {
        let before = decoder.generation();
        decode(decoder, block).unwrap();
        decoder.generation() != before
    };
    assert!(!changes(&mut decoder, &parse_hex("88 0f 0d 02 31 33 10 01 61 01 62")));
    assert!(changes(&mut decoder, &parse_hex("40 01 61 01 62")));
    assert!(!changes(&mut decoder, &[0x80 | 62]));
    assert!(changes(&mut decoder, &[0x20]));
    let before = decoder.generation();
    decoder.set_limit(8192);
    assert_eq!(decoder.generation(), before);
}

// Encoding without a table.

#[test]
fn static_index_finds_entries() {
    let indexes = |name: &[u8], value: &[u8]| {
        let encode::FieldIndexes { full, named } = encode::static_indexes(name, value);
        (full, named)
    };
    assert_eq!(indexes(b":method", b"POST"), (Some(3), Some(2)));
    assert_eq!(indexes(b":method", b"PUT"), (None, Some(2)));
    assert_eq!(indexes(b"www-authenticate", b""), (Some(61), Some(61)));
    assert_eq!(indexes(b"x-unknown", b""), (None, None));
    assert!(encode::is_static(b":status", b"404"));
    assert!(!encode::is_static(b":status", b"405"));
}

#[test]
fn put_field_uses_shortest_form() {
    let put = |name: &str, value: &str, indexing| {
        let mut out = Vec::new();
        encode::put_field(name.as_bytes(), value.as_bytes(), indexing, &mut out);
        out
    };
    assert_eq!(put(":path", "/", Indexing::Without), parse_hex("84"));
    assert_eq!(put(":path", "/", Indexing::Never), parse_hex("14 01 2f"));
    assert_eq!(put(":path", "/sample/path", Indexing::Without)[..1], parse_hex("04"));
    assert_eq!(put("authorization", "x", Indexing::Never), parse_hex("1f 08 01 78"));
    assert_eq!(put("xyz", "", Indexing::Incremental)[..1], parse_hex("40"));
}

// Random input.

fn any_bytes(max_length: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => "[ -~]*".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..max_length),
    ]
}

/// A field from few names and values, so that the tables are used.
fn any_field() -> impl Strategy<Value = Field> {
    let name = prop_oneof![
        3 => prop::sample::select(&[":status", ":method", "date", "server", "x-a", "x-b"][..])
            .prop_map(|name| name.as_bytes().to_vec()),
        1 => any_bytes(80),
    ];
    let value = prop_oneof![
        3 => prop::sample::select(&["", "200", "GET", "gzip", "Mon, 21 Oct 2013 20:13:21 GMT"][..])
            .prop_map(|value| value.as_bytes().to_vec()),
        1 => any_bytes(300),
    ];
    (name, value)
}

#[derive(Clone, Debug)]
enum Action {
    Block(Vec<(Field, u8)>),
    Limits(Vec<u32>),
}

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => prop::collection::vec((any_field(), 0u8..6), 0..12).prop_map(Action::Block),
        1 => prop::collection::vec(prop_oneof![Just(0), 0u32..300, 0u32..10_000], 1..4)
            .prop_map(Action::Limits),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Decoded fields equal encoded ones for any table sizes.
    #[test]
    fn encode_decode_round_trip(actions in prop::collection::vec(any_action(), 1..30)) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        for action in actions {
            match action {
                Action::Limits(limits) => for limit in limits {
                    encoder.set_max_size(limit);
                    decoder.set_limit(limit);
                },
                Action::Block(list) => {
                    let mut block = Vec::new();
                    encoder.begin(&mut block);
                    for ((name, value), indexing) in &list {
                        let indexing = match indexing {
                            0 => Indexing::Without,
                            1 => Indexing::Never,
                            _ => Indexing::Incremental,
                        };
                        encoder.put(name, value, indexing, &mut block);
                    }
                    let expected: Vec<Field> = list.into_iter().map(|(field, _)| field).collect();
                    prop_assert_eq!(decode(&mut decoder, &block), Ok(expected));
                }
            }
        }
    }

    #[test]
    fn huffman_round_trip(bytes in any_bytes(2000), before in any_bytes(10)) {
        let mut coded = before.clone();
        huffman::encode(&bytes, &mut coded);
        prop_assert_eq!(&coded[..before.len()], &before[..]);
        prop_assert_eq!(coded.len() - before.len(), huffman::encoded_len(&bytes));
        let mut decoded = before.clone();
        huffman::decode(&coded[before.len()..], &mut decoded).unwrap();
        prop_assert_eq!(&decoded[before.len()..], &bytes[..]);
    }

    /// The fast decoder gives the same result as one that reads bit by bit.
    #[test]
    fn huffman_decode_equals_bitwise_decoder(bytes in mostly_ones()) {
        let mut out = Vec::new();
        let decoded = huffman::decode(&bytes, &mut out).map(|()| out);
        prop_assert_eq!(decoded, decode_bitwise(&bytes));
    }

    /// The table stays usable and within its limit after blocks that are refused.
    #[test]
    fn random_bytes_never_panic(
        limit in prop_oneof![0u32..5000, any::<u32>()],
        blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..8),
    ) {
        let mut decoder = Decoder::new(limit);
        for block in blocks {
            let _ = decode(&mut decoder, &block);
            let size = |(name, value): &(Vec<u8>, Vec<u8>)| name.len() + value.len() + 32;
            let table_size: usize = table(&mut decoder).iter().map(size).sum();
            prop_assert!(table_size <= limit.max(4096) as usize);
        }
    }

    /// Valid blocks with single bytes replaced reach later states than random bytes.
    #[test]
    fn damaged_blocks_never_panic(
        lists in prop::collection::vec(prop::collection::vec(any_field(), 0..8), 1..6),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        for list in lists {
            let mut block = Vec::new();
            encoder.encode(slices(&list), &mut block);
            for (at, byte) in &damage {
                if !block.is_empty() {
                    let at = at.index(block.len());
                    block[at] = *byte;
                }
            }
            let _ = decode(&mut decoder, &block);
        }
    }
}

/// Bytes with long runs of ones, where the long codes are.
fn mostly_ones() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        2 => Just(0xffu8),
        1 => any::<u8>(),
        1 => (0u32..8).prop_map(|bit| !(1 << bit)),
    ];
    prop::collection::vec(byte, 0..40)
}

/// Decodes `bytes` by comparing the code of each symbol at each position.
fn decode_bitwise(bytes: &[u8]) -> Result<Vec<u8>, HpackError> {
    let bits: Vec<bool> =
        bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> (7 - bit) & 1 == 1)).collect();
    let codes: Vec<Vec<bool>> = (0..=255).map(huffman_code).collect();
    let (mut rest, mut out) = (bits.as_slice(), Vec::new());
    loop {
        if let Some(symbol) = codes.iter().position(|code| rest.starts_with(code)) {
            out.push(symbol as u8);
            rest = &rest[codes[symbol].len()..];
        } else if rest.len() >= 30 {
            return Err(HpackError::HuffmanEndOfString);
        } else if rest.iter().any(|bit| !bit) {
            return Err(HpackError::HuffmanPadding);
        } else if rest.len() > 7 {
            return Err(HpackError::HuffmanPaddingTooLong);
        } else {
            return Ok(out);
        }
    }
}

/// The code of one symbol, without padding: eight equal symbols end at the end of a byte.
fn huffman_code(symbol: u8) -> Vec<bool> {
    let mut coded = Vec::new();
    huffman::encode(&[symbol; 8], &mut coded);
    let bits = coded.iter().flat_map(|byte| (0..8).map(move |bit| byte >> (7 - bit) & 1 == 1));
    bits.take(coded.len()).collect()
}
