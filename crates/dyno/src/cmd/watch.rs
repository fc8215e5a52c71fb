//! `dyno watch`: looks at a server that runs already, whoever loads it.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use dyno_analysis::server::watch::{Watched, watched};
use dyno_archive::{Party, Sample};
use dyno_launch::supervision::Interrupts;
use dyno_observer::cgroup::Group;
use dyno_observer::inside::{Calls, Counting, Inside, Wanted, Watching};
use dyno_observer::{Processes, Sampler, Scope, monotonic_ns, proc, sample, sockets};
use dyno_report::watch as page;

use super::load::{Served, check_file};
use super::report::write_out;
use crate::cli::{PlanFormat, WatchArgs};
use crate::exit::{Exit, bad};
use crate::terminal::{self, Third};

/// How often it is looked whether the user wants an end.
const GLANCE: Duration = Duration::from_millis(20);

pub fn run(args: &WatchArgs) -> anyhow::Result<Exit> {
    if let Some(report) = &args.report {
        // Before anything is watched.
        check_file(report)?;
    }
    let server = Server::find(args)?;
    let served = args.metrics.map(|addr| Served::begin(addr, "# EOF\n".into())).transpose()?;
    let interrupts = terminal::catch_interrupts("ending", Third::Ends)?;
    let inside = if args.outside { None } else { server.look_inside() };
    if args.format == PlanFormat::Text {
        terminal::say(&format!("watching {}; Ctrl-C ends it", server.title));
    }
    let (to_counter, stop_counter) = mpsc::channel::<()>();
    let counted = inside.clone();
    thread::scope(|scope| {
        scope.spawn(move || count(counted, &stop_counter));
        let seen = server.watch(args, inside.as_deref(), served.as_ref(), &interrupts);
        drop(to_counter);
        finish(args, &server.title, &seen?)
    })
}

/// Counts system calls until it is told to end.
fn count(inside: Option<Arc<Watching>>, stop: &mpsc::Receiver<()>) {
    let mut wait = |pause| !matches!(stop.recv_timeout(pause), Err(mpsc::RecvTimeoutError::Timeout));
    let counting = inside.and_then(|inside| Counting::new(vec![inside]));
    if let Some(Err(why)) = counting.map(|mut counting| counting.run(&|| None, &mut wait)) {
        terminal::say(&format!("system calls are counted no more: {why}"));
    }
}

/// All that was seen.
struct Seen {
    first: Sample,
    last: Sample,
    looks: Vec<Watched>,
    /// The server was gone before it was to end.
    is_gone: bool,
}

/// What is watched.
struct Server {
    title: String,
    sampler: Sampler,
}

impl Server {
    fn find(args: &WatchArgs) -> anyhow::Result<Server> {
        let trees = |roots: Vec<u32>| Sampler { group: Group::default(), processes: Processes::Trees(roots) };
        let server = match (args.whom.pid, args.whom.port, &args.whom.cgroup) {
            (Some(pid), ..) => Server { title: format!("process {pid}"), sampler: trees(vec![pid]) },
            (_, Some(port), _) => {
                Server { title: format!("port {port}"), sampler: trees(proc::listening_on(port)) }
            }
            (_, _, Some(folder)) => {
                let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
                let group = Group::at(folder, &mounts).map_err(bad)?;
                let processes = Processes::Trees(Vec::new());
                Server { title: format!("group {}", folder.display()), sampler: Sampler { group, processes } }
            }
            (None, None, None) => unreachable!("one of them is required"),
        };
        let pids = server.sampler.pids();
        let Some(first) = pids.first() else { return Err(bad(server.lacks(args))) };
        let name = proc::Stat::of(*first).map_or_else(String::new, |stat| format!(" ({})", stat.name));
        Ok(Server { title: format!("{}{name}", server.title), ..server })
    }

