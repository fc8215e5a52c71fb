//! Profiles the subject of a trial: samples its stacks under the trial's load, after the measured
//! window has closed.

use dyno_model::profile::ProfileRecord;

use super::host::Launched;
use super::real_host::RealHost;
use super::running_parts::RunningPart;
use crate::load::LoadSpec;
use crate::profile::ProfiledServer;

impl RealHost<'_> {
    /// Samples the server under a trial's load.
    pub(super) fn profile_load(
        &self,
        trial: usize,
        spec: &LoadSpec,
        launched: &Launched<'_, RunningPart<'_>>,
    ) -> Result<ProfileRecord, String> {
        let sampler = &launched.subject.process.sampler;
        let list_compiled = || match &launched.subject.list_compiled {
            Some(command) => command
                .run(&self.supervision())
                .map(drop)
                .map_err(|reason| format!("its command for `profile` {reason}")),
            None => Ok(()),
        };
        let profiled = ProfiledServer {
            spec,
            pids: &|| sampler.pids(),
            cpu_ns: &|| sampler.cpu_ns(),
            list_compiled: &list_compiled,
            interrupts: self.interrupts,
        };
        profiled.measure(trial)
    }
}
