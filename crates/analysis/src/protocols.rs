//! The same request to the same server in several protocols, at equal requests in flight.

use dyno_archive::plan::{Arrivals, Plan, Request, Workload};
use schemars::JsonSchema;
use serde::Serialize;

use crate::load::Streams;
use crate::metric::RESPONSE_P99;
use crate::stats::Repeated;
use crate::trial::TrialResult;

/// One server asked the same in another protocol: ratios of block-paired repeats, HTTP/1.1 without or with TLS being one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProtocolComparison {
    /// The server, whatever its variant.
    pub server: String,
    /// Subjects that are compared: the same one, or, if it has no numbers over HTTP/1.1, another variant of its server.
    pub subject: String,
    pub baseline_subject: String,
    /// Workload that is compared, and the one of HTTP/1.1 that it is compared with.
    pub workload: String,
    pub baseline: String,
    /// Requests in flight: connections × streams, and connections × pipeline of HTTP/1.1. It is the same on both sides.
    pub in_flight: u64,
    /// Connections on each side, and what each had in flight.
    pub connections: u32,
    pub streams: u32,
    pub baseline_connections: u32,
    pub baseline_pipeline: u32,
    pub throughput_ratio: Repeated,
    pub response_p99_ratio: Repeated,
    pub cpu_per_request_ratio: Repeated,
}

/// What is compared of a trial.
#[derive(Clone, Copy, Debug)]
struct Measured<'a> {
    subject: &'a str,
    workload: &'a str,
    block: u32,
    shape: Shape,
    throughput_rps: f64,
    response_p99_us: Option<f64>,
    /// It lies among what was never answered.
    is_p99_unknown: bool,
    cpu_us_per_request: Option<f64>,
}

/// Requests in flight at once: so many connections with so many on each, be they streams or pipelined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    connections: u32,
    on_each: u32,
}

impl Shape {
    fn in_flight(self) -> u64 {
        u64::from(self.connections) * u64::from(self.on_each)
    }
}

/// Compares every workload of HTTP/2 with the one of HTTP/1.1 that asks the same with or without TLS, subject by subject.
/// Pages are left out: what they have in flight is theirs to say.
#[must_use]
pub fn protocols(plan: &Plan, trials: &[TrialResult]) -> Vec<ProtocolComparison> {
    let subjects: Vec<String> = plan.subjects.iter().map(dyno_archive::plan::Subject::id).collect();
    let measured: Vec<Measured<'_>> = trials.iter().filter_map(|t| measured(plan, t)).collect();
    compare_all(&subjects, &plan.workloads, &measured)
}

/// Nothing of a trial that is not valid, has a schedule, or did not have in flight what was asked for.
fn measured<'a>(plan: &Plan, t: &'a TrialResult) -> Option<Measured<'a>> {
    let is_closed = plan.load.steps[t.step.index].arrivals == Arrivals::Closed;
    let has_streams = t.load.http2.as_ref().is_none_or(|h| are_granted(&h.streams));
    (t.valid && is_closed && has_streams).then(|| Measured {
        subject: &t.subject_id,
        workload: &t.workload,
        block: t.block,
        shape: Shape { connections: t.step.connections, on_each: t.step.streams * t.step.pipeline },
        throughput_rps: t.load.throughput_rps,
        response_p99_us: t.load.response_time_us.p99,
        is_p99_unknown: RESPONSE_P99.is_beyond(t),
        cpu_us_per_request: t.server.cpu_us_per_request,
    })
}

/// Whether a server allowed as many streams as were asked for: with fewer, fewer requests were in flight.
fn are_granted(streams: &Streams) -> bool {
    streams.granted.is_none_or(|granted| granted >= streams.asked)
}

