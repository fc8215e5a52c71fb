//! Builds the rustls configuration of a client from TLS options.

use std::path::PathBuf;
use std::sync::Arc;

use dyno_engine::{Protocol, Tls, tls_error_text};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use serde::{Deserialize, Serialize};

use crate::pem;
use crate::sessions::SessionStore;

/// TLS options of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsOptions {
    /// Name or address that the server must prove.
    pub name: String,
    pub trust: TrustedCertificates,
    /// Files with the client's certificate and key, which the client sends if the server requests
    /// them.
    pub identity: Option<(PathBuf, PathBuf)>,
    pub resumption: SessionResumption,
    /// Protocols offered by ALPN, preferred one first.
    pub alpn: Vec<String>,
}

/// Certificates that a client accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrustedCertificates {
    /// The certificates that this system trusts.
    System,
    /// The authorities in a file.
    File(PathBuf),
    /// Any certificate, without verification (`-k`).
    Any,
}

/// Whether a new connection may resume the session of an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionResumption {
    On,
    Off,
}

/// TLS 1.3 sessions stored for resumption, per worker.
pub(crate) const SESSIONS: usize = 1024;

impl TlsOptions {
    /// Returns the protocols to offer by ALPN for a load with this protocol, preferred one first.
    /// HTTP/1.1 is offered together with HTTP/2. Thus a server without HTTP/2 can be distinguished
    /// from a server that fails.
    #[must_use]
    pub fn alpn(protocol: Protocol) -> Vec<String> {
        let names: &[&str] = match protocol {
            Protocol::H2 | Protocol::Auto => &["h2", "http/1.1"],
            _ => &["http/1.1"],
        };
        names.iter().map(|name| (*name).into()).collect()
    }

    /// Builds the rustls configuration. Each worker has a separate configuration, because workers
    /// share nothing.
    pub fn configure(&self) -> Result<Tls, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder =
            builder.dangerous().with_custom_certificate_verifier(self.verifier(provider)?);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = pem::certificates(certificate)?;
                let key_error = |error| format!("{}: {}", key.display(), tls_error_text(&error));
                builder.with_client_auth_cert(chain, pem::private_key(key)?).map_err(key_error)?
            }
        };
        config.alpn_protocols = self.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config.resumption = match self.resumption {
            SessionResumption::On => Resumption::store(Arc::new(SessionStore::new(SESSIONS))),
            SessionResumption::Off => Resumption::disabled(),
        };
        let name = ServerName::try_from(self.name.clone())
            .map_err(|_| format!("{:?}: neither a host name nor an address", self.name))?;
        Ok(Tls { config: Arc::new(config), name })
    }

    /// Returns the verifier of server certificates for the trusted authorities.
    fn verifier(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, String> {
        let roots = match &self.trust {
            TrustedCertificates::Any => return Ok(Arc::new(AcceptAnyCertificate(provider))),
            TrustedCertificates::File(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in pem::certificates(path)? {
                    roots.add(certificate).map_err(|error| {
                        format!("{}: {}", path.display(), tls_error_text(&error))
                    })?;
                }
                roots
            }
            TrustedCertificates::System => system_roots()?,
        };
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        verifier.map(|v| v as Arc<dyn ServerCertVerifier>).map_err(|error| error.to_string())
    }
}

/// Reads the certificates of the authorities that this system trusts.
fn system_roots() -> Result<RootCertStore, String> {
    let loaded = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(loaded.certs);
    if roots.is_empty() {
        return Err(
            "TLS: this system has no CA certificates\nhint: install the package ca-certificates, \
             use a file with --cacert, or accept any certificate with -k"
                .into(),
        );
    }
    Ok(roots)
}

/// A verifier that accepts any certificate. It still checks that the server has the key.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
