//! Decoding of bodies (RFC 9110 §8.4) for checks that need the text. The load itself decodes
//! nothing.

use std::io::{Cursor, Read};

use flate2::bufread;

use crate::limits::CHECKED_BODY_BYTES;

/// The values of all Content-Encoding fields as one list.
pub(crate) fn codings<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut all = Vec::new();
    for (_, value) in fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"content-encoding")) {
        all.extend_from_slice(value);
        all.push(b',');
    }
    all
}

/// Decodes a body. `codings` are in the order in which they were applied. `Err`: why that fails, as
/// a phrase.
pub(crate) fn decode(body: &[u8], codings: &[u8]) -> Result<Vec<u8>, String> {
    let text = String::from_utf8_lossy(codings).to_ascii_lowercase();
    let names: Vec<&str> =
        text.split(',').map(str::trim).filter(|name| !matches!(*name, "" | "identity")).collect();
    let mut decoded = body.to_vec();
    for name in names.iter().rev() {
        decoded = decode_one(&decoded, name)?;
    }
    Ok(decoded)
}

/// Whether the list names a coding that changes the body.
pub(crate) fn is_coded(codings: &[u8]) -> bool {
    let mut names = codings.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    names.any(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity"))
}

fn decode_one(body: &[u8], name: &str) -> Result<Vec<u8>, String> {
    match name {
        "gzip" | "x-gzip" => read(name, flate2::read::MultiGzDecoder::new(body)),
        // The `deflate` of RFC 9110 §8.4.1.2 has zlib's frame; some servers leave it out.
        "deflate" => inflate(body, bufread::ZlibDecoder::new(body), bufread::ZlibDecoder::total_in)
            .or_else(|why| {
                inflate(body, bufread::DeflateDecoder::new(body), bufread::DeflateDecoder::total_in)
                    .map_err(|_| why)
            }),
        "br" => decode_brotli(body),
        "zstd" => decode_zstd(body),
        _ => Err(format!(
            "the body has the content coding {name:?}, which dyno does not decode (request gzip, \
             br, zstd, deflate or identity with Accept-Encoding)"
        )),
    }
}

/// Decodes Brotli. The decoder's `Read` interface would not report how much of the body it took.
fn decode_brotli(body: &[u8]) -> Result<Vec<u8>, String> {
    use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

    let alloc = StandardAlloc::default;
    let mut state = BrotliState::new(alloc(), alloc(), alloc());
    let mut piece = vec![0; 64 * 1024];
    let (mut decoded, mut total) = (Vec::new(), 0);
    let (mut left, mut at) = (body.len(), 0);
    loop {
        let (mut room, mut filled) = (piece.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut at,
            body,
            &mut room,
            &mut filled,
            &mut piece,
            &mut total,
            &mut state,
        );
        decoded.extend_from_slice(&piece[..filled]);
        if decoded.len() > CHECKED_BODY_BYTES {
            return Err(too_long("br"));
        }
        match result {
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultSuccess => return whole("br", decoded, at as u64, body),
            BrotliResult::NeedsMoreInput | BrotliResult::ResultFailure => {
                return Err(malformed_fault("br"));
            }
        }
    }
}

/// A body of zstd is one frame after the other (RFC 8878 §3.1).
fn decode_zstd(body: &[u8]) -> Result<Vec<u8>, String> {
    let mut input = Cursor::new(body);
    let mut decoded = Vec::new();
    while input.position() < body.len() as u64 {
        let frame = ruzstd::decoding::StreamingDecoder::new(&mut input)
            .map_err(|_| malformed_fault("zstd"))?;
        decoded.extend(read_up_to("zstd", frame, CHECKED_BODY_BYTES - decoded.len())?);
    }
    Ok(decoded)
}

fn read(name: &str, decoder: impl Read) -> Result<Vec<u8>, String> {
    read_up_to(name, decoder, CHECKED_BODY_BYTES)
}

/// Reads at most so many bytes: a few kilobytes can hold gigabytes.
fn read_up_to(name: &str, decoder: impl Read, most: usize) -> Result<Vec<u8>, String> {
    let mut decoded = Vec::new();
    decoder.take(most as u64 + 1).read_to_end(&mut decoded).map_err(|_| malformed_fault(name))?;
    if decoded.len() > most {
        return Err(too_long(name));
    }
    Ok(decoded)
}

fn too_long(name: &str) -> String {
    format!(
        "the body was not checked, because it is longer than {} MiB when decoded from {name}",
        CHECKED_BODY_BYTES >> 20
    )
}

/// `taken`: how much of the body the decoder has read.
fn inflate<D: Read>(body: &[u8], mut decoder: D, taken: fn(&D) -> u64) -> Result<Vec<u8>, String> {
    let decoded = read("deflate", &mut decoder)?;
    whole("deflate", decoded, taken(&decoder), body)
}

/// The decoded text, if its coding took the whole body.
fn whole(name: &str, text: Vec<u8>, taken: u64, body: &[u8]) -> Result<Vec<u8>, String> {
    if taken == body.len() as u64 { Ok(text) } else { Err(malformed_fault(name)) }
}

fn malformed_fault(name: &str) -> String {
    format!("the body is not in the content coding {name:?} that its Content-Encoding names")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    const TEXT: &[u8] = b"{\"hello\":\"world\"}";
    /// As Node.js encodes it.
    const BROTLI: &[u8] = b"\x0b\x08\x80{\"hello\":\"world\"}\x03";

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder =
            flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn deflate(text: &[u8]) -> Vec<u8> {
        let mut encoder =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// A frame of one raw block, as RFC 8878 §3.1.1 has it: magic, a single segment of this length,
    /// the last block.
    fn zstd(text: &[u8]) -> Vec<u8> {
        let n = u8::try_from(text.len()).unwrap();
        let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0x20, n, 1 | n << 3, n >> 5, 0];
        frame.extend_from_slice(text);
        frame
    }

    #[test]
    fn known_codings_are_undone() {
        for (codings, body) in [
            ("", TEXT.to_vec()),
            ("identity,", TEXT.to_vec()),
            ("gzip,", gzip(TEXT)),
            ("X-GZIP", gzip(TEXT)),
            ("deflate", zlib(TEXT)),
            ("deflate", deflate(TEXT)),
            ("br", BROTLI.to_vec()),
            ("zstd", zstd(TEXT)),
            ("zstd", [zstd(&TEXT[..5]), zstd(&TEXT[5..])].concat()),
            ("deflate, gzip", gzip(&zlib(TEXT))),
            ("br,gzip,", gzip(BROTLI)),
        ] {
            let decoded = decode(&body, codings.as_bytes());
            assert_eq!(decoded.as_deref(), Ok(TEXT), "{codings}");
        }
    }

    #[test]
    fn failures_say_what_to_do() {
        let error = |body: &[u8], codings: &str| decode(body, codings.as_bytes()).unwrap_err();
        assert!(error(TEXT, "compress").contains("\"compress\", which dyno does not decode"));
        for coding in ["gzip", "deflate", "br", "zstd"] {
            assert!(
                error(b"\xffplain text", coding).contains("is not in the content coding"),
                "{coding}"
            );
        }
        assert!(error(&gzip(TEXT)[..20], "gzip").contains("is not in the content coding"));
        // Anything may hide behind the end of a coding.
        let whole = [
            ("gzip", gzip(TEXT)),
            ("deflate", zlib(TEXT)),
            ("deflate", deflate(TEXT)),
            ("br", BROTLI.to_vec()),
            ("zstd", zstd(TEXT)),
        ];
        for (coding, whole) in whole {
            let more = [&whole[..], b"more"].concat();
            assert!(error(&more, coding).contains("is not in the content coding"), "{coding}");
        }
        let bomb = gzip(&vec![0; CHECKED_BODY_BYTES + 1]);
        assert!(
            bomb.len() < 1 << 20
                && error(&bomb, "gzip").contains("longer than 64 MiB when decoded")
        );
    }

    #[test]
    fn codings_are_those_of_all_fields() {
        let fields: [(&[u8], &[u8]); 3] =
            [(b"Content-Encoding", b"br"), (b"A", b"b"), (b"content-encoding", b"gzip")];
        let all = codings(fields.into_iter());
        assert_eq!(all, b"br,gzip,");
        assert!(is_coded(&all) && !is_coded(b"") && !is_coded(b" Identity ,"));
    }
}
