//! Definitions of servers under test (`subjects/NAME/subject.toml`) and of back ends
//! (`backends/NAME/backend.toml`). docs/reference/subject-keys.md describes every key.

mod file;
pub mod find;
mod fingerprint;
pub mod prerequisites;
pub mod snapshot;
mod sources;
mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use dyno_config::mistake::{Mistake, mistake};
use dyno_config::units::Nanoseconds;
use dyno_contract::contracts::Contract;
use dyno_launch::environment::{DynoVariables, Environment};
use dyno_launch::folder::read_in_folder;
use dyno_launch::supervision::Supervision;
use dyno_launch::tool::{ToolCommand, ToolOutput};
use dyno_model::Protocol;

use crate::limits::TEMPLATE_BYTES;
use crate::limits_keys::CheckedLimits;
use crate::placeholders::{self, Placeholders};

pub(crate) use sources::is_usually_written;

pub use file::{backend_name_error, is_backend_name};
pub use spec::{
    BuildSpec, CommandSpec, FileSpec, ProfileSpec, ReadyBy, ReadySpec, Require, RuntimeSpec,
    StartSpec, StopSpec, Target, Variant,
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
    /// Whether no process listens on the port of the server, so that every connection is refused.
    pub refuses: bool,
    /// Contracts that `checks` names.
    pub contracts: Vec<Contract>,
    /// Names of checks whose failure does not exclude the subject.
    pub waive: Vec<String>,
    /// Names of the back ends in `backends`. Back ends whose ports the server uses need not be in
    /// this list.
    pub backends: Vec<String>,
    pub requires: Vec<Require>,
    /// Command that prints the server's version. The first line of its output is reported.
    pub version: Option<CommandSpec>,
    pub build: Option<BuildSpec>,
    /// Default limits of a back end. A suite can override them.
    pub limits: CheckedLimits,
    /// Loads a back end's data, once it is ready.
    pub seed: Option<CommandSpec>,
    /// Resets a back end's data before each trial.
    pub reset: Option<CommandSpec>,
    pub start: StartSpec,
    pub profile: ProfileSpec,
    /// Source of the server's runtime statistics; `None`: no runtime statistics.
    pub runtime: Option<RuntimeSpec>,
    pub stop: StopSpec,
    pub ready: ReadySpec,
    pub endpoints: BTreeMap<String, String>,
    pub variants: BTreeMap<String, Variant>,
    /// The folder of the definition's file.
    pub folder: PathBuf,
}

impl Definition {
    /// Returns the mistakes of the definition without its variants, and the additional mistakes of
    /// each variant.
    fn mistakes(&self) -> Vec<Mistake> {
        let base = self.base_mistakes();
        let mut mistakes = base.clone();
        for (name, variant) in &self.variants {
            let variant_mistakes = self.with_overrides(variant).base_mistakes();
            let additional = variant_mistakes.into_iter().filter(|m| !base.contains(m));
            mistakes.extend(additional.map(|mistake| {
                let located = mistake.with_parent(name.clone()).with_parent("variants");
                located.with_prefix(&format!("variant {name:?}"))
            }));
        }
        mistakes
    }

