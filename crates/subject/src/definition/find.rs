//! Finds the definitions of subjects and back ends: in the folders of subjects, in order, and in
//! the folders `backends` next to them.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dyno_config::hint::one_line;
use dyno_config::text::{FileError, nearest};

use super::prerequisites::Prerequisites;
use super::{Definition, Role};

/// Folders of subjects. If two folders have a subject of the same name, the earlier folder takes
/// precedence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders(pub Vec<PathBuf>);

/// The built-in controls (servers that are dyno itself), which are always available.
const BUILT_IN: [(&str, &str); 3] = [
    ("closed-port", include_str!("../../../../subjects/closed-port/subject.toml")),
    ("coalescing", include_str!("../../../../subjects/coalescing/subject.toml")),
    ("null", include_str!("../../../../subjects/null/subject.toml")),
];

/// Returns the definition of a built-in control. The definition has no folder, and its contract is
/// built in, too.
fn built_in(name: &str) -> Option<Result<Definition, FileError>> {
    let (_, source) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name)?;
    // The path is below a device, so it never has files. A relative path could be a folder of the
    // user.
    Some(Definition::parse(&Path::new("/dev/null/dyno").join(name), Role::Subject, source))
}

/// The reason why a definition cannot be used.
#[derive(Debug)]
pub enum DefinitionError {
    /// There is no such definition.
    NotFound(String),
    /// The definition has mistakes.
    Invalid(Box<FileError>),
}

/// A subject's name, and its definition or its mistakes.
pub type NamedDefinition = (String, Result<Definition, FileError>);

