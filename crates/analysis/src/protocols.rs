//! Compares HTTP/2 with HTTP/1.1. Both have the same requests to the same server, with the same
//! number of requests in flight.

use dyno_model::plan::{Arrivals, Plan, Request, Workload};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cell::CellKey;
use crate::grid::{Cell, Grid};
use crate::load::StreamCounts;
use crate::metric::{self, MetricId, Ratios};
use crate::peak::{RatioBound, throughputs};
use crate::stats::Repeated;
use crate::trial::TrialResult;

/// Comparison of HTTP/2 with HTTP/1.1 for one server and the same requests, both with TLS or both
/// without. Ratios are HTTP/2 ÷ HTTP/1.1, of repeats paired by block.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProtocolComparison {
    /// Name of the server, without its variant.
    pub server: String,
    /// Arm over HTTP/2.
    pub subject: String,
    /// Arm over HTTP/1.1: the same arm, or another variant of its server if this arm has no numbers
    /// over HTTP/1.1.
    pub baseline_subject: String,
    /// Workload over HTTP/2.
    pub workload: String,
    /// Workload over HTTP/1.1 with the same requests.
    pub baseline: String,
    /// Requests in flight, the same on both sides: connections × streams over HTTP/2, connections ×
    /// pipeline over HTTP/1.1.
    pub in_flight: u64,
    /// Connections over HTTP/2.
    pub connections: u32,
    /// Requested streams on each connection.
    pub streams: u32,
    /// Connections over HTTP/1.1.
    pub baseline_connections: u32,
    /// Requests in flight on each HTTP/1.1 connection.
    pub baseline_pipeline: u32,
    /// Number of the pass, counted from 1, if a suite repeats the step.
    pub pass: u32,
    /// Known ratios of throughput, of the 99th percentile of the response time, and of CPU time per
    /// request. The ratio of throughput is unknown if repeats of both protocols are not valid for
    /// reasons outside of the server.
    pub metrics: Ratios,
    /// Whether the true ratio of throughput may be higher or lower, because something other than
    /// the server limited repeats of one protocol. Repeats that only the generator limited are not
    /// valid, but the ratio uses their throughput as a lower bound.
    pub throughput_bound: RatioBound,
}

impl ProtocolComparison {
    /// Returns the ratio of a metric; without values if it is unknown.
    #[must_use]
    pub fn ratio(&self, id: MetricId) -> &Repeated {
        metric::ratio_of(&self.metrics, id)
    }
}

/// Compares, arm by arm, every HTTP/2 workload with the HTTP/1.1 workload of the same requests,
/// both with TLS or both without. Workloads of pages are excluded, because the number of requests
/// in flight is different for each visitor.
#[must_use]
pub fn protocols(plan: &Plan, grid: &Grid<'_>) -> Vec<ProtocolComparison> {
    let mut comparisons = Vec::new();
    for arm in 0..plan.arms.len() {
        let workloads = plan.workloads.iter().enumerate();
        for (workload, h2_workload) in workloads.filter(|(_, w)| can_be_compared(w)) {
            let Some(baseline) = baseline_workload(plan, h2_workload) else { continue };
            let h2_steps = steps(plan, grid, arm, workload);
            let Some(h1_steps) = baseline_steps(plan, grid, arm, baseline) else { continue };
            comparisons.extend(compare(plan, &h2_steps, &h1_steps));
        }
    }
    comparisons
}

/// Whether a workload can be compared with a workload over HTTP/1.1.
const fn can_be_compared(workload: &Workload) -> bool {
    workload.protocol.is_h2() && workload.page.is_none()
}

/// Returns the index of the HTTP/1.1 workload with the same requests as an HTTP/2 workload.
fn baseline_workload(plan: &Plan, h2_workload: &Workload) -> Option<usize> {
    plan.workloads.iter().position(|w| {
        w.protocol.is_h1()
            && w.page.is_none()
            && w.protocol.is_tls() == h2_workload.protocol.is_tls()
            && have_same_requests(w, h2_workload)
    })
}

/// A closed-loop cell with only the trials that had the step's number of requests in flight.
struct ConcurrencyStep<'a> {
    key: CellKey,
    cell: Cell<'a>,
    connections: u32,
    /// Requests in flight on each connection: streams × pipeline depth.
    per_connection: u32,
    pass: u32,
}

impl ConcurrencyStep<'_> {
    /// Returns the requests in flight on all connections.
    fn total(&self) -> u64 {
        u64::from(self.connections) * u64::from(self.per_connection)
    }
}

