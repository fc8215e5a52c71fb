//! Reads the counters of JVMs from the file that each JVM writes for tools such as `jstat`:
//! `/tmp/hsperfdata_USER/PID`. The counters show how much time garbage collection and compilation
//! take.
//!
//! The JVM maps the file into its memory, so reading it costs the JVM nothing. The format is
//! version 2 of HotSpot's `perfMemory.hpp`.

use std::collections::BTreeMap;

use crate::runtime_files;

/// Largest file that is read, bytes. The files are 32 KiB unless a JVM option changes that.
const MAX_BYTES: u64 = 1 << 20;

const MAGIC: [u8; 4] = [0xca, 0xfe, 0xc0, 0xc0];

/// Returns the number of JVMs among these processes, and the sums of their values by the names of
/// [`RuntimeReading`](dyno_model::runtime::RuntimeReading).
#[must_use]
pub fn read(pids: &[u32]) -> (u32, BTreeMap<String, f64>) {
    let mut sums = BTreeMap::new();
    let mut jvms = 0;
    for values in pids.iter().filter_map(|&pid| parse_values(&read_file(pid)?)) {
        jvms += 1;
        for (name, value) in values {
            *sums.entry(name.to_string()).or_insert(0.0) += value;
        }
    }
    (jvms, sums)
}

fn read_file(pid: u32) -> Option<Vec<u8>> {
    runtime_files::read_bytes(&runtime_files::hsperfdata_path(pid)?, pid, MAX_BYTES)
}

/// Parses the values in a file. `None`: the file has another format, or is incomplete.
fn parse_values(file: &[u8]) -> Option<Vec<(&'static str, f64)>> {
    let entries = parse_entries(file)?;
    let seconds = |ticks: i64| {
        let frequency = entries.get("sun.os.hrt.frequency").filter(|hertz| **hertz > 0)?;
        Some(ticks as f64 / *frequency as f64)
    };
    let sum = |prefix: &str, suffix: &str| -> Option<i64> {
        let matching =
            entries.iter().filter(|(name, _)| name.starts_with(prefix) && name.ends_with(suffix));
        matching
            .map(|(_, value)| *value)
            .fold(None, |sum: Option<i64>, value| Some(sum.unwrap_or(0) + value))
    };
    let entry = |name: &str| entries.get(name).copied();
    let values = [
        ("gc_cycles_total", sum("sun.gc.collector.", ".invocations").map(|n| n as f64)),
        ("gc_seconds_total", sum("sun.gc.collector.", ".time").and_then(seconds)),
        ("jit_seconds_total", entry("java.ci.totalTime").and_then(seconds)),
        ("jit_compiles_total", entry("sun.ci.totalCompiles").map(|n| n as f64)),
        ("safepoint_seconds_total", entry("sun.rt.safepointTime").and_then(seconds)),
        ("heap_bytes", sum("sun.gc.generation.", ".used").map(|n| n as f64)),
        ("classes", entry("java.cls.loadedClasses").map(|n| n as f64)),
    ];
    Some(values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

/// Parses the numbers in a file, by name.
fn parse_entries(file: &[u8]) -> Option<BTreeMap<&str, i64>> {
    /// Byte order of the numbers. It is this machine's byte order, because the JVM runs on it.
    const BYTE_ORDER: u8 = if cfg!(target_endian = "little") { 1 } else { 0 };
    let is_ready = file.get(..4)? == MAGIC && *file.get(4)? == BYTE_ORDER && *file.get(7)? != 0;
    if !is_ready {
        return None;
    }
    let mut offset = usize::try_from(int(file, 24)?).ok()?;
    let mut numbers = BTreeMap::new();
    for _ in 0..int(file, 28)? {
        let entry = file.get(offset..)?;
        let length = usize::try_from(int(entry, 0)?).ok().filter(|length| *length > 0)?;
        let entry = entry.get(..length)?;
        if let Some((name, value)) = parse_number(entry) {
            numbers.insert(name, value);
        }
        offset += length;
    }
    Some(numbers)
}

/// Parses the name and value of an entry. `None`: the entry is a list or has another type.
fn parse_number(entry: &[u8]) -> Option<(&str, i64)> {
    let name = entry.get(usize::try_from(int(entry, 4)?).ok()?..)?;
    let name = std::str::from_utf8(&name[..memchr::memchr(0, name)?]).ok()?;
    let is_number = int(entry, 8)? == 0 && *entry.get(12)? == b'J';
    if !is_number {
        return None;
    }
    let offset = usize::try_from(int(entry, 16)?).ok()?;
    let value = entry.get(offset..)?.first_chunk::<8>()?;
    Some((name, i64::from_ne_bytes(*value)))
}

fn int(bytes: &[u8], offset: usize) -> Option<i32> {
    bytes.get(offset..)?.first_chunk::<4>().copied().map(i32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file as a JVM writes it.
    fn file(numbers: &[(&str, i64)]) -> Vec<u8> {
        let mut file = Vec::from(MAGIC);
        file.extend([u8::from(cfg!(target_endian = "little")), 2, 0, 1]);
        file.extend([0; 16]);
        file.extend(32i32.to_ne_bytes());
        file.extend((numbers.len() as i32).to_ne_bytes());
        for (name, value) in numbers {
            let (begin, length) = (20, (20 + name.len() + 1).next_multiple_of(8) + 8);
            let mut entry = Vec::new();
            entry.extend([length as i32, begin, 0].map(i32::to_ne_bytes).concat());
            entry.extend([b'J', 0, 3, 2]);
            entry.extend((length as i32 - 8).to_ne_bytes());
            entry.extend(name.as_bytes());
            entry.resize(length - 8, 0);
            entry.extend(value.to_ne_bytes());
            file.extend(entry);
        }
        file
    }

    #[test]
    fn jvm_times_and_counts_are_parsed() {
        let bytes = file(&[
            ("sun.os.hrt.frequency", 1_000_000),
            ("sun.gc.collector.0.invocations", 14),
            ("sun.gc.collector.0.time", 49_000),
            ("sun.gc.collector.1.invocations", 1),
            ("sun.gc.collector.1.time", 1000),
            ("java.ci.totalTime", 2_500_000),
            ("sun.gc.generation.0.space.0.used", 100),
            ("sun.gc.generation.1.space.0.used", 23),
        ]);
        let expected = [
            ("gc_cycles_total", 15.0),
            ("gc_seconds_total", 0.05),
            ("jit_seconds_total", 2.5),
            ("heap_bytes", 123.0),
        ];
        assert_eq!(parse_values(&bytes).unwrap(), expected, "missing counters have no value");
        // Without the frequency, ticks cannot be converted to time.
        let without_frequency = file(&[("java.ci.totalTime", 7), ("sun.ci.totalCompiles", 3)]);
        assert_eq!(parse_values(&without_frequency).unwrap(), [("jit_compiles_total", 3.0)]);
    }

    #[test]
    fn invalid_or_truncated_file_has_no_values() {
        let complete = file(&[("java.ci.totalTime", 7), ("sun.ci.totalCompiles", 3)]);
        for end in 0..complete.len() {
            assert_eq!(parse_values(&complete[..end]), None, "{end} bytes");
        }
        let mut not_ready = complete.clone();
        not_ready[7] = 0;
        assert_eq!(parse_values(&not_ready), None);
        // No wrong byte may cause a panic.
        for offset in 0..complete.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut corrupt = complete.clone();
                corrupt[offset] = byte;
                let _ = parse_values(&corrupt);
            }
        }
        assert_eq!(read(&[std::process::id()]), (0, BTreeMap::new()), "not a JVM");
    }
}
