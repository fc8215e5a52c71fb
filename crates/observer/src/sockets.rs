//! Reads the TCP sockets of processes: queues, retransmissions and options. These values show
//! whether a server accepts connections too slowly, or delays responses by Nagle's algorithm.
//!
//! States come from netlink (sock_diag(7)), options from a copy of the descriptor (pidfd_getfd(2)).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::thread;

use dyno_model::sample::{ListenerUse, OpenFiles, SocketsUse};
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

use crate::counter_source::network_namespace;
use crate::proc;

/// Maximum number of connections whose options are read. A server usually sets the same options for
/// all connections.
const MAX_OPTIONS_READ: u64 = 16;

/// Size of the buffer for netlink responses, the maximum that the kernel sends at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// `TCP_LISTEN` in the kernel's include/net/tcp_states.h.
const LISTEN: u8 = 10;

/// The sockets of processes. Inodes of sockets are unique on the machine.
#[derive(Default)]
struct SocketHolders {
    /// PID and descriptor of one holder of each socket, by inode.
    one: BTreeMap<u64, (u32, i32)>,
    /// Inode and PID of each socket of each process.
    all: Vec<(u64, u32)>,
}

/// Reads the listeners of these processes and the connections to them, in every network namespace
/// of the processes. `None`: the kernel does not report sockets, or there are no listeners.
#[must_use]
pub fn read(pids: &[u32]) -> Option<SocketsUse> {
    // One process per network namespace. Processes whose namespace is unknown count as one.
    let by_network: BTreeMap<_, u32> =
        pids.iter().rev().map(|pid| (network_namespace(*pid), *pid)).collect();
    let holders = socket_holders(pids);
    let (each, waited_for): (Vec<SocketsUse>, Vec<Vec<u64>>) =
        by_network.values().filter_map(|pid| read_network(*pid, &holders)).unzip();
    let accepting = holders.pids_of(&waited_for.concat());
    let open_files = read_open_files(if accepting.is_empty() { pids } else { &accepting });
    Some(SocketsUse { open_files, ..each.into_iter().reduce(add)? })
}

impl SocketHolders {
    /// Returns the processes that hold one of these sockets.
    fn pids_of(&self, inodes: &[u64]) -> Vec<u32> {
        let pids = self.all.iter().filter(|(inode, _)| inodes.contains(inode)).map(|held| held.1);
        pids.collect::<BTreeSet<u32>>().into_iter().collect()
    }
}

/// Reads the open files of each process, and returns those of the process that has the smallest
/// part of its limit left. A process that may open no files, such as one in a sandbox, accepts no
/// connections. `None`: no process could be read.
fn read_open_files(pids: &[u32]) -> Option<OpenFiles> {
    let read = |pid: &u32| {
        let folder = proc::visible_folder(*pid);
        let open = fs::read_dir(folder.join("fd")).ok()?.count() as u64;
        let limit = parse_open_files_limit(&crate::read(folder.join("limits"))?)?;
        (limit > 0).then_some(OpenFiles { open, limit })
    };
    pids.iter().filter_map(read).max_by(|a, b| a.share().total_cmp(&b.share()))
}

/// Parses the soft limit in `/proc/PID/limits`, whose line is
/// `Max open files            1024                 524288               files`.
fn parse_open_files_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Adds the sockets of another network namespace.
fn add(sum: SocketsUse, other: SocketsUse) -> SocketsUse {
    SocketsUse {
        listeners: sum.listeners.into_iter().chain(other.listeners).collect(),
        connections: sum.connections + other.connections,
        retransmitted: sum.retransmitted + other.retransmitted,
        busy_ns: sum.busy_ns + other.busy_ns,
        window_limited_ns: sum.window_limited_ns + other.window_limited_ns,
        buffer_limited_ns: sum.buffer_limited_ns + other.buffer_limited_ns,
        options_of: sum.options_of + other.options_of,
        nodelay: sum.nodelay + other.nodelay,
        cork: sum.cork + other.cork,
        // Files belong to processes, not to networks.
        open_files: None,
    }
}

