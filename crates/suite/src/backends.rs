//! Finds the back ends that a suite's subjects need, and puts them into the order in which they are
//! started.

use std::collections::BTreeSet;
use std::path::Path;

use dyno_config::hint::one_line;
use dyno_config::mistake::{Mistake, mistake};
use dyno_config::text::FileError;
use dyno_model::plan::{Backend, Placement, Subject};
use dyno_subject::definition::Definition;
use dyno_subject::definition::find::{DefinitionError, Folders};
use dyno_subject::limits_keys::{self, CheckedLimits};
use dyno_subject::placeholders;

use crate::availability::{UnmetNeed, check_cpuset};
use crate::file::{SuiteBackend, SuiteFile, SuiteSubject, profile};

/// Names of the back ends that a subject uses.
pub(crate) struct Needs {
    /// Names in the subject's file.
    from_file: BTreeSet<String>,
    /// Names in the environment of the subject's entry in the suite.
    from_suite: BTreeSet<String>,
}

impl Needs {
    pub(crate) fn from_definition(definition: &Definition, entry: &SuiteSubject) -> Needs {
        let from_suite = entry.env.values().flat_map(|value| placeholders::backends_in(value));
        Needs { from_file: definition.needs(), from_suite: from_suite.map(String::from).collect() }
    }
}

/// The back ends of a suite, in the order in which they are started.
pub(crate) struct SuiteBackends {
    entries: Vec<SuiteBackend>,
    /// Definitions, with the additions of the suite.
    pub(crate) definitions: Vec<Definition>,
    /// Indices of the back ends of each arm (a subject under one configuration), in the order in
    /// which they are started. Indexed by arm. `Err`: a back end that the file of the arm's subject
    /// names does not exist.
    pub(crate) by_arm: Vec<Result<Vec<usize>, String>>,
}

/// Reason why a back end is unavailable.
enum UnavailableBackend {
    /// A file has a mistake.
    Invalid(FileError),
    /// No folder has a back end of that name.
    NotFound(String),
}

/// Finds the back ends that subjects name, and the back ends that these back ends need. A back end
/// of the suite that no subject names is used by all subjects. `other_needs`: the needs of the
/// suite's subjects that do not take part in this run.
pub(crate) fn choose(
    suite: &SuiteFile,
    folders: &Folders,
    needs: &[Needs],
    other_needs: &[Needs],
) -> Result<SuiteBackends, FileError> {
    let mut search = Search { suite, folders, found: Vec::new() };
    for needs in other_needs {
        // Mistakes are ignored here, because these subjects are not started.
        let _ = search.find_needed(needs);
    }
    let mut needed_by_arm: Vec<_> =
        needs.iter().map(|needs| search.find_needed(needs)).collect::<Result<_, FileError>>()?;
    for entry in &suite.backends {
        if search.found.iter().any(|(found, _)| found.name == entry.name) {
            continue;
        }
        let mut added = BTreeSet::new();
        search.visit(&entry.name, &[], &mut added).map_err(|reason| search.mistake(reason))?;
        for needed in needed_by_arm.iter_mut().flatten() {
            needed.extend(added.iter().cloned());
        }
    }
    search.found.retain(|(entry, _)| {
        needed_by_arm.iter().flatten().any(|needed| needed.contains(&entry.name))
    });
    let indices = |needed: &BTreeSet<String>| {
        let found = search.found.iter().enumerate();
        found
            .filter(|(_, (entry, _))| needed.contains(&entry.name))
            .map(|(index, _)| index)
            .collect()
    };
    let by_arm = needed_by_arm
        .iter()
        .map(|needed| needed.as_ref().map(indices).map_err(Clone::clone))
        .collect();
    let (entries, definitions) = search.found.into_iter().unzip();
    Ok(SuiteBackends { entries, definitions, by_arm })
}

/// A search for the back ends of subjects. In `found`, each back end is after the back ends that it
/// needs.
struct Search<'a> {
    suite: &'a SuiteFile,
    folders: &'a Folders,
    found: Vec<(SuiteBackend, Definition)>,
}

