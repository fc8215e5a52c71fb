//! Names temporary folders, and removes those of dyno processes that were killed.
//! [`Guard`](crate::guard::Guard) makes them.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::folder::{remove, user};
use crate::lock;

/// Length of the random part of a folder's name.
pub(crate) const RANDOM_CHARS: usize = 12;

/// Returns the name of a folder of this process, up to its random part: `dyno-PID-KIND-`.
pub(crate) fn name_prefix(kind: &str) -> String {
    format!("dyno-{}-{kind}-", std::process::id())
}

/// Parses the PID in a folder's name, `dyno-PID-KIND-…`.
fn owner(name: &str) -> Option<u32> {
    let (owner, rest) = name.strip_prefix("dyno-")?.split_once('-')?;
    let (kind, random) = rest.rsplit_once('-')?;
    if is_random_part(random) && !kind.is_empty() { owner.parse().ok() } else { None }
}

/// Whether a text has the form of the random part of a folder's name.
pub(crate) fn is_random_part(text: &str) -> bool {
    text.len() == RANDOM_CHARS && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Removes the temporary folders of dyno processes of this user that were killed together with
/// their guards. Some of these folders contain a private key.
pub(crate) fn sweep(base: &Path) {
    let entries = std::fs::read_dir(base).into_iter().flatten().filter_map(Result::ok);
    for entry in entries {
        let Some(owner) = owner(&entry.file_name().to_string_lossy()) else { continue };
        // `DirEntry::metadata` does not follow links.
        let is_ours = entry.metadata().is_ok_and(|entry| entry.is_dir() && entry.uid() == user());
        if is_ours && let Some(_lock) = lock::seize(owner, &entry.path()) {
            // After a failure, the next run tries again.
            let _ = remove(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;
    use std::os::unix::fs::symlink;

    use crate::guard::Guard;

    #[test]
    fn sweep_removes_only_folders_of_ended_processes() {
        let root = tempfile::tempdir().unwrap();
        let guard = Guard::start().unwrap();
        let live = guard.make_folder_in(root.path(), "tls").unwrap();
        // The owner is in another PID namespace: no process has this number here.
        let elsewhere = root.path().join("dyno-4194999-tls-abcdefghijkl");
        let [abandoned, unrelated] =
            ["dyno-4194998-tls-abcdefghijkm", "dyno-4194999-cases"].map(|n| root.path().join(n));
        for folder in [&elsewhere, &abandoned, &unrelated] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(abandoned.join("key.pem"), "secret").unwrap();
        symlink(&unrelated, root.path().join("dyno-4194997-tls-abcdefghijkn")).unwrap();
        lock::hold(&elsewhere).unwrap();
        sweep(root.path());
        assert!(live.exists() && elsewhere.exists() && unrelated.exists());
        assert!(!abandoned.exists());
        guard.forget_folder(&elsewhere);
        sweep(root.path());
        assert!(!elsewhere.exists());
    }
}
