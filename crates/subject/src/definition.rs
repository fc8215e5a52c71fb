//! Subject definitions: `subjects/NAME/subject.toml`. docs/subjects.md describes every key.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dyno_archive::Protocol;
use dyno_contract::contracts::CONTRACTS;
use dyno_launch::environment::{Environment, Inherit, Ours};
use dyno_launch::process::Signal;
use dyno_launch::supervision::Supervision;
use dyno_launch::tool::{Answer, Tool};
use dyno_workload::inside::Inside;
use dyno_workload::mistake::{Mistake, mistake};
use dyno_workload::text::{self, FileError};
use dyno_workload::units;
use serde::{Deserialize, Deserializer};

use crate::key::Key;
use crate::limits;
use crate::paths::{self, Name};
use crate::placeholders::Placeholders;

/// A server under test, as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    pub name: String,
    pub title: String,
    pub language: String,
    pub description: String,
    pub protocols: Vec<Protocol>,
    pub checks: Vec<String>,
    pub requires: Vec<Require>,
    pub version: Option<VersionSpec>,
    pub build: Option<BuildSpec>,
    pub start: StartSpec,
    pub stop: StopSpec,
    pub ready: ReadySpec,
    pub endpoints: BTreeMap<String, String>,
    pub variants: BTreeMap<String, Variant>,
    /// The subject's folder.
    pub folder: PathBuf,
}

/// Something the machine must have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Require {
    pub name: String,
    /// A shell command that succeeds where the need is met.
    pub test: String,
    /// How to get it, as a sentence.
    pub hint: String,
    /// The Debian package that brings it.
    pub debian: Option<String>,
    /// How long the test may take.
    #[serde(default = "question")]
    pub deadline: Nanoseconds,
}

/// The command that prints the version of what runs. The first line of its output is reported.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionSpec {
    pub command: String,
    /// How long it may take.
    #[serde(default = "question")]
    pub deadline: Nanoseconds,
}

const fn question() -> Nanoseconds {
    Nanoseconds(limits::QUESTION.as_nanos() as u64)
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildSpec {
    pub command: String,
    /// Files and folders of the subject's folder that go into the build.
    pub inputs: Vec<Inside>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables of dyno's own environment that the build sees, besides
    /// [`TOOLCHAINS`](dyno_launch::environment::TOOLCHAINS).
    #[serde(default)]
    pub inherit: Vec<Inherit>,
    /// How long it may take.
    #[serde(default = "build")]
    pub deadline: Nanoseconds,
}

impl BuildSpec {
    /// The environment of the build: what it sees of dyno's own, and `env`. Temporary files go into `temporary`.
    pub(crate) fn environment(&self, temporary: &Path) -> Environment {
        let mut environment = Environment::of_tool(&Ours::read(), &self.inherit, temporary);
        self.env.iter().for_each(|(name, value)| environment.set(name, value));
        environment
    }
}

const fn build() -> Nanoseconds {
    Nanoseconds(limits::BUILD.as_nanos() as u64)
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartSpec {
    pub command: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables of dyno's own environment that the server sees, besides those that every server does.
    #[serde(default)]
    pub inherit: Vec<Inherit>,
    #[serde(default)]
    pub files: Vec<FileSpec>,
}

/// A template that is rendered before each start.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    pub template: Inside,
    pub to: Target,
}

/// Where a rendered file goes: a path within the start's working folder, which may hold placeholders.
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
                "{text:?} is not a file in the working folder; write it like \"{{work}}/server.conf\""
            ));
        }
        Ok(Target(below.into()))
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
    /// The path that is asked for until it is answered right.
    pub path: String,
    /// Nanoseconds from exec.
    pub deadline_ns: u64,
}

/// Overrides of a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Variant {
    pub title: Option<String>,
    pub description: Option<String>,
    pub protocols: Option<Vec<Protocol>>,
    pub command: Option<Vec<String>>,
    pub env: BTreeMap<String, String>,
    pub inherit: Vec<Inherit>,
    /// Files instead of all those of the definition.
    pub files: Option<Vec<FileSpec>>,
    pub ready: ReadyKeys,
    pub build: Option<BuildSpec>,
}

