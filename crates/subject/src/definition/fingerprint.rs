//! Fingerprints of a definition: hashes of the settings that decide how it is started, and of the
//! files in its folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::FileType;
use std::io;
use std::path::{Path, PathBuf};

use dyno_launch::folder::read_within;

use super::{Definition, Role};
use crate::key::Key;
use crate::limits::TEMPLATE_BYTES;

impl Definition {
    /// Returns a hash of all that decides how it is started: this definition, its templates and, if
    /// it is started from its own folder, all files of the folder. The inputs of a build have a
    /// separate hash.
    ///
    /// # Errors
    /// A file of its folder cannot be read.
    pub fn fingerprint(&self) -> io::Result<String> {
        let mut key = Key::default();
        // Other variants and the path of the folder do not affect this one.
        let alone =
            Definition { variants: BTreeMap::new(), folder: PathBuf::new(), ..self.clone() };
        key.add(format!("{alone:?}").as_bytes());
        for file in &self.start.files {
            key.add(&read_within(file.template.path(), &self.folder, TEMPLATE_BYTES)?);
        }
        if self.uses("dir") {
            add_folder(&mut key, &self.folder, Counts::Its)?;
        }
        Ok(key.text())
    }

    /// Adds its folder to a key: its path, and all files in it but the definition.
    pub(crate) fn add_folder_to(&self, key: &mut Key) -> io::Result<()> {
        key.add(self.folder.as_os_str().as_encoded_bytes());
        add_folder(key, &self.folder, Counts::Everything)
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
pub(super) enum Counts {
    Everything,
    /// Its files without those that servers write there, and without the folders that they create
    /// for them.
    Its,
}

/// An entry of a folder.
pub(super) enum Entry {
    Folder,
    /// A symbolic link, with its target and, if the target is a file, its contents.
    Link(PathBuf, Vec<u8>),
    File(Vec<u8>),
    /// A socket, a pipe or a device.
    Other,
}

impl Entry {
    /// Adds the contents of the entry to a key.
    pub(super) fn add_to(&self, key: &mut Key) {
        match self {
            Entry::Link(target, content) => {
                key.add(target.as_os_str().as_encoded_bytes());
                key.add(content);
            }
            Entry::File(bytes) => key.add(bytes),
            Entry::Folder | Entry::Other => {}
        }
    }
}

/// Adds the names and contents of the files that count to a hash; for links, their targets.
fn add_folder(key: &mut Key, folder: &Path, counts: Counts) -> io::Result<()> {
    walk(folder, counts, &mut |name, entry| {
        key.add(name.as_os_str().as_encoded_bytes());
        entry.add_to(key);
    })
}

/// Visits the entries of a folder that count, sorted by name, each by its path below `folder`. The
/// files of a server are also found through links, those of a linked folder once.
pub(super) fn walk(
    folder: &Path,
    counts: Counts,
    visit: &mut dyn FnMut(&Path, &Entry),
) -> io::Result<()> {
    let mut entered = BTreeSet::from([folder.canonicalize()?]);
    walk_below(folder, Path::new(""), counts, &mut entered, visit)
}

fn walk_below(
    folder: &Path,
    below: &Path,
    counts: Counts,
    entered: &mut BTreeSet<PathBuf>,
    visit: &mut dyn FnMut(&Path, &Entry),
) -> io::Result<()> {
    let entries = std::fs::read_dir(folder.join(below))?.map(|e| e.map(|e| e.file_name()));
    let mut names = entries.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    for name in names.iter().map(|name| below.join(name)) {
        let path = folder.join(&name);
        let kind = std::fs::symlink_metadata(&path)?.file_type();
        // The settings of the definition are hashed without its comments.
        let is_definition =
            [Role::Subject, Role::Backend].iter().any(|role| name == Path::new(role.file()));
        let is_left_there =
            counts == Counts::Its && (!is_own_file(kind) || is_written_by_servers(&name));
        if is_definition || (is_left_there && !kind.is_dir()) {
            continue;
        }
        if !is_left_there {
            visit(&name, &read_entry(&path, kind, counts)?);
        }
        let is_linked = counts == Counts::Its && kind.is_symlink() && path.is_dir();
        if kind.is_dir() || is_linked && entered.insert(path.canonicalize()?) {
            walk_below(folder, &name, counts, entered, visit)?;
        }
    }
    Ok(())
}

fn read_entry(path: &Path, kind: FileType, counts: Counts) -> io::Result<Entry> {
    Ok(match kind {
        _ if kind.is_dir() => Entry::Folder,
        _ if kind.is_symlink() => {
            let is_read = counts == Counts::Its && path.is_file();
            let content = if is_read { std::fs::read(path)? } else { Vec::new() };
            Entry::Link(std::fs::read_link(path)?, content)
        }
        _ if kind.is_file() => Entry::File(std::fs::read(path)?),
        _ => Entry::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_template_is_refused_and_written_files_do_not_count() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x");
        std::fs::create_dir(&folder).unwrap();
        let text = "language = \"C\"\nprotocols = [\"h1\"]\n[start]\n\
             command = [\"x\", \"{port}\", \"{dir}\"]\n\
             files = [{ template = \"t\", to = \"t\" }]\n";
        std::fs::write(folder.join("subject.toml"), text).unwrap();
        std::fs::write(folder.join("t"), b"{port}").unwrap();
        let before = Definition::read(&folder).unwrap().fingerprint().unwrap();
        std::fs::create_dir_all(folder.join("logs/old")).unwrap();
        std::fs::create_dir(folder.join("__pycache__")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
        for left in ["access.log", "logs/old/server.pid", "__pycache__/app.pyc"] {
            std::fs::write(folder.join(left), "x").unwrap();
        }
        assert_eq!(Definition::read(&folder).unwrap().fingerprint().unwrap(), before);
        std::fs::write(folder.join("app.py"), "x").unwrap();
        assert_ne!(Definition::read(&folder).unwrap().fingerprint().unwrap(), before);
        // A build may read any file of it.
        let of_build = || {
            let mut key = Key::default();
            Definition::read(&folder).unwrap().add_folder_to(&mut key).unwrap();
            key.text()
        };
        let before = of_build();
        std::fs::write(folder.join("access.log"), "y").unwrap();
        assert_ne!(of_build(), before);
        std::fs::write(folder.join("t"), b"\xff").unwrap();
        let message = Definition::read(&folder).unwrap_err().to_string();
        assert!(message.contains("t: it is no text"), "{message}");
    }
}
