//! Converts the arguments of `dyno load` to the specification of a load.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dyno_analysis::load::LoadConfig;
use dyno_archive::plan::{
    AcceptedCertificates, Arrivals, ConnectionSettings, Gaps, Load, Request, Step, TlsSettings,
    Workload,
};
use dyno_contract::tls::{SessionResumption, TlsOptions, TrustedCertificates};
use dyno_driver::{Endpoint, PeerAddress};
use dyno_engine::Protocol;
use dyno_report::format::plural;
use dyno_runner::load::{LoadSpec, polling};
use dyno_runner::settings::LoadSettings;
use dyno_workload::{compile, units};
use sha2::{Digest as _, Sha256};

use super::outputs::streams_to_stdout;
use super::requests::{ReadableFiles, streams};
use super::steps;
use super::target::{self, Scheme, Url};
use crate::cli::{LoadArgs, LoadFormat, ProtocolArg, SwitchArg};
use crate::cmd::report::is_standard_output;
use crate::exit::usage_error;
use crate::inputs::read_file;

/// The longest trace, nanoseconds: 30 days, as for every length of a load.
const LONGEST_TRACE_NS: f64 = 30.0 * 24.0 * 3600e9;

/// The shortest measured window of a trace, nanoseconds. In a shorter window, shares of time (such
/// as CPU use) would be meaningless.
const SHORTEST_TRACE_NS: u64 = 10_000_000;

/// Refuses arguments that contradict each other, before any file is read.
pub fn refuse_contradictions(args: &LoadArgs) -> anyhow::Result<()> {
    let settings = &args.settings;
    if settings.has("requests") && settings.warmup_length_ns() > 0 {
        return Err(usage_error(
            "-n: cannot be used with a warm-up (-w), because -n counts requests from the \
             start\nhint: remove -w, or use -d instead of -n",
        ));
    }
    if settings.rates.is_empty() && settings.gaps == Gaps::Exponential {
        return Err(usage_error(
            "--arrival poisson: needs --rate or --find\nhint: add one of them, such as --rate 5k",
        ));
    }
    if !args.resources.is_empty() {
        refuse_page_conflicts(args)?;
    }
    steps::refuse_conflicts(args)?;
    if streams_to_stdout(args)
        && is_standard_output(args.output.as_deref())
        && args.format != LoadFormat::Text
    {
        return Err(usage_error(
            "--stream: standard output already has the result\nhint: write one of the two to a \
             file, with --stream FILE or -o FILE",
        ));
    }
    Ok(())
}

/// Refuses options that would have no effect. Called after the import, because an import can set
/// the URL, the protocol and the requests.
pub fn refuse_unused_options(
    args: &LoadArgs,
    url: &Url,
    workload: &Workload,
) -> anyhow::Result<()> {
    let protocol = workload.protocol;
    let unused = unused_http_option(args, protocol)
        .or_else(|| unused_tls_option(args, url))
        .or_else(|| unused_request_option(args, workload))
        .or_else(|| steps::fault(args, workload))
        .or_else(|| unused_timeout(args));
    unused.map_or(Ok(()), |message| Err(usage_error(message)))
}

/// Returns the error of an option that has no effect with the protocol.
fn unused_http_option(args: &LoadArgs, protocol: Protocol) -> Option<String> {
    let settings = &args.settings;
    let is_pipelined = settings.pipeline[0] > 1;
    if is_pipelined && protocol == Protocol::Auto {
        return Some(
            "--pipeline: https:// may select HTTP/2, which has no pipelining\nhint: add --protocol \
             h1, or use --streams (-m) instead"
                .into(),
        );
    }
    if is_pipelined && protocol.is_h2() {
        return Some(
            "--pipeline: is for HTTP/1.1, but this load uses HTTP/2\nhint: use --streams (-m) \
             instead"
                .into(),
        );
    }
    if args.page_connections.is_some() && protocol.is_h2() {
        return Some(
            "--page-connections: is for HTTP/1.1, but this load uses HTTP/2, in which a page has \
             one connection\nhint: remove --page-connections"
                .into(),
        );
    }
    if !protocol.is_h1() {
        return None;
    }
    if settings.streams[0] > 1 {
        return Some(
            "--streams: is for HTTP/2, but this load uses HTTP/1.1\nhint: use --pipeline (-p) \
             instead"
                .into(),
        );
    }
    let option = settings.given().find(|setting| setting.is_http2)?.flag();
    Some(format!(
        "{option}: is for HTTP/2, but this load uses HTTP/1.1\nhint: choose another --protocol, or \
         remove {option}"
    ))
}

