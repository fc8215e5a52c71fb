//! A test server that violates HTTP and TLS in every known way, and counts its violations. Tests
//! compare its counts with the client's counts.
//!
//! `broken --port PORT [--cert FILE --key FILE]`. Port 0 selects any free port. The server prints
//! `listening on PORT` once it is ready.
//!
//! The last segment of a path is a number, which [`class_of_request`] maps to a response class:
//! `/7`, `/any/thing/7`. Paths that begin with `/only/NAME/` always get the class NAME. `/counts`
//! reports how often each class was used. Any other path is a 404. Requests for `/counts` and 404
//! responses are not included in the counts.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use dyno_wire::h1::{encode, request};
use rustls::crypto::cipher::{OutboundChunks, OutboundPlainMessage};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, ProtocolVersion, ServerConfig,
    ServerConnection, SupportedCipherSuite,
};

/// One kind of response.
#[derive(Clone, Copy, Debug)]
struct Class {
    name: &'static str,
    send: Sending,
    ending: Ending,
}

/// Bytes to send.
#[derive(Clone, Copy, Debug)]
enum Sending {
    /// All in one write, over TLS in one record.
    Whole(&'static str),
    /// In pieces of [`PIECE_BYTES`], each flushed, [`PIECE_PAUSE`] apart.
    Pieces(&'static str),
    /// Directly into the socket, not encrypted even on a TLS connection.
    Raw(&'static str),
    /// A fatal alert, encrypted as the connection's next record.
    Alert(AlertDescription),
}

/// End of the connection after a response. Further requests are served only after `KeepOpen`.
#[derive(Clone, Copy, Debug)]
enum Ending {
    KeepOpen,
    /// Closes the server's direction, over TLS with close_notify. Then reads until the client
    /// closes.
    Close,
    /// As `Close`, but over TLS without close_notify.
    Cut,
    /// Sends nothing more, and reads until the client closes.
    StaySilent,
    /// Resets immediately.
    Reset,
    /// Resets once the sent bytes have arrived.
    ResetLater,
}

const PIECE_BYTES: usize = 7;
const PIECE_PAUSE: Duration = Duration::from_micros(200);
/// Time in which sent bytes reach the client's socket on any loopback.
const DELIVERY: Duration = Duration::from_millis(5);
/// Length of the accept queue. With std's 128, clients that all reconnect at the same time would
/// wait for a second.
const BACKLOG: i32 = 4096;

const GOOD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";
const GOOD_CHUNKED: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\
    Transfer-Encoding: chunked\r\n\r\n\
    7;note=\"one\"\r\nHello, \r\n6\r\nWorld!\r\n0\r\nX-Trailer: two\r\n\r\n";
const GOOD_CLOSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\
    Connection: close\r\n\r\nHello, World!";
const GOOD_UNTIL_CLOSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nHello, World!";
const INFORMATIONAL: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n\
    HTTP/1.1 103 Early Hints\r\nLink: </b.css>; rel=preload\r\n\r\n\
    HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";
const STATUS_500: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain\r\n\
    Content-Length: 11\r\n\r\nout of luck";
const WRONG_BODY: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, Wurld!";
const WRONG_HEADER: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\
    Content-Length: 13\r\n\r\nHello, World!";
const FIVE_OF_13: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello";
const HALF_A_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: te";
const BAD_STATUS_LINE: &str =
    "HTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";
const BAD_VERSION: &str =
    "HTTP/3.7 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";
const BAD_CHUNK: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\
    Transfer-Encoding: chunked\r\n\r\n\
    zz\r\nHello, World!\r\n0\r\n\r\n";
const BARE_CR: &str =
    "HTTP/1.1 200 OK\rContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";
const CHUNK_JUNK: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\
    Transfer-Encoding: chunked\r\n\r\n\
    d erfrferferf\r\nHello, World!\r\n0\r\n\r\n";
const BAD_LENGTH: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: thirteen\r\n\r\nHello, World!";
const TWO_LENGTHS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\
    Content-Length: 14\r\n\r\nHello, World!";
const BARE_LF: &str =
    "HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Length: 13\n\nHello, World!";
const FOLDED: &str = "HTTP/1.1 200 OK\r\nX-Folded: one\r\n two\r\nContent-Type: text/plain\r\n\
    Content-Length: 13\r\n\r\nHello, World!";
const LENGTH_AND_CHUNKED: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\
    Content-Length: 13\r\n\
    Transfer-Encoding: chunked\r\n\r\nd\r\nHello, World!\r\n0\r\n\r\n";
const UNSOLICITED: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\
    Content-Length: 13\r\n\r\n\
    Hello, World!HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\n\
    Hello, World!";
/// A text whose first byte is not a content type of TLS. It is longer than a record's header.
const NO_RECORD: &str = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";

/// All classes in the order in which [`class_of_request`] uses them. Classes from [`PLAIN_CLASSES`]
/// on need TLS.
const CLASSES: [Class; 30] = [
    // A correct response: 200, text/plain, 13 bytes of known length.
    class("good", Sending::Whole(GOOD), Ending::KeepOpen),
    // The same body in two chunks, the first with an extension, and a trailer.
    class("good_chunked", Sending::Whole(GOOD_CHUNKED), Ending::KeepOpen),
    // The bytes of `good`, a few at a time.
    class("good_pieces", Sending::Pieces(GOOD), Ending::KeepOpen),
    // A correct response with `Connection: close`, after which the server closes.
    class("good_close", Sending::Whole(GOOD_CLOSE), Ending::Close),
    // A correct response without a length: the close ends its body.
    class("good_until_close", Sending::Whole(GOOD_UNTIL_CLOSE), Ending::Close),
    // Two interim responses (103) before the correct response.
    class("informational", Sending::Whole(INFORMATIONAL), Ending::KeepOpen),
    // A well-formed 500 with a body.
    class("status_500", Sending::Whole(STATUS_500), Ending::KeepOpen),
    // A body of the correct length with one wrong letter.
    class("wrong_body", Sending::Whole(WRONG_BODY), Ending::KeepOpen),
    // The correct body as application/octet-stream.
    class("wrong_header", Sending::Whole(WRONG_HEADER), Ending::KeepOpen),
    // Promises 13 bytes, sends five and closes.
    class("short_body", Sending::Whole(FIVE_OF_13), Ending::Close),
    // Closes in the middle of the head.
    class("cut_head", Sending::Whole(HALF_A_HEAD), Ending::Close),
    // Closes instead of responding.
    class("no_answer", Sending::Whole(""), Ending::Close),
    // Resets instead of responding.
    class("reset", Sending::Whole(""), Ending::Reset),
    // Resets after the head and five bytes of the body have arrived.
    class("reset_mid_body", Sending::Whole(FIVE_OF_13), Ending::ResetLater),
    // Never responds.
    class("silent", Sending::Whole(""), Ending::StaySilent),
    // Falls silent after the head and five bytes of the body.
    class("stalls", Sending::Whole(FIVE_OF_13), Ending::StaySilent),
    // The status line begins with `HTP/1.1`. In the following classes only the bytes show the
    // client that the response is wrong: the connection stays open.
    class("bad_status_line", Sending::Whole(BAD_STATUS_LINE), Ending::StaySilent),
    // A version that does not exist.
    class("bad_version", Sending::Whole(BAD_VERSION), Ending::StaySilent),
    // A chunk size that is not a number.
    class("bad_chunk", Sending::Whole(BAD_CHUNK), Ending::StaySilent),
    // A Content-Length in words.
    class("bad_length", Sending::Whole(BAD_LENGTH), Ending::StaySilent),
    // Two Content-Lengths that differ.
    class("two_lengths", Sending::Whole(TWO_LENGTHS), Ending::StaySilent),
    // Every line of the head ends in a bare line feed.
    class("bare_lf", Sending::Whole(BARE_LF), Ending::StaySilent),
    // A header continues on a second line, which clients join (RFC 9112 §5.2).
    class("folded", Sending::Whole(FOLDED), Ending::KeepOpen),
    // Both framings at once.
    class("length_and_chunked", Sending::Whole(LENGTH_AND_CHUNKED), Ending::StaySilent),
    // The status line ends in a CR alone.
    class("bare_cr", Sending::Whole(BARE_CR), Ending::StaySilent),
    // Junk between a chunk's size and the end of its line.
    class("chunk_junk", Sending::Whole(CHUNK_JUNK), Ending::StaySilent),
    // A correct response and, in the same write, a response to a request that no client sent.
    class("unsolicited", Sending::Whole(UNSOLICITED), Ending::StaySilent),
    // Ends TCP in the middle of the body without close_notify.
    class("tls_truncated", Sending::Whole(FIVE_OF_13), Ending::Cut),
    // A fatal alert instead of the response.
    class("tls_alert", Sending::Alert(AlertDescription::InternalError), Ending::Cut),
    // Bytes that are not a TLS record instead of the response.
    class("tls_garbage", Sending::Raw(NO_RECORD), Ending::Cut),
];
const PLAIN_CLASSES: usize = 27;

static PERFORMED: [AtomicU64; CLASSES.len()] = [const { AtomicU64::new(0) }; CLASSES.len()];
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

const fn class(name: &'static str, send: Sending, ending: Ending) -> Class {
    Class { name, send, ending }
}

/// Returns the index of the class of request `n`. Even requests get the class `good`, and odd ones
/// all other classes in turn.
fn class_of_request(n: u64, classes: &[Class]) -> usize {
    let bad_classes = classes.len() as u64 - 1;
    if n.is_multiple_of(2) { 0 } else { 1 + (n / 2 % bad_classes) as usize }
}

fn main() {
    let option = options();
    let port: u16 = option("--port").expect("--port PORT").parse().expect("a port");
    let tls = option("--cert")
        .map(|cert| tls_config(&cert, &option("--key").expect("--cert needs --key")));
    let classes = if tls.is_some() { &CLASSES[..] } else { &CLASSES[..PLAIN_CLASSES] };
    let listener = listen(port);
    println!(
        "listening on {}",
        listener.local_addr().expect("the listener should be bound").port()
    );
    for stream in listener.incoming() {
        // The client may have given up before it was accepted.
        let Ok(stream) = stream else { continue };
        CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let tls = tls.clone();
        thread::spawn(move || serve(Connection::new(stream, tls), classes));
    }
}

fn options() -> impl Fn(&str) -> Option<String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    move |name| arguments.iter().position(|w| w == name).and_then(|i| arguments.get(i + 1)).cloned()
}

fn tls_config(cert: &str, key: &str) -> Arc<ServerConfig> {
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(cert).expect("--cert should be readable").collect();
    let key = PrivateKeyDer::from_pem_file(key).expect("--key should hold a private key");
    let mut config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring should support both versions")
            .with_no_client_auth()
            .with_single_cert(chain.expect("--cert should hold certificates"), key)
            .expect("certificate and key should belong together");
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Needed for `tls_alert`, because rustls itself sends no such alert.
    config.enable_secret_extraction = true;
    Arc::new(config)
}

fn listen(port: u16) -> TcpListener {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port should be free");
    // SAFETY: no memory is involved. A second listen changes the backlog.
    #[allow(unsafe_code)]
    let result = unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) };
    assert_eq!(result, 0);
    listener
}

