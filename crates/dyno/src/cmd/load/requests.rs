//! Reads the requests to send: from the URL and its options, from a mix on the command line, or
//! from another tool's file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dyno_config::hint;
use dyno_config::quotation::{quote, quote_header};
use dyno_model::Protocol;
use dyno_model::plan::{Body, Cookies, Expect, Page, Request, Sequence, Workload};
use dyno_suite::files::Folder;
use dyno_suite::settings::Setting;
use dyno_suite::target::{ProtocolChoice, Scheme, Url, choose_protocol};
use dyno_workload::import::{
    self, Braces, ChangeKind, Changes, ImportFormat, ImportOrder, ImportedRequest, Imports,
    UniqueRequests,
};
use dyno_workload::{command_line, header, workloads};

use super::steps;
use crate::cli::LoadArgs;
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
            let imports = import::curl(command, &|name| files.read(name));
            let error = |error| usage_error(format!("--curl: {error}"));
            Some(imports.map_err(error)?.with_source("--curl"))
        }
        (None, Some(path)) => Some(read_import(path, args.import_format, files)?),
        (None, None) => None,
    };
    let is_import = imports.is_some();
    let sequence = match &imports {
        Some(Imports { order: ImportOrder::Sequence, .. }) => {
            Some(Sequence { cookies: Cookies::Kept })
        }
        _ => steps::sequence(args),
    };
    let (url, mut requests, mut changes) = match imports {
        Some(imports) => import_requests(imports, args, files)?,
        None => {
            let (url, requests) = command_line_requests(args)?;
            (url, requests, Changes::default())
        }
    };
    let protocol =
        choose_protocol(args.protocol, url.scheme, streams(args)).map_err(usage_error)?;
    let headers = headers(args, protocol)?;
    if is_import {
        remove_invalid_headers(&mut requests, protocol, &mut changes);
    }
    let extracted = steps::extracted_names(&requests);
    for (i, request) in requests.iter_mut().enumerate() {
        // A header of the command line replaces imported headers of the same name.
        let is_replaced =
            |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        request.headers.retain(|(name, _)| !is_replaced(name));
        let sent = headers.iter().filter(|(_, value)| steps::has_values(value, i, &extracted));
        request.headers.extend(sent.cloned());
        // On a page the expectations are for the document. Its resources may have any status from
        // 200 to 399.
        if i == 0 || args.resources.is_empty() {
            let recorded = request.expect.status;
            request.expect = Expect { status: expect.status.or(recorded), ..expect.clone() };
        }
    }
    command_line::number_duplicates(&mut requests);
    let workload = Workload {
        name: "load".into(),
        protocol,
        requests,
        page: page(args),
        sequence,
        requests_per_connection: None,
    };
    Ok((url, workload, changes))
}

/// Removes headers of imported requests that are not valid in the protocol.
fn remove_invalid_headers(requests: &mut [Request], protocol: Protocol, changes: &mut Changes) {
    for request in requests {
        request.headers.retain(|(name, value)| {
            let is_valid = header::fault(protocol, name, value).is_none();
            if !is_valid {
                changes.add(ChangeKind::UncarriedHeader, &name.to_ascii_lowercase());
            }
            is_valid
        });
    }
}

