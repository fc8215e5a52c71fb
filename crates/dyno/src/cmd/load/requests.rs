//! Reads the requests to send: from the URL and its options, from a mix on the command line, or
//! from another tool's file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dyno_archive::plan::{Body, Expect, Page, Request, Workload};
use dyno_archive::{Protocol, hint, secret};
use dyno_runner::files::Folder;
use dyno_workload::import::{
    self, Braces, ChangeKind, Changes, ImportFormat, ImportedRequest, Imports, UniqueRequests,
};
use dyno_workload::{command_line, header, workloads};

use super::target::{Scheme, Url};
use crate::cli::{self, ImportArg, LoadArgs, Ns, ProtocolArg};
use crate::exit::usage_error;
use crate::inputs::read_file;
use crate::terminal;

/// Returns the server, its requests, and the changes that an import made.
///
/// Connection settings of an imported command are stored in `args`. `files` records the names of
/// the files that were read.
pub fn read_requests(
    args: &mut LoadArgs,
    files: &ReadableFiles,
) -> anyhow::Result<(Url, Workload, Changes)> {
    let expect = expect(args)?;
    let imports = match (&args.curl, &args.import) {
        (Some(command), _) => {
            Some(import::curl(command, &|name| files.read(name)).map_err(usage_error)?)
        }
        (None, Some(path)) => Some(read_import(path, args.import_format, files)?),
        (None, None) => None,
    };
    let is_import = imports.is_some();
    let (url, mut requests, mut changes) = match imports {
        Some(imports) => import_requests(imports, args, files)?,
        None => {
            let (url, requests) = command_line_requests(args)?;
            (url, requests, Changes::default())
        }
    };
    let protocol = protocol(args, url.scheme)?;
    let headers = headers(args, protocol)?;
    if is_import {
        remove_uncarried_headers(&mut requests, protocol, &mut changes);
    }
    for (i, request) in requests.iter_mut().enumerate() {
        // A header of the command line replaces those of an import with its name.
        request
            .headers
            .retain(|(name, _)| !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)));
        request.headers.extend(headers.iter().cloned());
        // On a page the expectations are for the document. Its resources may have any status from
        // 200 to 399.
        if i == 0 || args.resources.is_empty() {
            let recorded = request.expect.status;
            request.expect = Expect { status: expect.status.or(recorded), ..expect.clone() };
        }
    }
    command_line::number_duplicates(&mut requests);
    let connections = args.page_connections.unwrap_or(workloads::PAGE_CONNECTIONS);
    let page = (!args.resources.is_empty()).then_some(Page { connections });
    let workload =
        Workload { name: "load".into(), protocol, requests, page, requests_per_connection: None };
    Ok((url, workload, changes))
}

/// Removes headers of imported requests that the protocol cannot carry.
fn remove_uncarried_headers(requests: &mut [Request], protocol: Protocol, changes: &mut Changes) {
    for request in requests {
        request.headers.retain(|(name, value)| {
            let is_carried = header::fault(protocol, name, value).is_none();
            if !is_carried {
                changes.add(ChangeKind::UncarriedHeader, &name.to_ascii_lowercase());
            }
            is_carried
        });
    }
}

/// Returns a header for an error: without its value if that may be a secret.
fn quotable_header(text: &str) -> String {
    let end = text.char_indices().skip(1).find(|(_, c)| [':', ' ', '='].contains(c));
    let Some((end, mark)) = end else { return text.into() };
    let (name, value) = (&text[..end], &text[end + 1..]);
    let is_harmless =
        mark == ':' && !secret::may_be_secret_header(name) && !secret::holds_secret(value);
    if is_harmless { text.into() } else { format!("{name}{mark}…") }
}

