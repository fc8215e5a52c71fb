//! Imports requests from other tools: curl commands, HAR 1.2, vegeta's targets, and lists of URLs.
//!
//! The functions convert text to [`ImportedRequest`]s. The caller passes a function that reads the
//! files which a text names. A part that dyno cannot send as the tool does is an error, or is
//! omitted and listed ([`Changes`]). An error names the line or the entry, and ends with a hint.

mod changes;
mod curl;
mod format;
mod har;
mod har_body;
mod har_members;
mod unique_requests;
mod urls;
mod vegeta;

pub use changes::{ChangeKind, Changes};
pub use curl::curl;
pub use format::ImportFormat;
pub use har::har;
pub use unique_requests::{Braces, UniqueRequests};
pub use urls::urls;
pub use vegeta::vegeta;

use base64::engine::general_purpose::STANDARD as BASE64;
use dyno_config::hint;
use dyno_config::quotation::{plain, quote, quote_header, without_found_value};

use crate::ReadFile;
use crate::header::is_framing;

/// A request of another tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedRequest {
    /// Position of the request in the text: "line 3", "line 3, URL 2", "entry 2". With the file, if
    /// the caller has added it: "session.har: entry 2".
    pub location: String,
    pub method: String,
    /// Absolute URL as written, without fragment, scheme http or https.
    pub url: String,
    /// Headers without `Content-Length` and `Transfer-Encoding`: the sender of the body frames it.
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    /// Options that affect a load: curl's long name, and the value, which is empty for a flag.
    /// Times are in seconds, possibly with a fraction. Only `resolve` may occur several times.
    pub options: Vec<(String, String)>,
    /// Status of the recorded response; `None`: no recorded response.
    pub status: Option<u16>,
    /// Differences from the written or recorded request.
    pub changes: Changes,
}

/// The requests of an import, and its changes to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imports {
    /// At least one request. The `changes` of each request are empty, because they are in the
    /// `changes` of the import.
    pub requests: Vec<ImportedRequest>,
    pub changes: Changes,
    pub order: ImportOrder,
}

/// Order in which imported requests are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportOrder {
    /// Drawn at random.
    #[default]
    Random,
    /// As written, by visitors who keep cookies.
    Sequence,
}

impl Imports {
    /// Adds the source of the import, a file or an option, to the position of each request.
    #[must_use]
    pub fn with_source(mut self, source: &str) -> Imports {
        for request in &mut self.requests {
            request.location = format!("{source}: {}", request.location);
        }
        self
    }
}

impl ImportedRequest {
    fn new(location: String, method: &str, url: &str) -> ImportedRequest {
        let (method, url) = (method.into(), url.into());
        ImportedRequest {
            location,
            method,
            url,
            headers: Vec::new(),
            body: None,
            options: Vec::new(),
            status: None,
            changes: Changes::default(),
        }
    }

    /// Normalizes a request to the form that the fields document. `Err`: the request cannot be
    /// sent, with its position.
    fn normalize(mut self) -> Result<ImportedRequest, String> {
        let location = self.location.clone();
        self.check().map_err(|error| format!("{location}: {error}"))?;
        Ok(self)
    }

    fn check(&mut self) -> Result<(), String> {
        check_method(&self.method)?;
        self.remove_headers(ChangeKind::FramingHeader, |name, _| is_framing(name));
        self.headers.iter().try_for_each(|(name, value)| check_header(name, value))?;
        if self.url.contains('#') {
            self.changes.add(ChangeKind::Fragment, &self.location);
        }
        self.url = Url::parse(&self.url)?.to_text();
        Ok(())
    }

    /// Removes headers, and counts each as this change.
    pub fn remove_headers(&mut self, change: ChangeKind, is_removed: impl Fn(&str, &str) -> bool) {
        let changes = &mut self.changes;
        self.headers.retain(|(name, value)| {
            let is_removed = is_removed(name, value);
            if is_removed {
                changes.add(change, &name.to_ascii_lowercase());
            }
            !is_removed
        });
    }

    /// Counts the headers that the tool would add, because the request does not have them.
    fn count_tool_headers(&mut self, names: &[&str]) {
        for name in names.iter().filter(|name| !self.has_header(name)).collect::<Vec<_>>() {
            self.changes.add(ChangeKind::ToolHeader, name);
        }
    }

    fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
    }
}

