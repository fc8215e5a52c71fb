//! Builds subjects (servers under test). All runs share a cache of the artefacts, so a subject is
//! built again only if its inputs change.

use std::collections::BTreeMap;
use std::fs::{self, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use dyno_launch::environment::{Environment, is_recorded};
use dyno_launch::folder::{self, ExistingFile};
use dyno_launch::log::Log;
use dyno_launch::supervision::Supervision;
use dyno_launch::tool::{self, ToolCommand, ToolExit, ToolOutput};
use dyno_model::plan::Build;
use serde::{Deserialize, Serialize};

use crate::artefact::Artefact;
use crate::definition::{BuildSpec, Definition, Require};
use crate::key::{InputsHash, PartsHash};

pub use crate::key::InputKey;
use crate::limits::{COPIES, LOCK_POLL};
use crate::paths::{self, EntryKind, FolderEntry};
use crate::placeholders::Placeholders;

/// Incremented when the build procedure changes, so that old artefacts are not reused.
const CACHE_VERSION: &str = "3";

/// A subject that can be started.
#[derive(Clone, Debug)]
pub struct Built {
    /// Folder of the artefacts; empty for subjects without a build.
    pub out: PathBuf,
    pub build: Option<Build>,
    /// Everything that the build made; `None`: the subject has no build.
    artefact: Option<Artefact>,
    /// Shared lock of the build, which is not replaced while a process has the lock. `None`: the
    /// subject has no build, or its folder cannot be locked.
    _in_use: Option<Arc<fs::File>>,
}

impl Built {
    /// Compares the folder of the artefacts with what the build made. Returns the files that the
    /// build did not make, sorted by path.
    ///
    /// # Errors
    /// The path of the first artefact that was changed or lost after the build.
    pub fn check_artefacts(&self) -> Result<Vec<String>, PathBuf> {
        let Some(artefact) = &self.artefact else { return Ok(Vec::new()) };
        artefact.clone().check(&self.out).map_err(|name| self.out.join(name))
    }
}

/// Message for a build that the user interrupted.
pub const INTERRUPTED: &str = "the user ended the build";

/// The measurements of a build, stored next to its artefact.
#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    wall_ns: u64,
    cpu_ns: u64,
    artefact: Artefact,
    /// Environment of the build, without secrets.
    environment: BTreeMap<String, String>,
}

/// Builds a subject, or finds its artefact in the cache. `on_line`: receives each line that the
/// build prints.
///
/// # Errors
/// Message for the user, with the end of the build's output.
pub fn build(
    definition: &Definition,
    cache: &Path,
    supervision: &Supervision<'_>,
    on_line: &mut dyn FnMut(&str),
) -> Result<Built, String> {
    let cache = cache.join(&definition.name);
    let Some(spec) = &definition.build else {
        let out = build_folder("none", definition, &cache);
        fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
        return Ok(Built { out, build: None, artefact: None, _in_use: None });
    };
    // The cache is locked before the sources are read, because another dyno process may be
    // building, and the sources may change in that time.
    let _lock = lock(&cache, supervision)?;
    let mut recipe = Recipe { definition, spec, supervision, read: &mut read_input, on_line };
    recipe.build(&cache)
}

/// Removes the build caches of a definition in a temporary folder.
pub fn remove_caches(definition: &Definition, cache: &Path) {
    // An error is ignored, because a remaining folder only wastes space.
    for folder in build_folders(definition, cache) {
        drop(folder::remove(&folder));
    }
}

/// Returns the folders in the cache for a definition: the folder of `{cache}`, the folder of a
/// subject without a build, and the folder of builds that use `{dir}`.
#[must_use]
pub fn build_folders(definition: &Definition, cache: &Path) -> [PathBuf; 3] {
    ["kept", "none", "own"]
        .map(|kind| build_folder(kind, definition, &cache.join(&definition.name)))
}

/// Returns the folder of one kind (see [`build_folders`]) that the cache has for a definition's
/// folder. `cache`: the folder for subjects with the definition's name.
fn build_folder(kind: &str, definition: &Definition, cache: &Path) -> PathBuf {
    cache.join(format!("{kind}-{}", folder_key(definition)))
}