/// Returns the error of a TLS option that has no effect without TLS.
fn unused_tls_option(args: &LoadArgs, url: &Url) -> Option<String> {
    let options = [
        ("--insecure (-k)", args.insecure),
        ("--cacert", args.cacert.is_some()),
        ("--cert", args.cert.is_some()),
        ("--key", args.key.is_some()),
        ("--tls-resumption", args.tls_resumption.is_some()),
    ];
    let (option, _) = options.into_iter().find(|(_, is_given)| *is_given)?;
    (url.scheme == Scheme::Http).then(|| {
        format!(
            "{option}: is for TLS, but the URL is http://\nhint: use https://, or remove \
                 {option}"
        )
    })
}

/// Returns the error of an option that has no effect with these requests.
fn unused_request_option(args: &LoadArgs, workload: &Workload) -> Option<String> {
    let is_import = args.import.is_some() || args.curl.is_some();
    if args.import_templates && !is_import {
        return Some(
            "--import-templates: needs --import or --curl\nhint: remove --import-templates, \
             because placeholders of the command line are always replaced"
                .into(),
        );
    }
    if args.settings.has("check_one_in") && !workload.requests.iter().any(Request::is_sampled) {
        return Some(
            "--check-one-in: applies to an expected header, SHA-256, text, JSON or encoded body, \
             but none is expected\nhint: add an expectation, such as --expect-json, or remove \
             --check-one-in"
                .into(),
        );
    }
    if args.expect_body.is_some() && workload.requests.iter().all(|r| r.method == "HEAD") {
        return Some(
            "--expect-body: a response to HEAD has no body\nhint: remove --expect-body".into(),
        );
    }
    if args.unix_socket.is_some() && !args.resolve.is_empty() {
        return Some(
            "--resolve: has no effect with --unix-socket, which needs no address\nhint: remove \
             --resolve"
                .into(),
        );
    }
    None
}

/// Returns the error of a first-byte time-out that the request time-out always precedes.
fn unused_timeout(args: &LoadArgs) -> Option<String> {
    let load = &args.settings.load;
    if load.first_byte_timeout_ns.is_some_and(|ns| ns >= load.timeout_ns) {
        return Some(
            "--first-byte-timeout: must be shorter than --timeout (default 10s)\nhint: use a \
             shorter --first-byte-timeout, or remove it"
                .into(),
        );
    }
    None
}

/// Refuses options that a page (`--resource`) cannot have.
fn refuse_page_conflicts(args: &LoadArgs) -> anyhow::Result<()> {
    let settings = &args.settings;
    if !settings.rates.is_empty() || args.trace.is_some() {
        return Err(usage_error(
            "--resource: cannot be used with --rate or --trace, because each visitor loads one \
             page after the other\nhint: remove --rate and --trace",
        ));
    }
    if args.protocol == ProtocolArg::Auto {
        return Err(usage_error(
            "--resource: needs --protocol, because a page uses one connection of HTTP/2 or several \
             of HTTP/1.1\nhint: add --protocol h1, h2 or h2c",
        ));
    }
    if settings.pipeline[0] > 1 {
        return Err(usage_error(
            "--resource: cannot be used with --pipeline, because browsers do not pipeline\nhint: \
             remove --pipeline",
        ));
    }
    if settings.has("requests_per_connection") || settings.has("ramp_connections") {
        return Err(usage_error(
            "--resource: cannot be used with --requests-per-connection or --ramp-connections, \
             because visitors keep their connections from the beginning\nhint: remove these \
             options",
        ));
    }
    Ok(())
}

