//! Counts the starts in which a server failed, over all of its steps.
//!
//! A server may fail few requests in each step, or break its contract after the last step. The
//! repeats of such a server are valid, and a test of failures within one cell finds little. A test
//! over all starts of a server finds more.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::Side;
use super::checks::OneSidedChecks;
use super::failures::{BlockRequests, Explained, Failures, counts_clause, p_of_failures};
use super::repeats::planned_blocks;
use crate::number_format;
use crate::stats::{ALPHA, REPEATS_FOR_INTERVAL};
use crate::trial::TrialResult;

/// The starts of one side of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SideStarts {
    /// Planned starts. If the run ended early because its question was answered, only the starts
    /// before its end.
    pub planned: usize,
    /// Starts in which the server was loaded or failed.
    pub observed: usize,
    /// Starts in which the server did not build or start, ended, or responded incorrectly: to a
    /// check, or so often that a step is not valid.
    pub broken: usize,
    /// Starts in which the server was broken, or failed any request.
    pub with_failures: usize,
    /// Other starts in which requests failed for an unknown cause: the step is not valid for a
    /// reason other than its server, or the machine may have dropped packets.
    pub with_doubtful_failures: usize,
    /// For each kind of failure, such as `responded incorrectly`, the number of starts.
    pub kinds: BTreeMap<String, usize>,
    /// Starts in which a request of a warm-up (of the start or of a step) got no correct response.
    /// Gates ignore such failures, and they do not make a start failed.
    pub with_warmup_failures: usize,
    /// Number of these requests of warm-ups over all starts.
    pub warmup_failures: u64,
    /// Number of requests over all starts that were sent again because the server closed an idle
    /// connection. Gates count them as failed.
    pub repeated_after_idle: u64,
    /// Requests of all steps of each start that was not broken and in which the number of failed
    /// requests is known.
    #[serde(skip)]
    pub(super) requests_by_start: Vec<BlockRequests>,
    /// Starts that are broken, or in which the number of failed requests is known in any step.
    #[serde(skip)]
    known: usize,
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
    /// Fisher's exact test: 0 to 1, not adjusted for other tests. Doubtful failures of `a` are
    /// failures, and those of `b` are not. `None`: no start has failures.
    pub p_failed: Option<f64>,
    #[serde(skip)]
    pub(super) checks: OneSidedChecks,
}

impl SideStarts {
    /// Counts the starts of an arm.
    fn new(side: Side<'_>, arm: usize) -> SideStarts {
        let launches = side.run.header.plan.launches.iter();
        let planned = planned_blocks(side, launches.filter(|launch| launch.arms.contains(&arm)));
        let mut result = SideStarts { planned: planned.len(), ..SideStarts::default() };
        for block in planned {
            result.add(side, arm, block);
        }
        result
    }

    /// Adds the start of an arm in a block (counted from 1).
    fn add(&mut self, side: Side<'_>, arm: usize, block: u32) {
        let subject = side.results.subjects.get(arm);
        let failures = subject.map_or(&[][..], |subject| &subject.failures);
        let block_failures =
            failures.iter().filter(|failure| failure.is_of_build() || failure.repeat == block);
        let kinds: BTreeSet<&str> = block_failures
            .filter(|failure| failure.is_servers_fault())
            .map(|failure| failure.failure.kind.name())
            .collect();
        let is_of_start = |trial: &&TrialResult| trial.cell.arm == arm && trial.block == block;
        let trials: Vec<&TrialResult> = side.results.trials.iter().filter(is_of_start).collect();
        let is_broken = !kinds.is_empty() || trials.iter().any(|trial| trial.is_broken());
        let requests = start_requests(&trials, block);
        let has_failures = is_broken || requests.is_some_and(|requests| requests.failed > 0);
        let has_doubt = !has_failures && trials.iter().any(|trial| has_unknown_failures(trial));
        self.known += usize::from(is_broken || requests.is_some());
        self.requests_by_start.extend(requests.filter(|_| !is_broken));
        let warm_ups = subject.map_or(&[][..], |subject| &subject.warm_ups).iter();
        // The warm-up of a control that refuses all connections fails as intended.
        let is_refusing = !trials.is_empty() && trials.iter().all(|trial| trial.refused);
        let start_warm_ups = warm_ups.filter(|warm_up| warm_up.repeat == block && !is_refusing);
        let steps = trials.iter().filter(|trial| !trial.refused);
        let warmup_failures = start_warm_ups.map(|warm_up| warm_up.failed).sum::<u64>()
            + steps.map(|trial| trial.load.exchanges.warmup_failed).sum::<u64>();
        self.repeated_after_idle +=
            trials.iter().map(|trial| trial.load.repeated_after_idle()).sum::<u64>();
        self.with_warmup_failures += usize::from(warmup_failures > 0);
        self.warmup_failures += warmup_failures;
        self.observed += usize::from(is_broken || !trials.is_empty());
        self.broken += usize::from(is_broken);
        self.with_failures += usize::from(has_failures);
        self.with_doubtful_failures += usize::from(has_doubt);
        for kind in kinds {
            *self.kinds.entry(kind.into()).or_default() += 1;
        }
    }

