//! Finds and reads contracts, the promised responses of servers: `contracts/NAME.toml`.
//! docs/reference/contracts.md describes every key.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dyno_config::keys::{self, Keys};
use dyno_config::mistake::{Mistake, mistake};
use dyno_config::text::{FileError, nearest};
use dyno_engine::Http2;
use dyno_engine::traffic::Template;
use dyno_launch::folder::read_in_folder;
use dyno_model::Protocol;
use dyno_model::plan::{Request, Workload};
use dyno_workload::ReadFile;
use dyno_workload::compile;
use dyno_workload::header;
use dyno_workload::workloads::RawRequest;

use crate::bytes::{self, ByteCheck};
use crate::lifecycle::{LifecyclePromise, PromiseKind};
use crate::limits::{BODY_BYTES, STREAMS, TIMES};

/// The promised responses of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Contract {
    pub name: String,
    pub description: String,
    pub checks: Vec<Check>,
}

/// One named promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    pub name: String,
    /// Protocols over which the promise is checked.
    pub protocols: Vec<Protocol>,
    /// Requests, sent one after the other on one connection. Empty only in lifecycle checks without
    /// requests.
    pub requests: Vec<Request>,
    /// Number of repetitions of all requests, on one connection.
    pub times: u32,
    /// Number of concurrent requests over HTTP/2.
    pub streams: u32,
    /// A check of bytes in place of plain exchanges.
    pub bytes: Option<ByteCheck>,
    /// A promise about the server's life, which is checked in a separate start.
    pub life: Option<LifecyclePromise>,
}

/// The built-in contracts, by name.
const BUILT_IN: [(&str, &str); 3] = [
    ("hello", include_str!("../../../contracts/hello.toml")),
    ("hello-bodies", include_str!("../../../contracts/hello-bodies.toml")),
    ("techempower", include_str!("../../../contracts/techempower.toml")),
];

/// Folder of contracts, next to the folder of subjects or within the folder of one.
const FOLDER: &str = "contracts";

impl Contract {
    /// Finds and reads a contract: in the folder `contracts` of the subject, in the folder
    /// `contracts` next to the folder of subjects, or among the built-in contracts.
    ///
    /// # Errors
    /// There is no contract with this name, or it has mistakes.
    pub fn find(name: &str, subject: &Path) -> Result<Contract, ContractError> {
        let folders = folders(subject);
        for folder in &folders {
            let file = format!("{name}.toml");
            let path = folder.join(&file);
            let invalid = |error: FileError| ContractError::Invalid(Box::new(error));
            match read_in_folder(Path::new(&file), folder, BODY_BYTES) {
                Ok(bytes) => {
                    let source = String::from_utf8(bytes).map_err(|_| {
                        invalid(FileError::without_position(
                            &path,
                            "cannot be read: not UTF-8 text",
                        ))
                    })?;
                    return Contract::from_source(&path, name, &source).map_err(invalid);
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => {
                    let message = format!("cannot be read: {error}");
                    return Err(invalid(FileError::without_position(&path, message)));
                }
            }
        }
        if let Some((_, source)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            let path = PathBuf::from(format!("{FOLDER}/{name}.toml"));
            return Contract::parse(&path, name, source, &|_| {
                Err("dyno's own contracts cannot use files".into())
            })
            .map_err(|error| ContractError::Invalid(Box::new(error)));
        }
        Err(ContractError::NotFound(not_found_text(name, &folders)))
    }

    fn from_source(path: &Path, name: &str, source: &str) -> Result<Contract, FileError> {
        let folder = path.parent().unwrap_or(Path::new(""));
        Contract::parse(path, name, source, &|file| {
            read_in_folder(Path::new(file), folder, BODY_BYTES).map_err(|error| error.to_string())
        })
    }

    /// # Errors
    /// All mistakes of the file.
    pub fn parse(
        path: &Path,
        name: &str,
        source: &str,
        read: ReadFile<'_>,
    ) -> Result<Contract, FileError> {
        keys::read(path, source, |keys| {
            let description = keys.optional::<String>("description").unwrap_or_default();
            let tables = keys.tables("checks");
            if tables.is_empty() {
                keys.add(mistake(
                    "checks",
                    "`checks`: a contract must have at least one check\nhint: add a check under \
                     [[checks]]",
                ));
            }
            let count = tables.len();
            let mut checks: Vec<Check> = Vec::new();
            for mut table in tables {
                if let Some(check) = read_check(&mut table, read) {
                    let is_same = |c: &Check| {
                        c.name == check.name
                            && c.protocols.iter().any(|p| check.protocols.contains(p))
                    };
                    if checks.iter().any(is_same) {
                        let message = format!(
                            "two checks that use the same protocol have the name {:?}\nhint: give \
                             one of them another `name`",
                            check.name
                        );
                        table.add(mistake("name", message));
                    }
                    checks.push(check);
                }
                table.finish();
            }
            (checks.len() == count && count > 0).then(|| Contract {
                name: name.into(),
                description,
                checks,
            })
        })
    }
}

impl Contract {
    /// Returns the name and protocol of a check that both contracts have.
    #[must_use]
    pub fn common_check(&self, other: &Contract) -> Option<(&str, Protocol)> {
        self.checks.iter().find_map(|check| {
            let mut same_name = other.checks.iter().filter(|c| c.name == check.name);
            let shared = same_name
                .find_map(|c| c.protocols.iter().find(|p| check.protocols.contains(p)).copied());
            Some((check.name.as_str(), shared?))
        })
    }

