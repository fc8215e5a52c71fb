//! Header blocks of other implementations (github.com/http2jp/hpack-test-case) decode to the fields
//! they were made of.
//!
//! Each file, packed by gzip, holds the stories of one encoder, in lines:
//!
//! ```text
//! story 00          a connection begins
//! size 1365         from here on the decoder's limit is another (4096 at first)
//! wire 82864188..   one header block in hexadecimal
//! name<TAB>value    its fields, with \t, \n, \r and \\ escaped, up to an empty line
//! ```

use dyno_wire::h2::hpack::{Decoder, Encoder};
use std::io::Read as _;
use std::path::Path;

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/hpack-test-case");

type Field = (Vec<u8>, Vec<u8>);

/// One header block and what it says.
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
                cases.push(Case { story, limit, block: unhex(hex), fields });
            }
            _ => panic!("a line is neither of these: {line:?}"),
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

fn unhex(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn decode(decoder: &mut Decoder, case: &Case<'_>, what: &str) {
    let mut seen: Vec<Field> = Vec::new();
    decoder
        .decode(&case.block, |name, value| seen.push((name.to_vec(), value.to_vec())))
        .unwrap_or_else(|error| panic!("{what}, story {}: {error}", case.story));
    assert_eq!(seen, case.fields, "{what}, story {}", case.story);
}

/// Reads every story as it is, and again as our own encoder writes it under the same limits.
fn check(file: &str) {
    let text = read(file);
    let (mut decoder, mut encoder, mut echo) =
        (Decoder::new(4096), Encoder::new(), Decoder::new(4096));
    let (mut story, mut limit) = ("", 4096);
    for mut case in parse(&text) {
        if case.story != story {
            (story, limit) = (case.story, 4096);
            (decoder, encoder, echo) = (Decoder::new(4096), Encoder::new(), Decoder::new(4096));
        }
        if case.limit != limit {
            limit = case.limit;
            decoder.set_limit(limit);
            encoder.set_max_size(limit);
            echo.set_limit(limit);
        }
        decode(&mut decoder, &case, file);
        case.block.clear();
        let fields = case.fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
        encoder.encode(fields, &mut case.block);
        decode(&mut echo, &case, "our own encoding");
    }
    assert!(!story.is_empty(), "{file} holds no story");
}

#[test]
fn go_hpack() {
    check("go-hpack.txt");
}

#[test]
fn nghttp2() {
    check("nghttp2.txt");
}

#[test]
fn nghttp2_with_changing_table_sizes() {
    check("nghttp2-change-table-size.txt");
}
