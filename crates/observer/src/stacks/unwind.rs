//! Unwinds a copied stack to the addresses of its calls.
//!
//! Servers are usually built without frame pointers. Unwinding therefore uses the tables of the
//! mapped files (framehop). Code outside of files, such as JIT-compiled code, is unwound by frame
//! pointers if it has them.

use std::collections::HashMap;
use std::fs;
use std::ops::{Deref, Range};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use framehop::{CacheNative, ExplicitModuleSectionInfo, Module, Unwinder as _, UnwinderNative};
use gimli::UnwindSection as _;
use object::{Object as _, ObjectSection as _, ObjectSegment as _};

use super::program::RawStack;
use crate::read;

/// Maximum number of frames of a stack, the default of perf.
const MAX_FRAMES: usize = 127;

/// Largest file whose tables are read.
const MAX_BYTES: u64 = 1 << 30;

/// The user part of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct UserStack {
    /// The innermost first. Each address lies in the call instruction, not behind it.
    pub(super) addresses: Vec<u64>,
    /// Whether unwinding reached the start of the thread.
    pub(super) is_complete: bool,
}

/// A section of a file. The file stays in memory while an unwinder uses the section.
#[derive(Clone, Default)]
struct Section {
    file: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Deref for Section {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.file[self.range.clone()]
    }
}

/// Unwinder for the stacks of any number of processes.
#[derive(Default)]
pub(super) struct Unwinder {
    processes: HashMap<u32, ProcessUnwinder>,
    /// Files by device, inode and path, shared by processes. `None`: the file is unreadable or no
    /// longer exists.
    files: HashMap<String, Option<Arc<Vec<u8>>>>,
    cache: CacheNative<framehop::MayAllocateDuringUnwind>,
}

/// Unwinder and mapped files of a process.
#[derive(Default)]
struct ProcessUnwinder {
    unwinder: UnwinderNative<Section, framehop::MayAllocateDuringUnwind>,
    files: Vec<MappedFile>,
}

/// A file that is mapped as code.
struct MappedFile {
    addresses: Range<u64>,
    /// Difference between an address in the process and the same address in the file.
    base: u64,
    name: String,
    /// Path through which dyno can read the file.
    path: String,
    contents: Arc<Vec<u8>>,
}

/// An address in a file.
#[derive(Clone, Copy)]
pub(super) struct FileAddress<'a> {
    file: &'a MappedFile,
    pub(super) address: u64,
}

impl<'a> FileAddress<'a> {
    /// Returns the path through which dyno can read the file.
    pub(super) fn path(self) -> &'a str {
        &self.file.path
    }

    pub(super) fn name(self) -> &'a str {
        &self.file.name
    }

    /// Returns the start of the function that contains the address. `None`: the file's table has no
    /// such function.
    pub(super) fn function_start(self) -> Option<u64> {
        function_start(&self.file.contents, self.address)
    }
}

impl Unwinder {
    /// Reads the mappings and files of a process. A second call for the same process does nothing.
    pub(super) fn load_process(&mut self, pid: u32) {
        if self.processes.contains_key(&pid) {
            return;
        }
        let mut process = ProcessUnwinder::default();
        for mapping in mappings(&read(format!("/proc/{pid}/maps")).unwrap_or_default()) {
            let path = mapping.readable_path(pid);
            let contents =
                self.files.entry(format!("{} {}", mapping.id, mapping.path)).or_insert_with(|| {
                    let metadata = fs::metadata(&path).ok()?;
                    // The path may now lead to a file other than the mapped one.
                    let is_same = metadata.is_file()
                        && metadata.ino() == mapping.inode
                        && metadata.len() <= MAX_BYTES;
                    is_same.then(|| fs::read(&path).ok()).flatten().map(Arc::new)
                });
            if let Some((file, module)) =
                contents.as_ref().and_then(|contents| load(&mapping, path, contents))
            {
                process.files.push(file);
                process.unwinder.add_module(module);
            }
        }
        self.processes.insert(pid, process);
    }

