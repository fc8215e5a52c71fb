//! One thing that a server must answer as its contract says, and what became of it.

use std::net::SocketAddr;

use dyno_archive::plan::Request;

/// The result of a check: what was seen, or what is wrong.
pub type Verdict = Result<String, Problem>;

/// Why a check failed.
#[derive(Debug)]
pub enum Problem {
    /// An answer came, and it was wrong.
    Wrong(String),
    /// No whole answer came.
    NoAnswer(String),
}

/// One named check of a contract, at whatever listener.
#[derive(Clone, Debug)]
pub struct Check {
    pub name: String,
    pub how: How,
}

/// How a check is made.
#[derive(Clone, Debug)]
pub enum How {
    /// Over plain HTTP/1.1, byte by byte.
    Bytes(fn(SocketAddr) -> Verdict),
    /// By a client that understands the protocol of the listener.
    Question(Box<Question>),
}

/// A request, and what must come back each time it is sent.
#[derive(Clone, Debug)]
pub struct Question {
    pub name: String,
    pub request: Request,
    /// Media type that the answers must have, with any parameters; `None`: any media type.
    pub media: Option<String>,
    /// Requests in all, on one connection.
    pub times: u64,
    /// How many of these requests may be in flight at once.
    pub streams: u32,
}
