//! The minder of a command: a process between dyno and a tool or a server, to which the kernel
//! gives every descendant whose own parent has ended (PR_SET_CHILD_SUBREAPER), whatever session,
//! environment or control group that has made for itself. It ends them all before it ends.
//!
//! The minder is a fork of dyno without an exec, and dyno has threads: between the two it makes
//! system calls, and nothing else.
#![allow(unsafe_code)]

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
use crate::limits::{MINDER, MINDER_GLANCE, MINDER_LOOKS};
use crate::sys::{self, ChildSetup};

/// Treatment of a command's descendants after the command itself has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descendants {
    /// They are ended: a tool is done.
    End,
    /// They go on until they are ended: a server's workers finish what they are at.
    Stay,
}

/// A command that runs, and its minder.
#[derive(Debug)]
pub(crate) struct MindedCommand {
    /// The minder. It ends with the command's own status, after the last descendant; with a SIGTERM
    /// it ends them at once.
    minder: Child,
    /// Whether the minder was waited for: its number may be somebody else's by now.
    gone: bool,
    /// Where the minder writes how a command ended whose descendants stay.
    from_minder: File,
    /// The command's process, and the session that it leads, which the minder is not in.
    pub(crate) first: u32,
    /// Instant of the command's exec on the monotonic clock.
    pub(crate) began_ns: u64,
}

impl MindedCommand {
    /// The minder's process, from which all others descend.
    pub(crate) fn minder(&self) -> u32 {
        self.minder.id()
    }

    /// How the command itself ended, whose descendants may stay. `None`: it had not yet.
    pub(crate) fn command_status(&mut self) -> Option<ExitStatus> {
        let mut status = [0; 4];
        match self.from_minder.read(&mut status) {
            Ok(4) => Some(ExitStatus::from_raw(i32::from_ne_bytes(status))),
            // The minder was killed, and the kernel has killed the command with it.
            Ok(_) => Some(ExitStatus::from_raw(libc::SIGKILL)),
            Err(_) => None,
        }
    }

    /// If the command has ended, and all its descendants with it: its status, and the CPU time of
    /// them all.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<(ExitStatus, u64)>> {
        let ended = sys::try_wait_with_cpu(&self.minder)?;
        if ended.is_some() {
            self.forget();
        }
        Ok(ended)
    }

    fn forget(&mut self) {
        self.gone = true;
        children::forget(self.minder.id());
    }

    /// Ends all processes that still run.
    pub(crate) fn end(&mut self) {
        if !self.gone {
            self.end_minder();
        }
        // dyno takes over the processes of a minder that was killed.
        children::end_orphans();
    }

    fn end_minder(&mut self) {
        sys::kill(self.minder.id(), libc::SIGTERM);
        // One that was stopped hears nothing.
        sys::kill(self.minder.id(), libc::SIGCONT);
        // No result is a time here: it only bounds the wait.
        let until = monotonic_ns() + MINDER.as_nanos() as u64;
        while monotonic_ns() < until && matches!(self.minder.try_wait(), Ok(None)) {
            thread::sleep(MINDER_GLANCE);
        }
        let _ = self.minder.kill();
        let _ = self.minder.wait();
        self.forget();
    }
}

impl Drop for MindedCommand {
    fn drop(&mut self) {
        self.end();
    }
}

/// Numbers that the command writes to us just before its exec: its session, and that instant.
const NOTE_BYTES: usize = 16;

/// Starts `command` as the leader of a new session, set up as asked, below a minder.
pub(crate) fn spawn(
    command: &mut Command,
    setup: ChildSetup,
    descendants: Descendants,
) -> io::Result<MindedCommand> {
    children::adopt_orphans();
    let (read_end, write_end) = sys::pipe()?;
    let write_fd = write_end.as_raw_fd();
    let parent = std::process::id();
    // SAFETY: the closure does system calls only, in the child and in its child. Only the latter
    // returns.
    unsafe {
        command.pre_exec(move || {
            sys::check(libc::setsid())?;
            // If the parent of dyno ignored SIGCHLD, the end of a child would not be reported.
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            sys::check(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))?;
            // Should we be killed, the minder ends the rest. A second look closes the race with our
            // own end.
            sys::die_with(parent, libc::SIGTERM)?;
            let signals = signals();
            let mut before = MaybeUninit::uninit();
            libc::sigprocmask(libc::SIG_BLOCK, &raw const signals, before.as_mut_ptr());
            let minder = libc::getpid();
            match sys::check(libc::fork())? {
                0 => {
                    libc::sigprocmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
                    begin(minder as u32, &setup, write_fd)
                }
                first => mind(first, &signals, descendants, write_fd),
            }
        });
    }
    let minder = children::spawn(command)?;
    drop(write_end);
    let mut from_minder = File::from(read_end);
    let mut note = [0; NOTE_BYTES];
    from_minder.read_exact(&mut note)?;
    sys::do_not_wait(&from_minder)?;
    let number = |at: usize| u64::from_ne_bytes(note[at..at + 8].try_into().expect("eight bytes"));
    Ok(MindedCommand {
        minder,
        gone: false,
        from_minder,
        first: number(0) as u32,
        began_ns: number(8),
    })
}

