//! Outcomes of exchanges, and their counts. A server's failure is a result, not an error of dyno.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

macro_rules! outcomes {
    ($($(#[$doc:meta])+ $variant:ident = $name:literal,)+) => {
        /// Ways in which an exchange can end, each with its name in every report.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Outcome { $($(#[$doc])+ $variant,)+ }

        impl Outcome {
            pub const ALL: &'static [Outcome] = &[$(Outcome::$variant,)+];

            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Outcome::$variant => $name,)+ }
            }
        }
    };
}

outcomes! {
    /// A complete response that met every expectation.
    Ok = "ok",
    /// A complete response with a status that was not expected.
    UnexpectedStatus = "unexpected_status",
    /// A complete response with the expected status, but with a wrong or missing header.
    UnexpectedHeader = "unexpected_header",
    /// A complete response with the expected status and an unexpected body.
    UnexpectedBody = "unexpected_body",
    /// A complete response that met every expectation, but lacks a value that later requests need.
    ExtractionFailed = "extraction_failed",
    /// No process listened at the address when a connection was needed.
    ConnectRefused = "connect_refused",
    /// No connection was established within the connect time-out.
    ConnectTimeout = "connect_timeout",
    /// The connection attempt was reset.
    ConnectReset = "connect_reset",
    /// No local port was free for the connection.
    AddressExhausted = "address_exhausted",
    /// The attempt to connect failed in another way.
    ConnectFailed = "connect_failed",
    /// The TLS handshake or a TLS record failed.
    TlsError = "tls_error",
    /// No complete response within the request time-out.
    Timeout = "timeout",
    /// Not one byte of a response within the first-byte time-out.
    TimeoutFirstByte = "timeout_first_byte",
    /// The peer reset the connection with the exchange in flight.
    Reset = "reset",
    /// The peer closed the connection before the response was complete.
    ClosedEarly = "closed_early",
    /// The response broke the protocol.
    ProtocolError = "protocol_error",
    /// The server ended the stream with RST_STREAM. The connection remained open.
    StreamReset = "stream_reset",
    /// The server refused to process the request on every try.
    StreamRefused = "stream_refused",
    /// dyno closed the connection because an earlier exchange on the same connection failed.
    Cancelled = "cancelled",
}

impl Outcome {
    /// Whether the complete response arrived, correct or not.
    #[must_use]
    pub const fn is_completed(self) -> bool {
        matches!(
            self,
            Outcome::Ok
                | Outcome::UnexpectedStatus
                | Outcome::UnexpectedHeader
                | Outcome::UnexpectedBody
                | Outcome::ExtractionFailed
        )
    }

    /// Whether a time-out of dyno ended the exchange, which then took at least the time-out.
    #[must_use]
    pub const fn is_timeout(self) -> bool {
        matches!(self, Outcome::Timeout | Outcome::TimeoutFirstByte)
    }

    /// Whether the peer ended the exchange: it refused, closed or reset the connection or stream,
    /// or broke a protocol. A busy generator causes time-outs, but hardly any of these outcomes.
    #[must_use]
    pub const fn is_ended_by_peer(self) -> bool {
        matches!(
            self,
            Outcome::ConnectRefused
                | Outcome::ConnectReset
                | Outcome::TlsError
                | Outcome::Reset
                | Outcome::ClosedEarly
                | Outcome::ProtocolError
                | Outcome::StreamReset
                | Outcome::StreamRefused
        )
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Outcome> {
        Outcome::ALL.iter().copied().find(|o| o.name() == name)
    }
}

/// Exact counts of outcomes, and of status classes among the responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    counts: [u64; Outcome::ALL.len()],
    /// Responses with status 100–199 (interim ones), 200–299, … 500–599, and 600 or above.
    pub statuses: [u64; 6],
}

impl Outcomes {
    #[inline]
    pub fn count(&mut self, outcome: Outcome) {
        self.counts[outcome as usize] += 1;
    }

    #[inline]
    pub fn count_status(&mut self, status: u16) {
        let class = (status / 100).clamp(1, 6) - 1;
        self.statuses[usize::from(class)] += 1;
    }