impl Folders {
    /// Returns all subjects, each once, sorted by name, including those with mistakes and the
    /// controls.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn definitions(&self) -> Result<Vec<NamedDefinition>, FileError> {
        let mut definitions = self.definitions_in_folders()?;
        for (name, _) in BUILT_IN {
            if !definitions.iter().any(|(other, _)| other == name) {
                definitions.extend(built_in(name).map(|result| (name.to_string(), result)));
            }
        }
        definitions.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(definitions)
    }

    /// Returns the subjects in the folders, without the built-in controls.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn definitions_in_folders(&self) -> Result<Vec<NamedDefinition>, FileError> {
        let mut folders: Vec<(String, PathBuf)> = Vec::new();
        for folder in &self.0 {
            for (name, path) in definition_folders(folder, Role::Subject)? {
                if !folders.iter().any(|(other, _)| *other == name) {
                    folders.push((name, path));
                }
            }
        }
        folders.sort();
        let read = |path: &Path| match path.file_name().and_then(|name| name.to_str()) {
            Some(_) => Definition::read(path),
            None => Err(FileError::without_position(
                path,
                "the name of the folder is not UTF-8\nhint: rename the folder",
            )),
        };
        Ok(folders.into_iter().map(|(name, path)| (name, read(&path))).collect())
    }

    /// Returns the subject with a name.
    ///
    /// # Errors
    /// There is no such subject, or it has mistakes.
    pub fn subject(&self, name: &str) -> Result<Definition, DefinitionError> {
        self.read_subject(name, Definition::read)
    }

    /// Returns the subject with a name. The contracts of the subject of that name in `contracts`
    /// take precedence.
    ///
    /// # Errors
    /// There is no such subject, or it has mistakes.
    pub fn subject_with_contracts(
        &self,
        name: &str,
        contracts: &Folders,
    ) -> Result<Definition, DefinitionError> {
        self.read_subject(name, |folder| match contracts.subject_folder(name) {
            Some(contracts_folder) => Definition::read_with_contracts(folder, &contracts_folder),
            None => Definition::read(folder),
        })
    }

    /// Returns the folder of the subject with a name. `None`: no folder has this subject.
    fn subject_folder(&self, name: &str) -> Option<PathBuf> {
        let mut folders = self.0.iter().map(|folder| folder.join(name));
        folders.find(|folder| has_definition(folder, Role::Subject))
    }

    /// Returns the subject with a name, read from its folder by a function.
    fn read_subject(
        &self,
        name: &str,
        read: impl Fn(&Path) -> Result<Definition, FileError>,
    ) -> Result<Definition, DefinitionError> {
        match self.subject_folder(name) {
            Some(folder) => {
                read(&folder).map_err(|error| DefinitionError::Invalid(Box::new(error)))
            }
            None => match built_in(name) {
                Some(result) => result.map_err(|error| DefinitionError::Invalid(Box::new(error))),
                None => Err(DefinitionError::NotFound(self.not_found_text(
                    name,
                    "subject",
                    &self.names(Role::Subject),
                ))),
            },
        }
    }

    /// Returns the back end with a name: a folder with `backend.toml` among the subjects, or in a
    /// folder `backends` next to them. A subject can be the back end of another one.
    ///
    /// # Errors
    /// There is no such back end, or it has mistakes.
    pub fn backend(&self, name: &str) -> Result<Definition, DefinitionError> {
        let invalid = |error: FileError| DefinitionError::Invalid(Box::new(error));
        for folder in self.backend_folders().iter().map(|folder| folder.join(name)) {
            if has_definition(&folder, Role::Backend) {
                return Definition::read_as(&folder, Role::Backend).map_err(invalid);
            }
        }
        match self.subject(name) {
            Err(DefinitionError::NotFound(_)) => {
                let mut names = self.names(Role::Backend);
                names.extend(self.names(Role::Subject));
                Err(DefinitionError::NotFound(self.not_found_text(name, "back end", &names)))
            }
            result => result,
        }
    }

    /// Returns a definition and all its direct and indirect back ends, each once. `Err`: one of
    /// them is missing or has mistakes.
    pub fn with_backends(&self, definition: &Definition) -> Vec<Result<Definition, String>> {
        let mut names = BTreeSet::new();
        let mut definitions = vec![Ok(definition.clone())];
        let mut next = 0;
        while let Some(result) = definitions.get(next) {
            let needs = result.as_ref().map(Definition::needs).unwrap_or_default();
            for name in needs.into_iter().filter(|name| names.insert(name.clone())) {
                definitions.push(self.backend(&name).map_err(|error| match error {
                    DefinitionError::NotFound(message) => {
                        format!(
                            "{} (a suite can define this back end in [[backends]])",
                            one_line(&message)
                        )
                    }
                    DefinitionError::Invalid(error) => {
                        format!("its back end {name}: {error}")
                    }
                }));
            }
            next += 1;
        }
        definitions
    }

    /// Returns why a subject cannot run on this machine, as a sentence: an unmet requirement of the
    /// subject or of one of its back ends.
    #[must_use]
    pub fn unavailable_reason(
        &self,
        definition: &Definition,
        prerequisites: &Prerequisites<'_>,
    ) -> Option<String> {
        let mut definitions = self.with_backends(definition).into_iter().enumerate();
        definitions.find_map(|(i, result)| match result {
            Ok(subject) if i == 0 => prerequisites.unmet_need(&subject),
            Ok(backend) => {
                let need = prerequisites.unmet_need(&backend)?;
                Some(format!("its back end {}: {need}", backend.name))
            }
            Err(message) => Some(message),
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

    /// Returns the names of all subjects or back ends.
    fn names(&self, role: Role) -> Vec<String> {
        let folders = match role {
            Role::Subject => self.0.clone(),
            Role::Backend => self.backend_folders(),
        };
        let mut names: Vec<String> = folders
            .iter()
            .flat_map(|folder| definition_folders(folder, role).unwrap_or_default())
            .map(|(name, _)| name)
            .collect();
        if role == Role::Subject {
            names.extend(BUILT_IN.iter().map(|(name, _)| (*name).to_string()));
        }
        names.sort();
        names.dedup();
        names
    }

    fn not_found_text(&self, name: &str, role: &str, names: &[String]) -> String {
        let hint = match nearest(name, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near:?}?"),
            None if role == "subject" => "`dyno subjects list` prints all subjects".into(),
            None => format!("create a folder backends/{name} with a backend.toml"),
        };
        let folders: Vec<String> =
            self.0.iter().map(|folder| folder.display().to_string()).collect();
        format!("{role} {name:?}: not found in {}\nhint: {hint}", folders.join(" or "))
    }
}

/// Returns the folders of definitions in a folder, by name. A folder with an unreadable file is
/// included, so that it is reported.
fn definition_folders(folder: &Path, role: Role) -> Result<Vec<(String, PathBuf)>, FileError> {
    let unreadable =
        |error| FileError::without_position(folder, format!("cannot be read: {error}"));
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if has_definition(&path, role) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            folders.push((name, path));
        }
    }
    Ok(folders)
}

