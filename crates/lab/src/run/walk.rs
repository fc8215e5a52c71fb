//! Executes a plan: starts each launch that has work left, measures its trials, and stops it. A
//! launch is one planned start of an arm, which is a subject under one configuration.

use std::collections::BTreeSet;

use dyno_analysis::stopping;
use dyno_analysis::trial::RecordedTrial;
use dyno_archive::contradiction;
use dyno_archive::dir::ArchiveError;
use dyno_launch::network::Network;
use dyno_model::plan::Arm;
use dyno_model::probe::Probe;
use dyno_model::profile::ProfileRecord;
use dyno_model::run::Run;
use dyno_model::start::{Canary, Failure, FailureKind, PartStart};
use dyno_model::{Party, Protocol, StartRecord, TrialRecord};
use dyno_suite::limits::MIN_RERUNS;

use super::closed_trial::ClosedTrial;
use super::failure_cause::{harness, interrupted_failure};
use super::host::{Host, Launched, MeasuredTrial, Part, TrialLoad};
use super::memory::RunMemory;
use super::remaining_work::{CompletedPart, RemainingWork, point};
use super::{RunEnd, RunError, RunEvent, Runner};
use crate::load::{self, LoadSpec};
use crate::load_at;

impl<H: Host> Runner<'_, H> {
    /// Runs every trial of the plan that is not in `run`, the content of the archive.
    pub fn walk(&mut self, run: &Run) -> Result<RunEnd, RunError> {
        self.memory = RunMemory::new(run);
        let completed = CompletedPart::new(self.plan, run);
        // If the run was resumed with differences, the server may have changed. Lifecycle checks of
        // earlier starts are then repeated.
        let resumptions = &run.header.resumptions;
        let is_changed = resumptions.iter().any(|part| !part.differences.is_empty());
        let first_valid_start = match resumptions.last() {
            Some(latest) if is_changed => latest.from_start,
            _ => 0,
        };
        let valid_starts = run.starts.iter().filter(|start| start.start >= first_valid_start);
        let mut passed_lifecycle: BTreeSet<usize> =
            valid_starts.filter_map(|start| self.arm_passing_lifecycle(start)).collect();
        let mut next_start = run.starts.iter().map(|s| s.start + 1).max().unwrap_or(0);
        let mut block = 0;
        for launches in self.plan.concurrent_launches() {
            if self.interrupts.count() > 0 {
                return Ok(RunEnd::Interrupted);
            }
            let next_block = self.plan.launches[launches[0]].block;
            if completed.may_end_before(next_block, block) && self.memory.has_answer() {
                return Ok(RunEnd::Answered);
            }
            block = next_block;
            let is_built = |arm: &Arm| self.host.has_built(arm.subject);
            let work = completed.remaining_work(&launches, is_built);
            let mut starts: Vec<Start<H::Part>> = (next_start..)
                .zip(work)
                .map(|(start, work)| work.begin(start, self.host.now_ns()))
                .collect();
            next_start += starts.len();
            if starts.is_empty() {
                continue;
            }
            self.launch(&mut starts, &passed_lifecycle)?;
            for start in starts {
                passed_lifecycle.extend(self.arm_passing_lifecycle(&start.record));
                (self.on_event)(RunEvent::LaunchEnded { launch: start.record.launch });
            }
            if self.interrupts.count() > 0 {
                return Ok(RunEnd::Interrupted);
            }
        }
        Ok(RunEnd::Complete)
    }

    /// Returns the arm of a start whose subject passed all lifecycle checks. `None`: a check
    /// failed, even if it is waived, or the checks were not made. After a waived failure, the
    /// checks are thus repeated at each start, because each trial has to report the failure.
    fn arm_passing_lifecycle(&self, start: &StartRecord) -> Option<usize> {
        let checks_before = &start.subject()?.checks_before;
        let mut checks = checks_before.iter().filter(|check| check.is_lifecycle).peekable();
        let is_checked = checks.peek().is_some();
        let has_passed = is_checked && checks.all(|check| check.ok);
        has_passed.then(|| self.plan.launches[start.launch].arms[0])
    }

    /// Returns the protocol of a trial's requests.
    pub(super) fn trial_protocol(&self, trial: usize) -> Protocol {
        self.plan.workloads[self.plan.trials[trial].workload].protocol
    }

    /// Measures a fixed piece of work on the first CPU of a launch's server.
    fn canary(&self, launch: usize) -> Option<Canary> {
        let arm = *self.plan.launches[launch].arms.first()?;
        self.host.canary(*self.plan.placement(launch, arm).subject.first()?)
    }

    /// Binds this thread to the generator's CPUs of a launch. The threads of the launch's loads
    /// inherit these CPUs.
    fn bind_to_generator_cpus(&self, launch: usize) -> Result<(), RunError> {
        let mut arms = self.plan.launches[launch].arms.iter();
        let bind = |arm: &usize| self.host.bind(&self.plan.placement(launch, *arm).generator);
        arms.try_for_each(bind).map_err(RunError::Machine)
    }

    /// Runs starts whose servers run at the same time, in the network namespace of their arms. This
    /// thread and its children are the servers' clients, so they run in the clients' namespace.
    fn launch(
        &mut self,
        starts: &mut [Start<H::Part>],
        passed_lifecycle: &BTreeSet<usize>,
    ) -> Result<(), RunError> {
        let network = self.host.network(starts[0].record.launch).map_err(RunError::Machine)?;
        let launched = network.as_client(|| self.launch_in(&network, starts, passed_lifecycle));
        launched.map_err(RunError::Machine)?
    }

    /// Runs starts whose servers run at the same time, from the first spawn to the last stop, and
    /// records all results and failures.
    fn launch_in(
        &mut self,
        network: &Network,
        starts: &mut [Start<H::Part>],
        passed_lifecycle: &BTreeSet<usize>,
    ) -> Result<(), RunError> {
        // The canary (a fixed piece of work) is measured before the first server runs, because a
        // server may use CPU time even when it is idle.
        for start in &mut *starts {
            start.record.canary = self.canary(start.record.launch);
        }
        for start in &mut *starts {
            (self.on_event)(RunEvent::Starting { launch: start.record.launch });
            self.bind_to_generator_cpus(start.record.launch)?;
            let result = self.bring_up(network, start, passed_lifecycle);
            self.stop_on_error(result, start)?;
        }
        while let Some(next) = starts.iter().find_map(|start| start.pending.first().copied()) {
            self.measure(self.starts_with_trial(next, starts))?;
        }
        for start in starts.iter_mut().filter(|start| start.is_up()) {
            let result = self.search_all(start);
            self.stop_on_error(result, start)?;
        }
        for start in starts.iter_mut().filter(|start| start.is_up()) {
            let result = self.check_again(start);
            self.stop_on_error(result, start)?;
        }
        starts.iter_mut().filter(|start| start.is_up()).try_for_each(|start| self.conclude(start))
    }

    /// Returns the starts that still have a trial of the same workload and step, each with that
    /// trial.
    fn starts_with_trial<'s>(
        &self,
        trial: usize,
        starts: &'s mut [Start<H::Part>],
    ) -> Vec<(usize, &'s mut Start<H::Part>)> {
        let point = point(self.plan, trial);
        let same_point = |start: &Start<H::Part>| {
            let mut pending = start.pending.iter().copied();
            pending.find(|pending_trial| self::point(self.plan, *pending_trial) == point)
        };
        starts.iter_mut().filter_map(|start| Some((same_point(start)?, start))).collect()
    }

    /// Ends a start if an operation on it failed, and records the failure.
    fn stop_on_error(
        &mut self,
        result: Result<(), StartAbort>,
        start: &mut Start<H::Part>,
    ) -> Result<(), RunError> {
        match result {
            Ok(()) => Ok(()),
            Err(StartAbort::Run(error)) => Err(error),
            Err(StartAbort::Subject(failure)) => {
                let failure = self.check_interrupted(failure, start)?;
                record_log_tails(&mut start.record, &start.parts);
                start.record.failure = Some(failure);
                self.conclude(start)
            }
        }
    }

    /// After a single interrupt, makes the final checks, because the trials of the start are valid
    /// only with these checks, and because a fault during a load that was cut short must not be
    /// hidden. Returns the failure that the checks show, or the given failure.
    fn check_interrupted(
        &mut self,
        failure: Failure,
        start: &mut Start<H::Part>,
    ) -> Result<Failure, RunError> {
        let is_check_needed = failure.kind == FailureKind::Interrupted
            && self.interrupts.count() == 1
            && start.was_loaded
            && start.is_up()
            && part_record(&mut start.record, Party::SUBJECT).checks_after.is_empty();
        if !is_check_needed {
            return Ok(failure);
        }
        match self.check_again(start) {
            Ok(()) => Ok(failure),
            Err(StartAbort::Subject(shown)) => Ok(shown),
            Err(StartAbort::Run(error)) => Err(error),
        }
    }

    /// Stops a start, and writes its record.
    fn conclude(&mut self, start: &mut Start<H::Part>) -> Result<(), RunError> {
        start.pending.clear();
        let record = &mut start.record;
        // The stop may take long. If dyno is killed meanwhile, the failure and the final checks are
        // not lost.
        self.dir.write_start(record)?;
        self.stop(record, std::mem::take(&mut start.parts));
        let remaining = self.host.remains(record.start).map(harness);
        for failure in record.failure.iter().chain(&remaining) {
            (self.on_event)(RunEvent::Failed { launch: record.launch, failure });
        }
        record.failure = record.failure.take().or(remaining);
        record.ended_ns = Some(self.host.now_ns());
        Ok(self.write_start(&start.record)?)
    }

    /// Writes the record of a start, as it is now.
    fn write_start(&mut self, start: &StartRecord) -> Result<(), ArchiveError> {
        self.dir.write_start(start)?;
        self.memory.add_start(start);
        Ok(())
    }

    /// Stops the running parts in the reverse order of their starts, so that no part is stopped
    /// before a part that needs it.
    fn stop(&self, record: &mut StartRecord, parts: Vec<H::Part>) {
        for part in parts.into_iter().rev() {
            let party = part.party();
            part_record(record, party).stop = self.host.stop(record.launch, part);
        }
    }

    /// Runs one trial of each start at the same time, and writes the records. Trials that end early
    /// because another server failed stay pending.
    fn measure(&mut self, trials: Vec<(usize, &mut Start<H::Part>)>) -> Result<(), RunError> {
        let mut ready = Vec::new();
        for (trial, start) in trials {
            match self.reset_backends(start) {
                Ok(()) => ready.push((trial, start)),
                failed => self.stop_on_error(failed, start)?,
            }
        }
        if ready.is_empty() {
            return Ok(());
        }
        for (trial, _) in &ready {
            (self.on_event)(RunEvent::TrialStarted { trial: *trial });
        }
        let launched = ready
            .iter_mut()
            .map(|(trial, start)| (*trial, Launched::new(&mut start.parts)))
            .collect();
        let measured = match self.measure_loads(launched) {
            Ok(measured) => measured,
            Err(reason) => {
                return ready.into_iter().try_for_each(|(_, start)| {
                    self.stop_on_error(Err(harness(reason.clone()).into()), start)
                });
            }
        };
        let mut records: Vec<TrialRecord> = ready
            .iter()
            .zip(measured)
            .map(|((trial, start), measured)| measured.into_record(*trial, start.record.start))
            .collect();
        let host = self.host;
        let check_server =
            |((_, start), record): (&mut (usize, &mut Start<H::Part>), &mut TrialRecord)| {
                // A load that was cut short does not complete a trial. Its server is not checked.
                if record.load.cut_short {
                    return Ok(());
                }
                Launched::new(&mut start.parts).after_load(&mut record.load, host.watch_drops())
            };
        let served: Vec<Result<(), Failure>> =
            ready.iter_mut().zip(&mut records).map(check_server).collect();
        if served.iter().all(Result::is_ok) && self.queue_rerun(&ready, &records)? {
            return Ok(());
        }
        for (((_, start), record), served) in ready.into_iter().zip(records).zip(served) {
            let result = self.record_trial(start, &record, served);
            self.stop_on_error(result, start)?;
        }
        Ok(())
    }

    /// Measures one trial of each start. The loads of several trials take turns, or run at the same
    /// time.
    fn measure_loads(
        &mut self,
        trials: Vec<(usize, Launched<'_, H::Part>)>,
    ) -> Result<Vec<MeasuredTrial>, String> {
        let spec = |(trial, launched): &(usize, Launched<'_, H::Part>)| self.spec(*trial, launched);
        let mut specs: Vec<LoadSpec> = trials.iter().map(spec).collect::<Result<_, _>>()?;
        if let Some(slice_ns) = self.plan.sharing.slice_ns() {
            load::take_turns(&mut specs, slice_ns);
        }
        if trials.iter().all(|(trial, _)| self.plan.loads_with(&self.plan.trials[*trial]) > 1) {
            load::share_cpus(&mut specs);
        }
        let loads = trials.into_iter().zip(specs);
        let mut loads: Vec<TrialLoad<'_, H::Part>> =
            loads.map(|((trial, launched), spec)| TrialLoad { trial, spec, launched }).collect();
        self.host.measure(&mut loads, self.on_event)
    }

    /// Returns the load of a trial.
    pub(super) fn spec(
        &self,
        trial: usize,
        launched: &Launched<'_, H::Part>,
    ) -> Result<LoadSpec, String> {
        let workload = &self.plan.workloads[self.plan.trials[trial].workload];
        load_at::trial(launched.listener(workload)?, self.plan, trial)
    }

    /// Profiles the subject at the load of a trial whose window has ended. `None`: no profile is
    /// requested. If profiling fails, the record has the reason, and the start continues.
    fn profile(&mut self, trial: usize, launched: &Launched<'_, H::Part>) -> Option<ProfileRecord> {
        let observe = &self.plan.arms[self.plan.trials[trial].arm].conditions.observe;
        if !observe.contains(&Probe::Profile) {
            return None;
        }
        (self.on_event)(RunEvent::Profiling { trial });
        Some(match self.spec(trial, launched) {
            Ok(spec) => self.host.profile(trial, &spec, launched),
            Err(reason) => {
                ProfileRecord { trial, failure: Some(reason), ..ProfileRecord::default() }
            }
        })
    }

    /// Queues trials for a re-run if another process used the machine during their first
    /// measurement and the plan allows a re-run. Trials that were measured together are re-run
    /// together. Returns whether the trials are queued.
    fn queue_rerun(
        &mut self,
        starts: &[(usize, &mut Start<H::Part>)],
        records: &[TrialRecord],
    ) -> Result<bool, RunError> {
        // A load whose record contradicts itself has no result (see `record_trial`).
        let is_void =
            |record: &TrialRecord| record.load.cut_short || contradiction(&record.load).is_some();
        if self.plan.again == 0 || records.iter().any(is_void) || self.interrupts.count() > 0 {
            return Ok(false);
        }
        let measured =
            starts.iter().zip(records).map(|((_, start), record)| (&start.record, record));
        if !stopping::are_contaminated(self.plan, &self.memory.facts, measured) {
            return Ok(false);
        }
        let earlier = &self.memory.reruns;
        let is_rerun =
            |record: &TrialRecord| earlier.iter().any(|(trial, _)| *trial == record.trial);
        // Trials that were loaded together began at the same instant.
        let groups = earlier.iter().map(|(_, began_ns)| *began_ns).collect::<BTreeSet<u64>>().len();
        let is_above_limit = earlier.len() + records.len() > self.plan.again as usize
            && groups >= MIN_RERUNS as usize;
        if is_above_limit || records.iter().any(is_rerun) {
            return Ok(false);
        }
        for record in records {
            self.dir.write_contaminated(record)?;
            self.memory.add_contaminated(record);
            (self.on_event)(RunEvent::Contaminated { trial: record.trial });
        }
        Ok(true)
    }

    /// Resets the data of a start's back ends before a trial.
    pub(super) fn reset_backends(&self, start: &mut Start<H::Part>) -> Result<(), StartAbort> {
        if self.interrupts.count() > 0 {
            return Err(interrupted_failure().into());
        }
        Launched::new(&mut start.parts).reset(self.host.watch_drops()).map_err(|failure| {
            // An interrupted command is not a failure of the back end.
            if self.interrupts.count() > 0 { interrupted_failure().into() } else { failure.into() }
        })
    }

    /// Writes the results of a trial. `served`: whether its server responded after the load.
    fn record_trial(
        &mut self,
        start: &mut Start<H::Part>,
        record: &TrialRecord,
        served: Result<(), Failure>,
    ) -> Result<(), StartAbort> {
        let (trial, load) = (record.trial, &record.load);
        start.was_loaded = true;
        let has_other_loads = load.slices_ns.is_some() || load.concurrent_loads.is_some();
        if load.cut_short && has_other_loads && self.interrupts.count() == 0 {
            // All loads ended, because the server of another load failed.
            start.record.dropped_load_ns.get_or_insert(load.began_ns);
            return Ok(());
        }
        let is_check_interrupted =
            served.as_ref().is_err_and(|f| f.kind == FailureKind::Interrupted);
        let launched = Launched::new(&mut start.parts);
        // The profile is taken before the trial is written. Thus a re-run trial is profiled again,
        // and a resumed run repeats a trial whose profile was interrupted.
        let is_profiled = served.is_ok() && !load.cut_short;
        let profile = if is_profiled { self.profile(trial, &launched) } else { None };
        let is_profile_interrupted = self.interrupts.count() > 0
            && profile.as_ref().is_some_and(|profile| profile.failure.is_some());
        let is_interrupted = is_check_interrupted || is_profile_interrupted || load.cut_short;
        // The interrupted check is that of a back end, which may have caused a fault of the server.
        // Otherwise a repetition would hide the fault.
        if is_check_interrupted || is_interrupted && !self.is_kept(&start.record, record) {
            return Err(interrupted_failure().into());
        }
        // An earlier search and profile of this trial are of another process.
        self.dir.remove_search_and_profile(trial)?;
        self.memory.remove_search(trial);
        if let Some(profile) = profile.filter(|_| !is_interrupted) {
            self.dir.write_profile(&profile)?;
        }
        self.dir.write_trial(record)?;
        self.memory.add_trial(record);
        if start.to_search.contains(&trial) {
            start.closed.push(ClosedTrial::new(record, Some(&start.record)));
        }
        (self.on_event)(RunEvent::TrialEnded { trial, start: &start.record, record });
        start.pending.retain(|pending| *pending != trial);
        if is_interrupted { Err(interrupted_failure().into()) } else { Ok(served?) }
    }

    /// Whether a trial is written although an interrupt came right after its load or during it. If
    /// the load was cut short, only a trial with a fault of its server is written, because a
    /// shorter window is not comparable.
    fn is_kept(&self, start: &StartRecord, record: &TrialRecord) -> bool {
        // A load whose record contradicts itself has no result.
        if contradiction(&record.load).is_some() {
            return false;
        }
        let (plan, facts) = (self.plan, &self.memory.facts);
        let result = RecordedTrial { plan, facts, start: Some(start), record }.result();
        match record.load.cut_short {
            true => result.shows_fault_if_cut_short(),
            false => result.shows_server_failures(),
        }
    }
}

impl RemainingWork {
    /// Returns a new start for this work.
    fn begin<P>(self, start: usize, began_ns: u64) -> Start<P> {
        let RemainingWork { launch, resumed, pending, to_search, closed } = self;
        let began_ns = Some(began_ns);
        let record = StartRecord { start, launch, resumed, began_ns, ..StartRecord::default() };
        Start {
            record,
            pending,
            to_search,
            closed,
            refused: BTreeSet::new(),
            parts: Vec::new(),
            was_loaded: false,
        }
    }
}

/// A start in progress: its record, its remaining work, and its running parts.
pub(super) struct Start<P> {
    pub(super) record: StartRecord,
    /// Trials that are still to be measured.
    pub(super) pending: Vec<usize>,
    /// Trials whose search for a rate is not complete.
    pub(super) to_search: Vec<usize>,
    /// The closed-loop trials before these searches, as far as they are measured.
    pub(super) closed: Vec<ClosedTrial>,
    /// Protocols over which the subject broke a promise. Trials over these protocols are not
    /// measured in this start.
    pub(super) refused: BTreeSet<Protocol>,
    /// The running parts, the subject last.
    pub(super) parts: Vec<P>,
    /// Whether this start has had the load of a trial, which may have been cut short.
    was_loaded: bool,
}

impl<P> Start<P> {
    fn is_up(&self) -> bool {
        !self.parts.is_empty()
    }
}

/// Reason why a start is ended early.
pub(super) enum StartAbort {
    /// The subject or its environment failed, or the user interrupted the run. The start's record
    /// has the reason. After a failure, the run continues.
    Subject(Failure),
    /// The run cannot continue.
    Run(RunError),
}

impl From<Failure> for StartAbort {
    fn from(failure: Failure) -> StartAbort {
        StartAbort::Subject(failure)
    }
}

impl From<ArchiveError> for StartAbort {
    fn from(error: ArchiveError) -> StartAbort {
        match error {
            // A contradiction affects only this start. The results of the other starts stay valid.
            ArchiveError::Contradiction { .. } => harness(error.to_string()).into(),
            error => StartAbort::Run(error.into()),
        }
    }
}

/// Returns the record of a part that is up.
pub(super) fn part_record(record: &mut StartRecord, party: Party) -> &mut PartStart {
    record
        .parts
        .iter_mut()
        .find(|part| part.party == party)
        .expect("a running part should be in the record")
}

/// Records the last lines of every running part's log, because any of them may show the cause.
fn record_log_tails<P: Part>(record: &mut StartRecord, parts: &[P]) {
    parts.iter().for_each(|part| record_log_tail(record, part));
}

pub(super) fn record_log_tail<P: Part>(record: &mut StartRecord, part: &P) {
    let tail = part.log_tail();
    part_record(record, part.party()).log_tail = Some(tail).filter(|tail| !tail.is_empty());
}
