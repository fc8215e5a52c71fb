//! Maps the numbers of system calls to their names, and to the state of a thread that sleeps in the
//! call. The eBPF program counts calls by number only.

use syscalls::Sysno;

use super::ThreadState;

/// Number of counters. The number must agree with `bpf/inside.bpf.c`.
pub(super) const CALLS: usize = 512;

/// Index of the first counter of futex calls. Each operation of futex(2) (FUTEX_WAIT is 0,
/// FUTEX_WAKE is 1, …) has its own counter: 500 + the number of the operation.
const FUTEX: usize = 500;

/// Number of all calls without a separate counter.
const UNKNOWN: usize = CALLS - 1;

/// Names of futex calls, by the number of the operation.
const FUTEX_COMMANDS: [&str; 11] = [
    "futex(wait)",
    "futex(wake)",
    "futex(fd)",
    "futex(requeue)",
    "futex(requeue)",
    "futex(wake)",
    "futex(lock)",
    "futex(wake)",
    "futex(lock)",
    "futex(wait)",
    "futex(wake)",
];

/// Returns the name of a call, as in its manual page. The name of a futex call includes its
/// purpose.
pub(super) fn name(number: usize) -> &'static str {
    match number {
        UNKNOWN => "unknown",
        FUTEX.. => FUTEX_COMMANDS.get(number - FUTEX).copied().unwrap_or("unknown"),
        _ => Sysno::new(number).map_or("unknown", |call| call.name()),
    }
}

/// Returns the state of a thread that sleeps in a call, for all calls in the order of their
/// numbers.
pub(super) fn wait_states() -> impl Iterator<Item = ThreadState> {
    (0..CALLS).map(|number| wait_state(name(number)))
}

/// Returns the state of a thread that sleeps in this call.
fn wait_state(call: &str) -> ThreadState {
    let is_in = |calls: &[&str]| calls.contains(&call);
    if call.starts_with("futex") || is_in(LOCK) {
        ThreadState::Lock
    } else if is_in(NETWORK) {
        ThreadState::Network
    } else if is_in(DISK) {
        ThreadState::Disk
    } else if is_in(SLEEP) {
        ThreadState::Sleep
    } else {
        ThreadState::Other
    }
}

/// Calls that wait for a lock or for another thread's work. The kernel cannot distinguish the two.
const LOCK: &[&str] = &["flock", "semop", "semtimedop", "fcntl"];

/// Calls that wait for a peer. `read` and `write` are included, because in a server they usually
/// wait for sockets. The eBPF program recognises a wait for a disk by the thread's state, so a
/// `read` that waits for a file has the state `Disk`.
const NETWORK: &[&str] = &[
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "accept",
    "accept4",
    "connect",
    "read",
    "readv",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "write",
    "writev",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "sendfile",
    "splice",
    "io_uring_enter",
    "io_getevents",
];

const DISK: &[&str] = &["fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync"];

const SLEEP: &[&str] =
    &["nanosleep", "clock_nanosleep", "pause", "rt_sigsuspend", "rt_sigtimedwait"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_named_as_in_their_manual_pages() {
        let names = [
            (0, "read"),
            (20, "writev"),
            (232, "epoll_wait"),
            (426, "io_uring_enter"),
            (457, "statmount"),
        ];
        for (number, expected) in names {
            assert_eq!(name(number), expected);
        }
        assert_eq!(
            [500, 501, 509, 510].map(name),
            ["futex(wait)", "futex(wake)", "futex(wait)", "futex(wake)"]
        );
        assert_eq!([499, 511].map(name), ["unknown"; 2]);
    }

    #[test]
    fn wait_states_are_classified_by_call() {
        let states: Vec<ThreadState> = wait_states().collect();
        assert_eq!(states.len(), CALLS);
        assert_eq!(
            [500, 202, 232, 0, 230, 74, 61].map(|number| states[number]),
            [
                ThreadState::Lock,
                ThreadState::Lock,
                ThreadState::Network,
                ThreadState::Network,
                ThreadState::Sleep,
                ThreadState::Disk,
                ThreadState::Other,
            ]
        );
    }

    /// A misspelt name would never match.
    #[test]
    fn lists_contain_only_names_of_calls() {
        let names: Vec<&str> = (0..CALLS).map(name).collect();
        for call in [LOCK, NETWORK, DISK, SLEEP].concat() {
            assert!(names.contains(&call), "{call}");
        }
    }
}
