//! The few system calls both drivers share.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use dyno_archive::sample::ThreadUse;
use dyno_archive::trial::TcpCounters;
use dyno_engine::{ConnectError, Instant};

/// Reads the monotonic clock. Instants of all threads and processes of this machine compare.
#[must_use]
pub fn now() -> Instant {
    Instant(clock(libc::CLOCK_MONOTONIC))
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid place for a timespec.
    let ok = unsafe { libc::clock_gettime(id, &raw mut t) };
    assert_eq!(ok, 0, "the kernel has this clock");
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Lets timed sleeps of this thread end on time instead of up to 50 µs late.
pub fn tighten_timers() {
    // SAFETY: no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// CPU use of the calling thread so far.
#[must_use]
pub fn thread_use() -> ThreadUse {
    // SAFETY: all-zero bytes are a valid rusage, and it is a valid place for one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    ThreadUse {
        pid: std::process::id(),
        // SAFETY: no memory is involved.
        tid: unsafe { libc::gettid() } as u32,
        name: std::thread::current().name().unwrap_or("worker").into(),
        // The scheduler's own sum; user and system are its split by ticks.
        run_ns: clock(libc::CLOCK_THREAD_CPUTIME_ID),
        user_ns: ns(usage.ru_utime),
        sys_ns: ns(usage.ru_stime),
        run_delay_ns: run_delay(),
        switches_voluntary: Some(usage.ru_nvcsw as u64),
        switches_involuntary: Some(usage.ru_nivcsw as u64),
    }
}

fn run_delay() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// A socket address in the kernel's form. It must not move while an operation uses it.
#[derive(Debug)]
pub(crate) struct KernelAddr {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

// SAFETY: plain bytes.
unsafe impl Send for KernelAddr {}

impl KernelAddr {
    pub(crate) fn new(addr: SocketAddr) -> Self {
        // SAFETY: all-zero bytes are a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let len = match addr {
            SocketAddr::V4(v4) => {
                let sin = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                // SAFETY: sockaddr_storage is large enough and aligned for every address family.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(sin) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let sin6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(sin6) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        KernelAddr { storage, len: len as libc::socklen_t }
    }

    pub(crate) fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub(crate) fn len(&self) -> libc::socklen_t {
        self.len
    }

    fn family(&self) -> i32 {
        i32::from(self.storage.ss_family)
    }
}

/// A TCP socket that does not delay small writes. `blocking` sockets are for io_uring, which never blocks on them.
pub(crate) fn tcp_socket(addr: &KernelAddr, blocking: bool) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | if blocking { 0 } else { libc::SOCK_NONBLOCK };
    // SAFETY: no memory is involved.
    let fd = check(unsafe { libc::socket(addr.family(), flags, 0) })?;
    // SAFETY: the kernel has just given us this descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let on: libc::c_int = 1;
    // SAFETY: `on` is a valid int of the size given.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    })?;
    Ok(fd)
}

/// Turns the -1 of a system call into the error it stands for.
pub(crate) fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

pub(crate) fn connect_error(errno: i32) -> ConnectError {
    match errno {
        libc::ECONNREFUSED => ConnectError::Refused,
        libc::ETIMEDOUT => ConnectError::TimedOut,
        libc::ECONNRESET => ConnectError::Reset,
        libc::EADDRNOTAVAIL | libc::EADDRINUSE => ConnectError::AddressExhausted,
        other => ConnectError::Other(other),
    }
}

/// Offsets in the kernel's `struct tcp_info` (include/uapi/linux/tcp.h): the C library's copy of it ends earlier.
mod tcp_info {
    pub(super) const TOTAL_RETRANS: usize = 100;
    pub(super) const SEGS_OUT: usize = 136;
    pub(super) const SEGS_IN: usize = 140;
    pub(super) const DATA_SEGS_IN: usize = 152;
    pub(super) const END: usize = 156;
}

/// Segment counters of a connected socket; `None` if the kernel does not tell.
pub(crate) fn tcp_counters(fd: RawFd) -> Option<TcpCounters> {
    let mut info = [0u8; 256];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: `info` is valid for `len` bytes.
    let result = unsafe {
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len)
    };
    if result < 0 || (len as usize) < tcp_info::END {
        return None;
    }
    let at = |offset: usize| {
        u64::from(u32::from_ne_bytes(info[offset..offset + 4].try_into().expect("four bytes")))
    };
    Some(TcpCounters {
        data_segments_in: at(tcp_info::DATA_SEGS_IN),
        segments_in: at(tcp_info::SEGS_IN),
        segments_out: at(tcp_info::SEGS_OUT),
        retransmits: at(tcp_info::TOTAL_RETRANS),
    })
}
