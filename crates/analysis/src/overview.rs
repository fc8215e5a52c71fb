//! The overview: one row per subject and workload, ranked by peak throughput, and the ties among them.

use std::cmp::Reverse;

use dyno_archive::Protocol;
use dyno_archive::plan::{Plan, Step};
use schemars::JsonSchema;
use serde::Serialize;

use crate::backend::BackendResult;
use crate::cell::{CellKey, Shape};
use crate::cost::{self, CostResult, Held, Paid};
use crate::grid::Grid;
use crate::metric::{self, THROUGHPUT};
use crate::ranking::{Places, Ranking};
use crate::series::Series;
use crate::stats::{Looks, PAIRS_TO_TELL_APART, Repeated};
use crate::subject::{SubjectFailure, SubjectResult};
use crate::summary::{StepCaveat, Summary};
use crate::trial::TrialResult;
use crate::verdict::{Confidence, Peak, Resource};

/// One subject with one workload in the overview. Throughput is of the peak's step; response times, CPU and cost are of the
/// reference step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OverviewRow {
    /// The cell at the reference step.
    pub reference_cell: CellKey,
    /// The cell with the peak; `None`: no step has a valid repeat.
    pub peak_cell: Option<CellKey>,
    pub subject: String,
    pub workload: String,
    /// The subject's title, with the workload's name where there are several.
    pub title: String,
    pub language: String,
    pub control: bool,
    pub baseline: bool,
    /// Throughput at the step with the highest median. Steps with too few valid repeats to tell subjects apart count only if
    /// all have too few.
    pub peak_rps: Option<Repeated>,
    /// The load point of that step.
    pub peak_at: Option<Shape>,
    pub peak_connections: Option<u32>,
    pub peak_streams: Option<u32>,
    /// Number of the tie group, counted from 1: pairs of repeats do not show a member to be below the group's best. `None`:
    /// a control, or too few valid repeats.
    pub tie_group: Option<usize>,
    /// The places that it may have among those of its workload, by tests of all their pairs at once. `None`: a control, or too few
    /// valid repeats.
    pub places: Option<Places>,
    /// The step at which response times, CPU and cost are given: of the workload's steps, the one nearest to 64 requests in
    /// flight.
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
    /// The same, with its range and its parts.
    pub cost: Option<CostResult>,
    /// What 10⁹ requests use at the reference step, whatever it costs; `None`: the CPU time is not known.
    pub paid: Option<Paid>,
    /// The same at the ends of the interval, or range, of the CPU time per request; `None`: not known, or of one repeat alone.
    pub paid_between: Option<(Paid, Paid)>,
    /// Highest anonymous memory (resident, where that is all there is) in any sample of any measured window. Not the
    /// kernel's own peak, which holds page cache.
    pub memory_peak_bytes: Option<f64>,
    /// The services behind the subject.
    pub backends: Vec<BackendRow>,
    /// From exec until it was ready: the median over the starts.
    pub startup_ms: Option<f64>,
    /// The figures above divided by those of the baseline's row of the same workload; `None` for the baseline itself, where one of the two
    /// was loaded alone and the other beside others, and where the suite names none.
    pub to_baseline: Option<RowRatios>,
    /// Due requests without a right answer, over all trials with the workload.
    pub errors: u64,
    pub checks_passed: usize,
    /// Checks that the subject fails, and that its file lets it fail.
    pub checks_waived: usize,
    pub checks: usize,
    /// What limited the peak's step, or the reference step if there is no peak.
    pub limiter: Option<Resource>,
    pub limiter_confidence: Option<Confidence>,
    pub limiter_sentence: Option<String>,
    /// Caveats of the peak's step, or of the reference step if there is no peak.
    pub caveats: Vec<StepCaveat>,
    /// Why there are no numbers, or not all; `None`: nothing is known to be missing.
    pub absent: Option<String>,
}

