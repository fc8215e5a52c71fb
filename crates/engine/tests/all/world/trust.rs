//! TLS configurations for tests: a server with its own certificate, and a client that trusts it or
//! not.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Name in the certificate.
pub const NAME: &str = "localhost";

/// Creates the two configurations, each with the ALPN protocols of its side.
pub fn pair(
    client_alpn: &[&str],
    server_alpn: &[&str],
    is_trusted: bool,
) -> (ClientConfig, ServerConfig) {
    let names = |alpn: &[&str]| alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let generated = rcgen::generate_simple_self_signed([NAME.to_string()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate: CertificateDer<'static> = generated.cert.der().clone();
    let key = PrivateKeyDer::try_from(generated.signing_key.serialize_der()).unwrap();
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    server.alpn_protocols = names(server_alpn);
    let mut roots = RootCertStore::empty();
    if is_trusted {
        roots.add(certificate).unwrap();
    }
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = names(client_alpn);
    (client, server)
}
