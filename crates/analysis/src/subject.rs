//! Computes the result of one arm over all of its starts: start-up, warm-up, checks and failures.

use std::collections::{BTreeMap, BTreeSet};

use dyno_config::secret::may_be_secret;
use dyno_model::plan::{self, Arm, Conditions, Launch, Plan};
use dyno_model::run::Run;
use dyno_model::start::{Binary, Failure, FailureKind, IdleUse, LimitReadBack, PartStart};
use dyno_model::trial::CheckResult;
use dyno_model::{Party, Protocol, StartRecord, SubjectVersion};
use schemars::JsonSchema;
use serde::Serialize;

use crate::backend::{self, BackendResult};
use crate::lifetime::{Lifetimes, lifetimes};
use crate::memory::MemorySlopes;
use crate::probe_cost::PriceResult;
use crate::server::WithoutRequests;
use crate::startup::{BuildResult, StartupSummary, build_result, summarize_startup};
use crate::stats::Repeated;
use crate::trial::TrialResult;
use crate::warm_up::{self, WarmUpResult};

/// Result of one arm of the run: a subject under one set of conditions.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SubjectResult {
    /// Name of the arm: `name` or `name/variant` if the subject has one arm.
    pub id: String,
    pub name: String,
    pub variant: Option<String>,
    pub title: String,
    pub language: String,
    pub description: String,
    pub version: Option<String>,
    /// Hash of the definition and of the inputs of the build; `null`: dyno did not start the
    /// subject, or did not build it.
    pub version_id: Option<SubjectVersion>,
    pub control: bool,
    pub build: Option<BuildResult>,
    /// Start-up times over the starts, in milliseconds.
    pub startup_ms: StartupSummary,
    /// Warm-up of each start before its first trial; empty if the plan has no warm-ups
    /// of starts.
    pub warm_ups: Vec<WarmUpResult>,
    /// Program of the subject's busiest process; `None`: not read, or not readable.
    pub binary: Option<Binary>,
    /// Activity of the subject while it was idle; `None`: not measured.
    pub idle: Option<Idle>,
    /// Memory per connection, and per request in flight.
    pub memory: MemorySlopes,
    /// Cost of the probes to the subject; `None`: not measured.
    pub probe_price: Option<PriceResult>,
    /// Durations of the warm-ups.
    pub warm_up_s: Repeated,
    /// Stop times over the starts: from the signal to the end of the last process.
    pub stop_ms: Repeated,
    /// Number of starts whose processes had to be killed.
    pub stop_killed: usize,
    /// The subject's back ends, in the order of their starts.
    pub backends: Vec<BackendResult>,
    /// Responses and CPU time of each start over its whole life.
    pub lifetimes: Lifetimes,
    /// Every check, summarized over all starts, before, during and after the load.
    pub checks: Vec<CheckSummary>,
    /// Limits as read back in the arm's first start.
    pub limits: Vec<LimitReadBack>,
    pub conditions: ConditionsResult,
    /// Reason why the subject was skipped; `None`: not skipped.
    pub skipped: Option<String>,
    /// Failures of its build and its starts, in order of time.
    pub failures: Vec<SubjectFailure>,
}

impl SubjectFailure {
    /// Whether the build failed, and not a single start.
    pub(crate) const fn is_of_build(&self) -> bool {
        self.repeat == 0
    }

    /// Whether the server is at fault. A feature that this machine lacks is not the server's fault.
    pub(crate) fn is_servers_fault(&self) -> bool {
        self.failure.kind.is_caused_by_subject() && self.failure.kind != FailureKind::Skipped
    }
}

/// Planned conditions of an arm. The environment is omitted, because it may contain secrets.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ConditionsResult {
    /// The arm's value on the varied scale, such as a number of CPUs; `None`: no scale.
    pub level: Option<f64>,
    pub limits: plan::Limits,
    pub placement: plan::Placement,
    /// Values of `{request.NAME}` in requests to the subject, by name; `null`: the name suggests a
    /// secret.
    pub request: BTreeMap<String, Option<String>>,
    /// Changes to the run's load; `null` fields are unchanged.
    pub load: plan::LoadChanges,
    pub isolation: plan::Isolation,
    /// Probes in addition to the probes that always run.
    pub observe: BTreeSet<dyno_model::probe::Probe>,
}