/// Returns whether a build uses the path of the definition's folder.
fn uses_own_folder(spec: &BuildSpec) -> bool {
    std::iter::once(&spec.command).chain(spec.env.values()).any(|text| text.contains("{dir}"))
}

/// Returns eight hexadecimal digits that distinguish a definition's folder from other folders with
/// the same name.
fn folder_key(definition: &Definition) -> String {
    let mut key = PartsHash::default();
    let folder =
        std::path::absolute(&definition.folder).unwrap_or_else(|_| definition.folder.clone());
    key.add(folder.as_os_str().as_encoded_bytes());
    key.add(definition.role.file().as_bytes());
    let mut text = key.into_text();
    text.truncate(8);
    text
}

/// The steps and inputs of a subject's build.
struct Recipe<'a> {
    definition: &'a Definition,
    spec: &'a BuildSpec,
    supervision: &'a Supervision<'a>,
    /// Reads an input.
    read: &'a mut dyn FnMut(&FolderEntry) -> io::Result<Vec<u8>>,
    /// Receives each line that the build prints.
    on_line: &'a mut dyn FnMut(&str),
}

impl Recipe<'_> {
    /// Finds the artefact in the cache, or builds it from copies of the inputs.
    fn build(&mut self, cache: &Path) -> Result<Built, String> {
        let without_inputs = key_without_inputs(self.definition, self.spec, self.supervision)?;
        for _ in 0..COPIES {
            let inputs = self.key(without_inputs.clone())?;
            let folder = BuildFolder(match uses_own_folder(self.spec) {
                true => build_folder("own", self.definition, cache).join(&inputs.all[..16]),
                false => cache.join(&inputs.all[..16]),
            });
            if let Some(receipt) = self.cached(&folder)? {
                return Ok(receipt.into_built(&folder, inputs, true));
            }
            let cache_folder = build_folder("kept", self.definition, cache);
            let mut placeholders = placeholders(self.definition, &folder.out());
            placeholders.0.push(("cache".into(), cache_folder.display().to_string()));
            let command = placeholders.fill_command(&self.spec.command)?;
            folder.create()?;
            fs::create_dir_all(&cache_folder)
                .map_err(|e| format!("{}: {e}", cache_folder.display()))?;
            // Inputs may change at any time, so the build uses copies.
            if self.copy_inputs(without_inputs.clone(), &folder.source())? != inputs {
                folder::remove(&folder.0).map_err(|e| folder.error(&e))?;
                continue;
            }
            let environment = self.spec.environment(&folder.temporary(), &placeholders);
            let receipt = self.run(&command, &environment, &folder)?;
            folder.write_receipt(&receipt)?;
            return Ok(receipt.into_built(&folder, inputs, false));
        }
        Err(format!(
            "the build inputs changed while dyno copied them\nhint: stop the program that writes \
             into {}, and build again",
            self.definition.folder.display()
        ))
    }

    /// Returns the receipt of an earlier build whose artefacts are still as the build made them.
    fn cached(&mut self, folder: &BuildFolder) -> Result<Option<Receipt>, String> {
        let Some(mut receipt) = read_receipt(&folder.receipt()) else { return Ok(None) };
        let before = receipt.artefact.clone();
        if let Err(name) = receipt.artefact.check(&folder.out()) {
            (self.on_line)(&format!(
                "{}: was changed or removed after the build, so dyno builds {} again",
                folder.out().join(name).display(),
                self.definition.name
            ));
            return Ok(None);
        }
        if before != receipt.artefact {
            // An error is ignored: the old receipt stays, and the next check only takes longer. For
            // example, another user's receipt cannot be written.
            let _ = folder.write_receipt(&receipt);
        }
        Ok(Some(receipt))
    }

    /// Returns the key of a build from the current inputs.
    fn key(&mut self, without_inputs: InputsHash) -> Result<InputKey, String> {
        self.visit_inputs(without_inputs, |_, _| Ok(()))
    }

    /// Copies the inputs to the folder `source`, and returns the key of a build from these copies.
    fn copy_inputs(
        &mut self,
        without_inputs: InputsHash,
        source: &Path,
    ) -> Result<InputKey, String> {
        self.visit_inputs(without_inputs, |input, bytes| write_input(input, bytes, source))
    }

    /// Runs the build, whose inputs have been copied.
    fn run(
        &mut self,
        command: &str,
        environment: &Environment,
        folder: &BuildFolder,
    ) -> Result<Receipt, String> {
        let (out, source, temporary) = (folder.out(), folder.source(), folder.temporary());
        let io = |e: io::Error| folder.error(&e);
        let secrets = environment.secret_values();
        let log = Log::create(&folder.0.join("build.log"), secrets).map_err(io)?;
        let deadline = self.spec.deadline.duration();
        let tool = ToolCommand { command, folder: &source, environment, deadline };
        let exit =
            tool.run(&log, self.supervision, self.on_line).map_err(|e| format!("build: {e}"))?;
        for folder in [&source, &temporary] {
            let _ = folder::remove(folder);
        }
        let failure = |problem: String| {
            Err(format!("`{}` {problem}:\n{}", one_line_command(command), log.tail(30)))
        };
        match exit {
            ToolExit::Ended { status, wall_ns, cpu_ns } if status.success() => Ok(Receipt {
                wall_ns,
                cpu_ns,
                artefact: Artefact::read(&out).map_err(io)?,
                environment: environment.to_record(),
            }),
            ToolExit::Ended { status, .. } => failure(format!("ended with {status}")),
            ToolExit::Interrupted => Err(INTERRUPTED.into()),
            ToolExit::TimedOut | ToolExit::TooMuchOutput => failure(format!(
                "had not ended after {} (`deadline` in `[build]` sets this limit)",
                tool::duration_text(deadline)
            )),
        }
    }

    /// Reads each input once, adds it to the key, and calls `on_input` with it.
    fn visit_inputs(
        &mut self,
        mut key: InputsHash,
        mut on_input: impl FnMut(&FolderEntry, &[u8]) -> io::Result<()>,
    ) -> Result<InputKey, String> {
        for (name, input) in inputs(self.definition, self.spec).map_err(|e| unreadable(&e))? {
            key.add(name.as_os_str().as_encoded_bytes());
            let bytes = match input.kind {
                // The build may need an empty folder.
                EntryKind::Folder => {
                    key.add(b"/");
                    Vec::new()
                }
                EntryKind::File { mode } => {
                    key.add(if mode & 0o111 == 0 { b"-" } else { b"x" });
                    (self.read)(&input).map_err(|e| unreadable(&e))?
                }
            };
            key.add(&bytes);
            on_input(&input, &bytes).map_err(|e| unreadable(&e))?;
        }
        Ok(key.into_key())
    }
}

