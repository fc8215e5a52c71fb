//! Messages for TLS failures, because the debug forms of rustls are not written for users.

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InconsistentKeys};

/// Message for a close by the server during the handshake.
pub(crate) const CLOSED: &str =
    "closed by the server during the handshake (if this port does not use TLS, use http://)";

/// Message for a reset by the server during the handshake.
pub(crate) const RESET: &str =
    "reset by the server during the handshake (if this port does not use TLS, use http://)";

/// Message for a server whose first bytes were not TLS.
pub(crate) const NOT_TLS: &str = "the server's first bytes are not TLS, so this port does not use \
                                  TLS (use http://, or another port)";

/// First words of the message for bytes that are not a TLS record.
pub(crate) const MALFORMED: &str = "malformed TLS from the server";

/// Returns a short message for an error, by which errors are grouped: the name of the alert (RFC
/// 8446 §6) or the reason, and an action if one is known.
#[must_use]
pub fn error_text(error: &Error) -> String {
    match error {
        Error::AlertReceived(alert) => alert_text(*alert),
        Error::InvalidCertificate(reason) => {
            format!("certificate not accepted: {}", certificate_text(reason))
        }
        Error::InvalidMessage(error) => {
            format!("{MALFORMED}: {}", split_words(&variant_name(error)))
        }
        Error::PeerIncompatible(error) => {
            format!("no common TLS settings: {}", split_words(&variant_name(error)))
        }
        Error::PeerMisbehaved(error) => {
            format!("the server violated the TLS protocol: {}", split_words(&variant_name(error)))
        }
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            "the server violated the TLS protocol: an unexpected message".into()
        }
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            "the key does not belong to the certificate".into()
        }
        Error::InconsistentKeys(_) => {
            "dyno cannot check whether the key belongs to the certificate".into()
        }
        Error::NoCertificatesPresented => "the server sent no certificate".into(),
        Error::NoApplicationProtocol => {
            "the server speaks none of the offered protocols (ALPN)".into()
        }
        Error::InvalidCertRevocationList(error) => {
            format!("revocation list: {}", split_words(&variant_name(error)))
        }
        Error::InvalidEncryptedClientHello(error) => {
            format!("encrypted client hello: {}", split_words(&variant_name(error)))
        }
        other => other.to_string(),
    }
}

fn alert_text(alert: AlertDescription) -> String {
    use AlertDescription as Alert;
    let hint = match alert {
        Alert::CertificateRequired => {
            " (the server requires a client certificate: use --cert and --key)"
        }
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateExpired
        | Alert::CertificateRevoked
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::AccessDenied => {
            " (the server rejected the client certificate, or requires one: use --cert and --key)"
        }
        Alert::UnrecognisedName => " (the server has no certificate for the name in the URL)",
        Alert::ProtocolVersion => " (the server speaks neither TLS 1.2 nor TLS 1.3)",
        Alert::NoApplicationProtocol => {
            " (the server speaks none of the offered protocols, which --protocol sets)"
        }
        Alert::HandshakeFailure => {
            " (the server found no common cipher, or requires a client certificate)"
        }
        _ => "",
    };
    format!("alert {}{hint}", snake_case(&variant_name(&alert)))
}

fn certificate_text(reason: &CertificateError) -> String {
    match reason {
        CertificateError::UnknownIssuer => {
            "unknown issuer (name the issuer's certificate with --cacert, or configure the server \
             to send its intermediate certificates)"
                .into()
        }
        CertificateError::Expired => "it has expired".into(),
        CertificateError::ExpiredContext { time, not_after } => {
            format!("it expired {} ago", days(*time, *not_after))
        }
        CertificateError::NotValidYet => "it is not valid yet (check the clocks)".into(),
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("it becomes valid in {} (check the clocks)", days(*not_before, *time))
        }
        CertificateError::NotValidForName => "it is not for the name in the URL".into(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            let names: Vec<&str> = presented.iter().map(|name| bare_name(name)).collect();
            let names = if names.is_empty() { "no name".into() } else { names.join(", ") };
            format!(
                "it is for {names}, not for {expected} (use a name of the certificate in the URL; \
                 --resolve NAME:PORT:ADDRESS sets the address of a name)"
            )
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is not allowed for servers (extendedKeyUsage)".into()
        }
        CertificateError::Other(_) if is_other_variant(reason, "CaUsedAsEndEntity") => {
            "it is the certificate of an authority, not of a server (basicConstraints CA:TRUE)"
                .into()
        }
        CertificateError::Other(other) => split_words(&innermost_name(&format!("{:?}", other.0))),
        other => split_words(&variant_name(other)),
    }
}