/// Parses the headers of `-H`. The protocol must be able to carry each of them.
fn headers(args: &LoadArgs, protocol: Protocol) -> anyhow::Result<Vec<(String, String)>> {
    let parse = |text: &String| {
        let error =
            |problem: String| usage_error(format!("-H {:?}: {problem}", quotable_header(text)));
        let (name, value) = command_line::header(text).map_err(error)?;
        match header::fault(protocol, &name, &value) {
            Some(problem) => Err(error(problem)),
            None => Ok((name, value)),
        }
    };
    let headers = args.headers.iter().map(parse).collect::<anyhow::Result<Vec<_>>>()?;
    match header::duplicate(&headers) {
        Some((name, problem)) => Err(usage_error(format!("-H {name:?}: {problem}"))),
        None => Ok(headers),
    }
}

/// Returns a note on requests that ask for another protocol, for display before the load. `None`:
/// no request does.
pub fn note_on_upgrade(workload: &Workload) -> Option<String> {
    let headers = workload.requests.iter().flat_map(|request| &request.headers);
    let (_, upgrade) =
        headers.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("upgrade"))?;
    let upgrade = dyno_report::terminal::escape_line(upgrade);
    let protocol = if upgrade.eq_ignore_ascii_case("websocket") { "WebSocket" } else { &upgrade };
    let hint = match upgrade.eq_ignore_ascii_case("h2c") {
        true => "use --protocol h2c-upgrade to speak HTTP/2 after an upgrade",
        false => "leave the header out to load the server with HTTP requests",
    };
    Some(format!(
        "Upgrade: {upgrade}: dyno does not speak {protocol} after an upgrade, so each response 101 \
         counts as protocol_error\nhint: {hint}"
    ))
}

/// Returns the streams per connection. A page has as many as servers usually allow, because
/// browsers request all its resources concurrently.
pub fn streams(args: &LoadArgs) -> u32 {
    let is_page = !args.resources.is_empty() && args.protocol != ProtocolArg::H1;
    args.streams.unwrap_or(if is_page { workloads::PAGE_STREAMS } else { 1 })
}

/// Returns the protocol for the scheme of the URL. A plain connection cannot negotiate request, so
/// `auto` is HTTP/1.1 there.
fn protocol(args: &LoadArgs, scheme: Scheme) -> anyhow::Result<Protocol> {
    Ok(match (args.protocol, scheme) {
        (ProtocolArg::Auto, Scheme::Https) => Protocol::Auto,
        (ProtocolArg::Auto, Scheme::Http) if streams(args) > 1 => {
            return Err(usage_error(
                "--streams: needs HTTP/2, which http:// does not select\nhint: add --protocol h2c \
                 (prior knowledge) or --protocol h2c-upgrade, or leave out --streams",
            ));
        }
        (ProtocolArg::Auto | ProtocolArg::H1, Scheme::Http) => Protocol::H1,
        (ProtocolArg::H1, Scheme::Https) => Protocol::H1Tls,
        (ProtocolArg::H2, Scheme::Https) => Protocol::H2,
        (ProtocolArg::H2, Scheme::Http) => {
            return Err(usage_error(
                "--protocol h2: needs TLS, and the URL is http://\nhint: use https://, or \
                 --protocol h2c for HTTP/2 without TLS",
            ));
        }
        (ProtocolArg::H2c | ProtocolArg::H2cUpgrade, Scheme::Https) => {
            return Err(usage_error(
                "--protocol: h2c is HTTP/2 without TLS, and the URL is https://\nhint: use \
                 http://, or --protocol h2 for HTTP/2 over TLS",
            ));
        }
        (ProtocolArg::H2c, Scheme::Http) => Protocol::H2c,
        (ProtocolArg::H2cUpgrade, Scheme::Http) => Protocol::H2cUpgrade,
    })
}

/// The files that placeholders and imports may name.
#[derive(Clone, Debug)]
pub enum ReadableFiles {
    Folder(Folder),
    /// No files: an import from another author might read the user's files.
    Nothing,
}