/// The folder of the build with one key.
struct BuildFolder(PathBuf);

impl BuildFolder {
    fn out(&self) -> PathBuf {
        self.0.join("out")
    }

    fn source(&self) -> PathBuf {
        self.0.join("source")
    }

    fn temporary(&self) -> PathBuf {
        self.0.join("tmp")
    }

    fn receipt(&self) -> PathBuf {
        self.0.join("receipt.json")
    }

    /// Opens the file that processes lock while they use the artefacts.
    fn lock_file(&self) -> io::Result<fs::File> {
        let path = self.0.join("in_use");
        match open_lock_file(&path) {
            // Another user made the build. A lock needs no right to write.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)
            }
            result => result,
        }
    }

    /// Returns a lock that prevents other processes from replacing the artefacts. An error is no
    /// reason to refuse the build: file systems without locks exist.
    fn lock_for_use(&self) -> io::Result<fs::File> {
        let file = self.lock_file()?;
        file.lock_shared()?;
        Ok(file)
    }

    /// Refuses the removal of a folder whose artefacts are in use.
    fn check_unused(&self) -> Result<(), String> {
        match self.lock_file().map(|file| file.try_lock()) {
            Ok(Err(TryLockError::WouldBlock)) => Err(format!(
                "{}: the artefacts must be built again, but this or another dyno process uses \
                 them\nhint: wait until that process ends, or use another folder for builds \
                 (`--cache`)",
                self.0.display()
            )),
            // A folder that cannot be locked is treated as unused.
            Ok(Ok(()) | Err(TryLockError::Error(_))) | Err(_) => Ok(()),
        }
    }

    /// Creates the folder, after an earlier folder of the same path is removed.
    ///
    /// # Errors
    /// Another process uses the artefacts of the earlier folder.
    fn create(&self) -> Result<(), String> {
        let removal = if self.0.exists() {
            self.check_unused()?;
            folder::remove(&self.0)
        } else {
            Ok(())
        };
        let folders = [self.out(), self.source(), self.temporary()];
        removal
            .and_then(|()| folders.iter().try_for_each(fs::create_dir_all))
            .map_err(|e| self.error(&e))
    }

    fn write_receipt(&self, receipt: &Receipt) -> Result<(), String> {
        let text = serde_json::to_string(receipt).expect("numbers and text only");
        folder::write_whole(&self.receipt(), text.as_bytes(), ExistingFile::Replace)
            .map_err(|e| self.error(&e))
    }

    fn error(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.0.display())
    }
}

