//! Prepares a new or resumed run before its first start.

use std::path::Path;

use dyno_archive::RunDir;
use dyno_lab::builds::Builds;
use dyno_lab::prepare::{check_machine, prepare};
use dyno_launch::supervision::Supervision;
use dyno_model::run::Run;
use dyno_suite::plan::Planned;

use crate::progress::Progress;

/// A run that can be walked.
pub(super) struct PreparedRun {
    pub(super) planned: Planned,
    /// The builds that the plan starts.
    pub(super) builds: Builds,
    /// The archive of the run.
    pub(super) dir: RunDir,
    /// Content of the archive.
    pub(super) run: Run,
}

/// Builds the subjects and back ends that can be built, and shows the progress.
pub(super) fn build_all(
    planned: &mut Planned,
    cache: &Path,
    supervision: &Supervision<'_>,
    progress: &mut Progress,
) -> anyhow::Result<Builds> {
    // Checked before the builds, which may take long.
    check_machine(&planned.plan).map_err(anyhow::Error::msg)?;
    // `prepare` changes the plan, so the progress reads a copy.
    let before = planned.plan.clone();
    progress.redact(&before)?;
    Ok(prepare(planned, cache, supervision, &mut |event| {
        progress.event(&before, &event, || None);
    })?)
}
