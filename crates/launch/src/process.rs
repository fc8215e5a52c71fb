//! One running subject, from spawn to the end of its last process.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use dyno_archive::start::Stop;
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
use crate::sys::{self, ChildSetup};

/// Environment variable by which the processes of a start are known even if they leave their session and there is
/// no control group that would hold them. Its value is the name of the start's workspace.
pub const COOKIE: &str = "DYNO_START";

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
    /// As the kernel has it.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Signal::Term => libc::SIGTERM,
            Signal::Int => libc::SIGINT,
            Signal::Quit => libc::SIGQUIT,
        }
    }
}

/// A start: the command, and where and how to run it.
#[derive(Debug)]
pub struct Spec {
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

/// A working folder and a control group, removed when dropped. The guard knows of both from before they are made.
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
        let name = work.file_name().expect("it was made with a name").to_string_lossy().into_owned();
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
        // What is left even so stays in the guard's mind, which tries again when we end.
        if self.remove() {
            self.group.folders().for_each(|folder| self.guard.forget_group(folder));
            self.guard.forget_folder(&self.work);
        }
    }
}

/// A subject's processes. Dropping it kills them and removes their workspace.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// How the first process ended; `None`: it had not when we last looked.
    ended: Option<ExitStatus>,
    /// Instant of exec on the monotonic clock.
    pub exec_ns: u64,
    pub sampler: Sampler,
    log: Arc<Log>,
    _keeper: Keeper,
    workspace: Workspace,
    gone: bool,
}

impl Process {
    /// Starts the command. From here on the guard knows of it.
    pub fn start(spec: Spec) -> io::Result<Process> {
        let workspace = spec.workspace;
        let log = Arc::new(Log::create(&workspace.work.join("subject.log"))?);
        let mut command = Command::new(&spec.command[0]);
        spec.environment.apply(&mut command);
        command.args(&spec.command[1..]).env(COOKIE, &workspace.name).current_dir(&spec.folder);
        command.stdin(Stdio::null()).stdout(log.stdio()?).stderr(log.stdio()?);
        let procs_files =
            workspace.group.folders().map(|f| ChildSetup::procs_file(&f.join("cgroup.procs"))).collect();
        let setup = ChildSetup { procs_files, cpus: spec.cpus, open_files: Some(spec.open_files) };
        workspace.guard.watch_cookie(&workspace.name);
        let (child, exec_ns) = sys::spawn(&mut command, setup)?;
        workspace.guard.watch_session(child.id());
        let processes = Processes::Session(child.id());
        let sampler = Sampler { group: workspace.group.clone(), processes };
        let _keeper = Keeper::of(&log);
        Ok(Process { child, ended: None, exec_ns, sampler, log, _keeper, workspace, gone: false })
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
        self.child.id()
    }

    /// How the first process ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Where it writes what it prints.
    #[must_use]
    pub fn log(&self) -> Arc<Log> {
        Arc::clone(&self.log)
    }

    /// The last lines that the subject wrote.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.log.tail(20)
    }

    /// How often the memory limit has killed one of its processes.
    #[must_use]
    pub fn oom_kills(&self) -> u64 {
        self.sampler.group.counters().oom_kills.unwrap_or(0)
    }

    /// Asks all its processes to stop, as a service manager does, waits until the last has ended or the deadline is
    /// over, then kills what is left. `None`: it had ended by itself before. `hurry` says that nobody wants to wait.
    pub fn stop(mut self, signal: Signal, deadline_ns: u64, hurry: impl Fn() -> bool) -> Option<Stop> {
        self.end(signal, deadline_ns, hurry)
    }

    /// The same; and how its first process ended, where nobody killed it.
    pub fn stop_and_see(
        mut self,
        signal: Signal,
        deadline_ns: u64,
        hurry: impl Fn() -> bool,
    ) -> Option<(Stop, Option<ExitStatus>)> {
        let stop = self.end(signal, deadline_ns, hurry)?;
        Some((stop, self.ended.filter(|_| !stop.killed)))
    }

    fn end(&mut self, signal: Signal, deadline_ns: u64, hurry: impl Fn() -> bool) -> Option<Stop> {
        if self.ended().is_some() {
            return None;
        }
        let number = signal.number();
        // Stop time begins with the signal.
        let began = monotonic_ns();
        self.sampler.pids().into_iter().for_each(|pid| sys::kill(pid, number));
        let all_ended = loop {
            if self.ended().is_some() && self.sampler.pids().is_empty() {
                break true;
            }
            if monotonic_ns() - began > deadline_ns || hurry() {
                break false;
            }
            std::thread::sleep(Duration::from_micros(500));
        };
        // And ends when the last process is seen to be gone.
        let took_ns = monotonic_ns() - began;
        self.clean_up();
        Some(Stop { took_ns, killed: !all_ended })
    }

    /// Kills what is left and collects it. Its workspace goes with it.
    fn clean_up(&mut self) {
        if std::mem::replace(&mut self.gone, true) {
            return;
        }
        let session = self.pid();
        end_session(session);
        end_cookie(&self.workspace.name);
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    let wanted = format!("{COOKIE}={name}");
    let carries = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&b| b == 0).any(|variable| variable == wanted.as_bytes())
    };
    for _ in 0..100 {
        let pids: Vec<u32> = proc::all_pids().into_iter().filter(carries).collect();
        if pids.is_empty() {
            return;
        }
        pids.iter().for_each(|&pid| sys::kill(pid, libc::SIGKILL));
        std::thread::sleep(Duration::from_millis(5));
    }
}
