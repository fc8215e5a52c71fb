//! Looks up and tries the addresses of a load's server.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::time::Duration;

use dyno_driver::{Endpoint, PeerAddress};
use dyno_suite::settings::single::ServerPlace;
use dyno_suite::target::{self, LocalNetwork, TargetError, TargetOptions, Url};

use crate::cli::LoadArgs;
use crate::exit::usage_error;

/// Returns the address to connect to, and the source addresses. `timeout`: connect timeout when an
/// address is tried.
pub fn endpoint(args: &LoadArgs, url: &Url, timeout: Duration) -> anyhow::Result<Endpoint> {
    let options = TargetOptions {
        unix_socket: args.unix_socket.as_deref(),
        overrides: &args.resolve,
        sources: &args.source,
        proxy: args.settings.load.proxy_protocol,
    };
    let resolve = |host: &str, port| (host, port).to_socket_addrs().map(Iterator::collect);
    let connect = |address: SocketAddr| TcpStream::connect_timeout(&address, timeout).map(drop);
    let network =
        LocalNetwork { resolve: &resolve, connect: &connect, interface: &interface_index };
    target::endpoint(&options, url, network).map_err(|error| match error {
        TargetError::InvalidOption(message) => usage_error(message),
        TargetError::Unreachable(message) => anyhow::anyhow!(message),
    })
}

/// Returns the index of a network interface; `None`: this machine has no interface of this name.
fn interface_index(name: &str) -> Option<u32> {
    if name.contains(['/', '.']) {
        return None;
    }
    let index = std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok()?;
    index.trim().parse().ok()
}

/// Returns whether a server runs on this machine. A socket can only be bound to an address of this
/// machine.
pub fn place(server: &PeerAddress) -> ServerPlace {
    let is_here = match server {
        PeerAddress::Unix(_) => true,
        PeerAddress::Tcp(addr) => {
            addr.ip().is_loopback() || UdpSocket::bind((addr.ip(), 0)).is_ok()
        }
    };
    if is_here { ServerPlace::ThisMachine } else { ServerPlace::OtherMachine }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_an_interface_of_this_machine() {
        assert!(interface_index("lo").is_some_and(|index| index > 0));
        assert_eq!(interface_index("../net/lo"), None);
        let server = |addr: &str| PeerAddress::Tcp(addr.parse().unwrap());
        assert_eq!(place(&server("127.0.0.2:80")), ServerPlace::ThisMachine);
        // RFC 5737 reserves the network for documentation.
        assert_eq!(place(&server("192.0.2.1:80")), ServerPlace::OtherMachine);
    }
}
