//! Reads and writes a run on disk: `run.json`, `starts/NNN.json`, `trials/NNNN.json`.
//! docs/reference/archive-format.md describes the layout.
//!
//! Every file is written under a temporary name in the same folder and then renamed. A crash
//! therefore leaves complete files only.

#![allow(clippy::disallowed_methods)] // The one place of this crate that touches files.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_model::profile::ProfileRecord;
use dyno_model::run::{Run, RunHeader, SCHEMA};
use dyno_model::search::SearchRecord;
use dyno_model::{StartRecord, TrialRecord};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::check;
use crate::header_ids::HeaderIds;
use crate::upgrade::{self, FileKind, upgrade};

/// Folder of profiles.
const PROFILES: &str = "profiles";

/// Folder of searches.
const SEARCHES: &str = "searches";

/// Folder of the disturbed first measurements of trials that were re-run.
const CONTAMINATED: &str = "contaminated";

/// Error of reading or writing a run.
#[derive(Debug, Error)]
pub enum ArchiveError {
    #[error("{path}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path}: cannot be written")]
    Write { path: PathBuf, source: io::Error },
    #[error("{path}: not a valid file of a dyno run")]
    Format { path: PathBuf, source: serde_json::Error },
    #[error("{path}: {problem}")]
    Contents { path: PathBuf, problem: String },
    /// The record was not written, because the archive with it could not be read.
    #[error(
        "{path}: the record of a load contradicts itself and was not stored ({problem})\nhint: \
         report this message, because it shows a bug in dyno"
    )]
    Contradiction { path: PathBuf, problem: String },
    #[error("{path}: in use by another dyno process\nhint: wait until that process has ended")]
    Busy { path: PathBuf },
    #[error(
        "{path}: has the format {found:?}, but this version of dyno reads only \
         {SCHEMA:?}\nhint: use the version of dyno that wrote the run"
    )]
    Version { path: PathBuf, found: String },
}

/// Folder of one run.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
    /// Lock that is held while this process resumes the run.
    lock: Option<Arc<fs::File>>,
}

impl RunDir {
    /// Creates the folder and writes its header.
    pub fn create(path: impl Into<PathBuf>, header: &RunHeader) -> Result<RunDir, ArchiveError> {
        let dir = RunDir { path: path.into(), lock: None };
        for folder in ["starts", "trials", PROFILES] {
            let folder = dir.path.join(folder);
            fs::create_dir_all(&folder)
                .map_err(|source| ArchiveError::Write { path: folder, source })?;
        }
        dir.write_header(header)?;
        Ok(dir)
    }

    /// Creates a folder for a run in `runs`, named by the run's id. If two runs of one name begin
    /// in the same second, the later run gets a number. Existing folders are never modified.
    pub fn create_among(runs: &Path, mut header: RunHeader) -> Result<RunDir, ArchiveError> {
        let failed = |path: &Path, source| ArchiveError::Write { path: path.into(), source };
        fs::create_dir_all(runs).map_err(|source| failed(runs, source))?;
        let name = header.id.clone();
        for n in 2.. {
            let path = runs.join(&header.id);
            match fs::create_dir(&path) {
                Ok(()) => {
                    // A folder without a header is removed, because it is not a run.
                    return RunDir::create(&path, &header)
                        .inspect_err(|_| drop(fs::remove_dir_all(&path)));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    header.id = format!("{name}-{n}");
                }
                Err(source) => return Err(failed(&path, source)),
            }
        }
        unreachable!("the loop ends only with a return")
    }

    /// Opens the folder of an earlier run.
    pub fn open(path: impl Into<PathBuf>) -> Result<RunDir, ArchiveError> {
        let path = path.into();
        if path.is_file() {
            let problem = "is a file, but a run is a folder\nhint: name the folder that contains \
                           this file"
                .into();
            return Err(ArchiveError::Contents { path, problem });
        }
        let dir = RunDir { path, lock: None };
        dir.header()?;
        Ok(dir)
    }

    /// Locks the folder, so that only this process can resume the run. Two processes would give
    /// the same number to different starts.
    ///
    /// # Errors
    /// Another process has locked the folder.
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

