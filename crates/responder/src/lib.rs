//! Implements the null responder: a minimal correct server for the hello contract, with one thread
//! and epoll. Its throughput is the ceiling of the machine and the generator, because a server can
//! hardly do less work per request.
//!
//! One port serves HTTP/1.1, and HTTP/2 on connections that begin with the HTTP/2 preface.
//! `connection` turns requests into responses, `pieces` splits responses into writes, and this
//! module handles the sockets.
#![forbid(unsafe_code)]

mod connection;
pub mod limits;
mod pieces;

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};

pub use connection::Content;
use connection::{H2Server, PreparedResponses, receive};
use dyno_wire::server_protocol::ServerProtocol;
use pieces::pieces;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};

/// Event data of the listening socket.
const LISTENER: u64 = u64::MAX;

/// How HTTP/2 responses are handed to the kernel. HTTP/1.1 always uses `Batch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// One write for all responses to the requests of one read. A response has two frames: HEADERS
    /// and DATA.
    #[default]
    Batch,
    /// One write per response. A response has three frames: HEADERS, DATA, and an empty DATA at the
    /// end.
    Response,
    /// One write per frame. The frames are the same as with `Response`, so that only the writes
    /// differ.
    Frame,
}

impl Writes {
    /// All variants.
    pub const ALL: [Writes; 3] = [Writes::Batch, Writes::Response, Writes::Frame];
}

/// A client connection.
struct Conn {
    stream: TcpStream,
    protocol: ServerProtocol<H2Server>,
    /// Responses to the requests of the last read.
    out: Vec<u8>,
}

/// Reserves a port of 127.0.0.1 until the process ends, without listening on the port. The kernel
/// therefore refuses every connection, and no other process can listen on the port.
pub fn reserve_port(port: u16) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    loop {
        std::thread::park();
    }
}

/// Serves on a port of 127.0.0.1 until the process ends. `content`: response to every request,
/// instead of the responses of the hello contract. `work`: rounds of a loop per response, about a
/// nanosecond each.
///
/// Fails if the port is in use, or if `content` is too long or its type is not one line.
pub fn serve(port: u16, writes: Writes, content: Option<&Content>, work: u32) -> io::Result<()> {
    content.map_or(Ok(()), check)?;
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port)))?;
    listener.set_nonblocking(true)?;
    // The standard library listens with a short queue of new connections. A second `listen` makes
    // the queue longer.
    rustix::net::listen(&listener, limits::BACKLOG)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let responses = PreparedResponses::new(writes, content, work);
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
            let stays_open = slot.as_mut().is_some_and(|conn| {
                serve_read(conn, &responses, writes, &mut buffer).unwrap_or(false)
            });
            if !stays_open {
                *slot = None;
            }
        }
    }
}

/// Checks the length and type of custom content.
fn check(content: &Content) -> io::Result<()> {
    let invalid = |message: String| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    if content.body.len() > limits::CONTENT_BYTES {
        return invalid(format!(
            "the response has {} bytes, but at most {} bytes are allowed",
            content.body.len(),
            limits::CONTENT_BYTES
        ));
    }
    if content.media.is_empty()
        || content.media.chars().any(|c| c.is_ascii_control() || !c.is_ascii())
    {
        return invalid(format!(
            "{:?}: must be a Content-Type in ASCII on one line",
            content.media
        ));
    }
    Ok(())
}

/// Waits until a socket is readable. A signal ends the wait without events.
fn wait(epoll: &OwnedFd, events: &mut Vec<epoll::Event>) -> io::Result<()> {
    match epoll::wait(epoll, spare_capacity(events), None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Accepts all waiting connections.
fn accept(
    listener: &TcpListener,
    epoll: &OwnedFd,
    conns: &mut Vec<Option<Conn>>,
) -> io::Result<()> {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            // The peer has closed the connection, or no descriptor is left. The responder ignores
            // this error, because the other connections must still be served.
            Err(_) => return Ok(()),
        };
        stream.set_nonblocking(true)?;
        // Without Nagle's algorithm, the bytes of each write leave immediately. Only the writes
        // determine the number of segments per response.
        stream.set_nodelay(true)?;
        // The index of a slot is the descriptor, whose number is unique among open connections.
        let index = stream.as_raw_fd() as usize;
        if conns.len() <= index {
            conns.resize_with(index + 1, || None);
        }
        epoll::add(epoll, &stream, EventData::new_u64(index as u64), EventFlags::IN)?;
        conns[index] = Some(Conn { stream, protocol: ServerProtocol::default(), out: Vec::new() });
    }
}

/// Reads once and responds to all complete requests. Returns whether the connection stays open.
fn serve_read(
    conn: &mut Conn,
    responses: &PreparedResponses,
    writes: Writes,
    buffer: &mut [u8],
) -> io::Result<bool> {
    let n = match conn.stream.read(buffer) {
        Ok(0) => return Ok(false),
        Ok(n) => n,
        Err(error) => return Ok(error.kind() == io::ErrorKind::WouldBlock),
    };
    conn.out.clear();
    let stays_open = receive(&mut conn.protocol, &buffer[..n], responses, &mut conn.out);
    if writes == Writes::Batch || !matches!(conn.protocol, ServerProtocol::H2(_)) {
        write_all(&mut conn.stream, &conn.out)?;
    } else {
        pieces(&conn.out, writes).try_for_each(|piece| write_all(&mut conn.stream, piece))?;
    }
    Ok(stays_open)
}

/// Writes all bytes, waiting while the socket is full. Responses are small, so a full socket means
/// that the client has stopped reading.
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
