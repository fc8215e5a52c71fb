//! One running subject, from spawn to the end of its last process.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use dyno_archive::start::StopRecord;
use dyno_observer::Processes;
use dyno_observer::cgroup::Group;
use dyno_observer::{Sampler, monotonic_ns, proc};
use serde::Deserialize;

use crate::environment::Environment;
use crate::folder;
use crate::group::{self, Groups};
use crate::guard::Guard;
use crate::limits::GROUP;
use crate::log::{Keeper, Log};
use crate::minder::{self, Descendants, MindedCommand};
use crate::supervision::Patience;
use crate::sys::{self, ChildSetup};

/// Environment variable by which the guard knows the processes of a start even if they leave their
/// session and there is no control group that would hold them. Its value is the name of the start's
/// workspace.
pub const COOKIE: &str = "DYNO_START";

/// Name of the file in the working folder that holds what a subject prints.
pub const LOG: &str = "subject.log";

/// How the names of other files begin that dyno itself makes in the working folder.
pub const OWN: &str = "dyno-";

/// The signal that asks a subject to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    #[default]
    Term,
    Int,
    Quit,
}

impl Signal {
    /// The signal's number in the kernel.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Signal::Term => libc::SIGTERM,
            Signal::Int => libc::SIGINT,
            Signal::Quit => libc::SIGQUIT,
        }
    }
}

/// A start: the command, its place and its settings.
#[derive(Debug)]
pub struct ProcessSpec {
    pub command: Vec<String>,
    pub environment: Environment,
    pub workspace: Workspace,
    /// Folder that it is started in.
    pub folder: PathBuf,
    /// CPUs that the processes may use; empty: all.
    pub cpus: Vec<u32>,
    /// Soft and hard limit of open files.
    pub open_files: u64,
}

/// A working folder and a control group, removed when dropped. The guard knows of both from before
/// they are made.
#[derive(Debug)]
pub struct Workspace {
    /// Unique on this machine: the name of the working folder and of the group.
    pub name: String,
    pub work: PathBuf,
    pub group: Group,
    guard: Guard,
}

impl Workspace {
    pub fn make(start: usize, groups: &Groups, guard: &Guard) -> io::Result<Workspace> {
        let work = folder::make(&start.to_string(), guard)?;
        let name =
            work.file_name().expect("it was made with a name").to_string_lossy().into_owned();
        let mut workspace = Workspace { name, work, group: Group::default(), guard: guard.clone() };
        groups.folders(&workspace.name).iter().for_each(|folder| guard.watch_group(folder));
        workspace.group = groups.make(&workspace.name)?;
        Ok(workspace)
    }

    /// Returns whether nothing is left.
    fn remove(&self) -> bool {
        let gone = group::destroy(&self.group, GROUP);
        let _ = fs::remove_dir_all(&self.work);
        gone && !self.work.exists()
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // The guard still has the processes that are left, and tries again when dyno ends.
        if self.remove() {
            self.group.folders().for_each(|folder| self.guard.forget_group(folder));
            self.guard.forget_folder(&self.work);
        }
    }
}

/// A subject's processes. Dropping it kills them and removes their workspace.
#[derive(Debug)]
pub struct Process {
    minded: MindedCommand,
    /// Exit status of the first process; `None`: it still ran at the last check.
    ended: Option<ExitStatus>,
    /// Instant of exec on the monotonic clock.
    pub exec_ns: u64,
    pub sampler: Sampler,
    log: Arc<Log>,
    environment: Environment,
    _keeper: Keeper,
    workspace: Workspace,
    gone: bool,
}

impl Process {
    /// Starts the command. From here on the guard knows of it.
    pub fn start(spec: ProcessSpec) -> io::Result<Process> {
        let workspace = spec.workspace;
        let log = Arc::new(Log::create(&workspace.work.join(LOG))?);
        let mut command = Command::new(&spec.command[0]);
        spec.environment.apply(&mut command);
        command.args(&spec.command[1..]).env(COOKIE, &workspace.name).current_dir(&spec.folder);
        command.stdin(Stdio::null()).stdout(log.stdio()?).stderr(log.stdio()?);
        let procs_files = workspace
            .group
            .folders()
            .map(|f| ChildSetup::procs_file(&f.join("cgroup.procs")))
            .collect();
        let setup = ChildSetup { procs_files, cpus: spec.cpus, open_files: Some(spec.open_files) };
        workspace.guard.watch_cookie(&workspace.name);
        let minded = minder::spawn(&mut command, setup, Descendants::Stay)?;
        workspace.guard.watch_session(minded.first);
        let (exec_ns, processes) = (minded.began_ns, Processes::Descendants(minded.minder()));
        let sampler = Sampler { group: workspace.group.clone(), processes };
        let _keeper = Keeper::new(&log);
        Ok(Process {
            minded,
            ended: None,
            exec_ns,
            sampler,
            log,
            environment: spec.environment,
            _keeper,
            workspace,
            gone: false,
        })
    }

    /// The limit of open files as the kernel has it for the first process.
    #[must_use]
    pub fn open_files(&self) -> Option<String> {
        self.kernel_says("limits", "Max open files")
    }

