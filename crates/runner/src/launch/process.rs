//! One running subject, from spawn to the end of its last process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use dyno_archive::start::Stop;
use dyno_observer::cgroup::Group;
use dyno_observer::{Sampler, monotonic_ns, proc};

use super::group;
use super::guard::Guard;
use super::sys::{self, ChildSetup};
use crate::subject::Signal;

/// What to start, and where.
#[derive(Debug)]
pub struct Spec {
    pub command: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Its working folder, removed with it.
    pub work: PathBuf,
    pub group: Group,
    pub cpus: Vec<u32>,
    pub open_files: Option<u64>,
}

/// A subject's processes. Dropping it kills them and removes their group and working folder.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Once the first process has ended.
    ended: Option<ExitStatus>,
    /// Instant of exec on the monotonic clock.
    pub exec_ns: u64,
    pub sampler: Sampler,
    work: PathBuf,
    guard: Guard,
    gone: bool,
}

impl Process {
    /// Starts it. From here on the guard knows of it.
    pub fn start(spec: Spec, guard: &Guard) -> io::Result<Process> {
        let log = fs::File::create(log_path(&spec.work))?;
        let mut command = Command::new(&spec.command[0]);
        command.args(&spec.command[1..]).envs(spec.env).current_dir(&spec.work);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let procs_files =
            spec.group.folders().map(|f| ChildSetup::procs_file(&f.join("cgroup.procs"))).collect();
        let setup = ChildSetup { procs_files, cpus: spec.cpus, open_files: spec.open_files };
        spec.group.folders().for_each(|folder| guard.watch_group(folder));
        guard.watch_folder(&spec.work);
        let (child, exec_ns) = sys::spawn(&mut command, setup)?;
        guard.watch_session(child.id());
        let sampler = Sampler { group: spec.group, session: child.id() };
        Ok(Process {
            child,
            ended: None,
            exec_ns,
            sampler,
            work: spec.work,
            guard: guard.clone(),
            gone: false,
        })
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

    /// The last lines that the subject wrote.
    #[must_use]
    pub fn log_tail(&self) -> String {
        crate::build::tail(&log_path(&self.work), 20)
    }

    /// Times that the memory limit killed one of its processes.
    #[must_use]
    pub fn oom_kills(&self) -> u64 {
        self.sampler.group.counters().oom_kills.unwrap_or(0)
    }

    /// Asks it to stop, waits until its last process has ended or the deadline is over, then kills what is left.
    pub fn stop(mut self, signal: Signal, deadline_ns: u64) -> Stop {
        let number = match signal {
            Signal::Term => libc::SIGTERM,
            Signal::Int => libc::SIGINT,
            Signal::Quit => libc::SIGQUIT,
        };
        // Stop time begins with the signal.
        let began = monotonic_ns();
        sys::kill(self.pid(), number);
        // Its first process tells when it is done; helpers that outlive it have the rest of a short grace.
        let ended_ns = loop {
            if self.ended().is_some() {
                break Some(monotonic_ns());
            }
            if monotonic_ns() - began > deadline_ns {
                break None;
            }
            std::thread::sleep(Duration::from_micros(200));
        };
        let killed = ended_ns.is_none();
        self.clean_up();
        Stop { took_ns: ended_ns.unwrap_or_else(monotonic_ns) - began, killed }
    }

    /// Kills what is left, collects it, and removes group and folder.
    fn clean_up(&mut self) {
        if std::mem::replace(&mut self.gone, true) {
            return;
        }
        let session = self.pid();
        end_session(session);
        let _ = self.child.kill();
        let _ = self.child.wait();
        let left = !group::destroy(&self.sampler.group);
        let _ = fs::remove_dir_all(&self.work);
        // If something is left even now, the guard keeps it in mind and tries again when we end.
        if !left {
            self.guard.forget_session(session);
            self.sampler.group.folders().for_each(|folder| self.guard.forget_group(folder));
            self.guard.forget_folder(&self.work);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.clean_up();
    }
}

fn log_path(work: &Path) -> PathBuf {
    work.join("subject.log")
}

/// Kills the processes of a session until none is left.
pub(super) fn end_session(session: u32) {
    for _ in 0..500 {
        let pids = proc::session_pids(session);
        if pids.is_empty() {
            return;
        }
        pids.iter().for_each(|&pid| sys::kill(pid, libc::SIGKILL));
        std::thread::sleep(Duration::from_millis(2));
    }
}
