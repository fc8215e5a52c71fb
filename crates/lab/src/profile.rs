//! Takes a profile: samples the stacks of a server under the same load as in its measurement. A
//! profile shows in which functions the server spends its time.

use std::thread;

use dyno_launch::supervision::Interrupts;
use dyno_model::profile::ProfileRecord;
use dyno_observer::monotonic_ns;
use dyno_observer::stacks::Sampling;
use dyno_suite::limits::PROFILE_LENGTH;

use crate::background_load::run_while_loaded;
use crate::load::LoadSpec;

/// A server to be profiled.
#[allow(missing_debug_implementations)] // It holds closures.
pub struct ProfiledServer<'a> {
    pub spec: &'a LoadSpec,
    /// Returns the server's processes.
    pub pids: &'a (dyn Fn() -> Vec<u32> + Sync),
    /// Reads the server's CPU time so far, nanoseconds. `None`: unknown.
    pub cpu_ns: &'a (dyn Fn() -> Option<u64> + Sync),
    /// Makes the server list its compiled code, so that its functions have names in the profile.
    pub list_compiled: &'a dyn Fn() -> Result<(), String>,
    pub interrupts: &'a Interrupts,
}

impl ProfiledServer<'_> {
    /// Profiles the server.
    ///
    /// # Errors
    /// The load cannot begin, the server fails, the kernel takes no stacks, or the user interrupted
    /// the profile.
    pub fn measure(&self, trial: usize) -> Result<ProfileRecord, String> {
        let mut sampling = Sampling::load().map_err(|refusal| refusal.reason)?;
        sampling.preload_processes(&(self.pids)());
        let (samples, edges) =
            run_while_loaded(self.spec, self.interrupts, |response_counts, is_ended| {
                let mut edges = Vec::new();
                // Both values are read when sampling begins, and again when it ends.
                let mut edge = || edges.push((response_counts.total(), (self.cpu_ns)()));
                let from_ns = monotonic_ns();
                let mut wait = |pause| {
                    thread::sleep(pause);
                    // This clock only decides when to stop. The sampler measures the reported
                    // length.
                    is_ended() || monotonic_ns() - from_ns >= PROFILE_LENGTH.as_nanos() as u64
                };
                let samples = sampling.run(self.pids, &mut edge, &mut wait)?;
                Ok((samples, edges))
            })?;
        let unnamed = (self.list_compiled)().err();
        // Ctrl-C also ends the command of `list_compiled`, and functions would lack names.
        // Interrupts are therefore checked after that command.
        if self.interrupts.count() > 0 {
            return Err("the user ended the profile".into());
        }
        let sampled = samples.resolve_names();
        let [(responses_before, cpu_before), (responses_after, cpu_after)] = edges[..] else {
            unreachable!("sampling reads both edges")
        };
        Ok(ProfileRecord {
            trial,
            length_ns: sampled.length_ns,
            responses: responses_after - responses_before,
            cpu_ns: cpu_after.zip(cpu_before).map(|(after, before)| after.saturating_sub(before)),
            frames: sampled.frames,
            running: sampled.running,
            waiting: sampled.waiting,
            unnamed,
            failure: None,
        })
    }
}
