//! A response, and the part of its body that is kept.

use std::io;

use crate::limits::{BODY_BYTES, SHOWN_BODY_BYTES};

/// One whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the connection can be reused.
    pub reusable: bool,
}

impl Answer {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// Returns the response in the form in which a report shows it.
    #[must_use]
    pub fn to_text(&self) -> String {
        let headers: String = self.headers.iter().map(|(n, v)| format!("{n}: {v}\n")).collect();
        let shown = self.body.len().min(SHOWN_BODY_BYTES);
        let body = String::from_utf8_lossy(&self.body[..shown]).into_owned();
        format!("{}\n{headers}\n{body}", self.status)
    }

    /// Takes the next part of the body.
    pub(super) fn extend(&mut self, data: &[u8], keep: BodyRetention) -> io::Result<()> {
        let room = match keep {
            BodyRetention::Whole => BODY_BYTES - self.body.len(),
            BodyRetention::Beginning => SHOWN_BODY_BYTES - self.body.len(),
        };
        if keep == BodyRetention::Whole && data.len() > room {
            return Err(io::Error::other(format!(
                "the response is longer than {} MiB, the most that a check outside of a load can \
                 compare",
                BODY_BYTES >> 20
            )));
        }
        self.body.extend_from_slice(&data[..data.len().min(room)]);
        Ok(())
    }
}

/// Part of a response's body that is kept. A server may send without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRetention {
    /// The whole body; more than [`BODY_BYTES`] is an error.
    Whole,
    /// As much as [`Answer::to_text`] shows. The rest is read and discarded.
    Beginning,
}