    fn lacks(&self, args: &WatchArgs) -> String {
        match args.whom.port {
            Some(port) => format!(
                "nobody that may be seen takes connections at port {port}; start the server first, and run dyno as root to see those of other users"
            ),
            None if args.whom.pid.is_some() => format!("there is no {}", self.title),
            None => format!("there is no process in {}", self.title),
        }
    }

    /// Begins to look inside it. `None`: nobody can, and the user was told why.
    fn look_inside(&self) -> Option<Arc<Watching>> {
        let wanted = Wanted { states: true, modes: false, calls: Calls::Sliced };
        let pids = self.sampler.pids();
        let begun = Inside::load(wanted)
            .map_err(|refusal| format!("{}. {}", refusal.why, refusal.mend))
            .and_then(|inside| inside.watch(*pids.first().ok_or("it is gone")?));
        match begun {
            Ok(watching) => {
                watching.add(&pids);
                Some(Arc::new(watching))
            }
            Err(why) => {
                terminal::say(&format!("system calls, and what threads wait for, stay unknown: {why}"));
                None
            }
        }
    }

    fn look(&self, inside: Option<&Watching>) -> Sample {
        let scope = Scope { party: Party::SUBJECT, sampler: &self.sampler, inside };
        let mut sample = sample(&[scope]);
        sample.of_mut(Party::SUBJECT).sockets = sockets::look(&self.sampler.pids());
        sample
    }

    fn watch(
        &self,
        args: &WatchArgs,
        inside: Option<&Watching>,
        served: Option<&Served>,
        interrupts: &Interrupts,
    ) -> anyhow::Result<Seen> {
        let first = self.look(inside);
        let ends_ns = args.duration.map(|duration| first.at_ns + duration.0);
        let mut seen = Seen { last: first.clone(), first, looks: Vec::new(), is_gone: false };
        loop {
            // Looks are as far apart as they are to be, whatever one takes.
            let next_ns = seen.first.at_ns + (seen.looks.len() as u64 + 1) * args.interval.0;
            let until_ns = ends_ns.map_or(next_ns, |end| end.min(next_ns));
            while monotonic_ns() < until_ns && interrupts.count() == 0 {
                thread::sleep(GLANCE.min(Duration::from_nanos(until_ns.saturating_sub(monotonic_ns()))));
            }
            let now = self.look(inside);
            seen.is_gone = now.of(Party::SUBJECT).is_none_or(|used| used.processes == 0);
            if seen.is_gone {
                return Ok(seen);
            }
            if let Some(look) = watched(seen.first.at_ns, &seen.last, &now) {
                tell(args, &look, served)?;
                seen.looks.push(look);
            }
            let at_ns = now.at_ns;
            seen.last = now;
            if interrupts.count() > 0 || ends_ns.is_some_and(|end| at_ns >= end) {
                return Ok(seen);
            }
        }
    }
}

fn tell(args: &WatchArgs, look: &Watched, served: Option<&Served>) -> anyhow::Result<()> {
    if let Some(served) = served {
        served.show(page::openmetrics(look));
    }
    match args.format {
        PlanFormat::Text => terminal::print(&(page::line(look) + "\n")),
        PlanFormat::Json => terminal::print(&(serde_json::to_string(look)? + "\n")),
    }
}

fn finish(args: &WatchArgs, title: &str, seen: &Seen) -> anyhow::Result<Exit> {
    if let Some(whole) = watched(seen.first.at_ns, &seen.first, &seen.last) {
        if args.format == PlanFormat::Text {
            terminal::print(&page::summary(title, &whole, terminal::style()))?;
        }
        if let Some(report) = &args.report {
            write_out(Some(Path::new(report)), &page::page(title, &whole, &seen.looks))?;
            terminal::say(&report.display().to_string());
        }
    }
    if seen.is_gone {
        terminal::say(&format!("{title} has ended"));
        return Ok(Exit::Failed);
    }
    Ok(Exit::Valid)
}
