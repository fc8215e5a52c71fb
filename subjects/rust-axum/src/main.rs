use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};

use axum::routing::get;
use axum::serve::ListenerExt;
use axum::{Json, Router};
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

async fn plaintext() -> &'static str {
    "Hello, World!"
}

async fn message() -> Json<Value> {
    Json(json!({ "message": "Hello, World!" }))
}

async fn serve(app: Router, port: u16) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, app).await?)
}

/// By axum-server: axum itself serves plain ports alone.
async fn serve_tls(app: Router, port: u16, config: RustlsConfig) -> Result<()> {
    let acceptor = RustlsAcceptor::new(config).acceptor(NoDelayAcceptor::new());
    let server =
        axum_server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).acceptor(acceptor);
    Ok(server.serve(app.into_make_service()).await?)
}

/// `--port PORT [--tls-port PORT --cert FILE --key FILE]`: the ports to listen on.
#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1)
    };
    let app = Router::new().route("/plaintext", get(plaintext)).route("/json", get(message));
    let mut terminate = signal(SignalKind::terminate())?;

    let plain = async {
        match value("--port") {
            Some(port) => serve(app.clone(), port.parse()?).await,
            None => std::future::pending().await,
        }
    };
    let tls = async {
        match (value("--tls-port"), value("--cert"), value("--key")) {
            (Some(port), Some(cert), Some(key)) => {
                let config = RustlsConfig::from_pem_file(cert, key).await?;
                serve_tls(app.clone(), port.parse()?, config).await
            }
            _ => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = plain => ended,
        ended = tls => ended,
        // A graceful end would wait for connections that stay open.
        _ = terminate.recv() => Ok(()),
    }
}
