//! Selects the probes of a run, from `[observe]` of a suite and `--observe`. A probe is an optional
//! observation of a server.

use std::collections::{BTreeMap, BTreeSet};

use dyno_config::text::nearest;
use dyno_model::probe::Probe;
use serde::{Deserialize, Deserializer};

use crate::settings::unknown;

/// Returns the probes that are enabled by default.
#[must_use]
pub fn default_probes() -> BTreeSet<Probe> {
    enabled_by_default().collect()
}

fn enabled_by_default() -> impl Iterator<Item = Probe> {
    Probe::ALL.iter().copied().filter(|probe| probe.is_enabled_by_default())
}

/// The `[observe]` of a suite: each probe on or off.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "BTreeMap<ObserveKey, bool>")]
pub(crate) struct RawObserve {
    probes: BTreeMap<Probe, bool>,
    /// Whether the first block (pass over all arms) also measures the cost of the probes.
    pub(crate) price: bool,
}

impl RawObserve {
    /// Returns the probes that are on. The default applies to probes that the suite does not set.
    pub(crate) fn probes(&self) -> BTreeSet<Probe> {
        let is_on = |probe: &Probe| {
            self.probes.get(probe).copied().unwrap_or(probe.is_enabled_by_default())
        };
        Probe::ALL.iter().copied().filter(is_on).collect()
    }
}

impl From<BTreeMap<ObserveKey, bool>> for RawObserve {
    fn from(settings: BTreeMap<ObserveKey, bool>) -> RawObserve {
        let mut raw = RawObserve::default();
        for (key, value) in settings {
            match key {
                ObserveKey::Probe(probe) => drop(raw.probes.insert(probe, value)),
                ObserveKey::Price => raw.price = value,
            }
        }
        raw
    }
}

/// A key of `[observe]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ObserveKey {
    Probe(Probe),
    Price,
}

const PRICE: &str = "price";

impl<'de> Deserialize<'de> for ObserveKey {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ObserveKey, D::Error> {
        let name = String::deserialize(from)?;
        if name == PRICE {
            return Ok(ObserveKey::Price);
        }
        let probe = Probe::ALL.iter().find(|probe| probe.key() == name);
        probe.copied().map(ObserveKey::Probe).ok_or_else(|| {
            let keys: Vec<String> =
                Probe::ALL.iter().map(|probe| probe.key()).chain([PRICE.into()]).collect();
            unknown("field", &name, &keys.iter().map(String::as_str).collect::<Vec<_>>())
        })
    }
}

/// Override of a suite's probes by the command line: other probes, or probes to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeChoice {
    /// Probes that replace the probes of the suite. `None`: the suite's probes are used.
    replacement: Option<BTreeSet<Probe>>,
    removed: BTreeSet<Probe>,
}

const DEFAULT: &str = "default";
const NONE: &str = "none";
const WITHOUT: &str = "no-";

/// Returns the help of `--observe`: every probe, and the default probes.
#[must_use]
pub fn help() -> String {
    let names = |probes: &mut dyn Iterator<Item = Probe>| {
        probes.map(Probe::name).collect::<Vec<_>>().join(", ")
    };
    format!(
        "Probes, separated by commas: {}. `{DEFAULT}` means {}, `{NONE}` means no probe, and \
         {WITHOUT}NAME removes a probe [default: the probes of the suite]",
        names(&mut Probe::ALL.iter().copied()),
        names(&mut enabled_by_default())
    )
}

impl ProbeChoice {
    /// Parses names of probes, separated by commas: `default` and `none` are sets, `no-NAME`
    /// removes a probe.
    ///
    /// # Errors
    /// A word is not known.
    pub fn parse(text: &str) -> Result<ProbeChoice, String> {
        let mut choice = ProbeChoice { replacement: None, removed: BTreeSet::new() };
        for word in text.split(',').map(str::trim) {
            match word {
                // `default` and `none` begin a new set, so they also replace the suite's probes.
                DEFAULT => choice.replacement.get_or_insert_default().extend(default_probes()),
                NONE => drop(choice.replacement.get_or_insert_default()),
                _ => match word.strip_prefix(WITHOUT) {
                    Some(name) => drop(choice.removed.insert(probe(name, word)?)),
                    None => {
                        choice.replacement.get_or_insert_default().insert(probe(word, word)?);
                    }
                },
            }
        }
        Ok(choice)
    }

