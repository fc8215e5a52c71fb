//! Ports for the servers of tests. The tests of each crate take this file in with `#[path]`.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd};

/// A port of 127.0.0.1 on which nothing listens, and that no other test gets while this
/// process lives: a socket stays bound to it. With `SO_REUSEADDR`, which servers set and this does,
/// another may listen on it; the kernel, asked for any port, will not give it away. So tests of two
/// checkouts, and other programs, do not get into each other's way.
pub fn free_port() -> u16 {
    // SAFETY: the descriptor is fresh, and checked by what is done with it.
    #[allow(unsafe_code)]
    let socket = unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0, "no socket: {}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    };
    bind_to_any_port(&socket);
    // Left open until the process ends. `std` has no type for a socket that is bound and does not
    // listen; this one reads its address.
    let socket = std::net::TcpListener::from(socket);
    let SocketAddr::V4(addr) = socket.local_addr().unwrap() else { unreachable!("bound to IPv4") };
    let _ = socket.into_raw_fd();
    addr.port()
}

fn bind_to_any_port(socket: &OwnedFd) {
    let on: libc::c_int = 1;
    let any = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    };
    let fd = socket.as_raw_fd();
    // SAFETY: both values live through the calls, and their lengths are given.
    #[allow(unsafe_code)]
    let is_bound = unsafe {
        // The port is chosen before others may share it, so that no other program takes it.
        libc::bind(fd, (&raw const any).cast(), size_of_val(&any) as libc::socklen_t) == 0
            && libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_REUSEADDR,
                (&raw const on).cast(),
                size_of_val(&on) as libc::socklen_t,
            ) == 0
    };
    assert!(is_bound, "no port: {}", std::io::Error::last_os_error());
}
