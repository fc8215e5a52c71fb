//! Makes named pipes, which are files of another kind than tests expect.

use std::path::Path;
use std::process::Command;

/// Creates a named pipe.
pub fn make_pipe(path: impl AsRef<Path>) {
    assert!(Command::new("mkfifo").arg(path.as_ref()).status().unwrap().success());
}
