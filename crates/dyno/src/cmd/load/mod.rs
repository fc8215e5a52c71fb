//! `dyno load URL`: loads one server without a suite, and prints or writes the result.

mod find;
mod outputs;
mod preparation;
mod requests;
mod save;
mod spec;
mod steps;
mod target;
mod watch;

use std::io::IsTerminal as _;
use std::sync::Arc;

use dyno_analysis::LoadResult;
use dyno_analysis::load::{Ceiling, LoadConfig};
use dyno_analysis::verdict::{self, Context};
use dyno_driver::PeerAddress;
use dyno_lab::load::LoadSpec;
use dyno_lab::single::{self, LoadEnd, LoadedServer};
use dyno_model::plan::Workload;
use dyno_model::{LoadRecord, Plan};
use dyno_observer::tracking::TrackingTable;
use dyno_report::present::style::Style;
use dyno_report::{hdr, text};
use dyno_suite::target::Url;
use dyno_suite::tracking;

pub use self::outputs::MetricsPage;
use self::outputs::{IntervalStream, streams_to_stdout};
use self::preparation::Preparation;
use self::requests::ReadableFiles;
use self::save::SavedLoad;
use crate::calibration;
use crate::cli::LoadArgs;
use crate::cmd::report::{escape_for_terminal, goes_to_terminal, is_standard_output, write_out};
use crate::exit::{Exit, usage_error};
use crate::terminal::{self, first_error};

/// Runs a load, saves it if requested, and writes the result.
pub fn run(args: LoadArgs) -> anyhow::Result<Exit> {
    run_after(Preparation::new()?, args)
}

fn run_after(preparation: Preparation, mut args: LoadArgs) -> anyhow::Result<Exit> {
    if let Some(objective) = args.find.take() {
        return find::run(args, &objective, preparation);
    }
    let load = preparation.run(move || PreparedLoad::new(args))?;
    let PreparedLoad { args, spec, config, .. } = &load;
    outputs::check_files(args, &load.files)?;
    let saved_load =
        args.save.as_deref().map(|folder| SavedLoad::begin(folder, &load.plan())).transpose()?;
    let outcome = load.run(preparation);
    let end = match &outcome {
        Ok(outcome) => LoadEnd::from_record(&outcome.record, &spec.load, outcome.was_interrupted),
        Err(error) => LoadEnd::NotBegun(format!("{error:#}")),
    };
    let (has_begun, was_interrupted) = (outcome.is_ok(), matches!(end, LoadEnd::Interrupted(_)));
    // Ceilings are measured over TCP, so a load over a Unix socket has no ceiling.
    let tcp_load =
        outcome.as_ref().ok().filter(|_| matches!(spec.target.endpoint.peer, PeerAddress::Tcp(_)));
    let ceiling = tcp_load.and_then(|outcome| calibration::ceiling_for(config, &outcome.record));
    // Saved before anything is printed, because standard output may have no reader.
    let save_result =
        saved_load.as_ref().map_or(Ok(()), |saved_load| saved_load.end(&end, ceiling.clone()));
    let output_result = outcome.and_then(|FinishedLoad { record, stream_result, .. }| {
        let result = load.result(&record, ceiling);
        // The histograms are written even if standard output was closed.
        let written = write_result(&load.plan(), args, &result);
        let results = [written, write_histograms(args, &record), stream_result];
        first_error(results).map(|()| result.valid)
    });
    if let (Some(saved_load), Ok(())) = (&saved_load, &save_result) {
        saved_load.print_path(has_begun);
    }
    let (is_valid, written) = match output_result {
        Ok(is_valid) => (is_valid, Ok(())),
        Err(error) => (false, Err(error)),
    };
    first_error([written, save_result])?;
    // An interrupted load failed, even if the part that was measured is valid.
    if was_interrupted {
        return Ok(Exit::Failed);
    }
    Ok(if is_valid { Exit::Valid } else { Exit::Invalid })
}

/// The outcome of a load that has begun and ended.
struct FinishedLoad {
    record: LoadRecord,
    was_interrupted: bool,
    /// Whether the stream was written. An error is reported after the result, so that the result
    /// is not lost.
    stream_result: anyhow::Result<()>,
}

/// Everything that a load needs.
struct PreparedLoad {
    args: LoadArgs,
    url: Url,
    workload: Workload,
    files: ReadableFiles,
    spec: LoadSpec,
    config: LoadConfig,
}

impl PreparedLoad {
    fn new(mut args: LoadArgs) -> anyhow::Result<PreparedLoad> {
        spec::refuse_contradictions(&args)?;
        let files = requests::readable_files(&args);
        let (url, workload, changes) = requests::read_requests(&mut args, &files)?;
        spec::refuse_unused_options(&args, &url, &workload)?;
        let spec = spec::spec(&args, &url, &workload, &files)?;
        requests::refuse_unused_folder(&args, &files)?;
        dyno_suite::bodies::check(&workload.requests, spec.step.in_flight())
            .map_err(usage_error)?;
        for line in changes.lines() {
            terminal::say(&dyno_report::terminal::escape_line(&line));
        }
        let import_changes = changes.list();
        let config = LoadConfig { import_changes, ..spec::config(&spec, &url, &workload) };
        Ok(PreparedLoad { args, url, workload, files, spec, config })
    }