    /// Returns the mistakes in the protocols, and in a start that does not support the protocols.
    fn base_mistakes(&self) -> Vec<Mistake> {
        let protocol_mistake = |message: &str| mistake("protocols", message);
        let mut mistakes = Vec::new();
        if self.protocols.is_empty() && self.role == Role::Subject {
            mistakes.push(protocol_mistake(
                "`protocols`: the list must have at least one entry\nhint: list the server's \
                 protocols, such as [\"h1\"]",
            ));
        }
        let position = |predicate: fn(&Protocol) -> bool| self.protocols.iter().position(predicate);
        if let Some(i) = position(|protocol| *protocol == Protocol::Auto) {
            const AUTO: &str = "protocol \"auto\": can be used for loads only, not for servers\
                                \nhint: list the server's protocols, such as [\"h1-tls\", \"h2\"]";
            mistakes.push(protocol_mistake(AUTO).with_child(i));
        }
        let duplicate =
            self.protocols.iter().enumerate().find(|(i, p)| self.protocols[..*i].contains(p));
        if let Some((i, protocol)) = duplicate {
            let message = format!("protocol {protocol}: listed twice");
            mistakes.push(protocol_mistake(&message).with_child(i));
        }
        let uses_port = self.uses("port") || self.uses("tls_port");
        if self.ready.by == ReadyBy::Listening && !uses_port && !self.start.has_own_port() {
            mistakes.push(mistake(
                "ready",
                "[ready]: `tcp` needs a port, but [start] has none\nhint: use {port} or `port` in \
                 [start], or a `command` in [ready] that succeeds when the server is ready",
            ));
        }
        if self.refuses && !matches!(self.ready.by, ReadyBy::Command(_)) {
            mistakes.push(mistake(
                "refuses",
                "`refuses`: the server accepts no connections, so no response can show that the \
                 server is ready\nhint: add a `command` to [ready] that succeeds when the server \
                 is ready",
            ));
        }
        if self.refuses && !self.contracts.is_empty() {
            mistakes.push(mistake(
                "refuses",
                "`refuses`: the server accepts no connections, so no contract can be \
                 checked\nhint: remove `checks`",
            ));
        }
        let has_tls_port = self.start.tls_port.is_some() || self.uses("tls_port");
        let tls_protocol = position(|protocol| *protocol != Protocol::Auto && protocol.is_tls());
        if let Some(i) = tls_protocol.filter(|_| !has_tls_port) {
            let protocol = self.protocols[i];
            let message = format!(
                "protocol {protocol}: needs a TLS port\nhint: use {{tls_port}} or `tls_port` in \
                 [start]"
            );
            mistakes.push(protocol_mistake(&message).with_child(i));
        }
        mistakes
    }

    /// Returns the names of the contracts.
    pub fn checks(&self) -> impl Iterator<Item = &str> {
        self.contracts.iter().map(|contract| contract.name.as_str())
    }

