//! Looks up and tries the addresses of a load's server.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use dyno_driver::Endpoint;
use dyno_suite::target::{self, TargetError, TargetOptions, Url};

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
    target::endpoint(&options, url, &resolve, &connect).map_err(|error| match error {
        TargetError::InvalidOption(message) => usage_error(message),
        TargetError::Unreachable(message) => anyhow::anyhow!(message),
    })
}
