//! Parses rates of requests, which may change over the time of a load: `5k`, `1k..5k@30s`.

use std::fmt;

use dyno_config::units::{count, span};
use dyno_model::plan::{Arrivals, Gaps, Segment};
use serde::Deserialize;

/// Requests per second: a number, or a text with a unit or a shape.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "a rate is a number of requests per second, or a text such as \"2k\", \"50%\" or \
                 \"find\""
)]
pub enum Rate {
    Number(f64),
    Text(String),
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Number(n) => n.fmt(f),
            Rate::Text(text) => f.write_str(text),
        }
    }
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
pub fn parse(text: &str, warmup_ns: u64, duration_ns: u64) -> Result<Profile, String> {
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
pub fn length_ns(text: &str) -> Option<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_cut_at_end_of_load() {
        let s = 1_000_000_000;
        let segments = |text: &str, seconds: u64| match parse(text, s, seconds * s) {
            Ok(Profile::Shaped(segments)) => segments
                .iter()
                .map(|segment| (segment.from_rate, segment.to_rate, segment.duration_ns / s))
                .collect::<Vec<_>>(),
            other => panic!("{text}: {other:?}"),
        };
        let warmup = (500.0, 500.0, 1);
        assert_eq!(segments("500..1500@4s", 3), [warmup, (500.0, 1250.0, 3)]);
        assert_eq!(segments("500@1s,1500@9s", 5), [warmup, (500.0, 500.0, 1), (1500.0, 1500.0, 4)]);
        assert_eq!(parse("500@2s,1500@2s", s, 2 * s), Ok(Profile::Constant(500.0)));
        assert_eq!(segments("500@2s,1500@2s", 9), [warmup, (500.0, 500.0, 2), (1500.0, 1500.0, 2)]);
        for text in ["5k@10s,1k@0s", "1k@0s,5k@10s", "1k..5k@0ms"] {
            let error = parse(text, s, 20 * s).unwrap_err();
            assert!(error.contains("a section of length 0 has no effect"), "{text}: {error}");
        }
        let error = parse("0@5s,1k@5s", s, 3 * s).unwrap_err();
        assert!(error.contains("at least one rate within the load must be above 0"), "{error}");
    }

    #[test]
    fn rate_out_of_bounds_error_has_bounds() {
        for text in ["1000000000000000000", "2000000k", "0"] {
            let error = parse(text, 0, 1_000_000_000).unwrap_err();
            assert!(error.contains("above 0 and at most 1,000,000,000"), "{text}: {error}");
        }
        for text in ["1k..2000000k", "2000000k@1s,5@1s"] {
            let error = parse(text, 0, 1_000_000_000).unwrap_err();
            assert!(error.contains("at most 1,000,000,000"), "{text}: {error}");
        }
    }
}
