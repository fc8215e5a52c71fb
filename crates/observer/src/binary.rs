//! Inspects the program of a process: its size, symbols, allocator, instruction set and libraries.
//! They explain differences between two builds of the same server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use dyno_model::start::Binary;
use iced_x86::{CpuidFeature, Decoder, DecoderOptions, Instruction};
use memchr::memmem;
use object::{Architecture, Object as _, ObjectSection as _};

use crate::proc::visible_folder;
use crate::read;

/// Largest program that is read, bytes.
const MAX_BYTES: u64 = 512 << 20;

/// Largest part of a program's code that is decoded, bytes. Decoding it takes about a second.
const MAX_CODE_BYTES: usize = 64 << 20;

/// Inspects the program of a process. `None`: the process has ended, or this user cannot read it.
#[must_use]
pub fn inspect(pid: u32) -> Option<Binary> {
    let folder = visible_folder(pid);
    let path = folder.join("exe");
    let name = file_name(&fs::read_link(&path).ok()?)?;
    let bytes = fs::metadata(&path).ok()?.len();
    let libraries = libraries(&read(folder.join("maps")).unwrap_or_default(), &name);
    let contents = (bytes <= MAX_BYTES).then(|| fs::read(&path).ok()).flatten().unwrap_or_default();
    Some(Binary { name, bytes, ..inspect_contents(&contents, libraries) })
}

fn file_name(path: &Path) -> Option<String> {
    // A file that was replaced since the start is listed as `name (deleted)`.
    Some(path.file_name()?.to_string_lossy().trim_end_matches(" (deleted)").into())
}

/// Inspects the contents of a program, which are empty if they cannot be read.
fn inspect_contents(contents: &[u8], libraries: Vec<String>) -> Binary {
    let allocator = allocator(contents, &libraries).map(String::from);
    let base = Binary { allocator, libraries, ..Binary::default() };
    let Ok(file) = object::File::parse(contents) else { return base };
    let (instructions, extensions) = match (file.architecture(), file.section_by_name(".text")) {
        (Architecture::X86_64, Some(text)) => count_instructions(text.data().unwrap_or_default()),
        _ => (None, BTreeMap::new()),
    };
    Binary {
        debug_info: file.section_by_name(".debug_info").is_some(),
        symbols: file.section_by_name(".symtab").is_some(),
        instructions,
        extensions,
        ..base
    }
}

/// Returns the names of the files that are mapped as code, sorted. The path is the last field of a
/// line of `/proc/PID/maps` (proc_pid_maps(5)).
fn libraries(maps: &str, program: &str) -> Vec<String> {
    let is_code =
        |line: &&str| line.split_ascii_whitespace().nth(1).is_some_and(|mode| mode.contains('x'));
    let name = |line: &str| file_name(Path::new(line.get(line.find('/')?..)?));
    let names: BTreeSet<String> =
        maps.lines().filter(is_code).filter_map(name).filter(|name| name != program).collect();
    names.into_iter().collect()
}

/// Allocators: a part of the name of the library, and a text from its messages. The text is in
/// capitals here, so that dyno's own program does not contain it.
const ALLOCATORS: [(&str, &str); 3] =
    [("jemalloc", "<JEMALLOC>"), ("mimalloc", "MIMALLOC: "), ("tcmalloc", "TCMALLOC::")];

/// Text in programs with Go's allocator, also in capitals.
const GO: &str = "RUNTIME.MALLOCGC";

fn allocator(contents: &[u8], libraries: &[String]) -> Option<&'static str> {
    let has_library = |part: &str| libraries.iter().any(|library| library.contains(part));
    let contains = |text: &str| memmem::find(contents, text.to_lowercase().as_bytes()).is_some();
    let is_used = |(name, text): &&(&str, &str)| has_library(name) || contains(text);
    if let Some((name, _)) = ALLOCATORS.iter().find(is_used) {
        return Some(name);
    }
    if contains(GO) {
        return Some("Go");
    }
    if has_library("ld-musl") {
        return Some("musl");
    }
    has_library("libc.so").then_some("glibc")
}

