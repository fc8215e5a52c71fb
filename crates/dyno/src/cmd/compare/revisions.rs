//! `dyno compare --rev A --rev B SUITE`: compares two revisions of a server.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use dyno_analysis::compare::{ComparisonOptions, ComparisonResult, RunProblem, Side, compare};
use dyno_analysis::revision_status::RevisionsEnd;
use dyno_archive::RunDir;
use dyno_lab::revisions::{Repository, RevisionError, WorkTrees, check_subjects};
use dyno_lab::run::RunEnd;
use dyno_launch::guard::Guard;
use dyno_launch::supervision::Supervision;
use dyno_model::plan::{Plan, Revision};
use dyno_subject::build;
use dyno_subject::definition::Definition;
use dyno_subject::definition::find::Folders;
use dyno_suite::file::{AcrossRevisions, SuiteFile, SuiteSubject};
use dyno_suite::plan::Overrides;
use dyno_suite::revision_folders::RevisionFolders;

use super::super::report::{check_output, write_all};
use super::super::run::{RunContext, STOPPING, walk};
use super::{exit, write};
use crate::cli::CompareArgs;
use crate::exit::{Exit, usage_error};
use crate::inputs::Inputs;
use crate::progress::Progress;
use crate::terminal::{self, ThirdInterrupt};
use crate::this_machine::usable_cpus;

/// Builds and measures the revisions, and compares them.
pub(super) fn run(
    args: &CompareArgs,
    comparison_options: &ComparisonOptions,
) -> anyhow::Result<Exit> {
    // An unwritable output file is reported before the measurements.
    check_output(args.output.as_deref(), |_| {})?;
    let interrupts = terminal::catch_interrupts(STOPPING, ThirdInterrupt::Ends)?;
    let mut progress = Progress::start()?;
    let options = &args.revision_options;
    let cache = options.folder_options.cache_folder()?;
    let guard = Guard::start()?;
    let supervision = Supervision { guard: &guard, interrupts: &interrupts };
    let path = Path::new(&args.a);
    let suite = SuiteFile::read(path, &options.choices.profile, usable_cpus())?;
    let folders = options.folder_options.subjects.find(Some(path))?;
    check_output(args.output.as_deref(), |inputs| add_inputs(inputs, path, &suite, &folders))?;
    let entry = suite.revised_entry(&folders, &options.choices.only).map_err(usage_error)?;
    let repository =
        Repository::from_subject(&entry.name, &folders, &supervision).map_err(revision_error)?;
    let mut trees = WorkTrees::new(&repository, &guard)?;
    let revised = check_out(args, &repository, &mut trees, &folders, &supervision)?;
    let _temporary_builds = TemporaryBuilds::new(&revised, &entry, &cache, &guard);
    let is_changed = is_folder_changed(&repository, &revised, &supervision)?;
    let names: Vec<String> = revised.iter().map(|revised| revised.revision.name.clone()).collect();
    let across = suite.across(&AcrossRevisions { index: entry.index, revised })?;
    let overrides = Overrides { only: Vec::new(), ..options.choices.overrides() };
    let context = RunContext::new(path, &folders, &cache, &options.runs);
    let may_be_equal = args.anyway || is_changed;
    let check =
        |plan: &Plan| check_subjects(&plan.subjects, &names, may_be_equal).map_err(revision_error);
    let prepared = context.begin(across, &overrides, &supervision, &mut progress, &check)?;
    let ended = walk(&prepared, &supervision, &mut progress)?;
    progress.end();
    write_comparison(args, comparison_options, &prepared.dir, ended)
}

