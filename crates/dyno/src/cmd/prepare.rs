//! What a run needs before its first start, be it a new one or one that goes on.

use std::path::Path;

use dyno_archive::RunDir;
use dyno_launch::supervision::Supervision;
use dyno_runner::plan::Planned;
use dyno_runner::prepare::prepare;
use dyno_runner::run::Event;
use dyno_subject::build::Built;

use crate::progress::Progress;

/// A plan, what was built for its subjects, and where the run is kept.
pub(super) type Prepared = (Planned, Vec<Option<Built>>, RunDir);

/// Builds what can be built, and shows how that goes.
pub(super) fn build_all(
    planned: &mut Planned,
    cache: &Path,
    supervision: &Supervision<'_>,
    progress: &mut Progress,
) -> anyhow::Result<Vec<Option<Built>>> {
    let mut happened = Vec::new();
    // The plan is being filled in while it is built, so the progress looks at a copy of what it was.
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
