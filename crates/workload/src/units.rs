//! Parses quantities with units: `10s`, `5k`, `512MiB`, `1k..5k@30s`.

use dyno_archive::plan::{Arrivals, Gaps, Segment};

/// Parses a duration into nanoseconds: `500ms`, `10s`, `2m`, `1h`, `250us`, or `0` without a unit.
/// The limit is 1 h, the longest time that dyno records.
pub fn duration(text: &str) -> Result<u64, String> {
    let ns = span(text)?;
    if ns > dyno_archive::times::MAX_NS {
        return Err(format!("{text:?}: must be at most 1h, the longest time that dyno can record"));
    }
    Ok(ns)
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

/// A rate over the time of a load.
#[derive(Clone, Debug, PartialEq)]
pub enum Profile {
    Constant(f64),
    Shaped(Vec<Segment>),
}

impl Profile {
    /// Returns the arrivals of this rate with this kind of gaps.
    #[must_use]
    pub fn arrivals(self, gaps: Gaps) -> Arrivals {
        match (self, gaps) {
            (Profile::Constant(rate), Gaps::Even) => Arrivals::Constant { rate },
            (Profile::Constant(rate), Gaps::Exponential) => Arrivals::Poisson { rate },
            (Profile::Shaped(segments), gaps) => Arrivals::Shaped { segments, gaps },
        }
    }
}

/// Parses a rate in requests per second: `5k`, a ramp over the window (`1k..5k`), or a sequence of
/// stretches (`1k@10s,1k..5k@30s,5k`). Stretches without a length share the rest of `duration_ns`.
/// The warm-up has the initial rate of the first stretch.
pub fn rate(text: &str, warmup_ns: u64, duration_ns: u64) -> Result<Profile, String> {
    if let Ok(rate) = count(text) {
        return positive_rate(text, rate).map(Profile::Constant);
    }
    let stretches =
        text.split(',').map(|part| parse_stretch(part.trim())).collect::<Result<Vec<_>, _>>()?;
    let given_ns: u64 = stretches.iter().filter_map(|stretch| stretch.length_ns).sum();
    let stretches_without_length =
        stretches.iter().filter(|stretch| stretch.length_ns.is_none()).count() as u64;
    let left_ns = duration_ns.saturating_sub(given_ns);
    if stretches_without_length > 0 && left_ns / stretches_without_length == 0 {
        return Err(format!(
            "{text:?}: the sections with a length fill the whole load, so no time is left for the \
             sections without a length\nhint: use a longer duration"
        ));
    }
    let mut segments: Vec<Segment> = stretches
        .iter()
        .map(|&Stretch { from_rate, to_rate, length_ns }| {
            let duration_ns = length_ns.unwrap_or(left_ns / stretches_without_length.max(1));
            Segment { from_rate, to_rate, duration_ns }
        })
        .collect();
    if duration_ns > 0 {
        segments = cut_at(duration_ns, segments);
    }
    if segments.iter().all(|s| s.from_rate + s.to_rate == 0.0) {
        return Err(format!("{text:?}: at least one rate within the load must be above 0"));
    }
    let first_rate = segments[0].from_rate;
    if segments.iter().all(|s| (s.from_rate, s.to_rate) == (first_rate, first_rate)) {
        return Ok(Profile::Constant(first_rate));
    }
    if warmup_ns > 0 {
        let warmup = Segment { from_rate: first_rate, to_rate: first_rate, duration_ns: warmup_ns };
        segments.insert(0, warmup);
    }
    Ok(Profile::Shaped(segments))
}

/// Returns the part of these segments before an instant since their beginning.
fn cut_at(end_ns: u64, segments: Vec<Segment>) -> Vec<Segment> {
    let mut left_ns = end_ns;
    let mut cut_segments = Vec::with_capacity(segments.len());
    for segment in segments {
        if left_ns == 0 {
            break;
        }
        let length_ns = segment.duration_ns.min(left_ns);
        let share = length_ns as f64 / segment.duration_ns as f64;
        let to_rate = segment.from_rate + (segment.to_rate - segment.from_rate) * share;
        cut_segments.push(Segment { to_rate, duration_ns: length_ns, ..segment });
        left_ns -= length_ns;
    }
    cut_segments
}

/// Returns the total length of the stretches of a rate; `None`: a stretch has no length.
#[must_use]
pub fn rate_length_ns(text: &str) -> Option<u64> {
    let lengths = text.split(',').map(|part| parse_stretch(part.trim()).ok()?.length_ns);
    lengths.sum()
}

/// A part of a load, in which the rate is constant or changes evenly.
struct Stretch {
    from_rate: f64,
    to_rate: f64,
    /// `None`: the stretch shares the rest of the load.
    length_ns: Option<u64>,
}

/// Parses a stretch: `5k`, `1k..5k`, or either with a length, such as `1k..5k@30s`.
fn parse_stretch(text: &str) -> Result<Stretch, String> {
    let error =
        || format!("{text:?}: not a rate\nhint: write it like 5k, 1k..5k, or 1k@10s,1k..5k@30s");
    let (rates, length) = text.split_once('@').map_or((text, None), |(r, l)| (r, Some(l)));
    let length_ns = length.map(span).transpose()?;
    if length_ns == Some(0) {
        return Err(format!(
            "{text:?}: a section of length 0 has no effect\nhint: remove the section. The rate \
             changes at once between two sections"
        ));
    }
    let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
    let number = |text: &str| match count(text) {
        Ok(rate) if rate > MAX_RATE => Err(format!("{text:?}: a rate must be {BOUNDS}")),
        Ok(rate) if rate >= 0.0 => Ok(rate),
        _ => Err(error()),
    };
    Ok(Stretch { from_rate: number(from)?, to_rate: number(to)?, length_ns })
}

/// The highest rate, requests per second.
const MAX_RATE: f64 = 1e9;

/// The permitted rates, for error messages.
const BOUNDS: &str = "above 0 and at most 1,000,000,000 requests per second";

fn positive_rate(text: &str, rate: f64) -> Result<f64, String> {
    if rate > 0.0 && rate <= MAX_RATE {
        Ok(rate)
    } else {
        Err(format!("{text:?}: a rate must be {BOUNDS}"))
    }
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
    Ok((number * factor).round() as u64)
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
    fn rate_is_cut_at_end_of_load() {
        let s = 1_000_000_000;
        let segments = |text: &str, seconds: u64| match rate(text, s, seconds * s) {
            Ok(Profile::Shaped(segments)) => segments
                .iter()
                .map(|segment| (segment.from_rate, segment.to_rate, segment.duration_ns / s))
                .collect::<Vec<_>>(),
            other => panic!("{text}: {other:?}"),
        };
        let warmup = (500.0, 500.0, 1);
        assert_eq!(segments("500..1500@4s", 3), [warmup, (500.0, 1250.0, 3)]);
        assert_eq!(segments("500@1s,1500@9s", 5), [warmup, (500.0, 500.0, 1), (1500.0, 1500.0, 4)]);
        assert_eq!(rate("500@2s,1500@2s", s, 2 * s), Ok(Profile::Constant(500.0)));
        assert_eq!(segments("500@2s,1500@2s", 9), [warmup, (500.0, 500.0, 2), (1500.0, 1500.0, 2)]);
        for text in ["5k@10s,1k@0s", "1k@0s,5k@10s", "1k..5k@0ms"] {
            let error = rate(text, s, 20 * s).unwrap_err();
            assert!(error.contains("a section of length 0 has no effect"), "{text}: {error}");
        }
        let error = rate("0@5s,1k@5s", s, 3 * s).unwrap_err();
        assert!(error.contains("at least one rate within the load must be above 0"), "{error}");
    }

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
    }

    #[test]
    fn rate_out_of_bounds_error_has_bounds() {
        for text in ["1000000000000000000", "2000000k", "0"] {
            let error = rate(text, 0, 1_000_000_000).unwrap_err();
            assert!(error.contains("above 0 and at most 1,000,000,000"), "{text}: {error}");
        }
        for text in ["1k..2000000k", "2000000k@1s,5@1s"] {
            let error = rate(text, 0, 1_000_000_000).unwrap_err();
            assert!(error.contains("at most 1,000,000,000"), "{text}: {error}");
        }
    }
}
