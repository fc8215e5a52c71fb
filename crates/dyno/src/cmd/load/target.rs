//! The server that a URL names, and the address to connect to.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use anyhow::Context as _;
use dyno_driver::{Endpoint, Peer, Stamps};

use crate::cli::LoadArgs;
use crate::exit::bad;

/// The longest path of a Unix socket: `sun_path` less its NUL (unix(7)).
const UNIX_PATH_BYTES: usize = 107;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    const fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// The parts of a URL that a load needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub scheme: Scheme,
    /// A name, or an address (of IPv6 without brackets).
    pub host: String,
    pub port: u16,
    /// Path and query.
    pub target: String,
}

impl Url {
    pub fn parse(text: &str) -> Result<Url, String> {
        let lower = text.split_once("://").map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest));
        let lower = lower.as_ref().map(|(scheme, rest)| (scheme.as_str(), *rest));
        let (scheme, rest) = match lower {
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            Some((scheme, _)) => {
                return Err(format!("{text}: the scheme {scheme:?} is neither http nor https"));
            }
            None => (Scheme::Http, text),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains('@') {
            return Err(
                "a URL with a user in it names no host here; take -H 'Authorization: Basic …' instead".into(),
            );
        }
        let target = if target.starts_with('/') { target.to_string() } else { format!("/{target}") };
        let (host, port) = match authority.rsplit_once(':') {
            // In an IPv6 address without a port the last colon is inside the brackets.
            Some((host, port)) if !port.contains(']') => {
                let port = port.parse().map_err(|_| format!("{text}: {port:?} is not a port"))?;
                (host, port)
            }
            _ => (authority, scheme.port()),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(format!("{text}: there is no host; write it like http://127.0.0.1:8080/path"));
        }
        Ok(Url { scheme, host: host.into(), port, target })
    }

    /// Host and port as a `Host` header has them.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == self.scheme.port() { host } else { format!("{host}:{}", self.port) }
    }

    /// Whether both are served by the same connections.
    pub fn is_same_server(&self, other: &Url) -> bool {
        (self.scheme, &self.host, self.port) == (other.scheme, &other.host, other.port)
    }
}

/// The address that connections go to, and the ones that they come from.
pub fn endpoint(args: &LoadArgs, url: &Url) -> anyhow::Result<Endpoint> {
    let peer = match &args.unix_socket {
        Some(path) => Peer::Unix(path.clone()),
        None => Peer::Tcp(resolve(url, &args.resolve)?),
    };
    if let Peer::Tcp(addr) = &peer
        && let Some(source) = args.source.iter().find(|source| source.is_ipv4() != addr.is_ipv4())
    {
        return Err(bad(format!("--source {source} cannot reach {addr}: one is IPv4, the other IPv6")));
    }
    if let Peer::Unix(path) = &peer
        && path.as_os_str().len() > UNIX_PATH_BYTES
    {
        let path = path.display();
        return Err(bad(format!("{path}: a path of a Unix socket has at most {UNIX_PATH_BYTES} bytes")));
    }
    Ok(Endpoint { peer, sources: args.source.clone(), stamps: Stamps::None })
}

fn resolve(url: &Url, overrides: &[String]) -> anyhow::Result<SocketAddr> {
    let mut chosen = None;
    for text in overrides {
        let (host, port, address) = parse_resolve(text).map_err(bad)?;
        // With a mistyped override the load would go to the real server.
        if !host.eq_ignore_ascii_case(&url.host) || port != url.port {
            return Err(bad(format!(
                "--resolve {text:?} is not for {}:{}, to which the load goes; write --resolve {}:{}:{address}, or leave it out",
                url.host, url.port, url.host, url.port
            )));
        }
        chosen = chosen.or(Some(SocketAddr::new(address, port)));
    }
    if let Some(address) = chosen {
        return Ok(address);
    }
    let mut all = (url.host.as_str(), url.port).to_socket_addrs().with_context(|| {
        format!("the host {:?} cannot be resolved; name its address with --resolve", url.host)
    })?;
    all.next().with_context(|| format!("the host {:?} has no address", url.host))
}

fn parse_resolve(text: &str) -> Result<(&str, u16, IpAddr), String> {
    let wrong = || format!("--resolve {text:?}: write it like example.com:443:127.0.0.1");
    let mut parts = text.splitn(3, ':');
    let (Some(host), Some(port), Some(address)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(wrong());
    };
    let address = address.trim_start_matches('[').trim_end_matches(']');
    Ok((host, port.parse().map_err(|_| wrong())?, address.parse().map_err(|_| wrong())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
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
    }

    #[test]
    fn addresses_can_be_given_by_hand() {
        let url = Url::parse("http://example.test:81/").unwrap();
        let resolve = |text: &str| resolve(&url, &[text.to_string()]).map(|a| a.to_string()).ok();
        assert_eq!(resolve("EXAMPLE.test:81:127.0.0.2").unwrap(), "127.0.0.2:81");
        assert_eq!(resolve("example.test:81:[::1]").unwrap(), "[::1]:81");
        let words = |text: &str| super::resolve(&url, &[text.to_string()]).unwrap_err().to_string();
        for wrong in ["example.test:80:127.0.0.2", "example.org:81:127.0.0.2"] {
            assert!(words(wrong).contains("--resolve example.test:81:127.0.0.2"), "{}", words(wrong));
        }
        assert!(parse_resolve("example.test:127.0.0.1").unwrap_err().contains("example.com:443:127.0.0.1"));
    }
}
