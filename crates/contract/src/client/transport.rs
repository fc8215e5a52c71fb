//! The bytes of a connection, plain or over TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use dyno_engine::{Tls, tls_words};
use rustls::{ClientConnection, StreamOwned};

/// Bytes to and from a server, until a deadline.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(Socket),
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Transport {
    /// `timeout` is for everything that is done on this connection, a handshake included.
    pub(super) fn new(
        stream: TcpStream,
        tls: Option<&Tls>,
        timeout: Duration,
    ) -> io::Result<Transport> {
        stream.set_nodelay(true)?;
        // No result is a time here: it only ends what takes too long.
        let socket = Socket { stream, deadline: Instant::now() + timeout };
        let Some(tls) = tls else { return Ok(Transport::Plain(socket)) };
        let connection = ClientConnection::new(tls.config.clone(), tls.name.clone());
        // The handshake is made with the first write.
        Ok(Transport::Tls(Box::new(StreamOwned::new(
            connection.map_err(io::Error::other)?,
            socket,
        ))))
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Transport::Plain(socket) => socket.write_all(bytes),
            Transport::Tls(stream) => {
                stream.write_all(bytes).and_then(|()| stream.flush()).map_err(in_words)
            }
        }
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.read(buffer),
            Transport::Tls(stream) => stream.read(buffer).map_err(in_words),
        }
    }
}

/// A connected socket that ends whatever is done on it at a deadline: a peer that takes or gives a
/// byte now and then does not hold it up.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    deadline: Instant,
}

impl Socket {
    /// Does something on the stream, in the time that is left. `wait`: sets how long it may take.
    fn in_time<T>(
        &mut self,
        wait: fn(&TcpStream, Option<Duration>) -> io::Result<()>,
        mut act: impl FnMut(&mut TcpStream) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(late());
            }
            wait(&self.stream, Some(left))?;
            return match act(&mut self.stream) {
                // A ring of a load that has just ended is still being taken down, which interrupts
                // this thread.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(late()),
                done => done,
            };
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.in_time(TcpStream::set_read_timeout, |stream| stream.read(buffer))
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.in_time(TcpStream::set_write_timeout, |stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An error of TLS in words, without rustls's own debug forms.
fn in_words(error: io::Error) -> io::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(inner) => io::Error::new(error.kind(), format!("TLS: {}", tls_words(inner))),
        None => error,
    }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}

/// The error of a connection that is closed without an answer.
pub(super) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed without an answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::net::TcpListener;
    use std::sync::mpsc;
    use std::thread;

    /// A peer that reads a byte now and then never lets a write wait as long as the whole may take.
    #[test]
    fn a_write_ends_at_the_deadline_whatever_the_peer_takes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let (ended, is_over) = mpsc::channel::<()>();
        let reader = thread::spawn(move || {
            while is_over.recv_timeout(Duration::from_millis(5))
                == Err(mpsc::RecvTimeoutError::Timeout)
            {
                let _ = peer.read(&mut [0; 4096]);
            }
        });
        let mut transport = Transport::new(stream, None, Duration::from_millis(200)).unwrap();
        // At 4 KiB in 5 ms it would take minutes; no socket's buffers take all of it.
        let error = transport.write_all(&vec![0; 256 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(ended);
        reader.join().unwrap();
    }
}
