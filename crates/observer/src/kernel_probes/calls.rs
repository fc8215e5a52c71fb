//! System calls by number: their names, and what a thread waits for that sleeps in one.

use syscalls::Sysno;

use super::ThreadState;

/// Numbers that counters have; the other half of it is in `bpf/inside.bpf.c`.
pub(super) const CALLS: usize = 512;

/// From here on numbers are not the kernel's, but 500 + the command of a futex call (futex(2)).
const FUTEX: usize = 500;

/// A call whose number is not among those that are counted.
const UNKNOWN: usize = CALLS - 1;

/// Names of futex calls, by their command.
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

/// The name of a call, as in its manual page; futex calls have what they are for with it.
pub(super) fn name(number: usize) -> &'static str {
    match number {
        UNKNOWN => "unknown",
        FUTEX.. => FUTEX_COMMANDS.get(number - FUTEX).copied().unwrap_or("unknown"),
        _ => Sysno::new(number).map_or("unknown", |call| call.name()),
    }
}

/// States of threads that wait in each call, in the order of the calls' numbers.
pub(super) fn waits() -> impl Iterator<Item = ThreadState> {
    (0..CALLS).map(|number| wait(name(number)))
}

/// State of a thread that sleeps in this call.
fn wait(call: &str) -> ThreadState {
    let is_any = |calls: &[&str]| calls.contains(&call);
    if call.starts_with("futex") || is_any(LOCK) {
        ThreadState::Lock
    } else if is_any(NETWORK) {
        ThreadState::Network
    } else if is_any(DISK) {
        ThreadState::Disk
    } else if is_any(SLEEP) {
        ThreadState::Sleep
    } else {
        ThreadState::Other
    }
}

/// Calls that wait for a lock or for another thread's work: the kernel cannot distinguish the two.
const LOCK: &[&str] = &["flock", "semop", "semtimedop", "fcntl"];

/// A peer: what a server waits in for requests and for answers of others. `read` and `write` wait
/// for nothing else in a server but pipes: waiting for a file shows as a wait for a disk, whatever
/// the call.
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
    fn calls_have_the_names_of_their_manual_pages() {
        let known = [
            (0, "read"),
            (20, "writev"),
            (232, "epoll_wait"),
            (426, "io_uring_enter"),
            (457, "statmount"),
        ];
        for (number, called) in known {
            assert_eq!(name(number), called);
        }
        assert_eq!(
            [500, 501, 509, 510].map(name),
            ["futex(wait)", "futex(wake)", "futex(wait)", "futex(wake)"]
        );
        assert_eq!([499, 511].map(name), ["unknown"; 2]);
    }

    #[test]
    fn waits_are_classified_by_call() {
        let all: Vec<ThreadState> = waits().collect();
        assert_eq!(all.len(), CALLS);
        assert_eq!(
            [500, 202, 232, 0, 230, 74, 61].map(|number| all[number]),
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

    /// A name that is misspelt would never match.
    #[test]
    fn every_call_in_the_lists_is_one() {
        let names: Vec<&str> = (0..CALLS).map(name).collect();
        for call in [LOCK, NETWORK, DISK, SLEEP].concat() {
            assert!(names.contains(&call), "{call}");
        }
    }
}
