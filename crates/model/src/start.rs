//! One start of one subject: from exec to the end of its process.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::probe::ProbePrice;
use crate::protocol::Protocol;
use crate::sample::Party;
use crate::trial::CheckResult;

/// Record of one launch, from the first exec to the end of the last process. A repeat is one
/// launch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StartRecord {
    /// Number of this start within the run, in order of time.
    pub start: usize,
    /// Index in the plan's list of launches.
    pub launch: usize,
    /// Whether the start continues a launch of an interrupted run (`dyno run --resume`).
    pub resumed: bool,
    /// Instant before its first part was started, on the machine's monotonic clock; `None`: the
    /// archive is older, or nothing was loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ns: Option<u64>,
    /// Instant after its last part had ended, on the same clock; `None`: not ended, dyno was
    /// killed before that, or the archive is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ns: Option<u64>,
    /// Instant on the same clock at which the first load began whose record was dropped, because
    /// the server of a load at the same time failed; `None`: no load was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_load_ns: Option<u64>,
    /// A fixed piece of work right before the start; `None`: the work was not run, or could not be
    /// timed.
    pub canary: Option<Canary>,
    /// Parts in the order of their starts: back ends, then the subject. Empty if dyno loaded a
    /// running server and started nothing.
    pub parts: Vec<PartStart>,
    /// Reason why the start ended early; `None`: the start ran as planned.
    pub failure: Option<Failure>,
}

/// An unused variable whose length differs between starts, to vary the size of the environment. The
/// size decides where the stack begins and how data lie in caches. A fixed size would bias all
/// starts of a server in the same direction, by some per cent (Mytkowicz et al., "Producing wrong
/// data without doing anything obviously wrong!", ASPLOS 2009).
pub const PADDING: &str = "DYNO_PADDING";

/// A fixed piece of work, done several times on the CPUs of a server before it is started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    /// Number of steps of each piece.
    pub steps: u64,
    pub pieces: Vec<CanaryPiece>,
}

/// Duration of one piece of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryPiece {
    pub wall_ns: u64,
    /// CPU time of the thread, without the time in which other threads used the CPU.
    pub cpu_ns: u64,
}

impl StartRecord {
    /// Returns one of the parts; `None`: the part was never started.
    #[must_use]
    pub fn part(&self, party: Party) -> Option<&PartStart> {
        self.parts.iter().find(|part| part.party == party)
    }

    /// Returns the number of processes of a part that had left its control group before the part
    /// was ready.
    #[must_use]
    pub fn strays_before_ready(&self, party: Party) -> u32 {
        self.part(party).and_then(|part| part.startup).map_or(0, |startup| startup.strays)
    }

    /// Returns whether dyno started the server under test. A load without a suite uses a running
    /// server, and only its responses are known.
    #[must_use]
    pub fn has_subject(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.party, Party::Subject(_)))
    }

    /// Returns the server under test.
    #[must_use]
    pub fn subject(&self) -> Option<&PartStart> {
        self.part(Party::SUBJECT)
    }

    /// Whether a check of the contract passed before the load, but failed or was not made after it
    /// for a reason other than the subject. The reason is an interrupt, the end of dyno by a
    /// signal, or a failure of a back end or of the machine.
    #[must_use]
    pub fn lacks_final_check(&self) -> bool {
        let ended_otherwise =
            self.failure.as_ref().is_some_and(|failure| !failure.kind.is_caused_by_subject());
        (ended_otherwise || self.was_killed())
            && self.subject().is_some_and(PartStart::lacks_final_check)
    }

    /// Whether dyno was killed during the start. Always false in archives without `began_ns`.
    #[must_use]
    pub const fn was_killed(&self) -> bool {
        self.failure.is_none() && self.began_ns.is_some() && self.ended_ns.is_none()
    }

    /// Whether a back end or the machine failed. Such a failure may have broken the checks of the
    /// server.
    #[must_use]
    pub fn other_part_failed(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| {
            matches!(failure.kind, FailureKind::BackendFailed | FailureKind::Harness)
        })
    }

    /// Returns the protocols over which the server failed a check of its contract before the load,
    /// each with the first such check. The server was not loaded over these protocols. Empty if a
    /// back end or the machine failed, because such a failure may have broken the checks.
    #[must_use]
    pub fn refused_protocols(&self) -> BTreeMap<Protocol, &CheckResult> {
        let mut refused = BTreeMap::new();
        if self.other_part_failed() {
            return refused;
        }
        let before = self.subject().into_iter().flat_map(|part| &part.checks_before);
        for check in before.filter(|check| check.is_broken()) {
            check.counted_protocols().iter().for_each(|protocol| {
                refused.entry(*protocol).or_insert(check);
            });
        }
        refused
    }
}

