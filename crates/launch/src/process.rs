//! Starts, observes and stops one server under test. All processes of the server are ended with it,
//! including daemons that left the session and the control group of the server.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use dyno_model::start::StopRecord;
use dyno_observer::Processes;
use dyno_observer::cgroup::{Group, OomKills};
use dyno_observer::proc::{ListenerOwner, Stat};
use dyno_observer::{RuntimeFiles, Sampler, monotonic_ns, proc};
use serde::Deserialize;

use crate::environment::Environment;
use crate::folder;
use crate::group::{self, Groups};
use crate::guard::Guard;
use crate::limits::GROUP_REMOVAL;
use crate::log::{Log, LogTrimmer};
use crate::minder::{self, Descendants, MindedCommand, StartError};
use crate::network;
use crate::supervision::Patience;
use crate::sys::{self, ChildSetup};

/// Environment variable that marks the processes of a start (one launch of a server), or of a tool.
/// The guard finds the processes by the value of the variable, the *cookie*, even if they left
/// their session and there is no control group. The cookie of a start is its workspace's name.
pub const COOKIE: &str = "DYNO_START";

/// Name of the file in the working folder with the output of a subject.
pub const LOG: &str = "subject.log";

/// Prefix of the names of other files that dyno creates in the working folder.
pub const RESERVED_PREFIX: &str = "dyno-";

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
    /// Returns the number of the signal.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Signal::Term => libc::SIGTERM,
            Signal::Int => libc::SIGINT,
            Signal::Quit => libc::SIGQUIT,
        }
    }
}

/// Command of a start, with its folders and settings.
#[derive(Debug)]
pub struct ProcessSpec {
    pub command: Vec<String>,
    pub environment: Environment,
    pub workspace: Workspace,
    /// Folder in which the command is started.
    pub folder: PathBuf,
    /// CPUs that the processes may use. Empty: all CPUs.
    pub cpus: Vec<u32>,
    /// Soft and hard limit of open files.
    pub open_files: u64,
    /// Whether dyno asks the runtimes of the command to list their JIT-compiled code in `/tmp`.
    pub lists_compiled: bool,
}

/// A working folder and a control group, removed when dropped. Both are registered with the guard
/// before they are created.
#[derive(Debug)]
pub struct Workspace {
    /// Name of the working folder and of the group, unique on this machine.
    pub name: String,
    pub work: PathBuf,
    pub group: Group,
    guard: Guard,
}

impl Workspace {
    /// Creates the folder and the group of a start, given its number.
    pub fn make(start: usize, groups: &Groups, guard: &Guard) -> io::Result<Workspace> {
        let work = guard.make_folder(&start.to_string())?;
        let name = work
            .file_name()
            .expect("a new folder should have a name")
            .to_string_lossy()
            .into_owned();
        let mut workspace = Workspace { name, work, group: Group::default(), guard: guard.clone() };
        groups.folders(&workspace.name).iter().for_each(|folder| guard.watch_group(folder));
        workspace.group = groups.make(&workspace.name)?;
        Ok(workspace)
    }

    /// Removes the group and the folder. Returns whether both are gone.
    fn remove(&self) -> bool {
        let is_group_gone = group::destroy(&self.group, GROUP_REMOVAL);
        let _ = folder::remove(&self.work);
        is_group_gone && !self.work.exists()
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // After a failure, the guard tries again when dyno ends.
        if self.remove() {
            self.group.folders().for_each(|folder| self.guard.forget_group(folder));
            self.guard.forget_folder(&self.work);
        }
    }
}

/// The stop of a subject, with the exit status of its first process.
#[derive(Debug)]
pub struct ObservedStop {
    pub record: StopRecord,
    /// `None`: dyno killed processes.
    pub status: Option<ExitStatus>,
}

