//! The machine on which dyno runs, as the host of a walk.

use std::io;
use std::thread;
use std::time::Duration;

use dyno_launch::group::Groups;
use dyno_launch::guard::Guard;
use dyno_launch::keyed_hashes::KeyFile;
use dyno_launch::network::Network;
use dyno_launch::process;
use dyno_launch::set_affinity;
use dyno_launch::supervision::{Interrupts, Supervision};
use dyno_model::plan::{Arm, Isolation, Plan};
use dyno_model::profile::ProfileRecord;
use dyno_model::start::{Canary, Failure, NewFiles, PartStart, StopRecord};
use dyno_model::trial::CheckResult;
use dyno_model::{LoadRecord, Party, StartRecord};
use dyno_observer::cgroup::Layout;
use dyno_observer::monotonic_ns;
use dyno_observer::probes::Probes;
use dyno_subject::build::Built;
use dyno_subject::certs::Certs;
use dyno_subject::definition::Definition;
use dyno_subject::definition::snapshot::Snapshot;
use dyno_suite::plan::Planned;

use super::canary;
use super::failure_cause::harness;
use super::host::{Host, Launched, MeasuredTrial, TrialLoad};
use super::ports::Ports;
use super::running_parts::RunningPart;
use super::start_files::check_files;
use super::{RunError, RunEvent};
use crate::builds::{Builds, BuiltBackend};
use crate::drops::DropWatch;
use crate::load::LoadSpec;

/// This machine, prepared for the starts of a plan.
#[allow(missing_debug_implementations)] // It holds probes.
pub struct RealHost<'a> {
    pub(super) plan: &'a Plan,
    planned: &'a Planned,
    /// Artefacts and services to start.
    builds: &'a Builds,
    pub(super) guard: &'a Guard,
    pub(super) interrupts: &'a Interrupts,
    pub(super) groups: Groups,
    /// `None`: no subject needs certificates.
    pub(super) certs: Option<Certs>,
    pub(super) probes: Probes,
    /// Key of the hashes of values that archives withhold.
    pub(super) hash_key: KeyFile,
}

impl<'a> RealHost<'a> {
    /// Prepares this machine: creates control groups and certificates, and loads probes.
    ///
    /// # Errors
    /// The certificates cannot be created.
    pub fn new(
        planned: &'a Planned,
        builds: &'a Builds,
        supervision: Supervision<'a>,
    ) -> Result<RealHost<'a>, RunError> {
        let Supervision { guard, interrupts } = supervision;
        let plan = &planned.plan;
        let observe = plan.arms.iter().flat_map(|arm| &arm.conditions.observe).copied().collect();
        let host = RealHost {
            plan,
            planned,
            builds,
            guard,
            interrupts,
            groups: Groups::prepare(Layout::read(), guard),
            certs: create_certs(planned, builds, guard).map_err(RunError::Machine)?,
            probes: Probes::load(&observe),
            hash_key: KeyFile::of_user(),
        };
        host.groups.sweep();
        Ok(host)
    }

    pub(super) fn supervision(&self) -> Supervision<'a> {
        Supervision { guard: self.guard, interrupts: self.interrupts }
    }

    /// Returns the definition of a part of a launch.
    pub(super) fn definition(&self, launch: usize, party: Party) -> &'a Definition {
        match party {
            Party::Backend(index) => &self.backend(index).definition,
            _ => &self.planned.arms[self.plan.launches[launch].arms[0]],
        }
    }

    /// Returns the artefacts of a part of a launch.
    pub(super) fn built(&self, launch: usize, party: Party) -> &'a Built {
        match party {
            Party::Backend(index) => &self.backend(index).built,
            _ => {
                let built = self.builds.subjects[self.arm(launch).subject].as_ref();
                built.expect("only subjects that take part are started")
            }
        }
    }

    /// Returns the files of a part of a launch, as they were when the run was planned.
    fn snapshot(&self, launch: usize, party: Party) -> &'a Snapshot {
        let snapshots = &self.planned.snapshots;
        match party {
            Party::Backend(index) => &snapshots.backends[index],
            _ => &snapshots.subjects[self.arm(launch).subject],
        }
    }

    /// Returns the arm of a launch.
    pub(super) fn arm(&self, launch: usize) -> &'a Arm {
        &self.plan.arms[self.plan.launches[launch].arms[0]]
    }

    fn backend(&self, index: usize) -> &'a BuiltBackend {
        self.builds.backends[index]
            .as_ref()
            .expect("a subject that takes part should have all its back ends")
    }
}

impl<'a> Host for RealHost<'a> {
    type Part = RunningPart<'a>;

    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn rest(&self, length: Duration) {
        thread::sleep(length);
    }

