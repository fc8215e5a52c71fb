//! Finds the names of the functions at sampled addresses: in the kernel, in mapped files and in
//! JIT-compiled code. Runtimes list JIT-compiled code in `/tmp/perf-PID.map` (the kernel's
//! tools/perf/Documentation/jit-interface.txt).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use blazesym::symbolize::source::{Elf, Kernel, Process, Source};
use blazesym::symbolize::{Input, Sym, Symbolized, Symbolizer};
use blazesym::{MaybeDefault, Pid};
use dyno_model::profile::{Frame, FrameKind};

use super::unwind::Unwinder;
use crate::runtime_files;

/// Functions by address: a function and the functions inlined into it, the outermost first.
pub(super) type FunctionNames = HashMap<u64, Vec<Frame>>;

/// Longest name, characters. Names of C++ templates can have thousands.
const MAX_NAME_CHARS: usize = 400;

/// Names addresses of the kernel. Addresses have no name if the kernel hides them, as it does from
/// unprivileged users.
pub(super) fn kernel_names(symbolizer: &Symbolizer, addresses: &BTreeSet<u64>) -> FunctionNames {
    // The kernel's image is not used, although it would show inlined functions, because few
    // machines have an image, and reading an image is slow.
    let source = Source::Kernel(Kernel { vmlinux: MaybeDefault::None, ..Kernel::default() });
    let mut names = resolve_addresses(symbolizer, &source, Input::AbsAddr(addresses), None);
    for address in addresses {
        let unknown = || vec![Frame { name: None, module: None, kind: FrameKind::Kernel }];
        names.entry(*address).or_insert_with(unknown);
    }
    names
}

/// Names addresses of a process.
pub(super) fn process_names(
    symbolizer: &Symbolizer,
    pid: u32,
    addresses: &BTreeSet<u64>,
    unwinder: &Unwinder,
) -> FunctionNames {
    let (files, outside_files) = group_by_file(pid, addresses, unwinder);
    let mut names = file_names(symbolizer, &files);
    names.extend(vdso_names(symbolizer, pid, &outside_files));
    // A perf map may also name code of a file without symbols, such as a runtime's own assembly.
    let nameless: BTreeSet<u64> =
        addresses.iter().filter(|address| !names.contains_key(address)).copied().collect();
    names.extend(perf_map_names(pid, &nameless, unwinder));
    names
}

/// Addresses of a process, grouped by file. The outer key is the path and the name of a file. The
/// inner map translates each address in the process to the address in this file.
type AddressesByFile<'a> = BTreeMap<(&'a str, &'a str), BTreeMap<u64, u64>>;

/// Returns the addresses in each file, and those outside of all files.
fn group_by_file<'a>(
    pid: u32,
    addresses: &BTreeSet<u64>,
    unwinder: &'a Unwinder,
) -> (AddressesByFile<'a>, BTreeSet<u64>) {
    let mut files = AddressesByFile::new();
    let mut outside_files = BTreeSet::new();
    for address in addresses {
        match unwinder.file(pid, *address) {
            Some(file) => {
                files.entry((file.path(), file.name())).or_default().insert(*address, file.address);
            }
            None => {
                outside_files.insert(*address);
            }
        }
    }
    (files, outside_files)
}

/// Names addresses by the symbols of their files. Each file is resolved separately, so that an
/// unreadable file does not affect the others.
fn file_names(symbolizer: &Symbolizer, files: &AddressesByFile<'_>) -> FunctionNames {
    let mut names = FunctionNames::new();
    for (&(path, name), addresses) in files {
        let source = Source::Elf(Elf::new(path));
        let file_addresses: BTreeSet<u64> = addresses.values().copied().collect();
        let input = Input::VirtOffset(&file_addresses);
        let resolved = resolve_addresses(symbolizer, &source, input, Some(name));
        names.extend(addresses.iter().filter_map(|(address, file_address)| {
            Some((*address, resolved.get(file_address)?.clone()))
        }));
    }
    names
}

/// Names addresses in the kernel's page of functions (vDSO), which has names although it is in no
/// file.
fn vdso_names(symbolizer: &Symbolizer, pid: u32, addresses: &BTreeSet<u64>) -> FunctionNames {
    let process = Process { perf_map: false, map_files: false, ..Process::new(Pid::from(pid)) };
    let source = Source::Process(process);
    resolve_addresses(symbolizer, &source, Input::AbsAddr(addresses), Some("vdso"))
}