/// Reads the line `METHOD URL`.
fn read_method_and_url(location: String, line: &str) -> Result<ImportedRequest, String> {
    let example = match line.split_whitespace().collect::<Vec<_>>()[..] {
        [method, url] if is_token(method) && !method.bytes().any(|b| b.is_ascii_lowercase()) => {
            return Ok(ImportedRequest::new(location, method, url));
        }
        [method, url] if is_token(method) => {
            format!("{} {}", method.to_ascii_uppercase(), plain(url))
        }
        [url] => format!("GET {}", plain(url)),
        _ => "GET http://localhost:8080/".into(),
    };
    Err(format!(
        "{location}: expected a method in capitals and a URL, found {}\nhint: write it like \
         {example}",
        quote(line)
    ))
}

fn check_method(method: &str) -> Result<(), String> {
    if is_token(method) {
        return Ok(());
    }
    let method = quote(method);
    Err(format!("method {method}: not an HTTP method\nhint: write GET, POST or another one"))
}

fn check_header(name: &str, value: &str) -> Result<(), String> {
    if !is_token(name) {
        return Err(format!(
            "header {}: not a header name\nhint: write it like Content-Type",
            quote_header(name)
        ));
    }
    if value.contains(['\r', '\n', '\0']) {
        return Err(format!(
            "header {name}: the value has a line break or NUL\nhint: remove that character"
        ));
    }
    Ok(())
}

/// Returns whether a text is a token (RFC 9110 §5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|n| n.eq_ignore_ascii_case(name))
}

/// The parts of an absolute URL.
struct Url<'a> {
    scheme: String,
    /// Host and port as written.
    authority: &'a str,
    /// Path and query as written.
    rest: &'a str,
}

impl<'a> Url<'a> {
    /// Splits an absolute http or https URL, without its fragment.
    fn parse(url: &'a str) -> Result<Url<'a>, String> {
        if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(format!(
                "URL {}: has a blank or control character\nhint: percent-encode it",
                quote(url)
            ));
        }
        let url = url.split('#').next().unwrap_or_default();
        let Some((scheme, after)) = url.split_once("://") else {
            let host = plain(url.trim_start_matches('/'));
            return Err(format!(
                "URL {}: not an absolute URL\nhint: write http://{host}",
                quote(url)
            ));
        };
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(scheme.as_str(), "http" | "https") {
            // `plain` masks the user and the password of a URL, and needs the scheme to find them.
            let hint = ["http", "https"].map(|scheme| plain(&format!("{scheme}://{after}")));
            return Err(format!(
                "URL {}: {}:// is not supported\nhint: write {}",
                quote(url),
                plain(&scheme),
                hint.join(" or ")
            ));
        }
        let (authority, rest) = after.split_at(after.find(['/', '?']).unwrap_or(after.len()));
        if authority.contains('@') {
            return Err(format!(
                "URL {}: has credentials\nhint: put them into an Authorization header",
                quote(url)
            ));
        }
        if authority.is_empty() || authority.starts_with(':') {
            return Err(format!(
                "URL {}: has no host\nhint: write {}",
                quote(url),
                plain(&format!("{scheme}://localhost{authority}{rest}"))
            ));
        }
        Ok(Url { scheme, authority, rest })
    }

    /// Returns the URL as text. A query without a path gets the path `/`.
    fn to_text(&self) -> String {
        let root = if self.rest.starts_with('?') { "/" } else { "" };
        format!("{}://{}{root}{}", self.scheme, self.authority, self.rest)
    }
}

/// Reads a file that a text names. `Err`: message for the user, with a hint.
fn read_file(path: &str, read: ReadFile) -> Result<Vec<u8>, String> {
    if matches!(path, "-" | ".") {
        return Err(
            "standard input cannot be read here\nhint: save the input to a file, and name that \
             file"
                .into(),
        );
    }
    read(path).map_err(|reason| {
        hint::with_default(format!("{path}: cannot be read: {reason}"), "check the path")
    })
}

/// Encodes a value of a form: `application/x-www-form-urlencoded`.
fn encode_form_value(bytes: &[u8]) -> String {
    let encode = |&b: &u8| match b {
        b' ' => "+".into(),
        b if b.is_ascii_alphanumeric() || b"-._~".contains(&b) => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    bytes.iter().map(encode).collect()
}

/// Returns the message of a JSON error without serde's position, because the caller counts the
/// lines, and without the value that it found, which may be secret.
fn json_error_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    without_found_value(message)
}

/// Returns the requests, and the changes of all requests together. `Err`: `message`, if there are
/// no requests.
fn require_requests(
    mut requests: Vec<ImportedRequest>,
    mut changes: Changes,
    message: &str,
) -> Result<Imports, String> {
    for request in &mut requests {
        changes.extend(std::mem::take(&mut request.changes));
    }
    if requests.is_empty() {
        Err(message.into())
    } else {
        Ok(Imports { requests, changes, order: ImportOrder::Random })
    }
}
