//! One start of one subject: from exec to the end of its process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trial::CheckResult;

/// The life of one process of a subject. A repeat is one of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartRecord {
    /// Number of this start within the run, in order of time.
    pub start: usize,
    /// Index in the plan's list of launches.
    pub launch: usize,
    /// Continues a launch whose first process was lost with the run: see `dyno run --resume`.
    pub resumed: bool,
    pub pid: Option<u32>,
    pub startup: Option<Startup>,
    /// Contract checks before the load.
    pub checks_before: Vec<CheckResult>,
    /// And after the last step.
    pub checks_after: Vec<CheckResult>,
    pub limits: Vec<LimitReadBack>,
    /// The environment that it was given, without secrets. Empty in archives of before it was of dyno's making.
    #[serde(default)]
    pub environment: std::collections::BTreeMap<String, String>,
    pub stop: Option<Stop>,
    /// Why this start ended before its plan was done, in words; `None` if it did what was planned.
    pub failure: Option<Failure>,
    /// The last lines the subject wrote, kept when something went wrong.
    pub log_tail: Option<String>,
}

/// Times from the instant of exec, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Startup {
    /// Until a connection was accepted by the kernel.
    pub listening_ns: u64,
    /// Until the first right answer was complete.
    pub first_answer_ns: u64,
    /// CPU time the subject had used by then, where a control group tells.
    pub cpu_ns: Option<u64>,
}

/// Name of the limit on CPU time among [`StartRecord::limits`].
pub const CPU_QUOTA: &str = "CPU quota";

/// A limit that was asked for, and what the kernel says it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitReadBack {
    pub name: String,
    pub asked: String,
    /// `None`: it could not be set here; `reason` says why.
    pub read_back: Option<String>,
    pub reason: Option<String>,
}

/// How the subject stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// From the signal, which goes to all its processes, to the end of the last one.
    pub took_ns: u64,
    /// It did not stop by its deadline and was killed.
    pub killed: bool,
}

/// Why a start failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Its needs are not met on this machine; it was not started.
    Skipped,
    BuildFailed,
    /// The program could not be executed.
    NotStarted,
    /// It never answered, or not on every port.
    NeverReady,
    /// It answered the contract wrongly.
    WrongAnswers,
    /// Its process ended while it was needed.
    Crashed,
    /// The memory limit killed it.
    OutOfMemory,
    /// Alive, but it stopped answering.
    Deaf,
    /// The user ended the run.
    Interrupted,
    /// Something of ours failed: the machine, the disk, the generator.
    Harness,
}

impl FailureKind {
    /// Whether the subject is the cause, and doing it again would give the same.
    #[must_use]
    pub const fn is_the_subjects(self) -> bool {
        !matches!(self, FailureKind::Interrupted | FailureKind::Harness)
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FailureKind::Skipped => "skipped",
            FailureKind::BuildFailed => "build failed",
            FailureKind::NotStarted => "could not be started",
            FailureKind::NeverReady => "never got ready",
            FailureKind::WrongAnswers => "answered wrongly",
            FailureKind::Crashed => "crashed",
            FailureKind::OutOfMemory => "ran out of its memory limit",
            FailureKind::Deaf => "stopped answering",
            FailureKind::Interrupted => "was interrupted",
            FailureKind::Harness => "could not be measured",
        }
    }
}