    #[must_use]
    pub fn get(&self, outcome: Outcome) -> u64 {
        self.counts[outcome as usize]
    }

    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Outcomes::default()
    }

    /// Returns the number of complete responses that did not meet an expectation.
    #[must_use]
    pub fn incorrect_count(&self) -> u64 {
        self.completed_count() - self.get(Outcome::Ok)
    }

    /// Returns the number of exchanges whose complete response arrived.
    #[must_use]
    pub fn completed_count(&self) -> u64 {
        self.iter().filter(|(o, _)| o.is_completed()).map(|(_, n)| n).sum()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Outcome, u64)> + '_ {
        Outcome::ALL.iter().map(|&o| (o, self.get(o)))
    }

    /// Returns the outcomes other than correct responses.
    pub fn not_ok(&self) -> impl Iterator<Item = (Outcome, u64)> + '_ {
        self.iter().filter(|(outcome, n)| *outcome != Outcome::Ok && *n > 0)
    }

    pub fn add(&mut self, other: &Outcomes) {
        self.counts.iter_mut().zip(other.counts).for_each(|(a, b)| *a += b);
        self.statuses.iter_mut().zip(other.statuses).for_each(|(a, b)| *a += b);
    }

    /// Returns all counts by their names in JSON. Zeros are included, because a zero shows that
    /// dyno checked for the outcome.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let outcomes = self.iter().map(|(o, n)| (o.name().to_string(), n));
        let statuses = self.statuses.iter().enumerate().map(|(i, &n)| (status_name(i), n));
        outcomes.chain(statuses).collect()
    }
}

fn status_name(class: usize) -> String {
    if class == 5 { "status_other".into() } else { format!("status_{}xx", class + 1) }
}

/// Serializes all counts, including zeros. For `serialize_with = "outcome::serialize_all"`.
///
/// # Errors
/// Errors of the serializer.
pub fn serialize_all<S: Serializer>(outcomes: &Outcomes, to: S) -> Result<S::Ok, S::Error> {
    outcomes.by_name().serialize(to)
}

impl Serialize for Outcomes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let occurred: BTreeMap<_, _> = self.by_name().into_iter().filter(|(_, n)| *n > 0).collect();
        occurred.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Outcomes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut outcomes = Outcomes::default();
        for (name, n) in BTreeMap::<String, u64>::deserialize(from)? {
            if let Some(outcome) = Outcome::from_name(&name) {
                outcomes.counts[outcome as usize] = n;
            } else if let Some(class) = (0..6).find(|&i| status_name(i) == name) {
                outcomes.statuses[class] = n;
            } else {
                return Err(de::Error::custom(format!("unknown outcome {name:?}")));
            }
        }
        Ok(outcomes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_round_trip() {
        for &outcome in Outcome::ALL {
            assert_eq!(Outcome::from_name(outcome.name()), Some(outcome));
        }
        let mut outcomes = Outcomes::default();
        outcomes.count(Outcome::Timeout);
        outcomes.count(Outcome::Ok);
        [200, 204, 503, 999].into_iter().for_each(|s| outcomes.count_status(s));
        let text = serde_json::to_string(&outcomes).unwrap();
        assert_eq!(text, r#"{"ok":1,"status_2xx":2,"status_5xx":1,"status_other":1,"timeout":1}"#);
        assert_eq!(serde_json::from_str::<Outcomes>(&text).unwrap(), outcomes);
        assert!(serde_json::from_str::<Outcomes>(r#"{"fine":1}"#).is_err());
        assert_eq!(outcomes.not_ok().collect::<Vec<_>>(), [(Outcome::Timeout, 1)]);
        let mut json = Vec::new();
        serialize_all(&outcomes, &mut serde_json::Serializer::new(&mut json)).unwrap();
        let counts: BTreeMap<String, u64> = serde_json::from_slice(&json).unwrap();
        assert_eq!((counts.len(), counts["ok"], counts["reset"]), (Outcome::ALL.len() + 6, 1, 0));
    }
}