/// Counts all instructions, and the instructions of each extension that compilers use only if an
/// option enables it.
fn count_instructions(code: &[u8]) -> (Option<u64>, BTreeMap<String, u64>) {
    let code = &code[..code.len().min(MAX_CODE_BYTES)];
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let (mut instruction, mut count) = (Instruction::default(), 0);
    let mut extensions: BTreeMap<&'static str, u64> = BTreeMap::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            continue;
        }
        count += 1;
        for name in instruction.cpuid_features().iter().filter_map(|feature| extension(*feature)) {
            *extensions.entry(name).or_default() += 1;
        }
    }
    (Some(count), extensions.into_iter().map(|(name, n)| (name.into(), n)).collect())
}

/// Returns the name of an extension that distinguishes the levels of x86-64 (the psABI's
/// micro-architecture levels), or of an extension above these levels.
fn extension(feature: CpuidFeature) -> Option<&'static str> {
    Some(match feature {
        CpuidFeature::SSE3 => "SSE3",
        CpuidFeature::SSSE3 => "SSSE3",
        CpuidFeature::SSE4_1 => "SSE4.1",
        CpuidFeature::SSE4_2 => "SSE4.2",
        CpuidFeature::POPCNT => "POPCNT",
        CpuidFeature::AVX => "AVX",
        CpuidFeature::AVX2 => "AVX2",
        CpuidFeature::BMI1 => "BMI1",
        CpuidFeature::BMI2 => "BMI2",
        CpuidFeature::FMA => "FMA",
        CpuidFeature::LZCNT => "LZCNT",
        CpuidFeature::MOVBE => "MOVBE",
        CpuidFeature::AVX512F => "AVX512F",
        CpuidFeature::AVX512BW => "AVX512BW",
        CpuidFeature::AVX512VL => "AVX512VL",
        CpuidFeature::AES => "AES",
        CpuidFeature::SHA => "SHA",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_program_is_inspected() {
        let binary = inspect(std::process::id()).unwrap();
        assert!(binary.name.starts_with("dyno_observer") && binary.bytes > 100_000, "{binary:?}");
        assert!(binary.libraries.iter().any(|library| library.starts_with("libc")), "{binary:?}");
        assert_eq!((binary.allocator.as_deref(), binary.symbols), (Some("glibc"), true));
        #[cfg(target_arch = "x86_64")]
        assert!(binary.instructions.unwrap() > 10_000);
        assert_eq!(inspect(u32::MAX), None);
    }

    #[test]
    fn instructions_are_counted_by_extension() {
        // ret; popcnt eax, eax; vpaddd ymm0, ymm0, ymm0
        let code = [0xc3, 0xf3, 0x0f, 0xb8, 0xc0, 0xc5, 0xfd, 0xfe, 0xc0];
        let (count, extensions) = count_instructions(&code);
        assert_eq!(count, Some(3));
        assert_eq!(extensions, [("AVX2".to_string(), 1), ("POPCNT".to_string(), 1)].into());
    }

    #[test]
    fn allocator_is_recognised_by_library_or_text() {
        let with = |library: &str| [library.to_string()];
        assert_eq!(allocator(b"", &with("libjemalloc.so.2")), Some("jemalloc"));
        let containing = |text: &str| format!("…{}…", text.to_lowercase()).into_bytes();
        assert_eq!(allocator(&containing("MIMALLOC: "), &with("libc.so.6")), Some("mimalloc"));
        assert_eq!(allocator(&containing(GO), &[]), Some("Go"));
        assert_eq!(
            (allocator(b"", &with("libc.so.6")), allocator(b"", &[])),
            (Some("glibc"), None)
        );
    }

    #[test]
    fn libraries_are_other_files_mapped_as_code() {
        let maps = "7f0-7f1 r-xp 0000 fe:00 1 /usr/lib/libz.so.1\n\
                    7f1-7f2 r--p 0000 fe:00 1 /usr/share/x\n\
                    7f3-7f4 r-xp 0000 fe:00 1 /usr/bin/h2o\n7f5-7f6 r-xp 0000 00:00 0 [vdso]\n\
                    7f7-7f8 r-xp 0000 fe:00 2 /usr/lib/liba.so (deleted)\n";
        assert_eq!(libraries(maps, "h2o"), ["liba.so", "libz.so.1"]);
    }
}
