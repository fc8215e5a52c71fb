//! Protocols of workloads and subjects, and how a connection negotiates them. All crates share this
//! list.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A protocol, with or without TLS, and how a connection negotiates it.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// HTTP/1.1 on a plain connection.
    #[default]
    H1,
    /// HTTP/1.1 over TLS.
    H1Tls,
    /// HTTP/2 over TLS, by ALPN.
    H2,
    /// HTTP/2 on a plain connection, by prior knowledge: the client sends the preface first.
    H2c,
    /// HTTP/2 on a plain connection, by `Upgrade: h2c` in an HTTP/1.1 request.
    H2cUpgrade,
    /// The protocol that ALPN negotiates over TLS, HTTP/2 preferred.
    Auto,
}

impl Protocol {
    pub const ALL: [Protocol; 6] = [
        Protocol::H1,
        Protocol::H1Tls,
        Protocol::H2,
        Protocol::H2c,
        Protocol::H2cUpgrade,
        Protocol::Auto,
    ];

    /// Protocols that a server can declare.
    pub const OF_SERVERS: [Protocol; 5] =
        [Protocol::H1, Protocol::H1Tls, Protocol::H2, Protocol::H2c, Protocol::H2cUpgrade];

    /// Returns the name in definitions of subjects.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::H1 => "h1",
            Protocol::H1Tls => "h1-tls",
            Protocol::H2 => "h2",
            Protocol::H2c => "h2c",
            Protocol::H2cUpgrade => "h2c-upgrade",
            Protocol::Auto => "auto",
        }
    }

    /// Returns the name without TLS, for the command line, suites and results, where TLS is a
    /// separate setting.
    #[must_use]
    pub const fn base_name(self) -> &'static str {
        match self {
            Protocol::H1 | Protocol::H1Tls => "h1",
            _ => self.name(),
        }
    }

    /// Returns the protocol with a base name, with TLS or without; `None`: no such protocol.
    #[must_use]
    pub fn from_base_name(name: &str, tls: bool) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|p| p.base_name() == name && p.is_tls() == tls)
    }

    #[must_use]
    pub const fn is_tls(self) -> bool {
        matches!(self, Protocol::H1Tls | Protocol::H2 | Protocol::Auto)
    }

    /// Whether every established connection uses HTTP/1.1.
    #[must_use]
    pub const fn is_h1(self) -> bool {
        matches!(self, Protocol::H1 | Protocol::H1Tls)
    }

    /// Whether every established connection uses HTTP/2.
    #[must_use]
    pub const fn is_h2(self) -> bool {
        matches!(self, Protocol::H2 | Protocol::H2c | Protocol::H2cUpgrade)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Serializes a protocol as in results and plans: its base name, and TLS in a separate field. For
/// `#[serde(flatten, with = "protocol::keys")]`.
pub mod keys {
    use serde::de::Error as _;
    use serde::{Deserializer, Serializer};

    use super::{Deserialize, JsonSchema, Protocol, Serialize};

    /// The two keys as they are written.
    #[derive(Debug, Serialize, JsonSchema)]
    #[schemars(rename = "Apart")]
    pub struct ProtocolKeys {
        /// `h1`, `h2`, `h2c` or `h2c-upgrade`; for a load without a suite also `auto`.
        protocol: &'static str,
        /// Over TLS.
        tls: bool,
    }

    /// The two keys as they are read.
    #[derive(Deserialize)]
    struct Read {
        protocol: String,
        tls: bool,
    }

    /// # Errors
    /// Errors of the serializer.
    pub fn serialize<S: Serializer>(protocol: &Protocol, to: S) -> Result<S::Ok, S::Error> {
        ProtocolKeys { protocol: protocol.base_name(), tls: protocol.is_tls() }.serialize(to)
    }

    /// # Errors
    /// The two keys are missing, or do not name a protocol.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Protocol, D::Error> {
        let Read { protocol, tls } = Read::deserialize(from)?;
        Protocol::from_base_name(&protocol, tls).ok_or_else(|| {
            let how = if tls { "over TLS" } else { "without TLS" };
            D::Error::custom(format!("unknown protocol {protocol:?} {how}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_read_back() {
        for protocol in Protocol::ALL {
            assert_eq!(
                serde_json::from_value::<Protocol>(json!(protocol.name())).unwrap(),
                protocol
            );
            assert_eq!(
                Protocol::from_base_name(protocol.base_name(), protocol.is_tls()),
                Some(protocol)
            );
        }
        assert_eq!(Protocol::from_base_name("h3", true), None);
        assert_eq!(Protocol::from_base_name("h2c", true), None);
    }

    #[test]
    fn protocol_keys_separate_tls_from_base_name() {
        #[derive(Serialize, Deserialize)]
        struct Holder {
            #[serde(flatten, with = "keys")]
            protocol: Protocol,
        }
        let json = json!({"protocol": "h1", "tls": true});
        let holder: Holder = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(holder.protocol, Protocol::H1Tls);
        assert_eq!(serde_json::to_value(&holder).unwrap(), json);
        let error = serde_json::from_value::<Holder>(json!({"protocol": "h2", "tls": false}))
            .err()
            .unwrap();
        assert_eq!(error.to_string(), "unknown protocol \"h2\" without TLS");
    }
}
