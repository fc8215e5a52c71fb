//! Computes the fingerprint of a definition: a hash of the settings and files that decide how its
//! server is started.
//!
//! Runs record the fingerprint. Two runs with the same fingerprint measured the same server.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use dyno_launch::environment::recorded_value;

use super::Definition;
use super::sources::{Entry, VisitedFiles, walk};
use crate::key::PartsHash;

impl Definition {
    /// Returns a hash of this definition, its templates and, if the start uses `{dir}`, the files
    /// of its folder. The inputs of a build have a separate hash. Values of environment variables
    /// that may be secret are no part of it.
    ///
    /// # Errors
    /// A file of its folder cannot be read.
    pub fn fingerprint(&self) -> io::Result<String> {
        let mut key = PartsHash::default();
        // Other variants, and the path of the folder, do not affect the start.
        let mut relevant =
            Definition { variants: BTreeMap::new(), folder: PathBuf::new(), ..self.clone() };
        relevant.remove_secrets();
        // The names of types and fields are part of the hash: renaming one changes all
        // fingerprints.
        key.add(format!("{relevant:?}").as_bytes());
        self.visit_files(&mut |name, entry| entry.add_to(&mut key, name))?;
        Ok(key.into_text())
    }

    /// Returns a hash of all files in the definition's folder except the definition.
    ///
    /// # Errors
    /// A file of its folder cannot be read.
    pub(crate) fn folder_hash(&self) -> io::Result<String> {
        let mut key = PartsHash::default();
        let mut add = |name: &Path, entry: &Entry| entry.add_to(&mut key, name);
        walk(&self.folder, VisitedFiles::Everything, &mut add)?;
        Ok(key.into_text())
    }

    /// Replaces values of variables that may be secret. Reports have an id of the definition, and a
    /// secret of few characters could be guessed from it.
    fn remove_secrets(&mut self) {
        let build = self.build.iter_mut().flat_map(|build| &mut build.env);
        let profile = &mut self.profile.env;
        for (name, value) in self.start.env.iter_mut().chain(profile).chain(build) {
            *value = recorded_value(name, value);
        }
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
        let folder_key = || Definition::read(&folder).unwrap().folder_hash().unwrap();
        let before = folder_key();
        std::fs::write(folder.join("access.log"), "y").unwrap();
        assert_ne!(folder_key(), before);
        std::fs::write(folder.join("t"), b"\xff").unwrap();
        let message = Definition::read(&folder).unwrap_err().to_string();
        assert!(message.contains("t: not UTF-8 text"), "{message}");
    }

    const ORDERED: &str = "language = \"C\"\nprotocols = [\"h1\"]\n[start]\ncommand = [\"x\", \
                           \"{port}\"]\nenv = { A = \"1\", B = \"2\" }\n[stop]\n\
                           deadline = \"1s\"\n";

    /// Returns the fingerprint of a definition in a new folder.
    fn fingerprint(source: &str) -> String {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("subject.toml"), source).unwrap();
        Definition::read(&folder).unwrap().fingerprint().unwrap()
    }

    #[test]
    fn fingerprint_ignores_folder_and_order_of_keys() {
        let first = fingerprint(ORDERED);
        assert_eq!(fingerprint(ORDERED), first);
        let reordered = "protocols = [\"h1\"]\nlanguage = \"C\"\n[stop]\ndeadline = \"1s\"\n\
                         [start]\nenv = { B = \"2\", A = \"1\" }\ncommand = [\"x\", \"{port}\"]\n";
        assert_eq!(fingerprint(reordered), first);
    }

    #[test]
    fn fingerprint_changes_with_each_key() {
        let first = fingerprint(ORDERED);
        for (from, to) in [
            ("\"C\"", "\"D\""),
            ("\"h1\"", "\"h1\", \"h2c\""),
            ("\"x\"", "\"y\""),
            ("A = \"1\"", "A = \"3\""),
            ("B = ", "C = "),
            ("\"1s\"", "\"2s\""),
        ] {
            assert_ne!(fingerprint(&ORDERED.replace(from, to)), first, "{from}");
        }
    }

    #[test]
    fn fingerprint_excludes_possible_secrets() {
        let with = |name: &str, value: &str| {
            let env = format!("{name} = \"{value}\"");
            fingerprint(&ORDERED.replace("A = \"1\"", &env))
        };
        for name in ["DB_PASSWORD", "API_KEY"] {
            assert_eq!(with(name, "1"), with(name, "2"), "{name}");
        }
        assert_ne!(with("DB_PASSWORD", "1"), with("API_KEY", "1"), "names are no secrets");
        let profiled = |value: &str| {
            fingerprint(&format!("{ORDERED}[profile]\nenv = {{ API_KEY = \"{value}\" }}\n"))
        };
        assert_eq!(profiled("1"), profiled("2"));
    }
}