impl Search<'_> {
    /// Returns the names of all back ends of a subject. `Ok(Err)`: a back end does not exist, which
    /// excludes only this subject. `Err`: the suite itself names a missing back end, or a file has
    /// a mistake.
    fn find_needed(
        &mut self,
        needs: &Needs,
    ) -> Result<Result<BTreeSet<String>, String>, FileError> {
        let mut needed = BTreeSet::new();
        for name in &needs.from_suite {
            self.visit(name, &[], &mut needed).map_err(|reason| self.mistake(reason))?;
        }
        let found_before = self.found.len();
        match needs.from_file.iter().try_for_each(|name| self.visit(name, &[], &mut needed)) {
            Ok(()) => Ok(Ok(needed)),
            Err(UnavailableBackend::Invalid(error)) => Err(error),
            Err(UnavailableBackend::NotFound(message)) => {
                self.found.truncate(found_before);
                Ok(Err(one_line(&message)))
            }
        }
    }

    fn mistake(&self, reason: UnavailableBackend) -> FileError {
        match reason {
            UnavailableBackend::Invalid(error) => error,
            UnavailableBackend::NotFound(message) => self.suite_error(&message),
        }
    }

    /// Finds a back end, and the back ends that it needs. `dependents`: the chain of back ends that
    /// leads to this back end. Each back end of the chain needs the next one. `needed`: receives
    /// the names of all back ends that are found.
    fn visit(
        &mut self,
        name: &str,
        dependents: &[&str],
        needed: &mut BTreeSet<String>,
    ) -> Result<(), UnavailableBackend> {
        if dependents.contains(&name) {
            let circle = dependents.join(" needs ");
            let message =
                format!("back ends depend on each other in a circle: {circle} needs {name}");
            return Err(UnavailableBackend::Invalid(self.suite_error(&message)));
        }
        let entry_index = self.suite.backends.iter().position(|entry| entry.name == name);
        let entry = match entry_index {
            Some(index) => self.suite.backends[index].clone(),
            None => SuiteBackend {
                name: name.into(),
                definition_name: name.into(),
                ..SuiteBackend::default()
            },
        };
        let definition = self.find(&entry, entry_index)?;
        let mut needs = definition.needs();
        needs.extend(
            entry.env.values().flat_map(|v| placeholders::backends_in(v)).map(String::from),
        );
        let dependents = [dependents, &[name]].concat();
        for need in &needs {
            self.visit(need, &dependents, needed)?;
        }
        needed.insert(name.into());
        if !self.found.iter().any(|(found, _)| found.name == name) {
            self.found.push((entry, definition));
        }
        Ok(())
    }

    /// Reads a back end's definition, with the additions of its entry in the suite.
    fn find(
        &self,
        entry: &SuiteBackend,
        entry_index: Option<usize>,
    ) -> Result<Definition, UnavailableBackend> {
        let unavailable = |key: &'static str, message: String| match entry_index {
            Some(index) => {
                UnavailableBackend::Invalid(match profile::suite_document(&self.suite.suite) {
                    Ok(document) => document
                        .locate(mistake("backends", message).with_child(index).with_child(key)),
                    Err(error) => error,
                })
            }
            None => UnavailableBackend::NotFound(message),
        };
        let definition =
            self.folders.backend(&entry.definition_name).map_err(|error| match error {
                DefinitionError::Invalid(error) => UnavailableBackend::Invalid(*error),
                DefinitionError::NotFound(message) => unavailable("use", message),
            })?;
        let definition = match &entry.variant {
            Some(variant) => definition
                .with_variant(variant)
                .map_err(|message| unavailable("variant", message))?,
            None => definition,
        };
        Ok(with_entry(definition, Some(entry)))
    }

    /// Returns a mistake of the suite without a position.
    fn suite_error(&self, message: &str) -> FileError {
        FileError::without_position(Path::new(&self.suite.suite.path), message)
    }
}

/// Returns a back end's definition with the additions of its entry in the suite.
pub(crate) fn with_entry(mut definition: Definition, entry: Option<&SuiteBackend>) -> Definition {
    if let Some(entry) = entry {
        definition.start.env.extend(entry.env.clone());
        definition.start.inherit.extend(entry.inherit.clone());
        definition.limits = limits_keys::override_limits(&entry.limits, &definition.limits);
    }
    definition
}

impl SuiteBackends {
    /// Returns the CPUs that are reserved for back ends.
    pub(crate) fn cpus(&self) -> Vec<u32> {
        self.limits().filter_map(|limits| limits.cpuset.clone()).flatten().collect()
    }

    fn limits(&self) -> impl Iterator<Item = &CheckedLimits> {
        self.definitions.iter().map(|definition| &definition.limits)
    }

