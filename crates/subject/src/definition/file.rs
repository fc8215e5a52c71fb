//! Reads `subject.toml` and `backend.toml`, and tells all mistakes of a file at once.

use std::collections::BTreeMap;
use std::path::Path;

use dyno_archive::Protocol;
use dyno_contract::contracts::{Check, Contract, NotFound};
use dyno_contract::ready::Status;
use dyno_launch::environment::Inherit;
use dyno_launch::process::Signal;
use dyno_workload::inside::Inside;
use dyno_workload::keys::{self, Keys};
use dyno_workload::mistake::{Mistake, mistake};
use dyno_workload::text::{FileError, nearest};

use super::spec::{
    BUILD, BuildSpec, CommandSpec, DATA, FileSpec, Nanoseconds, QUESTION, ReadyBy, ReadyKeys, ReadySpec,
    Require, StartSpec, StopKeys, StopSpec, Variant,
};
use super::{Definition, Role};
use crate::limits_keys::{CheckedLimits, RawLimits};
use crate::paths::{self, Name};
use crate::placeholders::{self, OF_BACKEND, Place};

/// What a stop waits for unless its file says otherwise.
const STOP: Nanoseconds = Nanoseconds(5_000_000_000);

/// How long a start may take to be ready unless its file says otherwise.
const READY: Nanoseconds = Nanoseconds(20_000_000_000);

/// The folder of a definition, whose files it may name.
#[derive(Clone, Copy)]
struct Home<'a> {
    folder: &'a Path,
    role: Role,
}

impl Definition {
    /// Reads `subject.toml` in `folder`.
    ///
    /// # Errors
    /// All mistakes of the file, or of the contracts that it names.
    pub fn read(folder: &Path) -> Result<Definition, FileError> {
        Definition::read_as(folder, Role::Subject)
    }

    /// Reads the file of its role in `folder`.
    ///
    /// # Errors
    /// All mistakes of the file, or of the contracts that it names.
    pub fn read_as(folder: &Path, role: Role) -> Result<Definition, FileError> {
        let path = folder.join(role.file());
        let source = std::fs::read_to_string(&path)
            .map_err(|error| FileError::whole(&path, format!("cannot be read: {error}")))?;
        Definition::parse(folder, role, &source)
    }

    /// As if this stood in the file of its role in `folder`.
    ///
    /// # Errors
    /// All mistakes of the text, or of the contracts that it names.
    pub fn parse(folder: &Path, role: Role, source: &str) -> Result<Definition, FileError> {
        let path = folder.join(role.file());
        let mut of_contract = None;
        let home = Home { folder, role };
        let read = keys::read(&path, source, |keys| home.definition(keys, &mut of_contract));
        match (read, of_contract) {
            // A contract's own mistakes stand in its own file.
            (Err(error), Some(of_contract)) if error.message == SEE_CONTRACT && error.more.is_empty() => {
                Err(of_contract)
            }
            (Err(mut error), Some(of_contract)) => {
                error.more.push(of_contract);
                Err(error)
            }
            (read, _) => {
                let definition = read?;
                let located = |mistake: Mistake| mistake.locate(&path, source);
                definition.check().map_err(located)?;
                for (name, over) in &definition.variants {
                    definition.overridden(name, over).map_err(located)?;
                }
                Ok(definition)
            }
        }
    }
}

/// Stands for the mistakes of a contract until they are told instead.
const SEE_CONTRACT: &str = "this contract has mistakes";