/// Result of one contract check over one protocol of a subject, over all starts, before, during and
/// after the load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckSummary {
    /// Name, followed by the protocol if it is not plain HTTP/1.1: `json`, `json over h2`.
    pub name: String,
    pub protocol: Protocol,
    /// Whether the check never failed.
    pub ok: bool,
    /// Whether the check failed, and the subject's file allows this failure.
    pub waived: bool,
    /// Whether the check failed only because its response came late, or because an overloaded
    /// server sent no response.
    pub late: bool,
    /// The request; `null`: the archive does not have it.
    pub asked: Option<String>,
    /// The expected response; `null`: the archive does not have it.
    pub expected: Option<String>,
    /// Detail of the first failure, or of the first result if the check never failed. It has the
    /// response, and for a failure also the request and the expectation.
    pub detail: String,
    pub passed: usize,
    pub failed: usize,
}

/// A failed build or start of a subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SubjectFailure {
    /// Repeat, counted from 1; 0: the build failed.
    pub repeat: u32,
    #[serde(flatten)]
    pub failure: Failure,
    /// The only protocol that the failure affects; `null`: the failure affects the whole start.
    pub protocol: Option<Protocol>,
    /// Name of the program that wrote `log_tail`: the subject's arm, or a back end; `null`: no log
    /// was stored.
    pub log_of: Option<String>,
    /// Last lines that the server or a back end wrote; `None`: no log was stored.
    pub log_tail: Option<String>,
}

/// Activity of a server that received no requests, before its first load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Idle {
    pub length_s: f64,
    /// CPU time per second.
    pub cpus: Option<f64>,
    /// Wake-ups of the server's threads per second.
    pub wakeups_per_s: Option<f64>,
}

impl Idle {
    /// Computes the activity per second; `None`: no time was measured.
    fn new(idle: &IdleUse) -> Option<Idle> {
        let length_s = Some(idle.length_ns as f64 / 1e9).filter(|s| *s > 0.0)?;
        Some(Idle {
            length_s,
            cpus: idle.cpu_ns.map(|ns| ns as f64 / 1e9 / length_s),
            wakeups_per_s: idle.wakeups.map(|n| n as f64 / length_s),
        })
    }
}

/// Returns the CPU time of each arm without requests, if a start of it measured it.
pub(crate) fn without_requests<'a>(
    plan: &Plan,
    starts: impl IntoIterator<Item = &'a StartRecord>,
) -> BTreeMap<usize, WithoutRequests> {
    let of_start = |start: &'a StartRecord| {
        let launch = &plan.launches[start.launch];
        launch.arms.iter().filter_map(move |arm| {
            let (_, part) = arm_part(start, launch, *arm)?;
            let cpus = Idle::new(part.idle.as_ref()?)?.cpus?;
            Some((*arm, WithoutRequests::from_cpus(cpus)))
        })
    };
    starts.into_iter().flat_map(of_start).collect()
}

/// Computes the result of an arm.
pub(crate) fn subject(run: &Run, arm: usize, trials: &[TrialResult]) -> SubjectResult {
    let plan = &run.header.plan;
    let (arm_plan, planned) = (&plan.arms[arm], plan.subject_of(arm));
    let launches = &plan.launches;
    let starts: Vec<&StartRecord> =
        run.starts.iter().filter(|s| launches[s.launch].arms.contains(&arm)).collect();
    let parts_with_repeat: Vec<(u32, &PartStart)> =
        starts.iter().filter_map(|start| arm_part(start, &launches[start.launch], arm)).collect();
    let parts: Vec<&PartStart> = parts_with_repeat.iter().map(|(_, part)| *part).collect();
    let ms = |ns: u64| ns as f64 / 1e6;
    let warm_ups = warm_up::results(&parts_with_repeat);
    SubjectResult {
        id: arm_plan.name.clone(),
        name: planned.name.clone(),
        variant: planned.variant.clone(),
        title: titles(plan).swap_remove(arm),
        language: planned.language.clone(),
        description: planned.description.clone(),
        version: planned.version.clone(),
        version_id: SubjectVersion::new(planned),
        control: planned.control,
        build: planned.build.as_ref().map(build_result),
        startup_ms: summarize_startup(&parts),
        backends: backend::arm_backends(plan, arm, &starts),
        warm_up_s: Repeated::new(warm_ups.iter().map(|w| w.took_s).collect()),
        warm_ups,
        binary: parts.iter().find_map(|p| p.binary.clone()),
        idle: parts.iter().find_map(|p| Idle::new(p.idle.as_ref()?)),
        memory: MemorySlopes::new(&trials.iter().filter(|t| t.cell.arm == arm).collect::<Vec<_>>()),
        probe_price: parts.iter().find_map(|p| p.probe_price.as_ref()).map(PriceResult::new),
        stop_ms: Repeated::new(
            parts.iter().filter_map(|p| p.stop).map(|s| ms(s.took_ns)).collect(),
        ),
        stop_killed: parts.iter().filter_map(|p| p.stop).filter(|s| s.killed).count(),
        lifetimes: lifetimes(run, arm),
        checks: check_summaries(&starts, run, arm),
        limits: parts.first().map(|p| p.limits.clone()).unwrap_or_default(),
        conditions: conditions(arm_plan),
        skipped: planned.skipped.clone(),
        failures: failures(planned, &starts, launches),
    }
}

