//! Suite files: what a person asks for. docs/suites.md describes every key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dyno_archive::plan::{
    Arrivals, Body, Expect, Gaps, Limits, Marker, Order, ReportOptions, Request, Step, Suite, Workload,
};
use serde::{Deserialize, Deserializer, Serialize, de};

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
    method: Option<String>,
    path: Option<String>,
    headers: BTreeMap<String, String>,
    body: Option<String>,
    body_file: Option<String>,
    expect: RawExpect,
    /// A weighted mix instead of the one request above.
    requests: Option<Vec<RawRequest>>,
}

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
    rate: Option<OneOrMany<Rate>>,
    streams: Option<u32>,
    pipeline: Option<OneOrMany<u32>>,
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
            workloads: check_workloads(self.workloads)?,
            load: self.load.check()?,
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

fn check_workloads(raw: Vec<RawWorkload>) -> Result<Vec<Workload>, Mistake> {
    if raw.is_empty() {
        return Ok(vec![plaintext()]);
    }
    let workloads: Vec<Workload> = raw.into_iter().map(RawWorkload::check).collect::<Result<_, _>>()?;
    for (i, workload) in workloads.iter().enumerate() {
        if workloads[..i].iter().any(|w| w.name == workload.name) {
            return Err(mistake(
                "name",
                format!("two workloads are called {:?}; give each its `name`", workload.name),
            ));
        }
    }
    Ok(workloads)
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
    fn check(self) -> Result<Workload, Mistake> {
        let protocol = self.protocol.clone().unwrap_or_else(|| "h1".into());
        if protocol != "h1" {
            let message = format!(
                "the protocol {protocol:?} cannot be loaded by this version of dyno; it can load \"h1\""
            );
            return Err(mistake("protocol", message));
        }
        let (name, own, requests) = self.split();
        let (name, requests) = match requests {
            Some(_) if own != RawRequest::default() => {
                return Err(mistake(
                    "requests",
                    "a workload has either a `path` with its keys or a mix of `requests` with theirs; give one",
                ));
            }
            Some(requests) => (name.unwrap_or_else(|| "mix".into()), check_mix(requests)?),
            None => {
                let request = RawRequest { name, ..own }.check()?;
                (request.name.clone(), vec![request])
            }
        };
        let workload = Workload { name, protocol, tls: false, requests, page: None };
        crate::traffic::compile(&workload, "host", &dyno_engine::Http2::default(), &|file| {
            std::fs::read(file).map_err(|error| error.to_string())
        })
        .map_err(|message| mistake("path", message))?;
        Ok(workload)
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
    fn check(self) -> Result<LoadOptions, Mistake> {
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
            steps: self.steps()?,
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
        Ok(options)
    }

    fn warmup_ns(&self) -> Result<u64, Mistake> {
        const DEFAULT: &str = "2s";
        units::span(self.warmup.as_deref().unwrap_or(DEFAULT)).map_err(|m| mistake("warmup", m))
    }

    fn duration_ns(&self) -> Result<u64, Mistake> {
        const DEFAULT: &str = "10s";
        units::span(self.duration.as_deref().unwrap_or(DEFAULT)).map_err(|m| mistake("duration", m))
    }

    fn steps(self) -> Result<Vec<Step>, Mistake> {
        let warmup_ns = self.warmup_ns()?;
        let duration_ns = self.duration_ns()?;
        let connections = self.connections.map_or_else(|| vec![64], OneOrMany::all);
        let pipelines = self.pipeline.map_or_else(|| vec![1], OneOrMany::all);
        let rates = self.rate.map(OneOrMany::all).unwrap_or_default();
        let gaps = self.arrival.unwrap_or_default();
        let rates = rates
            .into_iter()
            .map(|rate| check_rate(rate, gaps, warmup_ns, duration_ns))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(file) = &self.trace {
            return Err(mistake(
                "trace",
                format!("the trace {file:?} can only be played by `dyno load --trace`"),
            ));
        }
        let model = self.model.unwrap_or(if rates.is_empty() { Model::Closed } else { Model::Open });
        let arrivals: Vec<Arrivals> = match (model, rates.is_empty()) {
            (Model::Closed, true) => vec![Arrivals::Closed],
            (Model::Closed, false) => {
                return Err(mistake(
                    "rate",
                    "a closed loop has no `rate`; leave it out, or set `model = \"open\"`",
                ));
            }
            (Model::Open, true) => {
                return Err(mistake("model", "an open loop needs a `rate`, such as 5000 or [1000, \"5k\"]"));
            }
            (Model::Open, false) => rates,
        };
        if self.streams.is_some_and(|s| s != 1) {
            return Err(mistake(
                "streams",
                "streams belong to HTTP/2, which this version of dyno cannot load yet; HTTP/1.1 has `pipeline`",
            ));
        }
        if connections.is_empty() || pipelines.is_empty() {
            return Err(mistake("connections", "a list of steps needs at least one entry"));
        }
        let mut steps = Vec::new();
        for arrivals in &arrivals {
            for &pipeline in &pipelines {
                for &connections in &connections {
                    positive("connections", connections)?;
                    positive("pipeline", pipeline)?;
                    steps.push(Step { connections, streams: 1, pipeline, arrivals: arrivals.clone() });
                }
            }
        }
        Ok(steps)
    }
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
