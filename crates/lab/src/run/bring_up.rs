//! Brings a start up: starts its parts, checks the subject, and warms it up.

use std::collections::BTreeSet;

use dyno_launch::network::Network;
use dyno_model::plan::Arm;
use dyno_model::probe::ProbePrice;
use dyno_model::start::{Failure, FailureKind, PartStart};
use dyno_model::{Party, Protocol, StartRecord};

use super::failure_cause::{harness, interrupted_failure};
use super::host::{Host, Launched, Part};
use super::walk::{Start, StartAbort, part_record, record_log_tail};
use super::warm::reference_trial;
use super::{RunEvent, Runner, part_failure};

impl<H: Host> Runner<'_, H> {
    /// Starts a subject and its back ends, checks the subject, and warms it up.
    pub(super) fn bring_up(
        &mut self,
        network: &Network,
        start: &mut Start<H::Part>,
        passed_lifecycle: &BTreeSet<usize>,
    ) -> Result<(), StartAbort> {
        let (interrupts, drops) = (self.interrupts, self.host.watch_drops());
        let Start { record, pending, to_search, refused, parts, .. } = start;
        if let Err(failure) = self.start(record, network, passed_lifecycle, parts) {
            return Err(part_failure::blame(parts, failure).explain(drops).into());
        }
        let mut launched = Launched::new(parts);
        // Checks that were interrupted are not recorded: a resumed run repeats the start.
        let checks =
            launched.subject.check(&|| interrupts.count() > 0).ok_or_else(interrupted_failure)?;
        let checks = [part_record(record, Party::SUBJECT).checks_before.clone(), checks].concat();
        let has_trials_left = |broken: &BTreeSet<Protocol>| {
            pending.iter().chain(&*to_search).any(|t| !broken.contains(&self.trial_protocol(*t)))
        };
        let evaluated = launched.evaluate_checks(&checks, drops, has_trials_left);
        if is_cause_known(&evaluated) {
            part_record(record, Party::SUBJECT).checks_before = checks;
        }
        // The record is written now, so that a crash of dyno does not lose the checks' results.
        self.dir.write_start(record)?;
        refused.extend(evaluated?);
        if !refused.is_empty() {
            record_log_tail(record, &*launched.subject);
        }
        pending.retain(|t| !refused.contains(&self.trial_protocol(*t)));
        to_search.retain(|t| !refused.contains(&self.trial_protocol(*t)));
        let launch = record.launch;
        self.inspect_first_start(launch, part_record(record, Party::SUBJECT), &mut launched);
        let part = part_record(record, Party::SUBJECT);
        let trials: Vec<usize> = pending.iter().chain(&*to_search).copied().collect();
        let warmed = self.warm_up(launch, part, &mut launched, &trials);
        if let Some(warmup) = &part.warmup {
            (self.on_event)(RunEvent::Warmed { launch, warmup });
        }
        self.dir.write_start(record)?;
        warmed.map_err(|failure| drops.explain(failure))?;
        let subject_record = part_record(record, Party::SUBJECT);
        self.measure_probe_price(launch, subject_record, &launched, pending);
        Ok(())
    }

    /// Checks a subject again after its trials.
    pub(super) fn check_again(&mut self, start: &mut Start<H::Part>) -> Result<(), StartAbort> {
        let (interrupts, drops) = (self.interrupts, self.host.watch_drops());
        let mut launched = Launched::new(&mut start.parts);
        // The trials are valid only with this check, so a single interrupt does not skip it.
        let checks =
            launched.subject.check(&|| interrupts.count() > 1).ok_or_else(interrupted_failure)?;
        // A protocol whose checks failed before the trials has no trials, and is not a new failure.
        let was_refused = |broken: &BTreeSet<Protocol>| broken.is_subset(&start.refused);
        let evaluated = launched.evaluate_checks(&checks, drops, was_refused);
        if is_cause_known(&evaluated) {
            part_record(&mut start.record, Party::SUBJECT).checks_after = checks;
        }
        evaluated?;
        Ok(())
    }

    /// Starts all parts of a launch, back ends first. Parts that became ready are in `parts` and in
    /// the record even if the start fails. `passed_lifecycle`: arms that need no lifecycle checks.
    fn start(
        &mut self,
        record: &mut StartRecord,
        network: &Network,
        passed_lifecycle: &BTreeSet<usize>,
        parts: &mut Vec<H::Part>,
    ) -> Result<(), Failure> {
        let launch = record.launch;
        let [arm] = self.plan.launches[launch].arms[..] else {
            return Err(harness(
                "the plan starts several subjects as one, which this version of dyno does not \
                 support"
                    .into(),
            ));
        };
        let Arm { name, backends, .. } = &self.plan.arms[arm];
        let new_files = self.host.check_files(launch, Party::SUBJECT)?;
        for &index in backends {
            let part = self.start_backend(record, index, parts, network)?;
            parts.push(part);
        }
        record.parts.push(PartStart::new(Party::SUBJECT, name.clone()));
        part_record(record, Party::SUBJECT).new_files = new_files;
        if !passed_lifecycle.contains(&arm) {
            let results = self.host.check_lifecycle(record, parts, network, self.on_event)?;
            part_record(record, Party::SUBJECT).checks_before = results;
        }
        let subject = self.host.start_part(record, parts, network, self.on_event)?;
        parts.push(subject);
        Ok(())
    }

    /// Starts a back end. A failure is reported as a failure of the back end, not of the subject.
    fn start_backend(
        &mut self,
        record: &mut StartRecord,
        index: usize,
        backends: &[H::Part],
        network: &Network,
    ) -> Result<H::Part, Failure> {
        let (launch, party) = (record.launch, Party::Backend(index));
        let name = &self.plan.backends[index].name;
        record.parts.push(PartStart::new(party, name.clone()));
        part_record(record, party).new_files = self.host.check_files(launch, party)?;
        let started = self.host.start_part(record, backends, network, self.on_event);
        started.map_err(|failure| {
            let message = format!("back end {name} {}: {}", failure.kind.name(), failure.message);
            match failure.kind {
                FailureKind::Interrupted | FailureKind::Harness => Failure { message, ..failure },
                _ => Failure { kind: FailureKind::BackendFailed, message },
            }
        })
    }

    /// Inspects the first start of an arm before its first load. Later starts run the same program.
    fn inspect_first_start(
        &self,
        launch: usize,
        record: &mut PartStart,
        launched: &mut Launched<'_, H::Part>,
    ) {
        if self.plan.is_first_start_with_probes(launch) && self.interrupts.count() == 0 {
            self.host.inspect(record, launched);
        }
    }

    /// Measures the price of the probes with the first workload, if the plan requires the price and
    /// this is the first start of the subject. `pending_trials`: indices of the trials of this
    /// start that are still to be run.
    fn measure_probe_price(
        &self,
        launch: usize,
        record: &mut PartStart,
        launched: &Launched<'_, H::Part>,
        pending_trials: &[usize],
    ) {
        if !self.plan.probe_price || !self.plan.is_first_start_with_probes(launch) {
            return;
        }
        let first_workload = pending_trials.iter().map(|t| self.plan.trials[*t].workload).min();
        let Some(trial) = first_workload
            .and_then(|workload| reference_trial(self.plan, pending_trials, workload))
        else {
            return;
        };
        match self.spec(trial, launched) {
            Ok(spec) => self.host.measure_probe_price(trial, &spec, record, launched),
            Err(reason) => {
                let failure = Some(reason);
                record.probe_price = Some(ProbePrice { failure, ..ProbePrice::default() });
            }
        }
    }
}

/// Whether the cause of failed checks is known. It is not if the user interrupted the search for
/// it. Such checks are not recorded, because they would count against the server.
fn is_cause_known(evaluated: &Result<BTreeSet<Protocol>, Failure>) -> bool {
    !evaluated.as_ref().is_err_and(|failure| failure.kind == FailureKind::Interrupted)
}