impl OverviewRow {
    /// Whether the peak is what the server could do, and not what it was offered.
    #[must_use]
    pub fn is_of_its_own(&self) -> bool {
        self.peak_at.is_some_and(|at| at.rate.is_none())
    }
}

/// A row's figures divided by those of another; `None` where one of the two has no figure, or the other's is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RowRatios {
    pub peak_rps: Option<f64>,
    pub response_p50: Option<f64>,
    pub response_p99: Option<f64>,
    pub cpu_per_request: Option<f64>,
    pub memory_peak: Option<f64>,
    pub startup: Option<f64>,
}

impl RowRatios {
    fn new(own: &OverviewRow, base: &OverviewRow) -> RowRatios {
        let ratio = |pick: fn(&OverviewRow) -> Option<f64>| {
            Some(pick(own)? / pick(base)?).filter(|ratio| ratio.is_finite())
        };
        RowRatios {
            peak_rps: ratio(peak_of),
            response_p50: ratio(|r| r.response_p50_us),
            response_p99: ratio(|r| r.response_p99_us),
            cpu_per_request: ratio(|r| r.cpu_us_per_request),
            memory_peak: ratio(|r| r.memory_peak_bytes),
            startup: ratio(|r| r.startup_ms),
        }
    }
}

/// A service behind a subject, in the subject's row.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BackendRow {
    pub name: String,
    /// Per answer of the subject, at the reference step.
    pub cpu_us_per_request: Option<f64>,
    /// Its part of the CPU time that a request cost subject and back ends together: 0 to 1.
    pub cpu_share: Option<f64>,
    /// The most over all trials with the workload.
    pub memory_peak_bytes: Option<f64>,
    /// Until it was ready.
    pub startup_ms: Option<f64>,
}

/// The best subject of a tie group, with those that pairs of repeats do not tell apart from it by peak throughput.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Tie {
    pub workload: String,
    /// The group's best.
    pub best: String,
    /// Subjects that are not told apart from the best, best first; at least one.
    pub with: Vec<String>,
    /// Whether these are not told apart from each other either.
    pub mutual: bool,
}

/// Index of the step at which subjects are compared. `steps`: indices of a workload's steps. Of those with the pipeline
/// depth, streams and arrivals of the first, it is the one nearest to 64 requests in flight. Going by connections would
/// compare workloads of one stream and of many at very different concurrency. Of passes it is the last, in which a server is
/// the warmest.
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
    nearest
        .min_by_key(|i| (step(*i).in_flight().abs_diff(REFERENCE), Reverse(step(*i).pass)))
        .unwrap_or(first)
}

/// The overview with its ties, workload by workload: best peak throughput first, then subjects without numbers, then
/// controls. A subject has a row for each workload that it got.
#[must_use]
pub fn overview(
    plan: &Plan,
    subjects: &[SubjectResult],
    grid: &Grid<'_>,
    summaries: &[Summary],
) -> (Vec<OverviewRow>, Vec<Tie>) {
    let (mut all, mut ties) = (Vec::new(), Vec::new());
    for workload in 0..plan.workloads.len() {
        let maker = RowMaker::new(plan, grid, summaries, workload);
        let mut rows: Vec<OverviewRow> =
            subjects.iter().enumerate().filter_map(|(index, subject)| maker.row(index, subject)).collect();
        rows.sort_by(|a, b| {
            let peak = |row: &OverviewRow| peak_of(row).unwrap_or(-1.0);
            a.control.cmp(&b.control).then(peak(b).total_cmp(&peak(a)))
        });
        ties.extend(rank(&mut rows, grid, Looks::of(plan)));
        compare(&mut rows, plan);
        all.extend(rows);
    }
    (all, ties)
}

