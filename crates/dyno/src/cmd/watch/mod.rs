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
use crate::exit::{Exit, bad};
use crate::result_file;
use crate::terminal::{self, ThirdInterrupt};
use server::WatchedServer;

/// Interval between two checks for an interrupt.
const GLANCE: Duration = Duration::from_millis(20);

/// Largest number of samples on a page. Pairs of samples are merged above it.
const MAX_LOOKS: usize = 2000;

pub fn run(args: &WatchArgs) -> anyhow::Result<Exit> {
    if args.report.as_deref() == Some(Path::new("-")) {
        return Err(bad(
            "--report: must be a file, because standard output has the samples\nhint: name a file, \
             such as --report server.html",
        ));
    }
    let mut server = WatchedServer::find(args)?;
    let page = args.report.as_deref().map(Page::begin).transpose()?;
    let served = args.metrics.map(|addr| MetricsPage::begin(addr, "# EOF\n".into())).transpose()?;
    let interrupts = terminal::catch_interrupts("ending", ThirdInterrupt::Ends)?;
    let inside = if args.outside { None } else { server.look_inside() };
    server.print_gaps(
        inside.as_ref().is_some_and(|watching| watching.observer().refusal().is_none()),
    );
    if args.format == PlanFormat::Text {
        terminal::say(&format!("watching {} (Ctrl-C ends it)", server.title));
    }
    let (to_counter, stop_counter) = mpsc::channel::<()>();
    let counted = inside.clone();
    thread::scope(|scope| {
        scope.spawn(move || count(counted, &stop_counter));
        let mut seen = WatchResult::default();
        let watched =
            watch(&mut server, &mut seen, args, inside.as_deref(), served.as_ref(), &interrupts);
        drop(to_counter);
        // The page is written after an error, too.
        let written = page.map_or(Ok(()), |page| page.end(&server.title, &seen));
        watched.and(written)?;
        finish(args, &server.title, &seen)
    })
}

/// Counts system calls until `stop` has a message.
fn count(inside: Option<Arc<PartyMonitor>>, stop: &mpsc::Receiver<()>) {
    let mut wait =
        |pause| !matches!(stop.recv_timeout(pause), Err(mpsc::RecvTimeoutError::Timeout));
    let counting = inside.and_then(|inside| CallCounter::new(vec![vec![inside]]));
    if let Some(Err(why)) = counting.map(|mut counting| counting.run(&|_| None, &mut wait)) {
        terminal::say(&format!("system calls are no longer counted: {why}"));
    }
}

/// All that was seen.
#[derive(Default)]
struct WatchResult {
    whole: Option<WatchRecord>,
    /// Samples for the page; empty without one.
    looks: Vec<WatchRecord>,
    /// Whether the server ended during the observation.
    is_gone: bool,
}

impl WatchResult {
    fn add(&mut self, look: WatchRecord, is_for_page: bool) {
        self.whole = Some(match self.whole.take() {
            Some(whole) => whole.and(&look),
            None => look.clone(),
        });
        if is_for_page {
            self.looks.push(look);
        }
        if self.looks.len() > MAX_LOOKS {
            let pairs = self.looks.chunks(2).map(|pair| match pair {
                [one, next] => one.clone().and(next),
                rest => rest[0].clone(),
            });
            self.looks = pairs.collect();
        }
    }
}

