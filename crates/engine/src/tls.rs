//! TLS on one connection: rustls without I/O. It converts between bytes of the network and plain
//! text, and leaves sending and receiving to the driver.

use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{ClientConfig, Error, HandshakeKind};

use crate::limits;

pub(crate) mod reason;

/// TLS configuration of the connections of a worker. Certificates, keys, the session cache and the
/// clock for certificate dates come from the caller, because this crate does no I/O.
#[derive(Clone, Debug)]
pub struct Tls {
    pub config: Arc<ClientConfig>,
    /// Host name or IP address that the certificate of the server must match. A host name is sent
    /// as SNI, an IP address is not.
    pub name: ServerName<'static>,
}

/// TLS session of one connection.
pub(crate) struct TlsSession {
    connection: UnbufferedClientConnection,
    /// Start of an incomplete record.
    partial_record: Vec<u8>,
    /// Records that the session itself needs to send.
    out: Vec<u8>,
    /// Whether the handshake is over.
    is_secured: bool,
    /// Whether a complete TLS record has arrived.
    has_received_record: bool,
}

impl std::fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("is_secured", &self.is_secured).finish_non_exhaustive()
    }
}

/// State of a session after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsProgress {
    Handshaking,
    /// The handshake ended in this read.
    Secured,
    Open,
    /// The peer has announced that it sends no more data (RFC 8446 §6.1).
    Closed,
}

/// Reason why a read ended early.
#[derive(Debug)]
pub(crate) enum Broken<E> {
    /// TLS failed. The text is for users: the name of the alert, or the reason.
    Tls(String),
    /// The consumer of the plain text rejected it.
    Consumer(E),
}

/// Parameters that the handshake negotiated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsParameters {
    pub(crate) version: Option<String>,
    pub(crate) cipher_suite: Option<String>,
    pub(crate) alpn: Option<String>,
    pub(crate) is_resumed: bool,
}

impl TlsSession {
    pub(crate) fn new(tls: &Tls) -> Result<TlsSession, String> {
        let connection = UnbufferedClientConnection::new(tls.config.clone(), tls.name.clone());
        let connection = connection.map_err(|error| reason::error_text(&error))?;
        Ok(TlsSession {
            connection,
            partial_record: Vec::new(),
            out: Vec::new(),
            is_secured: false,
            has_received_record: false,
        })
    }