/// Record of one part of a start: its processes, from exec to the end of the last one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartStart {
    pub party: Party,
    /// Name in the plan.
    pub name: String,
    /// Process ID; `None`: the part could not be started.
    pub pid: Option<u32>,
    pub startup: Option<Startup>,
    /// Warm-up before the first trial; `None`: no warm-up, or the part ended before it.
    pub warmup: Option<WarmUp>,
    /// The program of the part's busiest process; `None`: not inspected, or not permitted.
    pub binary: Option<Binary>,
    /// Resource use without requests; `None`: not measured.
    pub idle: Option<IdleUse>,
    /// Cost of the probes attached to the part; `None`: not requested, or no probe was available.
    pub probe_price: Option<ProbePrice>,
    /// Time to load the part's data, nanoseconds; `None`: the part has no data to load, or failed
    /// before that.
    pub seeded_ns: Option<u64>,
    /// Contract checks before the load.
    pub checks_before: Vec<CheckResult>,
    /// Contract checks after the last step.
    pub checks_after: Vec<CheckResult>,
    pub limits: Vec<LimitReadBack>,
    /// Environment of the part, without secrets.
    pub environment: BTreeMap<String, String>,
    /// Variables that the part inherited from dyno's own environment, without secrets. Two
    /// starts of one server are comparable only if these variables are equal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inherited: BTreeMap<String, String>,
    /// Hashes of the values that `environment` withholds, except of values that dyno sets itself;
    /// `None`: no value is withheld, the key is unavailable, or the archive is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<KeyedHashes>,
    /// Files in the part's folder that did not exist when the run was planned, and files in the
    /// folder of its build's results that the build did not make; `None`: no new files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_files: Option<NewFiles>,
    /// `None`: the part's first process had already ended, or dyno killed the part before its
    /// deadline because the user interrupted the run.
    pub stop: Option<StopRecord>,
    /// Last lines of the part's output, recorded after a failure.
    pub log_tail: Option<String>,
}

impl PartStart {
    /// Returns a part that has not been started yet.
    #[must_use]
    pub const fn new(party: Party, name: String) -> PartStart {
        PartStart {
            party,
            name,
            pid: None,
            startup: None,
            warmup: None,
            binary: None,
            idle: None,
            probe_price: None,
            seeded_ns: None,
            checks_before: Vec::new(),
            checks_after: Vec::new(),
            limits: Vec::new(),
            environment: BTreeMap::new(),
            inherited: BTreeMap::new(),
            withheld: None,
            new_files: None,
            stop: None,
            log_tail: None,
        }
    }

    /// Whether a check of the contract passed before the load, and did not pass after it or was not
    /// made.
    fn lacks_final_check(&self) -> bool {
        let has_passed = |checks: &[CheckResult], check: &CheckResult| {
            let is_same = |c: &&CheckResult| (&c.name, c.protocol) == (&check.name, check.protocol);
            checks.iter().filter(is_same).any(|c| c.ok || c.waived)
        };
        self.checks_before.iter().any(|check| {
            !check.is_lifecycle
                && has_passed(&self.checks_before, check)
                && !has_passed(&self.checks_after, check)
        })
    }
}

