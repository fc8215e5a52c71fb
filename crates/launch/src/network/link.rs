//! Sets up the veth pair between two network namespaces, and the routes over it (rtnetlink(7)).
//! Clients reach the servers' loopback address through the pair.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd as _, BorrowedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use super::settings;

/// Name of the devices at both ends.
const NAME: &str = "wire";

/// Index of the devices at both ends. It is far above the indices that a kernel assigns.
const INDEX: u32 = 1000;

/// Index of the loopback device, the first device of every network namespace.
const LOOPBACK: u32 = 1;

/// Largest packet in bytes (MTU), as on Ethernet.
const MTU: u32 = 1500;

/// Address of the servers' end, from the block for network benchmarks (RFC 2544 §C.2.2).
const SERVERS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// Address of the clients' end, from the same block.
const CLIENTS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Length of the network prefix of both addresses, bits.
const PREFIX: u8 = 16;

/// First three bytes of the source addresses of clients, 198.18.1.0/24. Clients have many
/// addresses, because one address may run out of ports.
const SOURCES: [u8; 3] = [198, 18, 1];

/// Returns the first `n` source addresses of clients.
pub fn client_addresses(n: u8) -> impl Iterator<Item = IpAddr> {
    let [a, b, c] = SOURCES;
    (1..=n).map(move |d| Ipv4Addr::new(a, b, c, d).into())
}

/// Creates a veth pair between two network namespaces. `servers` is this thread's namespace.
pub(super) fn create_veth_pair(
    clients: BorrowedFd<'_>,
    servers: BorrowedFd<'_>,
) -> Result<(), String> {
    let mut link = end(servers);
    link.attributes.push(LinkAttribute::LinkInfo(vec![
        LinkInfo::Kind(InfoKind::Veth),
        LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(end(clients)))),
    ]));
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    request("veth pair between network namespaces", RouteNetlinkMessage::NewLink(link), flags)
}

/// Describes the end of a veth pair in a network namespace.
fn end(network: BorrowedFd<'_>) -> LinkMessage {
    let mut end = LinkMessage::default();
    end.header.index = INDEX;
    end.attributes = vec![
        LinkAttribute::IfName(NAME.into()),
        LinkAttribute::Mtu(MTU),
        LinkAttribute::NetNsFd(network.as_raw_fd()),
    ];
    end
}

/// Sets up the servers' end, and their loopback device.
pub(super) fn set_up_servers_end() -> Result<(), String> {
    bring_up(LOOPBACK)?;
    set_up_end(SERVERS)
}

/// Sets up the clients' end, their source addresses, and the route to the servers' loopback.
pub(super) fn set_up_clients_end() -> Result<(), String> {
    set_up_end(CLIENTS)?;
    let [a, b, c] = SOURCES;
    let local = RouteHeader {
        destination_prefix_length: 24,
        table: libc::RT_TABLE_LOCAL,
        scope: RouteScope::Host,
        kind: RouteType::Local,
        ..route()
    };
    add_route(local, Ipv4Addr::new(a, b, c, 0), None)?;
    let to_servers = RouteHeader {
        destination_prefix_length: 8,
        table: RouteHeader::RT_TABLE_MAIN,
        scope: RouteScope::Universe,
        kind: RouteType::Unicast,
        ..route()
    };
    add_route(to_servers, Ipv4Addr::new(127, 0, 0, 0), Some(SERVERS))
}

fn route() -> RouteHeader {
    RouteHeader {
        address_family: AddressFamily::Inet,
        protocol: RouteProtocol::Static,
        ..RouteHeader::default()
    }
}

/// Adds a route over the veth pair in this thread's network namespace.
fn add_route(header: RouteHeader, to: Ipv4Addr, gateway: Option<Ipv4Addr>) -> Result<(), String> {
    let mut route = RouteMessage::default();
    route.header = header;
    route.attributes =
        vec![RouteAttribute::Destination(RouteAddress::Inet(to)), RouteAttribute::Oif(INDEX)];
    route
        .attributes
        .extend(gateway.map(|gateway| RouteAttribute::Gateway(RouteAddress::Inet(gateway))));
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    request("route over the veth pair", RouteNetlinkMessage::NewRoute(route), flags)
}

/// Assigns an address to the end in this thread's network namespace, and enables it.
fn set_up_end(address: Ipv4Addr) -> Result<(), String> {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.prefix_len = PREFIX;
    message.header.index = INDEX;
    message.attributes =
        vec![AddressAttribute::Local(address.into()), AddressAttribute::Address(address.into())];
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    request("address of the veth pair", RouteNetlinkMessage::NewAddress(message), flags)?;
    settings::write(&format!("ipv4/conf/{NAME}/route_localnet"), "1")?;
    // A new network namespace may inherit these settings from the machine
    // (`devconf_inherit_init_net`), and they may prevent address resolution.
    for device in ["all", NAME] {
        for name in ["arp_ignore", "arp_announce", "arp_filter", "rp_filter"] {
            settings::write(&format!("ipv4/conf/{device}/{name}"), "0")?;
        }
    }
    bring_up(INDEX)
}

fn bring_up(index: u32) -> Result<(), String> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    request("device of a network namespace", RouteNetlinkMessage::SetLink(message), 0)
}

/// Sends a request to the kernel in this thread's network namespace, and waits for the result.
/// `object`: what is set up, for the error.
fn request(object: &str, message: RouteNetlinkMessage, flags: u16) -> Result<(), String> {
    try_request(message, flags).map_err(|error| format!("{object}: cannot be set up: {error}"))
}

/// Sends one rtnetlink message, and returns the kernel's error, if any.
fn try_request(message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&bytes, 0)?;
    let (response, _) = socket.recv_from_full()?;
    let response = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&response)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    match response.payload {
        // A message without a code reports success.
        NetlinkPayload::Error(error) if error.code.is_none() => Ok(()),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}
