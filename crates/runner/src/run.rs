//! A run: its plan is walked, launch by launch, and what happens is recorded.

mod judge;
mod start;
mod trial;
mod up;
mod walk;
pub(crate) mod warm;

use dyno_archive::dir::OpenError;
use dyno_archive::plan::Plan;
use dyno_archive::start::{Failure, WarmUp, WarmUpSlice};
use dyno_archive::{Interval, RunDir, TrialRecord};
use dyno_launch::care::Interrupts;
use dyno_launch::guard::Guard;
use dyno_subject::build::Built;
use dyno_subject::definition::Definition;

/// Everything a run needs while it walks its plan.
#[allow(missing_debug_implementations)] // It holds a closure.
pub struct Runner<'a> {
    pub plan: &'a Plan,
    /// What each arm is started from.
    pub arms: &'a [Definition],
    /// Where each subject's artefacts are; `None`: it does not take part.
    pub built: &'a [Option<Built>],
    /// The services that subjects need, in the plan's order.
    pub backends: &'a [Service],
    pub dir: &'a RunDir,
    pub guard: &'a Guard,
    pub interrupts: &'a Interrupts,
    pub on: &'a mut dyn FnMut(Event<'_>),
}

/// A service that subjects need, ready to be started.
#[derive(Clone, Debug)]
pub struct Service {
    pub definition: Definition,
    pub built: Built,
}

/// What happens during a run, for whoever shows it.
#[derive(Debug)]
pub enum Event<'a> {
    Building {
        subject: usize,
    },
    Built {
        subject: usize,
    },
    Starting {
        launch: usize,
    },
    /// A slice of the warm-up of a start has ended.
    Warming {
        launch: usize,
        slice: &'a WarmUpSlice,
    },
    /// A start was warmed, or what could be done was done.
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
    TrialEnded {
        trial: usize,
        record: &'a TrialRecord,
    },
    /// A start ended before its plan was done, or has left something that dyno cannot remove.
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
pub enum Ended {
    Complete,
    /// The user ended it; what is finished is kept.
    Interrupted,
}

/// What makes a whole run impossible.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Archive(#[from] OpenError),
    #[error("this machine refuses what a run needs: {0}")]
    Machine(std::io::Error),
}
