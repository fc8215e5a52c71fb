//! TLS on one connection: rustls without I/O. Bytes of the network go in and plain text comes out, and the other way.

use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{ClientConfig, Error, HandshakeKind};

use crate::limits;

/// What a worker needs to secure its connections. Certificates, keys, the memory of sessions and the clock for
/// certificates' dates are in the configuration, made outside: this crate stays pure.
#[derive(Clone, Debug)]
pub struct Tls {
    pub config: Arc<ClientConfig>,
    /// The name that the server must prove, sent as SNI unless it is an address.
    pub name: ServerName<'static>,
}

/// The TLS side of one connection.
pub(crate) struct Session {
    connection: UnbufferedClientConnection,
    /// The start of a record that has not arrived whole.
    kept: Vec<u8>,
    /// What is to be sent.
    out: Vec<u8>,
    is_secured: bool,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("is_secured", &self.is_secured).finish_non_exhaustive()
    }
}

/// What a read left the session as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
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
    /// Whoever took the plain text refused it.
    Reader(E),
}

/// What a secured session agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) version: Option<String>,
    pub(crate) cipher_suite: Option<String>,
    pub(crate) alpn: Option<String>,
    pub(crate) resumed: bool,
}

impl Session {
    pub(crate) fn new(tls: &Tls) -> Result<Session, String> {
        let connection = UnbufferedClientConnection::new(tls.config.clone(), tls.name.clone());
        let connection = connection.map_err(|error| describe(&error))?;
        Ok(Session { connection, kept: Vec::new(), out: Vec::new(), is_secured: false })
    }

    /// What is to be sent, once.
    pub(crate) fn take_out(&mut self) -> &[u8] {
        &self.out
    }

    /// Forgets what has been sent.
    pub(crate) fn sent(&mut self) {
        self.out.clear();
    }

    /// Reads what arrived, in place. Plain text goes to `take`, record by record.
    pub(crate) fn read<E>(
        &mut self,
        input: &mut [u8],
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Progress, Broken<E>> {
        if self.kept.is_empty() {
            let (progress, used) = self.process(input, take)?;
            self.keep(&input[used..])?;
            return Ok(progress);
        }
        let mut kept = std::mem::take(&mut self.kept);
        kept.extend_from_slice(input);
        let (progress, used) = self.process(&mut kept, take)?;
        kept.drain(..used);
        self.kept = kept;
        Ok(progress)
    }

    fn keep<E>(&mut self, rest: &[u8]) -> Result<(), Broken<E>> {
        if rest.len() > limits::TLS_RECORD_BYTES {
            return Err(Broken::Tls("a record is too long".into()));
        }
        self.kept.extend_from_slice(rest);
        Ok(())
    }

    /// Encrypts `plain` into `out`. The session must be secured.
    pub(crate) fn write(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        /// What records add at most: header, inner type and tag, for each of some records.
        const OVERHEAD: usize = 64;
        let room = plain.len() + OVERHEAD * (plain.len() / (1 << 14) + 2);
        let start = out.len();
        out.resize(start + room, 0);
        let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut []);
        let ConnectionState::WriteTraffic(mut traffic) = state.map_err(|error| describe(&error))? else {
            return Err("the session takes no data".into());
        };
        let n = traffic.encrypt(plain, &mut out[start..]).map_err(|error| error.to_string())?;
        out.truncate(start + n);
        Ok(())
    }

    pub(crate) fn agreed(&self) -> Agreed {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Agreed {
            version: self.connection.protocol_version().and_then(|v| v.as_str().map(|v| v.replace('_', "."))),
            cipher_suite: self
                .connection
                .negotiated_cipher_suite()
                .and_then(|suite| suite.suite().as_str().map(|name| name.replacen("TLS13_", "TLS_", 1))),
            alpn: self.connection.alpn_protocol().map(text),
            resumed: self.connection.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    /// Processes whole records at the start of `input`. Returns how many bytes they were.
    fn process<E>(
        &mut self,
        input: &mut [u8],
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(Progress, usize), Broken<E>> {
        let mut used = 0;
        loop {
            let UnbufferedStatus { mut discard, state, .. } =
                self.connection.process_tls_records(&mut input[used..]);
            let step = match state {
                Ok(state) => step(state, &mut self.out, &mut discard, take)?,
                Err(error) => {
                    let words = describe(&error);
                    self.queue_alert();
                    return Err(Broken::Tls(words));
                }
            };
            used += discard;
            match step {
                Step::Again => {}
                Step::Blocked => return Ok((Progress::Handshaking, used)),
                Step::Closed => return Ok((Progress::Closed, used)),
                Step::Ready if !std::mem::replace(&mut self.is_secured, true) => {
                    return self.after_handshake(used, input, take);
                }
                Step::Ready => return Ok((Progress::Open, used)),
            }
        }
    }

    /// Data may stand right behind the handshake's last record.
    fn after_handshake<E>(
        &mut self,
        used: usize,
        input: &mut [u8],
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(Progress, usize), Broken<E>> {
        let (progress, more) = self.process(&mut input[used..], take)?;
        let progress = if progress == Progress::Open { Progress::Secured } else { progress };
        Ok((progress, used + more))
    }

    /// After an error, rustls has an alert for the peer.
    fn queue_alert(&mut self) {
        let mut discard = 0;
        while let UnbufferedStatus { state: Ok(ConnectionState::EncodeTlsData(data)), .. } =
            self.connection.process_tls_records(&mut [])
        {
            let state = ConnectionState::EncodeTlsData(data);
            let mut nobody = |_: &[u8]| Ok::<(), std::convert::Infallible>(());
            if step(state, &mut self.out, &mut discard, &mut nobody).is_err() {
                return;
            }
        }
    }
}

/// What one state of rustls asks for next.
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
                let record = record.map_err(|error| Broken::Tls(describe(&error)))?;
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
            let n = data.encode(&mut out[start..]).map_err(|error| Broken::Tls(error.to_string()))?;
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

/// An error in a few words that group well: the alert's name as RFC 8446 §6 has it, or the reason.
fn describe(error: &Error) -> String {
    match error {
        Error::AlertReceived(alert) => format!("alert {}", snake(&format!("{alert:?}"))),
        Error::InvalidCertificate(reason) => format!("certificate not accepted: {reason:?}"),
        other => other.to_string(),
    }
}

/// `HandshakeFailure` → `handshake_failure`.
fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for (i, c) in name.chars().enumerate() {
        if c.is_ascii_uppercase() && i > 0 {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