    /// Returns the names by which a subject can waive checks: their names, and their names at each
    /// protocol.
    pub fn waivable_names(&self) -> impl Iterator<Item = String> {
        self.checks.iter().flat_map(|check| {
            let at_protocols = check.protocols.iter().map(|p| check.name_at_protocol(*p));
            std::iter::once(check.name.clone()).chain(at_protocols)
        })
    }
}

/// The reason why a contract cannot be used.
#[derive(Debug)]
pub enum ContractError {
    /// There is no such contract.
    NotFound(String),
    /// The contract has mistakes.
    Invalid(Box<FileError>),
}

/// Returns the folders in which the contracts of a subject may be, nearest first.
fn folders(subject: &Path) -> Vec<PathBuf> {
    let shared = subject.parent().and_then(Path::parent).map(|folder| folder.join(FOLDER));
    std::iter::once(subject.join(FOLDER)).chain(shared).collect()
}

/// Returns the error for a missing contract, with a similar name or all names.
fn not_found_text(name: &str, folders: &[PathBuf]) -> String {
    let mut known: Vec<String> = BUILT_IN.iter().map(|(known, _)| (*known).to_string()).collect();
    for folder in folders {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "toml") {
                known.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
            }
        }
    }
    known.sort();
    known.dedup();
    match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("contract {name:?}: not found\nhint: did you mean {near:?}?"),
        None => format!(
            "contract {name:?}: not found\nhint: use one of {}, or create {FOLDER}/{name}.toml \
             next to the folder of subjects",
            known.iter().map(|known| format!("{known:?}")).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// Reads the table of a check, and reports its mistakes.
fn read_check(keys: &mut Keys<'_>, read: ReadFile<'_>) -> Option<Check> {
    let name = keys.take_required::<String>("name");
    if name.as_ref().is_some_and(String::is_empty) {
        keys.add(mistake("name", "`name`: must not be empty, because results use the name"));
    }
    let protocols = keys.parse("protocols", check_protocols);
    let times = keys.parse("times", |n| check_range("times", n, TIMES));
    let streams = keys.parse("streams", |n| check_range("streams", n, STREAMS));
    let bytes = keys.optional::<ByteCheck>("bytes");
    let life = LifecyclePromise::from_keys(keys);
    refuse_unused_keys(keys);
    let is_list = keys.has("requests");
    let requests = read_requests(keys, life.as_ref(), read)?;
    let protocols = protocols.unwrap_or_else(|| default_protocols(bytes));
    if bytes.is_some()
        && let Some(protocol) = protocols.iter().find(|protocol| !protocol.is_h1())
    {
        let message =
            format!("protocol {protocol}: cannot be used with `bytes`, which needs HTTP/1.1");
        keys.add(mistake("protocols", message));
    }
    let name = name?;
    let requests: Vec<Request> =
        requests.into_iter().map(|request| Request { name: name.clone(), ..request }).collect();
    if let Some((index, mistake)) = find_invalid_request(&requests, &protocols) {
        keys.add(match is_list {
            true => mistake.with_parent(index).with_parent("requests"),
            false => mistake,
        });
        return None;
    }
    if let Some(fault) = bytes.and_then(|bytes| bytes::invalid_requests_text(bytes, &requests)) {
        keys.add(mistake("bytes", fault));
        return None;
    }
    let (times, streams) = (times.unwrap_or(1), streams.unwrap_or(1));
    let check = Check { name, protocols, requests, times, streams, bytes, life };
    check_streams(&check).map_err(|mistake| keys.add(mistake)).ok()?;
    Some(check)
}

/// Reports the keys that lifecycle checks and checks of bytes do not use.
fn refuse_unused_keys(keys: &Keys<'_>) {
    let (unused, kind): (&[&'static str], _) = if keys.has("life") {
        (&["protocols", "times", "streams", "bytes"], "lifecycle check (a check with `life`)")
    } else if keys.has("bytes") {
        (&["times", "streams"], "check of bytes (a check with `bytes`)")
    } else {
        return;
    };
    for &key in unused.iter().filter(|key| keys.has(key)) {
        let message = format!("`{key}`: cannot be used in a {kind}\nhint: remove `{key}`");
        keys.add(mistake(key, message));
    }
}

/// Checks that a check can have as many requests in flight as its `streams`.
fn check_streams(check: &Check) -> Result<(), Mistake> {
    let &Check { streams, times, .. } = check;
    // `streams` of other kinds of checks is refused already.
    if streams == 1 || check.life.is_some() || check.bytes.is_some() {
        return Ok(());
    }
    let fault = |message: &str| Err(mistake("streams", message));
    if check.requests.len() > 1 {
        return fault(
            "`streams`: cannot be used with a list of `requests`, which are sent one after the \
             other\nhint: use one request",
        );
    }
    if !check.protocols.iter().any(|protocol| protocol.is_h2()) {
        return fault(
            "`streams`: needs HTTP/2, but all `protocols` of the check are HTTP/1.1\nhint: add a \
             protocol such as \"h2c\", or remove `streams`",
        );
    }
    let (min_times, reason) = if check.protocols.contains(&Protocol::H2cUpgrade) {
        (streams + 1, ", because the first request over h2c-upgrade is sent before the others")
    } else {
        (streams, "")
    };
    if times < min_times {
        return fault(&format!(
            "`streams`: {streams} concurrent requests need `times` of at least \
             {min_times}{reason}\nhint: set `times = {min_times}`"
        ));
    }
    Ok(())
}

/// Reads the requests of a check, and reports their mistakes.
fn read_requests(
    keys: &mut Keys<'_>,
    life: Option<&LifecyclePromise>,
    read: ReadFile<'_>,
) -> Option<Vec<Request>> {
    let is_list = keys.has("requests");
    if !keys.has("life") {
        return if is_list {
            read_request_list(keys, read)
        } else {
            Some(vec![read_request(keys, read)?])
        };
    }
    let Some(life) = life else {
        // The required keys depend on the promise, which could not be read.
        let _ = (keys.list::<RawRequest>("requests"), keys.take_rest::<RawRequest>());
        return None;
    };
    // A promise about a server's start (output, requests to back ends) needs no request.
    let is_start_only = life.kind == PromiseKind::Serves && !is_list && !keys.has("path");
    if life.kind == PromiseKind::Stops && is_list {
        keys.add(mistake(
            "requests",
            "`requests`: this check needs exactly one request, which must be in flight when the \
             server gets the stop signal\nhint: use `path` instead of `requests`",
        ));
        let _ = keys.list::<RawRequest>("requests");
        return None;
    }
    let needs_no_request = life.kind.is_refusal() || is_start_only;
    if needs_no_request {
        Some(Vec::new())
    } else if is_list {
        read_request_list(keys, read)
    } else {
        Some(vec![read_request(keys, read)?])
    }
}

/// Checks the protocols of a check: at least one, without `auto`.
fn check_protocols(protocols: Vec<Protocol>) -> Result<Vec<Protocol>, Mistake> {
    if protocols.is_empty() {
        return Err(mistake(
            "protocols",
            "`protocols`: the list must have at least one entry\nhint: to check all protocols, \
             remove `protocols`",
        ));
    }
    match protocols.iter().position(|p| *p == Protocol::Auto) {
        Some(i) => Err(mistake(
            "protocols",
            "protocol \"auto\": can be used for loads only\nhint: name a protocol, such as \"h1\"",
        )
        .with_child(i)),
        None => Ok(protocols),
    }
}

/// Returns the protocols of a check that names none.
fn default_protocols(bytes: Option<ByteCheck>) -> Vec<Protocol> {
    let protocols = Protocol::OF_SERVERS.into_iter();
    protocols.filter(|protocol| bytes.is_none() || protocol.is_h1()).collect()
}

fn check_range(key: &'static str, n: u32, max: u32) -> Result<u32, Mistake> {
    if (1..=max).contains(&n) {
        Ok(n)
    } else {
        Err(mistake(key, format!("`{key}`: must be 1 to {max}")))
    }
}

/// Reads the request whose keys are in the check itself.
fn read_request(keys: &mut Keys<'_>, read: ReadFile<'_>) -> Option<Request> {
    let raw = keys.take_rest::<RawRequest>()?;
    check_request(raw, read).map_err(|mistake| keys.add(mistake)).ok()
}

/// Checks a request of a check.
fn check_request(raw: RawRequest, read: ReadFile<'_>) -> Result<Request, Mistake> {
    match raw.mix_key() {
        Some(key) => {
            let message = format!("`{key}`: cannot be used in a contract\nhint: remove `{key}`");
            Err(mistake(key, message))
        }
        None => raw.check(read),
    }
}

/// Reads the list `requests` of a check.
fn read_request_list(keys: &mut Keys<'_>, read: ReadFile<'_>) -> Option<Vec<Request>> {
    let raw = keys.optional::<Vec<RawRequest>>("requests")?;
    if raw.is_empty() {
        keys.add(mistake(
            "requests",
            "`requests`: the list must have at least one entry\nhint: add a request with `path`",
        ));
        return None;
    }
    let checked = raw.into_iter().enumerate().map(|(i, raw)| {
        check_request(raw, read).map_err(|m| m.with_parent(i).with_parent("requests"))
    });
    checked.collect::<Result<Vec<_>, _>>().map_err(|mistake| keys.add(mistake)).ok()
}

/// Returns the first request that cannot be sent over one of the protocols: its index, and its
/// mistake.
fn find_invalid_request(requests: &[Request], protocols: &[Protocol]) -> Option<(usize, Mistake)> {
    requests.iter().enumerate().find_map(|(i, request)| {
        let headers = request.headers.iter();
        let mut pairs =
            headers.flat_map(|header| protocols.iter().map(move |protocol| (header, *protocol)));
        let fault = pairs.find_map(|((name, value), protocol)| {
            header::fault(protocol, name, value).map(|message| (name, message))
        });
        if let Some((name, message)) = fault {
            return Some((i, mistake("headers", message).with_child(name.clone())));
        }
        let workload = Workload {
            name: String::new(),
            protocol: Protocol::H1,
            requests: vec![request.clone()],
            page: None,
            sequence: None,
            requests_per_connection: None,
        };
        let read = |_: &str| Err("placeholders cannot be used in a contract".to_string());
        let mistake = match compile::compile(&workload, "host", &Http2::default(), &read) {
            Err(message) => mistake("path", message),
            Ok(traffic) => match traffic.requests()[0].template {
                Template::Fixed(_) => return None,
                Template::Varying { .. } => mistake(
                    "path",
                    "placeholders cannot be used in a contract, because its requests never \
                     vary\nhint: to send the text {name} itself, write {{name}}",
                ),
            },
        };
        Some((i, mistake))
    })
}

/// Returns the checks that a server with these contracts must pass at a listener of a protocol.
pub fn protocol_checks(contracts: &[Contract], protocol: Protocol) -> impl Iterator<Item = &Check> {
    let checks = contracts.iter().flat_map(|contract| &contract.checks);
    checks.filter(move |check| check.life.is_none() && check.protocols.contains(&protocol))
}

/// Returns the promises of these contracts about a server's life.
pub fn lifecycle_promises(
    contracts: &[Contract],
) -> impl Iterator<Item = (&Check, &LifecyclePromise)> {
    let checks = contracts.iter().flat_map(|contract| &contract.checks);
    checks.filter_map(|check| Some((check, check.life.as_ref()?)))
}

impl Check {
    /// Returns the check's name at one protocol, `json over h2`. A subject can waive the check
    /// under this name, for this protocol only.
    fn name_at_protocol(&self, protocol: Protocol) -> String {
        format!("{} over {protocol}", self.name)
    }

    /// Returns whether one of these names is the name of the check, alone or with this protocol.
    #[must_use]
    pub fn is_named_in(&self, names: &[String], protocol: Protocol) -> bool {
        names.contains(&self.name) || names.contains(&self.name_at_protocol(protocol))
    }
}

/// Returns the number of checks that a server must pass, over all its protocols.
#[must_use]
pub fn count_checks(contracts: &[Contract], protocols: &[Protocol]) -> usize {
    let at_protocols: usize =
        protocols.iter().map(|&protocol| protocol_checks(contracts, protocol).count()).sum();
    at_protocols + lifecycle_promises(contracts).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(source: &str) -> Result<Contract, String> {
        Contract::parse(Path::new("c.toml"), "c", source, &|_| Err("no files here".into()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn built_in_contracts_are_valid() {
        for (name, _) in BUILT_IN {
            let result = Contract::find(name, Path::new("/nowhere/subjects/x"));
            let Ok(contract) = result else { panic!("{name}: {result:?}") };
            for protocol in Protocol::OF_SERVERS {
                assert!(
                    protocol_checks(std::slice::from_ref(&contract), protocol).count() >= 2,
                    "{name} over {protocol}"
                );
            }
        }
    }

    #[test]
    fn contract_without_checks_fails() {
        for source in ["", "checks = []", "checks = 5"] {
            let message = parse(source).unwrap_err();
            assert!(
                message.contains("a contract must have at least one check"),
                "{source:?}: {message}"
            );
        }
    }

    #[test]
    fn possible_streams_are_accepted() {
        for keys in [
            "times = 10\nstreams = 10\nprotocols = [\"h1\", \"h2\", \"h2c\"]\npath = \"/\"",
            "times = 11\nstreams = 10\npath = \"/\"",
            "streams = 1\npath = \"/\"",
            "streams = 1\nrequests = [{ path = \"/\" }, { path = \"/b\" }]",
        ] {
            let check = parse(&format!("[[checks]]\nname = \"a\"\n{keys}"));
            assert!(check.is_ok(), "{keys}\n→ {check:?}");
        }
    }

    #[test]
    fn find_prefers_folder_of_subject() {
        let root = tempfile::tempdir().unwrap();
        let subject = root.path().join("subjects/x");
        let subject_folder = subject.join("contracts");
        std::fs::create_dir_all(&subject_folder).unwrap();
        std::fs::create_dir(root.path().join("contracts")).unwrap();
        let write = |path: PathBuf, description: &str| {
            let text =
                format!("description = {description:?}\n[[checks]]\nname = \"a\"\npath = \"/\"\n");
            std::fs::write(path, text).unwrap();
        };
        let find = |name: &str| Contract::find(name, &subject).unwrap().description;
        assert!(find("hello").contains("Hello"));
        write(root.path().join("contracts/hello.toml"), "shared");
        write(root.path().join("contracts/shop.toml"), "shop");
        assert_eq!((find("hello").as_str(), find("shop").as_str()), ("shared", "shop"));
        write(subject_folder.join("hello.toml"), "own");
        assert_eq!(find("hello"), "own");
        let Err(ContractError::NotFound(message)) = Contract::find("shpo", &subject) else {
            panic!("there is no such contract")
        };
        assert_eq!(message, "contract \"shpo\": not found\nhint: did you mean \"shop\"?");
        std::fs::write(subject_folder.join("bad.toml"), "[[checks]]\nnmae = 1\n").unwrap();
        let Err(ContractError::Invalid(error)) = Contract::find("bad", &subject) else {
            panic!("the contract has a mistake")
        };
        assert!(error.to_string().contains("bad.toml:2:1: unknown key `nmae`"), "{error}");
    }

    /// Keys of a check with a mistake, the position of the mistake, and a part of its message.
    const MISTAKES: &[(&str, &str, &str)] = &[
        ("path = \"x\"", "c.toml:3:8", "must begin with a slash"),
        ("", "c.toml:1:1", "`path`: a request must have one"),
        ("path = \"/{seq}\"", "c.toml:3:8", "placeholders cannot be used"),
        ("path = \"/\"\ntimes = 0", "c.toml:4:9", "`times`: must be 1 to"),
        (
            "path = \"/\"\nprotocols = [\"h2\"]\ntimes = 9\nstreams = 10",
            "c.toml:6:11",
            "`streams`: 10 concurrent requests need `times` of at least 10",
        ),
        (
            "path = \"/\"\ntimes = 10\nstreams = 10",
            "c.toml:5:11",
            "at least 11, because the first request over h2c-upgrade is sent before the others",
        ),
        ("path = \"/\"\nstreams = 2", "c.toml:4:11", "need `times` of at least 3"),
        (
            "path = \"/\"\nprotocols = [\"h1\"]\ntimes = 10\nstreams = 10",
            "c.toml:6:11",
            "`streams`: needs HTTP/2",
        ),
        (
            "requests = [{ path = \"/\" }, { path = \"/b\" }]\ntimes = 9\nstreams = 2",
            "c.toml:5:11",
            "one after the other",
        ),
        (
            "path = \"/\"\nbytes = \"in-pieces\"\ntimes = 5",
            "c.toml:5:9",
            "`times`: cannot be used in a check of bytes",
        ),
        (
            "path = \"/\"\nbytes = \"in-pieces\"\nstreams = 5",
            "c.toml:5:11",
            "`streams`: cannot be used in a check of bytes",
        ),
        (
            "path = \"/\"\nlife = \"stops\"\nstreams = 5",
            "c.toml:5:11",
            "`streams`: cannot be used in a lifecycle check",
        ),
        ("path = \"/\"\nweight = 2", "c.toml:4:10", "`weight`: cannot be used in a contract"),
        (
            "requests = [{ path = \"/\" }, { path = \"/b\", name = \"b\" }]",
            "c.toml:3:51",
            "`name`: cannot be used in a contract",
        ),
        ("path = \"/\"\nbytes = \"pipelind\"", "c.toml:4:9", "did you mean `pipelined`?"),
        (
            "path = \"/\"\nbytes = \"pipelined\"\nprotocols = [\"h2\"]",
            "c.toml:5:13",
            "which needs HTTP/1.1",
        ),
        ("path = \"/\"\nprotocols = [\"h1\", \"auto\"]", "c.toml:4:20", "for loads only"),
        (
            "path = \"/\"\nexpect = { body_matches = \"(\" }",
            "c.toml:3:8",
            "not a regular expression",
        ),
        ("path = \"/\"\nexpect = { stauts = 200 }", "c.toml:4:12", "did you mean `status`?"),
        (
            "requests = [{ path = \"/\" }, { path = \"x\" }]",
            "c.toml:3:38",
            "must begin with a slash",
        ),
        ("path = \"/\"\nprints = [\"a\"]", "c.toml:4:10", "needs `life` in the same check"),
        ("life = \"serves\"\npath = \"/\"", "c.toml:3:8", "needs `prints` or `asks`"),
        ("life = \"serv\"", "c.toml:3:8", "did you mean `serves`?"),
        ("life = \"serves\"\nprints = [\"(\"]", "c.toml:4:11", "not a regular expression"),
        ("life = \"serves\"\nprints = []", "c.toml:4:10", "`prints`: the list must have"),
        ("life = \"serves\"\nasks = [\"a\"]", "c.toml:4:9", "each entry needs `backend`"),
        (
            "life = \"serves\"\nprints = [{ matches = \"a\", times = 1, at_most = 2 }]",
            "c.toml:4:11",
            "only one of `times`",
        ),
        ("life = \"stops\"\npath = \"/\"\ntimes = 5", "c.toml:5:9", "`times`: cannot be used"),
        ("life = \"stops\"", "c.toml:1:1", "`path`: a request must have one"),
        ("life = \"refuses-missing\"\npath = \"/\"", "c.toml:4:1", "unknown key `path`"),
        (
            "life = \"refuses-missing\"\nasks = [{ backend = \"b\", matches = \"a\" }]",
            "c.toml:4:8",
            "a server that refuses to start",
        ),
        (
            "life = \"stops\"\npath = \"/\"\nasks = [{ backend = \"b\", matches = \"a\" }]",
            "c.toml:5:8",
            "move `asks` to a separate",
        ),
        (
            "life = \"serves\"\nprints = [\"a\"]\nwithin = \"1s\"",
            "c.toml:5:10",
            "does not end the server",
        ),
        (
            "life = \"refuses-missing\"\nwithin = \"1h\"",
            "c.toml:4:10",
            "`within`: must be at most 120s",
        ),
        (
            "path = \"/\"\n[[checks]]\nname = \"a\"\npath = \"/\"",
            "c.toml:5:8",
            "have the name \"a\"",
        ),
    ];

    #[test]
    fn mistake_in_check_has_position() {
        let parse_keys =
            |keys: &str| parse(&format!("[[checks]]\nname = \"a\"\n{keys}")).unwrap_err();
        for &(keys, position, words) in MISTAKES {
            let error = parse_keys(keys);
            assert!(error.starts_with(position) && error.contains(words), "{keys}\n→ {error}");
        }
        assert!(parse("").unwrap_err().contains("at least one check"));
    }
}