/// Makes the calling process the command's, up to its exec.
fn begin(minder: u32, setup: &ChildSetup, note_fd: i32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    let session = sys::check(unsafe { libc::setsid() })?;
    sys::die_with(minder, libc::SIGKILL)?;
    setup.apply()?;
    // The last thing before exec: the command's time begins here.
    let began_ns = sys::monotonic_ns();
    let mut note = [0; NOTE_BYTES];
    note[..8].copy_from_slice(&(session as u64).to_ne_bytes());
    note[8..].copy_from_slice(&began_ns.to_ne_bytes());
    // SAFETY: the note lives until the call returns.
    unsafe { libc::write(note_fd, note.as_ptr().cast(), NOTE_BYTES) };
    Ok(())
}

/// The signals that wake the minder: the end of a child, the wish that all end, and that dyno reads
/// its notes no more.
unsafe fn signals() -> libc::sigset_t {
    // SAFETY: `sigemptyset` makes a set of the bytes, whatever they are.
    unsafe {
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
        set.assume_init()
    }
}

/// Runs the minder.
unsafe fn mind(
    first: libc::pid_t,
    signals: &libc::sigset_t,
    descendants: Descendants,
    note_fd: i32,
) -> ! {
    // SAFETY: system calls on places of this function's own.
    unsafe {
        // Open in here, they would never be seen to close: the guard's line, the command's output.
        close_all_but(note_fd);
        let mut status = None;
        loop {
            let reaped = reap(first);
            if let Some(ended) = reaped.first {
                status = Some(ended);
                if descendants == Descendants::End {
                    break;
                }
                libc::write(note_fd, ended.to_ne_bytes().as_ptr().cast(), 4);
            }
            let patience = libc::timespec { tv_sec: 1, tv_nsec: 0 };
            if !reaped.is_any_left
                || libc::sigtimedwait(signals, ptr::null_mut(), &raw const patience)
                    == libc::SIGTERM
            {
                break;
            }
        }
        end_children();
        end_like(status)
    }
}

/// Result of reaping the children that have ended.
struct Reaped {
    /// The status of the command itself.
    first: Option<i32>,
    is_any_left: bool,
}

unsafe fn reap(first: libc::pid_t) -> Reaped {
    let mut reaped = Reaped { first: None, is_any_left: true };
    loop {
        let mut status = 0;
        // SAFETY: `status` is a valid place.
        match unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) } {
            pid if pid == first => reaped.first = Some(status),
            0 => return reaped,
            pid if pid < 0 => return Reaped { is_any_left: false, ..reaped },
            _ => {}
        }
    }
}

/// Kills children until there are none: those of a child that has ended are ours next.
unsafe fn end_children() {
    for _ in 0..MINDER_LOOKS {
        // SAFETY: system calls without memory, and one with a valid place.
        unsafe {
            kill_children();
            loop {
                match libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG) {
                    0 => break,
                    pid if pid < 0 => return,
                    _ => {}
                }
            }
            let pause = libc::timespec { tv_sec: 0, tv_nsec: MINDER_GLANCE.as_nanos() as i64 };
            libc::nanosleep(&raw const pause, ptr::null_mut());
        }
    }
}

/// Kills the children that the kernel lists. A kernel without that list (`CONFIG_PROC_CHILDREN`)
/// leaves it to their session and their cookie to find them.
unsafe fn kill_children() {
    // SAFETY: the descriptor is this function's own, and reads fill no more than the buffer has.
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

unsafe fn close_all_but(kept: i32) {
    // SAFETY: nothing in this process uses any other descriptor.
    unsafe {
        let has_closed = |from: i64, to: i64| {
            from > to || libc::syscall(libc::SYS_close_range, from as u32, to as u32, 0) == 0
        };
        if has_closed(0, i64::from(kept) - 1)
            && has_closed(i64::from(kept) + 1, i64::from(u32::MAX))
        {
            return;
        }
        // Linux before 5.9.
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        (0..limit.rlim_cur.min(1 << 20) as i32).filter(|fd| *fd != kept).for_each(|fd| {
            libc::close(fd);
        });
    }
}

/// Ends as the command did; `None`: it was ended.
unsafe fn end_like(status: Option<i32>) -> ! {
    // SAFETY: system calls on this process alone.
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