/// Processes of a subject. Dropping the value kills these processes and removes their workspace.
#[derive(Debug)]
pub struct Process {
    minded: MindedCommand,
    /// Exit status of the first process. `None`: the process was running at the last check.
    status: Option<ExitStatus>,
    /// Instant of exec, nanoseconds of the monotonic clock.
    pub exec_ns: u64,
    pub sampler: Sampler,
    /// Whether the subject is in the network namespace of dyno's first thread.
    shares_network: bool,
    log: Arc<Log>,
    _trimmer: LogTrimmer,
    workspace: Workspace,
    /// Instant before the first process, wall clock: files in `/tmp` have such times. The start of
    /// the process itself is unknown if it has ended before it is read.
    began: SystemTime,
    lists_compiled: bool,
    /// Files that the processes leave in `/tmp`.
    runtime_files: RuntimeFiles,
    is_cleaned_up: bool,
}

impl Process {
    /// Starts the command, and registers its processes with the guard.
    pub fn start(spec: ProcessSpec) -> Result<Process, StartError> {
        let workspace = spec.workspace;
        let secrets = spec.environment.secret_values();
        let log = Arc::new(Log::create(&workspace.work.join(LOG), secrets)?);
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
        // Read before the process can write a file.
        let began = SystemTime::now();
        let minded = minder::spawn(&mut command, setup, Descendants::Stay)?;
        workspace.guard.watch_session(minded.first);
        let (exec_ns, processes) = (minded.began_ns, Processes::Descendants(minded.minder()));
        let sampler = Sampler { group: workspace.group.clone(), processes };
        let _trimmer = LogTrimmer::new(&log);
        Ok(Process {
            began,
            lists_compiled: spec.lists_compiled,
            runtime_files: RuntimeFiles::default(),
            minded,
            status: None,
            exec_ns,
            sampler,
            shares_network: network::is_in_network_of_process(),
            log,
            _trimmer,
            workspace,
            is_cleaned_up: false,
        })
    }

    /// Returns the limit of open files of the first process, as the kernel reports it.
    #[must_use]
    pub fn open_files(&self) -> Option<String> {
        self.read_back("limits", "Max open files")
    }

    /// Returns the list of the CPUs that the first process may use, as the kernel reports it.
    #[must_use]
    pub fn allowed_cpus(&self) -> Option<String> {
        self.read_back("status", "Cpus_allowed_list:")
    }

    /// Reads the first word after `key` in a `/proc` file of the first process.
    fn read_back(&self, file: &str, key: &str) -> Option<String> {
        let text = fs::read_to_string(format!("/proc/{}/{file}", self.pid())).ok()?;
        let line = text.lines().find_map(|l| l.strip_prefix(key))?;
        line.split_ascii_whitespace().next().map(String::from)
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.minded.first
    }