/// Returns an arm's part of a start, and the repeat, counted from 1; `None`: the part was not
/// started.
fn arm_part<'a>(
    start: &'a StartRecord,
    launch: &Launch,
    arm: usize,
) -> Option<(u32, &'a PartStart)> {
    Some((launch.block + 1, start.part(launch.party_of(arm)?)?))
}

/// Returns a unique title for each arm: the subject's title, followed by the arm's name if it
/// differs from the subject's id. Equal titles are extended by the variant, otherwise by the arm's
/// name.
#[must_use]
pub(crate) fn titles(plan: &Plan) -> Vec<String> {
    let plain = |arm: usize| {
        let (name, subject) = (&plan.arms[arm].name, plan.subject_of(arm));
        if *name == subject.id() {
            subject.title.clone()
        } else {
            format!("{}, {name}", subject.title)
        }
    };
    let with_variant = |arm: usize| {
        let variant = plan.subject_of(arm).variant.as_ref();
        variant.map_or_else(|| plain(arm), |variant| format!("{} ({variant})", plain(arm)))
    };
    let with_name = |arm: usize| format!("{} ({})", plain(arm), plan.arms[arm].name);
    let mut titles: Vec<String> = (0..plan.arms.len()).map(plain).collect();
    for longer in [&with_variant as &dyn Fn(usize) -> String, &with_name] {
        equal_texts(&titles).into_iter().for_each(|arm| titles[arm] = longer(arm));
    }
    // An extended title may equal another title. Arms with equal titles get their unique names as
    // titles.
    equal_texts(&titles).into_iter().for_each(|arm| titles[arm].clone_from(&plan.arms[arm].name));
    titles
}

/// Returns the indices of texts that occur more than once, ignoring spaces and case.
fn equal_texts(texts: &[String]) -> Vec<usize> {
    let normalized =
        |text: &String| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let texts_normalized: Vec<String> = texts.iter().map(normalized).collect();
    (0..texts_normalized.len())
        .filter(|index| {
            texts_normalized.iter().filter(|other| **other == texts_normalized[*index]).count() > 1
        })
        .collect()
}

/// Returns the planned conditions of an arm, without values that may be secret.
fn conditions(arm: &Arm) -> ConditionsResult {
    let Conditions { limits, placement, load, isolation, observe, request, .. } =
        arm.conditions.clone();
    let without_secret = |(name, value): (String, String)| {
        let is_visible = !may_be_secret(&name);
        (name, is_visible.then_some(value))
    };
    let request = request.into_iter().map(without_secret).collect();
    ConditionsResult { level: arm.level, limits, placement, request, load, isolation, observe }
}

