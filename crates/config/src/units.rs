//! Parses quantities with units: `10s`, `5k`, `512MiB`, `2%`.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::text::parse_string;

/// The longest duration, nanoseconds: 1 h, the longest time that dyno records.
pub const MAX_DURATION_NS: u64 = 3_600_000_000_000;

/// Parses a duration into nanoseconds: `500ms`, `10s`, `2m`, `1h`, `250us`, or `0` without a unit.
/// The limit is 1 h, the longest time that dyno records.
pub fn duration(text: &str) -> Result<u64, String> {
    let ns = span(text)?;
    if ns > MAX_DURATION_NS {
        return Err(format!("{text:?}: must be at most 1h, the longest time that dyno can record"));
    }
    Ok(ns)
}

/// A duration, written like `5s` in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nanoseconds(pub u64);

impl Nanoseconds {
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl<'de> Deserialize<'de> for Nanoseconds {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parse_string(from, |text| duration(text).map(Nanoseconds))
    }
}

/// Parses a duration as [`duration`] does, but with a limit of 30 days.
pub fn span(text: &str) -> Result<u64, String> {
    let error = || format!("{text:?}: not a duration\nhint: write it like 500ms, 10s, 2m or 1h");
    let (number, unit) = split_unit(text).ok_or_else(error)?;
    let unit_ns = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        "" if number == 0.0 => 1.0,
        _ => return Err(error()),
    };
    let ns = number * unit_ns;
    const LONGEST: f64 = 30.0 * 24.0 * 3600e9;
    if ns > LONGEST {
        return Err(format!("{text:?}: must be at most 30 days"));
    }
    Ok(ns.round() as u64)
}

/// Parses a rate or count: `5000`, `5k`, `1.5k`, `2M`.
pub fn count(text: &str) -> Result<f64, String> {
    let error = || format!("{text:?}: not a number\nhint: write it like 5000, 5k or 1.5M");
    let (number, unit) = split_unit(text).ok_or_else(error)?;
    match unit {
        "" => Ok(number),
        "k" | "K" => Ok(number * 1e3),
        "m" | "M" => Ok(number * 1e6),
        _ => Err(error()),
    }
}

/// Parses a share above 0 and below 1: `2%`.
pub fn share(text: &str) -> Result<f64, String> {
    let percent = text.trim().strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
    let is_share = |percent: &f64| percent.is_finite() && *percent > 0.0 && *percent < 100.0;
    percent.filter(is_share).map(|percent| percent / 100.0).ok_or_else(|| {
        format!("{text:?}: must be a share above 0 and below 100 %\nhint: write it like `2%`")
    })
}

/// Parses a size into bytes: `512MiB`, `1GiB`, `64KiB`, `1000000`, `100MB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let error = || format!("{text:?}: not a size\nhint: write it like 512MiB, 1GiB or 64KiB");
    let (number, unit) = split_unit(text).ok_or_else(error)?;
    let factor = match unit {
        "" | "B" => 1.0,
        "K" | "KiB" => 1024.0,
        "M" | "MiB" => 1024.0 * 1024.0,
        "G" | "GiB" => 1024.0 * 1024.0 * 1024.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return Err(error()),
    };
    let bytes = number * factor;
    if bytes >= u64::MAX as f64 {
        return Err(format!("{text:?}: must be below 2^64 bytes"));
    }
    Ok(bytes.round() as u64)
}

/// Splits a number from its unit.
fn split_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then(|| (number, text[end..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_has_unit_and_limit() {
        assert_eq!(duration("500ms"), Ok(500_000_000));
        assert_eq!(duration("10s"), Ok(10_000_000_000));
        assert_eq!(duration("1.5s"), Ok(1_500_000_000));
        assert_eq!(duration("2m"), Ok(120_000_000_000));
        assert_eq!(duration("0"), Ok(0));
        for text in ["", "10", "ten", "5 parsecs", "-1s", "1.2.3s"] {
            assert!(duration(text).unwrap_err().contains("500ms"), "{text}");
        }
        assert!(duration("2h").unwrap_err().contains("must be at most 1h"));
    }

    #[test]
    fn count_and_bytes_accept_units() {
        assert_eq!(count("5k"), Ok(5000.0));
        assert_eq!(count("1.5M"), Ok(1.5e6));
        assert!(count("5 apples").is_err());
        assert_eq!(bytes("512MiB"), Ok(512 << 20));
        assert_eq!(bytes("1000"), Ok(1000));
        assert!(bytes("1 PB").is_err());
        assert!(bytes("99999999999GiB").unwrap_err().contains("below 2^64 bytes"));
    }
}
