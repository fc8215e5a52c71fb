//! The cookies of one visitor, kept and sent as browsers do (RFC 6265 §5).
//!
//! A load has one server, so the list of public suffixes is not needed: a cookie never goes to
//! another server.

use std::cmp::Reverse;

use crate::cookie_date::seconds_since_epoch;
use crate::{Instant, limits};

/// Whether the connections of a load use TLS. Cookies with the attribute Secure need TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieTransport {
    Plain,
    Tls,
}

/// The parts of a request that decide which cookies belong to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CookieScope<'a> {
    /// Host in lower case, without port and brackets.
    pub(crate) host: &'a [u8],
    /// Path without query.
    pub(crate) path: &'a [u8],
    pub(crate) transport: CookieTransport,
}

/// The cookies of a visitor. At most [`limits::COOKIES_PER_VISITOR`].
#[derive(Debug, Default)]
pub(crate) struct CookieJar {
    /// In the order in which they are sent: long paths first, then old cookies first.
    cookies: Vec<Cookie>,
    /// Number of cookies received so far.
    received: u64,
}

#[derive(Debug)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    domain: Vec<u8>,
    reach: DomainReach,
    path: Vec<u8>,
    /// `NEVER`: the cookie lasts as long as its visitor.
    expires: Instant,
    /// Number of the cookie in the order in which cookies were first received.
    number: u64,
}

/// Hosts to which a cookie is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DomainReach {
    /// The host that set the cookie.
    Host,
    /// The domain and all hosts below it.
    Subdomains,
}

/// Attributes of a Set-Cookie field, each with its last value.
#[derive(Debug, Default)]
struct Attributes<'a> {
    domain: Option<&'a [u8]>,
    path: Option<&'a [u8]>,
    max_age_s: Option<i64>,
    /// Seconds since the epoch.
    expires_s: Option<i64>,
    is_secure: bool,
}

impl CookieJar {
    pub(crate) fn clear(&mut self) {
        self.cookies.clear();
        self.received = 0;
    }

    /// Takes the cookie of a Set-Cookie field, or removes it if it has expired. A field that
    /// browsers ignore has no effect. `server_time_s`: the time of the server, seconds since 1970.
    pub(crate) fn receive(
        &mut self,
        field: &[u8],
        scope: &CookieScope<'_>,
        server_time_s: i64,
        now: Instant,
    ) {
        let Some(mut cookie) = parse(field, scope, server_time_s, now) else { return };
        self.received += 1;
        cookie.number = self.received;
        if let Some(at) = self.cookies.iter().position(|known| known.is_same(&cookie)) {
            // A cookie keeps its place in the order when its value changes.
            cookie.number = self.cookies.remove(at).number;
        }
        if cookie.expires <= now {
            return;
        }
        if self.cookies.len() >= limits::COOKIES_PER_VISITOR {
            let oldest = self.cookies.iter().enumerate().min_by_key(|(_, known)| known.number);
            if let Some((at, _)) = oldest {
                self.cookies.remove(at);
            }
        }
        let order = |cookie: &Cookie| (Reverse(cookie.path.len()), cookie.number);
        let at = self.cookies.partition_point(|known| order(known) < order(&cookie));
        self.cookies.insert(at, cookie);
    }

    /// Appends the pairs of the cookies that belong to a request, such as `a=1; b=2`. `before`: the
    /// bytes that are appended before the first pair.
    pub(crate) fn put(
        &self,
        scope: &CookieScope<'_>,
        now: Instant,
        before: &[u8],
        out: &mut Vec<u8>,
    ) {
        let mut separator = before;
        for cookie in self.cookies.iter().filter(|cookie| cookie.belongs_to(scope, now)) {
            out.extend_from_slice(separator);
            out.extend_from_slice(&cookie.name);
            out.push(b'=');
            out.extend_from_slice(&cookie.value);
            separator = b"; ";
        }
    }
}

impl Cookie {
    /// Whether the other cookie replaces this one.
    fn is_same(&self, other: &Cookie) -> bool {
        (&self.name, &self.domain, &self.path) == (&other.name, &other.domain, &other.path)
    }

    fn belongs_to(&self, scope: &CookieScope<'_>, now: Instant) -> bool {
        let is_of_domain = match self.reach {
            DomainReach::Host => scope.host == self.domain,
            DomainReach::Subdomains => is_in_domain(scope.host, &self.domain),
        };
        is_of_domain && now < self.expires && is_below(scope.path, &self.path)
    }
}

