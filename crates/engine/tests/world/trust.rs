//! Both sides of TLS, for tests: a server with a certificate of its own, and a client that trusts
//! it or does not.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// The name that the certificate is for.
pub const NAME: &str = "localhost";

/// The two configurations, each with the protocols that its side offers by ALPN.
pub fn pair(
    client_alpn: &[&str],
    server_alpn: &[&str],
    is_trusted: bool,
) -> (ClientConfig, ServerConfig) {
    let names = |alpn: &[&str]| alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let made = rcgen::generate_simple_self_signed([NAME.to_string()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate: CertificateDer<'static> = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
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
