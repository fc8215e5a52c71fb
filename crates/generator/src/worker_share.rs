//! Divides a load among its workers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use dyno_contract::tls::TlsOptions;
use dyno_driver::{Endpoint, PeerAddress};
use dyno_engine::schedule::Stripe;
use dyno_engine::{Schedule, WorkerConfig};

use super::spec::LoadSpec;
use crate::limits::LOOPBACK_SOURCES;

/// Returns the endpoint for worker `k`. Source addresses are assigned in turn to the connections of
/// all workers. The first address of a worker follows the last address of the worker before.
pub(super) fn endpoint(spec: &LoadSpec, k: u32) -> Endpoint {
    let workers = spec.threads();
    let mut endpoint = Endpoint { sources: sources(spec), ..spec.target.endpoint.clone() };
    let per_visitor = spec.page_connections.unwrap_or(1);
    let connections =
        |worker: u32| share(u64::from(spec.step.connections), worker, workers) as u32 * per_visitor;
    let before: u32 = (0..k).map(connections).sum();
    if !endpoint.sources.is_empty() {
        let start = before as usize % endpoint.sources.len();
        endpoint.sources.rotate_left(start);
    }
    endpoint
}

/// Returns the source addresses of connections: the requested addresses, or [`LOOPBACK_SOURCES`]
/// addresses for a load that would exhaust the local ports. Empty: the kernel chooses the address.
fn sources(spec: &LoadSpec) -> Vec<IpAddr> {
    let requested = &spec.target.endpoint.sources;
    let is_loopback = |peer: &PeerAddress| match peer {
        PeerAddress::Tcp(SocketAddr::V4(addr)) => addr.ip().is_loopback(),
        _ => false,
    };
    let replaces_connections = spec.load.requests_per_connection.is_some();
    let may_exhaust_ports = replaces_connections && is_loopback(&spec.target.endpoint.peer);
    if !requested.is_empty() || !may_exhaust_ports {
        return requested.clone();
    }
    (1..=LOOPBACK_SOURCES).map(|n| Ipv4Addr::new(127, 0, 0, n).into()).collect()
}

/// Returns worker `k`'s share of a whole that is divided among this number of workers.
fn share(total: u64, k: u32, workers: u32) -> u64 {
    total / u64::from(workers) + u64::from(u64::from(k) < total % u64::from(workers))
}

/// Returns the configuration of worker `k`: its share of the load.
pub(super) fn config(spec: &LoadSpec, k: u32) -> Result<WorkerConfig, String> {
    let workers = spec.threads();
    let share = |total: u64| share(total, k, workers);
    let stripe = Stripe { worker: u64::from(k), workers: u64::from(workers) };
    Ok(WorkerConfig {
        worker: k,
        connections: share(u64::from(spec.step.connections)) as u32
            * spec.page_connections.unwrap_or(1),
        page_connections: spec.page_connections,
        protocol: spec.target.protocol,
        http2: spec.load.http2,
        pipeline: spec.step.pipeline,
        streams: spec.step.streams,
        schedule: match spec.sharing.slices() {
            Some(slices) => Schedule::Sliced(slices),
            None => Schedule::new(&spec.step.arrivals, &spec.trace, spec.seed, stripe),
        },
        total: spec.load.requests.map(share),
        traffic: Arc::clone(spec.requests.traffic()),
        draws: spec.requests.traffic().draws(spec.seed, stripe.worker, stripe.workers),
        check_one_in: spec.load.check_one_in,
        policy: spec.policy(share),
        tls: spec.target.tls.as_ref().map(TlsOptions::configure).transpose()?,
        spin: spec.spin(),
        window: spec.window(),
    })
}
