//! `dyno run SUITE`: plans, builds and measures a suite, and writes its report.

use std::path::Path;

use dyno_analysis::capacity::{UnknownCapacity, measured_first};
use dyno_analysis::run_status::{RunCompleteness, RunStatus};
use dyno_analysis::trial::RecordedTrial;
use dyno_archive::ArchiveError;
use dyno_lab::run::{RealHost, RunEnd, RunError, RunEvent, RunMemory, Runner};
use dyno_launch::guard::Guard;
use dyno_launch::supervision::Supervision;
use dyno_model::Plan;
use dyno_model::plan::{Capacity, MeasuredFirst};
use dyno_observer::tracking::{IpVersion, TrackingTable};
use dyno_report::format::rate;
use dyno_subject::definition::Definition;
use dyno_subject::definition::find::Folders;
use dyno_subject::definition::prerequisites::Prerequisites;
use dyno_suite::file::SuiteFile;
use dyno_suite::limits::MAX_CAPACITY_REPEATS;
use dyno_suite::plan::{Overrides, Planned, resolve};
use dyno_suite::tracking;

use super::prepare::{PreparedRun, build_all};
use super::report::{show, write_all};
use super::resume::{DifferencePolicy, resume};
use crate::cli::{Ns, RunArgs};
use crate::exit::Exit;
use crate::other_programs;
use crate::progress::Progress;
use crate::terminal::{self, ThirdInterrupt};
use crate::this_machine::usable_cpus;

/// Message after the first interrupt of a run.
pub(super) const STOPPING: &str = "stopping: shutting down the servers, at most 5 s each\nhint: \
                                   press Ctrl-C again to kill them at once";

/// Runs or resumes a suite, and writes the report.
pub fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    let interrupts = terminal::catch_interrupts(STOPPING, ThirdInterrupt::Ends)?;
    let mut progress = Progress::start()?;
    let cache = args.folder_options.cache_folder()?;
    let guard = Guard::start()?;
    let supervision = Supervision { guard: &guard, interrupts: &interrupts };
    // Called after the builds, which use the CPUs themselves, and before the archive is changed.
    let check = |_: &Plan| wait_for_quiet(args, &supervision);
    let prepared = match &args.resume {
        Some(path) => {
            let policy = DifferencePolicy::from_args(args);
            resume(path, policy, &cache, &supervision, &mut progress, &check)?
        }
        None => begin(args, &cache, &supervision, &mut progress, &check)?,
    };
    let ended = walk(&prepared, &supervision, &mut progress);
    progress.end();
    let dir = prepared.dir;
    let ended = ended.map_err(|error| with_resume_hint(error, dir.path()))?;
    let run = dir.read()?;
    let report = dyno_analysis::report::report(&run);
    let completeness = RunCompleteness::new(&run, &report);
    // An interrupt after the last step does not shorten the run.
    let is_cut_short = ended == RunEnd::Interrupted && completeness == RunCompleteness::Incomplete;
    let paths = write_all(&dir, &report)?;
    if is_cut_short {
        let path = terminal::quote(&dir.path().display().to_string());
        terminal::say(&format!(
            "\nThe run was interrupted. Finished steps are saved. Resume it with:\n  dyno run \
             --resume {path}"
        ));
    }
    // Standard output comes last, because it fails if its pipe is closed.
    show(&report, &paths)?;
    Ok(RunStatus::new(&report, completeness).into())
}

