//! Counts the starts in which a server failed, over all of its steps.
//!
//! A server may fail few requests of every step, or break its contract after the last one. Its
//! repeats then count, and the test of failures has little power in any one cell. A test over all
//! starts of a server has more.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::Side;
use super::repeats::{Failures, excess_failures, largest_excess, p_of_failures, planned_blocks};
use crate::number_format;
use crate::stats::REPEATS_FOR_INTERVAL;
use crate::trial::TrialResult;

/// The starts of one side of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SideStarts {
    /// Starts that the run was to make; of a run that ended because its question was answered,
    /// those until then.
    pub planned: usize,
    /// Starts that show whether the server works: it was loaded, or it failed.
    pub observed: usize,
    /// Starts in which it did not build or start, ended, or responded incorrectly: in a check, or
    /// in so many responses that a step is not valid.
    pub broken: usize,
    /// Starts in which it was broken, or any request to it failed.
    pub with_failures: usize,
    /// For each kind of failure, such as `responded incorrectly`, the number of starts.
    pub kinds: BTreeMap<String, usize>,
    /// Starts in which a request of a warm-up got no correct response: of the start's own warm-up,
    /// or of a step's. It is not a failure of the start, and gates ignore it.
    pub with_warmup_failures: usize,
    /// These requests, over all starts.
    pub warmup_failures: u64,
}

/// The starts of both sides of a server.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ServerStarts {
    /// Name of the arm in `a`, and in `b`.
    pub subject_a: String,
    pub subject_b: String,
    pub control: bool,
    pub a: SideStarts,
    pub b: SideStarts,
    /// Chance that so many more starts of `b` than of `a` have failures if the two are alike, by
    /// Fisher's exact test: 0 to 1, not adjusted for other tests. `None`: no start of either has.
    pub p_failed: Option<f64>,
}

impl SideStarts {
    fn new(side: Side<'_>, arm: usize) -> SideStarts {
        let launches = side.run.header.plan.launches.iter();
        let planned = planned_blocks(side, launches.filter(|launch| launch.arms.contains(&arm)));
        let mut result = SideStarts { planned: planned.len(), ..SideStarts::default() };
        for block in planned {
            result.add(side, arm, block);
        }
        result
    }

    /// Adds the start of an arm in a block, from 1.
    fn add(&mut self, side: Side<'_>, arm: usize, block: u32) {
        let subject = side.report.subjects.get(arm);
        let failures = subject.map_or(&[][..], |subject| &subject.failures);
        let block_failures = failures.iter().filter(|failure| [0, block].contains(&failure.repeat));
        let kinds: BTreeSet<&str> = block_failures
            .filter(|failure| failure.is_servers_fault())
            .map(|failure| failure.failure.kind.name())
            .collect();
        let is_own = |trial: &&TrialResult| trial.cell.arm == arm && trial.block == block;
        let trials: Vec<&TrialResult> = side.report.trials.iter().filter(is_own).collect();
        let is_broken = !kinds.is_empty() || trials.iter().any(|trial| trial.is_broken());
        let has_failures = is_broken
            || trials.iter().any(|trial| {
                // A generator at its limit does not make a server fail.
                let is_counted = trial.valid || trial.has_known_cost();
                trial.has_lost() || is_counted && trial.server_losses() > 0
            });
        let warm_ups = subject.map_or(&[][..], |subject| &subject.warm_ups).iter();
        // The warm-up of a control that refuses all connections fails as intended.
        let is_refusing = !trials.is_empty() && trials.iter().all(|trial| trial.refused);
        let own_warm_ups = warm_ups.filter(|warm_up| warm_up.repeat == block && !is_refusing);
        let steps = trials.iter().filter(|trial| !trial.refused);
        let warmup_failures = own_warm_ups.map(|warm_up| warm_up.failed).sum::<u64>()
            + steps.map(|trial| trial.load.exchanges.warmup_failed).sum::<u64>();
        self.with_warmup_failures += usize::from(warmup_failures > 0);
        self.warmup_failures += warmup_failures;
        self.observed += usize::from(is_broken || !trials.is_empty());
        self.broken += usize::from(is_broken);
        self.with_failures += usize::from(has_failures);
        for kind in kinds {
            *self.kinds.entry(kind.into()).or_default() += 1;
        }
    }

    /// Starts with failures, of all that show any.
    pub(super) const fn failures(&self) -> Failures {
        Failures { failed: self.with_failures, all: self.observed }
    }

    /// Broken starts, of all that show any.
    pub(super) const fn breaks(&self) -> Failures {
        Failures { failed: self.broken, all: self.observed }
    }

    /// `5 of 5 starts of B (2455 requests)`.
    fn warmup_failures_in_words(&self, name: &str) -> String {
        let requests = match self.warmup_failures {
            0 => String::new(),
            1 => " (1 request)".into(),
            n => format!(" ({n} requests)"),
        };
        format!("{} of {} starts of {name}{requests}", self.with_warmup_failures, self.observed)
    }

