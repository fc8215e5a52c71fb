//! What a run needs before its first start: what is built, and what a start would be given.

use std::collections::BTreeMap;
use std::path::Path;

use dyno_launch::care::Care;
use dyno_launch::environment::{Environment, Ours};
use dyno_subject::build::{self, Built};
use dyno_subject::definition::Definition;

use crate::plan::Planned;
use crate::run::Event;

/// Builds every subject of a plan that can be built, and learns versions. A failed build is recorded in the plan.
///
/// # Errors
/// The user ended it.
pub fn prepare(
    planned: &mut Planned,
    cache: &Path,
    care: &Care<'_>,
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
        match build::build(definition, cache, care) {
            _ if care.interrupts.count() > 0 => return Err(Interrupted),
            Ok(built) => {
                subject.version = build::version(definition, &built.out, care);
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

/// The user ended what was going on before there was anything to keep.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("ended before the first server was started; there is nothing to keep")]
pub struct Interrupted;

/// What a start of this subject would get of the environment now, as far as it is the same for all its starts.
#[must_use]
pub fn environment_of(definition: &Definition) -> BTreeMap<String, String> {
    let start = &definition.start;
    let mut environment = Environment::of_server(&Ours::read(), &start.inherit, Path::new("")).recorded();
    // Its own variables belong to its definition, and each start has a folder of its own for temporary files.
    environment.retain(|name, _| name != "TMPDIR" && !start.env.contains_key(name));
    environment
}
