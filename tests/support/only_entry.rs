//! Finds the only entry of a folder, such as the archive of a run.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the only entry of a folder.
pub fn only_in(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let entries: Vec<PathBuf> = entries.collect();
    let [entry] = entries.as_slice() else { panic!("{}: {entries:?}", folder.display()) };
    entry.clone()
}
