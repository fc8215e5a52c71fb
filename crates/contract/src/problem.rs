//! The reasons why a check fails, and the time limit of its responses.

use std::io;
use std::time::Instant;

use crate::description;
use crate::limits::SECOND_TRY;

/// The reason why a check failed.
#[derive(Debug)]
pub enum Problem {
    /// An incorrect response.
    Wrong(String),
    /// The connection was closed or refused before a complete response. Such a close breaks the
    /// promise of an idle server, but not of a loaded one.
    Closed(String),
    /// A request got no whole response in time.
    Late(String),
    /// An idle server did not act within the time of its promise. The server did not respond to two
    /// tries or did not exit, or expected output or an expected request to a back end is missing.
    /// The promise is broken, unless the machine dropped packets during the check.
    Silent(String),
    /// All requests so far got a response, but together they took too long.
    Slow(String),
    /// dyno lacked a port, a descriptor or memory, so it could not send a request or check its
    /// response.
    OwnShortage(String),
}

impl Problem {
    /// Classifies an error of a connection.
    pub(crate) fn from_io(error: &io::Error, during: &str) -> Problem {
        let message = format!("{during}: {}", description::cause(error));
        if is_own_shortage(error) {
            return Problem::OwnShortage(message);
        }
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Problem::Late(message),
            io::ErrorKind::InvalidData | io::ErrorKind::Other => Problem::Wrong(message),
            _ => Problem::Closed(message),
        }
    }

    /// Returns the problem. A [`Problem::Silent`] becomes a [`Problem::Late`], which breaks no
    /// promise, if `machine_cause` names packets that the machine dropped during the check.
    #[must_use]
    pub fn excuse(self, machine_cause: impl FnOnce() -> Option<String>) -> Problem {
        match self {
            Problem::Silent(message) => match machine_cause() {
                Some(cause) => Problem::Late(format!("{message}; {cause}")),
                None => Problem::Silent(message),
            },
            other => other,
        }
    }
}

/// Whether a connection failed because dyno lacks a resource, which says nothing about the server.
/// EAGAIN is not in the list, because a read that times out has the same code.
#[must_use]
pub fn is_own_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EADDRNOTAVAIL
                | libc::EADDRINUSE
                | libc::EMFILE
                | libc::ENFILE
                | libc::ENOBUFS
                | libc::ENOMEM
        )
    )
}

/// Time limit of the responses of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// All responses together have the time of one check.
    Check,
    /// Each response has the time of one check.
    Response,
}

impl TimeLimit {
    /// Returns a problem if a check with a limit per response takes too long as a whole. `began`:
    /// start of the check.
    pub fn check_elapsed(self, began: Instant) -> Result<(), Problem> {
        match self == TimeLimit::Response && began.elapsed() > SECOND_TRY {
            true => Err(Problem::Slow("all responses together took longer than a minute".into())),
            false => Ok(()),
        }
    }
}
