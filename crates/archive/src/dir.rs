//! A run on disk: `run.json`, `starts/NNN.json`, `trials/NNNN.json`. docs/archive-format.md tells the layout.
//!
//! Every file is written beside its place and renamed into it, so that a crash leaves whole files or none.

#![allow(clippy::disallowed_methods)] // The one place of this crate that touches files.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::{Facts, Plan, Resumption, StartRecord, TrialRecord, check, upgrade};

/// The version of everything in a run's folder. Raised with every change that old readers cannot read.
pub const SCHEMA: &str = "dyno.run/3";

/// Formats that are read as well: what they lack has the meaning that it had then (see `plan`, `interval` and [`crate::upgrade`]).
const OLDER: [&str; 2] = ["dyno.run/1", "dyno.run/2"];

/// What is known when the run begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub schema: String,
    /// Name of the run, unique on this machine.
    pub id: String,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// The command that made it.
    pub command: Vec<String>,
    pub plan: Plan,
    pub facts: Facts,
    /// Each time that it was interrupted and gone on with.
    #[serde(default)]
    pub resumptions: Vec<Resumption>,
}

/// A whole run as it was read from disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub header: Header,
    /// By number of start.
    pub starts: Vec<StartRecord>,
    /// By index in the plan. Trials that have not run are absent.
    pub trials: Vec<TrialRecord>,
}

/// Why a run cannot be read.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error("{path}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path} is not a part of a run that this dyno can read")]
    Format { path: PathBuf, source: serde_json::Error },
    #[error("{path} does not hold together: {what}. It is damaged, or a part of another run")]
    Contents { path: PathBuf, what: String },
    #[error("{path} has the format {found:?}; this dyno reads {SCHEMA:?} and older ones")]
    Version { path: PathBuf, found: String },
}

/// The folder of one run.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Makes the folder and writes its header.
    pub fn create(path: impl Into<PathBuf>, header: &Header) -> Result<RunDir, OpenError> {
        let dir = RunDir { path: path.into() };
        for folder in ["starts", "trials"] {
            let folder = dir.path.join(folder);
            fs::create_dir_all(&folder).map_err(|source| OpenError::Io { path: folder, source })?;
        }
        dir.write("run.json", header)?;
        Ok(dir)
    }

    /// Opens the folder of an earlier run.
    pub fn open(path: impl Into<PathBuf>) -> Result<RunDir, OpenError> {
        let dir = RunDir { path: path.into() };
        dir.header()?;
        Ok(dir)
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write_start(&self, start: &StartRecord) -> Result<(), OpenError> {
        self.write(&format!("starts/{:03}.json", start.start), start)
    }

    pub fn write_trial(&self, trial: &TrialRecord) -> Result<(), OpenError> {
        self.write(&format!("trials/{:04}.json", trial.trial), trial)
    }

    pub fn header(&self) -> Result<Header, OpenError> {
        let path = self.path.join("run.json");
        let bytes = read_bytes(&path)?;
        #[derive(Deserialize)]
        struct Version {
            schema: String,
        }
        // The version first: a header of another version may not parse as ours at all.
        let Version { schema } = parse(&path, &bytes)?;
        if schema != SCHEMA && !OLDER.contains(&schema.as_str()) {
            return Err(OpenError::Version { path, found: schema });
        }
        let header = parse(&path, &bytes)?;
        holds_together(&path, check::header(&header))?;
        Ok(header)
    }

    /// One start, by its number.
    pub fn read_start(&self, start: usize) -> Result<StartRecord, OpenError> {
        let plan = self.header()?.plan;
        read_start(&plan, &self.path.join(format!("starts/{start:03}.json")))
    }

    /// The whole run. What comes back holds together: every index leads somewhere, and every count fits a sum (see
    /// `check`).
    pub fn read(&self) -> Result<Run, OpenError> {
        let header = self.header()?;
        let starts: Vec<StartRecord> = self
            .files("starts")?
            .iter()
            .map(|path| read_start(&header.plan, path))
            .collect::<Result<_, _>>()?;
        let twice = check::no_two_alike("starts", starts.iter().map(|s| s.start));
        holds_together(&self.path.join("starts"), twice)?;
        let trials: Vec<TrialRecord> = self
            .files("trials")?
            .iter()
            .map(|path| read_trial(&header, &starts, path))
            .collect::<Result<_, _>>()?;
        let mut run = Run { header, starts, trials };
        let twice = check::no_two_alike("trials", run.trials.iter().map(|t| t.trial));
        holds_together(&self.path.join("trials"), twice)?;
        run.starts.sort_by_key(|s| s.start);
        run.trials.sort_by_key(|t| t.trial);
        Ok(run)
    }

    /// Writes any file of the run's folder, whole or not at all.
    pub fn write_bytes(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, OpenError> {
        let path = self.path.join(name);
        let beside = path.with_extension("tmp");
        let write = || {
            let mut file = fs::File::create(&beside)?;
            file.write_all(bytes)?;
            file.sync_data()?;
            fs::rename(&beside, &path)
        };
        write().map_err(|source| OpenError::Io { path: path.clone(), source })?;
        Ok(path)
    }

    fn write(&self, name: &str, value: &impl Serialize) -> Result<(), OpenError> {
        let bytes = serde_json::to_vec(value)
            .map_err(|source| OpenError::Format { path: self.path.join(name), source })?;
        self.write_bytes(name, &bytes).map(drop)
    }

    /// The records in a folder, by name.
    fn files(&self, folder: &str) -> Result<Vec<PathBuf>, OpenError> {
        let folder = self.path.join(folder);
        let failed = |source| OpenError::Io { path: folder.clone(), source };
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

fn read_start(plan: &Plan, path: &Path) -> Result<StartRecord, OpenError> {
    let start = parse(path, &read_bytes(path)?)?;
    holds_together(path, check::start(plan, &start))?;
    Ok(start)
}

fn read_trial(header: &Header, starts: &[StartRecord], path: &Path) -> Result<TrialRecord, OpenError> {
    let mut value: Value = parse(path, &read_bytes(path)?)?;
    holds_together(path, check::numbers(&value))?;
    if header.schema != SCHEMA {
        value = upgrade::trial_of_2(value);
    }
    let trial =
        serde_json::from_value(value).map_err(|source| OpenError::Format { path: path.into(), source })?;
    holds_together(path, check::trial(&header.plan, starts, &trial))?;
    Ok(trial)
}

fn holds_together(path: &Path, checked: check::Checked) -> Result<(), OpenError> {
    checked.map_err(|what| OpenError::Contents { path: path.into(), what })
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, OpenError> {
    fs::read(path).map_err(|source| OpenError::Io { path: path.into(), source })
}

fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, OpenError> {
    serde_json::from_slice(bytes).map_err(|source| OpenError::Format { path: path.into(), source })
}