/// Hashes of values that records withhold. They show whether a value has changed. The key stays on
/// the user's machine, so that values of few characters cannot be guessed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyedHashes {
    /// Id of the key. Hashes of different keys (of another user or machine) are not comparable.
    pub key: String,
    /// Hash of each value, by the name of its variable.
    pub hashes: BTreeMap<String, String>,
}

/// New files in a server's folder or in the folder of its build's results. The server may read them
/// when it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewFiles {
    pub count: usize,
    /// Path of the first new file, relative to its folder.
    pub first: String,
}

/// Properties of a program, from its file and its process's mappings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Binary {
    /// Name of its file.
    pub name: String,
    pub bytes: u64,
    pub debug_info: bool,
    /// Whether the file has the names of its functions.
    pub symbols: bool,
    /// Its memory allocator: jemalloc, mimalloc, tcmalloc, Go's, musl's, glibc's; `None`: not
    /// recognized.
    pub allocator: Option<String>,
    /// Shared libraries that are mapped, by name of their file, in order.
    pub libraries: Vec<String>,
    /// Number of instructions in its code, in all and per extension of x86-64 (SSE3 and later).
    /// Code that is selected at run time is included. `None`: not an x86-64 program.
    pub instructions: Option<u64>,
    pub extensions: BTreeMap<String, u64>,
}

/// Resource use of a part without requests, before its first load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleUse {
    pub length_ns: u64,
    /// CPU time, nanoseconds; `None`: unknown.
    pub cpu_ns: Option<u64>,
    /// Number of wake-ups of the part's threads; if wake-ups are not traced, of voluntary context
    /// switches. `None`: a thread ended or may have ended during that time, or a counter was not
    /// read.
    pub wakeups: Option<u64>,
}

/// Times from the instant of exec, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Startup {
    /// Time until the kernel accepted a connection; `None`: no connection was attempted.
    pub listening_ns: Option<u64>,
    /// Time to the first complete response with the expected status; `None`: no request was sent.
    #[serde(rename = "first_answer_ns")]
    pub first_response_ns: Option<u64>,
    /// Time until the part was ready, by any sign.
    pub ready_ns: u64,
    /// CPU time that the part had used when it was ready; `None`: no control group reports it, or
    /// processes had left the group.
    pub cpu_ns: Option<u64>,
    /// Number of the part's processes that had left its control group before the part was ready.
    /// dyno moved them back. At least 1 if the group counted less CPU time than the processes
    /// used. The group's memory excludes what these processes allocated outside of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub strays: u32,
}

const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The load before the first trial of a start. The numbers of the trials exclude it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Time from the start of the first load to the end of the last one, gaps included.
    pub took_ns: u64,
    pub ended: WarmUpEnd,
    /// Total number of correct responses, including those between and after slices.
    #[serde(rename = "right_answers")]
    pub correct_responses: u64,
    /// Total number of requests without a correct response, by index of their workload. A workload
    /// without any is absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<usize, u64>,
    /// Slices in order of time.
    pub slices: Vec<WarmUpSlice>,
}

impl WarmUp {
    /// Returns the number of requests of a workload without a correct response.
    #[must_use]
    pub fn failed_requests(&self, workload: usize) -> u64 {
        let workload_slices = self.slices.iter().filter(|slice| slice.workload == workload);
        let in_slices = workload_slices
            .map(|slice| slice.responses.saturating_sub(slice.correct_responses))
            .sum();
        self.failures.get(&workload).copied().unwrap_or_default().max(in_slices)
    }