/// Prepares a new run. If rates are shares of a capacity, measures the capacities first.
fn begin(
    args: &RunArgs,
    cache: &Path,
    supervision: &Supervision<'_>,
    progress: &mut Progress,
    check: &dyn Fn(&Plan) -> anyhow::Result<()>,
) -> anyhow::Result<PreparedRun> {
    let path = args.suite.as_deref().expect("clap should require a suite or a run to resume");
    let suite = SuiteFile::read(path, &args.choices.profile, usable_cpus())?;
    let folders = args.folder_options.subjects.find(Some(path))?;
    let context = RunContext::new(path, &folders, cache, &args.runs);
    let overrides = args.choices.overrides();
    if suite.shares.is_empty() {
        return context.begin(suite, &overrides, supervision, progress, check);
    }
    let capacity_run =
        context.measure_capacities(&suite, &overrides, supervision, progress, check)?;
    let mut prepared = context.begin(
        suite.with_capacities(&capacity_run.capacities)?,
        &overrides,
        supervision,
        progress,
        check,
    )?;
    prepared.planned.plan.measured_first = Some(capacity_run);
    // The archive began with a plan that did not name the capacity run yet.
    prepared.run.header.plan = prepared.planned.plan.clone();
    prepared.dir.write_header(&prepared.run.header)?;
    Ok(prepared)
}

/// Checks the CPU use of other programs. With --wait-quiet, waits until they are idle.
fn wait_for_quiet(args: &RunArgs, supervision: &Supervision<'_>) -> anyhow::Result<()> {
    let is_interrupted = || supervision.interrupts.count() > 0;
    other_programs::check_or_wait(args.wait_quiet.map(|Ns(ns)| ns), &is_interrupted)
}

/// Folders and files that a run needs at its start.
pub(super) struct RunContext<'a> {
    path: &'a Path,
    folders: &'a Folders,
    cache: &'a Path,
    /// Folder of the archives.
    runs: &'a Path,
    /// CPUs that dyno may use. A run binds this thread to some of them.
    cpus: Vec<u32>,
}

impl<'a> RunContext<'a> {
    pub(super) fn new(
        path: &'a Path,
        folders: &'a Folders,
        cache: &'a Path,
        runs: &'a Path,
    ) -> RunContext<'a> {
        RunContext { path, folders, cache, runs, cpus: dyno_launch::allowed_cpus() }
    }

    /// Measures the capacity of the slowest subject in closed loops, in a separate run. The rates
    /// of the suite are shares of this capacity.
    fn measure_capacities(
        &self,
        suite: &SuiteFile,
        overrides: &Overrides,
        supervision: &Supervision<'_>,
        progress: &mut Progress,
        before_start: &dyn Fn(&Plan) -> anyhow::Result<()>,
    ) -> anyhow::Result<MeasuredFirst> {
        terminal::say(
            "first measuring the capacity of the slowest subject in closed loops, because the \
             suite's rates are shares of this capacity",
        );
        // Mistakes in the plan are reported before the capacities are measured.
        self.plan(suite.clone(), overrides, supervision)?;
        let (shares, suite) = (suite.shares.clone(), suite.to_capacity_suite());
        let repeats = overrides.repeats.unwrap_or(suite.repeats).min(MAX_CAPACITY_REPEATS);
        let overrides = Overrides { repeats: Some(repeats), ..overrides.clone() };
        let prepared = self.begin(suite, &overrides, supervision, progress, before_start)?;
        let ended = walk(&prepared, supervision, progress)?;
        let dir = prepared.dir;
        // The next builds and starts must not be bound to the generator's CPUs.
        dyno_launch::set_affinity(&self.cpus)?;
        let run = dir.read()?;
        let report = dyno_analysis::report::report(&run);
        write_all(&dir, &report)?;
        let path = terminal::quote(&dir.path().display().to_string());
        if ended == RunEnd::Interrupted {
            anyhow::bail!(
                "interrupted: the capacity of the slowest subject is not known yet\nhint: to see \
                 the results so far, use: dyno report {path}"
            );
        }
        let first = measured_first(&run, &report, shares)
            .map_err(|unknown| unknown_capacity(&unknown, &path))?;
        for Capacity { workload, rps, subject } in &first.capacities {
            terminal::say(&format!("{workload}: {}/s, {subject}", rate(*rps)));
        }
        Ok(first)
    }

    /// Plans and builds a suite, and creates the archive of the run, if `before_start` succeeds.
    pub(super) fn begin(
        &self,
        suite: SuiteFile,
        overrides: &Overrides,
        supervision: &Supervision<'_>,
        progress: &mut Progress,
        before_start: &dyn Fn(&Plan) -> anyhow::Result<()>,
    ) -> anyhow::Result<PreparedRun> {
        let mut planned = self.plan(suite, overrides, supervision)?;
        // Absolute, because the run may be resumed from another folder.
        planned.plan.suite.path = std::path::absolute(self.path)?.display().to_string();
        super::check_archive_folder("--runs", self.runs)?;
        let builds = build_all(&mut planned, self.cache, supervision, progress)?;
        planned.plan.remove_unavailable_from_duet();
        before_start(&planned.plan)?;
        let dir = super::create_archive("--runs", self.runs, &planned.plan)?;
        let run = dir.read()?;
        Ok(PreparedRun { planned, builds, dir, run })
    }

    fn plan(
        &self,
        suite: SuiteFile,
        overrides: &Overrides,
        supervision: &Supervision<'_>,
    ) -> anyhow::Result<Planned> {
        let prerequisites = Prerequisites::new(supervision);
        let unmet = |subject: &Definition| prerequisites.unmet_need(subject);
        let machine = dyno_lab::this_machine::read(self.cpus.clone());
        Ok(resolve(suite, self.folders, overrides, &machine, &unmet)?)
    }
}

