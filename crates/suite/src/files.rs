//! Reads files that a suite, a placeholder or an import names. Only files in one folder are read:
//! the suite may be from another person, and the files are sent to the server that the suite names.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use dyno_config::relative_path::{RelativePath, RelativePathError};
use dyno_launch::folder::resolve_within;
use dyno_model::plan::Plan;
use sha2::{Digest as _, Sha256};

use crate::limits::MAX_INPUT_BYTES;

/// A folder that files are read from. A name that leads out of the folder is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    /// Hint for error messages: how to use a file that is outside of the folder.
    hint: &'static str,
    /// SHA-256 of each file that was read, by file name.
    hashes: RefCell<BTreeMap<String, String>>,
    /// Length of each file that was read, bytes, by file name.
    lengths: RefCell<BTreeMap<String, u64>>,
    /// Largest total length of the different files, bytes.
    max_bytes: u64,
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
            lengths: RefCell::default(),
            max_bytes: MAX_INPUT_BYTES,
            planned_hashes: BTreeMap::new(),
        }
    }

    /// Returns the folder of a suite file.
    #[must_use]
    pub fn from_suite(suite: &Path) -> Folder {
        let folder = suite.parent().unwrap_or(Path::new(""));
        Folder::new(folder, "put the file into the folder of the suite, or below it")
    }

    /// Returns the folder of a plan's suite file. A file that was edited after planning is refused,
    /// because requests with the file would no longer match the plan.
    #[must_use]
    pub fn from_plan(plan: &Plan) -> Folder {
        let folder = Folder::from_suite(Path::new(&plan.suite.path));
        Folder { planned_hashes: plan.files.clone(), ..folder }
    }

    /// Reads a file in or below the folder. `Err`: the file cannot be read, is outside of the
    /// folder (perhaps through a link), or is too long together with the other files.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let path = self.find(name)?;
        let bytes = read_file(&path, self.bytes_of_others(name), self.max_bytes)?;
        let hash: String =
            Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        if self.planned_hashes.get(name).is_some_and(|planned| *planned != hash) {
            return Err("changed after the run was planned, so repeats would send different \
                        requests\nhint: restore the file and resume the run with `--resume`, or \
                        start a new run"
                .into());
        }
        self.hashes.borrow_mut().insert(name.into(), hash);
        self.lengths.borrow_mut().insert(name.into(), bytes.len() as u64);
        Ok(bytes)
    }

    /// Returns the total length of the files with other names that were read, bytes.
    fn bytes_of_others(&self, name: &str) -> u64 {
        let lengths = self.lengths.borrow();
        lengths.iter().filter(|(other, _)| *other != name).map(|(_, bytes)| bytes).sum()
    }

    /// Returns the SHA-256 of each file read so far, in hexadecimal digits, by file name.
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
            RelativePathError::Nul => "the name contains a NUL character".into(),
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

/// Reads a file into memory. `used`: bytes of the inputs that are already in memory. `max_bytes`:
/// the limit of all inputs.
///
/// # Errors
/// The file cannot be read, or is too long. A file that is too long is refused before it is read.
/// If the length of a file is unknown, such as the length of a pipe, the file is refused when it
/// reaches the limit.
pub fn read_file(path: &Path, used: u64, max_bytes: u64) -> Result<Vec<u8>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    if length > max_bytes.saturating_sub(used) {
        return Err(too_long(used, max_bytes));
    }
    read_input(file, used, max_bytes)
}

/// Reads an input of unknown length into memory. `used` and `max_bytes` are as in [`read_file`].
///
/// # Errors
/// The input cannot be read, or reaches the limit before it ends.
pub fn read_input(input: impl Read, used: u64, max_bytes: u64) -> Result<Vec<u8>, String> {
    let limit = max_bytes.saturating_sub(used);
    let mut bytes = Vec::new();
    input
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > limit { Err(too_long(used, max_bytes)) } else { Ok(bytes) }
}

/// Describes an input that is too long, with a hint. The caller names the input.
fn too_long(used: u64, max_bytes: u64) -> String {
    let with_others = if used == 0 {
        String::new()
    } else {
        format!("together with the {used} bytes of the other inputs, ")
    };
    format!(
        "too long: {with_others}it exceeds the limit of {max_bytes} bytes\nhint: use shorter or \
         fewer files, or the placeholder {{fill:SIZE}} for a long request body"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_above_limit_is_refused_before_its_end() {
        struct Endless;
        impl Read for Endless {
            fn read(&mut self, part: &mut [u8]) -> std::io::Result<usize> {
                part.fill(b'x');
                Ok(part.len())
            }
        }
        let error = read_input(Endless, 0, 1000).unwrap_err();
        assert!(error.starts_with("too long: it exceeds the limit of 1000 bytes"), "{error}");
        assert!(error.contains("\nhint: "), "{error}");
        assert_eq!(read_input(&[7; 900][..], 100, 1000).unwrap().len(), 900);
        let error = read_input(&[7; 901][..], 100, 1000).unwrap_err();
        assert!(error.contains("with the 100 bytes of the other inputs"), "{error}");
    }

    /// The file has holes instead of data, so it takes no memory unless it is read.
    #[test]
    fn file_above_limit_is_refused_before_reading() {
        let root = tempfile::tempdir().unwrap();
        let file = File::create(root.path().join("body")).unwrap();
        file.set_len(1 << 40).unwrap();
        let error = Folder::new(root.path(), "put it there").read("body").unwrap_err();
        assert!(error.starts_with("too long: it exceeds the limit of 1073741824 bytes"), "{error}");
    }

    #[test]
    fn files_of_folder_share_one_limit() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            std::fs::write(root.path().join(name), [b'x'; 600]).unwrap();
        }
        let folder = Folder { max_bytes: 1000, ..Folder::new(root.path(), "put it there") };
        // A file that is read again needs no more memory.
        assert!(folder.read("a").is_ok() && folder.read("a").is_ok());
        let error = folder.read("b").unwrap_err();
        assert!(error.contains("with the 600 bytes of the other inputs"), "{error}");
    }

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
