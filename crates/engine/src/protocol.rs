//! Which protocol a load speaks, and what it asks for where that has choices.

pub use dyno_archive::plan::Http2;

/// A protocol, and how a connection comes to speak it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.1, plain or over TLS.
    #[default]
    H1,
    /// HTTP/2 over TLS, by ALPN.
    H2,
    /// HTTP/2 on a plain connection, by prior knowledge: the preface is the first that is sent.
    H2c,
    /// HTTP/2 on a plain connection, by `Upgrade: h2c` in an HTTP/1.1 request.
    H2cUpgrade,
    /// Over TLS whatever ALPN settles on, HTTP/2 first; on plain connections HTTP/1.1.
    Auto,
}

impl Protocol {
    pub const ALL: [Protocol; 5] =
        [Protocol::H1, Protocol::H2, Protocol::H2c, Protocol::H2cUpgrade, Protocol::Auto];

    /// As it is called on the command line, in suites and in archives.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::H1 => "h1",
            Protocol::H2 => "h2",
            Protocol::H2c => "h2c",
            Protocol::H2cUpgrade => "h2c-upgrade",
            Protocol::Auto => "auto",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|protocol| protocol.name() == name)
    }

    /// Whether some connection may come to speak HTTP/2.
    #[must_use]
    pub const fn may_be_h2(self) -> bool {
        !matches!(self, Protocol::H1)
    }

    /// Whether every connection that comes to be speaks HTTP/2.
    #[must_use]
    pub const fn is_h2(self) -> bool {
        matches!(self, Protocol::H2 | Protocol::H2c | Protocol::H2cUpgrade)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for protocol in Protocol::ALL {
            assert_eq!(Protocol::from_name(protocol.name()), Some(protocol));
        }
        assert_eq!(Protocol::from_name("h3"), None);
    }
}
