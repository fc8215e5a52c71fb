/// An instant on the clock of the driver, nanoseconds. Its origin is arbitrary: only differences
/// have a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// Later than every instant that a run can reach.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// Returns the instant `ns` nanoseconds later, or `NEVER` on overflow.
    #[must_use]
    pub const fn plus(self, ns: u64) -> Instant {
        Instant(self.0.saturating_add(ns))
    }

    /// Returns the nanoseconds from `earlier` to this instant; 0 if `earlier` is later.
    #[must_use]
    pub const fn ns_since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