/// Returns whether a folder has the file of a role. The file can be of any kind, such as a pipe, a
/// dangling link, or an inaccessible file.
fn has_definition(folder: &Path, role: Role) -> bool {
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
    fn first_folder_precedes_and_controls_are_built_in() {
        let root = tempfile::tempdir().unwrap();
        let [a, b] = ["a/subjects", "b/subjects"].map(|path| root.path().join(path));
        std::fs::create_dir_all(&a).unwrap();
        write(&b.join("one"), Role::Subject, "of b");
        let folders = Folders(vec![a.clone(), b.clone()]);
        let title = |name: &str| folders.subject(name).unwrap().title;
        assert_eq!((title("one").as_str(), title("null").as_str()), ("of b", "Null server"));
        write(&a.join("one"), Role::Subject, "of a");
        write(&b.join("null"), Role::Subject, "mine");
        assert_eq!((title("one").as_str(), title("null").as_str()), ("of a", "mine"));
        let names: Vec<String> =
            folders.definitions().unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["closed-port", "coalescing", "null", "one"]);
        let Err(DefinitionError::NotFound(message)) = folders.subject("nul") else {
            panic!("there is no such subject")
        };
        assert!(message.ends_with("did you mean \"null\"?"), "{message}");
    }

    #[test]
    fn definitions_with_unreadable_file_have_error() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt as _;
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let subjects = root.path().join("subjects");
        let file = |name: &str| {
            std::fs::create_dir_all(subjects.join(name)).unwrap();
            subjects.join(name).join("subject.toml")
        };
        crate::pipe::make_pipe(file("pipe"));
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
        let definitions = folders.definitions_in_folders().unwrap();
        let errors: Vec<(String, String)> = definitions
            .into_iter()
            .map(|(name, result)| (name, result.unwrap_err().to_string()))
            .collect();
        let expected = [
            ("binary", "not UTF-8"),
            ("dangling", "a dangling symbolic link"),
            ("device", "is not a regular file"),
            ("folder", "is not a regular file"),
            ("long", "more than"),
            ("loop", "symbolic links"),
            ("odd\u{fffd}", "not UTF-8"),
            ("pipe", "is not a regular file"),
        ];
        assert_eq!(errors.len(), expected.len(), "{errors:?}");
        for ((name, error), (expected, message)) in errors.iter().zip(expected) {
            assert!(name == expected && error.contains(message), "{name}: {error}");
        }
        // A folder that is requested by name gives the error, too.
        for name in ["pipe", "device", "dangling"] {
            assert!(matches!(folders.subject(name), Err(DefinitionError::Invalid(_))), "{name}");
        }
        assert!(matches!(folders.subject("empty"), Err(DefinitionError::NotFound(_))));
    }

    #[test]
    fn backend_found_in_sibling_folder_or_among_subjects() {
        let root = tempfile::tempdir().unwrap();
        let subjects = root.path().join("subjects");
        write(&root.path().join("backends/db"), Role::Backend, "sibling");
        write(&subjects.join("cache"), Role::Backend, "among");
        write(&subjects.join("front"), Role::Subject, "a subject");
        let folders = Folders(vec![subjects]);
        let find = |name: &str| folders.backend(name).map(|d| (d.title, d.role)).ok();
        assert_eq!(find("db"), Some(("sibling".into(), Role::Backend)));
        assert_eq!(find("cache"), Some(("among".into(), Role::Backend)));
        assert_eq!(find("front"), Some(("a subject".into(), Role::Subject)));
        let Err(DefinitionError::NotFound(message)) = folders.backend("dbs") else {
            panic!("there is no such back end")
        };
        assert!(
            message.contains("back end \"dbs\": not found")
                && message.contains("did you mean \"db\"?"),
            "{message}"
        );
    }

    #[test]
    fn unavailable_reason_includes_indirect_backends() {
        let root = tempfile::tempdir().unwrap();
        let subjects = root.path().join("subjects");
        write(&subjects.join("front"), Role::Subject, "needs app");
        let write_backend = |path: &str, extra: &str| {
            let folder = root.path().join(path);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(
                folder.join("backend.toml"),
                format!("{extra}[start]\ncommand = [\"x\", \"{{port}}\"]\n"),
            )
            .unwrap();
        };
        write_backend("backends/app", "backends = [\"db\"]\n");
        let folders = Folders(vec![subjects]);
        let front =
            Definition { backends: vec!["app".into()], ..folders.subject("front").unwrap() };
        // The guard of a test is this test program, which ends immediately with the unknown
        // argument.
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let reason = || folders.unavailable_reason(&front, &Prerequisites::new(&supervision));
        assert!(reason().unwrap().starts_with("back end \"db\": not found"), "{:?}", reason());
        write_backend(
            "backends/db",
            "[[requires]]\nname = \"disk\"\ntest = \"false\"\nhint = \"Buy one.\"\n",
        );
        assert_eq!(reason().as_deref(), Some("its back end db: disk is missing. Buy one."));
        // A subject that needs itself is checked once.
        write_backend("backends/db", "backends = [\"app\"]\n");
        assert_eq!(reason(), None);
    }
}
