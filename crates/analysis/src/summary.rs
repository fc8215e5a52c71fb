//! Over repeats and across subjects: summaries per step, the overview, comparisons.

use dyno_archive::plan::{Plan, Step};
use schemars::JsonSchema;
use serde::Serialize;

use crate::caveat::{Code, Severity};
use crate::load::Percentiles;
use crate::load::place::StepUnanswered;
use crate::metric::{self, ByMetric, OverStep, Ratios};
use crate::stats::{ByBlock, PAIRS_TO_TELL_APART, Repeated, are_apart, tie_groups};
use crate::subject::SubjectResult;
use crate::trial::TrialResult;
use crate::verdict::{Confidence, Limiter, Peak, Resource};

/// One subject, workload and step over all its repeats. Values of trials that are not valid are left out of the
/// quantities and counted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    pub subject: String,
    pub workload: String,
    pub step: usize,
    pub connections: u32,
    pub streams: u32,
    pub pipeline: u32,
    pub rate: Option<f64>,
    pub trials: usize,
    pub invalid: usize,
    pub throughput_rps: Repeated,
    pub response_p50_us: Repeated,
    pub response_p90_us: Repeated,
    pub response_p99_us: Repeated,
    /// Percentiles of it that are missing above are longer than its longest wait.
    pub response_unanswered: StepUnanswered,
    pub cpu_us_per_request: Repeated,
    /// Anonymous memory (resident, where that is all there is), highest sample of the window.
    pub memory_bytes: Repeated,
    pub memory_mb_s_per_request: Repeated,
    pub context_switches_per_request: Repeated,
    /// Failed or wrongly answered, of those due, over all repeats: 0 to 1.
    pub error_share: Repeated,
    /// Every metric by its key, those above among them; without those of which nothing is known.
    pub metrics: ByMetric,
    /// What limited most of the repeats; a guess where no verdict has most.
    pub limiter: Resource,
    pub limiter_confidence: Confidence,
    pub limiter_sentence: String,
    /// Warnings, and reasons to refuse, that any of the repeats has.
    pub caveats: Vec<StepCaveat>,
}

impl Summary {
    /// What a metric comes to, by its key; `None`: nothing is known of it.
    #[must_use]
    pub fn metric(&self, key: &str) -> Option<&OverStep> {
        self.metrics.get(key)
    }
}

/// A caveat that touches a step, with the repeats it touches.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepCaveat {
    pub code: Code,
    pub severity: Severity,
    pub repeats: usize,
    /// As it stands at the first of them.
    pub message: String,
}

/// What tells one step of a workload from another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Shape {
    pub connections: u32,
    pub streams: u32,
    pub pipeline: u32,
    /// Requests per second offered; `None` in a closed loop, and where the rate changes.
    pub rate: Option<f64>,
}

impl Shape {
    fn of(step: &Step) -> Shape {
        Shape {
            connections: step.connections,
            streams: step.streams,
            pipeline: step.pipeline,
            rate: step.arrivals.rate(),
        }
    }
}

/// One subject in the overview. Its figures are of two steps at most, and each says of which.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OverviewRow {
    pub subject: String,
    pub workload: String,
    /// The subject's; with the workload's name where there are several.
    pub title: String,
    pub language: String,
    pub control: bool,
    pub baseline: bool,
    /// Best valid throughput over the steps, and the step; of steps with repeats enough to tell subjects apart, if there are any.
    pub peak_rps: Option<Repeated>,
    pub peak_at: Option<Shape>,
    pub peak_connections: Option<u32>,
    pub peak_streams: Option<u32>,
    /// Subjects of the same number are not told apart from the first of them by peak throughput; `None`: too few valid repeats.
    pub tie_group: Option<usize>,
    /// The step at which response times, CPU and cost are given: the one of the workload that is nearest to 64 in flight.
    pub reference_step: usize,
    pub reference_at: Shape,
    pub reference_connections: u32,
    /// Requests in flight there: connections × streams × pipeline.
    pub reference_in_flight: u64,
    pub response_p50_us: Option<f64>,
    pub response_p99_us: Option<f64>,
    pub cpu_us_per_request: Option<f64>,
    /// Price of the CPU time of 10⁹ requests at the reference step, in the currency of `[cost] per_vcpu_hour`.
    pub cost_per_billion_requests: Option<f64>,
    /// Highest anonymous memory (resident, where that is all there is) in any sample of any measured window. Not the
    /// kernel's own peak, which holds page cache.
    pub memory_peak_bytes: Option<f64>,
    pub startup_ms: Option<f64>,
    pub errors: u64,
    pub checks_passed: usize,
    pub checks: usize,
    /// Of the step of the peak, or of the reference step if there is no peak.
    pub limiter: Option<Resource>,
    pub limiter_confidence: Option<Confidence>,
    pub limiter_sentence: Option<String>,
    /// What touches the step of the peak, or the reference step if there is no peak.
    pub caveats: Vec<StepCaveat>,
    /// Why there are no numbers.
    pub absent: Option<String>,
}

