//! The server of a load on the command line: its URL, its protocol, and the address to connect to.

use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::Path;

use dyno_config::quotation::{plain, quote_in};
use dyno_driver::{Endpoint, PeerAddress, Stamps};
use dyno_model::Protocol;
use dyno_model::plan::ProxyProtocol;

/// Maximum length of the path of a Unix socket: `sun_path` without its NUL (unix(7)).
const UNIX_PATH_BYTES: usize = 107;

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// Parses the scheme of a URL. `url`: the URL, for an error.
    fn parse(name: &str, url: &str) -> Result<Scheme, String> {
        match name.to_ascii_lowercase().as_str() {
            "http" => Ok(Scheme::Http),
            "https" => Ok(Scheme::Https),
            other => Err(format!(
                "{url}: the scheme must be http or https, not {other:?}\nhint: write it like \
                 http://127.0.0.1:8080/path"
            )),
        }
    }

    const fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// The protocol that a command line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolChoice {
    Auto,
    /// HTTP/1.1, plain or over TLS.
    H1,
    /// HTTP/2 over TLS, by ALPN.
    H2,
    /// HTTP/2 on a plain connection, by prior knowledge.
    H2c,
    /// HTTP/2 on a plain connection, by an Upgrade from HTTP/1.1.
    H2cUpgrade,
}

/// Returns the protocol of a load for the scheme of its URL. A plain connection cannot negotiate
/// the protocol, so `Auto` is HTTP/1.1 there. `streams`: streams per connection.
///
/// # Errors
/// The protocol does not have the scheme or the streams.
pub fn choose_protocol(
    choice: ProtocolChoice,
    scheme: Scheme,
    streams: u32,
) -> Result<Protocol, String> {
    Ok(match (choice, scheme) {
        (ProtocolChoice::Auto, Scheme::Https) => Protocol::Auto,
        (ProtocolChoice::Auto, Scheme::Http) if streams > 1 => {
            return Err(
                "--streams: needs HTTP/2, but the default protocol of http:// is HTTP/1.1\nhint: \
                 add --protocol h2c (prior knowledge) or --protocol h2c-upgrade, or remove \
                 --streams"
                    .into(),
            );
        }
        (ProtocolChoice::Auto | ProtocolChoice::H1, Scheme::Http) => Protocol::H1,
        (ProtocolChoice::H1, Scheme::Https) => Protocol::H1Tls,
        (ProtocolChoice::H2, Scheme::Https) => Protocol::H2,
        (ProtocolChoice::H2, Scheme::Http) => {
            return Err(
                "--protocol h2: needs TLS, but the URL is http://\nhint: use https://, or \
                 --protocol h2c for HTTP/2 without TLS"
                    .into(),
            );
        }
        (ProtocolChoice::H2c | ProtocolChoice::H2cUpgrade, Scheme::Https) => {
            return Err(
                "--protocol: h2c is HTTP/2 without TLS, but the URL is https://\nhint: use \
                 http://, or --protocol h2 for HTTP/2 over TLS"
                    .into(),
            );
        }
        (ProtocolChoice::H2c, Scheme::Http) => Protocol::H2c,
        (ProtocolChoice::H2cUpgrade, Scheme::Http) => Protocol::H2cUpgrade,
    })
}

/// The parts of a URL that a load needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub scheme: Scheme,
    /// A name, or an address (IPv6 without brackets and zone).
    pub host: String,
    /// The zone of an IPv6 address (RFC 4007 §11): name or index of an interface. It has a meaning
    /// only on this machine, so requests do not contain it (RFC 9110 §4.2.3).
    pub zone: Option<String>,
    pub port: u16,
    /// Path and query.
    pub target: String,
}

