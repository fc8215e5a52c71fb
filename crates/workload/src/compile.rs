//! Compiles a workload to the byte templates that are sent, and to the expectations of responses.
//!
//! Everything that does not vary between requests is encoded and checked here, before the load.

mod impossible;
mod sequence;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dyno_config::quotation::{plain, quote, quote_in};
use dyno_engine::expect::{ExpectedValue, FullChecks};
use dyno_engine::extraction::ValuePlace;
use dyno_engine::sequence::CookiePolicy;
use dyno_engine::stored_body::BodyBudget;
use dyno_engine::traffic::{FieldPiece, RequestPart, StreamTemplate, Template};
use dyno_engine::{CompiledRequest, Expectation, Http2, Protocol, Traffic};
use dyno_model::plan;
use dyno_wire::h1::encode;
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2;
use regex::bytes::Regex;

use crate::ReadFile;
use crate::header;
use crate::template::Templates;
use crate::value_names::ValueNames;

/// The private-use character before and after a placeholder's number. A number between two of these
/// marks stands for the placeholder while a head is encoded and checked.
const MARK: char = '\u{F8FF}';

/// Compiles a workload for a server with the name `host`. `http2`: the settings that an upgrade
/// announces. `Err`: message for the user that names the request.
pub fn compile(
    workload: &plan::Workload,
    host: &str,
    http2: &Http2,
    read: ReadFile<'_>,
) -> Result<Traffic, String> {
    compile_located(workload, host, http2, read).map_err(|error| error.message)
}

/// Checks that a workload can be sent to any server. `Err`: the part that cannot be sent.
pub fn check(workload: &plan::Workload, read: ReadFile<'_>) -> Result<(), CompileError> {
    compile_located(workload, "host", &Http2::default(), read).map(drop)
}

/// A part of a workload that cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// The index of the request, and its wrong part. `None`: the workload as a whole.
    pub location: Option<(usize, Field)>,
    /// Message for the user that names the request.
    pub message: String,
}

/// A part of a request, or of the expectation of its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    Method,
    Path,
    /// By its name.
    Header(String),
    Body,
    Sha256,
    /// A key of the expectations.
    Expected(&'static str),
    /// By its pointer.
    Json(String),
    /// By its name.
    ExpectedHeader(String),
    BodyMatches,
    /// By its pointer.
    JsonMatches(String),
    /// An extraction, by the name of its value.
    Extract(String),
}

/// The wrong part of a request, and its mistake as a sentence.
type FieldError = (Field, String);

fn compile_located(
    workload: &plan::Workload,
    host: &str,
    http2: &Http2,
    read: ReadFile<'_>,
) -> Result<Traffic, CompileError> {
    let protocol = workload.protocol;
    let mut templates = Templates::new(read, ValueNames::new(workload));
    let cookies = sequence::cookie_policy(workload);
    let mut compiled = Vec::with_capacity(workload.requests.len());
    let mut field_lists = Vec::new();
    let body_budget = BodyBudget::default();
    for (i, request) in workload.requests.iter().enumerate() {
        let with_request = |error: FieldError| request_error(i, request, error);
        templates.values.begin_request(i);
        check_headers(request, protocol).map_err(with_request)?;
        let mut compiled_request =
            compile_request(request, host, &mut templates).map_err(with_request)?;
        if cookies == CookiePolicy::Keep {
            sequence::check_cookie_header(request).map_err(with_request)?;
            compiled_request.template = sequence::with_cookie_line(compiled_request.template);
        }
        compiled_request.expect.budget = body_budget.clone();
        compiled.push((compiled_request, request.weight));
        if !protocol.is_h1() {
            let scheme = if protocol.is_tls() { "https" } else { "http" };
            let list = FieldList::from_request(request, scheme, host, &mut templates);
            let list = list.map_err(with_request)?;
            field_lists.push(match cookies {
                CookiePolicy::Keep => list.with_cookies(),
                CookiePolicy::Ignore => list,
            });
        }
    }
    let constant: Vec<_> = field_lists.iter().map(FieldList::constant_fields).collect();
    let shared = h2::SharedFields::from_requests(&constant);
    for ((request, _), list) in compiled.iter_mut().zip(field_lists) {
        request.stream = Some(list.encode(&shared));
    }
    if protocol == Protocol::H2cUpgrade {
        let requests = compiled.iter_mut().zip(&workload.requests);
        for (i, ((compiled_request, _), request)) in requests.enumerate() {
            templates.values.begin_request(i);
            let upgrade = template(&with_upgrade_fields(request, http2), host, &mut templates);
            let upgrade = upgrade.map_err(|error| request_error(i, request, error))?;
            compiled_request.upgrade = Some(match cookies {
                CookiePolicy::Keep => sequence::with_cookie_line(upgrade),
                CookiePolicy::Ignore => upgrade,
            });
        }
    }
    let compiled_sequence = sequence::compile(workload, host, &templates.values)
        .map_err(|(i, error)| request_error(i, &workload.requests[i], error))?;
    let traffic = Traffic::new(compiled)
        .map_err(|message| CompileError { location: None, message })?
        .with_shared_bytes(shared.table_bytes());
    Ok(match compiled_sequence {
        Some(sequence) => traffic.with_sequence(sequence),
        None => traffic,
    })
}

