//! Parses the values of options: times, numbers and CPUs.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use dyno_lab::other_programs::QUIET_FOR;
use dyno_suite::settings::with_unit;

/// Nanoseconds, as an argument.
#[derive(Clone, Copy, Debug)]
pub struct Ns(pub u64);

/// A value that an option can have: its name, its description, which may be empty, and the value.
pub(super) type Choice<T> = (&'static str, &'static str, T);

/// Parses the name of a value.
pub(super) fn choice<T: Copy + Send + Sync + 'static>(
    all: &'static [Choice<T>],
) -> impl TypedValueParser<Value = T> {
    let possible = all.iter().map(|(name, help, _)| match help.is_empty() {
        true => PossibleValue::new(*name),
        false => PossibleValue::new(*name).help(*help),
    });
    PossibleValuesParser::new(possible).try_map(|name| {
        let found = all.iter().find(|(known, ..)| *known == name);
        found.map(|(.., value)| *value).ok_or(name)
    })
}

/// Parses a duration of up to an hour, the longest time that dyno can record. A bare number is in
/// seconds, as in wrk's `-d2`.
pub(super) fn duration(text: &str) -> Result<Ns, String> {
    dyno_config::units::duration(&with_unit(text)).map(Ns)
}

/// Parses a timeout of at least a millisecond.
pub(super) fn timeout(text: &str) -> Result<Ns, String> {
    const MIN_NS: u64 = 1_000_000;
    match duration(text)? {
        Ns(ns) if ns < MIN_NS => Err("must be at least 1ms".into()),
        limit => Ok(limit),
    }
}

/// Parses the longest wait for a quiet machine (`--wait-quiet`). It includes the time for which the
/// machine has to be quiet.
pub(super) fn quiet_wait(text: &str) -> Result<Ns, String> {
    match duration(text)? {
        Ns(ns) if Duration::from_nanos(ns) < QUIET_FOR => Err(format!(
            "must be at least {QUIET_FOR:?}, the time for which the machine has to be quiet\nhint: \
             use --wait-quiet 5m"
        )),
        limit => Ok(limit),
    }
}

/// Parses the length of a load or warm-up: up to 30 days.
pub(super) fn load_length(text: &str) -> Result<Ns, String> {
    dyno_config::units::span(&with_unit(text)).map(Ns)
}

/// Parses the time for a whole run: from a second to 30 days.
pub(super) fn budget(text: &str) -> Result<Ns, String> {
    const HOUR: f64 = 3600e9;
    let error =
        || format!("{text:?} is not a time from 1s to 30d\nhint: write it like 30m, 4h or 2d");
    let text = text.trim();
    let in_unit = |unit: char, unit_ns: f64| {
        Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * unit_ns)
    };
    match in_unit('h', HOUR).or_else(|| in_unit('d', 24.0 * HOUR)) {
        Some(ns) if (1e9..=30.0 * 24.0 * HOUR).contains(&ns) => Ok(Ns(ns as u64)),
        Some(_) => Err(error()),
        None => duration(text).ok().filter(|ns| ns.0 >= 1_000_000_000).ok_or_else(error),
    }
}

/// A list of CPUs, as an argument.
#[derive(Clone, Debug)]
pub struct Cpus(pub Vec<u32>);

/// Parses a list of CPUs.
pub(super) fn cpus(text: &str) -> Result<Cpus, String> {
    dyno_model::cpus::cpu_list(text).map(Cpus)
}

/// Parses the largest gap between the two final rates of a search (`--width`), in per cent.
pub(super) fn width(text: &str) -> Result<f64, String> {
    let error = || "must be a percentage from 0.1 to 50, such as 2".to_string();
    text.trim_end_matches('%')
        .trim()
        .parse()
        .ok()
        .filter(|n| (0.1..=50.0).contains(n))
        .ok_or_else(error)
}

/// Returns a parser of whole numbers from `min` to `max`. Their type must be the type of the
/// option.
pub(super) fn whole_number<T>(min: T, max: T) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: Copy + Display + FromStr + PartialOrd,
{
    move |text| {
        let number = text.parse().ok().filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| format!("must be a whole number from {min} to {max}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_wait_has_time_for_quiet() {
        assert!(quiet_wait("2999ms").unwrap_err().starts_with("must be at least 3s"));
        assert_eq!(quiet_wait("3").unwrap().0, 3_000_000_000);
    }
}
