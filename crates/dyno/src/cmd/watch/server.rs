//! Finds the processes that `dyno watch` observes. The search is repeated at each sample.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use dyno_model::{Party, Sample};
use dyno_observer::cgroup::Group;
use dyno_observer::kernel_probes::{
    CallCounting, ObservationChoice, PartyMonitor, ProcessObserver,
};
use dyno_observer::{
    CounterSource, Files, Processes, Reads, Sampler, Scope, boot_ticks, proc, read_shared_memory,
    sample, sockets, tick_ns,
};
use dyno_report::terminal::escape_line;

use crate::cli::WatchArgs;
use crate::exit::usage_error;
use crate::terminal;

use super::orphans::OrphanCheck;

/// A server that dyno did not start.
pub(super) struct WatchedServer {
    pub(super) title: String,
    sampler: Sampler,
    /// The port that identifies the server. Every process that listens on it belongs to the server.
    port: Option<u16>,
    /// Processes so far, each with its start time in clock ticks, for a server without a control
    /// group. A process whose parent has ended stays. A process that reuses a PID is not included.
    known: BTreeMap<u32, u64>,
    /// Instant of the last search for processes, in clock ticks since the start of the machine.
    /// `None`: no search yet.
    searched_ticks: Option<u64>,
    /// The control group and the network namespaces of the last sample.
    source: CounterSource,
    /// Whether the message about several network namespaces was printed.
    has_reported_networks: bool,
    /// Detects children that other programs waited for.
    orphans: OrphanCheck,
    /// Whether the message about such children was printed.
    has_reported_orphans: bool,
    /// Files that stay open between samples.
    files: Files,
}

impl WatchedServer {
    pub(super) fn find(args: &WatchArgs) -> anyhow::Result<WatchedServer> {
        let trees = || Sampler { group: Group::default(), processes: Processes::Trees(Vec::new()) };
        let mut server = match (args.target.pid, args.target.port, &args.target.cgroup) {
            (Some(pid), ..) => {
                let mut server = WatchedServer::new(format!("process {pid}"), trees(), None);
                server.add_processes([pid]);
                server
            }
            (_, Some(port), _) => WatchedServer::new(format!("port {port}"), trees(), Some(port)),
            (_, _, Some(folder)) => {
                let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
                let group = Group::from_folder(folder, &mounts).map_err(usage_error)?;
                let sampler = Sampler { group, processes: Processes::Trees(Vec::new()) };
                WatchedServer::new(
                    format!("group {}", escape_line(&folder.display().to_string())),
                    sampler,
                    None,
                )
            }
            (None, None, None) => unreachable!("clap requires --pid, --port or --cgroup"),
        };
        server.find_new_processes(None);
        let pids = server.sampler.pids();
        let Some(first) = pids.first() else { return Err(usage_error(server.missing_text(args))) };
        let name = proc::Stat::read(*first)
            .map_or_else(String::new, |stat| format!(" ({})", escape_line(&stat.name)));
        server.title.push_str(&name);
        Ok(server)
    }

    /// Returns a server without known processes.
    fn new(title: String, sampler: Sampler, port: Option<u16>) -> WatchedServer {
        WatchedServer {
            title,
            sampler,
            port,
            known: BTreeMap::new(),
            searched_ticks: None,
            source: CounterSource::default(),
            has_reported_networks: false,
            orphans: OrphanCheck::default(),
            has_reported_orphans: false,
            files: Files::default(),
        }
    }

    /// Adds processes, each with its start time.
    fn add_processes(&mut self, pids: impl IntoIterator<Item = u32>) {
        let began = |pid| Some((pid, proc::Stat::read(pid)?.began_ticks));
        self.known.extend(pids.into_iter().filter_map(began));
    }

    /// Finds new processes of a server without a control group. Returns whether a process joined
    /// whose earlier use belongs to no sample. `monitor`: the eBPF programs, which also know
    /// processes whose parent ended between two samples.
    fn find_new_processes(&mut self, monitor: Option<&PartyMonitor>) -> bool {
        if !self.sampler.group.is_empty() {
            return false;
        }
        // Read before the search: a process that starts during the search is compared with this
        // instant at the next one.
        let now_ticks = boot_ticks();
        self.add_processes(monitor.map(PartyMonitor::pids).unwrap_or_default());
        self.known.retain(|pid, began| {
            proc::Stat::read(*pid).is_some_and(|now| now.began_ticks == *began)
        });
        self.add_descendants();
        let listeners = self.port.map(proc::pids_listening_on).unwrap_or_default();
        let began = |pid: u32| Some((pid, proc::Stat::read(pid)?.began_ticks));
        let mut listeners: Vec<(u32, u64)> = listeners.into_iter().filter_map(began).collect();
        listeners.retain(|(pid, began)| self.known.get(pid) != Some(began));
        if !listeners.is_empty() {
            self.known.extend(listeners.iter().copied());
            self.add_descendants();
        }
        let has_joined = self.searched_ticks.is_some_and(|ticks| has_run_before(&listeners, ticks));
        self.searched_ticks = Some(now_ticks);
        self.sampler.processes = Processes::Trees(self.known.keys().copied().collect());
        has_joined
    }

