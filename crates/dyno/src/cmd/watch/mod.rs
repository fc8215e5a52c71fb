//! `dyno watch`: observes a running server under any load.

mod orphans;
mod server;

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use dyno_analysis::server::watch::{WatchRecord, watch_record};
use dyno_launch::supervision::Interrupts;
use dyno_model::Party;
use dyno_observer::kernel_probes::{CallCounter, PartyMonitor};
use dyno_observer::monotonic_ns;
use dyno_report::watch as watch_report;
use server::WatchedServer;

use super::load::MetricsPage;
use super::report::write_out;
use crate::cli::WatchArgs;
use crate::exit::{Exit, usage_error};
use crate::result_file;
use crate::terminal::{self, Printer, ThirdInterrupt, first_error};

/// Interval between two checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of samples in a report. If there are more, pairs of samples are merged.
const MAX_SAMPLES: usize = 2000;

/// Observes a server, prints samples, and writes the report at the end.
pub fn run(args: &WatchArgs) -> anyhow::Result<Exit> {
    if args.report.as_deref().is_some_and(result_file::is_standard_output) {
        return Err(usage_error(
            "--report: must be a file, because standard output has the samples\nhint: name a file, \
             such as --report server.html",
        ));
    }
    let mut server = WatchedServer::find(args)?;
    let report = args.report.as_deref().map(ReportFile::begin).transpose()?;
    let metrics_page =
        args.metrics.map(|addr| MetricsPage::begin(addr, "# EOF\n".into())).transpose()?;
    let interrupts = terminal::catch_interrupts("ending", ThirdInterrupt::Ends)?;
    let probes = if args.outside { None } else { server.start_probes() };
    server.print_gaps(
        probes.as_ref().is_some_and(|watching| watching.observer().refusal().is_none()),
    );
    if args.format.is_text() {
        terminal::say(&format!("watching {} (Ctrl-C ends it)", server.title));
    }
    let (keep_counting, stop_counting) = mpsc::channel::<()>();
    let counted_probes = probes.clone();
    thread::scope(|scope| {
        scope.spawn(move || count(counted_probes, &stop_counting));
        let (mut result, mut printer) = (WatchResult::default(), Printer::default());
        let end = watch(
            &mut server,
            &mut result,
            &mut printer,
            args,
            probes.as_deref(),
            metrics_page.as_ref(),
            &interrupts,
        );
        drop(keep_counting);
        let written = report.map_or(Ok(()), |report| report.end(&server.title, &result));
        if let Some(total) = result.total.as_ref().filter(|_| args.format.is_text()) {
            let summary = watch_report::summary(&server.title, total, terminal::style());
            printer.print(|| terminal::print_text(&summary));
        }
        let exit = end.exit(&server.title);
        first_error([written, printer.end(exit)]).map(|()| exit)
    })
}

/// Counts system calls until the caller drops the sender of `stop`.
fn count(probes: Option<Arc<PartyMonitor>>, stop: &mpsc::Receiver<()>) {
    // Returns whether to stop.
    let mut wait =
        |pause| !matches!(stop.recv_timeout(pause), Err(mpsc::RecvTimeoutError::Timeout));
    let counter = probes.and_then(|probes| CallCounter::new(vec![vec![probes]]));
    let Some(mut counter) = counter else { return };
    if let Err(error) = counter.run(&|_| None, &mut wait) {
        terminal::say(&format!("system calls are unknown from here on: {error}"));
    }
}

/// All observations.
#[derive(Default)]
struct WatchResult {
    total: Option<WatchRecord>,
    /// Samples for the report. Empty without a report.
    samples: Vec<WatchRecord>,
}

impl WatchResult {
    fn add(&mut self, sample: WatchRecord, is_for_report: bool) {
        self.total = Some(match self.total.take() {
            Some(total) => total.merge(&sample),
            None => sample.clone(),
        });
        if is_for_report {
            self.samples.push(sample);
        }
        if self.samples.len() > MAX_SAMPLES {
            let pairs = self.samples.chunks(2).map(|pair| match pair {
                [first, next] => first.clone().merge(next),
                rest => rest[0].clone(),
            });
            self.samples = pairs.collect();
        }
    }
}

/// The reason why an observation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchEnd {
    /// The time is over, the user ended an observation without `--duration`, or standard output was
    /// closed.
    Finished,
    /// The user ended the observation before its `--duration` was over.
    Interrupted,
    ServerEnded,
}

impl WatchEnd {
    /// Prints the reason of an early end, and returns the exit status.
    fn exit(self, title: &str) -> Exit {
        match self {
            WatchEnd::Finished => return Exit::Valid,
            WatchEnd::Interrupted => terminal::say("ended before --duration was over"),
            WatchEnd::ServerEnded => terminal::say(&format!("{title} has ended")),
        }
        Exit::Failed
    }
}

