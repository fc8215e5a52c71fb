//! From addresses to functions: of the kernel, of files, and of code compiled just in time, of
//! which a runtime keeps a list in `/tmp/perf-PID.map` (the kernel's
//! tools/perf/Documentation/jit-interface.txt).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use blazesym::symbolize::source::{Elf, Kernel, Process, Source};
use blazesym::symbolize::{Input, Sym, Symbolized, Symbolizer};
use blazesym::{MaybeDefault, Pid};
use dyno_archive::profile::{Frame, FrameKind};

use super::unwind::Unwinder;
use crate::runtime_files;

/// Functions of addresses: a function and those inlined into it, the outermost first.
pub(super) type FunctionNames = HashMap<u64, Vec<Frame>>;

/// Longer names are cut: templates have some of thousands of characters.
const MAX_LETTERS: usize = 400;

/// Names addresses of the kernel. Addresses that the kernel hides, as from users without privilege,
/// have no name.
pub(super) fn kernel_names(symbolizer: &Symbolizer, addresses: &BTreeSet<u64>) -> FunctionNames {
    // An image of the kernel would show inlined functions, but few machines have one, and reading
    // it takes long.
    let source = Source::Kernel(Kernel { vmlinux: MaybeDefault::None, ..Kernel::default() });
    let mut all = resolve_addresses(symbolizer, &source, Input::AbsAddr(addresses), None);
    for address in addresses {
        let unknown = || vec![Frame { name: None, module: None, kind: FrameKind::Kernel }];
        all.entry(*address).or_insert_with(unknown);
    }
    all
}

/// Names addresses of a process: file by file, so that one that cannot be read takes no name from
/// the others.
pub(super) fn process_names(
    symbolizer: &Symbolizer,
    pid: u32,
    addresses: &BTreeSet<u64>,
    unwinder: &Unwinder,
) -> FunctionNames {
    let mut files: BTreeMap<(&str, &str), BTreeMap<u64, u64>> = BTreeMap::new();
    let mut elsewhere = BTreeSet::new();
    for address in addresses {
        match unwinder.file(pid, *address) {
            Some(file) => {
                files
                    .entry((file.place(), file.name()))
                    .or_default()
                    .insert(*address, file.address);
            }
            None => {
                elsewhere.insert(*address);
            }
        }
    }
    let mut all = FunctionNames::new();
    for ((place, name), addresses) in files {
        let source = Source::Elf(Elf::new(place));
        let within: BTreeSet<u64> = addresses.values().copied().collect();
        let named = resolve_addresses(symbolizer, &source, Input::VirtOffset(&within), Some(name));
        all.extend(
            addresses.iter().filter_map(|(address, at)| Some((*address, named.get(at)?.clone()))),
        );
    }
    // The kernel's page of functions (vDSO) has names, although it is in no file.
    let process = Process { perf_map: false, map_files: false, ..Process::new(Pid::from(pid)) };
    all.extend(resolve_addresses(
        symbolizer,
        &Source::Process(process),
        Input::AbsAddr(&elsewhere),
        Some("vdso"),
    ));
    // Lists may have names also for code that lies in a file without: a runtime's own assembly.
    let nameless: BTreeSet<u64> =
        addresses.iter().filter(|at| !all.contains_key(at)).copied().collect();
    let map = perf_map(pid).unwrap_or_default();
    let compiled = compiled_names(&map, &nameless);
    for address in &nameless {
        let frame = match (compiled.get(address), unwinder.file(pid, *address)) {
            (Some(name), _) => {
                Frame { name: Some(shorten(name)), module: None, kind: FrameKind::Jit }
            }
            (None, Some(file)) => match file.begins() {
                Some(begins) => Frame::from_offset(file.name(), begins),
                None => Frame {
                    name: None,
                    module: Some(shorten(file.name())),
                    kind: FrameKind::Native,
                },
            },
            (None, None) => Frame { name: None, module: None, kind: FrameKind::Jit },
        };
        all.insert(*address, vec![frame]);
    }
    all
}

/// Names of the addresses that have one. `module`: their file; `None`: the kernel.
fn resolve_addresses(
    symbolizer: &Symbolizer,
    source: &Source<'_>,
    addresses: Input<&BTreeSet<u64>>,
    module: Option<&str>,
) -> FunctionNames {
    let asked: Vec<u64> = match &addresses {
        Input::AbsAddr(all) | Input::VirtOffset(all) | Input::FileOffset(all) => {
            all.iter().copied().collect()
        }
    };
    let input = addresses.map(|_| asked.as_slice());
    // A source that cannot be read has no names.
    let symbols = symbolizer.symbolize(source, input).unwrap_or_default();
    let of = |(address, symbol): (&u64, Symbolized<'_>)| match symbol {
        Symbolized::Sym(symbol) => Some((*address, functions(&symbol, module))),
        Symbolized::Unknown(_) => None,
    };
    asked.iter().zip(symbols).filter_map(of).collect()
}

fn functions(symbol: &Sym<'_>, module: Option<&str>) -> Vec<Frame> {
    let frame =
        |name: &str, kind| Frame { name: Some(shorten(name)), module: module.map(shorten), kind };
    let kind = if module.is_some() { FrameKind::Native } else { FrameKind::Kernel };
    let inlined = symbol.inlined.iter().map(|function| frame(&function.name, FrameKind::Inlined));
    std::iter::once(frame(&symbol.name, kind)).chain(inlined).collect()
}

/// A name that fits on a line.
pub(super) fn shorten(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(MAX_LETTERS).collect()
}

/// The list of code that a process has compiled.
fn perf_map(pid: u32) -> Option<String> {
    let bytes = runtime_files::bytes(&runtime_files::list_of(pid)?, pid, MAX_BYTES)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// How much of a list is read.
const MAX_BYTES: u64 = 256 << 20;

/// Which code these addresses lie in: of several entries for a place, the last, which was written
/// there latest.
fn compiled_names<'a>(map: &'a str, addresses: &BTreeSet<u64>) -> HashMap<u64, &'a str> {
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let entry = |line: &'a str| {
        let mut fields = line.splitn(3, ' ');
        Some((hex(fields.next()?)?, hex(fields.next()?)?, fields.next()?))
    };
    let mut found = HashMap::new();
    for (from, size, name) in map.lines().filter_map(entry) {
        for address in addresses.range(from..from.saturating_add(size)) {
            found.insert(*address, name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_was_written_over_has_its_last_name() {
        let map = "7f00 40 LazyCompile:~old a.js:1\n7f40 10 b\n0x7f10 0x10 LazyCompile:*new one \
                   a.js:2\nrubbish\n";
        let found =
            compiled_names(map, &[0x7eff, 0x7f00, 0x7f10, 0x7f1f, 0x7f20, 0x7f4f, 0x7f50].into());
        let name = |at: u64| found.get(&at).copied();
        assert_eq!(name(0x7eff), None);
        assert_eq!(name(0x7f00), Some("LazyCompile:~old a.js:1"));
        assert_eq!([name(0x7f10), name(0x7f1f)], [Some("LazyCompile:*new one a.js:2"); 2]);
        assert_eq!(name(0x7f20), Some("LazyCompile:~old a.js:1"));
        assert_eq!([name(0x7f4f), name(0x7f50)], [Some("b"), None]);
    }

    #[test]
    fn names_stay_on_their_line() {
        assert_eq!(shorten("a\nb\u{1b}[31m"), "ab[31m");
        assert_eq!(shorten(&"x".repeat(1000)).len(), MAX_LETTERS);
    }
}
