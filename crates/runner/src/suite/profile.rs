//! Profiles of a suite: what `[profile.NAME]` says in the place of the rest.

use std::cmp::Reverse;
use std::path::Path;

use dyno_archive::plan::Suite;
use dyno_workload::document::{Document, Table};
use dyno_workload::mistake::mistake;
use dyno_workload::text::{FileError, nearest};
use serde::Deserialize;

/// The key below which profiles stand.
const PROFILE: &str = "profile";

/// The name by which is asked for no profile of the machine.
const NONE: &str = "none";

/// The key of a profile that says on which machines it is meant without being asked for.
const WHEN: &str = "when";

/// A suite's source, and its profiles apart from it.
struct Apart<'s> {
    document: Document<'s>,
    profiles: Vec<Profile<'s>>,
}

struct Profile<'s> {
    name: String,
    when: When,
    table: Table<'s>,
}

/// On which machines a profile is meant without being asked for. Empty: on none.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct When {
    /// Those with fewer CPUs than this that dyno may use.
    cpus_below: Option<usize>,
}

impl When {
    fn holds(&self, cpus: usize) -> bool {
        self.cpus_below.is_some_and(|below| cpus < below)
    }

    /// Of two that hold, the one for the smaller machines is above the other.
    fn rank(&self) -> Reverse<Option<usize>> {
        Reverse(self.cpus_below)
    }
}

impl<'s> Apart<'s> {
    fn parse(path: &'s Path, source: &'s str) -> Result<Apart<'s>, FileError> {
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
                    "`--{PROFILE} {NONE}` asks for no profile of the machine; give it another name"
                );
                return Err(mistake(PROFILE, message).below(NONE).locate(path, source));
            }
            Ok(Profile { name, when, table })
        });
        let profiles = profiles.collect::<Result<Vec<Profile<'s>>, FileError>>()?;
        for (i, profile) in profiles.iter().enumerate() {
            let is_alike = |other: &&Profile<'_>| {
                other.when.cpus_below.is_some() && other.when.cpus_below == profile.when.cpus_below
            };
            if let Some(other) = profiles[..i].iter().find(is_alike) {
                let message = format!(
                    "profile {:?} holds on the same machines as {:?}, and nothing says which of \
                     them is above the other; give them different values of `cpus_below`, or make \
                     them one",
                    profile.name, other.name
                );
                return Err(mistake(PROFILE, message)
                    .below(profile.name.clone())
                    .locate(path, source));
            }
        }
        Ok(Apart { document, profiles })
    }
}

/// The names of a suite's profiles, in the order of the alphabet.
///
/// # Errors
/// The source is no TOML, or its profiles are no tables.
pub fn names(path: &Path, source: &str) -> Result<Vec<String>, FileError> {
    Ok(Apart::parse(path, source)?.profiles.into_iter().map(|profile| profile.name).collect())
}

/// The profiles that are meant on a machine with so many CPUs: those that say so of themselves, the
/// ones for small machines above others, unless `none` is among those that are asked for; and above
/// them those.
///
/// # Errors
/// As of [`names`].
pub fn meant(
    path: &Path,
    source: &str,
    asked: &[String],
    cpus: usize,
) -> Result<Vec<String>, FileError> {
    let all = Apart::parse(path, source)?.profiles;
    let wants_none = asked.iter().any(|name| name == NONE);
    let mut of_machine: Vec<Profile<'_>> =
        all.into_iter().filter(|profile| profile.when.holds(cpus) && !wants_none).collect();
    of_machine.sort_by_key(|profile| profile.when.rank());
    let of_machine =
        of_machine.into_iter().map(|profile| profile.name).filter(|name| !asked.contains(name));
    let mut meant: Vec<String> = Vec::new();
    for name in of_machine.chain(asked.iter().filter(|name| *name != NONE).cloned()) {
        // Of one that is named twice the later place counts.
        meant.retain(|known| *known != name);
        meant.push(name);
    }
    Ok(meant)
}

/// A suite's source as it is meant with these profiles, of which a later one takes the place of an
/// earlier.
///
/// # Errors
/// As of [`names`]; or there is no such profile.
pub fn document<'s>(
    path: &'s Path,
    source: &'s str,
    profiles: &[String],
) -> Result<Document<'s>, FileError> {
    let Apart { mut document, profiles: all } = Apart::parse(path, source)?;
    for wanted in profiles {
        match all.iter().find(|profile| profile.name == *wanted) {
            Some(profile) => document.overlay(profile.table.clone()),
            None => {
                let known: Vec<&str> = all.iter().map(|profile| profile.name.as_str()).collect();
                return Err(FileError::whole(path, unknown(wanted, &known)));
            }
        }
    }
    Ok(document)
}

/// The document of a suite that was read.
pub(crate) fn of_suite(suite: &Suite) -> Result<Document<'_>, FileError> {
    document(Path::new(&suite.path), &suite.source, &suite.profiles)
}

fn unknown(wanted: &str, known: &[&str]) -> String {
    match nearest(wanted, known.iter().copied()) {
        Some(near) => format!("the suite has no profile {wanted:?}; did you mean {near:?}?"),
        None if known.is_empty() => {
            format!(
                "the suite has no profile {wanted:?}: it has none; a table [{PROFILE}.{wanted}] \
                 would be one"
            )
        }
        None => format!("the suite has no profile {wanted:?}; it has {}", known.join(", ")),
    }
}
