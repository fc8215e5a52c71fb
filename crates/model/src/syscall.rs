//! Return values of system calls, by name, from the manual pages' section "Return value".

/// Name of all calls that were counted without their own names.
pub const UNNAMED: &str = "other";

/// An amount that a system call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Bytes that were read, of a socket, a file or a pipe.
    Read,
    /// Bytes that were written.
    Written,
    /// Number of events; for `io_uring_enter`, number of submissions.
    Events,
    /// Threads that were woken up.
    Woken,
}

/// Returns what the results of a call add up to; `None`: their sum has no meaning, such as a
/// sum of descriptors or addresses.
#[must_use]
pub fn returned_amount(call: &str) -> Option<Amount> {
    Some(match call {
        "read" | "readv" | "pread64" | "preadv" | "preadv2" | "recvfrom" | "recvmsg" => {
            Amount::Read
        }
        "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendto" | "sendmsg"
        | "sendfile" | "copy_file_range" => Amount::Written,
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll" | "ppoll" | "select"
        | "pselect6" | "io_getevents" | "io_uring_enter" => Amount::Events,
        "futex(wake)" | "futex_wake" => Amount::Woken,
        _ => return None,
    })
}

/// Whether a call may transfer bytes that its result does not show. Such a call returns a number of
/// messages or submissions, or moves bytes into or out of a pipe. A `splice` into a pipe and a
/// `splice` out of it both return the number of bytes, so a sum would count the same bytes twice.
#[must_use]
pub fn hides_bytes(call: &str, kind: Amount) -> bool {
    match call {
        "recvmmsg" => kind == Amount::Read,
        "sendmmsg" => kind == Amount::Written,
        "io_submit" | "io_uring_enter" | "splice" | "tee" | "vmsplice" => {
            matches!(kind, Amount::Read | Amount::Written)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of the operations are in events, which `io_getevents` returns in memory.
    #[test]
    fn asynchronous_operations_hide_bytes() {
        for call in ["io_submit", "io_uring_enter"] {
            assert!(hides_bytes(call, Amount::Read) && hides_bytes(call, Amount::Written));
            assert!(!hides_bytes(call, Amount::Events), "{call}");
        }
    }

    #[test]
    fn splice_hides_bytes_instead_of_doubling_them() {
        assert_eq!((returned_amount("splice"), returned_amount("tee")), (None, None));
        assert!(hides_bytes("splice", Amount::Read) && hides_bytes("splice", Amount::Written));
        assert!(!hides_bytes("splice", Amount::Events));
        assert!(!hides_bytes("sendfile", Amount::Written));
        assert_eq!(returned_amount("sendfile"), Some(Amount::Written));
    }
}
