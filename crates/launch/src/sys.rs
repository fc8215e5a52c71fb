//! Wraps the system calls around processes in safe functions. All `unsafe` code of this crate is
//! here and in the minder.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus};

/// Settings that a child applies to itself between fork and exec.
#[derive(Debug, Default)]
pub(crate) struct ChildSetup {
    /// `cgroup.procs` files that the child writes itself into.
    pub(crate) procs_files: Vec<CString>,
    /// CPUs that the child may use. Empty: all CPUs.
    pub(crate) cpus: Vec<u32>,
    /// Soft and hard limit of open files. `None`: the inherited limits.
    pub(crate) open_files: Option<u64>,
}

impl ChildSetup {
    /// Applies the settings to the calling process. Allowed between fork and exec.
    pub(crate) fn apply(&self) -> io::Result<()> {
        for file in &self.procs_files {
            // SAFETY: the path ends with a NUL, and the written text is static.
            unsafe {
                let fd = check(libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC))?;
                let written = libc::write(fd, c"0".as_ptr().cast(), 1);
                libc::close(fd);
                check(if written == 1 { 0 } else { -1 })?;
            }
        }
        set_affinity(&self.cpus)?;
        if let Some(files) = self.open_files {
            let limit = libc::rlimit { rlim_cur: files, rlim_max: files };
            // SAFETY: `limit` lives until the call returns.
            check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
        }
        Ok(())
    }

    pub(crate) fn procs_file(path: &Path) -> CString {
        CString::new(path.as_os_str().as_bytes()).expect("a path of the kernel should have no NUL")
    }
}

/// Makes the kernel send the calling process a signal when the thread that started it ends. Allowed
/// between fork and exec.
///
/// # Errors
/// The parent process, `parent`, has already ended, so that the kernel would not send the signal.
pub(crate) fn die_with(parent: u32, signal: i32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    unsafe {
        check(libc::prctl(libc::PR_SET_PDEATHSIG, signal))?;
        if libc::getppid() as u32 == parent {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    }
}

/// Reads the monotonic clock, nanoseconds. Allowed between fork and exec.
pub(crate) fn monotonic_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid place.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the array has room for two descriptors. They belong to this process after the call.
    unsafe {
        check(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

/// Restricts the calling thread to some CPUs. Empty: no restriction.
pub fn set_affinity(cpus: &[u32]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    // SAFETY: a zeroed set is a valid empty set. CPU_SET does not check the CPU numbers, so they
    // are checked here.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus.iter().filter(|&&cpu| (cpu as usize) < 8 * size_of::<libc::cpu_set_t>()) {
            libc::CPU_SET(cpu as usize, &mut set);
        }
        check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)).map(drop)
    }
}

/// Gives the calling thread the lowest real-time priority (SCHED_FIFO), above all threads without
/// real-time priority. Threads that this thread starts do not inherit the priority. The kernel
/// reserves a part of each second for other threads, usually 5 %.
///
/// # Errors
/// This user is not allowed to set the priority, or the kernel reserves no time for other threads.
/// Without reserved time, no other thread could end this thread.
pub fn set_realtime() -> io::Result<()> {
    // −1: real-time threads may use all of the time (sched(7)).
    let bound = std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us");
    if bound.is_ok_and(|text| text.trim() == "-1") {
        return Err(io::Error::other("kernel.sched_rt_runtime_us is -1"));
    }
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameters live until the call returns; 0 is the calling thread.
    check(unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const param)
    })
    .map(drop)
}

