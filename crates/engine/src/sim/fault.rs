//! Faults of simulated servers.

use dyno_model::Outcome;

/// Fault of a simulated response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Status 500.
    Status,
    /// A correct head and a wrong body.
    Body,
    /// No response: the connection is reset.
    Reset,
    /// The connection is closed in the middle of the body.
    CloseInBody,
    /// Bytes that are not HTTP.
    Garbage,
    /// No response to this request and, over HTTP/1.1, to later requests of its connection.
    Silence,
    /// HTTP/1.1: a correct response with `Connection: close`, then a close.
    PoliteClose,
    /// HTTP/1.1: a correct response, then an unannounced close.
    QuietClose,
    /// HTTP/1.1: the notice of the close of an idle connection (status 408), then the close.
    CloseNotice,
    /// HTTP/1.1: a correct response, sent twice.
    Twice,
    /// HTTP/2: the stream is reset.
    StreamReset,
    /// HTTP/2: the stream is refused, so it may be retried.
    Refuse,
    /// HTTP/2: GOAWAY with this stream as the last. The connection is closed after the responses of
    /// all streams.
    GoAway,
    /// HTTP/2: a field name with upper-case letters.
    Malformed,
}

impl Fault {
    /// Faults of HTTP/1.1 responses, except those that tests add explicitly: `QuietClose`,
    /// `CloseNotice` and `Twice`.
    pub const HTTP1: [Fault; 7] = [
        Fault::Status,
        Fault::Body,
        Fault::Reset,
        Fault::CloseInBody,
        Fault::Garbage,
        Fault::Silence,
        Fault::PoliteClose,
    ];

    /// Faults of HTTP/2 responses.
    pub const HTTP2: [Fault; 10] = [
        Fault::Status,
        Fault::Body,
        Fault::Reset,
        Fault::CloseInBody,
        Fault::Garbage,
        Fault::Silence,
        Fault::StreamReset,
        Fault::Refuse,
        Fault::GoAway,
        Fault::Malformed,
    ];

    /// Returns the outcome that the exchange must have.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        match self {
            Fault::Status | Fault::CloseNotice => Outcome::UnexpectedStatus,
            Fault::Body => Outcome::UnexpectedBody,
            Fault::Reset => Outcome::Reset,
            Fault::CloseInBody => Outcome::ClosedEarly,
            Fault::Garbage | Fault::Malformed => Outcome::ProtocolError,
            Fault::Silence => Outcome::Timeout,
            Fault::StreamReset => Outcome::StreamReset,
            // The retry or the response itself succeeds.
            Fault::PoliteClose
            | Fault::QuietClose
            | Fault::Twice
            | Fault::Refuse
            | Fault::GoAway => Outcome::Ok,
        }
    }
}
