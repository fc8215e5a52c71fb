//! A server and its load, for the tests of loads.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use dyno_contract::listener::Listener;
use dyno_driver::best_driver;
use dyno_engine::Http2;
use dyno_lab::load::{LoadRequests, LoadSpec, single_request};
use dyno_model::Protocol;
use dyno_model::plan::{Request, Workload};
use dyno_suite::defaults::default_load;

pub const MS: u64 = 1_000_000;

/// Starts a server with a thread for each connection, in which `serve` runs.
pub fn start_server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(connection));
        }
    });
    addr
}

/// Responds to this many requests of a connection, and to no others, until the client closes it.
pub fn respond(mut connection: TcpStream, responses: usize) {
    let mut buffer = [0; 4096];
    let mut left = responses;
    while connection.read(&mut buffer).is_ok_and(|n| n > 0) {
        if left > 0 {
            left -= 1;
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    }
}

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
