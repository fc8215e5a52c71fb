//! Cuts the output of HTTP/2 into writes.

use dyno_wire::h2::frame::{FrameHeader, HEADER_BYTES, Kind, flag};

use crate::Writes;

/// The pieces of `out` that get one write each. `out` consists of whole frames.
pub(crate) fn pieces(out: &[u8], writes: Writes) -> impl Iterator<Item = &[u8]> {
    let mut rest = out;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = rest.split_at(length(rest, writes));
        rest = after;
        Some(piece)
    })
}

/// Length of the first piece.
fn length(out: &[u8], writes: Writes) -> usize {
    let mut end = 0;
    while let Some(header) = out[end..].first_chunk().map(FrameHeader::parse) {
        end += HEADER_BYTES + header.length as usize;
        let is_over = match writes {
            Writes::Batch => false,
            Writes::Response => ends_answer(&header),
            Writes::Frame => true,
        };
        if is_over {
            break;
        }
    }
    end
}

fn ends_answer(header: &FrameHeader) -> bool {
    // The same bit of SETTINGS and PING says that they are acknowledgements.
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
    fn output_is_cut_where_it_is_asked_to_be() {
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