fn request_error(i: usize, request: &plan::Request, (field, error): FieldError) -> CompileError {
    CompileError {
        location: Some((i, field)),
        message: format!("request {}: {error}", quote(&request.name)),
    }
}

/// Checks that the protocol can carry the request's headers.
fn check_headers(request: &plan::Request, protocol: Protocol) -> Result<(), FieldError> {
    let fault = request.headers.iter().find_map(|(name, value)| {
        header::fault(protocol, name, value).map(|reason| (name.clone(), reason))
    });
    match fault.or_else(|| header::duplicate(&request.headers)) {
        Some((name, reason)) => Err((Field::Header(name), reason)),
        None => Ok(()),
    }
}

fn compile_request(
    request: &plan::Request,
    host: &str,
    templates: &mut Templates<'_>,
) -> Result<CompiledRequest, FieldError> {
    const TUNNEL: &str = "method CONNECT: cannot be measured, because it opens a tunnel and gets \
                          no response\nhint: use another method, such as GET";
    if request.method == "CONNECT" {
        return Err((Field::Method, TUNNEL.into()));
    }
    let kind = if request.method == "HEAD" { RequestKind::Head } else { RequestKind::Other };
    let template = template(request, host, templates)?;
    Ok(CompiledRequest {
        template,
        upgrade: None,
        stream: None,
        kind,
        expect: expectation(request)?,
    })
}

/// Returns the request with the fields of an upgrade to HTTP/2 (RFC 7540 §3.2).
fn with_upgrade_fields(request: &plan::Request, http2: &Http2) -> plan::Request {
    let settings = URL_SAFE_NO_PAD.encode(dyno_engine::upgrade_settings(http2));
    let mut request = request.clone();
    request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("connection"));
    for (name, value) in [
        ("Connection", "Upgrade, HTTP2-Settings"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", &settings),
    ] {
        request.headers.push((name.into(), value.into()));
    }
    request
}

/// A request in the form of HTTP/2: fields with lower-case names and fixed or varying values, and a
/// body.
struct FieldList {
    fields: Vec<(Vec<u8>, Vec<RequestPart>)>,
    body: Vec<RequestPart>,
}

impl FieldList {
    /// Returns the fields of a request with checked headers. The host becomes `:authority` (RFC
    /// 9113 §8.3.1).
    fn from_request(
        request: &plan::Request,
        scheme: &str,
        host: &str,
        templates: &mut Templates<'_>,
    ) -> Result<FieldList, FieldError> {
        let mut parse = |text: &str, part: HeadPart<'_>| part.parse(text, templates);
        let host_header =
            request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let authority = host_header.map_or(host, |(_, value)| value.as_str());
        let mut fields = vec![
            (b":method".to_vec(), vec![bytes(&request.method)]),
            (b":scheme".to_vec(), vec![bytes(scheme)]),
            (b":authority".to_vec(), parse(authority, HeadPart::Header("Host"))?),
            (b":path".to_vec(), parse(&request.path, HeadPart::Path)?),
        ];
        for (header, value) in &request.headers {
            let name = header.to_ascii_lowercase();
            if name != "host" {
                fields.push((name.into_bytes(), parse(value.trim(), HeadPart::Header(header))?));
            }
        }
        let body = body(request, templates)?;
        let has_length = fields.iter().any(|(name, _)| name == b"content-length");
        // An empty body also gets `Content-Length: 0` (RFC 9110 §8.6).
        let needs_length =
            request.body.is_some() || matches!(request.method.as_str(), "POST" | "PUT" | "PATCH");
        if needs_length && !has_length {
            let length = if body.iter().all(is_fixed) {
                bytes(&concat(&body).len().to_string())
            } else {
                RequestPart::BodyLength
            };
            fields.push((b"content-length".to_vec(), vec![length]));
        }
        Ok(FieldList { fields, body })
    }

