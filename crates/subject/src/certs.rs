//! Creates the certificates of subjects: an authority for one run, and a certificate that the
//! authority signs. Subjects need them to serve TLS.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use dyno_launch::folder;
use dyno_launch::guard::Guard;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};

/// Validity before the creation of a certificate, because clocks may differ.
const VALID_BEFORE: Duration = Duration::from_secs(24 * 3600);

/// Validity after the creation of a certificate, longer than any run.
const VALID_AFTER: Duration = Duration::from_secs(60 * 24 * 3600);

/// Certificates and a key as PEM files, in a separate folder that is removed on drop.
#[derive(Debug)]
pub struct Certs {
    folder: PathBuf,
    guard: Guard,
}

impl Certs {
    /// Makes an authority and a certificate for `localhost`, 127.0.0.1 and ::1, both ECDSA on
    /// P-256, in a new folder that the guard removes if dyno is killed. Only dyno's user, which is
    /// also the user of subjects, may read the key.
    pub fn make(guard: &Guard) -> io::Result<Certs> {
        Certs::make_in(&std::env::temp_dir(), guard)
    }

    fn make_in(base: &Path, guard: &Guard) -> io::Result<Certs> {
        let certs = Certs { folder: guard.make_folder_in(base, "tls")?, guard: guard.clone() };
        let texts = issue().map_err(io::Error::other)?;
        folder::write_new(&certs.authority(), &texts.authority)?;
        folder::write_new(&certs.chain(), &format!("{}{}", texts.leaf, texts.authority))?;
        folder::write_new(&certs.key(), &texts.key)?;
        Ok(certs)
    }

    /// Returns the authority's certificate, which a client has to trust.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Returns the subject's certificate, followed by the authority's.
    #[must_use]
    pub fn chain(&self) -> PathBuf {
        self.folder.join("chain.pem")
    }

    /// Returns the subject's private key, PKCS #8.
    #[must_use]
    pub fn key(&self) -> PathBuf {
        self.folder.join("key.pem")
    }
}

impl Drop for Certs {
    fn drop(&mut self) {
        // The guard removes any remaining files when dyno exits.
        if folder::remove(&self.folder).is_ok() {
            self.guard.forget_folder(&self.folder);
        }
    }
}

/// The authority's certificate, the server's (`leaf`), and the server's private key, as PEM.
struct CertificateTexts {
    authority: String,
    leaf: String,
    key: String,
}

/// Issues the certificates of one run.
fn issue() -> Result<CertificateTexts, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "dyno's authority of one run");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "localhost");
    params.subject_alt_names = vec![
        SanType::DnsName("localhost".try_into()?),
        SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        SanType::IpAddress(IpAddr::V6(Ipv6Addr::LOCALHOST)),
    ];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params);
    let key = KeyPair::generate()?;
    let leaf = params.signed_by(&key, &authority)?;
    Ok(CertificateTexts { authority: authority.pem(), leaf: leaf.pem(), key: key.serialize_pem() })
}

fn set_validity(params: &mut CertificateParams) {
    let now = SystemTime::now();
    params.not_before = (now - VALID_BEFORE).into();
    params.not_after = (now + VALID_AFTER).into();
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    use dyno_contract::tls::{SessionResumption, TlsOptions, TrustedCertificates};

    /// A client that trusts the authority accepts the server's chain for the name and both
    /// addresses.
    #[test]
    fn client_with_authority_accepts_certificate() {
        let root = tempfile::tempdir().unwrap();
        // The guard of a test is this test program, which ends immediately with the unknown
        // argument.
        let certs = Certs::make_in(root.path(), &Guard::start().unwrap()).unwrap();
        let chain: Vec<_> = CertificateDer::pem_file_iter(certs.chain())
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(chain.len(), 2);
        let key = PrivateKeyDer::from_pem_file(certs.key()).unwrap();
        assert!(matches!(key, PrivateKeyDer::Pkcs8(_)));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let config = Arc::new(config);
        for name in ["localhost", "127.0.0.1", "::1"] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let addr = listener.local_addr().unwrap();
            let config = config.clone();
            let server = std::thread::spawn(move || {
                let mut connection = rustls::ServerConnection::new(config).unwrap();
                let (mut socket, _) = listener.accept().unwrap();
                let _ = rustls::Stream::new(&mut connection, &mut socket).write_all(b"hello");
            });
            let options = TlsOptions {
                name: name.into(),
                trust: TrustedCertificates::File(certs.authority()),
                identity: None,
                resumption: SessionResumption::Off,
                alpn: Vec::new(),
            };
            let tls = options.configure().unwrap();
            let mut connection = rustls::ClientConnection::new(tls.config, tls.name).unwrap();
            let mut socket = TcpStream::connect(addr).unwrap();
            let mut received = [0; 5];
            rustls::Stream::new(&mut connection, &mut socket).read_exact(&mut received).unwrap();
            assert_eq!(&received, b"hello", "{name}");
            server.join().unwrap();
        }
        let folder = certs.folder.clone();
        drop(certs);
        assert!(!folder.exists());
    }
}
