//! Network namespaces of one start (network_namespaces(7)): the servers in one, the clients in
//! another, and a wire between the two (veth(4)).
//!
//! File descriptors and the processes inside keep both networks alive, and the networks keep the
//! wire. All of them vanish with dyno, however it ends.
//!
//! Servers listen on 127.0.0.1, as they do elsewhere, and clients reach them there: the clients'
//! network has a route to it over the wire instead of a loopback. The wire may carry such addresses
//! (`route_localnet`, Documentation/networking/ip-sysctl.rst).

mod link;
mod settings;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use crate::sys;
pub use link::client_addresses;

/// Network of a start. Clones share it.
#[derive(Clone, Debug, Default)]
pub enum Network {
    /// The machine's network, which servers and clients share.
    #[default]
    OfMachine,
    /// One for the servers and one for their clients.
    Pair(Arc<NetworkPair>),
}

/// Two networks with a wire between them.
#[derive(Debug)]
pub struct NetworkPair {
    servers: OwnedFd,
    clients: OwnedFd,
}

impl Network {
    /// Makes a pair, in both of which TCP is set up as it is for the caller.
    ///
    /// # Errors
    /// This user may not (CAP_SYS_ADMIN and CAP_NET_ADMIN), or the kernel has no such devices: a
    /// sentence that says what failed.
    pub fn pair() -> Result<Network, String> {
        let settings = settings::read_current();
        let clients = in_a_new_network(|_| settings::apply(&settings))?;
        let servers = in_a_new_network(|servers| {
            settings::apply(&settings)?;
            link::lay_wire(clients.as_fd(), servers)
        })?;
        run_in_network(servers.as_fd(), link::open_servers_end)
            .map_err(|error| error.to_string())??;
        run_in_network(clients.as_fd(), link::open_clients_end)
            .map_err(|error| error.to_string())??;
        Ok(Network::Pair(Arc::new(NetworkPair { servers, clients })))
    }

    /// Runs `work` in the servers' network. Processes and sockets that it creates stay there.
    ///
    /// # Errors
    /// The thread cannot enter the network.
    ///
    /// # Panics
    /// The thread cannot return: its next actions would happen in the wrong network.
    pub fn as_server<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        match self {
            Network::OfMachine => Ok(work()),
            Network::Pair(pair) => run_in_network(pair.servers.as_fd(), work),
        }
    }

    /// Runs `work` in the clients' network.
    ///
    /// # Errors
    /// As for [`as_server`](Self::as_server).
    pub fn as_client<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        match self {
            Network::OfMachine => Ok(work()),
            Network::Pair(pair) => run_in_network(pair.clients.as_fd(), work),
        }
    }
}

/// Makes a network and sets it up, from a thread that ends there: the caller stays where it is.
fn in_a_new_network(
    set_up: impl FnOnce(BorrowedFd<'_>) -> Result<(), String> + Send,
) -> Result<OwnedFd, String> {
    let make = || {
        let made = sys::unshare_network().and_then(|()| of_this_thread());
        let network =
            made.map_err(|error| format!("network namespace: cannot be created: {error}"))?;
        set_up(network.as_fd())?;
        Ok(network)
    };
    thread::scope(|scope| scope.spawn(make).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

fn run_in_network<T>(network: BorrowedFd<'_>, work: impl FnOnce() -> T) -> io::Result<T> {
    let back = Back(of_this_thread()?);
    sys::enter_network(network)?;
    let done = work();
    drop(back);
    Ok(done)
}

/// Returns to a network when dropped, however the work ends.
struct Back(OwnedFd);

impl Drop for Back {
    fn drop(&mut self) {
        sys::enter_network(self.0.as_fd()).expect("a thread may return to its network");
    }
}

fn of_this_thread() -> io::Result<OwnedFd> {
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

    fn here() -> std::path::PathBuf {
        fs::read_link("/proc/thread-self/ns/net").unwrap()
    }

    /// `None`: this user may not make networks.
    fn pair() -> Option<Network> {
        Network::pair().inspect_err(|why| not_run(&format!("networks of servers' own: {why}"))).ok()
    }

    #[test]
    fn server_at_the_loopback_address_is_found_over_the_wire() {
        let before = here();
        let Some(network) = pair() else { return };
        let listener = network.as_server(|| TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let addr = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, peer) = listener.accept().unwrap();
            stream.write_all(b"hello").unwrap();
            peer
        });
        let (said, segments) = network
            .as_client(|| {
                let mut said = String::new();
                let source = client_addresses(7).last().unwrap();
                let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
                socket.bind(&SocketAddr::new(source, 0).into()).unwrap();
                socket.connect(&addr.into()).unwrap();
                TcpStream::from(socket).read_to_string(&mut said).unwrap();
                (said, fs::read_to_string("/proc/thread-self/net/snmp").unwrap())
            })
            .unwrap();
        assert_eq!(said, "hello");
        assert_eq!(server.join().unwrap().ip().to_string(), "198.18.1.7");
        let tcp = segments.lines().rfind(|line| line.starts_with("Tcp:")).unwrap();
        // ActiveOpens, the fifth number: only ours was ever opened here.
        assert_eq!(tcp.split(' ').nth(5), Some("1"), "{tcp}");
        assert_eq!(here(), before);
        assert!(TcpStream::connect(addr).is_err(), "from outside there is no way in");
    }

    #[test]
    fn thread_comes_back_even_from_a_panic() {
        let before = here();
        let Some(network) = pair() else { return };
        let seen = network.as_server(|| network.as_client(here).unwrap()).unwrap();
        assert_ne!(seen, before);
        let fails = std::panic::AssertUnwindSafe(|| network.as_client(|| panic!("as it must")));
        assert!(std::panic::catch_unwind(fails).is_err());
        assert_eq!(here(), before);
        assert_eq!(Network::OfMachine.as_server(here).unwrap(), before);
    }

    #[test]
    fn tcp_is_set_up_as_it_is_here() {
        let Some(network) = pair() else { return };
        let ours = settings::read_current();
        assert!(ours.iter().any(|(name, _)| *name == "core/somaxconn"), "{ours:?}");
        assert_eq!(network.as_server(settings::read_current).unwrap(), ours);
        assert_eq!(network.as_client(settings::read_current).unwrap(), ours);
    }
}
