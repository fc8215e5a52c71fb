//! Computes the result of a trial from its record.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use dyno_model::cpus::AllowedCpus;
use dyno_model::plan::{Conditions, Plan, Subject};
use dyno_model::run::Run;
use dyno_model::start::PartStart;
use dyno_model::{Facts, LoadRecord, Party, StartRecord, TrialRecord};

use super::{StepResult, TrialResult};
use crate::backend_use::trial_backends;
use crate::cell::CellKey;
use crate::counted_window;
use crate::duet::{self, CoRunners, DuetResult};
use crate::load::{self, LoadResult};
use crate::machine::MachineResult;
use crate::server::group_memory::{self, MemorySource};
use crate::server::{self, ServerUse, WithoutRequests, strays};
use crate::subject::without_requests;
use crate::turns::{self, TurnsResult};
use crate::verdict::{self, Context, TrialContext, limiter};
use crate::window_levels::{self, Steadiness};

/// A trial's record, with everything that its result depends on, besides other trials.
#[derive(Clone, Copy, Debug)]
pub struct RecordedTrial<'a> {
    pub plan: &'a Plan,
    pub facts: &'a Facts,
    /// The start in which the trial ran; `None`: its record is lost.
    pub start: Option<&'a StartRecord>,
    pub record: &'a TrialRecord,
}

impl<'a> RecordedTrial<'a> {
    /// Returns a trial of a run.
    #[must_use]
    pub fn new(run: &'a Run, record: &'a TrialRecord) -> RecordedTrial<'a> {
        let (plan, facts) = (&run.header.plan, run.facts_at(record.start));
        RecordedTrial { plan, facts, start: run.start_of(record), record }
    }

    /// Computes the result without other trials: those of servers that were loaded at the same
    /// time, and those of other steps.
    #[must_use]
    pub fn result(self) -> TrialResult {
        let others = OtherRecords {
            co_runners: CoRunners::new(self.plan, std::slice::from_ref(self.record)),
            without_requests: without_requests(self.plan, self.start),
            parts: BTreeMap::new(),
        };
        trial(self, &others)
    }
}

/// What a trial's result depends on in the records of other starts and trials.
#[derive(Debug, Default)]
pub(crate) struct OtherRecords {
    /// The servers that were loaded at the same time or in turns.
    co_runners: CoRunners,
    /// CPU time of the arms without requests, at their first start.
    without_requests: BTreeMap<usize, WithoutRequests>,
    /// Part of the run of each start with trials ([`Run::part_of`]). Other starts are of the first.
    parts: BTreeMap<usize, usize>,
}

impl OtherRecords {
    /// Returns the records on which the trials of a run depend.
    #[must_use]
    pub(crate) fn new(run: &Run) -> OtherRecords {
        let plan = &run.header.plan;
        OtherRecords {
            co_runners: CoRunners::new(plan, &run.trials),
            without_requests: without_requests(plan, &run.starts),
            parts: run.trials.iter().map(|t| (t.start, run.part_of(t.start))).collect(),
        }
    }

    /// Notes that the servers of these arms sleep without requests. Their use of CPU time before
    /// the load was other work. Returns whether this is new.
    pub(crate) fn note_sleep(&mut self, arms: &BTreeSet<usize>) -> bool {
        let uses = self
            .without_requests
            .iter_mut()
            .filter(|(arm, known)| arms.contains(arm) && matches!(known, WithoutRequests::Uses(_)));
        uses.map(|(_, known)| *known = WithoutRequests::Sleeps).count() > 0
    }

    /// Returns the use of an arm's server in a part of a trial's load.
    fn server_use(
        &self,
        arm: usize,
        (trial, part): (&TrialRecord, &LoadRecord),
        party: Party,
        allowed: &AllowedCpus,
    ) -> ServerUse {
        let without_requests = self.without_requests.get(&arm).copied().unwrap_or_default();
        let server = server::server_use(part, party, allowed);
        let server = turns::with_own_rates(server, (&trial.load, party), allowed);
        ServerUse { without_requests, ..server }
    }
}

