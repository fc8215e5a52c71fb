//! A response, and the part of its body that is stored.

use std::io;

use crate::limits::{BODY_BYTES, SHOWN_BODY_BYTES};

/// One whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the connection can be reused.
    pub reusable: bool,
}

impl ProbeResponse {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// Returns the response as text for a report.
    #[must_use]
    pub fn to_text(&self) -> String {
        let headers: String = self.headers.iter().map(|(n, v)| format!("{n}: {v}\n")).collect();
        let length = self.body.len().min(SHOWN_BODY_BYTES);
        let body = String::from_utf8_lossy(&self.body[..length]).into_owned();
        format!("{}\n{headers}\n{body}", self.status)
    }

    /// Adds the next part of the body.
    pub(super) fn add_body(&mut self, data: &[u8], retention: BodyRetention) -> io::Result<()> {
        let room = match retention {
            BodyRetention::Whole => BODY_BYTES - self.body.len(),
            BodyRetention::Beginning => SHOWN_BODY_BYTES - self.body.len(),
        };
        if retention == BodyRetention::Whole && data.len() > room {
            return Err(io::Error::other(format!(
                "the response is longer than {} MiB, the limit of a contract check",
                BODY_BYTES >> 20
            )));
        }
        self.body.extend_from_slice(&data[..data.len().min(room)]);
        Ok(())
    }
}

/// The part of a response's body that is stored. The limit protects dyno from a server that sends
/// an endless body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRetention {
    /// The whole body; more than [`BODY_BYTES`] is an error.
    Whole,
    /// The beginning, for [`ProbeResponse::to_text`]. The rest is read and discarded.
    Beginning,
}
