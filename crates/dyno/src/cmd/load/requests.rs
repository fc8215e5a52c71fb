//! The requests to send: from the URL and its flags, from a mix on the command line, or from another tool's file.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use dyno_archive::Protocol;
use dyno_archive::plan::{Body, Expect, Page, Request, Workload};
use dyno_runner::files::Folder;
use dyno_workload::import::{self, Alike, Braces, Format, Imported};
use dyno_workload::{typed, workloads};

use super::target::{Scheme, Url};
use crate::cli::{ImportArg, LoadArgs, Ns, ProtocolArg};
use crate::exit::bad;
use crate::terminal;

/// The server, and the requests for it.
///
/// Settings of connections in an imported command are put into `args`.
pub fn of(args: &mut LoadArgs) -> anyhow::Result<(Url, Workload)> {
    let expect = expect(args)?;
    let header = |text: &String| typed::header(text).map_err(|error| bad(format!("-H {text:?}: {error}")));
    let headers = args.headers.iter().map(header).collect::<anyhow::Result<Vec<_>>>()?;
    let reach = reach(args);
    let foreign = match (&args.curl, &args.import) {
        (Some(command), _) => Some(import::curl(command, &|name| reach.read(name)).map_err(bad)?),
        (None, Some(path)) => Some(read_import(path, args.import_format, &reach)?),
        (None, None) => None,
    };
    let (url, mut requests) = match foreign {
        Some(all) => imported(all, args, &reach)?,
        None => own(args)?,
    };
    for (i, request) in requests.iter_mut().enumerate() {
        request.headers.extend(headers.iter().cloned());
        // On a page the expectations are for the document; its resources may have any status from 200 to 399.
        if i == 0 || args.resources.is_empty() {
            let recorded = request.expect.status;
            request.expect = Expect { status: expect.status.or(recorded), ..expect.clone() };
        }
    }
    typed::name_apart(&mut requests);
    let protocol = protocol(args, url.scheme)?;
    let connections = args.page_connections.unwrap_or(workloads::PAGE_CONNECTIONS);
    let page = (!args.resources.is_empty()).then_some(Page { connections });
    Ok((url, Workload { name: "load".into(), protocol, requests, page, requests_per_connection: None }))
}

/// Streams per connection. A page has as many as servers usually allow, because browsers request all its resources at once.
pub fn streams(args: &LoadArgs) -> u32 {
    let is_page = !args.resources.is_empty() && args.protocol != ProtocolArg::H1;
    args.streams.unwrap_or(if is_page { workloads::PAGE_STREAMS } else { 1 })
}

/// The protocol, given the URL's scheme. On a plain connection nothing can be negotiated, so `auto` is HTTP/1.1 there.
fn protocol(args: &LoadArgs, scheme: Scheme) -> anyhow::Result<Protocol> {
    Ok(match (args.protocol, scheme) {
        (ProtocolArg::Auto, Scheme::Https) => Protocol::Auto,
        (ProtocolArg::Auto, Scheme::Http) if streams(args) > 1 => {
            return Err(bad(
                "on http:// nothing tells whether the server speaks HTTP/2; add --protocol h2c (prior knowledge) or h2c-upgrade, or leave out --streams",
            ));
        }
        (ProtocolArg::Auto | ProtocolArg::H1, Scheme::Http) => Protocol::H1,
        (ProtocolArg::H1, Scheme::Https) => Protocol::H1Tls,
        (ProtocolArg::H2, Scheme::Https) => Protocol::H2,
        (ProtocolArg::H2, Scheme::Http) => {
            return Err(bad(
                "--protocol h2 is HTTP/2 over TLS; use https://, or --protocol h2c for HTTP/2 on a plain connection",
            ));
        }
        (ProtocolArg::H2c | ProtocolArg::H2cUpgrade, Scheme::Https) => {
            return Err(bad("h2c is HTTP/2 without TLS; use http://, or --protocol h2 over TLS"));
        }
        (ProtocolArg::H2c, Scheme::Http) => Protocol::H2c,
        (ProtocolArg::H2cUpgrade, Scheme::Http) => Protocol::H2cUpgrade,
    })
}

/// The files that placeholders and imports may name.
#[derive(Clone, Debug)]
pub enum Reach {
    Folder(Folder),
    /// No files: an import that somebody else wrote might read the user's own.
    Nothing,
}

/// The files that requests may name. The command line is the user's own, and may name files; an imported file may only
/// with `--files`.
pub fn reach(args: &LoadArgs) -> Reach {
    const OTHERWISE: &str = "files are read from the current folder or below it; --files FOLDER names another, from which their names lead on";
    match (&args.files, &args.import) {
        (Some(folder), _) => Reach::Folder(Folder::new(folder, OTHERWISE)),
        (None, None) => Reach::Folder(Folder::new(Path::new("."), OTHERWISE)),
        (None, Some(_)) => Reach::Nothing,
    }
}