/// Computes the result of a trial.
pub(crate) fn trial(
    RecordedTrial { plan, facts, start, record }: RecordedTrial<'_>,
    others: &OtherRecords,
) -> TrialResult {
    let planned = plan.trials[record.trial];
    let launch = &plan.launches[planned.launch];
    let (arm, subject) = (&plan.arms[planned.arm], plan.subject_of(planned.arm));
    let party = launch.party_of(planned.arm).unwrap_or(Party::SUBJECT);
    let (memory, record) = (memory_source(start, record, party), &*own_counters(record, start));
    let part = start.and_then(|start| start.part(party));
    let machine = MachineResult::new(&record.load);
    let turns = &TurnsResult::new(&record.load, party);
    let duet = &DuetResult::new(plan, record, party, &others.co_runners);
    let cpus = cpus_of(&arm.conditions, part);
    let used_in = |part: &LoadRecord| others.server_use(planned.arm, (record, part), party, &cpus);
    let is_watched = start.is_none() || part.is_some();
    let trial_load = TrialLoad::new(plan, record, is_watched, (turns.as_ref(), duet.as_ref()));
    let CountedPart { record: counted_record, load, server, steadiness } =
        trial_load.counted_load(party, &used_in);
    let caveats = verdict::trial(
        &load,
        is_watched.then_some(&server),
        &TrialContext {
            record: &counted_record,
            party,
            memory,
            part,
            workload: plan.trials[record.trial].workload,
            checks: &record.checks,
            facts,
            machine: &machine,
            turns: turns.as_ref().map(|turns| turns.with_cpu_of(&server)).as_ref(),
            pace: others.co_runners.pace(plan, record),
            is_out_of_turn: others.co_runners.is_out_of_turn(plan, record),
            lacks_final_check: start.is_some_and(StartRecord::lacks_final_check),
            duet: duet.as_ref(),
            steadiness: steadiness.as_ref(),
        },
    );
    let backends = trial_backends(plan, start, (record, &counted_record), &server);
    TrialResult {
        cell: CellKey::from_trial(&planned),
        subject: subject.name.clone(),
        variant: subject.variant.clone(),
        subject_id: arm.name.clone(),
        workload: plan.workloads[planned.workload].name.clone(),
        place: record.trial + 1,
        repeat: launch.block + 1,
        block: launch.block + 1,
        part: others.parts.get(&record.start).copied().unwrap_or(0),
        step: StepResult::new(planned.step, &plan.load.steps[planned.step], load.duration_s),
        valid: verdict::is_valid(&caveats),
        refused: verdict::is_refused(&caveats),
        caveats,
        error_share: (load.exchanges.due() > 0).then(|| load.error_share()),
        limiter: duet::limiter(duet.as_ref(), limiter(&load, &server, &backends, &machine)),
        machine,
        steadiness,
        turns: turns.as_ref().map(|turns| turns.with_cpu_of(&server)),
        duet: duet.clone(),
        load,
        server,
        backends,
    }
}

/// Returns a trial without the counters of a control group that processes have left, and without
/// the memory of a group that processes joined after they had allocated memory.
fn own_counters<'a>(record: &'a TrialRecord, start: Option<&StartRecord>) -> Cow<'a, TrialRecord> {
    let mut own = match strays::without_group_counters(&record.load) {
        Some(load) => Cow::Owned(TrialRecord { load, ..record.clone() }),
        None => Cow::Borrowed(record),
    };
    let parties = record.load.samples.first().into_iter().flat_map(|sample| &sample.parties);
    for party in parties.map(|used| used.party) {
        if memory_source(start, record, party) != MemorySource::Usual {
            group_memory::remove_group_memory(&mut own.to_mut().load, party);
        }
    }
    own
}

/// Returns the source of the memory of a party of a trial.
fn memory_source(start: Option<&StartRecord>, trial: &TrialRecord, party: Party) -> MemorySource {
    let strays = start.map_or(0, |start| start.strays_before_ready(party));
    MemorySource::new(&trial.load, party, strays)
}

/// Returns the configuration of a trial's load.
fn requested_load(plan: &Plan, record: &TrialRecord) -> load::LoadConfig {
    let planned = &plan.trials[record.trial];
    let (workload, step) = (&plan.workloads[planned.workload], &plan.load.steps[planned.step]);
    let load_config =
        load::LoadConfig::new(workload, &plan.load_of_trial(planned), step, planned.seed);
    let load_config =
        load::LoadConfig { import_changes: plan.import_changes.clone(), ..load_config };
    load_config.with_concurrent_loads(record.load.concurrent_loads)
}

