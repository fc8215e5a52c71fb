//! The search path of definitions: folders of subjects, in order, and the folders `backends` next
//! to them.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dyno_archive::hint::one_line;
use dyno_workload::text::{FileError, nearest};

use super::prerequisites::Prerequisites;
use super::{Definition, Role};

/// Folders of subjects. If two have a subject of the same name, the earlier folder takes
/// precedence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders(pub Vec<PathBuf>);

/// The controls, which need nothing but dyno: they are available everywhere.
const BUILT_IN: [(&str, &str); 3] = [
    ("closed-port", include_str!("../../../../subjects/closed-port/subject.toml")),
    ("coalescing", include_str!("../../../../subjects/coalescing/subject.toml")),
    ("null", include_str!("../../../../subjects/null/subject.toml")),
];

/// Returns the definition of a built-in control. It has no folder, and its contract is built in,
/// too.
fn built_in(name: &str) -> Option<Result<Definition, FileError>> {
    let (_, source) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
    // Below a device there are no files, wherever dyno runs: a relative path could be a user's.
    Some(Definition::parse(&Path::new("/dev/null/dyno").join(name), Role::Subject, source))
}

/// Why there is no definition of a name.
#[derive(Debug)]
pub enum NoDefinition {
    /// Not found, as a sentence.
    None(String),
    /// Found, with mistakes.
    Wrong(Box<FileError>),
}

/// A subject's name, and its definition or its mistakes.
pub type ByName = (String, Result<Definition, FileError>);

impl Folders {
    /// Returns all subjects, each once, sorted by name, including those with mistakes and the
    /// controls.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn all(&self) -> Result<Vec<ByName>, FileError> {
        let mut all = self.in_folders()?;
        for (name, _) in BUILT_IN {
            if !all.iter().any(|(known, _)| known == name) {
                all.extend(built_in(name).map(|read| (name.to_string(), read)));
            }
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    }

    /// The same without the built-in controls.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn in_folders(&self) -> Result<Vec<ByName>, FileError> {
        let mut all: Vec<(String, PathBuf)> = Vec::new();
        for folder in &self.0 {
            for (name, path) in self::folders(folder, Role::Subject)? {
                if !all.iter().any(|(known, _)| *known == name) {
                    all.push((name, path));
                }
            }
        }
        all.sort();
        let read = |path: &Path| match path.file_name().and_then(|name| name.to_str()) {
            Some(_) => Definition::read(path),
            None => Err(FileError::whole(
                path,
                "the name of the folder is not UTF-8\nhint: rename the folder",
            )),
        };
        Ok(all.into_iter().map(|(name, path)| (name, read(&path))).collect())
    }

    /// Returns the subject of a name.
    ///
    /// # Errors
    /// There is none, or it has mistakes.
    pub fn subject(&self, name: &str) -> Result<Definition, NoDefinition> {
        match self.0.iter().map(|folder| folder.join(name)).find(|f| holds(f, Role::Subject)) {
            Some(folder) => {
                Definition::read(&folder).map_err(|error| NoDefinition::Wrong(Box::new(error)))
            }
            None => match built_in(name) {
                Some(own) => own.map_err(|error| NoDefinition::Wrong(Box::new(error))),
                None => Err(NoDefinition::None(self.not_found_text(
                    name,
                    "subject",
                    &self.names(Role::Subject),
                ))),
            },
        }
    }

    /// Finds the back end of a name: a folder with `backend.toml` among the subjects or in a folder
    /// `backends` next to them. A subject can be the back end of another one.
    ///
    /// # Errors
    /// There is none, or it has mistakes.
    pub fn backend(&self, name: &str) -> Result<Definition, NoDefinition> {
        let wrong = |error: FileError| NoDefinition::Wrong(Box::new(error));
        for folder in self.backend_folders().iter().map(|folder| folder.join(name)) {
            if holds(&folder, Role::Backend) {
                return Definition::read_as(&folder, Role::Backend).map_err(wrong);
            }
        }
        match self.subject(name) {
            Err(NoDefinition::None(_)) => {
                let mut known = self.names(Role::Backend);
                known.extend(self.names(Role::Subject));
                Err(NoDefinition::None(self.not_found_text(name, "back end", &known)))
            }
            found => found,
        }
    }

    /// Returns a definition and all its direct and indirect back ends, each once. `Err`: one of
    /// them is missing or has mistakes, as a sentence.
    pub fn with_backends(&self, definition: &Definition) -> Vec<Result<Definition, String>> {
        let mut known = BTreeSet::new();
        let mut all = vec![Ok(definition.clone())];
        let mut next = 0;
        while let Some(found) = all.get(next) {
            let needs = found.as_ref().map(Definition::needs).unwrap_or_default();
            for name in needs.into_iter().filter(|name| known.insert(name.clone())) {
                all.push(self.backend(&name).map_err(|error| match error {
                    NoDefinition::None(why) => {
                        format!("{}, unless a suite gives one that name", one_line(&why))
                    }
                    NoDefinition::Wrong(error) => {
                        format!("its back end {name}: {error}")
                    }
                }));
            }
            next += 1;
        }
        all
    }

    /// Returns why a subject cannot be run here, as a sentence: an unmet need of its own or of one
    /// of its back ends.
    #[must_use]
    pub fn unavailable_reason(
        &self,
        definition: &Definition,
        here: &Prerequisites<'_>,
    ) -> Option<String> {
        self.with_backends(definition).into_iter().enumerate().find_map(|(i, found)| match found {
            Ok(own) if i == 0 => here.unmet_need(&own),
            Ok(backend) => {
                here.unmet_need(&backend).map(|why| format!("its back end {}: {why}", backend.name))
            }
            Err(why) => Some(why),
        })
    }

    /// Returns the folders that are searched for back ends.
    fn backend_folders(&self) -> Vec<PathBuf> {
        let sibling =
            |folder: &PathBuf| Some(std::path::absolute(folder).ok()?.parent()?.join("backends"));
        self.0
            .iter()
            .flat_map(|folder| std::iter::once(folder.clone()).chain(sibling(folder)))
            .collect()
    }

    fn names(&self, role: Role) -> Vec<String> {
        let places = match role {
            Role::Subject => self.0.clone(),
            Role::Backend => self.backend_folders(),
        };
        let mut names: Vec<String> = places
            .iter()
            .flat_map(|place| folders(place, role).unwrap_or_default())
            .map(|(name, _)| name)
            .collect();
        if role == Role::Subject {
            names.extend(BUILT_IN.iter().map(|(name, _)| (*name).to_string()));
        }
        names.sort();
        names.dedup();
        names
    }

    fn not_found_text(&self, name: &str, what: &str, known: &[String]) -> String {
        let hint = match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near:?}?"),
            None if what == "subject" => "`dyno subjects list` prints all".into(),
            None => format!("create a folder backends/{name} with a backend.toml"),
        };
        let places: Vec<String> =
            self.0.iter().map(|folder| folder.display().to_string()).collect();
        format!("{what} {name:?}: not found in {}\nhint: {hint}", places.join(" or "))
    }
}

