//! Builds: each once per content of its inputs, kept in a cache that all runs share.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use dyno_archive::plan::Build;
use dyno_observer::monotonic_ns;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::launch::guard::Guard;
use crate::launch::process;
use crate::launch::sys::{self, ChildSetup};
use crate::run::Interrupts;
use crate::subject::{BuildSpec, Definition, Placeholders};

/// Raised when the way of building changes, so that old artefacts are not taken for new ones.
const CACHE_VERSION: &str = "1";

/// A subject that can be started.
#[derive(Clone, Debug)]
pub struct Built {
    /// Where the artefacts are; empty for subjects without a build.
    pub out: PathBuf,
    pub build: Option<Build>,
}

/// Who looks after a build while it runs: the guard ends it if we die, the user may end it.
#[derive(Clone, Copy, Debug)]
pub struct Care<'a> {
    pub guard: &'a Guard,
    pub interrupts: &'a Interrupts,
}

/// Why a build that the user ended has no result.
pub const INTERRUPTED: &str = "the user ended the build";

impl Care<'_> {
    /// Waits for the end of a build; `None`: the user wants it to end, and it has been ended.
    fn wait(&self, child: &Child) -> io::Result<Option<(ExitStatus, u64)>> {
        self.guard.watch_session(child.id());
        let result = loop {
            if let Some(ended) = sys::try_wait_with_cpu(child)? {
                break Some(ended);
            }
            if self.interrupts.count() > 0 {
                process::end_session(child.id());
                let _ = sys::try_wait_with_cpu(child);
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        self.guard.forget_session(child.id());
        Ok(result)
    }
}

/// What was measured when an artefact was made. Kept beside it.
#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    wall_ns: u64,
    cpu_ns: u64,
    artefact_bytes: u64,
}

/// Builds a subject, or finds it built.
///
/// # Errors
/// A sentence with the end of the build's output.
pub fn build(definition: &Definition, cache: &Path, care: &Care<'_>) -> Result<Built, String> {
    let Some(spec) = &definition.build else {
        let out = cache.join("none");
        fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
        return Ok(Built { out, build: None });
    };
    let inputs =
        hash_inputs(definition, spec).map_err(|e| format!("the inputs of the build cannot be read: {e}"))?;
    let place = cache.join(&definition.name).join(&inputs[..16]);
    let out = place.join("out");
    let receipt_path = place.join("receipt.json");
    let _lock =
        lock(&cache.join(&definition.name)).map_err(|e| format!("the build cache cannot be locked: {e}"))?;
    if let Some(receipt) = read_receipt(&receipt_path) {
        return Ok(Built { out, build: Some(receipt.into_build(inputs, true)) });
    }
    let receipt = build_fresh(definition, spec, &place, &out, care)?;
    let text = serde_json::to_string(&receipt).expect("numbers only");
    fs::write(&receipt_path, text).map_err(|e| format!("{}: {e}", receipt_path.display()))?;
    Ok(Built { out, build: Some(receipt.into_build(inputs, false)) })
}

impl Receipt {
    fn into_build(self, inputs: String, cached: bool) -> Build {
        Build {
            wall_ns: self.wall_ns,
            cpu_ns: Some(self.cpu_ns),
            artefact_bytes: self.artefact_bytes,
            cached,
            inputs,
        }
    }
}

fn read_receipt(path: &Path) -> Option<Receipt> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

fn build_fresh(
    definition: &Definition,
    spec: &BuildSpec,
    place: &Path,
    out: &Path,
    care: &Care<'_>,
) -> Result<Receipt, String> {
    let io = |e: io::Error| format!("{}: {e}", place.display());
    if place.exists() {
        fs::remove_dir_all(place).map_err(io)?;
    }
    let source = place.join("source");
    fs::create_dir_all(out).map_err(io)?;
    fs::create_dir_all(&source).map_err(io)?;
    for input in &spec.inputs {
        copy(&definition.folder.join(input), &source.join(input)).map_err(|e| format!("{input}: {e}"))?;
    }
    let log_path = place.join("build.log");
    let log = fs::File::create(&log_path).map_err(io)?;
    let command = placeholders(definition, out).fill(&spec.command);
    let mut shell = Command::new("sh");
    shell.args(["-c", &command]).current_dir(&source).stdin(Stdio::null());
    shell.stdout(log.try_clone().map_err(io)?).stderr(log);
    let (child, began) = sys::spawn(&mut shell, ChildSetup::default()).map_err(|e| format!("sh: {e}"))?;
    let (status, cpu_ns) = care.wait(&child).map_err(io)?.ok_or(INTERRUPTED)?;
    // The build command has ended: its time is from its exec.
    let wall_ns = monotonic_ns() - began;
    let _ = fs::remove_dir_all(&source);
    if !status.success() {
        let tail = tail(&log_path, 30);
        return Err(format!("`{command}` ended with {status}:\n{tail}"));
    }
    Ok(Receipt { wall_ns, cpu_ns, artefact_bytes: size_of(out).map_err(io)? })
}

