//! `dyno run SUITE`.

use std::path::Path;

use dyno_analysis::trial::TrialResult;
use dyno_archive::dir::{Header, Run};
use dyno_archive::{RunDir, TrialRecord};
use dyno_launch::guard::Guard;
use dyno_launch::supervision::Supervision;
use dyno_runner::plan::{Planned, resolve};
use dyno_runner::prepare::Builds;
use dyno_runner::run::{Ended, Event, Runner};
use dyno_runner::suite::SuiteFile;
use dyno_subject::definition::prerequisites::Prerequisites;

use super::prepare::{Prepared, build_all};
use super::report::{Work, exit, show, work_of, write_all};
use super::resume::{Mixing, resume};
use crate::cli::RunArgs;
use crate::exit::Exit;
use crate::here::usable_cpus;
use crate::progress::Progress;
use crate::terminal::{self, Third};

pub fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    let interrupts = terminal::catch_interrupts(
        "ending after this step is taken down; press Ctrl-C again to end at once",
        Third::Ends,
    )?;
    let mut progress = Progress::new();
    let cache = args.places.cache_folder()?;
    let guard = Guard::start()?;
    let supervision = Supervision { guard: &guard, interrupts: &interrupts };
    let (planned, builds, dir) = match &args.resume {
        Some(path) => resume(path, Mixing::of(args), &cache, &supervision, &mut progress)?,
        None => begin(args, &cache, &supervision, &mut progress)?,
    };
    let ended = walk(&planned, &builds, &dir, &supervision, &mut progress)?;
    progress.end();
    let run = dir.read()?;
    // An interrupt after the last step was measured has cut nothing off.
    let is_cut = ended == Ended::Interrupted && work_of(&run) == Work::Missing;
    let report = dyno_analysis::report::report(&run);
    let paths = write_all(&dir, &report)?;
    if is_cut {
        let path = terminal::quoted(&dir.path().display().to_string());
        terminal::say(&format!(
            "\nThe run was interrupted; what is finished is kept. Go on with:\n  dyno run --resume {path}"
        ));
    }
    // Standard output comes last: it fails if nobody reads it, and the rest must be said all the same.
    show(&report, &paths)?;
    Ok(exit(&report, work_of(&run)))
}

fn begin(
    args: &RunArgs,
    cache: &Path,
    supervision: &Supervision<'_>,
    progress: &mut Progress,
) -> anyhow::Result<Prepared> {
    let path = args.suite.as_deref().expect("clap asks for a suite or a run to resume");
    let suite = SuiteFile::read(path, &args.choices.profile, usable_cpus())?;
    let subjects = args.places.subjects.find(Some(path))?;
    let overrides = args.choices.overrides();
    let here = Prerequisites::new(supervision);
    let mut planned =
        resolve(suite, &subjects, &overrides, &dyno_launch::allowed_cpus(), &|subject| here.unmet(subject))?;
    // Absolute, because the run may be resumed from another folder.
    planned.plan.suite.path = std::path::absolute(path)?.display().to_string();
    let builds = build_all(&mut planned, cache, supervision, progress)?;
    let dir = RunDir::create_among(&args.runs, super::header(&planned.plan))?.held()?;
    Ok((planned, builds, dir))
}

fn walk(
    planned: &Planned,
    builds: &Builds,
    dir: &RunDir,
    supervision: &Supervision<'_>,
    progress: &mut Progress,
) -> anyhow::Result<Ended> {
    let header = dir.header()?;
    progress.begin(&planned.plan, dir.read()?.trials.len());
    let mut on = |event: Event<'_>| {
        let record = match &event {
            Event::TrialEnded { record, .. } => Some((*record).clone()),
            _ => None,
        };
        progress.event(&planned.plan, &event, |_| record.and_then(|r| result_of(&header, dir, r)));
    };
    let mut runner = Runner {
        plan: &planned.plan,
        arms: &planned.arms,
        builds,
        dir,
        guard: supervision.guard,
        interrupts: supervision.interrupts,
        on: &mut on,
    };
    Ok(runner.walk()?)
}

/// The result of one trial alone, for its line on the screen.
fn result_of(header: &Header, dir: &RunDir, record: TrialRecord) -> Option<TrialResult> {
    let starts = vec![dir.read_start(record.start).ok()?];
    let alone = Run { header: header.clone(), starts, trials: vec![record], profiles: Vec::new() };
    dyno_analysis::report::report(&alone).trials.pop()
}
