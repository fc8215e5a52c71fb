//! Encodes headers of the PROXY protocol
//! (<https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt>). A header is at the start of a
//! connection from a proxy to a server, and has the address of the proxy's client.

use std::net::SocketAddr;

use dyno_model::plan::ProxyProtocol;

/// First twelve bytes of a version 2 header.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Returns the header for a connection from the first address to the second; `None`: no addresses,
/// as on a Unix socket.
#[must_use]
pub fn header(version: ProxyProtocol, addresses: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    match version {
        ProxyProtocol::V1 => text(addresses),
        ProxyProtocol::V2 => binary(addresses),
    }
}

fn text(addresses: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let line = match addresses {
        Some((SocketAddr::V4(from), SocketAddr::V4(to))) => {
            format!("PROXY TCP4 {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port())
        }
        Some((SocketAddr::V6(from), SocketAddr::V6(to))) => {
            format!("PROXY TCP6 {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port())
        }
        _ => "PROXY UNKNOWN\r\n".into(),
    };
    line.into_bytes()
}

fn binary(addresses: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    // The upper half of `command` is the version, 2. The lower half is 1 (PROXY) or 0 (LOCAL: no
    // addresses). `family` is 0x11 (TCP over IPv4), 0x21 (TCP over IPv6) or 0.
    let (command, family, payload) = match addresses {
        Some((SocketAddr::V4(from), SocketAddr::V4(to))) => (
            0x21,
            0x11,
            [&from.ip().octets()[..], &to.ip().octets(), &ports(from.port(), to.port())].concat(),
        ),
        Some((SocketAddr::V6(from), SocketAddr::V6(to))) => (
            0x21,
            0x21,
            [&from.ip().octets()[..], &to.ip().octets(), &ports(from.port(), to.port())].concat(),
        ),
        _ => (0x20, 0x00, Vec::new()),
    };
    let length = (payload.len() as u16).to_be_bytes();
    [&SIGNATURE[..], &[command, family], &length, &payload].concat()
}

fn ports(from: u16, to: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (from.to_be_bytes(), to.to_be_bytes());
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(from: &str, to: &str) -> Option<(SocketAddr, SocketAddr)> {
        Some((from.parse().unwrap(), to.parse().unwrap()))
    }

    #[test]
    fn version_1_header_is_text_line() {
        let line = |addresses| String::from_utf8(header(ProxyProtocol::V1, addresses)).unwrap();
        let v4 = line(addresses("192.168.0.1:56324", "192.168.0.11:443"));
        assert_eq!(v4, "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n");
        assert_eq!(line(addresses("[::1]:1", "[fe80::2]:80")), "PROXY TCP6 ::1 fe80::2 1 80\r\n");
        assert_eq!(line(None), "PROXY UNKNOWN\r\n");
    }

    #[test]
    fn version_2_header_is_binary() {
        let bytes = |addresses| header(ProxyProtocol::V2, addresses);
        let v4 = bytes(addresses("127.0.0.1:258", "127.0.0.2:80"));
        assert_eq!(v4[..12], *b"\x0D\x0A\x0D\x0A\x00\x0D\x0A\x51\x55\x49\x54\x0A");
        assert_eq!(v4[12..], [0x21, 0x11, 0, 12, 127, 0, 0, 1, 127, 0, 0, 2, 1, 2, 0, 80]);
        let v6 = bytes(addresses("[::1]:1", "[::2]:2"));
        assert_eq!((v6.len(), &v6[12..16], v6[31], v6[47]), (52, &[0x21, 0x21, 0, 36][..], 1, 2));
        assert_eq!(bytes(None)[12..], [0x20, 0, 0, 0]);
    }
}
