//! A run on disk: `run.json`, `starts/NNN.json`, `trials/NNNN.json`.
//! docs/reference/archive-format.md describes the layout.
//!
//! Every file is written under a temporary name in the same folder and then renamed, so that a
//! crash leaves whole files or none.

#![allow(clippy::disallowed_methods)] // The one place of this crate that touches files.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::profile::ProfileRecord;
pub use crate::run::{Run, RunHeader, SCHEMA};
use crate::search::SearchRecord;
use crate::{Plan, StartRecord, TrialRecord, check, upgrade};

/// The number in [`SCHEMA`].
const VERSION: u32 = 7;

/// Returns the version of a format; `None`: it is no format of dyno's, or of a later version. Older
/// ones are upgraded when they are read (see [`crate::upgrade`]).
fn version(schema: &str) -> Option<u32> {
    let version = schema.strip_prefix("dyno.run/")?.parse().ok()?;
    (1..=VERSION).contains(&version).then_some(version)
}

/// The folder of profiles.
const PROFILES: &str = "profiles";

/// The folder of searches.
const SEARCHES: &str = "searches";

/// Folder of the first measurements of trials that were re-run.
const CONTAMINATED: &str = "contaminated";

/// Why a run cannot be read or written.
#[derive(Debug, Error)]
pub enum ArchiveError {
    #[error("{path}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path}: cannot be written")]
    Write { path: PathBuf, source: io::Error },
    #[error("{path}: cannot be read as a file of a run")]
    Format { path: PathBuf, source: serde_json::Error },
    #[error("{path}: {what}")]
    Contents { path: PathBuf, what: String },
    #[error("{path}: in use by another dyno process\nhint: wait until that process has ended")]
    Busy { path: PathBuf },
    #[error(
        "{path}: has the format {found:?}, and this version of dyno reads {SCHEMA:?} and older \
         ones\nhint: use the version of dyno that wrote it"
    )]
    Version { path: PathBuf, found: String },
}

/// The folder of one run.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
    /// Held as long as this process goes on with the run.
    lock: Option<Arc<fs::File>>,
}

impl RunDir {
    /// Makes the folder and writes its header.
    pub fn create(path: impl Into<PathBuf>, header: &RunHeader) -> Result<RunDir, ArchiveError> {
        let dir = RunDir { path: path.into(), lock: None };
        for folder in ["starts", "trials", PROFILES] {
            let folder = dir.path.join(folder);
            fs::create_dir_all(&folder)
                .map_err(|source| ArchiveError::Write { path: folder, source })?;
        }
        dir.write("run.json", header)?;
        Ok(dir)
    }

    /// Makes a folder for a run among others, named by its id. If two of one name begin in the same
    /// second, the later one gets a number. Existing folders are never modified.
    pub fn create_among(runs: &Path, mut header: RunHeader) -> Result<RunDir, ArchiveError> {
        let failed = |path: &Path, source| ArchiveError::Write { path: path.into(), source };
        fs::create_dir_all(runs).map_err(|source| failed(runs, source))?;
        let name = header.id.clone();
        for n in 2.. {
            let path = runs.join(&header.id);
            match fs::create_dir(&path) {
                Ok(()) => {
                    // A folder without a header is no run.
                    return RunDir::create(&path, &header)
                        .inspect_err(|_| drop(fs::remove_dir_all(&path)));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    header.id = format!("{name}-{n}");
                }
                Err(source) => return Err(failed(&path, source)),
            }
        }
        unreachable!("a number is free")
    }

    /// Opens the folder of an earlier run.
    pub fn open(path: impl Into<PathBuf>) -> Result<RunDir, ArchiveError> {
        let path = path.into();
        if path.is_file() {
            let what =
                "is a file, and a run is a folder\nhint: name the folder that holds this file"
                    .into();
            return Err(ArchiveError::Contents { path, what });
        }
        let dir = RunDir { path, lock: None };
        dir.header()?;
        Ok(dir)
    }

