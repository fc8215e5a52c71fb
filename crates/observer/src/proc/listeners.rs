//! Finds listening sockets and the processes that have them.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::getuid;

use super::{Stat, all_pids, visible_folder};
use crate::read;

/// The listener at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerOwner {
    /// The address has no listener.
    Absent,
    Process {
        pid: u32,
        name: String,
    },
    /// A program that dyno may not inspect, such as a program of another user or outside of dyno's
    /// container.
    Unknown,
}

/// Finds the listener at an IPv4 address and port of this thread's network namespace. As in the
/// kernel, a listener at exactly this address takes precedence over a listener at any address.
#[must_use]
pub fn listener_at(addr: SocketAddrV4) -> ListenerOwner {
    find_listener(|| socket_tables("/proc/thread-self".as_ref()), addr)
}

/// Finds the listener at an address in the network namespace of process `pid`.
#[must_use]
pub fn listener_in_network_of(pid: u32, addr: SocketAddrV4) -> ListenerOwner {
    find_listener(|| socket_tables(&visible_folder(pid)), addr)
}

/// Reads the sockets in the network namespace of a process or thread, given its folder: IPv4, IPv6.
fn socket_tables(viewer: &Path) -> [String; 2] {
    ["net/tcp", "net/tcp6"].map(|name| read(viewer.join(name)).unwrap_or_default())
}

fn find_listener(tables: impl Fn() -> [String; 2], addr: SocketAddrV4) -> ListenerOwner {
    let read_inode = || Some(listening_sockets(&tables(), addr).first()?.inode);
    let Some(inode) = read_inode() else { return ListenerOwner::Absent };
    owner_of(inode, || read_inode().is_some())
}

/// Finds a listener at an address, in the network namespace of process `viewer`, that does not
/// belong to the processes `own_pids`. With `SO_REUSEPORT` several programs may listen at one
/// address.
#[must_use]
pub fn other_listener(viewer: u32, own_pids: &[u32], addr: SocketAddrV4) -> ListenerOwner {
    let held: BTreeSet<u64> = own_pids.iter().flat_map(|pid| socket_inodes(*pid)).collect();
    let own_users: BTreeSet<u32> =
        own_pids.iter().filter_map(|pid| user_of(*pid)).chain([getuid().as_raw()]).collect();
    find_other_listener(|| socket_tables(&visible_folder(viewer)), &held, &own_users, addr)
}

fn find_other_listener(
    tables: impl Fn() -> [String; 2],
    held: &BTreeSet<u64>,
    own_users: &BTreeSet<u32>,
    addr: SocketAddrV4,
) -> ListenerOwner {
    let sockets = || listening_sockets(&tables(), addr);
    let other = sockets().into_iter().find(|socket| !held.contains(&socket.inode));
    let Some(other) = other else { return ListenerOwner::Absent };
    match owner_of(other.inode, || sockets().contains(&other)) {
        // A server may hide its own socket: in io_uring, or by a change of its user.
        ListenerOwner::Unknown if own_users.contains(&other.user) => ListenerOwner::Absent,
        owner => owner,
    }
}

/// Finds the process with a listening socket: of several, the one that started first. `is_open`:
/// whether the socket still listens.
fn owner_of(inode: u64, is_open: impl Fn() -> bool) -> ListenerOwner {
    let holders = all_pids().into_iter().filter(|pid| socket_inodes(*pid).contains(&inode));
    // Its children hold the socket too, if only until they execute another program.
    let owner = holders
        .filter_map(|pid| Some((pid, Stat::read(pid)?)))
        .min_by_key(|(_, stat)| stat.began_ticks);
    match owner {
        Some((pid, Stat { name, .. })) => ListenerOwner::Process { pid, name },
        // The process may have closed the socket before its descriptors were read.
        None if !is_open() => ListenerOwner::Absent,
        None => ListenerOwner::Unknown,
    }
}

/// Returns the listeners that get connections to an address.
fn listening_sockets([v4, v6]: &[String; 2], addr: SocketAddrV4) -> Vec<ListeningSocket> {
    let exact = u32::from_ne_bytes(addr.ip().octets());
    let candidates = [
        (v4, format!("{exact:08X}")),
        (v6, format!("0000000000000000FFFF0000{exact:08X}")),
        (v4, "0".repeat(8)),
        (v6, "0".repeat(32)),
    ];
    let mut sockets = candidates
        .iter()
        .map(|(table, address)| parse_listening_sockets(table, address, addr.port()))
        .filter(|sockets| !sockets.is_empty());
    sockets.next().unwrap_or_default()
}