/// Samples the server until it ends, the time is over, or the user interrupts.
fn watch(
    server: &mut WatchedServer,
    result: &mut WatchResult,
    printer: &mut Printer,
    args: &WatchArgs,
    probes: Option<&PartyMonitor>,
    metrics_page: Option<&MetricsPage>,
    interrupts: &Interrupts,
) -> WatchEnd {
    let first = server.sample(probes);
    let began_ns = first.at_ns;
    let ends_ns = args.duration.map(|duration| began_ns + duration.0);
    let mut last = first;
    loop {
        let until_ns = next_sample_ns(began_ns, last.at_ns, args.interval.0);
        let until_ns = ends_ns.map_or(until_ns, |end| end.min(until_ns));
        while monotonic_ns() < until_ns && interrupts.count() == 0 {
            thread::sleep(
                POLL_INTERVAL.min(Duration::from_nanos(until_ns.saturating_sub(monotonic_ns()))),
            );
        }
        let current = server.sample_after(&mut last, probes);
        if current.party_use(Party::SUBJECT).is_none_or(|used| used.processes == 0) {
            return WatchEnd::ServerEnded;
        }
        if let Some(sample) = watch_record(began_ns, &last, &current) {
            if let Some(metrics_page) = metrics_page {
                metrics_page.update(watch_report::openmetrics(&sample));
            }
            printer.print(|| print_sample(args, &sample));
            result.add(sample, args.report.is_some());
            // Standard output is not needed if samples are served as metrics, or if `--duration`
            // ends the observation and `--report` shows it.
            let is_report_expected = args.report.is_some() && args.duration.is_some();
            if printer.has_failed() && metrics_page.is_none() && !is_report_expected {
                return WatchEnd::Finished;
            }
        }
        last = current;
        match ends_ns {
            Some(end) if last.at_ns >= end => return WatchEnd::Finished,
            Some(_) if interrupts.count() > 0 => return WatchEnd::Interrupted,
            None if interrupts.count() > 0 => return WatchEnd::Finished,
            _ => {}
        }
    }
}

/// Returns the time of the next sample. A slow sample does not delay later samples. A missed sample
/// is skipped.
const fn next_sample_ns(began_ns: u64, last_ns: u64, interval_ns: u64) -> u64 {
    // Rounded to the nearest interval, so that a slightly early sample is not repeated immediately.
    let intervals_done = (last_ns - began_ns + interval_ns / 2) / interval_ns;
    began_ns + (intervals_done + 1) * interval_ns
}

/// The report that is written at the end.
struct ReportFile<'a>(&'a Path);

impl ReportFile<'_> {
    /// Checks that the report can be written, before the server is observed.
    fn begin(path: &Path) -> anyhow::Result<ReportFile<'_>> {
        result_file::check(path)?;
        Ok(ReportFile(path))
    }

    fn end(self, title: &str, result: &WatchResult) -> anyhow::Result<()> {
        let path = self.0.display();
        match &result.total {
            Some(total) => {
                write_out(Some(self.0), &watch_report::page(title, total, &result.samples))?;
                terminal::say(&path.to_string());
            }
            None => {
                terminal::say(&format!(
                    "{path}: not written, because the observation ended before the first sample"
                ));
            }
        }
        Ok(())
    }
}

fn print_sample(args: &WatchArgs, sample: &WatchRecord) -> anyhow::Result<()> {
    match args.format.is_text() {
        true => terminal::print_text(&(watch_report::line(sample) + "\n")),
        false => terminal::print(&(serde_json::to_string(sample)? + "\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_sample_after_missed_one_keeps_interval() {
        let next = |last| next_sample_ns(1000, last, 100);
        assert_eq!([next(1000), next(1100), next(1103)], [1100, 1200, 1200]);
        assert_eq!([next(1199), next(4030)], [1300, 4100]);
    }

    #[test]
    fn add_above_maximum_merges_pairs() {
        let mut result = WatchResult::default();
        let sample = |i: usize| WatchRecord {
            start_s: i as f64,
            end_s: i as f64 + 1.0,
            cpus: Some(0.5),
            ..WatchRecord::default()
        };
        (0..=MAX_SAMPLES).for_each(|i| result.add(sample(i), true));
        assert_eq!((result.samples.len(), result.samples[0].end_s), (MAX_SAMPLES / 2 + 1, 2.0));
        assert_eq!(
            (result.total.unwrap().end_s, result.samples.last().unwrap().end_s),
            (2001.0, 2001.0)
        );
        let mut without = WatchResult::default();
        (0..3).for_each(|i| without.add(sample(i), false));
        assert!(without.samples.is_empty() && without.total.is_some());
    }
}
