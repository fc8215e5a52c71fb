//! Counts the frames, errors and header bytes of connections.

use super::ErrorCode;
use super::frame::Kind;

/// Counts of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionCounts {
    /// Frames by [`Kind`].
    pub frames: [u64; Kind::COUNT],
    /// RST_STREAM frames by [`ErrorCode`].
    pub resets: [u64; ErrorCode::COUNT],
    /// GOAWAY frames by [`ErrorCode`].
    pub go_aways: [u64; ErrorCode::COUNT],
    /// Bytes of header blocks on the wire.
    pub block_bytes: u64,
    /// Bytes of the names and values in the header blocks.
    pub field_bytes: u64,
}

/// Counts of both directions, of one connection or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts {
    pub received: DirectionCounts,
    pub sent: DirectionCounts,
    /// PING frames received without ACK, which need a reply.
    pub pings: u64,
    /// Largest number of streams that were open at once on one connection.
    pub max_open_streams: u64,
    /// Bytes of frames sent in reply to frames of the peer: acknowledgements, RST_STREAM,
    /// WINDOW_UPDATE. These bytes accumulate if the peer does not read, so the caller must limit
    /// them.
    pub reply_bytes: u64,
}

impl DirectionCounts {
    #[inline]
    pub const fn count(&mut self, kind: Kind) {
        self.frames[kind as usize] += 1;
    }

    #[must_use]
    pub const fn frames(&self, kind: Kind) -> u64 {
        self.frames[kind as usize]
    }

    /// Returns the counts since `earlier`, an older copy of these counts.
    #[must_use]
    pub fn growth_since(&self, earlier: &DirectionCounts) -> DirectionCounts {
        DirectionCounts {
            frames: core::array::from_fn(|i| self.frames[i] - earlier.frames[i]),
            resets: core::array::from_fn(|i| self.resets[i] - earlier.resets[i]),
            go_aways: core::array::from_fn(|i| self.go_aways[i] - earlier.go_aways[i]),
            block_bytes: self.block_bytes - earlier.block_bytes,
            field_bytes: self.field_bytes - earlier.field_bytes,
        }
    }
}

impl FrameCounts {
    /// Returns the counts since `earlier`, an older copy of these counts. `max_open_streams` still
    /// covers the whole time.
    #[must_use]
    pub fn growth_since(&self, earlier: &FrameCounts) -> FrameCounts {
        FrameCounts {
            received: self.received.growth_since(&earlier.received),
            sent: self.sent.growth_since(&earlier.sent),
            pings: self.pings - earlier.pings,
            max_open_streams: self.max_open_streams,
            reply_bytes: self.reply_bytes - earlier.reply_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_difference_of_each_count() {
        let direction = |n: u64| DirectionCounts {
            frames: [7 * n; Kind::COUNT],
            resets: [8 * n; ErrorCode::COUNT],
            go_aways: [9 * n; ErrorCode::COUNT],
            block_bytes: 10 * n,
            field_bytes: 11 * n,
        };
        let counts = |n: u64| FrameCounts {
            received: direction(n),
            sent: direction(2 * n),
            pings: 12 * n,
            max_open_streams: 5,
            reply_bytes: 13 * n,
        };
        assert_eq!(counts(5).growth_since(&counts(3)), counts(2));
        assert_eq!(counts(3).growth_since(&FrameCounts::default()), counts(3));
        assert_eq!(direction(4).frames(Kind::Ping), 28);
    }
}