    fn has_built(&self, subject: usize) -> bool {
        self.builds.subjects[subject].is_some()
    }

    fn watch_drops(&self) -> DropWatch {
        DropWatch::begin()
    }

    fn network(&self, launch: usize) -> io::Result<Network> {
        let mut arms = self.plan.arms_of(launch);
        let is_isolated = arms.any(|arm| arm.conditions.isolation == Isolation::Netns);
        if is_isolated { Network::pair().map_err(io::Error::other) } else { Ok(Network::Machine) }
    }

    fn canary(&self, cpu: u32) -> Option<Canary> {
        canary::measure(cpu)
    }

    fn bind(&self, cpus: &[u32]) -> io::Result<()> {
        set_affinity(cpus)
    }

    fn check_files(&self, launch: usize, party: Party) -> Result<Option<NewFiles>, Failure> {
        let planned = self.snapshot(launch, party);
        check_files(planned, self.definition(launch, party), self.built(launch, party))
    }

    fn start_part(
        &self,
        start: &mut StartRecord,
        backends: &[RunningPart<'a>],
        network: &Network,
        on_event: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<RunningPart<'a>, Failure> {
        let party = start.parts.last().expect("a part should be recorded before its start").party;
        let backend_ports = ports_by_name(backends);
        let cpus = self.cpus(start.launch, party);
        let recipe = self.recipe((start.launch, party), &cpus, &backend_ports, network);
        self.start_with(start, &recipe, on_event)
    }

    fn check_lifecycle(
        &self,
        start: &StartRecord,
        backends: &[RunningPart<'a>],
        network: &Network,
        on_event: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<Vec<CheckResult>, Failure> {
        let backend_ports = ports_by_name(backends);
        let cpus = self.cpus(start.launch, Party::SUBJECT);
        let recipe = self.recipe((start.launch, Party::SUBJECT), &cpus, &backend_ports, network);
        // The relays between the subject and its back ends must be in the network namespace of the
        // back ends.
        let checked = network.as_server(|| self.check_promises(start, &recipe, on_event));
        checked.map_err(|error| harness(error.to_string()))?
    }

    fn inspect(&self, record: &mut PartStart, launched: &mut Launched<'_, RunningPart<'a>>) {
        super::first_start::inspect(record, launched);
    }

    fn load(
        &self,
        spec: &LoadSpec,
        launched: &mut Launched<'_, RunningPart<'a>>,
    ) -> Result<LoadRecord, String> {
        self.run_load(spec, launched)
    }

    fn measure_probe_price(
        &self,
        trial: usize,
        spec: &LoadSpec,
        record: &mut PartStart,
        launched: &Launched<'_, RunningPart<'a>>,
    ) {
        record.probe_price = self.probe_price(trial, spec, launched);
    }

    fn measure(
        &self,
        trials: &mut [TrialLoad<'_, RunningPart<'a>>],
        on_event: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<Vec<MeasuredTrial>, String> {
        self.measure_together(trials, on_event)
    }

    fn profile(
        &self,
        trial: usize,
        spec: &LoadSpec,
        launched: &Launched<'_, RunningPart<'a>>,
    ) -> ProfileRecord {
        self.profile_load(trial, spec, launched).unwrap_or_else(|reason| ProfileRecord {
            trial,
            failure: Some(reason),
            ..ProfileRecord::default()
        })
    }

    fn stop(&self, launch: usize, part: RunningPart<'a>) -> Option<StopRecord> {
        let stop = &self.definition(launch, part.party).stop;
        part.process.stop(stop.signal, stop.deadline_ns, || self.interrupts.patience())
    }

    fn remains(&self, start: usize) -> Option<String> {
        let unended = process::unended_text();
        self.groups.remaining_groups_text(start).or(unended)
    }
}

/// Creates certificates, if a participating subject or back end needs one.
fn create_certs(planned: &Planned, builds: &Builds, guard: &Guard) -> io::Result<Option<Certs>> {
    let arms = planned.plan.arms.iter().zip(&planned.arms);
    let built = arms
        .filter(|(arm, _)| builds.subjects[arm.subject].is_some())
        .map(|(_, definition)| definition);
    let backends = builds.backends.iter().flatten().map(|service| &service.definition);
    let is_needed = built.chain(backends).any(Definition::needs_certificate);
    is_needed.then(|| Certs::make(guard)).transpose()
}

fn ports_by_name(parts: &[RunningPart<'_>]) -> Vec<(String, Ports)> {
    parts.iter().map(|part| (part.name.clone(), part.ports)).collect()
}
