//! Describes the configuration of a load in its result, so that a result can be read without its
//! plan.

use dyno_model::plan::{
    Arrival, Arrivals, DriverKind, ImportChange, Load, LoadModel, Priority, Reconnect, Request,
    Segment, Sequence, Spin, Step, StillWarming, Workload,
};
use dyno_model::{Protocol, protocol};
use schemars::JsonSchema;
use serde::Serialize;

/// The requested load, with all defaults filled in.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Config")]
pub struct LoadConfig {
    /// Address of the request, or of a page's document. Empty: a mix of requests.
    pub url: String,
    pub method: String,
    #[serde(flatten, with = "protocol::keys")]
    #[schemars(with = "protocol::keys::ProtocolKeys")]
    pub protocol: Protocol,
    pub driver: DriverKind,
    pub threads: u32,
    pub connections: u32,
    /// Streams per connection; 1 for HTTP/1.1.
    pub streams: u32,
    /// Pipeline depth: requests that are sent on a connection without waiting for responses.
    pub pipeline: u32,
    pub model: LoadModel,
    /// `None` in a closed loop.
    pub arrival: Option<Arrival>,
    /// Requests per second offered. `None`: a closed loop, or a rate that changes.
    pub rate: Option<f64>,
    /// Total number of requests. `None`: as many as the duration allows.
    pub requests: Option<u64>,
    /// Requests after which a connection is replaced; `None`: no limit.
    pub requests_per_connection: Option<u64>,
    pub warmup_s: f64,
    /// Treatment of a server that is still warming up within the window.
    pub still_warming: StillWarming,
    /// Length of the measured window. `None`: the load ends after a number of requests.
    pub duration_s: Option<f64>,
    pub interval_s: f64,
    pub timeout_s: f64,
    pub connect_timeout_s: f64,
    /// `None`: any status from 200 to 399, or several requests.
    pub expect_status: Option<u16>,
    /// Length of the expected body; `None`: no body is expected, or several requests.
    pub expect_body_bytes: Option<usize>,
    pub seed: u64,
    /// Changes of the rate over time; `None`: the rate is one number.
    pub rate_over_time: Option<Vec<Segment>>,
    pub first_byte_timeout_s: Option<f64>,
    /// Time over which connections are opened one by one; `None`: all before the load begins.
    pub ramp_connections_s: Option<f64>,
    pub reconnect: Reconnect,
    /// Maximum number of requests of an open loop that wait for a connection; further requests are
    /// dropped. Absent: only the generator's own limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_waiting: Option<u64>,
    pub spin: Spin,
    /// Requested priority of the generator's workers.
    pub priority: Priority,
    /// N, if one in N responses is checked in full. 1: every response is, 0: none is. `None`: no
    /// expectation needs a full check.
    pub check_one_in: Option<u64>,
    /// The requests of a mix, page or sequence; empty if there is only one.
    pub requests_mixed: Vec<MixedRequest>,
    /// Connections over which a visitor loads a page; `connections` then counts visitors. `None`:
    /// no pages are loaded.
    pub page_connections: Option<u32>,
    /// How visitors send the requests in order. Absent: the requests are no sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<Sequence>,
    /// Parts that an import omitted from the requests or changed in them. Absent: there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub import_changes: Vec<ImportChange>,
}

/// A request of a mix.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MixedRequest {
    pub name: String,
    pub weight: u32,
    pub method: String,
    pub path: String,
}

impl LoadConfig {
    /// Returns the total number of requested connections: visitors of pages have several.
    #[must_use]
    pub fn total_connections(&self) -> u64 {
        u64::from(self.connections) * u64::from(self.page_connections.unwrap_or(1))
    }

    /// Returns the configuration of one step of a plan.
    #[must_use]
    pub fn new(workload: &Workload, load: &Load, step: &Step, seed: u64) -> LoadConfig {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let rate_over_time = match &step.arrivals {
            Arrivals::Shaped { segments, .. } => Some(segments.clone()),
            _ => None,
        };
        let first = &workload.requests[0];
        let is_mixed = workload.requests.len() > 1;
        let mixed_request = |r: &Request| MixedRequest {
            name: r.name.clone(),
            weight: r.weight,
            method: r.method.clone(),
            path: r.path.clone(),
        };
        // The address of a page is its document's address. A mix has no single address.
        let is_mix = is_mixed && workload.page.is_none();
        LoadConfig {
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
            still_warming: load.still_warming,
            // A load with only a number of requests has no set duration.
            duration_s: load.set_duration_ns().map(seconds),
            interval_s: seconds(load.interval_ns),
            timeout_s: seconds(load.timeout_ns),
            connect_timeout_s: seconds(load.connect_timeout_ns),
            expect_status: first.expect.status.filter(|_| !is_mixed),
            expect_body_bytes: first.expect.body_bytes().filter(|_| !is_mixed),
            seed,
            rate_over_time,
            first_byte_timeout_s: load.first_byte_timeout_ns.map(seconds),
            ramp_connections_s: load.ramp_connections_ns.map(seconds),
            reconnect: load.reconnect,
            max_waiting: load.max_waiting,
            spin: load.spin,
            priority: load.priority,
            check_one_in: workload
                .requests
                .iter()
                .any(Request::is_sampled)
                .then_some(load.check_one_in),
            page_connections: workload.page_connections(),
            sequence: workload.sequence,
            import_changes: Vec::new(),
            requests_mixed: workload
                .requests
                .iter()
                .filter(|_| is_mixed)
                .map(mixed_request)
                .collect(),
        }
    }

    /// Multiplies the duration by the number of loads that run at the same time, so that each
    /// server gets as much CPU time as alone.
    #[must_use]
    pub(crate) fn with_concurrent_loads(self, concurrent_loads: Option<u32>) -> LoadConfig {
        let factor = f64::from(concurrent_loads.unwrap_or(1));
        let duration_s = self.duration_s.map(|duration_s| duration_s * factor);
        LoadConfig { warmup_s: self.warmup_s * factor, duration_s, ..self }
    }
}
