//! Preparation of a run before its first start: builds, versions, and the environment of starts.

use std::collections::BTreeMap;
use std::path::Path;

use dyno_launch::environment::{Environment, Ours};
use dyno_launch::supervision::Supervision;
use dyno_subject::build::{self, Built};
use dyno_subject::definition::Definition;

use crate::plan::Planned;
use crate::run::Event;

/// Builds every subject of a plan that can be built, and learns versions. A failed build is recorded in the plan.
///
/// # Errors
/// The user interrupted it.
pub fn prepare(
    planned: &mut Planned,
    cache: &Path,
    supervision: &Supervision<'_>,
    on: &mut dyn FnMut(Event<'_>),
) -> Result<Vec<Option<Built>>, Interrupted> {
    let Planned { plan, definitions, .. } = planned;
    let mut all = Vec::new();
    for (i, (subject, definition)) in plan.subjects.iter_mut().zip(definitions).enumerate() {
        if subject.skipped.is_some() {
            all.push(None);
            continue;
        }
        on(Event::Building { subject: i });
        match build::build(definition, cache, supervision) {
            _ if supervision.interrupts.count() > 0 => return Err(Interrupted),
            Ok(built) => {
                subject.version = build::version(definition, &built.out, supervision);
                subject.build.clone_from(&built.build);
                subject.build_failed = None;
                all.push(Some(built));
            }
            Err(why) => {
                subject.build_failed = Some(why);
                all.push(None);
            }
        }
        on(Event::Built { subject: i });
    }
    Ok(all)
}

/// The user interrupted the work before there was anything to keep.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("ended before the first server was started; there is nothing to keep")]
pub struct Interrupted;

/// The environment that a start of this subject would get now, without the variables that differ between its starts.
#[must_use]
pub fn environment_of(definition: &Definition) -> BTreeMap<String, String> {
    let start = &definition.start;
    let mut environment = Environment::of_server(&Ours::read(), &start.inherit, Path::new("")).recorded();
    // Its own variables belong to its definition, and each start has a folder of its own for temporary files.
    environment.retain(|name, _| name != "TMPDIR" && !start.env.contains_key(name));
    environment
}
