//! Which back ends a suite's subjects need, and in which order they are started.

use std::collections::BTreeSet;
use std::path::Path;

use dyno_archive::plan::{Backend, Placement, Subject};
use dyno_subject::definition::Definition;
use dyno_subject::definition::find::{Folders, NoDefinition};
use dyno_subject::limits_keys::{self, CheckedLimits};
use dyno_subject::placeholders;
use dyno_workload::mistake::{Mistake, mistake};
use dyno_workload::text::FileError;

use crate::plan::Unmet;
use crate::suite::{SuiteBackend, SuiteFile, SuiteSubject};

/// The back ends that a subject names: in its own file, and in the environment that the suite adds.
pub(crate) fn needs(definition: &Definition, entry: &SuiteSubject) -> BTreeSet<String> {
    let of_suite = entry.env.values().flat_map(|value| placeholders::backends_in(value)).map(String::from);
    definition.needs().into_iter().chain(of_suite).collect()
}

/// The back ends of a suite, in the order in which they are started.
pub(crate) struct Behind {
    entries: Vec<SuiteBackend>,
    /// With what the suite adds to them.
    pub(crate) definitions: Vec<Definition>,
    /// Indexed by subject: places of its back ends, in the order in which they are started.
    pub(crate) of_subject: Vec<Vec<usize>>,
}

/// Finds the back ends that subjects name, those that these name, and those of the suite that nobody names, which are for
/// all subjects.
pub(crate) fn choose(
    suite: &SuiteFile,
    folders: &Folders,
    needs: &[(String, BTreeSet<String>)],
) -> Result<Behind, FileError> {
    let mut search = Search { suite, folders, found: Vec::new(), begun: Vec::new() };
    let closures = needs.iter().map(|(subject, needs)| {
        let mut closure = BTreeSet::new();
        needs.iter().try_for_each(|name| search.visit(name, subject, &mut closure))?;
        Ok(closure)
    });
    let mut closures: Vec<BTreeSet<String>> = closures.collect::<Result<_, FileError>>()?;
    for entry in &suite.backends {
        if search.found.iter().any(|(found, _)| found.name == entry.name) {
            continue;
        }
        let mut closure = BTreeSet::new();
        search.visit(&entry.name, "the suite", &mut closure)?;
        closures.iter_mut().for_each(|of_subject| of_subject.extend(closure.iter().cloned()));
    }
    let place = |closure: &BTreeSet<String>| {
        let places = search.found.iter().enumerate().filter(|(_, (entry, _))| closure.contains(&entry.name));
        places.map(|(place, _)| place).collect()
    };
    let of_subject = closures.iter().map(place).collect();
    let (entries, definitions) = search.found.into_iter().unzip();
    Ok(Behind { entries, definitions, of_subject })
}

/// A walk from subjects to the back ends behind them, each after those that it needs itself.
struct Search<'a> {
    suite: &'a SuiteFile,
    folders: &'a Folders,
    found: Vec<(SuiteBackend, Definition)>,
    /// Names of back ends whose own needs are being looked for.
    begun: Vec<String>,
}

impl Search<'_> {
    /// Finds one, and all behind it. `asker`: who names it. `closure`: takes their names.
    fn visit(&mut self, name: &str, asker: &str, closure: &mut BTreeSet<String>) -> Result<(), FileError> {
        if self.begun.iter().any(|begun| begun == name) {
            let circle = self.begun.join(" needs ");
            return Err(self.whole(&format!("back ends need one another in a circle: {circle} needs {name}")));
        }
        let known = self.suite.backends.iter().position(|entry| entry.name == name);
        let entry = known.map_or_else(
            || SuiteBackend { name: name.into(), of: name.into(), ..SuiteBackend::default() },
            |known| self.suite.backends[known].clone(),
        );
        let definition = self.find(&entry, known, asker)?;
        let mut needs = definition.needs();
        needs.extend(entry.env.values().flat_map(|v| placeholders::backends_in(v)).map(String::from));
        self.begun.push(name.into());
        for need in &needs {
            self.visit(need, &format!("back end {name:?}"), closure)?;
        }
        self.begun.pop();
        closure.insert(name.into());
        if !self.found.iter().any(|(found, _)| found.name == name) {
            self.found.push((entry, definition));
        }
        Ok(())
    }

    fn find(&self, entry: &SuiteBackend, known: Option<usize>, asker: &str) -> Result<Definition, FileError> {
        let at =
            |mistake: Mistake| mistake.locate(Path::new(&self.suite.suite.path), &self.suite.suite.source);
        let of_suite = |key: &'static str, why: String| match known {
            Some(known) => at(mistake("backends", why).below(known).below(key)),
            None => self.whole(&why),
        };
        let definition = self.folders.backend(&entry.of).map_err(|error| match error {
            NoDefinition::Wrong(error) => *error,
            NoDefinition::None(why) if known.is_some() => of_suite("use", why),
            NoDefinition::None(why) => {
                self.whole(&format!("{asker} needs the back end {:?}, and {why}", entry.name))
            }
        })?;
        let definition = match &entry.variant {
            Some(variant) => definition.with_variant(variant).map_err(|why| of_suite("variant", why))?,
            None => definition,
        };
        Ok(with_entry(definition, Some(entry)))
    }

    fn whole(&self, message: &str) -> FileError {
        FileError::whole(Path::new(&self.suite.suite.path), message)
    }
}

/// A back end's definition with what its entry in the suite adds.
pub(crate) fn with_entry(mut definition: Definition, entry: Option<&SuiteBackend>) -> Definition {
    if let Some(entry) = entry {
        definition.start.env.extend(entry.env.clone());
        definition.start.inherit.extend(entry.inherit.clone());
        definition.limits = limits_keys::over(&entry.limits, &definition.limits);
    }
    definition
}

