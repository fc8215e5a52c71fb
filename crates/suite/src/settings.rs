//! Settings of a load, for suites and for `dyno load`.
//!
//! [`SETTINGS`] is their one table. The tables `[load]` of suites, the options of `dyno load` with
//! their help, and the reference page are made from it.

mod conflicts;
mod reading;
pub mod search;
pub mod single;
mod table;

use std::collections::BTreeSet;

use dyno_model::plan::{Arrival, Arrivals, DriverKind, Gaps, Load, LoadModel, Page};
use dyno_workload::rates::{self, Rate};

use crate::defaults::{PAGE_STREAMS, default_load};
pub use conflicts::{Conflict, Notation, error_of_pages, key_not_for_pages};
pub use reading::with_unit;
pub(crate) use reading::{GivenSetting, KnownKey, ValueOf, unknown};
pub use table::SETTINGS;

/// The settings of a load, as a suite or a command line gives them, with defaults for all others.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSettings {
    /// The load. Its steps, lengths, threads and driver are complete only once they are resolved.
    pub load: Load,
    /// `None`: a rate decides.
    pub(crate) model: Option<LoadModel>,
    /// Gaps between the arrivals of an open loop.
    pub gaps: Gaps,
    /// Numbers of connections, one per step.
    pub connections: Vec<u32>,
    /// Requests in flight over all connections; empty: `connections` applies.
    pub(crate) in_flight: Vec<u32>,
    /// Streams per connection of HTTP/2, unless the load is a page.
    streams: Vec<u32>,
    /// Requests in flight per connection of HTTP/1.1.
    pub pipeline: Vec<u32>,
    /// Empty: a closed loop.
    pub rates: Vec<Rate>,
    /// Largest gap between the final rates of a search, as a share; `None`: the default.
    pub(crate) find_width: Option<f64>,
    /// `None`: the default, which suites and `dyno load` choose.
    pub warmup: Option<Warmup>,
    /// Limit of [`Warmup::Auto`], nanoseconds.
    pub(crate) warmup_limit_ns: u64,
    /// `None`: as many as suit the machine.
    pub threads: Option<u32>,
    /// `None`: the best that supports the load.
    pub driver: Option<DriverKind>,
    /// Keys of the settings that are given, even if they have the default value.
    given: BTreeSet<&'static str>,
}

/// Warm-up of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// Until the server is in a steady state.
    Auto,
    /// The warm-up itself is measured.
    Measured,
    /// Nanoseconds before each step.
    Length(u64),
}

impl Default for LoadSettings {
    fn default() -> LoadSettings {
        LoadSettings {
            // Every machine has this driver. `driver` decides once the machine is known.
            load: default_load(DriverKind::Epoll),
            model: None,
            gaps: Gaps::Even,
            connections: vec![64],
            in_flight: Vec::new(),
            streams: vec![1],
            pipeline: vec![1],
            rates: Vec::new(),
            find_width: None,
            warmup: None,
            warmup_limit_ns: crate::limits::WARMUP_LIMIT_NS,
            threads: None,
            driver: None,
            given: BTreeSet::new(),
        }
    }
}

impl LoadSettings {
    /// Whether the setting with this key is given.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.given.contains(key)
    }

    /// Returns the given settings, in the order of the table.
    pub fn given(&self) -> impl Iterator<Item = &'static Setting> {
        SETTINGS.iter().filter(|setting| self.has(setting.key))
    }

    /// Marks the settings of open loops as not given, without a change of their values: open loops
    /// follow this closed loop, so the settings have an effect.
    pub(crate) fn forget_open_loop(&mut self) {
        self.given.retain(|key| !Setting::with_key(key).needs_open_loop);
    }

    /// Returns the length of the warm-up, nanoseconds; 0: none is given.
    #[must_use]
    pub const fn warmup_length_ns(&self) -> u64 {
        match self.warmup {
            Some(Warmup::Length(ns)) => ns,
            Some(Warmup::Auto | Warmup::Measured) | None => 0,
        }
    }

    /// Returns the streams per connection of HTTP/2, one number per step. `page`: the page that is
    /// loaded, if any. A page has more streams by default.
    #[must_use]
    pub fn streams_for(&self, page: Option<Page>) -> Vec<u32> {
        match page {
            Some(_) if !self.has("streams") => vec![PAGE_STREAMS],
            _ => self.streams.clone(),
        }
    }

    /// Returns the kind of schedule of an open loop.
    #[must_use]
    pub const fn arrival(&self) -> Arrival {
        match self.gaps {
            Gaps::Even => Arrival::Constant,
            Gaps::Exponential => Arrival::Poisson,
        }
    }

    /// Returns the schedule of a rate, over the warm-up and the measured window of the load.
    ///
    /// # Errors
    /// The rate is invalid.
    pub fn schedule(&self, rate: &Rate) -> Result<Arrivals, String> {
        let profile = rates::parse(&rate.to_string(), self.load.warmup_ns, self.load.duration_ns)?;
        Ok(profile.arrivals(self.gaps))
    }

    /// Returns the load with this driver, and with the machine's number of threads if none is
    /// given.
    #[must_use]
    pub fn with_driver(self, threads: u32, driver: DriverKind) -> Load {
        Load { threads: self.threads.unwrap_or(threads), driver, ..self.load }
    }
}