impl Url {
    /// # Errors
    /// The text is not a URL of a load.
    pub fn parse(text: &str) -> Result<Url, String> {
        let shown = plain(text);
        let (scheme, remainder) = match text.split_once("://") {
            Some((name, remainder)) => (Scheme::parse(name, &shown)?, remainder),
            None => (Scheme::Http, text),
        };
        let remainder = remainder.split('#').next().unwrap_or_default();
        let end = remainder.find(['/', '?']).unwrap_or(remainder.len());
        let (authority, target) = remainder.split_at(end);
        if authority.contains('@') {
            return Err(
                "URL: must not contain a user or a password\nhint: use -H 'Authorization: Basic …'"
                    .into(),
            );
        }
        let target =
            if target.starts_with('/') { target.to_string() } else { format!("/{target}") };
        let (host, port) = match authority.rsplit_once(':') {
            // In an IPv6 address without a port the last colon is inside the brackets.
            Some((host, port)) if !port.contains(']') => {
                let error = |_| {
                    format!(
                        "{shown}: {} is not a port\nhint: use a number up to 65535",
                        quote_in(text, port)
                    )
                };
                let port = port.parse().map_err(error)?;
                (host, port)
            }
            _ => (authority, scheme.port()),
        };
        let (host, zone) = split_zone(host.trim_start_matches('[').trim_end_matches(']'));
        if host.is_empty() {
            return Err(format!(
                "{shown}: has no host\nhint: write it like http://127.0.0.1:8080/path"
            ));
        }
        if zone.is_some() && host.parse::<Ipv6Addr>().is_err() {
            return Err(format!(
                "{shown}: only an IPv6 address has a zone\nhint: write it like \
                 http://[fe80::1%25eth0]/"
            ));
        }
        Ok(Url { scheme, host: host.into(), zone: zone.map(Into::into), port, target })
    }

    /// Host and port, as in a `Host` header.
    #[must_use]
    pub fn authority(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == self.scheme.port() { host } else { format!("{host}:{}", self.port) }
    }

    /// Whether both URLs name the same server, so that their requests can share connections.
    #[must_use]
    pub fn is_same_server(&self, other: &Url) -> bool {
        (self.scheme, &self.host, &self.zone, self.port)
            == (other.scheme, &other.host, &other.zone, other.port)
    }
}

/// Splits the zone from an IPv6 address. In a URL it follows `%25` (RFC 6874 §2). A bare `%` is
/// accepted as well.
fn split_zone(host: &str) -> (&str, Option<&str>) {
    let Some((address, zone)) = host.split_once('%') else { return (host, None) };
    // In `fe80::1%25`, the zone is interface 25.
    let encoded = zone.strip_prefix("25").filter(|zone| !zone.is_empty());
    (address, Some(encoded.unwrap_or(zone)))
}

/// Reason why a load has no address to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// The command line has a mistake.
    InvalidOption(String),
    /// The name of the server has no address, or no address accepts a connection.
    Unreachable(String),
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetError::InvalidOption(message) | TargetError::Unreachable(message) => {
                f.write_str(message)
            }
        }
    }
}

/// Returns the addresses of a host and port.
pub type ResolveName<'a> = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + 'a;

/// Opens and closes a connection.
pub type TryAddress<'a> = dyn Fn(SocketAddr) -> io::Result<()> + 'a;

/// Returns the index of a network interface with this name; `None`: there is no such interface.
pub type FindInterface<'a> = dyn Fn(&str) -> Option<u32> + 'a;

/// The network of the machine that generates the load.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations)] // It holds closures.
pub struct LocalNetwork<'a> {
    pub resolve: &'a ResolveName<'a>,
    pub connect: &'a TryAddress<'a>,
    pub interface: &'a FindInterface<'a>,
}

/// The options of the command line for the connections of a load.
#[derive(Clone, Copy, Debug)]
pub struct TargetOptions<'a> {
    /// Path of the server's Unix socket. `None`: the server has a TCP port.
    pub unix_socket: Option<&'a Path>,
    /// Values of `--resolve`.
    pub overrides: &'a [String],
    /// Source addresses of the connections. Empty: the default address.
    pub sources: &'a [IpAddr],
    pub proxy: Option<ProxyProtocol>,
}

