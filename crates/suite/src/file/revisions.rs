//! Comparisons of revisions of a server, which replace a suite's own comparison.

use std::collections::BTreeSet;

use dyno_model::plan::{Experiment, ExperimentKind};
use dyno_subject::definition::find::Folders;

use super::SuiteFile;
use super::subjects::SuiteSubject;
use crate::revision_folders::RevisionFolders;

/// Minimum number of repeats, if the command line sets none. A verdict needs five repeats of each
/// revision.
pub(super) const MIN_REPEATS: u32 = 5;

/// Revisions of a subject.
#[derive(Clone, Debug)]
pub struct AcrossRevisions {
    /// Index of the subject's entry in the suite.
    pub index: usize,
    /// Revisions to compare. Each is an arm, and the first is the baseline.
    pub revised: Vec<RevisionFolders>,
}

impl AcrossRevisions {
    /// Returns one arm per revision, and the experiment that compares them.
    pub(super) fn arms(&self, original: Vec<SuiteSubject>) -> (Vec<SuiteSubject>, Experiment) {
        let entry = original.into_iter().find(|entry| entry.index == self.index);
        let entry = entry.expect("the index should belong to an entry");
        let arm = |revised: &RevisionFolders| {
            let label =
                entry.label.as_ref().map(|label| format!("{label}@{}", revised.revision.name));
            SuiteSubject { revised: Some(revised.clone()), label, ..entry.clone() }
        };
        let arms: Vec<SuiteSubject> = self.revised.iter().map(arm).collect();
        let names = arms.iter().map(SuiteSubject::id).collect();
        (arms, Experiment { kind: ExperimentKind::Toggle, factor: None, arms: names })
    }
}

impl SuiteFile {
    /// Returns the entry of the server whose revisions are compared. `only` names it. Without
    /// `only`, the suite must have one server that is not a control.
    ///
    /// # Errors
    /// Another number of servers is selected.
    pub fn revised_entry(
        &self,
        folders: &Folders,
        only: &[String],
    ) -> Result<SuiteSubject, String> {
        let is_selected = |entry: &&SuiteSubject| match only {
            [] => folders.subject(&entry.name).is_ok_and(|definition| !definition.is_control()),
            _ => entry.names().iter().any(|name| only.contains(name)),
        };
        let mut selected: Vec<&SuiteSubject> = self.subjects.iter().filter(is_selected).collect();
        // One entry of the suite file can have several subjects: a server and its twin, or the
        // levels of an experiment.
        let mut known_entries = BTreeSet::new();
        selected.retain(|entry| known_entries.insert(entry.index));
        if let [entry] = selected[..] {
            return Ok(entry.clone());
        }
        let ids: Vec<String> = self.subjects.iter().map(SuiteSubject::id).collect();
        Err(format!(
            "--rev: compares one server of the suite, but {} are selected\nhint: select one server \
             with --only: {}",
            if selected.is_empty() { "none".into() } else { selected.len().to_string() },
            ids.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::*;

    #[test]
    fn revised_entry_is_named_or_only_server() {
        let folders = Folders::default();
        let suite = parse("subjects = [\"a\", \"b/c\"]\n[suite]\ntwin = \"a\"\n").unwrap();
        let index = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|name| (*name).to_string()).collect();
            suite.revised_entry(&folders, &only).map(|entry| entry.index)
        };
        // The twin is in the same entry.
        assert_eq!((index(&["a"]), index(&["b"]), index(&["b/c"])), (Ok(0), Ok(1), Ok(1)));
        for (only, count) in [(&["a", "b"][..], "2"), (&["d"], "none"), (&[], "none")] {
            let error = index(only).unwrap_err();
            assert!(error.contains(&format!("but {count} are selected")), "{error}");
            assert!(error.ends_with("--only: a, b/c, twin of a"), "{error}");
        }
    }

    #[test]
    fn revisions_have_repeats_for_verdict() {
        let revision = RevisionFolders::from_work_tree(&Folders::default());
        let revisions = AcrossRevisions { index: 0, revised: vec![revision.clone(), revision] };
        for (repeats, expected) in [(1, MIN_REPEATS), (9, 9)] {
            let suite = format!("subjects = [\"a\"]\n[suite]\nrepeats = {repeats}\n");
            assert_eq!(parse(&suite).unwrap().across(&revisions).unwrap().repeats, expected);
        }
    }
}
