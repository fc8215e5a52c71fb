//! A test server that is broken in every known way, and counts its faults.
//!
//! `broken --port PORT [--cert FILE --key FILE]`; port 0 takes any. It prints `listening on PORT`
//! once ready.
//!
//! The last segment of a path is a number, which [`turn`] maps to a class: `/7`, `/any/thing/7`.
//! Paths that begin with `/only/NAME/` always get the class NAME. `/counts` reports how often each
//! class was performed. Any other path is a 404. Neither `/counts` nor a 404 counts as a request.

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

/// One way to answer.
#[derive(Clone, Copy, Debug)]
struct Class {
    name: &'static str,
    send: Out,
    then: Then,
}

/// Bytes to send.
#[derive(Clone, Copy, Debug)]
enum Out {
    /// All in one write, over TLS in one record.
    Whole(&'static str),
    /// In pieces of [`PIECE_BYTES`], each flushed, [`PIECE_PAUSE`] apart.
    Pieces(&'static str),
    /// Past TLS, straight into the socket.
    Raw(&'static str),
    /// A fatal alert, encrypted as the connection's next record.
    Alert(AlertDescription),
}

/// Next state of the connection. Further requests are served only after `GoOn`.
#[derive(Clone, Copy, Debug)]
enum Then {
    GoOn,
    /// Ends its own direction, over TLS with close_notify, then reads until the client closes.
    Close,
    /// As `Close`, but over TLS without close_notify.
    Cut,
    /// Says nothing more, and reads until the client closes.
    Stay,
    /// Resets at once.
    Reset,
    /// Resets once what was sent has arrived.
    ResetLater,
}

const PIECE_BYTES: usize = 7;
const PIECE_PAUSE: Duration = Duration::from_micros(200);
/// Long enough on any loopback for what was sent to be in the client's socket.
const DELIVERY: Duration = Duration::from_millis(5);
/// std listens with a backlog of 128; clients that all reconnect at once would be kept waiting for
/// a second.
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
/// Its first byte is no content type of TLS, and it is longer than a record's header.
const NO_RECORD: &str = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";

/// All classes in the order of their turns; those from [`PLAIN_CLASSES`] on need TLS.
const CLASSES: [Class; 30] = [
    // A correct response: 200, text/plain, 13 bytes of known length.
    class("good", Out::Whole(GOOD), Then::GoOn),
    // The same body in two chunks, the first with an extension, and a trailer.
    class("good_chunked", Out::Whole(GOOD_CHUNKED), Then::GoOn),
    // The bytes of `good`, a few at a time.
    class("good_pieces", Out::Pieces(GOOD), Then::GoOn),
    // A correct response that announces its `Connection: close`.
    class("good_close", Out::Whole(GOOD_CLOSE), Then::Close),
    // A correct response without a length: the close ends its body.
    class("good_until_close", Out::Whole(GOOD_UNTIL_CLOSE), Then::Close),
    // Two interim responses (103) before the correct response.
    class("informational", Out::Whole(INFORMATIONAL), Then::GoOn),
    // A well-formed 500 with a body.
    class("status_500", Out::Whole(STATUS_500), Then::GoOn),
    // As long as the right body, and one letter off.
    class("wrong_body", Out::Whole(WRONG_BODY), Then::GoOn),
    // The right body as application/octet-stream.
    class("wrong_header", Out::Whole(WRONG_HEADER), Then::GoOn),
    // Promises 13 bytes, sends five and closes.
    class("short_body", Out::Whole(FIVE_OF_13), Then::Close),
    // Closes in the middle of the head.
    class("cut_head", Out::Whole(HALF_A_HEAD), Then::Close),
    // Closes instead of answering.
    class("no_answer", Out::Whole(""), Then::Close),
    // Resets instead of answering.
    class("reset", Out::Whole(""), Then::Reset),
    // Resets after the head and five bytes of the body have arrived.
    class("reset_mid_body", Out::Whole(FIVE_OF_13), Then::ResetLater),
    // Never answers.
    class("silent", Out::Whole(""), Then::Stay),
    // Falls silent after the head and five bytes of the body.
    class("stalls", Out::Whole(FIVE_OF_13), Then::Stay),
    // The status line begins with `HTP/1.1`. In the following classes only the bytes show the
    // client that the response is wrong: the connection stays open.
    class("bad_status_line", Out::Whole(BAD_STATUS_LINE), Then::Stay),
    // A version that does not exist.
    class("bad_version", Out::Whole(BAD_VERSION), Then::Stay),
    // A chunk size that is no number.
    class("bad_chunk", Out::Whole(BAD_CHUNK), Then::Stay),
    // A Content-Length in words.
    class("bad_length", Out::Whole(BAD_LENGTH), Then::Stay),
    // Two Content-Lengths that differ.
    class("two_lengths", Out::Whole(TWO_LENGTHS), Then::Stay),
    // Every line of the head ends in a bare line feed.
    class("bare_lf", Out::Whole(BARE_LF), Then::Stay),
    // A header continues on a second line, which clients join (RFC 9112 §5.2).
    class("folded", Out::Whole(FOLDED), Then::GoOn),
    // Both framings at once.
    class("length_and_chunked", Out::Whole(LENGTH_AND_CHUNKED), Then::Stay),
    // The status line ends in a CR alone.
    class("bare_cr", Out::Whole(BARE_CR), Then::Stay),
    // Junk between a chunk's size and the end of its line.
    class("chunk_junk", Out::Whole(CHUNK_JUNK), Then::Stay),
    // A correct response and, in the same write, one to a request that no client sent.
    class("unsolicited", Out::Whole(UNSOLICITED), Then::Stay),
    // Ends TCP in the middle of the body without close_notify.
    class("tls_truncated", Out::Whole(FIVE_OF_13), Then::Cut),
    // A fatal alert instead of the response.
    class("tls_alert", Out::Alert(AlertDescription::InternalError), Then::Cut),
    // Bytes that are no TLS record instead of the response.
    class("tls_garbage", Out::Raw(NO_RECORD), Then::Cut),
];
const PLAIN_CLASSES: usize = 27;

static PERFORMED: [AtomicU64; CLASSES.len()] = [const { AtomicU64::new(0) }; CLASSES.len()];
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

const fn class(name: &'static str, send: Out, then: Then) -> Class {
    Class { name, send, then }
}

/// The index of the class of request `n`: every second one is good, and in between the others take
/// turns.
fn turn(n: u64, classes: &[Class]) -> usize {
    let others = classes.len() as u64 - 1;
    if n.is_multiple_of(2) { 0 } else { 1 + (n / 2 % others) as usize }
}

fn main() {
    let option = options();
    let port: u16 = option("--port").expect("--port PORT").parse().expect("a port");
    let tls = option("--cert")
        .map(|cert| tls_config(&cert, &option("--key").expect("--cert needs --key")));
    let classes = if tls.is_some() { &CLASSES[..] } else { &CLASSES[..PLAIN_CLASSES] };
    let listener = listen(port);
    println!("listening on {}", listener.local_addr().expect("it is bound").port());
    for stream in listener.incoming() {
        // The client may have given up before it was accepted.
        let Ok(stream) = stream else { continue };
        CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let tls = tls.clone();
        thread::spawn(move || serve(Link::new(stream, tls), classes));
    }
}

fn options() -> impl Fn(&str) -> Option<String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    move |name| words.iter().position(|w| w == name).and_then(|i| words.get(i + 1)).cloned()
}

fn tls_config(cert: &str, key: &str) -> Arc<ServerConfig> {
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(cert).expect("--cert can be read").collect();
    let key = PrivateKeyDer::from_pem_file(key).expect("--key holds a private key");
    let mut config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring speaks both versions")
            .with_no_client_auth()
            .with_single_cert(chain.expect("--cert holds certificates"), key)
            .expect("certificate and key belong together");
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // For `tls_alert`, which rustls would never send by itself.
    config.enable_secret_extraction = true;
    Arc::new(config)
}

fn listen(port: u16) -> TcpListener {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    // SAFETY: no memory is involved. A second listen changes the backlog.
    #[allow(unsafe_code)]
    let ok = unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) };
    assert_eq!(ok, 0);
    listener
}

