//! Finds unused ports for servers, and tests whether a port has a listener.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::time::Duration;

use dyno_observer::host;
use socket2::SockRef;

/// Connects to a listener at an address of this machine. `Err`: the port has no listener.
///
/// A port in the kernel's ephemeral range can accept a connection without a listener. If the client
/// gets the same port, it is connected to itself (RFC 9293 §3.5, simultaneous open). Such a
/// connection is an error, and is closed without TIME_WAIT, so that the server can use the port.
pub fn connect_to_listener(addr: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    refuse_self_connection(TcpStream::connect_timeout(&addr, timeout)?)
}

/// Resets a connection whose two ends are the same socket, and returns an error.
fn refuse_self_connection(stream: TcpStream) -> io::Result<TcpStream> {
    if stream.local_addr()? == stream.peer_addr()? {
        // With a linger time of zero, closing the connection resets it.
        SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        return Err(io::Error::new(
            io::ErrorKind::ConnectionRefused,
            "the port has no listener, and dyno connected to itself",
        ));
    }
    Ok(stream)
}

/// Returns the ranges of ports for servers, given the kernel's ephemeral range. The ranges are
/// outside of the ephemeral range, because the kernel can give an ephemeral port to a connection of
/// the generator, or to a test for a listener. If every port is ephemeral, the ranges overlap.
fn server_ranges((first, last): (u16, u16)) -> Vec<RangeInclusive<u16>> {
    /// Lowest port for servers. Lower ones belong to well-known services or need privileges.
    const LOWEST: u16 = 10_000;
    /// Lowest port that needs no privilege.
    const UNPRIVILEGED: u16 = 1024;
    let below = |from: u16| (first > from).then(|| from..=first - 1);
    let above = || (last < u16::MAX).then(|| last + 1..=u16::MAX);
    let ranges: Vec<_> =
        [below(LOWEST), above(), below(UNPRIVILEGED)].into_iter().flatten().collect();
    if ranges.is_empty() { vec![LOWEST..=u16::MAX] } else { ranges }
}

/// Finds unused ports outside of the kernel's ephemeral range.
pub fn free_ports(count: usize, seed: u64) -> Result<Vec<u16>, String> {
    // The default range, if the kernel does not report one.
    let ephemeral = host::local_port_range().unwrap_or((32_768, 60_999));
    let mut ports: Vec<u16> = Vec::new();
    for range in server_ranges(ephemeral) {
        let size = u64::from(range.end() - range.start()) + 1;
        for i in 0..size {
            // The seed changes the first port, so that concurrent runs do not try the same ones.
            let port = range.start() + (seed.wrapping_add(i) % size) as u16;
            if !ports.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
                ports.push(port);
            }
            if ports.len() == count {
                return Ok(ports);
            }
        }
    }
    Err(format!(
        "ports: fewer than {count} TCP ports are free on 127.0.0.1 outside of \
         net.ipv4.ip_local_port_range\nhint: make net.ipv4.ip_local_port_range smaller with \
         `sysctl`"
    ))
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::limits::CONNECT;

    #[test]
    fn free_ports_outside_ephemeral_range() {
        for used in [
            (32_768, 60_999),
            (15_000, 65_000),
            (10_240, 65_535),
            (1024, 60_000),
            (2000, 65_535),
            (1, 50_000),
        ] {
            let ranges = server_ranges(used);
            assert!(!ranges.is_empty(), "{used:?}");
            for range in ranges {
                assert!(
                    range.start() <= range.end() && *range.start() >= 1024,
                    "{used:?}: {range:?}"
                );
                assert!(*range.end() < used.0 || *range.start() > used.1, "{used:?}: {range:?}");
            }
        }
        assert_eq!(server_ranges((1024, 65_535)), [10_000..=65_535], "no port is outside");
        let (first, last) = host::local_port_range().unwrap();
        for port in free_ports(3, dyno_observer::monotonic_ns()).unwrap() {
            assert!(port < first || port > last, "{port} is in the ephemeral range");
        }
    }

    /// A readiness poll that connects to itself would report a server that does not exist, and
    /// would block its port.
    #[test]
    fn self_connection_fails_and_frees_port() {
        // A port of the ephemeral range, which the kernel may also give to a client.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let self_connected = socket();
        self_connected.bind(&addr.into()).unwrap();
        self_connected.connect(&addr.into()).unwrap();
        let self_connected = TcpStream::from(self_connected);
        assert_eq!(self_connected.local_addr().unwrap(), self_connected.peer_addr().unwrap());
        assert!(refuse_self_connection(self_connected).is_err());
        // A server without SO_REUSEADDR can bind the port.
        socket().bind(&addr.into()).unwrap();
    }

    #[test]
    fn connect_to_listener_succeeds() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        connect_to_listener(listener.local_addr().unwrap(), CONNECT).unwrap();
    }
}