/// Moves the calling thread to a new network namespace, which has only a disabled loopback device.
pub(crate) fn unshare_network() -> io::Result<()> {
    // SAFETY: no memory is involved; only this thread's network namespace changes.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Moves the calling thread to a network namespace.
pub(crate) fn enter_network(network: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open, and no memory is involved.
    check(unsafe { libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Returns the CPUs that the calling thread may use.
pub fn allowed_cpus() -> Vec<u32> {
    // SAFETY: a zeroed set is valid, and large enough for the size given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
            return vec![0];
        }
        (0..8 * size_of::<libc::cpu_set_t>())
            .filter(|&cpu| libc::CPU_ISSET(cpu, &set))
            .map(|cpu| cpu as u32)
            .collect()
    }
}

/// Raises the soft limit of open files to the hard limit. Returns the limit.
pub fn raise_open_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for an rlimit.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
    limit.rlim_cur
}

/// Checks whether this user can write a file, without opening it.
///
/// # Errors
/// The user cannot write the file, or the file does not exist.
pub fn may_write(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a NUL.
    check(unsafe { libc::access(path.as_ptr(), libc::W_OK) }).map(drop)
}

/// Opens the writing end of a named pipe, without waiting for a reader. `None`: the pipe has no
/// reader. Writes to the file do not block.
pub fn open_pipe_with_reader(path: &Path) -> io::Result<Option<File>> {
    match File::options().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Returns the status of a child, and the CPU time of the child and of all its waited-for
/// descendants. `None`: the child has not ended.
pub(crate) fn try_wait_with_cpu(child: &Child) -> io::Result<Option<(ExitStatus, u64)>> {
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid rusage; both places are valid.
    let (pid, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let pid =
            libc::wait4(child.id() as libc::pid_t, &raw mut status, libc::WNOHANG, &raw mut usage);
        (check(pid)?, usage)
    };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    Ok((pid != 0).then(|| (ExitStatus::from_raw(status), ns(usage.ru_utime) + ns(usage.ru_stime))))
}

/// Returns the hard limit of open files.
pub fn open_files_hard_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for an rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_max
}

/// Sends a signal. Does nothing if the process does not exist.
pub(crate) fn kill(pid: u32, signal: i32) {
    // Control groups list processes of other PID namespaces as 0. To kill(2), 0 is the caller's own
    // process group.
    if pid == 0 {
        return;
    }
    // SAFETY: no memory is involved.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

/// Makes the kernel reparent orphaned descendants to this process.
pub(crate) fn become_subreaper() {
    // SAFETY: no memory is involved. Kernels before 3.4 do not support it, and reparent orphans to
    // the first process.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// Reaps a child, if it has ended.
pub(crate) fn reap(pid: u32) {
    // SAFETY: a null pointer for the status is valid.
    unsafe { libc::waitpid(pid as libc::pid_t, std::ptr::null_mut(), libc::WNOHANG) };
}

/// Detaches a mount from its peers, so that they no longer share the mounts below it.
pub(crate) fn detach_from_peers(point: &Path) -> io::Result<()> {
    let path = CString::new(point.as_os_str().as_bytes())?;
    let (none, flags) = (std::ptr::null(), libc::MS_PRIVATE);
    // SAFETY: the path ends with a null byte and outlives the call. The kernel ignores the other
    // arguments.
    check(unsafe { libc::mount(none, path.as_ptr(), none, flags, none.cast()) }).map(drop)
}

/// Unmounts the latest mount at a path. Files that are still open stay usable.
pub(crate) fn unmount(point: &Path) -> io::Result<()> {
    let path = CString::new(point.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a null byte and outlives the call.
    check(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) })
        .map(drop)
}

/// Makes reads of a pipe fail with `WouldBlock` instead of waiting.
pub(crate) fn set_nonblocking(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open, and no memory is involved.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) }).map(drop)
}

/// Returns the effective user ID.
pub(crate) fn user() -> u32 {
    // SAFETY: no memory is involved.
    unsafe { libc::geteuid() }
}

/// Whether SIGHUP was ignored when this process began, as under `nohup`.
#[must_use]
pub fn ignores_hangup() -> bool {
    disposition(libc::SIGHUP) == Some(libc::SIG_IGN)
}

/// Returns the disposition of a signal: the address of its handler, or `SIG_DFL` or `SIG_IGN`.
/// `None`: the kernel does not report it.
fn disposition(signal: i32) -> Option<libc::sighandler_t> {
    // SAFETY: all-zero bytes are a valid sigaction, into which the current one is written.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(signal, std::ptr::null(), &raw mut now) == 0).then_some(now.sa_sigaction)
    }
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) fail with EFBIG, instead of ending
/// this process by SIGXFSZ. The signal gets a handler and is not ignored, because servers would
/// inherit an ignored signal, but not a handler. A signal that is already ignored stays ignored.
pub fn survive_file_size_limit() {
    extern "C" fn do_nothing(_: libc::c_int) {}
    if disposition(libc::SIGXFSZ) == Some(libc::SIG_IGN) {
        return;
    }
    // SAFETY: all-zero bytes are a valid sigaction, and the handler has no effect, so it is safe
    // in any thread at any time.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = do_nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        new.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGXFSZ, &raw const new, std::ptr::null_mut());
    }
}

/// Ignores the end of the terminal (SIGHUP).
pub fn ignore_hangup() {
    // SAFETY: SIG_IGN is a valid disposition.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
}

/// Begins a new session and ignores the terminal's signals, so that the guard outlives dyno.
pub(crate) fn detach_from_terminal() {
    // SAFETY: no memory is involved.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// Converts the result of a system call: negative results are errors in `errno`.
pub(crate) fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn file_size_signal_ends_servers_but_not_dyno() {
        survive_file_size_limit();
        // SAFETY: the signal has a handler without effect.
        unsafe { libc::raise(libc::SIGXFSZ) };
        let status = Command::new("sh").args(["-c", "kill -XFSZ $$"]).status().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGXFSZ), "a program has the default action");
    }
}
