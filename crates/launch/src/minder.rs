//! Runs a command below a minder, a process that ends all descendants of the command before it ends
//! itself. A daemon cannot escape the minder by a new session, environment or control group.
//!
//! The minder is the parent of the command. The kernel reparents orphaned descendants to the minder
//! (PR_SET_CHILD_SUBREAPER).
//!
//! The minder is a fork of dyno without an exec, and dyno has several threads. After the fork, the
//! minder must therefore make only system calls: it must not allocate memory or take locks.
#![allow(unsafe_code)]

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus};
use std::ptr;
use std::thread;

use dyno_observer::monotonic_ns;

use crate::children;
use crate::limits::{MINDER_END, MINDER_PASSES, MINDER_PAUSE};
use crate::sys::{self, ChildSetup};

/// Error of the start of a command.
#[derive(Debug)]
pub enum StartError {
    /// A step before exec failed: dyno or the machine is the cause, not the command.
    Setup(io::Error),
    /// The command cannot be executed.
    Exec(io::Error),
}

impl StartError {
    /// Whether dyno or the machine is the cause, not the command. execve(2) also fails for lack of
    /// memory, processes or open files, after an error of a device, and while another process has
    /// the program file open for writing.
    #[must_use]
    pub fn is_caused_by_machine(&self) -> bool {
        const CODES: [i32; 6] =
            [libc::ENOMEM, libc::EAGAIN, libc::EMFILE, libc::ENFILE, libc::EIO, libc::ETXTBSY];
        match self {
            StartError::Setup(_) => true,
            StartError::Exec(error) => {
                error.raw_os_error().is_some_and(|code| CODES.contains(&code))
            }
        }
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> StartError {
        StartError::Setup(error)
    }
}

impl From<StartError> for io::Error {
    fn from(error: StartError) -> io::Error {
        match error {
            StartError::Setup(error) | StartError::Exec(error) => error,
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Setup(error) => write!(f, "its process could not be prepared: {error}"),
            StartError::Exec(error) => error.fmt(f),
        }
    }
}

/// Treatment of a command's descendants after the command itself has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descendants {
    /// The descendants are killed. Used for tools, whose result is then complete.
    End,
    /// The descendants continue until they get a signal to end. Used for servers, whose workers
    /// finish requests.
    Stay,
}

/// A running command and its minder.
#[derive(Debug)]
pub(crate) struct MindedCommand {
    /// The minder. It ends after the last descendant, with the status of the command. On SIGTERM,
    /// it kills all descendants immediately.
    minder: Child,
    /// Whether the minder was waited for. Its PID may then belong to another process.
    is_reaped: bool,
    /// Pipe to which the minder writes the command's status, if descendants stay.
    status_pipe: File,
    /// PID of the command, which is also the ID of its session. The minder is in another session.
    pub(crate) first: u32,
    /// Instant of the command's exec, nanoseconds of the monotonic clock.
    pub(crate) began_ns: u64,
}

impl MindedCommand {
    /// Returns the PID of the minder, the ancestor of all processes of the command.
    pub(crate) fn minder(&self) -> u32 {
        self.minder.id()
    }

    /// Returns the exit status of the command itself. `None`: the command has not ended.
    pub(crate) fn command_status(&mut self) -> Option<ExitStatus> {
        let mut status = [0; 4];
        match self.status_pipe.read(&mut status) {
            Ok(4) => Some(ExitStatus::from_raw(i32::from_ne_bytes(status))),
            // The minder was killed, and the kernel has killed the command with it.
            Ok(_) => Some(ExitStatus::from_raw(libc::SIGKILL)),
            Err(_) => None,
        }
    }

    /// Returns the status of the command and the CPU time of all its processes, in nanoseconds.
    /// `None`: the command or one of its descendants has not ended.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<(ExitStatus, u64)>> {
        let result = sys::try_wait_with_cpu(&self.minder)?;
        if result.is_some() {
            self.forget_minder();
        }
        Ok(result)
    }

    fn forget_minder(&mut self) {
        self.is_reaped = true;
        children::forget(self.minder.id());
    }

    /// Kills all remaining processes. Returns orphans that cannot be ended.
    pub(crate) fn end(&mut self) -> Vec<u32> {
        if !self.is_reaped {
            self.end_minder();
        }
        // If the minder was killed, the kernel has reparented its descendants to dyno.
        children::kill_orphans()
    }

    /// Asks the minder to kill all descendants and to end. Kills a minder that takes too long.
    fn end_minder(&mut self) {
        sys::kill(self.minder.id(), libc::SIGTERM);
        // A stopped process handles no signals.
        sys::kill(self.minder.id(), libc::SIGCONT);
        // The clock only limits the wait. It measures no result.
        let deadline_ns = monotonic_ns() + MINDER_END.as_nanos() as u64;
        while monotonic_ns() < deadline_ns && matches!(self.minder.try_wait(), Ok(None)) {
            thread::sleep(MINDER_PAUSE);
        }
        let _ = self.minder.kill();
        let _ = self.minder.wait();
        self.forget_minder();
    }
}