impl Receipt {
    /// Returns the build, with its record for the archive, and marks its folder as used.
    fn into_built(self, folder: &BuildFolder, inputs: InputKey, cached: bool) -> Built {
        let build = Build {
            wall_ns: self.wall_ns,
            cpu_ns: Some(self.cpu_ns),
            artefact_bytes: self.artefact.bytes(),
            artefact: self.artefact.hash(),
            cached,
            inputs: inputs.all,
            portable_inputs: inputs.portable,
            environment: self.environment,
        };
        Built {
            out: folder.out(),
            build: Some(build),
            artefact: Some(self.artefact),
            _in_use: folder.lock_for_use().ok().map(Arc::new),
        }
    }
}

fn read_receipt(path: &Path) -> Option<Receipt> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// Returns the placeholders whose values are known before a subject is started.
#[must_use]
pub fn placeholders(definition: &Definition, out: &Path) -> Placeholders {
    Placeholders(vec![
        ("out".into(), out.display().to_string()),
        ("dir".into(), definition.folder.display().to_string()),
        ("dyno".into(), dyno_launch::own_program().display().to_string()),
    ])
}

/// Returns the command that tests a requirement. The command has no `{out}`, because it runs before
/// the build.
pub(crate) fn requirement_test(
    definition: &Definition,
    require: &Require,
) -> Result<String, String> {
    placeholders(definition, Path::new("")).fill_command(&require.test)
}

/// Returns the version of the server: the first line that the version command prints.
#[must_use]
pub fn version(
    definition: &Definition,
    out: &Path,
    supervision: &Supervision<'_>,
) -> Option<String> {
    let spec = definition.version.as_ref()?;
    let command = placeholders(definition, out).fill_command(&spec.command).ok()?;
    match definition.query_tool(&command, spec.deadline, supervision) {
        ToolOutput::Ended { output, .. } => first_line(&output).map(String::from),
        ToolOutput::Unfinished(_) => None,
    }
}

fn first_line(output: &str) -> Option<&str> {
    output.lines().next().map(str::trim).filter(|line| !line.is_empty())
}

/// Returns the key of a subject's build, a hash of everything that can change its artefact. These
/// are the build procedure, the machine's architecture, the command, its environment and the
/// versions of the tools. Of the inputs, names, contents and executable bits are hashed.
///
/// # Errors
/// An input cannot be read or is refused, or a tool does not report its version; message for the
/// user.
pub fn input_key(
    definition: &Definition,
    spec: &BuildSpec,
    supervision: &Supervision<'_>,
) -> Result<InputKey, String> {
    let key = key_without_inputs(definition, spec, supervision)?;
    Recipe { definition, spec, supervision, read: &mut read_input, on_line: &mut |_| {} }.key(key)
}

