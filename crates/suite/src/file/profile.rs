//! Applies the profiles of a suite: the overrides in `[profile.NAME]`, for example for small
//! machines.

use std::cmp::Reverse;
use std::path::Path;

use dyno_config::document::{Document, TomlTable};
use dyno_config::mistake::mistake;
use dyno_config::text::{FileError, nearest};
use dyno_model::plan::Suite;
use serde::Deserialize;

/// Key of the table of profiles.
const PROFILE: &str = "profile";

/// Name that disables the profiles that apply automatically.
const NONE: &str = "none";

/// Key of a profile with the machines to which it applies automatically.
const WHEN: &str = "when";

/// A suite's source, separated from its profiles.
struct SuiteWithoutProfiles<'s> {
    document: Document<'s>,
    profiles: Vec<Profile<'s>>,
}

struct Profile<'s> {
    name: String,
    when: When,
    table: TomlTable<'s>,
}

/// Machines to which a profile applies automatically. Empty: none.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct When {
    /// Machines on which dyno may use fewer CPUs than this.
    cpus_below: Option<usize>,
}

impl When {
    fn applies_to(&self, cpus: usize) -> bool {
        self.cpus_below.is_some_and(|below| cpus < below)
    }

    /// Returns the precedence of a profile: if two apply, the one for smaller machines overrides
    /// the other.
    fn precedence(&self) -> Reverse<Option<usize>> {
        Reverse(self.cpus_below)
    }
}

impl<'s> SuiteWithoutProfiles<'s> {
    /// Parses a suite, and removes its profiles from the document.
    fn parse(path: &'s Path, source: &'s str) -> Result<SuiteWithoutProfiles<'s>, FileError> {
        let mut document = Document::parse(path, source)?;
        let named = document.take_tables(PROFILE)?;
        let profiles = named.into_iter().map(|(name, mut table)| {
            let when = table
                .remove(WHEN)
                .map(|when| document.read_part(when))
                .transpose()?
                .unwrap_or_default();
            if name == NONE {
                let message = format!(
                    "profile {NONE:?}: is reserved, because `--{PROFILE} {NONE}` disables the \
                     automatic profiles\nhint: give the profile another name"
                );
                return Err(mistake(PROFILE, message).with_child(NONE).locate(path, source));
            }
            Ok(Profile { name, when, table })
        });
        let profiles = profiles.collect::<Result<Vec<Profile<'s>>, FileError>>()?;
        for (i, profile) in profiles.iter().enumerate() {
            let has_same_condition = |other: &&Profile<'_>| {
                other.when.cpus_below.is_some() && other.when.cpus_below == profile.when.cpus_below
            };
            if let Some(other) = profiles[..i].iter().find(has_same_condition) {
                let message = format!(
                    "profile {:?}: applies to the same machines as {:?}, so dyno cannot decide \
                     which of the two to apply last\nhint: give the two profiles different values \
                     of `cpus_below`, or merge them",
                    profile.name, other.name
                );
                return Err(mistake(PROFILE, message)
                    .with_child(profile.name.clone())
                    .locate(path, source));
            }
        }
        Ok(SuiteWithoutProfiles { document, profiles })
    }
}

/// Returns the names of a suite's profiles, sorted.
///
/// # Errors
/// The source is not valid TOML, or its profiles are not tables.
pub fn names(path: &Path, source: &str) -> Result<Vec<String>, FileError> {
    Ok(SuiteWithoutProfiles::parse(path, source)?
        .profiles
        .into_iter()
        .map(|profile| profile.name)
        .collect())
}

/// Returns the profiles to apply on a machine with this many CPUs, lowest precedence first. The
/// automatic profiles come first, except if `none` is requested. The requested profiles follow.
///
/// # Errors
/// The same as [`names`].
pub fn applied_profiles(
    path: &Path,
    source: &str,
    requested: &[String],
    cpus: usize,
) -> Result<Vec<String>, FileError> {
    let profiles = SuiteWithoutProfiles::parse(path, source)?.profiles;
    let is_none_requested = requested.iter().any(|name| name == NONE);
    let mut automatic: Vec<Profile<'_>> = profiles
        .into_iter()
        .filter(|profile| profile.when.applies_to(cpus) && !is_none_requested)
        .collect();
    automatic.sort_by_key(|profile| profile.when.precedence());
    let automatic =
        automatic.into_iter().map(|profile| profile.name).filter(|name| !requested.contains(name));
    let mut names_in_order: Vec<String> = Vec::new();
    for name in automatic.chain(requested.iter().filter(|name| *name != NONE).cloned()) {
        // A profile that is requested twice is applied at its later position.
        names_in_order.retain(|earlier| *earlier != name);
        names_in_order.push(name);
    }
    Ok(names_in_order)
}

/// Returns a suite's source with these profiles applied. Later profiles override earlier ones.
///
/// # Errors
/// The same as [`names`], or the suite has no such profile.
pub fn document<'s>(
    path: &'s Path,
    source: &'s str,
    profiles: &[String],
) -> Result<Document<'s>, FileError> {
    let SuiteWithoutProfiles { mut document, profiles: defined_profiles } =
        SuiteWithoutProfiles::parse(path, source)?;
    for requested_name in profiles {
        match defined_profiles.iter().find(|profile| profile.name == *requested_name) {
            Some(profile) => document.overlay(profile.table.clone()),
            None => {
                let names: Vec<&str> =
                    defined_profiles.iter().map(|profile| profile.name.as_str()).collect();
                return Err(FileError::without_position(path, unknown(requested_name, &names)));
            }
        }
    }
    Ok(document)
}

/// Returns the document of a suite that was already read.
pub(crate) fn suite_document(suite: &Suite) -> Result<Document<'_>, FileError> {
    document(Path::new(&suite.path), &suite.source, &suite.profiles)
}

/// Returns the error for a profile that the suite does not have.
fn unknown(requested_name: &str, names: &[&str]) -> String {
    match nearest(requested_name, names.iter().copied()) {
        Some(near) => {
            format!("profile {requested_name:?}: not in the suite\nhint: did you mean {near:?}?")
        }
        None if names.is_empty() => {
            format!(
                "profile {requested_name:?}: not in the suite, which has no profiles\nhint: add a \
                 table [{PROFILE}.{requested_name}]"
            )
        }
        None => {
            format!(
                "profile {requested_name:?}: not in the suite\nhint: use one of {}",
                names.join(", ")
            )
        }
    }
}
