//! Quantities as people write them: `10s`, `5k`, `512MiB`.

/// Parses a duration into nanoseconds: `500ms`, `10s`, `2m`, `1h`, `250us`, and bare `0`.
pub fn duration(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a duration; write it like 500ms, 10s, 2m or 1h");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let unit_ns = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        "" if number == 0.0 => 1.0,
        _ => return Err(wrong()),
    };
    let ns = number * unit_ns;
    if ns > dyno_archive::times::MAX_NS as f64 {
        return Err(format!("{text:?} is longer than an hour, the longest time dyno keeps"));
    }
    Ok(ns.round() as u64)
}

/// Parses a rate or count: `5000`, `5k`, `1.5k`, `2M`.
pub fn count(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text:?} is not a number; write it like 5000, 5k or 1.5M");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    match unit {
        "" => Ok(number),
        "k" | "K" => Ok(number * 1e3),
        "m" | "M" => Ok(number * 1e6),
        _ => Err(wrong()),
    }
}

/// Parses a size into bytes: `512MiB`, `1GiB`, `64KiB`, `1000000`, `100MB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size; write it like 512MiB, 1GiB or 64KiB");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let factor = match unit {
        "" | "B" => 1.0,
        "K" | "KiB" => 1024.0,
        "M" | "MiB" => 1024.0 * 1024.0,
        "G" | "GiB" => 1024.0 * 1024.0 * 1024.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return Err(wrong()),
    };
    Ok((number * factor).round() as u64)
}

/// Parses a CPU list as the kernel writes it: `0`, `0,2`, `0-3,7`.
pub fn cpu_list(text: &str) -> Result<Vec<u32>, String> {
    let wrong = || format!("{text:?} is not a list of CPUs; write it like 0, 0,2 or 0-3");
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let number = |s: &str| s.trim().parse::<u32>().map_err(|_| wrong());
        let (from, to) = (number(from)?, number(to)?);
        if from > to || to >= 4096 {
            return Err(wrong());
        }
        cpus.extend(from..=to);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Writes a CPU list as the kernel reads it.
#[must_use]
pub fn cpu_list_text(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then(|| (number, text[end..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(duration("500ms"), Ok(500_000_000));
        assert_eq!(duration("10s"), Ok(10_000_000_000));
        assert_eq!(duration("1.5s"), Ok(1_500_000_000));
        assert_eq!(duration("2m"), Ok(120_000_000_000));
        assert_eq!(duration("0"), Ok(0));
        for wrong in ["", "10", "ten", "5 parsecs", "-1s", "1.2.3s"] {
            assert!(duration(wrong).unwrap_err().contains("500ms"), "{wrong}");
        }
        assert!(duration("2h").unwrap_err().contains("longer than an hour"));
    }

    #[test]
    fn counts_and_sizes() {
        assert_eq!(count("5k"), Ok(5000.0));
        assert_eq!(count("1.5M"), Ok(1.5e6));
        assert!(count("5 apples").is_err());
        assert_eq!(bytes("512MiB"), Ok(512 << 20));
        assert_eq!(bytes("1000"), Ok(1000));
        assert!(bytes("1 PB").is_err());
    }

    #[test]
    fn cpu_lists_round_trip() {
        assert_eq!(cpu_list("0-2,5, 7"), Ok(vec![0, 1, 2, 5, 7]));
        assert_eq!(cpu_list_text(&[0, 1, 5]), "0,1,5");
        for wrong in ["", "a", "3-1", "99999"] {
            assert!(cpu_list(wrong).is_err(), "{wrong}");
        }
    }
}
