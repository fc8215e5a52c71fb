//! TLS sessions over a simulated server: their handshakes and the protocol that they choose.

use std::sync::Arc;

use dyno_engine::sim::{Fault, Queue, ServerModel, ServiceTime, SimDriver, World};
use dyno_engine::traffic::StreamTemplate;
use dyno_engine::{CompiledRequest, Protocol, Stop, Traffic, WorkerConfig};
use dyno_model::plan::Arrivals;
use dyno_wire::h2::SharedFields;

use crate::world::observed::run_observed;
use crate::world::tls::{Goodbye, pair};
use crate::world::{MS, config};

fn driver() -> SimDriver {
    let model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
    SimDriver::new(World::new(1, model))
}

/// The server ends its session in the same read as the handshake.
#[test]
fn handshake_that_ends_with_close_is_counted() {
    let (tls, driver) = pair(driver(), "http/1.1", true, Goodbye::WithHandshake);
    let config = WorkerConfig {
        protocol: Protocol::H1Tls,
        tls: Some(tls),
        ..config(2, &Arrivals::Closed, 1)
    };
    let report = run_observed(driver, config, |_, _| Stop::No).report;
    let tls = report.tls.unwrap();
    assert!(report.connections.opened >= 2 && tls.errors.is_empty(), "{tls:?}");
    assert_eq!(tls.handshakes_full + tls.handshakes_resumed, report.connections.opened, "{tls:?}");
    assert_eq!(tls.alpn.as_deref(), Some("http/1.1"));
    assert_eq!(report.books.completed, 0);
}

/// Returns the requests with streams of HTTP/2, too, because the server chooses the version.
fn traffic_for_both_versions(traffic: &Traffic) -> Arc<Traffic> {
    let list = [(":method", "GET"), (":scheme", "https"), (":authority", "sim"), (":path", "/")]
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .to_vec();
    let shared = SharedFields::from_requests(std::slice::from_ref(&list));
    let stream = StreamTemplate::Fixed { block: shared.encode(&list), body: Arc::from([]) };
    let request = CompiledRequest { stream: Some(stream), ..traffic.requests()[0].clone() };
    Arc::new(Traffic::single(request).with_shared_bytes(shared.table_bytes()))
}

/// The server chooses HTTP/1.1. Before that is known, no requests wait for a connection that has to
/// serve them one after the other.
#[test]
fn connection_of_unknown_protocol_takes_one_request() {
    let (tls, driver) = pair(driver(), "http/1.1", true, Goodbye::Notice);
    let mut config = WorkerConfig {
        protocol: Protocol::Auto,
        streams: 8,
        tls: Some(tls),
        ..config(3, &Arrivals::Closed, 1)
    };
    config.policy.ramp_ns = Some(30 * MS);
    config.traffic = traffic_for_both_versions(&config.traffic);
    let run = run_observed(driver, config, |_, _| Stop::No);
    assert!(run.report.books.balance() && run.report.http1_chosen == 3, "{:?}", run.report.books);
    let longest = run.intervals.iter().filter_map(|i| i.times.response.max()).max();
    // A request takes 1 ms.
    assert!(longest.unwrap() < 2 * MS, "{longest:?}");
}

/// A server without a limit of streams has chosen HTTP/2 with its first connection. Requests that
/// arrive while the connection is replaced then wait for its streams, as with HTTP/2 alone.
#[test]
fn auto_reconnects_like_http2_without_stream_limit() {
    let simulate = |protocol: Protocol| {
        let mut model = ServerModel::new(ServiceTime::Fixed { ns: MS }, Queue::PerConnection);
        model.faults = vec![(Fault::GoAway, 0.01)];
        let mut world = World::new(1, model);
        world.net.delay_ns = 5 * MS;
        let (tls, driver) = pair(SimDriver::new(world), "h2", true, Goodbye::Notice);
        let arrivals = Arrivals::Constant { rate: 1000.0 };
        let mut config =
            WorkerConfig { protocol, streams: 64, tls: Some(tls), ..config(1, &arrivals, 5) };
        config.policy.max_waiting = Some(0);
        config.traffic = traffic_for_both_versions(&config.traffic);
        run_observed(driver, config, |_, _| Stop::No).report
    };
    let (auto, http2) = (simulate(Protocol::Auto), simulate(Protocol::H2));
    assert!(auto.connections.opened > 20, "{:?}", auto.connections);
    assert_eq!(auto.http2.as_ref().unwrap().streams_granted, None);
    assert_eq!((auto.books, auto.connections), (http2.books, http2.connections));
}

#[test]
fn http1_connections_of_auto_are_counted() {
    for (alpn, protocol, expected) in
        [("http/1.1", Protocol::Auto, 3), ("http/1.1", Protocol::H1Tls, 0)]
    {
        let (tls, driver) = pair(driver(), alpn, true, Goodbye::Notice);
        let mut config =
            WorkerConfig { protocol, tls: Some(tls), ..config(3, &Arrivals::Closed, 1) };
        config.traffic = traffic_for_both_versions(&config.traffic);
        let report = run_observed(driver, config, |_, _| Stop::No).report;
        assert_eq!((report.http1_chosen, report.http2), (expected, None), "{protocol:?}");
    }
}
