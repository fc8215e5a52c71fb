//! What system calls return, by name: the manual pages' section "Return value".

/// An amount that a system call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Bytes that were read, of a socket, a file or a pipe.
    Read,
    /// Bytes that were written.
    Written,
    /// Events that had been waited for; of `io_uring_enter` what it submitted.
    Events,
    /// Threads that were woken up.
    Woken,
}

/// What the sum of a call's results says; `None`: nothing, such as a sum of descriptors or
/// addresses.
#[must_use]
pub fn amount(call: &str) -> Option<Amount> {
    Some(match call {
        "read" | "readv" | "pread64" | "preadv" | "preadv2" | "recvfrom" | "recvmsg" => {
            Amount::Read
        }
        "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendto" | "sendmsg"
        | "sendfile" | "splice" | "tee" | "copy_file_range" => Amount::Written,
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll" | "ppoll" | "select"
        | "pselect6" | "io_getevents" | "io_uring_enter" => Amount::Events,
        "futex(wake)" | "futex_wake" => Amount::Woken,
        _ => return None,
    })
}