/// Returns the files that requests may name. The command line may name files. An imported file may
/// do so only with `--files`.
pub fn readable_files(args: &LoadArgs) -> ReadableFiles {
    const OUTSIDE_HINT: &str = "use a file of the current folder or below it, or name another \
                                folder with --files FOLDER";
    match (&args.files, &args.import) {
        (Some(folder), _) => ReadableFiles::Folder(Folder::new(folder, OUTSIDE_HINT)),
        (None, None) => ReadableFiles::Folder(Folder::new(Path::new("."), OUTSIDE_HINT)),
        (None, Some(_)) => ReadableFiles::Nothing,
    }
}

impl ReadableFiles {
    pub fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        match self {
            ReadableFiles::Folder(folder) => folder.read(name),
            ReadableFiles::Nothing => Err(NO_FILES.into()),
        }
    }

    /// Returns the SHA-256 (hexadecimal) of each file read so far, by name.
    pub fn file_hashes(&self) -> BTreeMap<String, String> {
        match self {
            ReadableFiles::Folder(folder) => folder.file_hashes(),
            ReadableFiles::Nothing => BTreeMap::new(),
        }
    }

    /// Returns the paths of the files read so far.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.file_hashes().keys().filter_map(|name| self.find(name).ok()).collect()
    }

    fn find(&self, name: &str) -> Result<PathBuf, String> {
        match self {
            ReadableFiles::Folder(folder) => folder.find(name),
            ReadableFiles::Nothing => Err(NO_FILES.into()),
        }
    }
}

const NO_FILES: &str = "an imported file may not name other files\nhint: allow it with --files \
                        FOLDER, the folder of these files";

fn read_named_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    let path = path.to_string_lossy();
    read_file(&path).map_err(|error| usage_error(format!("{path}: cannot be read: {error}")))
}

/// Returns the server and requests of the command line: the URL with its options, or the mix.
fn command_line_requests(args: &LoadArgs) -> anyhow::Result<(Url, Vec<Request>)> {
    let url = Url::parse(args.url.as_deref().unwrap_or_default()).map_err(usage_error)?;
    if !args.mix.is_empty() {
        let parse_entry = |text: &String| {
            command_line::parse_mix_entry(text, &read_file)
                .map_err(|error| usage_error(format!("--request {text:?}: {error}")))
        };
        return Ok((url, args.mix.iter().map(parse_entry).collect::<anyhow::Result<_>>()?));
    }
    let body = match &args.body_file {
        Some(file) => Some(Body(read_named_file(file)?)),
        None => args.body.clone().map(|text| Body(text.into_bytes())),
    };
    let method =
        args.method.clone().unwrap_or_else(|| if body.is_some() { "POST" } else { "GET" }.into());
    let mut requests = vec![command_line::request(&method, &url.target, Vec::new(), body)];
    for text in &args.resources {
        requests.extend(
            workloads::resources(text)
                .map_err(|error| usage_error(format!("--resource: {error}")))?,
        );
    }
    Ok((url, requests))
}

fn read_import(
    path: &Path,
    format: Option<ImportArg>,
    files: &ReadableFiles,
) -> anyhow::Result<Imports> {
    let text = String::from_utf8(read_named_file(path)?)
        .map_err(|_| usage_error(format!("{}: must be a text file (UTF-8)", path.display())))?;
    let format = format.map_or_else(|| ImportFormat::guess(path, &text), ImportFormat::from);
    format.read(&text, &|name| files.read(name)).map_err(|error| {
        let (path, name) = (path.display(), format.name());
        let message = format!("{path} (read as {name}): {error}");
        usage_error(hint::with_default(message, "set another format with --import-format"))
    })
}