/// Returns an arm's closed-loop cells with a workload, fewest requests in flight first. Trials in
/// which the server allowed fewer streams than requested are omitted. Cells without any trial that
/// is valid, or limited only by the generator, are omitted.
fn steps<'a>(
    plan: &Plan,
    grid: &Grid<'a>,
    arm: usize,
    workload: usize,
) -> Vec<ConcurrencyStep<'a>> {
    let is_closed = |key: &CellKey| plan.load.steps[key.step].arrivals == Arrivals::Closed;
    let has_rate = |t: &&TrialResult| t.valid || t.is_limited_by_generator();
    let concurrency_step = |(key, cell): (CellKey, &Cell<'a>)| {
        let step = &plan.load.steps[key.step];
        ConcurrencyStep {
            key,
            cell: cell.select(|t| t.load.http2.as_ref().is_none_or(|h| are_granted(&h.streams))),
            connections: step.connections,
            per_connection: step.streams * step.pipeline,
            pass: step.pass,
        }
    };
    let closed = grid.steps(arm, workload).filter(|(key, _)| is_closed(key));
    let mut sorted_steps: Vec<ConcurrencyStep<'a>> =
        closed.map(concurrency_step).filter(|s| s.cell.trials().iter().any(has_rate)).collect();
    sorted_steps.sort_by_key(|s| (s.total(), s.connections, s.pass));
    sorted_steps
}

/// Returns the HTTP/1.1 cells to compare with: the cells of the same arm. If this arm has none, the
/// cells of the first other arm with the same server and conditions are returned. `None`: no such
/// arm.
fn baseline_steps<'a>(
    plan: &Plan,
    grid: &Grid<'a>,
    arm: usize,
    workload: usize,
) -> Option<Vec<ConcurrencyStep<'a>>> {
    let has_same_conditions = |other: &usize| {
        plan.subject_of(*other).name == plan.subject_of(arm).name
            && plan.arms[*other].conditions == plan.arms[arm].conditions
    };
    let others = (0..plan.arms.len()).filter(has_same_conditions);
    let candidates =
        std::iter::once(arm).chain(others).map(|other| steps(plan, grid, other, workload));
    candidates.into_iter().find(|steps| !steps.is_empty())
}

/// Whether a server allowed the requested number of streams. Otherwise fewer requests were in
/// flight.
fn are_granted(streams: &StreamCounts) -> bool {
    streams.granted.is_none_or(|granted| granted >= streams.asked)
}

/// Whether two workloads have the same requests (except for names), over connections with the same
/// lifetime.
fn have_same_requests(a: &Workload, b: &Workload) -> bool {
    let unnamed = |w: &Workload| -> Vec<Request> {
        w.requests.iter().map(|r| Request { name: String::new(), ..r.clone() }).collect()
    };
    unnamed(a) == unnamed(b) && a.requests_per_connection == b.requests_per_connection
}