    /// Adds the descendants of the known processes.
    fn add_descendants(&mut self) {
        let roots: Vec<u32> = self.known.keys().copied().collect();
        self.add_processes(proc::trees(&roots));
    }

    /// Returns the error for a server that was not found.
    fn missing_text(&self, args: &WatchArgs) -> String {
        let is_threaded = |folder: &Path| {
            std::fs::read_to_string(folder.join("cgroup.type"))
                .is_ok_and(|text| text.trim() == "threaded")
        };
        match (args.target.port, &args.target.cgroup) {
            (Some(port), _) => format!(
                "--port {port}: no visible process listens on this port in this network \
                 namespace\nhint: start the server first, or run dyno as root to see processes of \
                 other users\nhint: if the server is in another network namespace, such as a \
                 container's, use --pid or --cgroup"
            ),
            (_, Some(folder)) if is_threaded(folder) => format!(
                "{}: is a threaded group, which has threads but no processes\nhint: name the \
                 parent group",
                self.title
            ),
            (_, Some(_)) => format!(
                "{}: has no processes\nhint: start the server before `dyno watch`",
                self.title
            ),
            _ => format!(
                "{}: not found\nhint: `dyno watch -h` explains how to name a server",
                self.title
            ),
        }
    }

    /// Starts the eBPF programs. `None`: the programs are unavailable, and the reason is printed.
    pub(super) fn start_probes(&self) -> Option<Arc<PartyMonitor>> {
        let choice = ObservationChoice { states: true, modes: false, calls: CallCounting::Sliced };
        let pids = self.sampler.pids();
        let watching = ProcessObserver::load(choice)
            .map_err(|refusal| format!("{}\nhint: {}", refusal.reason, refusal.hint))
            .and_then(|observer| observer.watch(*pids.first().ok_or("the process has ended")?));
        match watching {
            Ok(watching) => {
                watching.add(&pids);
                if let Some(refusal) = watching.observer().refusal() {
                    terminal::say(&format!(
                        "waits of threads and results of system calls are unknown: {}\nhint: {}",
                        refusal.reason, refusal.hint
                    ));
                }
                Some(Arc::new(watching))
            }
            Err(message) => {
                terminal::say(&format!("system calls and waits of threads are unknown: {message}"));
                None
            }
        }
    }

    /// Prints which measurements are missing, besides those of the eBPF programs. `has_probes`:
    /// these programs are running.
    pub(super) fn print_gaps(&self, has_probes: bool) {
        // Without a control group, or in a group of version 1 without `cpuacct`, only the eBPF
        // programs count the CPU time of ended processes.
        if !has_probes && self.sampler.group.cpu_ns().is_none() {
            terminal::say(
                "the CPU time of processes and threads that end between samples is unknown",
            );
        }
        let may_see = |pid: &u32| std::fs::read_dir(format!("/proc/{pid}/fd")).is_ok();
        if !self.sampler.pids().iter().any(may_see) {
            terminal::say(
                "the sockets of the server are unknown: permission denied\nhint: run dyno \
                 as root",
            );
        }
    }

    /// Takes a sample.
    pub(super) fn sample(&mut self, monitor: Option<&PartyMonitor>) -> Sample {
        let has_joined = self.find_new_processes(monitor);
        self.source = self.current_source();
        let scope = Scope { party: Party::SUBJECT, sampler: &self.sampler, monitor };
        let mut sample = sample(&[scope], Reads::All, &self.files);
        read_shared_memory(&[scope], &mut sample);
        let used = sample.party_use_mut(Party::SUBJECT);
        used.sockets = sockets::read(&self.sampler.pids());
        used.has_joined |= has_joined;
        // The probes and a group that counts CPU time also know children that others waited for.
        let is_counted = used.cgroup.as_ref().is_some_and(|group| group.cpu_ns.is_some());
        if monitor.is_none() && !is_counted && self.orphans.lacks_orphans(used, tick_ns()) {
            // The CPU time of such a child is as unknown as that of a joined process.
            used.has_joined = true;
            self.report_orphans();
        }
        if self.source.networks.len() > 1 && !self.has_reported_networks {
            self.has_reported_networks = true;
            terminal::say(
                "TCP counters of the network are unknown: the processes of the server are in \
                 several network namespaces\nhint: watch the processes of one namespace with --pid",
            );
        }
        sample
    }

    /// Prints once why CPU time is unknown.
    fn report_orphans(&mut self) {
        if !std::mem::replace(&mut self.has_reported_orphans, true) {
            terminal::say(
                "CPU time is unknown: the server starts processes that end, and another program \
                 may have waited for them\nhint: run dyno as root without --outside, or watch the \
                 server's control group with --cgroup",
            );
        }
    }

