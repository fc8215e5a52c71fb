//! A server for the end-to-end tests: it keeps the hello contract until its mode says otherwise.
//!
//! `unruly --port P --mode MODE [--after N] [--second-port P]`

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use dyno_wire::h1::{encode, request};

/// Requests answered so far, `/count` itself aside.
static ANSWERED: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Debug)]
struct Options {
    port: u16,
    second_port: Option<u16>,
    mode: String,
    /// Requests after which the mode sets in.
    after: u64,
}

fn main() {
    let options = options();
    match options.mode.as_str() {
        // Never gets ready.
        "never" => forever(),
        "exit-at-once" => {
            eprintln!("unruly: configuration error on line 3");
            std::process::exit(7);
        }
        // Does not stop when asked to.
        "stubborn" => ignore_term(),
        "escapes" => write_escapes(),
        // Its compiler is never done.
        "compiling" => compile_for_ever(),
        _ => {}
    }
    if let Some(second) = options.second_port.filter(|_| options.mode != "one-port") {
        let listener = TcpListener::bind(("127.0.0.1", second)).expect("the second port is free");
        thread::spawn(move || listener.incoming().for_each(drop));
    }
    let listener = TcpListener::bind(("127.0.0.1", options.port)).expect("the port is free");
    if options.mode == "sleepy-workers" {
        return sleepy_workers(&listener);
    }
    for stream in listener.incoming() {
        let options = options.clone();
        let stream = stream.expect("accepting works");
        thread::spawn(move || serve(stream, &options));
    }
}

fn options() -> Options {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let of =
        |name: &str| words.iter().position(|w| w == name).and_then(|i| words.get(i + 1)).cloned();
    let number = |name: &str| of(name).map(|text| text.parse::<u64>().expect("a number"));
    Options {
        port: number("--port").expect("--port") as u16,
        second_port: number("--second-port").map(|p| p as u16),
        mode: of("--mode").unwrap_or_else(|| "good".into()),
        after: number("--after").unwrap_or(0),
    }
}

fn forever() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

/// Writes escape sequences that a terminal would obey: colours, a title.
fn write_escapes() {
    eprintln!("\x1b[31munruly is red\x1b[0m \x1b]0;owned\x07");
}

fn compile_for_ever() {
    let forever = || {
        loop {
            std::hint::spin_loop();
        }
    };
    let named = thread::Builder::new().name("C2 CompilerThread0".into());
    named.spawn(forever).expect("one thread more is possible");
}

/// Work of a request on a server that gets faster with each: two milliseconds at first, almost
/// nothing after thousands.
fn warm_up() {
    let answered = ANSWERED.load(Ordering::Relaxed) as f64;
    let takes = Duration::from_secs_f64(0.002 * 0.999f64.powf(answered));
    let began = Instant::now();
    while began.elapsed() < takes {
        std::hint::spin_loop();
    }
}

fn ignore_term() {
    // SAFETY: no memory is involved.
    #[allow(unsafe_code)]
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_IGN)
    };
}

/// How long a worker sleeps over each request.
const SLEEP: Duration = Duration::from_millis(10);

const WORKERS: usize = 8;

/// One thread takes connections and looks which of them have something to say; eight others answer
/// them, and sleep over it.
fn sleepy_workers(listener: &TcpListener) {
    let (to_workers, jobs) = mpsc::channel::<Visitor>();
    let (to_poller, answered) = mpsc::channel::<Visitor>();
    let jobs = Arc::new(Mutex::new(jobs));
    let (mut wake, waker) = UnixStream::pair().expect("a pair of sockets");
    for _ in 0..WORKERS {
        let (jobs, to_poller) = (Arc::clone(&jobs), to_poller.clone());
        let mut waker = waker.try_clone().expect("a socket");
        thread::spawn(move || {
            loop {
                let job = jobs.lock().expect("no thread panics").recv();
                let Ok(mut visitor) = job else { return };
                thread::sleep(SLEEP);
                if visitor.answer() {
                    let _ = to_poller.send(visitor);
                    let _ = waker.write(&[1]);
                }
            }
        });
    }
    wake.set_nonblocking(true).expect("it can");
    listener.set_nonblocking(true).expect("it can");
    let mut idle: Vec<Visitor> = Vec::new();
    loop {
        wait_for_any(listener, &wake, &idle);
        let mut drained = [0; 256];
        while wake.read(&mut drained).is_ok_and(|n| n > 0) {}
        idle.extend(answered.try_iter());
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true).expect("it can");
            let _ = stream.set_nodelay(true);
            idle.push(Visitor { stream, reader: request::RequestReader::new() });
        }
        let has_something = |visitor: &Visitor| {
            visitor
                .stream
                .peek(&mut [0])
                .map_or_else(|e| e.kind() != ErrorKind::WouldBlock, |_| true)
        };
        let (ready, still): (Vec<_>, Vec<_>) = idle.into_iter().partition(has_something);
        idle = still;
        ready.into_iter().for_each(|visitor| to_workers.send(visitor).expect("workers live"));
    }
}

