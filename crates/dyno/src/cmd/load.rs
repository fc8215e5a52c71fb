//! `dyno load URL`.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use dyno_analysis::load::{self as analysis, Config};
use dyno_analysis::{LoadResult, Severity};
use dyno_archive::plan::{Arrivals, Load, Step, Workload};
use dyno_archive::{Interval, Outcome, Phase, Sample};
use dyno_driver::Kind;
use dyno_engine::{Window, limits};
use dyno_report::format::{count, micros};
use dyno_report::text;
use dyno_runner::load::{Edge, Reason, Spec, Watch};
use dyno_runner::run::{Interrupts, expect_of, request_of};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::{ArrivalArg, DriverArg, LoadArgs, LoadFormat, Ns, ProtocolArg};
use crate::exit::{Exit, bad};
use crate::terminal;

/// Length of the measured window if nothing says when to end.
const DEFAULT_DURATION_NS: u64 = 10_000_000_000;

const INTERVAL_NS: u64 = 1_000_000_000;

pub fn run(args: &LoadArgs) -> anyhow::Result<Exit> {
    refuse_what_cannot_be(args)?;
    let url = Url::parse(&args.url).map_err(bad)?;
    let workload = workload(args, &url)?;
    let kind = driver_kind(args.driver);
    let spec = spec(args, &url, &workload, kind)?;
    let config = config(args, &spec, &workload);
    let interrupts = terminal::catch_interrupts("ending early; the result covers what was measured")?;
    let mut watch = LiveLine::new(&spec, interrupts);
    let record = dyno_runner::load::run(&spec, &mut watch).map_err(|message| anyhow::anyhow!(message))?;
    watch.bar.finish_and_clear();
    let mut result = analysis::result(&record, config);
    add_unknown_server(&mut result);
    let text = match args.format {
        LoadFormat::Text => {
            let style = if args.output.is_some() { text::Style::Plain } else { terminal::style() };
            text::load(&result, style)
        }
        LoadFormat::Json => serde_json::to_string_pretty(&result)? + "\n",
    };
    super::report::write_out(args.output.as_deref(), &text)?;
    Ok(if result.valid { Exit::Valid } else { Exit::Invalid })
}

/// Options whose protocols this version cannot load are refused by name, not ignored.
fn refuse_what_cannot_be(args: &LoadArgs) -> anyhow::Result<()> {
    let protocol = !matches!(args.protocol, ProtocolArg::Auto | ProtocolArg::H1);
    if protocol || args.streams.is_some() {
        return Err(bad("this version of dyno loads HTTP/1.1 only; HTTP/2 is to come"));
    }
    if args.insecure || args.cacert.is_some() || args.cert.is_some() || args.key.is_some() {
        return Err(bad("this version of dyno loads plain http only; TLS is to come"));
    }
    if args.requests.is_some() && args.warmup.0 > 0 {
        return Err(bad("-n counts requests from the start, so it has no warm-up; leave out -w, or use -d"));
    }
    if args.threads == 0 || args.pipeline == 0 {
        return Err(bad("--threads and --pipeline are at least 1"));
    }
    Ok(())
}

/// The parts of a URL that a load needs.
#[derive(Debug, PartialEq, Eq)]
struct Url {
    host: String,
    port: u16,
    target: String,
}

impl Url {
    fn parse(text: &str) -> Result<Url, String> {
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => {
                return Err(format!("{text}: this version of dyno loads plain http only; TLS is to come"));
            }
            Some((scheme, _)) => return Err(format!("{text}: the scheme {scheme:?} is not http")),
            None => text,
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let target = target.split('#').next().unwrap_or_default();
        let target = if target.starts_with('/') { target.to_string() } else { format!("/{target}") };
        let (host, port) = match authority.rsplit_once(':') {
            // In an IPv6 address without a port the last colon is inside the brackets.
            Some((host, port)) if !port.contains(']') => {
                let port = port.parse().map_err(|_| format!("{text}: {port:?} is not a port"))?;
                (host, port)
            }
            _ => (authority, 80),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(format!("{text}: there is no host; write it like http://127.0.0.1:8080/path"));
        }
        Ok(Url { host: host.into(), port, target })
    }