/// Returns the address to connect to, and the source addresses.
///
/// # Errors
/// An option contradicts the URL or another option, or the server cannot be reached.
pub fn endpoint(
    options: &TargetOptions<'_>,
    url: &Url,
    network: LocalNetwork<'_>,
) -> Result<Endpoint, TargetError> {
    let peer = match options.unix_socket {
        Some(path) => unix_peer(path),
        None => tcp_peer(options, url, network),
    };
    let sources = options.sources.to_vec();
    Ok(Endpoint { peer: peer?, sources, stamps: Stamps::None, proxy: options.proxy })
}

fn unix_peer(path: &Path) -> Result<PeerAddress, TargetError> {
    if path.as_os_str().len() <= UNIX_PATH_BYTES {
        return Ok(PeerAddress::Unix(path.into()));
    }
    let path = path.display();
    Err(TargetError::InvalidOption(format!(
        "{path}: the path of a Unix socket must have at most {UNIX_PATH_BYTES} bytes\nhint: use a \
         shorter path, such as a symbolic link to the folder of the socket"
    )))
}

fn tcp_peer(
    options: &TargetOptions<'_>,
    url: &Url,
    network: LocalNetwork<'_>,
) -> Result<PeerAddress, TargetError> {
    let addresses = addresses(url, options.overrides, network)?;
    let addr = first_accepting(url, addresses, network.connect)?;
    match options.sources.iter().find(|source| source.is_ipv4() != addr.is_ipv4()) {
        None => Ok(PeerAddress::Tcp(addr)),
        Some(source) => Err(TargetError::InvalidOption(format!(
            "--source {source}: cannot reach {addr}, because one is IPv4 and the other is \
             IPv6\nhint: use a source address of the same version, or remove --source"
        ))),
    }
}

/// The addresses of a server, in the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Addresses {
    /// An address of the command line. The load uses it without a test connection.
    Given(SocketAddr),
    /// The addresses of a name, in the order of getaddrinfo (RFC 6724) or of the `--resolve`
    /// options.
    Found(Vec<SocketAddr>),
}

/// Returns the addresses of the URL's host: those of `--resolve`, or of the name server.
fn addresses(
    url: &Url,
    overrides: &[String],
    network: LocalNetwork<'_>,
) -> Result<Addresses, TargetError> {
    let mut overridden = Vec::new();
    for text in overrides {
        let (host, port, addresses) =
            parse_resolve(text, network.interface).map_err(TargetError::InvalidOption)?;
        // If the override has a typing error, the load must not go to the real server.
        if !host.eq_ignore_ascii_case(&url.host) || port != url.port {
            return Err(TargetError::InvalidOption(format!(
                "--resolve {text:?}: the load connects to {}:{}, another host or port\nhint: write \
                 --resolve {}:{}:{}, or remove --resolve",
                url.host,
                url.port,
                url.host,
                url.port,
                addresses.iter().map(|a| a.ip().to_string()).collect::<Vec<_>>().join(",")
            )));
        }
        overridden.extend(addresses);
    }
    let overridden = without_repeats(overridden);
    match (overridden.as_slice(), url.host.parse::<IpAddr>()) {
        ([], Ok(address)) => with_zone(address, url.port, url.zone.as_deref(), network.interface)
            .map(Addresses::Given)
            .map_err(TargetError::InvalidOption),
        ([], Err(_)) => look_up(&url.host, url.port, network.resolve).map(Addresses::Found),
        ([address], _) => Ok(Addresses::Given(*address)),
        _ => Ok(Addresses::Found(overridden)),
    }
}

