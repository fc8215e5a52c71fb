/// An instant on the driver's clock, in nanoseconds. Only differences mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// Later than every instant a run can reach.
    pub const NEVER: Instant = Instant(u64::MAX);

    #[must_use]
    pub const fn plus(self, ns: u64) -> Instant {
        Instant(self.0.saturating_add(ns))
    }

    /// Nanoseconds from `earlier` to here; zero if `earlier` is in fact later.
    #[must_use]
    pub const fn ns_since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
