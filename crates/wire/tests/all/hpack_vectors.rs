//! Tests that header blocks of other implementations (github.com/http2jp/hpack-test-case) decode to
//! their fields.
//!
//! Each file, compressed with gzip, has the connections ("stories") of one encoder, in lines:
//!
//! ```text
//! story 00          a connection begins
//! size 1365         the decoder's limit for the following blocks (initially 4096)
//! wire 82864188..   one header block in hexadecimal
//! name<TAB>value    its fields, with \t, \n, \r and \\ escaped, up to an empty line
//! ```

use dyno_wire::h2::hpack::{Decoder, Encoder};
use std::io::Read as _;
use std::path::Path;

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/hpack-test-case");

type Field = (Vec<u8>, Vec<u8>);

/// One header block and its fields.
struct Case<'a> {
    story: &'a str,
    limit: u32,
    block: Vec<u8>,
    fields: Vec<Field>,
}

fn read(file: &str) -> String {
    let path = Path::new(VECTORS).join(format!("{file}.gz"));
    let packed =
        std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    text
}

fn parse(text: &str) -> Vec<Case<'_>> {
    let (mut story, mut limit, mut cases) = ("", 4096, Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        match line.split_once(' ') {
            Some(("story", name)) => (story, limit) = (name, 4096),
            Some(("size", size)) => limit = size.parse().unwrap(),
            Some(("wire", hex)) => {
                let fields =
                    lines.by_ref().take_while(|line| !line.is_empty()).map(field).collect();
                cases.push(Case { story, limit, block: parse_hex(hex), fields });
            }
            _ => panic!("an unknown line: {line:?}"),
        }
    }
    cases
}

fn field(line: &str) -> Field {
    let (name, value) = line.split_once('\t').expect("a field has a tab");
    (unescape(name), unescape(value))
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes();
    std::iter::from_fn(|| match bytes.next()? {
        b'\\' => Some(match bytes.next()? {
            b't' => b'\t',
            b'n' => b'\n',
            b'r' => b'\r',
            other => other,
        }),
        plain => Some(plain),
    })
    .collect()
}

fn parse_hex(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn decode(decoder: &mut Decoder, case: &Case<'_>, source: &str) {
    let mut decoded: Vec<Field> = Vec::new();
    decoder
        .decode(&case.block, |name, value| decoded.push((name.to_vec(), value.to_vec())))
        .unwrap_or_else(|error| panic!("{source}, story {}: {error}", case.story));
    assert_eq!(decoded, case.fields, "{source}, story {}", case.story);
}

/// Decodes every story, and again after encoding its fields with our encoder.
fn check(file: &str) {
    let text = read(file);
    let (mut decoder, mut encoder, mut own_decoder) =
        (Decoder::new(4096), Encoder::new(), Decoder::new(4096));
    let (mut story, mut limit) = ("", 4096);
    for mut case in parse(&text) {
        if case.story != story {
            (story, limit) = (case.story, 4096);
            (decoder, encoder, own_decoder) =
                (Decoder::new(4096), Encoder::new(), Decoder::new(4096));
        }
        if case.limit != limit {
            limit = case.limit;
            decoder.set_limit(limit);
            encoder.set_max_size(limit);
            own_decoder.set_limit(limit);
        }
        decode(&mut decoder, &case, file);
        case.block.clear();
        let fields = case.fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
        encoder.encode(fields, &mut case.block);
        decode(&mut own_decoder, &case, "our own encoding");
    }
    assert!(!story.is_empty(), "{file} has no story");
}

#[test]
fn decode_go_hpack_vectors() {
    check("go-hpack.txt");
}

#[test]
fn decode_nghttp2_vectors() {
    check("nghttp2.txt");
}

#[test]
fn decode_nghttp2_vectors_with_table_sizes() {
    check("nghttp2-change-table-size.txt");
}
