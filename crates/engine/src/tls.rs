//! TLS on one connection: rustls without I/O. Bytes of the network go in and plain text comes out,
//! and the other way.

use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{ClientConfig, Error, HandshakeKind};

use crate::limits;

pub(crate) mod reason;

/// TLS configuration of a worker's connections. Certificates, keys, the session cache and the clock
/// for certificates' dates come from the caller: this crate stays pure.
#[derive(Clone, Debug)]
pub struct Tls {
    pub config: Arc<ClientConfig>,
    /// The name that the server must prove, sent as SNI unless it is an address.
    pub name: ServerName<'static>,
}

/// The TLS side of one connection.
pub(crate) struct TlsSession {
    connection: UnbufferedClientConnection,
    /// The start of a record that has not arrived whole.
    kept: Vec<u8>,
    /// TLS records of the session itself to send.
    out: Vec<u8>,
    is_secured: bool,
    /// Whether a whole TLS record has come.
    has_heard: bool,
}

impl std::fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("is_secured", &self.is_secured).finish_non_exhaustive()
    }
}

/// The state of a session after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsProgress {
    Handshaking,
    /// The handshake ended in this read.
    Secured,
    Open,
    /// The peer has said that it sends no more (RFC 8446 §6.1).
    Closed,
}

/// Why a read ended early.
#[derive(Debug)]
pub(crate) enum Broken<E> {
    /// TLS failed, in a word: the alert's name or the reason.
    Tls(String),
    /// The reader of the plain text refused it.
    Reader(E),
}

/// Result of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsParameters {
    pub(crate) version: Option<String>,
    pub(crate) cipher_suite: Option<String>,
    pub(crate) alpn: Option<String>,
    pub(crate) resumed: bool,
}

impl TlsSession {
    pub(crate) fn new(tls: &Tls) -> Result<TlsSession, String> {
        let connection = UnbufferedClientConnection::new(tls.config.clone(), tls.name.clone());
        let connection = connection.map_err(|error| reason::error_text(&error))?;
        Ok(TlsSession {
            connection,
            kept: Vec::new(),
            out: Vec::new(),
            is_secured: false,
            has_heard: false,
        })
    }

