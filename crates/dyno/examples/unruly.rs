//! A server for the end-to-end tests that fails in a chosen way. It obeys the hello contract until
//! its mode takes effect.
//!
//! `unruly --port P --mode MODE [--after N] [--second-port P]`

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use dyno_wire::h1::{encode, request};

/// Responses sent so far.
static RESPONSES: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Debug)]
struct Options {
    port: u16,
    second_port: Option<u16>,
    mode: String,
    /// Number of responses after which the mode takes effect.
    after: u64,
}

fn main() {
    let options = options();
    match options.mode.as_str() {
        // Never becomes ready.
        "never" => forever(),
        "exit-at-once" => {
            eprintln!("unruly: configuration error on line 3");
            std::process::exit(7);
        }
        // Ignores SIGTERM.
        "stubborn" => ignore_term(),
        "escapes" => write_escapes(),
        _ => {}
    }
    if let Some(second) = options.second_port.filter(|_| options.mode != "one-port") {
        let listener =
            TcpListener::bind(("127.0.0.1", second)).expect("the second port should be free");
        thread::spawn(move || listener.incoming().for_each(drop));
    }
    let listener = TcpListener::bind(("127.0.0.1", options.port)).expect("the port should be free");
    if options.mode == "sleepy-workers" {
        return sleepy_workers(&listener);
    }
    for stream in listener.incoming() {
        let options = options.clone();
        let stream = stream.expect("accepting should work");
        thread::spawn(move || serve(stream, &options));
    }
}

fn options() -> Options {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        arguments.iter().position(|w| w == name).and_then(|i| arguments.get(i + 1)).cloned()
    };
    let number = |name: &str| value(name).map(|text| text.parse::<u64>().expect("a number"));
    Options {
        port: number("--port").expect("--port") as u16,
        second_port: number("--second-port").map(|p| p as u16),
        mode: value("--mode").unwrap_or_else(|| "good".into()),
        after: number("--after").unwrap_or(0),
    }
}

fn forever() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

/// Writes escape sequences that a terminal would execute: colours, a title.
fn write_escapes() {
    eprintln!("\x1b[31munruly is red\x1b[0m \x1b]0;owned\x07");
}

fn ignore_term() {
    // SAFETY: no memory is involved.
    #[allow(unsafe_code)]
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_IGN)
    };
}

/// Time for which a worker sleeps per request.
const SLEEP: Duration = Duration::from_millis(10);

const WORKERS: usize = 8;

/// Serves connections with one polling thread and [`WORKERS`] worker threads, which sleep for
/// [`SLEEP`] per request.
fn sleepy_workers(listener: &TcpListener) {
    let (to_workers, jobs) = mpsc::channel::<PolledConnection>();
    let (to_poller, idle_again) = mpsc::channel::<PolledConnection>();
    let jobs = Arc::new(Mutex::new(jobs));
    let (mut wake, waker) = UnixStream::pair().expect("a pair of sockets");
    for _ in 0..WORKERS {
        let (jobs, to_poller) = (Arc::clone(&jobs), to_poller.clone());
        let mut waker = waker.try_clone().expect("a socket");
        thread::spawn(move || {
            loop {
                let job = jobs.lock().expect("no worker should panic").recv();
                let Ok(mut connection) = job else { return };
                thread::sleep(SLEEP);
                if connection.respond() {
                    let _ = to_poller.send(connection);
                    let _ = waker.write(&[1]);
                }
            }
        });
    }
    wake.set_nonblocking(true).expect("sockets can be non-blocking");
    listener.set_nonblocking(true).expect("sockets can be non-blocking");
    let mut idle: Vec<PolledConnection> = Vec::new();
    loop {
        wait_for_any(listener, &wake, &idle);
        let mut drained = [0; 256];
        while wake.read(&mut drained).is_ok_and(|n| n > 0) {}
        idle.extend(idle_again.try_iter());
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true).expect("sockets can be non-blocking");
            let _ = stream.set_nodelay(true);
            idle.push(PolledConnection { stream, reader: request::RequestReader::new() });
        }
        let is_readable = |connection: &PolledConnection| {
            connection
                .stream
                .peek(&mut [0])
                .map_or_else(|e| e.kind() != ErrorKind::WouldBlock, |_| true)
        };
        let (ready, not_ready): (Vec<_>, Vec<_>) = idle.into_iter().partition(is_readable);
        idle = not_ready;
        ready.into_iter().for_each(|connection| {
            to_workers.send(connection).expect("the workers should be running");
        });
    }
}

