//! The null responder: the smallest correct server for the hello contract, one thread, epoll. What dyno reaches
//! against it is the ceiling of this machine and this generator.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use dyno_wire::h1::{encode, request};

use crate::{limits, sys};

const LISTENER: u64 = u64::MAX;

struct Conn {
    stream: TcpStream,
    reader: request::Reader,
    out: Vec<u8>,
}

/// Ready-made answers: for GET and HEAD, kept alive and closing.
struct Answers {
    plaintext: [Vec<u8>; 4],
    json: [Vec<u8>; 4],
    not_found: [Vec<u8>; 4],
}

impl Answers {
    fn new() -> Answers {
        let all = |status: u16, reason: &str, kind: &str, body: &[u8]| {
            let answer = |close, body_sent: &[u8]| {
                encode::response(status, reason, kind, body.len(), close, body_sent)
            };
            [answer(false, body), answer(true, body), answer(false, b""), answer(true, b"")]
        };
        Answers {
            plaintext: all(200, "OK", "text/plain", b"Hello, World!"),
            json: all(200, "OK", "application/json", br#"{"message":"Hello, World!"}"#),
            not_found: all(404, "Not Found", "text/plain", b"not found"),
        }
    }

    fn to(&self, head: &request::Head<'_>) -> &[u8] {
        let kind = match head.target {
            b"/plaintext" => &self.plaintext,
            b"/json" => &self.json,
            _ => &self.not_found,
        };
        &kind[usize::from(!head.persists()) + 2 * usize::from(head.method == b"HEAD")]
    }
}

/// Serves until the process ends.
pub fn serve(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port)))?;
    listener.set_nonblocking(true)?;
    // SAFETY: no memory is involved; listening again only makes the queue of new connections longer.
    sys::check(unsafe { libc::listen(listener.as_raw_fd(), 4096) })?;
    // SAFETY: the descriptor is fresh.
    let epoll = unsafe { OwnedFd::from_raw_fd(sys::check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
    add(&epoll, listener.as_raw_fd(), LISTENER)?;
    let answers = Answers::new();
    let mut conns: Vec<Option<Conn>> = Vec::new();
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; limits::EVENTS];
    let mut buffer = vec![0; limits::READ_BYTES];
    loop {
        // SAFETY: `events` is valid for its length.
        let n = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, -1) };
        for event in &events[..usize::try_from(n).unwrap_or(0)] {
            if event.u64 == LISTENER {
                accept(&listener, &epoll, &mut conns)?;
                continue;
            }
            let slot = &mut conns[event.u64 as usize];
            let goes_on =
                slot.as_mut().is_some_and(|conn| answer(conn, &answers, &mut buffer).unwrap_or(false));
            if !goes_on {
                *slot = None;
            }
        }
    }
}

fn accept(listener: &TcpListener, epoll: &OwnedFd, conns: &mut Vec<Option<Conn>>) -> io::Result<()> {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            // The peer has gone, or there is no descriptor left: the others are still to be served.
            Err(_) => return Ok(()),
        };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        // A descriptor's number is a slot that is free.
        let index = stream.as_raw_fd() as usize;
        if conns.len() <= index {
            conns.resize_with(index + 1, || None);
        }
        add(epoll, stream.as_raw_fd(), index as u64)?;
        conns[index] = Some(Conn { stream, reader: request::Reader::new(), out: Vec::new() });
    }
}

fn add(epoll: &OwnedFd, fd: i32, data: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: data };
    // SAFETY: `event` lives through the call.
    sys::check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) })
        .map(drop)
}

/// Reads once and answers everything that is complete. Returns whether the connection goes on.
fn answer(conn: &mut Conn, answers: &Answers, buffer: &mut [u8]) -> io::Result<bool> {
    let n = match conn.stream.read(buffer) {
        Ok(0) => return Ok(false),
        Ok(n) => n,
        Err(error) => return Ok(error.kind() == io::ErrorKind::WouldBlock),
    };
    let mut bytes = &buffer[..n];
    let mut goes_on = true;
    conn.out.clear();
    while goes_on {
        let Ok((used, event)) = conn.reader.next(bytes) else { return Ok(false) };
        bytes = &bytes[used..];
        match event {
            request::Event::NeedMore => break,
            request::Event::Head(head) => {
                conn.out.extend_from_slice(answers.to(&head));
                goes_on = head.persists();
            }
            request::Event::Body(_) | request::Event::End => {}
        }
    }
    write_all(&mut conn.stream, &conn.out)?;
    Ok(goes_on)
}

/// Answers are small and clients read them: a full socket means a client that has stopped, so waiting is right.
fn write_all(stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