    /// Returns the constant fields, except fields that have the same name as a varying field. The
    /// encoder may change the order of the returned fields.
    fn constant_fields(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let is_varying =
            |name: &Vec<u8>| self.fields.iter().any(|(n, v)| n == name && !v.iter().all(is_fixed));
        let constant = self.fields.iter().filter(|(name, _)| !is_varying(name));
        constant.map(|(name, value)| (name.clone(), concat(value))).collect()
    }

    fn encode(self, shared: &h2::SharedFields) -> StreamTemplate {
        let constant = self.constant_fields();
        if constant.len() == self.fields.len() && self.body.iter().all(is_fixed) {
            return StreamTemplate::Fixed {
                block: shared.encode(&constant),
                body: concat(&self.body).into(),
            };
        }
        let is_pseudo = |name: &[u8]| name.starts_with(b":");
        let mut fields = Vec::new();
        let is_movable = |name: &Vec<u8>| constant.iter().any(|(n, _)| n == name);
        // Pseudo-header fields come first (RFC 9113 §8.3). Within each kind the movable fields come
        // first, and the order of the other fields does not change.
        for pseudo in [true, false] {
            let has_kind = |name: &[u8]| is_pseudo(name) == pseudo;
            let movable: Vec<_> =
                constant.iter().filter(|(name, _)| has_kind(name)).cloned().collect();
            fields.push(FieldPiece::Fixed(shared.encode(&movable)));
            let others = self.fields.iter().filter(|(name, _)| has_kind(name) && !is_movable(name));
            fields.extend(others.map(|(name, value)| {
                if value.iter().all(is_fixed) {
                    return FieldPiece::Fixed(shared.encode(&[(name.clone(), concat(value))]));
                }
                let mut literal = Vec::new();
                h2::encode::put_name(name, &mut literal);
                FieldPiece::Varying {
                    name: literal.into(),
                    name_bytes: name.len() as u32,
                    value: value.clone(),
                }
            }));
        }
        StreamTemplate::Varying { fields, body: self.body }
    }
}

fn bytes(text: &str) -> RequestPart {
    RequestPart::Bytes(text.as_bytes().into())
}

fn body(
    request: &plan::Request,
    templates: &mut Templates<'_>,
) -> Result<Vec<RequestPart>, FieldError> {
    let body = request.body.as_ref().map_or(&[][..], |body| &body.0);
    let parts = templates.parse(body).map_err(|error| (Field::Body, error))?;
    templates.values.note_use(&parts, ValuePlace::Body);
    Ok(parts)
}

fn template(
    request: &plan::Request,
    host: &str,
    templates: &mut Templates<'_>,
) -> Result<Template, FieldError> {
    let body = body(request, templates)?;
    let body_is_fixed = body.iter().all(is_fixed);
    let mut placeholders = Vec::new();
    let path = insert_marks(&request.path, HeadPart::Path, templates, &mut placeholders)?;
    let mut headers = Vec::with_capacity(request.headers.len() + 1);
    for (name, value) in &request.headers {
        let value = insert_marks(value, HeadPart::Header(name), templates, &mut placeholders)?;
        headers.push((name.clone(), value));
    }
    let has = |name: &str| request.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    let has_framing = has("content-length") || has("transfer-encoding");
    if !body_is_fixed && !has_framing {
        headers
            .push(("Content-Length".into(), add_mark(RequestPart::BodyLength, &mut placeholders)));
    }
    // An empty body also gets a length (RFC 9110 §8.6).
    if !has_framing && request.body.as_ref().is_some_and(|body| body.0.is_empty()) {
        headers.push(("Content-Length".into(), "0".into()));
    }
    let sent_body = if body_is_fixed { concat(&body) } else { Vec::new() };
    let bytes = encode::request(&request.method, &path, host, &headers, &sent_body)
        .map_err(|error| (invalid_field(&error), error.to_string()))?;
    if placeholders.is_empty() && body_is_fixed {
        return Ok(Template::Fixed(bytes.into()));
    }
    let head = &bytes[..bytes.len() - sent_body.len()];
    Ok(Template::Varying { head: replace_marks(head, placeholders), body })
}

fn invalid_field(invalid: &encode::Invalid) -> Field {
    match invalid {
        encode::Invalid::Method(_) => Field::Method,
        encode::Invalid::Target(_) => Field::Path,
        encode::Invalid::HeaderName(name) | encode::Invalid::HeaderValue(name) => {
            Field::Header(name.clone())
        }
    }
}