/// Compares the revisions that a run measured, and writes the result. Returns the exit status.
fn write_comparison(
    args: &CompareArgs,
    comparison_options: &ComparisonOptions,
    dir: &RunDir,
    ended: RunEnd,
) -> anyhow::Result<Exit> {
    let run = dir.read()?;
    let report = dyno_analysis::report::report(&run);
    write_all(dir, &report)?;
    let folder = terminal::quote(&dir.path().display().to_string());
    let side = |arm| Side { run: &run, results: report.results(), arm: Some(arm) };
    let end = RevisionsEnd::new(&run, &report, ended == RunEnd::Interrupted);
    let compared = ComparisonResult {
        run_problems: end.problems(),
        ..compare(side(0), side(1), comparison_options)
    };
    for RunProblem { sentence, .. } in &compared.run_problems {
        terminal::say(&format!(
            "\n{sentence}\nhint: to see the details, use: dyno report {folder}"
        ));
    }
    let is_empty = compared.rows.is_empty();
    let written = if is_empty && compared.run_problems.is_empty() {
        Ok(())
    } else {
        write(args, &compared, [&report; 2])
    };
    super::super::print_saved(dir, "The run is saved.");
    written?;
    Ok(end.status(&compared).map_or_else(|| exit(&compared), Exit::from))
}

/// Adds the files that a run of a suite reads: the files of the suite, and the folders of the
/// subjects, from which servers are built.
fn add_inputs(inputs: &mut Inputs, path: &Path, suite: &SuiteFile, folders: &Folders) {
    inputs.add(path);
    let folder = path.parent().unwrap_or(Path::new(""));
    suite.files.keys().for_each(|name| inputs.add(&folder.join(name)));
    let subjects = suite.subjects.iter().filter_map(|entry| folders.subject(&entry.name).ok());
    subjects.for_each(|definition| inputs.add_folder(&definition.folder));
}

/// Cached builds of temporary work trees. They are removed on drop, or by the guard.
struct TemporaryBuilds<'a> {
    /// Definitions of the servers in temporary work trees.
    servers: Vec<Definition>,
    cache: &'a Path,
    guard: &'a Guard,
}

impl<'a> TemporaryBuilds<'a> {
    fn new(
        revised: &[RevisionFolders],
        entry: &SuiteSubject,
        cache: &'a Path,
        guard: &'a Guard,
    ) -> TemporaryBuilds<'a> {
        let temporary = revised.iter().filter(|revised| revised.revision.commit.is_some());
        let servers = temporary.filter_map(|revised| revised.subject(&entry.name).ok());
        let builds = TemporaryBuilds { servers: servers.collect(), cache, guard };
        builds.folders().for_each(|folder| guard.watch_folder(&folder));
        builds
    }

    fn folders(&self) -> impl Iterator<Item = PathBuf> {
        self.servers.iter().flat_map(|server| build::build_folders(server, self.cache))
    }
}

impl Drop for TemporaryBuilds<'_> {
    fn drop(&mut self) {
        for server in &self.servers {
            build::remove_caches(server, self.cache);
        }
        self.folders().for_each(|folder| self.guard.forget_folder(&folder));
    }
}

/// Checks out the requested revisions, each into its own folders.
fn check_out(
    args: &CompareArgs,
    repository: &Repository,
    trees: &mut WorkTrees<'_>,
    folders: &Folders,
    supervision: &Supervision<'_>,
) -> anyhow::Result<Vec<RevisionFolders>> {
    let commits = repository.commits(&args.rev, supervision).map_err(revision_error)?;
    let mut revised = Vec::new();
    for (name, commit) in args.rev.iter().zip(&commits) {
        terminal::say(&format!("checking out {name} ({commit:.12})"));
        let revision = Revision { name: name.clone(), commit: Some(commit.clone()) };
        revised.push(trees.add(revision, folders, supervision).map_err(revision_error)?);
    }
    if revised.len() == 1 {
        revised.push(RevisionFolders::from_work_tree(folders));
    } else if repository.is_changed(supervision) {
        terminal::say("the work tree has uncommitted changes. They are not measured");
    }
    Ok(revised)
}

/// Returns whether files that Git tracks differ in the server's folder of the revisions.
fn is_folder_changed(
    repository: &Repository,
    revised: &[RevisionFolders],
    supervision: &Supervision<'_>,
) -> anyhow::Result<bool> {
    let commits: Vec<String> =
        revised.iter().filter_map(|revised| revised.revision.commit.clone()).collect();
    repository.has_changed_folder(&commits, supervision).map_err(revision_error)
}

/// Converts to an error with the exit status of its kind: wrong usage, or a failure.
fn revision_error(error: RevisionError) -> anyhow::Error {
    match error {
        RevisionError::InvalidRequest(message) => usage_error(message),
        RevisionError::Failed(message) => anyhow!(message),
    }
}