    /// Takes the sample after `last`. If the control group or the network namespace was replaced
    /// since then, its counters began at 0 again, so they are removed from `last`.
    pub(super) fn sample_after(
        &mut self,
        last: &mut Sample,
        monitor: Option<&PartyMonitor>,
    ) -> Sample {
        let earlier = self.source.clone();
        let mut next = self.sample(monitor);
        // Read again, because the group may have been replaced during the sample.
        let is_replaced =
            self.source.group != earlier.group || self.current_source().group != earlier.group;
        let used = last.party_use_mut(Party::SUBJECT);
        if is_replaced {
            used.cgroup = None;
            // The processes of the new group have no earlier sample.
            next.party_use_mut(Party::SUBJECT).has_joined = true;
        }
        if is_replaced && self.source.group.iter().all(Option::is_some) {
            terminal::say(
                "the control group was replaced by a new one: CPU time and other counters of this \
                 interval are unknown",
            );
        }
        if self.source.networks != earlier.networks {
            used.network = None;
        }
        next
    }

    fn current_source(&self) -> CounterSource {
        CounterSource::read(&self.sampler.group, &self.sampler.pids())
    }
}

/// Whether one of these new processes ran before the last search, so that its earlier use would be
/// counted in this interval. `processes`: PIDs with their start times in clock ticks.
fn has_run_before(processes: &[(u32, u64)], searched_ticks: u64) -> bool {
    processes.iter().any(|(_, began)| *began <= searched_ticks)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::process::{Child, Command};

    use clap::Parser as _;
    use dyno_analysis::server::watch::watch_record;

    use super::*;
    use crate::cli::{Cli, Command as DynoCommand};

    fn sleep() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn missing_server_is_reported_by_name() {
        let refusal = |target: &[&str]| {
            let words = ["dyno", "watch"].iter().chain(target);
            let DynoCommand::Watch(args) = Cli::parse_from(words).command else { panic!() };
            WatchedServer::find(&args).map(|server| server.title).unwrap_err().to_string()
        };
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().to_str().unwrap();
        for (target, expected) in [
            (["--port", "1"], "no visible process listens"),
            (["--port", "1"], "in another network namespace"),
            (["--pid", "4194304"], "process 4194304: not found"),
            (["--cgroup", folder], "must be the folder of a control group"),
        ] {
            let error = refusal(&target);
            assert!(error.contains(expected), "{target:?}: {error}");
        }
    }

    #[test]
    fn process_from_before_last_search_has_run_before() {
        assert!(has_run_before(&[(7, 201), (8, 50)], 200));
        assert!(has_run_before(&[(8, 200)], 200), "the tick of the search");
        assert!(!has_run_before(&[(8, 201)], 200) && !has_run_before(&[], 200));
    }

    /// This test's process begins to listen on the port of a server that is watched already.
    #[test]
    fn joined_listener_has_unknown_cpu_time() {
        let child = sleep();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let trees = Sampler { group: Group::default(), processes: Processes::Trees(Vec::new()) };
        let mut server = WatchedServer::new(String::new(), trees, None);
        server.add_processes([child.id()]);
        let mut first = server.sample(None);
        server.port = Some(port);
        let mut second = server.sample_after(&mut first, None);
        let third = server.sample_after(&mut second, None);
        end(child);
        drop(listener);
        let joined = |sample: &Sample| sample.party_use(Party::SUBJECT).unwrap().has_joined;
        assert_eq!([&first, &second, &third].map(joined), [false, true, false]);
        assert_eq!(watch_record(0, &first, &second).unwrap().cpus, None);
    }

    /// The new group has used more CPU time than the old one, so no counter decreases.
    #[test]
    fn replaced_control_group_has_unknown_cpu_time() {
        let (child, root) = (sleep(), tempfile::tempdir().unwrap());
        let folder = root.path().join("group");
        let create = |cpu_us: u64| {
            std::fs::create_dir(&folder).unwrap();
            let text = format!("usage_usec {cpu_us}\nuser_usec {cpu_us}\nsystem_usec 0\n");
            std::fs::write(folder.join("cpu.stat"), text).unwrap();
            std::fs::write(folder.join("cgroup.procs"), child.id().to_string()).unwrap();
        };
        create(2_000_000);
        let group = Group { v2: Some(folder.clone()), ..Group::default() };
        let sampler = Sampler { group, processes: Processes::Trees(Vec::new()) };
        let mut server = WatchedServer::new(String::new(), sampler, None);
        let mut first = server.sample(None);
        let mut second = server.sample_after(&mut first, None);
        assert_eq!(watch_record(0, &first, &second).unwrap().cpus, Some(0.0));
        std::fs::rename(&folder, root.path().join("old")).unwrap();
        create(3_000_000);
        // The kernel closes the files of a removed group.
        server.files = Files::default();
        let mut third = server.sample_after(&mut second, None);
        assert_eq!(watch_record(0, &second, &third).unwrap().cpus, None);
        let fourth = server.sample_after(&mut third, None);
        end(child);
        assert_eq!(watch_record(0, &third, &fourth).unwrap().cpus, Some(0.0));
    }
}