/// Returns the part of the key that does not depend on the inputs.
fn key_without_inputs(
    definition: &Definition,
    spec: &BuildSpec,
    supervision: &Supervision<'_>,
) -> Result<InputsHash, String> {
    let mut key = InputsHash::default();
    key.add(CACHE_VERSION.as_bytes());
    key.add(std::env::consts::ARCH.as_bytes());
    key.add(spec.command.as_bytes());
    // The path of temporary files is not part of the key.
    let environment = spec.environment(Path::new("/"), &Placeholders::default());
    for (name, value) in &environment.key_variables() {
        let add = match environment.is_portable(name) {
            true => InputsHash::add,
            false => InputsHash::add_local,
        };
        [name, value].into_iter().for_each(|part| add(&mut key, part.as_bytes()));
    }
    // Inherited secrets are excluded. Variables that the definition sets affect the key even if
    // their values may be secret.
    for (name, value) in &spec.env {
        let add = match is_recorded(name, value) {
            true => InputsHash::add,
            false => InputsHash::add_local,
        };
        [name, value].into_iter().for_each(|part| add(&mut key, part.as_bytes()));
    }
    if uses_own_folder(spec) {
        // The build may use files of the folder that are not in `inputs`.
        let contents = definition.folder_hash().map_err(|error| unreadable(&error))?;
        key.add(contents.as_bytes());
        key.add_local(definition.folder.as_os_str().as_encoded_bytes());
    }
    if environment.mentions("native") || spec.command.contains("native") {
        // An artefact for this CPU model must not be used on another.
        key.add(dyno_observer::facts::cpu_model().unwrap_or_default().as_bytes());
    }
    // The commands that report the versions of the tools, each with its deadline.
    let mut version_commands = Vec::new();
    // The artefact cannot report a version before the build.
    if let Some(version) = definition.version.as_ref().filter(|v| !v.command.contains("{out}")) {
        let command = placeholders(definition, Path::new("")).fill_command(&version.command)?;
        version_commands.push((command, version.deadline));
    }
    for require in &definition.requires {
        version_commands.push((requirement_test(definition, require)?, require.deadline));
    }
    for (command, deadline) in version_commands {
        match definition.query_tool(&command, deadline, supervision) {
            ToolOutput::Ended { output, .. } => {
                key.add(first_line(&output).unwrap_or_default().as_bytes());
            }
            ToolOutput::Unfinished(reason) => return Err(format!("`{command}` {reason}")),
        }
    }
    Ok(key)
}

/// Returns the first line of a build's command, with `…` if more follow. An error message needs no
/// further lines, because it also has the build's output.
fn one_line_command(command: &str) -> String {
    let mut lines = command.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    if lines.next().is_some() { format!("{first} …") } else { first.into() }
}

fn unreadable(error: &io::Error) -> String {
    format!("the build inputs cannot be read: {error}")
}

/// Returns the inputs of a build by relative path, each once.
fn inputs(definition: &Definition, spec: &BuildSpec) -> io::Result<BTreeMap<PathBuf, FolderEntry>> {
    let mut entries = BTreeMap::new();
    // The file of the definition is excluded, because its settings that affect a build are already
    // in the key.
    let is_definition =
        |entry: &FolderEntry| entry.relative_path == Path::new(definition.role.file());
    for input in &spec.inputs {
        let files = paths::walk(&definition.folder, input)?;
        let files = files.into_iter().filter(|entry| !is_definition(entry));
        entries.extend(files.map(|entry| (entry.relative_path.clone(), entry)));
    }
    Ok(entries)
}

fn read_input(input: &FolderEntry) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file =
        fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(&input.path)?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes an input to its path in the folder `source`. Never overwrites a file.
fn write_input(input: &FolderEntry, bytes: &[u8], source: &Path) -> io::Result<()> {
    let path = source.join(&input.relative_path);
    let EntryKind::File { mode } = input.kind else { return fs::create_dir_all(path) };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    folder::create(&path, fs::OpenOptions::new().write(true), mode & 0o777 | 0o600)?
        .write_all(bytes)
}

/// Opens a file that processes lock, and creates it if it does not exist.
fn open_lock_file(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    // NFS locks only files that are open for reading and writing.
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Locks the builds of a subject, and waits while another dyno has the lock.
fn lock(folder: &Path, supervision: &Supervision<'_>) -> Result<fs::File, String> {
    let path = folder.join("lock");
    let lock_error = |e: io::Error| format!("{}: cannot lock the build cache: {e}", path.display());
    fs::create_dir_all(folder).map_err(lock_error)?;
    let file = open_lock_file(&path).map_err(lock_error)?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if supervision.interrupts.count() > 0 => {
                return Err(INTERRUPTED.into());
            }
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_POLL),
            Err(TryLockError::Error(error)) => return Err(lock_error(error)),
        }
    }
}

#[cfg(test)]
mod tests;
