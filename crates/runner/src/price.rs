//! Cost of probes for a server: one load, with the probes alternately on and off.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use dyno_archive::probe::PriceSlice;
use dyno_launch::supervision::Interrupts;
use dyno_observer::kernel_probes::{CallCounter, PartyMonitor};
use dyno_observer::monotonic_ns;

use crate::background_load::{IsEnded, count, run_while_loaded};
use crate::limits::{PRICE_PAIRS, PRICE_SETTLES, PRICE_SLICE};
use crate::load::{AnswerCounts, LoadSpec};

/// Returns the total length of the slices, nanoseconds.
#[must_use]
pub fn length_ns() -> u64 {
    2 * PRICE_PAIRS as u64 * (PRICE_SLICE + PRICE_SETTLES).as_nanos() as u64
}

/// A server to be loaded while its probes are alternately on and off.
#[allow(missing_debug_implementations)] // It holds a closure.
pub struct PricedServer<'a> {
    pub spec: &'a LoadSpec,
    pub watched: &'a Arc<PartyMonitor>,
    /// Reads its CPU time so far, nanoseconds; `None`: not known.
    pub cpu_ns: &'a (dyn Fn() -> Option<u64> + Sync),
    pub interrupts: &'a Interrupts,
}

impl PricedServer<'_> {
    /// Measures the slices. Fewer than twice [`PRICE_PAIRS`]: the user interrupted it.
    ///
    /// # Errors
    /// The load cannot begin, the server fails, or the kernel refuses; as a sentence.
    pub fn measure(&self) -> Result<Vec<PriceSlice>, String> {
        // The cost per request is measured, so the server is kept busy for the whole time.
        run_while_loaded(&self.spec.clone().to_busy_loop(), self.interrupts, |answers, is_ended| {
            let slices = self.pairs(answers, is_ended);
            // Attached again in any case: the rest of the start is monitored.
            self.watched.observer().set_attached(true)?;
            slices
        })
    }

    fn pairs(
        &self,
        answers: &AnswerCounts,
        is_ended: &IsEnded<'_>,
    ) -> Result<Vec<PriceSlice>, String> {
        let mut counting = CallCounter::new(vec![vec![Arc::clone(self.watched)]]);
        let mut slices = Vec::new();
        // Off, on, on, off: a linear drift affects both states equally.
        for attached in (0..PRICE_PAIRS).flat_map(|pair| [pair % 2 == 1, pair % 2 == 0]) {
            if is_ended() {
                break;
            }
            self.watched.observer().set_attached(attached)?;
            let slice = self.slice(attached, answers, counting.as_mut().filter(|_| attached))?;
            if slice.answers == 0 {
                return Err("no response for a second".into());
            }
            slices.push(slice);
        }
        Ok(slices)
    }

    fn slice(
        &self,
        attached: bool,
        answers: &AnswerCounts,
        counting: Option<&mut CallCounter>,
    ) -> Result<PriceSlice, String> {
        let (to_counter, stop) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let counter =
                counting.map(|counting| scope.spawn(move || count(counting, &[answers], &stop)));
            thread::sleep(PRICE_SETTLES);
            // All three are read at once, as a slice begins and as it ends.
            let edge = || (monotonic_ns(), answers.total(), (self.cpu_ns)());
            let (from_ns, before, cpu_before) = edge();
            thread::sleep(PRICE_SLICE);
            let (to_ns, after, cpu_after) = edge();
            drop(to_counter);
            let counted =
                counter.map(|c| c.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            counted.transpose()?;
            Ok(PriceSlice {
                attached,
                length_ns: to_ns - from_ns,
                answers: after - before,
                cpu_ns: cpu_after
                    .zip(cpu_before)
                    .map(|(after, before)| after.saturating_sub(before)),
            })
        })
    }
}