    /// Returns the back ends for a plan. A back end without a `cpuset` runs on the subjects' CPUs.
    /// `allowed`: CPUs that dyno may use.
    pub(crate) fn to_plan(
        &self,
        placement: &Placement,
        allowed: &[u32],
        unmet_need: &UnmetNeed<'_>,
    ) -> Vec<Backend> {
        let unavailable_cpus = |definition: &Definition| {
            let cpuset = definition.limits.cpuset.as_ref()?;
            check_cpuset(cpuset, allowed).err().map(Mistake::into_message)
        };
        let plan = |(entry, definition): (&SuiteBackend, &Definition)| Backend {
            name: entry.name.clone(),
            definition_name: entry.definition_name.clone(),
            variant: entry.variant.clone(),
            title: definition.title.clone(),
            version: None,
            build: None,
            build_failed: None,
            definition: definition.fingerprint().ok(),
            limits: definition.limits.limits.clone(),
            cpus: definition.limits.cpuset.clone().unwrap_or_else(|| placement.subject.clone()),
            skipped: unavailable_cpus(definition).or_else(|| unmet_need(definition)),
        };
        self.entries.iter().zip(&self.definitions).map(plan).collect()
    }
}

/// Excludes the subjects whose back ends cannot run on this machine.
pub(crate) fn skip_subjects(
    subjects: &mut [Subject],
    arm_subjects: &[usize],
    by_arm: &[Result<Vec<usize>, String>],
    backends: &[Backend],
) {
    let reason = |needed: &Vec<usize>| {
        needed.iter().find_map(|index| {
            let backend = &backends[*index];
            let message = backend.skipped.as_ref()?;
            Some(format!("its back end {}: {message}", backend.name))
        })
    };
    // If one arm of a subject lacks a back end, the other arms of the subject are excluded as well,
    // because they would have no arm to be compared with.
    for (subject, needed) in arm_subjects.iter().zip(by_arm) {
        let skipped = &mut subjects[*subject].skipped;
        if skipped.is_none() {
            *skipped = match needed {
                Ok(needed) => reason(needed),
                Err(not_found) => Some(not_found.clone()),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chooses the back ends of a suite with one subject. Each definition has a name and the text
    /// of its start.
    fn choose_for(
        backends: &[(&str, &str)],
        subject: &str,
        suite: &str,
    ) -> Result<SuiteBackends, String> {
        let root = tempfile::tempdir().unwrap();
        let folder = |below: &str, file: &str, text: &str| {
            let folder = root.path().join(below);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(file), text).unwrap();
        };
        for (name, start) in backends {
            folder(
                &format!("backends/{name}"),
                "backend.toml",
                &format!(
                    "[start]\ncommand = [{start}]\n[ready]\ncommand = \"true\"\n[limits]\nmemory = \
                     \"64MiB\"\n"
                ),
            );
        }
        let text =
            format!("language = \"C\"\nprotocols = [\"h1\"]\n[start]\ncommand = [{subject}]\n");
        folder("subjects/a", "subject.toml", &text);
        let suite =
            SuiteFile::parse(Path::new("s.toml"), &format!("subjects = [\"a\"]\n{suite}"), &[])
                .unwrap();
        let folders = Folders(vec![root.path().join("subjects")]);
        let definition = folders.subject("a").unwrap();
        let needs = [Needs::from_definition(&definition, &suite.subjects[0])];
        choose(&suite, &folders, &needs, &[]).map_err(|error| error.to_string())
    }

    fn names(suite_backends: &SuiteBackends) -> Vec<&str> {
        suite_backends.entries.iter().map(|entry| entry.name.as_str()).collect()
    }

    #[test]
    fn choose_orders_back_ends_before_their_dependents() {
        let backends = [
            ("app", "\"x\", \"{db.port}\", \"{cache.port}\""),
            ("db", "\"y\""),
            ("cache", "\"{db.port}\""),
            ("idle", "\"z\""),
        ];
        let suite_backends = choose_for(&backends, "\"{app.port}\"", "").unwrap();
        assert_eq!(names(&suite_backends), ["db", "cache", "app"]);
        assert_eq!(suite_backends.by_arm, [Ok(vec![0, 1, 2])]);
        // A back end that no subject names is for all subjects; another name makes another back
        // end.
        let suite_backends = choose_for(
            &backends,
            "\"{db.port}\"",
            "[[backends]]\nuse = \"idle\"\ncpuset = \"0\"\n[[backends]]\nuse = \"cache\"\nname = \
             \"db\"\nenv = { A = \"{idle.port}\" }\n",
        );
        let Err(circle) = suite_backends else { panic!("db needs itself") };
        assert!(circle.contains("in a circle: db needs db"), "{circle}");
        let suite_backends = choose_for(
            &backends,
            "\"{db.port}\"",
            "[[backends]]\nuse = \"idle\"\ncpuset = \"0\"\n",
        )
        .unwrap();
        assert_eq!((names(&suite_backends), suite_backends.cpus()), (vec!["db", "idle"], vec![0]));
        let backends = suite_backends.to_plan(
            &Placement { subject: vec![1], generator: vec![] },
            &[0, 1],
            &|_| None,
        );
        assert_eq!(
            (backends[0].cpus.as_slice(), backends[1].cpus.as_slice()),
            (&[1][..], &[0][..])
        );
        assert_eq!(backends[1].limits.memory_bytes, Some(64 << 20));
    }

    #[test]
    fn missing_back_end_excludes_subject_that_names_it() {
        let skip_reason = |backends: &[(&str, &str)], subject: &str| {
            let suite_backends = choose_for(backends, subject, "").unwrap();
            let backends = suite_backends.to_plan(&Placement::default(), &[0], &|_| None);
            let mut subjects = [Subject::default()];
            skip_subjects(&mut subjects, &[0], &suite_backends.by_arm, &backends);
            assert!(backends.is_empty(), "{backends:?}");
            subjects[0].skipped.clone().unwrap()
        };
        let text = skip_reason(&[("db", "\"y\"")], "\"{dbb.port}\"");
        assert!(
            text.contains("back end \"dbb\": not found") && text.contains("did you mean \"db\"?"),
            "{text}"
        );
        let text = skip_reason(&[("db", "\"{disk.port}\"")], "\"{db.port}\"");
        assert!(text.contains("back end \"disk\": not found"), "{text}");
    }

    #[test]
    fn missing_back_end_of_suite_is_located_in_suite() {
        let error = |subject: &str, suite: &str| {
            choose_for(&[("db", "\"y\"")], subject, suite).err().unwrap()
        };
        let text = error("\"x\"", "[[backends]]\nuse = \"dbb\"\n");
        assert!(text.starts_with("s.toml:3:7: back end \"dbb\": not found"), "{text}");
        let text = error("\"x\"", "[[backends]]\nuse = \"db/v\"\n");
        assert!(text.contains("no variant \"v\""), "{text}");
    }

    #[test]
    fn back_end_of_absent_subject_is_not_for_all() {
        let root = tempfile::tempdir().unwrap();
        let db = root.path().join("backends/db");
        std::fs::create_dir_all(&db).unwrap();
        std::fs::write(db.join("backend.toml"), "[start]\ncommand = [\"y\", \"{port}\"]\n")
            .unwrap();
        let text = "subjects = [\"a\", \"b\"]\n[[backends]]\nuse = \"db\"\n";
        let suite = SuiteFile::parse(Path::new("s.toml"), text, &[]).unwrap();
        let folders = Folders(vec![root.path().join("subjects")]);
        let names = |names: &[&str]| Needs {
            from_file: names.iter().map(|name| (*name).to_string()).collect(),
            from_suite: BTreeSet::new(),
        };
        let both = choose(&suite, &folders, &[names(&[]), names(&["db"])], &[]).unwrap();
        assert_eq!(both.by_arm, [Ok(vec![]), Ok(vec![0])]);
        let only_a = choose(&suite, &folders, &[names(&[])], &[names(&["db"])]).unwrap();
        assert_eq!((only_a.by_arm, only_a.entries.len()), (vec![Ok(vec![])], 0));
    }

    #[test]
    fn subject_with_unavailable_back_end_is_skipped() {
        let suite_backends = choose_for(&[("db", "\"y\"")], "\"{db.port}\"", "").unwrap();
        let backends = suite_backends
            .to_plan(&Placement::default(), &[0], &|_| Some("java is missing.".into()));
        let mut subjects = [Subject::default()];
        skip_subjects(&mut subjects, &[0], &suite_backends.by_arm, &backends);
        assert_eq!(subjects[0].skipped.as_deref(), Some("its back end db: java is missing."));
    }
}
