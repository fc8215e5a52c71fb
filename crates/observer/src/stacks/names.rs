//! From addresses to functions: of the kernel, of files, and of code compiled just in time, of which a runtime keeps a list in
//! `/tmp/perf-PID.map` (the kernel's tools/perf/Documentation/jit-interface.txt).

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use blazesym::symbolize::source::{Kernel, Process, Source};
use blazesym::symbolize::{Input, Sym, Symbolized, Symbolizer};
use blazesym::{MaybeDefault, Pid};
use dyno_archive::profile::{Frame, FrameKind};

use super::unwind::{Unwinder, file_name};
use crate::read;

/// What addresses stand for: a function, and those that were inlined into it, the outermost first.
pub(super) type Named = HashMap<u64, Vec<Frame>>;

/// Longer names are cut: templates have some of thousands of characters.
const MOST_LETTERS: usize = 400;

/// Names addresses of the kernel. Those of which the kernel does not tell, as to users without privilege, have no name.
pub(super) fn of_kernel(symbolizer: &Symbolizer, addresses: &BTreeSet<u64>) -> Named {
    // An image of the kernel would tell of inlined functions; few machines have one, and it takes long to read.
    let source = Source::Kernel(Kernel { vmlinux: MaybeDefault::None, ..Kernel::default() });
    let unknown = |_| Frame { name: None, module: None, kind: FrameKind::Kernel };
    named(symbolizer, &source, addresses, FrameKind::Kernel, unknown)
}

/// Names addresses of a process.
pub(super) fn of_process(
    symbolizer: &Symbolizer,
    pid: u32,
    addresses: &BTreeSet<u64>,
    unwinder: &Unwinder,
) -> Named {
    let unknown = |_| Frame { name: None, module: None, kind: FrameKind::Jit };
    let source = Source::Process(Process { perf_map: false, ..Process::new(Pid::from(pid)) });
    let mut all = named(symbolizer, &source, addresses, FrameKind::Native, unknown);
    // Also of code that lies in a file without names: a runtime's own assembly.
    let nameless =
        |address: &&u64| all.get(address).is_none_or(|frames| frames.iter().all(|f| f.name.is_none()));
    let nameless: BTreeSet<u64> = addresses.iter().filter(nameless).copied().collect();
    let map = perf_map(pid).unwrap_or_default();
    let compiled = compiled(&map, &nameless);
    for address in &nameless {
        let frame = match (compiled.get(address), unwinder.place(pid, *address)) {
            (Some(name), _) => Frame { name: Some(cut(name)), module: None, kind: FrameKind::Jit },
            (None, Some((name, module))) => {
                Frame { name, module: Some(module.into()), kind: FrameKind::Native }
            }
            (None, None) => unknown(*address),
        };
        all.insert(*address, vec![frame]);
    }
    all
}

fn named(
    symbolizer: &Symbolizer,
    source: &Source<'_>,
    addresses: &BTreeSet<u64>,
    kind: FrameKind,
    unknown: impl Fn(u64) -> Frame,
) -> Named {
    let addresses: Vec<u64> = addresses.iter().copied().collect();
    let symbols = symbolizer.symbolize(source, Input::AbsAddr(&addresses)).unwrap_or_default();
    let mut symbols = symbols.into_iter();
    let frames = |address: u64| match symbols.next() {
        Some(Symbolized::Sym(symbol)) => functions(&symbol, kind),
        Some(Symbolized::Unknown(_)) | None => vec![unknown(address)],
    };
    addresses
        .iter()
        .copied()
        .map(frames)
        .zip(&addresses)
        .map(|(frames, address)| (*address, frames))
        .collect()
}

fn functions(symbol: &Sym<'_>, kind: FrameKind) -> Vec<Frame> {
    let module = match kind {
        FrameKind::Kernel => None,
        _ => symbol.module.as_ref().map(|path| file_name(&path.to_string_lossy())),
    };
    let frame = |name: &str, kind| Frame { name: Some(cut(name)), module: module.clone(), kind };
    let inlined = symbol.inlined.iter().map(|function| frame(&function.name, FrameKind::Inlined));
    std::iter::once(frame(&symbol.name, kind)).chain(inlined).collect()
}

/// A name that fits on a line.
fn cut(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(MOST_LETTERS).collect()
}

/// The list of code that a process has compiled.
fn perf_map(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/root{}", list_of(pid)?)).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Where a process keeps that list, as it sees files itself: under the number that it has where it lives.
fn list_of(pid: u32) -> Option<String> {
    let status = read(format!("/proc/{pid}/status"))?;
    let own = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_ascii_whitespace().last()?;
    Some(format!("/tmp/perf-{own}.map"))
}

/// The lists of code that processes leave behind when they end, in the folder that they share with us.
#[derive(Clone, Debug, Default)]
pub struct Lists(Vec<PathBuf>);

impl Lists {
    /// Those of processes that are still there.
    #[must_use]
    pub fn of(pids: &[u32]) -> Lists {
        let own = |pid: &u32| {
            let path = PathBuf::from(list_of(*pid)?);
            let list = fs::symlink_metadata(&path).ok()?;
            let process = fs::metadata(format!("/proc/{pid}")).ok()?;
            // One that another user left under the same number is not ours to remove, nor is one that a link leads to.
            (list.is_file() && list.uid() == process.uid()).then_some(path)
        };
        Lists(pids.iter().filter_map(own).collect())
    }

    /// Removes them.
    pub fn remove(self) {
        // One that is gone already needs nothing more.
        self.0.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

/// Which code these addresses lie in: of several entries for a place, the last, which was written there latest.
fn compiled<'a>(map: &'a str, addresses: &BTreeSet<u64>) -> HashMap<u64, &'a str> {
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
        let map =
            "7f00 40 LazyCompile:~old a.js:1\n7f40 10 b\n0x7f10 0x10 LazyCompile:*new one a.js:2\nrubbish\n";
        let found = compiled(map, &[0x7eff, 0x7f00, 0x7f10, 0x7f1f, 0x7f20, 0x7f4f, 0x7f50].into());
        let name = |at: u64| found.get(&at).copied();
        assert_eq!(name(0x7eff), None);
        assert_eq!(name(0x7f00), Some("LazyCompile:~old a.js:1"));
        assert_eq!([name(0x7f10), name(0x7f1f)], [Some("LazyCompile:*new one a.js:2"); 2]);
        assert_eq!(name(0x7f20), Some("LazyCompile:~old a.js:1"));
        assert_eq!([name(0x7f4f), name(0x7f50)], [Some("b"), None]);
    }

    #[test]
    fn the_list_of_a_process_is_removed_and_no_link() {
        let own = PathBuf::from(list_of(std::process::id()).unwrap());
        let _ = fs::remove_file(&own);
        let (folder, pids) = (tempfile::tempdir().unwrap(), [std::process::id()]);
        let elsewhere = folder.path().join("precious");
        fs::write(&elsewhere, "1 1 a").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &own).unwrap();
        Lists::of(&pids).remove();
        assert!(own.is_symlink() && elsewhere.exists());
        fs::remove_file(&own).unwrap();
        fs::write(&own, "1 1 a").unwrap();
        Lists::of(&pids).remove();
        assert!(!own.exists());
    }

    #[test]
    fn names_stay_on_their_line() {
        assert_eq!(cut("a\nb\u{1b}[31m"), "ab[31m");
        assert_eq!(cut(&"x".repeat(1000)).len(), MOST_LETTERS);
    }
}
