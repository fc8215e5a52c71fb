//! Reads `subject.toml` and `backend.toml`, and reports all mistakes of a file at once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use dyno_config::keys::{self, Keys};
use dyno_config::mistake::{Mistake, mistake};
use dyno_config::relative_path::RelativePath;
use dyno_config::text::{FileError, nearest};
use dyno_config::units::Nanoseconds;
use dyno_contract::contracts::{Contract, ContractError};
use dyno_contract::ready::Status;
use dyno_launch::environment::{Inherit, check_name};
use dyno_launch::folder::{read_in_folder, read_regular};
use dyno_launch::process::Signal;
use dyno_model::Protocol;

use super::spec::{
    BUILD, BuildSpec, CommandSpec, DATA, FileSpec, ProfileSpec, QUERY, ReadyBy, ReadyKeys,
    ReadySpec, Require, RuntimeSpec, StartSpec, StopKeys, StopSpec, Variant,
};
use super::{Definition, Role};
use crate::limits::{DEFINITION_BYTES, TEMPLATE_BYTES};
use crate::limits_keys::{CheckedLimits, RawLimits};
use crate::paths::Name;
use crate::placeholders::{self, BACKEND_SUFFIXES, PlaceholderScope};

/// Default deadline of a stop.
const STOP: Nanoseconds = Nanoseconds(5_000_000_000);

/// Default deadline of a start.
const READY: Nanoseconds = Nanoseconds(20_000_000_000);

/// Reads the keys of a definition in a folder.
#[derive(Clone, Copy)]
struct DefinitionReader<'a> {
    folder: &'a Path,
    role: Role,
    /// Another folder of the subject, whose contracts take precedence. `None`: there is none.
    contracts_folder: Option<&'a Path>,
    /// Mistakes of contracts, which are in other files.
    contract_errors: &'a RefCell<Vec<FileError>>,
}

/// Returns why a file cannot be read. For a dangling link, the system's "no such file" would be
/// confusing.
fn read_error_text(path: &Path, error: &std::io::Error) -> String {
    let is_dangling = error.kind() == std::io::ErrorKind::NotFound && path.is_symlink();
    if is_dangling { "it is a dangling symbolic link".into() } else { error.to_string() }
}

/// Reads the text of the file of this role in `folder`.
fn read_source(folder: &Path, role: Role) -> Result<String, FileError> {
    let path = folder.join(role.file());
    let unreadable =
        |reason: String| FileError::without_position(&path, format!("cannot be read: {reason}"));
    let source = read_regular(&path, DEFINITION_BYTES)
        .map_err(|error| unreadable(read_error_text(&path, &error)))?;
    String::from_utf8(source).map_err(|_| unreadable("it is not UTF-8 text".into()))
}

impl Definition {
    /// Reads `subject.toml` in `folder`.
    ///
    /// # Errors
    /// All mistakes of the file, and of the contracts that it names.
    pub fn read(folder: &Path) -> Result<Definition, FileError> {
        Definition::read_as(folder, Role::Subject)
    }

    /// Reads `subject.toml` or `backend.toml` in `folder`, depending on the role.
    ///
    /// # Errors
    /// All mistakes of the file, and of the contracts that it names.
    pub fn read_as(folder: &Path, role: Role) -> Result<Definition, FileError> {
        Definition::parse_with(folder, role, None, &read_source(folder, role)?)
    }

    /// Reads `subject.toml` in `folder`, with the contracts of another folder of the subject. A
    /// contract that the other folder cannot find is searched for from `folder`.
    ///
    /// # Errors
    /// All mistakes of the file, and of the contracts that it names.
    pub fn read_with_contracts(
        folder: &Path,
        contracts_folder: &Path,
    ) -> Result<Definition, FileError> {
        let source = read_source(folder, Role::Subject)?;
        Definition::parse_with(folder, Role::Subject, Some(contracts_folder), &source)
    }

    /// Parses the text of the file of this role in `folder`.
    ///
    /// # Errors
    /// All mistakes of the text, and of the contracts that it names.
    pub fn parse(folder: &Path, role: Role, source: &str) -> Result<Definition, FileError> {
        Definition::parse_with(folder, role, None, source)
    }