/// Returns the addresses of a name; at least one.
fn look_up(
    host: &str,
    port: u16,
    resolve: &ResolveName<'_>,
) -> Result<Vec<SocketAddr>, TargetError> {
    let resolved = resolve(host, port).map_err(|error| {
        TargetError::Unreachable(format!(
            "{host}: cannot be resolved: {error}\nhint: correct the name, or give its address with \
             --resolve {host}:{port}:ADDRESS"
        ))
    })?;
    if resolved.is_empty() {
        return Err(TargetError::Unreachable(format!(
            "{host}: has no address\nhint: correct the name, or give its address with --resolve"
        )));
    }
    Ok(without_repeats(resolved))
}

fn without_repeats(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let mut known = BTreeSet::new();
    addresses.retain(|address| known.insert(*address));
    addresses
}

/// Returns the first address that accepts a connection. The whole load uses it, so that all
/// connections go to one server.
fn first_accepting(
    url: &Url,
    addresses: Addresses,
    connect: &TryAddress<'_>,
) -> Result<SocketAddr, TargetError> {
    let addresses = match addresses {
        Addresses::Given(address) => return Ok(address),
        Addresses::Found(addresses) => addresses,
    };
    let mut errors = String::new();
    for address in addresses {
        match connect(address) {
            Ok(()) => return Ok(address),
            // Writing to a string cannot fail.
            Err(error) => drop(writeln!(errors, "  {address}: {error}")),
        }
    }
    let (host, port) = (&url.host, url.port);
    Err(TargetError::Unreachable(format!(
        "{host}:{port}: no address of this name accepts a connection\n{errors}hint: start the \
         server, or name its address with --resolve {host}:{port}:ADDRESS"
    )))
}

/// Parses `HOST:PORT:ADDRESS`, with several addresses separated by commas as in curl.
fn parse_resolve<'t>(
    text: &'t str,
    interface: &FindInterface<'_>,
) -> Result<(&'t str, u16, Vec<SocketAddr>), String> {
    let error = || {
        format!(
            "--resolve {text:?}: must be HOST:PORT:ADDRESS[,ADDRESS]\nhint: write it like \
             example.com:443:127.0.0.1 or example.com:443:127.0.0.1,[::1]"
        )
    };
    let mut parts = text.splitn(3, ':');
    let (Some(host), Some(port), Some(addresses)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(error());
    };
    let port = port.parse().map_err(|_| error())?;
    let address_of = |text: &str| {
        let (address, zone) = split_zone(text.trim_start_matches('[').trim_end_matches(']'));
        with_zone(address.parse().map_err(|_| error())?, port, zone, interface)
    };
    let addresses = addresses.split(',').map(address_of).collect::<Result<Vec<_>, String>>()?;
    Ok((host, port, addresses))
}

/// Returns the address with the index of its zone.
fn with_zone(
    address: IpAddr,
    port: u16,
    zone: Option<&str>,
    interface: &FindInterface<'_>,
) -> Result<SocketAddr, String> {
    match (address, zone) {
        (address, None) => Ok(SocketAddr::new(address, port)),
        (IpAddr::V6(v6), Some(zone)) => {
            Ok(SocketAddrV6::new(v6, port, 0, zone_index(zone, interface)?).into())
        }
        (IpAddr::V4(v4), Some(_)) => {
            Err(format!("{v4}: an IPv4 address has no zone\nhint: remove % and the zone"))
        }
    }
}

