//! Keeps the TLS sessions of a client for resumption.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// The sessions of one server. The server name of a connection is ignored.
///
/// A TLS 1.3 ticket resumes one connection only. Each connection of a load therefore needs its own
/// ticket. rustls's own store keeps at most eight tickets per server, even if its size is larger.
/// If more connections opened at once, only eight would resume a session.
pub(crate) struct SessionStore {
    max_tickets: usize,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    key_exchange: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    /// TLS 1.3 tickets, oldest first.
    tickets: VecDeque<Tls13ClientSessionValue>,
}

impl SessionStore {
    /// Creates an empty store for at most `max_tickets` TLS 1.3 tickets, and for one session of
    /// TLS 1.2, which resumes any number of connections. The oldest ticket makes room for a new
    /// one.
    pub(crate) fn new(max_tickets: usize) -> SessionStore {
        SessionStore { max_tickets, sessions: Mutex::default() }
    }

    /// Returns the sessions. A poisoned lock is ignored: each step of a change leaves the sessions
    /// consistent.
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows the number of tickets only, because sessions are secret.
impl std::fmt::Debug for SessionStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SessionStore({} of {} tickets)", self.sessions().tickets.len(), self.max_tickets)
    }
}

impl ClientSessionStore for SessionStore {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.sessions().key_exchange = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions().key_exchange
    }

    fn set_tls12_session(&self, _: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.sessions().tls12 = Some(session);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.sessions().tls12.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.sessions().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let tickets = &mut self.sessions().tickets;
        if tickets.len() >= self.max_tickets {
            tickets.pop_front();
        }
        tickets.push_back(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        // A server may refuse an old ticket, so the newest one is used first.
        self.sessions().tickets.pop_back()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::client::Resumption;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{
        ClientConfig, ClientConnection, HandshakeKind, ServerConfig, ServerConnection,
        SupportedProtocolVersion,
    };

    use super::*;
    use crate::tls::{SESSIONS, SessionResumption, TlsOptions, TrustedCertificates};

    /// Creates a server that sends `tickets` tickets in each TLS 1.3 handshake.
    fn server_with_tickets(
        tickets: usize,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ServerConfig> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        server.send_tls13_tickets = tickets;
        Arc::new(server)
    }

    fn client() -> ClientConfig {
        let options = TlsOptions {
            name: "localhost".into(),
            trust: TrustedCertificates::Any,
            identity: None,
            resumption: SessionResumption::On,
            alpn: Vec::new(),
        };
        Arc::unwrap_or_clone(options.configure().unwrap().config)
    }

    /// Moves all that one side has to send to the other side.
    macro_rules! pass_records {
        ($from:expr, $to:expr) => {
            while $from.wants_write() {
                let mut records = Vec::new();
                $from.write_tls(&mut records).unwrap();
                $to.read_tls(&mut records.as_slice()).unwrap();
                $to.process_new_packets().unwrap();
            }
        };
    }

    /// Opens connections at once: all begin before the first one ends its handshake. Returns how
    /// many resumed a session.
    fn open_at_once(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>, count: usize) -> usize {
        let name = ServerName::try_from("localhost").unwrap();
        let begin = |_| {
            let client = ClientConnection::new(client.clone(), name.clone()).unwrap();
            (client, ServerConnection::new(server.clone()).unwrap())
        };
        let mut pairs: Vec<_> = (0..count).map(begin).collect();
        for (client, server) in &mut pairs {
            while client.wants_write() || server.wants_write() {
                pass_records!(client, server);
                pass_records!(server, client);
            }
        }
        let is_resumed =
            |client: &ClientConnection| client.handshake_kind() == Some(HandshakeKind::Resumed);
        pairs.iter().filter(|(client, _)| is_resumed(client)).count()
    }

    #[test]
    fn connections_that_reopen_at_once_all_resume() {
        for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
            let (client, server) = (Arc::new(client()), server_with_tickets(1, &[version]));
            assert_eq!(open_at_once(&client, &server, 64), 0, "{version:?}");
            assert_eq!(open_at_once(&client, &server, 64), 64, "{version:?}");
        }
    }

    #[test]
    fn full_store_drops_oldest_ticket() {
        let store = Arc::new(SessionStore::new(3));
        let mut client = client();
        client.resumption = Resumption::store(store.clone());
        let (client, server) =
            (Arc::new(client), server_with_tickets(1, &[&rustls::version::TLS13]));
        assert_eq!(open_at_once(&client, &server, 5), 0);
        assert_eq!(format!("{store:?}"), "SessionStore(3 of 3 tickets)");
        assert_eq!(open_at_once(&client, &server, 5), 3);
    }

    #[test]
    fn configured_store_keeps_documented_number() {
        let resumption = format!("{:?}", client().resumption);
        assert!(
            resumption.contains(&format!("SessionStore(0 of {SESSIONS} tickets)")),
            "{resumption}"
        );
        assert_eq!(SESSIONS, 1024, "docs/reference/load.md");
    }
}
