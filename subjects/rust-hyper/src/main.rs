use std::convert::Infallible;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/plaintext") => {
            (StatusCode::OK, "text/plain", "Hello, World!".into())
        }
        (&Method::GET | &Method::HEAD, "/json") => {
            let message = json!({ "message": "Hello, World!" });
            (StatusCode::OK, "application/json", message.to_string().into())
        }
        _ => (StatusCode::NOT_FOUND, "text/plain", "Not Found".into()),
    };
    let response = Response::builder()
        .status(status)
        .header(CONTENT_TYPE, kind)
        .body(Full::new(body))
        .expect("the parts are valid");
    Ok(response)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = match std::env::args().collect::<Vec<_>>().as_slice() {
        [_, flag, port] if flag == "--port" => port.parse()?,
        _ => return Err("usage: server --port PORT".into()),
    };
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    let graceful = GracefulShutdown::new();

    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = terminate.recv() => break,
        };
        let Ok((stream, _)) = accepted else {
            // Most likely out of file descriptors: wait until some are closed.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(hello));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A client that went away is no matter of the server.
            let _ = connection.await;
        });
    }

    let _ = tokio::time::timeout(Duration::from_millis(500), graceful.shutdown()).await;
    Ok(())
}
