//! Measures the canary: a fixed piece of work before each start, on the first CPU of the server.
//! Reports use it to detect changes of the machine. If the machine becomes slower, the canary
//! becomes slower, too, independently of the server.

use std::hint::black_box;
use std::thread;

use dyno_driver::sys::thread_run_ns;
use dyno_launch::set_affinity;
use dyno_model::start::{Canary, CanaryPiece};
use dyno_observer::monotonic_ns;

/// Pieces of each canary. Together they take about a fifth of a second.
const PIECES: usize = 10;

/// Steps of a piece. Each step depends on the preceding step, and on a word anywhere in the buffer.
const STEPS: u32 = 1_000_000;

/// Words of the buffer: 2 MiB, more than the CPU's inner caches, so that the load of shared caches
/// by other programs has an effect.
const WORDS: usize = 1 << 18;

/// Runs the work on one CPU, because CPUs may differ in speed. `None`: no thread can be bound to
/// the CPU.
pub(super) fn measure(cpu: u32) -> Option<Canary> {
    // On a separate thread, whose CPU affinity affects no other code.
    let worker = thread::spawn(move || {
        set_affinity(&[cpu]).ok()?;
        let mut words: Vec<u64> = (0..WORDS as u64).collect();
        let pieces = (0..PIECES).map(|_| piece(&mut words)).collect();
        Some(Canary { steps: u64::from(STEPS), pieces })
    });
    worker.join().ok().flatten()
}

/// Times one piece. Both clocks are read immediately before and after the piece, so that nothing
/// else is included.
fn piece(words: &mut [u64]) -> CanaryPiece {
    let (cpu_ns, wall_ns) = (thread_run_ns(), monotonic_ns());
    work(words);
    let (wall_ns, cpu_ns) = (monotonic_ns() - wall_ns, thread_run_ns() - cpu_ns);
    CanaryPiece { wall_ns, cpu_ns }
}

/// Does the fixed work: a chain of multiplications and random memory accesses.
fn work(words: &mut [u64]) {
    let mut x = 1u64;
    for _ in 0..STEPS {
        // Knuth's multiplier (The Art of Computer Programming 2, §3.3.4).
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // The 18 highest bits are the index of a word.
        let word = &mut words[(x >> 46) as usize];
        x ^= *word;
        *word = x;
    }
    black_box(x);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canary_times_every_piece_by_both_clocks() {
        let canary = measure(dyno_launch::allowed_cpus()[0])
            .expect("this thread should be bound to an allowed CPU");
        assert_eq!((canary.pieces.len(), canary.steps), (PIECES, u64::from(STEPS)));
        assert!(canary.pieces.iter().all(|piece| piece.wall_ns > 0 && piece.cpu_ns > 0));
        assert_eq!(measure(4000), None, "CPU 4000 does not exist");
    }
}
