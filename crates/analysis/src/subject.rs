//! One subject over all of its starts.

use std::collections::{BTreeMap, BTreeSet};

use dyno_archive::StartRecord;
use dyno_archive::plan::{self, Arm, Conditions, Launch, Plan};
use dyno_archive::run::Run;
use dyno_archive::start::{Failure, FailureKind, LimitReadBack, PartStart};
use dyno_archive::trial::CheckResult;
use schemars::JsonSchema;
use serde::Serialize;

use crate::stats::Repeated;
use crate::warming::{self, WarmUpResult};

/// A subject in one arm of the run. Where it has one arm, that is the subject in the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SubjectResult {
    /// Name of the arm: `name` or `name/variant` where the subject has one arm.
    pub id: String,
    pub name: String,
    pub variant: Option<String>,
    pub title: String,
    pub language: String,
    pub description: String,
    pub version: Option<String>,
    pub control: bool,
    pub build: Option<BuildResult>,
    /// From exec to the first right answer, over the starts.
    pub startup_ms: Startup,
    /// How each start was warmed before its first trial; empty unless the plan asks for it.
    pub warm_ups: Vec<WarmUpResult>,
    /// How long they took.
    pub warm_up_s: Repeated,
    /// From the signal to the end of the process, over the starts.
    pub stop_ms: Repeated,
    /// Starts that had to be killed.
    pub stop_killed: usize,
    /// Every check with its worst result over all starts and moments.
    pub checks: Vec<CheckSummary>,
    pub limits: Vec<LimitReadBack>,
    pub conditions: ConditionsResult,
    /// Why it does not take part, or where it failed: one sentence each.
    pub skipped: Option<String>,
    pub failures: Vec<SubjectFailure>,
}

