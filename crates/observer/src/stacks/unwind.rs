//! From a stack as it lay in memory to the addresses that its functions return to.
//!
//! Servers are built without frame pointers, so the unwinding tables of the files that they were
//! loaded from are followed (framehop); code that lies in no file, as compiled just in time, is
//! followed by frame pointers, if it keeps them.

use std::collections::HashMap;
use std::fs;
use std::ops::{Deref, Range};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use framehop::{CacheNative, ExplicitModuleSectionInfo, Module, Unwinder as _, UnwinderNative};
use gimli::UnwindSection as _;
use object::{Object as _, ObjectSection as _, ObjectSegment as _};

use super::program::Raw;
use crate::read;

/// Frames that are followed at most: as many as perf does by default.
const MAX_FRAMES: usize = 127;

/// The largest file whose tables are read.
const MAX_BYTES: u64 = 1 << 30;

/// The user part of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct UserStack {
    /// The innermost first. Each lies in the call, and not behind it.
    pub(super) addresses: Vec<u64>,
    /// It was followed to where the thread began.
    pub(super) whole: bool,
}

/// A section of a file, held as long as somebody follows stacks by it.
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

/// Follows the stacks of processes.
#[derive(Default)]
pub(super) struct Unwinder {
    processes: HashMap<u32, ProcessUnwinder>,
    /// Files, for processes that share them, by device, inode and path; `None`: it cannot be read,
    /// or is not there any more.
    files: HashMap<String, Option<Arc<Vec<u8>>>>,
    cache: CacheNative<framehop::MayAllocateDuringUnwind>,
}

/// Unwinder and mapped files of a process.
#[derive(Default)]
struct ProcessUnwinder {
    unwinder: UnwinderNative<Section, framehop::MayAllocateDuringUnwind>,
    loaded: Vec<Loaded>,
}

/// A file that is mapped as code.
struct Loaded {
    addresses: Range<u64>,
    /// Offset of its addresses from those in the file.
    base: u64,
    name: String,
    /// Where it can be read.
    place: String,
    file: Arc<Vec<u8>>,
}

/// An address as a file has it.
#[derive(Clone, Copy)]
pub(super) struct InFile<'a> {
    loaded: &'a Loaded,
    pub(super) address: u64,
}

impl<'a> InFile<'a> {
    /// Where the file can be read.
    pub(super) fn place(self) -> &'a str {
        &self.loaded.place
    }

    pub(super) fn name(self) -> &'a str {
        &self.loaded.name
    }

    /// Where its function begins, as the file's table of functions has it; `None`: it is in none.
    pub(super) fn begins(self) -> Option<u64> {
        begins(&self.loaded.file, self.address)
    }
}

impl Unwinder {
    /// Reads what a process consists of, if that is not known yet.
    pub(super) fn know(&mut self, pid: u32) {
        if self.processes.contains_key(&pid) {
            return;
        }
        let mut known = ProcessUnwinder::default();
        for mapping in mappings(&read(format!("/proc/{pid}/maps")).unwrap_or_default()) {
            let place = mapping.place(pid);
            let file =
                self.files.entry(format!("{} {}", mapping.id, mapping.path)).or_insert_with(|| {
                    let is = fs::metadata(&place).ok()?;
                    // Another file of the same name is not what runs.
                    let is_same =
                        is.is_file() && is.ino() == mapping.inode && is.len() <= MAX_BYTES;
                    is_same.then(|| fs::read(&place).ok()).flatten().map(Arc::new)
                });
            if let Some((loaded, module)) =
                file.as_ref().and_then(|file| load(&mapping, place, file))
            {
                known.loaded.push(loaded);
                known.unwinder.add_module(module);
            }
        }
        self.processes.insert(pid, known);
    }

    /// The file that an address of a process is of.
    pub(super) fn file(&self, pid: u32, address: u64) -> Option<InFile<'_>> {
        let loaded =
            self.processes.get(&pid)?.loaded.iter().find(|l| l.addresses.contains(&address))?;
        Some(InFile { loaded, address: address - loaded.base })
    }

    pub(super) fn walk(&mut self, raw: &Raw<'_>) -> UserStack {
        self.know(raw.pid);
        if raw.ip == 0 {
            // A thread that was never in user space, as one of io_uring's own.
            return UserStack { addresses: Vec::new(), whole: true };
        }
        let unwinder = &self.processes[&raw.pid].unwinder;
        let mut read = |at: u64| raw.read(at).ok_or(());
        let regs = framehop::UnwindRegsNative::new(raw.ip, raw.sp, raw.bp);
        let mut frames = unwinder.iter_frames(raw.ip, regs, &mut self.cache, &mut read);
        let mut walked = UserStack::default();
        let mut is_at_end = false;
        while walked.addresses.len() < MAX_FRAMES {
            match frames.next() {
                Ok(Some(frame)) => walked.addresses.push(frame.address_for_lookup()),
                Ok(None) => {
                    is_at_end = true;
                    break;
                }
                Err(_) => break,
            }
        }
        // Frame pointers also end where code put something else into their register: threads begin
        // in a file.
        let outermost = walked.addresses.last().copied();
        walked.whole =
            is_at_end && outermost.is_some_and(|address| self.file(raw.pid, address).is_some());
        walked
    }
}