/// One setting of a load.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Key in `[load]` of suites. The option of `dyno load` has dashes instead of underscores.
    pub key: &'static str,
    /// Lines of the help; empty: `dyno load` has no such option.
    pub help: &'static [&'static str],
    value: Value,
    /// Whether the setting has an effect in HTTP/2 only.
    pub is_http2: bool,
    /// Whether the setting has an effect in open loops only.
    pub needs_open_loop: bool,
    /// Whether a workload of a suite may override the setting.
    pub is_per_workload: bool,
    /// `None`: suites have no such key.
    pub suite_key: Option<SuiteKey>,
    /// `None`: `dyno load` has no such option.
    pub option: Option<LoadOption>,
}

/// The values of a setting, and the function that stores one.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// Nanoseconds, at least `min_ns`.
    Time { min_ns: u64, parse: fn(&str) -> Result<u64, String>, set: fn(&mut LoadSettings, u64) },
    /// Whole numbers of this range, both ends included.
    Whole { min: u64, max: u64, set: fn(&mut LoadSettings, u64) },
    /// One of these names.
    Choice { names: &'static [&'static str], set: fn(&mut LoadSettings, &str) },
    /// Whole numbers from 1 to `max`. Suites may give a list, one number per step.
    Counts { max: u32, set: fn(&mut LoadSettings, Vec<u32>) },
    /// Requests per second, or schedules of them. Suites may give a list.
    Rates,
    /// The length of the warm-up. Suites may give a word instead.
    Warmup,
    /// A share, which only suites have.
    Share { parse: fn(&str) -> Result<f64, String>, set: fn(&mut LoadSettings, f64) },
    /// Always refused, with this error. The suite has no such setting.
    Refused(fn(&str) -> String),
}

/// A key of suites, as the reference page describes it, in Markdown.
#[derive(Clone, Copy, Debug)]
pub struct SuiteKey {
    pub default: &'static str,
    pub meaning: &'static str,
}

/// An option of `dyno load`.
#[derive(Clone, Copy, Debug)]
pub struct LoadOption {
    /// Heading of the option in the help.
    pub group: &'static str,
    /// Name of the value, such as `TIME`.
    pub value_name: &'static str,
    pub short: Option<char>,
    /// Value without the option; `None`: the help describes the default.
    pub default: Option<&'static str>,
    /// Whether `-h` lists the option, too.
    pub is_common: bool,
}

impl Setting {
    /// Returns the name of the option of `dyno load`, such as `--check-one-in`.
    #[must_use]
    pub fn flag(&self) -> String {
        format!("--{}", self.key.replace('_', "-"))
    }

    /// Returns the names from which the setting chooses; empty: other values.
    #[must_use]
    pub const fn choices(&self) -> &'static [&'static str] {
        match self.value {
            Value::Choice { names, .. } => names,
            _ => &[],
        }
    }

    /// Returns the setting with this key.
    ///
    /// # Panics
    /// No setting has the key.
    #[must_use]
    pub fn with_key(key: &str) -> &'static Setting {
        SETTINGS.iter().find(|setting| setting.key == key).expect("the table should have the key")
    }
}

#[cfg(test)]
mod tests;
