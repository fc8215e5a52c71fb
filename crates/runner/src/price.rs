//! What probes cost a server: one load, with the probes on and off in turn.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use dyno_archive::probe::PriceSlice;
use dyno_launch::supervision::Interrupts;
use dyno_observer::inside::{Counting, Watching};
use dyno_observer::monotonic_ns;

use crate::beside::{IsEnded, count, loaded};
use crate::limits::{PRICE_PAIRS, PRICE_SETTLES, PRICE_SLICE};
use crate::load::{Answers, Spec};

/// How long the slices take, in nanoseconds.
#[must_use]
pub fn length_ns() -> u64 {
    2 * PRICE_PAIRS as u64 * (PRICE_SLICE + PRICE_SETTLES).as_nanos() as u64
}

/// A server to be loaded with what watches it on and off in turn.
#[allow(missing_debug_implementations)] // It holds a closure.
pub struct Priced<'a> {
    pub spec: &'a Spec,
    pub watched: &'a Arc<Watching>,
    /// Reads its CPU time so far, nanoseconds; `None`: not known.
    pub cpu_ns: &'a (dyn Fn() -> Option<u64> + Sync),
    pub interrupts: &'a Interrupts,
}

impl Priced<'_> {
    /// Fewer slices than [`PRICE_PAIRS`] twice: the user ended it.
    ///
    /// # Errors
    /// The load cannot begin, the server fails, or the kernel refuses; as a sentence.
    pub fn measure(&self) -> Result<Vec<PriceSlice>, String> {
        // What is asked is what a request costs, so the server is kept busy, for as long as it
        // takes.
        loaded(&self.spec.clone().kept_busy(), self.interrupts, |answers, is_ended| {
            let slices = self.pairs(answers, is_ended);
            // As it was, whatever came of it: the rest of the start is looked at.
            self.watched.inside().attach(true)?;
            slices
        })
    }

    fn pairs(&self, answers: &Answers, is_ended: &IsEnded<'_>) -> Result<Vec<PriceSlice>, String> {
        let mut counting = Counting::new(vec![vec![Arc::clone(self.watched)]]);
        let mut slices = Vec::new();
        // Off, on, on, off: what changes evenly with time is in both alike.
        for attached in (0..PRICE_PAIRS).flat_map(|pair| [pair % 2 == 1, pair % 2 == 0]) {
            if is_ended() {
                break;
            }
            self.watched.inside().attach(attached)?;
            let slice = self.slice(attached, answers, counting.as_mut().filter(|_| attached))?;
            if slice.answers == 0 {
                return Err("no answer came for a second".into());
            }
            slices.push(slice);
        }
        Ok(slices)
    }

    fn slice(
        &self,
        attached: bool,
        answers: &Answers,
        counting: Option<&mut Counting>,
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