/// Reads the listeners and connections in the network namespace of a process. `holders`: the
/// sockets of all processes. Returns them with the inodes of the listeners for which connections
/// wait.
fn read_network(pid: u32, holders: &SocketHolders) -> Option<(SocketsUse, Vec<u64>)> {
    let sockets = network_sockets(pid);
    let is_held = |s: &InetResponse| holders.one.contains_key(&u64::from(s.header.inode));
    let listeners: Vec<&InetResponse> =
        sockets.iter().filter(|s| s.header.state == LISTEN && is_held(s)).collect();
    let ports: BTreeSet<u16> = listeners.iter().map(|s| s.header.socket_id.source_port).collect();
    if ports.is_empty() {
        return None;
    }
    let mut used = SocketsUse {
        listeners: listeners.iter().copied().map(listener).collect(),
        ..SocketsUse::default()
    };
    // A connection that waits to be accepted has no inode, so its listener is found by address.
    let is_queued = |s: &InetResponse| {
        let local = &s.header.socket_id;
        let is_listener_of_connection = |l: &&InetResponse| {
            let listening = &l.header.socket_id;
            listening.source_port == local.source_port
                && (listening.source_address.is_unspecified()
                    || listening.source_address == local.source_address)
        };
        s.header.inode == 0 && listeners.iter().any(is_listener_of_connection)
    };
    let is_served = |s: &&InetResponse| {
        ports.contains(&s.header.socket_id.source_port) && (is_held(s) || is_queued(s))
    };
    let connections = sockets.iter().filter(|s| s.header.state != LISTEN).filter(is_served);
    for connection in connections {
        add_connection(&mut used, connection);
        if used.options_of < MAX_OPTIONS_READ
            && let Some((pid, fd)) = holders.one.get(&u64::from(connection.header.inode))
        {
            // Fails if the descriptor is already closed, or dyno may not copy it.
            let _ = add_options(&mut used, *pid, *fd);
        }
    }
    let waited_for = listeners.iter().filter(|l| l.header.recv_queue > 0);
    Some((used, waited_for.map(|l| u64::from(l.header.inode)).collect()))
}

/// Returns the sockets in the network namespace of a process. Empty: the kernel does not report
/// them.
fn network_sockets(pid: u32) -> Vec<InetResponse> {
    let read_all = || {
        [AF_INET, AF_INET6]
            .into_iter()
            .flat_map(|family| dump(family).unwrap_or_default())
            .collect()
    };
    let network = proc::visible_folder(pid).join("ns/net");
    let is_ours = fs::read_link(&network).ok() == fs::read_link("/proc/thread-self/ns/net").ok();
    if is_ours {
        return read_all();
    }
    // A separate thread enters the other network namespace, so that this thread remains in its own.
    let read_there = || {
        let network = fs::File::open(&network).ok()?;
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).ok()?;
        Some(read_all())
    };
    thread::scope(|scope| scope.spawn(read_there).join().ok().flatten().unwrap_or_default())
}

fn listener(socket: &InetResponse) -> ListenerUse {
    ListenerUse {
        port: socket.header.socket_id.source_port,
        queued: u64::from(socket.header.recv_queue),
        backlog: u64::from(socket.header.send_queue),
    }
}

/// Adds a connection and its TCP_INFO.
fn add_connection(used: &mut SocketsUse, connection: &InetResponse) {
    used.connections += 1;
    for nla in &connection.nlas {
        if let Nla::TcpInfo(info) = nla {
            used.retransmitted += u64::from(info.total_retrans);
            // The kernel's times are in microseconds.
            used.busy_ns += info.busy_time * 1000;
            used.window_limited_ns += info.rwnd_limited * 1000;
            used.buffer_limited_ns += info.sndbuf_limited * 1000;
        }
    }
}

/// Adds the options of a socket, which are read from a copy of its descriptor.
fn add_options(used: &mut SocketsUse, pid: u32, fd: i32) -> io::Result<()> {
    let pid = Pid::from_raw(pid as i32).ok_or(io::ErrorKind::NotFound)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let socket = pidfd_getfd(process, fd, PidfdGetfdFlags::empty())?;
    let (nodelay, cork) = (tcp_nodelay(&socket)?, tcp_cork(&socket)?);
    used.options_of += 1;
    used.nodelay += u64::from(nodelay);
    used.cork += u64::from(cork);
    Ok(())
}

