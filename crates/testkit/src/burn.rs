//! Computes for a known CPU time. Test servers use this computation as the work of a request.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Rounds of one speed measurement, which takes some milliseconds.
const ROUNDS: u64 = 2_000_000;

/// Work of a known CPU time. The work does not read the clock, because dyno would count these
/// system calls.
#[derive(Clone, Copy, Debug)]
pub struct Burner {
    rounds_per_us: f64,
}

impl Burner {
    /// Measures the speed of this thread's CPU.
    pub fn new() -> Burner {
        // The fastest of several measurements is used, because the others may have been
        // interrupted.
        let measure = |_| {
            let before = cpu_time();
            compute(ROUNDS);
            (cpu_time() - before).as_secs_f64() * 1e6
        };
        let fastest_us = (0..5).map(measure).fold(f64::INFINITY, f64::min);
        Burner { rounds_per_us: ROUNDS as f64 / fastest_us }
    }

    /// Computes for this time, microseconds.
    pub fn burn(self, us: u32) {
        compute(self.rounds(us));
    }

    /// Returns the number of rounds that take this time, microseconds.
    pub fn rounds(self, us: u32) -> u64 {
        (self.rounds_per_us * f64::from(us)) as u64
    }
}

/// Computes forever on this number of CPUs.
pub fn fill(threads: u32) -> ! {
    for _ in 1..threads {
        std::thread::spawn(|| fill(1));
    }
    loop {
        compute(ROUNDS);
    }
}

/// Computes for a number of rounds.
pub fn compute(rounds: u64) {
    let mut x = 1_u64;
    for i in 0..rounds {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i));
    }
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