    /// Returns the records that the session itself needs to send: handshake and alerts.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.out
    }

    /// Whether the handshake is over.
    pub(crate) fn is_secured(&self) -> bool {
        self.is_secured
    }

    /// Clears the [pending](Self::pending) records after they were sent.
    pub(crate) fn clear_pending(&mut self) {
        self.out.clear();
    }

    /// Decrypts received bytes in place. Passes the plain text to `on_plain`, record by record.
    pub(crate) fn read<E>(
        &mut self,
        input: &mut [u8],
        on_plain: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<TlsProgress, Broken<E>> {
        if self.partial_record.is_empty() {
            let (progress, used) = self.process(input, on_plain)?;
            self.partial_record.extend_from_slice(&input[used..]);
            return Ok(progress);
        }
        let mut unread = std::mem::take(&mut self.partial_record);
        unread.extend_from_slice(input);
        if unread.len() > limits::TLS_UNREAD_BYTES {
            return Err(Broken::Tls("a TLS message from the server is too long".into()));
        }
        let (progress, used) = self.process(&mut unread, on_plain)?;
        unread.drain(..used);
        self.partial_record = unread;
        Ok(progress)
    }

    /// Encrypts `plain` into `out`. The session must be secured.
    pub(crate) fn write(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        /// Upper bound of the bytes that TLS adds per record: header, inner type and tag.
        const OVERHEAD: usize = 64;
        /// Maximum number of bytes of plain text in a record (RFC 8446 §5.1).
        const RECORD_BYTES: usize = 1 << 14;
        /// Records in addition to the full ones: an incomplete one, and one that rustls may send
        /// first, such as a key update.
        const OTHER_RECORDS: usize = 2;
        let records = plain.len() / RECORD_BYTES + OTHER_RECORDS;
        let room = plain.len() + OVERHEAD * records;
        let start = out.len();
        out.resize(start + room, 0);
        // rustls needs all bytes that it has not discarded, because it refers to parts of messages
        // by their position in these bytes.
        let mut unread = std::mem::take(&mut self.partial_record);
        let UnbufferedStatus { discard, state, .. } =
            self.connection.process_tls_records(&mut unread);
        let written = match state {
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                traffic.encrypt(plain, &mut out[start..]).map_err(|error| error.to_string())
            }
            Ok(_) => Err("the TLS session is not ready for data".into()),
            Err(error) => Err(reason::error_text(&error)),
        };
        unread.drain(..discard);
        self.partial_record = unread;
        out.truncate(start + written.as_ref().map_or(0, |n| *n));
        written.map(drop)
    }

    /// Returns the negotiated parameters.
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
            is_resumed: self.connection.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    /// Processes complete records at the start of `input`. Returns their length.
    fn process<E>(
        &mut self,
        input: &mut [u8],
        on_plain: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(TlsProgress, usize), Broken<E>> {
        let mut used = 0;
        loop {
            let UnbufferedStatus { mut discard, state, .. } =
                self.connection.process_tls_records(&mut input[used..]);
            let step = match state {
                Ok(state) => step(state, &mut self.out, &mut discard, on_plain)?,
                Err(error) => {
                    let is_not_tls =
                        matches!(error, Error::InvalidMessage(_)) && !self.has_received_record;
                    let text = if is_not_tls {
                        reason::NOT_TLS.into()
                    } else {
                        reason::error_text(&error)
                    };
                    self.queue_alert(&mut input[used + discard..]);
                    return Err(Broken::Tls(text));
                }
            };
            used += discard;
            self.has_received_record |= discard > 0;
            match step {
                Step::Continue => {}
                Step::Blocked => return Ok((TlsProgress::Handshaking, used)),
                Step::Closed => {
                    // If the handshake ends in the same read as a close notify, rustls reports only
                    // the close.
                    self.is_secured |= !self.connection.is_handshaking();
                    return Ok((TlsProgress::Closed, used));
                }
                Step::Ready if self.is_secured => return Ok((TlsProgress::Open, used)),
                Step::Ready => {
                    self.is_secured = true;
                    return self.after_handshake(used, input, on_plain);
                }
            }
        }
    }

    /// Decrypts data that follows the last record of the handshake.
    fn after_handshake<E>(
        &mut self,
        used: usize,
        input: &mut [u8],
        on_plain: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(TlsProgress, usize), Broken<E>> {
        let (progress, more) = self.process(&mut input[used..], on_plain)?;
        let progress = if progress == TlsProgress::Open { TlsProgress::Secured } else { progress };
        Ok((progress, used + more))
    }

    /// Queues the alert for the peer after an error, if rustls has one. Must be called only once,
    /// because another call would make rustls continue after the error. `unread` must be the bytes
    /// that rustls has not discarded, because rustls refers to parts of messages by their position
    /// in these bytes.
    fn queue_alert(&mut self, unread: &mut [u8]) {
        let UnbufferedStatus { state, .. } = self.connection.process_tls_records(unread);
        if let Ok(state @ ConnectionState::EncodeTlsData(_)) = state {
            let mut ignore_plain = |_: &[u8]| Ok::<(), std::convert::Infallible>(());
            // The connection ends in any case, so a failure to encode the alert is ignored.
            let _ = step(state, &mut self.out, &mut 0, &mut ignore_plain);
        }
    }
}

/// Next action that a state of rustls requires.
enum Step {
    /// Call rustls again.
    Continue,
    /// Wait for more bytes of the handshake.
    Blocked,
    /// The handshake is over, and all complete records were read.
    Ready,
    /// The peer sends no more data.
    Closed,
}

/// Performs one step of the rustls state machine.
fn step<E>(
    state: ConnectionState<'_, '_, ClientConnectionData>,
    out: &mut Vec<u8>,
    discard: &mut usize,
    on_plain: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<Step, Broken<E>> {
    match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record.map_err(|error| Broken::Tls(reason::error_text(&error)))?;
                *discard += record.discard;
                on_plain(record.payload).map_err(Broken::Consumer)?;
            }
            Ok(Step::Continue)
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
            Ok(Step::Continue)
        }
        ConnectionState::TransmitTlsData(data) => {
            // The worker sends `out` right after this read.
            data.done();
            Ok(Step::Continue)
        }
        ConnectionState::BlockedHandshake => Ok(Step::Blocked),
        ConnectionState::WriteTraffic(_) => Ok(Step::Ready),
        ConnectionState::PeerClosed | ConnectionState::Closed => Ok(Step::Closed),
        // Early data concerns only servers, and future versions of rustls may add states.
        _ => Err(Broken::Tls("unknown state of the TLS library".into())),
    }
}