    /// Returns the names of the back ends that the server needs: those in `backends`, and those
    /// whose ports the server uses.
    #[must_use]
    pub fn needs(&self) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = self.backends.iter().cloned().collect();
        for text in self.texts() {
            names.extend(placeholders::backends_in(&text).map(String::from));
        }
        names
    }

    /// Returns the definition with a variant's overrides applied.
    ///
    /// # Errors
    /// The definition has no variant of this name.
    pub fn with_variant(&self, variant: &str) -> Result<Definition, String> {
        let Some(overrides) = self.variants.get(variant) else {
            let names = self.variants.keys().cloned().collect::<Vec<_>>().join(", ");
            let hint = if names.is_empty() {
                "the subject has no variants".into()
            } else {
                format!("use one of {names}")
            };
            return Err(format!("subject {:?}: no variant {variant:?}\nhint: {hint}", self.name));
        };
        Ok(self.with_overrides(overrides))
    }

    /// Returns the definition with these overrides applied.
    fn with_overrides(&self, overrides: &Variant) -> Definition {
        fn set<T: Clone>(field: &mut T, value: &Option<T>) {
            if let Some(value) = value {
                field.clone_from(value);
            }
        }
        let mut definition = self.clone();
        set(&mut definition.title, &overrides.title);
        set(&mut definition.description, &overrides.description);
        set(&mut definition.protocols, &overrides.protocols);
        set(&mut definition.contracts, &overrides.contracts);
        set(&mut definition.waive, &overrides.waive);
        definition.backends.extend(overrides.backends.clone());
        definition.requires.extend(overrides.requires.clone());
        definition.version = overrides.version.clone().or(definition.version);
        definition.build = overrides.build.clone().or(definition.build);
        let start = &mut definition.start;
        set(&mut start.command, &overrides.command);
        start.env.extend(overrides.env.clone());
        start.inherit.extend(overrides.inherit.clone());
        set(&mut start.files, &overrides.files);
        set(&mut start.cwd, &overrides.cwd);
        start.port = overrides.port.or(start.port);
        start.tls_port = overrides.tls_port.or(start.tls_port);
        set(&mut definition.ready.by, &overrides.ready.by);
        set(&mut definition.ready.deadline_ns, &overrides.ready.deadline.map(|Nanoseconds(ns)| ns));
        set(&mut definition.stop.signal, &overrides.stop.signal);
        set(&mut definition.stop.deadline_ns, &overrides.stop.deadline.map(|Nanoseconds(ns)| ns));
        definition
    }

    /// Runs a command that queries a tool, in the environment of builds.
    pub(crate) fn query_tool(
        &self,
        command: &str,
        deadline: Nanoseconds,
        supervision: &Supervision<'_>,
    ) -> ToolOutput {
        let environment = self.tool_environment();
        ToolCommand {
            command,
            folder: &self.folder,
            environment: &environment,
            deadline: deadline.duration(),
        }
        .read_output(supervision)
    }

    /// Returns the variables that a start inherits from dyno's environment, as archives record
    /// them. Variables of the definition are excluded, and TMPDIR, which differs per start.
    #[must_use]
    pub fn inherited_variables(&self) -> BTreeMap<String, String> {
        let mut inherited = self.inherited_environment().to_record();
        inherited.retain(|name, _| !self.start.env.contains_key(name));
        inherited
    }

    /// Returns the variables of a start whose values archives withhold, inherited or set by the
    /// definition, with their values. Placeholders in values are kept, because they differ per
    /// start.
    #[must_use]
    pub fn withheld_variables(&self) -> BTreeMap<String, OsString> {
        let mut environment = self.inherited_environment();
        for (name, value) in self.start.env.iter().chain(&self.profile.env) {
            environment.set(name, value);
        }
        environment.withheld_variables()
    }

    /// Returns the variables that a start inherits from dyno's environment, without TMPDIR, which
    /// differs per start.
    fn inherited_environment(&self) -> Environment {
        let inherit = &self.start.inherit;
        let mut environment =
            Environment::for_server(&DynoVariables::read(), inherit, Path::new(""));
        environment.remove("TMPDIR");
        environment
    }

    /// Returns the environment in which tools are queried. The environment includes `env` of
    /// `[build]`, which can select the version of a tool.
    fn tool_environment(&self) -> Environment {
        let temporary = std::env::temp_dir();
        self.build.as_ref().map_or_else(
            || Environment::for_tool(&DynoVariables::read(), &[], &temporary),
            |spec| spec.environment(&temporary, &Placeholders::default()),
        )
    }

    /// Returns whether this is a control: its command starts dyno itself.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.start.command.first().is_some_and(|c| c == "{dyno}")
    }

    /// Returns whether the server needs a certificate.
    #[must_use]
    pub fn needs_certificate(&self) -> bool {
        self.uses("cert") || self.uses("key")
    }

    /// Returns whether a start uses the placeholder of this name.
    #[must_use]
    pub fn uses(&self, placeholder: &str) -> bool {
        self.texts().iter().any(|text| placeholders::names(text).any(|used| used == placeholder))
    }

    /// Returns all texts of a start that may have placeholders. An unreadable template is empty.
    fn texts(&self) -> Vec<String> {
        let start = &self.start;
        let ready_command = match &self.ready.by {
            ReadyBy::Command(command) => Some(command),
            ReadyBy::Answer { .. } | ReadyBy::Listening => None,
        };
        let commands = self.seed.iter().chain(&self.reset).chain(&self.profile.command);
        let commands = commands.map(|spec| &spec.command).chain(ready_command);
        let mut texts: Vec<String> = start
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
            texts.push(String::from_utf8_lossy(&template).into_owned());
            texts.push(file.to.text().into());
        }
        texts
    }
}

#[cfg(test)]
mod tests;