fn is_fixed(part: &RequestPart) -> bool {
    matches!(part, RequestPart::Bytes(_))
}

fn concat(parts: &[RequestPart]) -> Vec<u8> {
    parts
        .iter()
        .flat_map(|part| if let RequestPart::Bytes(bytes) = part { &bytes[..] } else { &[] })
        .copied()
        .collect()
}

/// Replaces placeholders by numbers between marks, so that the encoder can check the other text.
fn insert_marks(
    text: &str,
    part: HeadPart<'_>,
    templates: &mut Templates<'_>,
    placeholders: &mut Vec<RequestPart>,
) -> Result<String, FieldError> {
    if text.contains(MARK) {
        return Err((
            part.field(),
            "the private-use character U+F8FF cannot be sent in a path or header".into(),
        ));
    }
    Ok(part
        .parse(text, templates)?
        .into_iter()
        .map(|part| match part {
            // Text between ASCII braces has whole characters only, so the conversion loses nothing.
            RequestPart::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            placeholder => add_mark(placeholder, placeholders),
        })
        .collect())
}

/// A part of a head that can have placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadPart<'a> {
    Path,
    /// By its name.
    Header(&'a str),
}

impl HeadPart<'_> {
    /// Splits a text into fixed bytes and placeholders. Checks that all values of the placeholders
    /// are allowed in this part of the head.
    fn parse(
        self,
        text: &str,
        templates: &mut Templates<'_>,
    ) -> Result<Vec<RequestPart>, FieldError> {
        let with_field = |error: String| (self.field(), error);
        let parts = templates.parse(text.as_bytes()).map_err(with_field)?;
        let line = match self {
            HeadPart::Path => text.into(),
            HeadPart::Header(name) => format!("{name}: {text}"),
        };
        let value_error = |value: String| {
            let (shown, value) = (plain(&line), quote_in(&line, &value));
            with_field(format!("{shown}: the value {value} {}", self.value_problem()))
        };
        parts.iter().try_for_each(|part| self.check(part)).map_err(value_error)?;
        templates.values.note_use(&parts, sequence::place(self));
        Ok(parts)
    }

    fn field(self) -> Field {
        match self {
            HeadPart::Path => Field::Path,
            HeadPart::Header(name) => Field::Header(name.into()),
        }
    }

    /// The end of the error message for a value that this part cannot have.
    const fn value_problem(self) -> &'static str {
        match self {
            HeadPart::Path => {
                "cannot be sent in a path, because it has blanks or control characters\nhint: \
                 percent-encode them in the file"
            }
            HeadPart::Header(_) => "cannot be sent in a header, because it has a line break or NUL",
        }
    }

    /// Checks the values of a column as the encoder checks a fixed text. `Err`: the first value
    /// that cannot be sent in this part.
    fn check(self, part: &RequestPart) -> Result<(), String> {
        let RequestPart::Column(rows) = part else { return Ok(()) };
        let is_wrong = |byte: &u8| match self {
            HeadPart::Path => *byte <= b' ' || *byte == 0x7F,
            HeadPart::Header(_) => matches!(byte, b'\r' | b'\n' | 0),
        };
        match rows.iter().find(|row| row.iter().any(is_wrong)) {
            Some(row) => Err(String::from_utf8_lossy(row).into_owned()),
            None => Ok(()),
        }
    }
}

/// Adds a placeholder to the list, and returns its number between two marks.
fn add_mark(placeholder: RequestPart, placeholders: &mut Vec<RequestPart>) -> String {
    placeholders.push(placeholder);
    format!("{MARK}{}{MARK}", placeholders.len() - 1)
}

/// Replaces the numbers between marks by their placeholders.
fn replace_marks(head: &[u8], placeholders: Vec<RequestPart>) -> Vec<RequestPart> {
    let mut mark = [0; 4];
    let mark = MARK.encode_utf8(&mut mark).as_bytes();
    let mut parts = Vec::new();
    let mut rest = head;
    // Each placeholder has two marks, and the pairs of marks have the order of the list.
    for placeholder in placeholders {
        let start = mark_position(rest, mark);
        let after_mark = start + mark.len();
        let end = after_mark + mark_position(&rest[after_mark..], mark) + mark.len();
        parts.extend((start > 0).then(|| RequestPart::Bytes(rest[..start].into())));
        parts.push(placeholder);
        rest = &rest[end..];
    }
    parts.push(RequestPart::Bytes(rest.into()));
    parts
}

