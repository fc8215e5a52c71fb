//! Creates the network namespaces of a start (network_namespaces(7)): one for the servers, one for
//! the clients, and a veth pair between them (veth(4)). They isolate a measurement from the
//! machine's firewall, connection tracking and other traffic.
//!
//! A network namespace exists as long as a file descriptor or a process uses it, and the veth pair
//! as long as its namespaces. The kernel removes all of them when dyno ends for any reason.
//!
//! Servers listen on 127.0.0.1 as usual. The clients' network namespace has no loopback device, but
//! a route to that address over the veth pair, which `route_localnet` permits
//! (Documentation/networking/ip-sysctl.rst).

mod link;
mod settings;

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use crate::sys;
pub use link::client_addresses;

/// Network of a start. Clones are the same network.
#[derive(Clone, Debug, Default)]
pub enum Network {
    /// The machine's network namespace, which servers and clients share.
    #[default]
    Machine,
    /// One network namespace for the servers and one for their clients.
    Pair(Arc<NetworkPair>),
}

/// Two network namespaces that are connected by a veth pair.
#[derive(Debug)]
pub struct NetworkPair {
    servers: OwnedFd,
    clients: OwnedFd,
}

/// Whether the calling thread, and so each program that it starts, is in the network namespace of
/// the process's first thread.
pub(crate) fn is_in_network_of_process() -> bool {
    let namespace = |task: &str| fs::read_link(format!("/proc/{task}/ns/net")).ok();
    namespace("thread-self").is_some_and(|network| Some(network) == namespace("self"))
}

impl Network {
    /// Creates a pair of network namespaces with the TCP settings of the caller's namespace.
    ///
    /// # Errors
    /// A sentence: this user lacks CAP_SYS_ADMIN or CAP_NET_ADMIN, or the kernel lacks veth
    /// devices.
    pub fn pair() -> Result<Network, String> {
        let settings = settings::read_current();
        let clients = create_network(|_| settings::apply(&settings))?;
        let servers = create_network(|servers| {
            settings::apply(&settings)?;
            link::create_veth_pair(clients.as_fd(), servers)
        })?;
        run_in_network(servers.as_fd(), link::set_up_servers_end)
            .map_err(|error| error.to_string())??;
        run_in_network(clients.as_fd(), link::set_up_clients_end)
            .map_err(|error| error.to_string())??;
        Ok(Network::Pair(Arc::new(NetworkPair { servers, clients })))
    }

    /// Runs `work` in the servers' network namespace. Processes and sockets that it creates stay
    /// there.
    ///
    /// # Errors
    /// The thread cannot enter the network namespace.
    ///
    /// # Panics
    /// The thread cannot return to its network namespace. Its next actions would happen in the
    /// wrong one.
    pub fn as_server<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        match self {
            Network::Machine => Ok(work()),
            Network::Pair(pair) => run_in_network(pair.servers.as_fd(), work),
        }
    }

    /// Runs `work` in the clients' network namespace.
    ///
    /// # Errors
    /// As for [`as_server`](Self::as_server).
    pub fn as_client<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        match self {
            Network::Machine => Ok(work()),
            Network::Pair(pair) => run_in_network(pair.clients.as_fd(), work),
        }
    }
}

/// Creates a network namespace and sets it up. A separate thread does that, because only a thread
/// in the new namespace can set it up, and the caller must stay in its current one.
fn create_network(
    set_up: impl FnOnce(BorrowedFd<'_>) -> Result<(), String> + Send,
) -> Result<OwnedFd, String> {
    let create = || {
        let created = sys::unshare_network().and_then(|()| current_network());
        let network =
            created.map_err(|error| format!("network namespace: cannot be created: {error}"))?;
        set_up(network.as_fd())?;
        Ok(network)
    };
    thread::scope(|scope| scope.spawn(create).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

fn run_in_network<T>(network: BorrowedFd<'_>, work: impl FnOnce() -> T) -> io::Result<T> {
    let restore = RestoreNetwork(current_network()?);
    sys::enter_network(network)?;
    let result = work();
    drop(restore);
    Ok(result)
}

/// Network namespace to which the thread returns when this guard is dropped, even after a panic.
struct RestoreNetwork(OwnedFd);

impl Drop for RestoreNetwork {
    fn drop(&mut self) {
        sys::enter_network(self.0.as_fd()).expect("the thread should return to its network");
    }
}

fn current_network() -> io::Result<OwnedFd> {
    File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use socket2::{Domain, Socket, Type};

    use crate::reasons::not_run;

    /// Identity of this thread's network namespace.
    fn network_id() -> std::path::PathBuf {
        fs::read_link("/proc/thread-self/ns/net").unwrap()
    }

    /// `None`: this user cannot create network namespaces.
    fn pair() -> Option<Network> {
        Network::pair()
            .inspect_err(|reason| not_run(&format!("separate network namespaces: {reason}")))
            .ok()
    }

    #[test]
    fn client_reaches_loopback_server_over_veth_pair() {
        let before = network_id();
        let Some(network) = pair() else { return };
        let listener = network.as_server(|| TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let addr = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, peer) = listener.accept().unwrap();
            stream.write_all(b"hello").unwrap();
            peer
        });
        let (received, segments) = network
            .as_client(|| {
                let mut received = String::new();
                let source = client_addresses(7).last().unwrap();
                let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
                socket.bind(&SocketAddr::new(source, 0).into()).unwrap();
                socket.connect(&addr.into()).unwrap();
                TcpStream::from(socket).read_to_string(&mut received).unwrap();
                (received, fs::read_to_string("/proc/thread-self/net/snmp").unwrap())
            })
            .unwrap();
        assert_eq!(received, "hello");
        assert_eq!(server.join().unwrap().ip().to_string(), "198.18.1.7");
        let tcp = segments.lines().rfind(|line| line.starts_with("Tcp:")).unwrap();
        // ActiveOpens, the fifth number, counts only the connection of this test.
        assert_eq!(tcp.split(' ').nth(5), Some("1"), "{tcp}");
        assert_eq!(network_id(), before);
        assert!(TcpStream::connect(addr).is_err(), "the server is reachable from outside");
    }

    #[test]
    fn thread_returns_to_its_network_after_panic() {
        let before = network_id();
        let Some(network) = pair() else { return };
        let inner = network.as_server(|| network.as_client(network_id).unwrap()).unwrap();
        assert_ne!(inner, before);
        let panicking = std::panic::AssertUnwindSafe(|| network.as_client(|| panic!("expected")));
        assert!(std::panic::catch_unwind(panicking).is_err());
        assert_eq!(network_id(), before);
        assert_eq!(Network::Machine.as_server(network_id).unwrap(), before);
    }

    #[test]
    fn tcp_settings_of_caller_are_copied() {
        let Some(network) = pair() else { return };
        let ours = settings::read_current();
        assert!(ours.iter().any(|(name, _)| *name == "core/somaxconn"), "{ours:?}");
        assert_eq!(network.as_server(settings::read_current).unwrap(), ours);
        assert_eq!(network.as_client(settings::read_current).unwrap(), ours);
    }
}