/// Returns the specification of the load. Files that requests name are read through `files`.
pub fn spec(
    args: &LoadArgs,
    url: &Url,
    workload: &Workload,
    files: &ReadableFiles,
) -> anyhow::Result<LoadSpec> {
    let (arrivals, trace) = arrivals(args)?;
    let load = &args.settings.load;
    let read = |name: &str| files.read(name);
    let compiled =
        compile::compile(workload, &url.authority(), &load.http2, &read).map_err(usage_error)?;
    let endpoint = target::endpoint(args, url, Duration::from_nanos(load.connect_timeout_ns))?;
    let protocol = workload.protocol;
    let tls = (url.scheme == Scheme::Https).then(|| tls(args, url, protocol)).transpose()?;
    let cpus = args.cpus.clone().map_or_else(Vec::new, |cpus| cpus.0);
    let connections = args.settings.connections[0];
    let threads = threads(args, &endpoint, connections);
    let (streams, pipeline) = (streams(args), args.settings.pipeline[0]);
    let step = Step { connections, streams, pipeline, arrivals, pass: 1 };
    Ok(LoadSpec {
        traffic: Arc::new(compiled),
        page_connections: workload.page_connections(),
        spin: polling(load.spin, &step.arrivals, leaves_free_cpu(threads, &cpus)),
        load: Load {
            warmup_ns: args.settings.warmup_length_ns(),
            duration_ns: duration(args, &trace)?.unwrap_or(0),
            threads,
            driver: args.settings.driver.unwrap_or(load.driver),
            steps: vec![step.clone()],
            connection: connection_settings(&endpoint, tls.as_ref()),
            ..load.clone()
        },
        endpoint,
        protocol,
        tls,
        step,
        trace,
        slices: None,
        concurrent_loads: None,
        seed: args.seed,
        cpus,
    })
}

/// Returns the number of generator threads:
///
/// - `--threads`, if it is given;
/// - otherwise half of the usable CPUs, if the server is on this machine and needs the other half;
/// - otherwise one per usable CPU. `--cpus` selects this case, too.
///
/// There is at most one thread per connection.
fn threads(args: &LoadArgs, endpoint: &Endpoint, connections: u32) -> u32 {
    let usable = usable_cpus(args);
    let threads = match args.settings.threads {
        Some(threads) => threads,
        None if args.cpus.is_none() && is_on_this_machine(&endpoint.peer) => usable / 2,
        None => usable,
    };
    threads.clamp(1, connections)
}

/// Returns the number of CPUs on which generator threads may run.
fn usable_cpus(args: &LoadArgs) -> u32 {
    args.cpus.as_ref().map_or_else(|| dyno_launch::allowed_cpus().len(), |cpus| cpus.0.len()) as u32
}

/// Whether the server runs on this machine. A socket can only be bound to an address of this
/// machine.
fn is_on_this_machine(peer: &PeerAddress) -> bool {
    match peer {
        PeerAddress::Unix(_) => true,
        PeerAddress::Tcp(addr) => {
            addr.ip().is_loopback() || UdpSocket::bind((addr.ip(), 0)).is_ok()
        }
    }
}

/// Returns a note on the number of threads, shown before the load. `None`: no note is needed.
pub fn note_on_threads(args: &LoadArgs, spec: &LoadSpec) -> Option<String> {
    let usable = usable_cpus(args);
    if let Some(threads) = args.settings.threads.filter(|threads| *threads > spec.load.threads) {
        return Some(format!(
            "-t {threads}: reduced to {}, because each thread needs a connection",
            plural(u64::from(spec.load.threads), "thread")
        ));
    }
    (spec.load.threads > usable).then(|| {
        format!(
            "-t {}: the threads share {usable} CPU{}, so measured times include waits for a \
             CPU\nhint: use -t {usable} or fewer",
            spec.load.threads,
            if usable == 1 { "" } else { "s" }
        )
    })
}