/// Parses the headers of `-H`. Each header must be valid in the protocol.
fn headers(args: &LoadArgs, protocol: Protocol) -> anyhow::Result<Vec<(String, String)>> {
    let parse = |text: &String| {
        let error = |problem: String| usage_error(format!("-H {}: {problem}", quote_header(text)));
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

/// Returns a note on requests with an `Upgrade` header, for display before the load. `None`: no
/// request has this header.
pub fn note_on_upgrade(workload: &Workload) -> Option<String> {
    let headers = workload.requests.iter().flat_map(|request| &request.headers);
    let (_, upgrade) =
        headers.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("upgrade"))?;
    let upgrade = dyno_report::terminal::escape_line(upgrade);
    let protocol = if upgrade.eq_ignore_ascii_case("websocket") { "WebSocket" } else { &upgrade };
    let hint = match upgrade.eq_ignore_ascii_case("h2c") {
        true => "use --protocol h2c-upgrade to speak HTTP/2 after an upgrade",
        false => "remove the header to load the server with HTTP requests",
    };
    Some(format!(
        "Upgrade: {upgrade}: dyno sends this header, but does not switch to {protocol}, so each \
         101 response is reported as protocol_error\nhint: {hint}"
    ))
}

/// Returns the page of the command line; `None`: it has no resources.
fn page(args: &LoadArgs) -> Option<Page> {
    let connections = args.page_connections.unwrap_or(workloads::PAGE_CONNECTIONS);
    (!args.resources.is_empty()).then_some(Page { connections })
}

/// Returns the streams per connection.
pub fn streams(args: &LoadArgs) -> u32 {
    args.settings.streams_for(page(args).filter(|_| args.protocol != ProtocolChoice::H1))[0]
}

/// The files that placeholders and imports may name.
#[derive(Clone, Debug)]
pub enum ReadableFiles {
    Folder(Folder),
    /// No files: an import from another author might read the user's files.
    Nothing,
}

/// Returns the files that requests may name. The command line may name files in the current folder.
/// An imported file may name files only with `--files`.
pub fn readable_files(args: &LoadArgs) -> ReadableFiles {
    const OUTSIDE_HINT: &str = "use a file of the current folder or below it, or name another \
                                folder with --files FOLDER";
    match (&args.files, &args.import) {
        (Some(folder), _) => ReadableFiles::Folder(Folder::new(folder, OUTSIDE_HINT)),
        (None, None) => ReadableFiles::Folder(Folder::new(Path::new("."), OUTSIDE_HINT)),
        (None, Some(_)) => ReadableFiles::Nothing,
    }
}

/// Refuses `--files` if no request names a file. `files`: after all requests were compiled.
pub fn refuse_unused_folder(args: &LoadArgs, files: &ReadableFiles) -> anyhow::Result<()> {
    if args.files.is_some() && files.file_hashes().is_empty() {
        return Err(usage_error(
            "--files: has no effect, because no request names a file\nhint: remove --files",
        ));
    }
    Ok(())
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
        self.file_hashes().keys().filter_map(|name| self.permitted_path(name).ok()).collect()
    }

    /// Returns the path of a file, if requests may name this file.
    fn permitted_path(&self, name: &str) -> Result<PathBuf, String> {
        match self {
            ReadableFiles::Folder(folder) => folder.find(name),
            ReadableFiles::Nothing => Err(NO_FILES.into()),
        }
    }
}

const NO_FILES: &str = "an imported file must not name other files\nhint: to allow files of a \
                        folder, add --files FOLDER";

fn read_named_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    let path = path.to_string_lossy();
    read_file(&path).map_err(|error| usage_error(format!("{path}: cannot be read: {error}")))
}

