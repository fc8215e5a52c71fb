//! What a definition is told from others by: hashes of what decides how it is started, and of what
//! lies in its folder.

use std::collections::BTreeMap;
use std::fs::FileType;
use std::io;
use std::path::{Path, PathBuf};

use dyno_launch::folder::read_within;

use super::{Definition, Role};
use crate::key::Key;
use crate::limits::TEMPLATE_BYTES;

impl Definition {
    /// Hash of what decides how it is started: this definition, its templates and, if it is started
    /// from its own folder, everything in that. What goes into a build has a hash of its own.
    ///
    /// # Errors
    /// Something in its folder cannot be read.
    pub fn fingerprint(&self) -> io::Result<String> {
        let mut key = Key::default();
        // Other variants, and where it all lies, change nothing of this one.
        let alone =
            Definition { variants: BTreeMap::new(), folder: PathBuf::new(), ..self.clone() };
        key.add(format!("{alone:?}").as_bytes());
        for file in &self.start.files {
            key.add(&read_within(file.template.path(), &self.folder, TEMPLATE_BYTES)?);
        }
        if self.uses("dir") {
            add_folder(&mut key, &self.folder, Path::new(""), Counts::Its)?;
        }
        Ok(key.text())
    }

    /// Adds its folder to a key: its place, and all in it but its own file.
    pub(crate) fn add_folder_to(&self, key: &mut Key) -> io::Result<()> {
        key.add(self.folder.as_os_str().as_encoded_bytes());
        add_folder(key, &self.folder, Path::new(""), Counts::Everything)
    }
}

fn is_own_file(kind: FileType) -> bool {
    kind.is_file() || kind.is_symlink()
}

/// Whether a file is of a kind that servers leave behind where they run, and never read as their
/// own.
fn is_written_by_servers(name: &Path) -> bool {
    const ENDINGS: [&str; 4] = ["log", "pid", "sock", "pyc"];
    name.extension().is_some_and(|e| ENDINGS.iter().any(|known| e == *known))
}

/// What of a folder counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    Everything,
    /// Its files, but not those that servers leave there, nor the folders that they make for these.
    Its,
}

/// Adds names and contents of what counts in a folder to a hash; of links, where they lead.
fn add_folder(key: &mut Key, folder: &Path, below: &Path, counts: Counts) -> io::Result<()> {
    let entries = std::fs::read_dir(folder.join(below))?.map(|e| e.map(|e| e.file_name()));
    let mut names = entries.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    for name in names.iter().map(|name| below.join(name)) {
        let path = folder.join(&name);
        let kind = std::fs::symlink_metadata(&path)?.file_type();
        // The definition itself is there already, without its comments.
        let is_definition =
            [Role::Subject, Role::Backend].iter().any(|role| name == Path::new(role.file()));
        let is_left_there =
            counts == Counts::Its && (!is_own_file(kind) || is_written_by_servers(&name));
        if is_definition || (is_left_there && !kind.is_dir()) {
            continue;
        }
        if !is_left_there {
            key.add(name.as_os_str().as_encoded_bytes());
        }
        if kind.is_dir() {
            add_folder(key, folder, &name, counts)?;
        } else if kind.is_symlink() {
            key.add(std::fs::read_link(&path)?.as_os_str().as_encoded_bytes());
        } else if kind.is_file() {
            key.add(&std::fs::read(&path)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_text_and_what_a_server_leaves_in_its_folder_is_not_its_own() {
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
        // A build may read what it likes of it.
        let of_build = || {
            let mut key = Key::default();
            Definition::read(&folder).unwrap().add_folder_to(&mut key).unwrap();
            key.text()
        };
        let before = of_build();
        std::fs::write(folder.join("access.log"), "y").unwrap();
        assert_ne!(of_build(), before);
        std::fs::write(folder.join("t"), b"\xff").unwrap();
        let told = Definition::read(&folder).unwrap_err().to_string();
        assert!(told.contains("t: it is no text"), "{told}");
    }
}