/// Whether a usable CPU stays free for a server on this machine while all generator threads poll.
/// `thread_cpus`: CPUs of the threads, or empty for any.
fn leaves_free_cpu(threads: u32, thread_cpus: &[u32]) -> bool {
    let allowed = dyno_launch::allowed_cpus();
    if thread_cpus.is_empty() {
        allowed.len() > threads as usize
    } else {
        allowed.iter().any(|cpu| !thread_cpus.contains(cpu))
    }
}

/// Refuses a rate that is a plain number of 0 or less.
pub fn refuse_rate_not_above_zero(rate: &str) -> anyhow::Result<()> {
    match rate.trim().parse::<f64>() {
        Ok(number) if number <= 0.0 => Err(usage_error(format!(
            "--rate {rate}: must be above 0\nhint: give requests per second, such as --rate 5k"
        ))),
        _ => Ok(()),
    }
}

/// Returns the schedule, and the instants of a trace in nanoseconds (empty without a trace).
fn arrivals(args: &LoadArgs) -> anyhow::Result<(Arrivals, Arc<[u64]>)> {
    if let Some(path) = &args.trace {
        return read_trace(path);
    }
    let settings = &args.settings;
    let Some(rate) = settings.rates.first() else { return Ok((Arrivals::Closed, Arc::from([]))) };
    refuse_rate_not_above_zero(&rate.to_string())?;
    let mut settings = LoadSettings::clone(settings);
    settings.load.warmup_ns = settings.warmup_length_ns();
    settings.load.duration_ns = planned_ns(&settings);
    let schedule = settings.schedule(rate);
    Ok((schedule.map_err(|m| usage_error(format!("--rate: {m}")))?, Arc::from([])))
}

/// Returns the length of a load that nothing ends earlier, nanoseconds.
fn planned_ns(settings: &LoadSettings) -> u64 {
    let is_given = settings.has("duration");
    let rate = settings.rates.first().filter(|_| !is_given).map(ToString::to_string);
    rate.and_then(|rate| units::rate_length_ns(&rate)).unwrap_or(settings.load.duration_ns)
}

/// Reads recorded times: a number of seconds on each line, from any origin and in any order. `#`
/// begins a comment.
fn read_trace(path: &Path) -> anyhow::Result<(Arrivals, Arc<[u64]>)> {
    let invalid_time = |line: usize, text: &str| {
        usage_error(format!(
            "{}:{line}: {text:?} is not a time in seconds\nhint: write it like 0.25",
            path.display()
        ))
    };
    let name = path.display().to_string();
    let bytes = read_file(&name)
        .map_err(|error| usage_error(format!("{name}: cannot be read: {error}")))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut seconds = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let number = line.split('#').next().unwrap_or_default().trim();
        if number.is_empty() {
            continue;
        }
        let time = number.parse::<f64>().ok().filter(|s| s.is_finite());
        seconds.push(time.ok_or_else(|| invalid_time(i + 1, number))?);
    }
    seconds.sort_by(f64::total_cmp);
    let first = *seconds.first().ok_or_else(|| {
        usage_error(format!("{name}: has no times\nhint: write a number of seconds on each line"))
    })?;
    let last = seconds.last().copied().unwrap_or(first);
    if (last - first) * 1e9 > LONGEST_TRACE_NS {
        return Err(usage_error(format!(
            "{name}: the times span more than 30 days\nhint: write the times in seconds"
        )));
    }
    let times: Arc<[u64]> = seconds.iter().map(|s| ((s - first) * 1e9).round() as u64).collect();
    let sha256 = format!("{:x}", Sha256::digest(&bytes));
    Ok((Arrivals::Trace { file: name, count: times.len() as u64, sha256 }, times))
}

/// Returns the length of the measured window, nanoseconds. `None`: a number of requests ends it.
fn duration(args: &LoadArgs, trace: &[u64]) -> anyhow::Result<Option<u64>> {
    let settings = &args.settings;
    match (settings.has("duration"), settings.load.requests, trace.last()) {
        (false, Some(_), _) => Ok(None),
        (false, None, Some(last)) => trace_window_ns(*last, settings.warmup_length_ns()).map(Some),
        (true, ..) | (false, None, None) => Ok(Some(planned_ns(settings))),
    }
}

