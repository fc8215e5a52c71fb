//! Checks before loads that this machine can run them.

use std::net::UdpSocket;

use dyno_driver::PeerAddress;
use dyno_launch::raise_open_files;

use super::spec::LoadSpec;
use crate::limits::RESERVED_FILES;

/// Checks that this machine can run these loads at the same time. `Err`: the reason, with a hint.
pub(super) fn check<'a>(specs: impl Iterator<Item = &'a LoadSpec> + Clone) -> Result<(), String> {
    check_open_files(specs.clone().map(|spec| u64::from(spec.connections())).sum())?;
    for spec in specs {
        check_sources(spec)?;
        check_ports(spec)?;
    }
    Ok(())
}

/// Returns the number of open files that each of these loads may use in addition to the open files
/// that it needs.
#[must_use]
pub fn unused_open_files<'a>(specs: impl IntoIterator<Item = &'a LoadSpec>) -> usize {
    let (mut connections, mut loads) = (0, 0);
    for spec in specs {
        connections += u64::from(spec.connections());
        loads += 1;
    }
    let unused = raise_open_files().saturating_sub(connections + RESERVED_FILES);
    usize::try_from(unused / loads.max(1)).unwrap_or(usize::MAX)
}

/// Checks that this user may open enough files for these connections.
fn check_open_files(connections: u64) -> Result<(), String> {
    let limit = raise_open_files();
    let needed = connections + RESERVED_FILES;
    if needed <= limit {
        return Ok(());
    }
    Err(format!(
        "open files: {connections} connections need {needed} open files, but the limit is \
         {limit}\nhint: raise the limit with `ulimit -n {needed}`, or use fewer connections"
    ))
}

/// Checks that each source address belongs to this machine, and has the IP version of the peer's
/// address.
fn check_sources(spec: &LoadSpec) -> Result<(), String> {
    for source in &spec.target.endpoint.sources {
        if let PeerAddress::Tcp(peer) = spec.target.endpoint.peer
            && peer.is_ipv4() != source.is_ipv4()
        {
            return Err(format!(
                "--source {source}: cannot reach {peer}, because one address is IPv4 and the other \
                 IPv6"
            ));
        }
        UdpSocket::bind((*source, 0)).map_err(|error| {
            format!(
                "--source {source}: not an address of this machine: {error}\nhint: list the \
                 addresses with `ip address`"
            )
        })?;
    }
    Ok(())
}

/// Checks that there are enough local ports: one per connection, from the kernel's range at each
/// source address.
fn check_ports(spec: &LoadSpec) -> Result<(), String> {
    let PeerAddress::Tcp(_) = spec.target.endpoint.peer else { return Ok(()) };
    let Some(ports) = dyno_observer::host::local_ports() else { return Ok(()) };
    let sources = spec.target.endpoint.sources.len().max(1) as u64;
    let connections = u64::from(spec.connections());
    if connections <= ports * sources {
        return Ok(());
    }
    Err(format!(
        "local ports: {connections} connections need one port each, but only {} ports are available\
         \nhint: increase the range net.ipv4.ip_local_port_range (sysctl), or connect from {} \
         addresses: `--source 127.0.0.1,127.0.0.2,…`",
        ports * sources,
        connections.div_ceil(ports)
    ))
}