impl Home<'_> {
    fn definition(self, keys: &mut Keys<'_>, of_contract: &mut Option<FileError>) -> Option<Definition> {
        // Every key is read, whatever is wrong with those before it.
        let nature = self.nature(keys);
        let contracts = self.contracts(keys, of_contract).unwrap_or_default();
        let waive = waive(keys, &contracts).unwrap_or_default();
        let backends = self.backends(keys).unwrap_or_default();
        let requires = requires(keys);
        let version = keys.table("version").map(|table| command(table, Place::Question, QUESTION));
        let build = keys.table("build").map(build);
        let data = self.data(keys);
        let start = keys.required_table("start").map(|table| self.start(table));
        let stop = keys.table("stop").map(stop).unwrap_or_default();
        let ready = keys.table("ready").map(ready).unwrap_or_default();
        let endpoints = keys.optional("endpoints").unwrap_or_default();
        let mut variants = BTreeMap::new();
        for (variant, table) in keys.named_tables("variants") {
            variants.insert(variant, self.variant(table, &contracts, of_contract));
        }
        let Nature { name, title, language, description, protocols } = nature?;
        let Data { limits, seed, reset } = data?;
        let usual = if protocols.is_empty() { ReadyBy::Listening } else { answer_at("/") };
        Some(Definition {
            name,
            role: self.role,
            title,
            language,
            description,
            protocols,
            contracts,
            waive,
            backends,
            requires: requires?,
            // A table that is there and wrong has been told of.
            version: whole(version)?,
            build: whole(build)?,
            limits,
            seed,
            reset,
            start: start??,
            stop: StopSpec {
                signal: stop.signal.unwrap_or_default(),
                deadline_ns: stop.deadline.unwrap_or(STOP).0,
            },
            ready: ReadySpec {
                by: ready.by.unwrap_or(usual),
                deadline_ns: ready.deadline.unwrap_or(READY).0,
            },
            endpoints,
            variants,
            folder: self.folder.into(),
        })
    }

    fn nature(self, keys: &mut Keys<'_>) -> Option<Nature> {
        let called = self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = keys.optional::<Name>("name").map(|name| name.0);
        if let Some(name) = name.as_ref().filter(|name| **name != called) {
            keys.add(mistake("name", format!("`name` is {name:?}, but its folder is {called:?}")));
        }
        let name = name.unwrap_or(called);
        let title = keys.optional("title").unwrap_or_else(|| name.clone());
        let (language, protocols) = match self.role {
            Role::Subject => (keys.required("language"), keys.required("protocols")),
            Role::Backend => (
                Some(keys.optional("language").unwrap_or_default()),
                Some(keys.optional("protocols").unwrap_or_default()),
            ),
        };
        let description = keys.optional("description").unwrap_or_default();
        Some(Nature { name, title, language: language?, description, protocols: protocols? })
    }

    /// What only back ends have.
    fn data(self, keys: &mut Keys<'_>) -> Option<Data> {
        if self.role == Role::Subject {
            return Some(Data::default());
        }
        let limits = keys.parsed("limits", |raw: RawLimits| raw.check().map_err(|m| m.within("limits")));
        let [seed, reset] =
            ["seed", "reset"].map(|key| keys.table(key).map(|table| command(table, Place::Start, DATA)));
        Some(Data { limits: limits.unwrap_or_default(), seed: whole(seed)?, reset: whole(reset)? })
    }

    /// The contracts that `checks` names.
    fn contracts(self, keys: &mut Keys<'_>, of_contract: &mut Option<FileError>) -> Option<Vec<Contract>> {
        keys.parsed("checks", |names: Vec<String>| {
            let find = |(i, name): (usize, &String)| {
                Name::parse(name)
                    .map_err(|_| format!("{name:?} is not the name of a contract, which is that of its file, without any `/`"))
                    .and_then(|_| {
                        Contract::find(name, self.folder).map_err(|not_found| match not_found {
                            NotFound::None(why) => why,
                            NotFound::Wrong(error) => {
                                of_contract.get_or_insert(*error);
                                SEE_CONTRACT.into()
                            }
                        })
                    })
                    .map_err(|why| mistake("checks", why).below(i))
            };
            names.iter().enumerate().map(find).collect()
        })
    }

    fn backends(self, keys: &mut Keys<'_>) -> Option<Vec<String>> {
        keys.parsed("backends", |names: Vec<String>| match names.iter().position(|name| !is_backend(name)) {
            None => Ok(names),
            Some(i) => Err(mistake("backends", not_a_backend(&names[i])).below(i)),
        })
    }

    fn start(self, mut keys: Keys<'_>) -> Option<StartSpec> {
        let command = keys.required::<Vec<String>>("command");
        if command.as_ref().is_some_and(Vec::is_empty) {
            keys.add(mistake("command", "`start.command` is empty"));
        }
        let parts = self.start_parts(&mut keys);
        check_words(&keys, "command", command.as_deref());
        let command = command.filter(|command| !command.is_empty());
        let port = keys.parsed("port", |n| checked_port("port", n));
        let tls_port = keys.parsed("tls_port", |n| checked_port("tls_port", n));
        keys.end();
        Some(StartSpec {
            command: command?,
            env: parts.env,
            inherit: parts.inherit,
            files: parts.files.unwrap_or_default(),
            cwd: parts.cwd.unwrap_or_else(|| "{work}".into()),
            port,
            tls_port,
        })
    }

    /// What the start of a definition and that of a variant both have.
    fn start_parts(self, keys: &mut Keys<'_>) -> StartParts {
        let env = env(keys, Place::Start);
        let inherit = keys.optional("inherit").unwrap_or_default();
        let files = keys.optional::<Vec<FileSpec>>("files");
        for (i, file) in files.iter().flatten().enumerate() {
            if let Err(why) = Place::Start.check(file.to.text()) {
                keys.add(mistake("files", why).below(i).below("to"));
            }
            // What cannot be read is told when it is needed.
            let template = paths::read(&file.template, self.folder).unwrap_or_default();
            if let Err(why) = Place::Start.check(&String::from_utf8_lossy(&template)) {
                keys.add(mistake("files", format!("{}: {why}", file.template)).below(i).below("template"));
            }
        }
        let cwd = keys.parsed("cwd", cwd);
        StartParts { env, inherit, files, cwd }
    }

    fn variant(self, mut keys: Keys<'_>, whole: &[Contract], of_contract: &mut Option<FileError>) -> Variant {
        let contracts = self.contracts(&mut keys, of_contract);
        let kept: Vec<Contract> = contracts.clone().unwrap_or_else(|| whole.to_vec());
        let command_words = keys.optional::<Vec<String>>("command");
        if command_words.as_ref().is_some_and(Vec::is_empty) {
            keys.add(mistake("command", "`command` is empty"));
        }
        check_words(&keys, "command", command_words.as_deref());
        let parts = self.start_parts(&mut keys);
        let variant = Variant {
            title: keys.optional("title"),
            description: keys.optional("description"),
            protocols: keys.optional("protocols"),
            waive: waive(&mut keys, &kept),
            contracts,
            backends: self.backends(&mut keys).unwrap_or_default(),
            requires: requires(&mut keys).unwrap_or_default(),
            version: keys.table("version").and_then(|table| command(table, Place::Question, QUESTION)),
            build: keys.table("build").and_then(build),
            command: command_words,
            env: parts.env,
            inherit: parts.inherit,
            files: parts.files,
            cwd: parts.cwd,
            port: keys.parsed("port", |n| checked_port("port", n)),
            tls_port: keys.parsed("tls_port", |n| checked_port("tls_port", n)),
            ready: keys.table("ready").map(ready).unwrap_or_default(),
            stop: keys.table("stop").map(stop).unwrap_or_default(),
        };
        keys.end();
        variant
    }
}