    /// `5 of 5 starts of B (responded incorrectly: 5)`.
    fn breaks_in_words(&self, name: &str) -> String {
        let kinds: Vec<String> =
            self.kinds.iter().map(|(kind, n)| format!("{kind}: {n}")).collect();
        let kinds =
            if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
        format!("{} of {} starts of {name}{kinds}", self.broken, self.observed)
    }
}

impl ServerStarts {
    /// Counts the starts of an arm of `a` and its counterpart in `b`.
    pub(super) fn new(a: (Side<'_>, usize), b: (Side<'_>, usize)) -> ServerStarts {
        let name = |(side, arm): (Side<'_>, usize)| side.run.header.plan.arms[arm].name.clone();
        let (starts_a, starts_b) = (SideStarts::new(a.0, a.1), SideStarts::new(b.0, b.1));
        ServerStarts {
            subject_a: name(a),
            subject_b: name(b),
            // A control that was named as a side is a compared arm.
            control: [a, b].iter().all(|(side, arm)| {
                side.arm.is_none() && side.run.header.plan.subject_of(*arm).control
            }),
            p_failed: p_of_failures(starts_a.failures(), starts_b.failures()),
            a: starts_a,
            b: starts_b,
        }
    }

    /// States in how many starts the server broke. `None`: in none.
    pub(super) fn breaks_sentence(&self) -> Option<String> {
        (self.a.broken + self.b.broken > 0).then(|| {
            format!(
                "the server failed in {} and in {}",
                self.a.breaks_in_words("A"),
                self.b.breaks_in_words("B")
            )
        })
    }
}

impl ServerStarts {
    /// States in how many starts requests of a warm-up failed. `None`: in none.
    pub(super) fn warmup_sentence(&self) -> Option<String> {
        (self.a.warmup_failures + self.b.warmup_failures > 0).then(|| {
            format!(
                "requests of the warm-up failed in {} and in {}. No gate counts them. The caveats \
                 `warmup_failures` of the runs' steps have the numbers of each start",
                self.a.warmup_failures_in_words("A"),
                self.b.warmup_failures_in_words("B")
            )
        })
    }
}

/// The starts of a gated server, and those that the machine may explain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StartTest<'a> {
    pub server: &'a ServerStarts,
    /// Starts with failures; of `b` without those that the control's failures explain.
    pub failures: (Failures, Failures),
    /// Broken starts; of `b` without those that the control's failures explain.
    pub breaks: (Failures, Failures),
}

impl StartTest<'_> {
    /// Whether the server of `b` broke in most of the planned starts, and the server of `a` did
    /// not. Noise does not cause incorrect responses, so no test is needed.
    pub(super) const fn is_broken(&self) -> bool {
        let (a, b) = self.breaks;
        2 * b.failed > self.server.b.planned && 2 * (a.all - a.failed) > self.server.a.planned
    }

    /// Whether each of five or more starts of `b` has failures, and none of five or more of `a`. If
    /// both were alike, that would happen in at most 1 of 1,024 comparisons of a server, regardless
    /// of the share of starts with failures: (1/2)^10. No number of other tests makes it likely.
    pub(super) const fn is_separated(&self) -> bool {
        let (a, b) = self.failures;
        let has_enough = a.all >= REPEATS_FOR_INTERVAL && b.all >= REPEATS_FOR_INTERVAL;
        has_enough && a.failed == 0 && b.failed == b.all
    }

    /// States that each start of `b` has failures.
    pub(super) fn separation_sentence(&self) -> String {
        let (a, b) = self.failures;
        format!(
            "{} of {} starts of B have failures, compared with {} of {} of A",
            b.failed, b.all, a.failed, a.all
        )
    }

    pub(super) fn p(&self) -> Option<f64> {
        p_of_failures(self.failures.0, self.failures.1)
    }

    /// States a significant difference. `p`: adjusted.
    pub(super) fn sentence(&self, p: f64) -> String {
        let (a, b) = self.failures;
        format!(
            "more starts of B have failures than of A: {} of {} compared with {} of {}, which is \
             significant ({}, Fisher's exact test)",
            b.failed,
            b.all,
            a.failed,
            a.all,
            number_format::p_value(p)
        )
    }
}

/// Returns the test of each server that is not a control.
pub(super) fn tests(all: &[ServerStarts]) -> Vec<StartTest<'_>> {
    let excused_share = |count: fn(&SideStarts) -> Failures| {
        let controls = all.iter().filter(|server| server.control);
        largest_excess(controls.map(|server| (count(&server.a), count(&server.b))))
    };
    let (excused_failures, excused_breaks) =
        (excused_share(SideStarts::failures), excused_share(SideStarts::breaks));
    let test = |server| StartTest {
        server,
        failures: (server.a.failures(), excess_failures(excused_failures, server.b.failures())),
        breaks: (server.a.breaks(), excess_failures(excused_breaks, server.b.breaks())),
    };
    all.iter().filter(|server| !server.control).map(test).collect()
}
