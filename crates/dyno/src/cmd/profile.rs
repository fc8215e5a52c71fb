//! `dyno profile RUN`: exports stacks for other tools, and compares two flame graphs.

use std::io::IsTerminal as _;
use std::path::Path;

use dyno_analysis::profile::{Flame, Line, SampleKind, difference, lines};
use dyno_model::Plan;
use dyno_model::profile::ProfileRecord;
use dyno_model::run::Run;
use dyno_report::profile::{ComparedProfile, collapse, collapse_pair, page, pprof, speedscope};
use dyno_report::terminal::escape_line;

use super::report::{check_output, escape_for_terminal, is_standard_output, write_file, write_out};
use crate::cli::{ProfileArgs, ProfileFormat};
use crate::exit::{Exit, unwritten, usage_error};
use crate::progress::describe_step;
use crate::terminal;

/// Lists the profiles of a run, or exports one.
pub fn run(args: &ProfileArgs) -> anyhow::Result<Exit> {
    let run = super::open_run(&args.run)?.read()?;
    check_output(args.output.as_deref(), |inputs| {
        [Some(&args.run), args.beside.as_ref()]
            .into_iter()
            .flatten()
            .for_each(|run| inputs.add_run(run));
    })?;
    if run.profiles.is_empty() {
        return Err(usage_error(format!(
            "{}: has no profiles\nhint: run again with `profile = true` under [observe] of the \
             suite, or with `dyno run --observe default,profile`",
            args.run.display()
        )));
    }
    let Some(trial) = args.trial else {
        if let Some(option) = args.single_profile_option() {
            return Err(usage_error(format!(
                "{option}: needs --trial\nhint: choose a trial of this list:\n{}",
                list_profiles(&run).trim_end()
            )));
        }
        terminal::print_text(&list_profiles(&run))?;
        return Ok(Exit::Valid);
    };
    let chosen = ChosenProfile::from_run(&run, &args.run, trial)?;
    let other_run = args
        .beside
        .as_ref()
        .map(|path| super::open_run(path)?.read().map_err(anyhow::Error::from))
        .transpose()?;
    let other_chosen = match (&other_run, args.beside_trial) {
        (None, None) => None,
        // Without `--beside`, both profiles are from the same run. Without `--beside-trial`, both
        // profiles are of trials with the same number.
        (other_run, other_trial) => {
            let path = args.beside.as_ref().unwrap_or(&args.run);
            Some(ChosenProfile::from_run(
                other_run.as_ref().unwrap_or(&run),
                path,
                other_trial.unwrap_or(trial),
            )?)
        }
    };
    write(args, &chosen, other_chosen.as_ref())?;
    Ok(Exit::Valid)
}

/// A profile and its title.
struct ChosenProfile<'a> {
    profile: &'a ProfileRecord,
    title: String,
}

impl ChosenProfile<'_> {
    fn from_run<'a>(run: &'a Run, path: &Path, trial: usize) -> anyhow::Result<ChosenProfile<'a>> {
        let profile =
            run.profiles.iter().find(|profile| profile.trial + 1 == trial).ok_or_else(|| {
                let path = path.display();
                usage_error(format!(
                    "{path}: has no profile of trial {trial}\nhint: list the profiles with `dyno \
                     profile {path}`"
                ))
            })?;
        if let Some(reason) = &profile.failure {
            return Err(usage_error(format!(
                "{}: has no profile of trial {trial}: {reason}\nhint: name another trial \
                 (`--trial`)",
                path.display()
            )));
        }
        let title =
            format!("{}, run {}", trial_name(&run.header.plan, profile.trial), run.header.id);
        Ok(ChosenProfile { profile, title })
    }

    fn lines(&self, kind: SampleKind) -> Vec<Line> {
        lines(self.profile, kind)
    }
}

/// Describes the arm, step and repeat of a trial.
fn trial_name(plan: &Plan, trial: usize) -> String {
    let planned = &plan.trials[trial];
    let block = plan.launches[planned.launch].block + 1;
    format!("{}, {}, repeat {block}", plan.arms[planned.arm].name, describe_step(plan, trial))
}