/// Returns the sockets of processes.
fn socket_holders(pids: &[u32]) -> SocketHolders {
    let sockets = |pid: u32| {
        let folder = proc::visible_folder(pid).join("fd");
        let fds = fs::read_dir(folder).into_iter().flatten().flatten();
        fds.filter_map(move |entry| {
            let link = fs::read_link(entry.path()).ok()?.into_os_string().into_string().ok()?;
            let inode = link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
            Some((inode, (pid, entry.file_name().to_str()?.parse().ok()?)))
        })
    };
    let each: Vec<(u64, (u32, i32))> = pids.iter().flat_map(|&pid| sockets(pid)).collect();
    SocketHolders {
        all: each.iter().map(|(inode, (pid, _))| (*inode, *pid)).collect(),
        one: each.into_iter().collect(),
    }
}

/// Reads all listening or established TCP sockets of a family in this thread's network namespace.
fn dump(family: u8) -> io::Result<Vec<InetResponse>> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&request(family), 0)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut sockets = Vec::new();
    loop {
        let received = socket.recv(&mut &mut buffer[..], 0)?;
        if parse_responses(&buffer[..received], &mut sockets)? {
            return Ok(sockets);
        }
    }
}

fn request(family: u8) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let inet_request = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states: StateFlags::LISTEN | StateFlags::ESTABLISHED,
        socket_id: if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() },
    };
    let mut message =
        NetlinkMessage::new(header, SockDiagMessage::InetRequest(inet_request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Parses received messages and adds their sockets. Returns whether the last message was among
/// them.
fn parse_responses(mut bytes: &[u8], sockets: &mut Vec<InetResponse>) -> io::Result<bool> {
    while !bytes.is_empty() {
        let message =
            <NetlinkMessage<SockDiagMessage>>::deserialize(bytes).map_err(io::Error::other)?;
        match message.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(socket)) => {
                sockets.push(*socket);
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
    fn own_sockets_are_read_with_their_options() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let _queued = TcpStream::connect(addr).unwrap();
        let _client = TcpStream::connect(addr).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nodelay(true).unwrap();
        let used = read(&[std::process::id()]).unwrap();
        let on_port = used.listeners.iter().find(|l| l.port == addr.port()).unwrap();
        assert_eq!(on_port.queued, 1, "{used:?}");
        assert!(on_port.backlog >= 128, "{used:?}");
        // Other tests may have connections as well.
        assert!(used.connections >= 2 && used.options_of >= 1 && used.nodelay >= 1, "{used:?}");
    }

    #[test]
    fn sockets_of_several_networks_are_added() {
        let network = |port, connections, nodelay| SocketsUse {
            listeners: vec![ListenerUse { port, ..ListenerUse::default() }],
            connections,
            options_of: connections,
            nodelay,
            ..SocketsUse::default()
        };
        let both = add(network(80, 3, 1), network(81, 4, 4));
        assert_eq!(both.listeners.iter().map(|l| l.port).collect::<Vec<_>>(), [80, 81]);
        assert_eq!((both.connections, both.options_of, both.nodelay), (7, 7, 5));
    }

    #[test]
    fn own_open_files_are_below_their_limit() {
        let _listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = std::process::id();
        // The second process does not exist.
        let files = read(&[own, u32::MAX]).unwrap().open_files.unwrap();
        assert!(files.open >= 4 && files.open < files.limit, "{files:?}");
        assert_eq!(read_open_files(&[u32::MAX]), None);
    }

    #[test]
    fn helper_without_listener_has_no_open_files() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _waiting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // The listener is closed in the helper, which may open three files.
        let script = "ulimit -n 3; echo; read line";
        let mut helper = std::process::Command::new("sh")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = helper.stdout.take().unwrap();
        // The limit is set when the line arrives.
        std::io::Read::read_exact(&mut output, &mut [0]).unwrap();
        let limit = read_open_files(&[helper.id()]).unwrap().limit;
        let files = read(&[std::process::id(), helper.id()]).unwrap().open_files.unwrap();
        drop(helper.stdin.take());
        helper.wait().unwrap();
        assert!(limit == 3 && files.limit > 3, "{limit} {files:?}");
    }

    #[test]
    fn limit_of_open_files_is_parsed() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max processes             63304                63304                none\n\
                      Max open files            1024                 524288               files\n";
        assert_eq!(parse_open_files_limit(limits), Some(1024));
        assert_eq!(parse_open_files_limit("Max open files  unlimited  unlimited  files"), None);
    }

    #[test]
    fn no_processes_have_no_sockets() {
        assert_eq!(read(&[]), None);
    }
}