/// Acts on the requests of one connection until its client, or a response, ends it.
fn serve(mut link: Link, classes: &'static [Class]) {
    let mut reader = request::RequestReader::new();
    let mut buffer = [0; 16 * 1024];
    let mut asked = RequestSeen { target: Target::Nothing, persists: false };
    while let Ok(n @ 1..) = link.read(&mut buffer) {
        let mut bytes = &buffer[..n];
        loop {
            let Ok((used, event)) = reader.next(bytes) else { return link.end(Then::Close) };
            bytes = &bytes[used..];
            match event {
                request::RequestEvent::NeedMore => break,
                request::RequestEvent::Head(head) => asked = RequestSeen::new(&head, classes),
                request::RequestEvent::Body(_) => {}
                request::RequestEvent::End => match asked.act(&mut link, classes) {
                    Ok(Then::GoOn) => {}
                    Ok(then) => return link.end(then),
                    // The client is gone.
                    Err(_) => return,
                },
            }
        }
    }
}

/// A request, as far as it matters.
struct RequestSeen {
    target: Target,
    persists: bool,
}

enum Target {
    /// The index of a class.
    Class(usize),
    Counts,
    Nothing,
}

impl RequestSeen {
    fn new(head: &request::RequestHead<'_>, classes: &[Class]) -> RequestSeen {
        let target = str::from_utf8(head.target)
            .map_or(Target::Nothing, |path| Target::parse(path, classes));
        RequestSeen { target, persists: head.persists() }
    }

