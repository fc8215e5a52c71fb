//! Describes the listeners of a server: address, protocol, and TLS options of clients.

use std::net::SocketAddr;
use std::path::PathBuf;

use dyno_model::Protocol;

use crate::tls::{SessionResumption, TlsOptions, TrustedCertificates};

/// Joins the names of protocols: `h1`, `h1 and h2`, `h1, h1-tls and h2`.
#[must_use]
pub fn join_protocols(protocols: &[Protocol]) -> String {
    match protocols {
        [] => "nothing".into(),
        [protocol] => protocol.to_string(),
        [rest @ .., last] => {
            let rest: Vec<&str> = rest.iter().map(|p| p.name()).collect();
            format!("{} and {last}", rest.join(", "))
        }
    }
}

/// An address at which a running server listens, and the protocol of this address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    pub addr: SocketAddr,
    pub protocol: Protocol,
    /// PEM file of the authority that signed the server's certificate; needed over TLS only.
    pub authority: Option<PathBuf>,
}

impl Listener {
    /// Returns the host and port in requests. Over TLS the host is a name, so that clients send
    /// SNI, and the names in request and handshake are equal.
    #[must_use]
    pub fn host(&self) -> String {
        if self.protocol.is_tls() {
            format!("localhost:{}", self.addr.port())
        } else {
            self.addr.to_string()
        }
    }

    /// Returns the TLS options of a client; `None`: the listener has no TLS.
    #[must_use]
    pub fn tls(&self) -> Option<TlsOptions> {
        self.protocol.is_tls().then(|| TlsOptions {
            name: "localhost".into(),
            trust: self
                .authority
                .clone()
                .map_or(TrustedCertificates::System, TrustedCertificates::File),
            identity: None,
            resumption: SessionResumption::On,
            alpn: TlsOptions::alpn(self.protocol),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_protocols_separates_names() {
        assert_eq!(join_protocols(&Protocol::OF_SERVERS), "h1, h1-tls, h2, h2c and h2c-upgrade");
        assert_eq!(
            (join_protocols(&Protocol::OF_SERVERS[..1]).as_str(), join_protocols(&[]).as_str()),
            ("h1", "nothing")
        );
    }
}
