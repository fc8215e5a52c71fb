//! An HTTP/2 server for the end-to-end tests, built on the `h2` crate instead of dyno's own code.
//! It counts its responses, and ends streams and connections early if options ask for it.
//!
//! `streams --port P --count-port P [--cert FILE --key FILE] [--max-streams N] [--window BYTES]
//! [--go-away-every N] [--refuse-every N] [--reset-every N]`

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use http::{Request, Response};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

/// Number of complete responses, and bytes of received request bodies.
static COMPLETE_RESPONSES: AtomicU64 = AtomicU64::new(0);
static BODY_BYTES: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Debug)]
struct Options {
    port: u16,
    count_port: u16,
    tls: Option<(String, String)>,
    max_streams: Option<u32>,
    window: Option<u32>,
    go_away_every: Option<u64>,
    refuse_every: Option<u64>,
    reset_every: Option<u64>,
}

fn options() -> Options {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        arguments.iter().position(|w| w == name).and_then(|i| arguments.get(i + 1)).cloned()
    };
    let number = |name: &str| value(name).map(|text| text.parse::<u64>().expect("a number"));
    Options {
        port: number("--port").expect("--port") as u16,
        count_port: number("--count-port").expect("--count-port") as u16,
        tls: value("--cert").zip(value("--key")),
        max_streams: number("--max-streams").map(|n| n as u32),
        window: number("--window").map(|n| n as u32),
        go_away_every: number("--go-away-every"),
        refuse_every: number("--refuse-every"),
        reset_every: number("--reset-every"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let options = options();
    let count_port = options.count_port;
    std::thread::spawn(move || count(count_port));
    let acceptor = options.tls.as_ref().map(|(cert, key)| acceptor(cert, key));
    let listener =
        TcpListener::bind(("127.0.0.1", options.port)).await.expect("the port should be free");
    loop {
        let (socket, _) = listener.accept().await.expect("accepting should work");
        let (options, acceptor) = (options.clone(), acceptor.clone());
        tokio::spawn(async move {
            match acceptor {
                None => serve(socket, options).await,
                Some(acceptor) => match acceptor.accept(socket).await {
                    Ok(socket) => serve(socket, options).await,
                    Err(error) => eprintln!("streams: {error}"),
                },
            }
        });
    }
}

fn acceptor(cert: &str, key: &str) -> tokio_rustls::TlsAcceptor {
    let chain: Vec<_> = CertificateDer::pem_file_iter(cert).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config).into()
}

/// Sends both counts to each client that connects.
fn count(port: u16) {
    let listener =
        std::net::TcpListener::bind(("127.0.0.1", port)).expect("the port should be free");
    for stream in listener.incoming() {
        let body = format!(
            "{} {}",
            COMPLETE_RESPONSES.load(Ordering::SeqCst),
            BODY_BYTES.load(Ordering::SeqCst)
        );
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        // The client may have disconnected.
        let _ = stream.expect("accepting should work").write_all(response.as_bytes());
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(socket: S, options: Options) {
    let mut builder = h2::server::Builder::new();
    if let Some(max_streams) = options.max_streams {
        builder.max_concurrent_streams(max_streams);
    }
    if let Some(window) = options.window {
        builder.initial_window_size(window);
    }
    let mut connection = match builder.handshake::<S, Bytes>(socket).await {
        Ok(connection) => connection,
        Err(error) => return eprintln!("streams: {error}"),
    };
    let mut requests = 0;
    while let Some(request) = connection.accept().await {
        let (request, respond) = match request {
            Ok(pair) => pair,
            // The client may disconnect at any time. Other errors are printed for the test.
            Err(error) if error.is_io() => return,
            Err(error) => return eprintln!("streams: {error}"),
        };
        requests += 1;
        if options.go_away_every.is_some_and(|interval| requests == interval) {
            connection.graceful_shutdown();
        }
        tokio::spawn(respond_to(request, respond, requests, options.clone()));
    }
}

async fn respond_to(
    request: Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    requests: u64,
    options: Options,
) {
    let is_due =
        |interval: Option<u64>| interval.is_some_and(|interval| requests.is_multiple_of(interval));
    if is_due(options.refuse_every) {
        return respond.send_reset(Reason::REFUSED_STREAM);
    }
    if is_due(options.reset_every) {
        return respond.send_reset(Reason::INTERNAL_ERROR);
    }
    let mut body = request.into_body();
    while let Some(Ok(data)) = body.data().await {
        BODY_BYTES.fetch_add(data.len() as u64, Ordering::SeqCst);
        // This fails if the client has disconnected.
        let _ = body.flow_control().release_capacity(data.len());
    }
    let head = Response::builder()
        .header("content-type", "text/plain")
        .body(())
        .expect("the head should be valid");
    let Ok(mut stream) = respond.send_response(head, false) else { return };
    if stream.send_data(Bytes::from_static(b"Hello, World!"), true).is_ok() {
        COMPLETE_RESPONSES.fetch_add(1, Ordering::SeqCst);
    }
}
