//! A server for the end-to-end tests: it keeps the hello contract until its mode says otherwise.
//!
//! `unruly --port P --mode MODE [--after N] [--second-port P]`

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
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
    for stream in listener.incoming() {
        let options = options.clone();
        let stream = stream.expect("accepting works");
        thread::spawn(move || serve(stream, &options));
    }
}

fn options() -> Options {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let of = |name: &str| words.iter().position(|w| w == name).and_then(|i| words.get(i + 1)).cloned();
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

/// What a terminal would obey: colours, a title.
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

/// What a request takes of a server that gets faster with each: two milliseconds at first, next to nothing after thousands.
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

fn serve(mut stream: TcpStream, options: &Options) {
    let _ = stream.set_nodelay(true);
    let mut reader = request::Reader::new();
    let mut buffer = [0; 16 * 1024];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        let mut bytes = &buffer[..n];
        let mut out = Vec::new();
        let mut goes_on = true;
        while goes_on {
            let Ok((used, event)) = reader.next(bytes) else { return };
            bytes = &bytes[used..];
            match event {
                request::Event::NeedMore => break,
                request::Event::Head(head) => {
                    misbehave(options);
                    out.extend(answer(&head, options));
                    goes_on = head.persists();
                }
                request::Event::Body(_) | request::Event::End => {}
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
        "cold" => warm_up(),
        "hog" => std::mem::forget(vec![1u8; 4 << 20]),
        _ => {}
    }
}

fn answer(head: &request::Head<'_>, options: &Options) -> Vec<u8> {
    let late = ANSWERED.load(Ordering::Relaxed) >= options.after;
    let wrong = options.mode == "wrong" && late;
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
