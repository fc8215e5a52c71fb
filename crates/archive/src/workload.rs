//! Requests to a server, and the expectations of its responses.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::{self, Protocol};

/// Prefix of a placeholder whose value depends on the subject: `{request.NAME}`.
pub const OWN_VALUE: &str = "{request.";

/// Requests to a server: one request, or a weighted mix of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    pub name: String,
    #[serde(flatten, with = "protocol::keys")]
    #[schemars(with = "protocol::keys::ProtocolKeys")]
    pub protocol: Protocol,
    /// At least one.
    pub requests: Vec<Request>,
    /// The requests are a page: the first is its document, and the others, which it refers to,
    /// follow once it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<Page>,
    /// Connections are replaced after this many requests, overriding the load; `None`: the load's
    /// setting applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u64>,
}

/// The changes of one kind that an import made to what another tool sent or recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportChange {
    /// A word for the kind, such as `connection-header`.
    pub kind: String,
    /// The change, with its reason.
    #[serde(rename = "what")]
    pub description: String,
    /// Occurrences.
    pub count: u64,
    /// The first 64 names of headers, options or places, each once.
    pub names: Vec<String>,
}

impl Workload {
    /// Returns the number of connections over which a visitor loads the page; 1 for HTTP/2. `None`:
    /// the workload is not a page.
    #[must_use]
    pub fn page_connections(&self) -> Option<u32> {
        let page = self.page?;
        Some(if self.protocol.is_h2() { 1 } else { page.connections })
    }
}

/// How a page is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Page {
    /// Number of HTTP/1.1 connections that load one page together; with HTTP/2 always one.
    pub connections: u32,
}

/// A request and the answer it should get. Path, header values and body may hold placeholders
/// (docs/reference/suite-keys.md).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    pub name: String,
    /// How often it is chosen, in proportion to the weights of the others.
    pub weight: u32,
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Body>,
    pub expect: Expect,
}

/// Expectations of a correct response. Other parts are not checked. Without a status any from 200
/// to 399 is correct.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expect {
    pub status: Option<u16>,
    /// The whole body, byte for byte.
    pub body: Option<Body>,
    /// Headers that must be there, with this value if one is given.
    pub headers: Vec<(String, Option<String>)>,
    /// Headers that must be there, with an expression that must match in the value of one of them.
    pub headers_match: Vec<(String, String)>,
    /// SHA-256 of the body, in hexadecimal digits.
    pub body_sha256: Option<String>,
    /// Text that the body must contain.
    pub body_contains: Option<String>,
    /// Expression that must match somewhere in the body.
    pub body_matches: Option<String>,
    /// JSON pointers (RFC 6901) into the body, with the expected value.
    pub json: Vec<(String, serde_json::Value)>,
    /// JSON pointers, with an expression that must match the text or number there.
    pub json_match: Vec<(String, String)>,
}

impl Request {
    /// Whether responses may have a content coding, such as gzip, because the request accepts one.
    #[must_use]
    pub fn accepts_codings(&self) -> bool {
        self.headers.iter().any(|(name, value)| {
            let is_identity =
                value.trim().is_empty() || value.trim().eq_ignore_ascii_case("identity");
            name.eq_ignore_ascii_case("accept-encoding") && !is_identity
        })
    }

    /// Whether some expectations are checked only in a sample of the responses: those that need the
    /// complete response, and the exact body if it has to be decoded.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.expect.is_deep() || self.expect.body.is_some() && self.accepts_codings()
    }
}

impl Expect {
    /// Returns the length of the expected exact body, bytes; `None`: no exact body is expected, or
    /// the body contains `{request.NAME}` and depends on the subject.
    #[must_use]
    pub fn body_bytes(&self) -> Option<usize> {
        let Body(body) = self.body.as_ref()?;
        let is_own = body.windows(OWN_VALUE.len()).any(|part| part == OWN_VALUE.as_bytes());
        (!is_own).then_some(body.len())
    }

    /// Whether an expectation can be checked only against the complete response.
    #[must_use]
    pub fn is_deep(&self) -> bool {
        let only_status_and_body =
            Expect { status: self.status, body: self.body.clone(), ..Expect::default() };
        *self != only_status_and_body
    }
}

/// Bytes of a body. In JSON a string if they are text, else `{"base64": …}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "BodyOnDisk", into = "BodyOnDisk")]
#[schemars(with = "BodyOnDisk")]
pub struct Body(pub Vec<u8>);

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum BodyOnDisk {
    Text(String),
    Bytes { base64: String },
}

impl From<BodyOnDisk> for Body {
    fn from(body: BodyOnDisk) -> Body {
        match body {
            BodyOnDisk::Text(text) => Body(text.into_bytes()),
            // dyno does not write invalid base64. Such a text is retained as it is.
            BodyOnDisk::Bytes { base64 } => {
                Body(STANDARD.decode(&base64).unwrap_or(base64.into_bytes()))
            }
        }
    }
}

impl From<Body> for BodyOnDisk {
    fn from(Body(bytes): Body) -> BodyOnDisk {
        match String::from_utf8(bytes) {
            Ok(text) => BodyOnDisk::Text(text),
            Err(error) => BodyOnDisk::Bytes { base64: STANDARD.encode(error.as_bytes()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_bytes_of_subject_specific_body_is_none() {
        let body_bytes =
            |text: &str| Expect { body: Some(Body(text.into())), ..Expect::default() }.body_bytes();
        assert_eq!(
            (body_bytes("Hello"), body_bytes("{request.word}"), Expect::default().body_bytes()),
            (Some(5), None, None)
        );
    }

    #[test]
    fn body_serializes_as_text_if_possible() {
        for (bytes, text) in [(&b"a\"b"[..], r#""a\"b""#), (&[0xFF, 0][..], r#"{"base64":"/wA="}"#)]
        {
            let body = Body(bytes.to_vec());
            assert_eq!(serde_json::to_string(&body).unwrap(), text);
            assert_eq!(serde_json::from_str::<Body>(text).unwrap(), body);
        }
    }
}