    /// Writes the run's header, or replaces it.
    pub fn write_header(&self, header: &RunHeader) -> Result<(), ArchiveError> {
        self.write("run.json", &HeaderFile { header, ids: HeaderIds::new(header) })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write_start(&self, start: &StartRecord) -> Result<(), ArchiveError> {
        self.write(&format!("starts/{:03}.json", start.start), start)
    }

    /// Writes a trial.
    ///
    /// # Errors
    /// Its load contradicts itself ([`ArchiveError::Contradiction`]), or the file cannot be
    /// written.
    pub fn write_trial(&self, trial: &TrialRecord) -> Result<(), ArchiveError> {
        let file = format!("trials/{:04}.json", trial.trial);
        self.refuse_contradiction(&file, check::contradiction(&trial.load))?;
        self.write(&file, trial)
    }

    /// Writes the first measurement of a trial that is re-run. Errors: see [`RunDir::write_trial`].
    pub fn write_contaminated(&self, trial: &TrialRecord) -> Result<(), ArchiveError> {
        let file = format!("{CONTAMINATED}/{:04}.json", trial.trial);
        self.refuse_contradiction(&file, check::contradiction(&trial.load))?;
        self.make_folder(CONTAMINATED)?;
        self.write(&file, trial)
    }

    pub fn write_profile(&self, profile: &ProfileRecord) -> Result<(), ArchiveError> {
        self.write(&format!("{PROFILES}/{:04}.json", profile.trial), profile)
    }

    /// Writes the search that followed a trial. Errors: see [`RunDir::write_trial`].
    pub fn write_search(&self, search: &SearchRecord) -> Result<(), ArchiveError> {
        let file = format!("{SEARCHES}/{:04}.json", search.trial);
        self.refuse_contradiction(&file, check::check_search_loads(search).err())?;
        self.make_folder(SEARCHES)?;
        self.write(&file, search)
    }

    /// Refuses a file with which the whole archive could not be read.
    fn refuse_contradiction(
        &self,
        file: &str,
        contradiction: Option<String>,
    ) -> Result<(), ArchiveError> {
        contradiction.map_or(Ok(()), |problem| {
            Err(ArchiveError::Contradiction { path: self.path.join(file), problem })
        })
    }

    /// Removes the search that followed a trial, and the profile of the trial, if there are any.
    pub fn remove_search_and_profile(&self, trial: usize) -> Result<(), ArchiveError> {
        [SEARCHES, PROFILES].into_iter().try_for_each(|folder| {
            let path = self.path.join(folder).join(format!("{trial:04}.json"));
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    Err(ArchiveError::Write { path, source })
                }
                _ => Ok(()),
            }
        })
    }

    /// Creates a folder that only some runs have.
    fn make_folder(&self, folder: &str) -> Result<(), ArchiveError> {
        let path = self.path.join(folder);
        fs::create_dir_all(&path).map_err(|source| ArchiveError::Write { path, source })
    }

    pub fn header(&self) -> Result<RunHeader, ArchiveError> {
        let path = self.path.join("run.json");
        let value: Value = parse(&path, &read_bytes(&path)?)?;
        // The version is checked first, because a header of another version may not parse.
        let Schema { schema } = from_value(&path, value.clone())?;
        if upgrade::version(&schema).is_none() {
            return Err(ArchiveError::Version { path, found: schema });
        }
        let upgraded = upgrade(&schema, FileKind::Header, value);
        let Ids { ids } = from_value(&path, upgraded.clone())?;
        let header = from_value(&path, upgraded).map_err(|error| header_error(error, &path))?;
        check_contents(&path, check::check_header(&header))?;
        check_contents(&path, check::check_ids(&header, ids.as_ref()))?;
        Ok(header)
    }

    /// Reads a start by its number.
    pub fn read_start(&self, start: usize) -> Result<StartRecord, ArchiveError> {
        let header = self.header()?;
        read_start(&header, &self.path.join(format!("starts/{start:03}.json")))
    }

    /// Reads the whole run. The result is consistent: every index is valid, and no sum of counts
    /// overflows (see `check`).
    pub fn read(&self) -> Result<Run, ArchiveError> {
        let header = self.header()?;
        let starts: Vec<StartRecord> = self
            .files("starts")?
            .iter()
            .map(|path| read_start(&header, path))
            .collect::<Result<_, _>>()?;
        let unique = check::check_unique("starts", starts.iter().map(|s| s.start));
        check_contents(&self.path.join("starts"), unique)?;
        let trials = self.trials("trials", &header, &starts)?;
        // Archives without re-run trials have no such folder.
        let has_reruns = self.path.join(CONTAMINATED).exists();
        let contaminated =
            if has_reruns { self.trials(CONTAMINATED, &header, &starts)? } else { Vec::new() };
        let planned = header.plan.trials.len();
        let schema = &header.schema;
        let profile = |value| upgrade(schema, FileKind::Profile, value);
        let profiles = self.records(PROFILES, &profile, |p: &ProfileRecord| p.trial, &|_, p| {
            check::check_profile(planned, p)
        })?;
        let search = |value| upgrade(schema, FileKind::Search, value);
        let searches =
            self.records(SEARCHES, &search, |s: &SearchRecord| s.trial, &|value, s| {
                check::check_numbers(value).and_then(|()| check::check_search(planned, s))
            })?;
        let mut run = Run { header, starts, trials, contaminated, profiles, searches };
        run.starts.sort_by_key(|s| s.start);
        Ok(run)
    }

    /// Reads the trials in a folder. Returns them by index in the plan.
    fn trials(
        &self,
        folder: &str,
        header: &RunHeader,
        starts: &[StartRecord],
    ) -> Result<Vec<TrialRecord>, ArchiveError> {
        let read = |path: &PathBuf| read_trial(header, starts, path);
        let mut trials: Vec<TrialRecord> =
            self.files(folder)?.iter().map(read).collect::<Result<_, _>>()?;
        let unique = check::check_unique("trials", trials.iter().map(|t| t.trial));
        check_contents(&self.path.join(folder), unique)?;
        check_contents(&self.path.join(folder), check::plan_check::check_together(&trials))?;
        trials.sort_by_key(|t| t.trial);
        Ok(trials)
    }

    /// Reads the files of a folder next to `trials`, by trial index. Archives of runs without such
    /// files have no such folder.
    fn records<T: DeserializeOwned>(
        &self,
        folder: &str,
        upgrade: &dyn Fn(Value) -> Value,
        trial: fn(&T) -> usize,
        check: &dyn Fn(&Value, &T) -> check::FileCheck,
    ) -> Result<Vec<T>, ArchiveError> {
        if !self.path.join(folder).exists() {
            return Ok(Vec::new());
        }
        let read = |path: &PathBuf| {
            let value: Value = parse(path, &read_bytes(path)?)?;
            let record: T = from_value(path, upgrade(value.clone()))?;
            check_contents(path, check(&value, &record))?;
            Ok(record)
        };
        let mut records: Vec<T> = self.files(folder)?.iter().map(read).collect::<Result<_, _>>()?;
        let unique = check::check_unique(folder, records.iter().map(trial));
        check_contents(&self.path.join(folder), unique)?;
        records.sort_by_key(trial);
        Ok(records)
    }

    /// Writes any file of the run's folder, completely or not at all.
    pub fn write_bytes(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, ArchiveError> {
        let path = self.path.join(name);
        let write = || {
            let folder = path.parent().unwrap_or(&self.path);
            // A folder from another user may contain links. dyno never writes through one.
            if folder != self.path && fs::symlink_metadata(folder)?.is_symlink() {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the folder is a symbolic link, and dyno does not write through links",
                ));
            }
            write_atomically(&path, bytes)
        };
        write().map_err(|source| ArchiveError::Write { path: path.clone(), source })?;
        Ok(path)
    }

    fn write(&self, name: &str, value: &impl Serialize) -> Result<(), ArchiveError> {
        let bytes = serde_json::to_vec(value)
            .map_err(|source| ArchiveError::Format { path: self.path.join(name), source })?;
        self.write_bytes(name, &bytes).map(drop)
    }

    /// Returns the paths of the records in a folder, sorted.
    fn files(&self, folder: &str) -> Result<Vec<PathBuf>, ArchiveError> {
        let folder = self.path.join(folder);
        let failed = |source| ArchiveError::Io { path: folder.clone(), source };
        let mut paths = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|e| e == "json") {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }
}

