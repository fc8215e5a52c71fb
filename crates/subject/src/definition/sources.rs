//! Visits the files that decide how a definition is started or built.

use std::collections::BTreeSet;
use std::fs::{FileType, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use dyno_launch::folder::read_in_folder;

use super::{Definition, Role};
use crate::key::PartsHash;
use crate::limits::TEMPLATE_BYTES;

/// Maximum number of bytes that are read of a file that a link leads to. A larger file may be a
/// data set that servers share. Its length and modification time then replace its contents.
const MAX_LINKED_BYTES: u64 = 16 << 20;

/// Maximum number of entries of linked folders that are visited.
pub(super) const MAX_LINKED_ENTRIES: usize = 10_000;

impl Definition {
    /// Visits the files that decide how the server is started, with their paths relative to its
    /// folder: templates and, if the start uses `{dir}`, the files in the folder.
    ///
    /// # Errors
    /// A file cannot be read. Readable templates are visited even then. The walk of the folder ends
    /// at the first error.
    pub(super) fn visit_files(&self, visit: &mut dyn FnMut(&Path, &Entry)) -> io::Result<()> {
        let mut result = Ok(());
        for file in &self.start.files {
            let name = file.template.path();
            match read_in_folder(name, &self.folder, TEMPLATE_BYTES) {
                Ok(bytes) => visit(name, &Entry::File(bytes)),
                Err(error) => result = Err(error),
            }
        }
        let in_folder = match self.uses("dir") {
            true => walk(&self.folder, VisitedFiles::Sources, visit),
            false => Ok(()),
        };
        result.and(in_folder)
    }
}

/// Reads an entry that a walk has not visited, although an earlier walk did. A new entry of a
/// linked folder takes the place of one at the end of the limit. A new link may be the first to a
/// folder. `None`: the entry no longer exists, or cannot be read.
pub(super) fn read_unvisited(folder: &Path, name: &Path) -> Option<Entry> {
    let path = folder.join(name);
    let kind = std::fs::symlink_metadata(&path).ok()?.file_type();
    read_entry(&path, kind, true).ok()
}

fn is_file_or_link(kind: FileType) -> bool {
    kind.is_file() || kind.is_symlink()
}

/// Returns whether a file is of a kind that servers write into their folder (logs, databases), or
/// that editors and Git store next to a source.
fn is_written_by_servers(name: &Path) -> bool {
    const EXTENSIONS: [&str; 15] = [
        "log",
        "pid",
        "sock",
        "pyc",
        "lock",
        "tmp",
        "db",
        "db-journal",
        "db-shm",
        "db-wal",
        "sqlite",
        "sqlite3",
        "swp",
        "swo",
        "swx",
    ];
    let has_extension =
        name.extension().is_some_and(|e| EXTENSIONS.iter().any(|extension| e == *extension));
    let is_backup = name.as_os_str().as_encoded_bytes().ends_with(b"~");
    has_extension || is_backup || name.components().any(|part| part.as_os_str() == ".git")
}

/// The files of a folder that are visited.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum VisitedFiles {
    Everything,
    /// Files and links, without the files and folders that servers create. Links are followed.
    Sources,
}

/// An entry of a folder.
pub(super) enum Entry {
    Folder,
    /// A symbolic link, with its target and, if it is followed to a file, the file's contents.
    Link(PathBuf, Vec<u8>),
    File(Vec<u8>),
    /// A socket, a pipe or a device.
    Other,
}

impl Entry {
    /// Adds the entry to a key.
    pub(super) fn add_to(&self, key: &mut PartsHash, name: &Path) {
        key.add(name.as_os_str().as_encoded_bytes());
        match self {
            Entry::Link(target, contents) => {
                key.add(target.as_os_str().as_encoded_bytes());
                key.add(contents);
            }
            Entry::File(contents) => key.add(contents),
            Entry::Folder | Entry::Other => {}
        }
    }
}

