//! Where definitions lie: folders of subjects, one after the other, and the folders `backends` beside them.

use std::path::{Path, PathBuf};

use dyno_workload::text::{FileError, nearest};

use super::{Definition, Role};
use crate::paths::Name;

/// Folders of subjects. Of two subjects of one name that in the earlier folder is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders(pub Vec<PathBuf>);

/// Why there is no definition of a name.
#[derive(Debug)]
pub enum NoDefinition {
    /// Nowhere, as a sentence.
    None(String),
    /// It is there, with mistakes.
    Wrong(Box<FileError>),
}

impl Folders {
    /// All subjects by name, each once, in the order of the names: those with mistakes, too.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn all(&self) -> Result<Vec<(String, Result<Definition, FileError>)>, FileError> {
        let mut all: Vec<(String, PathBuf)> = Vec::new();
        for folder in &self.0 {
            for (name, path) in self::folders(folder, Role::Subject)? {
                if !all.iter().any(|(known, _)| *known == name) {
                    all.push((name, path));
                }
            }
        }
        all.sort();
        Ok(all.into_iter().map(|(name, path)| (name, Definition::read(&path))).collect())
    }

    /// The subject of a name.
    ///
    /// # Errors
    /// There is none, or it has mistakes.
    pub fn subject(&self, name: &str) -> Result<Definition, NoDefinition> {
        match self.0.iter().map(|folder| folder.join(name)).find(|f| f.join(Role::Subject.file()).is_file()) {
            Some(folder) => Definition::read(&folder).map_err(|error| NoDefinition::Wrong(Box::new(error))),
            None => Err(NoDefinition::None(self.none_of(name, "subject", &self.names(Role::Subject)))),
        }
    }

    /// The back end of a name: a folder with `backend.toml` among the subjects or in a folder `backends` beside them; or a
    /// subject, which can stand behind another.
    ///
    /// # Errors
    /// There is none, or it has mistakes.
    pub fn backend(&self, name: &str) -> Result<Definition, NoDefinition> {
        let wrong = |error: FileError| NoDefinition::Wrong(Box::new(error));
        for folder in self.of_backends().iter().map(|folder| folder.join(name)) {
            if folder.join(Role::Backend.file()).is_file() {
                return Definition::read_as(&folder, Role::Backend).map_err(wrong);
            }
        }
        match self.subject(name) {
            Err(NoDefinition::None(_)) => {
                let mut known = self.names(Role::Backend);
                known.extend(self.names(Role::Subject));
                Err(NoDefinition::None(self.none_of(name, "back end", &known)))
            }
            found => found,
        }
    }

    /// The names of all back ends that have a file of their own.
    #[must_use]
    pub fn backends(&self) -> Vec<String> {
        self.names(Role::Backend)
    }

    /// Where back ends are looked for.
    fn of_backends(&self) -> Vec<PathBuf> {
        let beside = |folder: &PathBuf| Some(std::path::absolute(folder).ok()?.parent()?.join("backends"));
        self.0.iter().flat_map(|folder| std::iter::once(folder.clone()).chain(beside(folder))).collect()
    }

    fn names(&self, role: Role) -> Vec<String> {
        let places = match role {
            Role::Subject => self.0.clone(),
            Role::Backend => self.of_backends(),
        };
        let mut names: Vec<String> = places
            .iter()
            .flat_map(|place| folders(place, role).unwrap_or_default())
            .map(|(name, _)| name)
            .collect();
        names.sort();
        names.dedup();
        names
    }

    fn none_of(&self, name: &str, what: &str, known: &[String]) -> String {
        let hint = match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near:?}?"),
            None if what == "subject" => "`dyno subjects list` shows which there are".into(),
            None => format!("a folder backends/{name} with a backend.toml would be one"),
        };
        let places: Vec<String> = self.0.iter().map(|folder| folder.display().to_string()).collect();
        format!("there is no {what} {name:?} in {}; {hint}", places.join(" or "))
    }
}

/// The folders of definitions in a folder, by name.
fn folders(folder: &Path, role: Role) -> Result<Vec<(String, PathBuf)>, FileError> {
    let entries = std::fs::read_dir(folder)
        .map_err(|error| FileError::whole(folder, format!("cannot be read: {error}")))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let named = paths.filter(|path| path.join(role.file()).is_file()).filter_map(|path| {
        let Name(name) = Name::parse(path.file_name()?.to_str()?).ok()?;
        Some((name, path))
    });
    Ok(named.collect())
}
