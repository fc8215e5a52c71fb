//! Suite files: what a person asks for. docs/suites.md describes every key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dyno_archive::plan::{
    Arrivals, Body, Expect, Gaps, Http2, Limits, Marker, Order, Page, ReportOptions, Request, Step, Suite,
    Workload,
};
use dyno_engine::Protocol;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::limits;
use crate::text::{self, FileError};
use crate::units;

/// A suite, checked, with every default filled in. Which subjects exist is not known yet.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteFile {
    pub suite: Suite,
    pub repeats: u32,
    /// `None`: drawn when the run is planned, and recorded.
    pub seed: Option<u64>,
    pub order: Order,
    pub limits: Limits,
    /// CPUs of the subjects; `None`: chosen when the run is planned.
    pub cpuset: Option<Vec<u32>>,
    pub subjects: Vec<Wanted>,
    pub workloads: Vec<Workload>,
    pub load: LoadOptions,
    /// Of each workload, which of the load's steps it has.
    pub steps_of: Vec<Vec<usize>>,
    pub cost: Option<dyno_archive::plan::Cost>,
    pub report: ReportOptions,
}

/// A subject as the suite asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub name: String,
    pub variant: Option<String>,
    pub env: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LoadOptions {
    pub warmup_ns: u64,
    pub duration_ns: u64,
    pub interval_ns: u64,
    pub timeout_ns: u64,
    pub connect_timeout_ns: u64,
    pub first_byte_timeout_ns: Option<u64>,
    pub requests_per_connection: Option<u64>,
    pub ramp_connections_ns: Option<u64>,
    pub check_one_in: u64,
    pub spin: Spin,
    pub threads: Option<u32>,
    pub driver: Option<String>,
    pub http2: Http2,
    /// Of all workloads, each once.
    pub steps: Vec<Step>,
}

impl SuiteFile {
    /// Reads a suite file.
    pub fn read(path: &Path) -> Result<SuiteFile, FileError> {
        let source = std::fs::read_to_string(path)
            .map_err(|error| FileError::whole(path, format!("cannot be read: {error}")))?;
        SuiteFile::parse(path, &source)
    }

    pub fn parse(path: &Path, source: &str) -> Result<SuiteFile, FileError> {
        let raw: Raw = text::parse_toml(path, source)?;
        raw.check(path, source).map_err(|message| locate(path, source, message))
    }
}

/// Finds the line that a mistake in a value is about: the first that has its key.
fn locate(path: &Path, source: &str, mistake: Mistake) -> FileError {
    let at = source.lines().scan(0, |start, line| {
        let here = *start;
        *start += line.len() + 1;
        Some((here, line))
    });
    let found = at.into_iter().find_map(|(start, line)| {
        let key = line.split('=').next()?.trim();
        (key == mistake.key && line.contains('=')).then(|| start..start + line.trim_end().len())
    });
    match found {
        Some(span) => FileError::at(path, source, span, mistake.message),
        None => FileError::whole(path, mistake.message),
    }
}

struct Mistake {
    key: &'static str,
    message: String,
}

