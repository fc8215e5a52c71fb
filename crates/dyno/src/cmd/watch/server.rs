//! Finds the processes that `dyno watch` observes. The search is repeated at each sample.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use dyno_archive::{Party, Sample};
use dyno_observer::cgroup::Group;
use dyno_observer::kernel_probes::{
    CallCounting, ObservationChoice, PartyMonitor, ProcessObserver,
};
use dyno_observer::{Files, Processes, Reads, Sampler, Scope, proc, sample, sockets};
use dyno_report::terminal::escape_line;

use crate::cli::WatchArgs;
use crate::exit::usage_error;
use crate::terminal;

/// A server that dyno did not start.
pub(super) struct WatchedServer {
    pub(super) title: String,
    sampler: Sampler,
    /// The port that identifies the server. Every process that listens on it belongs to the server.
    port: Option<u16>,
    /// Processes so far, each with its start time in clock ticks, for a server without a control
    /// group. A process whose parent has ended stays. A process that reuses a PID is not included.
    known: BTreeMap<u32, u64>,
    /// Files that stay open between samples.
    files: Files,
}

impl WatchedServer {
    pub(super) fn find(args: &WatchArgs) -> anyhow::Result<WatchedServer> {
        let new_server = |title: String, sampler: Sampler, port: Option<u16>| WatchedServer {
            title,
            sampler,
            port,
            known: BTreeMap::new(),
            files: Files::default(),
        };
        let trees = || Sampler { group: Group::default(), processes: Processes::Trees(Vec::new()) };
        let mut server = match (args.target.pid, args.target.port, &args.target.cgroup) {
            (Some(pid), ..) => {
                let mut server = new_server(format!("process {pid}"), trees(), None);
                server.add_processes([pid]);
                server
            }
            (_, Some(port), _) => new_server(format!("port {port}"), trees(), Some(port)),
            (_, _, Some(folder)) => {
                let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
                let group = Group::from_folder(folder, &mounts).map_err(usage_error)?;
                let sampler = Sampler { group, processes: Processes::Trees(Vec::new()) };
                new_server(
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

    /// Adds processes, each with its start time.
    fn add_processes(&mut self, pids: impl IntoIterator<Item = u32>) {
        let began = |pid| Some((pid, proc::Stat::read(pid)?.began_ticks));
        self.known.extend(pids.into_iter().filter_map(began));
    }

    /// Finds new processes of a server without a control group. `monitor`: the eBPF programs, which
    /// also know processes whose parent ended between two samples.
    fn find_new_processes(&mut self, monitor: Option<&PartyMonitor>) {
        if !self.sampler.group.is_empty() {
            return;
        }
        self.add_processes(monitor.map(PartyMonitor::pids).unwrap_or_default());
        self.known.retain(|pid, began| {
            proc::Stat::read(*pid).is_some_and(|now| now.began_ticks == *began)
        });
        if let Some(port) = self.port {
            self.add_processes(proc::pids_listening_on(port));
        }
        let roots: Vec<u32> = self.known.keys().copied().collect();
        self.add_processes(proc::trees(&roots));
        self.sampler.processes = Processes::Trees(self.known.keys().copied().collect());
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

    pub(super) fn sample(&mut self, monitor: Option<&PartyMonitor>) -> Sample {
        self.find_new_processes(monitor);
        let scope = Scope { party: Party::SUBJECT, sampler: &self.sampler, monitor };
        let mut sample = sample(&[scope], Reads::All, &self.files);
        sample.party_use_mut(Party::SUBJECT).sockets = sockets::read(&self.sampler.pids());
        sample
    }
}
