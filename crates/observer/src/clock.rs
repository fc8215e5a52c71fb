//! The kernel's clocks.

use rustix::time::{ClockId, clock_gettime};

/// The monotonic clock in nanoseconds: the same clock that the load path reads, so that samples and
/// exchanges lie on one axis.
#[must_use]
pub fn monotonic_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

/// Time for which this machine has been suspended since it was started, which the monotonic clock
/// leaves out; nanoseconds.
#[must_use]
pub fn suspended_ns() -> u64 {
    // Boot time first: what passes between the two readings must not look like a suspension.
    let with = clock_ns(ClockId::Boottime);
    with.saturating_sub(monotonic_ns())
}

/// What one of the kernel's clocks shows, in nanoseconds.
pub(crate) fn clock_ns(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