/// Parses a Set-Cookie field (RFC 6265 §5.2). `None`: browsers ignore the field.
fn parse(
    field: &[u8],
    scope: &CookieScope<'_>,
    server_time_s: i64,
    now: Instant,
) -> Option<Cookie> {
    // Such bytes would break the head of a later request.
    if field.iter().any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7F) {
        return None;
    }
    let mut parts = field.split(|byte| *byte == b';');
    let (name, value) = split_at(parts.next()?, b'=');
    let value = value?;
    if name.is_empty() || name.len() + value.len() > limits::COOKIE_BYTES {
        return None;
    }
    let attributes = parse_attributes(parts);
    let is_refused = attributes.is_secure && scope.transport == CookieTransport::Plain;
    if is_refused || attributes.contradict_prefix(name) {
        return None;
    }
    let (domain, reach) = match attributes.domain {
        None => (scope.host.to_vec(), DomainReach::Host),
        Some(domain) => {
            let domain = domain.to_ascii_lowercase();
            (is_in_domain(scope.host, &domain)).then_some((domain, DomainReach::Subdomains))?
        }
    };
    let path = attributes.path.unwrap_or_else(|| default_path(scope.path)).to_vec();
    let expires = attributes.expires(server_time_s, now);
    Some(Cookie { name: name.into(), value: value.into(), domain, reach, path, expires, number: 0 })
}

fn parse_attributes<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Attributes<'a> {
    let mut attributes = Attributes::default();
    for part in parts {
        let (name, value) = split_at(part, b'=');
        let value = value.unwrap_or_default();
        if name.eq_ignore_ascii_case(b"domain") {
            let domain = value.strip_prefix(b".").unwrap_or(value);
            attributes.domain = Some(domain).filter(|domain| !domain.is_empty());
        } else if name.eq_ignore_ascii_case(b"path") {
            attributes.path = Some(value).filter(|path| path.starts_with(b"/"));
        } else if name.eq_ignore_ascii_case(b"max-age") {
            attributes.max_age_s = parse_max_age(value).or(attributes.max_age_s);
        } else if name.eq_ignore_ascii_case(b"expires") {
            attributes.expires_s = seconds_since_epoch(value).or(attributes.expires_s);
        } else if name.eq_ignore_ascii_case(b"secure") {
            attributes.is_secure = true;
        }
    }
    attributes
}

impl Attributes<'_> {
    /// Whether the prefix of a cookie's name promises attributes that the cookie does not have (RFC
    /// 6265bis §5.7). Browsers ignore such a cookie.
    fn contradict_prefix(&self, name: &[u8]) -> bool {
        let has_prefix = |prefix: &[u8]| {
            name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        let is_of_host = self.is_secure && self.domain.is_none() && self.path == Some(b"/");
        has_prefix(b"__Secure-") && !self.is_secure || has_prefix(b"__Host-") && !is_of_host
    }

    /// Returns the instant at which the cookie expires. Max-Age has precedence over Expires (RFC
    /// 6265 §5.3). Expires is compared with the clock of the server, because the server computed
    /// it.
    fn expires(&self, server_time_s: i64, now: Instant) -> Instant {
        let left_s = self.max_age_s.or_else(|| Some(self.expires_s? - server_time_s));
        match left_s {
            None => Instant::NEVER,
            Some(..=0) => now,
            Some(seconds) => {
                let ns = (seconds as u64).saturating_mul(1_000_000_000);
                Instant(now.0.saturating_add(ns))
            }
        }
    }
}

/// Parses a number of seconds. `None`: not a whole number. Numbers that are too large last as long
/// as the visitor.
fn parse_max_age(value: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match value.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, value),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let seconds = std::str::from_utf8(digits).ok()?.parse().unwrap_or(i64::MAX);
    Some(if is_negative { -seconds } else { seconds })
}

/// Splits a text at the first separator, and trims both parts. The second part is `None` without a
/// separator.
fn split_at(text: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == separator) {
        Some(at) => (text[..at].trim_ascii(), Some(text[at + 1..].trim_ascii())),
        None => (text.trim_ascii(), None),
    }
}

/// Whether a host is a domain or below it (RFC 6265 §5.1.3). An address has no domain above it.
fn is_in_domain(host: &[u8], domain: &[u8]) -> bool {
    let is_below = || {
        let is_address =
            host.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') || host.contains(&b':');
        let above = host.strip_suffix(domain).and_then(|above| above.strip_suffix(b"."));
        above.is_some_and(|above| !above.is_empty()) && !is_address
    };
    host == domain || is_below()
}

/// Whether a path is the path of a cookie or below it (RFC 6265 §5.1.4).
fn is_below(path: &[u8], cookie_path: &[u8]) -> bool {
    let Some(rest) = path.strip_prefix(cookie_path) else { return false };
    rest.is_empty() || cookie_path.ends_with(b"/") || rest.starts_with(b"/")
}

/// Returns the path of a cookie without the attribute Path: the folder of the request (RFC 6265
/// §5.1.4).
fn default_path(request_path: &[u8]) -> &[u8] {
    match request_path.iter().rposition(|byte| *byte == b'/') {
        None | Some(0) => b"/",
        Some(slash) => &request_path[..slash],
    }
}

#[cfg(test)]
mod tests;