    fn parse_with(
        folder: &Path,
        role: Role,
        contracts_folder: Option<&Path>,
        source: &str,
    ) -> Result<Definition, FileError> {
        let contract_errors = RefCell::default();
        let reader =
            DefinitionReader { folder, role, contracts_folder, contract_errors: &contract_errors };
        let result = keys::read(&folder.join(role.file()), source, |keys| reader.definition(keys));
        let (definition, mut error) = match result {
            Ok(definition) => (Some(definition), None),
            Err(error) => (None, Some(error)),
        };
        for contract_error in contract_errors.into_inner() {
            match &mut error {
                None => error = Some(contract_error),
                Some(error) => error.more.push(contract_error),
            }
        }
        error.map_or_else(
            || Ok(definition.expect("a file without errors should have a definition")),
            Err,
        )
    }
}

impl DefinitionReader<'_> {
    /// Reads all keys, even after a mistake. A wrong value is reported and replaced by its default,
    /// so that mistakes in later keys are reported, too.
    fn definition(self, keys: &mut Keys<'_>) -> Option<Definition> {
        let facts = self.facts(keys);
        let contracts = self.contracts(keys).unwrap_or_default();
        let waive = read_waive(keys, &contracts).unwrap_or_default();
        let backends = self.backends(keys).unwrap_or_default();
        let requires = read_requires(keys);
        let version = keys
            .table("version")
            .and_then(|table| read_command(table, PlaceholderScope::Query, QUERY));
        let build = keys.table("build").and_then(read_build);
        let BackendKeys { limits, seed, reset } = self.backend_keys(keys);
        let start = keys.required_table("start").and_then(|table| self.start(table));
        let profile = self.profile(keys);
        let runtime = self.runtime(keys);
        let stop = keys.table("stop").map(read_stop).unwrap_or_default();
        let ready = keys.table("ready").map(read_ready).unwrap_or_default();
        let endpoints = keys.optional("endpoints").unwrap_or_default();
        let variants = self.variants(keys, &contracts);
        let ServerFacts { name, title, language, description, protocols, refuses } = facts?;
        let default_ready =
            if protocols.is_empty() { ReadyBy::Listening } else { any_response_at("/") };
        let definition = Definition {
            name,
            role: self.role,
            title,
            language,
            description,
            protocols,
            refuses,
            contracts: contracts.contracts,
            waive,
            backends,
            requires,
            version,
            build,
            limits,
            seed,
            reset,
            start: start?,
            profile,
            runtime,
            stop: StopSpec {
                signal: stop.signal.unwrap_or_default(),
                deadline_ns: stop.deadline.unwrap_or(STOP).0,
            },
            ready: ReadySpec {
                by: ready.by.unwrap_or(default_ready),
                deadline_ns: ready.deadline.unwrap_or(READY).0,
            },
            endpoints,
            variants,
            folder: self.folder.into(),
        };
        definition.mistakes().into_iter().for_each(|mistake| keys.add(mistake));
        Some(definition)
    }

    /// Reads the variants of a definition.
    fn variants(
        self,
        keys: &mut Keys<'_>,
        contracts: &NamedContracts,
    ) -> BTreeMap<String, Variant> {
        let tables = keys.named_tables("variants");
        for (name, _) in tables.iter().filter(|(name, _)| Name::parse(name).is_err()) {
            let message =
                format!("variant {name:?}: its name must have at least one letter, and no `/`");
            keys.add(mistake("variants", message).with_child(name.clone()));
        }
        tables.into_iter().map(|(name, table)| (name, self.variant(table, contracts))).collect()
    }

    /// Reads the descriptive keys.
    fn facts(self, keys: &mut Keys<'_>) -> Option<ServerFacts> {
        let folder_name =
            self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = keys.optional::<Name>("name").map(|name| name.0);
        if let Some(name) = name.as_ref().filter(|name| **name != folder_name) {
            keys.add(mistake(
                "name",
                format!("`name`: is {name:?}, but must be the folder's name, {folder_name:?}"),
            ));
        }
        let name = name.unwrap_or(folder_name);
        let title = keys.optional("title").unwrap_or_else(|| name.clone());
        let (language, protocols) = match self.role {
            Role::Subject => (keys.take_required("language"), keys.required_list("protocols")),
            Role::Backend => (
                Some(keys.optional("language").unwrap_or_default()),
                Some(keys.list("protocols").unwrap_or_default()),
            ),
        };
        let description = keys.optional("description").unwrap_or_default();
        let refuses = self.role == Role::Subject && keys.optional("refuses").unwrap_or_default();
        Some(ServerFacts {
            name,
            title,
            language: language?,
            description,
            protocols: protocols?,
            refuses,
        })
    }

    /// Reads the keys that only back ends have.
    fn backend_keys(self, keys: &mut Keys<'_>) -> BackendKeys {
        if self.role == Role::Subject {
            return BackendKeys::default();
        }
        let limits =
            keys.parse("limits", |raw: RawLimits| raw.check().map_err(|m| m.with_parent("limits")));
        let [seed, reset] = ["seed", "reset"].map(|key| {
            keys.table(key).and_then(|table| read_command(table, PlaceholderScope::Start, DATA))
        });
        BackendKeys { limits: limits.unwrap_or_default(), seed, reset }
    }

    /// Reads a table that only subjects have.
    fn runtime(self, keys: &mut Keys<'_>) -> Option<RuntimeSpec> {
        let table = (self.role == Role::Subject).then(|| keys.table("runtime")).flatten();
        table.and_then(read_runtime)
    }

    fn profile(self, keys: &mut Keys<'_>) -> ProfileSpec {
        let table = (self.role == Role::Subject).then(|| keys.table("profile")).flatten();
        table.map(read_profile).unwrap_or_default()
    }

    /// Reads the contracts that `checks` names. `None`: the key is missing.
    fn contracts(self, keys: &mut Keys<'_>) -> Option<NamedContracts> {
        let names = keys.list::<String>("checks")?;
        if self.role == Role::Backend {
            let message = "`checks`: cannot be used for a back end, because dyno checks only the \
                           responses of subjects\nhint: check the responses of the back end in \
                           `seed`, or in the `command` of [ready]";
            keys.add(mistake("checks", message));
            return None;
        }
        let mut contracts = NamedContracts::default();
        for (i, name) in names.iter().enumerate() {
            if self.contracts_folder.is_some() {
                let own = Contract::find(name, self.folder);
                contracts.waivable.extend(own.iter().flat_map(Contract::waivable_names));
            }
            match self.contract(name).and_then(|contract| contracts.add(contract)) {
                Ok(()) => {}
                Err(message) => {
                    contracts.is_incomplete = true;
                    let mistakes = message.map(|message| mistake("checks", message).with_child(i));
                    mistakes.into_iter().for_each(|mistake| keys.add(mistake));
                }
            }
        }
        Some(contracts)
    }

    /// Reads a contract. `Err`: the message of the mistake in the definition. `Err(None)`: the
    /// contract has mistakes, which are added to `contract_errors`.
    fn contract(self, name: &str) -> Result<Contract, Option<String>> {
        let parsed_name = Name::parse(name).map_err(|_| {
            format!(
                "contract {name:?}: must be the name of the contract's file, without `.toml` and \
                 without `/`"
            )
        });
        parsed_name.map_err(Some)?;
        let found = match self.contracts_folder.map(|folder| Contract::find(name, folder)) {
            None | Some(Err(ContractError::NotFound(_))) => Contract::find(name, self.folder),
            Some(found) => found,
        };
        found.map_err(|error| match error {
            ContractError::NotFound(message) => Some(message),
            ContractError::Invalid(error) => {
                let mut errors = self.contract_errors.borrow_mut();
                if !errors.contains(&error) {
                    errors.push(*error);
                }
                None
            }
        })
    }

    fn backends(self, keys: &mut Keys<'_>) -> Option<Vec<String>> {
        let names = keys.list::<String>("backends")?;
        for (i, name) in names.iter().enumerate().filter(|(_, name)| !is_backend_name(name)) {
            keys.add(mistake("backends", backend_name_error(name)).with_child(i));
        }
        Some(names)
    }

    /// Reads `[start]`.
    fn start(self, mut keys: Keys<'_>) -> Option<StartSpec> {
        let command = keys.take_required::<Vec<String>>("command");
        if command.as_ref().is_some_and(Vec::is_empty) {
            keys.add(mistake("command", "`start.command`: must not be empty"));
        }
        let parts = self.start_parts(&mut keys);
        check_words(&keys, "command", command.as_deref());
        let command = command.filter(|command| !command.is_empty());
        let port = keys.parse("port", |n| check_port("port", n));
        let tls_port = keys.parse("tls_port", |n| check_port("tls_port", n));
        keys.finish();
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

    /// Reads the keys of a start that definitions and variants have.
    fn start_parts(self, keys: &mut Keys<'_>) -> StartParts {
        let env = read_env(keys, PlaceholderScope::Start);
        let inherit = keys.list("inherit").unwrap_or_default();
        let files = keys.list::<FileSpec>("files");
        for (i, file) in files.iter().flatten().enumerate() {
            let earlier = files.iter().flatten().take(i);
            if let Some(other) =
                earlier.map(|other| &other.to).find(|other| other.overlaps(&file.to))
            {
                let message = format!(
                    "{:?} and {:?}: are the same path, or one contains the other\nhint: give each \
                     file its own name",
                    other.text(),
                    file.to.text()
                );
                keys.add(mistake("files", message).with_child(i).with_child("to"));
            }
            if let Err(message) = PlaceholderScope::Start.check(file.to.text()) {
                keys.add(mistake("files", message).with_child(i).with_child("to"));
            }
            // An unreadable template is reported when a start needs it.
            let template = read_in_folder(file.template.path(), self.folder, TEMPLATE_BYTES)
                .unwrap_or_default();
            let result = match str::from_utf8(&template) {
                Ok(text) => PlaceholderScope::Start.check_contents(text),
                Err(_) => Err("not UTF-8 text".into()),
            };
            if let Err(problem) = result {
                keys.add(
                    mistake("files", format!("{}: {problem}", file.template))
                        .with_child(i)
                        .with_child("template"),
                );
            }
        }
        let cwd = keys.parse("cwd", check_cwd);
        StartParts { env, inherit, files, cwd }
    }

    /// Reads a variant. `base`: the contracts of the definition, which apply if the variant names
    /// none.
    fn variant(self, mut keys: Keys<'_>, base: &NamedContracts) -> Variant {
        let contracts = self.contracts(&mut keys);
        let command_words = keys.optional::<Vec<String>>("command");
        if command_words.as_ref().is_some_and(Vec::is_empty) {
            keys.add(mistake("command", "`command`: must not be empty"));
        }
        check_words(&keys, "command", command_words.as_deref());
        let parts = self.start_parts(&mut keys);
        let variant = Variant {
            title: keys.optional("title"),
            description: keys.optional("description"),
            protocols: keys.list("protocols"),
            waive: read_waive(&mut keys, contracts.as_ref().unwrap_or(base)),
            contracts: contracts.map(|contracts| contracts.contracts),
            backends: self.backends(&mut keys).unwrap_or_default(),
            requires: read_requires(&mut keys),
            version: keys
                .table("version")
                .and_then(|table| read_command(table, PlaceholderScope::Query, QUERY)),
            build: keys.table("build").and_then(read_build),
            command: command_words,
            env: parts.env,
            inherit: parts.inherit,
            files: parts.files,
            cwd: parts.cwd,
            port: keys.parse("port", |n| check_port("port", n)),
            tls_port: keys.parse("tls_port", |n| check_port("tls_port", n)),
            ready: keys.table("ready").map(read_ready).unwrap_or_default(),
            stop: keys.table("stop").map(read_stop).unwrap_or_default(),
        };
        keys.finish();
        variant
    }
}

