//! Counts of system calls without a program in the kernel: counters of its tracepoints
//! (perf_event_open(2)), one per name and thread. Used where a program is not available: in a PID
//! namespace, or on another architecture. They show how often a call was made, but not its result.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;

use dyno_archive::sample::CallUse;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::program::{CallCounts, PARTIES};
use crate::kernel::ProgramError;
use crate::proc;

/// Where the kernel usually shows its tracepoints.
const PLACES: [&str; 2] = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];

/// The calls that are counted by name: what servers spend their time in. All others together are
/// `other`.
const NAMED: [&str; 30] = [
    "accept",
    "accept4",
    "close",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_wait",
    "fcntl",
    "futex",
    "getpid",
    "gettimeofday",
    "io_getevents",
    "io_submit",
    "io_uring_enter",
    "madvise",
    "poll",
    "ppoll",
    "pread64",
    "pwrite64",
    "read",
    "readv",
    "recvfrom",
    "recvmsg",
    "sched_yield",
    "select",
    "sendfile",
    "sendmsg",
    "sendto",
    "setsockopt",
    "write",
    "writev",
];

/// All names are counted once in so many openings of a party's counters, and in the others only the
/// names that were seen. To open or close a counter with no other user stalls the whole machine for
/// a moment.
const ALL_NAMES_EVERY: u32 = 16;

/// The name of all calls that are not counted by theirs.
const OTHER: &str = "other";