/// Gives a workload's rows their tie groups and places, and returns the ties. What was served of an offered rate is no peak that anybody is ranked by.
fn rank(rows: &mut [OverviewRow], grid: &Grid<'_>, looks: Looks) -> Vec<Tie> {
    let is_ranked = |row: &OverviewRow| row.peak_rps.is_some() && !row.control && row.is_of_its_own();
    let ranked: Vec<usize> = (0..rows.len()).filter(|i| is_ranked(&rows[*i])).collect();
    let peaks: Vec<Series> = ranked.iter().map(|i| peaks_by_block(&rows[*i], grid)).collect();
    let step = |n: usize| rows[ranked[n]].peak_cell.map(|cell| cell.step);
    // Peaks at different steps were loaded one after the other, whoever took turns in each: what pairs them is the block.
    let ranking = Ranking::of(&peaks, looks, &|a, b| match step(a) == step(b) {
        true => peaks[a].pairs_with(&peaks[b]),
        false => peaks[a].clone().without_turns().pairs_with(&peaks[b].clone().without_turns()),
    });
    let groups = ranking.groups();
    for ((i, group), places) in ranked.iter().zip(&groups).zip(ranking.places()) {
        (rows[*i].tie_group, rows[*i].places) = (*group, places);
    }
    let last = groups.iter().flatten().max().copied().unwrap_or(0);
    let members = |group: usize| (0..ranked.len()).filter(|n| groups[*n] == Some(group)).collect::<Vec<_>>();
    let subject = |n: usize| &rows[ranked[n]];
    (1..=last).filter_map(|group| tie(&members(group), &ranking, &subject)).collect()
}

/// The members of a group that cannot be told apart from its best; `None`: there are none. A member that is ahead of the
/// best in every pair is told apart from it, and left out.
fn tie<'a>(group: &[usize], ranking: &Ranking, row: &dyn Fn(usize) -> &'a OverviewRow) -> Option<Tie> {
    let (best, rest) = group.split_first()?;
    let with: Vec<usize> = rest.iter().copied().filter(|one| ranking.are_tied(*best, *one)).collect();
    let is_mutual = |i: usize| with[..i].iter().all(|other| ranking.are_tied(*other, with[i]));
    (!with.is_empty()).then(|| Tie {
        workload: row(*best).workload.clone(),
        best: row(*best).subject.clone(),
        with: with.iter().map(|one| row(*one).subject.clone()).collect(),
        mutual: (1..with.len()).all(is_mutual),
    })
}

/// The throughput at a row's peak, block by block.
fn peaks_by_block(row: &OverviewRow, grid: &Grid<'_>) -> Series {
    row.peak_cell.and_then(|key| grid.get(key)).map(|cell| cell.series(&THROUGHPUT)).unwrap_or_default()
}

/// Divides the rows of a workload by the baseline's, if the suite names one.
fn compare(rows: &mut [OverviewRow], plan: &Plan) {
    let Some(base) = rows.iter().find(|row| row.baseline).cloned() else { return };
    let is_like_it =
        |row: &OverviewRow| plan.are_loaded_alike(row.reference_cell.arm, base.reference_cell.arm);
    for row in rows.iter_mut().filter(|row| !row.baseline && is_like_it(row)) {
        row.to_baseline = Some(RowRatios::new(row, &base));
    }
}

fn peak_of(row: &OverviewRow) -> Option<f64> {
    row.peak_rps.as_ref().and_then(|peak| peak.median)
}

/// The peak of each row.
pub(crate) fn peaks<'a>(plan: &'a Plan, rows: &'a [OverviewRow]) -> Vec<Peak<'a>> {
    let of_row = |row: &'a OverviewRow| Peak {
        workload: &row.workload,
        subject: &row.subject,
        server: &plan.subject_of(row.reference_cell.arm).name,
        rps: peak_of(row),
        repeats: row.peak_rps.as_ref().map_or(&[], |peak| &peak.values),
    };
    rows.iter().filter(|row| row.peak_at.is_none() || row.is_of_its_own()).map(of_row).collect()
}

