//! The probe `working-set`: the memory that processes access while a window is open.
//!
//! The kernel marks each accessed page. Writing 1 to `/proc/PID/clear_refs` removes the marks, and
//! `Referenced` in `/proc/PID/smaps_rollup` is the memory of the marked pages
//! (proc_pid_clear_refs(5), Documentation/filesystems/proc.rst). Both walk the page tables of the
//! process, and its page faults wait meanwhile. Thus the probe has a cost.
//!
//! The values are estimates: an access to a huge page marks all of it, and a page whose address is
//! in a cache of the CPU (TLB) is not marked again, because the kernel does not flush that cache.

use std::path::Path;
use std::{fs, io};

use dyno_model::probe::Probe;
use dyno_model::sample::PartyUse;

use super::WindowReader;
use crate::kernel::Refusal;
use crate::proc;

pub(super) const READER: WindowReader =
    WindowReader { probe: Probe::WorkingSet, refusal, open, close };

fn refusal() -> Option<Refusal> {
    let has_files = ["clear_refs", "smaps_rollup"]
        .iter()
        .all(|name| Path::new("/proc/self").join(name).exists());
    (!has_files).then(|| Refusal {
        reason: "the kernel does not report accessed pages (CONFIG_PROC_PAGE_MONITOR)".into(),
        hint: "Use a kernel with this option. Major distributions enable it.",
    })
}

/// Removes the marks of all pages.
fn open(pids: &[u32]) -> Result<(), Refusal> {
    let clear = |pid: &u32| {
        let file = proc::visible_folder(*pid).join("clear_refs");
        match fs::write(&file, "1") {
            Err(error) if !has_ended(*pid) => Err(not_allowed(&file, &error)),
            _ => Ok(()),
        }
    };
    pids.iter().try_for_each(clear)
}

/// Adds up the marked pages. Pages that several processes share count once per process.
fn close(pids: &[u32], used: &mut PartyUse) -> Result<(), Refusal> {
    let living = pids.iter().filter_map(|pid| match accessed_bytes(*pid) {
        Err(_) if has_ended(*pid) => None,
        bytes => Some(bytes),
    });
    used.accessed_bytes = Some(living.sum::<Result<u64, Refusal>>()?).filter(|bytes| *bytes > 0);
    Ok(())
}

/// The line with the bytes of all pages that were accessed.
const REFERENCED: &str = "Referenced:";

fn accessed_bytes(pid: u32) -> Result<u64, Refusal> {
    let file = proc::visible_folder(pid).join("smaps_rollup");
    let rollup = fs::read_to_string(&file).and_then(|rollup| {
        // The file of a process without memory, such as one that ends, is empty.
        proc::kib_field(&rollup, REFERENCED).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    });
    rollup.map_err(|error| not_allowed(&file, &error))
}

/// Refuses the probe because a file of a process cannot be opened.
fn not_allowed(file: &Path, error: &io::Error) -> Refusal {
    Refusal {
        reason: format!("{} of the server cannot be used ({error})", file.display()),
        hint: "Run dyno as the user of the server, or as root.",
    }
}

fn has_ended(pid: u32) -> bool {
    proc::Stat::read(pid).is_none_or(|stat| stat.is_exiting)
}

#[cfg(test)]
mod tests {
    use dyno_model::Party;

    use super::*;

    #[test]
    fn referenced_memory_is_parsed() {
        let rollup = "00400000-7ffd00000000 ---p 00000000 00:00 0    [rollup]\nRss:       9000 kB\n\
                      Referenced:         892 kB\nAnonymous:   100 kB\n";
        assert_eq!(proc::kib_field(rollup, REFERENCED), Some(892 * 1024));
        assert_eq!(proc::kib_field("Rss:       9000 kB\n", REFERENCED), None);
    }

    #[test]
    fn window_counts_only_memory_that_is_accessed_in_it() {
        if refusal().is_some() {
            return crate::reasons::not_run("the probe working-set: this kernel lacks it");
        }
        // 64 MiB that only one of two windows accesses.
        let mut bytes = vec![1_u8; 64 << 20];
        let own = [std::process::id()];
        let mut accessed = |is_used: bool| {
            open(&own).unwrap();
            if is_used {
                bytes.iter_mut().step_by(4096).for_each(|byte| *byte = std::hint::black_box(2));
            }
            let mut used = PartyUse::empty(Party::SUBJECT);
            close(&own, &mut used).unwrap();
            used.accessed_bytes.expect("own memory is readable")
        };
        let (idle, busy) = (accessed(false), accessed(true));
        assert!(busy >= 64 << 20 && idle < busy - (32 << 20), "idle {idle}, busy {busy}");
    }

    #[test]
    fn memory_of_ended_processes_is_unknown() {
        let mut used = PartyUse::empty(Party::SUBJECT);
        open(&[u32::MAX]).unwrap();
        close(&[u32::MAX], &mut used).unwrap();
        assert_eq!(used.accessed_bytes, None);
    }

    /// A thread of the kernel has no memory of its own.
    #[test]
    fn process_that_cannot_be_observed_is_named() {
        const KTHREADD: u32 = 2;
        if proc::Stat::read(KTHREADD).is_none_or(|stat| stat.name != "kthreadd") {
            return crate::reasons::not_run("a process without memory: no kernel thread");
        }
        let refusal = open(&[KTHREADD])
            .and_then(|()| close(&[KTHREADD], &mut PartyUse::empty(Party::SUBJECT)));
        let reason = refusal.unwrap_err().reason;
        assert!(
            reason.contains("/2/") && reason.contains("of the server cannot be used"),
            "{reason}"
        );
    }
}