impl Reach {
    pub fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        match self {
            Reach::Folder(folder) => folder.read(name),
            Reach::Nothing => Err(NO_FILES.into()),
        }
    }

    /// The files read so far: the SHA-256 in hexadecimal digits, by name.
    pub fn seen(&self) -> BTreeMap<String, String> {
        match self {
            Reach::Folder(folder) => folder.seen(),
            Reach::Nothing => BTreeMap::new(),
        }
    }

    fn find(&self, name: &str) -> Result<PathBuf, String> {
        match self {
            Reach::Folder(folder) => folder.find(name),
            Reach::Nothing => Err(NO_FILES.into()),
        }
    }
}

const NO_FILES: &str =
    "an imported file may not name files to be read, unless you say from which folder: add --files FOLDER";

/// Reads a file that is named on the command line; `-` is standard input.
pub fn read_file(path: &str) -> Result<Vec<u8>, String> {
    if path != "-" {
        return std::fs::read(path).map_err(|error| error.to_string());
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn named_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    let path = path.to_string_lossy();
    read_file(&path).map_err(|error| bad(format!("{path}: {error}")))
}

/// The server and requests of the command line: the URL with its flags, or the mix.
fn own(args: &LoadArgs) -> anyhow::Result<(Url, Vec<Request>)> {
    let url = Url::parse(args.url.as_deref().unwrap_or_default()).map_err(bad)?;
    if !args.mix.is_empty() {
        let mixed = |text: &String| {
            typed::mixed(text, &read_file).map_err(|error| bad(format!("--request {text:?}: {error}")))
        };
        return Ok((url, args.mix.iter().map(mixed).collect::<anyhow::Result<_>>()?));
    }
    let body = match &args.body_file {
        Some(file) => Some(Body(named_file(file)?)),
        None => args.body.clone().map(|text| Body(text.into_bytes())),
    };
    let method = args.method.clone().unwrap_or_else(|| if body.is_some() { "POST" } else { "GET" }.into());
    let mut requests = vec![typed::request(&method, &url.target, Vec::new(), body)];
    for text in &args.resources {
        requests.extend(workloads::resources(text).map_err(|error| bad(format!("--resource: {error}")))?);
    }
    Ok((url, requests))
}

fn read_import(path: &Path, format: Option<ImportArg>, reach: &Reach) -> anyhow::Result<Vec<Imported>> {
    let text = String::from_utf8(named_file(path)?)
        .map_err(|_| bad(format!("{}: the file is not text", path.display())))?;
    let format = format.map_or_else(|| Format::guess(path, &text), Format::from);
    format.read(&text, &|name| reach.read(name)).map_err(|error| {
        let (path, name) = (path.display(), format.name());
        bad(format!("{path}: {error} (read as {name}; --import-format says otherwise)"))
    })
}

/// Imported requests: all for one server; equal ones become one request with a weight.
fn imported(all: Vec<Imported>, args: &mut LoadArgs, reach: &Reach) -> anyhow::Result<(Url, Vec<Request>)> {
    let mut server: Option<Url> = args.url.as_deref().map(Url::parse).transpose().map_err(bad)?;
    let braces = if args.import_templates { Braces::Placeholders } else { Braces::Text };
    let mut requests = Alike::default();
    for one in all {
        let mut url = Url::parse(&one.url).map_err(|error| bad(format!("{}: {error}", one.place)))?;
        if args.url.is_some() {
            // A URL on the command line replaces the server of the import.
        } else if let Some(server) = server.as_ref().filter(|server| !server.is_same_server(&url)) {
            return Err(bad(format!(
                "{}: {} is another server than {}, and a load goes to one; leave out the others, or name the URL of the server that gets them all",
                one.place,
                url.authority(),
                server.authority()
            )));
        }
        let is_https = server.as_ref().unwrap_or(&url).scheme == Scheme::Https;
        adopt(&one, is_https, args, reach)?;
        let path = std::mem::take(&mut url.target);
        requests.add(one.request(&path, braces));
        server.get_or_insert(url);
    }
    let server = server.ok_or_else(|| bad("there are no requests to import"))?;
    Ok((server, requests.into_requests()))
}

/// Tells the user of a setting in an imported file, which they may not have read.
fn note(one: &Imported, is_own: bool, what: &str) {
    if !is_own {
        terminal::say(&dyno_report::terminal::line(&format!("{}: as this command wants, {what}", one.place)));
    }
}

/// Applies an imported command's settings of connections to the load, unless a flag of dyno's says otherwise.
fn adopt(one: &Imported, is_https: bool, args: &mut LoadArgs, reach: &Reach) -> anyhow::Result<()> {
    for (name, value) in &one.options {
        match name.as_str() {
            // As curl does: without TLS these are ignored.
            "insecure" | "cacert" | "cert" | "key" if !is_https => {}
            "insecure" | "cacert" | "cert" | "key" => adopt_trust(one, (name, value), args, reach)?,
            "resolve" | "unix-socket" => adopt_place(one, (name, value), args)?,
            "max-time" => args.timeout = args.timeout.or(seconds(one, value)?),
            "connect-timeout" => args.connect_timeout = args.connect_timeout.or(seconds(one, value)?),
            // Redirects are never followed: an answer of 3xx counts as right unless a status is expected.
            "location" => {}
            "http1.1" | "http2" | "http2-prior-knowledge" if args.protocol != ProtocolArg::Auto => {}
            "http1.1" => args.protocol = ProtocolArg::H1,
            // As curl does: over TLS by ALPN, which is what `auto` does, and by an upgrade on plain connections.
            "http2" if is_https => {}
            "http2" => args.protocol = ProtocolArg::H2cUpgrade,
            "http2-prior-knowledge" if is_https => args.protocol = ProtocolArg::H2,
            "http2-prior-knowledge" => args.protocol = ProtocolArg::H2c,
            other => {
                return Err(bad(format!("{}: --{other} has no counterpart here; leave it out", one.place)));
            }
        }
    }
    Ok(())
}

/// Applies an imported command's TLS settings: whom to trust, and the client's own certificate and key.
fn adopt_trust(
    one: &Imported,
    (name, value): (&str, &str),
    args: &mut LoadArgs,
    reach: &Reach,
) -> anyhow::Result<()> {
    let is_own = args.import.is_none();
    let path = || -> anyhow::Result<Option<PathBuf>> {
        if is_own {
            return Ok(Some(value.into()));
        }
        reach.find(value).map(Some).map_err(|error| bad(format!("{}: {value}: {error}", one.place)))
    };
    match name {
        "insecure" if args.insecure || args.cacert.is_some() => {}
        "insecure" => {
            args.insecure = true;
            note(one, is_own, "the server's certificate is not checked (-k)");
        }
        "cacert" if args.insecure || args.cacert.is_some() => {}
        "cacert" => args.cacert = path()?,
        "cert" => {
            args.cert = args.cert.take().or(path()?);
            // Without `--key`, curl takes the key from the same file.
            if !one.options.iter().any(|(name, _)| name == "key") {
                args.key = args.key.take().or(path()?);
            }
        }
        _ => args.key = args.key.take().or(path()?),
    }
    Ok(())
}

/// Applies an imported command's settings of where connections go.
fn adopt_place(one: &Imported, (name, value): (&str, &str), args: &mut LoadArgs) -> anyhow::Result<()> {
    let is_own = args.import.is_none();
    match name {
        // It is for the import's server, which the user's URL replaces.
        "resolve" if args.url.is_some() => {}
        "resolve" if args.resolve.iter().any(|known| known == value) => {}
        "resolve" => {
            note(one, is_own, &format!("connections go where --resolve {value} says"));
            args.resolve.push(value.into());
        }
        _ if is_own => {
            args.unix_socket.get_or_insert_with(|| value.into());
        }
        _ if args.unix_socket.is_some() => {}
        _ => {
            return Err(bad(format!(
                "{}: an imported file may not choose a Unix socket; if it is the right one, add --unix-socket {}",
                one.place,
                terminal::quoted(value)
            )));
        }
    }
    Ok(())
}

/// A limit from a number of seconds; `None`: it is 0, which means no limit of its own.
fn seconds(one: &Imported, value: &str) -> anyhow::Result<Option<Ns>> {
    let ns = dyno_workload::units::duration(&format!("{value}s"));
    let ns = ns.map_err(|error| bad(format!("{}: {error}", one.place)))?;
    Ok((ns > 0).then_some(Ns(ns)))
}

fn expect(args: &LoadArgs) -> anyhow::Result<Expect> {
    let json = |text: &String| {
        typed::expected_json(text).map_err(|error| bad(format!("--expect-json {text:?}: {error}")))
    };
    Ok(Expect {
        status: args.expect_status,
        body: args.expect_body.clone().map(|text| Body(text.into_bytes())),
        headers: args.expect_header.iter().map(|text| typed::expected_header(text)).collect(),
        body_sha256: args.expect_sha256.clone(),
        body_contains: args.expect_contains.clone(),
        json: args.expect_json.iter().map(json).collect::<anyhow::Result<_>>()?,
        ..Expect::default()
    })
}
