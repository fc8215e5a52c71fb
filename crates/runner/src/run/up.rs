//! The running parts of a start: their listeners, whether each is alive, and what is wrong with one.

use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use dyno_archive::plan::Workload;
use dyno_archive::start::{Failure, FailureKind};
use dyno_archive::trial::CheckResult;
use dyno_archive::{LoadRecord, Party, Sample};
use dyno_contract::check::Check;
use dyno_contract::client::{Keep, ProbeClient};
use dyno_contract::contracts::checks_of;
use dyno_contract::listener::Listener;
use dyno_launch::process::Process;
use dyno_subject::definition::Definition;

use super::judge::{What, judge, memory_first};
use crate::limits::ALIVE;
use crate::proof;

/// All parts of a start.
pub(super) struct Launched {
    /// In the order of their starts.
    pub(super) backends: Vec<Part>,
    pub(super) subject: Part,
}

impl Launched {
    /// Whether the subject still serves after a load; if not, the load's record says so too. If a service that it needs has
    /// ended, the service is blamed.
    pub(super) fn after_load(&mut self, record: &mut LoadRecord) -> Result<(), Failure> {
        let served = self.subject.after_load(record);
        let Some(gone) = self.backends.iter_mut().position(|part| part.process.ended().is_some()) else {
            return served;
        };
        let gone = &self.backends[gone];
        let seen = served.err().map_or_else(|| "it ended".into(), |failure| failure.message);
        let message = format!("back end {}: {seen}", gone.name);
        let failure =
            memory_first(gone.process.oom_kills(), Failure { kind: FailureKind::BackendFailed, message });
        record.server_failure = Some(format!("{}: {}", failure.kind.name(), failure.message));
        Err(Failure { kind: FailureKind::BackendFailed, ..failure })
    }
}

/// A running part of a start.
pub(super) struct Part {
    pub(super) party: Party,
    pub(super) name: String,
    pub(super) process: Process,
    /// One per protocol that it speaks.
    pub(super) listeners: Vec<CheckedListener>,
    pub(super) ready_path: String,
}

/// The listener for a workload's protocol. `Err`: there is none, in words.
pub(super) fn listener<'a>(
    listeners: &'a [CheckedListener],
    workload: &Workload,
) -> Result<&'a CheckedListener, String> {
    let protocol = workload.protocol;
    let at = listeners.iter().find(|listener| listener.listener().protocol == protocol);
    at.ok_or_else(|| format!("it does not speak {protocol} any more; was its subject.toml changed?"))
}

impl Part {
    /// Runs the contract's checks at every listener, and stops at the first that gets no answer at all.
    pub(super) fn check(&self) -> Vec<CheckResult> {
        let mut results = Vec::new();
        for listener in &self.listeners {
            for check in &listener.checks {
                let result = proof::run(check, listener.listener());
                let failed = !result.ok;
                results.push(result);
                if failed && self.answers().is_err() {
                    return results;
                }
            }
        }
        results
    }

    /// Judges failed checks; `Ok` if none has failed.
    pub(super) fn after_checks(&mut self, results: &[CheckResult]) -> Result<(), Failure> {
        let failed = results.iter().find(|r| !r.ok);
        failed.and_then(|check| self.judge(What::Check(check))).map_or(Ok(()), Err)
    }

    /// Whether the part still serves after a load; if not, the load's record says so too.
    pub(super) fn after_load(&mut self, record: &mut LoadRecord) -> Result<(), Failure> {
        let failure = match &record.server_failure {
            Some(words) => judge(None, self.process.oom_kills(), &Ok(()), What::Load(words)),
            None => self.judge(What::Step),
        };
        let Some(failure) = failure else { return Ok(()) };
        record.server_failure = Some(format!("{}: {}", failure.kind.name(), failure.message));
        Err(failure)
    }

    fn judge(&mut self, what: What<'_>) -> Option<Failure> {
        let answered = self.answers();
        // Where nothing is wrong, nobody waits for an end.
        judge(None, self.process.oom_kills(), &answered, what)?;
        let ended = self.ended_by_now();
        judge(ended, self.process.oom_kills(), &answered, what)
    }

    /// Sends one request to every listener that any living subject answers.
    fn answers(&self) -> Result<(), String> {
        let ask = |listener: &CheckedListener| listener.client.ask(&self.ready_path, ALIVE, Keep::Beginning);
        let each = self.listeners.iter().try_for_each(|listener| ask(listener).map(drop));
        each.map_err(|error| error.to_string())
    }

    /// How the first process ended. Waits a moment for it: sockets close before the end of a process can be seen.
    fn ended_by_now(&mut self) -> Option<ExitStatus> {
        for _ in 0..100 {
            if let Some(status) = self.process.ended() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(2));
        }
        None
    }
}

/// The processes of a start while it is loaded.
pub(super) struct Watched<'a> {
    pub(super) subject: &'a mut Process,
    pub(super) backends: &'a mut [Part],
}

impl Watched<'_> {
    /// The counters of all parts.
    pub(super) fn sample(&self) -> Sample {
        let backends = self.backends.iter().map(|part| (part.party, &part.process.sampler));
        let all: Vec<_> = [(Party::SUBJECT, &self.subject.sampler)].into_iter().chain(backends).collect();
        dyno_observer::sample(&all)
    }

    /// Has the kernel reset each part's memory peak; returns the parties whose it reset.
    pub(super) fn reset_peaks(&self) -> Vec<Party> {
        let backends = self.backends.iter().map(|part| (part.party, &part.process.sampler));
        let all = [(Party::SUBJECT, &self.subject.sampler)].into_iter().chain(backends);
        all.filter(|(_, sampler)| sampler.group.reset_peak()).map(|(party, _)| party).collect()
    }

    /// The part that has ended, and how, as the first half of a sentence.
    pub(super) fn ended(&mut self) -> Option<String> {
        if let Some(status) = self.subject.ended() {
            return Some(format!("its process ended with {status}"));
        }
        self.backends.iter_mut().find_map(|part| {
            let status = part.process.ended()?;
            Some(format!("its back end {} ended with {status}", part.name))
        })
    }
}

/// A listener with the client that probes it and the checks of its contract.
pub(super) struct CheckedListener {
    pub(super) client: ProbeClient,
    pub(super) checks: Vec<Check>,
}

impl CheckedListener {
    pub(super) fn new(definition: &Definition, listener: &Listener) -> Result<CheckedListener, String> {
        Ok(CheckedListener {
            client: ProbeClient::new(listener)?,
            checks: checks_of(&definition.checks, listener.protocol),
        })
    }

    pub(super) fn listener(&self) -> &Listener {
        self.client.listener()
    }
}