/// Converts imported requests, which must all be for one server. Equal ones become one request with
/// a weight.
fn import_requests(
    imports: Imports,
    args: &mut LoadArgs,
    files: &ReadableFiles,
) -> anyhow::Result<(Url, Vec<Request>, Changes)> {
    let mut server: Option<Url> =
        args.url.as_deref().map(Url::parse).transpose().map_err(usage_error)?;
    let braces = if args.import_templates { Braces::Placeholders } else { Braces::Text };
    let mut requests = UniqueRequests::default();
    let Imports { requests: imported, mut changes } = imports;
    let mut applied = AppliedSettings::default();
    for request in imported {
        let mut url = Url::parse(&request.url)
            .map_err(|error| usage_error(format!("{}: {error}", request.location)))?;
        if args.url.is_some() {
            // A URL on the command line replaces the server of the import.
            if server.as_ref().is_some_and(|server| !server.is_same_server(&url)) {
                changes.add(
                    ChangeKind::Server,
                    &format!("{}://{}", url.scheme.name(), url.authority()),
                );
            }
        } else if let Some(server) = server.as_ref().filter(|server| !server.is_same_server(&url)) {
            return Err(usage_error(format!(
                "{}: {} is another server than {}, and a load has one server\nhint: leave out the \
                 requests to other servers, or give the URL of the server for all requests",
                request.location,
                url.authority(),
                server.authority()
            )));
        }
        let is_https = server.as_ref().unwrap_or(&url).scheme == Scheme::Https;
        applied.report_ignored(&request, is_https, args, &mut changes);
        apply_settings(&request, is_https, args, files)?;
        let path = std::mem::take(&mut url.target);
        requests.add(request.into_request(&path, braces));
        server.get_or_insert(url);
    }
    applied.report_extended(&mut changes);
    let server = server.ok_or_else(|| {
        let source = args.import.as_ref().map(|path| path.display().to_string());
        usage_error(format!(
            "{}: no requests found\nhint: dyno reads HAR files, curl commands, vegeta targets and \
             lists of URLs",
            source.unwrap_or_else(|| "--curl".into())
        ))
    })?;
    Ok((server, requests.into_requests(), changes))
}

/// Connection settings of the whole load that commands of an import have set.
#[derive(Default)]
struct AppliedSettings {
    /// By kind: the first setting, and the number of commands that have one of the kind.
    settings: BTreeMap<String, (String, usize)>,
    /// Number of commands so far.
    commands: usize,
}

impl AppliedSettings {
    /// Reports the settings of a command that [`apply_settings`] ignores, because a load has one of
    /// each.
    fn report_ignored(
        &mut self,
        request: &ImportedRequest,
        is_https: bool,
        args: &LoadArgs,
        changes: &mut Changes,
    ) {
        self.commands += 1;
        let mut kinds = BTreeSet::new();
        for (name, value) in &request.options {
            let is_tls = ["insecure", "cacert", "cert", "key"].contains(&name.as_str());
            if is_default(name, value, is_https) {
                continue;
            }
            let option =
                if value.is_empty() { format!("--{name}") } else { format!("--{name} {value}") };
            let kind = if name.starts_with("http") { "http" } else { name };
            let is_set_elsewhere = match self.settings.get(kind) {
                Some((first, _)) => *first != option,
                None => is_set_by_option(args, kind),
            };
            let reason = if is_tls && !is_https {
                "the load has no TLS"
            } else if name == "resolve" && args.url.is_some() {
                "the URL of the command line is used"
            } else if name != "resolve" && is_set_elsewhere {
                "an option or an earlier command sets it"
            } else {
                if !(self.settings.contains_key(kind) || kind == "insecure" && args.insecure) {
                    self.settings.insert(kind.into(), (option, 0));
                }
                kinds.insert(kind);
                continue;
            };
            kinds.insert(kind);
            changes.add(ChangeKind::Setting, &format!("{option} ({reason})"));
        }
        for kind in kinds {
            if let Some((_, commands)) = self.settings.get_mut(kind) {
                *commands += 1;
            }
        }
    }

    /// Reports the settings that apply to commands without them, because a load has one of each.
    fn report_extended(&self, changes: &mut Changes) {
        for (option, commands) in self.settings.values() {
            let others = self.commands - commands;
            if others > 0 {
                let text = format!("{option} (of {commands} of {} commands)", self.commands);
                changes.add(ChangeKind::ExtendedSetting, &text);
            }
        }
    }
}