fn compare_all(
    subjects: &[String],
    workloads: &[Workload],
    trials: &[Measured<'_>],
) -> Vec<ProtocolComparison> {
    let mut all = Vec::new();
    for subject in subjects {
        for workload in workloads.iter().filter(|w| w.protocol.is_h2() && w.page.is_none()) {
            let is_baseline = |w: &&Workload| {
                w.protocol.is_h1()
                    && w.page.is_none()
                    && w.protocol.is_tls() == workload.protocol.is_tls()
                    && ask_alike(w, workload)
            };
            let Some(baseline) = workloads.iter().find(is_baseline) else { continue };
            let Some(other) = baseline_subject(subjects, subject, &baseline.name, trials) else { continue };
            let sides = [(subject.as_str(), workload.name.as_str()), (other, baseline.name.as_str())];
            all.extend(compare(sides, trials));
        }
    }
    all
}

/// The subject itself if it has numbers with the workload; or else the first other variant of its server that has.
fn baseline_subject<'a>(
    subjects: &'a [String],
    subject: &'a str,
    workload: &str,
    trials: &[Measured<'_>],
) -> Option<&'a str> {
    let has_numbers = |id: &&str| trials.iter().any(|t| t.subject == *id && t.workload == workload);
    let others = subjects.iter().map(String::as_str).filter(|id| server(id) == server(subject));
    std::iter::once(subject).chain(others).find(has_numbers)
}

fn server(subject: &str) -> &str {
    subject.split_once('/').map_or(subject, |(name, _)| name)
}

/// Whether two workloads ask the same, whatever they call it.
fn ask_alike(a: &Workload, b: &Workload) -> bool {
    let unnamed = |w: &Workload| -> Vec<Request> {
        w.requests.iter().map(|r| Request { name: String::new(), ..r.clone() }).collect()
    };
    unnamed(a) == unnamed(b)
}

/// A subject and workload beside another: every shape of the one with every shape of the other that has as many in flight.
fn compare(
    [(subject, workload), (baseline_subject, baseline)]: [(&str, &str); 2],
    trials: &[Measured<'_>],
) -> Vec<ProtocolComparison> {
    let of = |subject: &str, workload: &str| -> Vec<Measured<'_>> {
        trials.iter().filter(|t| t.subject == subject && t.workload == workload).copied().collect()
    };
    let (own, base) = (of(subject, workload), of(baseline_subject, baseline));
    let mut all = Vec::new();
    for shape in shapes(&own) {
        for beside in shapes(&base).into_iter().filter(|s| s.in_flight() == shape.in_flight()) {
            let pairs = paired(&own, shape, &base, beside);
            if pairs.is_empty() {
                continue;
            }
            all.push(ProtocolComparison {
                server: server(subject).into(),
                subject: subject.into(),
                baseline_subject: baseline_subject.into(),
                workload: workload.into(),
                baseline: baseline.into(),
                in_flight: shape.in_flight(),
                connections: shape.connections,
                streams: shape.on_each,
                baseline_connections: beside.connections,
                baseline_pipeline: beside.on_each,
                throughput_ratio: ratio(&pairs, |t| Some(t.throughput_rps)),
                response_p99_ratio: if pairs.iter().any(|(a, b)| a.is_p99_unknown || b.is_p99_unknown) {
                    Repeated::new(Vec::new())
                } else {
                    ratio(&pairs, |t| t.response_p99_us)
                },
                cpu_per_request_ratio: ratio(&pairs, |t| t.cpu_us_per_request),
            });
        }
    }
    all
}