/// Returns the folders of definitions in a folder, by name. A folder with an unreadable file is
/// included, so that it is reported.
fn folders(folder: &Path, role: Role) -> Result<Vec<(String, PathBuf)>, FileError> {
    let unreadable = |error| FileError::whole(folder, format!("cannot be read: {error}"));
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if holds(&path, role) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            all.push((name, path));
        }
    }
    Ok(all)
}

/// Returns whether a folder has the file of a role, of any kind: also a pipe, a dangling link, or
/// an inaccessible file.
fn holds(folder: &Path, role: Role) -> bool {
    match folder.join(role.file()).symlink_metadata() {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use dyno_launch::guard::Guard;
    use dyno_launch::supervision::{Interrupts, Supervision};

    fn write(folder: &Path, role: Role, title: &str) {
        std::fs::create_dir_all(folder).unwrap();
        let text = format!(
            "title = {title:?}\nlanguage = \"C\"\nprotocols = [\"h1\"]\n[start]\ncommand = \
             [\"x\"]\n"
        );
        std::fs::write(folder.join(role.file()), text).unwrap();
    }

    #[test]
    fn first_of_a_name_is_meant_and_controls_are_always_at_hand() {
        let root = tempfile::tempdir().unwrap();
        let [a, b] = ["a/subjects", "b/subjects"].map(|below| root.path().join(below));
        std::fs::create_dir_all(&a).unwrap();
        write(&b.join("one"), Role::Subject, "of b");
        let folders = Folders(vec![a.clone(), b.clone()]);
        let title = |name: &str| folders.subject(name).unwrap().title;
        assert_eq!((title("one").as_str(), title("null").as_str()), ("of b", "Null server"));
        write(&a.join("one"), Role::Subject, "of a");
        write(&b.join("null"), Role::Subject, "mine");
        assert_eq!((title("one").as_str(), title("null").as_str()), ("of a", "mine"));
        let all: Vec<String> = folders.all().unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(all, ["closed-port", "coalescing", "null", "one"]);
        let Err(NoDefinition::None(why)) = folders.subject("nul") else {
            panic!("it is not there")
        };
        assert!(why.ends_with("did you mean \"null\"?"), "{why}");
    }

    #[test]
    fn folders_whose_file_cannot_be_read_are_named() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt as _;
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let subjects = root.path().join("subjects");
        let file = |name: &str| {
            std::fs::create_dir_all(subjects.join(name)).unwrap();
            subjects.join(name).join("subject.toml")
        };
        let pipe = std::process::Command::new("mkfifo").arg(file("pipe")).status().unwrap();
        assert!(pipe.success());
        symlink("/dev/zero", file("device")).unwrap();
        symlink("nowhere", file("dangling")).unwrap();
        symlink("subject.toml", file("loop")).unwrap();
        std::fs::create_dir_all(file("folder")).unwrap();
        std::fs::write(file("binary"), [0xff]).unwrap();
        std::fs::File::create(file("long")).unwrap().set_len(1 << 40).unwrap();
        file("empty");
        std::fs::write(subjects.join("no-folder"), "").unwrap();
        let odd = subjects.join(OsStr::from_bytes(b"odd\xff"));
        write(&odd, Role::Subject, "not UTF-8");
        let folders = Folders(vec![subjects]);
        let all = folders.in_folders().unwrap();
        let found: Vec<(String, String)> =
            all.into_iter().map(|(name, read)| (name, read.unwrap_err().to_string())).collect();
        let expected = [
            ("binary", "not UTF-8"),
            ("dangling", "a dangling symbolic link"),
            ("device", "is no regular file"),
            ("folder", "is no regular file"),
            ("long", "more than"),
            ("loop", "symbolic links"),
            ("odd\u{fffd}", "not UTF-8"),
            ("pipe", "is no regular file"),
        ];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((name, why), (expected, words)) in found.iter().zip(expected) {
            assert!(name == expected && why.contains(words), "{name}: {why}");
        }
        // A folder that is requested by name is reported, too.
        for name in ["pipe", "device", "dangling"] {
            assert!(matches!(folders.subject(name), Err(NoDefinition::Wrong(_))), "{name}");
        }
        assert!(matches!(folders.subject("empty"), Err(NoDefinition::None(_))));
    }

    #[test]
    fn back_end_is_next_to_the_subjects_or_among_them_or_is_one() {
        let root = tempfile::tempdir().unwrap();
        let subjects = root.path().join("subjects");
        write(&root.path().join("backends/db"), Role::Backend, "sibling");
        write(&subjects.join("cache"), Role::Backend, "among");
        write(&subjects.join("front"), Role::Subject, "a subject");
        let folders = Folders(vec![subjects]);
        let found = |name: &str| folders.backend(name).map(|d| (d.title, d.role)).ok();
        assert_eq!(found("db"), Some(("sibling".into(), Role::Backend)));
        assert_eq!(found("cache"), Some(("among".into(), Role::Backend)));
        assert_eq!(found("front"), Some(("a subject".into(), Role::Subject)));
        let Err(NoDefinition::None(why)) = folders.backend("dbs") else {
            panic!("it is not there")
        };
        assert!(
            why.contains("back end \"dbs\": not found") && why.contains("did you mean \"db\"?"),
            "{why}"
        );
    }

    #[test]
    fn what_stands_behind_a_subject_must_be_here_too() {
        let root = tempfile::tempdir().unwrap();
        let subjects = root.path().join("subjects");
        write(&subjects.join("front"), Role::Subject, "needs app");
        let file = |below: &str, more: &str| {
            let folder = root.path().join(below);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(
                folder.join("backend.toml"),
                format!("{more}[start]\ncommand = [\"x\", \"{{port}}\"]\n"),
            )
            .unwrap();
        };
        file("backends/app", "backends = [\"db\"]\n");
        let folders = Folders(vec![subjects]);
        let front =
            Definition { backends: vec!["app".into()], ..folders.subject("front").unwrap() };
        // The guard of a test is this test program, which ends at once with the unknown argument.
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let lack = || folders.unavailable_reason(&front, &Prerequisites::new(&supervision));
        assert!(lack().unwrap().starts_with("back end \"db\": not found"), "{:?}", lack());
        file(
            "backends/db",
            "[[requires]]\nname = \"disk\"\ntest = \"false\"\nhint = \"Buy one.\"\n",
        );
        assert_eq!(lack().as_deref(), Some("its back end db: disk is missing. Buy one."));
        // A subject that needs itself is checked once.
        file("backends/db", "backends = [\"app\"]\n");
        assert_eq!(lack(), None);
    }
}
