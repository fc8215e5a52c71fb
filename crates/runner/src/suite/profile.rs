//! Profiles of a suite: what `[profile.NAME]` says in the place of the rest.

use std::path::Path;

use dyno_archive::plan::Suite;
use dyno_workload::document::Document;
use dyno_workload::text::{FileError, nearest};

/// The key below which profiles stand.
const PROFILE: &str = "profile";

/// The names of a suite's profiles, in the order of the alphabet.
///
/// # Errors
/// The source is no TOML, or its profiles are no tables.
pub fn names(path: &Path, source: &str) -> Result<Vec<String>, FileError> {
    let mut document = Document::parse(path, source)?;
    let all = document.take_tables(PROFILE)?;
    Ok(all.into_iter().map(|(name, _)| name).collect())
}

/// A suite's source as it is meant with these profiles, of which a later one takes the place of an earlier.
///
/// # Errors
/// The same as of [`names`]; or there is no such profile.
pub fn document<'s>(path: &'s Path, source: &'s str, profiles: &[String]) -> Result<Document<'s>, FileError> {
    let mut document = Document::parse(path, source)?;
    let all = document.take_tables(PROFILE)?;
    for wanted in profiles {
        match all.iter().find(|(name, _)| name == wanted) {
            Some((_, table)) => document.overlay(table.clone()),
            None => {
                let known: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
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
                "the suite has no profile {wanted:?}: it has none; a table [{PROFILE}.{wanted}] would be one"
            )
        }
        None => format!("the suite has no profile {wanted:?}; it has {}", known.join(", ")),
    }
}
