//! Stores the ceilings (the generator's highest rates) that `dyno calibrate` measured, for
//! comparison with later loads.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use dyno_analysis::ceiling::{self, KindCeiling};
use dyno_analysis::load::{Ceiling, LoadConfig};
use dyno_archive::LoadRecord;
use dyno_archive::dir::write_atomically;
use dyno_observer::facts::read_facts;
use serde::{Deserialize, Serialize};

use crate::this_machine::{self, default_cache_folder};

const FILE: &str = "calibration.json";

/// The contents of `calibration.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CalibrationFile {
    /// The machine on which the ceilings were measured: its CPUs and kernel.
    pub machine: String,
    pub ceilings: Vec<KindCeiling>,
}

impl CalibrationFile {
    /// Path of the ceilings in a cache folder.
    pub fn path(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// Writes the ceilings. Earlier ceilings of this machine for other kinds of load stay in the
    /// file.
    pub fn write(mut self, folder: &Path) -> anyhow::Result<PathBuf> {
        let path = CalibrationFile::path(folder);
        let kind = |c: &KindCeiling| (c.driver, c.protocol, c.pipelined);
        let new_kinds: Vec<_> = self.ceilings.iter().map(kind).collect();
        let earlier = CalibrationFile::read(folder).map_or(Vec::new(), |file| file.ceilings);
        self.ceilings.extend(earlier.into_iter().filter(|c| !new_kinds.contains(&kind(c))));
        write_atomically(&path, serde_json::to_string_pretty(&self)?.as_bytes())
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(path)
    }

    /// Reads the ceilings. `None`: the file is not readable, or belongs to another machine.
    fn read(folder: &Path) -> Option<CalibrationFile> {
        let text = std::fs::read_to_string(CalibrationFile::path(folder)).ok()?;
        let file: CalibrationFile = serde_json::from_str(&text).ok()?;
        (file.machine == machine()).then_some(file)
    }
}

/// Name of this machine, for calibrations.
pub fn machine() -> String {
    let facts = read_facts(this_machine::VERSION, this_machine::COMMIT);
    this_machine::machine_name(&facts)
}

/// Returns the stored ceiling for the kind of load, if there is one.
pub fn ceiling_for(config: &LoadConfig, record: &LoadRecord) -> Option<Ceiling> {
    ceiling::find_for_load(&CalibrationFile::read(&cache_folder())?.ceilings, config, record)
        .cloned()
}

/// Path of the stored ceilings.
pub fn ceilings_file() -> PathBuf {
    CalibrationFile::path(&cache_folder())
}

fn cache_folder() -> PathBuf {
    let folder = std::env::var_os("DYNO_CACHE").filter(|folder| !folder.is_empty());
    folder.map_or_else(default_cache_folder, PathBuf::from)
}