fn mark_position(bytes: &[u8], mark: &[u8]) -> usize {
    let position = bytes.windows(mark.len()).position(|w| w == mark);
    position.expect("each placeholder should have two marks")
}

/// Compiles the expectation of a request.
///
/// # Errors
/// The wrong part, and a sentence.
pub fn expectation(request: &plan::Request) -> Result<Expectation, (Field, String)> {
    let expect = &request.expect;
    impossible::check(request)?;
    // The response to a HEAD has no body to compare.
    let body = expect.body.as_ref().filter(|_| request.method != "HEAD");
    let body: Option<Arc<[u8]>> = body.map(|body| Arc::from(&body.0[..]));
    let may_be_encoded = body.is_some() && request.accepts_codings();
    let full_checks =
        FullChecks { body: body.clone().filter(|_| may_be_encoded), ..full_checks(expect)? };
    Ok(Expectation {
        status: expect.status,
        body,
        may_be_encoded,
        full_checks: Arc::new(full_checks),
        budget: BodyBudget::default(),
    })
}

/// Compiles the parts of an expectation that only a full check compares.
fn full_checks(expect: &plan::Expect) -> Result<FullChecks, FieldError> {
    let exact = expect.headers.iter().map(|(name, value)| {
        (name.clone(), value.clone().map_or(ExpectedValue::Any, ExpectedValue::Is))
    });
    let matches = expect.headers_match.iter().map(|(name, text)| {
        let expression =
            expression(text).map_err(|error| (Field::ExpectedHeader(name.clone()), error))?;
        Ok((name.clone(), ExpectedValue::Matches(expression)))
    });
    let json_matches = expect.json_match.iter().map(|(pointer, text)| {
        let field = || Field::JsonMatches(pointer.clone());
        check_pointer(pointer).map_err(|error| (field(), error))?;
        Ok((pointer.clone(), expression(text).map_err(|error| (field(), error))?))
    });
    for (pointer, _) in &expect.json {
        check_pointer(pointer).map_err(|error| (Field::Json(pointer.clone()), error))?;
    }
    let sha256 = expect.body_sha256.as_deref().map(parse_sha256).transpose();
    let body_matches = expect.body_matches.as_deref().map(expression).transpose();
    Ok(FullChecks {
        headers: exact.map(Ok).chain(matches).collect::<Result<_, FieldError>>()?,
        sha256: sha256.map_err(|error| (Field::Sha256, error))?,
        body: None,
        contains: expect.body_contains.as_ref().map(|text| text.as_bytes().to_vec()),
        matches: body_matches.map_err(|error| (Field::BodyMatches, error))?,
        json: expect.json.clone(),
        json_matches: json_matches.collect::<Result<_, FieldError>>()?,
    })
}

fn check_pointer(pointer: &str) -> Result<(), String> {
    let is_escape = |text: &str| text.starts_with(['0', '1']);
    let has_valid_escapes = pointer.split('~').skip(1).all(is_escape);
    if (pointer.is_empty() || pointer.starts_with('/')) && has_valid_escapes {
        return Ok(());
    }
    // `name: word` would be redacted where the name is that of a secret.
    Err(format!(
        "not a JSON pointer (RFC 6901): {pointer:?}\nhint: write it like /items/0/name, with ~0 \
         for ~ and ~1 for / within a name"
    ))
}

/// Compiles a regular expression of a file.
///
/// # Errors
/// The expression is invalid, or matches no text.
pub fn expression(text: &str) -> Result<Regex, String> {
    let compiled = Regex::new(text).map_err(|error| {
        // The last line has the message; the lines before it draw the position.
        let error = error.to_string();
        let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("{text:?}: not a regular expression: {reason}")
    })?;
    if impossible::matches_nothing(text) {
        return Err(format!(
            "{text:?}: matches no text, because it needs text before the start (`^`), text after \
             the end (`$`), or a character of an empty class\nhint: for the start and end of \
             lines, begin it with (?m)"
        ));
    }
    Ok(compiled)
}

fn parse_sha256(text: &str) -> Result<[u8; 32], String> {
    let wrong = || {
        format!(
            "{text:?}: not a SHA-256 of 64 hexadecimal digits\nhint: copy the digest from the \
             output of `sha256sum FILE`"
        )
    };
    if text.len() != 64 || !text.is_ascii() {
        return Err(wrong());
    }
    let mut digest = [0; 32];
    for (i, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|_| wrong())?;
    }
    Ok(digest)
}

#[cfg(test)]
mod tests;