/// Returns the failures of an arm's build and starts, in order of time.
fn failures(
    planned: &plan::Subject,
    starts: &[&StartRecord],
    launches: &[plan::Launch],
) -> Vec<SubjectFailure> {
    let build = planned.build_failed.iter().map(|reason| SubjectFailure {
        repeat: 0,
        failure: Failure { kind: FailureKind::BuildFailed, message: reason.clone() },
        protocol: None,
        log_of: None,
        log_tail: None,
    });
    // A failure that the subject did not cause is omitted if a later start of the same launch
    // succeeded.
    let is_superseded = |s: &StartRecord, failure: &Failure| {
        let later = |other: &&&StartRecord| other.launch == s.launch && other.start > s.start;
        !failure.kind.is_caused_by_subject()
            && starts
                .iter()
                .filter(later)
                .any(|other| other.failure.is_none() && !other.was_killed())
    };
    let start_failure = |s: &&StartRecord| {
        if s.failure.as_ref().is_some_and(|failure| is_superseded(s, failure)) {
            return None;
        }
        let failure = s.failure.clone().filter(|f| f.kind != FailureKind::Interrupted)?;
        let log = explaining_log(s, failure.kind);
        Some(SubjectFailure {
            repeat: launches[s.launch].block + 1,
            failure,
            protocol: None,
            log_of: log.map(|part| part.name.clone()),
            log_tail: log.and_then(|part| part.log_tail.clone()),
        })
    };
    // Failures that affect only some protocols of a start.
    let refusals = starts.iter().flat_map(|s| {
        // A failed lifecycle check excludes every protocol, but is reported only once.
        let is_reported = |protocol: &Protocol, check: &CheckResult| {
            !check.is_lifecycle || *protocol == check.protocol
        };
        let unreported =
            s.refused_protocols().into_iter().filter(|(_, check)| !message_has_check(s, check));
        let unreported = unreported.filter(move |(protocol, check)| is_reported(protocol, check));
        unreported.map(|(protocol, check)| SubjectFailure {
            repeat: launches[s.launch].block + 1,
            failure: Failure {
                kind: FailureKind::IncorrectResponses,
                message: format!(
                    "no load was run over {protocol}, because the check {:?} failed: {}",
                    check.name,
                    check.detail()
                ),
            },
            protocol: Some(protocol),
            log_of: s
                .subject()
                .filter(|part| part.log_tail.is_some())
                .map(|part| part.name.clone()),
            log_tail: s.subject().and_then(|part| part.log_tail.clone()),
        })
    });
    let mut failures_by_repeat: Vec<SubjectFailure> =
        build.chain(starts.iter().filter_map(start_failure)).chain(refusals).collect();
    failures_by_repeat.sort_by_key(|failure| failure.repeat);
    failures_by_repeat
}

/// Whether the message of a start's failure includes a check.
fn message_has_check(start: &StartRecord, check: &CheckResult) -> bool {
    start.failure.as_ref().is_some_and(|failure| failure.message.contains(&check.detail()))
}

/// Returns the part whose log best explains a failure: for a failed back end, the back end,
/// otherwise the subject. `None`: no part has a log.
fn explaining_log(start: &StartRecord, kind: FailureKind) -> Option<&PartStart> {
    let has_log = |part: &&PartStart| part.log_tail.is_some();
    let (backends, subjects): (Vec<&PartStart>, Vec<&PartStart>) = start
        .parts
        .iter()
        .filter(has_log)
        .partition(|part| matches!(part.party, Party::Backend(_)));
    let is_named = |part: &&&PartStart| {
        start.failure.as_ref().is_some_and(|failure| {
            [' ', ':']
                .iter()
                .any(|end| failure.message.contains(&format!("back end {}{end}", part.name)))
        })
    };
    let backend_log = || backends.iter().find(is_named).or(backends.last()).copied();
    match kind {
        FailureKind::BackendFailed => backend_log().or(subjects.first().copied()),
        _ => subjects.first().copied().or_else(backend_log),
    }
}

/// Summarizes the checks before, during and after the load, by name and protocol.
fn check_summaries(starts: &[&StartRecord], run: &Run, arm: usize) -> Vec<CheckSummary> {
    let launches = &run.header.plan.launches;
    let during = run.trials.iter().filter(|t| run.header.plan.trials[t.trial].arm == arm);
    let before_and_after =
        starts.iter().flat_map(|start| checks_of_server(start, &launches[start.launch], arm));
    let checks = before_and_after.chain(during.flat_map(|t| &t.checks));
    let mut order: Vec<String> = Vec::new();
    let mut by_name: BTreeMap<String, Vec<&CheckResult>> = BTreeMap::new();
    for check in checks {
        let name = check_name(check);
        if !by_name.contains_key(&name) {
            order.push(name.clone());
        }
        by_name.entry(name).or_default().push(check);
    }
    order.into_iter().map(|name| check_summary(&by_name[&name])).collect()
}

