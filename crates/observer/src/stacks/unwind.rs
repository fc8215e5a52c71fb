//! From a stack as it lay in memory to the addresses that its functions return to.
//!
//! Servers are built without frame pointers, so the unwinding tables of the files that they were loaded from are followed
//! (framehop); code that lies in no file, as compiled just in time, is followed by frame pointers, if it keeps them.

use std::collections::HashMap;
use std::fs;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use framehop::{CacheNative, ExplicitModuleSectionInfo, Module, Unwinder as _, UnwinderNative};
use gimli::UnwindSection as _;
use object::{Object as _, ObjectSection as _, ObjectSegment as _};

use super::program::Raw;
use crate::read;

/// Frames that are followed at most: as many as perf does by default.
const MOST_FRAMES: usize = 127;

/// The largest file whose tables are read.
const MOST_BYTES: u64 = 1 << 30;

/// The user part of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Walked {
    /// The innermost first. Each lies in the call, and not behind it.
    pub(super) addresses: Vec<u64>,
    /// It was followed to where the thread began.
    pub(super) whole: bool,
}

/// A section of a file, held as long as somebody follows stacks by it.
#[derive(Clone, Default)]
struct Section {
    file: Arc<[u8]>,
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
    processes: HashMap<u32, Known>,
    /// Files, for processes that share them; `None`: it cannot be read.
    files: HashMap<String, Option<Arc<[u8]>>>,
    cache: CacheNative<framehop::MayAllocateDuringUnwind>,
}

/// What a process consists of.
#[derive(Default)]
struct Known {
    unwinder: UnwinderNative<Section, framehop::MayAllocateDuringUnwind>,
    loaded: Vec<Loaded>,
}

/// A file that is mapped as code.
struct Loaded {
    addresses: Range<u64>,
    /// How far its addresses are from those that the file tells of.
    base: u64,
    name: String,
    file: Arc<[u8]>,
}

impl Unwinder {
    /// Reads what a process consists of, if that is not known yet.
    pub(super) fn know(&mut self, pid: u32) {
        if self.processes.contains_key(&pid) {
            return;
        }
        let mut known = Known::default();
        for mapping in mappings(&read(format!("/proc/{pid}/maps")).unwrap_or_default()) {
            let file = self.files.entry(mapping.path.into()).or_insert_with(|| {
                // As the process sees it, which may have another root.
                let place = format!("/proc/{pid}/root{}", mapping.path);
                let bytes = fs::metadata(&place).ok().filter(|it| it.is_file() && it.len() <= MOST_BYTES);
                bytes.and_then(|_| fs::read(&place).ok()).map(Arc::from)
            });
            if let Some((loaded, module)) = file.as_ref().and_then(|file| load(&mapping, file)) {
                known.loaded.push(loaded);
                known.unwinder.add_module(module);
            }
        }
        self.processes.insert(pid, known);
    }

    /// Names the place of a function of a process by where it begins in its file, as the file's table of functions has it: for those
    /// that have no other name. Returns it with the name of the file; `None` of the former: it is not in that table.
    pub(super) fn place(&self, pid: u32, address: u64) -> Option<(Option<String>, &str)> {
        let loaded = self.processes.get(&pid)?.loaded.iter().find(|l| l.addresses.contains(&address))?;
        let begins = begins(&loaded.file, address - loaded.base);
        Some((begins.map(|at| format!("{}+{at:#x}", loaded.name)), &loaded.name))
    }

    pub(super) fn walk(&mut self, raw: &Raw<'_>) -> Walked {
        self.know(raw.pid);
        let unwinder = &self.processes[&raw.pid].unwinder;
        let mut read = |at: u64| raw.read(at).ok_or(());
        let regs = framehop::UnwindRegsNative::new(raw.ip, raw.sp, raw.bp);
        let mut frames = unwinder.iter_frames(raw.ip, regs, &mut self.cache, &mut read);
        let mut walked = Walked::default();
        while walked.addresses.len() < MOST_FRAMES {
            match frames.next() {
                Ok(Some(frame)) => walked.addresses.push(frame.address_for_lookup()),
                Ok(None) => {
                    walked.whole = true;
                    break;
                }
                Err(_) => break,
            }
        }
        walked
    }
}

/// A file of which a part is mapped as code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping<'a> {
    pub(super) from: u64,
    pub(super) to: u64,
    offset: u64,
    pub(super) path: &'a str,
}

/// The code that `/proc/PID/maps` tells of and that files hold (proc_pid_maps(5)).
pub(super) fn mappings(maps: &str) -> impl Iterator<Item = Mapping<'_>> {
    maps.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        fields.next().filter(|mode| mode.contains('x'))?;
        let offset = hex(fields.next()?)?;
        let path = line.get(line.find('/')?..)?.trim_end_matches(" (deleted)");
        Some(Mapping { from: hex(from)?, to: hex(to)?, offset, path })
    })
}

fn load(mapping: &Mapping<'_>, file: &Arc<[u8]>) -> Option<(Loaded, Module<Section>)> {
    let elf = object::File::parse(&**file).ok()?;
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
    let loaded =
        Loaded { addresses: addresses.clone(), base, name: file_name(mapping.path), file: Arc::clone(file) };
    Some((loaded, Module::new(mapping.path.into(), addresses, base, sections)))
}

/// How far the addresses of a mapping are from those that its file tells of: by the segment that it is of.
fn base(mapping: &Mapping<'_>, elf: &object::File<'_>) -> Option<u64> {
    const PAGE: u64 = 4096;
    let is_code = |s: &object::Segment<'_, '_>| matches!(s.flags(), object::SegmentFlags::Elf { p_flags, .. } if p_flags & object::elf::PF_X != 0);
    // Mappings begin with pages, segments anywhere in them.
    let holds = |s: &object::Segment<'_, '_>| {
        let (from, bytes) = s.file_range();
        (from & !(PAGE - 1)..from + bytes).contains(&mapping.offset)
    };
    let segment = elf.segments().find(|s| is_code(s) && holds(s))?;
    let of_segment = mapping.from.wrapping_sub(mapping.offset).wrapping_add(segment.file_range().0);
    of_segment.checked_sub(segment.address())
}

/// Where the function begins that this address of a file is in, as its `.eh_frame_hdr` has it (Linux Standard Base Core 5.0,
/// 10.6.2). `None`: it is in none, or there is no such table.
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
    let function =
        parsed.table()?.fde_for_address(&frames, &bases, address, gimli::EhFrame::cie_from_offset).ok()?;
    function.contains(address).then(|| function.initial_address())
}

/// The name of a file, for people.
pub(super) fn file_name(path: &str) -> String {
    Path::new(path).file_name().map_or_else(|| path.into(), |name| name.to_string_lossy().into_owned())
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
        let all: Vec<_> = mappings(maps).map(|m| (m.from, m.to, m.offset, m.path)).collect();
        assert_eq!(
            all,
            [
                (0x55d0_c000_1000, 0x55d0_c000_5000, 0x1000, "/usr/bin/a server"),
                (0x7f00_0002_0000, 0x7f00_0002_1000, 0x3000, "/usr/lib/x.so"),
            ]
        );
    }
}
