//! The result of a whole run: `dyno.report/1`.

use std::collections::BTreeMap;

use dyno_archive::dir::Run;
use dyno_archive::plan::{self, Plan};
use dyno_archive::start::{Failure, FailureKind, LimitReadBack, allowed_cpus};
use dyno_archive::trial::CheckResult;
use dyno_archive::{Facts, StartRecord, TrialRecord};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::caveat::{Caveat, Severity, info, percent};
use crate::limiter::{Limiter, SERVER_FULL, limiter};
use crate::load::room::{self, Bound};
use crate::load::{self, LoadResult};
use crate::protocols::{self, ProtocolComparison};
use crate::server::{self, ServerUse};
use crate::stats::Repeated;
use crate::summary::{self, Comparison, Summary};
use crate::warming::{self, WarmUpResult};

pub const SCHEMA: &str = "dyno.report/1";

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    pub schema: &'static str,
    pub run: RunFacts,
    /// Caveats that touch everything.
    pub caveats: Vec<Caveat>,
    pub subjects: Vec<SubjectResult>,
    pub trials: Vec<TrialResult>,
    /// One entry per subject, workload and step, over all repeats.
    pub summaries: Vec<Summary>,
    pub overview: Vec<summary::OverviewRow>,
    pub comparisons: Vec<Comparison>,
    /// HTTP/2 against HTTP/1.1, server by server; empty unless a suite asks the same in both.
    pub protocols: Vec<ProtocolComparison>,
    pub tables: Vec<Table>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunFacts {
    pub id: String,
    pub suite: String,
    pub description: String,
    pub seed: u64,
    /// RFC 3339, UTC.
    pub started: String,
    pub command: Vec<String>,
    pub facts: Facts,
    pub repeats: u32,
    pub limits: plan::Limits,
    pub placement: plan::Placement,
    pub load: plan::Load,
    pub workloads: Vec<plan::Workload>,
    /// The order in which subjects ran, block by block.
    pub order: Vec<Vec<String>>,
    pub baseline: Option<String>,
    pub markers: Vec<plan::Marker>,
    pub cost: Option<plan::Cost>,
    pub suite_source: String,
    pub trials_planned: usize,
    pub trials_done: usize,
    pub trials_invalid: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SubjectResult {
    /// `name` or `name/variant`.
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
    /// From the signal to the end of the process, over the starts.
    pub stop_ms: Repeated,
    /// Starts that had to be killed.
    pub stop_killed: usize,
    /// Every check with its worst result over all starts and moments.
    pub checks: Vec<CheckSummary>,
    pub limits: Vec<LimitReadBack>,
    /// Why it does not take part, or where it failed: one sentence each.
    pub skipped: Option<String>,
    pub failures: Vec<SubjectFailure>,
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

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TrialResult {
    pub subject: String,
    pub variant: Option<String>,
    pub subject_id: String,
    pub workload: String,
    /// Its place in the order of time, counted from 1 over the whole plan.
    pub place: usize,
    /// Counted from 1.
    pub repeat: u32,
    /// Counted from 1.
    pub block: u32,
    pub step: StepResult,
    pub valid: bool,
    pub caveats: Vec<Caveat>,
    /// Not answered or wrongly answered, of those that were due: 0 to 1.
    pub error_share: f64,
    pub load: LoadResult,
    pub server: ServerUse,
    pub limiter: Limiter,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepResult {
    pub index: usize,
    pub connections: u32,
    pub streams: u32,
    pub pipeline: u32,
    pub rate: Option<f64>,
    pub duration_s: f64,
}

/// A table for people and for spreadsheets.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Table {
    pub name: &'static str,
    pub title: &'static str,
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<serde_json::Value>>,
}

/// Computes everything from a run's archive.
#[must_use]
pub fn report(run: &Run) -> Report {
    let plan = &run.header.plan;
    let start_of = |t: &TrialRecord| run.starts.iter().find(|s| s.start == t.start);
    let mut records: Vec<&TrialRecord> = run.trials.iter().collect();
    // Workloads and steps run in an order of their own in each start; they are shown in one.
    records.sort_by_key(|t| plan.trials[t.trial].shown_at());
    let trials: Vec<TrialResult> =
        records.into_iter().map(|t| trial(plan, &run.header.facts, start_of(t), t)).collect();
    let subjects: Vec<SubjectResult> = (0..plan.subjects.len()).map(|s| subject(run, s)).collect();
    let summaries = summary::summaries(plan, &trials);
    let overview = summary::overview(plan, &subjects, &trials, &summaries);
    let comparisons = summary::comparisons(plan, &trials, &summaries);
    let protocols = protocols::protocols(plan, &trials);
    let tables = vec![summary::overview_table(&overview), summary::trials_table(&trials)];
    Report {
        schema: SCHEMA,
        caveats: run_caveats(run, &subjects, &overview),
        run: run_facts(run, &trials),
        subjects,
        trials,
        summaries,
        overview,
        comparisons,
        protocols,
        tables,
    }
}

fn trial(plan: &Plan, facts: &Facts, start: Option<&StartRecord>, record: &TrialRecord) -> TrialResult {
    let planned = plan.trials[record.trial];
    let launch = plan.launches[planned.launch];
    let subject = &plan.subjects[launch.subject];
    let step = &plan.load.steps[planned.step];
    let asked = load::Config::new(&plan.workloads[planned.workload], &plan.load, step, plan.seed);
    let mut load = load::result(record, asked);
    let server = server::server_use(record, cpus_of(plan, start));
    weigh_generator(&mut load, &server, subject.control);
    let mut caveats = load.caveats.clone();
    caveats.extend(server::caveats(&server, record));
    caveats.extend(warming::caveats(&load, &server, start));
    if facts.tick_accounting == Some(true) && server.cpu_user_s.is_some() {
        // At least one tick of 4 ms decides each share: over short windows the split is coarse.
        caveats.push(info(
            "tick_accounting",
            "The split of CPU time into user and system is sampled by the kernel's tick; the sum is exact.",
        ));
    }
    caveats.sort_by_key(|c| std::cmp::Reverse(c.severity));
    let valid = !caveats.iter().any(|c| c.severity == Severity::Invalid);
    TrialResult {
        subject: subject.name.clone(),
        variant: subject.variant.clone(),
        subject_id: subject.id(),
        workload: plan.workloads[planned.workload].name.clone(),
        place: record.trial + 1,
        repeat: launch.block + 1,
        block: launch.block + 1,
        step: StepResult {
            index: planned.step,
            connections: step.connections,
            streams: step.streams,
            pipeline: step.pipeline,
            rate: step.arrivals.rate(),
            duration_s: load.duration_s,
        },
        valid,
        caveats,
        error_share: error_share(&load),
        limiter: limiter(&load, &server),
        load,
        server,
    }
}

fn error_share(load: &LoadResult) -> f64 {
    let bad = load.exchanges.lost() + load.outcomes.wrong();
    bad as f64 / load.exchanges.due().max(1) as f64
}

/// A generator without room makes a step worthless only as long as the server may have had some. A server that used all of
/// its CPU was the limit, whatever the generator did; and a control is there to show where the generator ends.
fn weigh_generator(load: &mut LoadResult, server: &ServerUse, control: bool) {
    let Some(bound) = Bound::of(load) else { return };
    let clause = bound.clause();
    let full = server.cpu_utilisation.filter(|used| *used >= SERVER_FULL);
    let threads = load.config.threads + 1;
    for caveat in load.caveats.iter_mut().filter(|c| room::CODES.contains(&c.code)) {
        let is_threads = caveat.code == "oversubscribed";
        match full {
            _ if control => {
                caveat.severity = Severity::Info;
                if !is_threads {
                    caveat.message = format!(
                        "The generator's end: {clause}. This control shows the most that it can do on this machine."
                    );
                }
            }
            Some(used) => {
                caveat.severity = Severity::Warning;
                if !is_threads {
                    caveat.message = format!(
                        "The generator may have been the limit too: {clause}. But the server used {} of its CPU: it was at its limit all the same. More CPUs for the generator would leave no doubt.",
                        percent(used)
                    );
                }
            }
            None if matches!(bound, Bound::Thread { .. }) && !is_threads => {
                caveat.message = format!(
                    "The generator may have been the limit: {clause}, so throughput is a lower bound of what the server can do. Give it another CPU: a machine with more of them, and `threads = {threads}` under `[load]`."
                );
            }
            None => {}
        }
    }
    load.valid = !load.caveats.iter().any(|c| c.severity == Severity::Invalid);
}

/// CPUs that a start could use at a time.
fn cpus_of(plan: &Plan, start: Option<&StartRecord>) -> f64 {
    let limits = start.map_or(&[][..], |start| &start.limits);
    allowed_cpus(limits, &plan.placement, &plan.limits)
}

fn subject(run: &Run, index: usize) -> SubjectResult {
    let planned = &run.header.plan.subjects[index];
    let launches = &run.header.plan.launches;
    let starts: Vec<&StartRecord> =
        run.starts.iter().filter(|s| launches[s.launch].subject == index).collect();
    let ms = |ns: u64| ns as f64 / 1e6;
    let startup = |pick: fn(&dyno_archive::start::Startup) -> Option<u64>| {
        Repeated::new(starts.iter().filter_map(|s| pick(s.startup.as_ref()?)).map(ms).collect())
    };
    SubjectResult {
        id: planned.id(),
        name: planned.name.clone(),
        variant: planned.variant.clone(),
        title: planned.title.clone(),
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
        warm_ups: warming::results(&starts, launches),
        stop_ms: Repeated::new(starts.iter().filter_map(|s| s.stop).map(|s| ms(s.took_ns)).collect()),
        stop_killed: starts.iter().filter_map(|s| s.stop).filter(|s| s.killed).count(),
        checks: check_summaries(&starts, run, index),
        limits: starts.first().map(|s| s.limits.clone()).unwrap_or_default(),
        skipped: planned.skipped.clone(),
        failures: failures(planned, &starts, launches),
    }
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
            log_tail: s.log_tail.clone(),
        })
    };
    build.chain(starts.iter().filter_map(of_start)).collect()
}