/// Compares all pairs of steps with the same number of requests in flight and the same pass.
fn compare(
    plan: &Plan,
    h2_steps: &[ConcurrencyStep<'_>],
    h1_steps: &[ConcurrencyStep<'_>],
) -> Vec<ProtocolComparison> {
    let is_pair = |h2_step: &ConcurrencyStep<'_>, base_step: &ConcurrencyStep<'_>| {
        (h2_step.total(), h2_step.pass) == (base_step.total(), base_step.pass)
    };
    let partners = |h2_step| h1_steps.iter().filter(move |base_step| is_pair(h2_step, base_step));
    let pairs = h2_steps
        .iter()
        .flat_map(|h2_step| partners(h2_step).map(move |base_step| (h2_step, base_step)));
    pairs.filter_map(|(h2_step, base_step)| comparison(plan, h2_step, base_step)).collect()
}

/// Compares two steps at equal requests in flight; `None`: no ratio is known.
fn comparison(
    plan: &Plan,
    h2_step: &ConcurrencyStep<'_>,
    base_step: &ConcurrencyStep<'_>,
) -> Option<ProtocolComparison> {
    let (cell, base) = (&h2_step.cell, &base_step.cell);
    let throughput_bound = RatioBound::from_cells(cell, base);
    let ratio = |id: MetricId| {
        let (values, base_values) = match id {
            MetricId::Throughput if throughput_bound == RatioBound::Unknown => return None,
            MetricId::Throughput => throughputs(cell, base),
            _ => (cell.series(id.metric()), base.series(id.metric())),
        };
        let ratio = values.without_turns().ratios_to(&base_values.without_turns());
        (!ratio.values.is_empty()).then_some((id, ratio))
    };
    let ids = [MetricId::Throughput, MetricId::ResponseP99, MetricId::Cpu];
    let metrics: Ratios = ids.into_iter().filter_map(ratio).collect();
    if metrics.is_empty() {
        return None;
    }
    let name = |key: CellKey| plan.workloads[key.workload].name.clone();
    Some(ProtocolComparison {
        server: plan.subject_of(h2_step.key.arm).name.clone(),
        subject: plan.arms[h2_step.key.arm].name.clone(),
        baseline_subject: plan.arms[base_step.key.arm].name.clone(),
        workload: name(h2_step.key),
        baseline: name(base_step.key),
        in_flight: h2_step.total(),
        connections: h2_step.connections,
        streams: h2_step.per_connection,
        baseline_connections: base_step.connections,
        baseline_pipeline: base_step.per_connection,
        pass: h2_step.pass,
        metrics,
        throughput_bound,
    })
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::{Launch, Page, Step, Subject, Trial};
    use dyno_model::{Facts, Protocol};

    use serde_json::json;

    use super::*;
    use crate::caveat::{Caveat, Code, Severity};
    use crate::fixture;
    use crate::trial::RecordedTrial;

    fn workload(name: &str, protocol: Protocol) -> Workload {
        let request = Request { name: name.into(), path: "/".into(), ..Request::default() };
        Workload {
            name: name.into(),
            protocol,
            requests: vec![request],
            page: None,
            sequence: None,
            requests_per_connection: None,
        }
    }

    /// A repeat: subject, whether it is over HTTP/2, block, (connections, requests in flight on
    /// each), responses per second. A repeated entry is another pass.
    type Repeat<'a> = (&'a str, bool, u32, (u32, u32), u64);

    fn plan(subjects: &[&str]) -> Plan {
        let subject = |id: &&str| {
            let (name, variant) =
                id.split_once('/').map_or((*id, None), |(n, v)| (n, Some(v.to_string())));
            Subject { name: name.into(), variant, ..Subject::default() }
        };
        let mut plan = fixture::plan(subjects.iter().map(subject).collect());
        plan.workloads = vec![workload("one", Protocol::H1), workload("two", Protocol::H2c)];
        plan
    }

    fn compare_repeats(plan: Plan, repeats: &[Repeat<'_>]) -> Vec<ProtocolComparison> {
        compare_limited(plan, repeats, &[])
    }

    /// Compares repeats. In the repeats with the listed indices, the generator was the limit.
    fn compare_limited(
        mut plan: Plan,
        repeats: &[Repeat<'_>],
        limited: &[usize],
    ) -> Vec<ProtocolComparison> {
        let mut results = Vec::new();
        for (index, (id, is_h2, block, (connections, per_connection), responses)) in
            repeats.iter().enumerate()
        {
            let (streams, pipeline) =
                if *is_h2 { (*per_connection, 1) } else { (1, *per_connection) };
            let earlier_repeats = &repeats[..index];
            let pass = 1 + earlier_repeats
                .iter()
                .filter(|r| {
                    (r.0, r.1, r.2, r.3) == (*id, *is_h2, *block, (*connections, *per_connection))
                })
                .count() as u32;
            let step = Step {
                connections: *connections,
                streams,
                pipeline,
                arrivals: Arrivals::Closed,
                pass,
            };
            let known = plan.load.steps.iter().position(|s| *s == step);
            let step = known.unwrap_or_else(|| {
                plan.load.steps.push(step);
                plan.load.steps.len() - 1
            });
            let arm = plan.arms.iter().position(|arm| arm.name == *id).expect("it is in the plan");
            let is_launch_of_repeat =
                |launch: &Launch| *launch == Launch::with_arm(arm, *block - 1);
            let launch =
                plan.launches.iter().position(is_launch_of_repeat).expect("it is in the plan");
            let record = fixture::trial_record(plan.trials.len(), fixture::record(*responses));
            plan.trials.push(Trial { launch, arm, workload: usize::from(*is_h2), step, seed: 0 });
            let (plan, facts, record) = (&plan, &Facts::default(), &record);
            results.push(RecordedTrial { plan, facts, start: None, record }.result());
        }
        for index in limited {
            let busy = Caveat::new(Code::GENERATOR_BUSY, Severity::Invalid, "".into(), json!({}));
            results[*index].caveats.push(busy);
            results[*index].valid = false;
        }
        protocols(&plan, &Grid::new(&results))
    }

    const OVER_H1: bool = false;
    const OVER_H2: bool = true;

    #[test]
    fn protocol_comparison_pairs_blocks_at_equal_in_flight() {
        let comparisons = compare_repeats(
            plan(&["a"]),
            &[
                ("a", OVER_H1, 1, (100, 1), 100),
                ("a", OVER_H1, 2, (100, 1), 200),
                ("a", OVER_H1, 1, (1000, 1), 1),
                ("a", OVER_H2, 2, (10, 10), 300),
                ("a", OVER_H2, 1, (10, 10), 200),
                ("a", OVER_H2, 1, (20, 10), 1),
            ],
        );
        let [c] = comparisons.as_slice() else { panic!("{comparisons:?}") };
        assert_eq!((c.in_flight, c.connections, c.streams), (100, 10, 10));
        assert_eq!((c.baseline_connections, c.baseline_pipeline), (100, 1));
        assert_eq!(c.ratio(MetricId::Throughput).values, [2.0, 1.5]);
        assert_eq!(c.ratio(MetricId::Cpu).values, [0.0; 0]);
    }

    /// The generator limits the fastest repeats of one protocol or of both.
    #[test]
    fn limited_repeats_make_protocol_ratio_a_bound() {
        let h1 = (1..=5).map(|block| ("a", OVER_H1, block, (10, 1), 1000 + u64::from(block)));
        let h2 = (1..=5).map(|block| ("a", OVER_H2, block, (1, 10), 1000));
        let repeats: Vec<Repeat<'_>> = h1.chain(h2).collect();
        let compared = |limited: &[usize]| {
            let comparisons = compare_limited(plan(&["a"]), &repeats, limited);
            let [c] = comparisons.as_slice() else { panic!("{comparisons:?}") };
            (
                c.throughput_bound,
                c.ratio(MetricId::Throughput).values.len(),
                c.ratio(MetricId::Throughput).median,
            )
        };
        assert_eq!(compared(&[]), (RatioBound::Exact, 5, Some(1000.0 / 1003.0)));
        assert_eq!(compared(&[2, 3, 4]), (RatioBound::AtMost, 5, Some(1000.0 / 1003.0)));
        assert_eq!(compared(&[5, 6, 7]), (RatioBound::AtLeast, 5, Some(1000.0 / 1003.0)));
        let both = compare_limited(plan(&["a"]), &repeats, &[2, 3, 4, 5, 6, 7]);
        assert!(both.iter().all(|c| c.ratio(MetricId::Throughput).values.is_empty()), "{both:?}");
    }

    #[test]
    fn protocol_comparison_separates_shapes() {
        let comparisons = compare_repeats(
            plan(&["a"]),
            &[
                ("a", OVER_H1, 1, (100, 1), 100),
                ("a", OVER_H1, 1, (25, 4), 400),
                ("a", OVER_H2, 1, (10, 10), 200),
                ("a", OVER_H2, 1, (1, 100), 50),
            ],
        );
        let rows: Vec<_> = comparisons
            .iter()
            .map(|c| (c.connections, c.streams, c.baseline_connections, c.baseline_pipeline))
            .collect();
        assert_eq!(rows, [(1, 100, 25, 4), (1, 100, 100, 1), (10, 10, 25, 4), (10, 10, 100, 1)]);
        let ratios: Vec<_> =
            comparisons.iter().filter_map(|c| c.ratio(MetricId::Throughput).median).collect();
        assert_eq!(ratios, [0.125, 0.5, 0.5, 2.0]);
    }

    #[test]
    fn protocol_comparison_uses_same_pass() {
        let comparisons = compare_repeats(
            plan(&["a"]),
            &[
                ("a", OVER_H1, 1, (10, 1), 100),
                ("a", OVER_H1, 1, (10, 1), 200),
                ("a", OVER_H2, 1, (1, 10), 300),
                ("a", OVER_H2, 1, (1, 10), 800),
            ],
        );
        let rows: Vec<_> =
            comparisons.iter().map(|c| (c.pass, c.ratio(MetricId::Throughput).median)).collect();
        assert_eq!(rows, [(1, Some(3.0)), (2, Some(4.0))]);
    }

    #[test]
    fn other_variant_is_baseline_without_own_numbers() {
        let comparisons = compare_repeats(
            plan(&["a", "a/both", "a/h2c", "ab/h2c"]),
            &[
                ("a", OVER_H1, 1, (10, 1), 100),
                ("a/both", OVER_H1, 1, (10, 1), 200),
                ("a/both", OVER_H2, 1, (1, 10), 200),
                ("a/h2c", OVER_H2, 1, (1, 10), 300),
                ("ab/h2c", OVER_H2, 1, (1, 10), 300),
            ],
        );
        let rows: Vec<_> = comparisons
            .iter()
            .map(|c| {
                (
                    c.subject.as_str(),
                    c.baseline_subject.as_str(),
                    c.ratio(MetricId::Throughput).median,
                )
            })
            .collect();
        assert_eq!(rows, [("a/both", "a/both", Some(1.0)), ("a/h2c", "a", Some(3.0))]);
        assert!(comparisons.iter().all(|c| c.server == "a"));
    }

    #[test]
    fn pages_and_different_requests_are_not_compared() {
        let page =
            Workload { page: Some(Page { connections: 6 }), ..workload("two", Protocol::H2c) };
        let tls_workload = workload("two", Protocol::H2);
        let mut other = workload("two", Protocol::H2c);
        other.requests[0].path = "/other".into();
        let repeats = [("a", OVER_H1, 1, (10, 1), 1), ("a", OVER_H2, 1, (1, 10), 1)];
        assert_eq!(compare_repeats(plan(&["a"]), &repeats).len(), 1);
        for two in [page, tls_workload, other] {
            let mut plan = plan(&["a"]);
            plan.workloads[1] = two;
            assert_eq!(compare_repeats(plan, &repeats), []);
        }
    }

    #[test]
    fn steps_without_common_block_are_not_compared() {
        let repeats = [("a", OVER_H1, 1, (10, 1), 1), ("a", OVER_H2, 2, (1, 10), 1)];
        assert_eq!(compare_repeats(plan(&["a"]), &repeats), []);
    }

    #[test]
    fn fewer_granted_streams_are_not_granted() {
        let streams = |granted| StreamCounts { asked: 10, granted, max_open: 10 };
        assert!(are_granted(&streams(None)) && are_granted(&streams(Some(10))));
        assert!(!are_granted(&streams(Some(9))));
    }

    #[test]
    fn baseline_workload_has_same_requests_and_tls() {
        let page =
            Workload { page: Some(Page { connections: 6 }), ..workload("page", Protocol::H1) };
        let mut other = workload("other", Protocol::H1);
        other.requests[0].path = "/other".into();
        let mut plan = plan(&["a"]);
        plan.workloads = vec![
            page,
            other,
            workload("tls", Protocol::H1Tls),
            workload("h2c", Protocol::H2c),
            workload("one", Protocol::H1),
        ];
        assert_eq!(baseline_workload(&plan, &workload("two", Protocol::H2c)), Some(4));
        assert_eq!(baseline_workload(&plan, &workload("two", Protocol::H2)), Some(2));
        plan.workloads.truncate(2);
        assert_eq!(baseline_workload(&plan, &workload("two", Protocol::H2c)), None);
    }

    #[test]
    fn only_valid_trials_of_closed_loops_are_compared() {
        let repeats = [
            ("a", OVER_H1, 1, (10, 1), 1),
            ("a", OVER_H2, 1, (1, 10), 0),
            ("a", OVER_H2, 2, (1, 10), 1),
        ];
        // The first HTTP/2 trial has no responses, so it is refused; the other one has no HTTP/1.1
        // trial in its block.
        assert_eq!(compare_repeats(plan(&["a"]), &repeats), []);
        let mut open = plan(&["a"]);
        let step = |connections, streams, arrivals| Step {
            connections,
            streams,
            pipeline: 1,
            arrivals,
            pass: 1,
        };
        open.load.steps = vec![step(10, 1, Arrivals::Closed), step(1, 10, Arrivals::Closed)];
        let closed = open.clone();
        open.load.steps[0].arrivals = Arrivals::Constant { rate: 5.0 };
        open.load.steps[1].arrivals = Arrivals::Constant { rate: 5.0 };
        let mut records = Vec::new();
        let mut results = |plan: &mut Plan| {
            plan.trials = [0, 1]
                .map(|at| Trial { launch: 0, arm: 0, workload: at, step: at, seed: 0 })
                .into();
            records = [0, 1].map(|at| fixture::trial_record(at, fixture::record(9))).into();
            let facts = &Facts::default();
            let trials: Vec<TrialResult> = records
                .iter()
                .map(|record| RecordedTrial { plan, facts, start: None, record }.result())
                .collect();
            protocols(plan, &Grid::new(&trials)).len()
        };
        assert_eq!((results(&mut closed.clone()), results(&mut open)), (1, 0));
    }
}