    /// Returns the PIDs of the subject's living processes: the processes in its control group, and
    /// all descendants of its first process.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        let mut pids = self.sampler.pids();
        for pid in proc::descendants_of(self.minded.minder()) {
            if !pids.contains(&pid) {
                pids.push(pid);
            }
        }
        pids
    }

    /// Whether a process belongs to the subject.
    #[must_use]
    pub fn owns(&self, pid: u32) -> bool {
        self.pids().contains(&pid) || has_cookie(pid, &self.workspace.name)
    }

    /// Finds the listener at a port of 127.0.0.1 in the subject's network namespace.
    #[must_use]
    pub fn listener_at(&self, port: u16) -> ListenerOwner {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        proc::listener_in_network_of(self.network_member(), address)
    }

    /// Finds a listener of another program at a port of 127.0.0.1 in the subject's network
    /// namespace. The port was free before the subject's start. A program that has listened since
    /// then may have accepted connections of the load.
    #[must_use]
    pub fn other_listener_at(&self, port: u16) -> ListenerOwner {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        match proc::other_listener(self.network_member(), &self.pids(), address) {
            // The process belongs to the subject, but began after the list was read, or has left
            // the session.
            ListenerOwner::Process { pid, .. } if self.owns(pid) => ListenerOwner::Absent,
            other => other,
        }
    }

    /// Returns a process in the subject's network namespace.
    fn network_member(&self) -> u32 {
        // Only a running process is in a network namespace. The minder, which is the parent of the
        // subject's first process, ends after the last process of the subject. dyno ends after the
        // minder.
        if self.shares_network {
            return std::process::id();
        }
        match self.status {
            None => self.pid(),
            Some(_) => self.minded.minder(),
        }
    }

    /// Moves processes that have left the control group back into the group. The counters and
    /// limits of the group must include all processes. Returns the number of these processes. The
    /// group's counters lack their earlier CPU time, and the memory that they have allocated.
    pub fn move_back_strays(&self) -> u32 {
        let mut strays = BTreeSet::new();
        let descendants = proc::descendants_of(self.minded.minder());
        for folder in self.workspace.group.folders() {
            let members = group::from_folders([folder.to_path_buf()]).pids();
            let outside = descendants.iter().filter(|pid| !members.contains(pid));
            for &pid in outside
                .filter(|pid| Stat::read(**pid).is_some_and(|s| !s.is_dead() && !s.is_exiting))
            {
                strays.insert(pid);
                // Fails if the process has already ended.
                let _ = fs::write(folder.join("cgroup.procs"), pid.to_string());
            }
        }
        strays.len() as u32
    }

    /// Returns the exit status of the first process. `None`: the process is running.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.minded.command_status();
        }
        self.status
    }

    /// Returns the log with the subject's output.
    #[must_use]
    pub fn log(&self) -> Arc<Log> {
        Arc::clone(&self.log)
    }

    /// Returns the last lines of the subject's output, without the secrets of its environment.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.log.tail(20)
    }

    /// Returns the processes that the kernel has killed for lack of memory.
    #[must_use]
    pub fn oom_kills(&self) -> OomKills {
        self.sampler.group.oom_kills()
    }

    /// Stops the subject like a service manager: sends the signal to all processes, waits until the
    /// last process has ended or the deadline has passed, and kills the remaining processes.
    /// `deadline_ns`: nanoseconds from the signal. `patience`: returns how long to wait. `None`:
    /// one of these cases:
    /// - The first process had already ended.
    /// - Ctrl-C shortened the wait, and dyno killed processes that could still have ended by the
    ///   deadline.
    pub fn stop(
        mut self,
        signal: Signal,
        deadline_ns: u64,
        patience: impl Fn() -> Patience,
    ) -> Option<StopRecord> {
        let stop = self.stop_gracefully(signal, deadline_ns, patience);
        stop.filter(|stop| !is_shortened(stop, deadline_ns))
    }

    /// Stops the subject as [`stop`](Self::stop) does, but also returns a stop that Ctrl-C
    /// shortened, and the processes that the kernel killed for lack of memory.
    pub fn stop_with_status(
        mut self,
        signal: Signal,
        deadline_ns: u64,
        patience: impl Fn() -> Patience,
    ) -> (Option<ObservedStop>, OomKills) {
        let record = self.stop_gracefully(signal, deadline_ns, patience);
        let stop = record.map(|record| {
            let status = self.status.filter(|_| !record.killed);
            ObservedStop { record, status }
        });
        (stop, self.oom_kills())
    }

    /// Sends the signal, waits for all processes to end, and kills the remaining processes.
    fn stop_gracefully(
        &mut self,
        signal: Signal,
        deadline_ns: u64,
        patience: impl Fn() -> Patience,
    ) -> Option<StopRecord> {
        if self.exit_status().is_some() {
            return None;
        }
        let number = signal.number();
        self.find_runtime_files();
        // The stop time begins with the signal.
        let began_ns = monotonic_ns();
        self.pids().into_iter().for_each(|pid| sys::kill(pid, number));
        let all_ended = loop {
            // The group's list is cheaper than the list of all processes, so it is read first.
            if self.exit_status().is_some()
                && self.sampler.pids().is_empty()
                && self.pids().is_empty()
            {
                break true;
            }
            if monotonic_ns() - began_ns > patience().limit_ns(deadline_ns) {
                break false;
            }
            std::thread::sleep(Duration::from_micros(500));
        };
        // The stop time ends when the last process is gone.
        let took_ns = monotonic_ns() - began_ns;
        self.clean_up();
        Some(StopRecord { took_ns, killed: !all_ended })
    }

    /// Finds the files that the running processes have in `/tmp`. Their names are unknown later.
    fn find_runtime_files(&mut self) {
        self.runtime_files.add(RuntimeFiles::from_pids(&self.pids(), self.lists_compiled));
    }

    /// Kills and reaps the remaining processes, removes their files from `/tmp`, and unregisters
    /// them from the guard. Dropping [`Workspace`] removes the folder and the group.
    fn clean_up(&mut self) {
        if std::mem::replace(&mut self.is_cleaned_up, true) {
            return;
        }
        self.find_runtime_files();
        let session = self.pid();
        UNENDED.add(kill_all(&mut self.minded, &self.workspace.name));
        if self.lists_compiled {
            self.runtime_files.add(RuntimeFiles::of_ended(session, self.began));
        }
        std::mem::take(&mut self.runtime_files).remove();
        self.workspace.guard.forget_session(session);
        self.workspace.guard.forget_cookie(&self.workspace.name);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.clean_up();
    }
}

