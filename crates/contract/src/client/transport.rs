//! Sends and receives the bytes of a connection, plain or over TLS, until a deadline.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use dyno_engine::{Tls, tls_error_text};
use rustls::{ClientConnection, StreamOwned};

/// A connection to a server, plain or over TLS, whose operations end at a deadline.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(Socket),
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Transport {
    /// Wraps a stream. `timeout`: deadline of all operations on this connection, a handshake
    /// included.
    pub(super) fn new(
        stream: TcpStream,
        tls: Option<&Tls>,
        timeout: Duration,
    ) -> io::Result<Transport> {
        stream.set_nodelay(true)?;
        // This clock only limits the duration: no measurement depends on it.
        let socket = Socket { stream, deadline: Instant::now() + timeout };
        let Some(tls) = tls else { return Ok(Transport::Plain(socket)) };
        let connection = ClientConnection::new(tls.config.clone(), tls.name.clone());
        // The first write performs the handshake.
        Ok(Transport::Tls(Box::new(StreamOwned::new(
            connection.map_err(io::Error::other)?,
            socket,
        ))))
    }

    /// Sets the deadline of all further operations to this time from now.
    pub(super) fn set_timeout(&mut self, timeout: Duration) {
        let socket = match self {
            Transport::Plain(socket) => socket,
            Transport::Tls(stream) => &mut stream.sock,
        };
        socket.deadline = Instant::now() + timeout;
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Transport::Plain(socket) => socket.write_all(bytes),
            Transport::Tls(stream) => {
                stream.write_all(bytes).and_then(|()| stream.flush()).map_err(with_plain_text)
            }
        }
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.read(buffer),
            Transport::Tls(stream) => stream.read(buffer).map_err(with_plain_text),
        }
    }
}

/// A connected socket whose operations end at a deadline, even if the peer reads or sends single
/// bytes until then.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    deadline: Instant,
}

impl Socket {
    /// Runs an operation on the stream until the deadline. `set_timeout`: sets its time-out.
    fn run_until_deadline<T>(
        &mut self,
        set_timeout: fn(&TcpStream, Option<Duration>) -> io::Result<()>,
        mut operation: impl FnMut(&mut TcpStream) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            let remaining = self.deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Err(late_error());
            }
            set_timeout(&self.stream, Some(remaining))?;
            return match operation(&mut self.stream) {
                // The kernel still removes the io_uring of a load that has just ended, which
                // interrupts this thread.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(late_error()),
                result => result,
            };
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.run_until_deadline(TcpStream::set_read_timeout, |stream| stream.read(buffer))
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.run_until_deadline(TcpStream::set_write_timeout, |stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Replaces the text of a TLS error, which is Rust's debug format in rustls.
fn with_plain_text(error: io::Error) -> io::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(inner) => io::Error::new(error.kind(), format!("TLS: {}", tls_error_text(inner))),
        None => error,
    }
}

fn late_error() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no response in time")
}

/// Returns the error of a connection that is closed without a response.
pub(super) fn closed_error() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed without a response")
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::net::TcpListener;
    use std::sync::mpsc;
    use std::thread;

    /// The peer reads repeatedly, so that no single write waits until the deadline.
    #[test]
    fn write_to_slow_peer_ends_at_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let (stop, stopped) = mpsc::channel::<()>();
        let reader = thread::spawn(move || {
            while stopped.recv_timeout(Duration::from_millis(5))
                == Err(mpsc::RecvTimeoutError::Timeout)
            {
                let _ = peer.read(&mut [0; 4096]);
            }
        });
        let mut transport = Transport::new(stream, None, Duration::from_millis(200)).unwrap();
        // At 4 KiB in 5 ms this takes minutes, and it is larger than the buffers of a socket.
        let error = transport.write_all(&vec![0; 256 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(stop);
        reader.join().unwrap();
    }
}
