//! `dyno load URL`.

mod outputs;
mod requests;
mod save;
mod spec;
mod target;
mod watch;

use std::path::Path;
use std::sync::Arc;

use dyno_analysis::LoadResult;
use dyno_analysis::load::Config;
use dyno_analysis::verdict::{self, Context};
use dyno_archive::plan::Workload;
use dyno_archive::{LoadRecord, Plan};
use dyno_report::{hdr, intervals, text};
use dyno_runner::load::Spec;
use dyno_runner::single::{self, Ended};

use self::requests::Reach;
use self::save::Saving;
use self::target::Url;
use crate::cli::{LoadArgs, LoadFormat};
use crate::exit::Exit;
use crate::terminal::Third;
use crate::{calibration, terminal};

const ENDING_EARLY: &str = "ending early; the result covers what was measured";

pub fn run(args: LoadArgs) -> anyhow::Result<Exit> {
    let ready = Ready::new(args)?;
    let Ready { args, spec, config, .. } = &ready;
    outputs::check_files(args)?;
    if let Some(note) = spec::note_on_threads(args, spec) {
        terminal::say(&note);
    }
    // It may wait for a reader, and until there is a load, Ctrl-C ends dyno itself.
    let stream = args.stream.as_deref().map(|path| outputs::Stream::open(path, config)).transpose()?;
    let interrupts = terminal::catch_interrupts(ENDING_EARLY, Third::LeavesTimeForTheResult)?;
    let mut watch = watch::Watcher::new(args, spec, config, stream, Arc::clone(&interrupts))?;
    let saving = args.save.as_deref().map(|folder| Saving::begin(folder, &ready.plan())).transpose()?;
    let loaded = dyno_runner::load::run(spec, &mut watch);
    // An output that failed on the way is told at the end: the result is not lost for it.
    let trouble = watch.end();
    let ended = Ended::of(&loaded, &spec.load, interrupts.count() > 0);
    let ceiling = loaded.as_ref().ok().and_then(|record| calibration::ceiling_for(spec, record));
    // Before anything is shown: standard output may have no reader.
    let saved = saving.as_ref().map_or(Ok(()), |saving| saving.end(ended, ceiling.clone()));
    let was_cut = matches!(ended, Ended::Interrupted(_));
    let record = loaded.as_ref().map_err(|message| anyhow::anyhow!(message.clone()))?;
    let result = verdict::load(record, config.clone(), &Context { ceiling, ..Context::default() });
    let shown = show(args, record, &result);
    saved?;
    if let Some(saving) = &saving {
        saving.tell();
    }
    shown?;
    trouble?;
    Ok(match result.valid {
        // What was asked for was not done, however good the part is.
        _ if was_cut => Exit::Failed,
        true => Exit::Valid,
        false => Exit::Invalid,
    })
}

/// A load that may begin: the server answers as it should.
struct Ready {
    args: LoadArgs,
    url: Url,
    workload: Workload,
    reach: Reach,
    spec: Spec,
    config: Config,
}

impl Ready {
    fn new(mut args: LoadArgs) -> anyhow::Result<Ready> {
        spec::refuse_what_cannot_be(&args)?;
        let (url, workload) = requests::of(&mut args)?;
        spec::refuse_what_does_nothing(&args, &url, &workload)?;
        let reach = requests::reach(&args);
        let spec = spec::spec(&args, &url, &workload, &reach)?;
        let config = spec::config(&spec, &url, &workload);
        dyno_runner::load::preflight(&spec).map_err(|mismatch| anyhow::anyhow!(mismatch.words))?;
        Ok(Ready { args, url, workload, reach, spec, config })
    }

    fn plan(&self) -> Plan {
        let server = save::server(&self.url, &self.workload);
        single::plan(&server, &self.workload, &self.spec, self.reach.seen())
    }
}

/// The result, and the histograms beside it. Standard output may have been closed; the files are wanted all the same.
fn show(args: &LoadArgs, record: &LoadRecord, result: &LoadResult) -> anyhow::Result<()> {
    let shown = write_result(args, result);
    write_histograms(args, record)?;
    shown
}

fn write_result(args: &LoadArgs, result: &LoadResult) -> anyhow::Result<()> {
    let output = args.output.as_deref();
    // Standard output may have the stream, for a program to read: then what is for people goes beside it.
    let is_taken =
        super::report::is_standard_output(output) && args.stream.as_deref() == Some(Path::new("-"));
    let for_programs = match args.format {
        LoadFormat::Text if is_taken => {
            terminal::say(text::load(result, terminal::progress_style()).trim_end());
            return Ok(());
        }
        LoadFormat::Text => {
            let style = if output.is_some() { text::Style::Plain } else { terminal::style() };
            return super::report::write_out(output, &text::load(result, style));
        }
        LoadFormat::Json => serde_json::to_string_pretty(result)? + "\n",
        LoadFormat::Csv => intervals::csv(&result.intervals),
    };
    super::report::write_out(output, &super::report::for_reader(output, &for_programs))
}

/// Seconds since the epoch at an instant of the monotonic clock, which is what a load's own instants are on, given what both clocks say
/// now. Intervals count from the load's beginning, after all connections were tried, and not from the start of dyno.
fn wall_clock_at(instant_ns: u64, now_ns: u64, now_unix_s: f64) -> f64 {
    now_unix_s - now_ns.saturating_sub(instant_ns) as f64 / 1e9
}

fn write_histograms(args: &LoadArgs, record: &LoadRecord) -> anyhow::Result<()> {
    // Both clocks are read here, one right after the other, for what lies between them.
    let began_unix_s =
        wall_clock_at(record.began_ns, dyno_observer::monotonic_ns(), terminal::unix_seconds());
    let (answers, missing) = dyno_analysis::load::response_times(record);
    if let Some(path) = &args.hgrm {
        super::report::write_out(Some(path), &hdr::hgrm(&answers, missing))?;
    }
    if let Some(path) = &args.hlog {
        super::report::write_out(Some(path), &hdr::hlog(&record.intervals, missing, began_unix_s))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_log_begins_when_its_load_did() {
        assert_eq!(super::wall_clock_at(5_000_000_000, 12_500_000_000, 1000.0), 992.5);
    }
}
