//! Builds the load of a server for the tests of loads.

use std::net::SocketAddr;

use dyno_contract::listener::Listener;
use dyno_driver::best_driver;
use dyno_engine::Http2;
use dyno_lab::load::{LoadRequests, LoadSpec, single_request};
use dyno_model::Protocol;
use dyno_model::plan::{Request, Workload};
use dyno_suite::defaults::default_load;

pub const MS: u64 = 1_000_000;

/// Returns a load of one `GET /`. Tests derive their loads from it.
pub fn load_of(addr: SocketAddr) -> LoadSpec {
    let listener = Listener { addr, protocol: Protocol::H1, authority: None };
    let request =
        Request { weight: 1, method: "GET".into(), path: "/".into(), ..Request::default() };
    let workload = Workload {
        name: "any".into(),
        protocol: Protocol::H1,
        requests: vec![request],
        page: None,
        sequence: None,
        requests_per_connection: None,
    };
    let http2 = Http2::default();
    let read = |_: &str| Err("no files here".into());
    let requests = LoadRequests::compile(workload, &listener.host(), http2, &read).unwrap();
    single_request(&listener, requests, default_load(best_driver().0))
}
