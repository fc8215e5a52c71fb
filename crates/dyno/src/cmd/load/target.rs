//! Looks up and tries the addresses of a load's server.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::os::unix::fs::FileTypeExt as _;
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

/// Checks that the Unix socket of a server exists. Without the socket, all requests would fail.
///
/// # Errors
/// Nothing exists at the path, or it is not a socket.
pub fn refuse_missing_socket(server: &PeerAddress) -> anyhow::Result<()> {
    let PeerAddress::Unix(path) = server else { return Ok(()) };
    let problem = match std::fs::metadata(path) {
        Ok(found) if found.file_type().is_socket() => return Ok(()),
        Ok(_) => "is not a socket".to_string(),
        Err(error) => format!("cannot connect: {error}"),
    };
    anyhow::bail!(
        "--unix-socket {}: {problem}\nhint: start the server first, or correct the path",
        path.display()
    )
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

    #[test]
    fn missing_socket_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, file) = (folder.path().join("socket"), folder.path().join("file"));
        let check = |path: &std::path::Path| {
            let checked = refuse_missing_socket(&PeerAddress::Unix(path.into()));
            checked.map_err(|error| error.to_string())
        };
        assert!(check(&socket).unwrap_err().contains("No such file or directory"));
        std::fs::write(&file, "").unwrap();
        assert!(check(&file).unwrap_err().contains("is not a socket\nhint: start the server"));
        let _server = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(check(&socket), Ok(()));
    }
}