    /// Loads the server if its first response is correct. `Err`: the load never began.
    fn run(&self, preparation: Preparation) -> anyhow::Result<FinishedLoad> {
        let PreparedLoad { args, spec, config, .. } = self;
        if let Some(note) = requests::note_on_upgrade(&self.workload) {
            terminal::say(&note);
        }
        // Printed before the first request, because a full table drops this request.
        if let Some(note) = self.tracking_note(tracking::note) {
            terminal::say(&note);
        }
        self.preflight(&preparation)?;
        if let Some(note) = spec::note_on_threads(args, spec) {
            terminal::say(&note);
        }
        let stream = self.open_stream(&preparation)?;
        let interrupts = preparation.end()?;
        let mut watch = watch::LoadWatch::new(args, spec, config, stream, Arc::clone(&interrupts))?;
        let record = dyno_lab::load::run(spec, &mut watch);
        let stream_result = watch.end(record.is_ok());
        let record = record.map_err(|message| anyhow::anyhow!(message))?;
        Ok(FinishedLoad { record, was_interrupted: interrupts.count() > 0, stream_result })
    }

    /// Checks one response of each request.
    fn preflight(&self, preparation: &Preparation) -> anyhow::Result<()> {
        target::refuse_missing_socket(&self.spec.target.endpoint.peer)?;
        let (spec, plan) = (self.spec.clone(), self.plan());
        preparation.run(move || {
            dyno_lab::load::preflight(&spec).map_err(|mismatch| {
                mismatch_error(&plan, &mismatch.message, std::io::stderr().is_terminal())
            })
        })
    }

    /// Opens the output of `--stream`. `None`: not requested.
    fn open_stream(&self, preparation: &Preparation) -> anyhow::Result<Option<IntervalStream>> {
        let Some(path) = self.args.stream.clone() else { return Ok(None) };
        let config = self.config.clone();
        preparation.run(move || IntervalStream::open(&path, &config)).map(Some)
    }

    /// Returns the note on connection tracking that `note` makes for the plan. `None`: the load
    /// does not use loopback, or loopback is not tracked.
    fn tracking_note(&self, note: fn(&Plan, &TrackingTable) -> Option<String>) -> Option<String> {
        let version = tracking::loopback_version(&self.spec.target.endpoint.peer)?;
        note(&self.plan(), &TrackingTable::read(version))
    }

    fn result(&self, record: &LoadRecord, ceiling: Option<Ceiling>) -> LoadResult {
        let context = Context { ceiling, ..Context::default() };
        verdict::load(record, self.config.clone(), &context)
    }

    fn plan(&self) -> Plan {
        let server = LoadedServer::from_url(&self.url, &self.workload);
        let import_changes = self.config.import_changes.clone();
        Plan {
            import_changes,
            ..single::plan(&server, &self.workload, &self.spec, self.files.file_hashes())
        }
    }
}

/// Returns the error of a test request. Its message quotes the request, so that it may have secrets
/// of the plan.
fn mismatch_error(plan: &Plan, message: &str, is_terminal: bool) -> anyhow::Error {
    match terminal::redact_about(plan, message, is_terminal) {
        Ok(message) => anyhow::anyhow!("{message}"),
        Err(error) => error,
    }
}

fn write_result(plan: &Plan, args: &LoadArgs, result: &LoadResult) -> anyhow::Result<()> {
    let output = args.output.as_deref();
    if !args.format.is_text() {
        let text = args.format.render(result, Style::Plain);
        return write_out(output, &escape_for_terminal(output, &text));
    }
    // If standard output has the stream for programs, the text for people goes to standard error.
    if is_standard_output(output) && streams_to_stdout(args) {
        let text = text::load(result, terminal::progress_style());
        let is_terminal = std::io::stderr().is_terminal();
        terminal::say(terminal::redact_about(plan, &text, is_terminal)?.trim_end());
        return Ok(());
    }
    let style = if output.is_some() { Style::Plain } else { terminal::style() };
    let text = text::load(result, style);
    // The URL may have a password, or the value of a secret header.
    let text = terminal::redact_about(plan, &text, goes_to_terminal(output))?;
    write_out(output, &text)
}

/// Converts an instant of the monotonic clock to seconds since the epoch. `now_ns` and `now_unix_s`
/// are readings of both clocks at the same time.
fn wall_clock_at(instant_ns: u64, now_ns: u64, now_unix_s: f64) -> f64 {
    now_unix_s - now_ns.saturating_sub(instant_ns) as f64 / 1e9
}

fn write_histograms(args: &LoadArgs, record: &LoadRecord) -> anyhow::Result<()> {
    // Both clocks are read without a pause, so that their difference is correct.
    let began_unix_s =
        wall_clock_at(record.began_ns, dyno_observer::monotonic_ns(), terminal::unix_seconds());
    let (times, missing) = dyno_analysis::load::response_times(record);
    let write = |path: &Option<_>, text: &dyn Fn() -> String| {
        path.as_deref().map_or(Ok(()), |path| write_out(Some(path), &text()))
    };
    // If one file cannot be written, the other is still written.
    first_error([
        write(&args.hgrm, &|| hdr::hgrm(&times, missing)),
        write(&args.hlog, &|| hdr::hlog(&record.intervals, missing, began_unix_s)),
    ])
}

#[cfg(test)]
mod tests;