/// Serves the requests of one connection until its client, or a response, ends it.
fn serve(mut connection: Connection, classes: &'static [Class]) {
    let mut reader = request::RequestReader::new();
    let mut buffer = [0; 16 * 1024];
    let mut received = ReceivedRequest { target: Target::Nothing, persists: false };
    while let Ok(n @ 1..) = connection.read(&mut buffer) {
        let mut bytes = &buffer[..n];
        loop {
            let Ok((used, event)) = reader.next(bytes) else {
                return connection.end(Ending::Close);
            };
            bytes = &bytes[used..];
            match event {
                request::RequestEvent::NeedMore => break,
                request::RequestEvent::Head(head) => {
                    received = ReceivedRequest::new(&head, classes);
                }
                request::RequestEvent::Body(_) => {}
                request::RequestEvent::End => {
                    match received.perform(&mut connection, classes) {
                        Ok(Ending::KeepOpen) => {}
                        Ok(ending) => return connection.end(ending),
                        // The client has disconnected.
                        Err(_) => return,
                    }
                }
            }
        }
    }
}

/// The parts of a request that determine its response.
struct ReceivedRequest {
    target: Target,
    persists: bool,
}

enum Target {
    /// The index of a class.
    Class(usize),
    Counts,
    Nothing,
}