/// A subject against the baseline at one step: ratios of block-paired repeats.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    pub subject: String,
    pub baseline: String,
    pub workload: String,
    pub step: usize,
    pub connections: u32,
    pub streams: u32,
    pub pipeline: u32,
    pub throughput_ratio: Repeated,
    pub response_p99_ratio: Repeated,
    pub cpu_per_request_ratio: Repeated,
    /// The ratio of every metric by its key, those above among them; without those of which no ratio is known.
    pub metrics: Ratios,
    /// Whether the pairs do not tell the two apart ([`are_apart`]).
    pub tie: bool,
}

/// Summarises trials by subject, workload and step, in the plan's order.
#[must_use]
pub fn summaries(plan: &Plan, trials: &[TrialResult]) -> Vec<Summary> {
    let mut all = Vec::new();
    for subject in &plan.subjects {
        for workload in &plan.workloads {
            for step in 0..plan.load.steps.len() {
                let id = subject.id();
                let of_step: Vec<&TrialResult> = trials
                    .iter()
                    .filter(|t| t.subject_id == id && t.workload == workload.name && t.step.index == step)
                    .collect();
                if !of_step.is_empty() {
                    all.push(summary(&id, &of_step));
                }
            }
        }
    }
    all
}

fn summary(subject: &str, trials: &[&TrialResult]) -> Summary {
    let valid: Vec<&&TrialResult> = trials.iter().filter(|t| t.valid).collect();
    let response: Vec<&Percentiles> = valid.iter().map(|t| &t.load.response_time_us).collect();
    let first = trials[0];
    // What limited repeats that are refused says nothing of the numbers beside it.
    let judged: Vec<&TrialResult> = trials.iter().copied().filter(|t| t.valid || valid.is_empty()).collect();
    let verdicts: Vec<&Limiter> = judged.iter().map(|t| &t.limiter).collect();
    let leading = leading_limiter(&verdicts);
    Summary {
        subject: subject.into(),
        workload: first.workload.clone(),
        step: first.step.index,
        connections: first.step.connections,
        streams: first.step.streams,
        pipeline: first.step.pipeline,
        rate: first.step.rate,
        trials: trials.len(),
        invalid: trials.len() - valid.len(),
        throughput_rps: metric::THROUGHPUT.of_step(trials),
        response_p50_us: metric::RESPONSE_P50.of_step(trials),
        response_p90_us: metric::RESPONSE_P90.of_step(trials),
        response_p99_us: metric::RESPONSE_P99.of_step(trials),
        response_unanswered: StepUnanswered::new(&response),
        cpu_us_per_request: metric::CPU.of_step(trials),
        memory_bytes: metric::MEMORY.of_step(trials),
        memory_mb_s_per_request: metric::MEMORY_TIME.of_step(trials),
        context_switches_per_request: metric::CONTEXT_SWITCHES.of_step(trials),
        error_share: metric::ERROR_SHARE.of_step(trials),
        metrics: metric::of_step(trials),
        limiter: leading.resource,
        limiter_confidence: leading.confidence,
        limiter_sentence: leading.sentence,
        caveats: step_caveats(trials),
    }
}