#[cfg(test)]
#[path = "../tests/all/world/trust.rs"]
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

    /// Creates a session, and a server whose certificate it trusts or not.
    fn pair(alpn: &[&str], is_trusted: bool) -> Pair {
        let (config, server) = trust::pair(alpn, &["http/1.1"], is_trusted);
        let tls = Tls { config: Arc::new(config), name: trust::NAME.try_into().unwrap() };
        let session = TlsSession::new(&tls).unwrap();
        Pair { session, server: ServerConnection::new(Arc::new(server)).unwrap() }
    }

    impl Pair {
        /// Passes the output of the session to the server, and the output of the server back in
        /// pieces. Returns the plain text and the progress of each read.
        fn exchange(&mut self, piece: usize) -> Result<(Vec<u8>, Vec<TlsProgress>), String> {
            let mut plain = Vec::new();
            let mut progress = vec![self.read(&mut [], &mut plain)?];
            loop {
                let out = self.session.pending().to_vec();
                self.session.clear_pending();
                let mut rest = &out[..];
                while !rest.is_empty() {
                    self.server.read_tls(&mut rest).unwrap();
                    // A server that rejects the input has an alert to send.
                    let _ = self.server.process_new_packets();
                }
                let mut back = Vec::new();
                while self.server.wants_write() {
                    self.server.write_tls(&mut back).unwrap();
                }
                if back.is_empty() {
                    return Ok((plain, progress));
                }
                for chunk in back.chunks_mut(piece) {
                    progress.push(self.read(chunk, &mut plain)?);
                }
            }
        }

        fn read(&mut self, input: &mut [u8], plain: &mut Vec<u8>) -> Result<TlsProgress, String> {
            let mut take = |data: &[u8]| {
                plain.extend_from_slice(data);
                Ok::<(), std::convert::Infallible>(())
            };
            self.session.read(input, &mut take).map_err(|broken| match broken {
                Broken::Tls(reason) => reason,
                Broken::Consumer(never) => match never {},
            })
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn data_survives_any_segmentation(piece in 1usize..4000, length in 0usize..60_000) {
            let mut pair = pair(&["http/1.1"], true);
            let (plain, progress) = pair.exchange(piece).unwrap();
            prop_assert!(plain.is_empty());
            prop_assert_eq!(progress.iter().filter(|p| **p == TlsProgress::Secured).count(), 1);
            let parameters = pair.session.parameters();
            prop_assert_eq!(parameters.alpn.as_deref(), Some("http/1.1"));
            prop_assert_eq!(parameters.version.as_deref(), Some("TLSv1.3"));

            let request = vec![b'q'; length];
            let mut sealed = Vec::new();
            pair.session.write(&request, &mut sealed).unwrap();
            let mut rest = &sealed[..];
            let mut received = Vec::new();
            while !rest.is_empty() {
                pair.server.read_tls(&mut rest).unwrap();
                pair.server.process_new_packets().unwrap();
                let mut part = [0; 65_536];
                while let Ok(n @ 1..) = pair.server.reader().read(&mut part) {
                    received.extend_from_slice(&part[..n]);
                }
            }
            prop_assert_eq!(received, request);

            let response: Vec<u8> = (0..length).map(|i| i as u8).collect();
            pair.server.writer().write_all(&response).unwrap();
            pair.server.send_close_notify();
            let (plain, progress) = pair.exchange(piece).unwrap();
            prop_assert_eq!(plain, response);
            prop_assert_eq!(progress.last(), Some(&TlsProgress::Closed));
        }
    }

    #[test]
    fn handshake_failures_are_named() {
        assert!(pair(&["http/1.1"], false).exchange(999).unwrap_err().contains("unknown issuer"));
        let alert = pair(&["h9"], true).exchange(999).unwrap_err();
        assert!(alert.starts_with("alert no_application_protocol ("), "{alert}");
        let mut garbage = pair(&[], true);
        let error = garbage
            .read(&mut b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), &mut Vec::new())
            .unwrap_err();
        assert_eq!(error, reason::NOT_TLS);
    }

    #[test]
    fn garbage_after_handshake_is_malformed_tls() {
        let mut pair = pair(&["http/1.1"], true);
        pair.exchange(999).unwrap();
        let error = pair
            .read(&mut b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), &mut Vec::new())
            .unwrap_err();
        assert_eq!(error, "malformed TLS from the server: invalid content type");
    }

    #[test]
    fn untrusted_server_receives_alert() {
        let mut pair = pair(&["http/1.1"], false);
        assert!(pair.exchange(10_000).is_err());
        let alert = pair.session.pending().to_vec();
        pair.server.read_tls(&mut &alert[..]).unwrap();
        let error = pair.server.process_new_packets().unwrap_err();
        assert!(matches!(error, Error::AlertReceived(_)), "{error}");
    }
}
