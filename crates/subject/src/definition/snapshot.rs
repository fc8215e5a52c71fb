//! Detects changes to the files of a server during a run. All starts of a run must be of the same
//! server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Definition;
use super::sources::{Entry, read_unvisited};
use crate::key::PartsHash;

/// Hashes of the files that a server is started from: its templates and, if the start uses `{dir}`,
/// the files in its folder.
///
/// A run reads these files at each start. If a file is edited during the run, later starts are of
/// another server, but the run has recorded the fingerprint of the first server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot(BTreeMap<PathBuf, String>);

impl Snapshot {
    /// Reads and hashes the files. Unreadable files are omitted, because the server cannot read
    /// them either.
    #[must_use]
    pub fn take(definition: &Definition) -> Snapshot {
        let mut hashes = BTreeMap::new();
        let _ = definition.visit_files(&mut |name, entry| {
            hashes.extend(hash(entry, name).map(|hash| (name.to_path_buf(), hash)));
        });
        Snapshot(hashes)
    }

    /// Compares the files with the snapshot. Returns new files, which are not an error, because
    /// servers write caches into their folders.
    ///
    /// # Errors
    /// The first file that no longer exists, or has other contents than in the snapshot.
    pub fn new_files(&self, definition: &Definition) -> Result<Vec<PathBuf>, &Path> {
        let mut current = Snapshot::take(definition);
        for (name, earlier_hash) in &self.0 {
            let current_hash = match current.0.remove(name) {
                Some(hash) => Some(hash),
                None => {
                    read_unvisited(&definition.folder, name).and_then(|entry| hash(&entry, name))
                }
            };
            if current_hash.as_ref() != Some(earlier_hash) {
                return Err(name.as_path());
            }
        }
        // The files that are left were not in the snapshot.
        Ok(current.0.into_keys().collect())
    }
}

/// Returns the hash of a file or a link. `None`: an entry of another kind.
fn hash(entry: &Entry, name: &Path) -> Option<String> {
    matches!(entry, Entry::Link(..) | Entry::File(_)).then(|| {
        let mut key = PartsHash::default();
        entry.add_to(&mut key, name);
        key.into_text()
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::sources::{MAX_LINKED_ENTRIES, VisitedFiles, walk};
    use super::*;

    #[test]
    fn new_files_changed_file_fails_new_file_listed() {
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

    /// Root can read the folder. The change is found in either case.
    #[test]
    fn unreadable_folder_hides_no_change() {
        let root = tempfile::tempdir().unwrap();
        let folder = subject_of_folder(root.path());
        std::fs::write(folder.join("server.py"), "one").unwrap();
        let cache = folder.join(".cache");
        std::fs::create_dir(&cache).unwrap();
        std::fs::set_permissions(&cache, Permissions::from_mode(0o000)).unwrap();
        let definition = Definition::read(&folder).unwrap();
        let snapshot = Snapshot::take(&definition);
        std::fs::write(folder.join("server.py"), "two").unwrap();
        assert_eq!(snapshot.new_files(&definition), Err(Path::new("server.py")));
        std::fs::set_permissions(&cache, Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn entry_that_vanishes_hides_no_other_entry() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(root.path().join(name), "").unwrap();
        }
        let mut visited = Vec::new();
        let visit = &mut |name: &Path, _: &Entry| {
            visited.push(name.to_path_buf());
            let _ = std::fs::remove_file(root.path().join("b"));
        };
        walk(root.path(), VisitedFiles::Sources, visit).unwrap();
        assert_eq!(visited, [Path::new("a"), Path::new("c")]);
    }

    /// Writes a subject whose start uses all of its folder, and returns the folder.
    fn subject_of_folder(root: &Path) -> PathBuf {
        let folder = root.join("x");
        std::fs::create_dir(&folder).unwrap();
        let text = "language = \"C\"\nprotocols = [\"h1\"]\n[start]\ncommand = [\"x\", \"{port}\", \
                    \"{dir}\"]\n";
        std::fs::write(folder.join("subject.toml"), text).unwrap();
        folder
    }

    /// Reading a large data set at each start would take memory and time.
    #[test]
    fn large_linked_file_is_not_read() {
        let root = tempfile::tempdir().unwrap();
        let folder = subject_of_folder(root.path());
        let data = root.path().join("data");
        std::fs::File::create(&data).unwrap().set_len(1 << 40).unwrap();
        std::os::unix::fs::symlink(&data, folder.join("data")).unwrap();
        let definition = Definition::read(&folder).unwrap();
        let snapshot = Snapshot::take(&definition);
        assert_eq!(snapshot.new_files(&definition), Ok(vec![]));
        std::fs::File::options().write(true).open(&data).unwrap().set_len(1 << 41).unwrap();
        assert_eq!(snapshot.new_files(&definition), Err(Path::new("data")));
    }

    /// A new file comes before all others, and a new link leads to the same folder.
    #[test]
    fn unvisited_linked_file_has_not_changed() {
        let root = tempfile::tempdir().unwrap();
        let folder = subject_of_folder(root.path());
        let shared = root.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        for i in 0..=MAX_LINKED_ENTRIES {
            std::fs::write(shared.join(format!("f{i:05}")), "").unwrap();
        }
        std::os::unix::fs::symlink("../shared", folder.join("data")).unwrap();
        let definition = Definition::read(&folder).unwrap();
        let snapshot = Snapshot::take(&definition);
        std::fs::write(shared.join("e00000"), "").unwrap();
        assert_eq!(snapshot.new_files(&definition), Ok(vec!["data/e00000".into()]));
        let last = format!("f{:05}", MAX_LINKED_ENTRIES - 1);
        std::fs::write(shared.join(&last), "changed").unwrap();
        let last_name = Path::new("data").join(&last);
        assert_eq!(snapshot.new_files(&definition), Err(&*last_name));
        std::fs::remove_file(shared.join(&last)).unwrap();
        assert_eq!(snapshot.new_files(&definition), Err(&*last_name));
        std::fs::write(shared.join(&last), "").unwrap();
        std::os::unix::fs::symlink("../shared", folder.join("all")).unwrap();
        let new = snapshot.new_files(&definition).unwrap();
        assert!(new.contains(&"all".into()), "{new:?}");
    }
}