/// Writes a file completely or not at all. After an error the previous file is unchanged. The umask
/// decides on the permissions.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The new file has an unpredictable name. If the final path is a link, the rename replaces it.
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let mut file =
        tempfile::Builder::new().prefix(".dyno").permissions(permissions).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_data()?;
    file.persist(path).map_err(io::Error::from).map(drop)
}

/// Key of a header with the version of the format.
#[derive(Deserialize)]
struct Schema {
    schema: String,
}

/// Key of a header with the ids for other programs.
#[derive(Deserialize)]
struct Ids {
    ids: Option<HeaderIds>,
}

/// A header with the ids for other programs.
#[derive(Serialize)]
struct HeaderFile<'a> {
    #[serde(flatten)]
    header: &'a RunHeader,
    ids: HeaderIds,
}

fn read_start(header: &RunHeader, path: &Path) -> Result<StartRecord, ArchiveError> {
    let value: Value = parse(path, &read_bytes(path)?)?;
    check_contents(path, check::check_numbers(&value))?;
    let start = from_value(path, upgrade(&header.schema, FileKind::Start, value))?;
    check_contents(path, check::check_start(&header.plan, &start))?;
    Ok(start)
}

fn read_trial(
    header: &RunHeader,
    starts: &[StartRecord],
    path: &Path,
) -> Result<TrialRecord, ArchiveError> {
    let value: Value = parse(path, &read_bytes(path)?)?;
    check_contents(path, check::check_numbers(&value))?;
    let trial = from_value(path, upgrade(&header.schema, FileKind::Trial, value))?;
    check_contents(path, check::check_trial(header, starts, &trial))?;
    Ok(trial)
}

