//! `dyno run --resume`: resumes an interrupted run, if its subjects, the machine and dyno are
//! unchanged.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use dyno_archive::RunDir;
use dyno_lab::prepare::include_with_backends;
use dyno_lab::resumption::{
    InputComparison, check_resumable, compare_builds, compare_inputs, next_start, resumed_header,
};
use dyno_lab::run::{has_remaining_work, unbuilt_steps};
use dyno_launch::keyed_hashes::KeyFile;
use dyno_launch::supervision::Supervision;
use dyno_model::plan::{Arm, Plan};
use dyno_model::run::RunHeader;
use dyno_model::{Resumption, ResumptionDifference};
use dyno_suite::plan::Planned;

use super::prepare::{PreparedRun, build_all};
use crate::cli::RunArgs;
use crate::exit::usage_error;
use crate::progress::Progress;
use crate::{terminal, this_machine};

/// Whether a run may be resumed although something has changed since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DifferencePolicy {
    Refuse,
    /// Allowed by `--anyway`. The report lists the differences.
    Allow,
}

impl DifferencePolicy {
    pub(super) fn from_args(args: &RunArgs) -> DifferencePolicy {
        if args.anyway { DifferencePolicy::Allow } else { DifferencePolicy::Refuse }
    }

    /// Refuses to resume if there are differences, and lists them.
    fn check(self, path: &Path, differences: &[ResumptionDifference]) -> anyhow::Result<()> {
        if self == DifferencePolicy::Allow || differences.is_empty() {
            return Ok(());
        }
        let items: Vec<String> = differences
            .iter()
            .map(|d| format!("  {}: {} then, {} now", d.name, d.before, d.now))
            .collect();
        let path = terminal::quote(&path.display().to_string());
        Err(usage_error(format!(
            "{path}: cannot be resumed, because these have changed:\n{}\nhint: undo the changes or \
             begin a new run. To resume anyway, use: dyno run --resume {path} --anyway (the report \
             marks the results before and after the resumption)",
            items.join("\n")
        )))
    }
}

/// Checks that a run can be resumed, and builds what it needs. If starts are left and
/// `before_start` succeeds, adds the resumption to the run's header.
pub(super) fn resume(
    path: &Path,
    policy: DifferencePolicy,
    cache: &Path,
    supervision: &Supervision<'_>,
    progress: &mut Progress,
    before_start: &dyn Fn(&Plan) -> anyhow::Result<()>,
) -> anyhow::Result<PreparedRun> {
    let dir = RunDir::open(path)?.lock()?;
    let mut run = dir.read()?;
    check_resumable(path, &run).map_err(usage_error)?;
    let mut planned = Planned::from_archived(run.header.plan.clone())?;
    let newly_included = include_with_backends(&mut planned.plan);
    let facts = dyno_observer::facts::read_facts(this_machine::VERSION, this_machine::COMMIT);
    // Comparisons that need no build come first, so that the user does not wait for a refusal.
    let key = KeyFile::of_user();
    let InputComparison { mut differences, uncompared } =
        compare_inputs(&run, &mut planned, &facts, supervision, &key);
    policy.check(path, &differences)?;
    let builds = build_all(&mut planned, cache, supervision, progress)?;
    differences.extend(compare_builds(&run.header.plan, &planned.plan));
    policy.check(path, &differences)?;
    let resumption = Resumption {
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        command: super::command_line(),
        from_start: next_start(&run),
        differences,
        uncompared,
        facts,
        subjects: planned.plan.subjects.clone(),
    };
    let header = resumed_header(&run, &planned.plan, &newly_included, resumption);
    let is_built = |arm: &Arm| builds.subjects[arm.subject].is_some();
    let mut unbuilt = unbuilt_steps(&header.plan, &run, is_built);
    // Subjects that cannot run on this machine have no steps.
    unbuilt.retain(|subject, _| {
        run.header.plan.subjects[*subject].skipped.is_none() || newly_included.contains(subject)
    });
    if !unbuilt.is_empty() {
        terminal::say(&unbuilt_text(&planned.plan, &unbuilt));
    }
    if has_remaining_work(&header.plan, &run, is_built) {
        before_start(&planned.plan)?;
        if let Some(text) = uncompared_text(&header) {
            terminal::say(&text);
        }
        dir.write_header(&header)?;
        run.header = header;
    } else if unbuilt.is_empty() {
        terminal::say("dyno run: all steps of this run are already measured");
    }
    // The plan is that of the archive, except for the hashes of the present files.
    let files = std::mem::take(&mut planned.plan.files);
    planned.plan = Plan { files, ..run.header.plan.clone() };
    Ok(PreparedRun { planned, builds, dir, run })
}

