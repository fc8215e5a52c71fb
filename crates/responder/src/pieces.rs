//! Splits HTTP/2 output into pieces, each of which is sent by one write.

use dyno_wire::h2::frame::{FrameHeader, HEADER_BYTES, Kind, flag};

use crate::Writes;

/// Returns the pieces of `out`, each for one write. `out` consists of complete frames.
pub(crate) fn pieces(out: &[u8], writes: Writes) -> impl Iterator<Item = &[u8]> {
    let mut remainder = out;
    std::iter::from_fn(move || {
        if remainder.is_empty() {
            return None;
        }
        let (piece, after) = remainder.split_at(first_piece_bytes(remainder, writes));
        remainder = after;
        Some(piece)
    })
}

/// Returns the length of the first piece of `out`, in bytes.
fn first_piece_bytes(out: &[u8], writes: Writes) -> usize {
    let mut end = 0;
    while let Some(header) = out[end..].first_chunk().map(FrameHeader::parse) {
        end += HEADER_BYTES + header.length as usize;
        let ends_piece = match writes {
            Writes::Batch => false,
            Writes::Response => ends_response(&header),
            Writes::Frame => true,
        };
        if ends_piece {
            break;
        }
    }
    end
}

/// Whether a frame is the last one of a response.
fn ends_response(header: &FrameHeader) -> bool {
    // In SETTINGS and PING the same bit means ACK.
    matches!(header.kind, Kind::Headers | Kind::Data) && header.has(flag::END_STREAM)
}

#[cfg(test)]
mod tests {
    use dyno_wire::h2::frame;

    use super::*;

    fn lengths(out: &[u8], writes: Writes) -> Vec<usize> {
        pieces(out, writes).map(<[u8]>::len).collect()
    }

    #[test]
    fn output_is_split_by_write_mode() {
        let mut out = Vec::new();
        frame::put_header(Kind::Settings, flag::ACK, 0, 0, &mut out);
        for stream in [1, 3] {
            frame::put_block(stream, &[0x88; 5], false, 100, &mut out);
            frame::put_header(Kind::Data, 0, stream, 2, &mut out);
            out.extend_from_slice(b"ok");
            frame::put_header(Kind::Data, flag::END_STREAM, stream, 0, &mut out);
        }
        frame::put_window_update(0, 1, &mut out);
        assert_eq!(lengths(&out, Writes::Batch), [9 + 2 * (14 + 11 + 9) + 13]);
        assert_eq!(lengths(&out, Writes::Response), [9 + 14 + 11 + 9, 14 + 11 + 9, 13]);
        assert_eq!(lengths(&out, Writes::Frame), [9, 14, 11, 9, 14, 11, 9, 13]);
        assert_eq!(lengths(&[], Writes::Frame), [0; 0]);
    }
}