/// Whether a setting of curl is the default of both curl and dyno.
fn is_default(name: &str, value: &str, is_https: bool) -> bool {
    match name {
        "max-time" | "connect-timeout" => value.parse() == Ok(0.0),
        // ALPN, as with `auto`.
        "http2" => is_https,
        _ => false,
    }
}

/// Whether an option of the command line sets curl's setting `kind`.
fn is_set_by_option(args: &LoadArgs, kind: &str) -> bool {
    match kind {
        "max-time" => args.timeout.is_some(),
        "connect-timeout" => args.connect_timeout.is_some(),
        "http" => args.protocol != ProtocolArg::Auto,
        "cacert" => args.insecure || args.cacert.is_some(),
        "insecure" => args.cacert.is_some(),
        "cert" => args.cert.is_some(),
        "key" => args.key.is_some(),
        "unix-socket" => args.unix_socket.is_some(),
        _ => false,
    }
}

/// Prints the effect of a setting in an imported file, because the user may not have read the file.
fn print_effect(request: &ImportedRequest, is_from_command_line: bool, effect: &str) {
    if !is_from_command_line {
        terminal::say(&dyno_report::terminal::escape_line(&format!(
            "{}: because of this command, {effect}",
            request.location
        )));
    }
}

/// Applies connection settings of an imported command to the load, unless an option of the command
/// line sets them.
fn apply_settings(
    request: &ImportedRequest,
    is_https: bool,
    args: &mut LoadArgs,
    files: &ReadableFiles,
) -> anyhow::Result<()> {
    for (name, value) in &request.options {
        match name.as_str() {
            // Ignored without TLS, as in curl.
            "insecure" | "cacert" | "cert" | "key" if !is_https => {}
            "insecure" | "cacert" | "cert" | "key" => {
                apply_tls(request, (name, value), args, files)?;
            }
            "resolve" | "unix-socket" => apply_address(request, (name, value), args)?,
            "max-time" => args.timeout = args.timeout.or(time_limit(request, (name, value))?),
            "connect-timeout" => {
                args.connect_timeout = args.connect_timeout.or(time_limit(request, (name, value))?);
            }
            "http1.1" | "http2" | "http2-prior-knowledge" if args.protocol != ProtocolArg::Auto => {
            }
            "http1.1" => args.protocol = ProtocolArg::H1,
            // As in curl: by ALPN over TLS, as with `auto`, and by an upgrade on plain connections.
            "http2" if is_https => {}
            "http2" => args.protocol = ProtocolArg::H2cUpgrade,
            "http2-prior-knowledge" if is_https => args.protocol = ProtocolArg::H2,
            "http2-prior-knowledge" => args.protocol = ProtocolArg::H2c,
            other => {
                return Err(usage_error(format!(
                    "{}: --{other}: has no counterpart in dyno\nhint: leave it out",
                    request.location
                )));
            }
        }
    }
    Ok(())
}

/// Applies TLS settings of an imported command: trusted certificates, and the client certificate
/// and key.
fn apply_tls(
    request: &ImportedRequest,
    (name, value): (&str, &str),
    args: &mut LoadArgs,
    files: &ReadableFiles,
) -> anyhow::Result<()> {
    let is_from_command_line = args.import.is_none();
    let path = || -> anyhow::Result<Option<PathBuf>> {
        // Without `--files` the command is the user's own, and its files are those of curl.
        if is_from_command_line && args.files.is_none() {
            return Ok(Some(value.into()));
        }
        files
            .find(value)
            .map(Some)
            .map_err(|error| usage_error(format!("{}: {value}: {error}", request.location)))
    };
    match name {
        "insecure" if args.insecure || args.cacert.is_some() => {}
        "insecure" => {
            args.insecure = true;
            print_effect(
                request,
                is_from_command_line,
                "the server's certificate is not checked (-k)",
            );
        }
        "cacert" if args.insecure || args.cacert.is_some() => {}
        "cacert" => args.cacert = path()?,
        "cert" => {
            args.cert = args.cert.take().or(path()?);
            // Without `--key`, curl takes the key from the same file.
            if !request.options.iter().any(|(name, _)| name == "key") {
                args.key = args.key.take().or(path()?);
            }
        }
        _ => args.key = args.key.take().or(path()?),
    }
    Ok(())
}