/// Returns the server and requests of the command line: the URL with its options, or the mix.
fn command_line_requests(args: &LoadArgs) -> anyhow::Result<(Url, Vec<Request>)> {
    let url = Url::parse(args.url.as_deref().unwrap_or_default()).map_err(usage_error)?;
    if !args.steps.is_empty() {
        return Ok((url, steps::read(args)?));
    }
    if !args.mix.is_empty() {
        let parse_entry = |text: &String| {
            command_line::parse_mix_entry(text, &read_file)
                .map_err(|error| usage_error(format!("--request {}: {error}", quote(text))))
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
    format: Option<ImportFormat>,
    files: &ReadableFiles,
) -> anyhow::Result<Imports> {
    let text = String::from_utf8(read_named_file(path)?)
        .map_err(|_| usage_error(format!("{}: must be a text file (UTF-8)", path.display())))?;
    let format = format.unwrap_or_else(|| ImportFormat::guess(path, &text));
    let imports = format.read(&text, &|name| files.read(name)).map_err(|error| {
        let (path, name) = (path.display(), format.name());
        let message = format!("{path} (read as {name}): {error}");
        usage_error(hint::with_default(message, "set another format with --import-format"))
    })?;
    Ok(imports.with_source(&path.display().to_string()))
}

/// Converts imported requests, which must all be for one server. Equal requests become one request
/// with a weight.
fn import_requests(
    imports: Imports,
    args: &mut LoadArgs,
    files: &ReadableFiles,
) -> anyhow::Result<(Url, Vec<Request>, Changes)> {
    let mut server: Option<Url> =
        args.url.as_deref().map(Url::parse).transpose().map_err(usage_error)?;
    let braces = if args.import_templates { Braces::Placeholders } else { Braces::Text };
    let mut requests = Vec::new();
    let Imports { requests: imported, mut changes, order } = imports;
    let mut applied = AppliedSettings::default();
    for request in imported {
        let mut url = Url::parse(&request.url)
            .map_err(|error| usage_error(format!("{}: {error}", request.location)))?;
        match server.as_ref().filter(|server| !server.is_same_server(&url)) {
            None => {}
            // A URL on the command line replaces the server of the import.
            Some(_) if args.url.is_some() => {
                let replaced = format!("{}://{}", url.scheme.name(), url.authority());
                changes.add(ChangeKind::Server, &replaced);
            }
            Some(server) => {
                return Err(usage_error(format!(
                    "{}: {} is another server than {}, but a load has one server\nhint: remove the \
                     requests to other servers, or give the URL of the server for all requests",
                    request.location,
                    url.authority(),
                    server.authority()
                )));
            }
        }
        let is_https = server.as_ref().unwrap_or(&url).scheme == Scheme::Https;
        applied.add_command(&request, is_https, args, &mut changes);
        apply_settings(&request, is_https, args, files)?;
        let path = std::mem::take(&mut url.target);
        requests.push(request.into_request(&path, braces));
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
    if order == ImportOrder::Sequence {
        return Ok((server, requests, changes));
    }
    let mut unique = UniqueRequests::default();
    requests.into_iter().for_each(|request| unique.add(request));
    let (requests, mix_changes) = unique.into_requests();
    changes.extend(mix_changes);
    Ok((server, requests, changes))
}

/// Connection settings of the whole load that commands of an import have set.
#[derive(Default)]
struct AppliedSettings {
    /// The setting that the load has, by kind.
    settings: BTreeMap<String, AppliedSetting>,
    /// Number of commands so far.
    commands: usize,
}

struct AppliedSetting {
    /// The option of the first command that has a setting of the kind.
    option: String,
    /// Number of commands that have a setting of the kind.
    commands: usize,
}

impl AppliedSettings {
    /// Adds the settings of a command. Settings that [`apply_settings`] ignores are added to
    /// `changes` instead, with the reason.
    fn add_command(
        &mut self,
        request: &ImportedRequest,
        is_https: bool,
        args: &LoadArgs,
        changes: &mut Changes,
    ) {
        self.commands += 1;
        let mut kinds = BTreeSet::new();
        for (name, value) in &request.options {
            if is_default(name, value, is_https) {
                continue;
            }
            let option =
                if value.is_empty() { format!("--{name}") } else { format!("--{name} {value}") };
            // A command has one HTTP version, which several options of curl can set.
            let kind = if name.starts_with("http") { "http" } else { name };
            kinds.insert(kind);
            match self.ignored_reason(kind, &option, is_https, args) {
                Some(reason) => changes.add(ChangeKind::Setting, &format!("{option} ({reason})")),
                // `-k` of the command line is already for the whole load.
                None if kind == "insecure" && args.insecure => {}
                None => {
                    let first = AppliedSetting { option, commands: 0 };
                    self.settings.entry(kind.into()).or_insert(first);
                }
            }
        }
        for kind in kinds {
            if let Some(setting) = self.settings.get_mut(kind) {
                setting.commands += 1;
            }
        }
    }

    /// Returns the reason why the load ignores a setting of a command. `None`: the load has the
    /// setting.
    fn ignored_reason(
        &self,
        kind: &str,
        option: &str,
        is_https: bool,
        args: &LoadArgs,
    ) -> Option<&'static str> {
        let is_tls = ["insecure", "cacert", "cert", "key"].contains(&kind);
        if is_tls && !is_https {
            return Some("the load has no TLS");
        }
        // A load can have several `--resolve`.
        if kind == "resolve" {
            return args.url.is_some().then_some("dyno uses the URL of the command line");
        }
        let is_set_elsewhere = match self.settings.get(kind) {
            Some(first) => first.option != option,
            None => is_set_by_option(args, kind),
        };
        is_set_elsewhere.then_some("an option or an earlier command sets another value")
    }

    /// Reports the settings that also apply to commands without them, because a load has one
    /// setting of each kind.
    fn report_extended(&self, changes: &mut Changes) {
        for AppliedSetting { option, commands } in self.settings.values() {
            let others = self.commands - commands;
            if others > 0 {
                let text =
                    format!("{option} (only {commands} of {} commands set it)", self.commands);
                changes.add(ChangeKind::ExtendedSetting, &text);
            }
        }
    }
}

/// Whether a setting of curl is the default of both curl and dyno.
fn is_default(name: &str, value: &str, is_https: bool) -> bool {
    match name {
        "max-time" | "connect-timeout" => value.parse() == Ok(0.0),
        // Over https, `auto` already offers HTTP/2 (by ALPN).
        "http2" => is_https,
        _ => false,
    }
}

/// Whether an option of the command line sets curl's setting `kind`.
fn is_set_by_option(args: &LoadArgs, kind: &str) -> bool {
    match kind {
        "max-time" => args.settings.has("timeout"),
        "connect-timeout" => args.settings.has("connect_timeout"),
        "http" => args.protocol != ProtocolChoice::Auto,
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
            "max-time" => apply_time_limit(request, "timeout", (name, value), args)?,
            "connect-timeout" => {
                apply_time_limit(request, "connect_timeout", (name, value), args)?;
            }
            "http1.1" | "http2" | "http2-prior-knowledge"
                if args.protocol != ProtocolChoice::Auto => {}
            "http1.1" => args.protocol = ProtocolChoice::H1,
            // As in curl: over https by ALPN, which `auto` does already. Otherwise by an upgrade.
            "http2" if is_https => {}
            "http2" => args.protocol = ProtocolChoice::H2cUpgrade,
            "http2-prior-knowledge" if is_https => args.protocol = ProtocolChoice::H2,
            "http2-prior-knowledge" => args.protocol = ProtocolChoice::H2c,
            other => {
                return Err(usage_error(format!(
                    "{}: --{other}: has no equivalent in dyno\nhint: remove --{other}",
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
        // The user wrote this command, so it may name any file, as in curl. With `--files`, the
        // command may name only files of that folder.
        if is_from_command_line && args.files.is_none() {
            return Ok(Some(value.into()));
        }
        files
            .permitted_path(value)
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
        // `--resolve` of an import is for the server of the import. A URL on the command line
        // replaces this server.
        "resolve" if args.url.is_some() => {}
        "resolve" if args.resolve.iter().any(|known| known == value) => {}
        "resolve" => {
            print_effect(
                request,
                is_from_command_line,
                &format!("connections go to the address of --resolve {value}"),
            );
            args.resolve.push(value.into());
        }
        _ if is_from_command_line => {
            args.unix_socket.get_or_insert_with(|| value.into());
        }
        _ if args.unix_socket.is_some() => {}
        _ => {
            return Err(usage_error(format!(
                "{}: an imported file must not choose a Unix socket\nhint: to use this socket, add \
                 --unix-socket {}",
                request.location,
                terminal::quote(value)
            )));
        }
    }
    Ok(())
}

/// Applies a time limit of an imported command, in seconds, to the setting with this key. 0 means
/// the default.
fn apply_time_limit(
    request: &ImportedRequest,
    key: &str,
    (name, value): (&str, &str),
    args: &mut LoadArgs,
) -> anyhow::Result<()> {
    if value.parse() == Ok(0.0) || args.settings.has(key) {
        return Ok(());
    }
    let error = |error| usage_error(format!("{}: --{name} {value}: {error}", request.location));
    args.settings.set(Setting::with_key(key), value).map_err(error)
}

/// Returns the expected response of the `--expect` options.
fn expect(args: &LoadArgs) -> anyhow::Result<Expect> {
    let json = |text: &String| {
        command_line::expected_json(text)
            .map_err(|error| usage_error(format!("--expect-json {}: {error}", quote(text))))
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
mod tests;
