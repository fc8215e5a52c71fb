//! Selects the probes of a run, from `[observe]` of a suite and `--observe`. A probe is an optional
//! observation of a server.

use std::collections::BTreeSet;

use dyno_archive::probe::Probe;
use dyno_workload::text::nearest;
use serde::Deserialize;

/// Returns the probes that are enabled by default.
#[must_use]
pub fn default_probes() -> BTreeSet<Probe> {
    Probe::ALL.into_iter().filter(|probe| probe.is_enabled_by_default()).collect()
}

/// The `[observe]` of a suite: each probe on or off.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawObserve {
    kernel_stamps: Option<bool>,
    syscalls: Option<bool>,
    every_syscall: Option<bool>,
    states: Option<bool>,
    modes: Option<bool>,
    profile: Option<bool>,
    runtime: Option<bool>,
    /// Whether the first block (pass over all arms) also measures the cost of the probes.
    pub(crate) price: bool,
}

impl RawObserve {
    /// Returns the probes that are on. The default applies to probes that the suite does not set.
    pub(crate) fn probes(&self) -> BTreeSet<Probe> {
        let setting = |probe| match probe {
            Probe::KernelStamps => self.kernel_stamps,
            Probe::Syscalls => self.syscalls,
            Probe::EverySyscall => self.every_syscall,
            Probe::States => self.states,
            Probe::Modes => self.modes,
            Probe::Profile => self.profile,
            Probe::Runtime => self.runtime,
        };
        Probe::ALL
            .into_iter()
            .filter(|probe| setting(*probe).unwrap_or(probe.is_enabled_by_default()))
            .collect()
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
        names(&mut Probe::ALL.into_iter()),
        names(&mut Probe::ALL.into_iter().filter(|probe| probe.is_enabled_by_default()))
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
    let probe = Probe::ALL.into_iter().find(|probe| probe.name() == name);
    probe.ok_or_else(|| {
        let names = Probe::ALL.iter().map(|probe| probe.name()).chain([DEFAULT, NONE]);
        match nearest(name, names) {
            Some(near) => format!("probe {word:?}: unknown\nhint: did you mean {near:?}?"),
            None => format!(
                "probe {word:?}: unknown\nhint: use {}, {DEFAULT} or {NONE}, or {WITHOUT}NAME to \
                 remove a probe",
                Probe::ALL.map(Probe::name).join(", ")
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
            let key = probe.name().replace('-', "_");
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
    }
}