impl Drop for MindedCommand {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Bytes of the message that the command's process writes to dyno just before its exec: its session
/// ID, and the instant in nanoseconds.
const MESSAGE_BYTES: usize = 16;

/// Starts `command` below a minder, as the leader of a new session and with the given settings.
pub(crate) fn spawn(
    command: &mut Command,
    setup: ChildSetup,
    descendants: Descendants,
) -> Result<MindedCommand, StartError> {
    children::adopt_orphans();
    let (read_end, write_end) = sys::pipe()?;
    let write_fd = write_end.as_raw_fd();
    let parent = std::process::id();
    // SAFETY: the closure makes only system calls. It runs in the minder and in the command's
    // process, and returns only in the command's process.
    unsafe {
        command.pre_exec(move || {
            sys::check(libc::setsid())?;
            // If the parent of dyno ignored SIGCHLD, the end of a child would not be reported.
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            sys::check(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))?;
            // If dyno is killed, the minder ends the remaining processes. `die_with` also fails if
            // dyno has already ended.
            sys::die_with(parent, libc::SIGTERM)?;
            let signals = signals();
            let mut old_mask = MaybeUninit::uninit();
            libc::sigprocmask(libc::SIG_BLOCK, &raw const signals, old_mask.as_mut_ptr());
            let minder = libc::getpid();
            match sys::check(libc::fork())? {
                0 => {
                    libc::sigprocmask(libc::SIG_SETMASK, old_mask.as_ptr(), ptr::null_mut());
                    set_up_command(minder as u32, &setup, write_fd)
                }
                first => run_minder(first, &signals, descendants, write_fd),
            }
        });
    }
    let spawned = children::spawn(command);
    drop(write_end);
    let mut status_pipe = File::from(read_end);
    let mut message_bytes = [0; MESSAGE_BYTES];
    // This read does not block. After a successful start, the message is in the pipe. After a
    // failed start, all processes that could write to the pipe have ended.
    let message = status_pipe.read_exact(&mut message_bytes);
    let minder = spawned.map_err(|error| match message {
        Ok(()) => StartError::Exec(error),
        Err(_) => StartError::Setup(error),
    })?;
    message?;
    sys::set_nonblocking(&status_pipe)?;
    let number_at = |at: usize| {
        u64::from_ne_bytes(message_bytes[at..at + 8].try_into().expect("8 bytes should fit"))
    };
    Ok(MindedCommand {
        minder,
        is_reaped: false,
        status_pipe,
        first: number_at(0) as u32,
        began_ns: number_at(8),
    })
}

/// Sets up the command's process, up to its exec.
fn set_up_command(minder: u32, setup: &ChildSetup, message_fd: i32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    let session = sys::check(unsafe { libc::setsid() })?;
    sys::die_with(minder, libc::SIGKILL)?;
    setup.apply()?;
    // The clock is read as late as possible before exec, because the command's time begins here.
    let began_ns = sys::monotonic_ns();
    let mut message = [0; MESSAGE_BYTES];
    message[..8].copy_from_slice(&(session as u64).to_ne_bytes());
    message[8..].copy_from_slice(&began_ns.to_ne_bytes());
    // SAFETY: the message lives until the call returns.
    unsafe { libc::write(message_fd, message.as_ptr().cast(), MESSAGE_BYTES) };
    Ok(())
}

/// Signals that wake the minder: a child has ended (SIGCHLD), all processes are to end (SIGTERM),
/// or dyno has closed its end of the pipe (SIGPIPE).
unsafe fn signals() -> libc::sigset_t {
    // SAFETY: `sigemptyset` initializes the set.
    unsafe {
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
        set.assume_init()
    }
}

/// Runs the minder, until all descendants of the command have ended or it receives SIGTERM.
unsafe fn run_minder(
    first: libc::pid_t,
    signals: &libc::sigset_t,
    descendants: Descendants,
    message_fd: i32,
) -> ! {
    // SAFETY: system calls on local variables.
    unsafe {
        // Copies of descriptors in the minder would keep pipes open, such as the guard's input and
        // the command's output.
        close_all_but(message_fd);
        let mut status = None;
        loop {
            let reaped = reap(first);
            if let Some(ended) = reaped.first {
                status = Some(ended);
                if descendants == Descendants::End {
                    break;
                }
                libc::write(message_fd, ended.to_ne_bytes().as_ptr().cast(), 4);
            }
            let timeout = libc::timespec { tv_sec: 1, tv_nsec: 0 };
            if !reaped.has_children
                || libc::sigtimedwait(signals, ptr::null_mut(), &raw const timeout) == libc::SIGTERM
            {
                break;
            }
        }
        end_children();
        exit_like(status)
    }
}