fn mistake(key: &'static str, message: impl Into<String>) -> Mistake {
    Mistake { key, message: message.into() }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    suite: RawSuite,
    #[serde(default)]
    limits: RawLimits,
    #[serde(default)]
    subjects: Vec<RawSubject>,
    #[serde(default)]
    workloads: Vec<RawWorkload>,
    #[serde(default)]
    load: RawLoad,
    cost: Option<dyno_archive::plan::Cost>,
    #[serde(default)]
    report: RawReport,
    /// Known, so that it is refused for what it is.
    backends: Option<toml::Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawSuite {
    name: Option<String>,
    description: String,
    repeats: Option<u32>,
    seed: Option<u64>,
    order: Order,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawLimits {
    cpus: Option<f64>,
    cpuset: Option<String>,
    memory: Option<String>,
    files: Option<u64>,
}

/// A subject is its name, or a table.
#[derive(Debug)]
struct RawSubject(Wanted);

impl<'de> Deserialize<'de> for RawSubject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            r#use: String,
            variant: Option<String>,
            #[serde(default)]
            env: BTreeMap<String, String>,
        }
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = RawSubject;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a subject's name, or a table with `use`")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<RawSubject, E> {
                let (name, variant) = match name.split_once('/') {
                    Some((name, variant)) => (name, Some(variant.to_string())),
                    None => (name, None),
                };
                Ok(RawSubject(Wanted { name: name.into(), variant, ..Wanted::default() }))
            }

            fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<RawSubject, M::Error> {
                let table = Table::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(RawSubject(Wanted { name: table.r#use, variant: table.variant, env: table.env }))
            }
        }
        from.deserialize_any(Visitor)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawWorkload {
    name: Option<String>,
    protocol: Option<String>,
    tls: Option<bool>,
    streams: Option<OneOrMany<u32>>,
    method: Option<String>,
    path: Option<String>,
    headers: BTreeMap<String, String>,
    body: Option<String>,
    body_file: Option<String>,
    expect: RawExpect,
    /// A weighted mix instead of the one request above.
    requests: Option<Vec<RawRequest>>,
    /// The request above is a document, and these follow it.
    page: Option<RawPage>,
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

/// Streams over which a page is loaded in HTTP/2 unless somebody says otherwise: what servers usually allow, for browsers
/// ask for all of a page at once.
pub const PAGE_STREAMS: u32 = 100;

/// Connections over which browsers load a page in HTTP/1.1.
pub const PAGE_CONNECTIONS: u32 = 6;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawRequest {
    name: Option<String>,
    weight: Option<u32>,
    method: Option<String>,
    path: Option<String>,
    headers: BTreeMap<String, String>,
    body: Option<String>,
    body_file: Option<String>,
    expect: RawExpect,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawExpect {
    status: Option<u16>,
    body: Option<String>,
    headers: BTreeMap<String, RawHeader>,
    body_sha256: Option<String>,
    body_contains: Option<String>,
    json: BTreeMap<String, serde_json::Value>,
}

/// A header that must be there: `true`, or the value that it must have.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum RawHeader {
    Present(bool),
    Value(String),
}

impl RawExpect {
    fn check(self) -> Result<Expect, Mistake> {
        let headers = self.headers.into_iter().map(|(name, wanted)| match wanted {
            RawHeader::Present(true) => Ok((name, None)),
            RawHeader::Value(value) => Ok((name, Some(value))),
            RawHeader::Present(false) => Err(mistake(
                "headers",
                "an expected header is `true`, which means present, or its value; leave out what may be missing",
            )),
        });
        Ok(Expect {
            status: self.status,
            body: self.body.map(|text| Body(text.into_bytes())),
            headers: headers.collect::<Result<_, _>>()?,
            body_sha256: self.body_sha256,
            body_contains: self.body_contains,
            json: self.json.into_iter().collect(),
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawLoad {
    model: Option<Model>,
    arrival: Option<Arrival>,
    connections: Option<OneOrMany<u32>>,
    in_flight: Option<OneOrMany<u32>>,
    rate: Option<OneOrMany<Rate>>,
    streams: Option<OneOrMany<u32>>,
    pipeline: Option<OneOrMany<u32>>,
    window_bits: Option<u32>,
    connection_window_bits: Option<u32>,
    header_table_size: Option<u32>,
    requests_per_connection: Option<u64>,
    warmup: Option<String>,
    duration: Option<String>,
    interval: Option<String>,
    timeout: Option<String>,
    first_byte_timeout: Option<String>,
    connect_timeout: Option<String>,
    ramp_connections: Option<String>,
    check_one_in: Option<u64>,
    spin: Option<Spin>,
    trace: Option<String>,
    threads: Option<u32>,
    driver: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Model {
    Closed,
    Open,
}

/// Whether the generator polls instead of sleeping where waking late would blur times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Spin {
    /// In an open loop, near deadlines, if the generator has CPUs of its own.
    #[default]
    Auto,
    Never,
    Always,
}

impl Spin {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Spin::Auto => "auto",
            Spin::Never => "never",
            Spin::Always => "always",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Spin> {
        [Spin::Auto, Spin::Never, Spin::Always].into_iter().find(|spin| spin.name() == name)
    }

    /// What it comes to for one load.
    #[must_use]
    pub fn resolve(self, arrivals: &Arrivals, has_own_cpus: bool) -> dyno_engine::Spin {
        match self {
            Spin::Always => dyno_engine::Spin::Always,
            Spin::Auto if !arrivals.is_closed() && has_own_cpus => dyno_engine::Spin::Near,
            Spin::Auto | Spin::Never => dyno_engine::Spin::Never,
        }
    }
}

/// Of how many answers one is checked in full, unless the user says.
pub const CHECK_ONE_IN: u64 = 100;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Arrival {
    #[default]
    Constant,
    Poisson,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    fn all(self) -> Vec<T> {
        match self {
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Rate {
    Number(f64),
    Text(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawReport {
    baseline: Option<String>,
    markers: Vec<Marker>,
}

impl Raw {
    fn check(self, path: &Path, source: &str) -> Result<SuiteFile, Mistake> {
        if self.subjects.is_empty() {
            return Err(mistake(
                "subjects",
                "there are no subjects; name at least one, for instance `subjects = [\"null\"]` \
                 (`dyno subjects list` shows which there are)",
            ));
        }
        if self.backends.is_some() {
            return Err(mistake(
                "backends",
                "`backends` cannot be started by this version of dyno; start them by hand and leave the key out",
            ));
        }
        let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let limits = self.limits.check()?;
        let shaped = check_workloads(self.workloads)?;
        let has_pages = shaped.iter().any(|s| s.workload.page.is_some());
        if has_pages && self.load.in_flight.is_some() {
            return Err(mistake(
                "in_flight",
                "how many requests of a page are in flight changes as it loads; give the number of visitors as `connections`",
            ));
        }
        let (load, steps_of) = self.load.check(&shaped)?;
        if has_pages {
            check_pages(&load)?;
        }
        Ok(SuiteFile {
            suite: Suite {
                name: self.suite.name.unwrap_or(stem),
                description: self.suite.description,
                source: source.into(),
                path: path.display().to_string(),
            },
            repeats: positive("repeats", self.suite.repeats.unwrap_or(3))?,
            seed: self.suite.seed,
            order: self.suite.order,
            limits: limits.0,
            cpuset: limits.1,
            subjects: self.subjects.into_iter().map(|s| s.0).collect(),
            workloads: shaped.into_iter().map(|shaped| shaped.workload).collect(),
            load,
            steps_of,
            cost: self.cost,
            report: ReportOptions { baseline: self.report.baseline, markers: self.report.markers },
        })
    }
}

fn positive(key: &'static str, n: u32) -> Result<u32, Mistake> {
    if n == 0 { Err(mistake(key, format!("`{key}` must be at least 1"))) } else { Ok(n) }
}

impl RawLimits {
    fn check(self) -> Result<(Limits, Option<Vec<u32>>), Mistake> {
        if self.cpus.is_some_and(|cpus| !(0.01..=4096.0).contains(&cpus)) {
            return Err(mistake(
                "cpus",
                "`cpus` is a quota in CPUs, from 0.01 upwards: 1.5 is one and a half",
            ));
        }
        let memory =
            self.memory.as_deref().map(units::bytes).transpose().map_err(|m| mistake("memory", m))?;
        if memory.is_some_and(|bytes| bytes < 1 << 20) {
            return Err(mistake("memory", "a memory limit below 1MiB starts no process"));
        }
        let cpuset =
            self.cpuset.as_deref().map(units::cpu_list).transpose().map_err(|m| mistake("cpuset", m))?;
        let limits = Limits { cpus: self.cpus, memory_bytes: memory, open_files: self.files };
        Ok((limits, cpuset))
    }
}

/// A workload, with what it has to say of the steps.
#[derive(Debug)]
struct Shaped {
    workload: Workload,
    protocol: Protocol,
    /// Its own, in place of the load's.
    streams: Option<Vec<u32>>,
}

fn check_workloads(raw: Vec<RawWorkload>) -> Result<Vec<Shaped>, Mistake> {
    if raw.is_empty() {
        return Ok(vec![Shaped { workload: plaintext(), protocol: Protocol::H1, streams: None }]);
    }
    let shaped: Vec<Shaped> = raw.into_iter().map(RawWorkload::check).collect::<Result<_, _>>()?;
    for (i, Shaped { workload, .. }) in shaped.iter().enumerate() {
        if shaped[..i].iter().any(|s| s.workload.name == workload.name) {
            return Err(mistake(
                "name",
                format!("two workloads are called {:?}; give each its `name`", workload.name),
            ));
        }
    }
    Ok(shaped)
}

/// The workload of a suite that names none: the hello contract's plaintext.
#[must_use]
pub fn plaintext() -> Workload {
    let body = Some(Body(b"Hello, World!".to_vec()));
    let request = Request {
        name: "plaintext".into(),
        weight: 1,
        method: "GET".into(),
        path: "/plaintext".into(),
        headers: Vec::new(),
        body: None,
        expect: Expect { status: Some(200), body, ..Expect::default() },
    };
    Workload {
        name: "plaintext".into(),
        protocol: "h1".into(),
        tls: false,
        requests: vec![request],
        page: None,
    }
}

impl RawWorkload {
    fn check(mut self) -> Result<Shaped, Mistake> {
        let protocol = check_protocol(self.protocol.as_deref())?;
        let page = self.page.take();
        let tls = check_tls(protocol, self.tls)?;
        let streams = self.streams.clone().map(OneOrMany::all);
        if !protocol.is_h2() && streams.as_ref().is_some_and(|all| all.iter().any(|s| *s != 1)) {
            return Err(mistake("streams", NO_STREAMS));
        }
        let (name, own, requests) = self.split();
        let (name, requests) = match requests {
            Some(_) if own != RawRequest::default() => {
                return Err(mistake(
                    "requests",
                    "a workload has either a `path` with its keys or a mix of `requests` with theirs; give one",
                ));
            }
            Some(_) if page.is_some() => {
                return Err(mistake(
                    "page",
                    "a page is one document with its resources; leave out `requests`",
                ));
            }
            Some(requests) => (name.unwrap_or_else(|| "mix".into()), check_mix(requests)?),
            None => {
                let request = RawRequest { name, ..own }.check()?;
                let name = request.name.clone();
                let mut requests = vec![request];
                if let Some(page) = &page {
                    requests.extend(check_page(page)?);
                }
                (name, requests)
            }
        };
        let page = page.map(|page| Page { connections: page.connections });
        let workload = Workload { name, protocol: protocol.name().into(), tls, requests, page };
        crate::traffic::compile(&workload, "host", &Http2::default(), &|file| {
            std::fs::read(file).map_err(|error| error.to_string())
        })
        .map_err(|message| mistake("path", message))?;
        Ok(Shaped { workload, protocol, streams })
    }

    /// The name, the one request that stands in the workload itself, and the mix.
    fn split(self) -> (Option<String>, RawRequest, Option<Vec<RawRequest>>) {
        let own = RawRequest {
            name: None,
            weight: None,
            method: self.method,
            path: self.path,
            headers: self.headers,
            body: self.body,
            body_file: self.body_file,
            expect: self.expect,
        };
        (self.name, own, self.requests)
    }
}

/// Pages are loaded one after the other by visitors who keep their connections.
fn check_pages(load: &LoadOptions) -> Result<(), Mistake> {
    let wrong = |key, with| {
        Err(mistake(
            key,
            format!(
                "pages are loaded one after the other by each visitor, over connections that are kept; leave out `{with}`"
            ),
        ))
    };
    if load.steps.iter().any(|step| !step.arrivals.is_closed()) {
        return wrong("rate", "rate");
    }
    if load.steps.iter().any(|step| step.pipeline > 1) {
        return wrong("pipeline", "pipeline");
    }
    if load.requests_per_connection.is_some() {
        return wrong("requests_per_connection", "requests_per_connection");
    }
    if load.ramp_connections_ns.is_some() {
        return wrong("ramp_connections", "ramp_connections");
    }
    Ok(())
}

/// The resources of a page.
fn check_page(page: &RawPage) -> Result<Vec<Request>, Mistake> {
    if !(1..=64).contains(&page.connections) {
        return Err(mistake("connections", "a page is loaded over 1 to 64 connections"));
    }
    let all: Result<Vec<_>, String> = page.resources.iter().map(|text| resources(text)).collect();
    let all: Vec<Request> = all.map_err(|message| mistake("resources", message))?.concat();
    if all.is_empty() {
        return Err(mistake("resources", "a page has at least one resource, such as \"/style.css\""));
    }
    Ok(all)
}

/// `/a.css`, or `/icon*20` for twenty times the same: requests for resources of a page.
pub fn resources(text: &str) -> Result<Vec<Request>, String> {
    let wrong =
        || format!("the resource {text:?}: write it like \"/style.css\", or \"/icon*20\" for twenty of them");
    let (path, times) = match text.rsplit_once('*') {
        Some((path, times)) => (path, times.parse::<u32>().map_err(|_| wrong())?),
        None => (text, 1),
    };
    if !path.starts_with('/') || !(1..=limits::RESOURCES).contains(&times) {
        return Err(wrong());
    }
    let one = |i: u32| Request {
        name: if times > 1 { format!("{path} #{}", i + 1) } else { path.into() },
        weight: 1,
        method: "GET".into(),
        path: path.into(),
        headers: Vec::new(),
        body: None,
        expect: Expect::default(),
    };
    Ok((0..times).map(one).collect())
}

const NO_STREAMS: &str = "streams belong to HTTP/2, and this is HTTP/1.1, which has `pipeline`; \
                          set `protocol` to \"h2\" or \"h2c\", or leave `streams` out";

fn check_protocol(name: Option<&str>) -> Result<Protocol, Mistake> {
    let name = name.unwrap_or("h1");
    Protocol::from_name(name).filter(|protocol| *protocol != Protocol::Auto).ok_or_else(|| {
        mistake(
            "protocol",
            format!(
                "the protocol {name:?} cannot be loaded; there are \"h1\", \"h2\" (HTTP/2 over TLS), \"h2c\" (without, \
                 by prior knowledge) and \"h2c-upgrade\""
            ),
        )
    })
}

/// Whether a protocol goes over TLS, as far as the two belong together.
fn check_tls(protocol: Protocol, asked: Option<bool>) -> Result<bool, Mistake> {
    match (protocol, asked) {
        (Protocol::H2, Some(false)) => Err(mistake(
            "tls",
            "\"h2\" is agreed on in the TLS handshake; without TLS set `protocol` to \"h2c\" or \"h2c-upgrade\"",
        )),
        (Protocol::H2c | Protocol::H2cUpgrade, Some(true)) => Err(mistake(
            "tls",
            format!("{:?} is HTTP/2 without TLS; over TLS set `protocol` to \"h2\"", protocol.name()),
        )),
        (Protocol::H2, None) => Ok(true),
        (_, asked) => Ok(asked.unwrap_or(false)),
    }
}

fn check_mix(requests: Vec<RawRequest>) -> Result<Vec<Request>, Mistake> {
    let requests = requests.into_iter().map(RawRequest::check).collect::<Result<Vec<_>, _>>()?;
    if requests.is_empty() {
        return Err(mistake("requests", "a mix of `requests` has at least one"));
    }
    for (i, request) in requests.iter().enumerate() {
        if requests[..i].iter().any(|r| r.name == request.name) {
            let message = format!("two requests are called {:?}; give each its `name`", request.name);
            return Err(mistake("requests", message));
        }
    }
    Ok(requests)
}

impl RawRequest {
    fn check(self) -> Result<Request, Mistake> {
        let path = self
            .path
            .ok_or_else(|| mistake("workloads", "a workload needs a `path`, such as \"/plaintext\""))?;
        if !path.starts_with('/') {
            return Err(mistake("path", format!("the path {path:?} must begin with a slash")));
        }
        let body = match (self.body, self.body_file) {
            (Some(_), Some(_)) => {
                return Err(mistake("body_file", "a request has a `body` or a `body_file`, not both"));
            }
            (Some(text), None) => Some(Body(text.into_bytes())),
            (None, Some(file)) => {
                let bytes = std::fs::read(&file);
                Some(Body(bytes.map_err(|error| mistake("body_file", format!("{file}: {error}")))?))
            }
            (None, None) => None,
        };
        Ok(Request {
            name: self.name.unwrap_or_else(|| path.trim_matches('/').replace('/', "-")),
            weight: self.weight.unwrap_or(1),
            method: self.method.unwrap_or_else(|| "GET".into()),
            path,
            headers: self.headers.into_iter().collect(),
            body,
            expect: self.expect.check()?,
        })
    }
}

impl RawLoad {
    fn check(self, workloads: &[Shaped]) -> Result<(LoadOptions, Vec<Vec<usize>>), Mistake> {
        let time = |key: &'static str, text: &Option<String>, default: u64| match text {
            Some(text) => units::duration(text).map_err(|m| mistake(key, m)),
            None => Ok(default),
        };
        let optional = |key: &'static str, text: &Option<String>| {
            text.as_deref().map(units::duration).transpose().map_err(|m| mistake(key, m))
        };
        const S: u64 = 1_000_000_000;
        if let Some(driver) = &self.driver
            && dyno_driver::Kind::from_name(driver).is_none()
        {
            return Err(mistake(
                "driver",
                format!("the driver {driver:?} does not exist; there are \"uring\" and \"epoll\""),
            ));
        }
        self.refuse_what_no_workload_has(workloads)?;
        let (steps, steps_of) = self.steps(workloads)?;
        let options = LoadOptions {
            warmup_ns: self.warmup_ns()?,
            duration_ns: self.duration_ns()?,
            interval_ns: time("interval", &self.interval, S)?,
            timeout_ns: time("timeout", &self.timeout, 10 * S)?,
            connect_timeout_ns: time("connect_timeout", &self.connect_timeout, 5 * S)?,
            first_byte_timeout_ns: optional("first_byte_timeout", &self.first_byte_timeout)?,
            requests_per_connection: self.requests_per_connection,
            ramp_connections_ns: optional("ramp_connections", &self.ramp_connections)?,
            check_one_in: self.check_one_in.unwrap_or(CHECK_ONE_IN),
            spin: self.spin.unwrap_or_default(),
            threads: self.threads.map(|t| positive("threads", t)).transpose()?,
            driver: self.driver.clone(),
            http2: self.http2()?,
            steps,
        };
        for (key, ns) in [
            ("duration", options.duration_ns),
            ("interval", options.interval_ns),
            ("timeout", options.timeout_ns),
            ("connect_timeout", options.connect_timeout_ns),
            ("first_byte_timeout", options.first_byte_timeout_ns.unwrap_or(u64::MAX)),
        ] {
            if ns < 10_000_000 {
                return Err(mistake(key, format!("`{key}` must be at least 10ms")));
            }
        }
        if options.requests_per_connection == Some(0) {
            return Err(mistake("requests_per_connection", "a connection serves at least 1 request"));
        }
        Ok((options, steps_of))
    }

    fn warmup_ns(&self) -> Result<u64, Mistake> {
        const DEFAULT: &str = "2s";
        units::span(self.warmup.as_deref().unwrap_or(DEFAULT)).map_err(|m| mistake("warmup", m))
    }

    fn duration_ns(&self) -> Result<u64, Mistake> {
        const DEFAULT: &str = "10s";
        units::span(self.duration.as_deref().unwrap_or(DEFAULT)).map_err(|m| mistake("duration", m))
    }

    /// Keys of one protocol where all workloads speak the other are a mistake, not to be passed over.
    fn refuse_what_no_workload_has(&self, workloads: &[Shaped]) -> Result<(), Mistake> {
        let more_than_one = |given: &Option<OneOrMany<u32>>| {
            given.clone().is_some_and(|given| given.all().iter().any(|n| *n > 1))
        };
        let is_h2 = |shaped: &Shaped| shaped.protocol.is_h2();
        if !workloads.iter().any(is_h2) {
            let h2_keys = [
                ("window_bits", self.window_bits.is_some()),
                ("connection_window_bits", self.connection_window_bits.is_some()),
                ("header_table_size", self.header_table_size.is_some()),
            ];
            if more_than_one(&self.streams) {
                return Err(mistake("streams", NO_STREAMS));
            }
            if let Some((key, _)) = h2_keys.into_iter().find(|(_, given)| *given) {
                let message = format!("`{key}` belongs to HTTP/2, and no workload speaks it; leave it out");
                return Err(mistake(key, message));
            }
        }
        if workloads.iter().all(is_h2) && more_than_one(&self.pipeline) {
            return Err(mistake(
                "pipeline",
                "pipelining belongs to HTTP/1.1, and all workloads speak HTTP/2, which has `streams`",
            ));
        }
        Ok(())
    }

    fn http2(&self) -> Result<Http2, Mistake> {
        let default = Http2::default();
        let bits = |key: &'static str, given: Option<u32>, default: u8| match given.map(u8::try_from) {
            None => Ok(default),
            Some(Ok(bits @ 10..=30)) => Ok(bits),
            Some(_) => Err(mistake(
                key,
                format!("`{key}` is 10 to 30, and the window then 2 to that power, less one, bytes"),
            )),
        };
        Ok(Http2 {
            window_bits: bits("window_bits", self.window_bits, default.window_bits)?,
            connection_window_bits: bits(
                "connection_window_bits",
                self.connection_window_bits,
                default.connection_window_bits,
            )?,
            header_table_size: self.header_table_size.unwrap_or(default.header_table_size),
        })
    }

    fn arrivals(&self) -> Result<Vec<Arrivals>, Mistake> {
        if let Some(file) = &self.trace {
            return Err(mistake(
                "trace",
                format!("the trace {file:?} can only be played by `dyno load --trace`"),
            ));
        }
        let (warmup_ns, duration_ns) = (self.warmup_ns()?, self.duration_ns()?);
        let gaps = self.arrival.unwrap_or_default();
        let rates = self.rate.clone().map(OneOrMany::all).unwrap_or_default();
        let rates = rates
            .into_iter()
            .map(|rate| check_rate(rate, gaps, warmup_ns, duration_ns))
            .collect::<Result<Vec<_>, _>>()?;
        let model = self.model.unwrap_or(if rates.is_empty() { Model::Closed } else { Model::Open });
        match (model, rates.is_empty()) {
            (Model::Closed, true) => Ok(vec![Arrivals::Closed]),
            (Model::Closed, false) => {
                Err(mistake("rate", "a closed loop has no `rate`; leave it out, or set `model = \"open\"`"))
            }
            (Model::Open, true) => {
                Err(mistake("model", "an open loop needs a `rate`, such as 5000 or [1000, \"5k\"]"))
            }
            (Model::Open, false) => Ok(rates),
        }
    }

    /// The steps of all workloads, each once, and which of them each workload has.
    fn steps(&self, workloads: &[Shaped]) -> Result<(Vec<Step>, Vec<Vec<usize>>), Mistake> {
        let arrivals = self.arrivals()?;
        let width = self.width()?;
        let mut all: Vec<Step> = Vec::new();
        let mut steps_of = Vec::new();
        for workload in workloads {
            let mut own: Vec<usize> = Vec::new();
            for step in self.steps_of(workload, &arrivals, &width)? {
                let index = all.iter().position(|known| *known == step).unwrap_or(all.len());
                if index == all.len() {
                    all.push(step);
                }
                if !own.contains(&index) {
                    own.push(index);
                }
            }
            steps_of.push(own);
        }
        Ok((all, steps_of))
    }

    fn width(&self) -> Result<Width, Mistake> {
        let (key, width) = match (&self.connections, &self.in_flight) {
            (Some(_), Some(_)) => {
                return Err(mistake(
                    "in_flight",
                    "`in_flight` says how many connections there are: give it, or `connections`, not both",
                ));
            }
            (None, Some(in_flight)) => ("in_flight", Width::InFlight(in_flight.clone().all())),
            (Some(connections), None) => ("connections", Width::Connections(connections.clone().all())),
            (None, None) => ("connections", Width::Connections(vec![64])),
        };
        let (Width::Connections(all) | Width::InFlight(all)) = &width;
        check_list(key, all)?;
        Ok(width)
    }

    /// The grid of one workload: HTTP/2 has streams, HTTP/1.1 a pipeline.
    fn steps_of(&self, shaped: &Shaped, arrivals: &[Arrivals], width: &Width) -> Result<Vec<Step>, Mistake> {
        let all = |given: &Option<OneOrMany<u32>>| given.clone().map_or_else(|| vec![1], OneOrMany::all);
        let (pipelines, streams) = if shaped.protocol.is_h2() {
            let of_page = shaped.workload.page.is_some() && self.streams.is_none();
            let default = || if of_page { vec![PAGE_STREAMS] } else { all(&self.streams) };
            (vec![1], shaped.streams.clone().unwrap_or_else(default))
        } else {
            (all(&self.pipeline), vec![1])
        };
        check_list("pipeline", &pipelines)?;
        check_list("streams", &streams)?;
        let mut steps = Vec::new();
        for arrivals in arrivals {
            for &pipeline in &pipelines {
                for &streams in &streams {
                    for connections in width.connections(&shaped.workload.name, streams * pipeline)? {
                        let arrivals = arrivals.clone();
                        steps.push(Step { connections, streams, pipeline, arrivals });
                    }
                }
            }
        }
        Ok(steps)
    }
}

/// How wide each step is.
enum Width {
    Connections(Vec<u32>),
    /// Requests in flight at a time, over all connections.
    InFlight(Vec<u32>),
}

impl Width {
    /// The numbers of connections for a workload that has `each` requests in flight on one.
    fn connections(&self, workload: &str, each: u32) -> Result<Vec<u32>, Mistake> {
        let all = match self {
            Width::Connections(all) => return Ok(all.clone()),
            Width::InFlight(all) => all,
        };
        let connections = all.iter().map(|&in_flight| {
            if in_flight % each == 0 {
                return Ok(in_flight / each);
            }
            Err(mistake(
                "in_flight",
                format!(
                    "{in_flight} requests in flight do not come to whole connections with {each} on each, as workload \
                     {workload:?} has them; ask for a multiple of {each}"
                ),
            ))
        });
        connections.collect()
    }
}

fn check_list(key: &'static str, all: &[u32]) -> Result<(), Mistake> {
    if all.is_empty() {
        return Err(mistake(key, format!("a list of `{key}` needs at least one entry")));
    }
    all.iter().try_for_each(|n| positive(key, *n).map(drop))
}

fn check_rate(rate: Rate, arrival: Arrival, warmup_ns: u64, duration_ns: u64) -> Result<Arrivals, Mistake> {
    let text = match rate {
        Rate::Number(n) => n.to_string(),
        Rate::Text(text) => text,
    };
    let gaps = match arrival {
        Arrival::Constant => Gaps::Even,
        Arrival::Poisson => Gaps::Exponential,
    };
    units::rate(&text, warmup_ns, duration_ns)
        .map(|profile| profile.arrivals(gaps))
        .map_err(|m| mistake("rate", m))
}

/// Where suites and subjects lie: the first folder named `subjects` at or above a path.
#[must_use]
pub fn find_upwards(from: &Path, name: &str) -> Option<PathBuf> {
    let from = std::fs::canonicalize(from).ok()?;
    from.ancestors().map(|a| a.join(name)).find(|p| p.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(source: &str) -> Result<SuiteFile, String> {
        SuiteFile::parse(Path::new("suites/s.toml"), source).map_err(|e| e.to_string())
    }

    #[test]
    fn the_smallest_suite_is_a_list_of_subjects() {
        let suite = parse("subjects = [\"null\", \"node-http/cluster\"]").unwrap();
        assert_eq!(suite.suite.name, "s");
        assert_eq!(suite.subjects[1].variant.as_deref(), Some("cluster"));
        assert_eq!((suite.repeats, suite.load.steps.len()), (3, 1));
        assert_eq!(suite.workloads[0].requests[0].path, "/plaintext");
    }

    #[test]
    fn steps_are_the_product_of_lists() {
        let suite = parse("subjects = [\"null\"]\n[load]\nconnections = [1, 8]\npipeline = [1, 16]\nrate = [100, \"5k\"]\narrival = \"poisson\"").unwrap();
        assert_eq!(suite.load.steps.len(), 8);
        assert_eq!(suite.load.steps[7].arrivals, Arrivals::Poisson { rate: 5000.0 });
    }

    #[test]
    fn a_workload_may_be_a_page() {
        let page = |more: &str| {
            parse(&format!(
                "subjects = [\"null\"]\n[[workloads]]\nprotocol = \"h2c\"\npath = \"/a\"\n\
                 page = {{ resources = [\"/b.css\", \"/c*3\"] }}\n{more}"
            ))
        };
        let suite = page("").unwrap();
        let workload = &suite.workloads[0];
        let paths: Vec<&str> = workload.requests.iter().map(|r| r.path.as_str()).collect();
        assert_eq!(paths, ["/a", "/b.css", "/c", "/c", "/c"]);
        assert_eq!(workload.page, Some(Page { connections: 6 }));
        assert_eq!(workload.requests[4].name, "/c #3");
        assert!(page("[load]\nrate = 10").unwrap_err().contains("leave out `rate`"));
        for wrong in [
            "page = { resources = [] }",
            "page = { resources = [\"/a*0\"] }",
            "page = { resources = [\"a\"] }",
        ] {
            assert!(parse(&format!("subjects = [\"null\"]\n[[workloads]]\n{wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_workload_may_be_a_weighted_mix() {
        let suite = parse(
            "subjects = [\"null\"]\n[[workloads]]\nrequests = [\n\
             { path = \"/a\", weight = 80, expect = { headers = { etag = true, server = \"x\" } } },\n\
             { name = \"post\", method = \"POST\", path = \"/b/{seq}\", body = '{\"n\":{seq}}', weight = 20, \
               expect = { json = { \"/ok\" = true } } },\n]",
        )
        .unwrap();
        let workload = &suite.workloads[0];
        assert_eq!((workload.name.as_str(), workload.requests.len()), ("mix", 2));
        assert_eq!(workload.requests[0].expect.headers.len(), 2);
        assert_eq!((workload.requests[1].name.as_str(), workload.requests[1].weight), ("post", 20));
        assert!(workload.requests[1].expect.is_deep());
    }

    #[test]
    fn each_protocol_has_steps_of_its_own() {
        let suite = parse(
            "subjects = [\"null\"]\n[load]\nin_flight = [100, 1000]\nstreams = 10\nwindow_bits = 16\n\
             [[workloads]]\nname = \"a\"\npath = \"/\"\n\
             [[workloads]]\nname = \"b\"\npath = \"/\"\ntls = true\n\
             [[workloads]]\nname = \"c\"\npath = \"/\"\nprotocol = \"h2\"\n\
             [[workloads]]\nname = \"d\"\npath = \"/\"\nprotocol = \"h2c\"\nstreams = [10, 50]\n",
        )
        .unwrap();
        let shapes: Vec<_> = suite.load.steps.iter().map(|s| (s.connections, s.streams)).collect();
        assert_eq!(shapes, [(100, 1), (1000, 1), (10, 10), (100, 10), (2, 50), (20, 50)]);
        assert_eq!(suite.steps_of, [vec![0, 1], vec![0, 1], vec![2, 3], vec![2, 3, 4, 5]]);
        let tls: Vec<_> = suite.workloads.iter().map(|w| w.tls).collect();
        assert_eq!(tls, [false, true, true, false]);
        assert_eq!(suite.load.http2, Http2 { window_bits: 16, ..Http2::default() });
    }

    #[test]
    fn a_pipeline_is_of_http1_alone() {
        let suite = parse(
            "subjects = [\"null\"]\n[load]\nconnections = [8, 8]\npipeline = [1, 16]\nstreams = 4\n\
             [[workloads]]\nname = \"a\"\npath = \"/\"\n\
             [[workloads]]\nname = \"b\"\npath = \"/\"\nprotocol = \"h2c-upgrade\"\n",
        )
        .unwrap();
        let shapes: Vec<_> =
            suite.load.steps.iter().map(|s| (s.connections, s.streams, s.pipeline)).collect();
        assert_eq!(shapes, [(8, 1, 1), (8, 1, 16), (8, 4, 1)]);
        assert_eq!(suite.steps_of, [vec![0, 1], vec![2]]);
    }

    #[test]
    fn a_rate_may_change_within_a_step() {
        let suite = parse("subjects = [\"null\"]\n[load]\nrate = \"100..300\"").unwrap();
        let Arrivals::Shaped { segments, gaps: Gaps::Even } = &suite.load.steps[0].arrivals else {
            panic!("{:?}", suite.load.steps[0].arrivals)
        };
        let ends: Vec<_> = segments.iter().map(|s| (s.from_rate, s.to_rate, s.duration_ns)).collect();
        assert_eq!(ends, [(100.0, 100.0, suite.load.warmup_ns), (100.0, 300.0, 10_000_000_000)]);
    }

    #[test]
    fn mistakes_name_their_line_and_the_way_out() {
        let cases = [
            ("[suite]\nname = \"x\"", "there are no subjects"),
            ("subject = [\"null\"]", "did you mean `subjects`?"),
            ("subjects = [\"null\"]\n[load]\nduration = \"10\"", "s.toml:3: \"10\" is not a duration"),
            ("subjects = [\"null\"]\n[load]\nconections = 1", "did you mean `connections`?"),
            ("subjects = [\"null\"]\n[load]\nmodel = \"open\"", "an open loop needs a `rate`"),
            ("subjects = [\"null\"]\n[load]\nmodel = \"closed\"\nrate = 5", "a closed loop has no `rate`"),
            ("subjects = [\"null\"]\n[load]\nconnections = 0", "at least 1"),
            ("subjects = [\"null\"]\n[limits]\nmemory = \"lots\"", "s.toml:3: \"lots\" is not a size"),
            ("subjects = [\"null\"]\n[limits]\ncpuset = \"x\"", "not a list of CPUs"),
            ("subjects = [\"null\"]\n[[workloads]]\npath = \"x\"", "must begin with a slash"),
            ("subjects = [\"null\"]\n[[workloads]]\npath = \"/a b\"", "percent-encode"),
            ("subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nprotocol = \"h9\"", "cannot be loaded"),
            (
                "subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nprotocol = \"h2\"\ntls = false",
                "set `protocol` to \"h2c\"",
            ),
            (
                "subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nprotocol = \"h2c\"\ntls = true",
                "over TLS set `protocol` to \"h2\"",
            ),
            ("subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nprotocol = \"auto\"", "cannot be loaded"),
            ("subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nstreams = 2", "belong to HTTP/2"),
            ("subjects = [\"null\"]\n[load]\nstreams = [1, 2]", "belong to HTTP/2"),
            ("subjects = [\"null\"]\n[load]\nwindow_bits = 16", "no workload speaks it"),
            (
                "subjects = [\"null\"]\n[load]\nwindow_bits = 31\n[[workloads]]\npath = \"/\"\nprotocol = \"h2\"",
                "s.toml:3: `window_bits` is 10 to 30",
            ),
            (
                "subjects = [\"null\"]\n[load]\npipeline = 2\n[[workloads]]\npath = \"/\"\nprotocol = \"h2\"",
                "which has `streams`",
            ),
            ("subjects = [\"null\"]\n[load]\nconnections = 1\nin_flight = 1", "not both"),
            ("subjects = [\"null\"]\n[load]\nin_flight = []", "at least one entry"),
            ("subjects = [\"null\"]\n[load]\nin_flight = 100\npipeline = 16", "ask for a multiple of 16"),
            ("subjects = [\"null\"]\n[load]\ndriver = \"kqueue\"", "\"uring\" and \"epoll\""),
            ("subjects = [\"null\"]\n[[backends]]\nname = \"db\"", "cannot be started by this version"),
            (
                "subjects = [\"null\"]\n[[workloads]]\nexpect = { status = 201 }\nrequests = [{ path = \"/\" }]",
                "either a `path` with its keys",
            ),
            (
                "subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nrequests = []",
                "either a `path` with its keys",
            ),
            ("subjects = [\"null\"]\n[[workloads]]\nrequests = [{ path = \"/{rand:9}\" }]", "{rand:1..100}"),
            (
                "subjects = [\"null\"]\n[[workloads]]\nrequests = [{ path = \"/\", wieght = 2 }]",
                "did you mean `weight`?",
            ),
            ("subjects = [\"null\"]\n[load]\nrate = \"1k..\"", "1k..5k"),
            ("[[subjects]]\nuse = \"null\"\nvariants = \"x\"", "did you mean `variant`?"),
        ];
        for (source, wanted) in cases {
            let error = parse(source).unwrap_err();
            assert!(error.contains(wanted), "{source}\n→ {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(source in "[a-z=\\[\\]\"0-9\n .#]{0,200}") {
            let _ = parse(&source);
        }
    }
}
