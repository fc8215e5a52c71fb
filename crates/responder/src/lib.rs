//! The null responder: the smallest correct server for the hello contract, one thread, epoll. Its
//! throughput under dyno is the ceiling of this machine and this generator.
//!
//! On one port it speaks HTTP/1.1, and HTTP/2 if a connection begins with that preface. `talk`
//! answers bytes with bytes, `pieces` cuts those into writes, and this module uses the sockets.
#![forbid(unsafe_code)]

mod connection;
pub mod limits;
mod pieces;

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};

pub use connection::Content;
use connection::{H2Server, PreparedAnswers, receive};
use dyno_wire::server_protocol::ServerProtocol;
use pieces::pieces;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};

const LISTENER: u64 = u64::MAX;

/// How answers of HTTP/2 are handed to the kernel. HTTP/1.1 is always `Batch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// All responses to what one read brought in one write. Each consists of HEADERS and DATA.
    #[default]
    Batch,
    /// Each response in a write of its own. It consists of three frames: HEADERS, DATA, and an
    /// empty DATA at the end.
    Response,
    /// Each frame in a write of its own. The frames are those of `Response`, so that the two differ
    /// in nothing else.
    Frame,
}

impl Writes {
    /// All of them.
    pub const ALL: [Writes; 3] = [Writes::Batch, Writes::Response, Writes::Frame];
}

struct Conn {
    stream: TcpStream,
    talk: ServerProtocol<H2Server>,
    out: Vec<u8>,
}

/// Reserves a port of 127.0.0.1 without listening on it, until the process ends. The kernel refuses
/// every connection, and no other process can listen there.
pub fn hold_closed(port: u16) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    loop {
        std::thread::park();
    }
}

/// Serves on a port of 127.0.0.1 until the process ends. `to_all`: what is answered to everything,
/// instead of the hello contract's answers. `work`: rounds of a loop that each response takes
/// besides, about a nanosecond each.
///
/// # Errors
/// The port is taken; or `to_all` is too long, or its type no line.
pub fn serve(port: u16, writes: Writes, to_all: Option<&Content>, work: u32) -> io::Result<()> {
    to_all.map_or(Ok(()), check)?;
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port)))?;
    listener.set_nonblocking(true)?;
    // Listening again makes the queue of new connections longer than the standard library does.
    rustix::net::listen(&listener, limits::BACKLOG)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let answers = PreparedAnswers::new(writes, to_all, work);
    let mut conns: Vec<Option<Conn>> = Vec::new();
    let mut events = Vec::with_capacity(limits::EVENTS);
    let mut buffer = vec![0; limits::READ_BYTES];
    loop {
        wait(&epoll, &mut events)?;
        for event in events.drain(..) {
            if event.data.u64() == LISTENER {
                accept(&listener, &epoll, &mut conns)?;
                continue;
            }
            let slot = &mut conns[event.data.u64() as usize];
            let goes_on = slot
                .as_mut()
                .is_some_and(|conn| answer(conn, &answers, writes, &mut buffer).unwrap_or(false));
            if !goes_on {
                *slot = None;
            }
        }
    }
}

fn check(content: &Content) -> io::Result<()> {
    let wrong = |message: String| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    if content.body.len() > limits::CONTENT_BYTES {
        return wrong(format!(
            "the response has {} bytes, and at most {} are allowed",
            content.body.len(),
            limits::CONTENT_BYTES
        ));
    }
    if content.media.is_empty()
        || content.media.chars().any(|c| c.is_ascii_control() || !c.is_ascii())
    {
        return wrong(format!("{:?}: must be a Content-Type", content.media));
    }
    Ok(())
}

/// Waits until something can be read. A signal ends the wait with nothing.
fn wait(epoll: &OwnedFd, events: &mut Vec<epoll::Event>) -> io::Result<()> {
    match epoll::wait(epoll, spare_capacity(events), None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn accept(
    listener: &TcpListener,
    epoll: &OwnedFd,
    conns: &mut Vec<Option<Conn>>,
) -> io::Result<()> {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            // The peer has gone, or there is no descriptor left: the others are still to be served.
            Err(_) => return Ok(()),
        };
        stream.set_nonblocking(true)?;
        // Written bytes leave at once: only the writes decide the number of segments per response.
        stream.set_nodelay(true)?;
        // A descriptor's number is a slot that is free.
        let index = stream.as_raw_fd() as usize;
        if conns.len() <= index {
            conns.resize_with(index + 1, || None);
        }
        epoll::add(epoll, &stream, EventData::new_u64(index as u64), EventFlags::IN)?;
        conns[index] = Some(Conn { stream, talk: ServerProtocol::default(), out: Vec::new() });
    }
}

/// Reads once and answers everything that is complete. Returns whether the connection goes on.
fn answer(
    conn: &mut Conn,
    answers: &PreparedAnswers,
    writes: Writes,
    buffer: &mut [u8],
) -> io::Result<bool> {
    let n = match conn.stream.read(buffer) {
        Ok(0) => return Ok(false),
        Ok(n) => n,
        Err(error) => return Ok(error.kind() == io::ErrorKind::WouldBlock),
    };
    conn.out.clear();
    let goes_on = receive(&mut conn.talk, &buffer[..n], answers, &mut conn.out);
    if writes == Writes::Batch || !matches!(conn.talk, ServerProtocol::H2(_)) {
        write_all(&mut conn.stream, &conn.out)?;
    } else {
        pieces(&conn.out, writes).try_for_each(|piece| write_all(&mut conn.stream, piece))?;
    }
    Ok(goes_on)
}

/// Answers are small and clients read them: a full socket means a client that has stopped, so
/// waiting is right.
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
