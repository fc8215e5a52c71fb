//! Counts system calls without an eBPF program, by perf events of the kernel's tracepoints
//! (perf_event_open(2)), one per name and thread. Perf events are the fallback in PID namespaces
//! and on architectures other than x86-64. The events show how often a call was made, but not its
//! result.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;

use dyno_model::sample::CallUse;
use dyno_model::syscall::UNNAMED;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::program::{CallCounts, PARTIES};
use crate::kernel::ProgramError;
use crate::proc;

/// Usual folders of the kernel's tracepoints.
const FOLDERS: [&str; 2] = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];

/// Calls that are counted by name, because servers spend their time in them. All other calls are
/// counted together as [`UNNAMED`].
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

/// Number of openings of a party's counters of which one opens the counters of all names, beginning
/// with the first opening in a load. The whole machine stalls for a moment when the first counter
/// of a tracepoint is opened, or the last is closed. All other openings therefore open only
/// counters of names that were counted before.
const ALL_NAMES_EVERY: u32 = 16;

/// Returns the name of the kernel's tracepoint of a call.
fn tracepoint_name(call: &str) -> String {
    // The kernel implements this call by the function with 64-bit offsets (fs/read_write.c).
    let function = if call == "sendfile" { "sendfile64" } else { call };
    format!("syscalls/sys_enter_{function}")
}

