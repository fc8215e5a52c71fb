//! Visits the files that decide how a definition is started or built. Fingerprints and snapshots
//! are computed from them.

use std::collections::BTreeSet;
use std::fs::{FileType, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use dyno_launch::folder::read_in_folder;

use super::{Definition, Role};
use crate::key::PartsHash;
use crate::limits::TEMPLATE_BYTES;

/// Length up to which the contents of a linked file are read, bytes. A longer file may be a data
/// set that servers share, so its length and modification time are used instead of its contents.
const MAX_LINKED_BYTES: u64 = 16 << 20;

/// Maximum number of entries of linked folders that are visited.
pub(super) const MAX_LINKED_ENTRIES: usize = 10_000;

impl Definition {
    /// Visits the files that decide how the server is started, with their paths relative to its
    /// folder: templates and, if the start uses `{dir}`, the files in the folder.
    ///
    /// # Errors
    /// A template or the folder cannot be read. The other files are still visited. Unreadable
    /// entries of the folder are skipped.
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

/// Reads an entry that a walk has not visited, although an earlier walk did. This happens if a new
/// entry of a linked folder moves another entry beyond [`MAX_LINKED_ENTRIES`], or if a new link to
/// the same folder is visited first. `None`: the entry no longer exists, or cannot be read.
pub(super) fn read_unvisited(folder: &Path, name: &Path) -> Option<Entry> {
    let path = folder.join(name);
    let kind = std::fs::symlink_metadata(&path).ok()?.file_type();
    read_entry(&path, kind, Access::Linked).ok()
}

fn is_file_or_link(kind: FileType) -> bool {
    kind.is_file() || kind.is_symlink()
}

/// Returns whether a file is of a kind that servers write into their folder (logs, databases), or
/// that editors and Git store next to a source.
pub(crate) fn is_usually_written(name: &Path) -> bool {
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
    /// Files and links, without files that servers usually write and without `.git`. Links are
    /// followed.
    Sources,
}

impl VisitedFiles {
    /// Whether an entry is visited. For a folder: whether the entries of the folder are visited.
    fn includes(self, kind: FileType, name: &Path) -> bool {
        match self {
            VisitedFiles::Everything => true,
            VisitedFiles::Sources => {
                kind.is_dir() || (is_file_or_link(kind) && !is_usually_written(name))
            }
        }
    }
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
///
/// # Errors
/// The folder or, with [`VisitedFiles::Everything`], one of its entries cannot be read. Entries
/// that no longer exist are skipped.
pub(super) fn walk(
    folder: &Path,
    files: VisitedFiles,
    visit: &mut dyn FnMut(&Path, &Entry),
) -> io::Result<()> {
    let entered = BTreeSet::from([folder.canonicalize()?]);
    let mut walk =
        SourceWalk { folder, files, entered, remaining_linked_entries: MAX_LINKED_ENTRIES, visit };
    walk.walk_folder(Path::new(""), false)
}

struct SourceWalk<'a> {
    folder: &'a Path,
    files: VisitedFiles,
    /// The root, and the linked folders that were entered. A link to one of them is not followed,
    /// because links can form cycles.
    entered: BTreeSet<PathBuf>,
    /// Number of further entries of linked folders that can be visited.
    remaining_linked_entries: usize,
    visit: &'a mut dyn FnMut(&Path, &Entry),
}

impl SourceWalk<'_> {
    /// Visits the entries of the folder at a relative path. `is_linked`: a link leads to the folder
    /// or to one of its parents.
    fn walk_folder(&mut self, parent: &Path, is_linked: bool) -> io::Result<()> {
        let entries =
            std::fs::read_dir(self.folder.join(parent))?.map(|e| e.map(|e| e.file_name()));
        let mut names = entries.collect::<io::Result<Vec<_>>>()?;
        names.sort();
        for name in names.iter().map(|name| parent.join(name)) {
            match self.visit_entry(&name, is_linked) {
                Err(error) if !self.can_skip(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether an entry with this error is skipped. A source that dyno cannot read is not read by
    /// the server either, which has the same user. An entry that no longer exists may be a
    /// temporary file of an editor.
    fn can_skip(&self, error: &io::Error) -> bool {
        self.files == VisitedFiles::Sources || error.kind() == io::ErrorKind::NotFound
    }

    /// Visits an entry and, if it is a folder, the entries below it.
    fn visit_entry(&mut self, name: &Path, is_linked: bool) -> io::Result<()> {
        let path = self.folder.join(name);
        let kind = std::fs::symlink_metadata(&path)?.file_type();
        // The definition is hashed separately, without its comments.
        let is_definition =
            [Role::Subject, Role::Backend].iter().any(|role| name == Path::new(role.file()));
        if is_definition || !self.files.includes(kind, name) {
            return Ok(());
        }
        if is_linked {
            let Some(remaining) = self.remaining_linked_entries.checked_sub(1) else {
                return Ok(());
            };
            self.remaining_linked_entries = remaining;
        }
        let follows_links = self.files == VisitedFiles::Sources;
        if kind.is_dir() {
            if self.files == VisitedFiles::Everything {
                (self.visit)(name, &Entry::Folder);
            }
            return self.walk_folder(name, is_linked);
        }
        let has_linked_contents = follows_links && (is_linked || kind.is_symlink());
        let access = if has_linked_contents { Access::Linked } else { Access::Own };
        (self.visit)(name, &read_entry(&path, kind, access)?);
        if follows_links && kind.is_symlink() {
            self.walk_linked_folder(&path, name);
        }
        Ok(())
    }

    /// Visits the entries of the folder that a link leads to. Does nothing if the link leads to a
    /// file. Errors are ignored, because linked files may belong to another user.
    fn walk_linked_folder(&mut self, path: &Path, name: &Path) {
        if path.is_dir() && path.canonicalize().is_ok_and(|folder| self.entered.insert(folder)) {
            let _ = self.walk_folder(name, true);
        }
    }
}

/// How the contents of an entry are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// The entry belongs to the folder. A file must be readable, and links are not followed.
    Own,
    /// The entry is a link that is followed, or in a folder that a link leads to.
    Linked,
}

/// Reads an entry.
fn read_entry(path: &Path, kind: FileType, access: Access) -> io::Result<Entry> {
    let is_linked = access == Access::Linked;
    Ok(if kind.is_symlink() {
        let contents = if is_linked { linked_contents(path) } else { Vec::new() };
        Entry::Link(std::fs::read_link(path)?, contents)
    } else if kind.is_file() {
        Entry::File(if is_linked { linked_contents(path) } else { std::fs::read(path)? })
    } else if kind.is_dir() {
        Entry::Folder
    } else {
        Entry::Other
    })
}

/// Returns the contents of a file, or the length and modification time of a large file. Empty: the
/// path is not a readable file.
fn linked_contents(path: &Path) -> Vec<u8> {
    let contents = |file: Metadata| match file.len() > MAX_LINKED_BYTES {
        true => Ok(format!("{} {} {}", file.len(), file.mtime(), file.mtime_nsec()).into_bytes()),
        false => std::fs::read(path),
    };
    let file = std::fs::metadata(path).ok().filter(Metadata::is_file);
    file.and_then(|file| contents(file).ok()).unwrap_or_default()
}
