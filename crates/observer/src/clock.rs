//! Reads the kernel's clocks. Samples and requests use the same monotonic clock, so that their
//! times are comparable.

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

/// Reads the monotonic clock, nanoseconds. The load path reads the same clock.
#[must_use]
pub fn monotonic_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

/// Returns how long this machine has been suspended since it was started, nanoseconds. The
/// monotonic clock does not include that time.
#[must_use]
pub fn suspended_ns() -> u64 {
    // Boot time is read first, so that the time between the readings does not look like a
    // suspension.
    let with_suspensions_ns = clock_ns(ClockId::Boottime);
    with_suspensions_ns.saturating_sub(monotonic_ns())
}

/// Returns the whole clock ticks since the start of the machine. The start times of processes are
/// in the same unit, and include the time of suspensions, too.
#[must_use]
pub fn boot_ticks() -> u64 {
    clock_ns(ClockId::Boottime) / tick_ns()
}

/// Returns the length of a clock tick, the unit of times in `/proc`, in nanoseconds.
#[must_use]
pub fn tick_ns() -> u64 {
    1_000_000_000 / clock_ticks_per_second()
}

/// Reads one of the kernel's clocks, in nanoseconds.
pub(crate) fn clock_ns(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_starts_between_readings_of_boot_ticks() {
        let earlier = boot_ticks();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let began = crate::proc::Stat::read(child.id()).unwrap().began_ticks;
        let later = boot_ticks();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!((earlier..=later).contains(&began), "{earlier} {began} {later}");
    }
}
