//! Computes the fingerprint of a definition: a hash of the settings and files that decide how its
//! server is started.
//!
//! Runs record the fingerprint. Two runs with the same fingerprint measured the same server.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use super::Definition;
use super::sources::{VisitedFiles, walk};
use crate::key::PartsHash;

impl Definition {
    /// Returns a hash of this definition, its templates and, if the start uses `{dir}`, the files
    /// of its folder. The inputs of a build have a separate hash.
    ///
    /// # Errors
    /// A file of its folder cannot be read.
    pub fn fingerprint(&self) -> io::Result<String> {
        let mut key = PartsHash::default();
        // Other variants, and the path of the folder, do not affect the start.
        let relevant =
            Definition { variants: BTreeMap::new(), folder: PathBuf::new(), ..self.clone() };
        // The names of types and fields are part of the hash: renaming one changes all
        // fingerprints.
        key.add(format!("{relevant:?}").as_bytes());
        self.visit_files(&mut |name, entry| entry.add_to(&mut key, name))?;
        Ok(key.into_text())
    }

    /// Adds the definition's folder to a key: the path, and all files in the folder except the
    /// definition.
    pub(crate) fn add_folder_to(&self, key: &mut PartsHash) -> io::Result<()> {
        key.add(self.folder.as_os_str().as_encoded_bytes());
        walk(&self.folder, VisitedFiles::Everything, &mut |name, entry| entry.add_to(key, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_ignores_files_written_by_servers() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x");
        std::fs::create_dir(&folder).unwrap();
        let text = "language = \"C\"\nprotocols = [\"h1\"]\n[start]\ncommand = [\"x\", \"{port}\", \
                    \"{dir}\"]\nfiles = [{ template = \"t\", to = \"t\" }]\n";
        std::fs::write(folder.join("subject.toml"), text).unwrap();
        std::fs::write(folder.join("t"), b"{port}").unwrap();
        let before = Definition::read(&folder).unwrap().fingerprint().unwrap();
        std::fs::create_dir_all(folder.join("logs/old")).unwrap();
        std::fs::create_dir(folder.join("__pycache__")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
        for name in ["access.log", "logs/old/server.pid", "__pycache__/app.pyc"] {
            std::fs::write(folder.join(name), "x").unwrap();
        }
        assert_eq!(Definition::read(&folder).unwrap().fingerprint().unwrap(), before);
        std::fs::write(folder.join("app.py"), "x").unwrap();
        assert_ne!(Definition::read(&folder).unwrap().fingerprint().unwrap(), before);
        // A build may read any file of the folder.
        let folder_key = || {
            let mut key = PartsHash::default();
            Definition::read(&folder).unwrap().add_folder_to(&mut key).unwrap();
            key.into_text()
        };
        let before = folder_key();
        std::fs::write(folder.join("access.log"), "y").unwrap();
        assert_ne!(folder_key(), before);
        std::fs::write(folder.join("t"), b"\xff").unwrap();
        let message = Definition::read(&folder).unwrap_err().to_string();
        assert!(message.contains("t: not UTF-8 text"), "{message}");
    }
}
