//! The parts of a definition: its requirements, build, start, readiness and stop.

use std::collections::BTreeMap;
use std::path::Path;

use dyno_config::relative_path::RelativePath;
use dyno_config::text;
use dyno_config::units::Nanoseconds;
use dyno_contract::ready::Status;
use dyno_launch::environment::{DynoVariables, Environment, Inherit};
use dyno_launch::process::{LOG, RESERVED_PREFIX, Signal};
use serde::{Deserialize, Deserializer};

use crate::limits;
use crate::placeholders::Placeholders;

/// A requirement that the machine must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Require {
    pub name: String,
    /// A shell command that succeeds if the requirement is met.
    pub test: String,
    /// Instruction how to meet the requirement.
    pub hint: String,
    /// Debian package that meets the requirement.
    pub debian: Option<String>,
    /// Deadline of the test.
    pub deadline: Nanoseconds,
}

/// A shell command and its deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    pub command: String,
    pub deadline: Nanoseconds,
}

/// Settings of a server for profiles, so that its functions have names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileSpec {
    /// Added to the environment of the server's start if profiles are requested.
    pub env: BTreeMap<String, String>,
    /// Command that makes the server write a list of its compiled code. The command runs after
    /// sampling.
    pub command: Option<CommandSpec>,
}

/// Source of a server's runtime statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuntimeSpec {
    /// A JVM, by its performance data file (hsperfdata).
    Jvm,
    /// Node.js, by a script that is loaded at its start.
    Node,
    /// The server itself, at a socket that an environment variable names.
    Own,
}

/// Default deadline of a command that queries a tool.
pub(crate) const QUERY: Nanoseconds = Nanoseconds(limits::QUERY.as_nanos() as u64);

/// Default deadline of a build.
pub(crate) const BUILD: Nanoseconds = Nanoseconds(limits::BUILD.as_nanos() as u64);

/// Default deadline of the commands that load and reset data.
pub(crate) const DATA: Nanoseconds = Nanoseconds(limits::DATA.as_nanos() as u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildSpec {
    pub command: String,
    /// Files and folders of the subject's folder that go into the build.
    pub inputs: Vec<RelativePath>,
    /// Variables of the build. Values can have placeholders.
    pub env: BTreeMap<String, String>,
    /// Variables of dyno's own environment that the build inherits, in addition to
    /// [`TOOLCHAINS`](dyno_launch::environment::TOOLCHAINS).
    pub inherit: Vec<Inherit>,
    /// Deadline of the build.
    pub deadline: Nanoseconds,
}

impl BuildSpec {
    /// Returns the environment of the build: its inherited variables, and `env`. Temporary files go
    /// into `temporary`.
    pub(crate) fn environment(&self, temporary: &Path, placeholders: &Placeholders) -> Environment {
        let mut environment =
            Environment::for_tool(&DynoVariables::read(), &self.inherit, temporary);
        self.env.iter().for_each(|(name, value)| environment.set(name, placeholders.fill(value)));
        environment
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartSpec {
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Variables of dyno's own environment that the server inherits, in addition to those that
    /// every server inherits.
    pub inherit: Vec<Inherit>,
    pub files: Vec<FileSpec>,
    /// Folder in which the server is started, with placeholders.
    pub cwd: String,
    /// Fixed port of a server whose port cannot be set; `None`: dyno chooses a free port.
    pub port: Option<u16>,
    pub tls_port: Option<u16>,
}

impl StartSpec {
    /// Returns whether a port of the server is fixed, so that only one start can run at a time.
    #[must_use]
    pub const fn has_own_port(&self) -> bool {
        self.port.is_some() || self.tls_port.is_some()
    }
}

/// A template that is rendered before each start.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    pub template: RelativePath,
    pub to: Target,
}

/// Destination of a rendered file: a path within the start's working folder, with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(String);

/// Placeholders whose values are absolute paths.
const PATHS: [&str; 6] = ["{work}", "{dir}", "{out}", "{dyno}", "{cert}", "{key}"];

impl Target {
    /// Parses the destination of a file, which must be within the working folder.
    fn parse(text: &str) -> Result<Target, String> {
        let relative = text.strip_prefix("{work}/").unwrap_or(text);
        let path = RelativePath::parse(relative)?;
        let is_working_folder = path.path().as_os_str().is_empty();
        let has_absolute_path = PATHS.iter().any(|path| relative.contains(path));
        if is_working_folder || has_absolute_path {
            return Err(format!(
                "{text:?}: not a file in the working folder\nhint: write it like \
                 \"{{work}}/server.conf\""
            ));
        }
        let first = path.path().components().next().map(|part| part.as_os_str().to_string_lossy());
        if first.is_some_and(|first| first == LOG || first.starts_with(RESERVED_PREFIX)) {
            return Err(format!(
                "{text:?}: this name is reserved for files of dyno in the working folder\nhint: \
                 use another name"
            ));
        }
        Ok(Target(relative.into()))
    }

    /// Returns whether two paths are the same, or one is within the other.
    #[must_use]
    pub fn overlaps(&self, other: &Target) -> bool {
        let [path, other] = [self, other].map(|target| Path::new(&target.0));
        path.starts_with(other) || other.starts_with(path)
    }

    /// Returns the path as written, relative to the working folder.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns the path within the working folder, with placeholders replaced.
    ///
    /// # Errors
    /// A value leads out of the working folder.
    pub fn fill(&self, placeholders: &Placeholders) -> Result<RelativePath, String> {
        RelativePath::parse(&placeholders.fill(&self.0))
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::parse_string(from, Target::parse)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopSpec {
    pub signal: Signal,
    /// Deadline, nanoseconds from the signal. Processes that still run at the deadline are killed.
    pub deadline_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadySpec {
    pub by: ReadyBy,
    /// Deadline, nanoseconds from exec.
    pub deadline_ns: u64,
}

/// The sign that a start is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadyBy {
    /// A response to GET of this path has this status.
    Answer { path: String, status: Status },
    /// The ports of the server accept connections.
    Listening,
    /// This shell command succeeds.
    Command(String),
}

/// Overrides of a definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variant {
    pub title: Option<String>,
    pub description: Option<String>,
    pub protocols: Option<Vec<dyno_model::Protocol>>,
    pub contracts: Option<Vec<dyno_contract::contracts::Contract>>,
    pub waive: Option<Vec<String>>,
    /// Added to the back ends in the definition.
    pub backends: Vec<String>,
    /// Added to the requirements in the definition.
    pub requires: Vec<Require>,
    pub version: Option<CommandSpec>,
    pub build: Option<BuildSpec>,
    pub command: Option<Vec<String>>,
    /// Added to the environment in the definition.
    pub env: BTreeMap<String, String>,
    /// Added to the inherited variables in the definition.
    pub inherit: Vec<Inherit>,
    /// Replaces all files of the definition.
    pub files: Option<Vec<FileSpec>>,
    pub cwd: Option<String>,
    pub port: Option<u16>,
    pub tls_port: Option<u16>,
    pub ready: ReadyKeys,
    pub stop: StopKeys,
}

/// The keys of `[stop]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopKeys {
    pub signal: Option<Signal>,
    pub deadline: Option<Nanoseconds>,
}

/// The keys of `[ready]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadyKeys {
    pub by: Option<ReadyBy>,
    pub deadline: Option<Nanoseconds>,
}