impl Behind {
    /// CPUs that back ends have of their own.
    pub(crate) fn cpus(&self) -> Vec<u32> {
        self.limits().filter_map(|limits| limits.cpuset.clone()).flatten().collect()
    }

    fn limits(&self) -> impl Iterator<Item = &CheckedLimits> {
        self.definitions.iter().map(|definition| &definition.limits)
    }

    /// The back ends as a plan has them: beside the subjects on their CPUs, unless they have some of their own.
    pub(crate) fn planned(&self, placement: &Placement, unmet: &Unmet<'_>) -> Vec<Backend> {
        let plan = |(entry, definition): (&SuiteBackend, &Definition)| Backend {
            name: entry.name.clone(),
            of: entry.of.clone(),
            variant: entry.variant.clone(),
            title: definition.title.clone(),
            version: None,
            build: None,
            build_failed: None,
            definition: definition.fingerprint().ok(),
            limits: definition.limits.limits.clone(),
            cpus: definition.limits.cpuset.clone().unwrap_or_else(|| placement.subject.clone()),
            skipped: unmet(definition),
        };
        self.entries.iter().zip(&self.definitions).map(plan).collect()
    }
}

/// Lets those subjects not take part whose back ends cannot be run here.
pub(crate) fn skip_those_behind(subjects: &mut [Subject], of_subject: &[Vec<usize>], backends: &[Backend]) {
    for (subject, needed) in
        subjects.iter_mut().zip(of_subject).filter(|(subject, _)| subject.skipped.is_none())
    {
        let lacking =
            needed.iter().map(|index| &backends[*index]).find_map(|b| Some((b, b.skipped.as_ref()?)));
        subject.skipped = lacking.map(|(backend, why)| format!("its back end {}: {why}", backend.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Back ends by name, each with the start that its file says, and one subject with the start that it has.
    fn chosen(backends: &[(&str, &str)], subject: &str, suite: &str) -> Result<Behind, String> {
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
                &format!("[start]\ncommand = [{start}]\n[limits]\nmemory = \"64MiB\"\n"),
            );
        }
        let text = format!("language = \"C\"\nprotocols = [\"h1\"]\n[start]\ncommand = [{subject}]\n");
        folder("subjects/a", "subject.toml", &text);
        let suite = SuiteFile::parse(Path::new("s.toml"), &format!("subjects = [\"a\"]\n{suite}")).unwrap();
        let folders = Folders(vec![root.path().join("subjects")]);
        let definition = folders.subject("a").unwrap();
        let needs = [("subject \"a\"".into(), needs(&definition, &suite.subjects[0]))];
        choose(&suite, &folders, &needs).map_err(|error| error.to_string())
    }

    fn names(behind: &Behind) -> Vec<&str> {
        behind.entries.iter().map(|entry| entry.name.as_str()).collect()
    }

    #[test]
    fn back_ends_are_started_before_what_needs_them() {
        let all = [
            ("app", "\"x\", \"{db.port}\", \"{cache.port}\""),
            ("db", "\"y\""),
            ("cache", "\"{db.port}\""),
            ("idle", "\"z\""),
        ];
        let behind = chosen(&all, "\"{app.port}\"", "").unwrap();
        assert_eq!(names(&behind), ["db", "cache", "app"]);
        assert_eq!(behind.of_subject, [[0, 1, 2]]);
        // What nobody names is for all; what is named otherwise is another one.
        let behind = chosen(
            &all,
            "\"{db.port}\"",
            "[[backends]]\nuse = \"idle\"\ncpuset = \"0\"\n[[backends]]\nuse = \"cache\"\nname = \"db\"\nenv = { A = \"{idle.port}\" }\n",
        );
        let Err(circle) = behind else { panic!("db needs itself") };
        assert!(circle.contains("in a circle: db needs db"), "{circle}");
        let behind = chosen(&all, "\"{db.port}\"", "[[backends]]\nuse = \"idle\"\ncpuset = \"0\"\n").unwrap();
        assert_eq!((names(&behind), behind.cpus()), (vec!["db", "idle"], vec![0]));
        let backends = behind.planned(&Placement { subject: vec![1], generator: vec![] }, &|_| None);
        assert_eq!((backends[0].cpus.as_slice(), backends[1].cpus.as_slice()), (&[1][..], &[0][..]));
        assert_eq!(backends[1].limits.memory_bytes, Some(64 << 20));
    }

    #[test]
    fn a_back_end_that_is_not_there_is_named_with_who_needs_it() {
        let error = |subject: &str, suite: &str| chosen(&[("db", "\"y\"")], subject, suite).err().unwrap();
        let text = error("\"{dbb.port}\"", "");
        assert!(
            text.contains("subject \"a\" needs the back end \"dbb\"")
                && text.contains("did you mean \"db\"?"),
            "{text}"
        );
        let text = error("\"x\"", "[[backends]]\nuse = \"dbb\"\n");
        assert!(text.starts_with("s.toml:3:7: there is no back end \"dbb\""), "{text}");
        let text = error("\"x\"", "[[backends]]\nuse = \"db/v\"\n");
        assert!(text.contains("has no variant \"v\""), "{text}");
    }

    #[test]
    fn a_subject_whose_back_end_cannot_be_had_is_skipped() {
        let behind = chosen(&[("db", "\"y\"")], "\"{db.port}\"", "").unwrap();
        let backends = behind.planned(&Placement::default(), &|_| Some("java is missing.".into()));
        let mut subjects = [Subject::default()];
        skip_those_behind(&mut subjects, &behind.of_subject, &backends);
        assert_eq!(subjects[0].skipped.as_deref(), Some("its back end db: java is missing."));
    }
}
