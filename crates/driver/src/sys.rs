//! System calls that both drivers use: clocks, sockets and their counters.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use dyno_engine::{ConnectError, Instant, proxy};
use dyno_model::load::TcpCounters;
use dyno_model::plan::ProxyProtocol;
use dyno_model::sample::ThreadUse;
use serde::{Deserialize, Serialize};

use crate::limits;

/// Reads the monotonic clock. Instants of all threads and processes of a machine are comparable.
#[must_use]
pub fn now() -> Instant {
    Instant(clock(libc::CLOCK_MONOTONIC))
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid place for a timespec.
    let ok = unsafe { libc::clock_gettime(id, &raw mut t) };
    assert_eq!(ok, 0, "the kernel should have this clock");
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Makes timed sleeps of this thread end on time instead of up to 50 µs late.
pub fn tighten_timers() {
    // SAFETY: no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Returns the number of unsent bytes in the queue of a socket. It is 0 if the kernel does not
/// report the number, as for Unix sockets.
pub(crate) fn unsent_bytes(fd: &OwnedFd) -> u64 {
    /// From linux/sockios.h.
    const SIOCOUTQNSD: libc::c_ulong = 0x894B;
    let mut bytes: libc::c_int = 0;
    // SAFETY: `bytes` is valid for the result.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), SIOCOUTQNSD as _, &raw mut bytes) };
    if result < 0 { 0 } else { u64::try_from(bytes).unwrap_or(0) }
}

/// Returns the CPU use of the calling thread so far.
#[must_use]
pub fn thread_use() -> ThreadUse {
    // SAFETY: all-zero bytes are a valid rusage, and `usage` is a valid place for the result.
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
        began_ticks: None,
        name: std::thread::current().name().unwrap_or("worker").into(),
        // The scheduler counts this time exactly. It estimates user and system time by ticks.
        run_ns: thread_run_ns(),
        user_ns: ns(usage.ru_utime),
        sys_ns: ns(usage.ru_stime),
        run_delay_ns: run_delay(),
        switches_voluntary: Some(usage.ru_nvcsw as u64),
        switches_involuntary: Some(usage.ru_nivcsw as u64),
        faults_minor: Some(usage.ru_minflt as u64),
        faults_major: Some(usage.ru_majflt as u64),
        seen: None,
    }
}

/// Returns the CPU time of the calling thread so far, nanoseconds.
#[must_use]
pub fn thread_run_ns() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// A period of polling instead of sleeping. Its CPU time is idle time of the generator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Poll {
    pub(crate) began: Instant,
    run_ns: u64,
}

impl Poll {
    pub(crate) fn begin() -> Poll {
        // The clock is read last, because the thread only polls from here on.
        Poll { run_ns: thread_run_ns(), began: now() }
    }

    /// Returns the CPU time spent polling until `idle_until`, nanoseconds. Time in which other
    /// threads had the CPU is excluded.
    pub(crate) fn idle_ns(self, idle_until: Instant) -> u64 {
        let used = thread_run_ns() - self.run_ns;
        idle_until.ns_since(self.began).min(used)
    }
}

/// Returns the difference between the wall clock and the monotonic clock, nanoseconds. The kernel's
/// receive timestamps are on the wall clock.
pub(crate) fn wall_ahead_ns() -> u64 {
    let before = clock(libc::CLOCK_MONOTONIC);
    let wall = clock(libc::CLOCK_REALTIME);
    let after = clock(libc::CLOCK_MONOTONIC);
    // The error is at most half the time between `before` and `after`, some tens of nanoseconds.
    wall - (before + (after - before) / 2)
}

/// Returns how long this thread has waited for a CPU, nanoseconds. `None`: the kernel does not
/// report it.
#[must_use]
pub fn run_delay() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Address of the server, and options of its connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub peer: PeerAddress,
    /// Local addresses, which connections use in rotation; empty: the kernel chooses.
    pub sources: Vec<IpAddr>,
    pub stamps: Stamps,
    /// Version of the PROXY header that begins each connection; `None`: no header.
    pub proxy: Option<ProxyProtocol>,
}

/// Address of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerAddress {
    Tcp(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PeerAddress::Tcp(addr) => addr.fmt(f),
            PeerAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Whether the kernel reports when it received each response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stamps {
    None,
    Kernel,
}

impl From<SocketAddr> for Endpoint {
    fn from(addr: SocketAddr) -> Self {
        Endpoint {
            peer: PeerAddress::Tcp(addr),
            sources: Vec::new(),
            stamps: Stamps::None,
            proxy: None,
        }
    }
}

/// Kind of a socket: TCP or UDP, or the corresponding kind of Unix socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SocketKind {
    #[default]
    Stream,
    Datagram,
}

/// An endpoint in the form of the kernel.
#[derive(Debug)]
pub(crate) struct Address {
    peer: Box<KernelAddr>,
    sources: Vec<KernelAddr>,
    /// Index of the source of the next connection.
    next_source: usize,
    proxy: Option<ProxyProtocol>,
}

impl Address {
    pub(crate) fn new(endpoint: &Endpoint) -> io::Result<Address> {
        let peer = match &endpoint.peer {
            PeerAddress::Tcp(addr) => KernelAddr::tcp(*addr),
            PeerAddress::Unix(path) => KernelAddr::unix(path)?,
        };
        let sources =
            endpoint.sources.iter().map(|ip| KernelAddr::tcp(SocketAddr::new(*ip, 0))).collect();
        Ok(Address { peer: Box::new(peer), sources, next_source: 0, proxy: endpoint.proxy })
    }

