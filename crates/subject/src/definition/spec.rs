//! The parts of a definition: what it needs, how it is built, started, awaited and stopped.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use dyno_contract::ready::Status;
use dyno_launch::environment::{Environment, Inherit, Ours};
use dyno_launch::process::{LOG, OWN, Signal};
use dyno_workload::inside::Inside;
use dyno_workload::text;
use dyno_workload::units;
use serde::{Deserialize, Deserializer};

use crate::limits;
use crate::placeholders::Placeholders;

/// Something the machine must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Require {
    pub name: String,
    /// A shell command that succeeds where the need is met.
    pub test: String,
    /// How to get it, as a sentence.
    pub hint: String,
    /// The Debian package that brings it.
    pub debian: Option<String>,
    /// How long the test may take.
    pub deadline: Nanoseconds,
}

/// A shell command, and how long it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    pub command: String,
    pub deadline: Nanoseconds,
}

/// What a server needs so that its functions have names in a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileSpec {
    /// Added to the environment of its start where profiles are asked for.
    pub env: BTreeMap<String, String>,
    /// Has it write down what it compiled, once stacks were taken.
    pub command: Option<CommandSpec>,
}

/// How a server's runtime tells of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuntimeSpec {
    /// A JVM, in the file that it keeps for tools.
    Jvm,
    /// Node.js, by a script that it is started with.
    Node,
    /// The server itself, at a socket of which its environment tells.
    Own,
}

/// How long a question to a tool may take unless its file says otherwise.
pub(crate) const QUESTION: Nanoseconds = Nanoseconds(limits::QUESTION.as_nanos() as u64);

/// How long a build may take unless its file says otherwise.
pub(crate) const BUILD: Nanoseconds = Nanoseconds(limits::BUILD.as_nanos() as u64);

/// How long loading data, or putting it back, may take unless the file says otherwise.
pub(crate) const DATA: Nanoseconds = Nanoseconds(limits::DATA.as_nanos() as u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildSpec {
    pub command: String,
    /// Files and folders of the subject's folder that go into the build.
    pub inputs: Vec<Inside>,
    /// Values may hold placeholders.
    pub env: BTreeMap<String, String>,
    /// Variables of dyno's own environment that the build sees, besides
    /// [`TOOLCHAINS`](dyno_launch::environment::TOOLCHAINS).
    pub inherit: Vec<Inherit>,
    /// How long it may take.
    pub deadline: Nanoseconds,
}

impl BuildSpec {
    /// The environment of the build: what it sees of dyno's own, and `env`. Temporary files go into
    /// `temporary`.
    pub(crate) fn environment(&self, temporary: &Path, places: &Placeholders) -> Environment {
        let mut environment = Environment::of_tool(&Ours::read(), &self.inherit, temporary);
        self.env.iter().for_each(|(name, value)| environment.set(name, places.fill(value)));
        environment
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartSpec {
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Variables of dyno's own environment that the server sees, besides those that every server
    /// does.
    pub inherit: Vec<Inherit>,
    pub files: Vec<FileSpec>,
    /// Folder in which it is started, with placeholders.
    pub cwd: String,
    /// Ports that the server has of its own, and cannot be told; `None`: it is given one.
    pub port: Option<u16>,
    pub tls_port: Option<u16>,
}

impl StartSpec {
    /// Whether only one start of it can be up at a time.
    #[must_use]
    pub const fn has_own_port(&self) -> bool {
        self.port.is_some() || self.tls_port.is_some()
    }
}

/// A template that is rendered before each start.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    pub template: Inside,
    pub to: Target,
}

/// Where a rendered file goes: a path within the start's working folder, which may hold
/// placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(String);

/// Placeholders whose values are paths of their own.
const PATHS: [&str; 6] = ["{work}", "{dir}", "{out}", "{dyno}", "{cert}", "{key}"];

impl Target {
    fn parse(text: &str) -> Result<Target, String> {
        let below = text.strip_prefix("{work}/").unwrap_or(text);
        if Inside::parse(below)?.path().as_os_str().is_empty()
            || PATHS.iter().any(|path| below.contains(path))
        {
            return Err(format!(
                "{text:?} is not a file in the working folder; write it like \
                 \"{{work}}/server.conf\""
            ));
        }
        let path = Inside::parse(below)?;
        let first = path.path().components().next().map(|part| part.as_os_str().to_string_lossy());
        if first.is_some_and(|first| first == LOG || first.starts_with(OWN)) {
            return Err(format!(
                "{text:?} is a name that dyno uses in the working folder itself; write another"
            ));
        }
        Ok(Target(below.into()))
    }

    /// Whether one of two files is the other one, or would lie below it.
    #[must_use]
    pub fn overlaps(&self, other: &Target) -> bool {
        let [one, other] = [self, other].map(|target| Path::new(&target.0));
        one.starts_with(other) || other.starts_with(one)
    }

    /// As it is written, from the working folder on.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Within the working folder, with placeholders replaced.
    ///
    /// # Errors
    /// What was put in leads out of it.
    pub fn fill(&self, places: &Placeholders) -> Result<Inside, String> {
        Inside::parse(&places.fill(&self.0))
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::parsed(from, Target::parse)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopSpec {
    pub signal: Signal,
    /// Nanoseconds from the signal. What still runs then is killed.
    pub deadline_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadySpec {
    pub by: ReadyBy,
    /// Nanoseconds from exec.
    pub deadline_ns: u64,
}

/// The sign by which a start is known to be ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadyBy {
    /// GET of this path is answered with such a status.
    Answer { path: String, status: Status },
    /// Its ports take connections.
    Listening,
    /// This command of a shell succeeds.
    Command(String),
}

/// Overrides of a definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variant {
    pub title: Option<String>,
    pub description: Option<String>,
    pub protocols: Option<Vec<dyno_archive::Protocol>>,
    pub contracts: Option<Vec<dyno_contract::contracts::Contract>>,
    pub waive: Option<Vec<String>>,
    /// Added to those of the definition.
    pub backends: Vec<String>,
    /// Added to those of the definition.
    pub requires: Vec<Require>,
    pub version: Option<CommandSpec>,
    pub build: Option<BuildSpec>,
    pub command: Option<Vec<String>>,
    /// Added to that of the definition.
    pub env: BTreeMap<String, String>,
    /// Added to that of the definition.
    pub inherit: Vec<Inherit>,
    /// Files instead of all those of the definition.
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

/// A duration as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nanoseconds(pub u64);

impl Nanoseconds {
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl<'de> Deserialize<'de> for Nanoseconds {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text::parsed(from, |text| units::duration(text).map(Nanoseconds))
    }
}
