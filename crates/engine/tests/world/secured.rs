//! TLS in front of a simulated server.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use dyno_archive::load::TcpCounters;
use dyno_archive::sample::ThreadUse;
use dyno_engine::driver::{Completion, CompletionKind, ConnId, Driver, Queued, Turn, Wait};
use dyno_engine::sim::SimDriver;
use dyno_engine::{Instant, Tls};
use rustls::{ServerConfig, ServerConnection};

use super::trust;

/// How a server ends its TLS sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goodbye {
    /// With the notice that RFC 8446 §6.1 asks for.
    Notice,
    /// With the end of the connection alone.
    None,
}

/// A simulated world whose server speaks TLS. The records of a handshake take no time, and come in
/// two pieces.
pub struct Secured {
    inner: SimDriver,
    config: Arc<ServerConfig>,
    goodbye: Goodbye,
    sessions: BTreeMap<ConnId, ServerConnection>,
    /// Connections that only records of the session itself were sent on.
    silent: Vec<ConnId>,
    /// Completions besides those of the world.
    own: VecDeque<(ConnId, CompletionKind, Vec<u8>)>,
    current: Vec<u8>,
}

/// A client that trusts a server's certificate, or does not, and that server.
pub fn pair(inner: SimDriver, alpn: &str, is_trusted: bool, goodbye: Goodbye) -> (Tls, Secured) {
    let (client, server) = trust::pair(&[alpn], &["h2", "http/1.1"], is_trusted);
    let tls = Tls { config: Arc::new(client), name: trust::NAME.try_into().unwrap() };
    let secured = Secured {
        inner,
        config: Arc::new(server),
        goodbye,
        sessions: BTreeMap::new(),
        silent: Vec::new(),
        own: VecDeque::new(),
        current: Vec::new(),
    };
    (tls, secured)
}

impl Secured {
    /// Records that a session has to send.
    fn records(session: &mut ServerConnection) -> Vec<u8> {
        let mut records = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut records).unwrap();
        }
        records
    }
}

impl Driver for Secured {
    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn connect(&mut self, conn: ConnId) {
        self.sessions.insert(conn, ServerConnection::new(self.config.clone()).unwrap());
        self.inner.connect(conn);
    }

    fn send(&mut self, conn: ConnId, mut bytes: &[u8]) {
        let session = self.sessions.get_mut(&conn).expect("only open connections are sent on");
        let mut plain = Vec::new();
        while !bytes.is_empty() {
            session.read_tls(&mut bytes).unwrap();
            // A client that refuses the server sends an alert.
            let is_refused = session.process_new_packets().is_err();
            let mut part = [0; 65_536];
            while let Ok(n @ 1..) = session.reader().read(&mut part) {
                plain.extend_from_slice(&part[..n]);
            }
            if is_refused {
                break;
            }
        }
        let records = Secured::records(session);
        let (first, second) = records.split_at(records.len() / 2);
        for piece in [first, second].into_iter().filter(|piece| !piece.is_empty()) {
            self.own.push_back((conn, CompletionKind::Received, piece.to_vec()));
        }
        if plain.is_empty() {
            self.silent.push(conn);
        } else {
            self.inner.send(conn, &plain);
        }
    }

    fn close(&mut self, conn: ConnId) {
        self.sessions.remove(&conn);
        self.own.retain(|(of, ..)| *of != conn);
        self.silent.retain(|of| *of != conn);
        self.inner.close(conn);
    }

    fn queued(&self, conn: ConnId) -> Queued {
        self.inner.queued(conn)
    }

    fn sent_bytes(&self) -> u64 {
        self.inner.sent_bytes()
    }

    fn unsent(&self, conn: ConnId) -> u64 {
        self.inner.unsent(conn)
    }

    fn flush(&mut self, handed: &mut dyn FnMut(ConnId, Instant)) {
        for conn in std::mem::take(&mut self.silent) {
            handed(conn, self.inner.now());
        }
        self.inner.flush(handed);
    }

    fn turn(&mut self, wait: Wait, handed: &mut dyn FnMut(ConnId, Instant)) -> Turn {
        self.flush(handed);
        let until = if self.own.is_empty() { wait.until } else { self.inner.now() };
        self.inner.turn(Wait { until, ..wait }, handed)
    }

    fn next(&mut self) -> Option<Completion> {
        let Some(completion) = self.inner.next() else {
            let (conn, what, bytes) = self.own.pop_front()?;
            self.current = bytes;
            return Some(Completion { conn, what, at: self.inner.now() });
        };
        let conn = completion.conn;
        let session = self.sessions.get_mut(&conn).expect("completions are of open connections");
        match completion.what {
            CompletionKind::Received => {
                session.writer().write_all(self.inner.bytes()).unwrap();
                self.current = Secured::records(session);
            }
            CompletionKind::Eof if self.goodbye == Goodbye::Notice => {
                session.send_close_notify();
                self.current = Secured::records(session);
                self.own.push_back((conn, CompletionKind::Eof, Vec::new()));
                return Some(Completion { what: CompletionKind::Received, ..completion });
            }
            _ => {}
        }
        Some(completion)
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.current
    }

    fn tcp(&mut self, conn: ConnId) -> Option<TcpCounters> {
        self.inner.tcp(conn)
    }

    fn thread_use(&self) -> ThreadUse {
        self.inner.thread_use()
    }

    fn thread_run_ns(&self) -> u64 {
        self.inner.thread_run_ns()
    }
}