    fn resolve(&self) -> anyhow::Result<SocketAddr> {
        let mut all = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .with_context(|| format!("the host {:?} cannot be resolved", self.host))?;
        all.next().with_context(|| format!("the host {:?} has no address", self.host))
    }

    fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == 80 { host } else { format!("{host}:{}", self.port) }
    }
}

fn workload(args: &LoadArgs, url: &Url) -> anyhow::Result<Workload> {
    let body = match &args.body_file {
        Some(file) => Some(read_body(file)?),
        None => args.body.clone(),
    };
    let method = args.method.clone().unwrap_or_else(|| if body.is_some() { "POST" } else { "GET" }.into());
    Ok(Workload {
        name: "load".into(),
        protocol: "h1".into(),
        method,
        path: url.target.clone(),
        headers: args.headers.iter().map(|h| header(h)).collect::<Result<_, _>>()?,
        body,
        expect_status: args.expect_status,
        expect_body: args.expect_body.clone(),
    })
}

fn read_body(file: &PathBuf) -> anyhow::Result<String> {
    std::fs::read_to_string(file).map_err(|error| bad(format!("{}: {error}", file.display())))
}

fn header(text: &str) -> anyhow::Result<(String, String)> {
    let (name, value) =
        text.split_once(':').ok_or_else(|| bad(format!("-H {text:?}: write it like 'Name: value'")))?;
    Ok((name.trim().into(), value.trim().into()))
}

fn driver_kind(asked: Option<DriverArg>) -> Kind {
    match asked {
        Some(DriverArg::Uring) => Kind::Uring,
        Some(DriverArg::Epoll) => Kind::Epoll,
        None => Kind::best().0,
    }
}

fn spec(args: &LoadArgs, url: &Url, workload: &Workload, driver: Kind) -> anyhow::Result<Spec> {
    let connections = u32::try_from(args.connections).map_err(|_| bad("that is too many connections"))?;
    let arrivals = match (args.rate, args.arrival) {
        (None, _) => Arrivals::Closed,
        (Some(rate), ArrivalArg::Constant) => Arrivals::Constant { rate },
        (Some(rate), ArrivalArg::Poisson) => Arrivals::Poisson { rate },
    };
    let duration = match (args.duration, args.requests) {
        (Some(Ns(0)), _) => return Err(bad("a duration of 0 measures nothing")),
        (Some(Ns(ns)), _) => Some(ns),
        (None, Some(_)) => None,
        (None, None) => Some(DEFAULT_DURATION_NS),
    };
    let request = request_of(workload, &url.authority()).map_err(bad)?;
    Ok(Spec {
        addr: url.resolve()?,
        request,
        expect: expect_of(workload),
        step: Step { connections, streams: 1, pipeline: args.pipeline, arrivals },
        seed: args.seed,
        total: args.requests,
        requests_per_connection: args.requests_per_connection,
        timeout_ns: args.timeout.0,
        connect_timeout_ns: args.connect_timeout.0,
        window: Window {
            warmup_ns: args.warmup.0,
            duration_ns: duration,
            interval_ns: INTERVAL_NS,
            // What was sent is waited for as long as it may take, so that the server's count and ours agree.
            drain_ns: limits::DRAIN_NS.max(args.timeout.0),
        },
        threads: args.threads,
        driver,
        cpus: Vec::new(),
    })
}

