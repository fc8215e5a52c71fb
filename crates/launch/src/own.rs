//! dyno itself, as a program to be started.

use std::path::PathBuf;

/// This very program: what the null responder and the guard are started from.
#[must_use]
pub fn own_program() -> PathBuf {
    // A program that was replaced while it runs reads as "… (deleted)"; the kernel's link still leads to it. By our number,
    // because `self` would be the shell that a command is given to.
    let replaced = || format!("/proc/{}/exe", std::process::id()).into();
    std::env::current_exe().ok().filter(|path| path.exists()).unwrap_or_else(replaced)
}