    /// Returns the PROXY header for a new connection; `None`: no header.
    pub(crate) fn proxy_header(&self, fd: &OwnedFd) -> Option<Vec<u8>> {
        let version = self.proxy?;
        // The descriptor is duplicated, because std reads addresses only from a `TcpStream`, which
        // closes its descriptor.
        let stream = fd.try_clone().ok().map(TcpStream::from);
        let addresses = stream.and_then(|s| Some((s.local_addr().ok()?, s.peer_addr().ok()?)));
        Some(proxy::header(version, addresses))
    }

    /// Returns a pointer to the address of the peer, valid as long as `self`.
    pub(crate) fn peer(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        (self.peer.as_ptr(), self.peer.len)
    }

    /// Creates a socket that is bound to the next source address. A stream does not delay small
    /// writes. `blocking` sockets are for io_uring, which never blocks on them.
    pub(crate) fn socket(&mut self, kind: SocketKind, blocking: bool) -> io::Result<OwnedFd> {
        let kind_flag = match kind {
            SocketKind::Stream => libc::SOCK_STREAM,
            SocketKind::Datagram => libc::SOCK_DGRAM,
        };
        let flags = kind_flag | libc::SOCK_CLOEXEC | if blocking { 0 } else { libc::SOCK_NONBLOCK };
        // SAFETY: no memory is involved.
        let fd = check(unsafe { libc::socket(self.peer.family(), flags, 0) })?;
        // SAFETY: the kernel has just returned this descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        if self.peer.family() == libc::AF_UNIX {
            return Ok(fd);
        }
        if kind == SocketKind::Stream {
            enable_option(&fd, libc::IPPROTO_TCP, libc::TCP_NODELAY)?;
        }
        if !self.sources.is_empty() {
            let source = &self.sources[self.next_source % self.sources.len()];
            self.next_source += 1;
            // The kernel chooses the port at connect time, so that each source can use all its
            // ports for each peer.
            enable_option(&fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT)?;
            // SAFETY: the address is valid for its length.
            check(unsafe { libc::bind(fd.as_raw_fd(), source.as_ptr(), source.len) })?;
        }
        Ok(fd)
    }
}

/// Appends `bytes` to `out`, the output of a connection. The first allocation has room for a few
/// requests.
#[inline]
pub(crate) fn append_output(bytes: &[u8], out: &mut Vec<u8>) {
    if out.capacity() == 0 {
        out.reserve(limits::OUT_BYTES.max(bytes.len()));
    }
    out.extend_from_slice(bytes);
}

/// Enables a boolean socket option.
pub(crate) fn enable_option(fd: &OwnedFd, level: i32, option: i32) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: `on` is a valid int of the size given.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    check(result).map(drop)
}

/// A socket address in the form of the kernel. It must not move while an operation uses it.
#[derive(Debug)]
struct KernelAddr {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

// SAFETY: plain bytes.
unsafe impl Send for KernelAddr {}

impl KernelAddr {
    fn tcp(addr: SocketAddr) -> Self {
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

    fn unix(path: &Path) -> io::Result<Self> {
        // SAFETY: all-zero bytes are a valid sockaddr_storage and sockaddr_un.
        let (mut storage, mut sun): (libc::sockaddr_storage, libc::sockaddr_un) =
            unsafe { std::mem::zeroed() };
        let bytes = path.as_os_str().as_bytes();
        if bytes.len() >= sun.sun_path.len() {
            let message = format!(
                "{}: the path of a Unix socket must have at most 107 bytes",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        sun.sun_family = libc::AF_UNIX as libc::sa_family_t;
        sun.sun_path.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from as libc::c_char);
        // SAFETY: sockaddr_storage is large enough and aligned for every address family.
        unsafe { (&raw mut storage).cast::<libc::sockaddr_un>().write(sun) };
        let len = std::mem::offset_of!(libc::sockaddr_un, sun_path) + bytes.len() + 1;
        Ok(KernelAddr { storage, len: len as libc::socklen_t })
    }

    fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    fn family(&self) -> i32 {
        i32::from(self.storage.ss_family)
    }
}

/// Converts the result -1 of a system call into an error.
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

/// Offsets in `struct tcp_info` of the kernel (include/uapi/linux/tcp.h). The struct of the C
/// library is shorter.
mod tcp_info {
    pub(super) const TOTAL_RETRANS: usize = 100;
    pub(super) const SEGS_OUT: usize = 136;
    pub(super) const SEGS_IN: usize = 140;
    pub(super) const DATA_SEGS_IN: usize = 152;
    pub(super) const END: usize = 156;
}

/// Returns the segment counters of a connected socket. `None`: the kernel does not report them.
pub(crate) fn tcp_counters(fd: RawFd) -> Option<TcpCounters> {
    let mut info = [0u8; 256];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: `info` is valid for `len` bytes.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result < 0 || (len as usize) < tcp_info::END {
        return None;
    }
    let counter = |offset: usize| {
        u64::from(u32::from_ne_bytes(info[offset..offset + 4].try_into().expect("four bytes")))
    };
    Some(TcpCounters {
        data_segments_in: counter(tcp_info::DATA_SEGS_IN),
        segments_in: counter(tcp_info::SEGS_IN),
        segments_out: counter(tcp_info::SEGS_OUT),
        retransmits: counter(tcp_info::TOTAL_RETRANS),
    })
}
