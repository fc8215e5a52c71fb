//! Definitions of servers under test and of back ends: `subjects/NAME/subject.toml`,
//! `backends/NAME/backend.toml`. docs/reference/subject-keys.md describes every key.

mod file;
pub mod find;
mod fingerprint;
pub mod prerequisites;
pub mod snapshot;
mod sources;
mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dyno_archive::Protocol;
use dyno_contract::contracts::Contract;
use dyno_launch::environment::{DynoVariables, Environment};
use dyno_launch::folder::read_in_folder;
use dyno_launch::supervision::Supervision;
use dyno_launch::tool::{ToolAnswer, ToolCommand};
use dyno_workload::mistake::{Mistake, mistake};

use crate::limits::TEMPLATE_BYTES;
use crate::limits_keys::CheckedLimits;
use crate::placeholders::{self, Placeholders};

pub use file::{is_backend, not_a_backend};
pub use spec::{
    BuildSpec, CommandSpec, FileSpec, Nanoseconds, ProfileSpec, ReadyBy, ReadySpec, Require,
    RuntimeSpec, StartSpec, StopSpec, Target, Variant,
};

/// Role of a definition, which decides the name of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A server under test.
    Subject,
    /// A service that servers under test need.
    Backend,
}

impl Role {
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Role::Subject => "subject.toml",
            Role::Backend => "backend.toml",
        }
    }
}

/// A server under test or a back end, as its file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    pub name: String,
    pub role: Role,
    pub title: String,
    pub language: String,
    pub description: String,
    /// At least one for a subject.
    pub protocols: Vec<Protocol>,
    /// No process listens on its port: every connection is to be refused.
    pub refuses: bool,
    /// Contracts that `checks` names.
    pub contracts: Vec<Contract>,
    /// Names of checks that it may fail and still take part.
    pub waive: Vec<String>,
    /// Back ends that it names without using their ports.
    pub backends: Vec<String>,
    pub requires: Vec<Require>,
    /// Command that prints the server's version. The first line of its output is reported.
    pub version: Option<CommandSpec>,
    pub build: Option<BuildSpec>,
    /// Limits of a back end, unless a suite sets others.
    pub limits: CheckedLimits,
    /// Loads a back end's data, once it is ready.
    pub seed: Option<CommandSpec>,
    /// Resets a back end's data before each trial.
    pub reset: Option<CommandSpec>,
    pub start: StartSpec,
    pub profile: ProfileSpec,
    /// Source of its runtime statistics. `None`: it has none.
    pub runtime: Option<RuntimeSpec>,
    pub stop: StopSpec,
    pub ready: ReadySpec,
    pub endpoints: BTreeMap<String, String>,
    pub variants: BTreeMap<String, Variant>,
    /// The folder of its file.
    pub folder: PathBuf,
}

impl Definition {
    /// Returns the mistakes of the whole definition, and those of each variant that the whole does
    /// not have.
    fn mistakes(&self) -> Vec<Mistake> {
        let own = self.own_mistakes();
        let mut all = own.clone();
        for (variant, over) in &self.variants {
            let of_variant =
                self.with_overrides(over).own_mistakes().into_iter().filter(|m| !own.contains(m));
            all.extend(of_variant.map(|mistake| {
                let placed = mistake.with_parent(variant.clone()).with_parent("variants");
                placed.with_prefix(&format!("variant {variant:?}"))
            }));
        }
        all
    }

    /// Returns the mistakes of its protocols, and of a start that cannot speak them.
    fn own_mistakes(&self) -> Vec<Mistake> {
        let wrong = |message: &str| mistake("protocols", message);
        let mut all = Vec::new();
        if self.protocols.is_empty() && self.role == Role::Subject {
            all.push(wrong(
                "`protocols`: the list must have at least one entry\nhint: list the server's \
                 protocols, such as [\"h1\"]",
            ));
        }
        let at = |is_it: fn(&Protocol) -> bool| self.protocols.iter().position(is_it);
        if let Some(i) = at(|protocol| *protocol == Protocol::Auto) {
            const AUTO: &str = "protocol \"auto\": can be used for loads only\nhint: list the \
                                server's protocols, such as [\"h1-tls\", \"h2\"]";
            all.push(wrong(AUTO).with_child(i));
        }
        let twice =
            self.protocols.iter().enumerate().find(|(i, p)| self.protocols[..*i].contains(p));
        if let Some((i, protocol)) = twice {
            all.push(wrong(&format!("protocol {protocol}: listed twice")).with_child(i));
        }
        let uses_port = self.uses("port") || self.uses("tls_port");
        let has_own = self.start.port.is_some() || self.start.tls_port.is_some();
        if self.ready.by == ReadyBy::Listening && !uses_port && !has_own {
            all.push(mistake(
                "ready",
                "[ready]: `tcp` needs a port, and the start has none\nhint: use {port} or `port` \
                 in [start], or a `command` in [ready] that succeeds when the server is ready",
            ));
        }
        if self.refuses && !matches!(self.ready.by, ReadyBy::Command(_)) {
            all.push(mistake(
                "refuses",
                "`refuses`: without connections, no response can show that the server is \
                 ready\nhint: add a `command` to [ready] that succeeds when it is ready",
            ));
        }
        if self.refuses && !self.contracts.is_empty() {
            all.push(mistake(
                "refuses",
                "`refuses`: without connections, no contract can be checked\nhint: leave `checks` \
                 out",
            ));
        }
        let has_tls_port = self.start.tls_port.is_some() || self.uses("tls_port");
        let over_tls = at(|protocol| *protocol != Protocol::Auto && protocol.is_tls());
        if let Some(i) = over_tls.filter(|_| !has_tls_port) {
            let protocol = self.protocols[i];
            let message = format!(
                "protocol {protocol}: no TLS port\nhint: use {{tls_port}} or `tls_port` in [start]"
            );
            all.push(wrong(&message).with_child(i));
        }
        all
    }

