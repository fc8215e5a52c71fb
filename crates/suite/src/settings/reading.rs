//! Reads settings from the tables of a suite, or from the words of a command line.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use dyno_config::mistake::{Mistake, all_positive, mistake};
use dyno_config::one_or_many::OneOrMany;
use dyno_config::units;
use dyno_workload::rates::Rate;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use super::{LoadSettings, SETTINGS, Setting, Value, Warmup};

/// A setting with a valid value.
#[derive(Clone, Debug)]
pub(crate) struct GivenSetting {
    pub setting: &'static Setting,
    value: GivenValue,
}

/// A value, and the function that stores it.
#[derive(Clone, Debug)]
enum GivenValue {
    Number(fn(&mut LoadSettings, u64), u64),
    Name(fn(&mut LoadSettings, &str), String),
    Counts(fn(&mut LoadSettings, Vec<u32>), Vec<u32>),
    Share(fn(&mut LoadSettings, f64), f64),
    Rates(Vec<Rate>),
    Warmup(Warmup),
}

impl GivenSetting {
    /// Returns the setting `rate` with these rates.
    pub fn from_rates(rates: Vec<Rate>) -> GivenSetting {
        GivenSetting { setting: Setting::with_key("rate"), value: GivenValue::Rates(rates) }
    }

    /// Returns the whole numbers of a setting that may be a list; empty: another setting.
    pub fn counts(&self) -> &[u32] {
        match &self.value {
            GivenValue::Counts(_, numbers) => numbers,
            _ => &[],
        }
    }

    /// Checks that a list has an entry, and that its whole numbers are above 0.
    pub fn check_list(&self) -> Result<(), Mistake> {
        let key = self.setting.key;
        match &self.value {
            GivenValue::Counts(_, numbers) => all_positive(key, numbers),
            GivenValue::Rates(rates) if rates.is_empty() => {
                Err(mistake(key, format!("`{key}`: the list must have at least one entry")))
            }
            _ => Ok(()),
        }
    }

    fn apply_to(self, settings: &mut LoadSettings) {
        match self.value {
            GivenValue::Number(set, number) => set(settings, number),
            GivenValue::Name(set, name) => set(settings, &name),
            GivenValue::Counts(set, numbers) => set(settings, numbers),
            GivenValue::Share(set, share) => set(settings, share),
            GivenValue::Rates(rates) => settings.rates = rates,
            GivenValue::Warmup(warmup) => settings.warmup = Some(warmup),
        }
    }
}

impl LoadSettings {
    /// Sets a setting to a word of the command line, where a bare number of a time is in seconds.
    ///
    /// # Errors
    /// The value is invalid. The message does not name the setting.
    pub fn set(&mut self, setting: &'static Setting, text: &str) -> Result<(), String> {
        setting.parse(text).map(|given| self.give(given))
    }

    /// Sets a setting as [`LoadSettings::set`] does, but not as given.
    ///
    /// # Errors
    /// The value is invalid. The message does not name the setting.
    pub fn set_default(&mut self, setting: &'static Setting, text: &str) -> Result<(), String> {
        setting.parse(text).map(|given| given.apply_to(self))
    }

    /// Stores a setting as given.
    pub(crate) fn give(&mut self, given: GivenSetting) {
        self.given.insert(given.setting.key);
        given.apply_to(self);
    }
}

impl Setting {
    /// Parses a word of the command line.
    fn parse(&'static self, text: &str) -> Result<GivenSetting, String> {
        let value = match self.value {
            Value::Time { min_ns, parse, set } => {
                GivenValue::Number(set, at_least(min_ns, parse(&with_unit(text))?)?)
            }
            Value::Whole { min, max, set } => {
                GivenValue::Number(set, whole_number(text, min, max)?)
            }
            Value::Choice { names, set } if names.contains(&text) => {
                GivenValue::Name(set, text.into())
            }
            Value::Choice { names, .. } => return Err(format!("use one of {}", names.join(", "))),
            Value::Counts { max, set } => {
                GivenValue::Counts(set, vec![whole_number(text, 1, max.into())? as u32])
            }
            Value::Rates => {
                // The error of `rates::parse` explains less.
                let number = text.trim().parse().or_else(|_| units::count(text));
                if number.is_ok_and(|number| number <= 0.0) {
                    return Err(
                        "must be above 0\nhint: give requests per second, such as 5k".into()
                    );
                }
                GivenValue::Rates(vec![Rate::Text(text.into())])
            }
            Value::Warmup => GivenValue::Warmup(Warmup::Length(units::span(&with_unit(text))?)),
            Value::Share { parse, set } => GivenValue::Share(set, parse(text)?),
            Value::Refused(error) => return Err(error(text)),
        };
        Ok(GivenSetting { setting: self, value })
    }

