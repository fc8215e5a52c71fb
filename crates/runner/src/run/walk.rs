//! Walking a plan: each launch that is still to be made, from its start to its stop.

use std::collections::{BTreeMap, BTreeSet};

use dyno_archive::dir::OpenError;
use dyno_archive::start::Failure;
use dyno_archive::{StartRecord, TrialRecord};
use dyno_launch::group::Groups;
use dyno_launch::set_affinity;
use dyno_observer::cgroup::Layout;
use dyno_subject::certs::Certs;

use super::judge::{harness, interrupted};
use super::start::Ground;
use super::trial::Measured;
use super::up::Subject;
use super::{Ended, Event, RunError, Runner};

impl Runner<'_> {
    /// Runs every trial of the plan that the archive does not hold yet.
    pub fn walk(&mut self) -> Result<Ended, RunError> {
        let run = self.dir.read()?;
        let done: BTreeSet<usize> = run.trials.iter().map(|t| t.trial).collect();
        let tried: BTreeSet<usize> = run.starts.iter().map(|s| s.launch).collect();
        // A launch that failed of itself is a result; one that the user or a fault of ours ended is not.
        let settled: BTreeSet<usize> = run
            .starts
            .iter()
            .filter(|s| s.failure.as_ref().is_some_and(|f| f.kind.is_the_subjects()))
            .map(|s| s.launch)
            .collect();
        let mut next_start = run.starts.iter().map(|s| s.start + 1).max().unwrap_or(0);
        set_affinity(&self.plan.placement.generator).map_err(RunError::Machine)?;
        let ground = Ground { groups: Groups::prepare(Layout::read(), self.guard), certs: self.certs()? };
        ground.groups.sweep();
        for launch in 0..self.plan.launches.len() {
            let pending: Vec<usize> = (0..self.plan.trials.len())
                .filter(|t| self.plan.trials[*t].launch == launch && !done.contains(t))
                .collect();
            if self.interrupts.count() > 0 {
                return Ok(Ended::Interrupted);
            }
            let takes_part = self.built[self.plan.launches[launch].subject].is_some();
            if pending.is_empty() || settled.contains(&launch) || !takes_part {
                continue;
            }
            let mut record = empty_start(next_start, launch, tried.contains(&launch));
            next_start += 1;
            (self.on)(Event::Starting { launch });
            self.launch(&mut record, &pending, &ground)?;
            (self.on)(Event::LaunchEnded { launch });
            if self.interrupts.count() > 0 {
                return Ok(Ended::Interrupted);
            }
        }
        Ok(Ended::Complete)
    }

    /// Certificates for those that take part and need one.
    fn certs(&self) -> Result<Option<Certs>, RunError> {
        let wanted = self
            .definitions
            .iter()
            .zip(self.built)
            .any(|(d, built)| built.is_some() && d.needs_certificate());
        wanted.then(|| Certs::make(self.guard)).transpose().map_err(RunError::Machine)
    }

    /// One start of one subject, from spawn to stop. Whatever the subject does is recorded.
    fn launch(
        &mut self,
        record: &mut StartRecord,
        pending: &[usize],
        ground: &Ground,
    ) -> Result<(), RunError> {
        let definition = &self.definitions[self.plan.launches[record.launch].subject];
        match self.start(record, ground) {
            Ok(mut subject) => {
                match self.use_subject(record, &mut subject, pending) {
                    Ok(()) => {}
                    Err(Stop::Ours(error)) => return Err(error),
                    Err(Stop::Subject(failure)) => {
                        record.log_tail = Some(subject.process.log_tail()).filter(|t| !t.is_empty());
                        record.failure = Some(failure);
                    }
                }
                // The second Ctrl-C waits for nobody.
                let hurry = || self.interrupts.count() > 1;
                record.stop =
                    subject.process.stop(definition.stop.signal, definition.stop.deadline_ns, hurry);
            }
            Err(failure) => record.failure = Some(failure),
        }
        let left = ground.groups.left_of(record.start).map(harness);
        for failure in record.failure.iter().chain(&left) {
            (self.on)(Event::Failed { launch: record.launch, failure });
        }
        record.failure = record.failure.take().or(left);
        self.dir.write_start(record)?;
        Ok(())
    }

    /// Checks, warm-up, trials, checks.
    fn use_subject(
        &mut self,
        record: &mut StartRecord,
        subject: &mut Subject,
        pending: &[usize],
    ) -> Result<(), Stop> {
        record.checks_before = subject.check();
        // From here on a crash of ours loses no fact about this start.
        self.dir.write_start(record)?;
        subject.after_checks(&record.checks_before)?;
        let warmed = self.warm_up(record, subject, pending);
        if let Some(warmup) = &record.warmup {
            (self.on)(Event::Warmed { launch: record.launch, warmup });
        }
        self.dir.write_start(record)?;
        warmed?;
        for &trial in pending {
            self.measure(trial, record.start, subject)?;
        }
        record.checks_after = subject.check();
        Ok(subject.after_checks(&record.checks_after)?)
    }

    /// One trial, with its record.
    fn measure(&mut self, trial: usize, start: usize, subject: &mut Subject) -> Result<(), Stop> {
        if self.interrupts.count() > 0 {
            return Err(interrupted().into());
        }
        (self.on)(Event::TrialStarted { trial });
        let Measured { load, checks } = self.trial(trial, subject).map_err(harness)?;
        if load.cut_short {
            return Err(interrupted().into());
        }
        let mut record = TrialRecord { trial, start, load, checks };
        let served = subject.after_load(&mut record.load);
        self.dir.write_trial(&record)?;
        (self.on)(Event::TrialEnded { trial, record: &record });
        Ok(served?)
    }
}

/// Why a start is used no further.
enum Stop {
    /// The subject, the user, or what dyno has around the subject: its record says so, and the run goes on.
    Subject(Failure),
    /// The run cannot go on.
    Ours(RunError),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Subject(failure)
    }
}

impl From<OpenError> for Stop {
    fn from(error: OpenError) -> Stop {
        Stop::Ours(error.into())
    }
}

fn empty_start(start: usize, launch: usize, resumed: bool) -> StartRecord {
    StartRecord {
        start,
        launch,
        resumed,
        pid: None,
        startup: None,
        warmup: None,
        checks_before: Vec::new(),
        checks_after: Vec::new(),
        limits: Vec::new(),
        environment: BTreeMap::new(),
        stop: None,
        failure: None,
        log_tail: None,
    }
}