/// Counters of the calls of parties. They are gone with this process, however it ends.
#[derive(Debug)]
pub(super) struct Events {
    /// The tracepoint of all calls.
    all: u64,
    /// Tracepoints of some calls, by name.
    named: BTreeMap<&'static str, u64>,
    /// `None`: the place is free.
    parties: [Option<Watched>; PARTIES as usize],
    /// Open counters: the party, the call's name (`None`: all calls), and the counter.
    open: Vec<(u64, Option<&'static str>, Counter)>,
    /// Counts of closed counters: by party, and by name.
    sums: BTreeMap<(u64, Option<&'static str>), u64>,
}

/// A party.
#[derive(Debug, Default)]
struct Watched {
    /// The processes from which it began.
    roots: Vec<u32>,
    /// Times that its counters were opened.
    openings: u32,
    /// The most calls without a name of their own that a reading has found.
    other: u64,
}

impl Watched {
    /// Whether all names are to be counted the next time.
    const fn wants_all_names(&self) -> bool {
        self.openings.is_multiple_of(ALL_NAMES_EVERY)
    }
}

impl Events {
    /// # Errors
    /// This user may not see the kernel's tracepoints, or may not count them, or there are none.
    pub(super) fn load() -> Result<Events, ProgramError> {
        let points = Tracepoints::find().map_err(ProgramError::new)?;
        let all = points.id("raw_syscalls/sys_enter").map_err(ProgramError::new)?;
        let of = |name: &'static str| {
            Some((name, points.id(&format!("syscalls/sys_enter_{name}")).ok()?))
        };
        let events = Events {
            all,
            named: NAMED.into_iter().filter_map(of).collect(),
            parties: [const { None }; PARTIES as usize],
            open: Vec::new(),
            sums: BTreeMap::new(),
        };
        // A counter of this thread shows whether counting is allowed.
        counter(all, 0).map_err(ProgramError::new)?;
        Ok(events)
    }

    pub(super) fn place(&mut self) -> Option<u64> {
        let place = self.parties.iter().position(Option::is_none)?;
        self.parties[place] = Some(Watched::default());
        Some(place as u64)
    }

    pub(super) fn watch(&mut self, party: u64, pid: u32) {
        self.parties[party as usize].get_or_insert_default().roots.push(pid);
    }

    pub(super) fn is_watched(&self, pid: u32) -> bool {
        self.parties.iter().flatten().any(|party| party.roots.contains(&pid))
    }

    pub(super) fn forget(&mut self, party: u64) {
        self.open.retain(|(of, ..)| *of != party);
        self.parties[party as usize] = None;
    }

    /// Opens counters for every thread that lives, or closes them: while there are none, calls cost
    /// nothing. Takes a while.
    pub(super) fn arm(&mut self, on: bool) -> Result<(), ProgramError> {
        let mut closed = std::mem::take(&mut self.open);
        for (party, name, counter) in &mut closed {
            *self.sums.entry((*party, *name)).or_default() +=
                counter.read().map_err(ProgramError::new)?;
        }
        // To close the last counter of a name, the kernel waits for every CPU, 30 ms and more: the
        // sampling thread must not wait as well.
        if !closed.is_empty() {
            thread::spawn(move || drop(closed));
        }
        if !on {
            return Ok(());
        }
        let is_seen = |party, name| self.sums.get(&(party, Some(name))).is_some_and(|n| *n > 0);
        for (party, watched) in (0..).zip(&mut self.parties) {
            let Some(watched) = watched else { continue };
            let with_all_names = watched.wants_all_names();
            watched.openings = watched.openings.wrapping_add(1);
            for tid in proc::trees(&watched.roots).into_iter().flat_map(tids) {
                let named =
                    self.named.iter().filter(|(name, _)| with_all_names || is_seen(party, **name));
                let points = named.map(|(name, id)| (Some(*name), *id)).chain([(None, self.all)]);
                for (name, id) in points {
                    match counter(id, tid) {
                        Ok(counter) => self.open.push((party, name, counter)),
                        // It has ended meanwhile.
                        Err(error) if error.raw_os_error() == Some(ENDED) => break,
                        Err(error) => return Err(ProgramError::new(error)),
                    }
                }
            }
        }
        Ok(())
    }

    /// Has what is open count, or not.
    pub(super) fn count(&mut self, on: bool) -> Result<(), ProgramError> {
        let counters = self.open.iter_mut().map(|(.., counter)| counter);
        let mut each =
            counters.map(|counter| if on { counter.enable() } else { counter.disable() });
        each.try_for_each(|done| done.map_err(ProgramError::new))
    }

    /// A party's calls that were counted.
    pub(super) fn calls(&mut self, party: u64) -> Result<CallCounts, ProgramError> {
        let mut sums: BTreeMap<Option<&'static str>, u64> = BTreeMap::new();
        for ((of, name), n) in &self.sums {
            if *of == party {
                *sums.entry(*name).or_default() += n;
            }
        }
        for (of, name, counter) in &mut self.open {
            if *of == party {
                *sums.entry(*name).or_default() += counter.read().map_err(ProgramError::new)?;
            }
        }
        let other = &mut self.parties[party as usize].get_or_insert_default().other;
        *other = rest(&sums).max(*other);
        Ok(call_counts(&sums, *other))
    }
}

/// The calls that have no counter of their own. `sums`: by name, and of all calls together without
/// one. The counters begin, end and are read one after the other, so that this can be a few calls
/// too many or too few, and fewer than at the reading before.
fn rest(sums: &BTreeMap<Option<&'static str>, u64>) -> u64 {
    let named = sums.iter().filter(|(name, _)| name.is_some()).map(|(_, n)| n).sum();
    sums.get(&None).copied().unwrap_or(0).saturating_sub(named)
}

fn call_counts(sums: &BTreeMap<Option<&'static str>, u64>, other: u64) -> CallCounts {
    let only_count = |count| CallUse { count, errors: None, again: None, returned: None };
    let named = sums.iter().filter_map(|(name, n)| Some(((*name)?, *n)));
    let mut by_name: BTreeMap<String, CallUse> =
        named.filter(|(_, n)| *n > 0).map(|(name, n)| (name.into(), only_count(n))).collect();
    if other > 0 {
        by_name.insert(OTHER.into(), only_count(other));
    }
    // The CPUs of the calls are unknown: all are counted on one.
    CallCounts { by_name, of_cpus: vec![sums.get(&None).copied().unwrap_or(0)] }
}

/// A counter of a tracepoint, that does not count yet. It is of a thread, by its number (0: this
/// one), and of those that it starts.
fn counter(id: u64, tid: u32) -> io::Result<Counter> {
    let mut builder = Builder::new(Tracepoint::with_id(id));
    builder.observe_pid(tid as i32).any_cpu().inherit(true).include_kernel();
    builder.build()
}

/// The kernel's list of its tracepoints.
struct Tracepoints {
    folder: PathBuf,
    /// Mount that only dyno has, if the folder is in one: gone once this is closed.
    _mount: Option<OwnedFd>,
}

impl Tracepoints {
    fn find() -> io::Result<Tracepoints> {
        let usual =
            PLACES.iter().map(PathBuf::from).find(|place| place.join("raw_syscalls").exists());
        match usual {
            Some(folder) => Ok(Tracepoints { folder, _mount: None }),
            // Not mounted, as in containers: dyno's own mount stays invisible to other processes.
            None => Tracepoints::of_own(),
        }
    }