pub(crate) fn placeholders(definition: &Definition, out: &Path) -> Placeholders {
    Placeholders(vec![
        ("out", out.display().to_string()),
        ("dir", definition.folder.display().to_string()),
        ("dyno", crate::own_program().display().to_string()),
    ])
}

/// The version of what will run: the first line that its command prints.
#[must_use]
pub fn version(definition: &Definition, out: &Path) -> Option<String> {
    let command = placeholders(definition, out).fill(definition.version.as_ref()?);
    first_line(&command, &definition.folder)
}

fn first_line(command: &str, folder: &Path) -> Option<String> {
    let output =
        Command::new("sh").args(["-c", command]).current_dir(folder).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().next()?.trim().to_string()).filter(|line| !line.is_empty())
}

/// Hash of everything that can change what is built: the command, the inputs, and the version of the tools.
fn hash_inputs(definition: &Definition, spec: &BuildSpec) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        // Lengths first, so that no two lists of parts run together.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    add(CACHE_VERSION.as_bytes());
    add(spec.command.as_bytes());
    let tools = definition.version.as_deref().filter(|command| !command.contains("{out}"));
    add(tools.and_then(|command| first_line(command, &definition.folder)).unwrap_or_default().as_bytes());
    for require in &definition.requires {
        add(first_line(&require.test, &definition.folder).unwrap_or_default().as_bytes());
    }
    for input in &spec.inputs {
        for file in files_below(&definition.folder.join(input))? {
            add(file.strip_prefix(&definition.folder).unwrap_or(&file).as_os_str().as_encoded_bytes());
            add(&fs::read(&file)?);
        }
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

/// All files of a folder, or the file itself, in a fixed order.
fn files_below(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut entries: Vec<PathBuf> =
        fs::read_dir(path)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        files.extend(files_below(&entry)?);
    }
    Ok(files)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::copy(from, to).map(drop)
}

fn size_of(path: &Path) -> io::Result<u64> {
    files_below(path)?.iter().map(|f| Ok(fs::metadata(f)?.len())).sum()
}

fn lock(folder: &Path) -> io::Result<fs::File> {
    fs::create_dir_all(folder)?;
    let file = fs::File::create(folder.join("lock"))?;
    file.lock()?;
    Ok(file)
}

/// The last lines of a file.
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(root: &Path, command: &str) -> Definition {
        let folder = root.join("x");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("in.txt"), "1").unwrap();
        let source = format!(
            "name = \"x\"\ntitle = \"X\"\nlanguage = \"C\"\nprotocols = [\"h1\"]\n[build]\ncommand = '''{command}'''\ninputs = [\"in.txt\"]\n[start]\ncommand = [\"x\"]\n"
        );
        fs::write(folder.join("subject.toml"), source).unwrap();
        Definition::read(&folder).unwrap()
    }

    fn build(definition: &Definition, cache: &Path) -> Result<Built, String> {
        // The guard of a test is this test program, which ends at once with the unknown argument.
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        super::build(definition, cache, &Care { guard: &guard, interrupts: &interrupts })
    }

    #[test]
    fn a_build_is_done_once_per_content() {
        let root = tempfile::tempdir().unwrap();
        let cache = root.path().join("cache");
        let definition = subject(root.path(), "cp in.txt {out}/result; date +%N >> {out}/stamp");
        let first = build(&definition, &cache).unwrap();
        assert_eq!(fs::read_to_string(first.out.join("result")).unwrap(), "1");
        let facts = first.build.unwrap();
        assert!(!facts.cached && facts.wall_ns > 0 && facts.artefact_bytes > 1);
        assert!(build(&definition, &cache).unwrap().build.unwrap().cached);
        fs::write(definition.folder.join("in.txt"), "2").unwrap();
        let changed = build(&definition, &cache).unwrap();
        assert!(!changed.build.unwrap().cached);
        assert_eq!(fs::read_to_string(changed.out.join("result")).unwrap(), "2");
    }

    #[test]
    fn a_failed_build_shows_its_output_and_is_not_kept() {
        let root = tempfile::tempdir().unwrap();
        let cache = root.path().join("cache");
        let definition = subject(root.path(), "echo no such luck; exit 3");
        for _ in 0..2 {
            let error = build(&definition, &cache).unwrap_err();
            assert!(error.contains("no such luck") && error.contains("exit status: 3"), "{error}");
        }
    }
}
