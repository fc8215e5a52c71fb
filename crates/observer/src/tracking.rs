//! Reads the state of connection tracking (netfilter): whether loopback is tracked, and how full
//! the table is. A full table drops new connections. dyno changes no settings.

use std::io;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use dyno_model::tracking::is_table_full;
use rustix::net::sockopt::{ip_original_dst, ipv6_original_dst};

use crate::read_number;

/// Version of the Internet Protocol. Firewall rules may cause the tracking of only one version. The
/// connections of both versions share one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpVersion {
    #[default]
    V4,
    V6,
}

impl IpVersion {
    /// Returns the version of the packets to this address. An IPv4 address that is mapped into IPv6
    /// is reached over IPv4.
    #[must_use]
    pub fn from_address(address: IpAddr) -> IpVersion {
        if address.to_canonical().is_ipv4() { IpVersion::V4 } else { IpVersion::V6 }
    }

    /// Address of loopback with any free port.
    const fn loopback(self) -> &'static str {
        match self {
            IpVersion::V4 => "127.0.0.1:0",
            IpVersion::V6 => "[::1]:0",
        }
    }
}

/// Table of tracked connections of this thread's network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackingTable {
    /// IP version for which `has_loopback` was tested.
    pub version: IpVersion,
    /// Whether the table includes connections over loopback. `None`: unknown.
    pub has_loopback: Option<bool>,
    pub entries: Option<u64>,
    /// Maximum number of entries. All network namespaces of a machine have the same limit.
    pub max_entries: Option<u64>,
    /// How long a closed connection stays in the table (TIME_WAIT), seconds.
    pub time_wait_s: Option<u64>,
}

impl TrackingTable {
    /// Reads the table. Also opens a connection over loopback, to test whether the kernel tracks
    /// it. `version`: IP version of the load.
    #[must_use]
    pub fn read(version: IpVersion) -> TrackingTable {
        TrackingTable {
            version,
            has_loopback: is_loopback_tracked(version),
            entries: entries(),
            max_entries: max_connections(),
            time_wait_s: setting("nf_conntrack_tcp_timeout_time_wait"),
        }
    }
}

/// Number of connections in the table of this thread's network namespace. `None`: there is no
/// table.
pub(crate) fn entries() -> Option<u64> {
    setting("nf_conntrack_count")
}

/// Maximum number of connections that the kernel tracks in a network namespace. `None`: there is no
/// table.
pub(crate) fn max_connections() -> Option<u64> {
    setting("nf_conntrack_max")
}

fn setting(name: &str) -> Option<u64> {
    read_number(format!("/proc/sys/net/netfilter/{name}"))
}

/// Whether a connection over loopback is tracked in this thread's network namespace. The check
/// needs no privilege. `None`: no connection could be made.
#[must_use]
pub fn is_loopback_tracked(version: IpVersion) -> Option<bool> {
    match connect(version)? {
        Ok(stream) => is_tracked(&stream),
        // A full table drops the connection only if loopback is tracked, so a time-out with a full
        // table shows that loopback is tracked.
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            is_table_full(entries()?, max_connections()?).then_some(true)
        }
        Err(_) => None,
    }
}

/// Whether the machine drops the packets of a new connection over loopback. Both ends belong to
/// this process, so no server is the cause.
#[must_use]
pub fn is_connect_dropped() -> bool {
    connect(IpVersion::V4)
        .is_some_and(|outcome| outcome.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut))
}

/// Opens a connection over loopback to a listener of this process. `None`: no listener could be
/// made.
fn connect(version: IpVersion) -> Option<io::Result<TcpStream>> {
    let listener = TcpListener::bind(version.loopback()).ok()?;
    /// A connect over loopback takes microseconds. If a full table drops the SYN, it takes seconds.
    const TIMEOUT: Duration = Duration::from_millis(500);
    Some(TcpStream::connect_timeout(&listener.local_addr().ok()?, TIMEOUT))
}

/// Whether a connection is tracked. The check asks for the connection's original destination, which
/// the kernel takes from its table of connections (`getorigdst` in
/// net/netfilter/nf_conntrack_proto.c). `None`: unknown.
fn is_tracked(stream: &TcpStream) -> Option<bool> {
    let is_v4 = stream.local_addr().ok()?.is_ipv4();
    let fd = stream.as_fd();
    let lookup =
        if is_v4 { ip_original_dst(fd).map(drop) } else { ipv6_original_dst(fd).map(drop) };
    interpret_lookup(lookup.map_err(io::Error::from))
}

fn interpret_lookup(lookup: io::Result<()>) -> Option<bool> {
    match lookup {
        Ok(()) => Some(true),
        Err(error) => match error.raw_os_error() {
            // The connection is not in the table, or tracking is not loaded.
            Some(ENOENT | ENOPROTOOPT | EOPNOTSUPP) => Some(false),
            _ => None,
        },
    }
}

const ENOENT: i32 = rustix::io::Errno::NOENT.raw_os_error();
const ENOPROTOOPT: i32 = rustix::io::Errno::NOPROTOOPT.raw_os_error();
const EOPNOTSUPP: i32 = rustix::io::Errno::OPNOTSUPP.raw_os_error();

#[cfg(test)]
mod tests {
    use super::*;

    const EPERM: i32 = rustix::io::Errno::PERM.raw_os_error();

    #[test]
    fn lookup_distinguishes_tracked_untracked_and_unknown() {
        assert_eq!(interpret_lookup(Ok(())), Some(true));
        for (errno, expected) in [(ENOENT, Some(false)), (ENOPROTOOPT, Some(false)), (EPERM, None)]
        {
            assert_eq!(interpret_lookup(Err(io::Error::from_raw_os_error(errno))), expected);
        }
    }

    #[test]
    fn ip_version_is_that_of_packets() {
        let version = |text: &str| IpVersion::from_address(text.parse().unwrap());
        assert_eq!(version("127.0.0.1"), IpVersion::V4);
        assert_eq!(version("::1"), IpVersion::V6);
        assert_eq!(version("::ffff:127.0.0.1"), IpVersion::V4);
        for version in [IpVersion::V4, IpVersion::V6] {
            let address: std::net::SocketAddr = version.loopback().parse().unwrap();
            assert_eq!(IpVersion::from_address(address.ip()), version);
            assert!(address.ip().is_loopback());
        }
    }

    #[test]
    fn loopback_tracking_of_this_machine_is_known() {
        let versions = [IpVersion::V4, IpVersion::V6];
        assert!(versions.into_iter().any(|version| is_loopback_tracked(version).is_some()));
        assert!(!is_connect_dropped());
    }
}