/// The keys of `[ready]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReadyKeys {
    path: Option<String>,
    deadline: Option<Nanoseconds>,
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: Name,
    title: String,
    language: String,
    #[serde(default)]
    description: String,
    protocols: Vec<Protocol>,
    #[serde(default)]
    checks: Vec<String>,
    #[serde(default)]
    requires: Vec<Require>,
    version: Option<VersionSpec>,
    build: Option<BuildSpec>,
    start: StartSpec,
    #[serde(default)]
    stop: RawStop,
    #[serde(default)]
    ready: ReadyKeys,
    #[serde(default)]
    endpoints: BTreeMap<String, String>,
    #[serde(default)]
    variants: BTreeMap<String, Variant>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawStop {
    signal: Signal,
    deadline: Option<Nanoseconds>,
}

impl Raw {
    /// Checks what the types of the keys cannot.
    fn check(&self, folder: &Path) -> Result<(), Mistake> {
        if self.start.command.is_empty() {
            return Err(mistake("start", "`start.command` is empty").below("command"));
        }
        if let Some(called) = folder.file_name().filter(|called| *called != self.name.0.as_str()) {
            let message = format!("`name` is {:?}, but its folder is {called:?}", self.name.0);
            return Err(mistake("name", message));
        }
        let is_unknown = |check: &String| !CONTRACTS.contains(&check.as_str());
        if let Some(i) = self.checks.iter().position(is_unknown) {
            let known = CONTRACTS.map(|c| format!("{c:?}")).join(" and ");
            let message = format!("there is no contract {:?}; there are {known}", self.checks[i]);
            return Err(mistake("checks", message).below(i));
        }
        Ok(())
    }
}

impl Definition {
    /// Reads `subject.toml` in `folder`.
    pub fn read(folder: &Path) -> Result<Definition, FileError> {
        let path = folder.join("subject.toml");
        let source = std::fs::read_to_string(&path)
            .map_err(|error| FileError::whole(&path, format!("cannot be read: {error}")))?;
        let raw: Raw = text::parse_toml(&path, &source)?;
        Definition::of(raw, folder).map_err(|mistake| mistake.locate(&path, &source))
    }

    fn of(raw: Raw, folder: &Path) -> Result<Definition, Mistake> {
        let time = |given: Option<Nanoseconds>, default: u64| given.map_or(default, |Nanoseconds(ns)| ns);
        raw.check(folder)?;
        let definition = Definition {
            name: raw.name.0,
            title: raw.title,
            language: raw.language,
            description: raw.description,
            protocols: raw.protocols,
            checks: raw.checks,
            requires: raw.requires,
            version: raw.version,
            build: raw.build,
            start: raw.start,
            stop: StopSpec { signal: raw.stop.signal, deadline_ns: time(raw.stop.deadline, 5_000_000_000) },
            ready: ReadySpec {
                path: raw.ready.path.unwrap_or_else(|| "/".into()),
                deadline_ns: time(raw.ready.deadline, 20_000_000_000),
            },
            endpoints: raw.endpoints,
            variants: raw.variants,
            folder: folder.into(),
        };
        definition.check()?;
        for (name, over) in &definition.variants {
            definition.overridden(name, over)?;
        }
        Ok(definition)
    }

    /// Checks that its protocols are named, and that its start can speak them.
    fn check(&self) -> Result<(), Mistake> {
        let wrong = |message: &str| mistake("protocols", message);
        if self.protocols.is_empty() {
            return Err(wrong("`protocols` is empty; say what it speaks, for instance [\"h1\"]"));
        }
        let at = |is_it: fn(&Protocol) -> bool| self.protocols.iter().position(is_it);
        if let Some(i) = at(|protocol| *protocol == Protocol::Auto) {
            const AUTO: &str = "`protocols` has \"auto\", which is for loads; name what it speaks, for instance [\"h1-tls\", \"h2\"]";
            return Err(wrong(AUTO).below(i));
        }
        match at(|protocol| protocol.is_tls()) {
            Some(i) if !self.uses("{tls_port}") => Err(wrong(&format!(
                "it says that it speaks {}, but its start has no {{tls_port}} to speak it on",
                self.protocols[i]
            ))
            .below(i)),
            _ => Ok(()),
        }
    }

    /// The definition with a variant's overrides applied.
    pub fn with_variant(&self, variant: &str) -> Result<Definition, String> {
        let Some(over) = self.variants.get(variant) else {
            let known = self.variants.keys().cloned().collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { "it has none".into() } else { format!("it has {known}") };
            return Err(format!("subject {:?} has no variant {variant:?}; {known}", self.name));
        };
        self.overridden(variant, over).map_err(Mistake::into_message)
    }