    fn deserialize_value<'de, D: Deserializer<'de>>(
        &self,
        from: D,
    ) -> Result<GivenValue, D::Error> {
        let of_key = |problem: String| D::Error::custom(format!("`{}`: {problem}", self.key));
        Ok(match self.value {
            Value::Time { min_ns, parse, set } => {
                let ns = parse(&String::deserialize(from)?).map_err(D::Error::custom)?;
                GivenValue::Number(set, at_least(min_ns, ns).map_err(of_key)?)
            }
            Value::Whole { min, max, set } => {
                let is_small = u32::try_from(max).is_ok();
                let number = match is_small {
                    true => u32::deserialize(from)?.into(),
                    false => u64::deserialize(from)?,
                };
                if !(min..=max).contains(&number) {
                    return Err(of_key(match max {
                        0..1000 => format!("must be {min} to {max}"),
                        _ => format!("must be at least {min}"),
                    }));
                }
                GivenValue::Number(set, number)
            }
            Value::Choice { names, set } => {
                let name = String::deserialize(from)?;
                if !names.contains(&name.as_str()) {
                    return Err(unknown("variant", &name, names));
                }
                GivenValue::Name(set, name)
            }
            Value::Counts { max, set } => {
                let numbers: Vec<u32> = OneOrMany::deserialize(from)?.into_values();
                if numbers.iter().any(|number| *number > max) {
                    return Err(of_key(format!("must be at most {max}")));
                }
                GivenValue::Counts(set, numbers)
            }
            Value::Rates => GivenValue::Rates(OneOrMany::deserialize(from)?.into_values()),
            Value::Warmup => {
                let text = String::deserialize(from)?;
                GivenValue::Warmup(Warmup::parse(&text).map_err(D::Error::custom)?)
            }
            Value::Share { parse, set } => {
                let text = String::deserialize(from)?;
                GivenValue::Share(set, parse(&text).map_err(D::Error::custom)?)
            }
            Value::Refused(error) => {
                return Err(D::Error::custom(error(&String::deserialize(from)?)));
            }
        })
    }
}

/// Reads the value of a setting from a suite.
pub(crate) struct ValueOf(pub &'static Setting);

impl<'de> DeserializeSeed<'de> for ValueOf {
    type Value = GivenSetting;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<GivenSetting, D::Error> {
        let ValueOf(setting) = self;
        setting.deserialize_value(from).map(|value| GivenSetting { setting, value })
    }
}

impl Warmup {
    /// Parses a length, or a word that only suites have.
    fn parse(text: &str) -> Result<Warmup, String> {
        match text {
            "auto" => Ok(Warmup::Auto),
            "measured" => Ok(Warmup::Measured),
            text => units::span(text).map(Warmup::Length).map_err(|message| {
                format!(
                    "{message}, or \"auto\" to warm up until the server is in a steady state, or \
                     \"measured\" to measure the warm-up itself"
                )
            }),
        }
    }
}

/// Checks that a time is not below its minimum.
fn at_least(min_ns: u64, ns: u64) -> Result<u64, String> {
    if ns < min_ns {
        return Err(format!("must be at least {:?}", Duration::from_nanos(min_ns)));
    }
    Ok(ns)
}

/// Adds the unit to a bare number of seconds.
pub fn with_unit(text: &str) -> Cow<'_, str> {
    let is_bare = text.parse::<f64>().is_ok_and(|seconds| seconds >= 0.0);
    if is_bare { format!("{text}s").into() } else { text.into() }
}

/// Parses a whole number, which may be in thousands: `5k`.
fn whole_number(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let number = match (text.parse::<u64>(), units::count(text)) {
        (Ok(number), _) => Some(number),
        (Err(_), Ok(number)) if number >= u64::MAX as f64 => {
            return Err(format!("must be at most {max}"));
        }
        (Err(_), Ok(number)) => (number.fract() == 0.0).then_some(number as u64),
        (Err(_), Err(error)) if max == u64::MAX => return Err(error),
        (Err(_), Err(_)) => None,
    };
    match number {
        Some(number) if (min..=max).contains(&number) => Ok(number),
        Some(number) if number > max => Err(format!("must be at most {max}")),
        _ if max == u64::MAX => Err(format!("must be a whole number, at least {min}")),
        _ => Err(format!("must be a whole number from {min} to {max}")),
    }
}

/// Returns the error of an unknown key or value, in the words of serde, which are later replaced by
/// a suggestion.
pub(crate) fn unknown<E: Error>(kind: &str, found: &str, names: &[&str]) -> E {
    E::custom(format!("unknown {kind} `{found}`, expected one of `{}`", names.join("`, `")))
}

impl<'de> Deserialize<'de> for LoadSettings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<LoadSettings, D::Error> {
        struct Table;

        impl<'de> Visitor<'de> for Table {
            type Value = LoadSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LoadSettings, A::Error> {
                let in_suites = SETTINGS.iter().filter(|setting| setting.suite_key.is_some());
                let keys: Vec<&str> = in_suites.map(|setting| setting.key).collect();
                let mut settings = LoadSettings::default();
                while let Some(key) = map.next_key_seed(KnownKey(&keys))? {
                    settings.give(map.next_value_seed(ValueOf(Setting::with_key(key)))?);
                }
                Ok(settings)
            }
        }

        from.deserialize_map(Table)
    }
}

/// Reads a key that must be one of these.
pub(crate) struct KnownKey<'a>(pub &'a [&'static str]);

impl<'de> DeserializeSeed<'de> for KnownKey<'_> {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<&'static str, D::Error> {
        let name = String::deserialize(from)?;
        let known = self.0.iter().find(|key| **key == name);
        known.copied().ok_or_else(|| unknown("field", &name, self.0))
    }
}
