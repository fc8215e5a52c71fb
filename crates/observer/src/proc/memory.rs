//! Reads the memory of processes whose pages are shared or huge.

use super::{read_of_process, status_field, visible_folder};
use crate::files::Files;
use crate::read;

/// Returns the memory of a process in huge pages of hugetlb, in bytes. Resident memory does not
/// include it. `None`: the process is ending.
pub(crate) fn huge_bytes(pid: u32, files: &Files) -> Option<u64> {
    read_of_process(pid, "status", files, parse_huge_bytes)
}

/// Returns the bytes of a line such as `Referenced:         892 kB`.
pub(crate) fn kib_field(text: &str, key: &str) -> Option<u64> {
    Some(status_field(text, key)? * 1024)
}

/// Parses `HugetlbPages` of a `status` file. `None`: the thread of the file has no memory. Kernels
/// without huge pages have no such line.
fn parse_huge_bytes(status: &str) -> Option<u64> {
    status_field(status, "VmRSS:")?;
    Some(kib_field(status, "HugetlbPages:").unwrap_or(0))
}

/// Memory of a process in bytes, with each shared page divided by the number of processes that map
/// it (`Pss` of proc_pid_smaps_rollup(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProportionalMemory {
    pub(crate) anon: u64,
    pub(crate) shmem: u64,
    /// Huge pages of hugetlb that only this process maps.
    pub(crate) private_huge: u64,
    /// Huge pages of hugetlb that several processes map. The kernel does not divide them.
    pub(crate) shared_huge: u64,
}

impl ProportionalMemory {
    /// Parses a `smaps_rollup` file. `None`: the kernel is older than Linux 5.4.
    fn parse(rollup: &str) -> Option<ProportionalMemory> {
        let bytes = |key| kib_field(rollup, key);
        Some(ProportionalMemory {
            anon: bytes("Pss_Anon:")?,
            shmem: bytes("Pss_Shmem:")?,
            private_huge: bytes("Private_Hugetlb:").unwrap_or(0),
            shared_huge: bytes("Shared_Hugetlb:").unwrap_or(0),
        })
    }
}

/// Reads the proportional memory of a process. The kernel visits each page: 12 ms for 1 GB in pages
/// of 4 kB. An open file would show the memory of an earlier program of the process, so none stays
/// open. `None`: this user may not read it, or the process is ending.
pub(crate) fn proportional_memory(pid: u32) -> Option<ProportionalMemory> {
    let rollup = read(visible_folder(pid).join("smaps_rollup"))?;
    ProportionalMemory::parse(&rollup)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_of_process_are_parsed() {
        let status = "VmRSS:\t    7000 kB\nHugetlbPages:\t   32768 kB\n";
        assert_eq!(parse_huge_bytes(status), Some(32 << 20));
        assert_eq!(
            parse_huge_bytes("VmRSS:\t    7000 kB\n"),
            Some(0),
            "a kernel without huge pages"
        );
        assert_eq!(parse_huge_bytes("Name:\tended\n"), None);
    }

    #[test]
    fn proportional_memory_is_parsed() {
        let old = "Pss:  219 kB\nPss_Anon:  116 kB\nPss_File:  103 kB\nPss_Shmem:  8 kB\n";
        let memory = ProportionalMemory { anon: 116 << 10, shmem: 8 << 10, ..Default::default() };
        assert_eq!(ProportionalMemory::parse(old), Some(memory));
        let huge = format!("{old}Shared_Hugetlb:  2048 kB\nPrivate_Hugetlb:  4096 kB\n");
        let memory = ProportionalMemory { private_huge: 4 << 20, shared_huge: 2 << 20, ..memory };
        assert_eq!(ProportionalMemory::parse(&huge), Some(memory));
        assert_eq!(ProportionalMemory::parse("Pss:  219 kB\n"), None);
    }
}
