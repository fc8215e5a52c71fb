//! A relay between a server and its back end. The relay records the server's requests, and can
//! delay responses.
//!
//! Lifecycle checks use a relay to read the requests to back ends, and to keep a request in flight.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::limits::{ACCEPT_RETRY, RELAYED_BYTES};
use crate::problem::is_own_shortage;

/// A port that forwards connections to the port of a back end. Dropping it closes the port. A
/// connection ends when either side closes it.
#[derive(Debug)]
pub struct Relay {
    port: u16,
    shared: Arc<SharedState>,
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
    requests: Vec<Vec<u8>>,
    /// More bytes arrived than are stored.
    is_full: bool,
    /// Responses are delayed.
    is_delaying: bool,
    is_closed: bool,
    /// First error of dyno itself.
    failure: Option<String>,
}

impl Relay {
    /// Listens on a free port, and forwards to this port of the machine.
    ///
    /// # Errors
    /// No port is available.
    pub fn new(port: u16) -> io::Result<Relay> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let relay_port = listener.local_addr()?.port();
        let shared = Arc::new(SharedState::default());
        let accept_shared = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, port, &accept_shared));
        Ok(Relay { port: relay_port, shared })
    }

    /// Returns the port at which it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of bytes that each connection has sent so far, as a mark for
    /// [`Relay::requests_since`].
    #[must_use]
    pub fn mark(&self) -> Vec<usize> {
        self.shared.lock().requests.iter().map(Vec::len).collect()
    }

    /// Returns the bytes that each connection has sent since a mark.
    #[must_use]
    pub fn requests_since(&self, mark: &[usize]) -> Vec<Vec<u8>> {
        let state = self.shared.lock();
        let start = |i: usize| mark.get(i).copied().unwrap_or(0);
        state.requests.iter().enumerate().map(|(i, bytes)| bytes[start(i)..].to_vec()).collect()
    }

    /// Returns whether the server sent more bytes than are stored.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.shared.lock().is_full
    }

    /// Returns why a connection could not be forwarded, if dyno or the machine is the cause, for
    /// example because no file descriptor was left. The server's requests are then incomplete.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.shared.lock().failure.clone()
    }

    /// Begins or ends the delay of responses. `true`: responses wait until a call with `false`.
    pub fn delay_responses(&self, is_delaying: bool) {
        self.shared.lock().is_delaying = is_delaying;
        self.shared.changed.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            (state.is_delaying, state.is_closed) = (false, true);
        }
        self.shared.changed.notify_all();
        // The accepting thread ends at its next connection.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while responses are delayed.
    fn wait_while_delaying(&self) {
        let mut state = self.lock();
        while state.is_delaying {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Records an error of dyno itself, unless there was one before.
    fn fail(&self, error: &io::Error) {
        self.lock().failure.get_or_insert_with(|| {
            format!("dyno could not forward a connection of the server to its back end: {error}")
        });
    }

    /// Records an error of a connection if dyno lacked a resource. Otherwise the server or its back
    /// end closed the connection.
    fn fail_if_own_shortage(&self, error: &io::Error) {
        if is_own_shortage(error) {
            self.fail(error);
        }
    }

    /// Records the bytes of a connection, up to the limit.
    fn record(&self, connection: usize, bytes: &[u8]) {
        let mut state = self.lock();
        let stored: usize = state.requests.iter().map(Vec::len).sum();
        let room = RELAYED_BYTES.saturating_sub(stored);
        state.is_full |= bytes.len() > room;
        state.requests[connection].extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// Accepts connections for the back end at `port`, until the relay is closed.
fn accept(listener: &TcpListener, port: u16, shared: &Arc<SharedState>) {
    let backend_addr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
    loop {
        let accepted = listener.accept();
        if shared.lock().is_closed {
            return;
        }
        match accepted.map(|(server, _)| (server, TcpStream::connect(backend_addr))) {
            Ok((server, Ok(backend))) => {
                relay(&server, &backend, shared)
                    .unwrap_or_else(|error| shared.fail_if_own_shortage(&error));
            }
            // If the back end refused the connection, the server sees it accepted and then closed.
            Ok((_, Err(error))) => shared.fail_if_own_shortage(&error),
            // The server closed the connection before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                shared.fail(&error);
                // The connection still waits, and a descriptor may be free later.
                thread::sleep(ACCEPT_RETRY);
            }
        }
    }
}

/// Forwards in both directions, each on a separate thread.
fn relay(server: &TcpStream, backend: &TcpStream, shared: &Arc<SharedState>) -> io::Result<()> {
    server.set_nodelay(true)?;
    backend.set_nodelay(true)?;
    let connection = {
        let mut state = shared.lock();
        state.requests.push(Vec::new());
        state.requests.len() - 1
    };
    let (recorder, source, target) =
        (Arc::clone(shared), server.try_clone()?, backend.try_clone()?);
    thread::spawn(move || forward(&source, &target, |bytes| recorder.record(connection, bytes)));
    let (delayer, source, target) = (Arc::clone(shared), backend.try_clone()?, server.try_clone()?);
    thread::spawn(move || forward(&source, &target, |_| delayer.wait_while_delaying()));
    Ok(())
}

/// Copies bytes until the source ends. `before_write` is called with each part before it is
/// written.
fn forward(mut source: &TcpStream, mut target: &TcpStream, before_write: impl Fn(&[u8])) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = source.read(&mut bytes) {
        before_write(&bytes[..n]);
        if target.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = target.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a server that echoes all bytes. Returns its port.
    fn start_echo_server() -> u16 {
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
        let mut response = vec![0; text.len()];
        stream.read_exact(&mut response).unwrap();
        response
    }

    #[test]
    fn requests_since_mark_returned_by_connection() {
        let relay = Relay::new(start_echo_server()).unwrap();
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port())).unwrap();
        let mut first = connect();
        assert_eq!(exchange(&mut first, b"one"), b"one");
        let mark = relay.mark();
        let mut second = connect();
        assert_eq!(exchange(&mut second, b"two"), b"two");
        assert_eq!(exchange(&mut first, b"three"), b"three");
        assert_eq!(relay.requests_since(&mark), [b"three".to_vec(), b"two".to_vec()]);
        assert_eq!(relay.requests_since(&[]), [b"onethree".to_vec(), b"two".to_vec()]);
    }

    #[test]
    fn relay_reports_only_its_own_errors() {
        // Port 1 has no listener.
        let relay = Relay::new(1).unwrap();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port())).unwrap();
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "the back end refuses");
        assert_eq!(relay.failure(), None);
        let shared = SharedState::default();
        // The error of a socket option if the other side has reset the connection.
        shared.fail_if_own_shortage(&io::Error::from_raw_os_error(libc::EINVAL));
        assert_eq!(shared.lock().failure, None);
        shared.fail_if_own_shortage(&io::Error::from_raw_os_error(libc::EMFILE));
        shared.fail(&io::ErrorKind::OutOfMemory.into());
        let failure = shared.lock().failure.clone().unwrap();
        assert!(failure.contains("Too many open files"), "the first one: {failure}");
    }

    #[test]
    fn held_responses_arrive_after_release() {
        let relay = Relay::new(start_echo_server()).unwrap();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port())).unwrap();
        relay.delay_responses(true);
        stream.write_all(b"late").unwrap();
        while relay.requests_since(&[]).concat() != b"late" {
            thread::yield_now();
        }
        stream.set_nonblocking(true).unwrap();
        let mut response = [0; 4];
        assert_eq!(stream.read(&mut response).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        stream.set_nonblocking(false).unwrap();
        relay.delay_responses(false);
        stream.read_exact(&mut response).unwrap();
        assert_eq!(&response, b"late");
    }
}