/// Returns the checks of a start whose results are the server's own. If a back end or the machine
/// failed, failed checks are not.
fn checks_of_server<'a>(
    start: &'a StartRecord,
    launch: &Launch,
    arm: usize,
) -> impl Iterator<Item = &'a CheckResult> {
    let part = arm_part(start, launch, arm).map(|(_, part)| part);
    let checks =
        part.into_iter().flat_map(|part| part.checks_before.iter().chain(&part.checks_after));
    checks.filter(|check| check.ok || check.waived || !start.other_part_failed())
}

/// Returns the name of a check, which is unique among the checks of its subject.
fn check_name(check: &CheckResult) -> String {
    match check.protocol {
        Protocol::H1 => check.name.clone(),
        protocol => format!("{} over {protocol}", check.name),
    }
}

/// Summarizes the results of one check.
fn check_summary(results: &[&CheckResult]) -> CheckSummary {
    let failures: Vec<&&CheckResult> = results.iter().filter(|c| !c.ok).collect();
    // An incorrect response is more informative than a late one.
    let worst = failures.iter().find(|c| c.has_response).or(failures.first());
    let representative = worst.copied().unwrap_or(&results[0]);
    CheckSummary {
        name: check_name(representative),
        protocol: representative.protocol,
        ok: failures.is_empty(),
        waived: failures.iter().any(|c| c.waived),
        late: !failures.is_empty() && failures.iter().all(|c| !c.has_response),
        asked: Some(representative.asked.clone()).filter(|text| !text.is_empty()),
        expected: Some(representative.expected.clone()).filter(|text| !text.is_empty()),
        detail: representative.detail(),
        passed: results.len() - failures.len(),
        failed: failures.len(),
    }
}

#[cfg(test)]
mod tests {
    use dyno_model::start::{self, LimitKind, StopRecord, WarmUpEnd};

    use super::*;
    use crate::fixture;

    const MS: u64 = 1_000_000;

    fn check(name: &str, ok: bool, detail: &str) -> CheckResult {
        fixture::check(name, ok, detail)
    }

    /// Returns a start of one of two subjects.
    fn start(
        number: usize,
        (subject, block): (usize, usize),
        failed: Option<FailureKind>,
    ) -> StartRecord {
        let failure = failed.map(|kind| Failure { kind, message: format!("start {number}") });
        StartRecord {
            start: number,
            launch: 2 * block + subject,
            failure,
            ..StartRecord::default()
        }
    }

    /// Returns the titles of arms of these subjects: each with a name, a variant and a title.
    fn titles_of(subjects: &[(&str, Option<&str>, &str)]) -> Vec<String> {
        let subject = |(name, variant, title): &(&str, Option<&str>, &str)| plan::Subject {
            name: (*name).into(),
            variant: variant.map(Into::into),
            title: (*title).into(),
            ..plan::Subject::default()
        };
        titles(&fixture::plan(subjects.iter().map(subject).collect()))
    }

    #[test]
    fn cpus_without_requests_are_those_of_first_start() {
        let plan = fixture::plan(vec![plan::Subject::default(), plan::Subject::default()]);
        let with_idle = |number, (subject, block), cpu_ns| {
            let mut part = PartStart::new(dyno_model::Party::SUBJECT, "s".into());
            part.idle = Some(IdleUse { length_ns: 1000 * MS, cpu_ns, wakeups: None });
            StartRecord { parts: vec![part], ..start(number, (subject, block), None) }
        };
        let first = with_idle(0, (0, 0), Some(820 * MS));
        let unknown = with_idle(1, (1, 0), None);
        let second = start(2, (0, 1), None);
        let expected = [(0, WithoutRequests::Uses(0.82))].into();
        assert_eq!(without_requests(&plan, &[first, unknown, second]), expected);
    }

    #[test]
    fn arms_with_equal_titles_get_unique_titles() {
        let workers = |variant| ("workers", variant, "Workers");
        assert_eq!(
            titles_of(&[workers(None), workers(Some("recycled")), ("go", None, "Go")]),
            ["Workers", "Workers (recycled)", "Go"]
        );
        assert_eq!(
            titles_of(&[workers(Some("a")), workers(Some("b"))]),
            ["Workers (a)", "Workers (b)"]
        );
        // Two servers with the same title, ignoring spaces and case, and the same variant.
        let same = [("x", Some("v"), "Web  server"), ("y", Some("v"), "web server")];
        assert_eq!(titles_of(&same), ["Web  server (x/v)", "web server (y/v)"]);
        assert_eq!(titles_of(&[("x", None, "T"), ("y", None, "T")]), ["T (x)", "T (y)"]);
        // A title that equals another title with its variant.
        let titles = titles_of(&[workers(None), workers(Some("a")), ("z", None, "Workers (a)")]);
        assert_eq!(titles.iter().collect::<BTreeSet<_>>().len(), 3, "{titles:?}");
        // Unique titles are unchanged.
        assert_eq!(titles_of(&[("x", None, "A"), ("x", Some("v"), "B")]), ["A", "B"]);
    }