/// Samples the server until it ends, the time is over, or the user interrupts.
fn watch(
    server: &mut WatchedServer,
    seen: &mut WatchResult,
    args: &WatchArgs,
    inside: Option<&PartyMonitor>,
    served: Option<&MetricsPage>,
    interrupts: &Interrupts,
) -> anyhow::Result<()> {
    let first = server.look(inside);
    let began_ns = first.at_ns;
    let ends_ns = args.duration.map(|duration| began_ns + duration.0);
    let mut last = first;
    loop {
        let until_ns = next_look(began_ns, last.at_ns, args.interval.0);
        let until_ns = ends_ns.map_or(until_ns, |end| end.min(until_ns));
        while monotonic_ns() < until_ns && interrupts.count() == 0 {
            thread::sleep(
                GLANCE.min(Duration::from_nanos(until_ns.saturating_sub(monotonic_ns()))),
            );
        }
        let now = server.look(inside);
        seen.is_gone = now.party_use(Party::SUBJECT).is_none_or(|used| used.processes == 0);
        if seen.is_gone {
            return Ok(());
        }
        if let Some(look) = watch_record(began_ns, &last, &now) {
            let printed = print_look(args, &look, served);
            seen.add(look, args.report.is_some());
            printed?;
        }
        last = now;
        if interrupts.count() > 0 || ends_ns.is_some_and(|end| last.at_ns >= end) {
            return Ok(());
        }
    }
}

/// The time of the next look. Looks keep their interval however long one takes; a missed look is
/// skipped.
const fn next_look(began_ns: u64, last_ns: u64, interval_ns: u64) -> u64 {
    // Half of it later counts as the one that was meant: a look that came a little early is not
    // repeated at once.
    let done = (last_ns - began_ns + interval_ns / 2) / interval_ns;
    began_ns + (done + 1) * interval_ns
}

/// The page, to be written at the end.
struct Page<'a>(&'a Path);

impl Page<'_> {
    /// Checks that it can be written, before the server is observed.
    fn begin(path: &Path) -> anyhow::Result<Page<'_>> {
        result_file::check(path)?;
        Ok(Page(path))
    }

    fn end(self, title: &str, seen: &WatchResult) -> anyhow::Result<()> {
        let path = self.0.display();
        match &seen.whole {
            Some(whole) => {
                write_out(Some(self.0), &page::page(title, whole, &seen.looks))?;
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

/// Prints a look, and shows it at `/metrics`.
fn print_look(
    args: &WatchArgs,
    look: &WatchRecord,
    served: Option<&MetricsPage>,
) -> anyhow::Result<()> {
    if let Some(served) = served {
        served.show(page::openmetrics(look));
    }
    match args.format {
        PlanFormat::Text => terminal::print_text(&(page::line(look) + "\n")),
        PlanFormat::Json => terminal::print(&(serde_json::to_string(look)? + "\n")),
    }
}

fn finish(args: &WatchArgs, title: &str, seen: &WatchResult) -> anyhow::Result<Exit> {
    if let Some(whole) = seen.whole.as_ref().filter(|_| args.format == PlanFormat::Text) {
        terminal::print_text(&page::summary(title, whole, terminal::style()))?;
    }
    if seen.is_gone {
        terminal::say(&format!("{title} has ended"));
        return Ok(Exit::Failed);
    }
    Ok(Exit::Valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_that_is_missed_is_not_made_up_for() {
        let next = |last| next_look(1000, last, 100);
        assert_eq!([next(1000), next(1100), next(1103)], [1100, 1200, 1200]);
        assert_eq!([next(1199), next(4030)], [1300, 4100]);
    }

    #[test]
    fn of_many_looks_two_become_one() {
        let mut seen = WatchResult::default();
        let look = |i: usize| WatchRecord {
            start_s: i as f64,
            end_s: i as f64 + 1.0,
            cpus: Some(0.5),
            ..WatchRecord::default()
        };
        (0..=MAX_LOOKS).for_each(|i| seen.add(look(i), true));
        assert_eq!((seen.looks.len(), seen.looks[0].end_s), (MAX_LOOKS / 2 + 1, 2.0));
        assert_eq!((seen.whole.unwrap().end_s, seen.looks.last().unwrap().end_s), (2001.0, 2001.0));
        let mut without = WatchResult::default();
        (0..3).for_each(|i| without.add(look(i), false));
        assert!(without.looks.is_empty() && without.whole.is_some());
    }
}