    fn overridden(&self, variant: &str, over: &Variant) -> Result<Definition, Mistake> {
        let mut definition = self.clone();
        let set = |field: &mut String, value: &Option<String>| {
            if let Some(value) = value {
                field.clone_from(value);
            }
        };
        set(&mut definition.title, &over.title);
        set(&mut definition.description, &over.description);
        if let Some(command) = &over.command {
            definition.start.command.clone_from(command);
        }
        if let Some(protocols) = &over.protocols {
            definition.protocols.clone_from(protocols);
        }
        definition.start.env.extend(over.env.clone());
        definition.start.inherit.extend(over.inherit.clone());
        if let Some(files) = &over.files {
            definition.start.files.clone_from(files);
        }
        set(&mut definition.ready.path, &over.ready.path);
        if let Some(Nanoseconds(ns)) = over.ready.deadline {
            definition.ready.deadline_ns = ns;
        }
        if over.build.is_some() {
            definition.build.clone_from(&over.build);
        }
        let place = |mistake: Mistake| mistake.within(variant.to_string()).within("variants");
        definition.check().map_err(|mistake| place(mistake).of(&format!("variant {variant:?}")))?;
        Ok(definition)
    }

    /// The first need that this machine does not meet, as a sentence with the way out.
    #[must_use]
    pub fn unmet(&self, supervision: &Supervision<'_>) -> Option<String> {
        self.requires.iter().find_map(|require| {
            match self.ask(&require.test, require.deadline, supervision) {
                Answer::Ended { status, .. } if status.success() => None,
                Answer::Ended { .. } => Some(format!("{} is missing. {}", require.name, require.hint)),
                Answer::None(why) => Some(format!(
                    "{} may be missing: its test `{}` {why}. {}",
                    require.name, require.test, require.hint
                )),
            }
        })
    }

    /// Asks a tool something, as builds would find it: what `env` of `[build]` sets may decide which of its versions answers.
    pub(crate) fn ask(&self, command: &str, deadline: Nanoseconds, supervision: &Supervision<'_>) -> Answer {
        let temporary = std::env::temp_dir();
        let environment = self.build.as_ref().map_or_else(
            || Environment::of_tool(&Ours::read(), &[], &temporary),
            |spec| spec.environment(&temporary),
        );
        Tool { command, folder: &self.folder, environment: &environment, deadline: deadline.duration() }
            .ask(supervision)
    }

    /// Hash of what decides how it is started: this definition, its templates and, if it is started from its own folder,
    /// everything in that. What goes into a build has a hash of its own.
    ///
    /// # Errors
    /// Something in its folder cannot be read.
    pub fn fingerprint(&self) -> io::Result<String> {
        let mut key = Key::default();
        // Other variants, and where it all lies, change nothing of this one.
        let alone = Definition { variants: BTreeMap::new(), folder: PathBuf::new(), ..self.clone() };
        key.add(format!("{alone:?}").as_bytes());
        for file in &self.start.files {
            key.add(&paths::read(&file.template, &self.folder)?);
        }
        if self.uses("{dir}") {
            add_folder(&mut key, &self.folder, Path::new(""))?;
        }
        Ok(key.text())
    }

    /// Whether this is a control: dyno's own null responder.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.start.command.first().is_some_and(|c| c == "{dyno}")
    }

    /// Whether it is to be given a certificate.
    #[must_use]
    pub fn needs_certificate(&self) -> bool {
        self.uses("{cert}") || self.uses("{key}")
    }

    /// Whether a start uses the placeholder.
    #[must_use]
    pub fn uses(&self, placeholder: &str) -> bool {
        let is_in = |file: &FileSpec| {
            let template = paths::read(&file.template, &self.folder);
            template.is_ok_and(|t| String::from_utf8_lossy(&t).contains(placeholder))
        };
        let in_files = || self.start.files.iter().any(is_in);
        self.start.command.iter().chain(self.start.env.values()).any(|s| s.contains(placeholder))
            || in_files()
    }
}