/// Adds what to do to the error of a header that does not parse. Before the first release the
/// format changes without a new version, so that such a run may be of an earlier dyno.
fn header_error(error: ArchiveError, path: &Path) -> ArchiveError {
    let ArchiveError::Format { source, .. } = error else { return error };
    let problem = format!(
        "is damaged, or an earlier version of dyno wrote it ({source})\nhint: measure again, or \
         use the version of dyno that wrote the run"
    );
    ArchiveError::Contents { path: path.into(), problem }
}

fn check_contents(path: &Path, checked: check::FileCheck) -> Result<(), ArchiveError> {
    checked.map_err(|problem| ArchiveError::Contents {
        path: path.into(),
        problem: format!(
            "inconsistent contents: {problem}\nhint: use another copy of the run, because this \
             copy is damaged or mixes files of two runs"
        ),
    })
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, ArchiveError> {
    let failed = |source| ArchiveError::Io { path: path.into(), source };
    // An archive from another user may contain a pipe, which would block, or an endless device.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(ArchiveError::Contents {
            path: path.into(),
            problem: "not a regular file".into(),
        });
    }
    fs::read(path).map_err(failed)
}

fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, ArchiveError> {
    serde_json::from_slice(bytes)
        .map_err(|source| ArchiveError::Format { path: path.into(), source })
}

fn from_value<T: DeserializeOwned>(path: &Path, value: Value) -> Result<T, ArchiveError> {
    serde_json::from_value(value)
        .map_err(|source| ArchiveError::Format { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_bytes_does_not_follow_links() {
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
    fn search_and_profile_of_one_trial_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let dir = RunDir { path: place.path().into(), lock: None };
        let file = |folder: &str, trial| dir.path.join(folder).join(format!("{trial:04}.json"));
        dir.remove_search_and_profile(1).unwrap();
        for folder in [SEARCHES, PROFILES] {
            fs::create_dir(dir.path.join(folder)).unwrap();
            for trial in [1, 2] {
                fs::write(file(folder, trial), "{}").unwrap();
            }
        }
        dir.remove_search_and_profile(1).unwrap();
        for folder in [SEARCHES, PROFILES] {
            assert!(!file(folder, 1).exists() && file(folder, 2).exists(), "{folder}");
        }
    }

    #[test]
    fn runs_with_same_id_get_different_folders() {
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
    fn second_lock_of_run_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let dir = || RunDir { path: place.path().into(), lock: None };
        let first = dir().lock().unwrap();
        assert!(matches!(dir().lock(), Err(ArchiveError::Busy { .. })));
        drop(first);
        assert!(dir().lock().is_ok());
    }

    #[test]
    fn device_is_refused_without_reading_it() {
        assert!(matches!(read_bytes(Path::new("/dev/zero")), Err(ArchiveError::Contents { .. })));
    }
}
