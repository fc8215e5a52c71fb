//! The files that a definition is started and built from.

use std::collections::BTreeSet;
use std::fs::{FileType, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use dyno_launch::folder::read_in_folder;

use super::{Definition, Role};
use crate::key::PartsHash;
use crate::limits::TEMPLATE_BYTES;

/// Most bytes that are read of a file behind a link. A larger one may be a data set that servers
/// share: its length and time of change stand for its contents.
const MAX_LINKED_BYTES: u64 = 16 << 20;

/// Most entries of linked folders that count.
const MAX_LINKED_ENTRIES: usize = 10_000;

impl Definition {
    /// Visits the files that decide how it is started, each by its path below its folder: its
    /// templates and, if it is started from its own folder, the files in it.
    ///
    /// # Errors
    /// A file cannot be read. The readable ones are visited all the same, up to a folder that
    /// cannot be read.
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
            true => walk(&self.folder, CountedFiles::Its, visit),
            false => Ok(()),
        };
        result.and(in_folder)
    }
}

fn is_own_file(kind: FileType) -> bool {
    kind.is_file() || kind.is_symlink()
}

/// Returns whether a file is of a kind that servers write where they run (logs, databases), or that
/// editors and Git keep next to a source.
fn is_written_by_servers(name: &Path) -> bool {
    const ENDINGS: [&str; 15] = [
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
    let is_known = name.extension().is_some_and(|e| ENDINGS.iter().any(|known| e == *known));
    let is_backup = name.as_os_str().as_encoded_bytes().ends_with(b"~");
    is_known || is_backup || name.components().any(|part| part.as_os_str() == ".git")
}

/// Files of a folder that count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CountedFiles {
    Everything,
    /// Its files without those that servers write there, and without the folders that they create
    /// for them. Links are followed.
    Its,
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

/// Visits the entries of a folder that count, sorted by name, each by its path below `folder`.
pub(super) fn walk(
    folder: &Path,
    counts: CountedFiles,
    visit: &mut dyn FnMut(&Path, &Entry),
) -> io::Result<()> {
    let entered = BTreeSet::from([folder.canonicalize()?]);
    let mut walk = Walk { folder, counts, entered, linked_left: MAX_LINKED_ENTRIES, visit };
    walk.walk_folder(Path::new(""), false)
}

struct Walk<'a> {
    folder: &'a Path,
    counts: CountedFiles,
    /// Folders that are not entered through a link: a link may lead back.
    entered: BTreeSet<PathBuf>,
    linked_left: usize,
    visit: &'a mut dyn FnMut(&Path, &Entry),
}

impl Walk<'_> {
    /// `is_linked`: a link leads here.
    fn walk_folder(&mut self, below: &Path, is_linked: bool) -> io::Result<()> {
        let entries = std::fs::read_dir(self.folder.join(below))?.map(|e| e.map(|e| e.file_name()));
        let mut names = entries.collect::<io::Result<Vec<_>>>()?;
        names.sort();
        for name in names.iter().map(|name| below.join(name)) {
            let path = self.folder.join(&name);
            let kind = std::fs::symlink_metadata(&path)?.file_type();
            // The settings of the definition are hashed without its comments.
            let is_definition =
                [Role::Subject, Role::Backend].iter().any(|role| name == Path::new(role.file()));
            let is_its = self.counts == CountedFiles::Its;
            let is_left_there = is_its && (!is_own_file(kind) || is_written_by_servers(&name));
            if is_definition || (is_left_there && !kind.is_dir()) {
                continue;
            }
            if is_linked {
                let Some(left) = self.linked_left.checked_sub(1) else { return Ok(()) };
                self.linked_left = left;
            }
            if !is_left_there {
                let entry = read_entry(&path, kind, is_its && (is_linked || kind.is_symlink()))?;
                (self.visit)(&name, &entry);
            }
            if kind.is_dir() {
                self.walk_folder(&name, is_linked)?;
            } else if is_its && kind.is_symlink() {
                self.below_link(&path, &name);
            }
        }
        Ok(())
    }

    /// Visits the folder behind a link, if there is one. Its files may be unreadable: they are
    /// somebody else's.
    fn below_link(&mut self, path: &Path, name: &Path) {
        if path.is_dir() && path.canonicalize().is_ok_and(|folder| self.entered.insert(folder)) {
            let _ = self.walk_folder(name, true);
        }
    }
}

/// `is_linked`: the entry is a link that is followed, or is in a folder reached through one.
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

/// The contents of a file, or a substitute for them; nothing if there is no readable file.
fn linked_contents(path: &Path) -> Vec<u8> {
    let of_file = |file: Metadata| match file.len() > MAX_LINKED_BYTES {
        true => Ok(format!("{} {} {}", file.len(), file.mtime(), file.mtime_nsec()).into_bytes()),
        false => std::fs::read(path),
    };
    let file = std::fs::metadata(path).ok().filter(Metadata::is_file);
    file.and_then(|file| of_file(file).ok()).unwrap_or_default()
}