/// Whether the user shortened a stop, so that dyno killed processes before their deadline. A
/// shortened stop says nothing about the server.
const fn is_shortened(stop: &StopRecord, deadline_ns: u64) -> bool {
    stop.killed && stop.took_ns <= deadline_ns
}

/// Kills all processes of a command. Returns the processes that cannot be ended, because they hang
/// in the kernel or run as another user.
pub(crate) fn kill_all(minded: &mut MindedCommand, cookie: &str) -> BTreeSet<u32> {
    let orphans = minded.end();
    // If the minder was killed, or gave up, it did not end all processes.
    let session = kill_session(minded.first);
    orphans.into_iter().chain(session).chain(kill_marked(cookie)).collect()
}

/// Kills the processes of a session until none is left. Returns the processes that cannot be ended.
pub(crate) fn kill_session(session: u32) -> Vec<u32> {
    kill_listed(500, Duration::from_millis(2), || proc::session_pids(session))
}

/// Kills the processes that have a cookie in their environment, until none is left. Returns the
/// processes that cannot be ended.
pub(crate) fn kill_marked(cookie: &str) -> Vec<u32> {
    kill_listed(100, Duration::from_millis(5), || {
        proc::all_pids().into_iter().filter(|pid| has_cookie(*pid, cookie)).collect()
    })
}

/// Kills the processes of a list until the list is empty. Returns the remaining processes.
fn kill_listed(passes: usize, pause: Duration, list: impl Fn() -> Vec<u32>) -> Vec<u32> {
    for _ in 0..passes {
        let pids = list();
        if pids.is_empty() {
            return pids;
        }
        pids.iter().for_each(|&pid| sys::kill(pid, libc::SIGKILL));
        std::thread::sleep(pause);
    }
    list()
}

/// Remaining processes of ended starts, which could not be killed.
static UNENDED: Unended = Unended(Mutex::new(BTreeSet::new()));

struct Unended(Mutex<BTreeSet<u32>>);

impl Unended {
    fn add(&self, pids: BTreeSet<u32>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(pids);
    }

    /// Removes all processes from the list. Returns the processes that still run.
    fn take(&self) -> Vec<u32> {
        let pids = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        pids.into_iter().filter(|pid| Stat::read(*pid).is_some_and(|s| !s.is_dead())).collect()
    }
}

/// Describes the processes of starts since the last call that could not be ended. `None`: all have
/// ended, as expected.
#[must_use]
pub fn unended_text() -> Option<String> {
    unended_text_of(UNENDED.take())
}

/// Describes processes that could not be ended. `None`: there are none.
pub(crate) fn unended_text_of(pids: impl IntoIterator<Item = u32>) -> Option<String> {
    let pids: Vec<String> = pids.into_iter().map(|pid| pid.to_string()).collect();
    (!pids.is_empty()).then(|| {
        format!(
            "some of its processes cannot be ended, and will disturb later measurements: {}\nhint: \
             end these processes, or restart the machine, before the next measurement",
            pids.join(", ")
        )
    })
}

