//! Properties of a process's program: its size, its symbols, its allocator, its instructions and
//! its libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use dyno_archive::start::Binary;
use iced_x86::{CpuidFeature, Decoder, DecoderOptions, Instruction};
use memchr::memmem;
use object::{Architecture, Object as _, ObjectSection as _};

use crate::read;

/// Largest program that is read, bytes.
const MAX_BYTES: u64 = 512 << 20;

/// Largest part of its code that is decoded, bytes: one second of work.
const MAX_CODE: usize = 64 << 20;

/// Inspects the program of a process. `None`: the process is gone, or this user may not read it.
#[must_use]
pub fn look(pid: u32) -> Option<Binary> {
    let place = format!("/proc/{pid}/exe");
    let name = file_name(&fs::read_link(&place).ok()?)?;
    let bytes = fs::metadata(&place).ok()?.len();
    let libraries = libraries(&read(format!("/proc/{pid}/maps")).unwrap_or_default(), &name);
    let contents =
        (bytes <= MAX_BYTES).then(|| fs::read(&place).ok()).flatten().unwrap_or_default();
    Some(Binary { name, bytes, ..of_contents(&contents, libraries) })
}

fn file_name(path: &Path) -> Option<String> {
    // An updated file is shown as `name (deleted)`.
    Some(path.file_name()?.to_string_lossy().trim_end_matches(" (deleted)").into())
}

fn of_contents(contents: &[u8], libraries: Vec<String>) -> Binary {
    let allocator = allocator(contents, &libraries).map(String::from);
    let base = Binary { allocator, libraries, ..Binary::default() };
    let Ok(file) = object::File::parse(contents) else { return base };
    let (instructions, extensions) = match (file.architecture(), file.section_by_name(".text")) {
        (Architecture::X86_64, Some(text)) => instructions(text.data().unwrap_or_default()),
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

/// The files that are mapped as code, in the order of their names. The last field of a line of
/// `/proc/PID/maps` (proc_pid_maps(5)).
fn libraries(maps: &str, program: &str) -> Vec<String> {
    let is_code =
        |line: &&str| line.split_ascii_whitespace().nth(1).is_some_and(|mode| mode.contains('x'));
    let name = |line: &str| file_name(Path::new(line.get(line.find('/')?..)?));
    let all: BTreeSet<String> =
        maps.lines().filter(is_code).filter_map(name).filter(|name| name != program).collect();
    all.into_iter().collect()
}

/// Marks of allocators: in a library's name, or in text of their messages. The text is in capitals
/// here: otherwise this program would contain it as well.
const ALLOCATORS: [(&str, &str); 3] =
    [("jemalloc", "<JEMALLOC>"), ("mimalloc", "MIMALLOC: "), ("tcmalloc", "TCMALLOC::")];

/// Mark of Go's own allocator, also in capitals.
const GO: &str = "RUNTIME.MALLOCGC";

fn allocator(contents: &[u8], libraries: &[String]) -> Option<&'static str> {
    let has = |part: &str| libraries.iter().any(|library| library.contains(part));
    let says = |sign: &str| memmem::find(contents, sign.to_lowercase().as_bytes()).is_some();
    if let Some((name, _)) = ALLOCATORS.iter().find(|(name, sign)| has(name) || says(sign)) {
        return Some(name);
    }
    if says(GO) {
        return Some("Go");
    }
    if has("ld-musl") {
        return Some("musl");
    }
    has("libc.so").then_some("glibc")
}

/// Counts all instructions, and those of each extension that a compiler uses only if an option
/// asks for it.
fn instructions(code: &[u8]) -> (Option<u64>, BTreeMap<String, u64>) {
    let code = &code[..code.len().min(MAX_CODE)];
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let (mut instruction, mut all) = (Instruction::default(), 0);
    let mut extensions: BTreeMap<&'static str, u64> = BTreeMap::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            continue;
        }
        all += 1;
        for name in instruction.cpuid_features().iter().filter_map(|feature| extension(*feature)) {
            *extensions.entry(name).or_default() += 1;
        }
    }
    (Some(all), extensions.into_iter().map(|(name, n)| (name.into(), n)).collect())
}

/// Name of an extension that distinguishes the levels of x86-64 (the psABI's micro-architecture
/// levels), or of one above them.
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
    fn our_own_program_is_looked_at() {
        let seen = look(std::process::id()).unwrap();
        assert!(seen.name.starts_with("dyno_observer") && seen.bytes > 100_000, "{seen:?}");
        assert!(seen.libraries.iter().any(|library| library.starts_with("libc")), "{seen:?}");
        assert_eq!((seen.allocator.as_deref(), seen.symbols), (Some("glibc"), true));
        #[cfg(target_arch = "x86_64")]
        assert!(seen.instructions.unwrap() > 10_000);
        assert_eq!(look(u32::MAX), None);
    }

    #[test]
    fn instructions_are_counted_by_their_extension() {
        // ret; popcnt eax, eax; vpaddd ymm0, ymm0, ymm0
        let code = [0xc3, 0xf3, 0x0f, 0xb8, 0xc0, 0xc5, 0xfd, 0xfe, 0xc0];
        let (all, extensions) = instructions(&code);
        assert_eq!(all, Some(3));
        assert_eq!(extensions, [("AVX2".to_string(), 1), ("POPCNT".to_string(), 1)].into());
    }

    #[test]
    fn allocator_is_known_by_its_library_or_its_text() {
        let with = |library: &str| [library.to_string()];
        assert_eq!(allocator(b"", &with("libjemalloc.so.2")), Some("jemalloc"));
        let says = |sign: &str| format!("…{}…", sign.to_lowercase()).into_bytes();
        assert_eq!(allocator(&says("MIMALLOC: "), &with("libc.so.6")), Some("mimalloc"));
        assert_eq!(allocator(&says(GO), &[]), Some("Go"));
        assert_eq!(
            (allocator(b"", &with("libc.so.6")), allocator(b"", &[])),
            (Some("glibc"), None)
        );
    }

    #[test]
    fn libraries_are_what_is_mapped_as_code() {
        let maps = "7f0-7f1 r-xp 0000 fe:00 1 /usr/lib/libz.so.1\n\
                    7f1-7f2 r--p 0000 fe:00 1 /usr/share/x\n\
                    7f3-7f4 r-xp 0000 fe:00 1 /usr/bin/h2o\n7f5-7f6 r-xp 0000 00:00 0 [vdso]\n\
                    7f7-7f8 r-xp 0000 fe:00 2 /usr/lib/liba.so (deleted)\n";
        assert_eq!(libraries(maps, "h2o"), ["liba.so", "libz.so.1"]);
    }
}