    /// The same, for this process alone to go on with: two would give the same numbers to different
    /// starts.
    ///
    /// # Errors
    /// Another process goes on with it.
    pub fn lock(mut self) -> Result<RunDir, ArchiveError> {
        let failed = |source| ArchiveError::Io { path: self.path.clone(), source };
        let folder = fs::File::open(&self.path).map_err(failed)?;
        match folder.try_lock() {
            Ok(()) => self.lock = Some(Arc::new(folder)),
            Err(fs::TryLockError::WouldBlock) => {
                return Err(ArchiveError::Busy { path: self.path });
            }
            Err(fs::TryLockError::Error(source)) => {
                return Err(ArchiveError::Io { path: self.path, source });
            }
        }
        Ok(self)
    }

    /// Writes the run's header anew.
    pub fn write_header(&self, header: &RunHeader) -> Result<(), ArchiveError> {
        self.write("run.json", header)
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write_start(&self, start: &StartRecord) -> Result<(), ArchiveError> {
        self.write(&format!("starts/{:03}.json", start.start), start)
    }

    pub fn write_trial(&self, trial: &TrialRecord) -> Result<(), ArchiveError> {
        self.write(&format!("trials/{:04}.json", trial.trial), trial)
    }

    /// Writes the first measurement of a trial that is re-run.
    pub fn write_contaminated(&self, trial: &TrialRecord) -> Result<(), ArchiveError> {
        self.make(CONTAMINATED)?;
        self.write(&format!("{CONTAMINATED}/{:04}.json", trial.trial), trial)
    }

    pub fn write_profile(&self, profile: &ProfileRecord) -> Result<(), ArchiveError> {
        self.write(&format!("{PROFILES}/{:04}.json", profile.trial), profile)
    }

    pub fn write_search(&self, search: &SearchRecord) -> Result<(), ArchiveError> {
        self.make(SEARCHES)?;
        self.write(&format!("{SEARCHES}/{:04}.json", search.trial), search)
    }

    /// Makes a folder that only some runs have.
    fn make(&self, folder: &str) -> Result<(), ArchiveError> {
        let path = self.path.join(folder);
        fs::create_dir_all(&path).map_err(|source| ArchiveError::Write { path, source })
    }

    pub fn header(&self) -> Result<RunHeader, ArchiveError> {
        let path = self.path.join("run.json");
        let value: Value = parse(&path, &read_bytes(&path)?)?;
        // The version first: a header of another version may not parse as ours at all.
        let Schema { schema } = of_value(&path, value.clone())?;
        if version(&schema).is_none() {
            return Err(ArchiveError::Version { path, found: schema });
        }
        let header = of_value(&path, upgrade::header(value))?;
        check_contents(&path, check::header(&header))?;
        Ok(header)
    }

    /// Returns one start, by its number.
    pub fn read_start(&self, start: usize) -> Result<StartRecord, ArchiveError> {
        let plan = self.header()?.plan;
        read_start(&plan, &self.path.join(format!("starts/{start:03}.json")))
    }

    /// Reads the whole run. The result is consistent: every index is valid, and no sum of counts
    /// overflows (see `check`).
    pub fn read(&self) -> Result<Run, ArchiveError> {
        let header = self.header()?;
        let starts: Vec<StartRecord> = self
            .files("starts")?
            .iter()
            .map(|path| read_start(&header.plan, path))
            .collect::<Result<_, _>>()?;
        let twice = check::no_two_alike("starts", starts.iter().map(|s| s.start));
        check_contents(&self.path.join("starts"), twice)?;
        let trials = self.trials("trials", &header, &starts)?;
        // Archives without re-run trials have no such folder.
        let has_again = self.path.join(CONTAMINATED).exists();
        let contaminated =
            if has_again { self.trials(CONTAMINATED, &header, &starts)? } else { Vec::new() };
        let planned = header.plan.trials.len();
        let profiles = self
            .of_trials(PROFILES, |p: &ProfileRecord| p.trial, &|_, p| check::profile(planned, p))?;
        let searches = self.of_trials(SEARCHES, |s: &SearchRecord| s.trial, &|value, s| {
            check::numbers(value).and_then(|()| check::search(planned, s))
        })?;
        let mut run = Run { header, starts, trials, contaminated, profiles, searches };
        run.starts.sort_by_key(|s| s.start);
        Ok(run)
    }

    /// Returns the trials that were queued for a re-run: the index of each, and when its load
    /// began, nanoseconds of the monotonic clock. It is called during a run, so that it reads no
    /// other files.
    pub fn queued_reruns(&self) -> Result<Vec<(usize, u64)>, ArchiveError> {
        #[derive(Deserialize)]
        struct Trial {
            trial: usize,
            load: Began,
        }
        #[derive(Deserialize)]
        struct Began {
            began_ns: u64,
        }
        if !self.path.join(CONTAMINATED).exists() {
            return Ok(Vec::new());
        }
        let read = |path: &PathBuf| {
            let Trial { trial, load } = parse(path, &read_bytes(path)?)?;
            Ok((trial, load.began_ns))
        };
        self.files(CONTAMINATED)?.iter().map(read).collect()
    }

    /// Returns the trials in a folder, by index in the plan.
    fn trials(
        &self,
        folder: &str,
        header: &RunHeader,
        starts: &[StartRecord],
    ) -> Result<Vec<TrialRecord>, ArchiveError> {
        let read = |path: &PathBuf| read_trial(header, starts, path);
        let mut all: Vec<TrialRecord> =
            self.files(folder)?.iter().map(read).collect::<Result<_, _>>()?;
        let twice = check::no_two_alike("trials", all.iter().map(|t| t.trial));
        check_contents(&self.path.join(folder), twice)?;
        check_contents(&self.path.join(folder), check::plan_check::check_together(&all))?;
        all.sort_by_key(|t| t.trial);
        Ok(all)
    }

    /// Reads the files of a folder next to `trials`, by trial index. Archives of runs without such
    /// files have no such folder.
    fn of_trials<T: DeserializeOwned>(
        &self,
        folder: &str,
        trial: fn(&T) -> usize,
        check: &dyn Fn(&Value, &T) -> check::FileCheck,
    ) -> Result<Vec<T>, ArchiveError> {
        if !self.path.join(folder).exists() {
            return Ok(Vec::new());
        }
        let read = |path: &PathBuf| {
            let value: Value = parse(path, &read_bytes(path)?)?;
            let record: T = of_value(path, value.clone())?;
            check_contents(path, check(&value, &record))?;
            Ok(record)
        };
        let mut all: Vec<T> = self.files(folder)?.iter().map(read).collect::<Result<_, _>>()?;
        check_contents(
            &self.path.join(folder),
            check::no_two_alike(folder, all.iter().map(trial)),
        )?;
        all.sort_by_key(trial);
        Ok(all)
    }

    /// Writes any file of the run's folder, whole or not at all.
    pub fn write_bytes(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, ArchiveError> {
        let path = self.path.join(name);
        let write = || {
            let folder = path.parent().unwrap_or(&self.path);
            // A folder from another user may hold links; dyno never writes through one.
            if folder != self.path && fs::symlink_metadata(folder)?.is_symlink() {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "its folder is a symbolic link, through which dyno does not write",
                ));
            }
            write_whole(&path, bytes)
        };
        write().map_err(|source| ArchiveError::Write { path: path.clone(), source })?;
        Ok(path)
    }