impl ReceivedRequest {
    fn new(head: &request::RequestHead<'_>, classes: &[Class]) -> ReceivedRequest {
        let target = str::from_utf8(head.target)
            .map_or(Target::Nothing, |path| Target::parse(path, classes));
        ReceivedRequest { target, persists: head.persists() }
    }

    fn perform(&self, connection: &mut Connection, classes: &[Class]) -> io::Result<Ending> {
        let ending = match self.target {
            Target::Class(i) => {
                PERFORMED[i].fetch_add(1, Ordering::Relaxed);
                connection.send(classes[i].send)?;
                classes[i].ending
            }
            Target::Counts => {
                connection.respond(200, "OK", "application/json", &counts(classes))?
            }
            Target::Nothing => connection.respond(404, "Not Found", "text/plain", "no class")?,
        };
        Ok(match ending {
            Ending::KeepOpen if !self.persists => Ending::Close,
            ending => ending,
        })
    }
}

impl Target {
    fn parse(path: &str, classes: &[Class]) -> Target {
        let path = path.split('?').next().unwrap_or(path);
        if path == "/counts" {
            return Target::Counts;
        }
        let class = match path.strip_prefix("/only/") {
            Some(after_prefix) => {
                classes.iter().position(|class| after_prefix.split('/').next() == Some(class.name))
            }
            None => path
                .rsplit('/')
                .next()
                .and_then(|n| n.parse().ok())
                .map(|n| class_of_request(n, classes)),
        };
        class.map_or(Target::Nothing, Target::Class)
    }
}