/// Returns the processes that listen on a port of this thread's network namespace, at any address.
/// Processes that dyno may not inspect are missing.
#[must_use]
pub fn pids_listening_on(port: u16) -> Vec<u32> {
    let tables = socket_tables("/proc/thread-self".as_ref());
    let inodes: BTreeSet<u64> = all_listeners(&tables)
        .filter(|(addr, _)| addr.port() == port)
        .map(|(_, inode)| inode)
        .collect();
    if inodes.is_empty() {
        return Vec::new();
    }
    // Inodes of sockets are unique on the machine, so sockets of other namespaces cannot match.
    let is_listening = |pid: &u32| socket_inodes(*pid).iter().any(|inode| inodes.contains(inode));
    all_pids().into_iter().filter(is_listening).collect()
}

/// Returns the address and inode of each listener in the tables of sockets.
fn all_listeners(tables: &[String; 2]) -> impl Iterator<Item = (SocketAddr, u64)> {
    tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(parse_listener)
}

/// Returns the addresses and ports on which these processes listen, sorted, each once. Sockets that
/// dyno may not inspect are missing.
#[must_use]
pub fn listeners(pids: &[u32]) -> Vec<SocketAddr> {
    let Some(first) = pids.first() else { return Vec::new() };
    let held: BTreeSet<u64> = pids.iter().flat_map(|pid| socket_inodes(*pid)).collect();
    // The tables are read through the first process, because it may be in another network namespace
    // than dyno.
    let tables = socket_tables(&visible_folder(*first));
    let ours: BTreeSet<SocketAddr> = all_listeners(&tables)
        .filter(|(_, inode)| held.contains(inode))
        .map(|(addr, _)| addr)
        .collect();
    ours.into_iter().collect()
}

/// Returns the user of a process.
fn user_of(pid: u32) -> Option<u32> {
    Some(fs::metadata(format!("/proc/{pid}")).ok()?.uid())
}

/// Returns the inodes of a process's sockets.
fn socket_inodes(pid: u32) -> Vec<u64> {
    let fds = fs::read_dir(visible_folder(pid).join("fd")).into_iter().flatten().flatten();
    let inode = |fd: fs::DirEntry| {
        let link = fs::read_link(fd.path()).ok()?.into_os_string().into_string().ok()?;
        link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    fds.filter_map(inode).collect()
}

/// Parses a line of `/proc/net/tcp` or `tcp6` to the address and inode of a listener. `None`: the
/// socket does not listen.
fn parse_listener(line: &str) -> Option<(SocketAddr, u64)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (address, port) = fields.get(1)?.split_once(':')?;
    if *fields.get(3)? != "0A" {
        return None;
    }
    // Each group of four bytes is a number in the machine's byte order.
    let bytes: Option<Vec<[u8; 4]>> = (0..address.len() / 8)
        .map(|i| u32::from_str_radix(address.get(8 * i..8 * i + 8)?, 16).ok().map(u32::to_ne_bytes))
        .collect();
    let bytes = bytes?.concat();
    let ip = match (<[u8; 4]>::try_from(&bytes[..]), <[u8; 16]>::try_from(&bytes[..])) {
        (Ok(v4), _) => IpAddr::from(v4),
        (_, Ok(v6)) => IpAddr::from(v6),
        _ => return None,
    };
    Some((SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?), fields.get(9)?.parse().ok()?))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ListeningSocket {
    inode: u64,
    /// Number of the user who created the socket.
    user: u32,
}

