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

/// Whether the value of something named so is a secret, or may be one.
#[must_use]
pub fn may_be_secret(name: &str) -> bool {
    is_secret(name) || is_perhaps_secret(name)
}

/// Parts of names of what may be a secret, besides those of any name that says so ([`is_secret`]).
const PERHAPS: [&str; 6] = ["KEY", "AUTH", "PASS", "PWD", "CRED", "DSN"];

/// Variables by which a shell names the folder that it is in.
const FOLDERS: [&str; 2] = ["PWD", "OLDPWD"];

/// Whether the value of something named so may be a secret, although its name does not say so.
#[must_use]
pub fn is_perhaps_secret(name: &str) -> bool {
    let capitals = name.to_ascii_uppercase();
    // Bundler: BUNDLE_GEMS__EXAMPLE__COM is what opens gems.example.com, and settings are written alike.
    let is_bundlers = || name.strip_prefix("BUNDLE_").is_some_and(|host| host.contains("__"));
    !FOLDERS.contains(&name) && (PERHAPS.iter().any(|part| capitals.contains(part)) || is_bundlers())
}