/// Returns the counts as a flat JSON object. `requests` is the sum of all classes.
fn counts(classes: &[Class]) -> String {
    let performed = PERFORMED.iter().map(|n| n.load(Ordering::Relaxed));
    let (mut requests, mut json) = (0, String::from("{"));
    for (class, n) in classes.iter().zip(performed) {
        requests += n;
        json += &format!("\"{}\": {n}, ", class.name);
    }
    json + &format!(
        "\"requests\": {requests}, \"connections\": {}}}\n",
        CONNECTIONS.load(Ordering::Relaxed)
    )
}

/// A connection, with or without TLS.
struct Connection {
    tcp: TcpStream,
    tls: Option<ServerConnection>,
}

impl Connection {
    fn new(tcp: TcpStream, tls: Option<Arc<ServerConfig>>) -> Connection {
        // Fails only if the client has already disconnected. Then reading fails as well.
        let _ = tcp.set_nodelay(true);
        Connection {
            tcp,
            tls: tls.map(|config| {
                ServerConnection::new(config).expect("the configuration should be valid")
            }),
        }
    }

    fn respond(&mut self, status: u16, reason: &str, kind: &str, body: &str) -> io::Result<Ending> {
        self.write_all(&encode::response(
            status,
            reason,
            kind,
            body.len(),
            false,
            body.as_bytes(),
        ))?;
        Ok(Ending::KeepOpen)
    }

