//! What a new or a resumed run needs before its first start.

use std::path::Path;

use dyno_archive::RunDir;
use dyno_launch::supervision::Supervision;
use dyno_runner::plan::Planned;
use dyno_runner::prepare::prepare;
use dyno_runner::run::Event;
use dyno_subject::build::Built;

use crate::progress::Progress;

/// A plan, the build of each subject (`None`: skipped, or the build failed), and the run's archive.
pub(super) type Prepared = (Planned, Vec<Option<Built>>, RunDir);

/// Builds the subjects that can be built, and shows the progress.
pub(super) fn build_all(
    planned: &mut Planned,
    cache: &Path,
    supervision: &Supervision<'_>,
    progress: &mut Progress,
) -> anyhow::Result<Vec<Option<Built>>> {
    let mut happened = Vec::new();
    // `prepare` changes the plan meanwhile, so the progress reads a copy.
    let before = planned.plan.clone();
    let built = prepare(planned, cache, supervision, &mut |event| {
        if let Event::Building { .. } = event {
            progress.event(&before, &event, |_| None);
        }
        if let Event::Built { subject } = event {
            happened.push(subject);
        }
    })?;
    for subject in happened {
        progress.event(&planned.plan, &Event::Built { subject }, |_| None);
    }
    Ok(built)
}
