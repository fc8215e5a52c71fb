//! Lists the files below a path in a folder, and parses names of folders. A link that leads out of
//! the folder is refused, because a build must depend only on files in the folder.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use dyno_config::relative_path::RelativePath;
use dyno_config::text::parse_string;
use dyno_launch::folder;
use serde::{Deserialize, Deserializer};

/// A subject's name, which is also its folder's name: one path component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(pub String);

impl Name {
    /// Parses a name, which must be one path component.
    ///
    /// # Errors
    /// The reason why the name is refused.
    pub fn parse(text: &str) -> Result<Name, String> {
        let mut parts = Path::new(text).components();
        match (parts.next(), parts.next()) {
            (Some(Component::Normal(part)), None) if part == text && !text.contains('\0') => {
                Ok(Name(text.into()))
            }
            _ => Err(format!("subject {text:?}: must be the name of its folder, without `/`")),
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parse_string(from, Name::parse)
    }
}

/// A file or folder below a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// Path relative to the folder.
    pub relative_path: PathBuf,
    /// Absolute path, with links resolved.
    pub path: PathBuf,
    pub kind: EntryKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    Folder,
    File { mode: u32 },
}

/// Returns all files and folders below a path in a folder, including the path, sorted by path.
/// Links are followed if they stay within the folder.
///
/// # Errors
/// An entry cannot be read, a link leads out of the folder or in a circle, or an entry is neither
/// file nor folder.
pub fn walk(folder: &Path, from: &RelativePath) -> io::Result<Vec<FolderEntry>> {
    let mut walk =
        FolderWalk { root: folder.canonicalize()?, parents: Vec::new(), entries: Vec::new() };
    walk.visit(from.path())?;
    Ok(walk.entries)
}

struct FolderWalk {
    root: PathBuf,
    /// The parents of the current folder, to detect circles.
    parents: Vec<PathBuf>,
    entries: Vec<FolderEntry>,
}

impl FolderWalk {
    /// Adds the entry at a relative path, and all entries below it.
    fn visit(&mut self, name: &Path) -> io::Result<()> {
        let with_name = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", name.display()));
        let path = self.root.join(name).canonicalize().map_err(with_name)?;
        if !path.starts_with(&self.root) {
            return Err(folder::outside_error(name, &path));
        }
        let metadata = fs::metadata(&path).map_err(with_name)?;
        if metadata.is_file() {
            let kind = EntryKind::File { mode: metadata.mode() };
            self.entries.push(FolderEntry { relative_path: name.into(), path, kind });
            return Ok(());
        }
        if !metadata.is_dir() {
            return Err(invalid_path(name, "is neither a file nor a folder"));
        }
        if self.parents.contains(&path) {
            return Err(invalid_path(
                name,
                "is a symbolic link to a folder that contains the link",
            ));
        }
        self.entries.push(FolderEntry {
            relative_path: name.into(),
            path: path.clone(),
            kind: EntryKind::Folder,
        });
        let entries: Result<Vec<_>, _> =
            fs::read_dir(&path).map_err(with_name)?.map(|e| e.map(|e| e.file_name())).collect();
        let mut entries = entries.map_err(with_name)?;
        entries.sort();
        self.parents.push(path);
        entries.iter().try_for_each(|entry| self.visit(&name.join(entry)))?;
        self.parents.pop();
        Ok(())
    }
}

fn invalid_path(name: &Path, problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{} {problem}", name.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::fs::symlink;

    #[test]
    fn parse_name_with_several_parts_fails() {
        assert!(Name::parse("go-nethttp").is_ok());
        for text in ["", ".", "..", "a/b", "/a", "a/", "../a"] {
            assert!(Name::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn walk_link_out_of_folder_fails() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x");
        fs::create_dir_all(folder.join("src/deep")).unwrap();
        fs::write(folder.join("src/a"), "1").unwrap();
        fs::write(root.path().join("secret"), "2").unwrap();
        symlink("a", folder.join("src/b")).unwrap();
        let source = RelativePath::parse("src").unwrap();
        let names: Vec<_> =
            walk(&folder, &source).unwrap().into_iter().map(|f| f.relative_path).collect();
        assert_eq!(names, ["src", "src/a", "src/b", "src/deep"].map(PathBuf::from));

        symlink("../../secret", folder.join("src/out")).unwrap();
        assert!(
            walk(&folder, &source)
                .unwrap_err()
                .to_string()
                .contains("src/out: is a link that leads out")
        );
        fs::remove_file(folder.join("src/out")).unwrap();

        symlink("..", folder.join("src/deep/up")).unwrap();
        assert!(
            walk(&folder, &source)
                .unwrap_err()
                .to_string()
                .contains("a folder that contains the link")
        );
        fs::remove_file(folder.join("src/deep/up")).unwrap();

        let _listener = std::os::unix::net::UnixListener::bind(folder.join("src/socket")).unwrap();
        assert!(
            walk(&folder, &source).unwrap_err().to_string().contains("neither a file nor a folder")
        );
    }
}
