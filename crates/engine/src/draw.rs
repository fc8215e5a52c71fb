//! Identifies the draw of a request's values, so that a retry renders the same bytes again.

/// The lowest bits of the index of a request, or of a visit, among those of its worker. Zero: not
/// drawn yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draw(u32);

impl Draw {
    pub(crate) const NONE: Draw = Draw(0);

    /// This bit is set in every draw except `NONE`. The other 31 bits are the lowest bits of the
    /// index.
    const DRAWN: u32 = 1 << 31;

    #[inline]
    pub(crate) const fn from_index(index: u64) -> Draw {
        Draw(index as u32 | Draw::DRAWN)
    }

    /// Returns the index. `last`: index of the latest draw. No request in flight is 2³¹ requests
    /// old, so the latest index with these bits is the correct one.
    #[inline]
    pub(crate) const fn index(self, last: u64) -> u64 {
        let age = last.wrapping_sub(self.0 as u64) & !Draw::DRAWN as u64;
        last - age
    }
}