/// Applies settings of an imported command for the address of the server.
fn apply_address(
    request: &ImportedRequest,
    (name, value): (&str, &str),
    args: &mut LoadArgs,
) -> anyhow::Result<()> {
    let is_from_command_line = args.import.is_none();
    match name {
        // The setting is for the server of the import, which the URL replaces.
        "resolve" if args.url.is_some() => {}
        "resolve" if args.resolve.iter().any(|known| known == value) => {}
        "resolve" => {
            print_effect(
                request,
                is_from_command_line,
                &format!("connections go where --resolve {value} says"),
            );
            args.resolve.push(value.into());
        }
        _ if is_from_command_line => {
            args.unix_socket.get_or_insert_with(|| value.into());
        }
        _ if args.unix_socket.is_some() => {}
        _ => {
            return Err(usage_error(format!(
                "{}: an imported file may not choose a Unix socket\nhint: to use this socket, add \
                 --unix-socket {}",
                request.location,
                terminal::quote(value)
            )));
        }
    }
    Ok(())
}

/// Converts a number of seconds to a time limit. `None`: 0, which means the default.
fn time_limit(
    request: &ImportedRequest,
    (name, value): (&str, &str),
) -> anyhow::Result<Option<Ns>> {
    if value.parse() == Ok(0.0) {
        return Ok(None);
    }
    let error = |error| usage_error(format!("{}: --{name} {value}: {error}", request.location));
    cli::timeout(value).map(Some).map_err(error)
}

