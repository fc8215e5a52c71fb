//! Measures the price of probes: the CPU time that they take from the server that they observe.
//! During one load, the probes are alternately on and off.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use dyno_launch::supervision::Interrupts;
use dyno_model::probe::PriceSlice;
use dyno_observer::kernel_probes::{CallCounter, PartyMonitor};
use dyno_observer::monotonic_ns;
use dyno_suite::limits::{PROBE_COST_PAIRS, PROBE_COST_SETTLE, PROBE_COST_SLICE};

use crate::background_load::{IsEnded, count_calls, run_while_loaded};
use crate::load::{LoadSpec, ResponseCounts};

/// A server to be loaded while its probes are alternately on and off.
#[allow(missing_debug_implementations)] // It holds a closure.
pub struct PricedServer<'a> {
    pub spec: &'a LoadSpec,
    pub attached_probes: &'a Arc<PartyMonitor>,
    /// Reads the server's CPU time so far, nanoseconds. `None`: unknown.
    pub cpu_ns: &'a (dyn Fn() -> Option<u64> + Sync),
    pub interrupts: &'a Interrupts,
}

impl PricedServer<'_> {
    /// Measures the slices. If the user interrupts the measurement, there are fewer slices than
    /// twice [`PROBE_COST_PAIRS`].
    ///
    /// # Errors
    /// The load cannot begin, the server fails, or the kernel refuses to attach or detach a probe.
    pub fn measure(&self) -> Result<Vec<PriceSlice>, String> {
        // The cost per request is measured, so the server must be busy for the whole time.
        run_while_loaded(
            &self.spec.clone().to_busy_loop(),
            self.interrupts,
            |response_counts, is_ended| {
                let slices = self.measure_slices(response_counts, is_ended);
                // The probes are attached even after a failure, because the rest of the start is
                // monitored.
                self.attached_probes.observer().set_attached(true)?;
                slices
            },
        )
    }

    /// Measures all slices, with the probes alternately off and on.
    fn measure_slices(
        &self,
        response_counts: &ResponseCounts,
        is_ended: &IsEnded<'_>,
    ) -> Result<Vec<PriceSlice>, String> {
        let mut call_counter = CallCounter::new(vec![vec![Arc::clone(self.attached_probes)]]);
        let mut slices = Vec::new();
        // Off, on, on, off: a linear drift affects both states equally.
        for attached in (0..PROBE_COST_PAIRS).flat_map(|pair| [pair % 2 == 1, pair % 2 == 0]) {
            if is_ended() {
                break;
            }
            self.attached_probes.observer().set_attached(attached)?;
            let slice = self.measure_slice(
                attached,
                response_counts,
                call_counter.as_mut().filter(|_| attached),
            )?;
            if slice.responses == 0 {
                return Err("the server sent no response for a second".into());
            }
            slices.push(slice);
        }
        Ok(slices)
    }

    /// Measures one slice: its responses, and the CPU time of the server.
    fn measure_slice(
        &self,
        attached: bool,
        response_counts: &ResponseCounts,
        call_counter: Option<&mut CallCounter>,
    ) -> Result<PriceSlice, String> {
        let (to_counter, stop) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let counter = call_counter.map(|counter| {
                scope.spawn(move || count_calls(counter, &[response_counts], &stop))
            });
            thread::sleep(PROBE_COST_SETTLE);
            // The clock and both counters are read when a slice begins and when it ends.
            let edge = || (monotonic_ns(), response_counts.total(), (self.cpu_ns)());
            let (from_ns, before, cpu_before) = edge();
            thread::sleep(PROBE_COST_SLICE);
            let (to_ns, after, cpu_after) = edge();
            drop(to_counter);
            let counted =
                counter.map(|c| c.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            counted.transpose()?;
            Ok(PriceSlice {
                attached,
                length_ns: to_ns - from_ns,
                responses: after - before,
                cpu_ns: cpu_after
                    .zip(cpu_before)
                    .map(|(after, before)| after.saturating_sub(before)),
            })
        })
    }
}