/// Counters of the calls of parties. The kernel removes the counters when this process ends for any
/// reason.
#[derive(Debug)]
pub(super) struct Events {
    /// Tracepoint of all calls.
    total: u64,
    /// Tracepoints of the calls in [`NAMED`].
    named: BTreeMap<&'static str, u64>,
    /// Parties by number. `None`: the number is unused.
    parties: [Option<WatchedParty>; PARTIES as usize],
    /// Open counters: the party, the call's name (`None`: all calls), and the counter.
    open: Vec<(u64, Option<&'static str>, Counter)>,
    /// Totals of closed counters by party and name.
    sums: BTreeMap<(u64, Option<&'static str>), u64>,
}

/// A monitored party.
#[derive(Debug, Default)]
struct WatchedParty {
    /// Root processes. Their descendants are counted, too.
    roots: Vec<u32>,
    /// How often its counters were opened in the current load.
    openings: u32,
    /// Highest number of [`UNNAMED`] calls in any reading.
    other: u64,
}

impl WatchedParty {
    /// Whether the next opening opens the counters of all names.
    const fn needs_all_names(&self) -> bool {
        self.openings.is_multiple_of(ALL_NAMES_EVERY)
    }
}

impl Events {
    /// Finds the tracepoints.
    ///
    /// # Errors
    /// There are no tracepoints, or this user cannot read or count them.
    pub(super) fn load() -> Result<Events, ProgramError> {
        let points = Tracepoints::find().map_err(ProgramError::new)?;
        let total = points.id("raw_syscalls/sys_enter").map_err(ProgramError::new)?;
        let named_point =
            |name: &'static str| Some((name, points.id(&tracepoint_name(name)).ok()?));
        let events = Events {
            total,
            named: NAMED.into_iter().filter_map(named_point).collect(),
            parties: [const { None }; PARTIES as usize],
            open: Vec::new(),
            sums: BTreeMap::new(),
        };
        // This counter is opened only to check that counting is allowed.
        open_counter(total, 0).map_err(ProgramError::new)?;
        Ok(events)
    }

    /// Reserves the number of a party until the party is forgotten. `None`: all numbers are in use.
    pub(super) fn reserve_party(&mut self) -> Option<u64> {
        let party = self.parties.iter().position(Option::is_none)?;
        self.parties[party] = Some(WatchedParty::default());
        Some(party as u64)
    }

    pub(super) fn watch(&mut self, party: u64, pid: u32) {
        self.parties[party as usize].get_or_insert_default().roots.push(pid);
    }

    pub(super) fn is_watched(&self, pid: u32) -> bool {
        self.parties.iter().flatten().any(|party| party.roots.contains(&pid))
    }

    pub(super) fn forget(&mut self, party: u64) {
        self.open.retain(|(owner, ..)| *owner != party);
        self.parties[party as usize] = None;
    }

    /// Lets the next opening of a party's counters open the counters of all names, because a new
    /// load may cause other calls.
    pub(super) fn begin_load(&mut self, party: u64) {
        self.parties[party as usize].get_or_insert_default().openings = 0;
    }

    /// Opens counters for every living thread, or closes them. Without open counters, calls cost
    /// nothing extra. Takes some time.
    pub(super) fn set_armed(&mut self, is_armed: bool) -> Result<(), ProgramError> {
        let mut closed = std::mem::take(&mut self.open);
        for (party, name, counter) in &mut closed {
            *self.sums.entry((*party, *name)).or_default() +=
                counter.read().map_err(ProgramError::new)?;
        }
        // Closing the last counter of a name takes 30 ms or more, because the kernel waits for
        // every CPU. A separate thread closes the counters, so that the sampling thread does not
        // wait.
        if !closed.is_empty() {
            thread::spawn(move || drop(closed));
        }
        if !is_armed {
            return Ok(());
        }
        let was_counted = |party, name| self.sums.get(&(party, Some(name))).is_some_and(|n| *n > 0);
        for (number, party) in (0..).zip(&mut self.parties) {
            let Some(party) = party else { continue };
            let with_all_names = party.needs_all_names();
            party.openings = party.openings.wrapping_add(1);
            for tid in proc::trees(&party.roots).into_iter().flat_map(proc::thread_ids) {
                let is_selected = |name| with_all_names || was_counted(number, name);
                let named = self.named.iter().filter(|(name, _)| is_selected(**name));
                let points = named.map(|(name, id)| (Some(*name), *id)).chain([(None, self.total)]);
                for (name, id) in points {
                    match open_counter(id, tid) {
                        Ok(counter) => self.open.push((number, name, counter)),
                        // The thread has ended since the list was read.
                        Err(error) if error.raw_os_error() == Some(NO_SUCH_THREAD) => break,
                        Err(error) => return Err(ProgramError::new(error)),
                    }
                }
            }
        }
        Ok(())
    }

    /// Enables or disables the open counters.
    pub(super) fn set_counting(&mut self, is_counting: bool) -> Result<(), ProgramError> {
        let counters = self.open.iter_mut().map(|(.., counter)| counter);
        let mut results =
            counters.map(|counter| if is_counting { counter.enable() } else { counter.disable() });
        results.try_for_each(|result| result.map_err(ProgramError::new))
    }

    /// Returns a party's calls so far.
    pub(super) fn calls(&mut self, party: u64) -> Result<CallCounts, ProgramError> {
        let mut sums: BTreeMap<Option<&'static str>, u64> = BTreeMap::new();
        for ((owner, name), n) in &self.sums {
            if *owner == party {
                *sums.entry(*name).or_default() += n;
            }
        }
        for (owner, name, counter) in &mut self.open {
            if *owner == party {
                *sums.entry(*name).or_default() += counter.read().map_err(ProgramError::new)?;
            }
        }
        let other = &mut self.parties[party as usize].get_or_insert_default().other;
        *other = other_calls(&sums).max(*other);
        Ok(call_counts(&sums, *other))
    }
}

/// Returns the number of calls without a separate counter. `sums`: calls by name, and all calls
/// under `None`.
///
/// Counters are started, stopped and read one after the other. The result may therefore be off by a
/// few calls, and may be lower than the result of an earlier reading.
fn other_calls(sums: &BTreeMap<Option<&'static str>, u64>) -> u64 {
    let named = sums.iter().filter(|(name, _)| name.is_some()).map(|(_, n)| n).sum();
    sums.get(&None).copied().unwrap_or(0).saturating_sub(named)
}

fn call_counts(sums: &BTreeMap<Option<&'static str>, u64>, other: u64) -> CallCounts {
    let only_count = |count| CallUse { count, errors: None, again: None, returned: None };
    let named = sums.iter().filter_map(|(name, n)| Some(((*name)?, *n)));
    let mut by_name: BTreeMap<String, CallUse> =
        named.filter(|(_, n)| *n > 0).map(|(name, n)| (name.into(), only_count(n))).collect();
    if other > 0 {
        by_name.insert(UNNAMED.into(), only_count(other));
    }
    // The CPUs of the calls are unknown, so all calls are attributed to one CPU.
    CallCounts { by_name, by_cpu: vec![sums.get(&None).copied().unwrap_or(0)] }
}

/// Opens a disabled counter of a tracepoint for a thread and the threads that it starts. `tid`: 0
/// is the calling thread.
fn open_counter(id: u64, tid: u32) -> io::Result<Counter> {
    let mut builder = Builder::new(Tracepoint::with_id(id));
    builder.observe_pid(tid as i32).any_cpu().inherit(true).include_kernel();
    builder.build()
}

/// Folder in which the kernel lists its tracepoints.
struct Tracepoints {
    folder: PathBuf,
    /// dyno's private mount, if the folder is in this mount. Closing the descriptor unmounts it.
    _mount: Option<OwnedFd>,
}

impl Tracepoints {
    fn find() -> io::Result<Tracepoints> {
        let mounted =
            FOLDERS.iter().map(PathBuf::from).find(|folder| folder.join("raw_syscalls").exists());
        match mounted {
            Some(folder) => Ok(Tracepoints { folder, _mount: None }),
            // Containers often lack the mount.
            None => Tracepoints::mount(),
        }
    }

    /// Mounts the folder in a way that is invisible to other processes.
    fn mount() -> io::Result<Tracepoints> {
        let tracefs = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&tracefs)?;
        let read_only = MountAttrFlags::MOUNT_ATTR_RDONLY;
        let mount = fsmount(&tracefs, FsMountFlags::FSMOUNT_CLOEXEC, read_only)?;
        let folder = Path::new("/proc/self/fd").join(mount.as_raw_fd().to_string()).join("events");
        Ok(Tracepoints { folder, _mount: Some(mount) })
    }

    fn id(&self, name: &str) -> io::Result<u64> {
        let text = fs::read_to_string(self.folder.join(name).join("id"))?;
        text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

/// The kernel's error for a thread that does not exist.
const NO_SUCH_THREAD: i32 = rustix::io::Errno::SRCH.raw_os_error();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unnamed_calls_are_counted_as_other() {
        let sums = [(Some("read"), 70), (Some("write"), 0), (None, 100)].into();
        let counted = call_counts(&sums, other_calls(&sums));
        let counts: Vec<(&str, u64)> =
            counted.by_name.iter().map(|(name, c)| (name.as_str(), c.count)).collect();
        assert_eq!(counts, [("other", 30), ("read", 70)]);
        assert_eq!((counted.by_name["read"].returned, counted.by_cpu), (None, vec![100]));
        assert_eq!(super::call_counts(&BTreeMap::new(), 0).by_name, BTreeMap::new());
        // Two reads were made after the counter of all calls was read, before the counter of reads
        // was.
        assert_eq!(other_calls(&[(Some("read"), 72), (None, 70)].into()), 0);
    }

    fn events_without_calls() -> Events {
        Events {
            total: 0,
            named: [].into(),
            parties: [const { None }; _],
            open: vec![],
            sums: [].into(),
        }
    }

    #[test]
    fn count_of_other_calls_never_falls() {
        let sums = |read, total| [((0, Some("read")), read), ((0, None), total)].into();
        let mut events = events_without_calls();
        let party = events.reserve_party().unwrap();
        let mut other = |read, total| {
            events.sums = sums(read, total);
            events.calls(party).unwrap().by_name[UNNAMED].count
        };
        assert_eq!([other(10, 12), other(20, 21), other(30, 35)], [2, 2, 5]);
    }

    #[test]
    fn every_16th_opening_needs_all_names() {
        let needs_all =
            |openings| WatchedParty { openings, ..WatchedParty::default() }.needs_all_names();
        let openings: Vec<u32> = (0..40).filter(|openings| needs_all(*openings)).collect();
        assert_eq!(openings, [0, 16, 32]);
    }

    #[test]
    fn new_load_needs_all_names() {
        let mut events = events_without_calls();
        let party = events.reserve_party().unwrap();
        events.set_armed(true).unwrap();
        assert!(!events.parties[0].as_ref().unwrap().needs_all_names());
        events.begin_load(party);
        assert!(events.parties[0].as_ref().unwrap().needs_all_names());
    }

    #[test]
    fn each_named_call_has_tracepoint() {
        assert_eq!(tracepoint_name("sendfile"), "syscalls/sys_enter_sendfile64");
        // Other architectures lack some calls.
        if let (Ok(events), true) = (Events::load(), cfg!(target_arch = "x86_64")) {
            let missing = NAMED.iter().filter(|name| !events.named.contains_key(**name));
            assert_eq!(missing.collect::<Vec<_>>(), [] as [&&str; 0]);
        }
    }

    #[test]
    fn calls_of_this_process_are_counted_by_name() {
        let Ok(mut events) = Events::load() else {
            return crate::reasons::not_run(
                "tracepoints of system calls: this user cannot count them",
            );
        };
        let party = events.reserve_party().unwrap();
        events.watch(party, std::process::id());
        events.set_armed(true).unwrap();
        events.set_counting(true).unwrap();
        let reads = 500;
        (0..reads).for_each(|_| drop(fs::read("/proc/self/statm")));
        events.set_counting(false).unwrap();
        let open = events.calls(party).unwrap();
        events.set_armed(false).unwrap();
        let closed = events.calls(party).unwrap();
        assert_eq!(open.by_name, closed.by_name, "closing the counters lost calls");
        // Other tests make calls as well, so the counts may be higher.
        assert!(closed.by_name["read"].count >= reads && closed.by_name["close"].count >= reads);
        assert!(closed.by_cpu[0] >= 4 * reads, "{closed:?}");
    }
}
