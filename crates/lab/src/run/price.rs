//! Measures the price of the probes (the CPU time that they cost a subject) in the subject's first
//! start. Reports show this price, because probes take CPU time from the server that they observe.

use dyno_model::probe::{ProbePrice, RequestedProbes};
use dyno_suite::limits::PROBE_COST_PAIRS;

use super::host::Launched;
use super::real_host::RealHost;
use super::running_parts::RunningPart;
use crate::load::LoadSpec;
use crate::price::PricedServer;

impl RealHost<'_> {
    /// Loads the subject with its probes alternately on and off. If the measurement fails, the
    /// result has the reason. `None`: the user interrupted the measurement.
    pub(super) fn probe_price(
        &self,
        trial: usize,
        spec: &LoadSpec,
        launched: &Launched<'_, RunningPart<'_>>,
    ) -> Option<ProbePrice> {
        let observe = &self.plan.arms[self.plan.trials[trial].arm].conditions.observe;
        let used = launched.subject.probes_use(self.probes.probes_use(observe));
        let RequestedProbes { attached, refused } = priced_probes(used);
        let price = ProbePrice { probes: attached, ..ProbePrice::default() };
        let Some(attached_probes) = &launched.subject.monitor else {
            let reason = refused.into_iter().next().map(|refused| refused.reason);
            let reason = reason.unwrap_or_else(|| "no probe is attached to the server".into());
            return Some(ProbePrice { failure: Some(reason), ..price });
        };
        let sampler = &launched.subject.process.sampler;
        let cpu_ns = || sampler.cpu_ns();
        let interrupts = self.interrupts;
        let measured =
            PricedServer { spec, attached_probes, cpu_ns: &cpu_ns, interrupts }.measure();
        match measured {
            // With fewer slices, the user interrupted the run.
            Ok(slices) if slices.len() < 2 * PROBE_COST_PAIRS => None,
            Ok(slices) => Some(ProbePrice { slices, ..price }),
            Err(reason) => Some(ProbePrice { failure: Some(reason), ..price }),
        }
    }
}

/// Returns the probes whose price is measured: the probes that can be detached from a loaded
/// server. The price of the other probes is not measured. Profiles are taken after the window,
/// runtime statistics are read during trials, and timestamps are read by the generator.
fn priced_probes(used: RequestedProbes) -> RequestedProbes {
    let RequestedProbes { mut attached, mut refused } = used;
    attached.retain(|probe| probe.is_attached());
    refused.retain(|refused| refused.probe.is_attached());
    RequestedProbes { attached, refused }
}

#[cfg(test)]
mod tests {
    use dyno_model::probe::{Probe, RefusedProbe};

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