/// Result of reaping the children that have ended.
struct Reaped {
    /// Status of the command itself, if it was reaped.
    first: Option<i32>,
    /// Whether children remain.
    has_children: bool,
}

/// Waits for all children that have ended, without blocking.
unsafe fn reap(first: libc::pid_t) -> Reaped {
    let mut reaped = Reaped { first: None, has_children: true };
    loop {
        let mut status = 0;
        // SAFETY: `status` is valid for writes.
        match unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) } {
            pid if pid == first => reaped.first = Some(status),
            0 => return reaped,
            pid if pid < 0 => return Reaped { has_children: false, ..reaped },
            _ => {}
        }
    }
}

/// Kills children until there are none. Several passes are needed, because the kernel reparents the
/// children of a killed child to the minder.
unsafe fn end_children() {
    for _ in 0..MINDER_PASSES {
        // SAFETY: system calls without memory, and one with a local variable.
        unsafe {
            kill_children();
            loop {
                match libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG) {
                    0 => break,
                    pid if pid < 0 => return,
                    _ => {}
                }
            }
            let pause = libc::timespec { tv_sec: 0, tv_nsec: MINDER_PAUSE.as_nanos() as i64 };
            libc::nanosleep(&raw const pause, ptr::null_mut());
        }
    }
}

/// Kills the children that the kernel lists. On a kernel without such a list
/// (`CONFIG_PROC_CHILDREN`), dyno finds the children later, by their session and their cookie.
unsafe fn kill_children() {
    // SAFETY: only this function uses the descriptor, and reads are bounded by the buffer.
    unsafe {
        let list =
            libc::open(c"/proc/thread-self/children".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if list < 0 {
            return;
        }
        let mut buffer = [0u8; 4096];
        let mut pid: libc::pid_t = 0;
        loop {
            let length = libc::read(list, buffer.as_mut_ptr().cast(), buffer.len());
            if length <= 0 {
                break;
            }
            for &byte in &buffer[..length as usize] {
                if byte.is_ascii_digit() {
                    pid = pid.wrapping_mul(10).wrapping_add(libc::pid_t::from(byte - b'0'));
                } else if pid > 0 {
                    libc::kill(pid, libc::SIGKILL);
                    pid = 0;
                }
            }
        }
        libc::close(list);
    }
}

/// Closes all file descriptors of this process, except one.
unsafe fn close_all_but(open_fd: i32) {
    // SAFETY: this process uses no other descriptor.
    unsafe {
        let has_closed = |from: i64, to: i64| {
            from > to || libc::syscall(libc::SYS_close_range, from as u32, to as u32, 0) == 0
        };
        if has_closed(0, i64::from(open_fd) - 1)
            && has_closed(i64::from(open_fd) + 1, i64::from(u32::MAX))
        {
            return;
        }
        // Linux before 5.9 lacks close_range(2).
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        (0..limit.rlim_cur.min(1 << 20) as i32).filter(|fd| *fd != open_fd).for_each(|fd| {
            libc::close(fd);
        });
    }
}

/// Exits with the command's status, or by the signal that killed it. `None`: the minder has killed
/// the command.
unsafe fn exit_like(status: Option<i32>) -> ! {
    // SAFETY: system calls that affect only this process.
    unsafe {
        let Some(status) = status else { libc::_exit(0) };
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            libc::signal(signal, libc::SIG_DFL);
            let mut set = MaybeUninit::uninit();
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), signal);
            libc::sigprocmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut());
            libc::kill(libc::getpid(), signal);
        }
        libc::_exit(libc::WEXITSTATUS(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_before_exec_is_no_error_of_command() {
        let start = |program: &str, procs_files| {
            let setup = ChildSetup { procs_files, ..ChildSetup::default() };
            spawn(&mut Command::new(program), setup, Descendants::Stay).unwrap_err()
        };
        let missing = "/nonexistent/program";
        let before = start("true", vec![c"/nonexistent/cgroup.procs".into()]);
        assert!(matches!(before, StartError::Setup(_)), "{before:?}");
        assert!(before.to_string().starts_with("its process could not be prepared: No such file"));
        let exec = start(missing, Vec::new());
        assert!(matches!(exec, StartError::Exec(_)), "{exec:?}");
        let both = start(missing, vec![c"/nonexistent/cgroup.procs".into()]);
        assert!(matches!(both, StartError::Setup(_)), "{both:?}");
    }
}