/// The throughput with the highest median. Those with too few repeats to tell subjects apart count only if all have too few.
fn best<'a, T>(peaks: impl Iterator<Item = (&'a Repeated, T)>) -> Option<T> {
    let rank = |q: &Repeated| Some((q.values.len() >= PAIRS_TO_TELL_APART, q.median?));
    let ranked = peaks.filter_map(|(q, of)| Some((rank(q)?, of)));
    let best =
        ranked.max_by(|((a_tells, a), _), ((b_tells, b), _)| a_tells.cmp(b_tells).then(a.total_cmp(b)))?;
    Some(best.1)
}

/// The ends of the interval, or range, of repeats; `None`: there is one repeat, or none.
fn between(of: &Repeated) -> Option<(f64, f64)> {
    of.spread().filter(|_| of.values.len() > 1)
}

/// Makes the rows of one workload.
struct RowMaker<'a> {
    plan: &'a Plan,
    grid: &'a Grid<'a>,
    summaries: &'a [Summary],
    workload: usize,
    /// Index of the step at which its subjects are compared.
    reference: usize,
}

impl<'a> RowMaker<'a> {
    fn new(plan: &'a Plan, grid: &'a Grid<'a>, summaries: &'a [Summary], workload: usize) -> RowMaker<'a> {
        let of_workload = grid.cells().filter(|(key, _)| key.workload == workload);
        let mut steps: Vec<usize> = of_workload.map(|(key, _)| key.step).collect();
        steps.sort_unstable();
        let reference = reference_step(&plan.load.steps, &steps);
        RowMaker { plan, grid, summaries, workload, reference }
    }

    /// A subject's row; `None`: it did not get this workload. A subject without any trials has a row in the first workload,
    /// with the reason, and one that lost a workload which was planned for it has a row there.
    fn row(&self, index: usize, subject: &SubjectResult) -> Option<OverviewRow> {
        let has_numbers = self.grid.steps(index, self.workload).next().is_some();
        let has_others = self.grid.has_arm(index);
        let is_absent = self.workload == 0 && !has_others;
        let is_lost =
            || has_others && absent(subject, self.protocol(), true).is_some() && self.is_planned(index);
        (has_numbers || is_absent || is_lost()).then(|| self.make(index, subject))
    }

    fn backends(
        &self,
        subject: &SubjectResult,
        at_reference: Option<&Summary>,
        trials: &[&TrialResult],
    ) -> Vec<BackendRow> {
        let row = |behind: &BackendResult| {
            let summary = at_reference.and_then(|s| s.backends.iter().find(|b| b.name == behind.name));
            let of_trials = trials.iter().flat_map(|t| &t.backends).filter(|b| b.name == behind.name);
            BackendRow {
                name: behind.name.clone(),
                cpu_us_per_request: summary.and_then(|s| s.cpu_us_per_request.median),
                cpu_share: summary.and_then(|s| s.cpu_share.median),
                memory_peak_bytes: of_trials
                    .filter_map(|b| b.server.memory_held_bytes)
                    .max()
                    .map(|bytes| bytes as f64),
                startup_ms: behind.startup_ms.ready.median,
            }
        };
        subject.backends.iter().map(row).collect()
    }

    /// What its requests cost at a step; `None`: the suite names no price, or the CPU time is not known.
    fn cost(&self, held: Held, at: &Summary) -> Option<CostResult> {
        let of = &at.cpu_us_per_request;
        cost::result(of.median?, between(of), held, self.plan.cost?)
    }

    /// What its requests use of a server at a step, and the same at the ends of the interval of their CPU time.
    fn uses(
        &self,
        arm: usize,
        subject: &SubjectResult,
        at: &Summary,
    ) -> (Option<Paid>, Option<(Paid, Paid)>) {
        let (cpu, held) = (&at.cpu_us_per_request, self.held(arm, subject, at));
        let ends = between(cpu).and_then(|(low, high)| self.paid(held, low).zip(self.paid(held, high)));
        (cpu.median.and_then(|us| self.paid(held, us)), ends)
    }

    /// What requests of so much CPU time use of a server; `None`: it does nothing but start.
    fn paid(&self, held: Held, cpu_us: f64) -> Option<Paid> {
        Paid::of(cpu_us, held, self.plan.cost.and_then(|cost| cost.lifetime_hours))
    }

    /// What its server holds at a step.
    fn held(&self, arm: usize, subject: &SubjectResult, at: &Summary) -> Held {
        let conditions = &self.plan.arms[arm].conditions;
        Held {
            cpus: conditions
                .limits
                .cpus
                .unwrap_or(f64::INFINITY)
                .min(conditions.placement.subject.len() as f64),
            memory_bytes: at.memory_bytes.median.unwrap_or(0.0),
            startup_s: subject.startup_ms.ready.median.unwrap_or(0.0) / 1e3,
        }
    }

    fn is_planned(&self, index: usize) -> bool {
        self.plan.trials.iter().any(|t| (t.arm, t.workload) == (index, self.workload))
    }

    fn protocol(&self) -> Protocol {
        self.plan.workloads[self.workload].protocol
    }

    fn make(&self, index: usize, subject: &SubjectResult) -> OverviewRow {
        let plan = self.plan;
        let workload = &plan.workloads[self.workload].name;
        let is_own = |s: &&Summary| (s.cell.arm, s.cell.workload) == (index, self.workload);
        let own: Vec<&Summary> = self.summaries.iter().filter(is_own).collect();
        let is_closed = |s: &&&Summary| plan.load.steps[s.step].arrivals.is_closed();
        let peak = |of: &[&'a Summary]| best(of.iter().map(|s| (&s.throughput_rps, *s)));
        let closed: Vec<&Summary> = own.iter().filter(is_closed).copied().collect();
        // What is served of an offered rate is a peak only where nothing else was asked.
        let best = peak(&closed).or_else(|| peak(&own));
        let at_reference = own.iter().copied().find(|s| s.step == self.reference);
        let trials = || self.grid.steps(index, self.workload).flat_map(|(_, cell)| cell.trials());
        let median = |pick: fn(&Summary) -> &Repeated| at_reference.and_then(|s| pick(s).median);
        let peak_or_reference = best.or(at_reference);
        let cost = at_reference.and_then(|s| self.cost(self.held(index, subject, s), s));
        let (paid, paid_between) = at_reference.map_or((None, None), |s| self.uses(index, subject, s));
        let reference = &plan.load.steps[self.reference];
        OverviewRow {
            reference_cell: CellKey { arm: index, workload: self.workload, step: self.reference },
            peak_cell: best.map(|s| s.cell),
            subject: subject.id.clone(),
            workload: workload.clone(),
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
            places: None,
            reference_step: self.reference,
            reference_at: Shape::of(reference),
            reference_connections: reference.connections,
            reference_in_flight: reference.in_flight(),
            response_p50_us: median(|s| &s.response_p50_us),
            response_p99_us: median(|s| &s.response_p99_us),
            cpu_us_per_request: median(|s| &s.cpu_us_per_request),
            cost_per_billion_requests: cost.map(|cost| cost.per_billion),
            cost,
            paid,
            paid_between,
            memory_peak_bytes: trials().filter_map(|t| metric::memory(t)).reduce(f64::max),
            backends: self.backends(subject, at_reference, &trials().copied().collect::<Vec<_>>()),
            startup_ms: subject.startup_ms.ready.median,
            to_baseline: None,
            errors: trials().map(|t| errors(t)).sum(),
            checks_passed: subject.checks.iter().filter(|c| c.ok).count(),
            checks_waived: subject.checks.iter().filter(|c| c.waived).count(),
            checks: subject.checks.len(),
            limiter: peak_or_reference.map(|s| s.limiter),
            limiter_confidence: peak_or_reference.map(|s| s.limiter_confidence),
            limiter_sentence: peak_or_reference.map(|s| s.limiter_sentence.clone()),
            caveats: peak_or_reference.map(|s| s.caveats.clone()).unwrap_or_default(),
            absent: absent(subject, self.protocol(), best.is_none())
                .or_else(|| not_asked(plan, plan.arms[index].subject).filter(|_| own.is_empty())),
        }
    }
}