    fn act(&self, link: &mut Link, classes: &[Class]) -> io::Result<Then> {
        let then = match self.target {
            Target::Class(i) => {
                PERFORMED[i].fetch_add(1, Ordering::Relaxed);
                link.send(classes[i].send)?;
                classes[i].then
            }
            Target::Counts => link.answer(200, "OK", "application/json", &counts(classes))?,
            Target::Nothing => link.answer(404, "Not Found", "text/plain", "no class")?,
        };
        Ok(match then {
            Then::GoOn if !self.persists => Then::Close,
            then => then,
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
            Some(rest) => {
                classes.iter().position(|class| rest.split('/').next() == Some(class.name))
            }
            None => path.rsplit('/').next().and_then(|n| n.parse().ok()).map(|n| turn(n, classes)),
        };
        class.map_or(Target::Nothing, Target::Class)
    }
}

/// One flat JSON object. `requests` is the sum of all classes.
fn counts(classes: &[Class]) -> String {
    let performed = PERFORMED.iter().map(|n| n.load(Ordering::Relaxed));
    let (mut requests, mut out) = (0, String::from("{"));
    for (class, n) in classes.iter().zip(performed) {
        requests += n;
        out += &format!("\"{}\": {n}, ", class.name);
    }
    out + &format!(
        "\"requests\": {requests}, \"connections\": {}}}\n",
        CONNECTIONS.load(Ordering::Relaxed)
    )
}

/// A connection, with or without TLS.
struct Link {
    tcp: TcpStream,
    tls: Option<ServerConnection>,
}

impl Link {
    fn new(tcp: TcpStream, tls: Option<Arc<ServerConfig>>) -> Link {
        // Fails only if the client is gone already; reading then fails too.
        let _ = tcp.set_nodelay(true);
        Link {
            tcp,
            tls: tls
                .map(|config| ServerConnection::new(config).expect("the configuration is good")),
        }
    }

    fn answer(&mut self, status: u16, reason: &str, kind: &str, body: &str) -> io::Result<Then> {
        self.write_all(&encode::response(
            status,
            reason,
            kind,
            body.len(),
            false,
            body.as_bytes(),
        ))?;
        Ok(Then::GoOn)
    }

    fn send(&mut self, send: Out) -> io::Result<()> {
        match send {
            Out::Whole(text) => self.write_all(text.as_bytes()),
            Out::Pieces(text) => self.send_pieces(text),
            Out::Raw(text) => self.tcp.write_all(text.as_bytes()),
            Out::Alert(alert) => {
                let tls = self.tls.take().expect("classes with alerts are for TLS only");
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

    /// Ends the connection. Errors are of no interest: the client was faster.
    fn end(mut self, then: Then) {
        match then {
            Then::GoOn => unreachable!("the connection does not end"),
            Then::Close => {
                if let Some(tls) = &mut self.tls {
                    tls.send_close_notify();
                    let _ = tls.write_tls(&mut self.tcp);
                }
                let _ = self.tcp.shutdown(Shutdown::Write);
                self.drain();
            }
            Then::Cut => {
                let _ = self.tcp.shutdown(Shutdown::Write);
                self.drain();
            }
            Then::Stay => self.drain(),
            Then::Reset => reset_on_close(&self.tcp),
            Then::ResetLater => {
                thread::sleep(DELIVERY);
                reset_on_close(&self.tcp);
            }
        }
    }

    /// Reads until the client closes: a close with bytes unread would be a reset.
    fn drain(mut self) {
        let _ = io::copy(&mut self.tcp, &mut io::sink());
    }
}

impl Read for Link {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => rustls::Stream::new(tls, &mut self.tcp).read(buffer),
            None => self.tcp.read(buffer),
        }
    }
}

impl Write for Link {
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

/// rustls sends no alert of our choice, but gives away its keys and the parts to encrypt a record
/// with them.
fn alert_record(tls: ServerConnection, alert: AlertDescription) -> Vec<u8> {
    let suite = tls.negotiated_cipher_suite().expect("a request came over it");
    let (sequence, secrets) =
        tls.dangerous_extract_secrets().expect("the configuration allows it").tx;
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
    encrypter.encrypt(message, sequence).expect("two bytes fit").encode()
}

/// Has the coming close of `stream` send a reset.
fn reset_on_close(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let length = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: `linger` lives through the call, and `length` is its length.
    #[allow(unsafe_code)]
    let ok = unsafe {
        let value = (&raw const linger).cast();
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, value, length)
    };
    assert_eq!(ok, 0);
}
