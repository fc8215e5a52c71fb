//! Computing for a known time.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Rounds for one measurement of the speed: some milliseconds.
const ROUNDS: u64 = 2_000_000;

/// Computes for a given time of CPU, without asking a clock meanwhile: that would be a system
/// call for each look, and part of what dyno counts.
#[derive(Clone, Copy, Debug)]
pub struct Burner {
    rounds_per_us: f64,
}

impl Burner {
    pub fn new() -> Burner {
        // Read to learn the speed of this CPU once. The fastest of several: others may interrupt.
        let measure = |_| {
            let before = cpu_time();
            turn(ROUNDS);
            (cpu_time() - before).as_secs_f64() * 1e6
        };
        let fastest_us = (0..5).map(measure).fold(f64::INFINITY, f64::min);
        Burner { rounds_per_us: ROUNDS as f64 / fastest_us }
    }

    pub fn burn(self, us: u32) {
        turn(self.rounds(us));
    }

    /// Rounds that take so long.
    pub fn rounds(self, us: u32) -> u64 {
        (self.rounds_per_us * f64::from(us)) as u64
    }
}

/// Fills so many CPUs for ever.
pub fn fill(threads: u32) -> ! {
    for _ in 1..threads {
        std::thread::spawn(|| fill(1));
    }
    loop {
        turn(ROUNDS);
    }
}

/// Computes for so many rounds.
pub fn turn(rounds: u64) {
    let mut x = 1_u64;
    for i in 0..rounds {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i));
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
