//! Requests to a server, and the expectations of its responses.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::{self, Protocol};

/// Beginning of the placeholder `{request.NAME}`, whose value each subject sets for itself.
pub const SUBJECT_VALUE_PREFIX: &str = "{request.";

/// Beginning of the names of placeholders whose values are extracted: `{extract.NAME}`.
pub const EXTRACTED_VALUE: &str = "extract.";

/// Requests to a server: one request, a weighted mix of them, a page, or a sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    pub name: String,
    #[serde(flatten, with = "protocol::keys")]
    #[schemars(with = "protocol::keys::ProtocolKeys")]
    pub protocol: Protocol,
    /// Requests, at least one.
    pub requests: Vec<Request>,
    /// The requests are a page: the first request is its document. The other requests are its
    /// resources, and start when the document is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<Page>,
    /// The requests are a sequence: each visitor sends them in order, one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<Sequence>,
    /// Connections are replaced after this many requests, overriding the load; `None`: the load's
    /// setting applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u64>,
}

/// The changes of one kind that an import made to the requests of another tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportChange {
    /// A word for the kind, such as `connection-header`.
    pub kind: String,
    /// The change, with its reason.
    #[serde(rename = "what")]
    pub description: String,
    /// Number of changes.
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

/// How visitors send the requests of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sequence {
    pub cookies: Cookies,
}

/// Treatment of the cookies that responses set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Cookies {
    /// Cookies have no effect.
    #[default]
    Ignored,
    /// Each visitor keeps cookies up to the end of its sequence, and sends them.
    Kept,
}

/// A value of a response that later requests of the same visitor use, as `{extract.NAME}`. Archives
/// have this definition, and never a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Extraction {
    pub name: String,
    pub source: ExtractionSource,
    /// Regular expression that must match the source. Its first group is the value, or the whole
    /// match if it has no group. `None`: the source is the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
}

/// The part of a response that has an extracted value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExtractionSource {
    Body,
    /// The header of this name.
    Header(String),
    /// The value at this JSON pointer (RFC 6901).
    Json(String),
}

/// A request and its expected response. Path, header values and body may contain placeholders
/// (docs/reference/load-requests.md).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    pub name: String,
    /// How often the request is chosen, in proportion to the weights of the other requests.
    pub weight: u32,
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Body>,
    pub expect: Expect,
    /// Values that are extracted from its responses; only in a sequence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extract: Vec<Extraction>,
}

/// Expectations of a correct response. Fields that are `None` or empty are not checked, except for
/// the status: if `status` is `None`, every status from 200 to 399 is correct.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expect {
    pub status: Option<u16>,
    /// The whole body, byte for byte.
    pub body: Option<Body>,
    /// Headers that the response must have, with this value if there is one.
    pub headers: Vec<(String, Option<String>)>,
    /// Headers that the response must have, with an expression that must match the value of one
    /// header of that name.
    pub headers_match: Vec<(String, String)>,
    /// SHA-256 of the body, in hexadecimal digits.
    pub body_sha256: Option<String>,
    /// Text that the body must contain.
    pub body_contains: Option<String>,
    /// Expression that must match somewhere in the body.
    pub body_matches: Option<String>,
    /// JSON pointers (RFC 6901) into the body, with the expected value.
    pub json: Vec<(String, serde_json::Value)>,
    /// JSON pointers, with an expression that must match the text or number at the pointer.
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

    /// Whether some expectations are checked only in a sample of the responses. Every response is
    /// checked only for the status, and for an exact body that cannot arrive with a content coding.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.expect.has_sampled_part() || self.expect.body.is_some() && self.accepts_codings()
    }
}

impl Expect {
    /// Returns the length of the expected exact body, bytes; `None`: no exact body is expected, or
    /// the body contains `{request.NAME}` and depends on the subject.
    #[must_use]
    pub fn body_bytes(&self) -> Option<usize> {
        let Body(body) = self.body.as_ref()?;
        let prefix = SUBJECT_VALUE_PREFIX.as_bytes();
        let depends_on_subject = body.windows(prefix.len()).any(|part| part == prefix);
        (!depends_on_subject).then_some(body.len())
    }

    /// Whether anything is expected in addition to the status and an exact body: a header, or a
    /// part or digest of the body. These expectations are checked only in a sample of the
    /// responses.
    #[must_use]
    pub fn has_sampled_part(&self) -> bool {
        let only_status_and_body =
            Expect { status: self.status, body: self.body.clone(), ..Expect::default() };
        *self != only_status_and_body
    }
}

/// Bytes of a body. In JSON, text is a string, and other bytes are `{"base64": …}`.
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
            // dyno does not write invalid base64. An invalid text is used unchanged.
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