    fn write(&self, name: &str, value: &impl Serialize) -> Result<(), ArchiveError> {
        let bytes = serde_json::to_vec(value)
            .map_err(|source| ArchiveError::Format { path: self.path.join(name), source })?;
        self.write_bytes(name, &bytes).map(drop)
    }

    /// Returns the records in a folder, by name.
    fn files(&self, folder: &str) -> Result<Vec<PathBuf>, ArchiveError> {
        let folder = self.path.join(folder);
        let failed = |source| ArchiveError::Io { path: folder.clone(), source };
        let mut all = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|e| e == "json") {
                all.push(path);
            }
        }
        all.sort();
        Ok(all)
    }
}

/// Writes a file completely or not at all: an error leaves the previous file. Its permissions are
/// those of the umask.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A new file under an unpredictable name; the rename replaces a link of the final name.
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let mut file =
        tempfile::Builder::new().prefix(".dyno").permissions(permissions).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_data()?;
    file.persist(path).map_err(io::Error::from).map(drop)
}

/// The key of a header that says how to read the others.
#[derive(Deserialize)]
struct Schema {
    schema: String,
}

fn read_start(plan: &Plan, path: &Path) -> Result<StartRecord, ArchiveError> {
    let start = of_value(path, upgrade::start(parse(path, &read_bytes(path)?)?))?;
    check_contents(path, check::start(plan, &start))?;
    Ok(start)
}

