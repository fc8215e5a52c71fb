//! Parses paths in suites and subject files. Absolute paths, and `..` that leads out of the folder
//! of the file, are refused.
//!
//! A suite or subject from another person therefore cannot name files elsewhere on the machine.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Deserializer};

use crate::text::parse_string;

/// A relative path that stays within its base folder, without `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelativePath(PathBuf);

/// The reason why a text is not a path within a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelativePathError {
    Empty,
    Nul,
    Absolute,
    Above,
}

impl RelativePath {
    /// # Errors
    /// The path is refused.
    pub fn parse(text: &str) -> Result<RelativePath, String> {
        RelativePath::from_text(text).map_err(|error| match error {
            RelativePathError::Empty => {
                "path: is empty\nhint: name a file, or remove the key".into()
            }
            RelativePathError::Nul => {
                format!("path {text:?}: has a NUL character\nhint: remove that character")
            }
            RelativePathError::Absolute => {
                format!(
                    "path {text:?}: is absolute\nhint: write the path relative to the folder of \
                     this file"
                )
            }
            RelativePathError::Above => format!(
                "path {text:?}: leads out of the folder of this file\nhint: put the file into that \
                 folder, and write its relative path"
            ),
        })
    }

    /// # Errors
    /// The text leads out of the folder, or is not a path.
    pub fn from_text(text: &str) -> Result<RelativePath, RelativePathError> {
        if text.is_empty() {
            return Err(RelativePathError::Empty);
        }
        if text.contains('\0') {
            return Err(RelativePathError::Nul);
        }
        let mut path = PathBuf::new();
        for component in Path::new(text).components() {
            match component {
                Component::Normal(name) => path.push(name),
                Component::CurDir => {}
                Component::ParentDir => {
                    if !path.pop() {
                        return Err(RelativePathError::Above);
                    }
                }
                Component::RootDir | Component::Prefix(_) => {
                    return Err(RelativePathError::Absolute);
                }
            }
        }
        Ok(RelativePath(path))
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.0.as_os_str().is_empty() { OsStr::new(".") } else { self.0.as_os_str() };
        text.display().fmt(f)
    }
}

impl<'de> Deserialize<'de> for RelativePath {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parse_string(from, RelativePath::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_stays_within_its_folder() {
        for (text, path) in
            [("a", "a"), ("./a/b", "a/b"), ("a/../b", "b"), (".", ""), ("a//b/", "a/b")]
        {
            assert_eq!(RelativePath::parse(text).unwrap().path(), Path::new(path), "{text}");
        }
        for (text, expected) in [
            ("/etc/passwd", "absolute"),
            ("..", "leads out of the folder"),
            ("a/../../b", "leads out of the folder"),
            ("", "empty"),
            ("a\0b", "NUL"),
        ] {
            assert!(RelativePath::parse(text).unwrap_err().contains(expected), "{text}");
        }
    }
}
