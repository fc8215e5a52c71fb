//! Measures the price of the probes (the CPU time that they cost a subject) in the subject's first
//! start. Reports show this price, because probes take CPU time from the server that they observe.

use std::sync::Arc;

use dyno_archive::probe::{PriceSlice, ProbePrice, RequestedProbes};
use dyno_archive::start::PartStart;
use dyno_observer::kernel_probes::PartyMonitor;
use dyno_observer::probes::{Probes, needs_kernel_observer};

use super::Runner;
use super::running_parts::{Launched, listener};
use super::warm::reference_trial;
use crate::limits::PROBE_COST_PAIRS;
use crate::load_at;
use crate::price::PricedServer;

impl Runner<'_> {
    /// Loads the subject with its probes alternately on and off, if the plan requires the price and
    /// this is the first start of the subject. If the measurement fails, the record has the reason,
    /// and the start continues.
    ///
    /// `pending_trials`: indices of the trials of this start that are still to be run.
    pub(super) fn measure_probe_price(
        &mut self,
        launch: usize,
        record: &mut PartStart,
        launched: &Launched<'_>,
        pending_trials: &[usize],
        probes: &Probes,
    ) {
        if !self.plan.probe_price || !self.plan.is_first_start_with_probes(launch) {
            return;
        }
        // The price is measured with the first workload.
        let first_workload = pending_trials.iter().map(|t| self.plan.trials[*t].workload).min();
        let Some(trial) = first_workload
            .and_then(|workload| reference_trial(self.plan, pending_trials, workload))
        else {
            return;
        };
        let observe = &self.plan.arms[self.plan.trials[trial].arm].conditions.observe;
        let available = probes.probes_use(observe);
        let used = launched.subject.probes_use(available);
        let RequestedProbes { attached, refused } = priced_probes(used);
        let mut price = ProbePrice { probes: attached, ..ProbePrice::default() };
        let Some(attached_probes) = &launched.subject.monitor else {
            let reason = refused.into_iter().next().map(|refused| refused.reason);
            price.failure =
                Some(reason.unwrap_or_else(|| "no probe is attached to the server".into()));
            record.probe_price = Some(price);
            return;
        };
        match self.measure_slices(trial, launched, attached_probes) {
            // With fewer slices, the user interrupted the run.
            Ok(slices) if slices.len() < 2 * PROBE_COST_PAIRS => return,
            Ok(slices) => price.slices = slices,
            Err(reason) => price.failure = Some(reason),
        }
        record.probe_price = Some(price);
    }

    /// Measures the slices with a trial's load.
    fn measure_slices(
        &self,
        trial: usize,
        launched: &Launched<'_>,
        attached_probes: &Arc<PartyMonitor>,
    ) -> Result<Vec<PriceSlice>, String> {
        let workload = &self.plan.workloads[self.plan.trials[trial].workload];
        let listener = listener(&launched.subject.listeners, workload)?;
        let spec = load_at::trial(listener.listener(), self.plan, trial)?;
        let sampler = &launched.subject.process.sampler;
        let cpu_ns = || sampler.cpu_ns();
        PricedServer { spec: &spec, attached_probes, cpu_ns: &cpu_ns, interrupts: self.interrupts }
            .measure()
    }
}

/// Returns the probes whose price is measured: the probes that can be detached from a loaded
/// server. The price of the other probes is not measured. Profiles are taken after the window,
/// runtime statistics are read during trials, and timestamps are read by the generator.
fn priced_probes(used: RequestedProbes) -> RequestedProbes {
    let RequestedProbes { mut attached, mut refused } = used;
    attached.retain(|probe| needs_kernel_observer(*probe));
    refused.retain(|refused| needs_kernel_observer(refused.probe));
    RequestedProbes { attached, refused }
}

#[cfg(test)]
mod tests {
    use dyno_archive::probe::{Probe, RefusedProbe};

    use super::*;

    #[test]
    fn probes_that_cannot_be_detached_are_not_priced() {
        let refused = |probe| RefusedProbe { probe, reason: "r".into(), hint: "h".into() };
        let used = RequestedProbes {
            attached: [Probe::Syscalls, Probe::Runtime, Probe::KernelStamps].into(),
            refused: vec![refused(Probe::Profile), refused(Probe::Modes)],
        };
        assert_eq!(
            priced_probes(used),
            RequestedProbes {
                attached: [Probe::Syscalls].into(),
                refused: vec![refused(Probe::Modes)]
            }
        );
    }
}
