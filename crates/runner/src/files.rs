//! Reads files that a suite, a placeholder or an import names. They are read only from one folder:
//! the text may be from another person, and the files are sent to the server that it names.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dyno_archive::plan::Plan;
use dyno_launch::folder::resolve_within;
use dyno_workload::relative_path::{RelativePath, RelativePathError};
use sha2::{Digest as _, Sha256};

/// A folder whose names cannot lead out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    /// Hint how to use a file outside of the folder, for error messages.
    hint: &'static str,
    /// SHA-256 of each file that was read, by its name.
    hashes: RefCell<BTreeMap<String, String>>,
    /// Required SHA-256 of files, by name. Other files may have any content.
    planned_hashes: BTreeMap<String, String>,
}

impl Folder {
    #[must_use]
    pub fn new(path: &Path, hint: &'static str) -> Folder {
        let is_current = path.as_os_str().is_empty();
        Folder {
            path: if is_current { ".".into() } else { path.into() },
            hint,
            hashes: RefCell::default(),
            planned_hashes: BTreeMap::new(),
        }
    }

    /// Returns the folder of a suite file.
    #[must_use]
    pub fn from_suite(suite: &Path) -> Folder {
        let folder = suite.parent().unwrap_or(Path::new(""));
        Folder::new(folder, "put the file into the folder of the suite, or below it")
    }

    /// Returns the folder of a plan's suite file. A file that was edited after planning is refused:
    /// its requests no longer match the plan.
    #[must_use]
    pub fn from_plan(plan: &Plan) -> Folder {
        let folder = Folder::from_suite(Path::new(&plan.suite.path));
        Folder { planned_hashes: plan.files.clone(), ..folder }
    }

    /// Reads a file in or below the folder. `Err`: the file is elsewhere, also through a link, or
    /// cannot be read.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let bytes = std::fs::read(self.find(name)?).map_err(|error| error.to_string())?;
        let hash: String =
            Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        if self.planned_hashes.get(name).is_some_and(|planned| *planned != hash) {
            return Err("changed after the run was planned, so repeats would send different \
                        requests\nhint: restore the file and resume the run, or start a new run"
                .into());
        }
        self.hashes.borrow_mut().insert(name.into(), hash);
        Ok(bytes)
    }

    /// Returns the SHA-256 of each file read so far, in hexadecimal digits, by its name.
    #[must_use]
    pub fn file_hashes(&self) -> BTreeMap<String, String> {
        self.hashes.borrow().clone()
    }

    /// Returns the path of a file in or below the folder. `Err`: the path is elsewhere, or is not a
    /// file.
    pub fn find(&self, name: &str) -> Result<PathBuf, String> {
        let outside = |problem: &str| format!("{problem}\nhint: {}", self.hint);
        let inside = RelativePath::from_text(name).map_err(|stray| match stray {
            RelativePathError::Empty => "the name is empty".into(),
            RelativePathError::Nul => "the name has a NUL".into(),
            RelativePathError::Absolute => outside("is an absolute path"),
            RelativePathError::Above => outside("leads out of the folder"),
        })?;
        let file =
            resolve_within(inside.path(), &self.path).map_err(|error| match error.kind() {
                ErrorKind::InvalidInput => outside("is a link that leads out of the folder"),
                _ => error.to_string(),
            })?;
        // Reading a pipe or a device could block, or never end.
        if !file.is_file() {
            return Err("not a regular file".into());
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_outside_of_folder_fails() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("suite");
        std::fs::create_dir_all(inner.join("data")).unwrap();
        std::fs::write(root.path().join("secret"), "s").unwrap();
        std::fs::write(inner.join("data/users.csv"), "u").unwrap();
        std::os::unix::fs::symlink("../secret", inner.join("link")).unwrap();
        let folder = Folder::new(&inner, "put it there");
        assert_eq!(folder.read("data/users.csv").unwrap(), b"u");
        assert_eq!(folder.read("./data/../data/users.csv").unwrap(), b"u");
        for (name, words) in [
            ("../secret", "leads out"),
            ("data/../../secret", "leads out"),
            ("link", "is a link that leads out"),
            ("/etc/passwd", "absolute"),
        ] {
            let error = folder.read(name).unwrap_err();
            assert!(error.contains(words) && error.ends_with("put it there"), "{name}: {error}");
        }
        assert!(folder.read("data").unwrap_err().contains("not a regular file"));
        assert!(folder.read("none").unwrap_err().contains("No such file"));
    }

    #[test]
    fn read_file_changed_after_planning_fails() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("users.csv"), "one").unwrap();
        let suite = root.path().join("suite.toml");
        let planning = Folder::from_suite(&suite);
        planning.read("users.csv").unwrap();
        let folder =
            Folder { planned_hashes: planning.file_hashes(), ..Folder::from_suite(&suite) };
        assert_eq!(folder.read("users.csv").unwrap(), b"one");
        std::fs::write(root.path().join("users.csv"), "two").unwrap();
        let error = folder.read("users.csv").unwrap_err();
        assert!(error.contains("changed after the run was planned"), "{error}");
    }

    #[test]
    fn from_suite_without_folder_is_current_folder() {
        assert_eq!(Folder::from_suite(Path::new("suite.toml")).path, Path::new("."));
        assert_eq!(Folder::from_suite(Path::new("suites/a.toml")).path, Path::new("suites"));
    }
}