/// The descriptive keys of a server.
struct ServerFacts {
    name: String,
    title: String,
    language: String,
    description: String,
    protocols: Vec<Protocol>,
    refuses: bool,
}

/// Keys that only back ends have.
#[derive(Default)]
struct BackendKeys {
    limits: CheckedLimits,
    seed: Option<CommandSpec>,
    reset: Option<CommandSpec>,
}

/// The keys of a start that definitions and variants have.
struct StartParts {
    env: BTreeMap<String, String>,
    inherit: Vec<Inherit>,
    files: Option<Vec<FileSpec>>,
    cwd: Option<String>,
}

/// The contracts that a definition names.
#[derive(Default)]
struct NamedContracts {
    contracts: Vec<Contract>,
    /// Names in `waive`: checks of the contracts, and of the contracts of its own revision.
    waivable: Vec<String>,
    /// Whether a waived check may be unknown, because a contract has mistakes.
    is_incomplete: bool,
}

impl NamedContracts {
    /// Adds a contract. `Err`: the message that the contract and an earlier contract have a check
    /// of the same name.
    fn add(&mut self, contract: Contract) -> Result<(), Option<String>> {
        for earlier in &self.contracts {
            if let Some((name, protocol)) = earlier.common_check(&contract) {
                let (a, b) = (&earlier.name, &contract.name);
                return Err(Some(format!(
                    "contracts {a:?} and {b:?}: both have a check {name:?} over {protocol}, and \
                     results need unique names\nhint: use only one of the two contracts, or rename \
                     the check in one of them"
                )));
            }
        }
        self.waivable.extend(contract.waivable_names());
        self.contracts.push(contract);
        Ok(())
    }
}

