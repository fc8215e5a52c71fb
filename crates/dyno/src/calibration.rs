//! The ceilings that `dyno calibrate` measured, kept for comparison with later loads.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use dyno_analysis::ceiling::{self, KindCeiling};
use dyno_analysis::load::{Ceiling, LoadConfig};
use dyno_archive::LoadRecord;
use dyno_archive::dir::write_whole;
use dyno_observer::facts::read_facts;
use serde::{Deserialize, Serialize};

use crate::this_machine::{self, default_cache_folder};

const FILE: &str = "calibration.json";

/// The contents of `calibration.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CalibrationFile {
    /// The machine that the ceilings are true of: its CPUs and kernel.
    pub machine: String,
    pub ceilings: Vec<KindCeiling>,
}

impl CalibrationFile {
    /// Where the ceilings are kept in a cache folder.
    pub fn place(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    pub fn write(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let path = CalibrationFile::place(folder);
        write_whole(&path, serde_json::to_string_pretty(self)?.as_bytes())
            .with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(path)
    }

    /// `None`: no readable file is there, or it is of another machine.
    fn read(folder: &Path) -> Option<CalibrationFile> {
        let text = std::fs::read_to_string(CalibrationFile::place(folder)).ok()?;
        let kept: CalibrationFile = serde_json::from_str(&text).ok()?;
        (kept.machine == machine()).then_some(kept)
    }
}

/// The name of this machine, which a calibration is true of.
pub fn machine() -> String {
    let facts = read_facts(this_machine::VERSION, this_machine::COMMIT);
    this_machine::machine_name(&facts)
}

/// The kept ceiling to compare a load with, if there is one.
pub fn ceiling_for(asked: &LoadConfig, record: &LoadRecord) -> Option<Ceiling> {
    ceiling::find_for_load(&CalibrationFile::read(&cache_folder())?.ceilings, asked, record)
        .cloned()
}

/// The file of the kept ceilings.
pub fn ceilings_file() -> PathBuf {
    CalibrationFile::place(&cache_folder())
}

fn cache_folder() -> PathBuf {
    let named = std::env::var_os("DYNO_CACHE").filter(|folder| !folder.is_empty());
    named.map_or_else(default_cache_folder, PathBuf::from)
}