/// Parses the listeners at an address. Lines of `/proc/net/tcp` are
/// `sl local:PORT remote st queues timer retransmissions uid timeout inode`. Addresses are
/// hexadecimal and in the machine's byte order, and state 0A is LISTEN.
fn parse_listening_sockets(table: &str, address: &str, port: u16) -> Vec<ListeningSocket> {
    let expected = format!("{address}:{port:04X}");
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_listener = *fields.get(1)? == expected && *fields.get(3)? == "0A";
        let (user, inode) = (fields.get(7)?.parse().ok()?, fields.get(9)?.parse().ok()?);
        is_listener.then_some(ListeningSocket { inode, user })
    };
    table.lines().skip(1).filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_is_found_by_its_port() {
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            let address_here = SocketAddrV4::new([127, 0, 0, 1].into(), port);
            let us = std::process::id();
            let owner = listener_at(address_here);
            assert!(matches!(owner, ListenerOwner::Process { pid, .. } if pid == us), "{address}");
            assert_eq!(listener_in_network_of(us, address_here), listener_at(address_here));
            drop(listener);
            assert_eq!(listener_at(address_here), ListenerOwner::Absent);
        }
    }

    /// A listener of this process is another one for its parent, and none for itself.
    #[test]
    fn other_listener_is_one_of_another_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = SocketAddrV4::new([127, 0, 0, 1].into(), port);
        let us = std::process::id();
        assert_eq!(other_listener(us, &[us], address), ListenerOwner::Absent);
        let other = other_listener(us, &[std::os::unix::process::parent_id()], address);
        assert!(matches!(other, ListenerOwner::Process { pid, .. } if pid == us), "{other:?}");
    }

    /// No process has the socket, like a socket of another user's process.
    #[test]
    fn listener_without_visible_process_is_unknown() {
        let table = |state: &str| {
            let socket = format!("0100007F:1F90 00000000:0000 {state} 0:0 0:0 0 0 0 4294967297");
            [format!("sl local rem st tx rx tr retr uid inode\n0: {socket}\n"), String::new()]
        };
        let at = |port, state: &str| {
            find_listener(|| table(state), SocketAddrV4::new([127, 0, 0, 1].into(), port))
        };
        assert_eq!(at(8080, "0A"), ListenerOwner::Unknown);
        assert_eq!(at(8081, "0A"), ListenerOwner::Absent);
        assert_eq!(at(8080, "01"), ListenerOwner::Absent, "a connection is no listener");
    }

    /// A server may hide its own listener, but another user's listener is not the server's.
    #[test]
    fn hidden_listener_of_other_user_is_unknown() {
        let table = || {
            let socket = "0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 33 0 4294967297";
            [format!("sl local rem st tx rx tr retr uid inode\n{socket}\n"), String::new()]
        };
        let owner = |held: &[u64], users: &[u32]| {
            let (held, users) = (held.iter().copied().collect(), users.iter().copied().collect());
            find_other_listener(
                table,
                &held,
                &users,
                SocketAddrV4::new([127, 0, 0, 1].into(), 8080),
            )
        };
        assert_eq!(owner(&[], &[0]), ListenerOwner::Unknown);
        assert_eq!(owner(&[], &[0, 33]), ListenerOwner::Absent);
        assert_eq!(owner(&[4294967297], &[0]), ListenerOwner::Absent);
    }

    #[test]
    fn listener_that_closes_during_search_is_absent() {
        let reads = std::cell::Cell::new(0);
        let tables = || {
            reads.set(reads.get() + 1);
            let socket = "0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 4294967297\n";
            let table = format!("sl local\n{}", if reads.get() == 1 { socket } else { "" });
            [table, String::new()]
        };
        let owner = find_listener(tables, SocketAddrV4::new([127, 0, 0, 1].into(), 8080));
        assert_eq!((owner, reads.get()), (ListenerOwner::Absent, 2));
    }

    #[test]
    fn all_listeners_of_process_are_found() {
        let us = std::process::id();
        let v4 = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let v6 = std::net::TcpListener::bind("[::1]:0");
        let mut expected = vec![v4.local_addr().unwrap()];
        expected.extend(v6.iter().map(|v6| v6.local_addr().unwrap()));
        let own_listeners = listeners(&[us]);
        // Other tests listen as well.
        assert!(
            expected.iter().all(|addr| own_listeners.contains(addr)),
            "{expected:?} {own_listeners:?}"
        );
        assert_eq!(listeners(&[]), []);
        let closed = expected[0];
        drop(v4);
        assert!(!listeners(&[us]).contains(&closed));
    }

    #[test]
    fn listener_at_another_address_is_not_found() {
        let elsewhere = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
        let port = elsewhere.local_addr().unwrap().port();
        let at = |address: [u8; 4]| listener_at(SocketAddrV4::new(address.into(), port));
        assert_eq!(at([127, 0, 0, 1]), ListenerOwner::Absent);
        assert!(matches!(at([127, 0, 0, 2]), ListenerOwner::Process { .. }));
    }
}