fn any_response_at(path: &str) -> ReadyBy {
    ReadyBy::Answer { path: path.into(), status: Status::Any }
}

/// Returns whether a text is a valid name of a back end, as it is used in placeholders.
#[must_use]
pub fn is_backend_name(name: &str) -> bool {
    // A placeholder such as `{NAME.port}` is recognised only with a valid name.
    placeholders::backends_in(&format!("{{{name}.{}}}", BACKEND_SUFFIXES[0])).eq([name])
}

/// Returns the error message for an invalid name of a back end.
#[must_use]
pub fn backend_name_error(name: &str) -> String {
    format!(
        "back end {name:?}: its name must begin with a letter, and have only letters, digits, `-` \
         and `_`"
    )
}

/// Reads the names of waived checks, which must be in the contracts.
fn read_waive(keys: &mut Keys<'_>, contracts: &NamedContracts) -> Option<Vec<String>> {
    let names = keys.list::<String>("waive")?;
    if contracts.is_incomplete {
        return Some(names);
    }
    let is_unknown = |name: &String| !contracts.waivable.contains(name);
    for (i, name) in names.iter().enumerate().filter(|(_, name)| is_unknown(name)) {
        let hint = match nearest(name, contracts.waivable.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near:?}?"),
            None => "`dyno subjects check` prints the names of all checks".into(),
        };
        keys.add(
            mistake(
                "waive",
                format!("check {name:?}: not in the contracts of the subject\nhint: {hint}"),
            )
            .with_child(i),
        );
    }
    Some(names)
}

