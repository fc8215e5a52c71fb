//! Reads settings from the table `[load]` of a suite, or from the words of a command line.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use dyno_config::one_or_many::OneOrMany;
use dyno_config::units;
use dyno_workload::workloads::Rate;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, de};

use super::{LoadSettings, SETTINGS, Setting, Value, Warmup};

impl LoadSettings {
    /// Sets a setting to a word of the command line, where a bare number of a time is in seconds.
    ///
    /// # Errors
    /// The value is invalid. The message does not name the setting.
    pub fn set(&mut self, setting: &'static Setting, text: &str) -> Result<(), String> {
        self.set_default(setting, text)?;
        self.given.insert(setting.key);
        Ok(())
    }

    /// Sets a setting as [`LoadSettings::set`] does, but not as given.
    ///
    /// # Errors
    /// The value is invalid. The message does not name the setting.
    pub fn set_default(&mut self, setting: &Setting, text: &str) -> Result<(), String> {
        match setting.value {
            Value::Time { min_ns, parse, set } => {
                set(self, at_least(min_ns, parse(&with_unit(text))?)?);
            }
            Value::Whole { min, max, set } => set(self, whole_number(text, min, max)?),
            Value::Choice { names, set } if names.contains(&text) => set(self, text),
            Value::Choice { names, .. } => return Err(format!("use one of {}", names.join(", "))),
            Value::Counts { max, set } => {
                set(self, vec![whole_number(text, 1, max.into())? as u32]);
            }
            Value::Rates => {
                // The error of `rates::parse` explains less.
                let number = text.trim().parse().or_else(|_| units::count(text));
                if number.is_ok_and(|number| number <= 0.0) {
                    return Err(
                        "must be above 0\nhint: give requests per second, such as 5k".into()
                    );
                }
                self.rates = vec![Rate::Text(text.into())];
            }
            Value::Warmup => {
                self.warmup = Some(Warmup::Length(units::span(&with_unit(text))?));
            }
            Value::Text(set) => set(self, text)?,
        }
        Ok(())
    }

    fn deserialize_value<'de, D: Deserializer<'de>>(
        &mut self,
        setting: &'static Setting,
        from: D,
    ) -> Result<(), D::Error> {
        let of_key = |problem: String| D::Error::custom(format!("`{}`: {problem}", setting.key));
        match setting.value {
            Value::Time { min_ns, parse, set } => {
                let ns = parse(&String::deserialize(from)?).map_err(D::Error::custom)?;
                set(self, at_least(min_ns, ns).map_err(of_key)?);
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
                set(self, number);
            }
            Value::Choice { names, set } => {
                let name = String::deserialize(from)?;
                if !names.contains(&name.as_str()) {
                    return Err(unknown("variant", &name, names));
                }
                set(self, &name);
            }
            Value::Counts { max, set } => {
                let numbers: Vec<u32> = OneOrMany::deserialize(from)?.into_values();
                if numbers.iter().any(|number| *number > max) {
                    return Err(of_key(format!("must be at most {max}")));
                }
                set(self, numbers);
            }
            Value::Rates => self.rates = OneOrMany::deserialize(from)?.into_values(),
            Value::Warmup => {
                let text = String::deserialize(from)?;
                self.warmup = Some(Warmup::parse(&text).map_err(D::Error::custom)?);
            }
            Value::Text(set) => {
                set(self, &String::deserialize(from)?).map_err(D::Error::custom)?;
            }
        }
        self.given.insert(setting.key);
        Ok(())
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
                let mut settings = LoadSettings::default();
                while let Some(Key(setting)) = map.next_key()? {
                    map.next_value_seed(Entry { settings: &mut settings, setting })?;
                }
                Ok(settings)
            }
        }

        from.deserialize_map(Table)
    }
}

/// A key of `[load]`.
struct Key(&'static Setting);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Key, D::Error> {
        let name = String::deserialize(from)?;
        let mut known = SETTINGS.iter().filter(|setting| setting.suite_key.is_some());
        known.clone().find(|setting| setting.key == name).map(Key).ok_or_else(|| {
            let names: Vec<&str> = known.by_ref().map(|setting| setting.key).collect();
            unknown("field", &name, &names)
        })
    }
}

/// The value of a key of `[load]`, and the settings in which it is stored.
struct Entry<'a> {
    settings: &'a mut LoadSettings,
    setting: &'static Setting,
}

impl<'de> DeserializeSeed<'de> for Entry<'_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        self.settings.deserialize_value(self.setting, from)
    }
}