    /// Returns the largest possible number of starts with failures, of all observed starts: each
    /// doubtful failure is the server's.
    const fn possible_failures(&self) -> Failures {
        Failures { failed: self.with_failures + self.with_doubtful_failures, all: self.observed }
    }

    /// Returns the number of starts with known failures, of all starts with a known step. A start
    /// whose failed requests are explained by a control has no failures. A broken start always has
    /// failures.
    fn known_failures(&self, explained: &Explained) -> Failures {
        let is_excused = |start: &&BlockRequests| explained.explains_all(**start);
        let excused = self.requests_by_start.iter().filter(is_excused).count();
        Failures { failed: self.with_failures - excused, all: self.known }
    }

    /// Returns the number of broken starts, of all observed starts.
    const fn breaks(&self) -> Failures {
        Failures { failed: self.broken, all: self.observed }
    }

    /// Returns text such as `5 of 5 starts of B (2455 requests)`.
    fn warmup_failures_in_words(&self, label: &str) -> String {
        let requests = match self.warmup_failures {
            0 => String::new(),
            1 => " (1 request)".into(),
            n => format!(" ({n} requests)"),
        };
        format!("{} of {} starts of {label}{requests}", self.with_warmup_failures, self.observed)
    }

    /// Returns text such as `5 of 5 starts of B (responded incorrectly: 5)`.
    fn breaks_in_words(&self, label: &str) -> String {
        let kinds: Vec<String> =
            self.kinds.iter().map(|(kind, n)| format!("{kind}: {n}")).collect();
        let kinds =
            if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
        format!("{} of {} starts of {label}{kinds}", self.broken, self.observed)
    }
}

/// Returns the number of requests that a server failed in a step. `None`: the number is unknown,
/// because the step is not valid for another reason, or packets may have been dropped.
fn failed_in_step(trial: &TrialResult) -> Option<u64> {
    if trial.has_lost_requests() {
        // An outage without any failed request counts as one failed request.
        return Some(trial.server_losses().max(1));
    }
    // Steps that only the generator limited, or that only lack the final check, are included,
    // because neither makes a server fail.
    let is_included = trial.valid || trial.has_known_cost() || trial.is_only_unchecked();
    (is_included && !trial.has_doubtful_losses()).then(|| trial.server_losses())
}

/// Whether requests of a step failed, and it is unknown how many of them the server failed.
fn has_unknown_failures(trial: &TrialResult) -> bool {
    !trial.refused && trial.load.failed_requests() > 0 && failed_in_step(trial).is_none()
}

/// Returns the sum of the requests of a start, over the steps in which the number of failed
/// requests is known. `None`: it is known in no step.
fn start_requests(trials: &[&TrialResult], block: u32) -> Option<BlockRequests> {
    let known = trials.iter().filter_map(|trial| {
        let requests = trial.load.exchanges.due();
        let has_outage = trial.has_outage();
        failed_in_step(trial).map(|failed| BlockRequests { block, failed, requests, has_outage })
    });
    known.reduce(|sum, step| BlockRequests {
        failed: sum.failed + step.failed,
        requests: sum.requests + step.requests,
        has_outage: sum.has_outage || step.has_outage,
        ..sum
    })
}