fn step_caveats(trials: &[&TrialResult]) -> Vec<StepCaveat> {
    let mut all: Vec<StepCaveat> = Vec::new();
    for caveat in trials.iter().flat_map(|t| &t.caveats).filter(|c| c.severity > Severity::Info) {
        match all.iter_mut().find(|c| c.code == caveat.code) {
            Some(known) => {
                known.repeats += 1;
                known.severity = known.severity.max(caveat.severity);
            }
            None => all.push(StepCaveat {
                code: caveat.code,
                severity: caveat.severity,
                repeats: 1,
                message: caveat.message.clone(),
            }),
        }
    }
    all.sort_by_key(|c| std::cmp::Reverse(c.severity));
    all
}

/// The verdict of most repeats; the first of those that as many have, as a guess.
fn leading_limiter(verdicts: &[&Limiter]) -> Limiter {
    let votes = |r: Resource| verdicts.iter().filter(|v| v.resource == r).count();
    let most = verdicts.iter().map(|v| votes(v.resource)).max().unwrap_or(0);
    let first = verdicts.iter().find(|v| votes(v.resource) == most).expect("a summary has trials");
    let mut leading = Limiter::clone(first);
    if 2 * most <= verdicts.len() {
        leading.confidence = Confidence::Low;
        leading.sentence.push_str(&format!(
            " That is so in {most} of {} repeats, and the others have other verdicts.",
            verdicts.len()
        ));
    }
    leading
}

/// The step at which subjects are compared: of those that a workload has, the one nearest to 64 requests in flight, of the
/// first pipeline depth, streams and rate. By connections alone it would set workloads of one stream and of many side by side
/// at very different concurrency.
#[must_use]
pub fn reference_step(all: &[Step], steps: &[usize]) -> usize {
    const REFERENCE: u64 = 64;
    let step = |i: usize| &all[i];
    let first = steps.first().copied().unwrap_or(0);
    let like_first = |i: &usize| {
        let (step, first) = (step(*i), step(first));
        step.pipeline == first.pipeline && step.streams == first.streams && step.arrivals == first.arrivals
    };
    let nearest = steps.iter().copied().filter(like_first);
    nearest.min_by_key(|i| in_flight(step(*i)).abs_diff(REFERENCE)).unwrap_or(first)
}

fn in_flight(step: &Step) -> u64 {
    u64::from(step.connections) * u64::from(step.streams) * u64::from(step.pipeline)
}

/// The overview, best peak throughput first, controls and absent subjects last. Where a suite has several workloads, each that
/// a subject got has a row, and workloads follow one another.
#[must_use]
pub fn overview(
    plan: &Plan,
    subjects: &[SubjectResult],
    trials: &[TrialResult],
    summaries: &[Summary],
) -> Vec<OverviewRow> {
    let mut all = Vec::new();
    for (number, workload) in plan.workloads.iter().enumerate() {
        let has =
            |s: &&SubjectResult| summaries.iter().any(|m| m.subject == s.id && m.workload == workload.name);
        // A subject without any numbers stands in the first workload's rows, with the reason.
        let is_absent = |s: &SubjectResult| number == 0 && !summaries.iter().any(|m| m.subject == s.id);
        let mut steps: Vec<usize> =
            summaries.iter().filter(|m| m.workload == workload.name).map(|m| m.step).collect();
        steps.sort_unstable();
        let reference = reference_step(&plan.load.steps, &steps);
        let own = subjects.iter().filter(|s| has(s) || is_absent(s));
        let mut rows: Vec<OverviewRow> =
            own.map(|s| overview_row(plan, s, &workload.name, trials, summaries, reference)).collect();
        let peak = |row: &OverviewRow| row.peak_rps.as_ref().and_then(|p| p.median).unwrap_or(-1.0);
        rows.sort_by(|a, b| a.control.cmp(&b.control).then(peak(b).total_cmp(&peak(a))));
        let ranked: Vec<usize> =
            (0..rows.len()).filter(|i| rows[*i].peak_rps.is_some() && !rows[*i].control).collect();
        let peaks: Vec<ByBlock> =
            ranked.iter().map(|i| peaks_by_block(&rows[*i], trials, summaries)).collect();
        for (i, group) in ranked.iter().copied().zip(tie_groups(&peaks)) {
            rows[i].tie_group = group;
        }
        all.extend(rows);
    }
    all
}

/// The peak of each row.
pub(crate) fn peaks(rows: &[OverviewRow]) -> Vec<Peak<'_>> {
    let peak = |row: &OverviewRow| row.peak_rps.as_ref().and_then(|peak| peak.median);
    rows.iter().map(|r| Peak { workload: &r.workload, subject: &r.subject, rps: peak(r) }).collect()
}

