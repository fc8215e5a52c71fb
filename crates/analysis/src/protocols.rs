//! The same request to the same server in several protocols, at equal requests in flight.

use dyno_archive::plan::{Plan, Request, Workload};
use schemars::JsonSchema;
use serde::Serialize;

use crate::report::TrialResult;
use crate::stats::Repeated;

/// One server asked the same in another protocol: ratios of block-paired repeats, HTTP/1.1 without or with TLS being one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProtocolComparison {
    /// The server, whatever its variant.
    pub server: String,
    /// Workload that is compared, and the one of HTTP/1.1 that it is compared with.
    pub workload: String,
    pub baseline: String,
    /// Requests in flight: connections × streams × pipeline. It is the same on both sides.
    pub in_flight: u64,
    /// Connections on each side.
    pub connections: u32,
    pub baseline_connections: u32,
    pub throughput_ratio: Repeated,
    pub response_p99_ratio: Repeated,
    pub cpu_per_request_ratio: Repeated,
}

/// Compares every workload of HTTP/2 with the one of HTTP/1.1 that asks the same with or without TLS, server by server.
#[must_use]
pub fn protocols(plan: &Plan, trials: &[TrialResult]) -> Vec<ProtocolComparison> {
    let mut all = Vec::new();
    let mut servers: Vec<&str> = Vec::new();
    for subject in &plan.subjects {
        if !servers.contains(&subject.name.as_str()) {
            servers.push(&subject.name);
        }
    }
    for server in servers {
        for workload in plan.workloads.iter().filter(|w| w.protocol.starts_with("h2")) {
            let is_baseline =
                |w: &&Workload| w.protocol == "h1" && w.tls == workload.tls && ask_alike(w, workload);
            let Some(baseline) = plan.workloads.iter().find(is_baseline) else { continue };
            all.extend(compare(server, workload, baseline, trials));
        }
    }
    all
}

/// Whether two workloads ask the same, whatever they call it.
fn ask_alike(a: &Workload, b: &Workload) -> bool {
    let unnamed = |w: &Workload| -> Vec<Request> {
        w.requests.iter().map(|r| Request { name: String::new(), ..r.clone() }).collect()
    };
    unnamed(a) == unnamed(b)
}

fn compare(
    server: &str,
    workload: &Workload,
    baseline: &Workload,
    trials: &[TrialResult],
) -> Vec<ProtocolComparison> {
    let is_of = |t: &&TrialResult, w: &Workload| {
        let name = t.subject_id.split_once('/').map_or(t.subject_id.as_str(), |(name, _)| name);
        name == server && t.workload == w.name && t.valid
    };
    let mut levels: Vec<u64> = trials.iter().filter(|t| is_of(t, workload)).map(in_flight).collect();
    levels.sort_unstable();
    levels.dedup();
    let at = |w: &Workload, level: u64| -> Vec<&TrialResult> {
        trials.iter().filter(|t| is_of(t, w) && in_flight(t) == level && t.step.rate.is_none()).collect()
    };
    let one = |level: u64| {
        let (own, base) = (at(workload, level), at(baseline, level));
        let pairs: Vec<_> = own
            .iter()
            .filter_map(|t| Some((*t, *base.iter().find(|b| b.block == t.block && b.repeat == t.repeat)?)))
            .collect();
        let (first, first_base) = *pairs.first()?;
        let ratio = |pick: &dyn Fn(&TrialResult) -> Option<f64>| {
            let ratios = pairs.iter().filter_map(|(a, b)| Some(pick(a)? / pick(b)?));
            Repeated::new(ratios.filter(|r| r.is_finite()).collect())
        };
        Some(ProtocolComparison {
            server: server.into(),
            workload: workload.name.clone(),
            baseline: baseline.name.clone(),
            in_flight: level,
            connections: first.step.connections,
            baseline_connections: first_base.step.connections,
            throughput_ratio: ratio(&|t| Some(t.load.throughput_rps)),
            response_p99_ratio: ratio(&|t| t.load.response_time_us.p99),
            cpu_per_request_ratio: ratio(&|t| t.server.cpu_us_per_request),
        })
    };
    levels.into_iter().filter_map(one).collect()
}

fn in_flight(t: &TrialResult) -> u64 {
    u64::from(t.step.connections) * u64::from(t.step.streams) * u64::from(t.step.pipeline)
}
