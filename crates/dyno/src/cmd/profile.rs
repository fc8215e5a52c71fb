//! `dyno profile RUN`: exports stacks for other tools, and compares two flame graphs.

use std::io::IsTerminal as _;
use std::path::Path;

use dyno_analysis::profile::SampleKind;
use dyno_model::Plan;
use dyno_model::profile::ProfileRecord;
use dyno_model::run::Run;
use dyno_report::profile::{ExportedProfile, FORMATS, NamedProfile, ProfileExport};
use dyno_report::terminal::escape_line;

use super::report::{check_output, escape_for_terminal, is_standard_output, write_file, write_out};
use crate::cli::ProfileArgs;
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
    let shown = chosen_profile(&run, &args.run, trial)?;
    let other_run = args
        .beside
        .as_ref()
        .map(|path| super::open_run(path)?.read().map_err(anyhow::Error::from))
        .transpose()?;
    let other = match (&other_run, args.beside_trial) {
        (None, None) => None,
        // Without `--beside`, both profiles are from the same run. Without `--beside-trial`, both
        // profiles are of trials with the same number.
        (other_run, other_trial) => {
            let path = args.beside.as_ref().unwrap_or(&args.run);
            Some(chosen_profile(
                other_run.as_ref().unwrap_or(&run),
                path,
                other_trial.unwrap_or(trial),
            )?)
        }
    };
    let kind = if args.off_cpu { SampleKind::Waiting } else { SampleKind::Running };
    write(args, &ProfileExport { shown, other, kind })?;
    Ok(Exit::Valid)
}

/// Returns the profile of a trial, with its title.
fn chosen_profile<'a>(run: &'a Run, path: &Path, trial: usize) -> anyhow::Result<NamedProfile<'a>> {
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
            "{}: has no profile of trial {trial}: {reason}\nhint: name another trial (`--trial`)",
            path.display()
        )));
    }
    let title = format!("{}, run {}", trial_name(&run.header.plan, profile.trial), run.header.id);
    Ok(NamedProfile { profile, title })
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

fn write(args: &ProfileArgs, export: &ProfileExport<'_>) -> anyhow::Result<()> {
    let format = args.format.unwrap_or(&FORMATS[0]);
    let output = args.output.as_deref();
    match format.export(export).map_err(usage_error)? {
        ExportedProfile::Text(text) => write_out(output, &escape_for_terminal(output, &text)),
        ExportedProfile::Binary(bytes) => write_bytes(args, &bytes),
    }
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