    /// Returns the probes to use. `suite`: the probes of the suite.
    #[must_use]
    pub fn choose(&self, suite: &BTreeSet<Probe>) -> BTreeSet<Probe> {
        self.replacement.as_ref().unwrap_or(suite).difference(&self.removed).copied().collect()
    }
}

/// Returns the probe of this name. `word`: the word as the user wrote it, for the error.
fn probe(name: &str, word: &str) -> Result<Probe, String> {
    let probe = Probe::ALL.iter().copied().find(|probe| probe.name() == name);
    probe.ok_or_else(|| {
        let names = Probe::ALL.iter().map(|probe| probe.name()).chain([DEFAULT, NONE]);
        match nearest(name, names) {
            Some(near) => format!("probe {word:?}: unknown\nhint: did you mean {near:?}?"),
            None => format!(
                "probe {word:?}: unknown\nhint: use {}, {DEFAULT} or {NONE}, or {WITHOUT}NAME to \
                 remove a probe",
                Probe::ALL.iter().map(|probe| probe.name()).collect::<Vec<_>>().join(", ")
            ),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose_from(text: &str) -> BTreeSet<Probe> {
        ProbeChoice::parse(text).unwrap().choose(&[Probe::States, Probe::Modes].into())
    }

    #[test]
    fn choice_replaces_or_removes_probes_of_suite() {
        assert_eq!(choose_from("none"), [].into());
        assert_eq!(choose_from("default"), default_probes());
        assert_eq!(
            choose_from("default, modes"),
            [Probe::Syscalls, Probe::States, Probe::Modes, Probe::Runtime].into()
        );
        assert_eq!(choose_from("every-syscall"), [Probe::EverySyscall].into());
        assert_eq!(choose_from("no-modes"), [Probe::States].into());
        assert_eq!(choose_from("default,no-states"), [Probe::Syscalls, Probe::Runtime].into());
    }

    #[test]
    fn help_names_every_probe_and_defaults() {
        let help = help();
        for probe in Probe::ALL {
            assert!(help.contains(probe.name()), "{}: {help}", probe.name());
        }
        assert!(help.contains("`default` means syscalls, states, runtime,"), "{help}");
    }

    #[test]
    fn docs_name_every_probe_with_its_default() {
        let docs = include_str!("../../../docs/reference/probes.md");
        for probe in Probe::ALL {
            let key = probe.key();
            let default = if probe.is_enabled_by_default() { "yes" } else { "no" };
            assert!(
                docs.contains(&format!("| `{key}` | {default} |")),
                "docs/reference/probes.md: {key} is {default} by default"
            );
        }
        let text = docs.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("`default` stands for `syscalls`, `states` and `runtime`"));
    }

    #[test]
    fn parse_unknown_probe_suggests_nearest_name() {
        let parse_error = |text| ProbeChoice::parse(text).unwrap_err();
        assert_eq!(
            parse_error("stats"),
            "probe \"stats\": unknown\nhint: did you mean \"states\"?"
        );
        assert_eq!(
            parse_error("no-stats"),
            "probe \"no-stats\": unknown\nhint: did you mean \"states\"?"
        );
        assert!(parse_error("zzz").ends_with("or no-NAME to remove a probe"));
    }

    #[test]
    fn raw_observe_overrides_default_probes() {
        let raw: RawObserve = toml::from_str("states = false\nevery_syscall = true").unwrap();
        assert_eq!(raw.probes(), [Probe::Syscalls, Probe::EverySyscall, Probe::Runtime].into());
        assert_eq!(RawObserve::default().probes(), default_probes());
        assert!(!raw.price && toml::from_str::<RawObserve>("price = true").unwrap().price);
        let error = toml::from_str::<RawObserve>("stats = true").unwrap_err();
        assert!(
            error.message().starts_with("unknown field `stats`, expected one of `kernel_stamps`")
        );
    }
}
