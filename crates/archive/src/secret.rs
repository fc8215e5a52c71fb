//! Names that say of a value that it is nobody else's business: of headers, settings and variables of the environment.

/// Parts of such names, in small letters, without anything between words.
const PARTS: [&str; 13] = [
    "authorization",
    "cookie",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "credential",
    "privatekey",
    "signature",
    "session",
    "xauth",
];

/// Whether the value of something named so is a secret.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let plain = letters.collect::<String>().to_ascii_lowercase();
    PARTS.iter().any(|part| plain.contains(part))
}
