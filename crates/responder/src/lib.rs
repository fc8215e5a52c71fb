//! The null responder: the smallest correct server for the hello contract, one thread, epoll. What dyno reaches
//! against it is the ceiling of this machine and this generator.
//!
//! On one port it speaks HTTP/1.1, and HTTP/2 where a connection begins with that preface. `talk` answers bytes with
//! bytes; `pieces` cuts those into writes; here is what is done with sockets.
#![allow(unsafe_code)]

pub mod limits;
mod pieces;
mod talk;

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use dyno_wire::talk::Talk;
use pieces::pieces;
use talk::{Answers, H2, hear};

const LISTENER: u64 = u64::MAX;

/// How answers of HTTP/2 are handed to the kernel. HTTP/1.1 is always `Batch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// All answers to what one read brought in one write. Each consists of HEADERS and DATA.
    #[default]
    Batch,
    /// Each answer in a write of its own. It consists of three frames: HEADERS, DATA, and an empty DATA at the end.
    Response,
    /// Each frame in a write of its own. The frames are those of `Response`, so that the two differ in nothing else.
    Frame,
}

impl Writes {
    pub const ALL: [Writes; 3] = [Writes::Batch, Writes::Response, Writes::Frame];

    /// As it is called on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Writes::Batch => "batch",
            Writes::Response => "response",
            Writes::Frame => "frame",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Writes> {
        Writes::ALL.into_iter().find(|writes| writes.name() == name)
    }
}

struct Conn {
    stream: TcpStream,
    talk: Talk<H2>,
    out: Vec<u8>,
}

/// Serves on a port of 127.0.0.1 until the process ends.
pub fn serve(port: u16, writes: Writes) -> io::Result<()> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port)))?;
    listener.set_nonblocking(true)?;
    // SAFETY: no memory is involved; listening again only makes the queue of new connections longer.
    check(unsafe { libc::listen(listener.as_raw_fd(), limits::BACKLOG) })?;
    // SAFETY: the descriptor is fresh.
    let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
    add(&epoll, listener.as_raw_fd(), LISTENER)?;
    let answers = Answers::new(writes);
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
            let goes_on = slot
                .as_mut()
                .is_some_and(|conn| answer(conn, &answers, writes, &mut buffer).unwrap_or(false));
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
        // What is written leaves at once: how many segments an answer is, is a matter of the writes alone.
        stream.set_nodelay(true)?;
        // A descriptor's number is a slot that is free.
        let index = stream.as_raw_fd() as usize;
        if conns.len() <= index {
            conns.resize_with(index + 1, || None);
        }
        add(epoll, stream.as_raw_fd(), index as u64)?;
        conns[index] = Some(Conn { stream, talk: Talk::default(), out: Vec::new() });
    }
}

fn add(epoll: &OwnedFd, fd: i32, data: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: data };
    // SAFETY: `event` lives through the call.
    check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) }).map(drop)
}

/// Turns the -1 of a system call into the error it stands for.
fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Reads once and answers everything that is complete. Returns whether the connection goes on.
fn answer(conn: &mut Conn, answers: &Answers, writes: Writes, buffer: &mut [u8]) -> io::Result<bool> {
    let n = match conn.stream.read(buffer) {
        Ok(0) => return Ok(false),
        Ok(n) => n,
        Err(error) => return Ok(error.kind() == io::ErrorKind::WouldBlock),
    };
    conn.out.clear();
    let goes_on = hear(&mut conn.talk, &buffer[..n], answers, &mut conn.out);
    if writes == Writes::Batch || !matches!(conn.talk, Talk::H2(_)) {
        write_all(&mut conn.stream, &conn.out)?;
    } else {
        pieces(&conn.out, writes).try_for_each(|piece| write_all(&mut conn.stream, piece))?;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for writes in Writes::ALL {
            assert_eq!(Writes::from_name(writes.name()), Some(writes));
        }
        assert_eq!(Writes::from_name("segment"), None);
    }
}
