//! Reads the workloads of a suite: requests and expectations.

use std::cell::RefCell;
use std::collections::BTreeMap;

use dyno_config::mistake::{Mistake, mistake};
use dyno_config::quotation::quote;
use dyno_config::relative_path::RelativePath;
use dyno_config::secret::{is_secret_parameter, with_parameters};
use dyno_engine::Protocol;
use dyno_model::plan::{Body, Cookies, Expect, Page, Request, Sequence, Workload};
use serde::Deserialize;

use crate::compile::{CompileError, Field};
use crate::raw_expect::RawExpect;
use crate::sequence::{COOKIES_NEED_STEPS, RawExtraction, SINGLE_STEP, too_many_steps};
use crate::{ReadFile, compile, header, limits, request_values};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawWorkload {
    name: Option<String>,
    protocol: Option<String>,
    tls: Option<bool>,
    requests_per_connection: Option<u64>,
    method: Option<String>,
    path: Option<String>,
    headers: BTreeMap<String, String>,
    body: Option<String>,
    body_file: Option<RelativePath>,
    expect: RawExpect,
    /// A weighted mix instead of the one request above.
    requests: Option<Vec<RawRequest>>,
    /// The resources of a page, whose document is the request above.
    page: Option<RawPage>,
    /// The requests of one visitor, in order, instead of the one request above.
    steps: Option<Vec<RawRequest>>,
    /// Whether a visitor keeps cookies; only with `steps`.
    cookies: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPage {
    resources: Vec<String>,
    #[serde(default = "page_connections")]
    connections: u32,
}

const fn page_connections() -> u32 {
    PAGE_CONNECTIONS
}

/// Connections over which browsers load a page in HTTP/1.1.
pub const PAGE_CONNECTIONS: u32 = 6;

/// A request of a file, with unchecked values.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawRequest {
    name: Option<String>,
    weight: Option<u32>,
    method: Option<String>,
    path: Option<String>,
    headers: BTreeMap<String, String>,
    body: Option<String>,
    body_file: Option<RelativePath>,
    expect: RawExpect,
    /// Values that later steps use; only in `steps`.
    extract: BTreeMap<String, RawExtraction>,
}

/// Message for connections with 0 requests.
const NO_REQUESTS: &str = "a connection must serve at least 1 request";

/// A subject's name, and the values of its placeholders.
pub type SubjectValues<'a> = (String, &'a request_values::Values);