    /// Returns the file that contains an address of a process. `None`: the address is in no mapped
    /// file.
    pub(super) fn file(&self, pid: u32, address: u64) -> Option<FileAddress<'_>> {
        let file =
            self.processes.get(&pid)?.files.iter().find(|f| f.addresses.contains(&address))?;
        Some(FileAddress { file, address: address - file.base })
    }

    /// Unwinds the user part of a copied stack.
    pub(super) fn unwind(&mut self, raw: &RawStack<'_>) -> UserStack {
        self.load_process(raw.pid);
        if raw.ip == 0 {
            // A kernel thread of the process, such as io_uring's, which is never in user space.
            return UserStack { addresses: Vec::new(), is_complete: true };
        }
        let unwinder = &self.processes[&raw.pid].unwinder;
        let mut read = |address: u64| raw.read(address).ok_or(());
        let regs = framehop::UnwindRegsNative::new(raw.ip, raw.sp, raw.bp);
        let mut frames = unwinder.iter_frames(raw.ip, regs, &mut self.cache, &mut read);
        let mut stack = UserStack::default();
        let mut is_at_end = false;
        while stack.addresses.len() < MAX_FRAMES {
            match frames.next() {
                Ok(Some(frame)) => stack.addresses.push(frame.address_for_lookup()),
                Ok(None) => {
                    is_at_end = true;
                    break;
                }
                Err(_) => break,
            }
        }
        // A chain of frame pointers also ends early if code uses the register for something else.
        // Threads begin in a file, so a stack is complete only if its outermost address is in a
        // file.
        let outermost = stack.addresses.last().copied();
        stack.is_complete =
            is_at_end && outermost.is_some_and(|address| self.file(raw.pid, address).is_some());
        stack
    }
}

/// A mapping of a file's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping<'a> {
    from: u64,
    to: u64,
    offset: u64,
    /// Device and inode, as one string.
    id: &'a str,
    inode: u64,
    /// Path of the file, followed by ` (deleted)` if it was deleted.
    path: &'a str,
}

impl Mapping<'_> {
    /// Returns the path through which dyno can read the file. The path leads through the root of
    /// the process, or through the mapping itself if the file was deleted.
    fn readable_path(&self, pid: u32) -> String {
        match self.path.ends_with(" (deleted)") {
            true => format!("/proc/{pid}/map_files/{:x}-{:x}", self.from, self.to),
            false => format!("/proc/{pid}/root{}", self.path),
        }
    }
}

/// Parses the mappings of files' code in `/proc/PID/maps` (proc_pid_maps(5)).
fn mappings(maps: &str) -> impl Iterator<Item = Mapping<'_>> {
    maps.lines().filter_map(|line| {
        let path = line.get(line.find('/')?..)?;
        let before = line[..line.len() - path.len()].trim_end();
        let mut fields = before.split_ascii_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        fields.next().filter(|mode| mode.contains('x'))?;
        let offset = hex(fields.next()?)?;
        let (device, inode) = (fields.next()?, fields.next()?);
        let id = &before[before.rfind(device)?..];
        Some(Mapping {
            from: hex(from)?,
            to: hex(to)?,
            offset,
            id,
            inode: inode.parse().ok()?,
            path,
        })
    })
}