/// Returns the measured window of a trace, which ends just after the last arrival.
fn trace_window_ns(last_ns: u64, warmup_ns: u64) -> anyhow::Result<u64> {
    if last_ns < warmup_ns {
        return Err(usage_error(
            "--trace: all times are within the warm-up\nhint: use a shorter --warmup, or a longer \
             trace",
        ));
    }
    Ok((last_ns + 1 - warmup_ns).max(SHORTEST_TRACE_NS))
}

fn tls(args: &LoadArgs, url: &Url, protocol: Protocol) -> anyhow::Result<TlsOptions> {
    let trust = match (args.insecure, &args.cacert) {
        (true, _) => TrustedCertificates::Any,
        (false, Some(file)) => TrustedCertificates::File(file.clone()),
        (false, None) => TrustedCertificates::System,
    };
    let options = TlsOptions {
        name: url.host.clone(),
        trust,
        identity: args.cert.clone().zip(args.key.clone()),
        resumption: match args.tls_resumption.unwrap_or(SwitchArg::On) {
            SwitchArg::On => SessionResumption::On,
            SwitchArg::Off => SessionResumption::Off,
        },
        alpn: TlsOptions::alpn(protocol),
    };
    // Each worker creates its own configuration. This one only finds invalid certificates before
    // the load.
    options.configure().map_err(usage_error)?;
    Ok(options)
}

fn connection_settings(endpoint: &Endpoint, tls: Option<&TlsOptions>) -> ConnectionSettings {
    let tls_settings = |tls: &TlsOptions| TlsSettings {
        resumption: matches!(tls.resumption, SessionResumption::On),
        certificates: match tls.trust {
            TrustedCertificates::System => AcceptedCertificates::System,
            TrustedCertificates::File(_) => AcceptedCertificates::File,
            TrustedCertificates::Any => AcceptedCertificates::Any,
        },
        client_certificate: tls.identity.is_some(),
    };
    ConnectionSettings {
        unix_socket: matches!(endpoint.peer, PeerAddress::Unix(_)),
        sources: endpoint.sources.clone(),
        tls: tls.map(tls_settings),
    }
}

/// Returns the description of the load for its result.
pub fn config(spec: &LoadSpec, url: &Url, workload: &Workload) -> LoadConfig {
    let config = LoadConfig::new(workload, &spec.load, &spec.step, spec.seed);
    let is_mix = workload.requests.len() > 1 && workload.page.is_none();
    let target = if is_mix { "" } else { workload.requests[0].path.as_str() };
    LoadConfig { url: format!("{}://{}{target}", url.scheme.name(), url.authority()), ..config }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_trace_has_minimum_window() {
        assert_eq!(trace_window_ns(0, 0).unwrap(), 10_000_000, "one time");
        assert_eq!(trace_window_ns(490_000_000, 0).unwrap(), 490_000_001);
        assert_eq!(trace_window_ns(490_000_000, 100_000_000).unwrap(), 390_000_001);
        assert_eq!(trace_window_ns(490_000_000, 490_000_000).unwrap(), 10_000_000);
        let error = trace_window_ns(490_000_000, 500_000_000).unwrap_err().to_string();
        assert!(error.contains("within the warm-up") && error.contains("hint:"), "{error}");
    }

    #[test]
    fn trace_times_start_at_zero() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        std::fs::write(&path, "# times\n100.5\n100.25 # early\n\n101\n").unwrap();
        let (arrivals, times) = read_trace(&path).unwrap();
        assert_eq!(*times, [0, 250_000_000, 750_000_000]);
        assert!(matches!(arrivals, Arrivals::Trace { count: 3, .. }));
        std::fs::write(&path, "1\nx\n").unwrap();
        assert!(read_trace(&path).unwrap_err().to_string().contains("t:2: \"x\" is not a time"));
        std::fs::write(&path, "#\n").unwrap();
        assert!(read_trace(&path).unwrap_err().to_string().contains("no times"));
    }
}