fn config(args: &LoadArgs, spec: &Spec, workload: &Workload) -> Config {
    let load = Load {
        warmup_ns: spec.window.warmup_ns,
        duration_ns: spec.window.duration_ns.unwrap_or(0),
        interval_ns: spec.window.interval_ns,
        timeout_ns: spec.timeout_ns,
        connect_timeout_ns: spec.connect_timeout_ns,
        requests_per_connection: spec.requests_per_connection,
        threads: spec.threads,
        driver: spec.driver.name().into(),
        steps: vec![spec.step],
    };
    let asked = Config::new(workload, &load, &spec.step, spec.seed);
    Config {
        url: args.url.clone(),
        requests: spec.total,
        // With only a number of requests asked for, no duration was.
        duration_s: asked.duration_s.filter(|_| spec.window.duration_ns.is_some()),
        ..asked
    }
}

/// A load of somebody else's server knows nothing of what that server used, and says so.
fn add_unknown_server(result: &mut LoadResult) {
    result.caveats.push(dyno_analysis::Caveat {
        code: "server_not_observed",
        severity: Severity::Info,
        message:
            "The server's CPU is not known: run it as a subject under `dyno run` to see what limited it."
                .into(),
        evidence: serde_json::json!({}),
    });
}

/// The live line while the load runs.
struct LiveLine {
    bar: ProgressBar,
    interrupts: Arc<Interrupts>,
    planned_s: Option<f64>,
}

impl LiveLine {
    fn new(spec: &Spec, interrupts: Arc<Interrupts>) -> LiveLine {
        let live = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let planned_ns = spec.window.duration_ns.map(|d| d + spec.window.warmup_ns);
        let bar =
            if live { ProgressBar::new(planned_ns.unwrap_or(0) / 1_000_000) } else { ProgressBar::hidden() };
        bar.set_style(
            ProgressStyle::with_template("  {bar:30} {msg}").expect("a constant template is valid"),
        );
        LiveLine { bar, interrupts, planned_s: planned_ns.map(|ns| ns as f64 / 1e9) }
    }
}

impl Watch for LiveLine {
    fn sample(&mut self, _: Edge) -> Option<Sample> {
        None
    }

    fn interval(&mut self, interval: &Interval) {
        let seconds = (interval.end_ns - interval.start_ns) as f64 / 1e9;
        if interval.phase == Phase::Drain || seconds <= 0.0 {
            return;
        }
        let ok = interval.outcomes.of(Outcome::Ok) + interval.carried.of(Outcome::Ok);
        let failed = interval.outcomes.total() + interval.carried.total() - ok;
        let p99 = interval.times.response.at(0.99).map_or("–".into(), |ns| micros(ns as f64 / 1e3));
        let at_s = interval.end_ns as f64 / 1e9;
        let left = self.planned_s.map_or(String::new(), |s| format!("   {:.0} s left", (s - at_s).max(0.0)));
        self.bar.set_position(interval.end_ns / 1_000_000);
        self.bar.set_message(format!(
            "{} requests/s   p99 {p99}   {} failed{left}",
            count((ok as f64 / seconds) as u64),
            count(failed)
        ));
    }

    fn stop(&mut self) -> Option<Reason> {
        (self.interrupts.count() > 0).then_some(Reason::Asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let url = |text: &str| Url::parse(text).map(|u| (u.authority(), u.target));
        let parts = |a: &str, t: &str| Ok((a.to_string(), t.to_string()));
        assert_eq!(url("http://127.0.0.1:8080/a?b=c#d"), parts("127.0.0.1:8080", "/a?b=c"));
        assert_eq!(url("localhost:80"), parts("localhost", "/"));
        assert_eq!(url("http://[::1]:81/x"), parts("[::1]:81", "/x"));
        assert_eq!(url("http://h?q"), parts("h", "/?q"));
        assert!(url("https://h/").unwrap_err().contains("TLS"));
        assert!(url("ftp://h/").unwrap_err().contains("ftp"));
        assert!(url("http://h:x/").unwrap_err().contains("not a port"));
        assert!(url("http:///x").unwrap_err().contains("no host"));
    }
}