    fn result(subjects: [plan::Subject; 2], starts: Vec<StartRecord>) -> SubjectResult {
        subject(&fixture::run(fixture::plan(subjects.into()), starts, Vec::new()), 1, &[])
    }

    fn plan_subject(name: &str) -> plan::Subject {
        plan::Subject { name: name.into(), ..plan::Subject::default() }
    }

    #[test]
    fn refusal_is_reported_despite_later_failures() {
        let refused = |number: usize, kind: Option<FailureKind>, message: &str| {
            let mut part = PartStart::new(Party::SUBJECT, "own".into());
            part.checks_before = vec![CheckResult {
                protocol: Protocol::H2c,
                ..check("json", false, "a body too many")
            }];
            let failure = kind.map(|kind| Failure { kind, message: message.into() });
            StartRecord { parts: vec![part], failure, ..start(number, (1, number), None) }
        };
        let reported = check("json", false, "a body too many").detail();
        let result = result(
            [plan_subject("other"), plan_subject("own")],
            vec![
                refused(0, None, ""),
                refused(1, Some(FailureKind::Crashed), "it ended"),
                refused(
                    2,
                    Some(FailureKind::IncorrectResponses),
                    &format!("check \"json\": {reported}"),
                ),
            ],
        );
        let failures: Vec<_> =
            result.failures.iter().map(|f| (f.repeat, f.failure.kind, f.protocol)).collect();
        let h2c = Some(Protocol::H2c);
        let wrong = FailureKind::IncorrectResponses;
        assert_eq!(
            failures,
            [(1, wrong, h2c), (2, FailureKind::Crashed, None), (2, wrong, h2c), (3, wrong, None)]
        );
    }

    #[test]
    fn failed_checks_count_only_if_no_other_part_failed() {
        use FailureKind::{BackendFailed, Crashed, Harness};
        let counts = |failed| {
            let mut part = PartStart::new(Party::SUBJECT, "own".into());
            part.checks_before = vec![check("json", true, "")];
            part.checks_after = vec![check("json", false, "a body too many")];
            let start = StartRecord { parts: vec![part], ..start(0, (1, 0), failed) };
            let result = result([plan_subject("other"), plan_subject("own")], vec![start]);
            let [json] = &result.checks[..] else { panic!("{:?}", result.checks) };
            (json.passed, json.failed)
        };
        assert_eq!([None, Some(Crashed)].map(counts), [(1, 1); 2]);
        assert_eq!([BackendFailed, Harness].map(|kind| counts(Some(kind))), [(1, 0); 2]);
    }

    #[test]
    fn startup_times_exclude_other_subjects() {
        let started = |number: usize, launch: (usize, usize), ms: u64, killed: bool| {
            let mut warm = fixture::warm_up(WarmUpEnd::Steady, 0, None);
            let part = &mut warm.parts[0];
            part.startup = Some(start::Startup {
                listening_ns: Some(ms * MS),
                first_response_ns: Some((ms + 1) * MS),
                ready_ns: (ms + 1) * MS,
                cpu_ns: Some(7 * MS),
                strays: 0,
            });
            part.stop = Some(StopRecord { took_ns: 2 * ms * MS, killed });
            part.limits = vec![LimitReadBack {
                kind: LimitKind::Memory,
                asked: ms.to_string(),
                read_back: None,
                reason: None,
            }];
            StartRecord { parts: warm.parts, ..start(number, launch, None) }
        };
        let build = plan::Build {
            wall_ns: 1500 * MS,
            cpu_ns: Some(2500 * MS),
            artefact_bytes: 7,
            ..plan::Build::default()
        };
        let subject = result(
            [plan_subject("other"), plan::Subject { build: Some(build), ..plan_subject("own") }],
            vec![
                started(0, (0, 0), 900, true),
                started(1, (1, 0), 10, true),
                started(2, (1, 1), 20, false),
                started(3, (1, 2), 30, true),
            ],
        );
        assert_eq!(subject.startup_ms.listening.values, [10.0, 20.0, 30.0]);
        assert_eq!(subject.startup_ms.first_response.values, [11.0, 21.0, 31.0]);
        assert_eq!(subject.startup_ms.cpu.values, [7.0; 3]);
        assert_eq!((subject.stop_ms.values, subject.stop_killed), (vec![20.0, 40.0, 60.0], 2));
        assert_eq!((subject.warm_up_s.values.len(), subject.limits[0].asked.as_str()), (3, "10"));
        let built = subject.build.unwrap();
        assert_eq!((built.wall_s, built.cpu_s), (1.5, Some(2.5)));
    }