/// A file of which a part is mapped as code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping<'a> {
    from: u64,
    to: u64,
    offset: u64,
    /// Device and inode, as one text.
    id: &'a str,
    inode: u64,
    /// With ` (deleted)` behind it if it is.
    path: &'a str,
}

impl Mapping<'_> {
    /// Where the file can be read: as the process sees it, which may have another root, or through
    /// the mapping itself if the file has no name any more.
    fn place(&self, pid: u32) -> String {
        match self.path.ends_with(" (deleted)") {
            true => format!("/proc/{pid}/map_files/{:x}-{:x}", self.from, self.to),
            false => format!("/proc/{pid}/root{}", self.path),
        }
    }
}

/// Mappings of code from files, as listed in `/proc/PID/maps` (proc_pid_maps(5)).
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

fn load(
    mapping: &Mapping<'_>,
    place: String,
    file: &Arc<Vec<u8>>,
) -> Option<(Loaded, Module<Section>)> {
    let elf = object::File::parse(file.as_slice()).ok()?;
    let base = base(mapping, &elf)?;
    let range = |name: &str| {
        let section = elf.section_by_name(name)?;
        Some(section.address()..section.address() + section.size())
    };
    let data = |name: &str| {
        let section = elf.section_by_name(name)?;
        let place = section.compressed_file_range().ok()?;
        let is_plain = place.format == object::CompressionFormat::None;
        let (from, bytes) = section.file_range().filter(|_| is_plain)?;
        let range = usize::try_from(from).ok()?..usize::try_from(from.checked_add(bytes)?).ok()?;
        file.get(range.clone()).map(|_| Section { file: Arc::clone(file), range })
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
    let loaded = Loaded {
        addresses: addresses.clone(),
        base,
        name: file_name(mapping.path.trim_end_matches(" (deleted)")),
        place,
        file: Arc::clone(file),
    };
    Some((loaded, Module::new(mapping.path.into(), addresses, base, sections)))
}

/// Offset of a mapping's addresses from those in its file, computed from the segment that it maps.
fn base(mapping: &Mapping<'_>, elf: &object::File<'_>) -> Option<u64> {
    const PAGE: u64 = 4096;
    let is_code = |s: &object::Segment<'_, '_>| match s.flags() {
        object::SegmentFlags::Elf { p_flags, .. } => p_flags & object::elf::PF_X != 0,
        _ => false,
    };
    // Mappings begin with pages, segments anywhere in them.
    let holds = |s: &object::Segment<'_, '_>| {
        let (from, bytes) = s.file_range();
        (from & !(PAGE - 1)..from + bytes).contains(&mapping.offset)
    };
    let segment = elf.segments().find(|s| is_code(s) && holds(s))?;
    let of_segment = mapping.from.wrapping_sub(mapping.offset).wrapping_add(segment.file_range().0);
    of_segment.checked_sub(segment.address())
}

/// Where the function begins that this address of a file is in, as its `.eh_frame_hdr` has it
/// (Linux Standard Base Core 5.0, 10.6.2). `None`: it is in none, or there is no such table.
fn begins(file: &[u8], address: u64) -> Option<u64> {
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

/// The name of a file, for people.
fn file_name(path: &str) -> String {
    Path::new(path)
        .file_name()
        .map_or_else(|| path.into(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_code_are_those_of_files() {
        let maps = "\
55d0c0000000-55d0c0001000 r--p 00000000 08:01 12 /usr/bin/a server
55d0c0001000-55d0c0005000 r-xp 00001000 08:01 12 /usr/bin/a server
7f0000000000-7f0000010000 rwxp 00000000 00:00 0
7f0000020000-7f0000021000 r-xp 00003000 08:01 13 /usr/lib/x.so (deleted)
7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0 [vdso]
";
        let all: Vec<_> =
            mappings(maps).map(|m| (m.from, m.to, m.offset, m.id, m.inode, m.path)).collect();
        assert_eq!(
            all,
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
        let places: Vec<String> = mappings(maps).map(|m| m.place(7)).collect();
        assert_eq!(
            places,
            ["/proc/7/root/usr/bin/a server", "/proc/7/map_files/7f0000020000-7f0000021000"]
        );
    }
}
