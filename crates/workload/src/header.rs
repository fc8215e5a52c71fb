//! Checks whether a header can be sent: the protocol must be able to carry it, and dyno must not
//! write it itself.
//!
//! Command lines and suites refuse a header that cannot be sent. Imports omit it.

use dyno_model::Protocol;

/// Fields of HTTP/1.1 connections, which HTTP/2 forbids in messages (RFC 9113 §8.2.2).
const CONNECTION_FIELDS: [&str; 6] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// Returns why a header cannot be sent over a protocol, as a sentence with a hint; `None`: the
/// header can be sent.
#[must_use]
pub fn fault(protocol: Protocol, name: &str, value: &str) -> Option<String> {
    if name.starts_with(':') {
        return Some(format!(
            "header {name:?}: is a pseudo-header field, which dyno writes itself\nhint: set the \
             method, the URL or the header Host instead"
        ));
    }
    if let Some(fault) = name_fault(name) {
        return Some(fault);
    }
    if value.bytes().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
        return Some(format!(
            "header {name:?}: the value has a line break or NUL\nhint: remove that character"
        ));
    }
    if is_framing(name) {
        return Some(framing_error(name));
    }
    if name.eq_ignore_ascii_case("host") && !is_host(value) {
        return Some(format!(
            "header Host: {value:?} is not a host and a port\nhint: write it like example.com:8080"
        ));
    }
    if protocol.is_h1() { None } else { http2_fault(protocol, name, value) }
}

/// Returns why no header can have a name, as a sentence with a hint; `None`: the name is valid.
pub(crate) fn name_fault(name: &str) -> Option<String> {
    let is_valid = !name.is_empty() && name.bytes().all(is_token_byte);
    (!is_valid).then(|| {
        format!(
            "header name {name:?}: not a valid name (RFC 9110 §5.1)\nhint: write it like X-Name, \
             without blanks or colons"
        )
    })
}

fn http2_fault(protocol: Protocol, name: &str, value: &str) -> Option<String> {
    let is_te = name.eq_ignore_ascii_case("te");
    let is_connection_field =
        CONNECTION_FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field));
    // In HTTP/2 the only value of TE is `trailers`.
    let is_invalid_te = is_te && !value.trim().eq_ignore_ascii_case("trailers");
    if is_connection_field || is_invalid_te {
        let negotiated =
            if protocol == Protocol::Auto { ", which an https:// load may negotiate" } else { "" };
        return Some(format!(
            "header {name:?}: belongs to HTTP/1.1, and cannot be sent over HTTP/2{negotiated} (RFC \
             9113 §8.2.2)\nhint: remove the header, or choose HTTP/1.1"
        ));
    }
    let is_empty_host = name.eq_ignore_ascii_case("host") && value.trim().is_empty();
    is_empty_host.then(|| {
        "header Host: an empty value cannot be sent over HTTP/2 (RFC 9113 §8.3.1)\nhint: remove \
         the header"
            .into()
    })
}

/// Returns a second Host header with the reason why it is refused; `None`: at most one Host.
#[must_use]
pub fn duplicate(headers: &[(String, String)]) -> Option<(String, String)> {
    let mut hosts = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    let (_, second) = (hosts.next()?, hosts.next()?);
    let reason = "two Host headers: servers respond to them with 400 (RFC 9112 §3.2)\nhint: remove \
                  one of them";
    Some((second.0.clone(), reason.into()))
}

/// Returns whether a header frames a message. dyno writes these headers itself, because with a
/// wrong length the server would read different requests.
#[must_use]
pub fn is_framing(name: &str) -> bool {
    ["content-length", "transfer-encoding"].iter().any(|field| name.eq_ignore_ascii_case(field))
}

/// Returns the error of a header that frames a message.
#[must_use]
pub fn framing_error(name: &str) -> String {
    format!(
        "header {name:?}: dyno writes this header itself, to mark the end of a request\nhint: \
         remove it"
    )
}

/// Returns whether a byte is allowed in a token (RFC 9110 §5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns whether a value can have the form `uri-host [ ":" port ]` (RFC 9110 §7.2). Any part can
/// be a placeholder.
fn is_host(value: &str) -> bool {
    !value.trim().bytes().any(|b| b <= b' ' || b == 0x7F || b"/?#@,\\".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_fields_refused_over_http2() {
        for (name, value) in [
            ("Connection", "close"),
            ("keep-alive", "timeout=5"),
            ("Proxy-Connection", "keep-alive"),
            ("UPGRADE", "websocket"),
            ("HTTP2-Settings", "AAA"),
            ("TE", "gzip"),
            ("te", "trailers, gzip"),
        ] {
            for protocol in [Protocol::H2, Protocol::H2c, Protocol::H2cUpgrade, Protocol::Auto] {
                let fault = fault(protocol, name, value).unwrap();
                assert!(fault.contains(name) && fault.contains("RFC 9113 §8.2.2"), "{fault}");
            }
            assert_eq!(fault(Protocol::H1, name, value), None, "{name}");
            assert_eq!(fault(Protocol::H1Tls, name, value), None, "{name}");
        }
        assert_eq!(fault(Protocol::H2, "TE", " Trailers "), None);
        assert_eq!(fault(Protocol::H2, "X-Upper", "a"), None);
    }

    #[test]
    fn malformed_header_refused_over_any_protocol() {
        for (name, value, expected) in [
            (":authority", "h", "pseudo-header"),
            (":path", "/", "pseudo-header"),
            ("", "x", "not a valid name"),
            ("X Y", "x", "not a valid name"),
            ("X\r\nY", "x", "not a valid name"),
            ("X", "a\r\nB: c", "line break or NUL"),
            ("X", "a\nb", "line break or NUL"),
            ("X", "a\0b", "line break or NUL"),
            ("Content-Length", "3", "remove it"),
            ("Transfer-Encoding", "chunked", "remove it"),
            ("Host", "a b", "not a host"),
            ("host", "http://a/", "not a host"),
            ("Host", "a,b", "not a host"),
        ] {
            for protocol in [Protocol::H1, Protocol::H2] {
                let fault = fault(protocol, name, value).unwrap_or_default();
                assert!(fault.contains(expected), "{name:?}: {value:?}: {fault}");
            }
        }
        assert!(fault(Protocol::H2, "Host", " ").is_some());
        for host in ["a.test:81", "[::1]:81", "{uuid}.test", ""] {
            assert_eq!(fault(Protocol::H1, "Host", host), None, "{host}");
        }
    }

    #[test]
    fn second_host_is_duplicate() {
        let headers =
            |names: &[&str]| names.iter().map(|n| (n.to_string(), "h".into())).collect::<Vec<_>>();
        assert_eq!(duplicate(&headers(&["Host", "X", "X"])), None);
        assert_eq!(duplicate(&headers(&["Host", "X", "hOST"])).unwrap().0, "hOST");
    }
}