    fn send(&mut self, send: Sending) -> io::Result<()> {
        match send {
            Sending::Whole(text) => self.write_all(text.as_bytes()),
            Sending::Pieces(text) => self.send_pieces(text),
            Sending::Raw(text) => self.tcp.write_all(text.as_bytes()),
            Sending::Alert(alert) => {
                let tls = self.tls.take().expect("an alert should be sent over TLS only");
                self.tcp.write_all(&alert_record(tls, alert))
            }
        }
    }

    fn send_pieces(&mut self, text: &str) -> io::Result<()> {
        for piece in text.as_bytes().chunks(PIECE_BYTES) {
            self.write_all(piece)?;
            self.flush()?;
            thread::sleep(PIECE_PAUSE);
        }
        Ok(())
    }

    /// Ends the connection. Errors are ignored, because the client may have ended the connection.
    fn end(mut self, ending: Ending) {
        match ending {
            Ending::KeepOpen => unreachable!("the connection does not end"),
            Ending::Close => {
                if let Some(tls) = &mut self.tls {
                    tls.send_close_notify();
                    let _ = tls.write_tls(&mut self.tcp);
                }
                let _ = self.tcp.shutdown(Shutdown::Write);
                self.drain();
            }
            Ending::Cut => {
                let _ = self.tcp.shutdown(Shutdown::Write);
                self.drain();
            }
            Ending::StaySilent => self.drain(),
            Ending::Reset => reset_on_close(&self.tcp),
            Ending::ResetLater => {
                thread::sleep(DELIVERY);
                reset_on_close(&self.tcp);
            }
        }
    }

    /// Reads until the client closes. Closing with unread bytes would send a reset.
    fn drain(mut self) {
        let _ = io::copy(&mut self.tcp, &mut io::sink());
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => rustls::Stream::new(tls, &mut self.tcp).read(buffer),
            None => self.tcp.read(buffer),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => rustls::Stream::new(tls, &mut self.tcp).write(bytes),
            None => self.tcp.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => rustls::Stream::new(tls, &mut self.tcp).flush(),
            None => self.tcp.flush(),
        }
    }
}

/// Returns an encrypted alert record. rustls cannot send a chosen alert, but exports its keys and
/// its encryption of records.
fn alert_record(tls: ServerConnection, alert: AlertDescription) -> Vec<u8> {
    let suite = tls.negotiated_cipher_suite().expect("the handshake should be complete");
    let (sequence, secrets) =
        tls.dangerous_extract_secrets().expect("the configuration should allow this").tx;
    // TLS 1.2 composes the nonce of GCM from a salt of four bytes and an explicit part (RFC 5288
    // §3).
    let (key, iv, salt) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (key, iv, 4),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (key, iv, 4),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (key, iv, 12),
        _ => panic!("ring has no other ciphers"),
    };
    let mut encrypter = match suite {
        SupportedCipherSuite::Tls13(suite) => suite.aead_alg.encrypter(key, iv),
        SupportedCipherSuite::Tls12(suite) => {
            let (fixed, explicit) = iv.as_ref().split_at(salt);
            suite.aead_alg.encrypter(key, fixed, explicit)
        }
    };
    // Two is the level `fatal` (RFC 8446 §6). Records of TLS 1.3 call themselves 1.2, too (§5.1).
    let message = OutboundPlainMessage {
        typ: ContentType::Alert,
        version: ProtocolVersion::TLSv1_2,
        payload: OutboundChunks::Single(&[2, alert.into()]),
    };
    encrypter.encrypt(message, sequence).expect("two bytes should fit").encode()
}

/// Makes the next close of `stream` send a reset.
fn reset_on_close(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let length = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: `linger` lives through the call, and `length` is its length.
    #[allow(unsafe_code)]
    let result = unsafe {
        let value = (&raw const linger).cast();
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, value, length)
    };
    assert_eq!(result, 0);
}
