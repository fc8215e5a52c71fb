//! Reads the state of connection tracking (netfilter): whether loopback is tracked, and how full
//! the table is. A full table drops new connections. dyno changes no settings.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt::{ip_original_dst, ipv6_original_dst};

use crate::read_number;

/// Table of tracked connections of this thread's network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackingTable {
    /// Whether the table includes connections over loopback. `None`: unknown.
    pub has_loopback: Option<bool>,
    pub entries: Option<u64>,
    /// Maximum number of entries. All networks of a machine have the same limit.
    pub max_entries: Option<u64>,
    /// How long a closed connection stays in the table (TIME_WAIT), seconds.
    pub time_wait_s: Option<u64>,
}

impl TrackingTable {
    /// Reads the table, and opens one connection over loopback to find out whether it is tracked.
    #[must_use]
    pub fn read() -> TrackingTable {
        TrackingTable {
            has_loopback: is_loopback_tracked(),
            entries: entries(),
            max_entries: max_connections(),
            time_wait_s: setting("nf_conntrack_tcp_timeout_time_wait"),
        }
    }
}

/// Number of connections in the table of this thread's network. `None`: the network has no table.
pub(crate) fn entries() -> Option<u64> {
    setting("nf_conntrack_count")
}

/// Maximum number of connections that the kernel tracks in a network. `None`: the network has no
/// table.
pub(crate) fn max_connections() -> Option<u64> {
    setting("nf_conntrack_max")
}

fn setting(name: &str) -> Option<u64> {
    read_number(format!("/proc/sys/net/netfilter/{name}"))
}

/// Whether a connection over loopback is tracked in this thread's network. The check needs no
/// privilege. `None`: no connection could be made.
#[must_use]
pub fn is_loopback_tracked() -> Option<bool> {
    let listener =
        TcpListener::bind("127.0.0.1:0").or_else(|_| TcpListener::bind("[::1]:0")).ok()?;
    /// Connecting over loopback takes microseconds, unless a full table drops the SYN.
    const TIMEOUT: Duration = Duration::from_millis(500);
    match TcpStream::connect_timeout(&listener.local_addr().ok()?, TIMEOUT) {
        Ok(stream) => is_tracked(&stream),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            (entries()? >= max_connections()?).then_some(true)
        }
        Err(_) => None,
    }
}

/// Whether a connection is tracked. The kernel looks it up in its table to return its original
/// destination (`getorigdst` in net/netfilter/nf_conntrack_proto.c). `None`: unknown.
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
    fn loopback_tracking_of_this_machine_is_known() {
        assert!(is_loopback_tracked().is_some());
    }
}
