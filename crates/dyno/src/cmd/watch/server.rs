//! Whom `dyno watch` watches: found at the beginning, and looked for again at each look.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use dyno_archive::{Party, Sample};
use dyno_observer::cgroup::Group;
use dyno_observer::kernel_probes::{CallCounting, ObservationChoice, ProcessObserver, Watching};
use dyno_observer::{Files, Processes, Reads, Sampler, Scope, proc, sample, sockets};
use dyno_report::terminal::line;

use crate::cli::WatchArgs;
use crate::exit::bad;
use crate::terminal;

/// A server that somebody else started.
pub(super) struct WatchedServer {
    pub(super) title: String,
    sampler: Sampler,
    /// The port by which it is known: every process that listens there belongs to it.
    port: Option<u16>,
    /// Where there is no group: its processes so far, with when each began, in ticks of the
    /// machine's clock. One whose parent has ended is still of the server; one that has the number
    /// of another is not.
    known: BTreeMap<u32, u64>,
    /// Files that stay open from one look to the next.
    files: Files,
}

impl WatchedServer {
    pub(super) fn find(args: &WatchArgs) -> anyhow::Result<WatchedServer> {
        let of = |title: String, sampler: Sampler, port: Option<u16>| WatchedServer {
            title,
            sampler,
            port,
            known: BTreeMap::new(),
            files: Files::default(),
        };
        let trees = || Sampler { group: Group::default(), processes: Processes::Trees(Vec::new()) };
        let mut server = match (args.whom.pid, args.whom.port, &args.whom.cgroup) {
            (Some(pid), ..) => {
                let mut server = of(format!("process {pid}"), trees(), None);
                server.learn([pid]);
                server
            }
            (_, Some(port), _) => of(format!("port {port}"), trees(), Some(port)),
            (_, _, Some(folder)) => {
                let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
                let group = Group::from_folder(folder, &mounts).map_err(bad)?;
                let sampler = Sampler { group, processes: Processes::Trees(Vec::new()) };
                of(format!("group {}", line(&folder.display().to_string())), sampler, None)
            }
            (None, None, None) => unreachable!("one of them is required"),
        };
        server.look_for_more(None);
        let pids = server.sampler.pids();
        let Some(first) = pids.first() else { return Err(bad(server.missing_text(args))) };
        let name = proc::Stat::read(*first)
            .map_or_else(String::new, |stat| format!(" ({})", line(&stat.name)));
        server.title.push_str(&name);
        Ok(server)
    }

    /// Remembers processes, each with when it began.
    fn learn(&mut self, pids: impl IntoIterator<Item = u32>) {
        let began = |pid| Some((pid, proc::Stat::read(pid)?.began_ticks));
        self.known.extend(pids.into_iter().filter_map(began));
    }

    /// Looks which processes it has by now, where it has no control group. The kernel's program
    /// knows of processes whose parent ended between two looks.
    fn look_for_more(&mut self, inside: Option<&Watching>) {
        if !self.sampler.group.is_empty() {
            return;
        }
        self.learn(inside.map(Watching::pids).unwrap_or_default());
        self.known.retain(|pid, began| {
            proc::Stat::read(*pid).is_some_and(|now| now.began_ticks == *began)
        });
        if let Some(port) = self.port {
            self.learn(proc::listening_on(port));
        }
        let roots: Vec<u32> = self.known.keys().copied().collect();
        self.learn(proc::trees(&roots));
        self.sampler.processes = Processes::Trees(self.known.keys().copied().collect());
    }

    fn missing_text(&self, args: &WatchArgs) -> String {
        let is_threaded = |folder: &Path| {
            std::fs::read_to_string(folder.join("cgroup.type"))
                .is_ok_and(|text| text.trim() == "threaded")
        };
        match (args.whom.port, &args.whom.cgroup) {
            (Some(port), _) => format!(
                "no visible process listens on port {port} of this network; start the server \
                 first, run dyno as root to see those of other users, and name one in a network of \
                 its own, as in a container, by --pid or --cgroup"
            ),
            (_, Some(folder)) if is_threaded(folder) => format!(
                "{} is a threaded group, which holds threads and no processes; name the group \
                 above it",
                self.title
            ),
            (_, Some(_)) => format!("there is no process in {}", self.title),
            _ => format!("there is no {}", self.title),
        }
    }

    /// Starts the probes inside it. `None`: they are unavailable, and the reason is printed.
    pub(super) fn look_inside(&self) -> Option<Arc<Watching>> {
        let wanted = ObservationChoice { states: true, modes: false, calls: CallCounting::Sliced };
        let pids = self.sampler.pids();
        let begun = ProcessObserver::load(wanted)
            .map_err(|refusal| format!("{}. {}", refusal.why, refusal.hint))
            .and_then(|inside| inside.watch(*pids.first().ok_or("it is gone")?));
        match begun {
            Ok(watching) => {
                watching.add(&pids);
                if let Some(refusal) = watching.inside().refusal() {
                    terminal::say(&format!(
                        "what threads wait for, and what system calls return, stay unknown: {}. {}",
                        refusal.why, refusal.hint
                    ));
                }
                Some(Arc::new(watching))
            }
            Err(why) => {
                terminal::say(&format!(
                    "system calls, and what threads wait for, stay unknown: {why}"
                ));
                None
            }
        }
    }

    /// Prints what else stays unknown. `is_inside`: the probes inside are running.
    pub(super) fn tell_gaps(&self, is_inside: bool) {
        if !is_inside && self.sampler.group.is_empty() {
            terminal::say("the CPU time of processes and threads that end meanwhile stays unknown");
        }
        let may_see = |pid: &u32| std::fs::read_dir(format!("/proc/{pid}/fd")).is_ok();
        if !self.sampler.pids().iter().any(may_see) {
            terminal::say("its sockets stay unknown: this user may not see them; run dyno as root");
        }
    }

    pub(super) fn look(&mut self, inside: Option<&Watching>) -> Sample {
        self.look_for_more(inside);
        let scope = Scope { party: Party::SUBJECT, sampler: &self.sampler, inside };
        let mut sample = sample(&[scope], Reads::All, &self.files);
        sample.party_use_mut(Party::SUBJECT).sockets = sockets::look(&self.sampler.pids());
        sample
    }
}