/// Sleeps until a client connects, a worker has responded, or a connection has data to read.
fn wait_for_any(listener: &TcpListener, wake: &UnixStream, idle: &[PolledConnection]) {
    let fds = [listener.as_raw_fd(), wake.as_raw_fd()]
        .into_iter()
        .chain(idle.iter().map(|connection| connection.stream.as_raw_fd()));
    let mut polled: Vec<libc::pollfd> =
        fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: the array lives through the call, and has the given length.
    #[allow(unsafe_code)]
    unsafe {
        libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1)
    };
}

/// A connection and its partially received request.
struct PolledConnection {
    stream: TcpStream,
    reader: request::RequestReader,
}

impl PolledConnection {
    /// Responds to the received requests. Returns whether the connection is still open.
    fn respond(&mut self) -> bool {
        let options = Options { port: 0, second_port: None, mode: "good".into(), after: 0 };
        let mut buffer = [0; 16 * 1024];
        let Ok(n @ 1..) = self.stream.read(&mut buffer) else { return false };
        let mut bytes = &buffer[..n];
        loop {
            let Ok((used, event)) = self.reader.next(bytes) else { return false };
            bytes = &bytes[used..];
            match event {
                request::RequestEvent::NeedMore => return true,
                request::RequestEvent::Head(head) => {
                    let persists = head.persists();
                    if self.stream.write_all(&respond(&head, &options)).is_err() || !persists {
                        return false;
                    }
                }
                request::RequestEvent::Body(_) | request::RequestEvent::End => {}
            }
        }
    }
}

/// Lock that each request holds for a millisecond.
static SINGLE_REQUEST: Mutex<()> = Mutex::new(());

fn serialize_requests() {
    let _guard = SINGLE_REQUEST.lock();
    thread::sleep(Duration::from_millis(1));
}

fn serve(mut stream: TcpStream, options: &Options) {
    let _ = stream.set_nodelay(true);
    let mut reader = request::RequestReader::new();
    let mut buffer = [0; 16 * 1024];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        let mut bytes = &buffer[..n];
        let mut out = Vec::new();
        let mut persists = true;
        while persists {
            let Ok((used, event)) = reader.next(bytes) else { return };
            bytes = &bytes[used..];
            match event {
                request::RequestEvent::NeedMore => break,
                request::RequestEvent::Head(head) => {
                    apply_mode(options);
                    out.extend(respond(&head, options));
                    persists = head.persists();
                }
                request::RequestEvent::Body(_) | request::RequestEvent::End => {}
            }
        }
        if stream.write_all(&out).is_err() || !persists {
            return;
        }
    }
}

fn apply_mode(options: &Options) {
    if RESPONSES.load(Ordering::Relaxed) < options.after {
        return;
    }
    match options.mode.as_str() {
        "crash" => {
            eprintln!("unruly: out of luck");
            std::process::exit(9);
        }
        "lock" => serialize_requests(),
        "hog" => std::mem::forget(vec![1u8; 4 << 20]),
        _ => {}
    }
}

fn respond(head: &request::RequestHead<'_>, options: &Options) -> Vec<u8> {
    let is_active = RESPONSES.load(Ordering::Relaxed) >= options.after;
    let has_escapes = options.mode == "escapes" && is_active;
    let (status, kind, body): (u16, &str, &[u8]) = match head.target {
        b"/plaintext" if has_escapes => (200, "text/plain", b"\x1b]52;c;aGk=\x07\x1b[2JHello"),
        b"/plaintext" => (200, "text/plain", b"Hello, World!"),
        b"/json" => (200, "application/json", br#"{"message":"Hello, World!"}"#),
        _ => (404, "text/plain", b"not found"),
    };
    RESPONSES.fetch_add(1, Ordering::Relaxed);
    let body_to_send = if head.method == b"HEAD" { &[][..] } else { body };
    let reason = if status == 200 { "OK" } else { "Not Found" };
    encode::response(status, reason, kind, body.len(), !head.persists(), body_to_send)
}