    #[test]
    fn later_start_clears_failures_not_of_subject() {
        use FailureKind::{BackendFailed, Crashed, Harness, Interrupted};
        let failures_after =
            |starts: &[((usize, usize), Option<FailureKind>)]| -> Vec<(u32, String)> {
                let starts = starts
                    .iter()
                    .enumerate()
                    .map(|(n, (failures_after, failed))| start(n, *failures_after, *failed))
                    .collect();
                let subject = result([plan_subject("other"), plan_subject("own")], starts);
                subject.failures.into_iter().map(|f| (f.repeat, f.failure.message)).collect()
            };
        let reported = |repeat: u32, start: usize| (repeat, format!("start {start}"));
        assert_eq!(failures_after(&[((1, 0), Some(Harness))]), [reported(1, 0)]);
        assert_eq!(failures_after(&[((1, 0), Some(Harness)), ((1, 0), None)]), []);
        let repaired = [((1, 0), Some(Harness)), ((1, 0), Some(Interrupted)), ((1, 0), None)];
        assert_eq!(failures_after(&repaired), [], "the first resume was interrupted");
        assert_eq!(
            failures_after(&[((1, 0), Some(BackendFailed)), ((1, 0), Some(Crashed))]),
            [reported(1, 0), reported(1, 1)]
        );
        assert_eq!(
            failures_after(&[((1, 0), None), ((1, 0), Some(Harness))]),
            [reported(1, 1)],
            "an earlier start does not clear a failure"
        );
        assert_eq!(
            failures_after(&[((1, 0), Some(Harness)), ((1, 1), None)]),
            [reported(1, 0)],
            "a start of another launch does not clear a failure"
        );
        assert_eq!(
            failures_after(&[((1, 2), Some(Crashed)), ((1, 2), None)]),
            [reported(3, 0)],
            "a failure of the subject is not cleared"
        );
        assert_eq!(failures_after(&[((1, 0), Some(Interrupted)), ((0, 0), Some(Crashed))]), []);
        let unbuilt = plan::Subject { build_failed: Some("no".into()), ..plan_subject("own") };
        let failures = result([plan_subject("other"), unbuilt], Vec::new()).failures;
        assert_eq!((failures[0].repeat, failures[0].failure.kind), (0, FailureKind::BuildFailed));
    }

    #[test]
    fn check_summary_is_ok_if_it_never_failed() {
        let mut record = start(0, (1, 0), None);
        let mut part = PartStart::new(Party::SUBJECT, "own".into());
        part.checks_before = vec![check("length", true, "5"), check("date", true, "now")];
        part.checks_after = vec![check("length", false, "6"), check("length", false, "7")];
        record.parts = vec![part];
        let mut plan = fixture::plan(vec![plan_subject("other"), plan_subject("own")]);
        plan.trials = [0, 1]
            .map(|launch| plan::Trial { launch, arm: launch, workload: 0, step: 0, seed: 0 })
            .into();
        let trials = ["others", "during"].into_iter().enumerate().map(|(number, name)| {
            let mut trial = fixture::trial_record(number, fixture::record(1));
            trial.checks = vec![check(name, true, "it")];
            trial
        });
        let run = fixture::run(plan, vec![record], trials.collect());
        let summaries = subject(&run, 1, &[]).checks;
        let reported: Vec<_> = summaries
            .iter()
            .map(|c| (c.name.as_str(), c.ok, c.detail.as_str(), c.passed, c.failed))
            .collect();
        assert_eq!(
            reported,
            [
                ("length", false, "6", 1, 2),
                ("date", true, "now", 1, 0),
                ("during", true, "it", 1, 0)
            ]
        );
    }
}
