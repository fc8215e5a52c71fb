//! Converts the arguments of `dyno load` to the specification of a load.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dyno_analysis::load::LoadConfig;
use dyno_contract::tls::{SessionResumption, TlsOptions, TrustedCertificates};
use dyno_driver::best_driver;
use dyno_engine::Protocol;
use dyno_lab::load::{LoadRequests, LoadSpec, LoadTarget, Sharing};
use dyno_lab::single::url_text;
use dyno_model::plan::{Load, Step, Workload};
use dyno_report::format::plural;
use dyno_suite::settings::single::{Trace, usable_cpus};
use dyno_suite::settings::{LoadSettings, Notation, Setting, error_of_pages, key_not_for_pages};
use dyno_suite::target::{ProtocolChoice, Scheme, Url};

use super::outputs::streams_to_stdout;
use super::requests::{ReadableFiles, streams};
use super::steps;
use super::target;
use crate::cli::LoadArgs;
use crate::cmd::report::is_standard_output;
use crate::exit::usage_error;
use crate::inputs::read_file;

/// Refuses arguments that contradict each other, before any file is read.
pub fn refuse_contradictions(args: &LoadArgs) -> anyhow::Result<()> {
    let is_open = args.find.is_some() || args.trace.is_some();
    if let Some(conflict) = args.settings.conflict(Notation::Options, is_open) {
        return Err(usage_error(conflict.message));
    }
    if !args.resources.is_empty() && args.protocol == ProtocolChoice::Auto {
        return Err(usage_error(
            "--resource: needs --protocol, because a page uses one connection of HTTP/2 or several \
             of HTTP/1.1\nhint: add --protocol h1, h2 or h2c",
        ));
    }
    steps::refuse_conflicts(args)?;
    if streams_to_stdout(args)
        && is_standard_output(args.output.as_deref())
        && !args.format.is_text()
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
        .or_else(|| steps::fault(args, workload));
    unused.map_or(Ok(()), |message| Err(usage_error(message)))
}

/// Returns the error of an option that has no effect with the protocol.
fn unused_http_option(args: &LoadArgs, protocol: Protocol) -> Option<String> {
    if args.page_connections.is_some() && protocol.is_h2() {
        return Some(
            "--page-connections: is for HTTP/1.1, but this load uses HTTP/2, in which a page has \
             one connection\nhint: remove --page-connections"
                .into(),
        );
    }
    args.settings.protocol_conflict(Notation::Options, &[protocol]).map(|conflict| conflict.message)
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
    let conflict = args.settings.expectation_conflict(Notation::Options, &workload.requests);
    if let Some(conflict) = conflict {
        return Some(conflict.message);
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

/// Returns the specification of the load. Files that requests name are read through `files`.
pub fn spec(
    args: &LoadArgs,
    url: &Url,
    workload: &Workload,
    files: &ReadableFiles,
) -> anyhow::Result<LoadSpec> {
    let trace = args.trace.as_deref().map(read_trace).transpose()?;
    let mut settings = LoadSettings::clone(&args.settings);
    let arrivals = settings.resolve_single(trace.as_ref()).map_err(usage_error)?;
    let load = &settings.load;
    let read = |name: &str| files.read(name);
    let requests = LoadRequests::compile(workload.clone(), &url.authority(), load.http2, &read)
        .map_err(usage_error)?;
    let (connections, pipeline) = (settings.connections[0], settings.pipeline[0]);
    let step = Step { connections, streams: streams(args), pipeline, arrivals, pass: 1 };
    if workload.page.is_some()
        && let Some(key) = key_not_for_pages(load, &[&step])
    {
        let is_trace = key == "rate" && trace.is_some();
        let flag = if is_trace { "--trace".into() } else { Setting::with_key(key).flag() };
        return Err(usage_error(error_of_pages(&flag)));
    }
    let endpoint = target::endpoint(args, url, Duration::from_nanos(load.connect_timeout_ns))?;
    let protocol = workload.protocol;
    let tls = (url.scheme == Scheme::Https).then(|| tls(args, url, protocol)).transpose()?;
    let cpus = cpus(args).to_vec();
    let target = LoadTarget { endpoint, protocol, tls };
    let allowed = dyno_launch::allowed_cpus();
    let threads = settings.threads_for(target::place(&target.endpoint.peer), &cpus, &allowed);
    Ok(LoadSpec {
        requests,
        page_connections: workload.page_connections(),
        spin: settings.polling(&step.arrivals, threads, &cpus, &allowed),
        load: Load {
            threads,
            driver: settings.driver.unwrap_or_else(|| best_driver().0),
            steps: vec![step.clone()],
            connection: target.connection_settings(),
            ..settings.load
        },
        target,
        step,
        trace: trace.map_or_else(|| Arc::from([]), |trace| trace.times),
        sharing: Sharing::Alone,
        seed: args.seed,
        cpus,
    })
}

/// Returns the CPUs of the generator's threads; empty: any.
fn cpus(args: &LoadArgs) -> &[u32] {
    args.cpus.as_ref().map_or(&[], |cpus| &cpus.0)
}

/// Returns a note on the number of threads, shown before the load. `None`: no note is needed.
pub fn note_on_threads(args: &LoadArgs, spec: &LoadSpec) -> Option<String> {
    let usable = usable_cpus(cpus(args), &dyno_launch::allowed_cpus());
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

fn read_trace(path: &Path) -> anyhow::Result<Trace> {
    let name = path.display().to_string();
    let bytes = read_file(&name)
        .map_err(|error| usage_error(format!("{name}: cannot be read: {error}")))?;
    Trace::parse(&name, &bytes).map_err(usage_error)
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
        resumption: args.tls_resumption.unwrap_or(SessionResumption::On),
        alpn: TlsOptions::alpn(protocol),
    };
    // Each worker creates its own configuration. This one only finds invalid certificates before
    // the load.
    options.configure().map_err(usage_error)?;
    Ok(options)
}

/// Returns the description of the load for its result.
pub fn config(spec: &LoadSpec, url: &Url, workload: &Workload) -> LoadConfig {
    let config = LoadConfig::new(workload, &spec.load, &spec.step, spec.seed);
    LoadConfig { url: url_text(url, workload), ..config }
}