    /// Returns the number of requests of all workloads without a correct response.
    #[must_use]
    pub fn all_failed_requests(&self) -> u64 {
        let slice_workloads = self.slices.iter().map(|slice| slice.workload);
        let workloads: BTreeSet<usize> =
            self.failures.keys().copied().chain(slice_workloads).collect();
        workloads.into_iter().map(|workload| self.failed_requests(workload)).sum()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarmUpEnd {
    /// The server became no faster, and compiled almost no code.
    Steady,
    /// The limit of the plan was reached before the server was steady.
    Limit,
    /// No response arrived in time, so steadiness is unknown.
    Unanswered,
    /// The user, or a failure of the subject, ended the warm-up.
    CutShort,
}

/// A short part of the load of one workload. Workloads take turns of several slices. A round is one
/// slice of each workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmUpSlice {
    /// Counted from 0.
    pub round: usize,
    pub workload: usize,
    pub step: usize,
    /// Nanoseconds since the warm-up began.
    pub start_ns: u64,
    pub end_ns: u64,
    /// Number of complete responses within the slice, correct or not.
    #[serde(rename = "answers")]
    pub responses: u64,
    /// Number of correct responses.
    #[serde(rename = "right_answers")]
    pub correct_responses: u64,
    /// CPU time of the subject between the samples nearest to the slice's edges; `None`: unknown.
    pub cpu_ns: Option<u64>,
    /// Part of `cpu_ns` that compiler threads used; `None`: threads could not be read.
    pub jit_ns: Option<u64>,
    /// Time between the two samples of `cpu_ns`.
    pub observed_ns: u64,
}

/// A requested limit, and its value as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitReadBack {
    #[serde(rename = "name")]
    pub kind: LimitKind,
    pub asked: String,
    /// Value as the kernel reports it. `None`: the limit could not be set, for the reason in
    /// `reason`.
    pub read_back: Option<String>,
    pub reason: Option<String>,
}

/// Kind of a limit, by its name in archives and reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LimitKind {
    /// CPU time per period, over all CPUs.
    #[serde(rename = "CPU quota")]
    CpuQuota,
    #[serde(rename = "memory")]
    Memory,
    #[serde(rename = "open files")]
    OpenFiles,
    /// The CPUs of the subject's group.
    #[serde(rename = "CPUs")]
    Cpus,
    /// The CPUs of a subject without a group.
    #[serde(rename = "CPUs (affinity)")]
    CpusByAffinity,
}

impl LimitKind {
    pub const ALL: [LimitKind; 5] = [
        LimitKind::CpuQuota,
        LimitKind::Memory,
        LimitKind::OpenFiles,
        LimitKind::Cpus,
        LimitKind::CpusByAffinity,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            LimitKind::CpuQuota => "CPU quota",
            LimitKind::Memory => "memory",
            LimitKind::OpenFiles => "open files",
            LimitKind::Cpus => "CPUs",
            LimitKind::CpusByAffinity => "CPUs (affinity)",
        }
    }
}

/// How the subject stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRecord {
    /// Time from the instant at which all its processes got the signal to the end of the last
    /// process.
    pub took_ns: u64,
    /// Whether the subject was killed, because it did not stop by its deadline.
    pub killed: bool,
}

/// Why a start failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A requirement of the subject is not met on this machine. The subject was not started.
    Skipped,
    BuildFailed,
    /// The program could not be executed.
    NotStarted,
    /// The subject never responded, or not on every port.
    NeverReady,
    /// The subject failed a check of its contract.
    #[serde(rename = "wrong_answers")]
    IncorrectResponses,
    /// The subject's process ended before dyno stopped it.
    Crashed,
    /// The subject reached its memory limit, and the kernel killed some of its processes.
    OutOfMemory,
    /// The subject's process is alive, but stopped responding.
    Deaf,
    /// The command that loads the subject's data, or restores it, failed.
    DataFailed,
    /// A back end that the subject needs did not start, or ended early.
    BackendFailed,
    /// The user ended the run.
    Interrupted,
    /// A failure of dyno or its environment: the machine, the disk, the generator.
    Harness,
}

impl Failure {
    /// Formats the failure as loads record it: `crashed: its process ended with signal: 9`.
    #[must_use]
    pub fn in_words(&self) -> String {
        format!("{}: {}", self.kind.name(), self.message)
    }
}

impl FailureKind {
    /// Whether a text of [`Failure::in_words`] describes a failure of this kind.
    #[must_use]
    pub fn is_prefix_of(self, words: &str) -> bool {
        words.strip_prefix(self.name()).is_some_and(|remainder| remainder.starts_with(": "))
    }

