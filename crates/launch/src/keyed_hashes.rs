//! Keyed hashes of environment variables whose values records withhold.
//!
//! The hashes show whether a value has changed. Without the key, which never leaves the user's
//! state folder, no value can be guessed from its hash.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use dyno_model::start::KeyedHashes;
use sha2::{Digest as _, Sha256};

use crate::folder::base_folder;

/// Name of the key's file in dyno's state folder.
const FILE: &str = "hash-key";

/// Length of a key, bytes.
const KEY_BYTES: usize = 32;

/// Length of a hash of a value in archives, bytes.
const HASH_BYTES: usize = 16;

/// Length of the id of a key, bytes.
const ID_BYTES: usize = 8;

/// The file of the user's key, which is created when the key is first needed.
#[derive(Clone, Debug)]
pub struct KeyFile {
    /// dyno's state folder; `None`: unknown.
    folder: Option<PathBuf>,
}

impl KeyFile {
    /// Returns the file in the state folder of this user: `$XDG_STATE_HOME/dyno`, or
    /// `~/.local/state/dyno`.
    #[must_use]
    pub fn of_user() -> KeyFile {
        let state = base_folder("XDG_STATE_HOME", ".local/state");
        KeyFile { folder: state.map(|state| state.join("dyno")) }
    }

    #[must_use]
    pub fn in_folder(folder: &Path) -> KeyFile {
        KeyFile { folder: Some(folder.to_owned()) }
    }

    /// Returns the hashes of variables. `None`: there are no variables, or the key can be neither
    /// read nor created.
    #[must_use]
    pub fn hashes(&self, variables: &BTreeMap<String, OsString>) -> Option<KeyedHashes> {
        if variables.is_empty() {
            return None;
        }
        let Key(key) = Key::read_or_create(self.folder.as_ref()?).ok()?;
        // The length separates the name from the value. The hashes are truncated, so a hash of a
        // longer value cannot be computed from them without the key.
        let hash = |(name, value): (&String, &OsString)| {
            let length = (name.len() as u64).to_le_bytes();
            let parts = [&key, &length[..], name.as_bytes(), value.as_bytes()];
            (name.clone(), truncated_hash(&parts, HASH_BYTES))
        };
        Some(KeyedHashes {
            key: truncated_hash(&[&key], ID_BYTES),
            hashes: variables.iter().map(hash).collect(),
        })
    }
}

/// A random key.
struct Key([u8; KEY_BYTES]);

impl Key {
    fn read_or_create(folder: &Path) -> io::Result<Key> {
        match Key::read(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Key::create(folder),
            read => read,
        }
    }

    fn read(folder: &Path) -> io::Result<Key> {
        let bytes = fs::read(folder.join(FILE))?;
        bytes.try_into().map(Key).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Creates the file with a random key, which only the user can read. If another process creates
    /// the file at the same time, its key is used.
    fn create(folder: &Path) -> io::Result<Key> {
        let mut key = [0; KEY_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut key)?;
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        // The mode of temporary files is 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&key)?;
        file.as_file().sync_all()?;
        match file.persist_noclobber(folder.join(FILE)) {
            Ok(_) => Ok(Key(key)),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Key::read(folder),
            Err(error) => Err(error.error),
        }
    }
}

/// Returns the first bytes of a SHA-256 in hexadecimal.
fn truncated_hash(parts: &[&[u8]], bytes: usize) -> String {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn variables(name: &str, value: &str) -> BTreeMap<String, OsString> {
        BTreeMap::from([(name.to_owned(), value.into())])
    }

    #[test]
    fn hash_depends_on_key_name_and_value() {
        let root = tempfile::tempdir().unwrap();
        let hashes = |folder: &str, name: &str, value: &str| {
            let file = KeyFile::in_folder(&root.path().join(folder));
            file.hashes(&variables(name, value)).unwrap()
        };
        let first = hashes("a", "DB_KEY", "1");
        assert_eq!(hashes("a", "DB_KEY", "1"), first);
        assert_eq!(first.hashes["DB_KEY"].len(), 2 * HASH_BYTES);
        assert_ne!(hashes("a", "DB_KEY", "2").hashes["DB_KEY"], first.hashes["DB_KEY"]);
        assert_ne!(hashes("a", "DB_KE", "Y1").hashes["DB_KE"], first.hashes["DB_KEY"]);
        let other = hashes("b", "DB_KEY", "1");
        assert_ne!(other.hashes["DB_KEY"], first.hashes["DB_KEY"]);
        assert_ne!(other.key, first.key);
    }

    #[test]
    fn key_is_created_when_needed_for_its_user_only() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("state/dyno");
        let file = KeyFile::in_folder(&folder);
        assert_eq!(file.hashes(&BTreeMap::new()), None);
        assert!(!folder.exists());
        let hashes = file.hashes(&variables("DB_KEY", "1")).unwrap();
        let key = folder.join(FILE);
        let metadata = fs::metadata(&key).unwrap();
        assert_eq!((metadata.mode() & 0o777, metadata.len()), (0o600, 32));
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        // The key is in no archive.
        let text = format!("{hashes:?}");
        let digits: String =
            fs::read(&key).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!text.contains(&digits[..16]), "{text}");
        // A key that another process created first is used.
        let Key(created) = Key::create(&folder).unwrap();
        assert_eq!(created.as_slice(), fs::read(&key).unwrap());
    }

    #[test]
    fn no_hashes_without_key() {
        let root = tempfile::tempdir().unwrap();
        let hashes = |file: KeyFile| file.hashes(&variables("DB_KEY", "1"));
        assert_eq!(hashes(KeyFile { folder: None }), None);
        // The folder cannot be created below a file.
        fs::write(root.path().join("file"), "").unwrap();
        assert_eq!(hashes(KeyFile::in_folder(&root.path().join("file/dyno"))), None);
        fs::write(root.path().join(FILE), "short").unwrap();
        assert_eq!(hashes(KeyFile::in_folder(root.path())), None);
    }
}
