//! Counters of a JVM, from the file that it keeps for tools such as `jstat`:
//! `/tmp/hsperfdata_USER/PID`. The JVM maps it into its memory, so reading it costs the JVM
//! nothing. The format is that of HotSpot's `perfMemory.hpp`, version 2.

use std::collections::BTreeMap;

use crate::runtime_files;

/// Largest file that is read, bytes. The files are 32 KiB unless a JVM option changes that.
const MOST: u64 = 1 << 20;

const MAGIC: [u8; 4] = [0xca, 0xfe, 0xc0, 0xc0];

/// Values of these processes in the form of
/// [`RuntimeReading`](dyno_archive::runtime::RuntimeReading): sums over the JVMs among them, and
/// the number of JVMs.
#[must_use]
pub fn read(pids: &[u32]) -> (u32, BTreeMap<String, f64>) {
    let mut sum = BTreeMap::new();
    let mut processes = 0;
    for values in pids.iter().filter_map(|&pid| values(&bytes_of(pid)?)) {
        processes += 1;
        for (name, value) in values {
            *sum.entry(name.to_string()).or_insert(0.0) += value;
        }
    }
    (processes, sum)
}

fn bytes_of(pid: u32) -> Option<Vec<u8>> {
    runtime_files::bytes(&runtime_files::counters_of(pid)?, pid, MOST)
}

/// Values in such a file; `None`: it has another format, or is incomplete.
fn values(file: &[u8]) -> Option<Vec<(&'static str, f64)>> {
    let entries = entries(file)?;
    let seconds = |ticks: i64| {
        let frequency = entries.get("sun.os.hrt.frequency").filter(|hertz| **hertz > 0)?;
        Some(ticks as f64 / *frequency as f64)
    };
    let sum = |prefix: &str, suffix: &str| -> Option<i64> {
        let of =
            entries.iter().filter(|(name, _)| name.starts_with(prefix) && name.ends_with(suffix));
        of.map(|(_, value)| *value)
            .fold(None, |sum: Option<i64>, value| Some(sum.unwrap_or(0) + value))
    };
    let one = |name: &str| entries.get(name).copied();
    let all = [
        ("gc_cycles_total", sum("sun.gc.collector.", ".invocations").map(|n| n as f64)),
        ("gc_seconds_total", sum("sun.gc.collector.", ".time").and_then(seconds)),
        ("jit_seconds_total", one("java.ci.totalTime").and_then(seconds)),
        ("jit_compiles_total", one("sun.ci.totalCompiles").map(|n| n as f64)),
        ("safepoint_seconds_total", one("sun.rt.safepointTime").and_then(seconds)),
        ("heap_bytes", sum("sun.gc.generation.", ".used").map(|n| n as f64)),
        ("classes", one("java.cls.loadedClasses").map(|n| n as f64)),
    ];
    Some(all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

/// The numbers of such a file, by name.
fn entries(file: &[u8]) -> Option<BTreeMap<&str, i64>> {
    /// Its numbers are in the order of the machine that the JVM runs on, which is ours.
    const BYTE_ORDER: u8 = if cfg!(target_endian = "little") { 1 } else { 0 };
    let is_ready = file.get(..4)? == MAGIC && *file.get(4)? == BYTE_ORDER && *file.get(7)? != 0;
    let mut at = usize::try_from(int(file, 24)?).ok().filter(|_| is_ready)?;
    let mut all = BTreeMap::new();
    for _ in 0..int(file, 28)? {
        let entry = file.get(at..)?;
        let length = usize::try_from(int(entry, 0)?).ok().filter(|length| *length > 0)?;
        let entry = entry.get(..length)?;
        if let Some((name, value)) = number(entry) {
            all.insert(name, value);
        }
        at += length;
    }
    Some(all)
}

/// Name and value of an entry that is a number, and no list.
fn number(entry: &[u8]) -> Option<(&str, i64)> {
    let name = entry.get(usize::try_from(int(entry, 4)?).ok()?..)?;
    let name = std::str::from_utf8(&name[..memchr::memchr(0, name)?]).ok()?;
    let is_number = int(entry, 8)? == 0 && *entry.get(12)? == b'J';
    let at = usize::try_from(int(entry, 16)?).ok().filter(|_| is_number)?;
    let value = entry.get(at..)?.first_chunk::<8>()?;
    Some((name, i64::from_ne_bytes(*value)))
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk::<4>().copied().map(i32::from_ne_bytes)
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
    fn times_and_counts_of_a_jvm_are_read() {
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
        let wanted = [
            ("gc_cycles_total", 15.0),
            ("gc_seconds_total", 0.05),
            ("jit_seconds_total", 2.5),
            ("heap_bytes", 123.0),
        ];
        assert_eq!(values(&bytes).unwrap(), wanted, "what it does not say is left out");
        // Without the frequency, ticks cannot be converted to time.
        let without = file(&[("java.ci.totalTime", 7), ("sun.ci.totalCompiles", 3)]);
        assert_eq!(values(&without).unwrap(), [("jit_compiles_total", 3.0)]);
    }

    #[test]
    fn what_is_no_such_file_or_is_cut_off_is_nothing() {
        let whole = file(&[("java.ci.totalTime", 7), ("sun.ci.totalCompiles", 3)]);
        for end in 0..whole.len() {
            assert_eq!(values(&whole[..end]), None, "{end} bytes");
        }
        let mut not_ready = whole.clone();
        not_ready[7] = 0;
        assert_eq!(values(&not_ready), None);
        // Whatever stands in any place, nothing is read that is not there.
        for place in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut broken = whole.clone();
                broken[place] = byte;
                let _ = values(&broken);
            }
        }
        assert_eq!(read(&[std::process::id()]), (0, BTreeMap::new()), "this is no JVM");
    }
}