/// Converts to an error. `path`: the run, as an argument of a shell.
fn unknown_capacity(unknown: &UnknownCapacity, path: &str) -> anyhow::Error {
    let remedy = unknown.remedy.as_ref().map_or(String::new(), |text| format!("\nhint: {text}"));
    anyhow::anyhow!(
        "{}\nhint: to see the reasons, use: dyno report {path}{remedy}",
        unknown.message
    )
}

/// Runs all starts and trials of a plan.
pub(super) fn walk(
    prepared: &PreparedRun,
    supervision: &Supervision<'_>,
    progress: &mut Progress,
) -> anyhow::Result<RunEnd> {
    let PreparedRun { planned, builds, dir, run } = prepared;
    // Notes whether the kernel tracks connections, and whether its table may become full. Servers
    // have IPv4 addresses.
    if let Some(note) = tracking::note(&planned.plan, &TrackingTable::read(IpVersion::V4)) {
        terminal::say(&note);
    }
    let plan = &planned.plan;
    progress.begin(&planned.plan, run.trials.len())?;
    let mut on_event = |event: RunEvent<'_>| {
        let result = match &event {
            RunEvent::TrialEnded { start, record, .. } => {
                let facts = run.facts_at(record.start);
                Some(RecordedTrial { plan, facts, start: Some(start), record })
            }
            _ => None,
        };
        progress.event(plan, &event, || result.map(RecordedTrial::result));
    };
    let host = RealHost::new(planned, builds, *supervision)?;
    let mut runner = Runner {
        plan: &planned.plan,
        host: &host,
        dir,
        interrupts: supervision.interrupts,
        on_event: &mut on_event,
        memory: RunMemory::default(),
    };
    Ok(runner.walk(run)?)
}

/// Adds the command that resumes the run to a write error of its archive, such as a full disk.
fn with_resume_hint(error: anyhow::Error, run: &Path) -> anyhow::Error {
    let Some(RunError::Archive(ArchiveError::Write { .. })) = error.downcast_ref() else {
        return error;
    };
    let path = terminal::quote(&run.display().to_string());
    anyhow::anyhow!(
        "{error:#}\nhint: finished steps are saved. Free disk space, then resume with: dyno run \
         --resume {path}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_write_error_has_resume_command() {
        let error =
            |error: RunError| with_resume_hint(error.into(), Path::new("runs/a b")).to_string();
        let full = std::io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error());
        let unwritten = ArchiveError::Write { path: "x".into(), source: full };
        let message = error(RunError::Archive(unwritten));
        assert!(
            message.contains("No space left") && message.ends_with("dyno run --resume 'runs/a b'"),
            "{message}"
        );
        assert!(!error(RunError::Machine(std::io::Error::other("x"))).contains("hint"));
    }
}