/// Names addresses by the process's perf map. An address outside of the map gets its file and the
/// start of its function, or no name.
fn perf_map_names(pid: u32, addresses: &BTreeSet<u64>, unwinder: &Unwinder) -> FunctionNames {
    let map = read_perf_map(pid).unwrap_or_default();
    let compiled = jit_names(&map, addresses);
    let frame = |address: u64| match (compiled.get(&address), unwinder.file(pid, address)) {
        (Some(name), _) => Frame { name: Some(shorten(name)), module: None, kind: FrameKind::Jit },
        (None, Some(file)) => match file.function_start() {
            Some(start) => Frame::from_offset(file.name(), start),
            None => {
                Frame { name: None, module: Some(shorten(file.name())), kind: FrameKind::Native }
            }
        },
        (None, None) => Frame { name: None, module: None, kind: FrameKind::Jit },
    };
    addresses.iter().map(|address| (*address, vec![frame(*address)])).collect()
}

/// Returns the names of all addresses that have a name. `module`: the file of the addresses;
/// `None`: the kernel.
fn resolve_addresses(
    symbolizer: &Symbolizer,
    source: &Source<'_>,
    addresses: Input<&BTreeSet<u64>>,
    module: Option<&str>,
) -> FunctionNames {
    let list: Vec<u64> = match &addresses {
        Input::AbsAddr(addresses) | Input::VirtOffset(addresses) | Input::FileOffset(addresses) => {
            addresses.iter().copied().collect()
        }
    };
    let input = addresses.map(|_| list.as_slice());
    // An unreadable source is treated as a source without names.
    let symbols = symbolizer.symbolize(source, input).unwrap_or_default();
    let named_frames = |(address, symbol): (&u64, Symbolized<'_>)| match symbol {
        Symbolized::Sym(symbol) => Some((*address, functions(&symbol, module))),
        Symbolized::Unknown(_) => None,
    };
    list.iter().zip(symbols).filter_map(named_frames).collect()
}

fn functions(symbol: &Sym<'_>, module: Option<&str>) -> Vec<Frame> {
    let frame =
        |name: &str, kind| Frame { name: Some(shorten(name)), module: module.map(shorten), kind };
    let kind = if module.is_some() { FrameKind::Native } else { FrameKind::Kernel };
    let inlined = symbol.inlined.iter().map(|function| frame(&function.name, FrameKind::Inlined));
    std::iter::once(frame(&symbol.name, kind)).chain(inlined).collect()
}

/// Removes control characters from a name and limits its length.
pub(super) fn shorten(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(MAX_NAME_CHARS).collect()
}

/// Reads a process's list of JIT-compiled code.
fn read_perf_map(pid: u32) -> Option<String> {
    let path = runtime_files::perf_map_path(pid)?;
    let bytes = runtime_files::read_bytes(&path, pid, MAX_PERF_MAP_BYTES)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Largest part of a perf map that is read.
const MAX_PERF_MAP_BYTES: u64 = 256 << 20;

/// Finds the names of addresses in a perf map. If several entries contain an address, the last one
/// is the current code.
fn jit_names<'a>(map: &'a str, addresses: &BTreeSet<u64>) -> HashMap<u64, &'a str> {
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let entry = |line: &'a str| {
        let mut fields = line.splitn(3, ' ');
        Some((hex(fields.next()?)?, hex(fields.next()?)?, fields.next()?))
    };
    let mut names = HashMap::new();
    for (from, size, name) in map.lines().filter_map(entry) {
        for address in addresses.range(from..from.saturating_add(size)) {
            names.insert(*address, name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overwritten_jit_code_has_its_latest_name() {
        let map = "7f00 40 LazyCompile:~old a.js:1\n7f40 10 b\n0x7f10 0x10 LazyCompile:*new one \
                   a.js:2\nrubbish\n";
        let names =
            jit_names(map, &[0x7eff, 0x7f00, 0x7f10, 0x7f1f, 0x7f20, 0x7f4f, 0x7f50].into());
        let name = |at: u64| names.get(&at).copied();
        assert_eq!(name(0x7eff), None);
        assert_eq!(name(0x7f00), Some("LazyCompile:~old a.js:1"));
        assert_eq!([name(0x7f10), name(0x7f1f)], [Some("LazyCompile:*new one a.js:2"); 2]);
        assert_eq!(name(0x7f20), Some("LazyCompile:~old a.js:1"));
        assert_eq!([name(0x7f4f), name(0x7f50)], [Some("b"), None]);
    }

    #[test]
    fn shortened_name_is_bounded_without_control_characters() {
        assert_eq!(shorten("a\nb\u{1b}[31m"), "ab[31m");
        assert_eq!(shorten(&"x".repeat(1000)).len(), MAX_NAME_CHARS);
    }
}