fn expect(args: &LoadArgs) -> anyhow::Result<Expect> {
    let json = |text: &String| {
        command_line::expected_json(text)
            .map_err(|error| usage_error(format!("--expect-json {text:?}: {error}")))
    };
    Ok(Expect {
        status: args.expect_status,
        body: args.expect_body.clone().map(|text| Body(text.into_bytes())),
        headers: args
            .expect_header
            .iter()
            .map(|text| command_line::expected_header(text))
            .collect(),
        body_sha256: args.expect_sha256.clone(),
        body_contains: args.expect_contains.clone(),
        json: args.expect_json.iter().map(json).collect::<anyhow::Result<_>>()?,
        ..Expect::default()
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn errors_quote_no_secret_header() {
        for text in ["Connection: close", ":path: /x", "X: a\nY: b", "Host"] {
            assert_eq!(quotable_header(text), text);
        }
        for (text, quoted) in [
            ("X-Api-Key s3cr3tT0ken", "X-Api-Key …"),
            ("X-Api-Key=s3cr3tT0ken", "X-Api-Key=…"),
            ("Authorization: Bearer abcdef123", "Authorization:…"),
            ("X-Plain: Bearer abcdef123", "X-Plain:…"),
        ] {
            assert_eq!(quotable_header(text), quoted);
        }
    }

    /// Returns the changes to an import that `dyno load` reports, and the header names of the first
    /// request.
    fn reported_changes(words: &[&str]) -> (Vec<String>, Vec<String>) {
        let words = ["dyno", "load"].iter().chain(words);
        let Command::Load(mut args) = Cli::parse_from(words).command else { panic!() };
        let files = readable_files(&args);
        let (_, workload, changes) = read_requests(&mut args, &files).unwrap();
        let names = workload.requests[0].headers.iter().map(|(name, _)| name.clone()).collect();
        let lines =
            changes.lines().into_iter().filter(|line| !line.contains("adds by itself")).collect();
        (lines, names)
    }

    #[test]
    fn import_removes_headers_that_protocol_cannot_carry() {
        let curl = "curl http://h/ -H 'Connection: close' -H 'TE: gzip' -H 'X: y' -H 'Upgrade: x'";
        let (lines, names) = reported_changes(&["--curl", curl]);
        assert_eq!(
            (lines.len(), names),
            (0, ["Connection", "TE", "X", "Upgrade"].map(String::from).to_vec())
        );
        for curl in
            [curl.replace("curl", "curl --http2-prior-knowledge"), curl.replace("http:", "https:")]
        {
            let (lines, names) = reported_changes(&["--curl", &curl]);
            let expected = "import: 3 headers left out, because the protocol of the load cannot \
                            carry them: connection, te, upgrade";
            assert_eq!((lines, names), (vec![expected.to_string()], vec!["X".to_string()]));
        }
    }

    #[test]
    fn import_lists_ignored_settings() {
        let settings = |words: &[&str]| reported_changes(words).0.join("\n");
        let two = "curl http://h/ -m 2 --http1.1\ncurl http://h/ -m 3 --http2-prior-knowledge -k \
                   --http1.1";
        let lines = settings(&["--curl", two]);
        let has = "an option or an earlier command sets it";
        assert!(
            lines.contains(&format!("--insecure (the load has no TLS), --max-time 3 ({has})")),
            "{lines}"
        );
        assert!(!lines.contains("--http1.1"), "{lines}");
        let lines = settings(&["--timeout", "5s", "--curl", "curl http://h/ -m 2"]);
        assert!(lines.ends_with(&format!("--max-time 2 ({has})")), "{lines}");
        let lines =
            settings(&["http://other:1/", "--curl", "curl http://h/ --resolve h:80:127.0.0.1"]);
        assert!(
            lines.contains("servers replaced by the one on the command line: http://h"),
            "{lines}"
        );
        assert!(
            lines.contains("--resolve h:80:127.0.0.1 (the URL of the command line is used)"),
            "{lines}"
        );
    }

    #[test]
    fn import_lists_settings_of_some_commands() {
        let lines = |curl: &str| reported_changes(&["--curl", curl]).0.join("\n");
        let two = "curl http://h/a\ncurl --max-time 0.2 --http1.1 http://h/slow";
        let expected = "import: 2 connection settings applied to all commands: --http1.1 (of 1 of \
                        2 commands), --max-time 0.2 (of 1 of 2 commands)";
        assert_eq!(lines(two), expected);
        let zero = "curl -m 0 http://h/a\ncurl -m 3 http://h/b";
        assert!(lines(zero).ends_with(": --max-time 3 (of 1 of 2 commands)"), "{}", lines(zero));
        let both = "curl -m 2 http://h/a\ncurl -m 2 http://h/b";
        assert_eq!(lines(both), "");
    }

    #[test]
    fn certificates_of_curl_are_read_from_files_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), "").unwrap();
        let path = folder.path().to_str().unwrap();
        let read = |name: &str, files: &[&str]| {
            let curl = format!("curl --cacert {name} --cert {name} https://h/");
            let words = [&["dyno", "load", "--curl", &curl], files].concat();
            let Command::Load(mut args) = Cli::parse_from(words).command else { panic!() };
            let files = readable_files(&args);
            let error = read_requests(&mut args, &files).err().map(|error| error.to_string());
            error.map_or(Ok([args.cacert, args.cert, args.key]), Err)
        };
        let file = folder.path().canonicalize().unwrap().join("ca.pem");
        assert_eq!(read("ca.pem", &["--files", path]), Ok([(); 3].map(|()| Some(file.clone()))));
        for name in ["../ca.pem", "/ca.pem", "other.pem"] {
            let error = read(name, &["--files", path]).unwrap_err();
            assert!(error.contains(name), "{error}");
            assert_eq!(read(name, &[]), Ok([(); 3].map(|()| Some(name.into()))));
        }
    }

    #[test]
    fn import_refuses_too_short_time_limit() {
        let words = ["dyno", "load", "--curl", "curl -m 0.0005 http://h/"];
        let Command::Load(mut args) = Cli::parse_from(words).command else { panic!() };
        let files = readable_files(&args);
        let error = read_requests(&mut args, &files).unwrap_err().to_string();
        assert!(error.ends_with("--max-time 0.0005: must be at least 1ms"), "{error}");
    }
}
