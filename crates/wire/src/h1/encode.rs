//! Encodes HTTP/1.1 requests and responses.
//!
//! A request is encoded once, before the load, and the same bytes are sent each time.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::head::TOKEN;

/// A part of a request that is not valid in HTTP/1.1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("method {0:?}: not a valid method name (RFC 9110 §9.1)")]
    Method(String),
    #[error("path {0:?}: has blanks or control characters\nhint: percent-encode them")]
    Target(String),
    #[error("header name {0:?}: not a valid name (RFC 9110 §5.1)")]
    HeaderName(String),
    #[error("header {0:?}: the value has a line break or NUL")]
    HeaderValue(String),
}

/// Encodes an HTTP/1.1 request. If `headers` has no `Host`, `Host` is written first. If `headers`
/// has neither `Content-Length` nor Transfer-Encoding, `Content-Length` is added for a body.
pub fn request(
    method: &str,
    target: &str,
    host: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> Result<Vec<u8>, Invalid> {
    if method.is_empty() || !method.bytes().all(|b| TOKEN[b as usize]) {
        return Err(Invalid::Method(method.into()));
    }
    if target.is_empty() || target.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return Err(Invalid::Target(target.into()));
    }
    let has = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    let mut out = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
    if !has("host") {
        put_field(&mut out, "Host", host)?;
    }
    for (name, value) in headers {
        put_field(&mut out, name, value)?;
    }
    let has_framing = has("content-length") || has("transfer-encoding");
    // RFC 9110 §8.6: a client sends Content-Length 0 where the method expects content.
    if !has_framing && (!body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH")) {
        put_field(&mut out, "Content-Length", &format!("{}", body.len()))?;
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    Ok(out)
}

fn put_field(out: &mut Vec<u8>, name: &str, value: &str) -> Result<(), Invalid> {
    if name.is_empty() || !name.bytes().all(|b| TOKEN[b as usize]) {
        return Err(Invalid::HeaderName(name.into()));
    }
    if value.bytes().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
        return Err(Invalid::HeaderValue(name.into()));
    }
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.trim().as_bytes());
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Encodes a response with a body of known length, for the null responder and the simulated
/// servers. In the response to a HEAD, `body` is empty, and `length` is the length of the body that
/// a GET would receive.
#[must_use]
pub fn response(
    status: u16,
    reason: &str,
    content_type: &str,
    length: usize,
    close: bool,
    body: &[u8],
) -> Vec<u8> {
    let connection = if close { "Connection: close\r\n" } else { "" };
    let mut out = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: \
         {length}\r\n{connection}\r\n"
    )
    .into_bytes();
    out.extend_from_slice(body);
    out
}