/// The valid repeats of a row's peak.
#[must_use]
pub fn peaks_by_block(row: &OverviewRow, trials: &[TrialResult], summaries: &[Summary]) -> ByBlock {
    let best = best_step(&row.subject, &row.workload, summaries).map(|s| s.step);
    let is_own = |t: &&TrialResult| {
        t.valid && t.subject_id == row.subject && t.workload == row.workload && Some(t.step.index) == best
    };
    trials.iter().filter(is_own).map(|t| (t.block, t.load.throughput_rps)).collect()
}

/// The step with the best valid throughput, of those with repeats enough to tell subjects apart, if there are any.
fn best_step<'a>(subject: &str, workload: &str, summaries: &'a [Summary]) -> Option<&'a Summary> {
    let own = summaries.iter().filter(|s| s.subject == subject && s.workload == workload);
    best(own.map(|s| (&s.throughput_rps, s)))
}

fn best<'a, T>(peaks: impl Iterator<Item = (&'a Repeated, T)>) -> Option<T> {
    let rank = |q: &Repeated| Some((q.values.len() >= PAIRS_TO_TELL_APART, q.median?));
    let ranked = peaks.filter_map(|(q, of)| Some((rank(q)?, of)));
    let best =
        ranked.max_by(|((a_tells, a), _), ((b_tells, b), _)| a_tells.cmp(b_tells).then(a.total_cmp(b)))?;
    Some(best.1)
}

fn overview_row(
    plan: &Plan,
    subject: &SubjectResult,
    workload: &str,
    trials: &[TrialResult],
    summaries: &[Summary],
    reference: usize,
) -> OverviewRow {
    let own: Vec<&Summary> =
        summaries.iter().filter(|s| s.subject == subject.id && s.workload == workload).collect();
    let best = best_step(&subject.id, workload, summaries);
    let at_reference = own.iter().copied().find(|s| s.step == reference);
    let of_row = || trials.iter().filter(|t| t.subject_id == subject.id && t.workload == workload);
    let median = |pick: fn(&Summary) -> &Repeated| at_reference.and_then(|s| pick(s).median);
    let peak_or_reference = best.or(at_reference);
    OverviewRow {
        subject: subject.id.clone(),
        workload: workload.into(),
        title: if plan.workloads.len() > 1 && !own.is_empty() {
            format!("{} · {workload}", subject.title)
        } else {
            subject.title.clone()
        },
        language: subject.language.clone(),
        control: subject.control,
        baseline: plan.report.baseline.as_ref() == Some(&subject.id),
        peak_rps: best.map(|s| s.throughput_rps.clone()),
        peak_at: best.map(|s| Shape::of(&plan.load.steps[s.step])),
        peak_connections: best.map(|s| s.connections),
        peak_streams: best.map(|s| s.streams),
        tie_group: None,
        reference_step: reference,
        reference_at: Shape::of(&plan.load.steps[reference]),
        reference_connections: plan.load.steps[reference].connections,
        reference_in_flight: in_flight(&plan.load.steps[reference]),
        response_p50_us: median(|s| &s.response_p50_us),
        response_p99_us: median(|s| &s.response_p99_us),
        cpu_us_per_request: median(|s| &s.cpu_us_per_request),
        cost_per_billion_requests: plan
            .cost
            .zip(median(|s| &s.cpu_us_per_request))
            // 10⁹ requests of x µs are x × 1,000 s of CPU time.
            .map(|(cost, us)| us * 1e3 / 3600.0 * cost.per_vcpu_hour),
        memory_peak_bytes: of_row().filter_map(metric::memory).reduce(f64::max),
        startup_ms: subject.startup_ms.first_answer.median,
        errors: of_row().map(|t| t.load.exchanges.lost() + t.load.outcomes.wrong()).sum(),
        checks_passed: subject.checks.iter().filter(|c| c.ok).count(),
        checks: subject.checks.len(),
        limiter: peak_or_reference.map(|s| s.limiter),
        limiter_confidence: peak_or_reference.map(|s| s.limiter_confidence),
        limiter_sentence: peak_or_reference.map(|s| s.limiter_sentence.clone()),
        caveats: peak_or_reference.map(|s| s.caveats.clone()).unwrap_or_default(),
        absent: absent(subject, best.is_none())
            .or_else(|| not_asked(plan, &subject.id).filter(|_| own.is_empty())),
    }
}