impl ServerStarts {
    /// Counts the starts of an arm of `a` and its counterpart in `b`.
    pub(super) fn new(a: (Side<'_>, usize), b: (Side<'_>, usize)) -> ServerStarts {
        let name = |(side, arm): (Side<'_>, usize)| side.run.header.plan.arms[arm].name.clone();
        let starts = |(side, arm): (Side<'_>, usize)| SideStarts::new(side, arm);
        let (starts_a, starts_b) = (starts(a), starts(b));
        ServerStarts {
            subject_a: name(a),
            subject_b: name(b),
            // A control that was named as a side is a compared arm.
            control: [a, b].iter().all(|(side, arm)| {
                side.arm.is_none() && side.run.header.plan.subject_of(*arm).control
            }),
            p_failed: p_of_failures(
                starts_a.possible_failures(),
                starts_b.known_failures(&Explained::default()),
            ),
            a: starts_a,
            b: starts_b,
            checks: OneSidedChecks::new(a, b),
        }
    }

    /// Returns a sentence on the number of starts in which the server broke; `None`: no start.
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
    /// Returns a sentence on the starts in which requests of a warm-up failed; `None`: no start.
    pub(super) fn warmup_sentence(&self) -> Option<String> {
        (self.a.warmup_failures + self.b.warmup_failures > 0).then(|| {
            format!(
                "warm-up requests failed in {} and in {}. Gates ignore these failures. For the \
                 numbers of each start, see the caveats `warmup_failures` in the reports of the \
                 runs",
                self.a.warmup_failures_in_words("A"),
                self.b.warmup_failures_in_words("B")
            )
        })
    }
}

impl ServerStarts {
    /// Returns a sentence on the requests that were sent again because the server closed idle
    /// connections; `None`: no request.
    pub(super) fn repeated_sentence(&self) -> Option<String> {
        let (a, b) = (self.a.repeated_after_idle, self.b.repeated_after_idle);
        (a + b > 0).then(|| {
            format!(
                "{} of A and {} of B were sent again, because the server closed a connection that \
                 had been idle when the request arrived. Tests of failures count them as failed \
                 requests, because a crash of the server looks the same. If B fails significantly \
                 more requests than A, no gate is held",
                number_format::plural(a, "request"),
                number_format::plural(b, "request"),
            )
        })
    }
}

/// Numbers of failed starts of a server, for a test. Failures whose cause is unknown or outside of
/// the server cannot make `b` look worse than `a`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StartTest<'a> {
    pub server: &'a ServerStarts,
    /// Possible failures of `a`, and known failures of `b`. A start of `b` whose failures a control
    /// explains is not counted as failed.
    pub failures: (Failures, Failures),
    /// Broken starts of `a` and of `b`. Failures of a control do not explain them.
    pub breaks: (Failures, Failures),
}

impl StartTest<'_> {
    /// Whether the server of `b` broke in most of the planned starts, and the server of `a` did
    /// not. Noise does not cause incorrect responses, so no test is needed.
    pub(super) const fn is_broken(&self) -> bool {
        let (a, b) = self.breaks;
        2 * b.failed > self.server.b.planned && 2 * (a.all - a.failed) > self.server.a.planned
    }

    /// Whether all of five or more starts of `b` have failures, and none of five or more starts of
    /// `a`. If both were alike, this result would occur in at most 1 of 1,024 comparisons of a
    /// server ((1/2)^10), for any share of starts with failures. No correction for other tests is
    /// needed.
    pub(super) const fn is_separated(&self) -> bool {
        are_separated(self.failures.0, self.failures.1)
    }

    /// Whether `b` may fail in more starts, but failures of `a` of unknown cause hide it. The test
    /// is not corrected, because a doubt about a gate needs less evidence than its failure.
    pub(super) fn is_in_doubt(&self) -> bool {
        let (possible, b) = self.failures;
        let a = Failures { failed: self.server.a.with_failures, ..possible };
        a.failed < possible.failed
            && (are_separated(a, b) || p_of_failures(a, b).is_some_and(|p| p < ALPHA))
    }

    /// Returns a sentence on starts for which [`StartTest::is_separated`] is true.
    pub(super) fn separation_sentence(&self) -> String {
        let (a, b) = self.failures;
        format!(
            "{} of {} starts of B have failures, compared with {} of {} of A",
            b.failed, b.all, a.failed, a.all
        )
    }

    /// Returns the p-value of the difference in starts with failures; `None`: no start has any.
    pub(super) fn p(&self) -> Option<f64> {
        p_of_failures(self.failures.0, self.failures.1)
    }

    /// Returns a sentence on a significant difference. `p`: adjusted p-value.
    pub(super) fn sentence(&self, p: f64) -> String {
        format!("more starts of B have failures than of A: {}", counts_clause(self.failures, p))
    }
}

/// Whether all of five or more starts of `b` failed, and none of five or more starts of `a`.
const fn are_separated(a: Failures, b: Failures) -> bool {
    let has_enough = a.all >= REPEATS_FOR_INTERVAL && b.all >= REPEATS_FOR_INTERVAL;
    has_enough && a.failed == 0 && b.failed == b.all
}

/// Returns the test of each server that is not a control.
pub(super) fn tests(all: &[ServerStarts]) -> Vec<StartTest<'_>> {
    let explained = Explained::in_starts(all);
    let servers = all.iter().filter(|server| !server.control);
    servers
        .map(|server| StartTest {
            server,
            failures: (server.a.possible_failures(), server.b.known_failures(&explained)),
            breaks: (server.a.breaks(), server.b.breaks()),
        })
        .collect()
}