/// The conditions of an arm, as they were planned. Its environment may hold secrets, and stays in the archive.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ConditionsResult {
    /// Where the arm stands on the scale of what is varied; `None`: on none.
    pub level: Option<f64>,
    pub limits: plan::Limits,
    pub placement: plan::Placement,
    /// What of the run's load is otherwise in it; `null`: as the run has it.
    pub load: plan::LoadChanges,
    /// What is looked at beside what always is.
    pub observe: BTreeSet<plan::Probe>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BuildResult {
    pub wall_s: f64,
    pub cpu_s: Option<f64>,
    pub artefact_bytes: u64,
    pub cached: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Startup {
    pub listening: Repeated,
    pub first_answer: Repeated,
    /// CPU time used by the first answer.
    pub cpu: Repeated,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckSummary {
    pub name: String,
    pub ok: bool,
    pub detail: String,
    pub passed: usize,
    pub failed: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SubjectFailure {
    pub repeat: u32,
    #[serde(flatten)]
    pub failure: Failure,
    pub log_tail: Option<String>,
}

pub(crate) fn subject(run: &Run, arm: usize) -> SubjectResult {
    let plan = &run.header.plan;
    let (own, planned) = (&plan.arms[arm], plan.subject_of(arm));
    let launches = &plan.launches;
    let starts: Vec<&StartRecord> =
        run.starts.iter().filter(|s| launches[s.launch].arms.contains(&arm)).collect();
    let by_repeat: Vec<(u32, &PartStart)> =
        starts.iter().filter_map(|start| part_in(start, &launches[start.launch], arm)).collect();
    let parts: Vec<&PartStart> = by_repeat.iter().map(|(_, part)| *part).collect();
    let ms = |ns: u64| ns as f64 / 1e6;
    let startup = |pick: fn(&dyno_archive::start::Startup) -> Option<u64>| {
        Repeated::new(parts.iter().filter_map(|p| pick(p.startup.as_ref()?)).map(ms).collect())
    };
    let warm_ups = warming::results(&by_repeat);
    SubjectResult {
        id: own.name.clone(),
        name: planned.name.clone(),
        variant: planned.variant.clone(),
        title: title(plan, arm),
        language: planned.language.clone(),
        description: planned.description.clone(),
        version: planned.version.clone(),
        control: planned.control,
        build: planned.build.as_ref().map(|b| BuildResult {
            wall_s: b.wall_ns as f64 / 1e9,
            cpu_s: b.cpu_ns.map(|ns| ns as f64 / 1e9),
            artefact_bytes: b.artefact_bytes,
            cached: b.cached,
        }),
        startup_ms: Startup {
            listening: startup(|s| Some(s.listening_ns)),
            first_answer: startup(|s| Some(s.first_answer_ns)),
            cpu: startup(|s| s.cpu_ns),
        },
        warm_up_s: Repeated::new(warm_ups.iter().map(|w| w.took_s).collect()),
        warm_ups,
        stop_ms: Repeated::new(parts.iter().filter_map(|p| p.stop).map(|s| ms(s.took_ns)).collect()),
        stop_killed: parts.iter().filter_map(|p| p.stop).filter(|s| s.killed).count(),
        checks: check_summaries(&parts, run, arm),
        limits: parts.first().map(|p| p.limits.clone()).unwrap_or_default(),
        conditions: conditions(own),
        skipped: planned.skipped.clone(),
        failures: failures(planned, &starts, launches),
    }
}

/// An arm's part of a start, with the repeat that it is of, counted from 1.
fn part_in<'a>(start: &'a StartRecord, launch: &Launch, arm: usize) -> Option<(u32, &'a PartStart)> {
    Some((launch.block + 1, start.part(launch.party_of(arm)?)?))
}

/// The subject's title; with the arm's name where that says more.
fn title(plan: &Plan, arm: usize) -> String {
    let (name, subject) = (&plan.arms[arm].name, plan.subject_of(arm));
    if *name == subject.id() { subject.title.clone() } else { format!("{}, {name}", subject.title) }
}

fn conditions(arm: &Arm) -> ConditionsResult {
    let Conditions { limits, placement, load, observe, .. } = arm.conditions.clone();
    ConditionsResult { level: arm.level, limits, placement, load, observe }
}

fn failures(
    planned: &plan::Subject,
    starts: &[&StartRecord],
    launches: &[plan::Launch],
) -> Vec<SubjectFailure> {
    let build = planned.build_failed.iter().map(|why| SubjectFailure {
        repeat: 0,
        failure: Failure { kind: FailureKind::BuildFailed, message: why.clone() },
        log_tail: None,
    });
    // What was no fault of the subject is made good by a later start of the same launch that did what was planned.
    let is_made_good = |s: &StartRecord, failure: &Failure| {
        let later = |other: &&&StartRecord| other.launch == s.launch && other.start > s.start;
        !failure.kind.is_the_subjects()
            && starts.iter().find(later).is_some_and(|other| other.failure.is_none())
    };
    let of_start = |s: &&StartRecord| {
        if s.failure.as_ref().is_some_and(|failure| is_made_good(s, failure)) {
            return None;
        }
        Some(SubjectFailure {
            repeat: launches[s.launch].block + 1,
            failure: s.failure.clone().filter(|f| f.kind != FailureKind::Interrupted)?,
            log_tail: s.parts.iter().rev().find_map(|part| part.log_tail.clone()),
        })
    };
    build.chain(starts.iter().filter_map(of_start)).collect()
}

/// Checks before, during and after the load, merged by name: a check is good if it never failed.
fn check_summaries(parts: &[&PartStart], run: &Run, arm: usize) -> Vec<CheckSummary> {
    let during = run.trials.iter().filter(|t| run.header.plan.trials[t.trial].arm == arm);
    let before_and_after = parts.iter().flat_map(|p| p.checks_before.iter().chain(&p.checks_after));
    let all = before_and_after.chain(during.flat_map(|t| &t.checks));
    let mut order: Vec<String> = Vec::new();
    let mut by_name: BTreeMap<String, Vec<&CheckResult>> = BTreeMap::new();
    for check in all {
        if !by_name.contains_key(&check.name) {
            order.push(check.name.clone());
        }
        by_name.entry(check.name.clone()).or_default().push(check);
    }
    order.into_iter().map(|name| check_summary(&by_name[&name])).collect()
}

fn check_summary(results: &[&CheckResult]) -> CheckSummary {
    let failed = results.iter().filter(|c| !c.ok).count();
    let shown = results.iter().find(|c| !c.ok).unwrap_or(&results[0]);
    CheckSummary {
        name: shown.name.clone(),
        ok: failed == 0,
        detail: shown.detail.clone(),
        passed: results.len() - failed,
        failed,
    }
}