    /// Returns the names of its contracts.
    pub fn checks(&self) -> impl Iterator<Item = &str> {
        self.contracts.iter().map(|contract| contract.name.as_str())
    }

    /// Returns the names of the back ends that it needs: those that it names, and those whose ports
    /// it uses.
    #[must_use]
    pub fn needs(&self) -> BTreeSet<String> {
        let mut all: BTreeSet<String> = self.backends.iter().cloned().collect();
        for text in self.texts() {
            all.extend(placeholders::backends_in(&text).map(String::from));
        }
        all
    }

    /// Returns the definition with a variant's overrides applied.
    ///
    /// # Errors
    /// It has no such variant; as a sentence.
    pub fn with_variant(&self, variant: &str) -> Result<Definition, String> {
        let Some(over) = self.variants.get(variant) else {
            let known = self.variants.keys().cloned().collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() {
                "it has no variants".into()
            } else {
                format!("use one of {known}")
            };
            return Err(format!("subject {:?}: no variant {variant:?}\nhint: {known}", self.name));
        };
        Ok(self.with_overrides(over))
    }

    fn with_overrides(&self, over: &Variant) -> Definition {
        fn set<T: Clone>(field: &mut T, value: &Option<T>) {
            if let Some(value) = value {
                field.clone_from(value);
            }
        }
        let mut definition = self.clone();
        set(&mut definition.title, &over.title);
        set(&mut definition.description, &over.description);
        set(&mut definition.protocols, &over.protocols);
        set(&mut definition.contracts, &over.contracts);
        set(&mut definition.waive, &over.waive);
        definition.backends.extend(over.backends.clone());
        definition.requires.extend(over.requires.clone());
        definition.version = over.version.clone().or(definition.version);
        definition.build = over.build.clone().or(definition.build);
        let start = &mut definition.start;
        set(&mut start.command, &over.command);
        start.env.extend(over.env.clone());
        start.inherit.extend(over.inherit.clone());
        set(&mut start.files, &over.files);
        set(&mut start.cwd, &over.cwd);
        start.port = over.port.or(start.port);
        start.tls_port = over.tls_port.or(start.tls_port);
        set(&mut definition.ready.by, &over.ready.by);
        set(&mut definition.ready.deadline_ns, &over.ready.deadline.map(|Nanoseconds(ns)| ns));
        set(&mut definition.stop.signal, &over.stop.signal);
        set(&mut definition.stop.deadline_ns, &over.stop.deadline.map(|Nanoseconds(ns)| ns));
        definition
    }

    /// Queries a tool in the environment of builds.
    pub(crate) fn ask(
        &self,
        command: &str,
        deadline: Nanoseconds,
        supervision: &Supervision<'_>,
    ) -> ToolAnswer {
        let environment = self.environment_of_tools();
        ToolCommand {
            command,
            folder: &self.folder,
            environment: &environment,
            deadline: deadline.duration(),
        }
        .ask(supervision)
    }

    /// Returns the variables that a start inherits from dyno's own environment, as archives keep
    /// them. Its own variables are part of the definition, and each start has its own folder for
    /// temporary files.
    #[must_use]
    pub fn inherited_variables(&self) -> BTreeMap<String, String> {
        let start = &self.start;
        let given = Environment::for_server(&DynoVariables::read(), &start.inherit, Path::new(""));
        let mut inherited = given.to_record();
        inherited.retain(|name, _| name != "TMPDIR" && !start.env.contains_key(name));
        inherited
    }

    /// Returns the environment in which tools are queried: `env` of `[build]` may decide which
    /// version of a tool runs.
    fn environment_of_tools(&self) -> Environment {
        let temporary = std::env::temp_dir();
        self.build.as_ref().map_or_else(
            || Environment::for_tool(&DynoVariables::read(), &[], &temporary),
            |spec| spec.environment(&temporary, &Placeholders::default()),
        )
    }

    /// Returns whether this is a control: dyno's own null responder.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.start.command.first().is_some_and(|c| c == "{dyno}")
    }

    /// Returns whether it needs a certificate.
    #[must_use]
    pub fn needs_certificate(&self) -> bool {
        self.uses("cert") || self.uses("key")
    }

    /// Returns whether a start uses the placeholder of this name.
    #[must_use]
    pub fn uses(&self, place: &str) -> bool {
        self.texts().iter().any(|text| placeholders::names(text).any(|used| used == place))
    }

    /// Returns all texts of a start that may hold placeholders, without unreadable templates.
    fn texts(&self) -> Vec<String> {
        let start = &self.start;
        let of_ready = match &self.ready.by {
            ReadyBy::Command(command) => Some(command),
            ReadyBy::Answer { .. } | ReadyBy::Listening => None,
        };
        let commands = self.seed.iter().chain(&self.reset).chain(&self.profile.command);
        let commands = commands.map(|spec| &spec.command).chain(of_ready);
        let mut all: Vec<String> = start
            .command
            .iter()
            .chain(start.env.values())
            .chain(self.profile.env.values())
            .chain([&start.cwd])
            .chain(commands)
            .cloned()
            .collect();
        for file in &start.files {
            let template = read_in_folder(file.template.path(), &self.folder, TEMPLATE_BYTES)
                .unwrap_or_default();
            all.push(String::from_utf8_lossy(&template).into_owned());
            all.push(file.to.text().into());
        }
        all
    }
}

#[cfg(test)]
mod tests;
