use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

type Error = Box<dyn std::error::Error + Send + Sync>;

async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, kind, body): (_, _, Bytes) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/plaintext") => {
            (StatusCode::OK, "text/plain", "Hello, World!".into())
        }
        (&Method::GET | &Method::HEAD, "/json") => {
            let message = json!({ "message": "Hello, World!" });
            (StatusCode::OK, "application/json", message.to_string().into())
        }
        _ => (StatusCode::NOT_FOUND, "text/plain", "Not Found".into()),
    };
    let response = Response::builder().status(status).header(CONTENT_TYPE, kind);
    let response = match *request.method() {
        // Over HTTP/2, hyper leaves it to the service that these have no body.
        Method::HEAD => response.header(CONTENT_LENGTH, body.len()).body(Full::default()),
        _ => response.body(Full::new(body)),
    };
    Ok(response.expect("the parts are valid"))
}

/// How the connections of a port are served.
#[derive(Clone)]
enum Port {
    Http1,
    /// HTTP/1.1 or HTTP/2, as the first bytes show.
    Auto,
    Tls(TlsAcceptor),
}

/// Serves one connection. Errors of a client that went away are ignored.
async fn serve(stream: TcpStream, port: Port, watcher: Watcher) {
    let _ = stream.set_nodelay(true);
    match port {
        Port::Http1 => {
            let connection =
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(hello));
            let _ = watcher.watch(connection).await;
        }
        Port::Auto => {
            let builder = auto::Builder::new(TokioExecutor::new());
            let connection = builder.serve_connection(TokioIo::new(stream), service_fn(hello));
            let _ = watcher.watch(connection).await;
        }
        Port::Tls(acceptor) => {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let builder = auto::Builder::new(TokioExecutor::new());
            let connection = builder.serve_connection(TokioIo::new(stream), service_fn(hello));
            let _ = watcher.watch(connection).await;
        }
    }
}

async fn accept(listener: TcpListener, port: Port, graceful: Arc<GracefulShutdown>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Most likely out of file descriptors: wait until some are closed.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        tokio::spawn(serve(stream, port.clone(), graceful.watcher()));
    }
}

fn acceptor(cert: &str, key: &str) -> Result<TlsAcceptor, Error> {
    let chain = CertificateDer::pem_file_iter(cert)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// `--port PORT [--h2c] [--tls-port PORT --cert FILE --key FILE]`: the ports to listen on.
fn ports() -> Result<Vec<(u16, Port)>, Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1)
    };
    let mut ports = Vec::new();
    if let Some(port) = value("--port") {
        let auto = arguments.iter().any(|argument| argument == "--h2c");
        ports.push((port.parse()?, if auto { Port::Auto } else { Port::Http1 }));
    }
    if let (Some(port), Some(cert), Some(key)) =
        (value("--tls-port"), value("--cert"), value("--key"))
    {
        ports.push((port.parse()?, Port::Tls(acceptor(cert, key)?)));
    }
    Ok(ports)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut terminate = signal(SignalKind::terminate())?;
    let graceful = Arc::new(GracefulShutdown::new());
    let mut accepting = Vec::new();
    for (port, how) in ports()? {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        accepting.push(tokio::spawn(accept(listener, how, graceful.clone())));
    }
    terminate.recv().await;

    for task in &accepting {
        task.abort();
    }
    for task in accepting {
        let _ = task.await;
    }
    if let Some(graceful) = Arc::into_inner(graceful) {
        let _ = tokio::time::timeout(Duration::from_millis(500), graceful.shutdown()).await;
    }
    Ok(())
}
