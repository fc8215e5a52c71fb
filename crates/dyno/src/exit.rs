//! Defines the exit statuses, which scripts rely on, and the errors that lead to them.

use std::process::ExitCode;
use std::{fmt, io};

use dyno_analysis::run_status::RunStatus;
use dyno_archive::ArchiveError;

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: the result is valid.
    Valid,
    /// 1: the result is not valid, or a gate was missed.
    Invalid,
    /// 2: wrong usage or a bad file.
    Usage,
    /// 3: the machine or a subject failed, the work was ended early, or a gate is undecided.
    Failed = 3,
    /// 141: standard output was closed early. A program that SIGPIPE ends has this status (128 +
    /// 13).
    Unread = 141,
}

impl Exit {
    pub const ALL: [Exit; 5] =
        [Exit::Valid, Exit::Invalid, Exit::Usage, Exit::Failed, Exit::Unread];

    /// Returns the meaning, the observation, its consequence and the action, as Markdown.
    pub const fn explanation(self) -> &'static str {
        match self {
            Exit::Valid => include_str!("../explain/exit/0.md"),
            Exit::Invalid => include_str!("../explain/exit/1.md"),
            Exit::Usage => include_str!("../explain/exit/2.md"),
            Exit::Failed => include_str!("../explain/exit/3.md"),
            Exit::Unread => include_str!("../explain/exit/141.md"),
        }
    }

    /// Returns the meaning as a sentence.
    pub fn meaning(self) -> &'static str {
        self.explanation().lines().next().unwrap_or_default()
    }
}

impl From<RunStatus> for Exit {
    fn from(status: RunStatus) -> Exit {
        match status {
            RunStatus::Valid => Exit::Valid,
            RunStatus::Invalid => Exit::Invalid,
            RunStatus::Failed => Exit::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// An error in the user's input.
#[derive(Debug)]
pub struct BadInput(pub String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// Returns an error about the user's input. Its exit status is 2.
pub fn usage_error(message: impl Into<String>) -> anyhow::Error {
    BadInput(message.into()).into()
}

/// The error that standard output was closed before everything was written.
#[derive(Debug)]
pub struct Unread;

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output: closed before everything was written")
    }
}

impl std::error::Error for Unread {}

/// Converts a write error of standard output.
pub fn unwritten(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Unread.into()
    } else {
        anyhow::Error::new(error).context("standard output: cannot be written")
    }
}

/// Returns the status for an error: 141 for unread output, 2 for bad input, 3 for everything else.
pub fn exit_status(error: &anyhow::Error) -> Exit {
    if error.is::<Unread>() {
        return Exit::Unread;
    }
    let is_input = error.is::<BadInput>()
        || error.is::<dyno_config::text::FileError>()
        || error.downcast_ref::<ArchiveError>().is_some_and(|e| match e {
            // A folder without a run is a mistake of the user. A full disk is not.
            ArchiveError::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
            ArchiveError::Write { .. } | ArchiveError::Contradiction { .. } => false,
            ArchiveError::Format { .. }
            | ArchiveError::Version { .. }
            | ArchiveError::Contents { .. }
            | ArchiveError::Busy { .. } => true,
        });
    if is_input { Exit::Usage } else { Exit::Failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The three conditions of `Calibration::is_valid`.
    #[test]
    fn status_1_names_each_invalid_calibration() {
        let text = Exit::Invalid.explanation().split_whitespace().collect::<Vec<_>>().join(" ");
        for cause in ["load was disturbed", "shared a CPU", "was not counted as refused"] {
            assert!(text.contains(cause), "{cause}");
        }
    }

    #[test]
    fn status_of_archive_errors_depends_on_cause() {
        let path = || "runs/a".into();
        let io = |kind: io::ErrorKind| ArchiveError::Io { path: path(), source: kind.into() };
        let problem = || "begins before its start".into();
        for (error, exit) in [
            (ArchiveError::Contents { path: path(), problem: problem() }, Exit::Usage),
            (ArchiveError::Busy { path: path() }, Exit::Usage),
            (io(io::ErrorKind::NotFound), Exit::Usage),
            (io(io::ErrorKind::StorageFull), Exit::Failed),
            (ArchiveError::Contradiction { path: path(), problem: problem() }, Exit::Failed),
        ] {
            assert_eq!(exit_status(&error.into()), exit);
        }
    }
}