    /// The CPUs that the kernel lets the first process use.
    #[must_use]
    pub fn allowed_cpus(&self) -> Option<String> {
        self.kernel_says("status", "Cpus_allowed_list:")
    }

    /// The first word after `key` in a file of the first process.
    fn kernel_says(&self, file: &str, key: &str) -> Option<String> {
        let text = fs::read_to_string(format!("/proc/{}/{file}", self.pid())).ok()?;
        let line = text.lines().find_map(|l| l.strip_prefix(key))?;
        line.split_ascii_whitespace().next().map(String::from)
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.minded.first
    }

    /// Its living processes: those of its control group, and all that descend from the first one,
    /// wherever they have moved.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        let mut pids = self.sampler.pids();
        let below = proc::descendants_of(self.minded.minder());
        pids.extend(below.into_iter().filter(|pid| !pids.contains(pid)).collect::<Vec<_>>());
        pids
    }

    /// Whether a process is one of its own.
    #[must_use]
    pub fn owns(&self, pid: u32) -> bool {
        self.pids().contains(&pid) || carries(pid, &self.workspace.name)
    }

    /// Moves processes back that have left the control group: its counters and limits must include
    /// all of them.
    pub fn move_back_strays(&self) {
        let all = proc::descendants_of(self.minded.minder());
        for folder in self.workspace.group.folders() {
            let inside = group::from_folders([folder.to_path_buf()]).pids();
            for pid in all.iter().filter(|pid| !inside.contains(pid)) {
                // One that has ended meanwhile is not moved.
                let _ = fs::write(folder.join("cgroup.procs"), pid.to_string());
            }
        }
    }

    /// How the first process ended, if it has.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.minded.command_status();
        }
        self.ended
    }

    /// Where it writes what it prints.
    #[must_use]
    pub fn log(&self) -> Arc<Log> {
        Arc::clone(&self.log)
    }

    /// The last lines that the subject wrote, without the secrets of its environment.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.environment.without_secrets(self.log.tail(20))
    }

    /// How often the memory limit has killed one of its processes.
    #[must_use]
    pub fn oom_kills(&self) -> u64 {
        self.sampler.group.counters().oom_kills.unwrap_or(0)
    }

    /// Asks all its processes to stop, like a service manager, waits until the last has ended or
    /// the deadline has passed, then kills the rest. `None`: it had ended by itself before.
    /// `patience`: longest wait of the user.
    pub fn stop(
        mut self,
        signal: Signal,
        deadline_ns: u64,
        patience: impl Fn() -> Patience,
    ) -> Option<StopRecord> {
        self.end(signal, deadline_ns, patience)
    }

    /// The same; returns also how its first process ended, unless dyno killed it.
    pub fn stop_and_see(
        mut self,
        signal: Signal,
        deadline_ns: u64,
        patience: impl Fn() -> Patience,
    ) -> Option<(StopRecord, Option<ExitStatus>)> {
        let stop = self.end(signal, deadline_ns, patience)?;
        Some((stop, self.ended.filter(|_| !stop.killed)))
    }

    fn end(
        &mut self,
        signal: Signal,
        deadline_ns: u64,
        patience: impl Fn() -> Patience,
    ) -> Option<StopRecord> {
        if self.exit_status().is_some() {
            return None;
        }
        let number = signal.number();
        // Stop time begins with the signal.
        let began = monotonic_ns();
        self.pids().into_iter().for_each(|pid| sys::kill(pid, number));
        let all_ended = loop {
            // The group's own list is the shorter way, and the whole is looked at once that is
            // empty.
            if self.exit_status().is_some()
                && self.sampler.pids().is_empty()
                && self.pids().is_empty()
            {
                break true;
            }
            if monotonic_ns() - began > patience().limit_ns(deadline_ns) {
                break false;
            }
            std::thread::sleep(Duration::from_micros(500));
        };
        // And ends when the last process is seen to be gone.
        let took_ns = monotonic_ns() - began;
        self.clean_up();
        Some(StopRecord { took_ns, killed: !all_ended })
    }

    /// Kills and reaps the remaining processes, and removes the workspace.
    fn clean_up(&mut self) {
        if std::mem::replace(&mut self.gone, true) {
            return;
        }
        let session = self.pid();
        self.minded.end();
        // Processes that a minder did not end, because it was killed itself.
        end_session(session);
        end_cookie(&self.workspace.name);
        self.workspace.guard.forget_session(session);
        self.workspace.guard.forget_cookie(&self.workspace.name);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.clean_up();
    }
}