/// Returns the message about the values that the latest resumption could not compare. `None`: it
/// compared all values.
fn uncompared_text(header: &RunHeader) -> Option<String> {
    let names = &header.resumptions.last()?.uncompared;
    (!names.is_empty()).then(|| {
        format!(
            "dyno run: cannot check whether these environment variables have changed since the run \
             began: {}. Archives withhold their values, and hashes made with the same key are \
             missing\nhint: check that the values are the same as when the run began",
            names.join(", ")
        )
    })
}

/// Returns the message about steps that cannot be measured. `plan`: the plan with the results of
/// the builds. `steps`: the number of steps of each subject, by its index.
fn unbuilt_text(plan: &Plan, steps: &BTreeMap<usize, usize>) -> String {
    let line = |(index, count): (&usize, &usize)| {
        let subject = &plan.subjects[*index];
        let reason = subject.build_failed.as_ref().or(subject.skipped.as_ref());
        let reason = reason.and_then(|text| text.lines().next()).unwrap_or("it is not built");
        let steps = if *count == 1 { "step" } else { "steps" };
        format!("\n  {}: {count} {steps} ({reason})", subject.id())
    };
    let lines: String = steps.iter().map(line).collect();
    format!(
        "dyno run: some steps cannot be measured, because their servers are not built:{lines}\n\
         hint: fix the builds, and resume the run again"
    )
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::Subject;

    use super::*;

    /// A complete run.
    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/hello/run");

    #[test]
    fn differences_are_refused_unless_allowed() {
        let difference =
            ResumptionDifference { name: "kernel".into(), before: "1.0".into(), now: "2.0".into() };
        let differences = [difference];
        let check = |policy: DifferencePolicy, differences: &[ResumptionDifference]| {
            policy.check(Path::new("r"), differences)
        };
        check(DifferencePolicy::Allow, &differences).unwrap();
        check(DifferencePolicy::Refuse, &[]).unwrap();
        let error = check(DifferencePolicy::Refuse, &differences).unwrap_err();
        assert!(error.to_string().contains("  kernel: 1.0 then, 2.0 now\n"), "{error}");
        assert_eq!(crate::exit::exit_status(&error), crate::exit::Exit::Usage);
    }

    #[test]
    fn message_names_steps_of_unbuilt_servers() {
        let named = |name: &str| Subject { name: name.into(), ..Subject::default() };
        let failed = Some("its build failed with status 1\nmore".into());
        let skipped = Some("its back end db could not be built: no compiler".into());
        let plan = Plan {
            subjects: vec![
                named("built"),
                Subject { build_failed: failed, ..named("x") },
                Subject { skipped, ..named("front") },
            ],
            ..RunDir::open(GOLDEN).unwrap().read().unwrap().header.plan
        };
        let expected = "dyno run: some steps cannot be measured, because their servers are not \
                        built:\n  x: 4 steps (its build failed with status 1)\n  front: 1 step \
                        (its back end db could not be built: no compiler)\nhint: fix the builds, \
                        and resume the run again";
        assert_eq!(unbuilt_text(&plan, &BTreeMap::from([(1, 4), (2, 1)])), expected);
    }
}