/// Checks the workloads of a suite. `subjects`: at least one.
pub fn check_workloads(
    raw: Vec<RawWorkload>,
    subjects: &[SubjectValues<'_>],
    read: ReadFile<'_>,
) -> Result<Vec<Workload>, Mistake> {
    if raw.is_empty() {
        return Ok(vec![plaintext()]);
    }
    let in_workload = |i: usize| move |m: Mistake| m.with_parent(i).with_parent("workloads");
    let checked = raw
        .into_iter()
        .enumerate()
        .map(|(i, raw)| raw.check(subjects, read).map_err(in_workload(i)));
    let checked = checked.collect::<Result<Vec<_>, _>>()?;
    for (i, workload) in checked.iter().enumerate() {
        if checked[..i].iter().any(|other| other.name == workload.name) {
            let message = format!(
                "two workloads have the name {:?}\nhint: give each workload its own `name`",
                workload.name
            );
            return Err(in_workload(i)(mistake("name", message)));
        }
    }
    Ok(checked)
}

/// Returns the default workload: the hello contract's plaintext.
#[must_use]
pub fn plaintext() -> Workload {
    let body = Some(Body(b"Hello, World!".to_vec()));
    let request = Request {
        name: "plaintext".into(),
        weight: 1,
        method: "GET".into(),
        path: "/plaintext".into(),
        expect: Expect { status: Some(200), body, ..Expect::default() },
        ..Request::default()
    };
    Workload {
        name: "plaintext".into(),
        protocol: Protocol::H1,
        requests: vec![request],
        page: None,
        sequence: None,
        requests_per_connection: None,
    }
}

impl RawWorkload {
    fn check(
        mut self,
        subjects: &[SubjectValues<'_>],
        read: ReadFile<'_>,
    ) -> Result<Workload, Mistake> {
        let protocol = check_protocol(self.protocol.as_deref(), self.tls)?;
        let page = self.page.take();
        let requests_per_connection = self.requests_per_connection.take();
        if requests_per_connection == Some(0) {
            return Err(mistake("requests_per_connection", NO_REQUESTS));
        }
        if page.is_some() && requests_per_connection.is_some() {
            let message = "`requests_per_connection`: cannot be used with a page, because the \
                           connections of a page stay open\nhint: remove the key";
            return Err(mistake("requests_per_connection", message));
        }
        let sequence = self.check_sequence(page.as_ref())?;
        let (name, located) = self.into_requests(page.as_ref(), read)?;
        let (requests, origins): (Vec<_>, Vec<_>) = located.into_iter().unzip();
        let page = page.map(|page| Page { connections: page.connections });
        let workload =
            Workload { name, protocol, requests, page, sequence, requests_per_connection };
        // The name of a file that cannot be read. The error points to this name in the suite.
        let unreadable_file = RefCell::new(None);
        let read = |file: &str| {
            read(file).inspect_err(|_| *unreadable_file.borrow_mut() = Some(file.to_string()))
        };
        let has_values = subjects.iter().any(|(_, values)| !values.is_empty());
        for (i, (name, values)) in subjects.iter().enumerate() {
            // Most subjects have no values, or the values of another subject.
            if subjects[..i].iter().any(|(_, other_values)| other_values == values) {
                continue;
            }
            let filled = request_values::fill_placeholders(&workload, values);
            compile::check(&filled, &read).map_err(|error| {
                let mistake = locate(error, &origins).with_words(unreadable_file.take());
                if has_values { mistake.with_prefix(name) } else { mistake }
            })?;
            check_expected(&workload, name, values)?;
        }
        Ok(workload)
    }

    /// Checks the keys that cannot be combined with a sequence. `None`: the workload has no
    /// `steps`.
    fn check_sequence(&self, page: Option<&RawPage>) -> Result<Option<Sequence>, Mistake> {
        let Some(steps) = &self.steps else {
            return match self.cookies {
                None => Ok(None),
                Some(_) => Err(mistake("cookies", COOKIES_NEED_STEPS)),
            };
        };
        let other_key = if page.is_some() { Some("page") } else { None };
        if let Some(key) = other_key.or(self.requests.as_ref().map(|_| "requests")) {
            let message = format!(
                "`{key}`: cannot be combined with `steps`, which are the requests of the \
                 workload\nhint: remove one of the two keys"
            );
            return Err(mistake(key, message));
        }
        if steps.len() < 2 {
            return Err(mistake("steps", SINGLE_STEP));
        }
        if steps.len() > limits::STEPS {
            return Err(mistake("steps", too_many_steps(steps.len())));
        }
        if let Some(index) = steps.iter().position(|step| step.weight.is_some()) {
            let message = "`weight`: has no effect in a step, because all steps are sent in \
                           order\nhint: remove `weight`";
            return Err(mistake("weight", message).with_parent(index).with_parent("steps"));
        }
        let cookies = if self.cookies == Some(true) { Cookies::Kept } else { Cookies::Ignored };
        Ok(Some(Sequence { cookies }))
    }

    /// Returns the workload's name, and its requests.
    fn into_requests(
        self,
        page: Option<&RawPage>,
        read: ReadFile<'_>,
    ) -> Result<(String, Vec<LocatedRequest>), Mistake> {
        let (name, table_request, requests, steps) = self.split();
        if let Some(steps) = steps {
            if table_request != RawRequest::default() {
                return Err(mistake(
                    "steps",
                    "a workload has either a `path` or `steps`, not both\nhint: remove one of the \
                     two",
                ));
            }
            let located = check_list("steps", steps, read)?;
            return Ok((name.unwrap_or_else(|| "sequence".into()), located));
        }
        match requests {
            Some(_) if table_request != RawRequest::default() => Err(mistake(
                "requests",
                "a workload has either a `path` or a mix of `requests`, not both\nhint: remove one \
                 of the two",
            )),
            Some(_) if page.is_some() => Err(mistake(
                "page",
                "`requests`: cannot be used with a page, which is one document with its \
                 resources\nhint: remove `requests`",
            )),
            Some(requests) => {
                let located = check_list("requests", requests, read)?;
                Ok((name.unwrap_or_else(|| "mix".into()), located))
            }
            None => {
                let body = table_request.body_key();
                let request = RawRequest { name, ..table_request }.check(read)?;
                let name = request.name.clone();
                let mut located = vec![(request, Origin::Workload { body })];
                if let Some(page) = page {
                    located.extend(check_page(page).map_err(|m| m.with_parent("page"))?);
                }
                Ok((name, located))
            }
        }
    }

    /// Returns the name, the request in the workload's own table, the mix and the sequence.
    fn split(
        self,
    ) -> (Option<String>, RawRequest, Option<Vec<RawRequest>>, Option<Vec<RawRequest>>) {
        let table_request = RawRequest {
            name: None,
            weight: None,
            method: self.method,
            path: self.path,
            headers: self.headers,
            body: self.body,
            body_file: self.body_file,
            expect: self.expect,
            extract: BTreeMap::new(),
        };
        (self.name, table_request, self.requests, self.steps)
    }
}

/// Checks that every placeholder of the expectations has a value. No later check would report a
/// missing value.
fn check_expected(
    workload: &Workload,
    subject: &str,
    values: &request_values::Values,
) -> Result<(), Mistake> {
    match request_values::required_names(workload).iter().find(|name| !values.contains_key(*name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!(
                "{{request.{name}}}: has no value for {subject}\nhint: set `request = {{ {name} = \
                 … }}` for the subject, or vary the value in an experiment"
            );
            Err(mistake("expect", message))
        }
    }
}

/// The position of a request in its workload.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// In the workload's table. `body`: the key that has the body.
    Workload { body: &'static str },
    /// In a list of the workload, at this index.
    Listed { list: &'static str, index: usize, body: &'static str },
    /// A resource of the page, at this index of `resources`.
    Resource(usize),
}

/// A request and its position.
type LocatedRequest = (Request, Origin);

/// Locates a value that cannot be sent, relative to the workload's table.
fn locate(error: CompileError, origins: &[Origin]) -> Mistake {
    let Some((index, field)) = error.location else { return mistake("requests", error.message) };
    match origins[index] {
        Origin::Workload { body } => locate_field(field, body, error.message),
        Origin::Listed { list, index, body } => {
            locate_field(field, body, error.message).with_parent(index).with_parent(list)
        }
        Origin::Resource(entry) => {
            mistake("page", error.message).with_child("resources").with_child(entry)
        }
    }
}

/// Locates a part of a request that cannot be sent, relative to the request's table. `body`: the
/// key that has its body.
pub(crate) fn locate_field(field: Field, body: &'static str, message: String) -> Mistake {
    match field {
        Field::Method => mistake("method", message),
        Field::Path => mistake("path", message),
        Field::Header(name) => mistake("headers", message).with_child(name),
        Field::Body => mistake(body, message),
        Field::Sha256 => mistake("expect", message).with_child("body_sha256"),
        Field::Expected(key) => mistake("expect", message).with_child(key),
        Field::Json(pointer) => mistake("expect", message).with_child("json").with_child(pointer),
        Field::ExpectedHeader(name) => {
            mistake("expect", message).with_child("headers").with_child(name)
        }
        Field::BodyMatches => mistake("expect", message).with_child("body_matches"),
        Field::JsonMatches(pointer) => {
            mistake("expect", message).with_child("json_matches").with_child(pointer)
        }
        Field::Extract(name) => mistake("extract", message).with_child(name),
    }
}

/// Reads the resources of a page.
fn check_page(page: &RawPage) -> Result<Vec<LocatedRequest>, Mistake> {
    if !(1..=64).contains(&page.connections) {
        return Err(mistake("connections", "`connections`: must be 1 to 64 for a page"));
    }
    let mut located = Vec::new();
    for (i, text) in page.resources.iter().enumerate() {
        let requests =
            resources(text).map_err(|message| mistake("resources", message).with_child(i))?;
        located.extend(requests.into_iter().map(|request| (request, Origin::Resource(i))));
    }
    if located.is_empty() {
        return Err(mistake(
            "resources",
            "`resources`: the list must have at least one entry, such as \"/style.css\"",
        ));
    }
    Ok(located)
}

/// Parses the resources of a page: `/a.css`, or `/icon*20` for twenty requests of the same path.
pub fn resources(text: &str) -> Result<Vec<Request>, String> {
    let error = || {
        format!(
            "resource {text:?}: must be a path that begins with a slash, with an optional count up \
             to {}\nhint: write it like \"/style.css\", or \"/icon*20\" for twenty requests of \
             that path",
            limits::RESOURCES
        )
    };
    let (path, times) = match text.rsplit_once('*') {
        Some((path, times)) => (path, times.parse::<u32>().map_err(|_| error())?),
        None => (text, 1),
    };
    if !path.starts_with('/') || !(1..=limits::RESOURCES).contains(&times) {
        return Err(error());
    }
    let resource = |i: u32| Request {
        name: if times > 1 { format!("{path} #{}", i + 1) } else { path.into() },
        weight: 1,
        method: "GET".into(),
        path: path.into(),
        ..Request::default()
    };
    Ok((0..times).map(resource).collect())
}

/// Returns the protocol with this name, with TLS if it is requested or part of the protocol.
fn check_protocol(name: Option<&str>, tls: Option<bool>) -> Result<Protocol, Mistake> {
    let name = name.unwrap_or("h1");
    let has_name = |protocol: &Protocol| protocol.base_name() == name;
    let Some(protocol) = Protocol::OF_SERVERS.into_iter().find(has_name) else {
        return Err(mistake(
            "protocol",
            format!(
                "protocol {name:?}: unknown\nhint: use \"h1\", \"h2\" (HTTP/2 over TLS), \"h2c\" \
                 (HTTP/2 without TLS, by prior knowledge) or \"h2c-upgrade\""
            ),
        ));
    };
    let uses_tls = tls.unwrap_or(protocol.is_tls());
    Protocol::from_base_name(name, uses_tls).ok_or_else(|| {
        if protocol.is_tls() {
            return mistake(
                "tls",
                "protocol \"h2\": needs TLS, because the TLS handshake negotiates it\nhint: for \
                 HTTP/2 without TLS set `protocol` to \"h2c\" or \"h2c-upgrade\"",
            );
        }
        mistake("tls", format!(
            "protocol {name:?}: is HTTP/2 without TLS\nhint: for HTTP/2 over TLS set `protocol` to \
             \"h2\""))
    })
}

/// Checks the requests of a mix or of a sequence. `list`: the key that has them.
fn check_list(
    list: &'static str,
    raw: Vec<RawRequest>,
    read: ReadFile<'_>,
) -> Result<Vec<LocatedRequest>, Mistake> {
    let in_request = |i: usize| move |m: Mistake| m.with_parent(i).with_parent(list);
    let mut located: Vec<LocatedRequest> = Vec::new();
    let unnamed: Vec<bool> = raw.iter().map(|raw| raw.name.is_none()).collect();
    for (index, raw) in raw.into_iter().enumerate() {
        let origin = Origin::Listed { list, index, body: raw.body_key() };
        located.push((raw.check(read).map_err(in_request(index))?, origin));
    }
    if located.is_empty() {
        return Err(mistake(list, format!("`{list}`: the list must have at least one entry")));
    }
    number_masked_names(&mut located, &unnamed);
    for (i, (request, _)) in located.iter().enumerate() {
        if located[..i].iter().any(|(other, _)| other.name == request.name) {
            let message = format!(
                "two requests have the name {:?}\nhint: give each request its own `name`",
                request.name
            );
            return Err(in_request(i)(mistake("name", message)));
        }
    }
    Ok(located)
}

/// Numbers the generated names of requests whose paths differ only in a masked value.
fn number_masked_names(requests: &mut [LocatedRequest], unnamed: &[bool]) {
    for (i, is_unnamed) in unnamed.iter().enumerate() {
        let (before, rest) = requests.split_at_mut(i);
        let (request, _) = &mut rest[0];
        let is_masked = *is_unnamed && request.name.contains(MASK);
        let same_names = before.iter().filter(|(other, _)| {
            generated_name(&other.path) == request.name && other.path != request.path
        });
        let same_names = same_names.count();
        if is_masked && same_names > 0 {
            request.name = format!("{} ({})", request.name, same_names + 1);
        }
    }
}

/// Replaces the values of query parameters that may be confidential, in generated names.
const MASK: &str = "=…";

/// Returns the name of an unnamed request. Names appear in all reports, so the value of a parameter
/// whose name suggests a secret is masked.
fn generated_name(path: &str) -> String {
    let mask = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if is_secret_parameter(name) => format!("{name}{MASK}"),
        _ => pair.into(),
    };
    match with_parameters(path, mask).trim_matches('/') {
        "" => "root".into(),
        path => path.replace('/', "-"),
    }
}

impl RawRequest {
    /// Returns the key that has the body.
    const fn body_key(&self) -> &'static str {
        if self.body_file.is_some() { "body_file" } else { "body" }
    }

    /// Returns the first key that only requests of a mix have.
    #[must_use]
    pub const fn mix_key(&self) -> Option<&'static str> {
        match (&self.name, self.weight) {
            (Some(_), _) => Some("name"),
            (None, Some(_)) => Some("weight"),
            (None, None) => None,
        }
    }

    /// # Errors
    /// A value cannot be sent, or a file cannot be read.
    pub fn check(self, read: ReadFile<'_>) -> Result<Request, Mistake> {
        let path = self.path.ok_or_else(|| {
            mistake("path", "`path`: a request must have one, such as \"/plaintext\"")
        })?;
        if !path.starts_with('/') {
            return Err(mistake("path", format!("path {}: must begin with a slash", quote(&path))));
        }
        if let Some(name) = self.headers.keys().find(|name| header::is_framing(name)) {
            return Err(mistake("headers", header::framing_error(name)).with_child(name.clone()));
        }
        let body = match (self.body, self.body_file) {
            (Some(_), Some(_)) => {
                return Err(mistake(
                    "body_file",
                    "a request has a `body` or a `body_file`, not both\nhint: remove one of the \
                     two",
                ));
            }
            (Some(text), None) => Some(Body(text.into_bytes())),
            (None, Some(file)) => {
                let bytes = read(&file.to_string());
                Some(Body(bytes.map_err(|error| mistake("body_file", format!("{file}: {error}")))?))
            }
            (None, None) => None,
        };
        let extract = self.extract.into_iter().map(|(name, extraction)| extraction.check(name));
        let extract = extract.collect::<Result<_, _>>().map_err(|m| m.with_parent("extract"))?;
        Ok(Request {
            extract,
            name: self.name.unwrap_or_else(|| generated_name(&path)),
            weight: self.weight.unwrap_or(1),
            method: self.method.unwrap_or_else(|| "GET".into()),
            path,
            headers: self.headers.into_iter().collect(),
            body,
            expect: self.expect.check().map_err(|m| m.with_parent("expect"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_masked_values_are_numbered() {
        let request = |path: &str| Request {
            name: generated_name(path),
            path: path.into(),
            ..Request::default()
        };
        let origin = || Origin::Listed { list: "requests", index: 0, body: "body" };
        let mut requests: Vec<LocatedRequest> =
            ["/a?key=1", "/a?key=2", "/b", "/a?key=3"].map(|path| (request(path), origin())).into();
        number_masked_names(&mut requests, &[true; 4]);
        let names: Vec<&str> = requests.iter().map(|(request, _)| &*request.name).collect();
        assert_eq!(names, ["a?key=…", "a?key=… (2)", "b", "a?key=… (3)"]);
    }

    #[test]
    fn generated_name_is_path_with_masks() {
        for (path, name) in [
            ("/queries?n=1", "queries?n=1"),
            ("/a/b/", "a-b"),
            ("/", "root"),
            ("/?a=1", "?a=1"),
            ("/items?n=1&token=abc123/x", "items?n=1&token=…"),
        ] {
            assert_eq!(generated_name(path), name, "{path}");
        }
    }
}
