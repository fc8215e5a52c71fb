//! TCP sockets of processes: their state by netlink (sock_diag(7)), and the options of some by a
//! copy of the descriptor (pidfd_getfd(2)).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::thread;

use dyno_archive::sample::{ListenerUse, SocketsUse};
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags,
};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::sockopt::{tcp_cork, tcp_nodelay};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Number of connections whose options are read: the same code sets the options of all.
const LOOKED_AT: u64 = 16;

/// Room for an answer of the kernel, which sends no more at once.
const BUFFER: usize = 64 * 1024;

/// As in the kernel's `enum` of TCP states.
const LISTEN: u8 = 10;

/// Reads the sockets of these processes' listeners. `None`: the kernel does not report them, or
/// there are none.
#[must_use]
pub fn look(pids: &[u32]) -> Option<SocketsUse> {
    let held = socket_holders(pids);
    let all = all_of_network(*pids.first()?);
    let listeners: Vec<&InetResponse> = all
        .iter()
        .filter(|s| s.header.state == LISTEN && held.contains_key(&u64::from(s.header.inode)))
        .collect();
    let ports: BTreeSet<u16> = listeners.iter().map(|s| s.header.socket_id.source_port).collect();
    if ports.is_empty() {
        return None;
    }
    let mut seen = SocketsUse {
        listeners: listeners.iter().copied().map(listener).collect(),
        ..SocketsUse::default()
    };
    // A connection that waits to be accepted has no owner yet.
    let waits = |s: &InetResponse| {
        let to = &s.header.socket_id;
        let is_there = |l: &&InetResponse| {
            let at = &l.header.socket_id;
            at.source_port == to.source_port
                && (at.source_address.is_unspecified() || at.source_address == to.source_address)
        };
        s.header.inode == 0 && listeners.iter().any(is_there)
    };
    let is_theirs = |s: &&InetResponse| {
        let is_held = held.contains_key(&u64::from(s.header.inode));
        ports.contains(&s.header.socket_id.source_port) && (is_held || waits(s))
    };
    let connections = all.iter().filter(|s| s.header.state != LISTEN).filter(is_theirs);
    for connection in connections {
        add(&mut seen, connection);
        if seen.options_of < LOOKED_AT
            && let Some((pid, fd)) = held.get(&u64::from(connection.header.inode))
        {
            // A descriptor that may not be copied, or is closed, is skipped.
            let _ = look_at_options(&mut seen, *pid, *fd);
        }
    }
    Some(seen)
}

/// Sockets of the network that a process is in. Empty: the kernel does not report them.
fn all_of_network(pid: u32) -> Vec<InetResponse> {
    let all = || {
        [AF_INET, AF_INET6]
            .into_iter()
            .flat_map(|family| dump(family).unwrap_or_default())
            .collect()
    };
    let network = format!("/proc/{pid}/ns/net");
    let is_ours = fs::read_link(&network).ok() == fs::read_link("/proc/thread-self/ns/net").ok();
    if is_ours {
        return all();
    }
    // A thread is in a network of its own choice, and ends with its answer.
    let there = || {
        let network = fs::File::open(&network).ok()?;
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).ok()?;
        Some(all())
    };
    thread::scope(|scope| scope.spawn(there).join().ok().flatten().unwrap_or_default())
}

fn listener(socket: &InetResponse) -> ListenerUse {
    ListenerUse {
        port: socket.header.socket_id.source_port,
        queued: u64::from(socket.header.recv_queue),
        backlog: u64::from(socket.header.send_queue),
    }
}

fn add(seen: &mut SocketsUse, connection: &InetResponse) {
    seen.connections += 1;
    for nla in &connection.nlas {
        if let Nla::TcpInfo(info) = nla {
            seen.retransmitted += u64::from(info.total_retrans);
            // In microseconds.
            seen.busy_ns += info.busy_time * 1000;
            seen.window_limited_ns += info.rwnd_limited * 1000;
            seen.buffer_limited_ns += info.sndbuf_limited * 1000;
        }
    }
}

/// Reads the options of a copy of a socket, which is closed at once.
fn look_at_options(seen: &mut SocketsUse, pid: u32, fd: i32) -> io::Result<()> {
    let pid = Pid::from_raw(pid as i32).ok_or(io::ErrorKind::NotFound)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let socket = pidfd_getfd(process, fd, PidfdGetfdFlags::empty())?;
    let (nodelay, cork) = (tcp_nodelay(&socket)?, tcp_cork(&socket)?);
    seen.options_of += 1;
    seen.nodelay += u64::from(nodelay);
    seen.cork += u64::from(cork);
    Ok(())
}

/// Sockets of processes: by inode, the process and descriptor that hold it.
fn socket_holders(pids: &[u32]) -> BTreeMap<u64, (u32, i32)> {
    let of = |pid: u32| {
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        fds.filter_map(move |entry| {
            let link = fs::read_link(entry.path()).ok()?.into_os_string().into_string().ok()?;
            let inode = link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
            Some((inode, (pid, entry.file_name().to_str()?.parse().ok()?)))
        })
    };
    pids.iter().flat_map(|&pid| of(pid)).collect()
}

/// All listening or established TCP sockets of a family in this process's network.
fn dump(family: u8) -> io::Result<Vec<InetResponse>> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&request(family), 0)?;
    let mut buffer = vec![0; BUFFER];
    let mut all = Vec::new();
    loop {
        let received = socket.recv(&mut &mut buffer[..], 0)?;
        if take(&buffer[..received], &mut all)? {
            return Ok(all);
        }
    }
}

fn request(family: u8) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let asked = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states: StateFlags::LISTEN | StateFlags::ESTABLISHED,
        socket_id: if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() },
    };
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(asked).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Takes the messages of one answer; true: the last of them.
fn take(mut bytes: &[u8], all: &mut Vec<InetResponse>) -> io::Result<bool> {
    while !bytes.is_empty() {
        let message =
            <NetlinkMessage<SockDiagMessage>>::deserialize(bytes).map_err(io::Error::other)?;
        match message.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(socket)) => {
                all.push(*socket);
            }
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            _ => {}
        }
        let length = (message.header.length as usize).next_multiple_of(4);
        bytes = bytes.get(length.max(1)..).unwrap_or_default();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn our_own_sockets_are_seen_with_their_options() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let _waits = TcpStream::connect(addr).unwrap();
        let _client = TcpStream::connect(addr).unwrap();
        let (served, _) = listener.accept().unwrap();
        served.set_nodelay(true).unwrap();
        let seen = look(&[std::process::id()]).unwrap();
        let of_port = seen.listeners.iter().find(|l| l.port == addr.port()).unwrap();
        assert_eq!(of_port.queued, 1, "{seen:?}");
        assert!(of_port.backlog >= 128, "{seen:?}");
        // Other tests may have connections, too.
        assert!(seen.connections >= 2 && seen.options_of >= 1 && seen.nodelay >= 1, "{seen:?}");
    }

    #[test]
    fn who_does_not_listen_has_no_sockets_to_look_at() {
        assert_eq!(look(&[]), None);
    }
}