/// Whether an error of the `Other` kind has this variant name.
fn is_other_variant(reason: &CertificateError, name: &str) -> bool {
    format!("{reason:?}").contains(name)
}

/// Returns the whole days between two instants as text.
fn days(later: UnixTime, earlier: UnixTime) -> String {
    match later.as_secs().saturating_sub(earlier.as_secs()) / 86_400 {
        0 => "less than a day".into(),
        1 => "1 day".into(),
        days => format!("{days} days"),
    }
}

/// Strips the type: `DnsName("a.test")` → `a.test`, `IpAddress(127.0.0.1)` → `127.0.0.1`.
fn bare_name(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, rest)| rest);
    inner.trim_end_matches(')').trim_matches('"')
}

/// Returns the name of the variant of an error, without its fields.
fn variant_name(error: &dyn std::fmt::Debug) -> String {
    let text = format!("{error:?}");
    text.split(['(', ' ', '{']).next().unwrap_or_default().to_string()
}

/// Returns the innermost name of `Outer(Inner)`.
fn innermost_name(text: &str) -> String {
    let text = text.trim_end_matches(')');
    text.rsplit('(').next().unwrap_or(text).split([' ', '{']).next().unwrap_or_default().to_string()
}

/// Converts a name: `HandshakeFailure` → `handshake_failure`.
fn snake_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    let mut previous = '_';
    for c in name.chars() {
        if c.is_ascii_uppercase() && (previous.is_ascii_lowercase() || previous.is_ascii_digit()) {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
        previous = c;
    }
    out
}

/// Splits a name into words: `BadEncoding` → `bad encoding`.
fn split_words(name: &str) -> String {
    snake_case(name).replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{InvalidMessage, PeerIncompatible};
    use std::time::Duration;

    fn certificate(reason: CertificateError) -> String {
        error_text(&Error::InvalidCertificate(reason))
    }

    #[test]
    fn certificate_error_messages_are_plain() {
        let at = |days: u64| UnixTime::since_unix_epoch(Duration::from_secs(days * 86_400));
        let wrong_name = CertificateError::NotValidForNameContext {
            expected: "127.0.0.1".try_into().unwrap(),
            presented: vec!["DnsName(\"other.test\")".into(), "IpAddress(10.0.0.1)".into()],
        };
        let cases = [
            (certificate(wrong_name), "it is for other.test, 10.0.0.1, not for 127.0.0.1"),
            (
                certificate(CertificateError::ExpiredContext { time: at(12), not_after: at(10) }),
                "it expired 2 days ago",
            ),
            (
                certificate(CertificateError::NotValidYetContext {
                    time: at(9),
                    not_before: at(10),
                }),
                "it becomes valid in 1 day",
            ),
            (certificate(CertificateError::UnknownIssuer), "--cacert"),
            (certificate(CertificateError::BadEncoding), "bad encoding"),
            (certificate(CertificateError::BadSignature), "bad signature"),
            (certificate(CertificateError::InvalidPurpose), "extendedKeyUsage"),
        ];
        for (text, expected) in cases {
            assert!(text.contains(expected), "{text}");
            assert_is_plain(&text);
        }
    }

    #[test]
    fn other_error_messages_are_plain() {
        for (error, expected) in [
            (Error::AlertReceived(AlertDescription::UnknownCA), "alert unknown_ca ("),
            (Error::AlertReceived(AlertDescription::CertificateRequired), "--cert and --key"),
            (Error::AlertReceived(AlertDescription::InternalError), "alert internal_error"),
            (Error::InconsistentKeys(InconsistentKeys::KeyMismatch), "does not belong"),
            (
                Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon),
                "no cipher suites in common",
            ),
            (Error::InvalidMessage(InvalidMessage::MessageTooLarge), "message too large"),
        ] {
            let text = error_text(&error);
            assert!(text.contains(expected), "{text}");
            assert_is_plain(&text);
        }
    }

    /// Debug forms contain braces, quotes or camel case.
    fn assert_is_plain(text: &str) {
        let has_camel = text.split(' ').any(|word| {
            let mut letters = word.chars().zip(word.chars().skip(1));
            letters.any(|(a, b)| a.is_ascii_lowercase() && b.is_ascii_uppercase())
                && word != "(extendedKeyUsage)"
        });
        assert!(!has_camel && !text.contains(['{', '"']), "{text}");
    }
}