/// Why a subject has no valid numbers, or not all of them.
fn absent(subject: &SubjectResult, no_numbers: bool) -> Option<String> {
    if let Some(why) = &subject.skipped {
        return Some(format!("skipped: {why}"));
    }
    let failure = subject.failures.first()?;
    let message = failure.failure.message.lines().next().unwrap_or_default();
    let words = format!("{}: {message}", failure.failure.kind.name());
    Some(if no_numbers { words } else { format!("in part: {words}") })
}

/// Why a subject was not asked for anything.
fn not_asked(plan: &Plan, id: &str) -> Option<String> {
    let not = plan.not_served.iter().find(|n| n.workload == 0 && plan.subjects[n.subject].id() == id)?;
    Some(format!("not asked for {}: {}", plan.workloads[0].name, not.reason))
}

/// Every subject against the baseline: the one that the suite names, or the first that is no control, or the first.
#[must_use]
pub fn comparisons(plan: &Plan, trials: &[TrialResult], summaries: &[Summary]) -> Vec<Comparison> {
    let measured = || plan.subjects.iter().filter(|s| summaries.iter().any(|m| m.subject == s.id()));
    let first = measured().find(|s| !s.control).or_else(|| measured().next());
    let named = plan.report.baseline.clone().filter(|b| summaries.iter().any(|m| m.subject == *b));
    let Some(baseline) = named.or(first.map(dyno_archive::plan::Subject::id)) else {
        return Vec::new();
    };
    summaries.iter().filter(|s| s.subject != baseline).map(|s| comparison(s, &baseline, trials)).collect()
}

fn comparison(summary: &Summary, baseline: &str, trials: &[TrialResult]) -> Comparison {
    let of = |subject: &str, block: u32| {
        trials.iter().find(|t| {
            t.valid
                && t.subject_id == subject
                && t.block == block
                && t.workload == summary.workload
                && t.step.index == summary.step
        })
    };
    let last_block = trials.iter().map(|t| t.block).max().unwrap_or(0);
    // Pairs within a block ran close in time, so what drifts on the machine cancels.
    let pairs: Vec<_> =
        (1..=last_block).filter_map(|b| of(&summary.subject, b).zip(of(baseline, b))).collect();
    let throughput_ratio = metric::THROUGHPUT.ratios(&pairs);
    Comparison {
        subject: summary.subject.clone(),
        baseline: baseline.into(),
        workload: summary.workload.clone(),
        step: summary.step,
        connections: summary.connections,
        streams: summary.streams,
        pipeline: summary.pipeline,
        tie: !are_apart(&throughput_ratio.values),
        throughput_ratio,
        response_p99_ratio: metric::RESPONSE_P99.ratios(&pairs),
        cpu_per_request_ratio: metric::CPU.ratios(&pairs),
        metrics: metric::ratios(&pairs),
    }
}

#[cfg(test)]
mod tests {
    use dyno_archive::plan::{self, Arrivals, Subject, Workload};
    use dyno_archive::run::{Header, Run};
    use dyno_archive::times::Recording;
    use dyno_archive::trial::CheckResult;
    use dyno_archive::{Facts, Sample, TrialRecord};

    use super::*;
    use crate::fixture;
    use crate::report::{Report, report};

    #[test]
    fn the_reference_is_nearest_to_64_in_flight_among_like_steps() {
        let all: Vec<Step> = [(100, 1, 1), (1000, 1, 1), (10, 10, 1), (100, 10, 1), (16, 1, 1), (4, 1, 16)]
            .map(|(connections, streams, pipeline)| Step {
                connections,
                streams,
                pipeline,
                arrivals: Arrivals::Closed,
            })
            .into();
        assert_eq!(reference_step(&all, &[0, 1]), 0);
        // 100 connections are nearer to 64 than 10 are, but have 1,000 requests in flight.
        assert_eq!(reference_step(&all, &[2, 3]), 2);
        assert_eq!(reference_step(&all, &[4, 5]), 4, "another pipeline is not alike");
    }

