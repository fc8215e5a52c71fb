//! Records what a build made, and detects later changes of its folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::definition::is_usually_written;
use crate::key::{PartsHash, contents_hash};

/// Minimum age of a file's last status change at which its stamp is stored. Right after a younger
/// change, a second change could get the same rounded time, and thus the same stamp. File systems
/// round times to the tick of the kernel, at most 10 ms, and some network file systems to seconds.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// All entries below the folder of a build's results, by path relative to the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artefact(BTreeMap<String, ArtefactEntry>);

/// An entry that a build made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum ArtefactEntry {
    Folder,
    /// A symbolic link, with its target.
    Link(String),
    File(ArtefactFile),
    /// A pipe, a socket or a device, which have no contents to read.
    Other,
}

/// A file that a build made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ArtefactFile {
    is_executable: bool,
    /// Length, bytes.
    length: u64,
    /// SHA-256 of the contents. `None`: the file could not be read.
    contents: Option<String>,
    /// State of the file when its contents were read. `None`: the file had changed just before, so
    /// a later change may leave the same state.
    stamp: Option<FileStamp>,
}

/// Properties of a file that change with its contents. No program can set the time of the last
/// status change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileStamp {
    inode: u64,
    /// Time of the last status change, nanoseconds since 1970.
    status_changed_ns: i128,
}

impl Artefact {
    /// Reads all entries below the folder.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn read(folder: &Path) -> io::Result<Artefact> {
        let mut entries = BTreeMap::new();
        visit_entries(folder, Path::new(""), &mut |name, metadata| {
            entries.insert(text(name), ArtefactEntry::read(&folder.join(name), metadata)?);
            Ok(())
        })?;
        Ok(Artefact(entries))
    }

    /// Compares the folder with what the build made, and reads only files that may have changed.
    /// Afterwards, unchanged files have their present stamps. Returns new files in the order of
    /// their paths. New files are no error, because servers write caches into this folder. New
    /// files of the kinds that servers usually write (logs, databases) are omitted.
    ///
    /// # Errors
    /// The first entry that no longer exists or that has changed, or "" if the folder cannot be
    /// read. Contents of files that servers usually write may change.
    pub fn check(&mut self, folder: &Path) -> Result<Vec<String>, String> {
        let mut present = BTreeMap::new();
        visit_entries(folder, Path::new(""), &mut |name, metadata| {
            present.insert(text(name), (name.to_path_buf(), metadata.clone()));
            Ok(())
        })
        .map_err(|_| String::new())?;
        for (name, entry) in &mut self.0 {
            let Some((path, metadata)) = present.remove(name) else { return Err(name.clone()) };
            if !entry.is_unchanged(&folder.join(&path), &metadata, is_usually_written(&path)) {
                return Err(name.clone());
            }
        }
        let is_new = |(path, metadata): &(PathBuf, Metadata)| {
            (metadata.is_file() || metadata.is_symlink()) && !is_usually_written(path)
        };
        Ok(present.into_iter().filter(|(_, new)| is_new(new)).map(|(name, _)| name).collect())
    }

    /// Returns the size of all files and links, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = |entry: &ArtefactEntry| match entry {
            ArtefactEntry::Link(target) => target.len() as u64,
            ArtefactEntry::File(file) => file.length,
            ArtefactEntry::Folder | ArtefactEntry::Other => 0,
        };
        self.0.values().map(bytes).sum()
    }

    /// Returns a hash of relative paths, kinds, executable bits, contents of files and targets of
    /// links. `None`: a file could not be read.
    #[must_use]
    pub fn hash(&self) -> Option<String> {
        let mut key = PartsHash::default();
        for (name, entry) in &self.0 {
            key.add(name.as_bytes());
            match entry {
                ArtefactEntry::Folder => key.add(b"/"),
                ArtefactEntry::Link(target) => {
                    key.add(b"@");
                    key.add(target.as_bytes());
                }
                ArtefactEntry::File(file) => {
                    key.add(if file.is_executable { b"x" } else { b"-" });
                    key.add(file.contents.as_ref()?.as_bytes());
                }
                ArtefactEntry::Other => key.add(b"|"),
            }
        }
        Some(key.into_text())
    }
}

