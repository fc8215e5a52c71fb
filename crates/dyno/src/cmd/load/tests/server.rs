//! A small real server on threads of this process, whose responses a test chooses.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

/// Returns the response to a request. Empty: no response.
trait Respond: Fn(&str) -> Vec<u8> + Send + Sync + 'static {}

impl<F: Fn(&str) -> Vec<u8> + Send + Sync + 'static> Respond for F {}

/// A server that responds to each request, and ends with this process.
pub struct SmallServer {
    pub addr: SocketAddr,
    received: Arc<Received>,
}

/// What a server has received, in order.
#[derive(Default)]
pub struct Received {
    requests: Mutex<Vec<String>>,
    /// Source addresses of connections.
    sources: Mutex<Vec<IpAddr>>,
}

impl Received {
    /// Returns the requests with their bodies.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl SmallServer {
    /// Starts a server at a local address. `respond` gets each request with its body.
    pub fn start(
        address: &str,
        respond: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) -> SmallServer {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let received = Arc::new(Received::default());
        let (respond, of_server) = (Arc::new(respond), Arc::clone(&received));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let source = stream.peer_addr().unwrap().ip();
                of_server.sources.lock().unwrap().push(source);
                let (respond, received) = (Arc::clone(&respond), Arc::clone(&of_server));
                thread::spawn(move || serve(stream, &*respond, &received));
            }
        });
        SmallServer { addr, received }
    }

    /// Starts a server that responds to every request with this text.
    pub fn with_response(response: &str) -> SmallServer {
        let response = response.as_bytes().to_vec();
        SmallServer::start("127.0.0.1", move |_| response.clone())
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    pub fn requests(&self) -> Vec<String> {
        self.received.requests()
    }

    /// Returns the source addresses of the connections, in order.
    pub fn sources(&self) -> Vec<IpAddr> {
        self.received.sources.lock().unwrap().clone()
    }
}

/// Starts a server of a Unix socket, as [`SmallServer::with_response`] does.
pub fn serve_unix(path: &Path, response: &'static str) -> Arc<Received> {
    let listener = UnixListener::bind(path).unwrap();
    let received = Arc::new(Received::default());
    let of_server = Arc::clone(&received);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, received) = (stream.unwrap(), Arc::clone(&of_server));
            thread::spawn(move || serve(stream, &|_: &str| response.into(), &received));
        }
    });
    received
}

fn serve(mut stream: impl Read + Write, respond: &impl Respond, received: &Received) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(length) = request_length(&bytes) {
            let request = String::from_utf8_lossy(&bytes[..length]).into_owned();
            bytes.drain(..length);
            let response = respond(&request);
            received.requests.lock().unwrap().push(request);
            if stream.write_all(&response).is_err() {
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(n @ 1..) => bytes.extend_from_slice(&buffer[..n]),
            _ => return,
        }
    }
}

/// Returns the length of the first request. `None`: the request is not complete.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let head_length = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..head_length]).to_ascii_lowercase();
    let field = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let body_length: usize = field.map_or(0, |length| length.parse().unwrap());
    Some(head_length + body_length).filter(|length| *length <= bytes.len())
}

/// Returns a response with these header lines and this body.
pub fn ok(fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
