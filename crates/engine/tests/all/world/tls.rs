//! A TLS layer in front of the simulated server.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use dyno_engine::driver::{
    Completion, CompletionKind, ConnId, Driver, QueuedBytes, StreamDriver, Turn, Wait,
};
use dyno_engine::sim::SimDriver;
use dyno_engine::{Instant, Tls};
use dyno_model::load::TcpCounters;
use dyno_model::sample::ThreadUse;
use rustls::{ServerConfig, ServerConnection};

use super::trust;

/// Way in which the server ends its TLS sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goodbye {
    /// The server sends a close notify (RFC 8446 §6.1).
    Notice,
    /// The server only closes the connection.
    None,
    /// The server sends a close notify with the last record of its handshake.
    WithHandshake,
}

/// A simulated world whose server speaks TLS. Records of a handshake take no time, and arrive in
/// two pieces.
pub struct TlsDriver {
    inner: SimDriver,
    config: Arc<ServerConfig>,
    goodbye: Goodbye,
    sessions: BTreeMap<ConnId, ServerConnection>,
    /// Connections on which only records of the session itself were sent.
    session_only: Vec<ConnId>,
    /// Completions of the TLS layer.
    own_completions: VecDeque<(ConnId, CompletionKind, Vec<u8>)>,
    current: Vec<u8>,
}

/// Creates the TLS configuration of a client that trusts the certificate of the server or not, and
/// that server.
pub fn pair(inner: SimDriver, alpn: &str, is_trusted: bool, goodbye: Goodbye) -> (Tls, TlsDriver) {
    let (client, server) = trust::pair(&[alpn], &["h2", "http/1.1"], is_trusted);
    let tls = Tls { config: Arc::new(client), name: trust::NAME.try_into().unwrap() };
    let driver = TlsDriver {
        inner,
        config: Arc::new(server),
        goodbye,
        sessions: BTreeMap::new(),
        session_only: Vec::new(),
        own_completions: VecDeque::new(),
        current: Vec::new(),
    };
    (tls, driver)
}

impl TlsDriver {
    /// Returns the records that a session has to send.
    fn records(session: &mut ServerConnection) -> Vec<u8> {
        let mut records = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut records).unwrap();
        }
        records
    }
}

impl Driver for TlsDriver {
    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn close(&mut self, conn: ConnId) {
        self.sessions.remove(&conn);
        self.own_completions.retain(|(owner, ..)| *owner != conn);
        self.session_only.retain(|owner| *owner != conn);
        self.inner.close(conn);
    }

    fn queued_bytes(&self, conn: ConnId) -> QueuedBytes {
        self.inner.queued_bytes(conn)
    }

    fn taken_bytes(&self) -> u64 {
        self.inner.taken_bytes()
    }

    fn flush(&mut self, on_handed_over: &mut dyn FnMut(ConnId, Instant)) {
        for conn in std::mem::take(&mut self.session_only) {
            on_handed_over(conn, self.inner.now());
        }
        self.inner.flush(on_handed_over);
    }

    fn turn(&mut self, wait: Wait, on_handed_over: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        self.flush(on_handed_over);
        let until = if self.own_completions.is_empty() { wait.until } else { self.inner.now() };
        self.inner.turn(Wait { until, ..wait }, on_handed_over)
    }

    fn next(&mut self) -> Option<Completion> {
        let Some(completion) = self.inner.next() else {
            let (conn, kind, bytes) = self.own_completions.pop_front()?;
            self.current = bytes;
            return Some(Completion { conn, kind, at: self.inner.now() });
        };
        let conn = completion.conn;
        let session = self.sessions.get_mut(&conn).expect("completions belong to open connections");
        match completion.kind {
            CompletionKind::Received => {
                session.writer().write_all(self.inner.received_bytes()).unwrap();
                self.current = TlsDriver::records(session);
            }
            CompletionKind::Eof if self.goodbye == Goodbye::Notice => {
                session.send_close_notify();
                self.current = TlsDriver::records(session);
                self.own_completions.push_back((conn, CompletionKind::Eof, Vec::new()));
                return Some(Completion { kind: CompletionKind::Received, ..completion });
            }
            _ => {}
        }
        Some(completion)
    }

    fn received_bytes(&mut self) -> &mut [u8] {
        &mut self.current
    }

    fn thread_use(&self) -> ThreadUse {
        self.inner.thread_use()
    }

    fn thread_run_ns(&self) -> u64 {
        self.inner.thread_run_ns()
    }
}

impl StreamDriver for TlsDriver {
    fn connect(&mut self, conn: ConnId) {
        self.sessions.insert(conn, ServerConnection::new(self.config.clone()).unwrap());
        self.inner.connect(conn);
    }

    fn send(&mut self, conn: ConnId, mut bytes: &[u8]) {
        let session = self.sessions.get_mut(&conn).expect("the connection is open");
        let mut plain = Vec::new();
        while !bytes.is_empty() {
            session.read_tls(&mut bytes).unwrap();
            // A client that rejects the certificate sends an alert.
            let is_refused = session.process_new_packets().is_err();
            let mut part = [0; 65_536];
            while let Ok(n @ 1..) = session.reader().read(&mut part) {
                plain.extend_from_slice(&part[..n]);
            }
            if is_refused {
                break;
            }
        }
        if self.goodbye == Goodbye::WithHandshake && session.is_handshaking() {
            session.send_close_notify();
        }
        let records = TlsDriver::records(session);
        let (first, second) = records.split_at(records.len() / 2);
        for piece in [first, second].into_iter().filter(|piece| !piece.is_empty()) {
            self.own_completions.push_back((conn, CompletionKind::Received, piece.to_vec()));
        }
        if plain.is_empty() {
            self.session_only.push(conn);
        } else {
            self.inner.send(conn, &plain);
        }
    }

    fn unsent_bytes(&self, conn: ConnId) -> u64 {
        self.inner.unsent_bytes(conn)
    }

    fn tcp_counters(&mut self, conn: ConnId) -> Option<TcpCounters> {
        self.inner.tcp_counters(conn)
    }
}
