//! What was asked of a load, in the words of its result.

use dyno_archive::plan::{
    Arrival, Arrivals, DriverKind, Load, Model, Request, Segment, Spin, Step, Workload,
};
use dyno_archive::{Protocol, protocol};
use schemars::JsonSchema;
use serde::Serialize;

/// What was asked, all defaults filled in.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Config {
    pub url: String,
    pub method: String,
    #[serde(flatten, with = "protocol::apart")]
    #[schemars(with = "protocol::apart::Apart")]
    pub protocol: Protocol,
    pub driver: DriverKind,
    pub threads: u32,
    pub connections: u32,
    pub streams: u32,
    pub pipeline: u32,
    pub model: Model,
    /// `None` in a closed loop.
    pub arrival: Option<Arrival>,
    /// Requests per second offered; `None` in a closed loop.
    pub rate: Option<f64>,
    pub requests: Option<u64>,
    pub requests_per_connection: Option<u64>,
    pub warmup_s: f64,
    pub duration_s: Option<f64>,
    pub interval_s: f64,
    pub timeout_s: f64,
    pub connect_timeout_s: f64,
    pub expect_status: Option<u16>,
    pub expect_body_bytes: Option<usize>,
    pub seed: u64,
    /// How the rate changes over time, where it is not one number.
    pub rate_over_time: Option<Vec<Segment>>,
    pub first_byte_timeout_s: Option<f64>,
    pub ramp_connections_s: Option<f64>,
    pub spin: Spin,
    /// Of how many answers one was checked in full; `None` if there is nothing that only a full look can tell.
    pub check_one_in: Option<u64>,
    /// The mix, if there is more than one request.
    pub requests_mixed: Vec<MixedRequest>,
    /// Connections over which a visitor loads a page; `None`: no pages are loaded. `connections` are visitors then.
    pub page_connections: Option<u32>,
}

/// A request of a mix.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MixedRequest {
    pub name: String,
    pub weight: u32,
    pub method: String,
    pub path: String,
}

impl Config {
    /// What a plan asks of one step.
    #[must_use]
    pub fn new(workload: &Workload, load: &Load, step: &Step, seed: u64) -> Config {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let rate_over_time = match &step.arrivals {
            Arrivals::Shaped { segments, .. } => Some(segments.clone()),
            _ => None,
        };
        let first = &workload.requests[0];
        let is_mixed = workload.requests.len() > 1;
        let mixed = |r: &Request| MixedRequest {
            name: r.name.clone(),
            weight: r.weight,
            method: r.method.clone(),
            path: r.path.clone(),
        };
        // Of a page it is the document's address; a mix has none of its own.
        let is_mix = is_mixed && workload.page.is_none();
        Config {
            url: if is_mix { String::new() } else { first.path.clone() },
            method: first.method.clone(),
            protocol: workload.protocol,
            driver: load.driver,
            threads: load.threads,
            connections: step.connections,
            streams: step.streams,
            pipeline: step.pipeline,
            model: step.arrivals.model(),
            arrival: step.arrivals.arrival(),
            rate: step.arrivals.rate(),
            requests: load.requests,
            requests_per_connection: load.requests_per_connection,
            warmup_s: seconds(load.warmup_ns),
            // With only a number of requests asked for, no duration was.
            duration_s: load.set_duration_ns().map(seconds),
            interval_s: seconds(load.interval_ns),
            timeout_s: seconds(load.timeout_ns),
            connect_timeout_s: seconds(load.connect_timeout_ns),
            expect_status: first.expect.status.filter(|_| !is_mixed),
            expect_body_bytes: first.expect.body.as_ref().map(|body| body.0.len()).filter(|_| !is_mixed),
            seed,
            rate_over_time,
            first_byte_timeout_s: load.first_byte_timeout_ns.map(seconds),
            ramp_connections_s: load.ramp_connections_ns.map(seconds),
            spin: load.spin,
            check_one_in: workload.requests.iter().any(|r| r.expect.is_deep()).then_some(load.check_one_in),
            page_connections: workload.page_connections(),
            requests_mixed: workload.requests.iter().filter(|_| is_mixed).map(mixed).collect(),
        }
    }
}