/// Requests of a trial that were due and got no right answer.
fn errors(t: &TrialResult) -> u64 {
    t.load.exchanges.lost() + t.load.outcomes.wrong()
}

/// Why a subject has no valid numbers, or not all of them.
fn absent(subject: &SubjectResult, protocol: Protocol, no_numbers: bool) -> Option<String> {
    if let Some(why) = &subject.skipped {
        return Some(format!("skipped: {why}"));
    }
    let concerns = |failure: &&SubjectFailure| failure.protocol.is_none_or(|only| only == protocol);
    let failure = subject.failures.iter().find(concerns)?;
    let message = failure.failure.message.lines().next().unwrap_or_default();
    let words = format!("{}: {message}", failure.failure.kind.name());
    Some(if no_numbers { words } else { format!("in part: {words}") })
}

/// Why a subject did not get the first workload; `None`: the plan gives no reason.
fn not_asked(plan: &Plan, subject: usize) -> Option<String> {
    let not = plan.not_served.iter().find(|n| (n.workload, n.subject) == (0, subject))?;
    Some(format!("not asked for {}: {}", plan.workloads[0].name, not.reason))
}

#[cfg(test)]
mod tests {
    use dyno_archive::plan::{Arrivals, Cost, NotServed};
    use dyno_archive::sample::CgroupUse;
    use dyno_archive::start::{Failure, FailureKind};
    use dyno_archive::{Outcome, Party};

