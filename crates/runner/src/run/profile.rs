//! Profiles the subject of a trial: samples its stacks under the trial's load, after the measured
//! window has closed.

use dyno_archive::probe::Probe;
use dyno_archive::profile::ProfileRecord;

use super::running_parts::{Launched, listener};
use super::{RunEvent, Runner};
use crate::load_at;
use crate::profile::ProfiledServer;

impl Runner<'_> {
    /// Profiles the subject at the load of a trial whose window has ended. `None`: no profile is
    /// requested. If profiling fails, the record has the reason, and the start continues.
    pub(super) fn profile(
        &mut self,
        trial: usize,
        launched: &Launched<'_>,
    ) -> Option<ProfileRecord> {
        let observe = &self.plan.arms[self.plan.trials[trial].arm].conditions.observe;
        if !observe.contains(&Probe::Profile) {
            return None;
        }
        (self.on_event)(RunEvent::Profiling { trial });
        let failed =
            |reason| ProfileRecord { trial, failure: Some(reason), ..ProfileRecord::default() };
        Some(self.profile_load(trial, launched).unwrap_or_else(failed))
    }

    /// Samples the server under the trial's load.
    fn profile_load(&self, trial: usize, launched: &Launched<'_>) -> Result<ProfileRecord, String> {
        let workload = &self.plan.workloads[self.plan.trials[trial].workload];
        let listener = listener(&launched.subject.listeners, workload)?;
        let spec = load_at::trial(listener.listener(), self.plan, trial)?;
        let sampler = &launched.subject.process.sampler;
        let list_compiled = || match &launched.subject.list_compiled {
            Some(command) => command
                .run(&self.supervision())
                .map(drop)
                .map_err(|reason| format!("its command for `profile` {reason}")),
            None => Ok(()),
        };
        let profiled = ProfiledServer {
            spec: &spec,
            pids: &|| sampler.pids(),
            cpu_ns: &|| sampler.cpu_ns(),
            list_compiled: &list_compiled,
            interrupts: self.interrupts,
        };
        profiled.measure(trial)
    }
}
