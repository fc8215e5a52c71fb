//! `dyno watch`: observes a running server under any load.

mod server;

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use dyno_analysis::server::watch::{WatchRecord, watch_record};
use dyno_archive::Party;
use dyno_launch::supervision::Interrupts;
use dyno_observer::kernel_probes::{CallCounter, PartyMonitor};
use dyno_observer::monotonic_ns;
use dyno_report::watch as page;

use super::load::MetricsPage;
use super::report::write_out;
use crate::cli::{PlanFormat, WatchArgs};
use crate::exit::{Exit, first_error, usage_error};
use crate::result_file;
use crate::terminal::{self, ThirdInterrupt};
use server::WatchedServer;

/// Interval between two checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of samples on a page. If there are more, pairs of samples are merged.
const MAX_SAMPLES: usize = 2000;

pub fn run(args: &WatchArgs) -> anyhow::Result<Exit> {
    if args.report.as_deref() == Some(Path::new("-")) {
        return Err(usage_error(
            "--report: must be a file, because standard output has the samples\nhint: name a file, \
             such as --report server.html",
        ));
    }
    let mut server = WatchedServer::find(args)?;
    let page = args.report.as_deref().map(Page::begin).transpose()?;
    let metrics_page =
        args.metrics.map(|addr| MetricsPage::begin(addr, "# EOF\n".into())).transpose()?;
    let interrupts = terminal::catch_interrupts("ending", ThirdInterrupt::Ends)?;
    let probes = if args.outside { None } else { server.start_probes() };
    server.print_gaps(
        probes.as_ref().is_some_and(|watching| watching.observer().refusal().is_none()),
    );
    if args.format == PlanFormat::Text {
        terminal::say(&format!("watching {} (Ctrl-C ends it)", server.title));
    }
    let (to_counter, stop_counter) = mpsc::channel::<()>();
    let counted_probes = probes.clone();
    thread::scope(|scope| {
        scope.spawn(move || count(counted_probes, &stop_counter));
        let mut result = WatchResult::default();
        let watched = watch(
            &mut server,
            &mut result,
            args,
            probes.as_deref(),
            metrics_page.as_ref(),
            &interrupts,
        );
        drop(to_counter);
        // The page is written after an error, too.
        let written = page.map_or(Ok(()), |page| page.end(&server.title, &result));
        let print_error = result.print_error.take().map_or(Ok(()), Err);
        first_error([watched, written, print_error])?;
        finish(args, &server.title, &result)
    })
}

/// Counts system calls until `stop` has a message.
fn count(probes: Option<Arc<PartyMonitor>>, stop: &mpsc::Receiver<()>) {
    let mut wait =
        |pause| !matches!(stop.recv_timeout(pause), Err(mpsc::RecvTimeoutError::Timeout));
    let counting = probes.and_then(|probes| CallCounter::new(vec![vec![probes]]));
    if let Some(Err(error)) = counting.map(|mut counting| counting.run(&|_| None, &mut wait)) {
        terminal::say(&format!("system calls are no longer counted: {error}"));
    }
}

/// All observations.
#[derive(Default)]
struct WatchResult {
    total: Option<WatchRecord>,
    /// Samples for the page. Empty without one.
    samples: Vec<WatchRecord>,
    /// Whether the server ended during the observation.
    is_gone: bool,
    /// Why samples are no longer printed. It is reported at the end.
    print_error: Option<anyhow::Error>,
}

impl WatchResult {
    fn add(&mut self, sample: WatchRecord, is_for_page: bool) {
        self.total = Some(match self.total.take() {
            Some(total) => total.merge(&sample),
            None => sample.clone(),
        });
        if is_for_page {
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

/// Samples the server until it ends, the time is over, or the user interrupts.
fn watch(
    server: &mut WatchedServer,
    result: &mut WatchResult,
    args: &WatchArgs,
    probes: Option<&PartyMonitor>,
    metrics_page: Option<&MetricsPage>,
    interrupts: &Interrupts,
) -> anyhow::Result<()> {
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
        let current = server.sample(probes);
        result.is_gone = current.party_use(Party::SUBJECT).is_none_or(|used| used.processes == 0);
        if result.is_gone {
            return Ok(());
        }
        if let Some(sample) = watch_record(began_ns, &last, &current) {
            let print_result =
                print_sample(args, &sample, metrics_page, result.print_error.is_none());
            result.add(sample, args.report.is_some());
            match print_result {
                // The page of a set time and the metrics do not need standard output.
                Err(error)
                    if metrics_page.is_some()
                        || args.report.is_some() && args.duration.is_some() =>
                {
                    result.print_error = Some(error);
                }
                print_result => print_result?,
            }
        }
        last = current;
        if interrupts.count() > 0 || ends_ns.is_some_and(|end| last.at_ns >= end) {
            return Ok(());
        }
    }
}

/// Returns the time of the next sample. Samples keep their interval, however long one takes. A
/// missed sample is skipped.
const fn next_sample_ns(began_ns: u64, last_ns: u64, interval_ns: u64) -> u64 {
    // Rounded to the nearest interval, so that a slightly early sample is not repeated immediately.
    let done = (last_ns - began_ns + interval_ns / 2) / interval_ns;
    began_ns + (done + 1) * interval_ns
}

/// The page that is written at the end.
struct Page<'a>(&'a Path);

impl Page<'_> {
    /// Checks that the page can be written, before the server is observed.
    fn begin(path: &Path) -> anyhow::Result<Page<'_>> {
        result_file::check(path)?;
        Ok(Page(path))
    }

    fn end(self, title: &str, result: &WatchResult) -> anyhow::Result<()> {
        let path = self.0.display();
        match &result.total {
            Some(total) => {
                write_out(Some(self.0), &page::page(title, total, &result.samples))?;
                terminal::say(&path.to_string());
            }
            None => {
                terminal::say(&format!(
                    "{path}: not written, because the server was not sampled before the end"
                ));
            }
        }
        Ok(())
    }
}

/// Prints a sample if `is_printed`, and serves it at `/metrics`.
fn print_sample(
    args: &WatchArgs,
    sample: &WatchRecord,
    metrics_page: Option<&MetricsPage>,
    is_printed: bool,
) -> anyhow::Result<()> {
    if let Some(metrics_page) = metrics_page {
        metrics_page.update(page::openmetrics(sample));
    }
    match args.format {
        _ if !is_printed => Ok(()),
        PlanFormat::Text => terminal::print_text(&(page::line(sample) + "\n")),
        PlanFormat::Json => terminal::print(&(serde_json::to_string(sample)? + "\n")),
    }
}

fn finish(args: &WatchArgs, title: &str, result: &WatchResult) -> anyhow::Result<Exit> {
    if let Some(total) = result.total.as_ref().filter(|_| args.format == PlanFormat::Text) {
        terminal::print_text(&page::summary(title, total, terminal::style()))?;
    }
    if result.is_gone {
        terminal::say(&format!("{title} has ended"));
        return Ok(Exit::Failed);
    }
    Ok(Exit::Valid)
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