    fn of_own() -> io::Result<Tracepoints> {
        let of_kernel = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&of_kernel)?;
        let read_only = MountAttrFlags::MOUNT_ATTR_RDONLY;
        let mount = fsmount(&of_kernel, FsMountFlags::FSMOUNT_CLOEXEC, read_only)?;
        let folder = Path::new("/proc/self/fd").join(mount.as_raw_fd().to_string()).join("events");
        Ok(Tracepoints { folder, _mount: Some(mount) })
    }

    fn id(&self, name: &str) -> io::Result<u64> {
        let text = fs::read_to_string(self.folder.join(name).join("id"))?;
        text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

/// The threads of a process.
fn tids(pid: u32) -> BTreeSet<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// The kernel's error for a thread that does not exist.
const ENDED: i32 = rustix::io::Errno::SRCH.raw_os_error();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_name_of_its_own_is_the_rest() {
        let sums = [(Some("read"), 70), (Some("write"), 0), (None, 100)].into();
        let counted = call_counts(&sums, rest(&sums));
        let counts: Vec<(&str, u64)> =
            counted.by_name.iter().map(|(name, c)| (name.as_str(), c.count)).collect();
        assert_eq!(counts, [("other", 30), ("read", 70)]);
        assert_eq!((counted.by_name["read"].returned, counted.of_cpus), (None, vec![100]));
        assert_eq!(super::call_counts(&BTreeMap::new(), 0).by_name, BTreeMap::new());
        // Two reads between the counter of all calls and that of reads: no call without a name of
        // its own.
        assert_eq!(rest(&[(Some("read"), 72), (None, 70)].into()), 0);
    }

    #[test]
    fn count_of_the_rest_never_falls() {
        let sums = |read, all| [((0, Some("read")), read), ((0, None), all)].into();
        let mut events = Events {
            all: 0,
            named: [].into(),
            parties: [const { None }; _],
            open: vec![],
            sums: [].into(),
        };
        let party = events.place().unwrap();
        let mut other_of = |read, all| {
            events.sums = sums(read, all);
            events.calls(party).unwrap().by_name[OTHER].count
        };
        assert_eq!([other_of(10, 12), other_of(20, 21), other_of(30, 35)], [2, 2, 5]);
    }

    #[test]
    fn names_that_come_late_are_not_missed_for_long() {
        let all = |openings| Watched { openings, ..Watched::default() }.wants_all_names();
        let openings: Vec<u32> = (0..40).filter(|openings| all(*openings)).collect();
        assert_eq!(openings, [0, 16, 32]);
    }

    #[test]
    fn calls_of_this_process_are_counted_by_name() {
        let Ok(mut events) = Events::load() else {
            return crate::reasons::not_run(
                "tracepoints of system calls: this user may not count them",
            );
        };
        let party = events.place().unwrap();
        events.watch(party, std::process::id());
        events.arm(true).unwrap();
        events.count(true).unwrap();
        let made = 500;
        (0..made).for_each(|_| drop(fs::read("/proc/self/statm")));
        events.count(false).unwrap();
        let open = events.calls(party).unwrap();
        events.arm(false).unwrap();
        let closed = events.calls(party).unwrap();
        assert_eq!(open.by_name, closed.by_name, "closing loses nothing");
        // Other tests read, too.
        assert!(closed.by_name["read"].count >= made && closed.by_name["close"].count >= made);
        assert!(closed.of_cpus[0] >= 4 * made, "{closed:?}");
    }
}