/// Sleeps until there is a connection, a response was given, or a connection has something to say.
fn wait_for_any(listener: &TcpListener, wake: &UnixStream, idle: &[Visitor]) {
    let fds = [listener.as_raw_fd(), wake.as_raw_fd()]
        .into_iter()
        .chain(idle.iter().map(|visitor| visitor.stream.as_raw_fd()));
    let mut polled: Vec<libc::pollfd> =
        fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: the array lives through the call, and is as long as is said.
    #[allow(unsafe_code)]
    unsafe {
        libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1)
    };
}

/// A connection, and what of its request has come.
struct Visitor {
    stream: TcpStream,
    reader: request::RequestReader,
}

impl Visitor {
    /// Answers what has been asked; false: the connection has ended.
    fn answer(&mut self) -> bool {
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
                    let goes_on = head.persists();
                    if self.stream.write_all(&answer(&head, &options)).is_err() || !goes_on {
                        return false;
                    }
                }
                request::RequestEvent::Body(_) | request::RequestEvent::End => {}
            }
        }
    }
}

/// Held by one request at a time, for a millisecond.
static TURN: Mutex<()> = Mutex::new(());

fn take_turns() {
    let _turn = TURN.lock();
    thread::sleep(Duration::from_millis(1));
}

fn serve(mut stream: TcpStream, options: &Options) {
    let _ = stream.set_nodelay(true);
    let mut reader = request::RequestReader::new();
    let mut buffer = [0; 16 * 1024];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        let mut bytes = &buffer[..n];
        let mut out = Vec::new();
        let mut goes_on = true;
        while goes_on {
            let Ok((used, event)) = reader.next(bytes) else { return };
            bytes = &bytes[used..];
            match event {
                request::RequestEvent::NeedMore => break,
                request::RequestEvent::Head(head) => {
                    misbehave(options);
                    out.extend(answer(&head, options));
                    goes_on = head.persists();
                }
                request::RequestEvent::Body(_) | request::RequestEvent::End => {}
            }
        }
        if stream.write_all(&out).is_err() || !goes_on {
            return;
        }
    }
}

fn misbehave(options: &Options) {
    if ANSWERED.load(Ordering::Relaxed) < options.after {
        return;
    }
    match options.mode.as_str() {
        "crash" => {
            eprintln!("unruly: out of luck");
            std::process::exit(9);
        }
        "deaf" => forever(),
        "lock" => take_turns(),
        "cold" => warm_up(),
        "hog" => std::mem::forget(vec![1u8; 4 << 20]),
        _ => {}
    }
}

fn answer(head: &request::RequestHead<'_>, options: &Options) -> Vec<u8> {
    let late = ANSWERED.load(Ordering::Relaxed) >= options.after;
    let wrong = options.mode == "wrong" && late;
    if options.mode == "mute" && late && head.target == b"/json" {
        forever();
    }
    let escapes = options.mode == "escapes" && late;
    let count = ANSWERED.load(Ordering::Relaxed).to_string();
    let (status, kind, body): (u16, &str, &[u8]) = match head.target {
        b"/plaintext" if wrong => (200, "text/plain", b"Hello, Wrong!"),
        b"/plaintext" if escapes => (200, "text/plain", b"\x1b]52;c;aGk=\x07\x1b[2JHello"),
        b"/plaintext" => (200, "text/plain", b"Hello, World!"),
        b"/json" => (200, "application/json", br#"{"message":"Hello, World!"}"#),
        b"/count" => (200, "text/plain", count.as_bytes()),
        _ => (404, "text/plain", b"not found"),
    };
    if head.target != b"/count" {
        ANSWERED.fetch_add(1, Ordering::Relaxed);
    }
    let shown = if head.method == b"HEAD" { &[][..] } else { body };
    let reason = if status == 200 { "OK" } else { "Not Found" };
    encode::response(status, reason, kind, body.len(), !head.persists(), shown)
}