fn list_profiles(run: &Run) -> String {
    let row = |profile: &ProfileRecord| {
        let content = match &profile.failure {
            Some(reason) => format!("none: {reason}"),
            None => {
                format!(
                    "{} samples on CPU, {} off CPU",
                    samples(profile, SampleKind::Running),
                    samples(profile, SampleKind::Waiting)
                )
            }
        };
        escape_line(&format!(
            "--trial {:<4} {}: {content}",
            profile.trial + 1,
            trial_name(&run.header.plan, profile.trial)
        )) + "\n"
    };
    run.profiles.iter().map(row).collect()
}

fn samples(profile: &ProfileRecord, kind: SampleKind) -> u64 {
    kind.stacks(profile).stacks.iter().map(|stack| stack.samples).sum()
}

fn write(
    args: &ProfileArgs,
    chosen: &ChosenProfile<'_>,
    other_chosen: Option<&ChosenProfile<'_>>,
) -> anyhow::Result<()> {
    let kind = if args.off_cpu { SampleKind::Waiting } else { SampleKind::Running };
    let period_ns = kind.stacks(chosen.profile).period_ns;
    let text = match (args.format.unwrap_or(ProfileFormat::Collapsed), other_chosen) {
        (ProfileFormat::Collapsed, None) => collapse(&chosen.lines(kind)),
        (ProfileFormat::Collapsed, Some(other_chosen)) => {
            collapse_pair(&chosen.lines(kind), &other_chosen.lines(kind))
        }
        (ProfileFormat::Html, other_chosen) => html_page(chosen, other_chosen, kind)?,
        (ProfileFormat::Speedscope, None) => {
            speedscope(&chosen.title, &chosen.lines(kind), period_ns)
        }
        (ProfileFormat::Pprof, None) => {
            return write_bytes(
                args,
                &pprof(&chosen.lines(kind), kind, period_ns, chosen.profile.length_ns)?,
            );
        }
        (ProfileFormat::Speedscope | ProfileFormat::Pprof, Some(_)) => {
            return Err(usage_error(
                "--format speedscope and pprof: cannot show differences\nhint: use --format html \
                 or --format collapsed",
            ));
        }
    };
    write_out(args.output.as_deref(), &escape_for_terminal(args.output.as_deref(), &text))
}

fn html_page(
    chosen: &ChosenProfile<'_>,
    other_chosen: Option<&ChosenProfile<'_>>,
    kind: SampleKind,
) -> anyhow::Result<String> {
    let state = if kind == SampleKind::Waiting { "waiting" } else { "running" };
    let no_samples = || usage_error(format!("{}: has no samples of {state} threads", chosen.title));
    let flame = Flame::from_profiles(&[chosen.profile], kind).ok_or_else(no_samples)?;
    let Some(other_chosen) = other_chosen else {
        return Ok(page(&chosen.title, kind, &flame, None));
    };
    if kind == SampleKind::Waiting {
        return Err(usage_error(
            "--off-cpu: --format html cannot show the difference of two profiles, because one long \
             wait gives many samples, so a difference may be chance\nhint: use --format collapsed, \
             which has the counts of both profiles",
        ));
    }
    let difference =
        difference(chosen.profile, other_chosen.profile, kind).ok_or_else(no_samples)?;
    let compared = ComparedProfile { title: &other_chosen.title, difference: &difference };
    Ok(page(&chosen.title, kind, &flame, Some(compared)))
}

fn write_bytes(args: &ProfileArgs, bytes: &[u8]) -> anyhow::Result<()> {
    use std::io::Write as _;
    match args.output.as_deref().filter(|path| !is_standard_output(Some(path))) {
        Some(path) => write_file(path, bytes),
        None if std::io::stdout().is_terminal() => Err(usage_error(
            "--format pprof: cannot be shown on a terminal\nhint: name a file with -o FILE",
        )),
        None => std::io::stdout().write_all(bytes).map_err(unwritten),
    }
}
