//! Prepares a run before its first start: checks the machine, builds the servers, and reads their
//! versions.

use std::path::Path;

use dyno_launch::network::Network;
use dyno_launch::supervision::Supervision;
use dyno_model::plan::{Arm, Isolation, Plan};
use dyno_subject::build::{self, Built};
use dyno_subject::definition::Definition;
use dyno_suite::plan::Planned;

use crate::builds::{Builds, BuiltBackend};
use crate::run::RunEvent;

/// Checks that this machine supports the network namespaces that the plan needs.
///
/// # Errors
/// The missing capability.
pub fn check_machine(plan: &Plan) -> Result<(), String> {
    let is_isolated = plan.arms.iter().any(|arm| arm.conditions.isolation == Isolation::Netns);
    let result = if is_isolated { Network::pair().map(drop) } else { Ok(()) };
    result.map_err(|reason| {
        format!(
            "`isolation = \"netns\"`: cannot be used on this machine: {reason}\nhint: run as root \
             (CAP_SYS_ADMIN and CAP_NET_ADMIN), on a kernel with `veth` and with a writable \
             /proc/sys. To measure over the loopback interface instead, remove `isolation`"
        )
    })
}

/// Builds the back ends and subjects of a plan, and reads their versions. A failed build is
/// recorded in the plan.
///
/// # Errors
/// The user interrupted the preparation.
pub fn prepare(
    planned: &mut Planned,
    cache: &Path,
    supervision: &Supervision<'_>,
    on_event: &mut dyn FnMut(RunEvent<'_>),
) -> Result<Builds, Interrupted> {
    if supervision.interrupts.count() > 0 {
        // An interrupt may have ended earlier checks of the machine, so their results must not be
        // used.
        return Err(Interrupted);
    }
    let mut builder = Builder { cache, supervision, on_event };
    let mut builds = Builds::default();
    for (backend, definition) in planned.plan.backends.iter_mut().zip(&planned.backends) {
        let outcome = builder.build(&backend.name, definition, backend.skipped.is_some())?;
        (backend.version, backend.build_failed) = (outcome.version, outcome.failed);
        backend.build = outcome.built.as_ref().and_then(|built| built.build.clone());
        builds.backends.push(
            outcome.built.map(|built| BuiltBackend { definition: definition.clone(), built }),
        );
    }
    exclude_without_backends(planned);
    for (subject, definition) in planned.plan.subjects.iter_mut().zip(&planned.definitions) {
        let outcome = builder.build(&subject.id(), definition, subject.skipped.is_some())?;
        (subject.version, subject.build_failed) = (outcome.version, outcome.failed);
        subject.build = outcome.built.as_ref().and_then(|built| built.build.clone());
        builds.subjects.push(outcome.built);
    }
    Ok(builds)
}

struct Builder<'a> {
    cache: &'a Path,
    supervision: &'a Supervision<'a>,
    on_event: &'a mut dyn FnMut(RunEvent<'_>),
}

/// Result of a build. All fields are `None` if no build was requested.
#[derive(Default)]
struct BuildOutcome {
    built: Option<Built>,
    version: Option<String>,
    failed: Option<String>,
}

impl Builder<'_> {
    /// Builds one server, reads its version, and reports the progress.
    fn build(
        &mut self,
        name: &str,
        definition: &Definition,
        is_skipped: bool,
    ) -> Result<BuildOutcome, Interrupted> {
        if is_skipped {
            return Ok(BuildOutcome::default());
        }
        (self.on_event)(RunEvent::Building { name });
        let built = build::build(definition, self.cache, self.supervision, &mut |line| {
            (self.on_event)(RunEvent::Printed { name, line });
        });
        if self.supervision.interrupts.count() > 0 {
            return Err(Interrupted);
        }
        (self.on_event)(RunEvent::Built { name, result: built.as_ref() });
        let version = built.as_ref().ok();
        let version =
            version.and_then(|built| build::version(definition, &built.out, self.supervision));
        // An interrupted command prints no version. A resumed run would find another version, and
        // report a change.
        if self.supervision.interrupts.count() > 0 {
            return Err(Interrupted);
        }
        Ok(match built {
            Ok(built) => BuildOutcome { built: Some(built), version, failed: None },
            Err(reason) => BuildOutcome { failed: Some(reason), ..BuildOutcome::default() },
        })
    }
}

/// Excludes the subjects whose back ends could not be built.
fn exclude_without_backends(planned: &mut Planned) {
    for (subject, reason) in subjects_without_backends(&planned.plan) {
        planned.plan.subjects[subject].skipped.get_or_insert(reason);
    }
}

/// Returns the subjects whose back ends could not be built, each with the reason.
fn subjects_without_backends(plan: &Plan) -> Vec<(usize, String)> {
    let reason = |arm: &Arm| {
        arm.backends.iter().find_map(|index| {
            let backend = &plan.backends[*index];
            let reason = backend.build_failed.as_ref()?;
            let message = format!("its back end {} could not be built: {reason}", backend.name);
            Some((arm.subject, message))
        })
    };
    plan.arms.iter().filter_map(reason).collect()
}

/// Includes subjects of an archived plan again that were excluded only because a build of a back
/// end had failed. The build may succeed now. Returns the indices of these subjects.
pub fn include_with_backends(plan: &mut Plan) -> Vec<usize> {
    let mut subjects = subjects_without_backends(plan);
    subjects.retain(|(subject, reason)| plan.subjects[*subject].skipped.as_ref() == Some(reason));
    subjects.iter().for_each(|(subject, _)| plan.subjects[*subject].skipped = None);
    subjects.into_iter().map(|(subject, _)| subject).collect()
}

/// The user interrupted the preparation, so there is no result.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted before the first server was started, so nothing is saved")]
pub struct Interrupted;

#[cfg(test)]
mod tests {
    use dyno_launch::guard::Guard;
    use dyno_launch::supervision::Interrupts;
    use dyno_subject::definition::Role;

    use super::*;

    #[test]
    fn interrupted_version_command_ends_preparation() {
        let root = tempfile::tempdir().unwrap();
        let source = "name = \"x\"\ntitle = \"X\"\nlanguage = \"C\"\nprotocols = [\"h1\"]\n\
                      [version]\ncommand = \"echo 1\"\n[start]\ncommand = [\"x\", \"{port}\"]\n";
        let definition = Definition::parse(&root.path().join("x"), Role::Subject, source).unwrap();
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        // The version command follows this event.
        let mut on_event = |event: RunEvent<'_>| {
            if let RunEvent::Built { .. } = event {
                interrupts.raise();
            }
        };
        let on_event: &mut dyn FnMut(RunEvent<'_>) = &mut on_event;
        let mut builder = Builder { cache: root.path(), supervision: &supervision, on_event };
        assert!(builder.build("x", &definition, false).is_err());
    }
}