    /// Kinds of failures that the subject did not cause. A repetition may have another result.
    pub const NOT_CAUSED_BY_SUBJECT: [FailureKind; 3] =
        [FailureKind::BackendFailed, FailureKind::Interrupted, FailureKind::Harness];

    #[must_use]
    pub fn is_caused_by_subject(self) -> bool {
        !FailureKind::NOT_CAUSED_BY_SUBJECT.contains(&self)
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FailureKind::Skipped => "skipped",
            FailureKind::BuildFailed => "build failed",
            FailureKind::NotStarted => "could not be started",
            FailureKind::NeverReady => "did not become ready",
            FailureKind::IncorrectResponses => "responded incorrectly",
            FailureKind::Crashed => "crashed",
            FailureKind::OutOfMemory => "exceeded its memory limit",
            FailureKind::Deaf => "stopped responding",
            FailureKind::DataFailed => "could not load its data",
            FailureKind::BackendFailed => "lost a back end",
            FailureKind::Interrupted => "was interrupted",
            FailureKind::Harness => "could not be measured",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_names_equal_serialized_names() {
        for kind in LimitKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    fn passed_check() -> CheckResult {
        CheckResult {
            name: "status".into(),
            protocol: Protocol::H1,
            ok: true,
            has_response: true,
            waived: false,
            is_lifecycle: false,
            asked: String::new(),
            expected: String::new(),
            got: String::new(),
        }
    }

    /// A dead back end, or a machine without memory, breaks checks that the server itself passes.
    #[test]
    fn checks_that_others_may_have_broken_refuse_no_protocol() {
        let refused = |kind: Option<FailureKind>| {
            let mut part = PartStart::new(Party::SUBJECT, "server".into());
            part.checks_before = vec![CheckResult { ok: false, ..passed_check() }];
            let failure = kind.map(|kind| Failure { kind, message: "it ended".into() });
            let start = StartRecord { parts: vec![part], failure, ..StartRecord::default() };
            start.refused_protocols().len()
        };
        assert_eq!(refused(None), 1);
        assert_eq!(refused(Some(FailureKind::IncorrectResponses)), 1);
        assert_eq!(refused(Some(FailureKind::Interrupted)), 1);
        assert_eq!(refused(Some(FailureKind::BackendFailed)), 0);
        assert_eq!(refused(Some(FailureKind::Harness)), 0);
    }

    #[test]
    fn final_check_is_lacking_unless_subject_failed() {
        let check = passed_check();
        let lacks = |change: &dyn Fn(&mut StartRecord)| {
            let mut part = PartStart::new(Party::SUBJECT, "server".into());
            part.checks_before = vec![check.clone()];
            let mut start = StartRecord { began_ns: Some(1), ..StartRecord::default() };
            start.parts = vec![part];
            change(&mut start);
            start.lacks_final_check()
        };
        let fail = |kind| Some(Failure { kind, message: "it ended".into() });
        assert!(lacks(&|_| ()), "dyno was killed");
        assert!(lacks(&|start| start.failure = fail(FailureKind::Interrupted)));
        assert!(lacks(&|start| start.failure = fail(FailureKind::BackendFailed)));
        assert!(lacks(&|start| start.failure = fail(FailureKind::Harness)));
        assert!(lacks(&|start| {
            start.failure = fail(FailureKind::BackendFailed);
            start.parts[0].checks_after = vec![CheckResult { ok: false, ..check.clone() }];
        }));
        assert!(!lacks(&|start| start.failure = fail(FailureKind::Crashed)));
        assert!(!lacks(&|start| start.ended_ns = Some(2)));
        assert!(!lacks(&|start| start.began_ns = None), "an earlier version");
        assert!(!lacks(&|start| start.parts[0].checks_before[0].is_lifecycle = true));
        assert!(!lacks(&|start| start.parts[0].checks_after = vec![check.clone()]));
    }
}