/// Checks before, during and after the load, merged by name: a check is good if it never failed.
fn check_summaries(starts: &[&StartRecord], run: &Run, index: usize) -> Vec<CheckSummary> {
    let during = run.trials.iter().filter(|t| {
        let launch = run.header.plan.trials[t.trial].launch;
        run.header.plan.launches[launch].subject == index
    });
    let before_and_after = starts.iter().flat_map(|s| s.checks_before.iter().chain(&s.checks_after));
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

fn run_facts(run: &Run, trials: &[TrialResult]) -> RunFacts {
    let plan = &run.header.plan;
    let order = (0..plan.repeats).map(|block| {
        let of_block = plan.launches.iter().filter(|l| l.block == block);
        of_block.map(|l| plan.subjects[l.subject].id()).collect()
    });
    RunFacts {
        id: run.header.id.clone(),
        suite: plan.suite.name.clone(),
        description: plan.suite.description.clone(),
        seed: plan.seed,
        started: run.header.started.clone(),
        command: run.header.command.clone(),
        facts: run.header.facts.clone(),
        repeats: plan.repeats,
        limits: plan.limits.clone(),
        placement: plan.placement.clone(),
        load: plan.load.clone(),
        workloads: plan.workloads.clone(),
        order: order.collect(),
        baseline: plan.report.baseline.clone(),
        markers: plan.report.markers.clone(),
        cost: plan.cost,
        suite_source: plan.suite.source.clone(),
        trials_planned: plan.trials.len(),
        trials_done: trials.len(),
        trials_invalid: trials.iter().filter(|t| !t.valid).count(),
    }
}

fn run_caveats(run: &Run, subjects: &[SubjectResult], overview: &[summary::OverviewRow]) -> Vec<Caveat> {
    let plan = &run.header.plan;
    let mut all = Vec::new();
    if !plan.placement.is_disjoint() {
        let message = "Server and generator share CPUs, because this machine offers too few of them: each slows the other, and numbers of different subjects compare only roughly. Use a machine with two CPUs or more.";
        all.push(Caveat::new(
            "shared_cpus",
            Severity::Warning,
            message.into(),
            json!({"subject": plan.placement.subject, "generator": plan.placement.generator}),
        ));
    }
    if (plan.repeats as usize) < crate::stats::REPEATS_FOR_INTERVAL {
        let too_few = match plan.repeats {
            1 => "One repeat is too few".to_string(),
            n => format!("{n} repeats are too few"),
        };
        let apart = if (plan.repeats as usize) < crate::stats::PAIRS_TO_TELL_APART {
            "no subject is told apart from another by throughput"
        } else {
            "subjects are told apart only where all pairs within blocks differ the same way, each by more than 5 %"
        };
        let message = format!(
            "{too_few} for confidence intervals: ranges are over the repeats, and {apart}. Ask for {} or more repeats for intervals.",
            crate::stats::REPEATS_FOR_INTERVAL
        );
        all.push(info("few_repeats", message));
    }
    if run.starts.iter().any(|s| s.resumed) {
        all.push(info("resumed", "This run was interrupted and resumed: some trials were served by a process that was started again."));
    }
    all.extend(mixed(run));
    all.extend(limits_not_set(subjects));
    all.extend(not_served(plan));
    all.extend(summary::same_numbers(overview));
    all.sort_by_key(|c| std::cmp::Reverse(c.severity));
    all
}

/// Parts of a run that are not the same experiment, which the user wanted in one run all the same.
fn mixed(run: &Run) -> Option<Caveat> {
    let header = &run.header;
    let all: Vec<String> = header
        .resumptions
        .iter()
        .flat_map(|r| &r.differences)
        .map(|d| format!("{}: {} then, {} later", d.what, d.before, d.now))
        .collect();
    if all.is_empty() {
        return None;
    }
    // Each part reaches to the first start of the next.
    let begins = std::iter::once(0).chain(header.resumptions.iter().map(|r| r.from_start));
    let ends = header.resumptions.iter().map(|r| r.from_start).chain([usize::MAX]);
    let parts: Vec<Vec<usize>> = begins
        .zip(ends)
        .map(|(from, to)| {
            run.trials.iter().filter(|t| (from..to).contains(&t.start)).map(|t| t.trial).collect()
        })
        .collect();
    let versions = |subjects: &[dyno_archive::plan::Subject]| -> serde_json::Value {
        subjects.iter().map(|s| (s.id(), json!(s.version))).collect::<serde_json::Map<_, _>>().into()
    };
    let subjects =
        std::iter::once(&header.plan.subjects).chain(header.resumptions.iter().map(|r| &r.subjects));
    let started = std::iter::once(&header.started).chain(header.resumptions.iter().map(|r| &r.started));
    let evidence: Vec<_> = parts
        .iter()
        .zip(subjects.zip(started))
        .map(|(trials, (s, started))| json!({"started": started, "trials": trials, "versions": versions(s)}))
        .collect();
    let counts: Vec<String> = parts.iter().map(|trials| trials.len().to_string()).collect();
    let message = format!(
        "This run was interrupted and resumed although not everything was as before, so that its parts ({} trials) are not one experiment, and a subject's row joins both. {}.",
        counts.join(" and "),
        all.join("; ")
    );
    let evidence = json!({"parts": evidence, "differences": all});
    Some(Caveat::new("mixed", Severity::Warning, message, evidence))
}

/// Workloads that some subjects did not get: their rows are missing for a reason.
fn not_served(plan: &Plan) -> Option<Caveat> {
    let each: Vec<String> = plan
        .not_served
        .iter()
        .map(|not| {
            let (subject, workload) = (plan.subjects[not.subject].id(), &plan.workloads[not.workload].name);
            format!("{subject} was not asked for {workload}: {}", not.reason)
        })
        .collect();
    (!each.is_empty()).then(|| info("not_served", format!("{}.", each.join(". "))))
}

fn limits_not_set(subjects: &[SubjectResult]) -> Option<Caveat> {
    let unset = subjects.iter().flat_map(|s| &s.limits).find(|l| l.read_back.is_none())?;
    let message = format!(
        "The limit of {} ({}) could not be set: {}. `dyno doctor` says how to get it.",
        unset.kind.name(),
        unset.asked,
        unset.reason.as_deref().unwrap_or("for an unknown reason")
    );
    Some(Caveat::new("limits_not_set", Severity::Warning, message, json!({"limit": unset.kind})))
}