/// Returns the index of an interface, given by its name or as a number.
fn zone_index(zone: &str, interface: &FindInterface<'_>) -> Result<u32, String> {
    zone.parse().ok().or_else(|| interface(zone)).ok_or_else(|| {
        format!("{zone:?}: no such network interface\nhint: list the interfaces with `ip link`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network with one interface. Nothing is resolved or connected.
    const OFFLINE: LocalNetwork<'_> = LocalNetwork {
        resolve: &|host, _| panic!("{host} has an address"),
        connect: &|address| panic!("{address} is not tried"),
        interface: &|name| (name == "lo").then_some(1),
    };

    #[test]
    fn url_is_split_into_authority_and_target() {
        let url = |text: &str| Url::parse(text).map(|u| (u.authority(), u.target));
        let parts = |a: &str, t: &str| Ok((a.to_string(), t.to_string()));
        assert_eq!(url("http://127.0.0.1:8080/a?b=c#d"), parts("127.0.0.1:8080", "/a?b=c"));
        assert_eq!(url("localhost:80"), parts("localhost", "/"));
        assert_eq!(url("http://[::1]:81/x"), parts("[::1]:81", "/x"));
        assert_eq!(url("https://[::1]/x"), parts("[::1]", "/x"));
        assert_eq!(url("http://h?q"), parts("h", "/?q"));
        assert_eq!(url("https://h:443/"), parts("h", "/"));
        assert_eq!(url("https://h:80/"), parts("h:80", "/"));
        assert!(url("ftp://h/").unwrap_err().contains("ftp"));
        assert!(url("http://h:x/").unwrap_err().contains("not a port"));
        assert!(url("http:///x").unwrap_err().contains("no host"));
        for text in ["ftp://h/?token=s3cret", "http://me:s3cret/x@h/", "http:///?key=s3cret"] {
            assert!(!url(text).unwrap_err().contains("s3cret"), "{text}");
        }
    }

    #[test]
    fn resolve_option_overrides_addresses() {
        let url = Url::parse("http://example.test:81/").unwrap();
        let resolve_all = |texts: &[&str]| {
            addresses(&url, &texts.iter().map(ToString::to_string).collect::<Vec<_>>(), OFFLINE)
        };
        let resolve = |text: &str| match resolve_all(&[text]) {
            Ok(Addresses::Given(address)) => Some(address.to_string()),
            _ => None,
        };
        assert_eq!(resolve("EXAMPLE.test:81:127.0.0.2").unwrap(), "127.0.0.2:81");
        assert_eq!(resolve("example.test:81:[::1]").unwrap(), "[::1]:81");
        let error = |text: &str| resolve_all(&[text]).unwrap_err().to_string();
        for resolve in ["example.test:80:127.0.0.2", "example.org:81:127.0.0.2"] {
            assert!(
                error(resolve).contains("--resolve example.test:81:127.0.0.2"),
                "{}",
                error(resolve)
            );
        }
        let two = ["example.test:81:[::1]", "example.test:81:127.0.0.1", "example.test:81:[::1]"];
        let addresses = ["[::1]:81", "127.0.0.1:81"].map(|text| text.parse().unwrap());
        assert_eq!(resolve_all(&two).unwrap(), Addresses::Found(addresses.into()));
        let list = ["example.test:81:[::1],127.0.0.1,::1"];
        assert_eq!(resolve_all(&list).unwrap(), Addresses::Found(addresses.into()));
        assert!(error("example.org:81:::1,127.0.0.1").contains("test:81:::1,127.0.0.1, or remove"));
        assert!(error("example.test:81:127.0.0.1,").contains("ADDRESS[,ADDRESS]"));
        assert!(
            parse_resolve("example.test:127.0.0.1", OFFLINE.interface)
                .unwrap_err()
                .contains("example.com:443:127.0.0.1")
        );
    }

    #[test]
    fn zone_is_in_address_but_not_in_authority() {
        for text in ["http://[fe80::1%25lo]:81/a", "http://[fe80::1%lo]:81/a"] {
            let url = Url::parse(text).unwrap();
            assert_eq!(
                (url.authority().as_str(), url.zone.as_deref()),
                ("[fe80::1]:81", Some("lo"))
            );
            let Ok(Addresses::Given(SocketAddr::V6(address))) = addresses(&url, &[], OFFLINE)
            else {
                panic!("{text} names an address")
            };
            assert_eq!((address.scope_id(), address.port()), (1, 81));
        }
        let index = |zone: &str| zone_index(zone, OFFLINE.interface);
        assert_eq!(index("7"), Ok(7));
        assert!(index("no-such0").unwrap_err().contains("ip link"));
        assert_eq!(Url::parse("http://[::1%2512]/").unwrap().zone.as_deref(), Some("12"));
        assert!(Url::parse("http://a%25lo/").unwrap_err().contains("only an IPv6 address"));
        let (.., addresses) = parse_resolve("h:81:[fe80::2%lo]", OFFLINE.interface).unwrap();
        assert!(matches!(addresses[..], [SocketAddr::V6(v6)] if v6.scope_id() == 1));
        let error = parse_resolve("h:81:10.0.0.1%lo", OFFLINE.interface).unwrap_err();
        assert!(error.contains("no zone"), "{error}");
    }

    #[test]
    fn first_accepting_address_is_chosen_in_order() {
        let url = Url::parse("http://dual.test:81/").unwrap();
        let addresses: Vec<SocketAddr> =
            ["[::1]:81", "127.0.0.1:81"].map(|text| text.parse().unwrap()).into();
        let choose_among = |accepts: &[SocketAddr]| {
            first_accepting(&url, Addresses::Found(addresses.clone()), &|address| match accepts
                .contains(&address)
            {
                true => Ok(()),
                false => Err(io::ErrorKind::ConnectionRefused.into()),
            })
        };
        assert_eq!(choose_among(&addresses).unwrap(), addresses[0]);
        assert_eq!(choose_among(&addresses[1..]).unwrap(), addresses[1]);
        let error = choose_among(&[]).unwrap_err().to_string();
        for part in ["dual.test:81:", "[::1]:81: connection refused", "127.0.0.1:81: ", "hint: "] {
            assert!(error.contains(part), "{error}");
        }
        let refused = |sources: &[&str], unix_socket: Option<&str>| {
            let sources: Vec<IpAddr> = sources.iter().map(|text| text.parse().unwrap()).collect();
            let options = TargetOptions {
                unix_socket: unix_socket.map(Path::new),
                overrides: &["dual.test:81:127.0.0.1".into()],
                sources: &sources,
                proxy: None,
            };
            endpoint(&options, &url, OFFLINE).err().map(|error| error.to_string())
        };
        assert_eq!(refused(&["127.0.0.2"], None), None);
        assert!(refused(&["127.0.0.2", "::1"], None).unwrap().contains("version, or remove"));
        let long = "x".repeat(UNIX_PATH_BYTES);
        assert_eq!(refused(&["::1"], Some(&long)), None);
        assert!(refused(&[], Some(&format!("{long}x"))).unwrap().contains("at most 107 bytes"));
        // A given address is not tried before the load, because its failures are counted.
        let given = first_accepting(&url, Addresses::Given(addresses[1]), OFFLINE.connect);
        assert_eq!(given.unwrap(), addresses[1]);
    }

    #[test]
    fn protocol_follows_scheme() {
        use ProtocolChoice::{Auto, H1, H2, H2c, H2cUpgrade};
        let plain = |choice: ProtocolChoice| choose_protocol(choice, Scheme::Http, 1);
        let over_tls = |choice: ProtocolChoice| choose_protocol(choice, Scheme::Https, 1);
        assert_eq!([Auto, H1].map(plain), [Ok(Protocol::H1), Ok(Protocol::H1)]);
        assert_eq!([H2c, H2cUpgrade].map(plain), [Ok(Protocol::H2c), Ok(Protocol::H2cUpgrade)]);
        assert_eq!(
            [Auto, H1, H2].map(over_tls),
            [Ok(Protocol::Auto), Ok(Protocol::H1Tls), Ok(Protocol::H2)]
        );
        assert!(plain(H2).unwrap_err().contains("needs TLS"));
        assert!(over_tls(H2c).unwrap_err().contains("without TLS"));
        assert!(choose_protocol(Auto, Scheme::Http, 2).unwrap_err().contains("needs HTTP/2"));
    }
}