    /// TLS records of the session itself to send: handshake and alerts.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.out
    }

    /// Whether the handshake is over.
    pub(crate) fn is_secured(&self) -> bool {
        self.is_secured
    }

    /// Forgets the [pending](Self::pending) records, which have been sent.
    pub(crate) fn clear_pending(&mut self) {
        self.out.clear();
    }

    /// Reads what arrived, in place. Plain text goes to `take`, record by record.
    pub(crate) fn read<E>(
        &mut self,
        input: &mut [u8],
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<TlsProgress, Broken<E>> {
        if self.kept.is_empty() {
            let (progress, used) = self.process(input, take)?;
            self.kept.extend_from_slice(&input[used..]);
            return Ok(progress);
        }
        let mut kept = std::mem::take(&mut self.kept);
        kept.extend_from_slice(input);
        if kept.len() > limits::TLS_UNREAD_BYTES {
            return Err(Broken::Tls("a message is too long".into()));
        }
        let (progress, used) = self.process(&mut kept, take)?;
        kept.drain(..used);
        self.kept = kept;
        Ok(progress)
    }

    /// Encrypts `plain` into `out`. The session must be secured.
    pub(crate) fn write(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        /// Bytes that TLS adds at most to `plain`: header, inner type and tag of a few records.
        const OVERHEAD: usize = 64;
        let room = plain.len() + OVERHEAD * (plain.len() / (1 << 14) + 2);
        let start = out.len();
        out.resize(start + room, 0);
        // rustls also needs the unread bytes: it remembers where parts of a message lie in them.
        let mut unread = std::mem::take(&mut self.kept);
        let UnbufferedStatus { discard, state, .. } =
            self.connection.process_tls_records(&mut unread);
        let written = match state {
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                traffic.encrypt(plain, &mut out[start..]).map_err(|error| error.to_string())
            }
            Ok(_) => Err("the session takes no data".into()),
            Err(error) => Err(reason::error_text(&error)),
        };
        unread.drain(..discard);
        self.kept = unread;
        out.truncate(start + written.as_ref().map_or(0, |n| *n));
        written.map(drop)
    }

    pub(crate) fn parameters(&self) -> TlsParameters {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        TlsParameters {
            version: self
                .connection
                .protocol_version()
                .and_then(|v| v.as_str().map(|v| v.replace('_', "."))),
            cipher_suite: self.connection.negotiated_cipher_suite().and_then(|suite| {
                suite.suite().as_str().map(|name| name.replacen("TLS13_", "TLS_", 1))
            }),
            alpn: self.connection.alpn_protocol().map(text),
            resumed: self.connection.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    /// Processes whole records at the start of `input`. Returns how many bytes they were.
    fn process<E>(
        &mut self,
        input: &mut [u8],
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(TlsProgress, usize), Broken<E>> {
        let mut used = 0;
        loop {
            let UnbufferedStatus { mut discard, state, .. } =
                self.connection.process_tls_records(&mut input[used..]);
            let step = match state {
                Ok(state) => step(state, &mut self.out, &mut discard, take)?,
                Err(error) => {
                    let is_no_tls = matches!(error, Error::InvalidMessage(_)) && !self.has_heard;
                    let words =
                        if is_no_tls { reason::NO_TLS.into() } else { reason::error_text(&error) };
                    self.queue_alert(&mut input[used + discard..]);
                    return Err(Broken::Tls(words));
                }
            };
            used += discard;
            self.has_heard |= discard > 0;
            match step {
                Step::Again => {}
                Step::Blocked => return Ok((TlsProgress::Handshaking, used)),
                Step::Closed => return Ok((TlsProgress::Closed, used)),
                Step::Ready if !std::mem::replace(&mut self.is_secured, true) => {
                    return self.after_handshake(used, input, take);
                }
                Step::Ready => return Ok((TlsProgress::Open, used)),
            }
        }
    }

    /// Reads data that stands right behind the handshake's last record.
    fn after_handshake<E>(
        &mut self,
        used: usize,
        input: &mut [u8],
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(TlsProgress, usize), Broken<E>> {
        let (progress, more) = self.process(&mut input[used..], take)?;
        let progress = if progress == TlsProgress::Open { TlsProgress::Secured } else { progress };
        Ok((progress, used + more))
    }

    /// Queues the alert that rustls may have for the peer after an error, one at most: asked again,
    /// rustls would read on where it failed. `unread` are the same bytes as before, because it
    /// remembers where in them the parts of a message lie.
    fn queue_alert(&mut self, unread: &mut [u8]) {
        let UnbufferedStatus { state, .. } = self.connection.process_tls_records(unread);
        if let Ok(state @ ConnectionState::EncodeTlsData(_)) = state {
            let mut discard = |_: &[u8]| Ok::<(), std::convert::Infallible>(());
            // An alert that cannot be encoded is not sent; the connection ends all the same.
            let _ = step(state, &mut self.out, &mut 0, &mut discard);
        }
    }
}

/// The next action that a state of rustls asks for.
enum Step {
    Again,
    Blocked,
    Ready,
    Closed,
}

fn step<E>(
    state: ConnectionState<'_, '_, ClientConnectionData>,
    out: &mut Vec<u8>,
    discard: &mut usize,
    take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<Step, Broken<E>> {
    match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record.map_err(|error| Broken::Tls(reason::error_text(&error)))?;
                *discard += record.discard;
                take(record.payload).map_err(Broken::Reader)?;
            }
            Ok(Step::Again)
        }
        ConnectionState::EncodeTlsData(mut data) => {
            let start = out.len();
            let needed = match data.encode(&mut []) {
                Err(EncodeError::InsufficientSize(size)) => size.required_size,
                Ok(_) => 0,
                Err(error) => return Err(Broken::Tls(error.to_string())),
            };
            out.resize(start + needed, 0);
            let n =
                data.encode(&mut out[start..]).map_err(|error| Broken::Tls(error.to_string()))?;
            out.truncate(start + n);
            Ok(Step::Again)
        }
        ConnectionState::TransmitTlsData(data) => {
            // The worker sends `out` right after this read.
            data.done();
            Ok(Step::Again)
        }
        ConnectionState::BlockedHandshake => Ok(Step::Blocked),
        ConnectionState::WriteTraffic(_) => Ok(Step::Ready),
        ConnectionState::PeerClosed | ConnectionState::Closed => Ok(Step::Closed),
        // Early data is for servers to read, and rustls may learn further states.
        _ => Err(Broken::Tls("an unknown state".into())),
    }
}

#[cfg(test)]
#[path = "../tests/world/trust.rs"]
mod trust;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustls::ServerConnection;
    use std::io::{Read as _, Write as _};

    struct Pair {
        session: TlsSession,
        server: ServerConnection,
    }

    /// A session and a server whose certificate it trusts, or not.
    fn pair(alpn: &[&str], is_trusted: bool) -> Pair {
        let (config, server) = trust::pair(alpn, &["http/1.1"], is_trusted);
        let tls = Tls { config: Arc::new(config), name: trust::NAME.try_into().unwrap() };
        let session = TlsSession::new(&tls).unwrap();
        Pair { session, server: ServerConnection::new(Arc::new(server)).unwrap() }
    }

    impl Pair {
        /// Passes the session's output to the server and the server's output back in pieces.
        /// Returns the plain text, and every progress that was made.
        fn exchange(&mut self, piece: usize) -> Result<(Vec<u8>, Vec<TlsProgress>), String> {
            let mut plain = Vec::new();
            let mut made = vec![self.read(&mut [], &mut plain)?];
            loop {
                let out = self.session.pending().to_vec();
                self.session.clear_pending();
                let mut rest = &out[..];
                while !rest.is_empty() {
                    self.server.read_tls(&mut rest).unwrap();
                    // A server that refuses has an alert to send.
                    let _ = self.server.process_new_packets();
                }
                let mut back = Vec::new();
                while self.server.wants_write() {
                    self.server.write_tls(&mut back).unwrap();
                }
                if back.is_empty() {
                    return Ok((plain, made));
                }
                for chunk in back.chunks_mut(piece) {
                    made.push(self.read(chunk, &mut plain)?);
                }
            }
        }

        fn read(&mut self, input: &mut [u8], plain: &mut Vec<u8>) -> Result<TlsProgress, String> {
            let mut take = |data: &[u8]| {
                plain.extend_from_slice(data);
                Ok::<(), std::convert::Infallible>(())
            };
            self.session.read(input, &mut take).map_err(|broken| match broken {
                Broken::Tls(words) => words,
                Broken::Reader(never) => match never {},
            })
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn however_it_is_cut_the_same_arrives(piece in 1usize..4000, length in 0usize..60_000) {
            let mut pair = pair(&["http/1.1"], true);
            let (plain, made) = pair.exchange(piece).unwrap();
            prop_assert!(plain.is_empty());
            prop_assert_eq!(made.iter().filter(|p| **p == TlsProgress::Secured).count(), 1);
            let agreed = pair.session.parameters();
            prop_assert_eq!(agreed.alpn.as_deref(), Some("http/1.1"));
            prop_assert_eq!(agreed.version.as_deref(), Some("TLSv1.3"));

            let request = vec![b'q'; length];
            let mut sealed = Vec::new();
            pair.session.write(&request, &mut sealed).unwrap();
            let mut rest = &sealed[..];
            let mut seen = Vec::new();
            while !rest.is_empty() {
                pair.server.read_tls(&mut rest).unwrap();
                pair.server.process_new_packets().unwrap();
                let mut part = [0; 65_536];
                while let Ok(n @ 1..) = pair.server.reader().read(&mut part) {
                    seen.extend_from_slice(&part[..n]);
                }
            }
            prop_assert_eq!(seen, request);

            let answer: Vec<u8> = (0..length).map(|i| i as u8).collect();
            pair.server.writer().write_all(&answer).unwrap();
            pair.server.send_close_notify();
            let (plain, made) = pair.exchange(piece).unwrap();
            prop_assert_eq!(plain, answer);
            prop_assert_eq!(made.last(), Some(&TlsProgress::Closed));
        }
    }

    #[test]
    fn failures_have_names() {
        assert!(pair(&["http/1.1"], false).exchange(999).unwrap_err().contains("unknown issuer"));
        let alert = pair(&["h9"], true).exchange(999).unwrap_err();
        assert!(alert.starts_with("alert no_application_protocol ("), "{alert}");
        let mut garbage = pair(&[], true);
        let error = garbage
            .read(&mut b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), &mut Vec::new())
            .unwrap_err();
        assert_eq!(error, reason::NO_TLS);
    }

    #[test]
    fn garbage_after_tls_is_not_a_port_without_tls() {
        let mut pair = pair(&["http/1.1"], true);
        pair.exchange(999).unwrap();
        let error = pair
            .read(&mut b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), &mut Vec::new())
            .unwrap_err();
        assert_eq!(error, "malformed TLS from the server: invalid content type");
    }

    #[test]
    fn refused_server_receives_an_alert() {
        let mut pair = pair(&["http/1.1"], false);
        assert!(pair.exchange(10_000).is_err());
        let alert = pair.session.pending().to_vec();
        pair.server.read_tls(&mut &alert[..]).unwrap();
        let error = pair.server.process_new_packets().unwrap_err();
        assert!(matches!(error, Error::AlertReceived(_)), "{error}");
    }
}