/// Whether a process has a cookie in its environment.
fn has_cookie(pid: u32, cookie: &str) -> bool {
    let marker = format!("{COOKIE}={cookie}");
    let environment = fs::read(proc::visible_folder(pid).join("environ")).unwrap_or_default();
    environment.split(|&b| b == 0).any(|variable| variable == marker.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::path::Path;

    use dyno_observer::cgroup::Layout;

    use crate::environment::DynoVariables;
    use crate::limits::GROUP_CHECK_INTERVAL;
    use crate::reasons::not_run;

    /// Starts a server that is a shell script.
    fn start(script: &str, groups: &Groups) -> Process {
        let guard = Guard::start().unwrap();
        let workspace = Workspace::make(0, groups, &guard).unwrap();
        let environment = Environment::for_tool(&DynoVariables::read(), &[], &workspace.work);
        let command = ["sh", "-c", script].map(String::from).to_vec();
        let folder = workspace.work.clone();
        let spec = ProcessSpec {
            command,
            environment,
            workspace,
            folder,
            cpus: vec![],
            open_files: 256,
            lists_compiled: true,
        };
        Process::start(spec).unwrap()
    }

    fn no_groups() -> Groups {
        Groups::prepare(Layout::default(), &Guard::start().unwrap())
    }

    fn wait_for<T>(event: &str, mut poll: impl FnMut() -> Option<T>) -> T {
        for _ in 0..12_000 {
            if let Some(result) = poll() {
                return result;
            }
            std::thread::sleep(GROUP_CHECK_INTERVAL);
        }
        panic!("{event} did not occur")
    }

    /// Waits for the PID that [`DAEMON`] writes.
    fn daemon(process: &Process) -> u32 {
        let file = process.workspace.work.join("daemon");
        wait_for("the daemon's start", || fs::read_to_string(&file).ok()?.trim().parse().ok())
    }

    /// Starts a daemon without a parent, in its own session and with an empty environment.
    const DAEMON: &str =
        "(setsid env -i sh -c 'echo $$ >daemon.new; mv daemon.new daemon; exec sleep 98751' &)";

    fn runs(pid: u32) -> bool {
        proc::Stat::read(pid).is_some_and(|stat| !stat.is_dead())
    }

    #[test]
    fn daemon_without_group_session_or_cookie_is_ended() {
        let process = start(&format!("{DAEMON}; exec sleep 98752"), &no_groups());
        let daemon = daemon(&process);
        assert_ne!(proc::Stat::read(daemon).unwrap().session, process.pid());
        assert!(!has_cookie(daemon, &process.workspace.name));
        assert!(process.owns(daemon) && process.sampler.pids().contains(&daemon));
        assert!(!process.owns(std::process::id()));
        // The signal suffices: the daemon is not killed.
        let stop = process.stop(Signal::Term, 60_000_000_000, || Patience::Whole).unwrap();
        assert!(!stop.killed && !runs(daemon));
    }

    #[test]
    fn process_that_cannot_be_ended_is_named() {
        let mut child = Command::new("sleep").arg("98759").spawn().unwrap();
        let unended = Unended(Mutex::default());
        // A signal that has no effect, as that to a process in an uninterruptible system call.
        let pids = kill_listed(2, Duration::ZERO, || vec![child.id()]);
        child.wait().unwrap();
        assert_eq!(pids, [child.id()]);
        let mut child = Command::new("sleep").arg("98759").spawn().unwrap();
        unended.add([child.id(), pids[0]].into());
        let text = unended_text_of(unended.take()).unwrap();
        assert!(text.contains(&format!("measurements: {}\nhint", child.id())), "{text}");
        unended.add([child.id()].into());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(unended_text_of(unended.take()), None);
    }

    #[test]
    fn dropped_process_ends_its_daemon() {
        let process = start(&format!("{DAEMON}; exec sleep 98753"), &no_groups());
        let daemon = daemon(&process);
        drop(process);
        assert!(!runs(daemon));
    }

    /// A runtime's lists of compiled code would fill `/tmp`, which is often memory.
    #[test]
    fn lists_of_compiled_code_are_removed() {
        let list = |pid: u32| PathBuf::from(format!("/tmp/perf-{pid}.map"));
        let is_written = |pid| list(pid).exists().then_some(());
        let script = "echo 1 1 a >/tmp/perf-$$.map; exec sleep 98761";
        for is_stopped in [true, false] {
            let process = start(script, &no_groups());
            let pid = process.pid();
            wait_for("the list", || is_written(pid));
            if is_stopped {
                process.stop(Signal::Term, 60_000_000_000, || Patience::Whole).unwrap();
            } else {
                drop(process);
            }
            assert!(!list(pid).exists(), "is stopped: {is_stopped}");
        }
        let mut crashed = start("echo 1 1 a >/tmp/perf-$$.map; kill -9 $$", &no_groups());
        wait_for("the end", || crashed.exit_status());
        let pid = crashed.pid();
        assert!(list(pid).exists());
        drop(crashed);
        assert!(!list(pid).exists());
    }

    #[test]
    fn workers_outlive_first_process_until_stop() {
        let mut process =
            start(&format!("{DAEMON}; until [ -e daemon ]; do :; done; exit 7"), &no_groups());
        let daemon = daemon(&process);
        let status = wait_for("its end", || process.exit_status());
        assert_eq!(status.code(), Some(7));
        assert!(runs(daemon));
        assert!(process.stop(Signal::Term, 0, || Patience::Whole).is_none());
        assert!(!runs(daemon));
    }

    #[test]
    fn process_that_left_its_group_is_moved_back_and_ended() {
        let groups = Groups::prepare(Layout::read(), &Guard::start().unwrap());
        if let Some(reason) = groups.unavailable_reason() {
            return not_run(&format!("a server that leaves its control group: {reason}"));
        }
        let process = start(&format!("{DAEMON}; exec sleep 98755"), &groups);
        let daemon = daemon(&process);
        let group_folders: Vec<&Path> = process.workspace.group.folders().collect();
        for parent in group_folders.iter().map(|folder| folder.parent().unwrap()) {
            // Fails for a v2 group that enables controllers for its children.
            let _ = fs::write(parent.join("cgroup.procs"), daemon.to_string());
        }
        if process.sampler.pids().contains(&daemon) {
            return not_run(
                "a server that leaves its control group: the one above takes no processes",
            );
        }
        assert!(process.owns(daemon));
        assert_eq!((process.move_back_strays(), process.move_back_strays()), (1, 0));
        for folder in group_folders {
            let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap();
            assert!(text.lines().any(|line| line == daemon.to_string()), "{}", folder.display());
        }
        process.stop(Signal::Term, 60_000_000_000, || Patience::Whole);
        assert!(!runs(daemon));
    }

    /// Starts a server that ignores SIGTERM.
    fn start_ignoring_signal() -> Process {
        let script =
            "trap '' TERM; echo $$ >daemon.new; mv daemon.new daemon; while :; do sleep 0.01; done";
        let process = start(script, &no_groups());
        daemon(&process);
        process
    }

    #[test]
    fn server_ignoring_signal_is_killed_at_its_deadline() {
        for patience in [Patience::Whole, Patience::Short] {
            let process = start_ignoring_signal();
            let stop = process.stop(Signal::Term, 1_000_000, || patience).unwrap();
            assert!(stop.killed && stop.took_ns > 1_000_000, "{stop:?}");
        }
    }

    #[test]
    fn stop_that_user_shortened_has_no_record() {
        let hour = 3_600_000_000_000;
        let process = start_ignoring_signal();
        let pid = process.pid();
        assert_eq!(process.stop(Signal::Term, hour, || Patience::None), None);
        assert!(!runs(pid));
        // A lifecycle check needs the record.
        let process = start_ignoring_signal();
        let (stop, _) = process.stop_with_status(Signal::Term, hour, || Patience::None);
        assert!(stop.unwrap().record.killed);
        let ended = StopRecord { took_ns: 1, killed: false };
        assert!(!is_shortened(&ended, hour));
    }
}
