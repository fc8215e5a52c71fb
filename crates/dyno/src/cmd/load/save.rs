//! `--save`: stores a load as the archive of a run with one trial.

use std::path::Path;

use dyno_archive::RunDir;
use dyno_lab::single::{self, LoadEnd};
use dyno_model::Plan;
use dyno_model::trial::Ceiling;

/// The archive in which a load is stored.
pub struct SavedLoad(RunDir);

impl SavedLoad {
    /// Creates the folder before the load, because an unwritable folder would waste the load.
    pub fn begin(folder: &Path, plan: &Plan) -> anyhow::Result<SavedLoad> {
        crate::cmd::create_archive("--save", folder, plan).map(SavedLoad)
    }

    /// Writes the end of the load, its measurements, and the ceiling that its result quotes.
    pub fn end(&self, ended: &LoadEnd<'_>, ceiling: Option<Ceiling>) -> anyhow::Result<()> {
        Ok(single::write(&self.0, ended, ceiling)?)
    }

    /// Prints the path of the archive. The archive of a load that never began has only the reason.
    pub fn print_path(&self, has_begun: bool) {
        let sentence = if has_begun {
            crate::cmd::MEASUREMENTS_SAVED
        } else {
            "The load did not begin. The reason is saved."
        };
        crate::cmd::print_saved(&self.0, sentence);
    }
}