/// What a server is, apart from how it is run.
struct Nature {
    name: String,
    title: String,
    language: String,
    description: String,
    protocols: Vec<Protocol>,
}

/// What a back end has that a subject has not.
#[derive(Default)]
struct Data {
    limits: CheckedLimits,
    seed: Option<CommandSpec>,
    reset: Option<CommandSpec>,
}

struct StartParts {
    env: BTreeMap<String, String>,
    inherit: Vec<Inherit>,
    files: Option<Vec<FileSpec>>,
    cwd: Option<String>,
}

/// A table that may be missing, but may not be wrong.
fn whole<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        None => Some(None),
        Some(None) => None,
        Some(some) => Some(some),
    }
}

fn answer_at(path: &str) -> ReadyBy {
    ReadyBy::Answer { path: path.into(), status: Status::Any }
}

/// Whether a text is the name of a back end: it stands in placeholders.
#[must_use]
pub fn is_backend(name: &str) -> bool {
    placeholders::backends_in(&format!("{{{name}.{}}}", OF_BACKEND[0])).eq([name])
}

/// Why a text is no name of a back end.
#[must_use]
pub fn not_a_backend(name: &str) -> String {
    format!("{name:?} is not the name of a back end: letters, digits, `-` and `_`, a letter first")
}

fn waive(keys: &mut Keys<'_>, contracts: &[Contract]) -> Option<Vec<String>> {
    keys.parsed("waive", |names: Vec<String>| {
        let checks = || contracts.iter().flat_map(|contract| &contract.checks);
        let at = |check: &Check| check.protocols.iter().map(|p| check.name_over(*p)).collect::<Vec<_>>();
        let known: Vec<String> =
            checks().flat_map(|check| [vec![check.name.clone()], at(check)].concat()).collect();
        let Some(i) = names.iter().position(|name| !known.contains(name)) else {
            return Ok(names);
        };
        let hint = match nearest(&names[i], known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near:?}?"),
            None => "`dyno subjects check` prints the names of all".into(),
        };
        let message = format!("its contracts have no check {:?}; {hint}", names[i]);
        Err(mistake("waive", message).below(i))
    })
}

fn requires(keys: &mut Keys<'_>) -> Option<Vec<Require>> {
    let all = keys.tables("requires").into_iter().map(|mut keys| {
        let (name, test, hint) = (keys.required("name"), keys.required("test"), keys.required("hint"));
        let debian = keys.optional("debian");
        let deadline = keys.optional("deadline").unwrap_or(QUESTION);
        keys.end();
        Some(Require { name: name?, test: test?, hint: hint?, debian, deadline })
    });
    // Each is read, whatever is wrong with those before it.
    let all: Vec<Option<Require>> = all.collect();
    all.into_iter().collect()
}