/// Returns a mapped file and its unwinding tables. `None`: the file is not ELF, or has no code at
/// the mapping's offset.
fn load(
    mapping: &Mapping<'_>,
    path: String,
    contents: &Arc<Vec<u8>>,
) -> Option<(MappedFile, Module<Section>)> {
    let elf = object::File::parse(contents.as_slice()).ok()?;
    let base = base(mapping, &elf)?;
    let range = |name: &str| {
        let section = elf.section_by_name(name)?;
        Some(section.address()..section.address() + section.size())
    };
    let data = |name: &str| {
        let section = elf.section_by_name(name)?;
        if section.compressed_file_range().ok()?.format != object::CompressionFormat::None {
            return None;
        }
        let (from, bytes) = section.file_range()?;
        let range = usize::try_from(from).ok()?..usize::try_from(from.checked_add(bytes)?).ok()?;
        contents.get(range.clone()).map(|_| Section { file: Arc::clone(contents), range })
    };
    let sections = ExplicitModuleSectionInfo {
        text_svma: range(".text"),
        text: data(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        debug_frame: data(".debug_frame"),
        ..ExplicitModuleSectionInfo::default()
    };
    let addresses = mapping.from..mapping.to;
    let file = MappedFile {
        addresses: addresses.clone(),
        base,
        name: file_name(mapping.path.trim_end_matches(" (deleted)")),
        path,
        contents: Arc::clone(contents),
    };
    Some((file, Module::new(mapping.path.into(), addresses, base, sections)))
}

/// Returns the difference between a mapping's addresses in the process and in its file, computed
/// from the mapped segment.
fn base(mapping: &Mapping<'_>, elf: &object::File<'_>) -> Option<u64> {
    const PAGE: u64 = 4096;
    let is_code = |s: &object::Segment<'_, '_>| match s.flags() {
        object::SegmentFlags::Elf { p_flags, .. } => p_flags & object::elf::PF_X != 0,
        _ => false,
    };
    // A mapping begins at a page boundary, but a segment may begin anywhere in a page.
    let contains_offset = |s: &object::Segment<'_, '_>| {
        let (from, bytes) = s.file_range();
        (from & !(PAGE - 1)..from + bytes).contains(&mapping.offset)
    };
    let segment = elf.segments().find(|s| is_code(s) && contains_offset(s))?;
    let (segment_offset, _) = segment.file_range();
    let segment_start = mapping.from.wrapping_sub(mapping.offset).wrapping_add(segment_offset);
    segment_start.checked_sub(segment.address())
}

/// Returns the start of the function that contains an address of a file, by the file's
/// `.eh_frame_hdr` (Linux Standard Base Core 5.0, 10.6.2). `None`: no function contains it, or
/// there is no such table.
fn function_start(file: &[u8], address: u64) -> Option<u64> {
    let elf = object::File::parse(file).ok()?;
    let (index, table) = (elf.section_by_name(".eh_frame_hdr")?, elf.section_by_name(".eh_frame")?);
    let bases = gimli::BaseAddresses::default()
        .set_eh_frame_hdr(index.address())
        .set_eh_frame(table.address())
        .set_text(elf.section_by_name(".text").map_or(0, |text| text.address()));
    let endian = gimli::LittleEndian;
    let parsed = gimli::EhFrameHdr::new(index.data().ok()?, endian).parse(&bases, 8).ok()?;
    let frames = gimli::EhFrame::new(table.data().ok()?, endian);
    let function = parsed
        .table()?
        .fde_for_address(&frames, &bases, address, gimli::EhFrame::cie_from_offset)
        .ok()?;
    function.contains(address).then(|| function.initial_address())
}

/// Returns the name of a file without its folder, for display.
fn file_name(path: &str) -> String {
    Path::new(path)
        .file_name()
        .map_or_else(|| path.into(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_mappings_of_files_are_parsed() {
        let maps = "\
55d0c0000000-55d0c0001000 r--p 00000000 08:01 12 /usr/bin/a server
55d0c0001000-55d0c0005000 r-xp 00001000 08:01 12 /usr/bin/a server
7f0000000000-7f0000010000 rwxp 00000000 00:00 0
7f0000020000-7f0000021000 r-xp 00003000 08:01 13 /usr/lib/x.so (deleted)
7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0 [vdso]
";
        let rows: Vec<_> =
            mappings(maps).map(|m| (m.from, m.to, m.offset, m.id, m.inode, m.path)).collect();
        assert_eq!(
            rows,
            [
                (0x55d0_c000_1000, 0x55d0_c000_5000, 0x1000, "08:01 12", 12, "/usr/bin/a server"),
                (
                    0x7f00_0002_0000,
                    0x7f00_0002_1000,
                    0x3000,
                    "08:01 13",
                    13,
                    "/usr/lib/x.so (deleted)"
                ),
            ]
        );
        let paths: Vec<String> = mappings(maps).map(|m| m.readable_path(7)).collect();
        assert_eq!(
            paths,
            ["/proc/7/root/usr/bin/a server", "/proc/7/map_files/7f0000020000-7f0000021000"]
        );
    }
}
