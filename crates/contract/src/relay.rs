//! A relay between a server and its back end. It records the server's requests, and can delay
//! responses.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::limits::RELAYED_BYTES;

/// A port in front of a back end's. Dropping it closes the port; a connection ends when either side
/// closes it.
#[derive(Debug)]
pub struct Relay {
    port: u16,
    seen: Arc<SharedState>,
}

/// State that all connections of a relay share.
#[derive(Debug, Default)]
struct SharedState {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes from the server, by connection.
    asked: Vec<Vec<u8>>,
    /// Whether more bytes came than are kept.
    is_full: bool,
    is_held: bool,
    is_closed: bool,
}

impl Relay {
    /// Listens in front of a port of this machine.
    ///
    /// # Errors
    /// No port is available.
    pub fn new(port: u16) -> io::Result<Relay> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let own = listener.local_addr()?.port();
        let seen = Arc::new(SharedState::default());
        let shared = Arc::clone(&seen);
        thread::spawn(move || accept(&listener, port, &shared));
        Ok(Relay { port: own, seen })
    }

    /// Returns the port at which it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns how many bytes each connection has sent so far, as a mark for
    /// [`Relay::asked_since`].
    #[must_use]
    pub fn mark(&self) -> Vec<usize> {
        self.seen.lock().asked.iter().map(Vec::len).collect()
    }

    /// Returns the bytes that each connection has sent since a mark.
    #[must_use]
    pub fn asked_since(&self, mark: &[usize]) -> Vec<Vec<u8>> {
        let state = self.seen.lock();
        let from = |i: usize| mark.get(i).copied().unwrap_or(0);
        state.asked.iter().enumerate().map(|(i, asked)| asked[from(i)..].to_vec()).collect()
    }

    /// Returns whether there were more requests than are kept: the rest is unknown.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.seen.lock().is_full
    }

    /// Holds responses back, or lets them through.
    pub fn hold(&self, is_held: bool) {
        self.seen.lock().is_held = is_held;
        self.seen.changed.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        {
            let mut state = self.seen.lock();
            (state.is_held, state.is_closed) = (false, true);
        }
        self.seen.changed.notify_all();
        // The accepting thread sees only with its next connection that the relay is closed.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while responses are held.
    fn wait(&self) {
        let mut state = self.lock();
        while state.is_held {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Records the bytes of a connection, up to the limit.
    fn keep(&self, connection: usize, bytes: &[u8]) {
        let mut state = self.lock();
        let kept: usize = state.asked.iter().map(Vec::len).sum();
        let room = RELAYED_BYTES.saturating_sub(kept);
        state.is_full |= bytes.len() > room;
        state.asked[connection].extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

fn accept(listener: &TcpListener, port: u16, seen: &Arc<SharedState>) {
    let to = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
    while let Ok((server, _)) = listener.accept() {
        if seen.lock().is_closed {
            return;
        }
        // To the server, a back end that refuses connections looks like one that closes them.
        if let Ok(backend) = TcpStream::connect(to) {
            let _ = relay(&server, &backend, seen);
        }
    }
}

/// Forwards in both directions, each on its own thread.
fn relay(server: &TcpStream, backend: &TcpStream, seen: &Arc<SharedState>) -> io::Result<()> {
    server.set_nodelay(true)?;
    backend.set_nodelay(true)?;
    let connection = {
        let mut state = seen.lock();
        state.asked.push(Vec::new());
        state.asked.len() - 1
    };
    let (shared, from, to) = (Arc::clone(seen), server.try_clone()?, backend.try_clone()?);
    thread::spawn(move || forward(&from, &to, |bytes| shared.keep(connection, bytes)));
    let (shared, from, to) = (Arc::clone(seen), backend.try_clone()?, server.try_clone()?);
    thread::spawn(move || forward(&from, &to, |_| shared.wait()));
    Ok(())
}

fn forward(mut from: &TcpStream, mut to: &TcpStream, before: impl Fn(&[u8])) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        before(&bytes[..n]);
        if to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a server that echoes each line.
    fn echo() -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || forward(&stream, &stream, |_| ()));
            }
        });
        port
    }

    fn exchange(stream: &mut TcpStream, text: &[u8]) -> Vec<u8> {
        stream.write_all(text).unwrap();
        let mut answer = vec![0; text.len()];
        stream.read_exact(&mut answer).unwrap();
        answer
    }

    #[test]
    fn what_is_asked_is_kept_by_connection_and_from_a_mark_on() {
        let relay = Relay::new(echo()).unwrap();
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port())).unwrap();
        let mut first = connect();
        assert_eq!(exchange(&mut first, b"one"), b"one");
        let mark = relay.mark();
        let mut second = connect();
        assert_eq!(exchange(&mut second, b"two"), b"two");
        assert_eq!(exchange(&mut first, b"three"), b"three");
        assert_eq!(relay.asked_since(&mark), [b"three".to_vec(), b"two".to_vec()]);
        assert_eq!(relay.asked_since(&[]), [b"onethree".to_vec(), b"two".to_vec()]);
    }

    #[test]
    fn answers_that_are_held_come_when_they_are_let_through() {
        let relay = Relay::new(echo()).unwrap();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port())).unwrap();
        relay.hold(true);
        stream.write_all(b"late").unwrap();
        while relay.asked_since(&[]).concat() != b"late" {
            thread::yield_now();
        }
        stream.set_nonblocking(true).unwrap();
        let mut answer = [0; 4];
        assert_eq!(stream.read(&mut answer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        stream.set_nonblocking(false).unwrap();
        relay.hold(false);
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"late");
    }
}