/// Kills the processes of a session until none is left.
pub(crate) fn end_session(session: u32) {
    for _ in 0..500 {
        let pids = proc::session_pids(session);
        if pids.is_empty() {
            return;
        }
        pids.iter().for_each(|&pid| sys::kill(pid, libc::SIGKILL));
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Kills the processes that carry a start's name in their environment.
pub(crate) fn end_cookie(name: &str) {
    for _ in 0..100 {
        let pids: Vec<u32> =
            proc::all_pids().into_iter().filter(|pid| carries(*pid, name)).collect();
        if pids.is_empty() {
            return;
        }
        pids.iter().for_each(|&pid| sys::kill(pid, libc::SIGKILL));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process carries a start's name in its environment.
fn carries(pid: u32, name: &str) -> bool {
    let wanted = format!("{COOKIE}={name}");
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|&b| b == 0).any(|variable| variable == wanted.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::path::Path;

    use dyno_observer::cgroup::Layout;

    use crate::environment::DynoVariables;
    use crate::limits::GROUP_GLANCE;
    use crate::reasons::not_run;

    /// A server that is a shell script, in no control group.
    fn start(script: &str, groups: &Groups) -> Process {
        let guard = Guard::start().unwrap();
        let workspace = Workspace::make(0, groups, &guard).unwrap();
        let environment = Environment::for_tool(&DynoVariables::read(), &[], &workspace.work);
        let command = ["sh", "-c", script].map(String::from).to_vec();
        let folder = workspace.work.clone();
        let spec =
            ProcessSpec { command, environment, workspace, folder, cpus: vec![], open_files: 256 };
        Process::start(spec).unwrap()
    }

    fn no_groups() -> Groups {
        Groups::prepare(Layout::default(), &Guard::start().unwrap())
    }

    fn waited_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        for _ in 0..12_000 {
            if let Some(seen) = look() {
                return seen;
            }
            std::thread::sleep(GROUP_GLANCE);
        }
        panic!("{what} never came")
    }

    fn daemon(process: &Process) -> u32 {
        let note = process.workspace.work.join("daemon");
        waited_for("the daemon", || fs::read_to_string(&note).ok()?.trim().parse().ok())
    }

    /// A daemon: no parent, a session of its own, and nothing in its environment by which it could
    /// be known.
    const DAEMON: &str =
        "(setsid env -i sh -c 'echo $$ >daemon.new; mv daemon.new daemon; exec sleep 98751' &)";

    fn runs(pid: u32) -> bool {
        proc::Stat::read(pid).is_some_and(|stat| !stat.is_dead())
    }

    #[test]
    fn daemon_without_group_session_or_cookie_is_found_and_ended() {
        let process = start(&format!("{DAEMON}; exec sleep 98752"), &no_groups());
        let daemon = daemon(&process);
        assert_ne!(proc::Stat::read(daemon).unwrap().session, process.pid());
        assert!(!carries(daemon, &process.workspace.name));
        assert!(process.owns(daemon) && process.sampler.pids().contains(&daemon));
        assert!(!process.owns(std::process::id()));
        // It has not ended by the signal alone.
        let stop = process.stop(Signal::Term, 60_000_000_000, || Patience::Whole).unwrap();
        assert!(!stop.killed && !runs(daemon));
    }

    #[test]
    fn dropped_server_takes_its_daemon_along() {
        let process = start(&format!("{DAEMON}; exec sleep 98753"), &no_groups());
        let daemon = daemon(&process);
        drop(process);
        assert!(!runs(daemon));
    }

    #[test]
    fn workers_go_on_after_the_first_process_until_they_are_ended() {
        let mut process =
            start(&format!("{DAEMON}; until [ -e daemon ]; do :; done; exit 7"), &no_groups());
        let daemon = daemon(&process);
        let status = waited_for("its end", || process.exit_status());
        assert_eq!(status.code(), Some(7));
        assert!(runs(daemon));
        assert!(process.stop(Signal::Term, 0, || Patience::Whole).is_none());
        assert!(!runs(daemon));
    }

    #[test]
    fn process_that_left_its_group_is_moved_back_and_ended() {
        let groups = Groups::prepare(Layout::read(), &Guard::start().unwrap());
        if let Some(why) = groups.unusable() {
            return not_run(&format!("a server that leaves its control group: {why}"));
        }
        let process = start(&format!("{DAEMON}; exec sleep 98755"), &groups);
        let daemon = daemon(&process);
        let own: Vec<&Path> = process.workspace.group.folders().collect();
        for above in own.iter().map(|folder| folder.parent().unwrap()) {
            // A v2 group that hands controllers down takes no processes.
            let _ = fs::write(above.join("cgroup.procs"), daemon.to_string());
        }
        if process.sampler.pids().contains(&daemon) {
            return not_run(
                "a server that leaves its control group: the one above takes no processes",
            );
        }
        assert!(process.owns(daemon));
        process.move_back_strays();
        for folder in own {
            let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap();
            assert!(text.lines().any(|line| line == daemon.to_string()), "{}", folder.display());
        }
        process.stop(Signal::Term, 60_000_000_000, || Patience::Whole);
        assert!(!runs(daemon));
    }

    #[test]
    fn server_that_ignores_its_signal_is_killed_once_the_user_hurries() {
        let script =
            "trap '' TERM; echo $$ >daemon.new; mv daemon.new daemon; while :; do sleep 0.01; done";
        let process = start(script, &no_groups());
        daemon(&process);
        let hour = 3_600_000_000_000;
        let stop = process.stop(Signal::Term, hour, || Patience::None).unwrap();
        assert!(stop.killed);
    }
}
