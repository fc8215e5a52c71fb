//! Executes a plan, launch by launch (a launch is one planned start of a server), and records the
//! results. A run can be interrupted at any time, and resumed from its archive.

mod backend_relays;
mod bring_up;
mod canary;
mod closed_trial;
mod failure_cause;
mod first_start;
#[cfg(test)]
mod fixture;
mod host;
mod lifecycle_check;
mod memory;
mod observed_promise;
mod part_failure;
mod ports;
mod price;
mod profile;
mod real_host;
mod remaining_work;
mod running_parts;
mod search;
mod start;
mod start_files;
mod trial;
mod walk;
pub(crate) mod warm;

pub use host::{CheckDepth, Host, Launched, MeasuredTrial, Part, RequiredListeners, TrialLoad};
pub use memory::RunMemory;
pub use real_host::RealHost;
pub use remaining_work::{has_remaining_work, unbuilt_steps};

use dyno_analysis::capacity::CapacityTrial;
use dyno_archive::RunDir;
use dyno_archive::dir::ArchiveError;
use dyno_launch::supervision::Interrupts;
use dyno_model::plan::Plan;
use dyno_model::start::{Failure, WarmUp, WarmUpSlice};
use dyno_model::{Interval, StartRecord, TrialRecord};
use dyno_subject::build::Built;

pub use crate::drops::DropWatch;

/// Inputs of a run: its plan, the machine that executes the plan, and the archive to write.
#[allow(missing_debug_implementations)] // It holds a closure.
pub struct Runner<'a, H> {
    pub plan: &'a Plan,
    pub host: &'a H,
    pub dir: &'a RunDir,
    pub interrupts: &'a Interrupts,
    /// Receives every event of the run.
    pub on_event: &'a mut dyn FnMut(RunEvent<'_>),
    /// What the walk remembers of the run; empty at first.
    pub memory: RunMemory,
}

/// An event of a run, for the progress output.
#[derive(Debug)]
pub enum RunEvent<'a> {
    Building {
        /// Id of the subject, or name of the back end.
        name: &'a str,
    },
    /// A line of output of a build, or of a starting server.
    Printed {
        name: &'a str,
        line: &'a str,
    },
    Built {
        name: &'a str,
        result: Result<&'a Built, &'a String>,
    },
    Starting {
        launch: usize,
    },
    /// A slice of a start's warm-up has ended.
    Warming {
        launch: usize,
        slice: &'a WarmUpSlice,
    },
    /// A start's warm-up has ended, because the server is steady or the limit was reached.
    Warmed {
        launch: usize,
        warmup: &'a WarmUp,
    },
    TrialStarted {
        trial: usize,
    },
    Interval {
        trial: usize,
        interval: &'a Interval,
    },
    /// Another process used the machine while a trial was measured, so the trial is re-run.
    Contaminated {
        trial: usize,
    },
    TrialEnded {
        trial: usize,
        start: &'a StartRecord,
        record: &'a TrialRecord,
    },
    /// The window of a trial has ended, and its load continues while stacks are sampled.
    Profiling {
        trial: usize,
    },
    /// A load of the search that follows a trial has ended.
    Searched {
        trial: usize,
        tried: &'a CapacityTrial,
    },
    /// A start ended before its trials were complete, or left files or processes that dyno cannot
    /// remove.
    Failed {
        launch: usize,
        failure: &'a Failure,
    },
    LaunchEnded {
        launch: usize,
    },
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    Complete,
    /// The comparison was decided before all repeats were made.
    Answered,
    /// The user interrupted the run. The archive has its finished trials.
    Interrupted,
}

/// Reason why a whole run is impossible.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("this machine cannot execute the run: {0}")]
    Machine(std::io::Error),
}