/// Reads the requirements, without those that have mistakes.
fn read_requires(keys: &mut Keys<'_>) -> Vec<Require> {
    let requires = keys.tables("requires").into_iter().map(|mut keys| {
        let (name, test, hint) = (
            keys.take_required("name"),
            keys.take_required::<String>("test"),
            keys.take_required("hint"),
        );
        check_text(&keys, "test", test.as_deref(), PlaceholderScope::Query);
        if test.as_deref().is_some_and(|test| placeholders::names(test).any(|name| name == "out")) {
            keys.add(mistake(
                "test",
                "`{out}` is unknown here, because requirements are tested before the build\nhint: \
                 use a test that does not need the build's results, or let the build fail",
            ));
        }
        let debian = keys.optional("debian");
        let deadline = keys.optional("deadline").unwrap_or(QUERY);
        keys.finish();
        Some(Require { name: name?, test: test?, hint: hint?, debian, deadline })
    });
    requires.flatten().collect()
}

/// Reads a table with a command and its deadline.
fn read_command(
    mut keys: Keys<'_>,
    scope: PlaceholderScope,
    default_deadline: Nanoseconds,
) -> Option<CommandSpec> {
    let command = keys.take_required::<String>("command");
    check_text(&keys, "command", command.as_deref(), scope);
    let deadline = keys.optional("deadline").unwrap_or(default_deadline);
    keys.finish();
    Some(CommandSpec { command: command?, deadline })
}

fn read_runtime(mut keys: Keys<'_>) -> Option<RuntimeSpec> {
    let source = keys.take_required("of");
    keys.finish();
    source
}

fn read_profile(mut keys: Keys<'_>) -> ProfileSpec {
    let env = read_env(&mut keys, PlaceholderScope::Start);
    let command = keys.optional::<String>("command");
    check_text(&keys, "command", command.as_deref(), PlaceholderScope::Profile);
    let deadline = keys.optional("deadline").unwrap_or(QUERY);
    keys.finish();
    ProfileSpec { env, command: command.map(|command| CommandSpec { command, deadline }) }
}

