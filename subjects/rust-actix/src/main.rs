use std::error::Error;
use std::net::Ipv4Addr;
use std::time::Duration;

use actix_web::{App, HttpServer, Responder, route, web};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Serialize;

#[derive(Serialize)]
struct Message {
    message: &'static str,
}

#[route("/plaintext", method = "GET", method = "HEAD")]
async fn plaintext() -> impl Responder {
    "Hello, World!"
}

#[route("/json", method = "GET", method = "HEAD")]
async fn json() -> impl Responder {
    web::Json(Message { message: "Hello, World!" })
}

/// Actix adds the protocols of ALPN itself.
fn tls(cert: &str, key: &str) -> Result<ServerConfig, Box<dyn Error>> {
    let chain = CertificateDer::pem_file_iter(cert)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    Ok(ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?)
}

/// `--port PORT [--h2c] [--tls-port PORT --cert FILE --key FILE]`: the ports to listen on.
#[actix_web::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1)
    };

    let mut server = HttpServer::new(|| App::new().service(plaintext).service(json))
        // The default of 5 s would close connections that a slow load leaves idle.
        .keep_alive(Duration::from_secs(60))
        // The default is to wait 30 s for connections that are open.
        .shutdown_timeout(1);
    if let Some(port) = value("--port") {
        let address = (Ipv4Addr::LOCALHOST, port.parse()?);
        let h2c = arguments.iter().any(|argument| argument == "--h2c");
        server = if h2c { server.bind_auto_h2c(address)? } else { server.bind(address)? };
    }
    if let (Some(port), Some(cert), Some(key)) =
        (value("--tls-port"), value("--cert"), value("--key"))
    {
        server = server.bind_rustls_0_23((Ipv4Addr::LOCALHOST, port.parse()?), tls(cert, key)?)?;
    }
    Ok(server.run().await?)
}
