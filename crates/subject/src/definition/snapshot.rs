//! The files that a server is started from, as they were when a run was planned.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Definition;
use super::sources::Entry;
use crate::key::PartsHash;

/// Hashes of the files that a server is started from: its templates and, if it is started from its
/// own folder, the files in it.
///
/// A run reads these files at each start. A file that is edited during the run would make another
/// server of it, under the fingerprint of the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot(BTreeMap<PathBuf, String>);

impl Snapshot {
    /// Reads and hashes the files. Unreadable files are left out: a start fails because of them.
    #[must_use]
    pub fn take(definition: &Definition) -> Snapshot {
        let mut hashes = BTreeMap::new();
        let _ = definition.visit_files(&mut |name, entry| {
            if matches!(entry, Entry::Link(..) | Entry::File(_)) {
                let mut key = PartsHash::default();
                entry.add_to(&mut key, name);
                hashes.insert(name.to_path_buf(), key.text());
            }
        });
        Snapshot(hashes)
    }

    /// Compares the files with the snapshot.
    ///
    /// # Errors
    /// The first file that no longer exists, or has other contents than in the snapshot.
    ///
    /// New files are no error, because servers write caches into their folders.
    pub fn new_files(&self, definition: &Definition) -> Result<Vec<PathBuf>, &Path> {
        let mut now = Snapshot::take(definition);
        match self.0.iter().find(|&(name, hash)| now.0.remove(name).as_ref() != Some(hash)) {
            Some((name, _)) => Err(name),
            None => Ok(now.0.into_keys().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_files_are_errors_and_new_ones_are_listed() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x");
        std::fs::create_dir(&folder).unwrap();
        let text = "language = \"C\"\nprotocols = [\"h1\"]\n[start]\ncommand = [\"x\", \"{port}\", \
                    \"{dir}\"]\nfiles = [{ template = \"t\", to = \"t\" }]\n";
        std::fs::write(folder.join("subject.toml"), text).unwrap();
        std::fs::write(folder.join("t"), "{port}").unwrap();
        std::fs::write(folder.join("server.py"), "one").unwrap();
        let shared = root.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        std::fs::write(shared.join("part.py"), "one").unwrap();
        for (target, link) in [("../shared/part.py", "part.py"), ("../shared", "all"), (".", "own")]
        {
            std::os::unix::fs::symlink(target, folder.join(link)).unwrap();
        }
        std::fs::write(folder.join("data.db"), "one").unwrap();
        let definition = Definition::read(&folder).unwrap();
        let snapshot = Snapshot::take(&definition);
        std::fs::write(folder.join("cache.db"), "new").unwrap();
        std::fs::write(folder.join("access.log"), "new").unwrap();
        std::fs::write(folder.join("data.db"), "two").unwrap();
        assert_eq!(snapshot.new_files(&definition), Ok(vec![]));
        std::fs::write(folder.join("cache.json"), "new").unwrap();
        assert_eq!(snapshot.new_files(&definition), Ok(vec!["cache.json".into()]));
        std::fs::write(folder.join("server.py"), "two").unwrap();
        assert_eq!(snapshot.new_files(&definition), Err(Path::new("server.py")));
        std::fs::write(folder.join("server.py"), "one").unwrap();
        std::fs::write(shared.join("part.py"), "two").unwrap();
        assert_eq!(snapshot.new_files(&definition), Err(Path::new("all/part.py")));
        std::fs::write(shared.join("part.py"), "one").unwrap();
        std::fs::write(folder.join("t"), "other").unwrap();
        assert_eq!(snapshot.new_files(&definition), Err(Path::new("t")));
        std::fs::remove_file(folder.join("t")).unwrap();
        assert_eq!(snapshot.new_files(&definition), Err(Path::new("t")));
    }

    /// A data set next to the sources would take memory and time at each start.
    #[test]
    fn large_file_behind_a_link_is_not_read() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x");
        std::fs::create_dir(&folder).unwrap();
        let text = "language = \"C\"\nprotocols = [\"h1\"]\n[start]\ncommand = [\"x\", \"{port}\", \
                    \"{dir}\"]\n";
        std::fs::write(folder.join("subject.toml"), text).unwrap();
        let data = root.path().join("data");
        std::fs::File::create(&data).unwrap().set_len(1 << 40).unwrap();
        std::os::unix::fs::symlink(&data, folder.join("data")).unwrap();
        let definition = Definition::read(&folder).unwrap();
        let snapshot = Snapshot::take(&definition);
        assert_eq!(snapshot.new_files(&definition), Ok(vec![]));
        std::fs::File::options().write(true).open(&data).unwrap().set_len(1 << 41).unwrap();
        assert_eq!(snapshot.new_files(&definition), Err(Path::new("data")));
    }
}