    use super::*;
    use crate::fixture::{five_blocks, reported};
    use crate::report::report;
    use crate::series::Point;

    #[test]
    fn the_reference_is_nearest_to_64_in_flight_among_like_steps() {
        let all: Vec<Step> = [(100, 1, 1), (1000, 1, 1), (10, 10, 1), (100, 10, 1), (16, 1, 1), (4, 1, 16)]
            .map(|(connections, streams, pipeline)| Step {
                connections,
                streams,
                pipeline,
                arrivals: Arrivals::Closed,
                pass: 1,
            })
            .into();
        assert_eq!(reference_step(&all, &[0, 1]), 0);
        // 100 connections are nearer to 64 than 10 are, but have 1,000 requests in flight.
        assert_eq!(reference_step(&all, &[2, 3]), 2);
        assert_eq!(reference_step(&all, &[4, 5]), 4, "another pipeline is not alike");
    }

    #[test]
    fn steps_are_alike_by_pipeline_streams_and_rate() {
        let step =
            |connections, streams, arrivals| Step { connections, streams, pipeline: 1, arrivals, pass: 1 };
        let all = [
            step(100, 1, Arrivals::Closed),
            step(64, 1, Arrivals::Constant { rate: 1.0 }),
            step(32, 2, Arrivals::Closed),
            step(90, 1, Arrivals::Closed),
        ];
        assert_eq!(reference_step(&all, &[0, 1, 2, 3]), 3);
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
        let peaks = peaks_by_block(&rows[0], &Grid::new(&report.trials)).repeated();
        assert_eq!(peaks.values, [410.0, 411.0, 412.0, 413.0, 414.0]);
        assert_eq!((rows[0].memory_peak_bytes, rows[2].memory_peak_bytes), (Some(414.0), None));
        assert_eq!(rows[2].absent.as_deref(), Some("skipped: no compiler"));
        assert_eq!((rows[0].absent.as_deref(), rows[0].title.as_str()), (None, "fast · w"));
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
    fn a_row_says_what_its_step_cost_and_what_was_checked() {
        let mut run = five_blocks();
        run.header.plan.cost = Some(Cost { per_vcpu_hour: 0.05, ..Cost::default() });
        for trial in &mut run.trials {
            let answers = trial.load.books.completed;
            for (sample, share) in trial.load.samples.iter_mut().zip([0, 1]) {
                // 3.6 ms of CPU time for each answer: 1,000 hours for 10⁹.
                let cpu_ns = Some(share * answers * 3_600_000);
                sample.of_mut(Party::SUBJECT).cgroup = Some(CgroupUse { cpu_ns, ..CgroupUse::default() });
            }
        }
        let report = report(&run);
        let [fast, slow, gone, null] = &report.overview[..4] else { panic!("{:?}", report.overview) };
        for row in [fast, slow, null] {
            let cost = row.cost_per_billion_requests.unwrap();
            assert!((cost - 50.0).abs() < 1e-6 && row.cpu_us_per_request.is_some(), "{cost}");
            assert_eq!((row.reference_step, row.reference_in_flight), (0, 64));
        }
        assert_eq!((fast.checks_passed, fast.checks, slow.checks), (0, 1, 0));
        assert_eq!((fast.peak_at.map(|at| at.connections), fast.peak_streams), (Some(128), Some(1)));
        assert_eq!((gone.title.as_str(), gone.cost_per_billion_requests), ("gone", None));
        assert!(fast.limiter.is_some() && fast.limiter_sentence.is_some() && gone.limiter.is_none());
        assert!(null.control && !fast.control);
        let plan = crate::fixture::five_blocks().header.plan;
        let peaks = peaks(&plan, &report.overview);
        assert!(peaks.iter().all(|peak| peak.server == peak.subject), "no variants");
        assert_eq!(peaks.len(), 7);
        assert_eq!((peaks[0].workload, peaks[0].subject, peaks[0].rps), ("w", "fast", Some(412.0)));
        assert_eq!((peaks[2].subject, peaks[2].rps), ("gone", None));
    }

    #[test]
    fn workloads_are_named_in_titles_only_where_there_are_several() {
        let mut run = five_blocks();
        run.trials.retain(|t| run.header.plan.trials[t.trial].workload == 0);
        run.header.plan.workloads.truncate(1);
        let titles: Vec<_> = report(&run).overview.into_iter().map(|row| row.title).collect();
        assert_eq!(titles, ["fast", "slow", "gone", "null"]);
    }

    #[test]
    fn a_row_is_divided_by_the_baselines() {
        let mut rows = reported().overview;
        rows.truncate(3);
        let mut plan = five_blocks().header.plan;
        compare(&mut rows, &plan);
        assert!(rows.iter().all(|row| row.to_baseline.is_none()), "nobody is named");
        rows[1].baseline = true;
        let figures = |row: &mut OverviewRow, factor: f64| {
            row.response_p50_us = Some(2.0 * factor);
            row.response_p99_us = Some(3.0 * factor * factor);
            row.cpu_us_per_request = Some(0.0);
            row.startup_ms = Some(factor);
        };
        figures(&mut rows[0], 10.0);
        figures(&mut rows[1], 1.0);
        compare(&mut rows, &plan);
        assert_eq!(rows[1].to_baseline, None);
        let ratios = rows[0].to_baseline.unwrap();
        assert_eq!(ratios.peak_rps, Some(412.0 / 212.0));
        assert_eq!((ratios.response_p50, ratios.response_p99), (Some(10.0), Some(100.0)));
        assert_eq!((ratios.cpu_per_request, ratios.startup), (None, Some(10.0)), "0 divides nothing");
        assert_eq!(rows[2].to_baseline.unwrap().peak_rps, None);
        rows.iter_mut().for_each(|row| row.to_baseline = None);
        plan.duet = [1, 2].into();
        compare(&mut rows, &plan);
        assert!(rows[0].to_baseline.is_none() && rows[2].to_baseline.is_some(), "one was alone");
    }

    #[test]
    fn a_tie_is_with_the_best_and_mutual_if_all_are_tied_with_all() {
        let row = |subject: &str| OverviewRow { subject: subject.into(), ..reported().overview.remove(0) };
        let told = |group: &[(&str, f64)]| {
            let rows: Vec<_> = group.iter().map(|(subject, _)| row(subject)).collect();
            // Each differs a little between repeats, and in its own way.
            let differs = [[1.02, 0.98, 1.0], [1.0, 1.01, 0.99], [0.99, 1.0, 1.01], [0.98, 1.02, 1.0]];
            let peak = |((_, rps), differs): (&(&str, f64), [f64; 3])| {
                (1..).zip(differs.map(|times| Point::Known(rps * times))).collect()
            };
            let peaks: Vec<Series> = group.iter().zip(differs).map(peak).collect();
            let members: Vec<usize> = (0..rows.len()).collect();
            let tie = tie(&members, &Ranking::new(&peaks, Looks::AtTheEnd), &|n| &rows[n])?;
            Some((tie.best, tie.with.join(" "), tie.mutual))
        };
        let tie = |best: &str, with: &str, mutual| Some((best.to_string(), with.to_string(), mutual));
        assert_eq!(told(&[("a", 100.0), ("b", 99.0), ("c", 98.0)]), tie("a", "b c", true));
        // 96 and 104 lie more than 5 % apart in each repeat.
        assert_eq!(told(&[("a", 100.0), ("b", 104.0), ("c", 96.0)]), tie("a", "b c", false));
        assert_eq!(told(&[("a", 100.0), ("b", 104.0), ("c", 102.0), ("d", 96.0)]), tie("a", "b c d", false));
        // A member ahead of the best in every pair is told apart from it.
        assert_eq!(told(&[("a", 100.0), ("b", 112.0), ("c", 99.0)]), tie("a", "c", true));
        assert_eq!(told(&[("a", 100.0), ("b", 112.0)]), None);
        assert_eq!(told(&[("a", 100.0)]), None);
    }

    #[test]
    fn errors_are_what_was_lost_and_what_was_wrong() {
        let mut trial = reported().trials.remove(0);
        trial.load.exchanges.failed = 20;
        (0..3).for_each(|_| trial.load.outcomes.count(Outcome::UnexpectedBody));
        assert_eq!(errors(&trial), 23);
    }

    #[test]
    fn who_has_no_numbers_is_told_why() {
        let mut subject = reported().subjects.remove(0);
        assert_eq!(absent(&subject, Protocol::H1, true), None);
        let failure = Failure { kind: FailureKind::Crashed, message: "it left\nat once".into() };
        subject.failures =
            vec![SubjectFailure { repeat: 1, failure, protocol: None, log_of: None, log_tail: None }];
        assert_eq!(absent(&subject, Protocol::H1, true).as_deref(), Some("crashed: it left"));
        assert_eq!(absent(&subject, Protocol::H1, false).as_deref(), Some("in part: crashed: it left"));
        subject.skipped = Some("no compiler".into());
        assert_eq!(absent(&subject, Protocol::H1, true).as_deref(), Some("skipped: no compiler"));
        let mut run = five_blocks();
        let not = |workload, subject| NotServed { workload, subject, reason: "no TLS".into() };
        run.header.plan.not_served = vec![not(1, 0), not(0, 1), not(1, 3)];
        let why: Vec<_> = (0..4).map(|subject| not_asked(&run.header.plan, subject)).collect();
        assert_eq!(why, [None, Some("not asked for w: no TLS".to_string()), None, None]);
        // Only subjects without trials get this reason.
        run.header.plan.subjects[3].skipped = None;
        run.header.plan.not_served.push(not(0, 3));
        let report = report(&run);
        let absent =
            |subject: &str| report.overview.iter().find(|r| r.subject == subject).unwrap().absent.clone();
        assert_eq!((absent("gone").as_deref(), absent("fast")), (Some("not asked for w: no TLS"), None));
    }
}