fn read_build(mut keys: Keys<'_>) -> Option<BuildSpec> {
    let command = keys.take_required::<String>("command");
    check_text(&keys, "command", command.as_deref(), PlaceholderScope::Build);
    let inputs = keys.required_list::<RelativePath>("inputs");
    let env = read_env(&mut keys, PlaceholderScope::Build);
    let inherit = keys.list("inherit").unwrap_or_default();
    let deadline = keys.optional("deadline").unwrap_or(BUILD);
    keys.finish();
    Some(BuildSpec { command: command?, inputs: inputs?, env, inherit, deadline })
}

fn read_stop(mut keys: Keys<'_>) -> StopKeys {
    let stop =
        StopKeys { signal: keys.optional::<Signal>("signal"), deadline: keys.optional("deadline") };
    keys.finish();
    stop
}

/// Reads `[ready]`, which has at most one sign of readiness.
fn read_ready(mut keys: Keys<'_>) -> ReadyKeys {
    let path = keys.parse("path", |path: String| match path.starts_with('/') {
        true => Ok(path),
        false => Err(mistake("path", format!("path {path:?}: must begin with a slash"))),
    });
    let status = keys.parse("status", |status: u16| match status {
        200..=599 => Ok(status),
        _ => Err(mistake("status", "`status`: must be 200 to 599, such as 404")),
    });
    let tcp = keys.parse("tcp", |tcp: bool| match tcp {
        true => Ok(()),
        false => Err(mistake(
            "tcp",
            "`tcp`: must be `true` (the server is ready when its ports accept connections)\nhint: \
             remove `tcp` to use another readiness check",
        )),
    });
    let command = keys.optional::<String>("command");
    check_text(&keys, "command", command.as_deref(), PlaceholderScope::Start);
    let deadline = keys.optional("deadline");
    let signs = [
        ("path", path.is_some() || status.is_some()),
        ("tcp", tcp.is_some()),
        ("command", command.is_some()),
    ];
    let present: Vec<&str> =
        signs.iter().filter(|(_, is_present)| *is_present).map(|(key, _)| *key).collect();
    if let [_, second, ..] = present.as_slice() {
        let message = "[ready]: must have only one of `path`, `tcp = true` and `command`\nhint: \
                       remove the others";
        keys.add(mistake(*second, message));
    }
    keys.finish();
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

/// Reads `env`, and checks its names and placeholders.
fn read_env(keys: &mut Keys<'_>, scope: PlaceholderScope) -> BTreeMap<String, String> {
    let env: BTreeMap<String, String> = keys.optional("env").unwrap_or_default();
    for (name, value) in &env {
        if let Err(message) = check_name(name) {
            keys.add(mistake("env", message).with_child(name.clone()));
        }
        if let Err(message) = scope.check(value) {
            keys.add(mistake("env", message).with_child(name.clone()));
        }
    }
    env
}

fn check_text(keys: &Keys<'_>, key: &'static str, text: Option<&str>, scope: PlaceholderScope) {
    if let Some(Err(message)) = text.map(|text| scope.check(text)) {
        keys.add(mistake(key, message));
    }
}

fn check_words(keys: &Keys<'_>, key: &'static str, words: Option<&[String]>) {
    for (i, word) in words.into_iter().flatten().enumerate() {
        if let Err(message) = PlaceholderScope::Start.check(word) {
            keys.add(mistake(key, message).with_child(i));
        }
    }
}

/// Checks that `cwd` is at or below a folder that the start has.
fn check_cwd(text: String) -> Result<String, Mistake> {
    const FOLDERS: [&str; 3] = ["{work}", "{out}", "{dir}"];
    let rest = FOLDERS.iter().find_map(|folder| text.strip_prefix(folder));
    let is_inside = |rest: &str| {
        rest.is_empty()
            || rest.strip_prefix('/').is_some_and(|path| RelativePath::parse(path).is_ok())
    };
    if rest.is_some_and(is_inside) {
        return Ok(text);
    }
    let message = format!(
        "`cwd`: {text:?} is not {{work}}, {{out}}, {{dir}}, or a folder below one of them\nhint: \
         use such a folder, for example {{out}}/app"
    );
    Err(mistake("cwd", message))
}

/// Checks that a fixed port is a valid port.
fn check_port(key: &'static str, n: i64) -> Result<u16, Mistake> {
    match u16::try_from(n) {
        Ok(port @ 1..) => Ok(port),
        _ => Err(mistake(
            key,
            format!(
                "`{key}`: must be 1 to 65535\nhint: to let dyno choose a free port, remove `{key}` \
                 and write {{{key}}} in the command"
            ),
        )),
    }
}