/// Inputs of the result of a trial's load.
struct TrialLoad<'a> {
    record: &'a TrialRecord,
    subject: &'a Subject,
    requested: load::LoadConfig,
    is_watched: bool,
    turns: Option<&'a TurnsResult>,
    duet: Option<&'a DuetResult>,
}

impl<'a> TrialLoad<'a> {
    fn new(
        plan: &'a Plan,
        record: &'a TrialRecord,
        is_watched: bool,
        (turns, duet): (Option<&'a TurnsResult>, Option<&'a DuetResult>),
    ) -> TrialLoad<'a> {
        let subject = plan.subject_of(plan.trials[record.trial].arm);
        let requested = requested_load(plan, record);
        TrialLoad { record, subject, requested, is_watched, turns, duet }
    }

    /// Returns the part of the load that is used: its window, or the last level of throughput if
    /// the server got faster within the window and no other server was loaded at the same time.
    fn counted_load(
        &self,
        party: Party,
        used: &dyn Fn(&LoadRecord) -> ServerUse,
    ) -> CountedPart<'a> {
        let own_time = turns::to_own_time(&self.record.load);
        let server = used(&own_time);
        let load = self.load(&own_time, &server);
        let levels = match (self.turns, self.duet) {
            (Some(turns), _) => window_levels::rounds(turns, own_time.window_ns),
            (None, None) => window_levels::intervals(&load, &server),
            // Levels depend on the other servers that are loaded at the same time.
            (None, Some(_)) => Vec::new(),
        };
        let steadiness = window_levels::steadiness(&levels);
        let from_ns = steadiness.as_ref().filter(|_| self.turns.is_none()).and_then(|levels| {
            counted_window::counted_start(&own_time, party, (&load, &server), levels)
        });
        let steadiness = steadiness.map(|levels| levels.with_counted_start(from_ns));
        let Some(from_ns) = from_ns else {
            return CountedPart { record: own_time, load, server, steadiness };
        };
        let later = counted_window::with_later_window(&own_time, from_ns);
        let server = used(&later);
        let load = counted_window::result_in_window(load, self.load(&later, &server));
        CountedPart { record: Cow::Owned(later), load, server, steadiness }
    }

    /// Returns the result of the trial's load, or of a part of it, with its caveats.
    fn load(&self, record: &LoadRecord, server: &ServerUse) -> LoadResult {
        let context = Context {
            ceiling: self.record.ceiling.clone(),
            server: self.is_watched.then_some(server),
            control: self.subject.control,
            refuses: self.subject.refuses,
            checks: &self.record.checks,
        };
        let load = with_turns(verdict::load(record, self.requested.clone(), &context), self.turns);
        match self.duet {
            Some(_) => verdict::with_caveats(load, duet::without_wait_caveats),
            None => load,
        }
    }
}

/// The part of a load that is used for its result.
struct CountedPart<'a> {
    record: Cow<'a, LoadRecord>,
    load: LoadResult,
    server: ServerUse,
    steadiness: Option<Steadiness>,
}

/// Sets the throughput of the load to the throughput of its turns. The counts of the load include
/// responses after a turn, whose time is not part of the turns.
fn with_turns(load: LoadResult, turns: Option<&TurnsResult>) -> LoadResult {
    let throughput_rps =
        turns.and_then(|turns| turns.throughput_rps).unwrap_or(load.throughput_rps);
    LoadResult { throughput_rps, ..load }
}

/// Returns the CPUs that an arm's subject could use.
pub(crate) fn cpus_of(conditions: &Conditions, part: Option<&PartStart>) -> AllowedCpus {
    let limits = part.map_or(&[][..], |part| &part.limits);
    AllowedCpus::new(limits, &conditions.placement, &conditions.limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_that_sleeps_did_other_work_before_load() {
        use WithoutRequests::{Sleeps, Uses};
        let without_requests = [(0, Uses(0.8)), (1, Uses(0.8)), (2, Sleeps)].into();
        let mut others = OtherRecords { without_requests, ..OtherRecords::default() };
        assert!(others.note_sleep(&[0, 2].into()));
        assert_eq!(others.without_requests, [(0, Sleeps), (1, Uses(0.8)), (2, Sleeps)].into());
        assert!(!others.note_sleep(&[0, 2].into()), "it is known already");
    }
}