fn read_trial(
    header: &RunHeader,
    starts: &[StartRecord],
    path: &Path,
) -> Result<TrialRecord, ArchiveError> {
    let value: Value = parse(path, &read_bytes(path)?)?;
    check_contents(path, check::numbers(&value))?;
    let version = version(&header.schema).unwrap_or(VERSION);
    let trial = of_value(path, upgrade::trial(version, value))?;
    check_contents(path, check::trial(header, starts, version, &trial))?;
    Ok(trial)
}

fn check_contents(path: &Path, checked: check::FileCheck) -> Result<(), ArchiveError> {
    checked.map_err(|what| ArchiveError::Contents {
        path: path.into(),
        what: format!(
            "inconsistent contents: {what}\nhint: use another copy of the run, because this one \
             is damaged or mixes files of two runs"
        ),
    })
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, ArchiveError> {
    let failed = |source| ArchiveError::Io { path: path.into(), source };
    // A pipe or a device in an archive that was passed on would be waited for, or never end.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(ArchiveError::Contents {
            path: path.into(),
            what: "not a regular file".into(),
        });
    }
    fs::read(path).map_err(failed)
}

fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, ArchiveError> {
    serde_json::from_slice(bytes)
        .map_err(|source| ArchiveError::Format { path: path.into(), source })
}

fn of_value<T: DeserializeOwned>(path: &Path, value: Value) -> Result<T, ArchiveError> {
    serde_json::from_value(value)
        .map_err(|source| ArchiveError::Format { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_through_a_link() {
        let place = tempfile::tempdir().unwrap();
        let (victim, run) = (place.path().join("victim"), place.path().join("run"));
        fs::write(&victim, "precious").unwrap();
        fs::create_dir(&run).unwrap();
        let link = |name: &str, to: &Path| std::os::unix::fs::symlink(to, run.join(name)).unwrap();
        for name in ["report.json", "report.tmp"] {
            link(name, &victim);
        }
        let elsewhere = place.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        link("trials", &elsewhere);
        let dir = RunDir { path: run.clone(), lock: None };
        dir.write_bytes("report.json", b"{}").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert!(!fs::symlink_metadata(run.join("report.json")).unwrap().is_symlink());
        assert!(dir.write_bytes("trials/0000.json", b"{}").is_err());
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }

    #[test]
    fn runs_of_one_name_have_folders_of_their_own() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hello/run");
        let header =
            RunHeader { id: "load-1".into(), ..RunDir::open(golden).unwrap().header().unwrap() };
        let place = tempfile::tempdir().unwrap();
        let runs = place.path().join("not/there/yet");
        let id_of = |dir: &RunDir| dir.header().unwrap().id;
        let first = RunDir::create_among(&runs, header.clone()).unwrap();
        let second = RunDir::create_among(&runs, header.clone()).unwrap();
        assert_eq!((id_of(&first), id_of(&second)), ("load-1".into(), "load-1-2".into()));
        assert_eq!((first.path(), second.path()), (&*runs.join("load-1"), &*runs.join("load-1-2")));
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(RunDir::create_among(&file, header), Err(ArchiveError::Write { .. })));
    }

    #[test]
    fn one_process_alone_goes_on_with_a_run() {
        let place = tempfile::tempdir().unwrap();
        let dir = || RunDir { path: place.path().into(), lock: None };
        let first = dir().lock().unwrap();
        assert!(matches!(dir().lock(), Err(ArchiveError::Busy { .. })));
        drop(first);
        assert!(dir().lock().is_ok());
    }

    #[test]
    fn formats_of_before_are_known_and_those_to_come_are_not() {
        assert_eq!(version(SCHEMA), Some(VERSION));
        assert_eq!(version("dyno.run/1"), Some(1));
        for other in ["dyno.run/0", "dyno.run/9", "dyno.run/", "dyno.load/1", ""] {
            assert_eq!(version(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        assert!(matches!(read_bytes(Path::new("/dev/zero")), Err(ArchiveError::Contents { .. })));
    }
}