    #[test]
    fn steps_are_alike_by_pipeline_streams_and_rate() {
        let step = |connections, streams, arrivals| Step { connections, streams, pipeline: 1, arrivals };
        let all = [
            step(100, 1, Arrivals::Closed),
            step(64, 1, Arrivals::Constant { rate: 1.0 }),
            step(32, 2, Arrivals::Closed),
            step(90, 1, Arrivals::Closed),
        ];
        assert_eq!(reference_step(&all, &[0, 1, 2, 3]), 3);
    }

    /// What a subject answers in the second, whose memory is as many bytes: no two trials the same.
    fn answers(base: u64, block: usize, workload: usize, step: usize) -> u64 {
        base + 100 * workload as u64 + 10 * step as u64 + block as u64
    }

    /// Five blocks of a slow server, a fast one, a control and one that was skipped, each with two workloads at two steps. Of the
    /// fast one's first step the first repeat failed, and of the second and the third a check did, at last with an answer.
    fn reported() -> Report {
        let named = |name: &str| Subject { name: name.into(), title: name.into(), ..Subject::default() };
        let mut plan = fixture::plan(vec![
            named("slow"),
            named("fast"),
            Subject { control: true, ..named("null") },
            Subject { skipped: Some("no compiler".into()), ..named("gone") },
        ]);
        plan.workloads.push(Workload { name: "v".into(), ..fixture::workload() });
        plan.load.steps = vec![
            fixture::step(Arrivals::Closed),
            Step { connections: 128, ..fixture::step(Arrivals::Closed) },
        ];
        let mut trials = Vec::new();
        for (number, launch) in plan.launches.iter().enumerate().filter(|(_, launch)| launch.subject < 3) {
            let base = [200, 400, 900][launch.subject];
            for (workload, step) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let n = answers(base, launch.block as usize, workload, step);
                let mut record = TrialRecord { trial: trials.len(), ..fixture::record(n) };
                record.samples = [0, 1_000_000_000]
                    .map(|at_ns| Sample { at_ns, rss_bytes: Some(n), ..Sample::default() })
                    .into();
                if step == 1 {
                    let mut times = Recording::new();
                    (0..n).for_each(|_| times.record(2_000_000));
                    record.intervals[0].times.response = times.seal();
                    // What the law says of it is another test's.
                    record.edges = None;
                }
                spoil(&mut record, (launch.subject, launch.block, workload, step));
                plan.trials.push(plan::Trial { launch: number, workload, step });
                trials.push(record);
            }
        }
        let header = Header {
            schema: String::new(),
            id: "1".into(),
            started: "then".into(),
            command: Vec::new(),
            plan,
            facts: Facts::default(),
            resumptions: Vec::new(),
        };
        report(&Run { header, starts: Vec::new(), trials })
    }

    fn spoil(record: &mut TrialRecord, trial: (usize, u32, usize, usize)) {
        let check = |answered| CheckResult { name: "c".into(), ok: false, answered, detail: String::new() };
        match trial {
            (1, 0, 0, 0) => record.subject_failure = Some("it left".into()),
            (1, 1, 0, 0) => record.checks = vec![check(false)],
            (1, 2, 0, 0) => record.checks = vec![check(true)],
            _ => (),
        }
    }

    #[test]
    fn what_is_refused_is_left_out_of_numbers_and_told() {
        let report = reported();
        assert_eq!(report.summaries.len(), 3 * 2 * 2);
        let fast = &report.summaries[4];
        assert_eq!((fast.subject.as_str(), fast.workload.as_str(), fast.step), ("fast", "w", 0));
        assert_eq!(
            (fast.trials, fast.invalid, &fast.throughput_rps.values[..]),
            (5, 2, &[401.0, 403.0, 404.0][..])
        );
        // The repeat that failed is not what limits those that did not.
        assert_eq!(fast.limiter, Resource::Unknown);
        let told: Vec<_> = fast.caveats.iter().map(|c| (c.code, c.severity, c.repeats)).collect();
        assert_eq!(
            told,
            [(Code::SubjectFailed, Severity::Invalid, 1), (Code::ChecksFailed, Severity::Invalid, 2)]
        );
    }

    #[test]
    fn an_overview_has_the_best_first_and_says_who_is_missing() {
        let report = reported();
        let rows = &report.overview;
        let row = |r: &OverviewRow| (r.workload.clone(), r.subject.clone(), r.tie_group);
        let wanted = [
            ("w", "fast", Some(1)),
            ("w", "slow", Some(2)),
            ("w", "gone", None),
            ("w", "null", None),
            ("v", "fast", Some(1)),
            ("v", "slow", Some(2)),
            ("v", "null", None),
        ];
        let wanted =
            wanted.map(|(workload, subject, group)| (workload.to_string(), subject.to_string(), group));
        assert_eq!(rows.iter().map(row).collect::<Vec<_>>(), wanted);
        assert_eq!((rows[0].peak_connections, rows[0].reference_connections), (Some(128), 64));
        assert_eq!(rows[0].response_p50_us.map(f64::round), Some(1000.0), "of the reference");
        let peaks = peaks_by_block(&rows[0], &report.trials, &report.summaries);
        assert_eq!(peaks, [(1, 410.0), (2, 411.0), (3, 412.0), (4, 413.0), (5, 414.0)]);
        assert_eq!((rows[0].memory_peak_bytes, rows[2].memory_peak_bytes), (Some(414.0), None));
        assert_eq!(rows[2].absent.as_deref(), Some("skipped: no compiler"));
        assert_eq!((rows[0].absent.as_deref(), rows[0].title.as_str()), (None, "fast · w"));
    }

    #[test]
    fn a_comparison_is_of_pairs_within_blocks() {
        let comparisons = reported().comparisons;
        assert!(comparisons.iter().all(|c| c.baseline == "slow" && c.subject != "slow" && !c.tie));
        assert_eq!(comparisons.len(), 2 * 2 * 2);
        for comparison in &comparisons {
            let base = if comparison.subject == "fast" { 400 } else { 900 };
            let workload = usize::from(comparison.workload == "v");
            let is_spoilt = (base, workload, comparison.step) == (400, 0, 0);
            let blocks: &[usize] = if is_spoilt { &[1, 3, 4] } else { &[0, 1, 2, 3, 4] };
            let of = |base, block: &usize| answers(base, *block, workload, comparison.step) as f64;
            let ratios: Vec<f64> = blocks.iter().map(|b| of(base, b) / of(200, b)).collect();
            assert_eq!(comparison.throughput_ratio.values, ratios, "{comparison:?}");
        }
    }

    #[test]
    fn a_peak_is_of_a_step_that_can_be_ranked_if_there_is_one() {
        for (steps, wanted) in [
            (&[&[100.0, 101.0, 102.0][..], &[200.0, 201.0]][..], Some(0)),
            (&[&[100.0, 101.0, 102.0], &[110.0, 111.0, 112.0], &[]], Some(1)),
            (&[&[100.0], &[200.0, 201.0]], Some(1)),
            (&[&[]], None),
        ] {
            let peaks: Vec<Repeated> = steps.iter().map(|values| Repeated::new(values.to_vec())).collect();
            assert_eq!(best(peaks.iter().zip(0..)), wanted, "{steps:?}");
        }
    }

    #[test]
    fn a_verdict_without_a_majority_is_the_first_and_a_guess() {
        use Confidence::{High, Low};
        use Resource::{Concurrency, Generator, ServerCpu};
        for (resources, resource, confidence) in [
            (&[ServerCpu][..], ServerCpu, High),
            (&[Generator, ServerCpu, ServerCpu], ServerCpu, High),
            (&[ServerCpu, Generator, Concurrency], ServerCpu, Low),
            (&[Generator, ServerCpu], Generator, Low),
            (&[Generator, ServerCpu, ServerCpu, Generator], Generator, Low),
        ] {
            let verdict = |resource: &Resource| Limiter {
                resource: *resource,
                confidence: High,
                sentence: "It.".into(),
                evidence: serde_json::json!({}),
            };
            let verdicts: Vec<Limiter> = resources.iter().map(verdict).collect();
            let leading = leading_limiter(&verdicts.iter().collect::<Vec<_>>());
            assert_eq!((leading.resource, leading.confidence), (resource, confidence), "{resources:?}");
            assert_eq!(leading.sentence != "It.", confidence == Low, "{}", leading.sentence);
        }
    }
}
