//! Decodes content codings (RFC 9110 §8.4) for full checks and extractions, which need the decoded
//! text. All other responses stay encoded.

use std::io::{Cursor, Read};

use flate2::bufread;

/// Joins the values of all Content-Encoding fields into one list.
pub(crate) fn codings<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut list = Vec::new();
    for (_, value) in fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"content-encoding")) {
        list.extend_from_slice(value);
        list.push(b',');
    }
    list
}

/// Decodes a body. `codings` are in the order in which they were applied. `max_bytes`: longest
/// decoded body, a number of MiB. `Err`: the reason of the failure, for users.
pub(crate) fn decode(body: &[u8], codings: &[u8], max_bytes: usize) -> Result<Vec<u8>, String> {
    let text = String::from_utf8_lossy(codings).to_ascii_lowercase();
    let names: Vec<&str> =
        text.split(',').map(str::trim).filter(|name| !matches!(*name, "" | "identity")).collect();
    let mut decoded = body.to_vec();
    for name in names.iter().rev() {
        decoded = decode_coding(&decoded, name, max_bytes)?;
        if decoded.len() > max_bytes {
            return Err(length_fault(name, max_bytes));
        }
    }
    Ok(decoded)
}

/// Whether the list names a coding that changes the body.
pub(crate) fn is_encoded(codings: &[u8]) -> bool {
    let mut names = codings.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    names.any(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity"))
}

fn decode_coding(body: &[u8], name: &str, max_bytes: usize) -> Result<Vec<u8>, String> {
    match name {
        "gzip" | "x-gzip" => read_up_to(name, flate2::read::MultiGzDecoder::new(body), max_bytes),
        // The `deflate` of RFC 9110 §8.4.1.2 has a zlib frame. Some servers omit the frame, so raw
        // deflate is tried as well.
        "deflate" => {
            let consumed = bufread::ZlibDecoder::total_in;
            let framed = inflate(body, bufread::ZlibDecoder::new(body), consumed, max_bytes);
            framed.or_else(|error| {
                let consumed = bufread::DeflateDecoder::total_in;
                inflate(body, bufread::DeflateDecoder::new(body), consumed, max_bytes)
                    .map_err(|_| error)
            })
        }
        "br" => decode_brotli(body, max_bytes),
        "zstd" => decode_zstd(body, max_bytes),
        _ => Err(format!(
            "the body has the content coding {name:?}, which dyno does not decode (request gzip, \
             br, zstd, deflate or identity with Accept-Encoding)"
        )),
    }
}

/// Decodes Brotli. Uses the low-level interface because `Read` does not report how many input bytes
/// were consumed.
fn decode_brotli(body: &[u8], max_bytes: usize) -> Result<Vec<u8>, String> {
    use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

    let alloc = StandardAlloc::default;
    let mut state = BrotliState::new(alloc(), alloc(), alloc());
    let mut piece = vec![0; 64 * 1024];
    let (mut decoded, mut total) = (Vec::new(), 0);
    // Number of bytes of `body` that were not consumed, and of those that were.
    let (mut unread, mut position) = (body.len(), 0);
    loop {
        // Number of free and of decoded bytes in `piece`.
        let (mut room, mut filled) = (piece.len(), 0);
        let result = BrotliDecompressStream(
            &mut unread,
            &mut position,
            body,
            &mut room,
            &mut filled,
            &mut piece,
            &mut total,
            &mut state,
        );
        decoded.extend_from_slice(&piece[..filled]);
        if decoded.len() > max_bytes {
            return Ok(decoded);
        }
        match result {
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultSuccess => {
                return check_consumed("br", decoded, position as u64, body);
            }
            BrotliResult::NeedsMoreInput | BrotliResult::ResultFailure => {
                return Err(malformed_fault("br"));
            }
        }
    }
}

/// Decodes zstd: a sequence of frames (RFC 8878 §3.1).
fn decode_zstd(body: &[u8], max_bytes: usize) -> Result<Vec<u8>, String> {
    let mut input = Cursor::new(body);
    let mut decoded = Vec::new();
    while input.position() < body.len() as u64 {
        let frame = ruzstd::decoding::StreamingDecoder::new(&mut input)
            .map_err(|_| malformed_fault("zstd"))?;
        decoded.extend(read_up_to("zstd", frame, max_bytes - decoded.len())?);
        if decoded.len() > max_bytes {
            break;
        }
    }
    Ok(decoded)
}

/// Reads at most one byte more than `max_bytes`, because a few kilobytes can decode to gigabytes.
fn read_up_to(name: &str, decoder: impl Read, max_bytes: usize) -> Result<Vec<u8>, String> {
    let mut decoded = Vec::new();
    decoder
        .take(max_bytes as u64 + 1)
        .read_to_end(&mut decoded)
        .map_err(|_| malformed_fault(name))?;
    Ok(decoded)
}

fn length_fault(name: &str, max_bytes: usize) -> String {
    format!("the body is longer than {} MiB when decoded from {name}", max_bytes >> 20)
}

/// Decodes zlib or raw deflate. `consumed`: returns how many bytes of the body the decoder has
/// consumed.
fn inflate<D: Read>(
    body: &[u8],
    mut decoder: D,
    consumed: fn(&D) -> u64,
    max_bytes: usize,
) -> Result<Vec<u8>, String> {
    let decoded = read_up_to("deflate", &mut decoder, max_bytes)?;
    if decoded.len() > max_bytes {
        return Ok(decoded);
    }
    check_consumed("deflate", decoded, consumed(&decoder), body)
}

/// Returns the decoded text if the decoder consumed the whole body. Bytes after the end of the
/// coding were not decoded, so they make the body malformed.
fn check_consumed(
    name: &str,
    text: Vec<u8>,
    consumed: u64,
    body: &[u8],
) -> Result<Vec<u8>, String> {
    if consumed == body.len() as u64 { Ok(text) } else { Err(malformed_fault(name)) }
}

fn malformed_fault(name: &str) -> String {
    format!("the body is not valid {name:?}, although Content-Encoding names this coding")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::CHECKED_BODY_BYTES;
    use std::io::Write as _;

    const TEXT: &[u8] = b"{\"hello\":\"world\"}";
    /// `TEXT` in the encoding of Node.js.
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

    /// Encodes a frame of one raw block (RFC 8878 §3.1.1): magic, a single segment of this length,
    /// the last block.
    fn zstd(text: &[u8]) -> Vec<u8> {
        let n = u8::try_from(text.len()).unwrap();
        let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0x20, n, 1 | n << 3, n >> 5, 0];
        frame.extend_from_slice(text);
        frame
    }

    #[test]
    fn known_codings_are_decoded() {
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
            let decoded = decode(&body, codings.as_bytes(), CHECKED_BODY_BYTES);
            assert_eq!(decoded.as_deref(), Ok(TEXT), "{codings}");
        }
    }

    #[test]
    fn decoding_failure_names_coding() {
        let error = |body: &[u8], codings: &str| {
            decode(body, codings.as_bytes(), CHECKED_BODY_BYTES).unwrap_err()
        };
        assert!(error(TEXT, "compress").contains("\"compress\", which dyno does not decode"));
        for coding in ["gzip", "deflate", "br", "zstd"] {
            assert!(
                error(b"\xffplain text", coding).contains("although Content-Encoding names"),
                "{coding}"
            );
        }
        assert!(error(&gzip(TEXT)[..20], "gzip").contains("although Content-Encoding names"));
        // Bytes after the end of a coding were not decoded, so they must fail.
        let encoded = [
            ("gzip", gzip(TEXT)),
            ("deflate", zlib(TEXT)),
            ("deflate", deflate(TEXT)),
            ("br", BROTLI.to_vec()),
            ("zstd", zstd(TEXT)),
        ];
        for (coding, body) in encoded {
            let more = [&body[..], b"more"].concat();
            assert!(error(&more, coding).contains("although Content-Encoding names"), "{coding}");
        }
        let bomb = gzip(&vec![0; CHECKED_BODY_BYTES + 1]);
        assert!(
            bomb.len() < 1 << 20
                && error(&bomb, "gzip").contains("longer than 64 MiB when decoded")
        );
    }

    #[test]
    fn length_of_decoded_body_is_limited() {
        let max_bytes = 1 << 20;
        for (codings, encode) in [
            ("gzip", &gzip as &dyn Fn(&[u8]) -> Vec<u8>),
            ("deflate", &zlib),
            ("deflate", &deflate),
            ("identity,gzip,deflate", &|text| zlib(&gzip(text))),
        ] {
            let decode =
                |length: usize| decode(&encode(&vec![0; length]), codings.as_bytes(), max_bytes);
            assert_eq!(decode(max_bytes).map(|text| text.len()), Ok(max_bytes), "{codings}");
            let error = decode(max_bytes + 1).unwrap_err();
            assert!(error.starts_with("the body is longer than 1 MiB when decoded"), "{error}");
        }
        // The frames of zstd are added, and the length of brotli is exact.
        assert_eq!(decode(&zstd(b"abc").repeat(2), b"zstd", 5), Err(length_fault("zstd", 5)));
        assert_eq!(decode(&zstd(b"abc").repeat(2), b"zstd", 6), Ok(b"abcabc".to_vec()));
        assert_eq!(decode(BROTLI, b"br", TEXT.len() - 1), Err(length_fault("br", 0)));
        assert_eq!(decode(BROTLI, b"br", TEXT.len()), Ok(TEXT.to_vec()));
    }

    #[test]
    fn codings_of_all_fields_are_joined() {
        let fields: [(&[u8], &[u8]); 3] =
            [(b"Content-Encoding", b"br"), (b"A", b"b"), (b"content-encoding", b"gzip")];
        let list = codings(fields.into_iter());
        assert_eq!(list, b"br,gzip,");
        assert!(is_encoded(&list) && !is_encoded(b"") && !is_encoded(b" Identity ,"));
    }
}
