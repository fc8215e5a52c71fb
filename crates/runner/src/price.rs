//! What probes cost a server: one load, with the probes on and off in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use dyno_archive::plan::Load;
use dyno_archive::probe::PriceSlice;
use dyno_launch::supervision::Interrupts;
use dyno_observer::inside::{Counting, Watching};
use dyno_observer::monotonic_ns;

use crate::limits::{ANSWERS_GLANCE, ANSWERS_GLANCES, PRICE_PAIRS, PRICE_SETTLES, PRICE_SLICE};
use crate::load::{self, Answers, Reason, Spec, Watch};

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
        // What is asked is what a request costs, so the server is kept busy, for as long as it takes.
        let busy = self.spec.clone().kept_busy();
        let spec = Spec { load: Load { duration_ns: 0, requests: None, ..busy.load }, ..busy };
        let answers = Answers::new(spec.threads());
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let taken = scope.spawn(|| {
                let slices = self.slices(&answers, &is_over, spec.load.warmup_ns);
                is_over.store(true, Ordering::Release);
                slices
            });
            let mut watch = Watcher { answers: &answers, is_over: &is_over, interrupts: self.interrupts };
            let loaded = load::run(&spec, &mut watch);
            // If the load did not even begin, nobody is to wait for its answers.
            is_over.store(true, Ordering::Release);
            let slices = taken.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            match loaded?.server_failure {
                Some(failure) => Err(failure),
                None => slices,
            }
        })
    }

    fn slices(
        &self,
        answers: &Answers,
        is_over: &AtomicBool,
        warmup_ns: u64,
    ) -> Result<Vec<PriceSlice>, String> {
        let is_ended = || self.interrupts.count() > 0 || is_over.load(Ordering::Acquire);
        wait_for_answers(answers, &is_ended)?;
        wait(Duration::from_nanos(warmup_ns), &is_ended);
        let slices = self.pairs(answers, &is_ended);
        // As it was, whatever came of it: the rest of the start is looked at.
        self.watched.inside().attach(true)?;
        slices
    }

    fn pairs(&self, answers: &Answers, is_ended: &dyn Fn() -> bool) -> Result<Vec<PriceSlice>, String> {
        let mut counting = Counting::new(vec![Arc::clone(self.watched)]);
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
        let is_over = &AtomicBool::new(false);
        thread::scope(|scope| {
            let counter = counting.map(|counting| scope.spawn(move || count(counting, answers, is_over)));
            thread::sleep(PRICE_SETTLES);
            // All three are read at once, as a slice begins and as it ends.
            let edge = || (monotonic_ns(), answers.total(), (self.cpu_ns)());
            let (from_ns, before, cpu_before) = edge();
            thread::sleep(PRICE_SLICE);
            let (to_ns, after, cpu_after) = edge();
            is_over.store(true, Ordering::Release);
            let counted = counter.map(|c| c.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            counted.transpose()?;
            Ok(PriceSlice {
                attached,
                length_ns: to_ns - from_ns,
                answers: after - before,
                cpu_ns: cpu_after.zip(cpu_before).map(|(after, before)| after.saturating_sub(before)),
            })
        })
    }
}

/// Waits until the server answers. A load of which nothing is answered has nothing to tell.
fn wait_for_answers(answers: &Answers, is_ended: &dyn Fn() -> bool) -> Result<(), String> {
    for _ in 0..ANSWERS_GLANCES {
        if answers.total() > 0 || is_ended() {
            return Ok(());
        }
        thread::sleep(ANSWERS_GLANCE);
    }
    Err("no answer came within 10 s".into())
}

/// Waits, unless it is ended before.
fn wait(length: Duration, is_ended: &dyn Fn() -> bool) {
    let glances = length.as_nanos() / ANSWERS_GLANCE.as_nanos();
    (0..glances).take_while(|_| !is_ended()).for_each(|_| thread::sleep(ANSWERS_GLANCE));
}

fn count(counting: &mut Counting, answers: &Answers, is_over: &AtomicBool) -> Result<(), String> {
    let mut wait = |pause: Duration| {
        thread::sleep(pause);
        is_over.load(Ordering::Acquire)
    };
    counting.run(&|| Some(answers.total()), &mut wait)
}

/// Ends the load once the slices are taken.
struct Watcher<'a> {
    answers: &'a Arc<Answers>,
    is_over: &'a AtomicBool,
    interrupts: &'a Interrupts,
}

impl Watch for Watcher<'_> {
    fn answers(&self) -> Option<Arc<Answers>> {
        Some(Arc::clone(self.answers))
    }

    fn stop(&mut self) -> Option<Reason> {
        let is_ended = self.interrupts.count() > 0 || self.is_over.load(Ordering::Acquire);
        is_ended.then_some(Reason::Stopped)
    }
}