impl ArtefactEntry {
    fn read(path: &Path, metadata: &Metadata) -> io::Result<ArtefactEntry> {
        Ok(if metadata.is_dir() {
            ArtefactEntry::Folder
        } else if metadata.is_symlink() {
            ArtefactEntry::Link(text(&fs::read_link(path)?))
        } else if metadata.is_file() {
            ArtefactEntry::File(ArtefactFile::read(path, metadata))
        } else {
            ArtefactEntry::Other
        })
    }

    /// Returns whether the entry at a path is the one that the build made. `may_change`: whether
    /// the contents of a file are ignored.
    fn is_unchanged(&mut self, path: &Path, metadata: &Metadata, may_change: bool) -> bool {
        match self {
            ArtefactEntry::File(file) if metadata.is_file() => {
                may_change || file.is_unchanged(path, metadata)
            }
            ArtefactEntry::File(_) => false,
            _ => ArtefactEntry::read(path, metadata).is_ok_and(|present| present == *self),
        }
    }
}

impl ArtefactFile {
    fn read(path: &Path, metadata: &Metadata) -> ArtefactFile {
        ArtefactFile {
            is_executable: metadata.mode() & 0o111 != 0,
            length: metadata.len(),
            contents: fs::File::open(path).and_then(contents_hash).ok(),
            stamp: FileStamp::new(metadata).settled(SystemTime::now()),
        }
    }

    /// Returns whether a file has the same contents and executable bit. Updates its stamp.
    fn is_unchanged(&mut self, path: &Path, metadata: &Metadata) -> bool {
        if (self.length, self.is_executable) != (metadata.len(), metadata.mode() & 0o111 != 0) {
            return false;
        }
        if self.stamp == Some(FileStamp::new(metadata)) {
            return true;
        }
        let present = ArtefactFile::read(path, metadata);
        // A file that cannot be read may have changed, so it counts as changed.
        let is_unchanged = present.contents.is_some() && present.contents == self.contents;
        if is_unchanged {
            self.stamp = present.stamp;
        }
        is_unchanged
    }
}

impl FileStamp {
    fn new(metadata: &Metadata) -> FileStamp {
        let seconds = i128::from(metadata.ctime()) * 1_000_000_000;
        let status_changed_ns = seconds + i128::from(metadata.ctime_nsec());
        FileStamp { inode: metadata.ino(), status_changed_ns }
    }

    /// Returns the stamp; `None`: the last status change is so recent that a change after `now`
    /// could leave the same stamp.
    fn settled(self, now: SystemTime) -> Option<FileStamp> {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let age = now.as_nanos() as i128 - self.status_changed_ns;
        (age > SETTLED_AFTER.as_nanos() as i128).then_some(self)
    }
}

/// Returns a path or the target of a link as text. Bytes that are not UTF-8 are escaped.
fn text(path: &Path) -> String {
    path.to_str().map_or_else(
        || path.as_os_str().as_encoded_bytes().escape_ascii().to_string(),
        String::from,
    )
}

/// Returns the result of an operation on a file. `Ok(None)`: the file does not exist.
fn if_present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Visits the entries below the folder with the relative path `parent`. Links are not followed,
/// because they may lead out of the folder. Entries that vanish meanwhile are skipped: they may be
/// temporary files of a server that runs.
fn visit_entries(
    folder: &Path,
    parent: &Path,
    visit: &mut dyn FnMut(&Path, &Metadata) -> io::Result<()>,
) -> io::Result<()> {
    let names = fs::read_dir(folder.join(parent))?.map(|entry| Ok(entry?.file_name()));
    for name in names.collect::<io::Result<Vec<OsString>>>()? {
        let name = parent.join(name);
        let Some(metadata) = if_present(fs::symlink_metadata(folder.join(&name)))? else {
            continue;
        };
        visit(&name, &metadata)?;
        if metadata.is_dir() {
            if_present(visit_entries(folder, &name, visit))?;
        }
    }
    Ok(())
}