/// A table of a command and its deadline.
fn command(mut keys: Keys<'_>, place: Place, usual: Nanoseconds) -> Option<CommandSpec> {
    let command = keys.required::<String>("command");
    check_text(&keys, "command", command.as_deref(), place);
    let deadline = keys.optional("deadline").unwrap_or(usual);
    keys.end();
    Some(CommandSpec { command: command?, deadline })
}

fn build(mut keys: Keys<'_>) -> Option<BuildSpec> {
    let command = keys.required::<String>("command");
    check_text(&keys, "command", command.as_deref(), Place::Build);
    let inputs = keys.required::<Vec<Inside>>("inputs");
    let env = env(&mut keys, Place::Build);
    let inherit = keys.optional("inherit").unwrap_or_default();
    let deadline = keys.optional("deadline").unwrap_or(BUILD);
    keys.end();
    Some(BuildSpec { command: command?, inputs: inputs?, env, inherit, deadline })
}

fn stop(mut keys: Keys<'_>) -> StopKeys {
    let read = StopKeys { signal: keys.optional::<Signal>("signal"), deadline: keys.optional("deadline") };
    keys.end();
    read
}

fn ready(mut keys: Keys<'_>) -> ReadyKeys {
    let path = keys.parsed("path", |path: String| match path.starts_with('/') {
        true => Ok(path),
        false => Err(mistake("path", format!("the path {path:?} must begin with a slash"))),
    });
    let status = keys.parsed("status", |status: u16| match status {
        100..=599 => Ok(status),
        _ => Err(mistake("status", "`status` is one of HTTP, such as 404")),
    });
    let tcp = keys.parsed("tcp", |tcp: bool| match tcp {
        true => Ok(()),
        false => Err(mistake(
            "tcp",
            "`tcp` is `true`, for a start that is ready when its ports take connections; or leave it out",
        )),
    });
    let command = keys.optional::<String>("command");
    check_text(&keys, "command", command.as_deref(), Place::Start);
    let deadline = keys.optional("deadline");
    let given = [
        ("path", path.is_some() || status.is_some()),
        ("tcp", tcp.is_some()),
        ("command", command.is_some()),
    ];
    let given: Vec<&str> = given.iter().filter(|(_, given)| *given).map(|(key, _)| *key).collect();
    if let [_, second, ..] = given.as_slice() {
        let message =
            "a start is ready by one sign: a `path` that is answered, `tcp = true`, or a `command`; give one";
        keys.add(mistake(*second, message));
    }
    keys.end();
    let by = match (tcp, command) {
        (Some(()), _) => Some(ReadyBy::Listening),
        (None, Some(command)) => Some(ReadyBy::Command(command)),
        (None, None) if path.is_some() || status.is_some() => {
            let status = status.map_or(Status::Success, Status::Exactly);
            Some(ReadyBy::Answer { path: path.unwrap_or_else(|| "/".into()), status })
        }
        (None, None) => None,
    };
    ReadyKeys { by, deadline }
}

fn env(keys: &mut Keys<'_>, place: Place) -> BTreeMap<String, String> {
    let env: BTreeMap<String, String> = keys.optional("env").unwrap_or_default();
    for (name, value) in &env {
        if let Err(why) = place.check(value) {
            keys.add(mistake("env", why).below(name.clone()));
        }
    }
    env
}

fn check_text(keys: &Keys<'_>, key: &'static str, text: Option<&str>, place: Place) {
    if let Some(Err(why)) = text.map(|text| place.check(text)) {
        keys.add(mistake(key, why));
    }
}

fn check_words(keys: &Keys<'_>, key: &'static str, words: Option<&[String]>) {
    for (i, word) in words.into_iter().flatten().enumerate() {
        if let Err(why) = Place::Start.check(word) {
            keys.add(mistake(key, why).below(i));
        }
    }
}

fn cwd(text: String) -> Result<String, Mistake> {
    const FOLDERS: [&str; 3] = ["{work}", "{out}", "{dir}"];
    let below = FOLDERS.iter().find_map(|folder| text.strip_prefix(folder));
    let is_inside = |below: &str| {
        below.is_empty() || below.strip_prefix('/').is_some_and(|below| Inside::parse(below).is_ok())
    };
    if below.is_some_and(is_inside) {
        return Ok(text);
    }
    let message = format!(
        "{text:?} is not a folder that a start has; write {{work}}, {{out}}, {{dir}}, or one below, such as {{out}}/app"
    );
    Err(mistake("cwd", message))
}

fn checked_port(key: &'static str, n: i64) -> Result<u16, Mistake> {
    match u16::try_from(n) {
        Ok(port @ 1..) => Ok(port),
        _ => Err(mistake(
            key,
            format!(
                "`{key}` is a port, 1 to 65535; leave it out for one that dyno finds, and tell the server with {{{key}}}"
            ),
        )),
    }
}