/// Visits entries of a folder, sorted by name, with their paths relative to `folder`.
pub(super) fn walk(
    folder: &Path,
    files: VisitedFiles,
    visit: &mut dyn FnMut(&Path, &Entry),
) -> io::Result<()> {
    let entered = BTreeSet::from([folder.canonicalize()?]);
    let mut walk = SourceWalk { folder, files, entered, linked_left: MAX_LINKED_ENTRIES, visit };
    walk.walk_folder(Path::new(""), false)
}

struct SourceWalk<'a> {
    folder: &'a Path,
    files: VisitedFiles,
    /// Folders that are not entered through a link again, because links may form circles.
    entered: BTreeSet<PathBuf>,
    /// Entries of linked folders that may still be visited.
    linked_left: usize,
    visit: &'a mut dyn FnMut(&Path, &Entry),
}

impl SourceWalk<'_> {
    /// Visits the entries of the folder at a relative path. `is_linked`: a link leads to it.
    fn walk_folder(&mut self, parent: &Path, is_linked: bool) -> io::Result<()> {
        let entries =
            std::fs::read_dir(self.folder.join(parent))?.map(|e| e.map(|e| e.file_name()));
        let mut names = entries.collect::<io::Result<Vec<_>>>()?;
        names.sort();
        for name in names.iter().map(|name| parent.join(name)) {
            let path = self.folder.join(&name);
            let kind = std::fs::symlink_metadata(&path)?.file_type();
            // The definition is hashed separately, without its comments.
            let is_definition =
                [Role::Subject, Role::Backend].iter().any(|role| name == Path::new(role.file()));
            let is_sources_only = self.files == VisitedFiles::Sources;
            let is_excluded =
                is_sources_only && (!is_file_or_link(kind) || is_written_by_servers(&name));
            if is_definition || (is_excluded && !kind.is_dir()) {
                continue;
            }
            if is_linked {
                let Some(links_left) = self.linked_left.checked_sub(1) else { return Ok(()) };
                self.linked_left = links_left;
            }
            if !is_excluded {
                let follows_link = is_sources_only && (is_linked || kind.is_symlink());
                let entry = read_entry(&path, kind, follows_link)?;
                (self.visit)(&name, &entry);
            }
            if kind.is_dir() {
                self.walk_folder(&name, is_linked)?;
            } else if is_sources_only && kind.is_symlink() {
                self.walk_linked_folder(&path, &name);
            }
        }
        Ok(())
    }

    /// Visits the folder that a link leads to, if it is a folder. Errors are ignored, because its
    /// files may belong to another user.
    fn walk_linked_folder(&mut self, path: &Path, name: &Path) {
        if path.is_dir() && path.canonicalize().is_ok_and(|folder| self.entered.insert(folder)) {
            let _ = self.walk_folder(name, true);
        }
    }
}

/// Reads an entry. `is_linked`: whether the entry is a link that is followed, or in a folder that a
/// link leads to.
fn read_entry(path: &Path, kind: FileType, is_linked: bool) -> io::Result<Entry> {
    Ok(match kind {
        _ if kind.is_dir() => Entry::Folder,
        _ if kind.is_symlink() => {
            let contents = if is_linked { linked_contents(path) } else { Vec::new() };
            Entry::Link(std::fs::read_link(path)?, contents)
        }
        _ if kind.is_file() && is_linked => Entry::File(linked_contents(path)),
        _ if kind.is_file() => Entry::File(std::fs::read(path)?),
        _ => Entry::Other,
    })
}

/// Returns the contents of a file, or its length and modification time if it is large. Empty: it is
/// not a readable file.
fn linked_contents(path: &Path) -> Vec<u8> {
    let contents = |file: Metadata| match file.len() > MAX_LINKED_BYTES {
        true => Ok(format!("{} {} {}", file.len(), file.mtime(), file.mtime_nsec()).into_bytes()),
        false => std::fs::read(path),
    };
    let file = std::fs::metadata(path).ok().filter(Metadata::is_file);
    file.and_then(|file| contents(file).ok()).unwrap_or_default()
}