/// Those that occur, fewest in flight first.
fn shapes(trials: &[Measured<'_>]) -> Vec<Shape> {
    let mut all: Vec<Shape> = trials.iter().map(|t| t.shape).collect();
    all.sort_unstable_by_key(|s| (s.in_flight(), *s));
    all.dedup();
    all
}

/// Trials of the same block: they ran close in time, so what drifts on the machine cancels.
fn paired<'a>(
    own: &[Measured<'a>],
    shape: Shape,
    base: &[Measured<'a>],
    beside: Shape,
) -> Vec<(Measured<'a>, Measured<'a>)> {
    let partner = |t: &Measured<'_>| base.iter().find(|b| b.shape == beside && b.block == t.block);
    own.iter().filter(|t| t.shape == shape).filter_map(|t| Some((*t, *partner(t)?))).collect()
}

fn ratio(pairs: &[(Measured<'_>, Measured<'_>)], pick: impl Fn(&Measured<'_>) -> Option<f64>) -> Repeated {
    let ratios = pairs.iter().filter_map(|(a, b)| Some(pick(a)? / pick(b)?));
    Repeated::new(ratios.filter(|r| r.is_finite()).collect())
}

#[cfg(test)]
mod tests {
    use dyno_archive::Protocol;
    use dyno_archive::plan::Page;

    use super::*;

    fn workload(name: &str, protocol: Protocol) -> Workload {
        let request = Request { name: name.into(), path: "/".into(), ..Request::default() };
        Workload { name: name.into(), protocol, requests: vec![request], page: None }
    }

    fn trial<'a>(
        subject: &'a str,
        workload: &'a str,
        block: u32,
        (connections, on_each): (u32, u32),
        rps: f64,
    ) -> Measured<'a> {
        Measured {
            subject,
            workload,
            block,
            shape: Shape { connections, on_each },
            throughput_rps: rps,
            response_p99_us: Some(1e6 / rps),
            is_p99_unknown: false,
            cpu_us_per_request: None,
        }
    }

    fn compared(subjects: &[&str], trials: &[Measured<'_>]) -> Vec<ProtocolComparison> {
        let subjects: Vec<String> = subjects.iter().map(ToString::to_string).collect();
        compare_all(&subjects, &[workload("one", Protocol::H1), workload("two", Protocol::H2c)], trials)
    }

    #[test]
    fn repeats_are_paired_by_block_at_equal_in_flight() {
        let all = compared(
            &["a"],
            &[
                trial("a", "one", 1, (100, 1), 100.0),
                trial("a", "one", 2, (100, 1), 200.0),
                trial("a", "one", 1, (1000, 1), 1.0),
                trial("a", "two", 2, (10, 10), 300.0),
                trial("a", "two", 1, (10, 10), 200.0),
                trial("a", "two", 1, (20, 10), 1.0),
            ],
        );
        let [c] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((c.in_flight, c.connections, c.streams), (100, 10, 10));
        assert_eq!((c.baseline_connections, c.baseline_pipeline), (100, 1));
        assert_eq!(c.throughput_ratio.values, [1.5, 2.0]);
        assert_eq!(c.cpu_per_request_ratio.values, [0.0; 0]);
    }

    #[test]
    fn shapes_with_as_many_in_flight_are_kept_apart() {
        let all = compared(
            &["a"],
            &[
                trial("a", "one", 1, (100, 1), 100.0),
                trial("a", "one", 1, (25, 4), 400.0),
                trial("a", "two", 1, (10, 10), 200.0),
                trial("a", "two", 1, (1, 100), 50.0),
            ],
        );
        let rows: Vec<_> = all
            .iter()
            .map(|c| (c.connections, c.streams, c.baseline_connections, c.baseline_pipeline))
            .collect();
        assert_eq!(rows, [(1, 100, 25, 4), (1, 100, 100, 1), (10, 10, 25, 4), (10, 10, 100, 1)]);
        let ratios: Vec<_> = all.iter().filter_map(|c| c.throughput_ratio.median).collect();
        assert_eq!(ratios, [0.125, 0.5, 0.5, 2.0]);
    }

    #[test]
    fn another_variant_is_the_baseline_only_of_one_that_has_none() {
        let trials = [
            trial("a", "one", 1, (10, 1), 100.0),
            trial("a/both", "one", 1, (10, 1), 200.0),
            trial("a/both", "two", 1, (1, 10), 200.0),
            trial("a/h2c", "two", 1, (1, 10), 300.0),
            trial("ab/h2c", "two", 1, (1, 10), 300.0),
        ];
        let all = compared(&["a", "a/both", "a/h2c", "ab/h2c"], &trials);
        let rows: Vec<_> = all
            .iter()
            .map(|c| (c.subject.as_str(), c.baseline_subject.as_str(), c.throughput_ratio.median))
            .collect();
        assert_eq!(rows, [("a/both", "a/both", Some(1.0)), ("a/h2c", "a", Some(3.0))]);
        assert!(all.iter().all(|c| c.server == "a"));
    }

    #[test]
    fn pages_and_other_requests_are_not_compared() {
        let trials = [trial("a", "one", 1, (10, 1), 1.0), trial("a", "two", 1, (1, 10), 1.0)];
        let page = Workload { page: Some(Page { connections: 6 }), ..workload("two", Protocol::H2c) };
        let over_tls = workload("two", Protocol::H2);
        let mut other = workload("two", Protocol::H2c);
        other.requests[0].path = "/other".into();
        for two in [page, over_tls, other] {
            assert_eq!(compare_all(&["a".into()], &[workload("one", Protocol::H1), two], &trials), []);
        }
    }

    #[test]
    fn fewer_streams_than_asked_for_are_another_concurrency() {
        let streams = |granted| Streams { asked: 10, granted, most: 10 };
        assert!(are_granted(&streams(None)) && are_granted(&streams(Some(10))));
        assert!(!are_granted(&streams(Some(9))));
    }
}