/// Adds names and contents of all in a folder to a hash; of links, where they lead.
fn add_folder(key: &mut Key, folder: &Path, below: &Path) -> io::Result<()> {
    let entries = std::fs::read_dir(folder.join(below))?.map(|e| e.map(|e| e.file_name()));
    let mut names = entries.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    for name in names.iter().map(|name| below.join(name)) {
        let path = folder.join(&name);
        let kind = std::fs::symlink_metadata(&path)?.file_type();
        // The definition itself is there already, without its comments.
        if name == Path::new("subject.toml") {
            continue;
        }
        key.add(name.as_os_str().as_encoded_bytes());
        if kind.is_dir() {
            add_folder(key, folder, &name)?;
        } else if kind.is_symlink() {
            key.add(std::fs::read_link(&path)?.as_os_str().as_encoded_bytes());
        } else if kind.is_file() {
            key.add(&std::fs::read(&path)?);
        }
    }
    Ok(())
}

/// All subjects in a folder, by name. Folders without a `subject.toml` are not subjects.
pub fn all(folder: &Path) -> Result<Vec<Definition>, FileError> {
    let entries = std::fs::read_dir(folder)
        .map_err(|error| FileError::whole(folder, format!("cannot be read: {error}")))?;
    let mut folders: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    folders.retain(|f| f.join("subject.toml").is_file());
    folders.sort();
    folders.iter().map(|f| Definition::read(f)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use dyno_launch::guard::Guard;
    use dyno_launch::supervision::Interrupts;

    fn unmet(definition: &Definition) -> Option<String> {
        // The guard of a test is this test program, which ends at once with the unknown argument.
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        definition.unmet(&Supervision { guard: &guard, interrupts: &interrupts })
    }

    fn write(source: &str) -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("subject.toml"), source).unwrap();
        (root, folder)
    }

    const GOOD: &str = "name = \"x\"\ntitle = \"X\"\nlanguage = \"C\"\nprotocols = [\"h1\"]\nchecks = [\"hello\"]\n[start]\ncommand = [\"x\", \"{port}\"]\n[variants.fast]\ntitle = \"X fast\"\nenv = { A = \"1\" }\n";

    #[test]
    fn defaults_are_filled_in_and_variants_override() {
        let (_root, folder) = write(GOOD);
        let definition = Definition::read(&folder).unwrap();
        assert_eq!((definition.stop.signal, definition.stop.deadline_ns), (Signal::Term, 5_000_000_000));
        assert_eq!(unmet(&definition), None);
        let fast = definition.with_variant("fast").unwrap();
        assert_eq!((fast.title.as_str(), fast.start.env.len()), ("X fast", 1));
        assert!(definition.with_variant("slow").unwrap_err().contains("it has fast"));
        assert!(definition.uses("{port}") && !definition.uses("{tls_port}"));
    }

    #[test]
    fn a_variant_may_speak_otherwise() {
        let (_root, folder) = write(&format!(
            "{GOOD}[variants.tls]\nprotocols = [\"h1-tls\", \"h2\"]\nready = {{ path = \"/r\" }}\n\
             command = [\"x\", \"{{tls_port}}\", \"{{cert}}\", \"{{key}}\"]\nfiles = []\n"
        ));
        let definition = Definition::read(&folder).unwrap();
        assert!(!definition.needs_certificate());
        let tls = definition.with_variant("tls").unwrap();
        assert_eq!(tls.protocols, [Protocol::H1Tls, Protocol::H2]);
        assert!(tls.needs_certificate());
        assert_eq!((tls.ready.path.as_str(), tls.ready.deadline_ns), ("/r", definition.ready.deadline_ns));
    }

    #[test]
    fn mistakes_are_named() {
        let error = |source: &str| Definition::read(&write(source).1).unwrap_err().to_string();
        assert!(error(&GOOD.replace("title = \"X\"", "titel = \"X\"")).contains("did you mean `title`?"));
        assert!(error(&GOOD.replace("\"x\"\ntitle", "\"y\"\ntitle")).contains("but its folder is"));
        assert!(error(&GOOD.replace("[\"hello\"]", "[\"hallo\"]")).contains("there are \"hello\""));
        assert!(error(&GOOD.replace("[\"h1\"]", "[\"h3\"]")).contains("unknown value `h3`"));
        assert!(error(&GOOD.replace("[\"h1\"]", "[\"auto\"]")).contains("which is for loads"));
        assert!(error(&GOOD.replace("[\"h1\"]", "[]")).contains("`protocols` is empty"));
        assert!(error(&GOOD.replace("[\"h1\"]", "[\"h1\", \"h2\"]")).contains("has no {tls_port}"));
        let mute = "[variants.mute]\nprotocols = [\"h1-tls\"]\n";
        assert!(error(&format!("{GOOD}{mute}")).contains("variant \"mute\": it says"));
        let ready = "[ready]\ndeadline = \"5\"\n";
        assert!(error(&format!("{GOOD}{ready}")).contains("\"5\" is not a duration"));
    }

    #[test]
    fn a_mistake_points_at_its_own_line_and_column() {
        // GOOD has ten lines, in which no value is wrong.
        let after = |rest: &str| format!("{GOOD}{rest}");
        let build = "[build]\ncommand = \"true\"\n";
        for (source, place, underlined, words) in [
            (GOOD.replace("\"x\"\ntitle", "\"y\"\ntitle"), "1:8", "\"y\"", "but its folder is"),
            (GOOD.replace("[\"h1\"]", "[\"h1\", \"h3\"]"), "4:20", "\"h3\"", "unknown value `h3`"),
            (GOOD.replace("[\"h1\"]", "[\"h1\", \"auto\"]"), "4:20", "\"auto\"", "which is for loads"),
            (GOOD.replace("[\"h1\"]", "[\"h1\", \"h2\"]"), "4:20", "\"h2\"", "has no {tls_port}"),
            (GOOD.replace("[\"h1\"]", "[]"), "4:13", "[]", "`protocols` is empty"),
            (GOOD.replace("[\"hello\"]", "[\"hello\", \"hallo\"]"), "5:20", "\"hallo\"", "no contract"),
            (GOOD.replace("[\"x\", \"{port}\"]", "[]"), "7:11", "[]", "`start.command` is empty"),
            (GOOD.replace("command = [", "commands = ["), "7:1", "commands", "did you mean `command`?"),
            (GOOD.replace("env = { A = \"1\" }", "env = { A = 1 }"), "10:13", "1", "invalid type: integer"),
            (
                after("[variants.mute]\nprotocols = [\"h1-tls\"]\n"),
                "12:14",
                "\"h1-tls\"",
                "variant \"mute\": it",
            ),
            (after("[variants.a]\nready = { deadline = \"5\" }\n"), "12:22", "\"5\"", "is not a duration"),
            (
                after("[variants.a]\nready = { deadlin = \"5s\" }\n"),
                "12:11",
                "deadlin",
                "did you mean `deadline`?",
            ),
            (after("[ready]\npath = \"/\"\ndeadline = \"5\"\n"), "13:12", "\"5\"", "is not a duration"),
            (after("[stop]\nsignal = \"HUP\"\n"), "12:10", "\"HUP\"", "unknown value `HUP`"),
            (
                after(&format!("{build}inputs = [\"a\", \"../y\"]\n")),
                "13:16",
                "\"../y\"",
                "leaves its folder",
            ),
            (after(build), "11:1", "[build]", "missing field `inputs`"),
            (after(&format!("{build}inputs = \"a\"\n")), "13:10", "\"a\"", "invalid type: string"),
            (
                after("[[requires]]\nname = \"a\"\ntest = \"b\"\n"),
                "11:1",
                "[[requires]]",
                "missing field `hint`",
            ),
            (after("[version]\ncommand = \"v\"\ndeadline = 3\n"), "13:12", "3", "invalid type: integer `3`"),
        ] {
            let text = Definition::read(&write(&source).1).unwrap_err().to_string();
            let lines: Vec<&str> = text.lines().collect();
            let number = place.split(':').next().unwrap();
            let shown = source.lines().nth(number.parse::<usize>().unwrap() - 1).unwrap();
            assert!(
                lines[0].contains(&format!("subject.toml:{place}: ")) && lines[0].contains(words),
                "{text}"
            );
            assert_eq!(lines[2], format!("{number} | {shown}"), "{text}");
            let carets = lines[3].split_once("| ").unwrap().1;
            assert_eq!(&shown[carets.find('^').unwrap()..carets.len()], underlined, "{text}");
        }
        let nameless = Definition::read(&write(&GOOD.replace("title = \"X\"\n", "")).1).unwrap_err();
        assert_eq!((nameless.position, nameless.message.as_str()), (None, "missing field `title`"));
    }

    #[test]
    fn an_unmet_need_is_a_sentence() {
        let (_root, folder) = write(&format!(
            "{GOOD}[[requires]]\nname = \"unobtainium\"\ntest = \"false\"\nhint = \"Dig deeper.\"\n"
        ));
        assert_eq!(
            unmet(&Definition::read(&folder).unwrap()).unwrap(),
            "unobtainium is missing. Dig deeper."
        );
    }

    #[test]
    fn a_test_that_hangs_is_an_unmet_need() {
        let (_root, folder) = write(&format!(
            "{GOOD}[[requires]]\nname = \"tool\"\ntest = \"setsid sleep 1000\"\nhint = \"Mend it.\"\ndeadline = \"100ms\"\n"
        ));
        assert_eq!(
            unmet(&Definition::read(&folder).unwrap()).unwrap(),
            "tool may be missing: its test `setsid sleep 1000` had not ended after 100 ms. Mend it."
        );
    }

    #[test]
    fn a_path_that_leaves_its_folder_is_refused_with_its_place() {
        let build = |inputs: &str| format!("{GOOD}[build]\ncommand = \"true\"\ninputs = [{inputs}]\n");
        let file =
            |file: &str| GOOD.replace("\"{port}\"]\n", &format!("\"{{port}}\"]\nfiles = [{{ {file} }}]\n"));
        for (source, line, words) in [
            (build("\"a\", \"/etc/passwd\""), 13, "\"/etc/passwd\" is absolute"),
            (build("\"../y\""), 13, "\"../y\" leaves its folder"),
            (build("\"a/../../y\""), 13, "leaves its folder"),
            (file("template = \"/etc/shadow\", to = \"a\""), 8, "is absolute"),
            (file("template = \"../y\", to = \"a\""), 8, "leaves its folder"),
            (file("template = \"y\", to = \"/etc/cron.d/y\""), 8, "is absolute"),
            (file("template = \"y\", to = \"{work}/../y\""), 8, "leaves its folder"),
            (file("template = \"y\", to = \"{dir}/y\""), 8, "not a file in the working folder"),
            (file("template = \"y\", to = \"{work}\""), 8, "not a file in the working folder"),
            (
                format!("{GOOD}[variants.w]\nfiles = [{{ template = \"../y\", to = \"a\" }}]\n"),
                12,
                "leaves its folder",
            ),
            (GOOD.replace("name = \"x\"", "name = \"../x\""), 1, "not the name of a subject"),
        ] {
            let error = Definition::read(&write(&source).1).unwrap_err().to_string();
            assert!(error.contains(words), "{source}\n→ {error}");
            assert!(error.contains(&format!("subject.toml:{line}:")) && error.contains('^'), "{error}");
        }
        let good = file("template = \"y\", to = \"{work}/conf/{port}.conf\"");
        let definition = Definition::read(&write(&good).1).unwrap();
        let to =
            definition.start.files[0].to.fill(&Placeholders(vec![("port".into(), "80".into())])).unwrap();
        assert_eq!(to.path(), Path::new("conf/80.conf"));
    }

    #[test]
    fn a_fingerprint_changes_with_what_is_started_and_with_nothing_else() {
        let (_root, folder) = write(GOOD);
        let print = || Definition::read(&folder).unwrap().fingerprint().unwrap();
        let first = print();
        let change = |source: &str| std::fs::write(folder.join("subject.toml"), source).unwrap();
        change(&format!("# a comment\n{GOOD}[variants.slow]\n"));
        std::fs::write(folder.join("notes"), "1").unwrap();
        assert_eq!(print(), first);
        change(&GOOD.replace("\"{port}\"", "\"{port}\", \"--fast\""));
        assert_ne!(print(), first);
        change(&GOOD.replace("\"{port}\"", "\"{dir}/notes\""));
        let second = print();
        std::fs::write(folder.join("notes"), "2").unwrap();
        assert_ne!(print(), second);
    }

    #[test]
    fn a_template_that_is_no_file_is_not_waited_for() {
        let (_root, folder) = write(
            &GOOD.replace("\"{port}\"]\n", "\"{port}\"]\nfiles = [{ template = \"pipe\", to = \"a\" }]\n"),
        );
        let pipe = std::process::Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap();
        assert!(pipe.success());
        let definition = Definition::read(&folder).unwrap();
        assert!(!definition.uses("{cpus}"));
        assert!(definition.fingerprint().unwrap_err().to_string().contains("is no regular file"));
    }
}
